"""A device's node of a federation as a service of the calling user: systemd's or launchd's."""

from __future__ import annotations

import plistlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from cli.services.launchd import LaunchAgent
from cli.services.systemd import Service, write

UNIT = """[Unit]
Description=Hone: {model} in a federation of Flower
After=honed.service network-online.target

[Service]
ExecStart={command}
EnvironmentFile={environment}
Environment=FLWR_TELEMETRY_ENABLED=0
KillMode=mixed
TimeoutStopSec={stop}
Restart=always
RestartSec={restart}
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


RESTART_S, STOP_S = 60, 30
FOLDER = "WorkingDirectory"


class BridgeAgent:
    """The launch agent honed-federate-MODEL."""

    def __init__(self, model: str) -> None:
        self._agent = LaunchAgent(f"honed-federate-{model}")

    def install(
        self, command: Sequence[str], variables: Mapping[str, str], folder: Path
    ) -> Iterator[str]:
        """Start the command with these variables, now and with each session; reports each step.

        folder: the node's. Nobody else can read the variables. Raises Failure.
        """
        yield from self.uninstall()
        yield from self._agent.start(
            {
                "ProgramArguments": [*command],
                "EnvironmentVariables": {**variables, "FLWR_TELEMETRY_ENABLED": "0"},
                FOLDER: str(folder),
                "KeepAlive": True,
                "ThrottleInterval": RESTART_S,
                "ExitTimeOut": STOP_S,
                "Nice": 5,
            }
        )

    def uninstall(self) -> Iterator[str]:
        """Stop and remove it, if there is one. Raises Failure."""
        if self._agent.path.exists():
            yield from self._agent.stop()

    def is_of(self, folder: Path) -> bool:
        """Whether the service is that of this folder, or there is none."""
        path = self._agent.path
        return not path.exists() or plistlib.loads(path.read_bytes())[FOLDER] == str(folder)


class Unit:
    """The unit honed-federate-MODEL of systemd, with the same methods."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._name = f"honed-federate-{model}.service"
        self._user = Service(is_user=True)

    @property
    def path(self) -> Path:
        """The path of the unit."""
        return self._user.folder / self._name

    def install(
        self, command: Sequence[str], variables: Mapping[str, str], folder: Path
    ) -> Iterator[str]:
        environment = folder / "environment"
        lines = (f"{name}={value}\n" for name, value in variables.items())
        write(environment, "".join(lines), mode=0o600)
        quoted = " ".join(f'"{_escaped(word)}"' for word in command)
        text = UNIT.format(
            model=self._model,
            command=quoted,
            environment=_escaped(environment),
            restart=RESTART_S,
            stop=STOP_S,
        )
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
        if not self.path.exists():
            return
        self._user.systemctl("disable", *(["--now"] if self._user.is_running else []), self._name)
        self.path.unlink(missing_ok=True)
        yield f"removed {self.path}"

    def is_of(self, folder: Path) -> bool:
        own = f"\nEnvironmentFile={_escaped(folder / 'environment')}\n"
        return not self.path.exists() or own in self.path.read_text("utf-8")


def bridge_service(model: str) -> Unit | BridgeAgent | None:
    """The service of this system; None where there is no kind that Hone knows."""
    if sys.platform == "linux":
        return Unit(model)
    return BridgeAgent(model) if sys.platform == "darwin" else None


def _escaped(part: object) -> str:
    """Escape a word for a unit file, where %, $, quotes and backslashes are special."""
    text = str(part).replace("\\", "\\\\").replace('"', '\\"')
    return text.replace("%", "%%").replace("$", "$$")
