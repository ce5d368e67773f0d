"""The Unix socket: who may open it, who is who on it, and what becomes of its file."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from support import Served, client

from api import listeners
from api.listeners import LocalSocket
from cli.commands.serve import WRONG_SETTING
from service.access import peers
from service.errors import BadSetting
from service.settings import Settings, load_settings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Unix sockets are for Linux")
as_root = pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() != 0, reason="becomes another user"
)

ANYBODY = 65534


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; those of pytest are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def ask(served: Served, path: str = "/v1/models", **headers: str) -> httpx.Response:
    with client(f"unix:{served.data_dir / 'api.sock'}") as asking:
        return asking.get(path, headers=headers)


def ask_as(uid: int, path: Path, *requests: tuple[str, str]) -> list[tuple[int, Any]]:
    """What another user is answered to requests without a token: status and body."""
    with multiprocessing.get_context("fork").Pool(1, os.setuid, (uid,)) as pool:
        return pool.starmap(_answer, [(path, *request) for request in requests])


def _answer(path: Path, method: str, what: str) -> tuple[int, Any]:
    with client(f"unix:{path}") as asking:
        answer = asking.request(method, what)
        return answer.status_code, answer.json()


def settings_of(tmp_path: Path, **chosen: object) -> Settings:
    return load_settings(data_dir=tmp_path, **chosen)


def test_the_daemons_own_user_needs_no_token(served: Served) -> None:
    answer = ask(served)
    assert answer.status_code == 200, answer.text
    assert ask(served, "/v1/policy").status_code == 200


def test_its_file_is_the_daemons_users_alone(served: Served) -> None:
    assert stat.S_IMODE((served.data_dir / "api.sock").stat().st_mode) == 0o600


@as_root
@pytest.mark.parametrize(("group", "mode"), [(ANYBODY, 0o660), (None, 0o600)])
def test_elsewhere_the_group_of_the_service_may_open_it_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: int | None, mode: int
) -> None:
    monkeypatch.setattr(listeners, "group_id", lambda: group)
    path = tmp_path / "open.sock"
    made = LocalSocket(settings_of(tmp_path / "data", socket=path))
    listener = made.listen()
    assert listener is not None
    with listener:
        found = path.stat()
        assert stat.S_IMODE(found.st_mode) == mode
        assert group in (None, found.st_gid)
    made.remove()
    assert not path.exists()


def test_the_group_of_the_service_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import grp

    mine = grp.getgrgid(os.getgid())
    monkeypatch.setattr(peers, "GROUP", mine.gr_name)
    assert peers.group_id() == mine.gr_gid
    monkeypatch.setattr(peers, "GROUP", "no-group-of-that-name")
    assert peers.group_id() is None


def test_a_token_that_is_sent_counts_for_itself(served: Served) -> None:
    assert ask(served, Authorization=f"Bearer {served.token}").status_code == 200
    assert ask(served, Authorization="Bearer wrong").status_code == 401


@pytest.mark.parametrize(
    ("header", "value", "code"),
    [
        ("Host", "evil.example", "wrong_host"),
        ("Origin", "http://evil.example", "foreign_origin"),
        ("Sec-Fetch-Site", "cross-site", "foreign_origin"),
    ],
)
def test_a_web_page_behind_a_proxy_is_refused(
    served: Served, header: str, value: str, code: str
) -> None:
    assert ask(served, **{header: value}).json()["code"] == code


def test_a_page_of_its_own_host_is_answered(served: Served) -> None:
    assert ask(served, Origin="http://localhost").status_code == 200


@as_root
def test_another_user_may_do_what_the_settings_say_and_nothing_else(
    serve: Callable[..., Served], open_folder: Path
) -> None:
    path = open_folder / "api.sock"
    served = serve(socket=path, socket_users='{"65534": ["models:read"]}')
    path.chmod(0o666)  # as a member of the group `honed` finds it
    (see, models), (write, refusal) = ask_as(
        ANYBODY, path, ("GET", "/v1/models"), ("GET", "/v1/policy")
    )
    assert (see, models["items"]) == (200, [])
    assert (write, refusal["code"]) == (403, "insufficient_scope")
    assert "uid 65534" in refusal["detail"]
    ((status, stranger),) = ask_as(ANYBODY - 1, path, ("GET", "/v1/models"))
    assert (status, stranger["code"]) == (401, "unauthorized")
    assert "HONED_SOCKET_USERS" in stranger["detail"]
    assert served.http.get("/v1/models").status_code == 200


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("socket_users", '{"nobody-of-that-name": ["predict"]}', "there is no user 'nobody-of-th"),
        ("on_promoted", "no-such-program --now", "there is no program 'no-such-program' that can"),
        ("on_promoted", os.devnull, f"there is no program '{os.devnull}' that can be run"),
        ("registry_credentials", "/none/config.json", "/none/config.json: No such file"),
        ("registry_credentials", os.devnull, f"{os.devnull} is no config.json as"),
    ],
)
def test_a_user_program_or_file_that_the_system_lacks_stops_the_start(
    honed_serve: Callable[..., tuple[int, str]],
    tmp_path: Path,
    setting: str,
    value: str,
    words: str,
) -> None:
    code, said = honed_serve(**{setting: value})
    assert code == WRONG_SETTING
    assert f"HONED_{setting.upper()}: {words}" in said
    assert not (tmp_path / "data").exists()


def test_the_socket_of_a_killed_daemon_is_replaced(serve: Callable[..., Served]) -> None:
    killed = serve()
    killed.stop(signal.SIGKILL)
    assert (killed.data_dir / "api.sock").exists()
    assert ask(serve()).status_code == 200


def test_a_daemon_that_does_not_start_takes_its_socket_along(
    honed_serve: Callable[..., tuple[int, str]], tmp_path: Path, open_folder: Path
) -> None:
    (tmp_path / "data").touch()
    code, said = honed_serve(socket=open_folder / "api.sock")
    assert code == 1
    assert "data" in said
    assert list(open_folder.iterdir()) == []


def test_a_daemon_that_stops_takes_its_socket_along(serve: Callable[..., Served]) -> None:
    served = serve()
    assert served.stop() == 0
    assert not (served.data_dir / "api.sock").exists()


def test_a_socket_that_somebody_listens_on_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "taken.sock"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(BadSetting, match=r"another program listens on .*taken\.sock"):
            LocalSocket(settings_of(tmp_path, socket=path)).listen()
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(path))


def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("kept")
    with pytest.raises(BadSetting, match="is no socket"):
        LocalSocket(settings_of(tmp_path, socket=path)).listen()
    assert path.read_text() == "kept"
    with pytest.raises(BadSetting, match="is a folder: set HONED_SOCKET to a path in it"):
        LocalSocket(settings_of(tmp_path, socket=tmp_path)).listen()


def test_a_path_that_is_too_long_leaves_tcp(serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve(tmp_path / ("d" * 100))
    assert served.url.startswith("http://127.0.0.1:")
    assert "a Unix socket's path at most 107; set HONED_SOCKET to a shorter one" in served.said()


def test_a_path_that_is_too_long_is_refused_where_there_is_no_tcp(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="HONED_SOCKET"):
        LocalSocket(settings_of(tmp_path / ("d" * 100), tcp=False))


def test_without_tcp_no_port_is_opened(serve: Callable[..., Served]) -> None:
    served = serve(tcp=False)
    assert served.url == f"unix:{served.data_dir / 'api.sock'}"
    assert served.http.get("/v1/models").status_code == 200
    assert psutil.Process(served.process.pid).net_connections("inet") == []
