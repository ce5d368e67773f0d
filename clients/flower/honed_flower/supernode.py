"""Runs Flower's SuperNode as a child process, and makes the key by which a SuperLink knows it."""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_TOLERANCE

PATIENCE_S = 120.0
"""How long a SuperLink may be unreachable before the round that it requested is stopped."""
MOST_AHEAD_S, MOST_BEHIND_S = float(SYSTEM_TIME_TOLERANCE), float(TIMESTAMP_TOLERANCE)
"""Flower's limits on the time that a node signs."""
ANSWER_S = 10.0
PROGRAM = """
import os, signal, sys, threading
sys.path[:] = filter(None, sys.path)  # nothing of the working folder
from flwr.supernode.cli import flower_supernode
def end_with_parent():
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=end_with_parent, daemon=True).start()
sys.exit(flower_supernode())
"""
"""`flower-supernode`, which ends when its stdin does: one that outlived this process would hold the
node's place at the SuperLink, and take messages that nobody handles.
"""


@dataclass(frozen=True)
class Membership:
    """A device's membership in a federation. folder: private, with the node's key and state."""

    superlink: str
    model: str
    folder: Path
    root_certificates: Path | None = None
    patience_s: float = PATIENCE_S

    @property
    def key(self) -> Path:
        return self.folder / "node.key"


def make_key(path: Path) -> str:
    """The public part of the node's key, which is created if there is none."""
    if not path.exists():
        key = ec.generate_private_key(ec.SECP384R1())
        content = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write_secret(path, content)
    public = (
        read_key(path)
        .public_key()
        .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    )
    path.with_suffix(".pub").write_bytes(public + b"\n")
    return public.decode()


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The node's private key. Exits if the file holds none."""
    try:
        key = serialization.load_ssh_private_key(path.read_bytes(), password=None)
    except ValueError as error:
        sys.exit(
            f"{path} holds no whole private key ({error}); put it back, or remove it: the "
            "federation must then be told the new one"
        )
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _ask(member: Membership) -> httpx.Response:
    """Anything of the SuperLink. Raises httpx.HTTPError, httpx.InvalidURL."""
    context = ssl.create_default_context(cafile=member.root_certificates)
    return httpx.head(f"https://{member.superlink}/", verify=context, timeout=ANSWER_S)


def unreachable(member: Membership) -> str | None:
    """Why the SuperLink, which Flower's program asks again and again, does not answer; None if it
    does.
    """
    try:
        answer = _ask(member)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = str(error) or type(error).__name__
    else:
        if not answer.is_server_error:
            return None
        why = f"{answer.status_code} {answer.reason_phrase}"
    return f"the SuperLink {member.superlink} does not answer: {why}"


def wrong_clock(member: Membership) -> str | None:
    """Why the SuperLink refuses this node, if its clock is the reason, by the HTTP Date."""
    try:
        theirs = parsedate_to_datetime(_ask(member).headers["date"])
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError):
        return None
    ahead_s = time.time() - theirs.timestamp()
    if -MOST_BEHIND_S < ahead_s < MOST_AHEAD_S:
        return None
    side = "ahead of" if ahead_s > 0 else "behind"
    return (
        f"this device's clock is {abs(ahead_s):.0f} s {side} the SuperLink's, which refuses nodes"
        f" that are {MOST_AHEAD_S:.0f} s ahead or {MOST_BEHIND_S:.0f} s behind: set the clock"
    )


def wrong_key(member: Membership) -> str | None:
    """Why a SuperLink that answers, to a right clock, has ended the connection."""
    if unreachable(member):
        return None
    return (
        f"the SuperLink does not take this node's key: have {member.key.with_suffix('.pub')}"
        " registered there (`flwr supernode register`); if it is, end the other node with this key"
    )


class SuperNode:
    """The program `flower-supernode`, and its address on this machine."""

    def __init__(self, member: Membership) -> None:
        self.secret = secrets.token_bytes(32)
        self._secret_file = member.folder / "executor.secret"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        _write_secret(self._secret_file, self.secret)
        self._member = member
        self._process = subprocess.Popen(
            self._command(),
            env={**os.environ, "FLWR_HOME": str(member.folder / "flwr")},
            stdin=subprocess.PIPE,
        )

    def exit_code(self) -> int | None:
        """The program's exit code, None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """End the program, and wait for that."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._secret_file.unlink(missing_ok=True)

    def _command(self) -> list[str]:
        trusted = self._member.root_certificates
        return [
            *(sys.executable, "-c", PROGRAM),
            *("--superlink", self._member.superlink),
            *(("--root-certificates", str(trusted)) if trusted else ()),
            *("--auth-supernode-private-key", str(self._member.key)),
            *("--isolation", "process", "--superexec-auth-secret-file", str(self._secret_file)),
            *("--host", "127.0.0.1", "--port", str(self.port)),
        ]


def _write_secret(path: Path, content: bytes) -> None:
    """Replace a file by one that nobody else can read; a crash leaves the old one or all of it."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    draft.touch(0o600, exist_ok=False)
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
