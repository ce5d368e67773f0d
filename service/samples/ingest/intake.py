"""One upload: its options, its errors, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from service.errors import InvalidInput
from service.samples.ingest import tensors
from service.samples.ingest.require import takes_images
from service.samples.ingest.statistics import Statistics, balance_warnings
from storage.errors import Problem
from storage.records.models import Model
from storage.records.samples import Label, Split
from storage.samples.staging import Staging
from storage.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from storage.records.samples import SampleColumns

MAX_LISTED = 1000
"""An upload with more faults than this is told the first, and the count of the others."""


@dataclass(frozen=True, slots=True)
class UploadOptions:
    """What a request asks for all its samples.

    split: of those that name none. skip_bad: store the good ones, though others are bad.
    allow_duplicates: store samples whose inputs the model has already. label_column: of CSV, one
    name, or several with commas for a label that is a list; default: `label` if there is one.
    ignore_columns: of CSV, names with commas, or `*` for all that the model does not know.
    """

    split: Split | None = None
    skip_bad: bool = False
    allow_duplicates: bool = False
    label_column: str | None = None
    ignore_columns: str | None = None


class Faults:
    """Collects what is wrong with an upload, in bounded memory."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self.samples = 0

    def sample(self, problems: list[Problem]) -> None:
        """Note one bad sample and all that is wrong with it."""
        self.samples += 1
        room = MAX_LISTED - len(self._problems)
        self._problems.extend(problems[:room])

    def listed(self) -> tuple[Problem, ...]:
        """The problems, closed by a line that counts the samples when some are not listed."""
        if len(self._problems) < MAX_LISTED:
            return tuple(self._problems)
        more = Problem("", f"the list ends here; {self.samples} samples are bad in all")
        return (*self._problems, more)

    def refuse(self, total: int) -> None:
        """Raises InvalidInput if there is any fault; nothing is stored then."""
        if self.samples:
            raise InvalidInput(
                f"{self.samples} of {total} samples are bad, so none was stored; "
                "?on_error=skip keeps the good ones",
                problems=self.listed(),
            )


@dataclass(frozen=True, slots=True)
class IngestResult:
    """ids: first and last of the accepted samples, None if there are none.

    rejected: bad samples that were left out; problems: what was wrong with them. evicted: samples
    that the model's quota took away. conflicts: accepted samples with the inputs of another, and
    another label. warnings: what may make the model worse, for people.
    """

    accepted: int
    duplicates: int
    ids: tuple[int, int] | None
    rejected: int
    problems: tuple[Problem, ...]
    evicted: int = 0
    conflicts: int = 0
    warnings: tuple[str, ...] = ()


class Intake:
    """Stages the samples of one upload, and stores all of them or none.

    Leaving the `with` discards what was not committed. Use from one thread at a time.
    """

    def __init__(self, store: Store, model: Model, options: UploadOptions) -> None:
        self.faults = Faults()
        self._store = store
        self._model = model
        self._skip_bad = options.skip_bad
        images = takes_images(model)
        self._statistics = None if images else Statistics(store, model)
        self._staging = stage(store, model, allow_duplicates=options.allow_duplicates)

    def __enter__(self) -> Intake:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._staging.discard()

    def add(
        self,
        records: bytes | NDArray[np.uint8],
        labels: Sequence[Label],
        *,
        lengths: Sequence[int] | None = None,
        **columns: Unpack[SampleColumns],
    ) -> None:
        """Stage good samples, unless bad ones have made the upload one that will be refused."""
        if self.faults.samples and not self._skip_bad:
            return
        self._staging.add(records, labels, lengths=lengths, **columns)
        if self._statistics is not None and len(labels):
            rows = np.frombuffer(records, np.uint8) if isinstance(records, bytes) else records
            self._statistics.add(rows.reshape(len(labels), -1))

    def commit(self, total: int) -> IngestResult:
        """Store what is staged, durably. Raises InvalidInput with all faults of `total` samples."""
        if not self._skip_bad:
            self.faults.refuse(total)
        about_inputs = () if self._statistics is None else self._statistics.warnings()
        stored = self._staging.commit()
        first, last = stored.first_id, stored.last_id
        return IngestResult(
            accepted=stored.accepted,
            duplicates=stored.duplicates,
            ids=(first, last) if first is not None and last is not None else None,
            rejected=self.faults.samples,
            problems=self.faults.listed(),
            evicted=stored.evicted,
            conflicts=stored.conflicts,
            warnings=(*about_inputs, *balance_warnings(self._store, self._model)),
        )


def stage(store: Store, model: Model, *, allow_duplicates: bool = False) -> Staging:
    """Begin an upload for a model, which merges equal inputs unless one of both says otherwise."""
    size = None if takes_images(model) else tensors.record_bytes(model.signature.inputs)
    keep = model.keeps_duplicates or allow_duplicates
    return store.samples.stage(model.id, size, keep_duplicates=keep)
