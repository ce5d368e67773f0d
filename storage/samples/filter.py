"""Filters that select samples for a list, a deletion or an export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from storage.records.samples import Split, require_columns

_BY_KEY = (
    "SELECT id FROM samples WHERE model_id = ? AND key = ?"
    " UNION ALL SELECT sample_id FROM sample_keys WHERE model_id = ? AND key = ?"
)


class SampleFilter(Struct, frozen=True):
    """Conditions that must all hold; None for no condition.

    label: a class index, or a label's bytes. up_to: the highest id. equal: other columns of uploads
    → the value that they have.
    """

    label: int | bytes | None = None
    split: Split | None = None
    unlabelled: bool | None = None
    pinned: bool | None = None
    quarantined: bool | None = None
    key: str | None = None
    id: int | None = None
    up_to: int | None = None
    equal: dict[str, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it has no conditions."""
        return self == SampleFilter()

    def sql(self, model_id: int) -> tuple[str, list[Any]]:
        """The condition of a WHERE clause, and its parameters."""
        # By key the ids are few; with the plus, SQLite uses no index over the model's samples.
        clauses, values = ["model_id = ?" if self.key is None else "+model_id = ?"], [model_id]
        for clause, parameters in self._conditions(model_id):
            clauses.append(clause)
            values += parameters
        return " AND ".join(clauses), values

    def _conditions(self, model_id: int) -> Iterator[tuple[str, list[Any]]]:
        if self.label is not None:
            kind = "integer" if isinstance(self.label, int) else "blob"
            yield f"typeof(label) = '{kind}' AND label = ?", [self.label]
        if self.split is not None:
            # As text, so that SQLite sees that an index over one split fits.
            yield f"split = '{self.split.value}'", []
        for wanted, column in (
            (self.unlabelled, "label IS NULL"),
            (self.pinned, "pinned"),
            (self.quarantined, "quarantine IS NOT NULL"),
        ):
            if wanted is not None:
                yield column if wanted else f"NOT ({column})", []
        if self.key is not None:
            yield f"id IN ({_BY_KEY})", [model_id, self.key] * 2
        if self.id is not None:
            yield "id = ?", [self.id]
        if self.up_to is not None:
            yield "id <= ?", [self.up_to]
        require_columns(self.equal)
        for name, value in self.equal.items():
            yield f"{name} = ?", [value]
