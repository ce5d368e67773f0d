"""Services of launchd on macOS: for the calling user, while logged in."""

from __future__ import annotations

import os
import plistlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from cli.errors import Failure
from cli.services.systemd import installed_program, run, write

LABEL = "honed"
NOT_FOUND = {3, 113}
"""Exit codes of launchctl for an unknown service: bootout, print."""


class LaunchAgent:
    """A launch agent of the calling user: launchd.plist(5)."""

    def __init__(self, label: str) -> None:
        self.path = Path.home() / f"Library/LaunchAgents/{label}.plist"
        self._label = label
        self._log = Path.home() / f"Library/Logs/{label}.log"
        self._domain = f"gui/{os.getuid()}"

    def start(self, definition: Mapping[str, object]) -> Iterator[str]:
        """Write the file, for the user only, and start the agent; reports each step.

        Raises Failure.
        """
        self._log.parent.mkdir(parents=True, exist_ok=True)
        log = {"StandardOutPath": str(self._log), "StandardErrorPath": str(self._log)}
        whole = {"Label": self._label, "RunAtLoad": True, "Umask": 0o077, **log, **definition}
        write(self.path, plistlib.dumps(whole).decode(), mode=0o600)
        yield f"wrote {self.path}"
        run("launchctl", "bootstrap", self._domain, str(self.path))
        yield f"started {self._label}; its log is {self._log}"

    def stop(self) -> Iterator[str]:
        """Stop the agent and remove the file. Raises Failure."""
        run("launchctl", "bootout", f"{self._domain}/{self._label}", fine=NOT_FOUND)
        self.path.unlink()
        yield f"removed {self.path}"

    def state(self) -> str:
        """Its state in launchd: `running`. Raises Failure."""
        said = run("launchctl", "print", f"{self._domain}/{self._label}", fine=NOT_FOUND)
        states = [line.split(" = ")[1] for line in said.splitlines() if "\tstate = " in line]
        return states[0] if states else "not installed"


class Agent:
    """The daemon's agent."""

    def __init__(self) -> None:
        self._agent = LaunchAgent(LABEL)

    def install(self) -> Iterator[str]:
        """Write the file and start the service; reports each step. Raises Failure."""
        path = self._agent.path
        if path.exists():
            raise Failure(f"{path} is there: `honed service uninstall --user` comes first")
        yield from self._agent.start(
            {
                "ProgramArguments": [str(installed_program()), "serve"],
                "EnvironmentVariables": {"HONED_LOG_FORMAT": "json"},
                # After a crash; not after a clean exit.
                "KeepAlive": {"SuccessfulExit": False},
                # A running job saves a checkpoint first.
                "ExitTimeOut": 60,
                "ProcessType": "Background",
                "LowPriorityIO": True,
                "Nice": 5,
            }
        )

    def uninstall(self) -> Iterator[str]:
        """Stop the service and remove the file; data stay. Raises Failure."""
        if not self._agent.path.exists():
            raise Failure(f"there is no service of Hone: {self._agent.path} is missing")
        yield from self._agent.stop()

    def status(self) -> dict[str, str]:
        """The service's state in launchd: `running`. Raises Failure."""
        return {LABEL: self._agent.state()}
