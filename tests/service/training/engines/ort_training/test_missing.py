"""What needs On-Device Training is refused where the runtime has none, with the reason."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.demo import digits
from service.training.engines.ort_training import artifacts, runtime
from service.training.engines.ort_training.engine import OrtEngine
from service.training.errors import EngineMissing
from service.training.preparation.prepare import prepare
from service.training.protocol.messages.preparation import Prepare, Refused


@pytest.fixture(autouse=True)
def _nothing_trains_artifacts() -> Iterator[None]:
    try:
        runtime.training_api()
    except EngineMissing:
        yield
    else:
        pytest.skip("this runtime has On-Device Training")


def test_an_upload_of_artifacts_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "artifacts.zip", "w") as archive:
        for name in artifacts.FILES.values():
            archive.writestr(name, b"")
    source = str(tmp_path / "artifacts.zip")
    answer = prepare(Prepare(source, "artifacts", str(tmp_path / "made"), loss="mse"))
    assert isinstance(answer, Refused)
    assert [problem.pointer for problem in answer.problems] == ["/artifacts"]
    assert "has no On-Device Training" in answer.detail
    assert "pip install onnxruntime-training-cpu==1.19.2" in answer.detail


def test_writing_artifacts_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    source = str(digits.folder() / "base.onnx")
    order = Prepare(
        source, "forward", str(tmp_path / "made"), loss="cross_entropy", engine="ort_training"
    )
    answer = prepare(order)
    assert isinstance(answer, Refused)
    assert "has no On-Device Training" in answer.detail
    assert not (tmp_path / "made").exists()


def test_a_job_of_artifacts_fails_with_a_code_of_its_own(tmp_path: Path) -> None:
    made = artifacts.paths(tmp_path)
    for name in artifacts.FILES.values():
        (tmp_path / name).touch()
    with pytest.raises(EngineMissing, match="onnxruntime-training-cpu==1"):
        OrtEngine(made, checkpoint=Path(made.checkpoint), output="y", threads=1)
