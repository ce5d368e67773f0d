"""Stored samples: their rows, and their bytes in the packs."""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from storage.arrays import NDArray
from storage.blobs.packs import Packs
from storage.database.codec import dump
from storage.database.connection import Readers, sqlite3
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.erasure.deletion import Eraser
from storage.erasure.sample_rows import delete_matching
from storage.errors import Damaged
from storage.records.samples import DAMAGED, Sample, require_columns
from storage.records.signatures import TargetSpec
from storage.samples.filter import SampleFilter
from storage.samples.rows import find_sample_row, no_key, to_sample
from storage.samples.staged_rows import SmallTables
from storage.samples.staging import Staging
from storage.tables.classes import require_same_indices
from storage.tables.model_rows import model_name

_BY_KEY = """
SELECT * FROM samples WHERE model_id = ? AND key = ?
UNION ALL
SELECT samples.* FROM sample_keys JOIN samples ON samples.id = sample_id
WHERE sample_keys.model_id = ? AND sample_keys.key = ?
"""
_NEWEST = """
SELECT pack, offset, length, sha256 FROM samples WHERE model_id = ? ORDER BY id DESC LIMIT ?
"""
_SEARCHED_AT_ONCE, _MOST_SEARCHED, _MOST_SEARCHED_BYTES = 500, 50_000, 64 * 2**20


