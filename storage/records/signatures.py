"""What a model takes, and what a label of it is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input of a model. shape: of one sample, without the batch axis."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """What a label is.

    dtype: `int64` (class indices, or what a loss of the model's own takes) or `float32`. shape: of
    one label, `()` for one class index. num_classes: for class indices, labels are in
    [0, num_classes). classes: their names, or None.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_classes: int | None = None
    classes: tuple[str, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the loss takes no label; each sample then has an empty one."""
        return 0 in self.shape


NO_TARGET = TargetSpec("", "float32", (0,))


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs in graph order, and the target. loss_of_samples: the loss has a number for each."""

    inputs: tuple[TensorSpec, ...]
    target: TargetSpec
    loss_of_samples: bool = True


def dump_signature(signature: Signature) -> str:
    """JSON, as a column holds it."""
    return json.dumps(asdict(signature), ensure_ascii=False, separators=(",", ":"))


def load_signature(text: str) -> Signature:
    """What `dump_signature` wrote."""
    fields = json.loads(text)
    target = fields["target"]
    classes = target["classes"]
    return Signature(
        inputs=tuple(
            TensorSpec(name=each["name"], dtype=each["dtype"], shape=tuple(each["shape"]))
            for each in fields["inputs"]
        ),
        target=TargetSpec(
            name=target["name"],
            dtype=target["dtype"],
            shape=tuple(target["shape"]),
            num_classes=target["num_classes"],
            classes=None if classes is None else tuple(classes),
        ),
        loss_of_samples=fields.get("loss_of_samples", True),
    )
