"""A model's inputs, and the form of its labels."""

from __future__ import annotations

from msgspec import Struct

from storage.database.codec import convert, load


class TensorSpec(Struct, frozen=True):
    """One input of a model. shape: of one sample, without the batch axis."""

    name: str
    dtype: str
    shape: tuple[int, ...]


IGNORED = -100
"""The label of a position that does not count, such as padding, as in PyTorch."""


class TargetSpec(Struct, frozen=True):
    """The form of a label.

    dtype: `int64` (class indices, or what the model's own loss takes) or `float32`. shape: of
    one label, `()` for one class index. num_classes: for class indices, labels are in
    [0, num_classes). classes: their names, or None; for float32, names of the label's numbers.
    class_ids: a permanent id for each class, whatever its index and name become; None for 0, 1, …
    classes_made: how many ids were ever assigned, since none is reused; None for num_classes.
    may_ignore: whether positions may have the label IGNORED, and numbers be NaN, which do not
    count. span_types: if a label is spans of a text, of these types, stored as JSON. box_classes:
    if a label is boxes on a photo, at most shape[0], each of one of so many classes, stored as
    JSON.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_classes: int | None = None
    classes: tuple[str, ...] | None = None
    class_ids: tuple[int, ...] | None = None
    classes_made: int | None = None
    may_ignore: bool = False
    span_types: tuple[str, ...] | None = None
    box_classes: int | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        """The id of each class, by its index."""
        return tuple(range(self.num_classes or 0)) if self.class_ids is None else self.class_ids

    @property
    def number_names(self) -> tuple[str, ...]:
        """The names of a label's numbers; empty for other labels, and without names."""
        are_names = self.dtype == "float32" and self.box_classes is None
        return (self.classes or ()) if are_names else ()

    @property
    def is_empty(self) -> bool:
        """Whether the loss takes no label; each sample then has an empty one."""
        return 0 in self.shape and self.span_types is None


NO_TARGET = TargetSpec("", "float32", (0,))


class Signature(Struct, frozen=True):
    """Inputs in graph order, and the target. loss_of_samples: the loss has a value per sample."""

    inputs: tuple[TensorSpec, ...]
    target: TargetSpec
    loss_of_samples: bool = True


def load_target(text: str) -> TargetSpec:
    """Parse the JSON of a signature's target."""
    return convert(load(text), TargetSpec)
