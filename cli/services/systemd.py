"""Hone as a systemd service: its files, and the calls to systemd."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from cli.errors import Failure
from service.processes.interpreter import APPLICATION
from storage.disk.durable import write_file

TEMPLATES = APPLICATION / "systemd"
PROGRAM = "/opt/honed/bin/honed"
"""Placeholder in the templates for the real program."""
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))
"""Folders that the unit hides from the service (ProtectHome)."""
TIMEOUT_S = 1000
"""Longer than the unit allows for a first start."""


class Service(Struct, frozen=True):
    """The system service, or the calling user's service.

    root: of the target system; if it is not this one, the service is only enabled for its boot.
    """

    is_user: bool = False
    root: Path = Path("/")

    @property
    def units(self) -> tuple[str, ...]:
        """The units to enable, in the order of the start."""
        return ("honed.service",) if self.is_user else ("honed.socket", "honed.service")

    def files(self, *, tcp: bool) -> Mapping[Path, Path]:
        """Each file's destination → its source."""
        if self.is_user:
            return {self.folder / "honed.service": TEMPLATES / "user.service"}
        named = {self.folder / name: TEMPLATES / name for name in self.units}
        named[self.root / "etc/sysusers.d/honed.conf"] = TEMPLATES / "honed.sysusers.conf"
        if tcp:
            named[self._drop_in] = TEMPLATES / "tcp.conf"
        return named

    def install(self, *, tcp: bool = False) -> Iterator[str]:
        """Write the files and start the service; reports each step. Raises Failure."""
        program = self._program()
        if self.is_running:
            self._require_answer()
        for path, template in self.files(tcp=tcp).items():
            write(path, _with_program(template, program))
            yield f"wrote {path}"
        if not tcp and not self.is_user:
            self._drop_in.unlink(missing_ok=True)
        if not self.is_user:
            run("systemd-sysusers", f"--root={self.root}")
        if self.is_running:
            self.systemctl("daemon-reload")
            self.systemctl("enable", *self.units)
            # What runs already has the units, and the program, of before.
            self.systemctl("restart", *self.units)
            yield f"started {', '.join(self.units)}"
        else:
            self.systemctl("enable", *self.units)
            when = "your session" if self.is_user else f"the system in {self.root}"
            yield f"enabled {', '.join(self.units)}: to start with {when}"

    def uninstall(self) -> Iterator[str]:
        """Stop the service and remove the files; data stay. Raises Failure."""
        there = [path for path in self.files(tcp=True) if path.exists()]
        if not there:
            raise Failure(f"there is no service of Hone in {self.folder}")
        self.systemctl("disable", *(["--now"] if self.is_running else []), *self.units)
        for path in there:
            path.unlink()
            yield f"removed {path}"
        with suppress(OSError):  # it is not there, or holds settings of the operator's
            self._drop_in.parent.rmdir()
        if self.is_running:
            self.systemctl("daemon-reload")

    def status(self) -> dict[str, str]:
        """Each unit's state in systemd: `active (running)`. Raises Failure."""
        return {unit: self._state(unit) for unit in self.units}

    @property
    def folder(self) -> Path:
        """Of the units."""
        if self.is_user:
            config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
            return Path(config, "systemd/user")
        return self.root / "etc/systemd/system"

    @property
    def _drop_in(self) -> Path:
        return self.folder / "honed.service.d" / "tcp.conf"

    @property
    def is_running(self) -> bool:
        """Whether the target is this running system, under systemd."""
        return self.root == Path("/") and Path("/run/systemd/system").is_dir()

    def _program(self) -> Path:
        program = installed_program()
        if not self.is_user and any(program.is_relative_to(home) for home in HOMES):
            raise Failure(
                f"{program} is in a home, which a service does not see: install Hone elsewhere "
                "(python -m venv /opt/honed && /opt/honed/bin/pip install honed), or install a "
                "service of your own with --user"
            )
        return program

    def _require_answer(self) -> None:
        """Raises Failure if systemd does not answer, before anything is written."""
        try:
            self.systemctl("show", "--property=Version")
        except Failure as failure:
            hint = "; log in as this user, or: loginctl enable-linger" if self.is_user else ""
            raise failure.within("", hint) from failure

    def _state(self, unit: str) -> str:
        said = self.systemctl("show", "--property=LoadState,ActiveState,SubState", unit)
        properties = dict(line.partition("=")[::2] for line in said.splitlines() if "=" in line)
        if properties.get("LoadState") != "loaded":
            return "not installed"
        return f"{properties['ActiveState']} ({properties['SubState']})"

    def systemctl(self, *arguments: str) -> str:
        """The output of systemctl. Raises Failure."""
        where = ["--user"] if self.is_user else []
        if self.root != Path("/"):
            where = [f"--root={self.root}"]
        return run("systemctl", *where, *arguments)


def installed_program() -> Path:
    """The program `honed` of this environment. Raises Failure."""
    program = Path(sys.executable).with_name("honed")
    if not program.exists():
        raise Failure(f"there is no program {program}: install Hone with pip")
    return program


def _with_program(template: Path, program: Path) -> str:
    """The template's text with this program, whose path systemd would otherwise split or expand."""
    path = str(program).replace("%", "%%")
    return template.read_text("utf-8").replace(PROGRAM, f'"{path}"' if " " in path else path)


def write(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write a file with these permissions, and its folder. Raises Failure."""
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        write_file(path, text.encode(), mode=mode)
    except PermissionError as error:
        raise Failure(
            f"cannot write {path}: {error.strerror}; run as root, or give --user"
        ) from error


def run(program: str, *arguments: str, fine: Collection[int] = ()) -> str:
    """The output of a program. fine: exit codes besides 0. Raises Failure."""
    executable = shutil.which(program)
    if executable is None:
        raise Failure(f"there is no {program} here: `honed service` needs systemd, or launchd")
    done = subprocess.run(
        [executable, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode and done.returncode not in fine:
        words = done.stderr.strip() or done.stdout.strip()
        raise Failure(f"{program} {' '.join(arguments)} failed: {words}")
    return done.stdout
