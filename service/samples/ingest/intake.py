"""One upload: its options, its errors, and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
from msgspec import Struct, field

from service.errors import InsufficientScope, InvalidInput
from service.preprocess import FileKind, for_model
from service.samples.columns import COLUMNS
from service.samples.ingest import tensors
from service.samples.ingest.require import takes_files
from service.samples.ingest.statistics import Statistics, balance_warnings
from service.samples.mask_checks import MaskCheck, MaskChecks
from service.training.tasks import TASKS
from storage.arrays import NDArray
from storage.errors import Problem
from storage.records.models import Model
from storage.records.samples import SAMPLE_COLUMNS, Split
from storage.records.signatures import TargetSpec
from storage.samples.staging import Staging
from storage.store import Store

MAX_LISTED = 1000
"""Maximum number of errors listed; of the others, only the number is given."""
LINES_AT_ONCE, GROUP_SIZE = 2000, 8 * 2**20
Line = TypeVar("Line")


class UploadOptions(Struct, frozen=True):
    """Options of a request that apply to all its samples.

    columns: values of columns, such as the split, for samples that name none. skip_bad: store the
    good ones even if others are bad. allow_duplicates: store samples whose inputs the model already
    has. csv_columns: for CSV, a column of samples → the CSV's that holds it; for `label` several
    separated by commas if a label is a list, by default `label` if it exists. ignore_columns: for
    CSV, names separated by commas, or `*` for all that the model does not know. owner: who adds the
    samples, None if the caller may change anybody's. base_set: add them to the base set, whatever
    split they name. masks: checks them; None for models without any. require_room: raises
    StorageFull if the disk has less than its reserve free.
    """

    columns: Mapping[str, Any] = field(default_factory=dict)
    skip_bad: bool = False
    allow_duplicates: bool = False
    csv_columns: Mapping[str, str] = field(default_factory=dict)
    ignore_columns: str | None = None
    owner: str | None = None
    base_set: bool = False
    masks: MaskChecks | None = None
    require_room: Callable[[], None] | None = None


def in_groups(
    lines: Iterable[tuple[int, Line]], size_of: Callable[[Line], int]
) -> Iterator[list[tuple[int, Line]]]:
    """Numbered lines, as many as are checked and staged together."""
    group: list[tuple[int, Line]] = []
    size = 0
    for number, line in lines:
        group.append((number, line))
        size += size_of(line)
        if len(group) == LINES_AT_ONCE or size >= GROUP_SIZE:
            yield group
            group, size = [], 0
    if group:
        yield group


class Faults:
    """Collects the errors of an upload in bounded memory."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self.samples = 0

    def sample(self, problems: list[Problem]) -> None:
        """Record one bad sample and its errors."""
        self.samples += 1
        room = MAX_LISTED - len(self._problems)
        self._problems.extend(problems[:room])

    def listed(self) -> tuple[Problem, ...]:
        """The problems; a last line counts the bad samples if some are not listed."""
        if len(self._problems) < MAX_LISTED:
            return tuple(self._problems)
        more = Problem("", f"the list ends here; {self.samples} samples are bad in all")
        return (*self._problems, more)

    def told(self, total: int, things: str) -> str:
        """How many of all are bad."""
        return f"{self.samples} of {total} {things} {'is' if self.samples == 1 else 'are'} bad"

    def refuse(self, total: int) -> None:
        """Raises InvalidInput if there is any fault; then nothing is stored."""
        if self.samples:
            raise InvalidInput(
                f"{self.told(total, 'samples')}, so none was stored; "
                "?on_error=skip keeps the good ones",
                problems=self.listed(),
            )


Records: TypeAlias = "bytes | NDArray[np.uint8]"


class GoodSamples(Struct):
    """Good samples of an upload, n of them.

    records: concatenated, as storage keeps them, or (n, record bytes). columns: name → n values;
    None for one that was not given. lengths: of each record in bytes, if they differ.
    """

    records: Records
    columns: dict[str, list[Any]]
    lengths: Sequence[int] | None = None

    @classmethod
    def of_parsed(cls, parsed: Sequence[tuple[bytes, Mapping[str, Any]]]) -> GoodSamples:
        """Samples of these records and columns."""
        records = [record for record, _ in parsed]
        rows = [columns for _, columns in parsed]
        return cls.of_rows(b"".join(records), rows, [*map(len, records)])

    @classmethod
    def of_rows(
        cls,
        records: Records,
        rows: Sequence[Mapping[str, Any]],
        lengths: Sequence[int] | None = None,
    ) -> GoodSamples:
        """Samples of these columns, of which all rows have the same."""
        names = rows[0] if rows else ()
        return cls(records, {name: [row[name] for row in rows] for name in names}, lengths)


