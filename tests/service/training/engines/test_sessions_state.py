"""Checkpoints resume bit for bit, and those of something else are refused by name."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file
from step_models import batch, compiled, perceptron
from support import DEADLINE_S, IMPORTED_BY_TESTS

from service.training.engines.checkpoint import CheckpointHead, read_head
from service.training.engines.checkpoint import save as save_checkpoint
from service.training.engines.manifest import Files
from service.training.engines.runtime import open_session
from service.training.engines.sessions.engine import SessionsEngine
from service.training.errors import ArtifactsUnreadable, CheckpointUnreadable
from service.training.optimizer.options import OptimizerOptions

ADAMW = OptimizerOptions()
OpenEngine = Callable[..., SessionsEngine]
RECIPES = [
    OptimizerOptions("sgd"),
    OptimizerOptions("sgd", momentum=0.9, nesterov=True, weight_decay=0.01),
    OptimizerOptions("adam", max_grad_norm=0.5),
    OptimizerOptions("adamw", weight_decay=0.1, ema_decay=0.9, rate_factors={"w0": 0.1}),
    OptimizerOptions("rmsprop", momentum=0.5, l2_sp=0.5),
    OptimizerOptions("lion", max_grad_value=0.01),
]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return compiled(perceptron(), tmp_path / "model")


@pytest.fixture
def open_engine(files: Files) -> OpenEngine:
    def make(recipe: OptimizerOptions = ADAMW, *, threads: int = 1, **more: Any) -> SessionsEngine:
        return SessionsEngine(files, optimizer_options=recipe, threads=threads, **more)

    return make


def train(engine: SessionsEngine, first: int, last: int, *, batches: int = 1) -> None:
    for step in range(first, last):
        engine.seed(1000 + step)
        for number in range(batches):
            engine.train_batch(*batch(10 * step + number, 7))
        engine.step(0.05 / (step + 1))


def digest(engine: SessionsEngine, path: Path) -> str:
    engine.save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.optimizer)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batches", [1, 3])
def test_a_checkpoint_resumes_bit_for_bit(
    open_engine: OpenEngine, tmp_path: Path, recipe: OptimizerOptions, threads: int, batches: int
) -> None:
    straight = open_engine(recipe, threads=threads)
    train(straight, 0, 8, batches=batches)
    first = open_engine(recipe, threads=threads)
    train(first, 0, 3, batches=batches)
    first.save(tmp_path / "middle")
    resumed = open_engine(recipe, threads=threads, checkpoint=tmp_path / "middle")
    train(resumed, 3, 8, batches=batches)
    assert digest(resumed, tmp_path / "resumed") == digest(straight, tmp_path / "straight")


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from test_sessions_state import ADAMW, Files, SessionsEngine, digest, train
from service.training.engines.runtime import flush_denormals
flush_denormals()
begin, checkpoint = int(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2:] else None
engine = SessionsEngine(
    Files.below(Path({folder!r})), optimizer_options=ADAMW, threads=2, checkpoint=checkpoint
)
train(engine, begin, 5)
engine.save(Path({middle!r})) if begin == 0 else None
print("saved", flush=True)
if {dies} and begin == 0:
    while True:
        train(engine, 5, 6)
train(engine, 5, 12)
engine.export(Path({exported!r}))
print(digest(engine, Path({end!r})))
"""


