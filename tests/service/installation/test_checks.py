from __future__ import annotations

from collections.abc import Callable

import pytest

from service.installation import checks

CPU = {"onnxruntime-training-cpu": "1.19.2"}
GPU = {"onnxruntime-training": "1.19.2"}
PLAIN = {"onnxruntime": "1.22.0"}


@pytest.mark.parametrize(
    ("version", "status"), [((3, 9, 18), "fail"), ((3, 10, 0), "ok"), ((3, 14, 2), "ok")]
)
def test_python_is_3_10_or_newer(version: tuple[int, int, int], status: str) -> None:
    assert checks.check_python(version).status == status


@pytest.mark.parametrize(
    ("installed", "detail"),
    [
        (CPU, "onnxruntime-training-cpu 1.19.2, trains every model, Microsoft's"),
        (GPU, "onnxruntime-training 1.19.2, trains every model, Microsoft's"),
        (PLAIN, "onnxruntime 1.22.0, trains every model but Microsoft's artifacts"),
    ],
)
def test_the_runtime_is_named_and_what_it_trains(installed: dict[str, str], detail: str) -> None:
    check = checks.check_runtime(installed.get)
    assert check.status == "ok"
    assert check.detail.startswith(detail)


@pytest.mark.parametrize(
    ("installed", "status"),
    [
        ({}, "fail"),
        (CPU | GPU, "fail"),
        (CPU | PLAIN, "fail"),
        ({"onnxruntime-training": "1.15.1"}, "warn"),
        ({"onnxruntime-training": "1.19.2+cu118"}, "ok"),
        ({"onnxruntime": "1.21.1"}, "warn"),
        ({"onnxruntime-gpu": "1.31.1"}, "ok"),
    ],
)
def test_one_tested_package_owns_the_folder(installed: dict[str, str], status: str) -> None:
    assert checks.check_runtime(installed.get).status == status


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
        checks.check_runtime({}.get),
        checks.check_runtime((CPU | GPU | PLAIN).get),
        checks.check_runtime({"onnxruntime-training": "1.15.1"}.get),
        checks.check_onnx({}.get),
        checks.check_sqlite("3.40.1"),
    ]
    assert all(check.remedy for check in found if check.status != "ok")
