"""Kind `standardize`: (x - mean) / std for each feature; both are given, or learned once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from service.preprocess.augmentation.draws import Draws
from service.preprocess.augmentation.family import augment_field
from service.preprocess.augmentation.series import SeriesAugmentation
from service.preprocess.checks import WrongDescription, numbers, refuse_unknown
from service.preprocess.kind import TensorKind
from storage.arrays import NDArray
from storage.records.signatures import TensorSpec

LEARN_FROM = 1000
MOST_LEARN_FROM = 1_000_000
FIELDS = ("input", "kind", "mean", "std", "learn_from", "augment")


@dataclass(frozen=True)
class Standardize(TensorKind):
    """mean, std: one value per feature (the input's last axis); None until learned.

    learn_from: how many samples to learn from; None if mean and std were given.
    """

    kind: ClassVar[str] = "standardize"

    input: str
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    learn_from: int | None
    augment: SeriesAugmentation | None = None

    @classmethod
    def parse(cls, description: Mapping[str, Any], spec: TensorSpec) -> Standardize:
        """Raises WrongDescription."""
        refuse_unknown(description, FIELDS)
        if np.dtype(spec.dtype).kind != "f":
            raise WrongDescription("/kind", f"{spec.dtype} values cannot be standardized")
        features = spec.shape[-1] if spec.shape else 1
        mean, std = (numbers(description, name, count=features) for name in ("mean", "std"))
        if (mean is None) != (std is None):
            raise WrongDescription("/std", "give mean and std, or neither to have both learned")
        if std is not None and min(std, default=1.0) <= 0:
            raise WrongDescription("/std", "every standard deviation is above 0")
        learn_from = description.get("learn_from", LEARN_FROM if mean is None else None)
        if learn_from is not None and not _is_count(learn_from):
            detail = f"learn_from is an integer from 2 to {MOST_LEARN_FROM}"
            raise WrongDescription("/learn_from", detail)
        augment = SeriesAugmentation.parse(description.get("augment"))
        if augment is not None:
            augment.check_shape(spec)
        return cls(spec.name, mean, std, learn_from, augment)

    @property
    def is_learned(self) -> bool:
        """Whether mean and std are known."""
        return self.mean is not None

    def describe(self) -> dict[str, Any]:
        return {
            "input": self.input,
            "kind": self.kind,
            "mean": None if self.mean is None else list(self.mean),
            "std": None if self.std is None else list(self.std),
            **({} if self.learn_from is None else {"learn_from": self.learn_from}),
            **augment_field(self.augment),
        }

    def apply(self, rows: NDArray[Any]) -> NDArray[Any]:
        """(rows - mean) / std in the rows' dtype; the rows unchanged until both are learned."""
        if self.mean is None or self.std is None:
            return rows
        scaled: NDArray[Any] = rows - np.asarray(self.mean, rows.dtype)
        scaled /= np.asarray(self.std, rows.dtype)
        return scaled

    def augmented(
        self, rows: NDArray[Any], ids: Sequence[int], draws: Draws, *, place: int
    ) -> NDArray[Any]:
        return rows if self.augment is None else self.augment.apply(rows, ids, draws, place=place)

    def opened(self) -> Standardize:
        return replace(self, mean=None, std=None)

    def learn(self, chunks: Iterable[NDArray[Any]]) -> Standardize:
        """Learn mean and std from rows, batch first; a feature that never varies gets std 1.

        Chunks are merged in float64. Source: Chan, Golub, LeVeque (1983), equation 2.1.
        """
        count, mean, squares = 0, np.zeros(1), np.zeros(1)
        for chunk in chunks:
            values = chunk.reshape(-1, chunk.shape[-1] if chunk.ndim > 1 else 1).astype(np.float64)
            more, its_mean = len(values), values.mean(axis=0)
            its_squares = ((values - its_mean) ** 2).sum(axis=0)
            mean = mean if count else its_mean
            total, apart = count + more, its_mean - mean
            squares = squares + its_squares + apart**2 * (count * more / total)
            mean = mean + apart * (more / total)
            count = total
        std = np.sqrt(squares / max(1, count))
        std[std < 1e-12] = 1.0
        return replace(self, mean=tuple(mean.tolist()), std=tuple(std.tolist()))


def _is_count(value: Any) -> bool:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return is_integer and 2 <= value <= MOST_LEARN_FROM
