"""The traps of ONNX Runtime On-Device Training, each with the test that it is handled."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from math import isfinite, isnan
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from support import DEADLINE_S, IMPORTED_BY_TESTS

from service.training.engines.ort_training.engine import OrtEngine
from service.training.engines.runtime import session_options
from service.training.errors import CheckpointUnreadable
from service.training.protocol.messages.shared import Artifacts

MakeArtifacts = Callable[..., Artifacts]
OpenEngine = Callable[..., OrtEngine]


def batch(number: int, size: int = 8) -> tuple[tuple[Any, ...], Any]:
    rng = np.random.default_rng(number)
    x = rng.standard_normal((size, 6)).astype(np.float32)
    return (x,), rng.integers(0, 3, size)


def train(engine: OrtEngine, first: int, last: int, rate: float = 0.01) -> None:
    for step in range(first, last):
        engine.seed(1000 + step)
        engine.train_batch(*batch(step))
        engine.step(rate / (step + 1))


def digest(engine: OrtEngine, path: Path) -> str:
    """Of everything: parameters and the optimizer's state."""
    engine.save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_engine_works_where_torch_cannot_be_imported(
    make_artifacts: MakeArtifacts, tmp_path: Path
) -> None:
    artifacts = make_artifacts()
    program = f"""
import sys
sys.modules["torch"] = None
import numpy as np
from pathlib import Path
from service.training.protocol.messages.shared import Artifacts
from service.training.engines.ort_training.engine import OrtEngine
engine = OrtEngine({artifacts!r}, checkpoint=Path({artifacts.checkpoint!r}), output="logits",
                   threads=1)
engine.train_batch([np.ones((2, 6), np.float32)], np.array([0, 1]))
engine.step(0.01)
assert not [name for name in sys.modules if name.startswith("torch.")]
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=DEADLINE_S)


def test_the_engine_names_itself_and_its_version(open_engine: OpenEngine) -> None:
    assert open_engine().name == f"onnxruntime-training {onnxruntime.__version__}"


def test_threads_of_sessions_do_not_spin() -> None:
    options = session_options(2)
    assert options.intra_op_num_threads == 2
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_training_lowers_the_loss(open_engine: OpenEngine) -> None:
    engine = open_engine()
    (x,), _ = batch(0, 64)
    labels = x[:, :3].argmax(axis=1)
    before, _ = engine.evaluate([x], labels)
    for _ in range(50):
        engine.train_batch([x], labels)
        engine.step(0.01)
    after, output = engine.evaluate([x], labels)
    assert after < before / 2
    assert output.shape == (64, 3)


def test_a_step_uses_the_rate_it_is_given_even_after_loading(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    first = open_engine(optimizer="SGD")
    first.save(tmp_path / "checkpoint")
    loaded = open_engine(optimizer="SGD", checkpoint=tmp_path / "checkpoint")
    for engine in (first, loaded):
        engine.train_batch(*batch(0))
        engine.step(0.0)
    assert digest(first, tmp_path / "a") == digest(loaded, tmp_path / "b")
    _, unmoved = first.evaluate(*batch(1))
    np.testing.assert_array_equal(unmoved, open_engine(optimizer="SGD").evaluate(*batch(1))[1])


RESUME = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from test_engine import OrtEngine, digest, train
from service.training.protocol.messages.shared import Artifacts
engine = OrtEngine({artifacts!r}, checkpoint=Path({checkpoint!r}), output="logits", threads=1)
train(engine, 5, 12)
engine.export(Path({exported!r}))
print(digest(engine, Path({end!r})))
"""


@pytest.mark.parametrize("kind", [{"optimizer": "AdamW"}, {"optimizer": "SGD"}, {"dropout": True}])
def test_a_checkpoint_resumes_bit_for_bit_in_a_new_process(
    open_engine: OpenEngine, make_artifacts: MakeArtifacts, tmp_path: Path, kind: dict[str, Any]
) -> None:
    straight = open_engine(**kind)
    train(straight, 0, 12)
    straight.export(tmp_path / "straight.onnx")

    first = open_engine(**kind)
    train(first, 0, 5)
    first.save(tmp_path / "middle")
    program = RESUME.format(
        paths=[str(Path(__file__).parent), *IMPORTED_BY_TESTS],
        artifacts=make_artifacts(**kind),
        checkpoint=str(tmp_path / "middle"),
        exported=str(tmp_path / "resumed.onnx"),
        end=str(tmp_path / "end"),
    )
    child = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        timeout=DEADLINE_S,
        capture_output=True,
        text=True,
    )
    assert child.stdout.strip() == digest(straight, tmp_path / "straight")
    exported = (tmp_path / "resumed.onnx").read_bytes()
    assert exported == (tmp_path / "straight.onnx").read_bytes()


