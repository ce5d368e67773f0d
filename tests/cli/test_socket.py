"""The command line on the Unix socket: preferred, checked, and without a token."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import Served

import cli.client
from cli.client import Client
from cli.errors import Failure
from cli.listener import living_socket
from cli.main import honed
from service.settings import load_settings

CERTIFICATE = Path(__file__).parents[1] / "api" / "listening" / "certificate"

pytestmark = [
    pytest.mark.usefixtures("clean_environment"),
    pytest.mark.skipif(sys.platform != "linux", reason="Unix sockets are for Linux"),
]


@pytest.fixture
def here(served: Served, monkeypatch: pytest.MonkeyPatch) -> Served:
    """A daemon whose data folder the settings name, and a port that is another program's."""
    monkeypatch.setenv("HONED_DATA_DIR", str(served.data_dir))
    return served


def test_the_socket_is_preferred_and_a_listener_on_the_port_learns_nothing(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        monkeypatch.setenv("HONED_PORT", str(stranger.getsockname()[1]))
        with closing(Client()) as client:
            assert client.credentials() == {}
            assert "items" in client.get("/v1/models")
            assert client.answer("/healthz") is not None
            assert client.endpoint == f"unix:{here.data_dir / 'api.sock'}"
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()


@pytest.mark.parametrize("command", [["status"], ["models", "list"], ["events"]])
def test_a_service_that_listens_and_does_not_start_is_told(
    command: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HONED_DATA_DIR", str(tmp_path))
    monkeypatch.setattr(cli.client, "READY_TIMEOUT_S", 0.1)
    with socket.socket(socket.AF_UNIX) as of_systemd:
        of_systemd.bind(str(tmp_path / "api.sock"))
        of_systemd.listen()
        done = CliRunner().invoke(honed, command)
    assert done.exit_code == 1
    assert "systemctl status honed" in done.output


def test_an_address_that_was_given_is_asked(here: Served) -> None:
    with closing(Client(url=here.url)) as client:
        assert client.socket is None
        assert "items" in client.get("/v1/models")


def test_where_no_socket_is_tcp_is_asked(
    serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(tmp_path / ("d" * 100))
    monkeypatch.setenv("HONED_DATA_DIR", str(served.data_dir))
    monkeypatch.setenv("HONED_PORT", served.url.rpartition(":")[2])
    with closing(Client()) as client:
        assert client.endpoint == served.url
        assert "items" in client.get("/v1/models")


def test_the_daemons_own_certificate_is_enough(
    serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"tls_certificate": CERTIFICATE / "certificate.pem", "tls_key": CERTIFICATE / "key.pem"}
    served = serve(tmp_path / ("d" * 100), **files)
    monkeypatch.setenv("HONED_DATA_DIR", str(served.data_dir))
    monkeypatch.setenv("HONED_PORT", served.url.rpartition(":")[2])
    monkeypatch.setenv("HONED_TLS_CERTIFICATE", str(files["tls_certificate"]))
    with closing(Client()) as client:
        assert client.url.startswith("https://")
        assert "items" in client.get("/v1/models")
    with closing(Client(url=client.url)) as client, pytest.raises(Failure, match="self-signed"):
        client.get("/v1/models")
    monkeypatch.setenv("SSL_CERT_FILE", str(files["tls_certificate"]))
    trusted = "is not trusted: .* IP address mismatch.*\n.*SSL_CERT_FILE"  # it is of honed.test
    with closing(Client(url=client.url)) as client, pytest.raises(Failure, match=trusted):
        client.get("/v1/models")


FOLDERS_USER, SERVICE, STRANGER = 65532, 65533, 65534


@pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() != 0, reason="gives a folder to another user"
)
@pytest.mark.parametrize(
    ("mode", "listener", "is_trusted"),
    [
        (0o755, FOLDERS_USER, True),
        (0o755, SERVICE, True),
        (0o755, STRANGER, False),
        (0o1777, FOLDERS_USER, True),
        (0o1777, SERVICE, False),
    ],
)
def test_a_program_of_another_user_on_the_socket_is_sent_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, listener: int, is_trusted: bool
) -> None:
    """systemd makes the socket of a service in a folder of root's, for the service's user."""
    path = tmp_path / "api.sock"
    monkeypatch.setenv("HONED_SOCKET", str(path))
    shutil.chown(tmp_path, FOLDERS_USER)
    tmp_path.chmod(mode)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        shutil.chown(path, SERVICE)
        as_user(listener, other.listen)
        if is_trusted:
            assert living_socket(load_settings()) == path
        else:
            with pytest.raises(Failure, match=rf"uid {listener}\) listens on .*nothing was sent"):
                Client().get("/v1/models")


def as_user(uid: int, do: Callable[[], Any]) -> None:
    """Do something as another user; the kernel notes who listens, as of `listen`."""
    os.seteuid(uid)
    try:
        do()
    finally:
        os.seteuid(0)
