"""What `honed doctor` looks at: the interpreter, the engine, the libraries."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from service.processes.interpreter import APPLICATION, command, environment

MIN_PYTHON, END_PYTHON = (3, 10), (3, 13)
CPU_ENGINE, GPU_ENGINE, INFERENCE = (
    "onnxruntime-training-cpu",
    "onnxruntime-training",
    "onnxruntime",
)
ENGINE_VERSION = "1.19.2"
MIN_ONNX = (1, 21)
STRICT_TABLES = (3, 37, 0)
WAL_RACE = (3, 7, 0), (3, 51, 2)
"""SQLite may corrupt a WAL database that two connections write: first and last such release."""
PROBE = command("cli.doctor.engine_probe")
PROBE_TIMEOUT_S = 120.0
LAST_WORDS = 400

InstalledVersion = Callable[[str], "str | None"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. remedy: what to do unless it is ok."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    remedy: str | None = None


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def check_python(current: tuple[int, int, int]) -> Check:
    """The engine has wheels for CPython 3.10 to 3.12."""
    text = ".".join(map(str, current))
    if MIN_PYTHON <= current[:2] < END_PYTHON:
        return Check("python", "ok", text)
    return Check("python", "fail", text, "install CPython 3.10, 3.11 or 3.12: the engine's wheels")


def check_engine_wheel(installed: InstalledVersion) -> Iterator[Check]:
    """Exactly one of the engine's wheels, and no inference wheel, may own `onnxruntime`."""
    found = {name: installed(name) for name in (CPU_ENGINE, GPU_ENGINE, INFERENCE)}
    engines = [name for name in (CPU_ENGINE, GPU_ENGINE) if found[name]]
    if not engines:
        yield Check(
            "engine", "fail", "not installed", f"pip install {CPU_ENGINE}=={ENGINE_VERSION}"
        )
    elif len(engines) == 2:
        yield Check(
            "engine",
            "fail",
            f"{CPU_ENGINE} and {GPU_ENGINE} are both installed and own one module folder",
            f"pip uninstall -y {CPU_ENGINE} {GPU_ENGINE} && pip install <the one you want>",
        )
    else:
        yield _engine(engines[0], found[engines[0]] or "")
    yield _inference_wheel(found[INFERENCE], (engines or [CPU_ENGINE])[0])


def check_engine_runs() -> Check:
    """Train one step in a child process: an engine that is broken may crash natively."""
    try:
        done = subprocess.run(
            PROBE,
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            cwd=APPLICATION,
            env={**environment(), "PYTHONWARNINGS": "ignore"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _engine_broken(f"did not train one step in {PROBE_TIMEOUT_S:g} s")
    if done.returncode == 0:
        return Check("training", "ok", done.stdout.strip())
    how = f"exit code {done.returncode}" if done.returncode > 0 else f"signal {-done.returncode}"
    words = done.stderr.strip()[-LAST_WORDS:]
    return _engine_broken(f"the child that trains one step ended with {how}: {words}")


def check_onnx(installed: InstalledVersion) -> Check:
    """Below 1.21 a model file can read any file of the device."""
    found = installed("onnx")
    if found is None:
        return Check("onnx", "fail", "not installed", "pip install 'onnx>=1.21'")
    if _numbers(found)[:2] < MIN_ONNX:
        return Check("onnx", "fail", f"{found} has path traversals", "pip install 'onnx>=1.21'")
    return Check("onnx", "ok", found)


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


def _engine(name: str, found: str) -> Check:
    build = "CPU build" if name == CPU_ENGINE else "GPU build"
    detail = f"{name} {found} ({build})"
    if found.split("+", maxsplit=1)[0] == ENGINE_VERSION:
        return Check("engine", "ok", detail)
    return Check(
        "engine",
        "warn",
        f"{detail}; honed is tested with {ENGINE_VERSION}",
        f"pip install {name}=={ENGINE_VERSION}, where there is a wheel",
    )


def _inference_wheel(found: str | None, engine: str) -> Check:
    if found is None:
        return Check("onnxruntime", "ok", "not installed beside the engine")
    return Check(
        "onnxruntime",
        "fail",
        f"onnxruntime {found} is installed too: both wheels own one module folder",
        f"pip uninstall -y onnxruntime && pip install --force-reinstall --no-deps "
        f"{engine}=={ENGINE_VERSION}",
    )


def _engine_broken(detail: str) -> Check:
    engine = GPU_ENGINE if installed_version(GPU_ENGINE) else CPU_ENGINE
    remedy = f"pip install --force-reinstall --no-deps {engine}=={ENGINE_VERSION}"
    return Check("training", "fail", detail, remedy)


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `1.23.2rc1` gives (1, 23)."""
    numbers = []
    for part in text.split("."):
        if not part.isdecimal():
            break
        numbers.append(int(part))
    return tuple(numbers)
