"""A device's node of a federation as a systemd service of the calling user."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cli.errors import Failure
from cli.services.systemd import Service, write

UNIT = """[Unit]
Description=Hone: {model} in a federation of Flower
After=honed.service network-online.target

[Service]
ExecStart={command}
EnvironmentFile={environment}
Environment=FLWR_TELEMETRY_ENABLED=0
KillMode=mixed
TimeoutStopSec=30
Restart=always
RestartSec=60
Nice=5
NoNewPrivileges=yes
LockPersonality=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
UMask=0077

[Install]
WantedBy=default.target
"""


class BridgeService:
    """The unit honed-federate-MODEL, in addition to the daemon's."""

    def __init__(self, model: str) -> None:
        if sys.platform != "linux":
            raise Failure(
                "`honed federate` knows services of systemd; elsewhere let `honed federate join` "
                "be started by the system"
            )
        self._model = model
        self._name = f"honed-federate-{model}.service"
        self._user = Service(is_user=True)

    @property
    def path(self) -> Path:
        """The path of the unit."""
        return Path.home() / ".config/systemd/user" / self._name

    def install(
        self, command: Sequence[str], variables: Mapping[str, str], folder: Path
    ) -> Iterator[str]:
        """Write the unit, and its variables where nobody else can read them; start it."""
        environment = folder / "environment"
        environment.unlink(missing_ok=True)
        environment.touch(0o600)
        environment.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
        quoted = " ".join(f'"{_escaped(each)}"' for each in command)
        text = UNIT.format(model=self._model, command=quoted, environment=_escaped(environment))
        write(self.path, text)
        yield f"wrote {self.path}"
        if not self._user.is_running:
            self._user.systemctl("enable", self._name)
            yield f"enabled {self._name}: it starts with your session"
            return
        self._user.systemctl("daemon-reload")
        self._user.systemctl("enable", "--now", self._name)
        self._user.systemctl("restart", self._name)
        yield f"started {self._name}; `honed federate status` shows how it goes"

    def uninstall(self) -> Iterator[str]:
        """Stop it, if there is one."""
        if not self.path.exists():
            return
        self._user.systemctl("disable", *(["--now"] if self._user.is_running else []), self._name)
        self.path.unlink(missing_ok=True)
        yield f"removed {self.path}"


def _escaped(part: object) -> str:
    """Escape a word for a unit file, where %, $, quotes and backslashes are special."""
    text = str(part).replace("\\", "\\\\").replace('"', '\\"')
    return text.replace("%", "%%").replace("$", "$$")
