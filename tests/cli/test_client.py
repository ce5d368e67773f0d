from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from cli.client import Client, model_path
from cli.demo.daemon import DaemonProcess
from cli.errors import Failure
from cli.listener import strangers
from service.settings import Settings

pytestmark = pytest.mark.usefixtures("clean_environment")


def test_the_settings_say_where_the_daemon_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Client().url == "http://127.0.0.1:8471"
    monkeypatch.setenv("HONED_PORT", "9000")
    assert Client().url == "http://127.0.0.1:9000"
    monkeypatch.setenv("HONED_HOST", "::")
    assert Client().url == "http://[::1]:9000"


def test_a_name_cannot_leave_its_place_in_the_path() -> None:
    assert model_path("a/b?c", "versions", 2) == "/v1/models/a%2Fb%3Fc/versions/2"
    for dropped in ("", ".", ".."):
        with pytest.raises(Failure, match="names nothing"):
            model_path("digits", "aliases", dropped)


def test_the_token_file_of_this_machine_is_used(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HONED_DATA_DIR", str(daemon.token_file.parent))
    with closing(Client(url=daemon.client.url)) as client:
        assert "items" in client.get("/v1/models")


def test_the_token_file_is_not_sent_to_another_machine(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HONED_DATA_DIR", str(daemon.token_file.parent))
    assert Client(url="http://192.0.2.1:8471").credentials() == {}
    assert Client(url="http://localhost:8471").credentials() != {}


ANYBODY = 65534


@contextmanager
def listening(uid: int) -> Iterator[tuple[int, Connection]]:
    """A port on which another user's program listens, and the pipe that tells what it was sent."""
    ours, theirs = Pipe()
    program = get_context("fork").Process(target=_listen_as, args=(uid, theirs))
    program.start()
    yield ours.recv(), ours
    program.terminate()
    program.join()


def _listen_as(uid: int, pipe: Connection) -> None:
    os.setuid(uid)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        pipe.send(listener.getsockname()[1])
        connection, _ = listener.accept()
        pipe.send(connection.recv(65536))


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="becomes another user")
def test_the_token_is_not_sent_to_a_program_of_another_user(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HONED_DATA_DIR", str(daemon.token_file.parent))
    with listening(ANYBODY) as (port, sent):
        with (
            closing(Client(url=f"http://localhost:{port}")) as client,
            pytest.raises(Failure, match=rf"uid {ANYBODY}.*the token was not sent"),
        ):
            client.get("/v1/models")
        assert not sent.poll()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's table")
@pytest.mark.parametrize(
    ("address", "is_strange"),
    [
        ("0100007F:2117", True),
        ("00000000:2117", True),
        ("0200007F:2117", False),
        ("0100007F:2118", False),
        ("00000000000000000000000000000000:2117", True),
        ("0000000000000000FFFF00000100007F:2117", True),
        ("00000000000000000000000001000000:2117", False),
    ],
    ids=["same", "any", "other address", "other port", "any of six", "mapped", "six"],
)
def test_a_listener_is_found_by_its_address(tmp_path: Path, address: str, is_strange: bool) -> None:
    (tmp_path / "net").mkdir()
    name = "tcp" if len(address) < 20 else "tcp6"
    line = f"0: {address} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 4242 0 1"
    (tmp_path / "net" / name).write_text(f"  sl  local_address ...\n   {line}\n", "utf-8")
    found = strangers("127.0.0.1", 8471, Settings(data_dir=tmp_path, procfs_root=tmp_path))
    assert found == ({4242} if is_strange else set())


@pytest.mark.skipif(sys.platform != "linux", reason="reads the kernel's table")
def test_root_and_the_data_folders_owner_may_listen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This user is another one: its own programs are trusted anyhow."""
    (tmp_path / "net").mkdir()
    if os.geteuid() == 0:
        os.chown(tmp_path, 4242, -1)
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: 4243)
    lines = ["  sl  local_address ..."]
    for uid in (0, owner, 4243, 4244):
        ends = "00000000:0000 0A 00000000:00000000 00:00000000 00000000"
        lines.append(f"   0: 0100007F:2117 {ends} {uid} 0 1")
    (tmp_path / "net" / "tcp").write_text("\n".join(lines), "utf-8")

    found = strangers("127.0.0.1", 8471, Settings(data_dir=tmp_path, procfs_root=tmp_path))

    assert found == {4244}
    none = Settings(data_dir=tmp_path / "none", procfs_root=tmp_path)
    elsewhere = strangers("127.0.0.1", 8471, none)
    assert elsewhere == {4244, owner}


def test_a_missing_token_is_explained(daemon: DaemonProcess, tmp_path: Path) -> None:
    with (
        closing(Client(url=daemon.client.url)) as client,
        pytest.raises(Failure, match=r"(?s)HONED_TOKEN.*admin\.token.*HONED_DATA_DIR"),
    ):
        client.get("/v1/models")


@pytest.mark.parametrize("token", ["\u00fc", "a\nb", "a\tb"])
def test_a_token_that_no_header_holds_is_explained(daemon: DaemonProcess, token: str) -> None:
    with (
        closing(Client(url=daemon.client.url, token=token)) as client,
        pytest.raises(Failure, match=r"--token, HONED_TOKEN.*admin\.token"),
    ):
        client.get("/v1/models")


def test_a_token_file_that_holds_no_token_is_named(
    daemon: DaemonProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "admin.token").write_bytes(b"\xfc\xff\n")
    monkeypatch.setenv("HONED_DATA_DIR", str(tmp_path))
    with (
        closing(Client(url=daemon.client.url)) as client,
        pytest.raises(Failure, match=re.escape(str(tmp_path / "admin.token"))),
    ):
        client.get("/v1/models")


def test_a_line_end_behind_the_token_does_no_harm(daemon: DaemonProcess) -> None:
    token = daemon.token_file.read_text(encoding="ascii")
    with closing(Client(url=daemon.client.url, token=token)) as client:
        assert token.endswith("\n")
        assert "items" in client.get("/v1/models")


def test_a_proxy_of_the_environment_is_not_asked(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    response = Client(url=daemon.client.url).answer("/healthz")
    assert response is not None
    assert response.json()["status"] == "ok"


@pytest.mark.parametrize("url", ["127.0.0.1:8471", "localhost", "ftp://127.0.0.1"])
def test_an_address_that_is_none_is_explained(url: str) -> None:
    with (
        closing(Client(url=url, token="t")) as client,
        pytest.raises(Failure, match=r"it looks like http://127\.0\.0\.1:8471"),
    ):
        client.get("/v1/models")


def test_lists_are_read_page_after_page(client: Client, add_model: Callable[..., str]) -> None:
    name = add_model(samples=5)
    ids = [sample["id"] for sample in client.items(model_path(name, "samples"), limit=2)]
    assert len(ids) == len(set(ids)) == 5
