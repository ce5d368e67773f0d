"""Whole jobs in the engine of sessions: a real child prepares, trains, is killed and goes on."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import asdict, replace
from perceptrons import perceptron

from service.training.engines.checkpoint import read_head
from service.training.engines.runtime import open_session
from service.training.optimizer.options import OptimizerOptions
from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.protocol.messages.shared import Failed, ResourceLimits
from service.training.protocol.messages.training import Done, Saved, Start, Started, Train


def threads_of(child: Any) -> int:
    (started,) = (each for each in child.said if isinstance(each, Started))
    return int(started.threads)


@pytest.fixture
def task(
    spawn: Callable[..., Any], make_workshop: Callable[..., Any], tmp_path: Path
) -> Callable[..., Train]:
    """To train a model that a child has prepared. A wide one is worth two threads."""
    workshop = make_workshop()

    def make(
        *,
        wide: bool = False,
        threads: int = 1,
        optimizer_options: OptimizerOptions | None = None,
        **wanted: Any,
    ) -> Train:
        hidden = (512, 512) if wide else (16,)
        onnx.save(perceptron((6, *hidden, 3), dropout=False, seed=0), tmp_path / "upload.onnx")
        child = spawn(
            Prepare(
                source=str(tmp_path / "upload.onnx"),
                form="forward",
                work_dir=str(tmp_path / "prepared"),
                loss="cross_entropy",
                engine="sessions",
            )
        )
        prepared = child.last()
        assert isinstance(prepared, Prepared), prepared
        limits = ResourceLimits(threads=threads, nice=0)
        chosen = {} if optimizer_options is None else asdict(optimizer_options)
        return replace(workshop.task(prepared.artifacts, **chosen, **wanted), limits=limits)

    return make


def test_a_job_ends_in_a_model_that_plain_onnxruntime_runs(
    task: Callable[..., Train], train: Any, samples: Any
) -> None:
    wanted = task(epochs=12)
    done, child = train(wanted)
    assert (done.step, done.epoch, done.reason) == (12 * 13, 12, "finished")
    assert done.validation["accuracy"] > 0.85 > done.baseline["accuracy"]
    (started,) = (each for each in child.said if isinstance(each, Started))
    assert started.engine.startswith("sessions 1 on onnxruntime 1.")
    x, labels = samples(260, target=wanted.signature.target)
    (logits,) = open_session(done.path, threads=1).run(None, {"x": x[200:]})
    assert (logits.argmax(axis=1) == labels[200:]).mean() == done.validation["accuracy"]
    onnx.checker.check_model(done.path, full_check=True)


@pytest.mark.parametrize("wide", [False, True])
def test_a_job_that_is_killed_ends_with_the_same_bytes(
    task: Callable[..., Train], spawn: Any, train: Any, resumed: Any, wide: bool
) -> None:
    optimizer_options = OptimizerOptions("adamw", weight_decay=0.1, ema_decay=0.9)
    wanted = task(
        wide=wide,
        threads=2,
        optimizer_options=optimizer_options,
        epochs=4,
        accumulation_steps=2,
        schedule="cosine",
    )
    straight, child = train(wanted)
    assert threads_of(child) == (2 if wide else 1)
    child = spawn(replace(wanted, checkpoint_interval_s=0.0))
    saved = child.wait_for(lambda each: isinstance(each, Saved) and each.state.step >= 9)
    child.kill()
    assert read_head(Path(saved.path)).optimizer_options == optimizer_options
    again, _ = train(resumed(wanted, saved))
    assert Path(again.path).read_bytes() == Path(straight.path).read_bytes()
    assert again.validation == straight.validation


def test_a_job_begins_from_the_parameters_of_another(
    task: Callable[..., Train], train: Any
) -> None:
    first, child = train(task(epochs=3))
    last = [each for each in child.said if isinstance(each, Saved)][-1]
    wanted = task(epochs=1, optimizer_options=OptimizerOptions("lion"), learning_rate=1e-9)
    start = Start(how="parameters", checkpoint=last.path)
    second, _ = train(replace(wanted, start=start))
    assert second.baseline == first.validation
    x = np.ones((2, 6), np.float32)
    logits = [open_session(each.path, threads=1).run(None, {"x": x})[0] for each in (first, second)]
    np.testing.assert_allclose(*logits, rtol=1e-5)


def test_a_checkpoint_that_does_not_fit_fails_the_job_by_name(
    task: Callable[..., Train], spawn: Any, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint").write_bytes(b"damaged")
    start = Start(how="parameters", checkpoint=str(tmp_path / "checkpoint"))
    failed = spawn(replace(task(epochs=1), start=start)).last()
    assert isinstance(failed, Failed)
    assert failed.code == "checkpoint_unreadable"
    assert not isinstance(failed, Done)


def test_a_provider_that_is_not_there_is_told_and_the_job_ends_as_without(
    task: Callable[..., Train], train: Any
) -> None:
    wanted = task(epochs=1)
    plain, _ = train(wanted)
    done, child = train(replace(wanted, providers=("NoSuchExecutionProvider",)))
    (started,) = (each for each in child.said if isinstance(each, Started))
    assert any("NoSuchExecutionProvider is not used: the" in each for each in started.warnings)
    assert Path(done.path).read_bytes() == Path(plain.path).read_bytes()


def test_a_job_of_this_engine_loads_no_onnx_and_no_kind_of_preprocessing() -> None:
    """onnx takes longer to load than the job's first step."""
    code = (
        "import sys, service.training.job, service.training.engines.sessions.engine;"
        "late = 'onnx', 'service.preprocess.kinds', 'service.preprocess.audio';"
        "print([each for each in late if each in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout == "[]\n"
