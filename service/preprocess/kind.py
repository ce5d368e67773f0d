"""The interface that every kind of preprocessing implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from storage.records.signatures import TensorSpec

TOO_LARGE = "it does not fit into memory when it is decoded; send it with fewer pixels"


class Unreadable(Exception):
    """An app's data cannot be turned into a tensor; the text tells a person why."""


class WrongDescription(Exception):
    """A description is invalid. pointer: JSON pointer within it."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(detail)
        self.pointer = pointer
        self.detail = detail


class Kind(ABC):
    """The preprocessing of one input. input: its name."""

    kind: ClassVar[str]
    input: str

    @classmethod
    @abstractmethod
    def parse(cls, given: Mapping[str, Any], spec: TensorSpec) -> Kind:
        """Read the description of an input. Raises WrongDescription."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The complete description, from which an app can do the same preprocessing."""


class TensorKind(Kind):
    """Preprocessing of an input that apps send as a tensor.

    learn_from: how many samples to fit it to; None if there is nothing to fit.
    """

    learn_from: int | None = None

    @abstractmethod
    def apply(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Preprocess rows, keeping their dtype; rows are returned unchanged until it is fitted."""

    @property
    def is_learned(self) -> bool:
        """Whether it is fitted."""
        return True

    def learn(self, chunks: Iterable[NDArray[Any]]) -> TensorKind:
        """Fit to these rows, batch first; returns the fitted one."""
        del chunks
        return self

    def opened(self) -> TensorKind:
        """The same, unfitted."""
        return self


def refuse_unknown(given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises WrongDescription for a field that this kind does not have."""
    for name in given:
        if name not in known:
            raise WrongDescription(f"/{name}", f"unknown field {name!r}; there are {sorted(known)}")


def numbers(given: Mapping[str, Any], name: str, *, count: int) -> tuple[float, ...] | None:
    """A list of `count` finite numbers; None if the field is absent. Raises WrongDescription."""
    value = given.get(name)
    if value is None:
        return None
    values = value if isinstance(value, list | tuple) else [value]
    if len(values) == 1:
        values = list(values) * count
    if len(values) != count or not all(_is_number(each) for each in values):
        raise WrongDescription(f"/{name}", f"{name} is a list of {count} numbers")
    return tuple(float(each) for each in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30
