"""Checkpoints of other classes: rows of the head go by class, whatever its index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from onnx import numpy_helper
from safetensors.numpy import load_file
from step_models import batch, compiled, perceptron

from service.training.engines import checkpoint
from service.training.engines.checkpoint import CheckpointHead, read_head
from service.training.engines.manifest import ClassHead, Files, read_manifest, write_manifest
from service.training.engines.sessions.engine import SessionsEngine
from service.training.optimizer.options import OptimizerOptions

EMA = OptimizerOptions("adamw", ema_decay=0.5)


def with_classes(folder: Path, classes: tuple[int, ...], fresh: tuple[int, ...] = ()) -> Files:
    """A perceptron whose head has these classes instead of its three."""
    model = perceptron()
    for index, name, shape in ((2, "w1", (8, len(classes))), (3, "b1", (len(classes),))):
        zeros = numpy_helper.from_array(np.zeros(shape, np.float32), name)
        model.graph.initializer[index].CopyFrom(zeros)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = len(classes)
    files = compiled(model, folder)
    head = ClassHead("w1", 1, "b1", "t", -1, classes, fresh)
    write_manifest(replace(read_manifest(files.manifest), head=head), files.manifest)
    return files


def trained(files: Files, path: Path, recipe: OptimizerOptions) -> dict[str, np.ndarray]:
    """What a checkpoint holds after three steps."""
    engine = SessionsEngine(files, optimizer_options=recipe, threads=1)
    for step in range(3):
        engine.train_batch(*batch(step))
        engine.step(0.1)
    engine.save(path)
    return load_file(path)


@pytest.mark.parametrize("recipe", [OptimizerOptions("sgd"), EMA], ids=["sgd", "ema"])
def test_rows_go_by_class_and_a_new_one_is_neutral(
    tmp_path: Path, recipe: OptimizerOptions
) -> None:
    before = trained(compiled(perceptron(), tmp_path / "old"), tmp_path / "old.st", recipe)
    measured = "hone.ema/" if recipe.ema_decay else ""
    engine = SessionsEngine(
        with_classes(tmp_path / "new", (2, 0, 7)),
        optimizer_options=OptimizerOptions("sgd"),
        threads=1,
    )

    engine.load_parameters(tmp_path / "old.st")
    engine.save(tmp_path / "new.st")

    after = load_file(tmp_path / "new.st")
    weight, bias = before[f"{measured}w1"], before[f"{measured}b1"]
    assert after["w1"][:, :2].tolist() == weight[:, [2, 0]].tolist()
    assert after["w1"][:, 2] == pytest.approx(weight[:, [2, 0]].mean(axis=1))
    assert after["b1"] == pytest.approx([bias[2], bias[0], (bias[2] + bias[0]) / 2])
    assert after["w0"].tolist() == before[f"{measured}w0"].tolist()
    head = read_head(tmp_path / "new.st")
    assert (head.classes, head.fresh) == ((2, 0, 7), (7,))


def test_classes_of_which_nothing_was_learned_are_remembered(tmp_path: Path) -> None:
    files = with_classes(tmp_path / "model", (0, 1, 2, 5), fresh=(5,))
    start = tmp_path / "start.st"
    tensors = load_file(files.checkpoint)
    checkpoint.save(start, CheckpointHead("sessions", classes=(0, 1, 2, 5), fresh=(5,)), tensors)
    engine = SessionsEngine(files, optimizer_options=OptimizerOptions("sgd"), threads=1)
    engine.load_parameters(start)
    engine.save(tmp_path / "saved.st")

    resumed = SessionsEngine(
        files,
        optimizer_options=OptimizerOptions("sgd"),
        threads=1,
        checkpoint=tmp_path / "saved.st",
    )
    resumed.save(tmp_path / "again.st")

    assert read_head(tmp_path / "again.st").fresh == (5,)
    assert (tmp_path / "again.st").read_bytes() == (tmp_path / "saved.st").read_bytes()
