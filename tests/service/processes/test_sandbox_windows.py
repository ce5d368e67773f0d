"""What children give up on Windows: real ones, whose tokens are asked."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import wait_until

from service.processes.interpreter import APPLICATION, command, environment

win32security = pytest.importorskip("win32security", reason="privileges are of Windows")
win32api = pytest.importorskip("win32api")
win32con = pytest.importorskip("win32con")

PREDICTOR = ("--threads", "1", "--sessions", "1", "--model-bytes", "1", "--files", r"C:\nowhere")
TRY = """
import win32api, win32security
from service.processes import sandbox
sandbox.enter()
access = win32security.TOKEN_QUERY | win32security.TOKEN_ADJUST_PRIVILEGES
token = win32security.OpenProcessToken(win32api.GetCurrentProcess(), access)
debug = win32security.LookupPrivilegeValue(None, "SeDebugPrivilege")
win32security.AdjustTokenPrivileges(token, False, [(debug, win32security.SE_PRIVILEGE_ENABLED)])
print(len(win32security.GetTokenInformation(token, win32security.TokenPrivileges)))
"""


def privileges(pid: int) -> list[str]:
    process = win32api.OpenProcess(win32con.PROCESS_QUERY_INFORMATION, False, pid)
    token = win32security.OpenProcessToken(process, win32security.TOKEN_QUERY)
    held = win32security.GetTokenInformation(token, win32security.TokenPrivileges)
    return [win32security.LookupPrivilegeName(None, each) for each, _ in held]


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("service.preprocess.thumbnail", ("64",)), ("service.prediction", PREDICTOR)],
)
def test_a_child_gives_up_its_privileges_before_it_reads(
    module: str, arguments: tuple[str, ...]
) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command(module, *arguments), cwd=APPLICATION, env=environment(), stdin=pipe, stderr=pipe
    ) as process:
        wait_until(
            lambda: privileges(process.pid) == ["SeChangeNotifyPrivilege"], "the end of the others"
        )
        process.communicate()


def test_a_child_cannot_take_them_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRY], cwd=APPLICATION, capture_output=True, check=True, text=True
    )
    assert done.stdout.strip() == "1"
