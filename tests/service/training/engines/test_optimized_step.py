"""The graph that the runtime optimized is opened where it was optimized, and computes the same."""

from __future__ import annotations

import hashlib
from pathlib import Path

import onnx
import pytest
from msgspec.structs import replace
from step_models import batch, compiled, perceptron

from service.training.engines import compilation
from service.training.engines.manifest import Files, read_manifest, write_manifest
from service.training.engines.runtime import LOAD_ERRORS, here, open_session, optimize
from service.training.engines.sessions.engine import SessionsEngine
from service.training.optimizer.options import OptimizerOptions

SGD = OptimizerOptions("sgd")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_optimized_graph_is_loaded_as_it_is(tmp_path: Path) -> None:
    files, optimized = compiled(perceptron(), tmp_path / "model"), tmp_path / "optimized.onnx"
    optimize(files.step_model, optimized)
    domains = {node.domain for node in onnx.load(optimized).graph.node}
    assert "com.microsoft" in domains  # of operators that only the runtime writes
    first = open_session(files.step_model, threads=1)
    second = open_session(optimized, threads=1, is_optimized=True)
    names = [[output.name for output in session.get_outputs()] for session in (first, second)]
    assert names[0] == names[1]


def test_a_model_that_is_none_is_not_optimized(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(LOAD_ERRORS):
        optimize(tmp_path / "model.onnx", tmp_path / "optimized.onnx")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_step_that_was_optimized_elsewhere_is_not_loaded_and_has_the_same_bits(
    tmp_path: Path, threads: int
) -> None:
    files, digests = compiled(perceptron(), tmp_path / "model"), []
    assert read_manifest(files.manifest).optimized_for == here()
    for _ in range(2):
        engine = SessionsEngine(files, optimizer_options=SGD, threads=threads)
        for number in range(3):
            engine.train_batch(*batch(number))
            engine.step(0.5)
        engine.save(tmp_path / "checkpoint")
        digests.append(digest(tmp_path / "checkpoint"))
        other = replace(read_manifest(files.manifest), optimized_for="another processor")
        write_manifest(other, files.manifest)
        (tmp_path / "model" / "optimized_step_model.onnx").write_bytes(b"no model")
    assert digests[0] == digests[1]


def test_an_optimized_step_with_large_constants_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "SMALL_BYTES", -(1 << 20))
    files = compiled(perceptron(), tmp_path / "model")
    assert files.optimized_step_model is not None
    assert not files.optimized_step_model.exists()
    assert read_manifest(files.manifest).optimized_for == ""
    SessionsEngine(files, optimizer_options=SGD, threads=1).train_batch(*batch(0))


def test_a_step_whose_optimized_form_cannot_be_written_trains_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = replace(Files.below(tmp_path / "model"), optimized_step_model=tmp_path / "no" / "m")
    monkeypatch.setattr(Files, "below", lambda _folder: nowhere)
    files = compiled(perceptron(), tmp_path / "model")
    assert read_manifest(files.manifest).optimized_for == ""
    SessionsEngine(files, optimizer_options=SGD, threads=1).train_batch(*batch(0))
