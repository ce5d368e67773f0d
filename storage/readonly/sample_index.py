"""Where the samples of a job are stored, read once, so that training needs no database.

Imported by the training child: the standard library and numpy only, and no thread of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from storage.arrays import NDArray
from storage.database.codec import dump
from storage.database.connection import sqlite3, translated
from storage.errors import StorageBroken
from storage.records.samples import VALIDATION_BELOW, Split
from storage.records.signatures import TargetSpec

_ROWS_PER_FETCH = 8192
_CHECKED_PER_TICK = 256
_WORTH_A_THREAD_BYTES = 1 << 14
_COLUMNS = "id, pack, offset, length, label, weight, substr(sha256, 1, 8) AS beginning"
# One search of an index for each split: by OR, SQLite reads every sample of the model.
_OF_SPLIT = f"""
SELECT {_COLUMNS} FROM samples
WHERE model_id = :model_id AND split = :split AND label IS NOT NULL AND quarantine IS NULL
  AND id <= :watermark
"""  # noqa: S608 - our own names
_OF_BASE = f"""
SELECT {_COLUMNS} FROM samples
WHERE model_id = :model_id AND split = 'base' AND label IS NOT NULL AND quarantine IS NULL
  AND id <= :watermark AND (sha256 < :validation) = (:split = 'validation')
