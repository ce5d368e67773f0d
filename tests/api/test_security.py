"""A web page that the person visits must not reach the daemon; an app without the token neither."""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import DEADLINE_S, Served, client

from api.security import Guard
from service.access.principal import ADMIN, Scope
from service.access.token_secrets import is_secret
from storage.records.access import Limits

WITHOUT_ROOM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
sys.argv = ["honed", "serve", "--port", "0", "--data-dir", sys.argv[1]]
from cli.main import main
main()
"""


def ask(served: Served, path: str = "/v1/models", **headers: str) -> httpx.Response:
    token = {"Authorization": f"Bearer {served.token}"}
    return served.tokenless.get(path, headers={**token, **headers})


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer wrong", "Basic {token}", "{token}", "Bearer {token}x"],
)
def test_a_request_without_the_token_gets_401(served: Served, authorization: str) -> None:
    answer = ask(served, Authorization=authorization.format(token=served.token))

    assert answer.status_code == 401
    assert answer.json()["code"] == "unauthorized"
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert served.token not in answer.text


def test_a_request_without_credentials_is_told_how_to_bring_some(served: Served) -> None:
    answer = served.tokenless.get("/v1/models")

    assert answer.headers["www-authenticate"] == 'Bearer realm="honed"'
    assert "honed tokens create" in answer.json()["detail"]


@pytest.mark.parametrize("secret", ["wrong", "hone_wrong", "hone_" + "0" * 49])
def test_a_wrong_token_is_called_an_invalid_one(served: Served, secret: str) -> None:
    answer = ask(served, Authorization=f"Bearer {secret}")

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="honed", error="invalid_token"'
    assert secret not in answer.text


def test_a_made_token_opens_the_daemon_until_it_is_revoked(
    serve_inside: Callable[..., Any],
) -> None:
    inside = serve_inside()
    token, secret = inside.daemon.tokens.create(
        ADMIN,
        name="reader",
        scopes=[Scope.MODELS_READ],
        models=None,
        limits=Limits(),
        expires_at=None,
    )
    with client(inside.url, token=secret) as app:
        assert app.get("/v1/models").status_code == 200
        inside.daemon.tokens.revoke(token.id)
        answer = app.get("/v1/models")

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert "token 1 (reader) was revoked" in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/v1/nothing", "/metrics", "/v1/models/a/latest/model.onnx"])
def test_without_the_token_nobody_learns_what_exists(served: Served, path: str) -> None:
    assert served.tokenless.get(path).status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/docs"])
def test_health_and_documentation_need_no_token(served: Served, path: str) -> None:
    assert served.tokenless.get(path).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1", "127.0.0.1.nip.io"]
)
def test_another_host_name_is_refused(served: Served, host: str) -> None:
    port = served.url.rpartition(":")[2]

    for path in ("/v1/models", "/healthz"):
        answer = ask(served, path, Host=host.format(port=port))
        assert answer.status_code == 421
        assert answer.json()["code"] == "wrong_host"
        assert "localhost:" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("called", "host"), [("::ffff:192.0.2.2", "192.0.2.2:1"), ("fe80::1", "[fe80::1]:1")]
)
def test_the_called_address_is_accepted(called: str, host: str) -> None:
    guard = Guard(None, allowed_hosts=(), allowed_origins=(), takes_reports=False)  # type: ignore[arg-type]
    scope = {"extensions": {}, "server": (called, 1), "scheme": "http"}
    assert host in guard._hosts(scope)
    assert "evil.example:1" not in guard._hosts(scope)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_the_loopback_names_are_accepted(served: Served, name: str) -> None:
    port = served.url.rpartition(":")[2]

    assert ask(served, Host=f"{name}:{port}").status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_a_foreign_origin_is_refused(served: Served, origin: str) -> None:
    answer = ask(served, Origin=origin)

    assert answer.status_code == 403
    assert answer.json()["code"] == "foreign_origin"
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_fetch_from_another_site_is_refused(served: Served, site: str) -> None:
    assert ask(served, **{"Sec-Fetch-Site": site}).status_code == 403


def test_a_tab_may_be_led_to_the_console_and_to_nothing_else(served: Served) -> None:
    visit = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    for path, dest, status in (
        ("/dashboard", "document", 200),
        ("/dashboard/models/m", "document", 200),
        ("/dashboard", "iframe", 403),
        ("/dashboard/dashboard.js", "script", 403),
        ("/v1/models", "document", 403),
        ("/dashboards", "document", 403),
    ):
        answer = ask(served, path, **visit, **{"Sec-Fetch-Dest": dest})
        assert answer.status_code == status, (path, dest)
    headers = {**visit, "Sec-Fetch-Dest": "document", "Origin": "http://evil.example"}
    assert ask(served, "/dashboard", **headers).status_code == 403


def test_the_daemons_own_pages_may_ask(served: Served) -> None:
    answer = ask(served, Origin=served.url, **{"Sec-Fetch-Site": "same-origin"})

    assert answer.status_code == 200


def test_an_allowed_host_is_accepted(serve: Callable[..., Served]) -> None:
    served = serve(allowed_hosts='["edge.local", "proxy.local:9000"]')
    port = served.url.rpartition(":")[2]

    assert ask(served, Host=f"edge.local:{port}").status_code == 200
    assert ask(served, Host="proxy.local:9000").status_code == 200
    assert ask(served, Host=f"proxy.local:{port}").status_code == 421


def test_pages_of_a_proxy_that_ends_tls_may_ask(serve: Callable[..., Served]) -> None:
    served = serve(allowed_hosts='["edge.local:443", "proxy.local:9000"]')
    for host in ("edge.local", "proxy.local:9000"):
        assert ask(served, Host=host, Origin=f"https://{host}").status_code == 200
        for foreign in (f"https://{host}1", "http://edge.local", "https://edge.local:9000", "null"):
            assert ask(served, Host=host, Origin=foreign).status_code == 403, foreign
    for host in ("edge.local:80", "proxy.local", "evil.example", "edge.local.", ""):
        assert ask(served, Host=host).status_code in {400, 421}, host


def test_without_tls_port_443_is_not_left_out(serve: Callable[..., Served]) -> None:
    try:
        socket.create_server(("127.0.0.1", 443)).close()
    except OSError as error:
        pytest.skip(f"port 443: {error}")
    served = serve(port="443")
    assert ask(served, Host="localhost:443", Origin="http://localhost:443").status_code == 200
    assert ask(served, Host="localhost").status_code == 421
    assert ask(served, Host="localhost:443", Origin="http://localhost").status_code == 403


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_the_token_file_is_the_owners_alone_and_survives_a_restart(
    serve: Callable[..., Served],
) -> None:
    first = serve()
    mode = stat.S_IMODE((first.data_dir / "admin.token").stat().st_mode)
    first.stop()

    second = serve()

    assert mode == 0o600
    assert re.fullmatch(r"hone_\w{49}", first.token)
    assert second.token == first.token
    assert first.token not in first.log.read_text()


@pytest.mark.parametrize("content", ["", "\n", "hone_7stFg4fsCV5IkwpiNoUQRSwJitx8\n"])
def test_a_daemon_does_not_start_without_a_whole_admin_token(
    serve: Callable[..., Served], tmp_path: Path, content: str
) -> None:
    path = tmp_path / "data" / "admin.token"
    path.parent.mkdir(mode=0o700)
    path.write_text(content)

    with pytest.raises(AssertionError, match=f"error: {path} is .* or remove the file"):
        serve()
    path.unlink()

    assert is_secret(serve().token)


def test_an_empty_secret_matches_not_even_an_empty_token(
    serve_inside: Callable[..., Any],
) -> None:
    inside = serve_inside()
    inside.app.state.token = ""
    with client(inside.url) as asking:
        headers = {"Authorization": "Bearer"}
        assert asking.get("/v1/tokens", headers=headers).status_code == 401


@pytest.mark.skipif(sys.platform == "win32", reason="there is no RLIMIT_FSIZE on Windows")
def test_a_first_start_without_room_does_not_open_the_second(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    arguments = [sys.executable, "-c", WITHOUT_ROOM, str(tmp_path / "data")]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HONED_")}
    done = subprocess.run(
        arguments, env=kept, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 1, done.stderr
    assert not (tmp_path / "data" / "admin.token").exists()

    served = serve()

    assert is_secret(served.token)
    assert ask(served, "/v1/tokens", Authorization="Bearer").status_code == 401


def test_no_telemetry_is_told_of_a_request(
    serve_inside: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    told: list[str] = []

    class Provider(trace.TracerProvider):
        def get_tracer(self, name: str, *_: object, **__: object) -> Any:
            told.append(name)
            return trace.NoOpTracer()

    monkeypatch.setattr(trace, "_TRACER_PROVIDER", Provider())
    inside = serve_inside()
    with client(inside.url, token=inside.token) as asking:
        assert asking.get("/v1/models").status_code == 200
    assert told == []
