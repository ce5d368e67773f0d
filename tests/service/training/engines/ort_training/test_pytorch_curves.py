"""Artifacts of models from PyTorch train by Microsoft's API as in PyTorch and in sessions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from service.training.engines.opening import open_engine
from service.training.optimizer.options import OptimizerOptions
from service.training.preparation.prepare import prepare
from service.training.protocol.messages.preparation import Prepare, Prepared

pytestmark = pytest.mark.usefixtures("_on_device_training")
GRAPHS = Path(__file__).parents[2] / "graphs"
CURVES: list[dict[str, Any]] = json.loads((GRAPHS / "curves.json").read_text())
CURVES = [case for case in CURVES if case["name"] != "cnn_bn_live_ts13"]
"""Whose opset 13 onnx cannot convert: its BatchNormalization has five outputs."""
BATCH, ROWS = 16, 48
OF_EACH_NETWORK = {re.sub(r"_(ts|dy)\d+", "", case["name"]): case for case in CURVES}
OF_EACH_EXPORTER = {(case["exporter"], case["opset"]): case for case in CURVES}
CHOSEN = {case["name"]: case for case in (*OF_EACH_NETWORK.values(), *OF_EACH_EXPORTER.values())}
"""One export of each network and of each exporter's opset; sessions train all of them."""
NORMALIZED = [case for name, case in OF_EACH_NETWORK.items() if name.startswith("cnn_bn")]
TOLERANCE = 5e-6
"""Of every loss of 30 steps without random operators; float32 rounding, added up, gave 7e-7."""
RANDOM_TOLERANCE = 0.05
"""Of the mean loss of the last epoch with Dropout, whose random bits are each engine's own."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Prepared]:
    """A network made ready to train, once for all tests; none of them writes into its files."""

    @cache
    def make(name: str, *, loss: str, optimizer: str, engine: str = "ort_training") -> Prepared:
        order = Prepare(
            source=str(GRAPHS / f"{name}.onnx"),
            work_dir=str(tmp_path_factory.mktemp(name)),
            form="forward",
            loss=loss,
            optimizer=optimizer,
            engine=engine,
        )
        made = prepare(order)
        assert isinstance(made, Prepared), made
        return made

    return make


def train(case: dict[str, Any], trainer: Any) -> list[float]:
    """The recipe of make.py."""
    with np.load(GRAPHS / "data.npz") as data:
        x = data[case["input"]]
        y = data["label" if case["loss"] == "cross_entropy" else "value"]
    rate = case["learning_rate"]
    batches = [slice(start, start + BATCH) for start in range(0, ROWS, BATCH)]
    epochs = len(case["losses"]) // len(batches)
    return [trainer.step(x[b], y[b], learning_rate=rate) for _ in range(epochs) for b in batches]


@pytest.mark.parametrize("case", CHOSEN.values(), ids=CHOSEN)
def test_an_exported_model_follows_the_loss_curve_of_pytorch(
    case: dict[str, Any], prepared: Callable[..., Prepared], trainer: type
) -> None:
    made = prepared(case["name"], loss=case["loss"], optimizer=case["optimizer"])
    assert made.trainable_parameters == case["parameters"]

    losses = train(case, trainer(made.artifacts))

    if case["random"]:
        assert np.mean(losses[-3:]) < np.mean(losses[:3])
        assert np.mean(losses[-3:]) == pytest.approx(
            np.mean(case["losses"][-3:]), abs=RANDOM_TOLERANCE
        )
    else:
        np.testing.assert_allclose(losses, case["losses"], rtol=0, atol=TOLERANCE)
        assert losses[-1] < losses[0]


@pytest.mark.parametrize("case", CHOSEN.values(), ids=CHOSEN)
def test_what_was_trained_is_exported_for_plain_inference(
    case: dict[str, Any], prepared: Callable[..., Prepared], trainer: type, tmp_path: Path
) -> None:
    made = prepared(case["name"], loss=case["loss"], optimizer=case["optimizer"])
    engine = trainer(made.artifacts)
    with np.load(GRAPHS / "data.npz") as data:
        x = data[case["input"]][:5]
        y = data["label" if case["loss"] == "cross_entropy" else "value"][:5]
    engine.step(x, y, learning_rate=0.01)
    _, expected = engine.evaluate(x, y)
    engine.module.export_model_for_inferencing(tmp_path / "model.onnx", [made.output])
    session = onnxruntime.InferenceSession(
        tmp_path / "model.onnx", providers=["CPUExecutionProvider"]
    )
    assert [value.name for value in session.get_inputs()] == [case["input"]]
    found = session.run([made.output], {case["input"]: x})[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", NORMALIZED, ids=lambda case: case["name"])
def test_five_steps_of_sgd_end_where_those_of_sessions_do(
    case: dict[str, Any], prepared: Callable[..., Prepared]
) -> None:
    """Running statistics of BatchNormalization included: evaluation reads them."""
    with np.load(GRAPHS / "data.npz") as data:
        x = data[case["input"]]
        y = data["label" if case["loss"] == "cross_entropy" else "value"]
    found = []
    for engine in ("ort_training", "sessions"):
        made = prepared(case["name"], loss=case["loss"], optimizer="sgd", engine=engine)
        opened = open_engine(
            made.artifacts, output=made.output, threads=1, optimizer_options=OptimizerOptions("sgd")
        )
        losses = []
        for start in range(0, 40, 8):
            losses.append(opened.train_batch([x[start : start + 8]], y[start : start + 8]))
            opened.step(0.02)
        loss, output = opened.evaluate([x[40:]], y[40:])
        found.append([*losses, loss, *output.ravel()])
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5)


def test_the_fixtures_cover_both_exporters_and_opsets_13_to_21() -> None:
    seen = {(case["exporter"], case["opset"]) for case in CHOSEN.values()}
    assert {exporter for exporter, _ in seen} == {"torchscript", "dynamo"}
    assert {opset for _, opset in seen} >= {13, 14, 15, 17, 18, 20, 21}
