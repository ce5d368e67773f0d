"""What is installed, from the interpreter to the sandbox, and how the data folder is."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from service.access.token_secrets import is_secret, read_secret
from service.policy.checks import size
from service.processes.exits import describe_exit
from service.processes.interpreter import APPLICATION, command, environment
from service.training.engines.packages import RUNTIMES, TRAINING, installed_version
from storage.database.connection import sqlite3
from storage.disk.permissions import open_to_others
from storage.errors import in_words

MIN_PYTHON = (3, 10)
TRAINING_VERSION, MIN_RUNTIME = "1.19.2", (1, 22)
MIN_ONNX = (1, 21)
STRICT_TABLES = (3, 37, 0)
WAL_RACE = (3, 7, 0), (3, 51, 2)
"""First and last SQLite release that may corrupt a WAL database with two writers."""
SANDBOX_PROBE = command("service.processes.sandbox")
PROBE_TIMEOUT_S = 120.0
LAST_WORDS = 400
LOW_SPACE_BYTES = 2**30
NETWORK_FILESYSTEMS = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "fuse.sshfs", "glusterfs")
"""File systems, or prefixes, whose locks and shared memory SQLite cannot rely on."""

InstalledVersion = Callable[[str], "str | None"]


class Check(Struct, frozen=True):
    """One check. remedy: what to do unless it is ok."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    remedy: str | None = None


def packages() -> Iterator[Check]:
    """What is installed, the cheap checks first."""
    yield check_python(sys.version_info[:3])
    yield check_runtime(installed_version)
    yield check_onnx(installed_version)
    yield check_sqlite()
    yield check_sandbox()


def check_python(current: tuple[int, int, int]) -> Check:
    """CPython 3.10 or newer."""
    text = ".".join(map(str, current))
    if current[:2] >= MIN_PYTHON:
        return Check("python", "ok", text)
    return Check("python", "fail", text, "install CPython 3.10 or newer")


def check_runtime(installed: InstalledVersion) -> Check:
    """Exactly one package must provide `onnxruntime`; it decides what can be trained."""
    packages = [name for name in RUNTIMES if installed(name)]
    if not packages:
        return Check("runtime", "fail", "no onnxruntime is installed", "pip install onnxruntime")
    if len(packages) > 1:
        return Check(
            "runtime",
            "fail",
            f"{' and '.join(packages)} are installed and own one module folder",
            f"pip uninstall -y {' '.join(packages)} && pip install <the one you want>",
        )
    (name,) = packages
    return _runtime(name, installed(name) or "")


def check_sandbox() -> Check:
    """The sandbox of children, which process untrusted models and pictures."""
    if sys.platform != "linux":
        of_windows = ", without privileges" if sys.platform == "win32" else ""
        return _no_sandbox(f"children may do all that this user may{of_windows}", "it needs Linux")
    printed, fault = probed(SANDBOX_PROBE)
    if fault:
        return Check("sandbox", "fail", f"the child that tries it {fault}", "report this")
    report = json.loads(printed)
    if not report["seccomp"]:
        remedy = "run a kernel with CONFIG_SECCOMP_FILTER, on x86-64 or aarch64"
        return _no_sandbox("the kernel refuses children no system call", remedy)
    if not report["landlock"]:
        remedy = "run Linux 5.13 or newer, with landlock among the kernel's lsm="
        return _no_sandbox("children may read all files of this user: no Landlock", remedy)
    return Check(
        "sandbox",
        "ok" if len(report["refused"]) == 2 else "fail",
        f"seccomp, Landlock ABI {report['landlock']}, {report['files']} descriptors, no core "
        f"dumps; a child was refused: {', '.join(report['refused']) or 'nothing'}",
        None if len(report["refused"]) == 2 else "report this",
    )


def check_onnx(installed: InstalledVersion) -> Check:
    """Below 1.21 a model file can read any file of the device."""
    version = installed("onnx")
    if version is None:
        return Check("onnx", "fail", "not installed", "pip install 'onnx>=1.21'")
    if _numbers(version)[:2] < MIN_ONNX:
        return Check("onnx", "fail", f"{version} has path traversals", "pip install 'onnx>=1.21'")
    return Check("onnx", "ok", version)


