"""Ingest, relabelling, deletion, quotas and reopening, against a plain model in memory."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from stored import adopt, new_model, set_quota, split_of

from storage.errors import AlreadyExists, StorageFull
from storage.records.models import Quota, SampleCounts
from storage.records.samples import Split
from storage.records.signatures import Signature, TargetSpec, TensorSpec
from storage.samples.filter import SampleFilter
from storage.store import Store

LABELS = st.sampled_from([None, 0, 1, 2])
SPLITS = st.sampled_from([None, Split.TRAIN, Split.VALIDATION])
KEYS = st.sampled_from([None, "a", "b", "c", "d"])
OWNERS = st.sampled_from([None, None, "token 1", "token 2"])
UPLOAD = st.lists(st.tuples(LABELS, KEYS, SPLITS, st.integers(0, 9)), min_size=1, max_size=6)
QUOTAS = st.builds(
    Quota,
    max_samples=st.none() | st.integers(1, 8),
    max_bytes=st.none() | st.integers(8, 60),
    when_full=st.sampled_from(["oldest", "reservoir", "balanced"]),
)


@dataclass(frozen=True)
class Row:
    """What the plain model knows of a sample."""

    label: int | None
    key: str | None
    split: Split
    content: bytes
    owner: str | None = None
    pinned: bool = False


Rows = dict[int, Row]


def evicted(rows: Rows, quota: Quota, *, added_by: str | None = None) -> Rows | None:
    """The rows that a quota leaves, None if what must stay is too much.

    added_by: the owner of new rows, "" for none; None if the quota has changed.
    """
    rows = dict(rows)
    for size, limit in ((lambda _: 1, quota.max_samples), (len, quota.max_bytes)):
        emptied: set[str] = set()
        while limit is not None and sum(size(row.content) for row in rows.values()) > limit:
            held = Counter[str]()
            for row in rows.values():
                held[row.owner or ""] += size(row.content)
            owners = sorted(held.keys() - emptied, key=lambda owner: (-held[owner], owner))
            if not owners:
                return None
            others = added_by is not None and owners[0] not in ("", added_by)
            gone = _next(
                {n: r for n, r in rows.items() if (r.owner or "") == owners[0]}, quota, others
            )
            if gone is not None:
                del rows[gone]
            elif owners[0] == added_by != "":
                return None
            else:
                emptied.add(owners[0])
    return rows


def _next(rows: Rows, quota: Quota, others: bool) -> int | None:
    """Which of an owner's rows goes first. others: another owner needs the room."""
    free = [n for n, row in rows.items() if row.split is Split.TRAIN and not row.pinned]
    if not free:
        spare = (n for n, row in rows.items() if others and not row.pinned)
        return min(spare, default=None)
    if quota.when_full == "oldest":
        return min(free)
    if quota.when_full == "reservoir":
        return max(free, key=lambda n: ((n * 747796405 + 2891336453) % 2**32, -n))
    counts = Counter(_class(rows[n]) for n in free)
    most = max(counts, key=lambda kind: (counts[kind], -kind))
    return min(n for n in free if _class(rows[n]) == most)


def _class(row: Row) -> int:
    return -1 if row.label is None else row.label


