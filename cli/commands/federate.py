"""`honed federate`: take part in a federation of Flower, in a separate environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from cli.client import Client, model_path
from cli.errors import Failure
from cli.options import Group
from cli.output import Columns, echo_records, echo_text
from cli.services.bridge import STOP_S, bridge_service
from service.processes.interpreter import APPLICATION
from storage.database.codec import dump
from storage.disk.durable import write_file

if TYPE_CHECKING:
    import psutil

PACKAGES = ("clients/python", "clients/flower")
"""Paths in a checkout and in the wheel. They are not installed from an index: whoever published
packages under these names there would get the token."""
SCOPE = "federate"
BY = ("id", "created_at")
"""By which a token is known again; another daemon's may have the same id."""
NO_SERVICE = (
    "--service knows systemd and launchd; on Windows, have the task scheduler start "
    "`honed federate join` when you log on: docs/windows.md"
)


OTHERS = (
    "the service honed-federate-{model} belongs to another daemon's model of that name: leave with "
    "that daemon first, by HONED_DATA_DIR, or join without --service"
)


@click.group(cls=Group)
def federate() -> None:
    """Take part in a federation of Flower, and show how that goes; docs/federated.md."""


@federate.command("join", cls=click.Command)
@click.argument("superlink")
@click.option("--model", required=True, help="The model that takes part.")
@click.option(
    "--root-certificates",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    help="Certificate authority of the SuperLink, PEM. Default: those of the system.",
)
@click.option(
    "--service", "is_service", is_flag=True, help="As a service of yours, of systemd or launchd."
)
@click.pass_obj
def join(
    client: Client, superlink: str, *, model: str, root_certificates: Path | None, is_service: bool
) -> None:
    """Take part in the federation of SUPERLINK (HOST:PORT), until Ctrl-C.

    The first time, Flower is installed beside the data folder, 300 MB. The model needs consent to
    this federation, which `honed federation set` gives.
    """
    service = bridge_service(model) if is_service else None
    if is_service and service is None:
        raise Failure(NO_SERVICE)
    _require_consent(client, model, superlink)
    folder = _folder(client)
    if service is not None and not service.is_of(folder / model):
        raise Failure(OTHERS.format(model=model))
    if service is None and _node(folder / model) is not None:
        raise Failure(
            f"a node of {model!r} runs already; end it first: `honed federate leave {model}`"
        )
    program = _installed(folder / "environment")
    command = [str(program), "join", superlink, "--model", model, "--folder", str(folder / model)]
    if root_certificates is not None:
        command += ["--root-certificates", str(root_certificates)]
    variables = {**_address(client), "HONED_TOKEN": _token(client, folder / model, model)}
    if service is not None:
        started = service.install(command, variables, folder / model)
        for step in chain(_end_node(folder / model), started):
            echo_text(step)
        return
    client.close()
    _become(command, variables)


@federate.command("leave", cls=click.Command)
@click.argument("model")
@click.pass_obj
def leave(client: Client, model: str) -> None:
    """End the node of MODEL, its service too, and revoke its token. Its key stays, for another
    time.
    """
    file = _folder(client) / model / "token.json"
    token = _stored_token(client, file)
    service = bridge_service(model)
    steps = [*service.uninstall()] if service and service.is_of(file.parent) else []
    steps += _end_node(file.parent)
    if token is not None:
        client.request("DELETE", f"/v1/tokens/{token['id']}")
        file.unlink()
        steps.append("revoked its token")
    if not steps:
        raise Failure(
            f"there is no node of {model!r} here, or it has left; `honed federate status` lists all"
        )
    for step in steps:
        echo_text(step)


@federate.command("status")
def status(client: Client) -> None:
    """Show what takes part in which federation, and what was sent."""
    states = [
        {"model": file.parent.name, **json.loads(file.read_text("utf-8"))}
        for file in sorted(_folder(client).glob("*/state.json"))
    ]
    columns: Columns = {
        "MODEL": "model",
        "SUPERLINK": lambda state: state.get("superlink"),
        "NOW": _now,
        "REPLIES": "replies",
        "BYTES": "bytes",
        "LAST": lambda state: state.get("last"),
    }
    echo_records(states, columns)


def _end_node(folder: Path) -> Iterator[str]:
    """End a node that runs without a service, while its token still lets it stop its round."""
    import psutil

    with suppress(psutil.Error):  # it has just ended
        if node := _node(folder):
            node.terminate()
            node.wait(STOP_S)
            yield "ended its node"