def check_sqlite(library: str = sqlite3.sqlite_version) -> Check:
    """STRICT tables are needed; releases with the WAL race are safe only with one writer."""
    numbers = _numbers(library)
    if numbers < STRICT_TABLES:
        return Check("sqlite", "fail", f"{library} lacks STRICT tables", "use SQLite 3.37 or newer")
    if WAL_RACE[0] <= numbers <= WAL_RACE[1]:
        return Check(
            "sqlite",
            "warn",
            f"{library} can corrupt a WAL database with two writers (fixed after 3.51.2)",
            "let nothing but honed write to its database",
        )
    return Check("sqlite", "ok", library)


def check_disk(folder: Path) -> Iterator[Check]:
    """It must be on a local disk with enough free space. folder: exists."""
    free_bytes = shutil.disk_usage(folder).free
    yield Check(
        "disk space",
        "ok" if free_bytes >= LOW_SPACE_BYTES else "warn",
        f"{size(free_bytes)} free",
        None if free_bytes >= LOW_SPACE_BYTES else "free some, or set HONED_DATA_DIR elsewhere",
    )
    kind = filesystem(folder)
    if kind.startswith(NETWORK_FILESYSTEMS):
        yield Check(
            "filesystem",
            "fail",
            f"{kind}: SQLite's locks do not hold over a network",
            "set HONED_DATA_DIR to a folder on a disk of this machine",
        )
    else:
        yield Check("filesystem", "ok", kind)


def check_permissions(folder: Path) -> Check:
    """Only its owner may read the contents of the data folder."""
    try:
        first = next(open_to_others(folder), None)
    except OSError as error:
        remedy = "run as the daemon's user, or set HONED_DATA_DIR"
        return Check("permissions", "fail", f"{error.filename}: {error.strerror}", remedy)
    if first is not None:
        remedy = f"restart the daemon, which closes them, or: chmod -R go= {folder}"
        return Check("permissions", "fail", f"others may read {first}", remedy)
    return Check("permissions", "ok", "nobody else may read the data folder")


def check_token_file(path: Path) -> Check:
    """It holds the admin token, and only its owner may read it."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        is_whole = is_secret(read_secret(path))
    except FileNotFoundError:
        return Check("token", "ok", f"{path} is made at the first start")
    except OSError as error:
        remedy = "run as the daemon's user, or set HONED_DATA_DIR"
        return Check("token", "fail", f"cannot look at {path}: {error.strerror}", remedy)
    if os.name == "posix" and mode & 0o077:
        return Check(
            "token", "fail", f"{path} has mode {mode:04o}: others can read it", f"chmod 600 {path}"
        )
    if not is_whole:
        remedy = "remove it: the next start makes a new token"
        return Check("token", "fail", f"{path} is empty or damaged", remedy)
    return Check("token", "ok", str(path))


def probed(line: list[str]) -> tuple[str, str]:
    """What a command line prints in a child of its own, and how it failed, if it did."""
    try:
        done = subprocess.run(
            line,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            cwd=APPLICATION,
            env={**environment(), "PYTHONWARNINGS": "ignore"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"did not end in {PROBE_TIMEOUT_S:g} s"
    except OSError as error:
        return "", f"cannot be started: {in_words(error)}"
    words = done.stderr.strip().rpartition("\n")[2][-LAST_WORDS:]
    return done.stdout, f"{describe_exit(done.returncode)}: {words}" if done.returncode else ""


def filesystem(path: Path) -> str:
    """The type of the file system that holds path, such as `ext4`; `unknown` if no mount has it."""
    import psutil

    real = path.resolve()
    mounts = [
        mount for mount in psutil.disk_partitions(all=True) if real.is_relative_to(mount.mountpoint)
    ]
    longest = max(mounts, key=lambda mount: len(mount.mountpoint), default=None)
    return longest.fstype if longest is not None and longest.fstype else "unknown"


def _runtime(name: str, version: str) -> Check:
    trains = "trains every model, Microsoft's artifacts included"
    if name not in TRAINING:
        trains = "trains every model but Microsoft's artifacts"
        tested = _numbers(version) >= MIN_RUNTIME
        remedy = f"pip install '{name}>={'.'.join(map(str, MIN_RUNTIME))}'"
    else:
        tested = version.split("+", maxsplit=1)[0] == TRAINING_VERSION
        remedy = f"pip install {name}=={TRAINING_VERSION}, where there is a wheel"
    if tested:
        return Check("runtime", "ok", f"{name} {version}, {trains}")
    return Check("runtime", "warn", f"{name} {version} is none that honed is tested with", remedy)


def _no_sandbox(detail: str, remedy: str) -> Check:
    return Check("sandbox", "warn", detail, f"{remedy}; else use only models that you trust")


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `1.23.2rc1` gives (1, 23)."""
    numbers = []
    for part in text.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)
