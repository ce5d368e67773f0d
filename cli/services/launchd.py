"""Hone as a launchd service on macOS: for the calling user, while logged in."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from cli.errors import Failure
from cli.services.systemd import installed_program, write

LABEL = "honed"
TIMEOUT_S = 120
NOT_FOUND = {3, 113}
"""Exit codes of launchctl for an unknown service: bootout, print."""


class Agent:
    """A launch agent: launchd.plist(5)."""

    def __init__(self) -> None:
        self.path = Path.home() / "Library/LaunchAgents/honed.plist"
        self._log = Path.home() / "Library/Logs/honed.log"
        self._domain = f"gui/{os.getuid()}"

    def install(self) -> Iterator[str]:
        """Write the file and start the service; reports each step. Raises Failure."""
        if self.path.exists():
            raise Failure(f"{self.path} is there: `honed service uninstall --user` comes first")
        self._log.parent.mkdir(parents=True, exist_ok=True)
        write(self.path, plistlib.dumps(self._definition(installed_program())).decode())
        yield f"wrote {self.path}"
        self._launchctl("bootstrap", self._domain, str(self.path))
        yield f"started {LABEL}; its log is {self._log}"

    def uninstall(self) -> Iterator[str]:
        """Stop the service and remove the file; data stay. Raises Failure."""
        if not self.path.exists():
            raise Failure(f"there is no service of Hone: {self.path} is missing")
        self._launchctl("bootout", f"{self._domain}/{LABEL}", may_be_missing=True)
        self.path.unlink()
        yield f"removed {self.path}"

    def status(self) -> dict[str, str]:
        """The service's state in launchd: `running`. Raises Failure."""
        said = self._launchctl("print", f"{self._domain}/{LABEL}", may_be_missing=True)
        states = [line.split(" = ")[1] for line in said.splitlines() if "\tstate = " in line]
        return {LABEL: states[0] if states else "not installed"}

    def _definition(self, program: Path) -> dict[str, object]:
        return {
            "Label": LABEL,
            "ProgramArguments": [str(program), "serve"],
            "EnvironmentVariables": {"HONED_LOG_FORMAT": "json"},
            "RunAtLoad": True,
            # After a crash; not after a clean exit.
            "KeepAlive": {"SuccessfulExit": False},
            # A running job saves a checkpoint first.
            "ExitTimeOut": 60,
            "ProcessType": "Background",
            "LowPriorityIO": True,
            "Nice": 5,
            "Umask": 0o077,
            "StandardOutPath": str(self._log),
            "StandardErrorPath": str(self._log),
        }

    def _launchctl(self, *arguments: str, may_be_missing: bool = False) -> str:
        found = shutil.which("launchctl")
        if found is None:
            raise Failure("there is no launchctl here: on macOS `honed service` needs it")
        done = subprocess.run(
            [found, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode and not (may_be_missing and done.returncode in NOT_FOUND):
            words = done.stderr.strip() or done.stdout.strip()
            raise Failure(f"launchctl {' '.join(arguments)} failed: {words}")
        return done.stdout
