"""What a model takes, and what a label of it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input of a model. shape: of one sample, without the batch axis."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """What a label is.

    dtype: `int64` (class indices) or `float32`. shape: of one label, `()` for one class index.
    num_classes: for class indices, labels are in [0, num_classes). classes: their names, or None.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_classes: int | None = None
    classes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs in graph order, and the target."""

    inputs: tuple[TensorSpec, ...]
    target: TargetSpec
