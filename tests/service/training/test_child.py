"""The training child as the parent meets it: a real process, its pipes, signals and last words."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from msgspec.structs import asdict, replace
from support import DEADLINE_S

from service.training.engines.checkpoint import read_head
from service.training.engines.runtime import open_session
from service.training.loss import LABEL_SCALE
from service.training.optimizer.options import OptimizerOptions
from service.training.protocol.messages.lines import encode
from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.protocol.messages.shared import (
    Artifacts,
    Cancel,
    Pause,
    ResourceLimits,
    Stopped,
)
from service.training.protocol.messages.training import (
    Done,
    Measured,
    Progress,
    Saved,
    Seen,
    Start,
    Started,
    Train,
)
from storage.records.id_set import decode
from storage.records.signatures import Signature

MakeArtifacts = Callable[..., Artifacts]
LONG = {"max_steps": 10_000_000}
LARGE = (6, 512, 512, 3)
"""Layers of a model that steps in sessions of Hone's own, given a second thread."""


@pytest.fixture
def numbers(make_workshop: Callable[..., Any], regression: Signature) -> Any:
    """Samples whose labels are numbers."""
    return make_workshop(signature=regression)


def is_a(kind: type) -> Callable[[Any], bool]:
    return lambda message: isinstance(message, kind)


def saved_from(step: int) -> Callable[[Any], bool]:
    return lambda message: isinstance(message, Saved) and message.state.step >= step


def test_a_job_ends_in_a_model_that_plain_onnxruntime_runs(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, train: Any, samples: Any
) -> None:
    workshop = make_workshop()
    done, child = train(workshop.task(make_artifacts(), epochs=12))
    assert (done.step, done.epoch, done.reason) == (12 * 13, 12, "finished")
    assert done.validation["accuracy"] > 0.85 > done.baseline["accuracy"]
    assert done.validation["loss"] < done.baseline["loss"]
    assert list(done.validation) == list(done.baseline)
    assert list(done.baseline) == [
        *("samples", "loss", "accuracy", "balanced_accuracy", "macro_f1"),
        *("mean_iou", "top_5_accuracy", "calibration_error"),
        *("precision", "recall", "iou", "confusion_matrix"),
    ]

    x, labels = samples(260, target=workshop.signature.target)
    onnx.checker.check_model(done.path, full_check=True)
    session = onnxruntime.InferenceSession(done.path)
    (logits,) = session.run(None, {"x": x[200:]})
    assert (logits.argmax(axis=1) == labels[200:]).mean() == done.validation["accuracy"]

    seen, first = child.said[:2]
    assert isinstance(seen, Seen)
    assert decode(b64decode(seen.ids)).tolist() == list(range(1, 201))
    assert isinstance(first, Started)
    assert (first.train_samples, first.validation_samples) == (200, 60)
    assert (first.total_steps, first.epochs, first.threads) == (156, 12, 1)
    assert first.engine.startswith("sessions 1 on onnxruntime 1.")
    assert [type(each) for each in child.said[-2:]] == [Saved, Done]
    assert child.said[-2].role == "final"
    assert {type(each) for each in child.said} == {Seen, Started, Progress, Measured, Saved, Done}


@pytest.mark.parametrize(
    ("loss", "keys"),
    [
        ("mse", ["samples", "loss", "mae", "rmse", "r2", "error_quantiles"]),
        ("l1", ["samples", "loss", "mae", "rmse", "r2", "error_quantiles"]),
        ("bce_with_logits", ["samples", "loss", "accuracy", "macro_f1"]),
    ],
)
def test_every_loss_of_numbers_trains_and_is_measured(
    numbers: Any, make_artifacts: MakeArtifacts, train: Any, loss: str, keys: list[str]
) -> None:
    artifacts = make_artifacts(loss=loss)
    done, _ = train(numbers.task(artifacts, loss=loss, epochs=15, learning_rate=0.02))
    assert list(done.validation) == keys
    assert done.validation["loss"] < 0.7 * done.baseline["loss"]


def test_an_uploaded_model_is_prepared_by_one_child_and_trained_by_another(
    make_workshop: Callable[..., Any], forward_model: Path, spawn: Any, train: Any, tmp_path: Path
) -> None:
    prepare = Prepare(
        source=str(forward_model),
        form="forward",
        work_dir=str(tmp_path / "prepared"),
        loss="cross_entropy",
    )
    child = spawn(prepare)
    prepared = child.last()
    assert isinstance(prepared, Prepared), prepared
    assert child.end() == 0
    workshop = make_workshop(signature=prepared.signature)
    task = replace(workshop.task(prepared.artifacts, epochs=12), output=prepared.output)
    done, _ = train(task)
    assert done.validation["accuracy"] > 0.85


@pytest.mark.parametrize(
    ("sizes", "threads", "cuts"),
    [((6, 16, 3), 1, (9, 16)), (LARGE, 2, (9,))],
    ids=["small", "large, on two threads"],
)
def test_a_killed_job_resumes_and_ends_with_the_same_bytes(
    make_workshop: Callable[..., Any],
    make_artifacts: MakeArtifacts,
    train: Any,
    *,
    spawn: Any,
    resumed: Any,
    sizes: tuple[int, ...],
    threads: int,
    cuts: tuple[int, ...],
) -> None:
    options = OptimizerOptions("adamw", weight_decay=0.1, ema_decay=0.9)
    wanted = {**asdict(options), "epochs": 4, "accumulation_steps": 2, "schedule": "cosine"}
    task = make_workshop().task(make_artifacts(dropout=True, sizes=sizes), **wanted)
    task = replace(task, limits=ResourceLimits(threads=threads, nice=0))
    straight, child = train(task)
    assert child.said[1].threads == threads
    task = replace(task, checkpoint_interval_s=0.0)
    start = task
    for step in cuts:
        child = spawn(start)
        saved = child.wait_for(saved_from(step))
        child.kill()
        assert saved.state.step % 7 != 0, "the cut must lie in the middle of an epoch"
        assert read_head(Path(saved.path)).optimizer_options == options
        start = resumed(task, saved)
    done, _ = train(start)
    assert Path(done.path).read_bytes() == Path(straight.path).read_bytes()
    assert (done.validation, done.baseline) == (straight.validation, straight.baseline)
    assert done.train_loss == straight.train_loss


