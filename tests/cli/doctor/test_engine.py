from __future__ import annotations

import os
import sys

import pytest

from cli.doctor import doctor
from service.training.engines.runtime import onnxruntime


def test_the_engine_trains_a_step_in_a_child_without_torch() -> None:
    check = doctor.check_engine_runs()
    assert check.status == "ok"
    version = onnxruntime.__version__
    assert f"sessions 1 on onnxruntime {version} trains, without torch" in check.detail


def test_an_engine_that_breaks_its_process_is_told_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "PROBE", [sys.executable, "-c", "import os; os.abort()"])
    crashed = doctor.check_engine_runs()
    assert crashed.status == "fail"
    assert ("SIGABRT" if os.name == "posix" else "exit code 3") in crashed.detail
    monkeypatch.setattr(doctor, "PROBE", [sys.executable, "-c", "raise ImportError('no engine')"])
    assert doctor.check_engine_runs().detail.endswith("exit code 1: ImportError: no engine")
