"""`honed doctor`: whether the engine trains, tried in a child process."""

from __future__ import annotations

import subprocess
import tempfile

from service.installation.checks import LAST_WORDS, Check
from service.processes.interpreter import APPLICATION, command, environment
from service.training.engines.packages import RUNTIMES, installed_version

PROBE = command("cli.doctor.engine_probe")
PROBE_TIMEOUT_S = 120.0


def check_engine_runs() -> Check:
    """Train one step in a child process: an engine that is broken may crash natively."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [*PROBE, folder],
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


def _engine_broken(detail: str) -> Check:
    name = next((name for name in RUNTIMES if installed_version(name)), "onnxruntime")
    remedy = f"pip install --force-reinstall --no-deps {name}=={installed_version(name)}"
    return Check("training", "fail", detail, remedy)