class Samples(Repository):
    """Samples by model and id. Ids rise over all models and are never used again."""

    def __init__(
        self, writer: Writer, readers: Readers, *, packs: Packs, eraser: Eraser, tmp_dir: Path
    ) -> None:
        super().__init__(writer, readers)
        self._packs = packs
        self._eraser = eraser
        self._tmp_dir = tmp_dir
        self._small = SmallTables()
        writer.when_at_rest(self._small.free)

    def stage(
        self,
        model_id: int,
        record_bytes: int | None,
        *,
        keep_duplicates: bool = True,
        owner: str | None = None,
        target: TargetSpec | None = None,
        base_set: bool = False,
    ) -> Staging:
        """Begin an upload; record_bytes: of all inputs of one sample, None if lengths differ.

        keep_duplicates: store samples even if others have the same inputs. owner: of the samples,
        None if it may change all samples. target: the one that labels were checked with.
        base_set: add them to the base set, whatever split they give.

        Raises StorageBroken, StorageFull.
        """
        self._writer.require_sound()
        return Staging(
            model_id,
            record_bytes,
            tmp_dir=self._tmp_dir,
            small=self._small,
            writer=self._writer,
            readers=self._readers,
            packs=self._packs,
            keep_duplicates=keep_duplicates,
            owner=owner,
            target=target,
            base_set=base_set,
        )

    def get(self, model_id: int, id: int) -> Sample:  # noqa: A002
        """Raises NotFound."""
        return to_sample(self._readers.read(find_sample_row, model_id, id))

    def by_key(self, model_id: int, key: str, *, owner: str | None = None) -> Sample:
        """The sample with this key, its own or a merged duplicate's. owner: None for any.

        Raises NotFound.
        """
        row = self._readers.one(_BY_KEY, (model_id, key, model_id, key))
        if row is None or owner not in (None, row["owner"]):
            raise no_key(owner)
        return to_sample(row)

    def by_ids(self, model_id: int, ids: Sequence[int]) -> dict[int, Sample]:
        """The samples that exist, by id."""
        query = (
            "SELECT * FROM samples WHERE +model_id = ? AND id IN (SELECT value FROM json_each(?))"
        )
        rows = self._readers.all(query, (model_id, dump([*ids])))
        return {row["id"]: to_sample(row) for row in rows}

    def content(self, model_id: int, id: int) -> bytes:  # noqa: A002
        """The sample's record. Raises NotFound, and Damaged if its bytes are not as stored."""
        with self._packs.share(model_id):
            row = self._readers.read(find_sample_row, model_id, id)
            data, fault = self._packs.record(model_id, row)
        if fault is not None:
            self.get(model_id, id)  # if it was deleted meanwhile: NotFound, not damage
            if not (row["quarantine"] or "").startswith(DAMAGED):
                self.quarantine(model_id, {id: fault})
            why = fault.removeprefix(DAMAGED)
            raise Damaged(f"sample {id}: {why}; it is set aside, and training leaves it out")
        return data

    def newest_records(self, model_id: int, count: int) -> builtins.list[bytes]:
        """Records of the `count` newest samples, without those whose bytes have changed."""
        with self._packs.share(model_id):
            rows = self._readers.all(_NEWEST, (model_id, count))
            return [data for _, data in self._intact(model_id, rows)]

    def search(
        self,
        model_id: int,
        where: SampleFilter,
        *,
        matches: Callable[[bytes], bool],
        limit: int,
        after: int | None,
    ) -> tuple[builtins.list[Sample], int | None]:
        """Samples whose records match, by id, and where to go on; None at the end.

        It ends early, maybe without any, once it has read 64 MiB or 50,000 samples.
        """
        condition, parameters = where.sql(model_id)
        query = f"SELECT * FROM samples WHERE {condition} AND id > ? ORDER BY id LIMIT ?"  # noqa: S608
        matching: builtins.list[Sample] = []
        last, seen, size_bytes = after or 0, 0, 0
        while seen < _MOST_SEARCHED and size_bytes < _MOST_SEARCHED_BYTES:
            with self._packs.share(model_id):
                rows = self._readers.all(query, (*parameters, last, _SEARCHED_AT_ONCE))
                records = [*self._intact(model_id, rows)]
            for row, data in records:
                if matches(data):
                    matching.append(to_sample(row))
                    if len(matching) == limit:
                        return matching, row["id"]
            if len(rows) < _SEARCHED_AT_ONCE:
                return matching, None
            last, seen = rows[-1]["id"], seen + len(rows)
            size_bytes += sum(row["length"] for row in rows)
        return matching, last

    def _intact(
        self, model_id: int, rows: Sequence[sqlite3.Row]
    ) -> Iterator[tuple[sqlite3.Row, bytes]]:
        """Rows with their bytes, without those that have changed; the caller holds a share."""
        for pack, same in groupby(rows, key=itemgetter("pack")):
            stored = [*same]
            ranges = [(row["offset"], row["length"]) for row in stored]
            for row, data in zip(stored, self._packs.read(model_id, pack, ranges), strict=True):
                if hashlib.sha256(data).digest() == row["sha256"]:
                    yield row, data

    def list(
        self,
        model_id: int,
        where: SampleFilter = SampleFilter(),  # noqa: B008 - frozen
        *,
        limit: int,
        after: int = 0,
    ) -> builtins.list[Sample]:
        """Samples that match the filter, by id; after: the last id of the previous page."""
        condition, parameters = where.sql(model_id)
        rows = self._readers.all(
            f"SELECT * FROM samples WHERE {condition} AND id > ? ORDER BY id LIMIT ?",  # noqa: S608
            (*parameters, after, limit),
        )
        return [to_sample(row) for row in rows]

    def newest_id(self, model_id: int, where: SampleFilter = SampleFilter()) -> int:  # noqa: B008
        """The id of the newest sample that matches the filter, 0 if none does."""
        condition, parameters = where.sql(model_id)
        row = self._readers.one(
            f"SELECT id FROM samples WHERE {condition} ORDER BY id DESC LIMIT 1",  # noqa: S608
            parameters,
        )
        return 0 if row is None else int(row["id"])

    def ids(
        self,
        model_id: int,
        where: SampleFilter,
        matches: Callable[[bytes], bool] | None = None,
    ) -> NDArray[np.int64]:
        """Ascending ids of all samples that match a filter, and whose records match."""
        if matches is not None:
            return np.fromiter(self._matching(model_id, where, matches), np.int64)
        condition, parameters = where.sql(model_id)
        with self._readers.snapshot() as connection:
            rows = connection.execute(
                f"SELECT id FROM samples WHERE {condition} ORDER BY id",  # noqa: S608
                parameters,
            )
            return np.fromiter((row["id"] for row in rows), np.int64)

    def _matching(
        self, model_id: int, where: SampleFilter, matches: Callable[[bytes], bool]
    ) -> Iterator[int]:
        search = partial(self.search, model_id, where, matches=matches, limit=_SEARCHED_AT_ONCE)
        after: int | None = 0
        while after is not None:
            page, after = search(after=after)
            yield from (sample.id for sample in page)

    @writes
    def update(
        self,
        transaction: Transaction,
        /,
        model_id: int,
        id: int,  # noqa: A002
        *,
        owner: str | None = None,
        target: TargetSpec | None = None,
        **values: Any,
    ) -> Sample:
        """Set the label, None to remove it, or other columns of uploads, each to a value or to what
        a function makes of the stored one. owner: None for any.

        target: the one that the label was checked with. Raises NotFound, and StateConflict if the
        model's classes have changed since.
        """
        require_columns(values, "label")
        if target is not None:
            require_same_indices(transaction, model_id, target)
        row = find_sample_row(transaction.connection, model_id, id, owner=owner)
        if values:
            new = {
                name: each(row[name]) if callable(each) else each for name, each in values.items()
            }
            transaction.update("samples", new, where={"id": id})
            name = model_name(transaction, model_id)
            transaction.tell("samples.changed", name, {"id": id})
        return to_sample(find_sample_row(transaction.connection, model_id, id))

    @writes
    def quarantine(
        self, transaction: Transaction, model_id: int, reasons: Mapping[int, str]
    ) -> None:
        """Keep samples out of training from now on, each with its reason."""
        transaction.executemany(
            "UPDATE samples SET quarantine = ? WHERE id = ? AND model_id = ?",
            [(reason, id, model_id) for id, reason in reasons.items()],  # noqa: A001
        )
        name = model_name(transaction, model_id)
        transaction.event("samples.quarantined", name, {"ids": sorted(reasons)})

    def delete(self, model_id: int, id: int) -> None:  # noqa: A002
        """Remove a sample and overwrite its bytes. Raises NotFound."""

        def forget(transaction: Transaction) -> None:
            find_sample_row(transaction.connection, model_id, id)
            delete_matching(transaction, [id], model_id=model_id, where=SampleFilter())

        self._writer.write(forget)
        self._eraser.erase_or_later(model_id)

    def delete_where(
        self,
        model_id: int,
        where: SampleFilter,
        matches: Callable[[bytes], bool] | None = None,
        *,
        target: TargetSpec | None = None,
    ) -> builtins.list[int]:
        """Delete all samples that `ids` finds, and overwrite their bytes; their ascending ids.

        One that matches the filter no more when its turn comes stays. target: the one that the
        filter's label was checked with. Raises StateConflict as `update`.
        """

        def check(transaction: Transaction) -> None:
            if target is not None:
                require_same_indices(transaction, model_id, target)

        choose = partial(self.ids, model_id, where, matches)
        _, gone = self._eraser.deletions.run(model_id, choose, check, where=where)
        self._eraser.erase_or_later(model_id)
        return gone
