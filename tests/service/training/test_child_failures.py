"""How the training child fails: with a message, or as a crash that is tried again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from training_child import Child

from service.training.limits import MIN_MEMORY_BYTES
from service.training.protocol.messages.preparation import Prepare, Refused
from service.training.protocol.messages.shared import Artifacts, Failed, Pause
from service.training.protocol.messages.training import LoopState, Start

MakeArtifacts = Callable[..., Artifacts]


def test_without_labelled_samples_a_job_fails_for_good(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, spawn: Any
) -> None:
    task = make_workshop(train=0, validation=0).task(make_artifacts(), ignore_index=1)
    child = spawn(task)
    last = child.last()
    assert isinstance(last, Failed)
    assert "no labelled training samples beside those of the ignore_index 1;" in last.detail
    assert (last.code, child.end()) == ("no_samples", 0)


def test_a_loss_that_is_not_finite_fails_for_good_and_says_what_to_try(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, spawn: Any
) -> None:
    task = make_workshop().task(make_artifacts(), optimizer="sgd", epochs=5, learning_rate=1e30)
    last = spawn(task).last()
    assert isinstance(last, Failed)
    assert last.code == "loss_not_finite"
    assert "try a lower learning_rate" in last.detail


@pytest.mark.parametrize("how", ["resume", "parameters"])
def test_a_damaged_checkpoint_fails_for_good(
    make_workshop: Callable[..., Any],
    make_artifacts: MakeArtifacts,
    spawn: Any,
    tmp_path: Path,
    how: Any,
) -> None:
    (tmp_path / "damaged").write_bytes(b"no checkpoint")
    start = Start(how=how, checkpoint=str(tmp_path / "damaged"), state=LoopState())
    last = spawn(replace(make_workshop().task(make_artifacts()), start=start)).last()
    assert isinstance(last, Failed)
    assert last.code == "checkpoint_unreadable"
    assert str(tmp_path / "damaged") in last.detail


def test_a_label_out_of_range_never_reaches_the_engine(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, spawn: Any, samples: Any
) -> None:
    workshop = make_workshop()
    _, labels = samples(260, target=workshop.signature.target)
    target = replace(workshop.signature.target, num_classes=2)
    workshop.signature = replace(workshop.signature, target=target)
    last = spawn(workshop.task(make_artifacts())).last()
    assert isinstance(last, Failed)
    assert last.code == "samples_invalid"
    assert last.detail.startswith(f"sample {int(np.argmax(labels == 2)) + 1}: ")


def test_a_bug_of_ours_fails_for_good_with_its_last_words_and_a_traceback(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, spawn: Any
) -> None:
    """A batch of no samples passes no check of a request."""
    child = spawn(make_workshop().task(make_artifacts(), batch_size=0))
    last = child.last()
    assert isinstance(last, Failed)
    assert last.code == "internal"
    assert "ZeroDivisionError: " in last.detail
    assert child.end() == 0
    assert "Traceback" in child.errors()


def test_a_package_that_is_not_installed_is_no_bug(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['onnx'] = None; import service.training.__main__ as it; it.main()"
    )
    pipe = subprocess.PIPE
    child = Child(
        subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe)
    )
    source, work_dir = str(tmp_path / "upload"), str(tmp_path / "prepared")
    child.send(Prepare(source=source, form="forward", work_dir=work_dir, loss="mse"))
    last = child.last()
    child.close()
    assert isinstance(last, Failed)
    assert last.code == "engine_missing", last.detail
    assert "onnx" in last.detail
    assert "honed doctor" in last.detail


def test_a_database_that_cannot_be_read_is_the_devices_fault(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, spawn: Any, tmp_path: Path
) -> None:
    (tmp_path / "damaged.db").write_bytes(b"no database" * 1000)
    task = replace(make_workshop().task(make_artifacts()), database=str(tmp_path / "damaged.db"))
    last = spawn(task).last()
    assert isinstance(last, Failed)
    assert last.code == "storage_broken"


def test_a_first_line_that_is_no_order_is_a_crash(spawn: Any) -> None:
    child = spawn(Pause())
    assert child.end() == 1
    assert "this is not a task" in child.errors()


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts mappings on Linux alone")
@pytest.mark.parametrize("limit_mib", [48, 128, 160])
def test_too_little_memory_fails_with_a_clear_last_word(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, spawn: Any, limit_mib: int
) -> None:
    artifacts = make_artifacts(sizes=(6, 2800, 2800, 3))
    task = make_workshop().task(artifacts, epochs=1)
    child = spawn(task, memory_bytes=limit_mib << 20)
    last = child.last()
    assert isinstance(last, Failed)
    assert last.code == "out_of_memory", last
    assert str(limit_mib << 20) in last.detail
    assert "onnxruntime" not in last.detail


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts mappings on Linux alone")
def test_the_smallest_memory_that_is_allowed_trains_a_small_model(
    make_workshop: Callable[..., Any], make_artifacts: MakeArtifacts, train: Any
) -> None:
    task = make_workshop().task(make_artifacts(), epochs=1)
    train(task, memory_bytes=MIN_MEMORY_BYTES)


@pytest.mark.skipif(sys.platform != "linux", reason="a file that cannot be read")
def test_a_disk_that_fails_is_told_as_such(spawn: Any, tmp_path: Path) -> None:
    """The first page of a process's memory is never there: EIO."""
    work_dir = str(tmp_path / "prepared")
    child = spawn(Prepare(source="/proc/self/mem", form="forward", work_dir=work_dir, loss="mse"))
    last = child.last()
    assert isinstance(last, Failed)
    assert last.code == "storage_broken"
    assert "Input/output error" in last.detail
    assert child.end() == 0


def test_an_upload_that_is_no_model_is_refused_by_the_child(spawn: Any, tmp_path: Path) -> None:
    (tmp_path / "upload").write_bytes(b"no model")
    source, work_dir = str(tmp_path / "upload"), str(tmp_path / "prepared")
    child = spawn(Prepare(source=source, form="forward", work_dir=work_dir, loss="mse"))
    assert isinstance(child.last(), Refused)
    assert child.end() == 0
