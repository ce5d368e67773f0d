"""Hone as a Windows service: the calls to the service control manager."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from cli.errors import Failure
from service.processes.interpreter import own_interpreter

NAME = "honed"
ACCOUNT = rf"NT SERVICE\{NAME}"
"""A virtual account: it has no password, belongs only to the service, and is removed with it."""
SYSTEM, ADMINISTRATORS = "S-1-5-18", "S-1-5-32-544"
"""Their names depend on the language."""
ICACLS_TIMEOUT_S = 600


class WindowsService:
    """The service of the machine."""

    def __init__(self) -> None:
        from cli.services.control_manager import ControlManager

        self._manager = ControlManager()
        self.folder = Path(os.environ.get("PROGRAMDATA", r"C:\ProgramData")) / "Hone"

    def install(self) -> Iterator[str]:
        """Create the service, restrict its folder, start it; reports each step.

        Raises Failure; if its folder cannot be restricted, the created service is removed.
        """
        if self._manager.state(NAME) is not None:
            raise Failure(
                "there is a service of Hone already: `honed service uninstall` comes first"
            )
        program, environment = own_interpreter()
        self._manager.create(
            NAME, command=self._command(program), environment=environment, account=ACCOUNT
        )
        yield f"created the service {NAME}, which runs as {ACCOUNT}"
        try:
            self._close_folder()
        except BaseException:
            self._manager.delete(NAME)
            raise
        yield f"its data and its log are in {self.folder}"
        self._manager.start(NAME)
        yield f"started {NAME}"

    def uninstall(self) -> Iterator[str]:
        """Stop the service and remove it; data stay. Raises Failure."""
        state = self._manager.state(NAME)
        if state is None:
            raise Failure("there is no service of Hone")
        if state != "stopped":
            self._manager.stop(NAME)
            yield f"stopped {NAME}"
        self._manager.delete(NAME)
        yield f"removed {NAME}; its data stay in {self.folder}"

    def status(self) -> dict[str, str]:
        """Its state in the service control manager: `running`. Raises Failure."""
        return {NAME: self._manager.state(NAME) or "not installed"}

    def _command(self, program: str) -> str:
        """The command that Windows starts.

        -I excludes other users' Python folders and variables.
        """
        arguments = ["-I", "-m", "honed", "service", "run", "--data-dir", str(self.folder / "data")]
        return subprocess.list2cmdline([program, *arguments])

    def _close_folder(self) -> None:
        """Restrict it to system, administrators and service: it holds samples and the token."""
        (self.folder / "data").mkdir(parents=True, exist_ok=True)
        granted = [f"*{SYSTEM}:(OI)(CI)F", f"*{ADMINISTRATORS}:(OI)(CI)F", f"{ACCOUNT}:(OI)(CI)M"]
        command = ["icacls", str(self.folder), "/inheritance:r", "/grant:r", *granted]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=ICACLS_TIMEOUT_S, check=False
            )
        except OSError as error:
            raise Failure(f"cannot start icacls: {error.strerror}") from error
        if done.returncode:
            raise Failure(f"icacls {self.folder} failed: {done.stderr.strip() or done.stdout}")
