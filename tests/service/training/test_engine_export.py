from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.training.engine import Engine
from service.training.engines.opening import open_engine
from service.training.errors import ExportMismatch, LossNotFinite
from service.training.export.export import TOLERANCE, check_export, compare, export
from service.training.protocol.messages.shared import Artifacts


@pytest.fixture
def engine(make_artifacts: Callable[..., Artifacts]) -> Engine:
    return open_engine(make_artifacts(), output="logits", threads=1)


def batches(fill: float = 1.0) -> list[tuple[tuple[Any, ...], tuple[Any, ...], Any]]:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((8, 6)) * fill).astype(np.float32)
    return [((x,), (x,), np.zeros(8, np.int64))]


def test_an_export_that_computes_the_same_is_kept(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    export(
        engine,
        path,
        input_names=["x"],
        batches=batches(),
        threads=1,
        provenance={},
    )
    assert path.stat().st_size > 0


def test_an_export_of_other_parameters_is_a_mismatch(
    engine: Engine, make_artifacts: Callable[..., Artifacts], tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    open_engine(make_artifacts(seed=1), output="logits", threads=1).export(path)
    with pytest.raises(ExportMismatch, match="differs from the trained one by"):
        check_export(engine, path, input_names=["x"], batches=batches(), threads=1)


@pytest.mark.parametrize("content", [b"", b"\x08\x09 this is no graph"])
def test_an_export_that_does_not_load_is_a_mismatch(
    engine: Engine, tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(ExportMismatch, match="does not load"):
        check_export(engine, path, input_names=["x"], batches=batches(), threads=1)


def test_parameters_that_are_not_finite_are_named_as_such(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(LossNotFinite, match="learning_rate"):
        export(
            engine,
            tmp_path / "m.onnx",
            input_names=["x"],
            batches=batches(np.nan),
            threads=1,
            provenance={},
        )


def test_the_tolerance_grows_with_the_outputs() -> None:
    expected = np.array([[0.0, 999.0]], np.float32)
    compare(expected + 0.9 * TOLERANCE * 1000, expected)
    with pytest.raises(ExportMismatch):
        compare(expected + 1.1 * TOLERANCE * 1000, expected)


def test_equal_infinities_agree_and_nan_never_does() -> None:
    masked = np.array([[1.0, -np.inf]], np.float32)
    compare(masked, masked)
    for wrong in ([[1.0, 2.0]], [[1.0, np.nan]], [[1.0, np.inf]]):
        with pytest.raises(ExportMismatch):
            compare(np.array(wrong, np.float32), masked)


def test_another_shape_is_a_mismatch() -> None:
    with pytest.raises(ExportMismatch, match="shape"):
        compare(np.zeros((2, 3)), np.zeros((2, 4)))
