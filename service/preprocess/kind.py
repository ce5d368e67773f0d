"""What every kind of preprocessing is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from storage.records.signatures import TensorSpec

TOO_LARGE = "it does not fit into memory when it is decoded; send it with fewer pixels"


class Unreadable(Exception):
    """What an app sent cannot be made into a tensor; the text says why, for people."""


class WrongDescription(Exception):
    """A description is wrong. pointer: JSON pointer within it."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(detail)
        self.pointer = pointer
        self.detail = detail


class Kind(ABC):
    """One input's preprocessing, of one kind. input: its name."""

    kind: ClassVar[str]
    input: str

    @classmethod
    @abstractmethod
    def parse(cls, given: Mapping[str, Any], spec: TensorSpec) -> Kind:
        """From a description, for an input. Raises WrongDescription."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The complete description: with it alone an app can do the same."""


class TensorKind(Kind):
    """Preprocessing of an input that apps send as a tensor.

    learn_from: how many samples it is fitted to, None where there is nothing to fit.
    """

    learn_from: int | None = None

    @abstractmethod
    def apply(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows as the model takes them, in their dtype; as they are until it is fitted."""

    @property
    def is_learned(self) -> bool:
        """Whether all is known that `apply` needs."""
        return True

    def learn(self, chunks: Iterable[NDArray[Any]]) -> TensorKind:
        """Fitted to these rows, batch first."""
        del chunks
        return self

    def opened(self) -> TensorKind:
        """As it was before it was fitted."""
        return self


def refuse_unknown(given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises WrongDescription for a field that the kind has not."""
    for name in given:
        if name not in known:
            raise WrongDescription(f"/{name}", f"unknown field {name!r}; there are {sorted(known)}")


def numbers(given: Mapping[str, Any], name: str, *, count: int) -> tuple[float, ...] | None:
    """A list of `count` finite numbers, None where there is none. Raises WrongDescription."""
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
