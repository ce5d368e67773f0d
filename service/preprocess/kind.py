"""The interface that every kind of preprocessing implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import NDArray

from service.preprocess.augmentation.draws import Draws
from service.preprocess.augmentation.family import Family
from service.preprocess.augmentation.mixing import Mix
from storage.records.signatures import TensorSpec

TOO_LARGE = "it does not fit into memory when it is decoded; send it with fewer pixels"


class Unreadable(Exception):
    """An app's data cannot be turned into a tensor; the text tells a person why."""


class Kind(ABC):
    """The preprocessing of one input. input: its name. augment: of its training samples."""

    kind: ClassVar[str]
    input: str
    augment: Family | None = None

    @classmethod
    @abstractmethod
    def parse(cls, given: Mapping[str, Any], spec: TensorSpec) -> Kind:
        """Read the description of an input. Raises WrongDescription."""

    @property
    def mix(self) -> Mix | None:
        """What batches go through in training, at last."""
        return None if self.augment is None else self.augment.mix()

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

    def augmented(
        self, rows: NDArray[Any], ids: Sequence[int], draws: Draws, *, place: int
    ) -> NDArray[Any]:
        """What training sees of preprocessed rows. ids: of their samples. place: of the input."""
        del ids, draws, place
        return rows

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
