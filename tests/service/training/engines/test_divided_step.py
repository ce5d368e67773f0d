"""A step for one kind of processor: weights in blocks, and their gradients, once for a batch."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx.helper import make_node
from onnx.numpy_helper import from_array
from step_models import CLASSES, compiled, model_of

from service.training.engines.manifest import Files, TrainedTensor, read_manifest, write_manifest
from service.training.engines.runtime import CPU, channel_block, open_session
from service.training.engines.sessions import model_sessions, shares
from service.training.engines.sessions.buffers import Buffers
from service.training.engines.sessions.crew import Crew
from service.training.engines.sessions.engine import SessionsEngine
from service.training.engines.sessions.once import rooms
from service.training.engines.sessions.optimizer import Optimizer
from service.training.graph.blocks.layout import DOMAIN, BlockLayout
from service.training.optimizer.layout import MAX_WIDTH, lay_out
from service.training.optimizer.options import OptimizerOptions
from service.training.optimizer.rules import slots
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages.preparation import Prepare

BLOCK = channel_block()
pytestmark = pytest.mark.skipif(BLOCK is None, reason="the runtime has no layout of its own here")
ROWS, SIDE = 4, 7
RECIPE = OptimizerOptions("adamw")


def network() -> onnx.ModelProto:
    """Convolutions with weights in blocks, a depthwise one, and one with more than they meet."""
    rng = np.random.default_rng(0)
    shapes = {
        "a": (32, 3, 3, 3),
        "b": (32, 1, 3, 3),
        "c": (64, 32, 3, 3),
        "d": (256, 64, 3, 3),
        "head": (CLASSES, 256),
    }
    weights = [
        from_array((rng.standard_normal(shape) * 0.1).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    scale, shift, mean, variance = (f"norm.{each}" for each in ("s", "h", "m", "v"))
    weights += [from_array(np.full(32, 0.9, np.float32), name) for name in (scale, shift, mean)]
    weights.append(from_array(np.ones(32, np.float32), variance))
    same = {"pads": [1, 1, 1, 1]}
    nodes = [
        make_node("Conv", ["x", "a"], ["a1"], "a", **same),
        make_node("BatchNormalization", ["a1", scale, shift, mean, variance], ["a2"], "norm"),
        make_node("Sigmoid", ["a2"], ["a3"], "sigmoid"),
        make_node("Conv", ["a3", "b"], ["b1"], "b", group=32, **same),
        make_node("Conv", ["b1", "c"], ["c1"], "c", strides=[2, 2]),
        make_node("Tanh", ["c1"], ["c2"], "tanh"),
        make_node("Conv", ["c2", "d"], ["d1"], "d", pads=[1, 1, 0, 0]),
        make_node("GlobalAveragePool", ["d1"], ["d2"], "mean"),
        make_node("Flatten", ["d2"], ["d3"], "flatten"),
        make_node("Transpose", ["head"], ["turned"], "turn", perm=[1, 0]),
        make_node("MatMul", ["d3", "turned"], ["logits"], "head"),
    ]
    inputs = {"x": ["batch", 3, SIDE, SIDE]}
    return model_of(nodes, inputs, {"logits": ["batch", CLASSES]}, weights)


def pooled_network(channels: int, side: int) -> onnx.ModelProto:
    """Two convolutions, each with its pool: without blocks, they become matrix products."""
    rng = np.random.default_rng(0)
    behind = (side // 4) ** 2 * 2 * channels
    shapes = {
        "a": (channels, 3, 3, 3),
        "b": (2 * channels, channels, 3, 3),
        "head": (CLASSES, behind),
    }
    weights = [
        from_array((rng.standard_normal(shape) * 0.1).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = []
    for name, source in (("a", "x"), ("b", "a3")):
        nodes += [
            make_node("Conv", [source, name], [f"{name}1"], name, pads=[1, 1, 1, 1]),
            make_node("Relu", [f"{name}1"], [f"{name}2"], f"{name}.relu"),
            make_node(
                "MaxPool",
                [f"{name}2"],
                [f"{name}3"],
                f"{name}.pool",
                kernel_shape=[2, 2],
                strides=[2, 2],
            ),
        ]
    nodes.append(make_node("Flatten", ["b3"], ["c"], "flatten"))
    nodes.append(make_node("Gemm", ["c", "head"], ["logits"], "head", transB=1))
    inputs = {"x": ["batch", 3, side, side]}
    return model_of(nodes, inputs, {"logits": ["batch", CLASSES]}, weights)


TRAINED = ("a", "b", "c", "d", "head", "norm.s", "norm.h")


def batch(number: int, size: int) -> tuple[list[Any], Any]:
    rng = np.random.default_rng(number)
    x = rng.standard_normal((size, 3, SIDE, SIDE)).astype(np.float32)
    return [x], rng.integers(0, CLASSES, size)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("divided")
    layout = BlockLayout(BLOCK or 1, ROWS)
    return compiled(network(), folder, parameters=TRAINED, layout=layout)


def trained(own: SessionsEngine, sizes: list[int], path: Path) -> str:
    """A digest of the checkpoint after a step on batches of these sizes, two to a step."""
    for number, size in enumerate(sizes):
        own.train_batch(*batch(number, size))
        own.train_batch(*batch(number + 50, size))
        own.step(1e-3)
    own.save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_model_has_graphs_that_run_once_for_a_batch(files: Files) -> None:
    assert files.weights_model is not None
    assert files.weights_model.is_file()
    assert read_manifest(files.manifest).optimized_rows == ROWS
    assert files.optimized_step_model is not None
    graph = onnx.load(files.optimized_step_model).graph
    read, written = ({value.name for value in values} for values in (graph.input, graph.output))
    assert "d" in read  # has more weights than what they meet
    assert "hone.gradient.d" not in written  # a product of what all runs give
    assert "head" in read  # turned for a product
    assert read.isdisjoint({"a", "b", "c", "norm.s"})


@pytest.mark.parametrize(
    ("blocks", "side", "taken"), [(1, 32, True), (0.5, 32, False), (1, 4, False)]
)
def test_convolutions_with_pools_are_in_blocks_if_that_pays(
    tmp_path: Path, blocks: float, side: int, taken: bool
) -> None:
    model = pooled_network(int(blocks * (BLOCK or 1)), side)
    onnx.save_model(model, tmp_path / "model.onnx")
    asked = Prepare(str(tmp_path / "model.onnx"), "forward", str(tmp_path), "cross_entropy")
    prepared = make_step_models(tmp_path / "model.onnx", asked)
    assert prepared.artifacts.manifest is not None
    rows = read_manifest(Path(prepared.artifacts.manifest)).optimized_rows
    assert (rows is not None) == taken


def test_convolutions_of_single_places_are_in_blocks(tmp_path: Path) -> None:
    block = BLOCK or 1
    sizes = {"a": (2 * block, block), "b": (4 * block, 2 * block), "head": (CLASSES, 4 * block)}
    shapes = {name: (*pair, 1, 1) if name != "head" else pair for name, pair in sizes.items()}
    rng = np.random.default_rng(0)
    weights = [
        from_array((rng.standard_normal(shape) * 0.1).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        make_node("Conv", ["x", "a"], ["a1"], "a"),
        make_node("Relu", ["a1"], ["a2"], "relu"),
        make_node("Conv", ["a2", "b"], ["b1"], "b"),
        make_node("GlobalAveragePool", ["b1"], ["c"], "mean"),
        make_node("Flatten", ["c"], ["d"], "flatten"),
        make_node("Gemm", ["d", "head"], ["logits"], "head", transB=1),
    ]
    inputs = {"x": ["batch", block, SIDE, SIDE]}
    model = model_of(nodes, inputs, {"logits": ["batch", CLASSES]}, weights)
    onnx.save_model(model, tmp_path / "model.onnx")
    asked = Prepare(str(tmp_path / "model.onnx"), "forward", str(tmp_path), "cross_entropy")
    prepared = make_step_models(tmp_path / "model.onnx", asked)
    path = prepared.artifacts.optimized_step_model
    assert path is not None
    assert DOMAIN in {node.domain for node in onnx.load(path).graph.node}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [1, 3, 4, 19, 140])
def test_it_trains_as_the_step_of_any_processor(
    files: Files, tmp_path: Path, threads: int, size: int
) -> None:
    own = SessionsEngine(files, threads=threads, optimizer_options=RECIPE)
    elsewhere = replace(files, manifest=tmp_path / "manifest.json")
    other = replace(read_manifest(files.manifest), optimized_for="another processor")
    write_manifest(other, elsewhere.manifest)
    plain = SessionsEngine(elsewhere, threads=threads, optimizer_options=RECIPE)
    for each in (own, plain):
        trained(each, [size] * 3, tmp_path / "checkpoint")
    inputs, labels = batch(99, 5)
    found, expected = own.evaluate(inputs, labels), plain.evaluate(inputs, labels)
    assert found[0] == pytest.approx(expected[0], rel=1e-4)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_job_that_goes_on_from_a_checkpoint_has_the_same_bits(
    files: Files, tmp_path: Path, threads: int
) -> None:
    whole = trained(
        SessionsEngine(files, threads=threads, optimizer_options=RECIPE), [9, 2], tmp_path / "a"
    )
    first = SessionsEngine(files, threads=threads, optimizer_options=RECIPE)
    trained(first, [9], tmp_path / "b")
    second = SessionsEngine(
        files, threads=threads, optimizer_options=RECIPE, checkpoint=tmp_path / "b"
    )
    second.train_batch(*batch(1, 2))
    second.train_batch(*batch(51, 2))
    second.step(1e-3)
    second.save(tmp_path / "c")
    assert hashlib.sha256((tmp_path / "c").read_bytes()).hexdigest() == whole


def test_batches_of_more_runs_than_are_kept_train_in_pieces(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for kept in (shares.RUNS_KEPT, 1):
        monkeypatch.setattr(shares, "RUNS_KEPT", kept)
        engine = SessionsEngine(files, threads=2, optimizer_options=RECIPE)
        assert engine._training.at_once(19) == (19 if kept > 1 else 7)
        trained(engine, [19], tmp_path / "checkpoint")
        found.append(engine.evaluate(*batch(99, 5))[1])
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-4)


def test_it_trains_on_after_a_provider_was_refused(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another provider takes the undivided step, here on the only one that this runtime has."""

    def opened(*arguments: Any, provider: object = None, **options: Any) -> Any:
        return open_session(*arguments, **options)

    monkeypatch.setattr(model_sessions, "open_session", opened)
    asked, plain = (SessionsEngine(files, threads=2, optimizer_options=RECIPE) for _ in range(2))
    (x,), labels = batch(9, 3)
    asked._results([x], labels, asked._sessions.step(("another", {})))
    assert asked.use((CPU, {}), [np.full_like(x, np.nan)], labels) is not None
    assert trained(asked, [3], tmp_path / "a") == trained(plain, [3], tmp_path / "b")