class IngestResult(Struct, frozen=True):
    """ids: first and last id of the accepted samples, None if there are none.

    rejected: bad samples that were left out, and damaged ones that an archive lists; problems:
    their errors. evicted: samples removed by the model's quota. conflicts: accepted samples with
    the inputs of another sample but a different label. warnings: possible causes of a worse model,
    as text.
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
    """Stages the samples of one upload, then stores all of them or none.

    Leaving the `with` block discards uncommitted samples. Use it from one thread at a time. masks:
    checks those of the upload.
    """

    def __init__(self, store: Store, model: Model, options: UploadOptions) -> None:
        _require_taken(model, options.columns)
        self.faults = Faults()
        self._store = store
        self._model = model
        self._skip_bad = options.skip_bad
        self._for_others = options.columns
        self._kind = for_model(model).files
        self._statistics = None if self._kind is not None else Statistics(store, model)
        self._base_set, self._owner = options.base_set, options.owner
        self._require_room = options.require_room
        self._added = 0
        self.masks = None if options.masks is None else MaskCheck(options.masks, model)
        self._staging = stage(store, model, options, target=model.signature.target)

    def __enter__(self) -> Intake:
        return self

    def __exit__(self, *_: object) -> None:
        if self.masks is not None:
            self.masks.close()
        self._staging.discard()

    def add(self, good: GoodSamples) -> None:
        """Stage samples, unless the upload will be refused because of bad ones."""
        labels = good.columns.get("label")
        if not labels or (self.faults.samples and not self._skip_bad):
            return
        if self._model.signature.target.is_empty:
            labels = [b""] * len(labels)  # the loss takes no labels, so all count as labelled
        if (usual := TASKS[self._model.loss].trains_on) is not None:
            labels = [usual if label is None else label for label in labels]
        columns = self._completed(good.columns, len(labels))
        if self._owner is not None:
            _require_evictable(columns)
        if self._base_set and None in labels:
            _refuse_unlabelled(self._added + labels.index(None))
        if self._require_room is not None:
            self._require_room()
        self._added += len(labels)
        records, lengths = kept(self._kind, good.records, good.lengths)
        self._staging.add(records, labels, lengths=lengths, **columns)
        if self._statistics is not None:
            rows = np.frombuffer(good.records, np.uint8)
            self._statistics.add(rows.reshape(len(labels), -1))

    def _completed(self, given: Mapping[str, list[Any]], count: int) -> dict[str, list[Any]]:
        """The columns besides the label, with what samples have that give no value."""
        columns = {}
        for name, default in SAMPLE_COLUMNS.items():
            other = self._for_others.get(name, default)
            if name in given:
                columns[name] = [other if value is None else value for value in given[name]]
            elif other != default:
                columns[name] = [other] * count
        return columns

    def commit(self, total: int) -> IngestResult:
        """Store the staged samples durably. total: samples in the upload. Raises InvalidInput."""
        if not self._skip_bad:
            self.faults.refuse(total)
        if self._base_set and self._added == 0:
            raise InvalidInput("the base set would be empty: send at least one sample")
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
            warnings=(
                *about_inputs,
                *(() if self.masks is None else self.masks.warnings),
                *balance_warnings(self._store, self._model),
            ),
        )


def stage(
    store: Store, model: Model, options: UploadOptions, *, target: TargetSpec | None = None
) -> Staging:
    """Begin an upload; equal inputs are merged unless the model or the options say otherwise.

    target: labels are checked against it.
    """
    size = None if takes_files(model) else tensors.record_bytes(model.signature.inputs)
    return store.samples.stage(
        model.id,
        size,
        keep_duplicates=model.keeps_duplicates or options.allow_duplicates,
        owner=options.owner,
        target=target,
        base_set=options.base_set,
    )


def kept(
    kind: FileKind | None, records: Records, lengths: Sequence[int] | None
) -> tuple[Records, Sequence[int] | None]:
    """What is stored of files, and their lengths; see `FileKind.kept`."""
    if kind is None or not kind.keeps_less or lengths is None:
        return records, lengths
    data = bytes(records)
    files = [
        kind.kept(data[end - n : end]) for end, n in zip(accumulate(lengths), lengths, strict=True)
    ]
    return b"".join(files), [*map(len, files)]


def _require_taken(model: Model, columns: Mapping[str, Any]) -> None:
    """Raises InvalidInput for a value of the request that the model's samples cannot have."""
    for column in COLUMNS:
        _, complaint = column(model).parse(columns.get(column.name))
        if complaint:
            detail = complaint.removeprefix(f"{column.name}: ")
            raise InvalidInput.at(f"/query/{column.name}", detail, title=f"no {column.name}s")


def _require_evictable(columns: Mapping[str, Sequence[Any]]) -> None:
    """Raises InsufficientScope: what no quota evicts could fill it, and keep other apps out."""
    if any(columns.get("pinned", ())) or Split.BASE in columns.get("split", ()):
        raise InsufficientScope(
            "some of these are pinned or belong to a base set, which needs the scope models:admin",
            scope="models:admin",
        )


def _refuse_unlabelled(row: int) -> NoReturn:
    detail = f"sample {row} has no label; give every sample one, or leave it out"
    raise InvalidInput.at("", detail, title="a base set has labels, so none was stored")
