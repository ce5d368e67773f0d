"""`honed-flower`: take part in a federation, and see how that goes."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import ssl
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from honed_flower.state import State
    from honed_flower.supernode import Membership

AGAIN_S, PAUSE_S = 90.0, 10.0
"""A SuperLink takes a minute to notice that a node was killed, and refuses it until then."""


def main() -> None:
    """Entry point of the program."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
    logging.basicConfig(format="honed-flower: %(message)s", level=logging.INFO, stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    arguments = _parser().parse_args()
    sys.exit(arguments.run(arguments))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="honed-flower", description=__doc__)
    commands = parser.add_subparsers(required=True)
    join = commands.add_parser("join", help="take part, until Ctrl-C")
    join.add_argument("superlink", help="HOST:PORT of the SuperLink")
    join.add_argument("--model", required=True, help="the daemon's model that takes part")
    join.add_argument(
        "--root-certificates", type=_certificates, help="PEM; default: those of the system"
    )
    join.add_argument(
        "--patience",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="how long the SuperLink may be away before its round is stopped",
    )
    join.set_defaults(run=_join)
    key = commands.add_parser("key", help="show the node's public key, made if there is none")
    key.set_defaults(run=_key)
    status = commands.add_parser("status", help="show what the node does, as JSON")
    status.set_defaults(run=_status)
    for command in (join, key, status):
        command.add_argument(
            "--folder", type=Path, required=True, help="of the node's key and state"
        )
    return parser


def _certificates(path: str) -> Path:
    """Read as Flower does, whose SuperNode stays without a word if it cannot."""
    try:
        trusted = Path(path).read_text("ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=trusted)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{path} holds no certificates as PEM: {error}") from error
    return Path(path)


def _join(arguments: argparse.Namespace) -> int:
    from honed_flower.node import drop_abandoned, refusal
    from honed_flower.state import State
    from honed_flower.supernode import Membership, make_key

    member = Membership(
        arguments.superlink,
        arguments.model,
        arguments.folder.resolve(),
        arguments.root_certificates,
        arguments.patience,
    )
    logging.info("this node's public key: %s", make_key(member.key))
    state = State(member.folder, superlink=member.superlink, model=member.model)
    if reason := refusal(member):
        logging.error(reason)
        state.update(last=reason, pid=None)
        return 1
    drop_abandoned(member, state)
    return _take_part(member, state)


def _take_part(member: Membership, state: State) -> int:
    """Until a signal, or until the SuperNode ends; returns the exit code."""
    from honed_flower import client_app
    from honed_flower.node import Executor, refusal
    from honed_flower.supernode import SuperNode, wrong_clock, wrong_key

    client_app.note = lambda round_id: state.update(round_id=round_id)
    stop = threading.Event()

    def end(*_: Any) -> None:
        stop.set()
        client_app.STOPPED.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    until = time.monotonic() + (AGAIN_S if state.was_killed else 0)
    while True:
        node = SuperNode(member)
        state.update(connected=None, away=None, doing=None)
        try:
            code = Executor(member, node, state, stop).run()
        finally:
            node.stop()
        reason = (refusal(member) or wrong_clock(member)) if code else None
        if not code or reason or time.monotonic() > until or stop.wait(PAUSE_S):
            break
        logging.warning("trying again: the SuperLink may not know yet that this node was killed")
    state.update(connected=None, away=None, pid=None, doing=None)
    reason = reason or (wrong_key(member) if code == 1 else None)
    if reason:
        logging.error(reason)
        state.update(last=reason)
    elif code:
        logging.error("the SuperNode ended (exit code %s); its lines above say why", code)
    return code


def _key(arguments: argparse.Namespace) -> int:
    from honed_flower.supernode import make_key

    print(make_key(arguments.folder / "node.key"))  # noqa: T201
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from honed_flower.state import read_state

    print(json.dumps(read_state(arguments.folder)))  # noqa: T201
    return 0


if __name__ == "__main__":
    main()
