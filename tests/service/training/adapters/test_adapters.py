"""LoRA beside bases of each precision: what it computes, its gradients, what is exported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx.helper import make_node
from onnx.numpy_helper import from_array, to_array
from quantized import CLASSES, FEATURES, ROUNDS, STORED, network
from step_models import model_of

from service.training.engines.manifest import Files, read_manifest
from service.training.engines.provider_setting import CPU
from service.training.engines.runtime import open_session
from service.training.engines.sessions.device import DEVICES
from service.training.engines.sessions.engine import SessionsEngine
from service.training.forward import worth
from service.training.graph.flow import reads
from service.training.optimizer.options import OptimizerOptions
from service.training.preparation.prepare import prepare
from service.training.protocol.messages.preparation import Lora, Prepare, Prepared, Refused
from storage.blobs.recipes import merge

EVERYTHING = Lora(rank=3, alpha=6.0, targets=("*",))
ROWS = 12
Make = Callable[..., Prepared]


@pytest.fixture
def order(tmp_path: Path) -> Callable[..., Prepared | Refused]:
    def carry_out(model: onnx.ModelProto, lora: Lora, **choices: Any) -> Prepared | Refused:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        onnx.save(model, folder / "upload.onnx")
        choices.setdefault("loss", "cross_entropy")
        task = Prepare(str(folder / "upload.onnx"), "forward", str(folder), lora=lora, **choices)
        return prepare(task)

    return carry_out


@pytest.fixture
def make(order: Callable[..., Prepared | Refused]) -> Make:
    def prepared(model: onnx.ModelProto, lora: Lora = EVERYTHING, **choices: Any) -> Prepared:
        answer = order(model, lora, **choices)
        assert isinstance(answer, Prepared), answer
        return answer

    return prepared


def open_engine(prepared: Prepared, checkpoint: Path | None = None) -> SessionsEngine:
    files = Files.of(prepared.artifacts)
    return SessionsEngine(
        files, optimizer_options=OptimizerOptions(), threads=1, checkpoint=checkpoint
    )


def batch(seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((ROWS, FEATURES)).astype(np.float32), rng.integers(0, CLASSES, ROWS)


def moved(prepared: Prepared) -> SessionsEngine:
    """After steps that leave no adapter at 0."""
    engine = open_engine(prepared)
    for seed in range(4):
        x, label = batch(seed)
        engine.train_batch([x], label)
        engine.step(0.02)
    return engine


@pytest.mark.parametrize("name", STORED)
def test_an_untrained_adapter_changes_nothing_and_a_trained_one_lowers_the_loss(
    name: str, make: Make
) -> None:
    model, _ = network(STORED[name])
    engine = open_engine(make(model))
    x, label = batch()
    plain = open_session(model.SerializeToString(), threads=1).run(None, {"x": x})[0]
    before, logits = engine.evaluate([x], label)
    assert np.allclose(logits, plain, atol=1e-5)
    for _ in range(30):
        engine.train_batch([x], label)
        engine.step(0.02)
    assert engine.evaluate([x], label)[0] < before / 2


@pytest.mark.parametrize("name", [name for name in STORED if name != "float32"])
def test_gradients_through_a_packed_base_are_those_through_its_float_form(
    name: str, make: Make
) -> None:
    gradients: list[list[Any]] = []
    adapters: list[Any] = []
    for model in network(STORED[name]):
        engine = moved(make(model))
        x, label = batch(9)
        matrices = engine._state.parameters
        adapters = adapters or [array.copy() for array in matrices.values()]
        for array, value in zip(matrices.values(), adapters, strict=True):
            array[...] = value
        engine.train_batch([x], label)
        views = engine._state.buffers.views(engine._state.buffers.gradients[0])
        gradients.append([array.copy() for array in views.values()])
    limit = 0.05 if name in ROUNDS else 1e-4
    for packed, plain in zip(*gradients, strict=True):
        assert np.abs(packed - plain).max() <= limit * np.abs(plain).max()


@pytest.mark.parametrize("name", [name for name in STORED if name != "int4"])  # in the graph
def test_in_a_devices_memory_the_base_is_there_too(
    name: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEVICES, CPU, "cpu")
    prepared = make(network(STORED[name])[0])
    there, here = (open_engine(prepared) for _ in range(2))
    assert there.use((CPU, {}), [batch(9)[0]], batch(9)[1]) is None
    memory, base = there._state.buffers.device, there._sessions._frozen
    assert memory is not None
    assert base
    assert all(memory.address(each) is not None for each in base.values())
    for seed in range(3):
        x, label = batch(seed)
        losses = [each.train_batch([x], label) for each in (there, here)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
        for each in (there, here):
            each.step(0.02)


def test_gradients_of_both_matrices_are_central_differences(make: Make) -> None:
    engine = moved(make(network(STORED["int8"])[0]))
    x, label = batch(5)
    engine.train_batch([x], label)
    buffers = engine._state.buffers
    views = {name: array.copy() for name, array in buffers.views(buffers.gradients[0]).items()}
    rng = np.random.default_rng(0)
    for name, array in engine._state.parameters.items():
        direction = rng.standard_normal(array.shape).astype(np.float32)
        kept, losses = array.copy(), []
        for step in (1e-2, -1e-2):
            array[...] = kept + step * direction
            losses.append(engine.evaluate([x], label)[0])
        array[...] = kept
        slope = (losses[0] - losses[1]) / 2e-2
        assert slope == pytest.approx(float((views[name] * direction).sum()), rel=2e-2, abs=2e-4)


@pytest.mark.parametrize(("targets", "cut"), [("*", None), ("head.w", ("mlp.w:t",))])
def test_the_cut_is_below_products_whose_weights_versions_have_with_an_adapter(
    targets: str, cut: Any, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    weigh = worth.weigh
    monkeypatch.setattr(worth, "weigh", lambda *given: replace(weigh(*given), pays=True))
    model, _ = network(STORED["float32"])
    prepared = make(model, replace(EVERYTHING, targets=(targets,)), divide=True)
    assert (prepared.cut and prepared.cut.tensors) == cut
    made = onnx.load(prepared.artifacts.inference_model or "").graph
    assert [n.op_type for n in made.node if n.op_type != "Identity"] == [
        node.op_type for node in model.graph.node
    ]
    known = {"x", *(t.name for t in made.initializer)}
    for node in made.node:
        assert known.issuperset(node.input), node.name
        known.update(node.output)


@pytest.mark.parametrize("name", STORED)
def test_the_export_computes_what_was_trained(name: str, make: Make, tmp_path: Path) -> None:
    model, _ = network(STORED[name])
    engine = moved(make(model))
    engine.export(tmp_path / "out.onnx")
    x, label = batch(7)
    (logits,) = open_session(tmp_path / "out.onnx", threads=1).run(None, {"x": x})
    assert np.allclose(logits, engine.evaluate([x], label)[1], atol=1e-5)
    made = onnx.load(tmp_path / "out.onnx").graph
    if name == "float32":
        assert [node.op_type for node in made.node] == [n.op_type for n in model.graph.node]
        assert {t.name for t in made.initializer} == {t.name for t in model.graph.initializer}
    else:
        kept = {t.name: to_array(t) for t in made.initializer}
        for tensor in model.graph.initializer:
            assert np.array_equal(kept[tensor.name], to_array(tensor)), tensor.name


def test_gemm_and_pointwise_convolutions_are_merged_with_alpha_and_strides(
    make: Make, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    kernel = rng.standard_normal((8, 4, 1, 1)).astype(np.float32)
    matrix = rng.standard_normal((5, 8)).astype(np.float32)
    nodes = [
        make_node("Conv", ["x", "kernel"], ["c"], "conv", strides=[2, 2]),
        make_node("GlobalAveragePool", ["c"], ["p"], "pool"),
        make_node("Flatten", ["p"], ["f"], "flat"),
        make_node("Gemm", ["f", "matrix"], ["y"], "gemm", transB=1, alpha=0.5),
    ]
    weights = [
        onnx.numpy_helper.from_array(w, n) for w, n in ((kernel, "kernel"), (matrix, "matrix"))
    ]
    model = model_of(nodes, {"x": ["batch", 4, 6, 6]}, {"y": ["batch", 5]}, weights)
    engine = open_engine(make(model, loss="mse"))
    x = rng.standard_normal((ROWS, 4, 6, 6)).astype(np.float32)
    target = rng.standard_normal((ROWS, 5)).astype(np.float32)
    before = engine.evaluate([x], target)[0]
    for _ in range(20):
        engine.train_batch([x], target)
        engine.step(0.02)
    loss, y = engine.evaluate([x], target)
    assert loss < 0.8 * before
    engine.export(tmp_path / "out.onnx")
    exported = onnx.load(tmp_path / "out.onnx")
    kinds = [node.op_type for node in exported.graph.node]
    assert kinds == [*(node.op_type for node in nodes), "Mul", "Add"]  # the scale of labels
    assert np.allclose(
        open_session(tmp_path / "out.onnx", threads=1).run(None, {"x": x})[0], y, atol=1e-4
    )


def test_the_sum_is_that_of_the_paper() -> None:
    rng = np.random.default_rng(0)
    w, a, b = (rng.standard_normal(s).astype(np.float32) for s in ((6, 4), (6, 2), (2, 4)))
    assert np.allclose(merge(w, a, b, 2.0), w + 2.0 * (a @ b), atol=1e-6)


def test_a_resumed_engine_ends_with_the_same_bytes(make: Make, tmp_path: Path) -> None:
    prepared = make(network(STORED["int8"])[0])
    straight = moved(prepared)
    straight.save(tmp_path / "half")
    resumed = open_engine(prepared, checkpoint=tmp_path / "half")
    for name, engine in (("a", straight), ("b", resumed)):
        x, label = batch(8)
        engine.train_batch([x], label)
        engine.step(0.02)
        engine.export(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("name", ["float16", "int8", "integers", "int4"])
def test_no_weight_is_unpacked_for_the_backward_pass_before_its_gradient_is_there(
    name: str, make: Make
) -> None:
    prepared = make(network(STORED[name])[0])
    step = onnx.load(prepared.artifacts.training_model).graph
    made = read_manifest(Path(prepared.artifacts.manifest or ""))
    assert "attn.w" in made.frozen or name == "int4"
    assert not any(t.name in made.frozen for t in step.initializer)
    packed, fixed = {"attn.w", "mlp.w", "head.w"}, {t.name for t in step.initializer}
    unpacking = []
    for node in step.node:
        if packed.intersection(node.input) and (fixed | packed | set(made.frozen)).issuperset(
            reads(node)
        ):
            packed.update(node.output)
            unpacking.append(node.op_type)
    assert unpacking == {"float16": ["Cast"] * 3, "int8": ["DequantizeLinear"] * 3}.get(name, [])


@pytest.mark.parametrize(
    ("lora", "pointer", "said"),
    [
        (Lora(targets=("*.nothing", "mlp.*"), rank=2), "/targets/0", "the nearest weights: "),
        (Lora(targets=("*",), rank=4), "/rank", "give a rank of at most 3, or leave"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_remedy(
    lora: Lora, pointer: str, said: str, order: Callable[..., Prepared | Refused]
) -> None:
    answer = order(network(STORED["int8"])[0], lora)
    assert isinstance(answer, Refused)
    assert [problem.pointer for problem in answer.problems] == [f"/spec/trainable/lora{pointer}"]
    assert said in answer.problems[0].detail


def test_a_product_in_float16_is_refused_by_name(
    order: Callable[..., Prepared | Refused],
) -> None:
    weights = [from_array(np.ones((4, 4), kind), name) for name, kind in (("a", "f2"), ("b", "f4"))]
    nodes = [
        make_node("Cast", ["x"], ["x16"], to=onnx.TensorProto.FLOAT16),
        make_node("Gemm", ["x16", "a"], ["h16"]),
        make_node("Cast", ["h16"], ["h"], to=onnx.TensorProto.FLOAT),
        make_node("MatMul", ["h", "b"], ["y"]),
    ]
    model = model_of(nodes, {"x": ["batch", 4]}, {"y": ["batch", 4]}, weights)
    answer = order(model, Lora(rank=2, targets=("*",)))
    assert isinstance(answer, Refused)
    assert [problem.pointer for problem in answer.problems] == ["/spec/trainable/lora/targets"]
    assert '"a" is multiplied in float16' in answer.problems[0].detail


def test_an_engine_that_trains_no_more_still_evaluates_and_exports(
    make: Make, tmp_path: Path
) -> None:
    engine = moved(make(network(STORED["int8"])[0]))
    x, label = batch(7)
    before = engine.evaluate([x], label)[0]
    engine.end_training()
    assert engine.evaluate([x], label)[0] == before
    engine.export(tmp_path / "out.onnx")
    assert "_training" not in vars(engine)


def test_what_quantizes_its_activations_is_known_to_round(make: Make) -> None:
    """A last bit may become a whole step there, so exports are compared less closely."""
    assert open_engine(make(network(STORED["integers"])[0])).quantizes
    assert not open_engine(make(network(STORED["int8"])[0])).quantizes


def test_globs_fit_names_of_weights_and_of_nodes(make: Make) -> None:
    model, _ = network(STORED["int8"])
    assert make(model, Lora(2, 2, ("attn*",))).trainable == ("attn.w.lora_A", "attn.w.lora_B")
    assert make(model, Lora(2, 2, ("logits",))).trainable == ("head.w.lora_A", "head.w.lora_B")
