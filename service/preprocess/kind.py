"""The interface that every kind of preprocessing implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from storage.arrays import NDArray
from storage.records.signatures import TargetSpec, TensorSpec

if TYPE_CHECKING:
    from service.preprocess.augmentation.draws import Draws
    from service.preprocess.augmentation.family import Family
    from service.preprocess.augmentation.mixing import Mix

TOO_LARGE = "it does not fit into memory when it is decoded; send a smaller one"
Row: TypeAlias = "NDArray[np.uint8]"
Normalize: TypeAlias = "Callable[[Row, NDArray[np.float32]], None]"


class Unreadable(Exception):
    """An app's data cannot be turned into a tensor; the text gives the reason for people."""


class Kind(ABC):
    """The preprocessing of one input. input: its name. augment: of its training samples."""

    kind: ClassVar[str]
    input: str
    augment: Family | None = None

    @classmethod
    @abstractmethod
    def parse(cls, description: Mapping[str, Any], spec: TensorSpec) -> Kind:
        """Read the description of an input. Raises WrongDescription."""

    @classmethod
    def parse_among(cls, description: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> Kind:
        """The same; specs: of all inputs, by name."""
        return cls.parse(description, specs[description["input"]])

    @staticmethod
    def usual_input(names: Sequence[str]) -> str | None:
        """The input that a description means which names none. names: of all inputs."""
        return names[0] if len(names) == 1 else None

    @classmethod
    def sizes(cls, description: Mapping[str, Any]) -> tuple[int | None, ...]:
        """Of a sample's axes, as an unchecked description says them; None for the file's own."""
        del description
        return ()

    def at(self, tokenizer: str | None, *, has_spans: bool = False) -> Kind:
        """With what is known of the model. tokenizer: path of its file. has_spans: whether labels
        are spans of a text.
        """
        del tokenizer, has_spans
        return self

    @property
    def mix(self) -> Mix | None:
        """The last step for batches in training."""
        return None if self.augment is None else self.augment.mix()

    def check_target(self, target: TargetSpec) -> None:  # noqa: B027 - most make no labels
        """Raises WrongDescription if labels that it makes are not those of the model."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """The complete description, from which an app can do the same preprocessing."""


class FileKind(Kind):
    """Preprocessing of the only input of a model whose samples are files, stored as they were sent.

    A decoded file is a row: bytes that are kept between jobs, and become a tensor batch by batch.
    thing, things: the word for such files in messages. wanted: what to send. shape, dtype: of a
    tensor. feeds_several: whether a file may feed several inputs.
    """

    thing: ClassVar[str]
    things: ClassVar[str]
    wanted: ClassVar[str]
    media_types: ClassVar[tuple[str, ...]]
    feeds_several: ClassVar[bool] = False

    dtype: str

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """Bytes of a row."""

    @property
    @abstractmethod
    def row_key(self) -> str:
        """A hash that changes whenever the rows would change."""

    @abstractmethod
    def check(self, data: bytes) -> str:
        """The media type of a file, by its header alone.

        Raises Unreadable if it is of another kind, truncated, or cannot be decoded according to its
        header.
        """

    @property
    def keeps_less(self) -> bool:
        """Whether less is stored than what was sent."""
        return False

    def kept(self, data: bytes) -> bytes:
        """What is stored of a file that was checked."""
        return data

    def is_large(self, data: bytes) -> bool:
        """Whether it must be decoded alone. Raises Unreadable."""
        del data
        return False

    @abstractmethod
    def row(self, data: bytes) -> Row:
        """Decode a file. Raises Unreadable, MemoryError."""

    @abstractmethod
    def normalizer(self) -> Normalize:
        """A function that writes the tensor of a row into an array of this shape."""

    def changed(self, row: Row, draw: np.random.Generator) -> Row:
        """What training sees of a row."""
        del draw
        return row

    def decode(self, data: bytes) -> NDArray[Any]:
        """The tensor of one file, without a batch axis. Raises Unreadable, MemoryError."""
        tensor = np.empty(self.shape, np.float32)
        self.normalizer()(self.row(data), tensor)
        return tensor.astype(self.dtype, copy=False)

    def tensors(self, files: Sequence[bytes]) -> dict[str, NDArray[Any]]:
        """A batch by the names of the inputs. Raises Unreadable, with a file's position."""
        rows = np.empty((len(files), *self.shape), self.dtype)
        for position, data in enumerate(files):
            try:
                rows[position] = self.decode(data)
            except Unreadable as error:
                raise Unreadable(f"{self.thing} {position}: {error}") from error
            except MemoryError as error:
                raise Unreadable(f"{self.thing} {position}: {TOO_LARGE}") from error
        return {self.input: rows}


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