"""  # noqa: S608 - our own names
_IDS = {
    "reference": "SELECT sample_id FROM reference_samples WHERE model_id = ? ORDER BY sample_id",
    "base": "SELECT id FROM samples WHERE model_id = ? AND split = 'base' ORDER BY id",
}
_DIFFERENT = """
SELECT count(DISTINCT sha256) FROM samples
WHERE weight > 0 AND id IN (SELECT value FROM json_each(?))
"""
_NEWEST_LABELLED = {
    split: f"SELECT {_COLUMNS} FROM samples WHERE model_id = :model_id AND split = '{split.value}'"  # noqa: S608
    " AND label IS NOT NULL AND quarantine IS NULL"
    for split in Split
}
_NEWEST_UNLABELLED = f"""
SELECT {_COLUMNS} FROM samples
WHERE model_id = :model_id AND label IS NULL AND quarantine IS NULL
"""  # noqa: S608 - our own names
_BROKEN = "the labels of model {} do not fit its target {!r} ({} {}); restore a backup"


Parallel = Callable[[Sequence[Callable[[], object]]], None]
"""Runs calls at once, and returns when all have ended."""


def one_by_one(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()


class SampleIndex(Struct, frozen=True):
    """n labelled samples by ascending id, without quarantined ones.

    ids: (n,) int64. packs: (n,) int32, indices into pack_paths. offsets, lengths: (n,) int64,
    in bytes. labels: (n, *target shape) in the target's dtype, or (n,) as stored, such as JSON of
    spans. digests: (n,) the first eight bytes of each SHA-256, None if they are not known. weights:
    (n,), None if all are 1.
    """

    ids: NDArray[np.int64]
    packs: NDArray[np.int32]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[Any]
    pack_paths: tuple[Path, ...]
    digests: NDArray[np.void] | None = None
    weights: NDArray[np.float32] | None = None

    def only(self, which: NDArray[np.bool_]) -> SampleIndex:
        """The samples selected by a mask of shape (n,)."""
        columns = asdict(self).items()
        chosen = {name: each[which] for name, each in columns if isinstance(each, np.ndarray)}
        return replace(self, **chosen)

    def without(self, positions: Sequence[int]) -> SampleIndex:
        """All but the samples at these positions."""
        which = np.ones(len(self.ids), bool)
        which[list(positions)] = False
        return self.only(which)


def read_sample_index(
    database: Path,
    packs_dir: Path,
    *,
    model_id: int,
    split: Split,
    watermark: int,
    target: TargetSpec | None,
    base: bool = False,
) -> SampleIndex:
    """The labelled samples of a split whose ids are at most `watermark`.

    target: of their labels; None for labels as they are stored. base: include the base set's
    samples: those that jobs train on, or for validation the others.
    Raises StorageBroken, also if a label does not fit the target, and Busy.
    """
    select = f"{_OF_SPLIT} UNION ALL {_OF_BASE}" if base else _OF_SPLIT
    parameters = {
        "model_id": model_id,
        "split": split.value,
        "watermark": watermark,
        "validation": VALIDATION_BELOW,
    }
    numbers, labels = [np.empty((0, 4), np.int64)], [_to_labels([], target)]
    weights, digests = [np.empty(0, np.float32)], [b""]
    with _reading(database) as connection:
        for rows in _chunks(connection.execute(f"{select} ORDER BY id", parameters)):
            ids, packs, offsets, lengths, values, own, beginnings = zip(*rows, strict=True)
            digests.append(b"".join(beginnings))
            weights.append(np.array(own, np.float32))
            numbers.append(np.array((ids, packs, offsets, lengths), np.int64).T)
            try:
                labels.append(_to_labels(values, target))
            except (TypeError, ValueError) as error:
                assert target is not None
                shape, dtype = target.shape, target.dtype
                raise StorageBroken(_BROKEN.format(model_id, target.name, dtype, shape)) from error
    folder = packs_dir / str(model_id)
    index = _index(np.concatenate(numbers), np.concatenate(labels), folder, b"".join(digests))
    factors = np.concatenate(weights)
    return replace(index, weights=factors if (factors != 1).any() else None)


def damaged_positions(
    index: SampleIndex,
    *,
    tick: Callable[[], None],
    among: NDArray[np.bool_] | None = None,
    in_parallel: Parallel = one_by_one,
    threads: int = 1,
) -> list[int]:
    """Positions of the samples whose bytes are not those that were stored.

    Reads them all, or those `among` which they are; of the others, it finds those that are gone.
    tick: called now and then. in_parallel: runs up to `threads` calls at once; used for samples
    that take longer to read than a thread to wake.
    """
    if not len(index.ids) or index.lengths.mean() < _WORTH_A_THREAD_BYTES:
        threads = 1
    damaged: list[int] = []
    for number, path in enumerate(index.pack_paths if index.digests is not None else ()):
        positions = np.flatnonzero(index.packs == number)
        try:
            pack = np.memmap(path, np.uint8, mode="r")
        except (FileNotFoundError, ValueError):  # numpy maps no empty file
            damaged += positions.tolist()
            continue
        gone = index.offsets[positions] + index.lengths[positions] > len(pack)
        damaged += positions[gone].tolist()
        positions = positions[~gone]
        if among is not None:
            positions = positions[among[positions]]
        for start in range(0, len(positions), _CHECKED_PER_TICK):
            some = positions[start : start + _CHECKED_PER_TICK]
            parts = np.array_split(some, threads)
            in_parallel([partial(_find_changed, index, part, pack.data, damaged) for part in parts])
            tick()
    return sorted(damaged)


def _find_changed(
    index: SampleIndex, positions: NDArray[np.int64], pack: memoryview, changed: list[int]
) -> None:
    """Add those of these positions whose digest is another."""
    assert index.digests is not None
    # Lists and a memoryview: indexing arrays took longer than the digests of small samples.
    starts, lengths = index.offsets[positions].tolist(), index.lengths[positions].tolist()
    digests = index.digests[positions].tolist()
    changed += [
        at
        for at, start, length, digest in zip(
            positions.tolist(), starts, lengths, digests, strict=True
        )
        if hashlib.sha256(pack[start : start + length]).digest()[:8] != digest
    ]


def read_newest(
    database: Path,
    packs_dir: Path,
    *,
    model_id: int,
    newest: int,
    target: TargetSpec | None,
    labelled: bool,
    splits: Sequence[Split] = tuple(Split),
) -> SampleIndex:
    """At most `newest` of the newest samples, labelled ones of these splits or unlabelled ones; the
    latter's labels are zeros, or empty without a target.

    Raises StorageBroken, Busy.
    """
    of_splits = " UNION ALL ".join(_NEWEST_LABELLED[split] for split in splits)
    select = of_splits if labelled else _NEWEST_UNLABELLED
    parameters = {"model_id": model_id, "newest": newest}
    with _reading(database) as connection:
        newest_first = f"{select} ORDER BY id DESC LIMIT :newest"
        rows = connection.execute(newest_first, parameters).fetchall()
    rows.reverse()
    table = np.array([row[:4] for row in rows], np.int64).reshape(-1, 4)
    if labelled or target is None or target.span_types is not None:
        labels = _to_labels([b"" if row[4] is None else row[4] for row in rows], target)
    else:
        labels = np.zeros((len(table), *target.shape), target.dtype)
    digests = b"".join(row[6] for row in rows)
    return _index(table, labels, packs_dir / str(model_id), digests)


def read_ids(
    database: Path, which: Literal["reference", "base"], *, model_id: int
) -> NDArray[np.int64]:
    """Ascending ids of the reference set or the base set, including samples that do not count."""
    with _reading(database) as connection:
        rows = connection.execute(_IDS[which], (model_id,)).fetchall()
    return np.array([sample_id for (sample_id,) in rows], np.int64)


def count_different(database: Path, ids: NDArray[np.int64]) -> int:
    """How many of these samples differ in their inputs, without those of weight 0."""
    with _reading(database) as connection:
        row = connection.execute(_DIFFERENT, (dump(ids.tolist()),)).fetchone()
    return int(row[0])


@contextmanager
def _reading(database: Path) -> Iterator[sqlite3.Connection]:
    """Raises StorageBroken, Busy."""
    address = f"{database.absolute().as_uri()}?mode=ro"
    with translated(), closing(sqlite3.connect(address, uri=True)) as connection:
        yield connection


def _index(
    table: NDArray[np.int64], labels: NDArray[Any], folder: Path, digests: bytes
) -> SampleIndex:
    """table: (n, 4): id, pack, offset, length."""
    pack_numbers, packs_used = np.unique(table[:, 1], return_inverse=True)
    return SampleIndex(
        ids=np.ascontiguousarray(table[:, 0]),
        packs=packs_used.astype(np.int32).reshape(-1),
        offsets=np.ascontiguousarray(table[:, 2]),
        lengths=np.ascontiguousarray(table[:, 3]),
        labels=labels,
        pack_paths=tuple(folder / f"{number}.pack" for number in pack_numbers),
        digests=np.frombuffer(digests, np.dtype((np.void, 8))),
    )


def _chunks(cursor: sqlite3.Cursor) -> Iterator[list[Any]]:
    while rows := cursor.fetchmany(_ROWS_PER_FETCH):
        yield rows


def _to_labels(values: Sequence[int | bytes], target: TargetSpec | None) -> NDArray[Any]:
    """Stored labels of a chunk as an array (len(values), *target shape); see `SampleIndex`."""
    if target is None:
        stored = np.empty(len(values), object)
        stored[:] = values
        return stored
    if target.span_types is not None:
        return np.array([value or b"[]" for value in values], object)
    if target.num_classes is not None and target.shape == ():
        if any(isinstance(value, bytes) for value in values):
            raise ValueError("a class index is an integer")
        return np.array(values, np.int64)
    dtype = np.dtype(target.dtype).newbyteorder("<")
    flat = np.frombuffer(b"".join(values), dtype)  # type: ignore[arg-type]
    return flat.reshape(len(values), *target.shape).astype(target.dtype, copy=False)