def test_a_paused_job_resumes_and_ends_with_the_same_bytes(
    numbers: Any,
    make_artifacts: MakeArtifacts,
    train: Any,
    spawn: Any,
    resumed: Any,
) -> None:
    """With the best parameters so far, and the scale that it found for its labels."""
    wanted = {"max_steps": 3000, "batch_size": 4, "early_stopping_patience": 10_000}
    task = numbers.task(make_artifacts(loss="mse"), loss="mse", optimizer="sgd", **wanted)
    straight, _ = train(task)
    assert LABEL_SCALE in {each.name for each in onnx.load(straight.path).graph.initializer}
    child = spawn(task)
    child.wait_for(lambda message: isinstance(message, Measured) and message.step >= 60)
    child.send(Pause())
    assert child.last() == Stopped("paused")
    assert child.end() == 0
    saved = [each for each in child.said if isinstance(each, Saved)]
    best = [each for each in saved if each.role == "best"]
    assert saved[-1].role == "periodic"
    assert 60 <= saved[-1].state.step < 3000
    done, _ = train(resumed(task, saved[-1], best[-1]))
    assert Path(done.path).read_bytes() == Path(straight.path).read_bytes()
    assert done.validation == straight.validation


def test_cancel_ends_the_job_without_a_checkpoint(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, spawn: Any
) -> None:
    child = spawn(make_workshop().task(make_artifacts(), **LONG))
    child.wait_for(is_a(Progress))
    child.send(Cancel())
    assert child.last() == Stopped("cancelled")
    assert child.end() == 0
    assert not [each for each in child.said if isinstance(each, Saved)]


def test_a_child_whose_parent_is_gone_ends_and_leaves_nothing_half_written(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, spawn: Any
) -> None:
    task = make_workshop().task(make_artifacts(), **LONG)
    child = spawn(task)
    child.wait_for(is_a(Progress))
    child.hang_up()
    assert child.last() == Stopped("orphaned")
    assert child.end() == 0
    assert list(Path(task.work_dir).iterdir()) == []


def test_a_child_that_nobody_hears_ends(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts
) -> None:
    task = make_workshop().task(make_artifacts(), **LONG)
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "service.training"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode(task))
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0


def test_a_child_without_an_order_ends(spawn: Any) -> None:
    child = spawn()
    child.hang_up()
    assert child.end() == 0


def test_a_command_that_is_no_message_is_ignored_and_logged(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, spawn: Any
) -> None:
    child = spawn(make_workshop().task(make_artifacts(), **LONG))
    child.wait_for(is_a(Progress))
    child.process.stdin.write(b"dance\n")
    child.send(Cancel())
    assert child.last() == Stopped("cancelled")
    assert "command_ignored" in child.errors()


def test_parameters_of_an_earlier_job_are_where_a_new_one_begins(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, train: Any
) -> None:
    """With another optimizer, and steps that change nothing."""
    workshop, artifacts = make_workshop(), make_artifacts()
    first, child = train(workshop.task(artifacts, epochs=3))
    start = Start(how="parameters", checkpoint=child.said[-2].path)
    task = workshop.task(artifacts, epochs=1, optimizer="lion", learning_rate=1e-9)
    second, _ = train(replace(task, start=start))
    assert (second.step, second.baseline) == (13, first.validation)
    x = np.ones((2, 6), np.float32)
    logits = [open_session(each.path, threads=1).run(None, {"x": x})[0] for each in (first, second)]
    np.testing.assert_allclose(*logits, rtol=1e-5)


def test_a_resumed_job_keeps_its_number_of_threads(
    make_workshop: Callable[..., Any],
    make_artifacts: MakeArtifacts,
    train: Any,
    spawn: Any,
    resumed: Callable[..., Train],
) -> None:
    task = make_workshop().task(make_artifacts(sizes=LARGE), epochs=1)
    task = replace(task, checkpoint_interval_s=0.0)
    task = replace(task, limits=ResourceLimits(threads=2, nice=0))
    child = spawn(task)
    saved = child.wait_for(saved_from(4))
    child.kill()
    again = replace(resumed(task, saved), limits=ResourceLimits(threads=1, nice=0))
    _, child = train(again)
    assert child.said[1].threads == 2


def test_what_native_code_prints_never_reaches_the_parents_pipe() -> None:
    program = """
import os, subprocess, sys
from service.training.protocol.pipe import claim_stdout
messages = claim_stdout()
subprocess.run([sys.executable, "-c", "print('native')"])
print("python", flush=True)
os.write(messages, b"message")
"""
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, check=True, timeout=DEADLINE_S)
    assert run.stdout == b"message"
    assert b"native" in run.stderr
    assert b"python" in run.stderr


def test_a_job_loads_no_onnx_and_no_kind_of_preprocessing() -> None:
    """onnx takes longer to load than the job's first step."""
    code = (
        "import sys, service.training.job, service.training.engines.sessions.engine;"
        "late = 'onnx', 'service.preprocess.kinds', 'service.preprocess.audio';"
        "print([each for each in late if each in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout == "[]\n"