def _node(folder: Path) -> psutil.Process | None:
    """The node's process, if it runs. A second one would stop its round and overwrite its state."""
    import psutil

    file = folder / "state.json"
    pid = json.loads(file.read_text("utf-8")).get("pid") if file.exists() else None
    with suppress(psutil.Error):  # it has ended, or its id is now another user's
        if pid is not None and str(folder) in (node := psutil.Process(pid)).cmdline():
            return node
    return None


def _now(state: dict[str, Any]) -> str:
    import psutil

    if "pid" not in state or not psutil.pid_exists(state["pid"]):
        return "not running"
    if "away" in state:
        return str(state["away"])
    if not state.get("connected"):
        return "no message yet"
    return str(state.get("doing") or f"waiting since {_ago(state.get('last_at'))}")


def _ago(at: float | None) -> str:
    return "the start" if at is None else f"{time.time() - at:.0f} s ago"


def _require_consent(client: Client, model: str, superlink: str) -> None:
    state = client.get(model_path(model, "federation"))
    if state["allowed"] and state["superlink"] == superlink:
        return
    to = f"to {state['superlink']}" if state["allowed"] else "to none"
    first = f"first `honed federation set {model} allowed=false`, then " if state["allowed"] else ""
    raise Failure(
        f"{model!r} has consent {to}; give it with {first}`honed federation set {model} "
        f"allowed=true superlink={superlink} epsilon=8 clip_norm=1 noise_multiplier=2`, on "
        "your own terms: docs/federated.md explains each"
    )


def _folder(client: Client) -> Path:
    """The folder next to the data folder with environment, keys and states."""
    data_dir = client.settings.data_dir.absolute()
    return data_dir.with_name(f"{data_dir.name}-federate")


def _installed(environment: Path) -> Path:
    """The program honed-flower, installed if necessary. Raises Failure."""
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")
    done = environment / ".installed"
    if not done.exists():
        packages = [str(APPLICATION / package) for package in PACKAGES]
        if not all(Path(package).is_dir() for package in packages):
            raise Failure(
                f"this installation has no {' and '.join(PACKAGES)} beside it; run `honed federate`"
                f" from a checkout, or install both of one into {environment} and touch {done}"
            )
        echo_text(f"installing Flower in {environment}, 300 MB …", err=True)
        for command in _installing(environment, scripts, packages):
            if subprocess.run(command, check=False).returncode:
                raise Failure(f"{' '.join(command)} failed; its lines above say why")
        done.touch()
    return scripts / ("honed-flower.exe" if os.name == "nt" else "honed-flower")


def _installing(environment: Path, scripts: Path, packages: list[str]) -> Iterator[list[str]]:
    yield [sys.executable, "-m", "venv", str(environment)]
    pip = [str(scripts / "python"), "-m", "pip", "install", "--quiet"]
    yield [*pip, "--disable-pip-version-check", *packages]


def _address(client: Client) -> dict[str, str]:
    """The variables by which the bridge finds the same daemon as this command."""
    if client.socket is not None:
        return {"HONED_SOCKET": str(client.socket)}
    return {"HONED_URL": client.url}


def _token(client: Client, folder: Path, model: str) -> str:
    """The secret of a token that may only take part with this model, created if there is none."""
    file = folder / "token.json"
    token = _stored_token(client, file)
    if token is None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        body = {"name": f"federate {model}", "scopes": [SCOPE], "models": [model]}
        answer = client.post("/v1/tokens", body)
        token = {name: answer[name] for name in ("id", "secret", "created_at")}
        write_file(file, dump(token).encode())
    secret: str = token["secret"]
    return secret


def _stored_token(client: Client, file: Path) -> dict[str, Any] | None:
    """The token in a node's folder, if there is one that works. Raises Failure if this daemon has
    not made it: the folder is by the settings' data folder, and `--url` may name another daemon.
    """
    if not file.exists():
        return None
    token: dict[str, Any] = json.loads(file.read_text("utf-8"))
    for known in client.items("/v1/tokens"):
        if all(known[key] == token.get(key, known[key]) for key in BY):
            return None if known["revoked_at"] else token
    raise Failure(
        f"this daemon does not know the token in {file}. If another daemon's model of that name "
        "takes part, set HONED_DATA_DIR to the data folder of the one that is meant: each has its "
        "nodes beside it. If the token was revoked, remove the file"
    )


def _become(command: list[str], variables: dict[str, str]) -> NoReturn:
    """Replace this process by the bridge, so that signals reach it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HONED_")}
    if sys.platform == "win32":
        sys.exit(subprocess.call(command, env={**kept, **variables}))
    os.execve(command[0], command, {**kept, **variables})  # noqa: S606
