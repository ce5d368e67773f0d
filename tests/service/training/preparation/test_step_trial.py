"""A step's optimized files are kept only if they compute what the step does as it was built."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx.helper import make_node
from onnx.numpy_helper import from_array, to_array
from step_models import CLASSES, model_of
from texts import decoder

from service.training.engines.compilation import compile_model
from service.training.engines.manifest import Files
from service.training.engines.runtime import channel_block
from service.training.errors import GraphRefused
from service.training.forward.reading import ForwardModel
from service.training.graph.blocks.layout import BlockLayout
from service.training.graph.step import StepModel, build_evaluation, build_step
from service.training.loss import Loss
from service.training.preparation.step_models import read
from service.training.preparation.step_trial import run_as_it_is, run_as_jobs_do, trial_feeds
from service.training.protocol.messages.preparation import Prepare

BLOCK = channel_block()
blocked = pytest.mark.skipif(BLOCK is None, reason="the runtime has no layout of its own here")


@pytest.fixture
def forward(tmp_path: Path) -> ForwardModel:
    rng = np.random.default_rng(0)
    shapes = {"w": (16, 3, 3, 3), "head": (CLASSES, 16)}
    weights = [
        from_array(rng.normal(size=shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        make_node("Conv", ["x", "w"], ["a"], "conv"),
        make_node("Relu", ["a"], ["b"], "relu"),
        make_node("GlobalAveragePool", ["b"], ["c"], "mean"),
        make_node("Flatten", ["c"], ["d"], "flatten"),
        make_node("Gemm", ["d", "head"], ["logits"], "head", transB=1),
    ]
    model = model_of(nodes, {"x": ["batch", 3, 8, 8]}, {"logits": ["batch", CLASSES]}, weights)
    path = tmp_path / "model.onnx"
    onnx.save_model(model, path)
    return read(path, Prepare(str(path), "forward", str(tmp_path), "cross_entropy"))


def steps(forward: ForwardModel) -> tuple[StepModel, StepModel]:
    """For any processor, and for this one."""
    choices = {"loss": Loss("cross_entropy"), "parameters": forward.trainable}
    layout = BlockLayout(BLOCK or 1, 4)
    return build_step(forward.model, **choices), build_step(forward.model, layout=layout, **choices)


def tried(forward: ForwardModel, here: StepModel | None, folder: Path) -> tuple[Files, bool]:
    """The files that were written, and whether the first form of the step was right."""
    step, _ = steps(forward)
    answers: list[bool] = []

    def is_right(files: Files) -> bool:
        answers.append(run_as_it_is(step, forward).agrees(files))
        return answers[-1]

    files = compile_model(
        step,
        build_evaluation(forward.model, loss=step.loss, parameters=step.parameters),
        forward.inference,
        output=forward.output,
        directory=folder / "files",
        here=here,
        is_right=is_right,
    )
    return files, answers[0] if answers else False


def test_an_optimized_step_is_kept(forward: ForwardModel, tmp_path: Path) -> None:
    files, was_right = tried(forward, None, tmp_path)
    assert was_right
    assert files.optimized_step_model is not None
    assert files.optimized_step_model.exists()


@blocked
def test_a_step_of_this_processor_is_taken(forward: ForwardModel, tmp_path: Path) -> None:
    _, here = steps(forward)
    files, was_right = tried(forward, here, tmp_path)
    assert was_right
    assert files.weights_model is not None
    assert files.weights_model.exists()


@blocked
def test_for_one_that_computes_something_else_the_step_for_any_is_taken(
    forward: ForwardModel, tmp_path: Path
) -> None:
    _, here = steps(forward)
    assert here.once is not None
    after = onnx.ModelProto.FromString(here.once.after.SerializeToString())
    end = after.graph.output[0].name
    for node in after.graph.node:
        node.output[:] = [f"{name}:half" if name == end else name for name in node.output]
    after.graph.initializer.append(from_array(np.array(0.5, np.float32), "half"))
    after.graph.node.append(make_node("Mul", [f"{end}:half", "half"], [end], "half"))
    wrong = replace(here, once=replace(here.once, after=after))
    files, was_right = tried(forward, wrong, tmp_path)
    assert not was_right
    assert files.weights_model is not None
    assert not files.weights_model.exists()
    assert files.optimized_step_model is not None
    assert files.optimized_step_model.exists()


@blocked
def test_for_one_that_the_runtime_cannot_run_the_step_for_any_is_taken(
    forward: ForwardModel, tmp_path: Path
) -> None:
    _, here = steps(forward)
    model = onnx.ModelProto.FromString(here.model.SerializeToString())
    constants = (t for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT64)
    shape = next(t for t in constants if to_array(t)[0] == -1)
    shape.CopyFrom(from_array(to_array(shape) + 1, shape.name))
    files, was_right = tried(forward, replace(here, model=model), tmp_path)
    assert not was_right
    assert files.optimized_step_model is not None
    assert files.optimized_step_model.exists()


def test_a_step_that_jobs_cannot_run_is_refused(forward: ForwardModel, tmp_path: Path) -> None:
    files, _ = tried(forward, None, tmp_path)
    feeds = run_as_it_is(steps(forward)[0], forward).feeds
    run_as_jobs_do(replace(files, step_model=files.optimized_step_model), feeds)
    files.step_model.write_bytes(b"no model")
    with pytest.raises(GraphRefused, match="the engine cannot train the model"):
        run_as_jobs_do(files, feeds)


def test_masks_of_the_meaning_that_gives_gradients_are_tried(tmp_path: Path) -> None:
    nodes = [
        make_node("MatMul", ["x", "w"], ["h"], "product"),
        make_node("Relu", ["h"], ["r"], "relu"),
        make_node("Exp", ["h"], ["e"], "exp"),
        make_node("Where", ["mask", "r", "e"], ["c"], "choice"),
        make_node("Sqrt", ["c"], ["logits"], "root"),  # whose slope at 0 is infinite
    ]
    rng = np.random.default_rng(0)
    w = from_array(rng.normal(size=(6, CLASSES)).astype(np.float32), "w")
    model = model_of(
        nodes, {"x": ["batch", 6], "mask": ["batch", 1]}, {"logits": ["batch", 3]}, [w]
    )
    model.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.BOOL
    onnx.save_model(model, tmp_path / "model.onnx")
    asked = Prepare(str(tmp_path / "model.onnx"), "forward", str(tmp_path), "cross_entropy")
    forward = read(tmp_path / "model.onnx", asked)
    step = build_step(forward.model, loss=Loss("cross_entropy"), parameters=forward.trainable)
    assert run_as_it_is(step, forward).rows_are_independent


def test_lengths_that_give_a_loss_are_tried(tmp_path: Path) -> None:
    nodes = [
        make_node("MatMul", ["x", "w"], ["sum"], "product"),
        make_node("Cast", ["length"], ["count"], "cast", to=onnx.TensorProto.FLOAT),
        make_node("Div", ["sum", "count"], ["logits"], "mean"),  # of 0, not a number
    ]
    rng = np.random.default_rng(0)
    w = from_array(rng.normal(size=(6, CLASSES)).astype(np.float32), "w")
    model = model_of(
        nodes, {"x": ["batch", 6], "length": ["batch", 1]}, {"logits": ["batch", 3]}, [w]
    )
    model.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save_model(model, tmp_path / "model.onnx")
    asked = Prepare(str(tmp_path / "model.onnx"), "forward", str(tmp_path), "cross_entropy")
    forward = read(tmp_path / "model.onnx", asked)
    step = build_step(forward.model, loss=Loss("cross_entropy"), parameters=forward.trainable)

    taken = run_as_it_is(step, forward)

    assert (taken.feeds["length"] == 1).all()
    assert taken.rows_are_independent


@pytest.mark.parametrize(("longest", "taken"), [(3000, 24), (7, 7)])
def test_a_step_of_texts_is_tried_on_short_ones(tmp_path: Path, longest: int, taken: int) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(decoder(64, positions=longest))
    text = {"kind": "text", "max_tokens": longest}
    asked = Prepare(str(path), "forward", str(tmp_path), "causal_lm", text=text)
    forward = read(path, asked)
    step = build_step(forward.model, loss=Loss("causal_lm"), parameters=forward.trainable)
    feeds = trial_feeds(step, forward, flag=True)
    fed = {feeds[name].shape for name in ("input_ids", "attention_mask", step.target)}
    assert fed == {(3, taken)}
    assert run_as_it_is(step, forward).rows_are_independent
