"""What an upgrade says of its file: the `spec` of `PUT …/base`, and of a vendor's statement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from service.errors import InvalidInput
from service.models.hyperparameters import requested
from service.models.specification import only_adapters
from service.training.protocol.messages.preparation import Lora
from storage.database.codec import convert
from storage.errors import Problem, pointer
from storage.records.models import BatchNorm

Running = Literal["wait", "cancel"]


class LossJson(Struct, frozen=True, forbid_unknown_fields=True):
    """A loss that the file computes itself."""

    output: str


class LoraJson(Struct, frozen=True, forbid_unknown_fields=True):
    """`Lora`, of which one target may stand alone."""

    rank: Annotated[int, Meta(ge=1, le=65_536)] = 8
    alpha: Annotated[float, Meta(gt=0, le=1_000_000)] = 16.0
    targets: str | tuple[str, ...] = ("*",)


class AdaptersJson(Struct, frozen=True, forbid_unknown_fields=True):
    """Adapters, in a list of what trains."""

    lora: LoraJson


class UpgradeSpec(Struct, frozen=True):
    """What an upgrade says of its file, as its JSON does; see `spec` in docs/upgrades.md.

    classes: of the file, in its order; None if they are the model's. hyperparameters: of the
    upgrade's jobs. preprocess: what differs from the model's. running: what becomes of a running
    or paused job of the old base. One thing of a list may stand alone.
    """

    output: str | None = None
    loss: LossJson | None = None
    trainable: str | AdaptersJson | tuple[str | AdaptersJson, ...] | None = None
    classes: tuple[str, ...] | None = None
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    preprocess: dict[str, Any] | tuple[dict[str, Any], ...] = ()
    batch_norm: BatchNorm = "inference"
    running: Running = "wait"

    @property
    def patterns(self) -> tuple[str, ...] | None:
        """Of the weights that train beside adapters."""
        return tuple(entry for entry in _listed(self.trainable) if isinstance(entry, str)) or None

    @property
    def adapters(self) -> list[Lora]:
        """One at most, if `upgrade_spec` has read it."""
        listed = [each.lora for each in _listed(self.trainable) if isinstance(each, AdaptersJson)]
        return [Lora(lora.rank, lora.alpha, _listed(lora.targets)) for lora in listed]

    @property
    def descriptions(self) -> tuple[dict[str, Any], ...]:
        """Of the preprocessing."""
        return _listed(self.preprocess)


def upgrade_spec(fields: Mapping[str, Any]) -> UpgradeSpec:
    """The spec in JSON. Raises InvalidInput."""
    problems = [*_unknown(fields)]
    at = "/spec"
    try:
        spec = convert(fields, UpgradeSpec)
        at = "/spec/hyperparameters"
        convert(spec.hyperparameters, requested())
    except msgspec.ValidationError as error:
        said, _, where = str(error).partition(" - at `$")
        problems.append(Problem(at + where.rstrip("`").replace(".", "/"), said))
    if problems:
        raise InvalidInput("the spec is wrong", problems=problems)
    only_adapters(spec.adapters)
    return spec


def _unknown(fields: Mapping[str, Any]) -> Iterator[Problem]:
    known = UpgradeSpec.__struct_fields__
    for name in fields:
        if name not in known:
            detail = f"there is no such field; there are {', '.join(known)}"
            yield Problem(pointer("spec", name), detail)


def _listed(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)