def test_dropout_repeats_with_its_seed_and_differs_without(
    open_engine: OpenEngine,
) -> None:
    engine = open_engine(dropout=True)
    losses = []
    for seed in (1, 1, 2):
        engine.seed(seed)
        losses.append(engine.train_batch(*batch(0)))
    assert losses[0] == losses[1] != losses[2]


def test_evaluation_leaves_dropout_out_and_draws_no_random_number(
    open_engine: OpenEngine,
) -> None:
    engine = open_engine(dropout=True)
    assert engine.evaluate(*batch(0))[0] == engine.evaluate(*batch(0))[0]
    engine.seed(1)
    expected = engine.train_batch(*batch(0))
    engine.seed(1)
    engine.evaluate(*batch(0))
    assert engine.train_batch(*batch(0)) == expected


def test_accumulated_sgd_moves_along_the_mean_of_the_gradients(open_engine: OpenEngine) -> None:
    (x,), labels = batch(0, 24)
    whole, parts = open_engine(optimizer="SGD"), open_engine(optimizer="SGD")
    for _ in range(3):
        whole.train_batch([x], labels)
        whole.step(0.5)
        for start in (0, 8, 16):
            part = slice(start, start + 8)
            parts.train_batch([x[part]], labels[part])
        parts.step(0.5)
    expected = whole.evaluate([x], labels)[1]
    np.testing.assert_allclose(parts.evaluate([x], labels)[1], expected, atol=1e-5)
    assert not np.allclose(open_engine(optimizer="SGD").evaluate([x], labels)[1], expected)


def test_accumulated_adamw_hardly_sees_that_gradients_are_summed(open_engine: OpenEngine) -> None:
    (x,), labels = batch(0, 24)
    whole, parts = open_engine(), open_engine()
    for _ in range(3):
        whole.train_batch([x], labels)
        whole.step(0.01)
        for start in (0, 8, 16):
            part = slice(start, start + 8)
            parts.train_batch([x[part]], labels[part])
        parts.step(0.01)
    expected = whole.evaluate([x], labels)[1]
    np.testing.assert_allclose(parts.evaluate([x], labels)[1], expected, atol=1e-3)


def test_an_input_that_is_not_finite_shows_in_the_loss(open_engine: OpenEngine) -> None:
    (x,), labels = batch(0)
    x[0, 0] = np.nan
    assert isnan(open_engine().train_batch([x], labels))
    assert isfinite(open_engine().train_batch(*batch(0)))


def test_parameters_are_taken_over_frozen_ones_included(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    kind = {"frozen": ("w0", "b0")}
    source, target = open_engine(seed=1, **kind), open_engine(**kind)
    train(source, 0, 4)
    source.save(tmp_path / "source")
    target.load_parameters(tmp_path / "source")
    expected = source.evaluate(*batch(9))[1]
    np.testing.assert_array_equal(target.evaluate(*batch(9))[1], expected)
    target.export(tmp_path / "model.onnx")
    model = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    np.testing.assert_allclose(model.run(None, {"x": batch(9)[0][0]})[0], expected, rtol=1e-5)


def test_taking_over_parameters_leaves_the_optimizer_as_it_is(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    trained, fresh = open_engine(), open_engine()
    train(trained, 0, 4)
    trained.save(tmp_path / "trained")
    fresh.load_parameters(tmp_path / "trained")
    for engine in (trained, fresh):
        train(engine, 4, 5)
    # Same parameters, same batch: only the moments and the step count can tell them apart.
    ours, theirs = trained.evaluate(*batch(9))[1], fresh.evaluate(*batch(9))[1]
    assert not np.array_equal(ours, theirs)


def test_parameters_of_another_model_are_refused(open_engine: OpenEngine, tmp_path: Path) -> None:
    open_engine(sizes=(6, 4, 3)).save(tmp_path / "other")
    with pytest.raises(CheckpointUnreadable, match="parameters of another model"):
        open_engine().load_parameters(tmp_path / "other")


def test_an_export_is_an_inference_model_that_any_runtime_of_1_19_loads(
    open_engine: OpenEngine, tmp_path: Path
) -> None:
    engine = open_engine()
    train(engine, 0, 3)
    for name in ("a.onnx", "b.onnx"):
        engine.export(tmp_path / name)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    model = onnx.load(tmp_path / "a.onnx")
    onnx.checker.check_model(model)
    assert model.ir_version <= 10
    assert [value.name for value in model.graph.input] == ["x"]
    assert [value.name for value in model.graph.output] == ["logits"]


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
