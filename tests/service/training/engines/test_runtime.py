"""The door to ONNX Runtime brings nothing else, and its errors are ours."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from support import DEADLINE_S

from service.training.engines.runtime import foreign_errors, open_session
from service.training.errors import ArtifactsUnreadable

TINY = 1e-30
ON_X86 = platform.machine() in {"x86_64", "AMD64"}
"""Where the runtime can be told to take denormals for 0."""

DENORMALS = f"""
import sys, threading
import numpy as np
from service.training.engines.runtime import IDENTITY, flush_denormals, open_session
if sys.argv[1] == "flush":
    flush_denormals()
open_session(IDENTITY, threads=1)
tiny = np.full(4, {TINY}, np.float32)
found = []
look = lambda: found.append(float((tiny * np.float32({TINY} * 1e20)).max()))
look()
thread = threading.Thread(target=look)
thread.start()
thread.join()
print(*found)
"""


def test_the_runtime_keeps_no_id_of_the_device(tmp_path: Path) -> None:
    """1.32 writes one when it is imported, for its telemetry, unless it is told not to."""
    program = (
        "import os, sys\n"
        "from service.training.engines.runtime import IDENTITY, open_session\n"
        "from service.training.export import quantize\n"
        "open_session(IDENTITY, threads=1)\n"
        "sys.exit(os.environ['ORT_DISABLE_TELEMETRY'] != '1')\n"
    )
    folders = dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME"), str(tmp_path))
    told = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    command = [sys.executable, "-B", "-c", program]
    subprocess.run(command, env={**told, **folders}, check=True, timeout=DEADLINE_S)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(("how", "expected"), [("flush", not ON_X86), ("keep", True)])
def test_denormals_are_zero_in_a_process_that_asks_for_it(how: str, expected: bool) -> None:
    command = [sys.executable, "-c", DENORMALS, how]
    run = subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_S)
    # The thread begins as its process began on Windows, elsewhere as the thread that starts it.
    of_thread = expected or sys.platform == "win32"
    assert [float(each) > 0 for each in run.stdout.split()] == [expected, of_thread]


def test_the_runtime_is_imported_without_onnx_and_torch() -> None:
    program = (
        "import sys, service.training.engines.runtime;"
        "print(sorted({'onnx', 'google.protobuf', 'torch', 'onnxruntime'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert run.stdout.split() == [b"['onnxruntime']"]


def test_a_file_that_is_no_model_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "step.onnx"
    path.write_bytes(b"no model")
    with (
        pytest.raises(ArtifactsUnreadable, match=r"cannot load the step model: .*step\.onnx"),
        foreign_errors(ArtifactsUnreadable, "cannot load the step model"),
    ):
        open_session(path, threads=1)
