"""Large models step in sessions of Hone's own, with every bit as in the engine's own steps."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support import DEADLINE_S

from service.training.ort import session_steps, shared_adamw
from service.training.ort.engine import OrtEngine
from service.training.ort.optimizer_state import read_state, write_state
from service.training.ort.session_steps import SessionSteps
from service.training.ort.shared_adamw import PACKET, Trained, share_out
from service.training.ort.steps import ModuleSteps
from service.training.protocol.messages.shared import Artifacts

MakeArtifacts = Callable[..., Artifacts]
SIZES = (6, 67, 45, 3)
"""Odd, so that shares end within parameters and parameters within packets."""
BATCHES = 3


@pytest.fixture
def open_both(
    make_artifacts: MakeArtifacts, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[OrtEngine, OrtEngine]]:
    """The engine with its own steps, and with ours, however small the model is."""
    monkeypatch.setattr(shared_adamw, "MIN_SHARE", 64)
    monkeypatch.setattr(shared_adamw, "HEAD_START", 50)

    def make(
        *, threads: int = 2, checkpoint: Path | None = None, **kind: Any
    ) -> tuple[OrtEngine, OrtEngine]:
        artifacts = make_artifacts(**{"sizes": SIZES, **kind})
        engines = []
        for least in (session_steps.MAX_ELEMENTS, 0):
            monkeypatch.setattr(session_steps, "MIN_ELEMENTS", least)
            path = checkpoint or Path(artifacts.checkpoint)
            engine = OrtEngine(artifacts, checkpoint=path, output="logits", threads=threads)
            engines.append(engine)
        own, ours = engines
        assert isinstance(own._steps, ModuleSteps)
        assert isinstance(ours._steps, SessionSteps)
        return own, ours

    return make


def batch(number: int, size: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    return rng.standard_normal((size, 6)).astype(np.float32), rng.integers(0, 3, size)


def train(engine: OrtEngine, first: int, last: int, *, accumulate: int = 1) -> list[float]:
    losses = []
    for step in range(first, last):
        engine.seed(step)
        for part in range(accumulate):
            x, labels = batch(step * BATCHES + part, 9 - step % 2)
            losses.append(engine.train_batch([x], labels))
        engine.step(0.03 / (step + 1))
    return losses


def saved(engine: OrtEngine, path: Path) -> bytes:
    engine.save(path)
    return path.read_bytes()


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize("accumulate", [1, BATCHES])
def test_every_bit_is_that_of_the_engines_own_steps(
    open_both: Any, tmp_path: Path, threads: int, accumulate: int
) -> None:
    own, ours = open_both(threads=threads)
    assert train(ours, 0, 40, accumulate=accumulate) == train(own, 0, 40, accumulate=accumulate)
    assert saved(ours, tmp_path / "ours") == saved(own, tmp_path / "own")


@pytest.mark.parametrize("kind", [{"dropout": True}, {"frozen": ("w0", "b0")}, {"loss": "MSELoss"}])
def test_so_it_is_with_dropout_frozen_weights_and_other_losses(
    open_both: Any, tmp_path: Path, kind: dict[str, Any]
) -> None:
    own, ours = open_both(**kind)
    for engine in (own, ours):
        for step in range(12):
            x, labels = batch(step, 8)
            target = np.eye(3, dtype=np.float32)[labels] if "loss" in kind else labels
            engine.seed(step)
            engine.train_batch([x], target)
            engine.step(0.01)
    assert saved(ours, tmp_path / "ours") == saved(own, tmp_path / "own")


def test_either_goes_on_from_the_others_checkpoint(open_both: Any, tmp_path: Path) -> None:
    own, ours = open_both()
    straight = train(own, 0, 20)
    train(ours, 0, 8)
    ours.save(tmp_path / "middle")
    for engine in open_both(checkpoint=tmp_path / "middle"):
        assert train(engine, 8, 20) == straight[8:]
        assert saved(engine, tmp_path / "end") == saved(own, tmp_path / "straight")


def test_a_checkpoint_before_the_first_step_holds_a_count_of_nought(
    open_both: Any, tmp_path: Path
) -> None:
    own, ours = open_both()
    for number, engine in enumerate((own, ours)):
        path = tmp_path / f"fresh-{number}"
        engine.save(path)
        state = read_state(path)
        assert state is not None
        assert state.steps == 0
        assert not any(each.any() for pair in state.moments.values() for each in pair)
        for resumed in open_both(checkpoint=path):
            train(resumed, 0, 3)
            saved(resumed, tmp_path / f"{number}-{type(resumed._steps).__name__}")
    ends = {path.read_bytes() for path in tmp_path.glob("*-*Steps")}
    assert len(ends) == 1


def test_what_reads_the_parameters_sees_them_after_the_step(open_both: Any, tmp_path: Path) -> None:
    own, ours = open_both()
    for engine in (own, ours):
        train(engine, 0, 3)
    x, labels = batch(99, 8)
    np.testing.assert_array_equal(ours.evaluate([x], labels)[1], own.evaluate([x], labels)[1])
    train(ours, 3, 4)
    train(own, 3, 4)
    for name, engine in (("own", own), ("ours", ours)):
        engine.export(tmp_path / f"{name}.onnx")
    assert (tmp_path / "ours.onnx").read_bytes() == (tmp_path / "own.onnx").read_bytes()


def test_parameters_that_are_taken_over_are_those_that_train(
    open_both: Any, tmp_path: Path
) -> None:
    own, ours = open_both()
    source, _ = open_both(seed=5)
    source.save(tmp_path / "source")
    for engine in (own, ours):
        train(engine, 0, 2)
        engine.load_parameters(tmp_path / "source")
        train(engine, 2, 6)
    assert saved(ours, tmp_path / "ours") == saved(own, tmp_path / "own")


@pytest.mark.parametrize("how", ["one thread", "small", "sgd", "clipping", "another loss"])
def test_what_cannot_be_stepped_so_steps_as_the_engine_does(
    make_artifacts: MakeArtifacts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    if how != "small":
        monkeypatch.setattr(session_steps, "MIN_ELEMENTS", 0)
    artifacts = make_artifacts(sizes=SIZES, optimizer="SGD" if how == "sgd" else "AdamW")
    if how == "clipping":
        artifacts = replace(artifacts, optimizer_model=with_another_node(artifacts, tmp_path))
    if how == "another loss":
        artifacts = replace(artifacts, training_model=with_loss_of_one_axis(artifacts, tmp_path))
    engine = OrtEngine(
        artifacts,
        checkpoint=Path(artifacts.checkpoint),
        output="logits",
        threads=1 if how == "one thread" else 2,
    )
    assert isinstance(engine._steps, ModuleSteps)


def with_another_node(artifacts: Artifacts, folder: Path) -> str:
    model = onnx.load(artifacts.optimizer_model)
    model.graph.node.append(onnx.helper.make_node("Identity", ["learning_rate"], ["same"]))
    onnx.save(model, folder / "optimizer.onnx")
    return str(folder / "optimizer.onnx")


def with_loss_of_one_axis(artifacts: Artifacts, folder: Path) -> str:
    model = onnx.load(artifacts.training_model)
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 1
    onnx.save(model, folder / "training.onnx")
    return str(folder / "training.onnx")


def test_an_engine_that_is_dropped_leaves_no_thread(open_both: Any) -> None:
    before = threading.active_count()
    own, ours = open_both(threads=3)
    train(ours, 0, 2)
    assert threading.active_count() == before + 2
    del own, ours
    gc.collect()
    assert threading.active_count() == before


def test_a_helpers_failure_is_raised_to_who_waits_and_told_on_stderr() -> None:
    program = (
        "from service.training.ort.helper import Helper; helper = Helper();"
        "helper.begin(lambda: print('first')); helper.wait();"
        "helper.begin(lambda: {}['second']); helper.wait()"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, timeout=DEADLINE_S
    )
    assert (run.returncode, run.stdout) == (1, b"first\n")
    assert b"KeyError: 'second'" in run.stderr
    assert b"RuntimeError: a helper's call failed" in run.stderr


def test_a_process_ends_while_a_helper_is_at_work() -> None:
    program = (
        "import time; from service.training.ort.helper import Helper;"
        "helper = Helper(); helper.begin(lambda: (time.sleep(0.3), print('carried out')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, timeout=DEADLINE_S
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, b"carried out\n", b"")


def trained(*sizes: int) -> list[Trained]:
    vectors = [np.arange(size, dtype=np.float32) for size in sizes]
    return [Trained(each, each.copy(), each.copy(), each.copy()) for each in vectors]


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_shares_hold_every_element_once_and_whole_packets(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_adamw, "MIN_SHARE", 100)
    monkeypatch.setattr(shared_adamw, "HEAD_START", 40)
    whole = trained(5, 700, 33, 1, 300)
    shares = share_out(whole, threads)
    assert len(shares) == threads
    assert all(shares)
    for share in shares:
        for part in share:
            part.parameter[:] += 10_000
            assert {len(part.gradient), len(part.first), len(part.second)} == {len(part.parameter)}
    for one in whole:
        np.testing.assert_array_equal(one.parameter, one.gradient + 10_000)
        for part in (part for share in shares for part in share):
            if part.parameter.base is one.parameter:
                start = part.parameter.ctypes.data - one.parameter.ctypes.data
                assert start % (PACKET * 4) == 0


def test_a_thread_is_not_woken_for_a_small_share() -> None:
    assert len(share_out(trained(shared_adamw.MIN_SHARE * 3 - 1), 8)) == 2
    assert len(share_out(trained(10), 8)) == 1


def test_a_state_is_read_as_it_was_written(open_both: Any, tmp_path: Path) -> None:
    own, _ = open_both()
    train(own, 0, 2)
    own.save(tmp_path / "checkpoint")
    before = read_state(tmp_path / "checkpoint")
    assert before is not None
    assert before.steps == 2
    moments = {name: (a + 1, b + 2) for name, (a, b) in before.moments.items()}
    write_state(tmp_path / "checkpoint", replace(before, steps=70_000, moments=moments))
    after = read_state(tmp_path / "checkpoint")
    assert after is not None
    assert after.steps == 70_000
    for name, pair in moments.items():
        for ours, theirs in zip(pair, after.moments[name], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_checkpoint_of_the_offline_phase_holds_no_state(make_artifacts: MakeArtifacts) -> None:
    assert read_state(Path(make_artifacts().checkpoint)) is None
