"""Runs Flower's SuperNode as a child process, and makes the key by which a SuperLink knows it."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

PATIENCE_S = 120.0
"""How long a SuperLink may be unreachable before the round that it requested is stopped."""


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
    """The node's private key."""
    key = serialization.load_ssh_private_key(path.read_bytes(), password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


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
            self._command(), env={**os.environ, "FLWR_HOME": str(member.folder / "flwr")}
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
            str(Path(sys.executable).with_name("flower-supernode")),
            *("--superlink", self._member.superlink),
            *(("--root-certificates", str(trusted)) if trusted else ()),
            *("--auth-supernode-private-key", str(self._member.key)),
            *("--isolation", "process", "--superexec-auth-secret-file", str(self._secret_file)),
            *("--host", "127.0.0.1", "--port", str(self.port)),
        ]


def _write_secret(path: Path, content: bytes) -> None:
    """Write a file that nobody else can read."""
    path.unlink(missing_ok=True)
    path.touch(0o600, exist_ok=False)
    path.write_bytes(content)
