"""Programs of Windows, started from this side by Wine in the root of tests/platforms/windows."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile

from sources import ROOT

PROGRAM = ROOT / "tests/platforms/windows/wine.sh"
TIMEOUT_S = 300
PYTHON = r"C:\honed\Scripts\python.exe"
HONED = r"C:\honed\Scripts\honed.exe"
ITSELF = (r"C:\Python311\python.exe", rf"__PYVENV_LAUNCHER__={PYTHON}")
"""The interpreter, and the variable that names the environment to it: then it is one process."""


class Program(subprocess.Popen[bytes]):
    """One of Windows. SIGTERM and SIGINT reach it as Ctrl-C, SIGKILL as TerminateProcess."""

    def send_signal(self, sig: int) -> None:
        super().send_signal(signal.SIGINT if sig == signal.SIGTERM else sig)


class Windows:
    """A machine with Hone's wheel in C:\\honed. drive: its C:, as Linux sees it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.drive = root / "debian/prefix/drive_c"

    def start(
        self, *arguments: str, folder: str = "/work", variables: str = "", **options: object
    ) -> Program:
        """Start a program. folder: as named in the root. variables: `A=1 B=2`."""
        given = {**os.environ, "WITH": variables}
        command = [PROGRAM, self.root, folder, *arguments]
        return Program(command, env=given, stdin=subprocess.DEVNULL, **options)  # type: ignore[arg-type]

    def run(
        self, *arguments: str, timeout_s: float = TIMEOUT_S, fails: bool = False, **options: str
    ) -> str:
        """What a program printed, to stderr too; it must end with 0, or, if it fails, with more."""
        # Not a pipe: what a program leaves running would keep that open.
        with TemporaryFile() as file:
            process = self.start(*arguments, stdout=file, stderr=subprocess.STDOUT, **options)
            try:
                process.wait(timeout_s)
            finally:
                process.kill()
                process.wait()
            file.seek(0)
            output = file.read().decode("utf-8", "replace")
        assert (process.returncode != 0) == fails, f"exit code {process.returncode}\n{output}"
        return output.replace("\r\n", "\n")

    def honed(self, *arguments: str, **options: object) -> str:
        """What a command of Hone printed."""
        return self.run(HONED, *arguments, **options)  # type: ignore[arg-type]

    def start_daemon(
        self, arguments: list[str], environment: Mapping[str, str], log: Path
    ) -> Program:
        """As `support.Served` starts one: with the paths and the settings of this side."""
        program, variable = ITSELF
        settings = [f"{k}={v}" for k, v in environment.items() if k.startswith("HONED_")]
        variables = " ".join([variable, *settings]).replace(os.devnull, "NUL")
        given = [self.path(each) if each.startswith("/") else each for each in arguments]
        with log.open("ab") as output:
            command = (program, "-m", "honed", *given)
            return self.start(*command, variables=variables, stdout=output, stderr=output)

    def path(self, path: str | Path) -> str:
        """What Windows calls a path on its C: or another drive, as Linux sees it."""
        drive, *parts = Path(path).relative_to(self.drive.parent).parts
        return f"{drive[-1].upper()}:\\" + "\\".join(parts)
