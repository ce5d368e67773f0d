"""Shares of many rows are run piece by piece, which changes memory and time, and no result."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from gradients import run
from onnx import TensorProto
from step_models import CLASSES, batch, compiled, perceptron

from service.training.engines.manifest import Manifest, TrainedTensor, Work
from service.training.engines.sessions import shares
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.engine import SessionsEngine
from service.training.engines.sessions.shares import (
    ELEMENTS_AT_ONCE,
    MIN_ROWS,
    rows_at_once,
    shares_of,
)
from service.training.graph.running_sums import with_running_sums
from service.training.loss import SUM
from service.training.optimizer.options import OptimizerOptions

RECIPE = OptimizerOptions("sgd", momentum=0.5)


@pytest.fixture(params=[False, True], ids=["gradients put by", "gradients added up"])
def adds_up(request: pytest.FixtureRequest) -> bool:
    """Whether the step is one for few rows, which adds its gradients up by itself."""
    return bool(request.param)


def engines(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, threads: int, adds_up: bool = False
) -> tuple[SessionsEngine, SessionsEngine]:
    """One that takes at most four rows at once, and one that takes all."""
    files = compiled(perceptron(), folder / "model")
    whole = SessionsEngine(files, threads=threads, optimizer_options=RECIPE)
    if adds_up:
        with monkeypatch.context() as patch:
            patch.setattr(shares, "ELEMENTS_AT_ONCE", 1)
            files = compiled(perceptron(), folder / "adds up")
    pieces = SessionsEngine(files, threads=threads, optimizer_options=RECIPE, trains=False)
    pieces._state.rows = 4
    assert pieces._training.adds_up == adds_up
    return pieces, whole


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 4, 5, 9, 30])
def test_a_step_in_pieces_is_that_of_the_whole_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, size: int, adds_up: bool
) -> None:
    pieces, whole = engines(tmp_path, monkeypatch, threads=threads, adds_up=adds_up)
    for number in range(3):
        losses = [each.train_batch(*batch(number, size)) for each in (pieces, whole)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
        for each in (pieces, whole):
            each.train_batch(*batch(number + 5, size))
            each.step(0.3)
    assert_same(pieces, whole)


def test_a_share_of_many_rows_takes_several_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adds_up: bool
) -> None:
    pieces, whole = engines(tmp_path, monkeypatch, threads=1, adds_up=adds_up)
    sizes: list[int] = []
    read = Binding.read

    def recorded(binding: Binding, name: str, array: np.ndarray) -> None:
        if name == "x":
            sizes.append(len(array))
        read(binding, name, array)

    monkeypatch.setattr(Binding, "read", recorded)
    pieces.train_batch(*batch(0, 9))
    whole.train_batch(*batch(0, 9))
    assert sizes == [3, 3, 3, 9]


def assert_same(engine: SessionsEngine, other: SessionsEngine) -> None:
    for name, values in engine._state.parameters.items():
        np.testing.assert_allclose(values, other._state.parameters[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("run", [1, 2, 3, 4])
def test_a_run_that_memory_did_not_suffice_for_leaves_nothing_in_the_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: int, adds_up: bool
) -> None:
    pieces, whole = engines(tmp_path, monkeypatch, threads=1, adds_up=adds_up)
    compute, counted = Binding.run, itertools.count(1)

    def short_of_memory(binding: Binding) -> None:
        compute(binding)
        if next(counted) == run:
            raise MemoryError

    for number in (0, 1):
        whole.train_batch(*batch(number, 9))
    monkeypatch.setattr(Binding, "run", short_of_memory)
    for number in (0, 1):
        pieces.train_batch(*batch(number, 9))
    for each in (pieces, whole):
        each.step(0.3)
    assert_same(pieces, whole)


def test_all_gradients_that_one_node_makes_are_added_up() -> None:
    kind, names = TensorProto.FLOAT, ["one", "two"]
    step = onnx.helper.make_graph(
        [onnx.helper.make_node("Split", ["x"], names, axis=0, num_outputs=2)],
        "step",
        [onnx.helper.make_tensor_value_info("x", kind, [4])],
        [onnx.helper.make_tensor_value_info(name, kind, [2]) for name in names],
    )
    imports = [onnx.helper.make_opsetid("", 18)]
    model = onnx.helper.make_model(step, opset_imports=imports, ir_version=10)
    there = {f"{SUM}{name}": np.full(2, 10, np.float32) for name in names}
    found = run(with_running_sums(model, names), {"x": np.arange(4, dtype=np.float32), **there})
    assert {name: each.tolist() for name, each in found.items()} == {
        "one": [10, 11],
        "two": [12, 13],
    }


def test_samples_keep_their_weights_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adds_up: bool
) -> None:
    pieces, whole = engines(tmp_path, monkeypatch, threads=2, adds_up=adds_up)
    inputs, labels = batch(1, 19)
    weights = np.linspace(0, 2, 19, dtype=np.float32)
    for each in (pieces, whole):
        each.train_batch(inputs, labels, weights)
        each.step(0.3)
    assert_same(pieces, whole)


def test_a_small_batch_after_a_large_one_has_its_own_gradients_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adds_up: bool
) -> None:
    pieces, whole = engines(tmp_path, monkeypatch, threads=2, adds_up=adds_up)
    for size in (30, 3, 1, 18):
        for each in (pieces, whole):
            each.train_batch(*batch(size, size))
            each.step(0.3)
    assert_same(pieces, whole)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 8, 21])
def test_an_evaluation_in_pieces_keeps_the_order_of_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, size: int
) -> None:
    pieces, whole = engines(tmp_path, monkeypatch, threads=threads)
    loss, outputs = pieces.evaluate(*batch(3, size))
    expected_loss, expected = whole.evaluate(*batch(3, size))
    assert outputs.shape == (size, CLASSES)
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


def manifest(
    elements: int,
    *,
    multiplications: int = 0,
    parameters: int = 10,
    batch_statistics: bool = False,
    least_rows: int = 0,
) -> Manifest:
    return Manifest(
        engine="sessions",
        inputs=("x",),
        output="y",
        parameters=(TrainedTensor("w", (parameters,)),),
        work=Work(multiplications, elements, least_rows),
        batch_statistics=batch_statistics,
    )


def test_a_run_takes_as_many_rows_as_fit_into_the_cache() -> None:
    assert rows_at_once(manifest(ELEMENTS_AT_ONCE // 20)) == 20


def test_a_run_takes_some_rows_even_if_one_is_large() -> None:
    assert rows_at_once(manifest(10 * ELEMENTS_AT_ONCE)) == MIN_ROWS


def test_a_run_takes_at_least_what_its_step_needs() -> None:
    assert rows_at_once(manifest(ELEMENTS_AT_ONCE // 20, least_rows=32)) == 32


def test_a_run_gives_as_much_as_the_gradients_that_it_adds_up() -> None:
    assert rows_at_once(manifest(1 << 20, parameters=1 << 27)) == 128


@pytest.mark.parametrize("known", [manifest(0), manifest(1 << 20, batch_statistics=True)])
def test_batches_stay_whole_where_rows_depend_on_each_other_or_nothing_is_known(
    known: Manifest,
) -> None:
    assert rows_at_once(known) is None


@pytest.mark.parametrize(("parameters", "shares"), [(10_000, 2), (30_000, 2), (1_000_000, 1)])
def test_a_model_of_large_tables_writes_their_gradients_once(parameters: int, shares: int) -> None:
    dense = manifest(100, multiplications=30_000, parameters=parameters)
    assert shares_of(dense, threads=2) == shares