class SamplesMachine(RuleBasedStateMachine):
    """One model's samples, in a store and in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.rows: Rows = {}
        self.quota = Quota()
        self.next_id = 1

    @initialize()
    def open(self) -> None:
        self.store = Store.open(self.folder / "data")
        signature = Signature((TensorSpec("x", "uint8", (4,)),), TargetSpec("y", "int64", (), 3))
        new, base = new_model(signature=signature), adopt(self.store, b"base")
        self.model_id = self.store.models.add(new, base).id

    @rule(samples=UPLOAD, owner=OWNERS)
    def ingest(
        self, samples: list[tuple[int | None, str | None, Split | None, int]], owner: str | None
    ) -> None:
        contents = [bytes([7]) * (4 + size) + bytes([n]) for n, (*_, size) in enumerate(samples)]
        new, next_id = dict(self.rows), self.next_id
        mine = [row for row in self.rows.values() if row.owner == owner]
        held = sum(row.split is Split.VALIDATION for row in mine)
        all_train = self.quota.max_samples is not None and held >= 1
        taken = {row.key for row in self.rows.values() if row.owner != owner} - {None}
        refused = owner is not None and any(key in taken for _, key, *_ in samples)
        for (label, key, split, _), content in zip(samples, contents, strict=True):
            known = [n for n, row in new.items() if row.key == key is not None]
            if known:
                if new[known[0]].label is None and new[known[0]].content == content:
                    new[known[0]] = replace(new[known[0]], label=label)
                continue
            derived = Split.TRAIN if all_train else split_of(hashlib.sha256(content).digest())
            new[next_id] = Row(label, key, split or derived, content, owner)
            next_id += 1
        kept = evicted(new, self.quota, added_by=owner or "")
        with self.store.samples.stage(self.model_id, None, owner=owner) as staging:
            staging.add(
                b"".join(contents),
                [label for label, *_ in samples],
                key=[key for _, key, _, _ in samples],
                split=[split for _, _, split, _ in samples],
                lengths=[len(content) for content in contents],
            )
            try:
                stored = staging.commit()
            except StorageFull:
                assert kept is None
                return
            except AlreadyExists:
                assert refused
                return
        assert not refused
        assert kept is not None
        assert stored.evicted == len(new) - len(kept)
        self.store.eraser.erase_at_rest(self.model_id)
        self.rows, self.next_id = kept, next_id

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), label=LABELS, split=SPLITS, pinned=st.booleans())
    def change(
        self, data: st.DataObject, label: int | None, split: Split | None, pinned: bool
    ) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.rows)))
        row = replace(self.rows[chosen], label=label, pinned=pinned)
        self.rows[chosen] = row if split is None else replace(row, split=split)
        shown = self.rows[chosen]
        self.store.samples.update(
            self.model_id, chosen, label=label, split=shown.split, pinned=pinned
        )

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from(sorted(self.rows)))
        self.store.samples.delete(self.model_id, chosen)
        del self.rows[chosen]

    @rule(label=st.sampled_from([0, 1, 2]), split=SPLITS)
    def delete_by_filter(self, label: int, split: Split | None) -> None:
        gone = [
            n for n, row in self.rows.items() if row.label == label and split in (None, row.split)
        ]
        where = SampleFilter(label=label, split=split)
        assert self.store.samples.delete_where(self.model_id, where) == sorted(gone)
        for n in gone:
            del self.rows[n]

    @rule(quota=QUOTAS)
    def set_quota(self, quota: Quota) -> None:
        kept = evicted(self.rows, quota)
        try:
            gone = set_quota(self.store, self.model_id, quota)
        except StorageFull:
            assert kept is None
            return
        assert kept is not None
        assert gone == len(self.rows) - len(kept)
        self.rows, self.quota = kept, quota

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = Store.open(self.folder / "data")

    @invariant()
    def they_agree(self) -> None:
        if not hasattr(self, "store"):
            return
        samples, stats, model_id = self.store.samples, self.store.sample_stats, self.model_id
        stored = {
            s.id: Row(s.label, s.key, s.split, samples.content(model_id, s.id), s.owner, s.pinned)
            for s in samples.list(model_id, limit=1000)
        }
        assert stored == self.rows
        assert stats.totals(model_id).size_bytes == sum(len(r.content) for r in self.rows.values())
        assert stats.counts(model_id) == self._counts()
        on_disk = sum(path.stat().st_size for path in (self.folder / "data/packs").rglob("*.pack"))
        assert on_disk <= 2 * stats.totals(model_id).size_bytes + 1

    def _counts(self) -> SampleCounts:
        labelled = [row for row in self.rows.values() if row.label is not None]
        train = sum(row.split is Split.TRAIN for row in labelled)
        return SampleCounts(train, len(labelled) - train, len(self.rows) - len(labelled))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
        shutil.rmtree(self.folder)


TestSamples = SamplesMachine.TestCase
TestSamples.settings = settings(
    max_examples=40,
    stateful_step_count=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
