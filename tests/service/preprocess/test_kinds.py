"""A kind of preprocessing is one module and its line in KINDS; nothing else has to know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from service import preprocess
from service.prediction.preparation import prepare
from service.preprocess.checks import refuse_unknown
from service.preprocess.kind import TensorKind
from service.preprocess.kinds import KINDS
from service.training.data.batches import Batches, Preprocessed
from storage.records.signatures import Signature, TargetSpec, TensorSpec

ROWS = np.arange(8, dtype=np.float32).reshape(2, 4)
SIGNATURE = Signature((TensorSpec("x", "float32", (4,)),), TargetSpec("y", "float32", ()))


@dataclass(frozen=True)
class Log(TensorKind):
    """log(1 + x)."""

    kind: ClassVar[str] = "log"
    input: str

    @classmethod
    def parse(cls, given: Mapping[str, Any], spec: TensorSpec) -> Log:
        refuse_unknown(given, ("input", "kind"))
        return cls(spec.name)

    def describe(self) -> dict[str, Any]:
        return {"input": self.input, "kind": self.kind}

    def apply(self, rows: NDArray[Any]) -> NDArray[Any]:
        return np.log1p(rows)


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], ...]:
    monkeypatch.setitem(KINDS, Log.kind, Log)
    return preprocess.parse({"kind": "log"}, SIGNATURE)


class Stored(Batches):
    def inputs(self, chosen: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        return (ROWS[chosen],)


def test_a_new_kind_is_applied_in_training_and_in_prediction(
    described: tuple[dict[str, Any], ...],
) -> None:
    pipeline = preprocess.for_signature(SIGNATURE, described)
    stored = Stored(np.arange(2), np.zeros(2), row_bytes=16)
    (trained,) = Preprocessed(stored, pipeline).inputs(np.arange(2))
    inputs = [{"name": "x", "dtype": "float32", "shape": [4]}]
    header = {"preprocess": {"descriptions": list(described), "inputs": inputs}}
    asked = prepare(header, {"x": ROWS})["x"]

    assert np.array_equal(trained, np.log1p(ROWS))
    assert np.array_equal(asked, trained)


def test_a_kind_that_has_nothing_to_fit_is_fitted(described: tuple[dict[str, Any], ...]) -> None:
    kind = preprocess.for_signature(SIGNATURE, described).kinds["x"]
    assert isinstance(kind, TensorKind)
    assert kind.is_learned
    assert kind.opened() is kind
