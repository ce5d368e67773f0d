"""Where the samples of a job lie, read once, so that training needs no database.

Imported by the training child: the standard library and numpy only, and no thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import StorageBroken
from storage.records.samples import Split
from storage.records.signatures import TargetSpec

_ROWS_PER_FETCH = 8192
_SELECT = """
SELECT id, pack, offset, length, label FROM samples
WHERE model_id = ? AND split = ? AND label IS NOT NULL AND quarantine IS NULL AND id <= ?
ORDER BY id
"""
_UNLABELLED = """
SELECT id, pack, offset, length FROM samples
WHERE model_id = ? AND label IS NULL AND quarantine IS NULL ORDER BY id DESC LIMIT ?
"""
_BROKEN = "the labels of model {} do not fit its target {!r} ({} {}); restore a backup"


@dataclass(frozen=True)
class SampleIndex:
    """Labelled samples by rising id, n of them; those in quarantine are not among them.

    ids: (n,) int64. packs: (n,) int32, indices into pack_paths. offsets, lengths: (n,) int64,
    in bytes. labels: (n, *target shape) in the target's dtype.
    """

    ids: NDArray[np.int64]
    packs: NDArray[np.int32]
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    labels: NDArray[Any]
    pack_paths: tuple[Path, ...]

    def only(self, which: NDArray[np.bool_]) -> SampleIndex:
        """The samples that are kept. which: (n,)."""
        return replace(
            self,
            ids=self.ids[which],
            packs=self.packs[which],
            offsets=self.offsets[which],
            lengths=self.lengths[which],
            labels=self.labels[which],
        )

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
    target: TargetSpec,
) -> SampleIndex:
    """The labelled samples of a split whose ids are at most `watermark`.

    Raises StorageBroken if a label is not one of the target's, sqlite3.Error.
    """
    parameters = (model_id, split.value, watermark)
    numbers, labels = [np.empty((0, 4), np.int64)], [_to_labels([], target)]
    with closing(
        sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    ) as connection:
        for rows in _chunks(connection.execute(_SELECT, parameters)):
            ids, packs, offsets, lengths, values = zip(*rows, strict=True)
            numbers.append(np.array((ids, packs, offsets, lengths), np.int64).T)
            try:
                labels.append(_to_labels(values, target))
            except (TypeError, ValueError) as error:
                shape, dtype = target.shape, target.dtype
                raise StorageBroken(_BROKEN.format(model_id, target.name, dtype, shape)) from error
    return _index(np.concatenate(numbers), np.concatenate(labels), packs_dir / str(model_id))


def read_unlabelled(
    database: Path, packs_dir: Path, *, model_id: int, newest: int, target: TargetSpec
) -> SampleIndex:
    """The newest samples without a label, at most `newest` of them; their labels are zeros.

    Raises sqlite3.Error.
    """
    with closing(
        sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    ) as connection:
        rows = connection.execute(_UNLABELLED, (model_id, newest)).fetchall()
    table = np.array(rows[::-1], np.int64).reshape(-1, 4)
    labels = np.zeros((len(table), *target.shape), target.dtype)
    return _index(table, labels, packs_dir / str(model_id))


def read_reference_ids(database: Path, *, model_id: int) -> NDArray[np.int64]:
    """Ids of the frozen samples, rising, those that no longer count among them."""
    with closing(
        sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    ) as connection:
        rows = connection.execute(
            "SELECT sample_id FROM reference_samples WHERE model_id = ? ORDER BY sample_id",
            (model_id,),
        ).fetchall()
    return np.array([sample_id for (sample_id,) in rows], np.int64)


def _index(table: NDArray[np.int64], labels: NDArray[Any], folder: Path) -> SampleIndex:
    """table: (n, 4): id, pack, offset, length."""
    pack_numbers, packs_used = np.unique(table[:, 1], return_inverse=True)
    return SampleIndex(
        ids=np.ascontiguousarray(table[:, 0]),
        packs=packs_used.astype(np.int32).reshape(-1),
        offsets=np.ascontiguousarray(table[:, 2]),
        lengths=np.ascontiguousarray(table[:, 3]),
        labels=labels,
        pack_paths=tuple(folder / f"{number}.pack" for number in pack_numbers),
    )


def _chunks(cursor: sqlite3.Cursor) -> Iterator[list[Any]]:
    while rows := cursor.fetchmany(_ROWS_PER_FETCH):
        yield rows


def _to_labels(values: Sequence[int | bytes], target: TargetSpec) -> NDArray[Any]:
    """(len(values), *target shape); the copy of a chunk ends with it."""
    if target.dtype == "int64" and target.shape == ():
        if any(isinstance(value, bytes) for value in values):
            raise ValueError("a class index is an integer")
        return np.array(values, np.int64)
    dtype = np.dtype(target.dtype).newbyteorder("<")
    flat = np.frombuffer(b"".join(values), dtype)  # type: ignore[arg-type]
    return flat.reshape(len(values), *target.shape).astype(target.dtype, copy=False)