def test_weights_in_blocks_share_memory_with_gradients_that_are_made_after_the_runs(
    files: Files,
) -> None:
    engine = SessionsEngine(files, threads=2, optimizer_options=RECIPE)
    once, buffers = engine._training._once, engine._state.buffers
    assert once is not None
    assert any(np.shares_memory(each, buffers.gradients[0]) for each in once.made.values())
    engine.train_batch(*batch(0, 5))
    for view in buffers.views(buffers.gradients[0]).values():
        view.fill(0)
    assert not buffers.gradients[0].any()  # a norm of gradients is of whole rows


def test_rooms_are_apart_and_only_in_free_memory() -> None:
    flat = np.zeros(400, np.float32)
    free = [flat[64:160], flat[0:64], flat[176:256].reshape(8, 10)]
    sizes = {"small": (3, 5), "large": (10, 16), "new": (9, 9, 2), "next": (64,)}
    found = rooms(sizes, flat, free)
    assert {name: each.shape for name, each in found.items()} == sizes
    for each in found.values():
        assert not each.any()
        each.fill(1)
    assert flat[:160].all()
    assert not flat[160:176].any()
    assert flat[176:].sum() == 64 + 15


def test_only_the_first_share_needs_memory_for_gradients_that_are_made_once() -> None:
    """A row of the buffers is read of other shares only if their runs write to it."""
    once, split = TrainedTensor("once", (2 * MAX_WIDTH,)), TrainedTensor("split", (8,))
    sizes = {each.name: each.shape for each in (once, split)}
    buffers = Buffers(
        [once, split], lay_out(sizes, RECIPE, threads=1), shares=2, slots=slots(RECIPE)
    )
    optimizer = Optimizer(RECIPE, buffers, threads=1, crew=Crew(), split=["split"], clears=True)
    first, second = (buffers.views(gradient) for gradient in buffers.gradients)
    for each in (first["once"], first["split"], second["split"]):
        each.fill(1)
    second["once"][:10] = np.nan
    optimizer.step(0.1, number=1)
    assert np.isfinite(buffers.parameters).all()
    assert not first["once"].any()
    assert not second["split"].any()
