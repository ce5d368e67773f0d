"""What the families of augmentations share: how amounts are declared, checked and described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_type_hints

from msgspec import Struct

from service.preprocess.augmentation.mixing import Mix
from service.preprocess.checks import WrongDescription, is_number
from storage.records.signatures import Signature

Self = TypeVar("Self", bound="Family")


class Amount(Struct, frozen=True):
    """A field of a family.

    text: description for people. moves: whether it moves positions that labels may refer to.
    """

    text: str
    least: float = 0
    most: float = 1
    moves: bool = False


class Family(Struct, frozen=True):
    """The augmentations of one kind of input; one whose amount is 0 is off.

    MIXES: those that mix two samples of a batch, applied last. views: the number of views of a
    sample whose features are cached for a frozen part; the first is the sample itself.
    """

    kind: ClassVar[str]
    MIXES: ClassVar[tuple[str, ...]] = ("mixup",)

    mixup: Annotated[
        float, Amount("alpha of the Beta distribution of factors (Zhang et al. 2018)", 0, 10)
    ] = 0
    views: Annotated[int, Amount("views of a sample whose features are kept", 2, 64)] = 4

    @classmethod
    def parse(cls: type[Self], description: Any) -> Self | None:
        """Read the `augment` of a description; None if nothing is on. Raises
        WrongDescription."""
        if description is None:
            return None
        if not isinstance(description, Mapping):
            raise WrongDescription("/augment", f"augment is an object, not {description!r}")
        amounts = cls.amounts()
        for name, value in description.items():
            at = f"/augment/{name}"
            if name not in amounts:
                detail = f"kind {cls.kind!r} has no augmentation {name!r}; it has"
                raise WrongDescription(at, f"{detail} {', '.join(amounts)}")
            hint, amount = amounts[name]
            fits = is_number(value) and (hint is float or isinstance(value, int))
            if not fits or not amount.least <= value <= amount.most:
                what = "an integer" if hint is int else "a number"
                detail = f"{name} is {what} from {amount.least:g} to {amount.most:g}"
                raise WrongDescription(at, f"{detail}, not {value!r}: {amount.text}")
        augmentation = cls(**description)
        return augmentation if augmentation.names else None

    @classmethod
    def amounts(cls) -> dict[str, tuple[type, Amount]]:
        """Type and declaration of each field, by name."""
        hints = get_type_hints(cls, include_extras=True)
        shared = Family.__struct_fields__
        own = [name for name in cls.__struct_fields__ if name not in shared]
        return {name: get_args(hints[name]) for name in (*own, *shared)}

    @property
    def names(self) -> list[str]:
        """The augmentations that are on."""
        hints = self.amounts()
        return [name for name, (hint, _) in hints.items() if hint is float and getattr(self, name)]

    @property
    def changes_samples(self) -> bool:
        """Whether a sample is changed by itself."""
        return any(name not in self.MIXES for name in self.names)

    def mix(self, sides: tuple[int, int] = (0, 0)) -> Mix | None:
        """sides: the axes of an image's height and width."""
        amounts = {name: getattr(self, name) for name in self.MIXES}
        return Mix(**amounts, sides=sides) if any(amounts.values()) else None

    def describe(self) -> dict[str, Any]:
        """The description that `parse` reads."""
        whole = [name for name, (hint, _) in self.amounts().items() if hint is int]
        return {name: getattr(self, name) for name in (*self.names, *whole)}

    def check_model(self, signature: Signature, *, is_cut: bool, labels_move: bool = False) -> None:
        """Raises WrongDescription if positions that labels refer to would move without the labels,
        or only a part of a sample would be mixed. is_cut: whether training sees features instead of
        inputs. labels_move: whether labels move as their samples do, unless those are mixed.
        """
        del is_cut
        target = signature.target
        if len(signature.inputs) > 1:
            for name in self.MIXES:
                if getattr(self, name):
                    detail = f"{name} mixes whole samples, and the model has several inputs"
                    raise WrongDescription(f"/augment/{name}", f"{detail}; leave it out")
        of_positions = len(target.shape) > 1 or (target.shape and target.num_classes is not None)
        moving = [name for name in self.names if self.amounts()[name][1].moves]
        if labels_move:
            moving = [name for name in moving if name in self.MIXES]
        if of_positions and moving:
            rest = [name for name, (_, amount) in self.amounts().items() if not amount.moves]
            raise WrongDescription(
                f"/augment/{moving[0]}",
                f"the model's labels are of positions, {list(target.shape)}, and {moving[0]} would"
                f" move the input alone; use {', '.join(rest)}",
            )


def augment_field(augment: Family | None) -> dict[str, Any]:
    """The entry in a kind's description; empty if nothing is on."""
    return {} if augment is None else {"augment": augment.describe()}
