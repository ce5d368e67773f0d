from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from cli.doctor import checks

CPU = {"onnxruntime-training-cpu": "1.19.2"}
GPU = {"onnxruntime-training": "1.19.2"}


def _statuses(installed: dict[str, str]) -> list[str]:
    return [check.status for check in checks.check_engine_wheel(installed.get)]


def _details(installed: dict[str, str]) -> str:
    return " ".join(check.detail for check in checks.check_engine_wheel(installed.get))


@pytest.mark.parametrize(
    ("version", "status"),
    [((3, 9, 18), "fail"), ((3, 10, 0), "ok"), ((3, 12, 9), "ok"), ((3, 13, 0), "fail")],
)
def test_python_is_one_the_engine_has_wheels_for(
    version: tuple[int, int, int], status: str
) -> None:
    assert checks.check_python(version).status == status


@pytest.mark.parametrize(("installed", "build"), [(CPU, "CPU build"), (GPU, "GPU build")])
def test_either_build_of_the_engine_is_recognised(installed: dict[str, str], build: str) -> None:
    assert _statuses(installed) == ["ok", "ok"]
    assert build in _details(installed)


@pytest.mark.parametrize(
    ("installed", "statuses"),
    [
        ({}, ["fail", "ok"]),
        (CPU | GPU, ["fail", "ok"]),
        (CPU | {"onnxruntime": "1.20.0"}, ["ok", "fail"]),
        ({"onnxruntime-training": "1.15.1"}, ["warn", "ok"]),
        ({"onnxruntime-training": "1.19.2+cu118"}, ["ok", "ok"]),
    ],
)
def test_wheels_that_share_a_folder_fail(installed: dict[str, str], statuses: list[str]) -> None:
    assert _statuses(installed) == statuses


@pytest.mark.parametrize(
    ("version", "status"), [(None, "fail"), ("1.20.1", "fail"), ("1.21.0rc1", "ok"), ("2.0", "ok")]
)
def test_onnx_with_path_traversals_fails(version: str | None, status: str) -> None:
    installed: Callable[[str], str | None] = {"onnx": version}.get
    assert checks.check_onnx(installed).status == status


@pytest.mark.parametrize(
    ("version", "status"),
    [("3.36.0", "fail"), ("3.40.1", "warn"), ("3.51.2", "warn"), ("3.51.3", "ok"), ("4.0.0", "ok")],
)
def test_sqlite_with_the_wal_race_is_warned_of(version: str, status: str) -> None:
    assert checks.check_sqlite(version).status == status


def test_whatever_is_not_ok_has_a_remedy() -> None:
    found = [
        checks.check_python((3, 9, 0)),
        *checks.check_engine_wheel({}.get),
        *checks.check_engine_wheel((CPU | GPU | {"onnxruntime": "1"}).get),
        *checks.check_engine_wheel({"onnxruntime-training": "1.15.1"}.get),
        checks.check_onnx({}.get),
        checks.check_sqlite("3.40.1"),
    ]
    assert all(check.remedy for check in found if check.status != "ok")


def test_the_engine_trains_a_step_in_a_child_without_torch() -> None:
    check = checks.check_engine_runs()
    assert check.status == "ok"
    assert "onnxruntime-training 1.19.2 trains, without torch" in check.detail


def test_an_engine_that_breaks_its_process_is_told_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "PROBE", [sys.executable, "-c", "import os; os.abort()"])
    crashed = checks.check_engine_runs()
    assert crashed.status == "fail"
    assert "signal 6" in crashed.detail
    monkeypatch.setattr(checks, "PROBE", [sys.executable, "-c", "raise ImportError('no engine')"])
    assert "no engine" in checks.check_engine_runs().detail
