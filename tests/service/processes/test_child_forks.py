"""Children that the tests' daemons fork: they find what those find that are started."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from daemon_process import import_path
from support import IMPORTED_BY_TESTS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks on Linux only")

PARENT = """
import json, os, resource, subprocess, sys
from contextlib import ExitStack
from child_forks import children_forked, fork_children
way, folder, path = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
until_the_end = ExitStack()
if way == "forked":
    fork_children(path, name="forks", modules=("child",))
if way == "forked beside":
    forked = children_forked(path, preloaded=["json"], modules=("child",))
    until_the_end.enter_context(forked)
os.umask(0o027)
os.nice(3)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 300))
pipe = subprocess.PIPE
environment = {"PARENT": str(os.getpid()), "LC_ALL": "C.UTF-8"}
given = {"cwd": folder, "env": environment, "stdin": pipe, "stdout": pipe, "stderr": pipe}
children = []
for wish in ("7", "breaks", "hangs"):
    options = ["-W", "error"] if wish == "breaks" else []
    child = subprocess.Popen([sys.executable, *options, "-m", "child", wish], **given)
    resource.prlimit(child.pid, resource.RLIMIT_CORE, (0, 1000))
    child.stdin.write(b"a question")
    child.stdin.close()
    said = child.stdout.readline().decode()
    if wish == "hangs":
        child.kill()
    children.append((said, child.stderr.read().decode(), child.wait()))
until_the_end.close()
print(json.dumps(children))
"""
CHILD = """
import gc, json, os, resource, sys, threading, warnings
from pathlib import Path
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
names = ("Umask", "Threads", "SigIgn", "SigCgt", "SigBlk", "NoNewPrivs", "Seccomp")
limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
told = {
    "heard": sys.stdin.read(),
    "its parent's": os.environ.pop("PARENT") == str(os.getppid()),
    "name": [__name__, __spec__.name, __file__],
    "arguments": [sys.argv, sys.orig_argv[1:], Path("/proc/self/cmdline").read_text().strip("\\0")],
    "folder": str(Path.cwd()),
    "environment": dict(os.environ),
    "path": sys.path,
    "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
    "limits": [resource.getrlimit(getattr(resource, name)) for name in limits],
    "priority": os.getpriority(os.PRIO_PROCESS, 0),
    "main thread": threading.current_thread() is threading.main_thread(),
    "collects": gc.isenabled(),
    "of its status": [status[name] for name in names],
}
print(json.dumps(told), flush=True)
if sys.argv[1] == "breaks":
    warnings.warn("it broke")
    sys.exit(2)
if sys.argv[1] == "hangs":
    threading.Event().wait()
sys.exit(int(sys.argv[1]))
"""


def children_of(way: str, folder: Path) -> list[tuple[dict[str, Any], str, int]]:
    command = [sys.executable, "-c", PARENT, way, str(folder), json.dumps(import_path())]
    environment = {"PYTHONPATH": IMPORTED_BY_TESTS[0]}
    root = Path(__file__).parents[3]
    ended = subprocess.run(
        command, capture_output=True, env=environment, cwd=root, check=False, timeout=60
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return [(json.loads(said), errors, code) for said, errors, code in json.loads(ended.stdout)]


@pytest.mark.parametrize("way", ["forked", "forked beside"])
def test_a_forked_child_finds_what_a_started_one_finds(tmp_path: Path, way: str) -> None:
    """Limits that the parent sets once it has the child's number among it."""
    (tmp_path / "child.py").write_text(CHILD)

    forked, started = children_of(way, tmp_path), children_of("started", tmp_path)

    assert [told for told, _, _ in forked] == [told for told, _, _ in started]
    assert all(told["its parent's"] for told, _, _ in forked)
    assert [code for _, _, code in forked] == [7, 1, -signal.SIGKILL]
    assert [code for _, _, code in started] == [7, 1, -signal.SIGKILL]
    assert all("UserWarning: it broke" in made[1][1] for made in (forked, started))