def test_a_job_that_is_killed_ends_with_the_same_bytes(files: Files, tmp_path: Path) -> None:

    def program(name: str, *, dies: bool) -> list[str]:
        saved = {each: str(tmp_path / f"{name}.{each}") for each in ("middle", "exported", "end")}
        paths = [str(Path(__file__).parent), *IMPORTED_BY_TESTS]
        text = CHILD.format(paths=paths, folder=str(files.manifest.parent), dies=dies, **saved)
        return [sys.executable, "-c", text]

    with subprocess.Popen([*program("killed", dies=True), "0"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == b"saved"
        child.kill()
    middle = str(tmp_path / "killed.middle")
    resumed = [*program("killed", dies=True), "5", middle]
    straight = [*program("straight", dies=False), "0"]
    ends = [
        subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S).stdout
        for command in (resumed, straight)
    ]
    ends = [said.split()[-1] for said in ends]
    assert ends[0] == ends[1]
    exports = [(tmp_path / f"{name}.exported").read_bytes() for name in ("killed", "straight")]
    assert exports[0] == exports[1]


def test_a_checkpoint_tells_what_it_holds_to_every_reader_of_safetensors(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    engine = open_engine(OptimizerOptions(weight_decay=0.1))
    train(engine, 0, 2)
    engine.save(tmp_path / "checkpoint")
    tensors = load_file(tmp_path / "checkpoint")
    own = {"w0", "b0", "w1", "b1"}
    moments = {f"hone.{slot}/{each}" for slot in ("first_moment", "second_moment") for each in own}
    assert tensors.keys() == own | moments
    np.testing.assert_array_equal(tensors["w0"], engine._state.parameters["w0"])
    head = read_head(tmp_path / "checkpoint")
    assert head == CheckpointHead("sessions", 2, OptimizerOptions(weight_decay=0.1))


def test_taking_over_parameters_leaves_the_optimizer_as_it_is(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    trained, fresh = open_engine(), open_engine()
    train(trained, 0, 4)
    trained.save(tmp_path / "trained")
    fresh.load_parameters(tmp_path / "trained")
    same = [engine.evaluate(*batch(9))[1] for engine in (trained, fresh)]
    np.testing.assert_array_equal(*same)
    for engine in (trained, fresh):
        train(engine, 4, 5)
    # Same parameters, same batch: only the moments and the step count can tell them apart.
    assert not np.array_equal(trained.evaluate(*batch(9))[1], fresh.evaluate(*batch(9))[1])


def test_parameters_are_taken_over_from_a_job_with_another_optimizer(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    source = open_engine(OptimizerOptions("lion"))
    train(source, 0, 3)
    source.save(tmp_path / "source")
    target = open_engine(OptimizerOptions("sgd"))
    target.load_parameters(tmp_path / "source")
    np.testing.assert_array_equal(target.evaluate(*batch(9))[1], source.evaluate(*batch(9))[1])


def test_what_is_taken_over_from_an_averaging_job_is_its_average(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    source = open_engine(OptimizerOptions("sgd", ema_decay=0.9))
    train(source, 0, 5)
    source.save(tmp_path / "source")
    expected = source.evaluate(*batch(9))[1]
    for recipe in (OptimizerOptions("sgd"), OptimizerOptions("sgd", ema_decay=0.5)):
        target = open_engine(recipe)
        target.load_parameters(tmp_path / "source")
        np.testing.assert_array_equal(target.evaluate(*batch(9))[1], expected)
    resumed = open_engine(OptimizerOptions("sgd", ema_decay=0.9), checkpoint=tmp_path / "source")
    np.testing.assert_array_equal(resumed.evaluate(*batch(9))[1], expected)


def without(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda tensors: {key: tensor for key, tensor in tensors.items() if key != name}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("w1"), "it lacks w1"),
        (without("hone.second_moment/b0"), "it lacks hone.second_moment/b0"),
        (lambda tensors: tensors | {"w9": tensors["w0"]}, "it has w9, which the model does not"),
        (lambda tensors: tensors | {"w0": tensors["w0"].T.copy()}, r'"w0" is F32 \[8, 6\]'),
        (lambda tensors: tensors | {"b0": tensors["b0"].astype(np.float64)}, '"b0" is F64'),
    ],
)
def test_tensors_that_do_not_fit_are_named_and_nothing_is_changed(
    open_engine: OpenEngine, tmp_path: Path, change: Callable[[Any], Any], words: str
) -> None:
    path = tmp_path / "checkpoint"
    engine = open_engine()
    train(engine, 0, 2)
    engine.save(path)
    tensors = change(load_file(path))
    save_checkpoint(path, read_head(path), tensors)
    with pytest.raises(CheckpointUnreadable, match=words):
        open_engine(checkpoint=path)


def test_parameters_of_another_model_are_refused_and_ours_stay(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    other = compiled(perceptron(hidden=5), tmp_path / "other")
    SessionsEngine(other, optimizer_options=OptimizerOptions(), threads=1).save(
        tmp_path / "checkpoint"
    )
    engine = open_engine()
    before = engine.evaluate(*batch(0))[1]
    with pytest.raises(CheckpointUnreadable, match=r"no checkpoint of this model: \"w0\" is F32"):
        engine.load_parameters(tmp_path / "checkpoint")
    np.testing.assert_array_equal(engine.evaluate(*batch(0))[1], before)


def test_the_state_of_another_optimizer_is_refused_by_name(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    open_engine(OptimizerOptions("lion")).save(tmp_path / "checkpoint")
    with pytest.raises(CheckpointUnreadable, match="state of lion with momentum, the job trains w"):
        open_engine(OptimizerOptions("adamw"), checkpoint=tmp_path / "checkpoint")


def test_a_checkpoint_of_another_engine_is_refused_by_name(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    save_checkpoint(tmp_path / "checkpoint", CheckpointHead("ort_training"), {})
    with pytest.raises(CheckpointUnreadable, match="by the engine 'ort_training'"):
        open_engine(checkpoint=tmp_path / "checkpoint")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize(
    "damage",
    [cut, Path.unlink, lambda path: path.write_bytes(b"\x08"), lambda path: path.write_bytes(b"")],
)
def test_a_damaged_checkpoint_is_named(
    open_engine: OpenEngine, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    path = tmp_path / "checkpoint"
    open_engine().save(path)
    damage(path)
    with pytest.raises(CheckpointUnreadable, match=re.escape(f"cannot read the checkpoint {path}")):
        open_engine(checkpoint=path)


def test_a_file_of_safetensors_that_is_no_checkpoint_is_named(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    save_file({"w0": np.zeros(3, np.float32)}, tmp_path / "weights.safetensors")
    with pytest.raises(CheckpointUnreadable, match="has no 'hone' in its metadata"):
        open_engine(checkpoint=tmp_path / "weights.safetensors")


@pytest.mark.parametrize("role", ["manifest", "optimized_step_model", "eval_model"])
def test_a_missing_or_damaged_file_of_the_model_is_named(
    files: Files, open_engine: OpenEngine, role: str
) -> None:
    getattr(files, role).write_bytes(b"{}")
    with pytest.raises(ArtifactsUnreadable, match=r"cannot (read|load)"):
        open_engine().evaluate(*batch(0))


@pytest.mark.parametrize(
    "recipe", [OptimizerOptions(), OptimizerOptions(ema_decay=0.9)], ids=["plain", "average"]
)
def test_an_export_computes_what_the_engine_measures(
    open_engine: OpenEngine, tmp_path: Path, recipe: OptimizerOptions
) -> None:
    engine = open_engine(recipe)
    train(engine, 0, 4)
    for name in ("a.onnx", "b.onnx"):
        engine.export(tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    onnx.checker.check_model(tmp_path / "a.onnx", full_check=True)
    inputs, labels = batch(9)
    (output,) = open_session(tmp_path / "a.onnx", threads=1).run(None, {"x": inputs[0]})
    np.testing.assert_allclose(output, engine.evaluate(inputs, labels)[1], rtol=1e-5, atol=1e-6)


def test_training_goes_on_after_an_export_as_if_there_was_none(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    exporting, plain = open_engine(), open_engine()
    for engine in (exporting, plain):
        train(engine, 0, 3)
        if engine is exporting:
            engine.export(tmp_path / "model.onnx")
        train(engine, 3, 6)
    assert digest(exporting, tmp_path / "a") == digest(plain, tmp_path / "b")
