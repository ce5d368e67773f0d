"""The columns of samples: each is declared once, for every form in which samples come and go.

A column is a field of `Sample` that uploads give, named in `SAMPLE_COLUMNS`, and a class here.
JSON, npz, CSV, forms of files, archives, PATCH, queries and the command line derive from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct, field

from storage.arrays import NDArray
from storage.records.models import Model
from storage.records.samples import Split

if TYPE_CHECKING:
    import numpy as np

Value = tuple[Any, str | None]
"""A value and None, or None and what is wrong. The value None means that none was given."""
MAX_KEY_LENGTH = 512
LARGEST_WEIGHT = (2 - 2**-23) * 2.0**127
"""Of float32."""
NO_WEIGHTS = "the model's loss is one number for a batch, so all samples weigh 1; leave it out"


class Unfitted(Struct, frozen=True):
    """A value that depends on the bytes of its sample."""

    def fitted(self, record: bytes) -> Value:
        """The value for this sample, and what is wrong with it."""
        raise NotImplementedError


class Column:
    """Reads one column for one model. Subclasses declare it.

    sent: whether JSON, CSV and forms have it; in_npz: whether npz has. changed: whether a PATCH
    may. schema: of its value in a JSON sample. array_kinds, array_of: the kinds of numpy's dtypes
    that an npz may hold it in, and what that is called.
    """

    name: ClassVar[str]
    sent: ClassVar[bool] = True
    in_npz: ClassVar[bool] = True
    changed: ClassVar[bool] = True
    schema: ClassVar[dict[str, Any]]
    array_kinds: ClassVar[str] = "fiu"
    array_of: ClassVar[str] = "number"
    asked: ClassVar[Asked | None] = None

    def __init__(self, model: Model) -> None:
        """Of this model's samples."""

    @classmethod
    def named_in_npz(cls, inputs: set[str]) -> bool:
        """Whether an array of its name is this column. An input of that name comes first."""
        return cls.in_npz and (cls.asked is None or cls.name not in inputs)

    def parse(self, value: Any) -> Value:
        """A value from JSON; None for none."""
        return value, None

    def parse_text(self, text: str) -> Value:
        """A value from a query or a cell of a CSV; empty for none."""
        return self.parse(text or None)

    def parse_cells(self, cells: list[str]) -> Value:
        """A value from its cells in a CSV: one, or for a label several."""
        return self.parse_text(cells[0].strip())

    def restore(self, value: Any) -> Value:
        """A value from an archive."""
        return self.parse(value)

    def array_complaint(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str | None:
        """What is wrong with an array as a whole; None if rows may be read."""
        if dtype.kind in self.array_kinds and len(shape) == 1:
            return None
        return f"array {self.name!r} holds one {self.array_of} a sample"

    def read(self, rows: NDArray[Any]) -> tuple[list[Any], dict[int, str]]:
        """Values of rows that passed `array_complaint`, and what is wrong, by row."""
        from service.samples.ingest.tensors import UNREADABLE, texts

        items = texts(rows) if rows.dtype.kind == "U" else rows.tolist()
        values: list[Any] = []
        faults: dict[int, str] = {}
        for row, value in enumerate(items):
            known = None if value == "" else value
            parsed, complaint = (None, UNREADABLE) if value is None else self.parse(known)
            values.append(parsed)
            if complaint:
                faults[row] = complaint
        return values, faults


class Asked(Struct, frozen=True):
    """What requests and commands say of a column that has no meaning of its own to the daemon.

    Its name may be that of an input or of a feature of a CSV, so the request names its column
    there. kind, bounds: of its values. of_one, of_many: what it is, as a sentence, and for samples
    that name none. filtered: whether lists may ask for samples with one value.
    """

    kind: type
    of_one: str
    of_many: str
    bounds: dict[str, Any] = field(default_factory=dict)
    filtered: bool = False


class KeyColumn(Column):
    """The app's own id."""

    name = "key"
    changed = False
    schema: ClassVar = {"type": ["string", "null"], "description": "The app's own id; told once."}
    array_kinds, array_of = "Uiu", "text or integer"

    def parse(self, value: Any) -> Value:
        """Text, not too long."""
        if value is None or (isinstance(value, str) and 0 < len(value) <= MAX_KEY_LENGTH):
            return value, None
        return None, f"key is text of 1 to {MAX_KEY_LENGTH} characters"

    def read(self, rows: NDArray[Any]) -> tuple[list[Any], dict[int, str]]:
        """Integers are keys too."""
        if rows.dtype.kind != "U":
            return [str(key) for key in rows.tolist()], {}
        return super().read(rows)


class SplitColumn(Column):
    """The part that a sample belongs to; apps name no sample of the base set."""

    name = "split"
    in_npz = False
    schema: ClassVar = {"enum": ["train", "validation", None]}
    complaint = "split is train or validation"

    def parse(self, value: Any) -> Value:
        """Either of those that jobs train on and are measured on."""
        if value is None:
            return None, None
        if value not in (Split.TRAIN.value, Split.VALIDATION.value):
            return None, self.complaint
        return Split(value), None

    def parse_text(self, text: str) -> Value:
        """As `parse`, with the text in what is wrong."""
        value, complaint = super().parse_text(text)
        return value, complaint and f"{complaint}, not {text[:100]!r}"

    def restore(self, value: Any) -> Value:
        """Any split."""
        return Split(value), None


class PinnedColumn(Column):
    """Whether no quota evicts a sample."""

    name = "pinned"
    sent = in_npz = False


class WeightColumn(Column):
    """A factor on a sample's loss in training."""

    name = "weight"
    schema: ClassVar = {
        "type": ["number", "null"],
        "minimum": 0,
        "description": "1 if none is given.",
    }
    asked = Asked(
        float,
        "Factor on its loss in training.",
        "Factor on the losses of samples in training",
        {"ge": 0, "allow_inf_nan": False},
    )
    meaning = "a weight is a finite float32, 0 or more"

    def __init__(self, model: Model) -> None:
        # With Microsoft's artifacts the loss is one number for a batch, too.
        self._are_taken = model.engine == "sessions" and model.signature.loss_of_samples

    def parse(self, value: Any) -> Value:
        """A finite number, 0 or more; only 1 if the model's loss is one number for a batch."""
        if value is None:
            return None, None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None, f"weight {str(value)[:100]!r} is no number; {self.meaning}"
        if not 0 <= value <= LARGEST_WEIGHT:
            return None, f"weight {value} is out of range; {self.meaning}"
        if value != 1 and not self._are_taken:
            return None, f"weight: {NO_WEIGHTS}"
        return float(value), None

    def parse_text(self, text: str) -> Value:
        """The number that a text says."""
        if not text:
            return None, None
        try:
            return self.parse(float(text))
        except ValueError:
            return self.parse(text)

    def read(self, rows: NDArray[Any]) -> tuple[list[Any], dict[int, str]]:
        """Integers are weights too."""
        return super().read(rows.astype("float64"))


COLUMNS: tuple[type[Column], ...] = (KeyColumn, SplitColumn, PinnedColumn, WeightColumn)
"""All but the label, which service/samples/ingest/labels.py reads, in the order of errors."""
ASKED: dict[str, Asked] = {column.name: column.asked for column in COLUMNS if column.asked}
"""Columns that requests and commands derive their parameters from."""
