"""TCP: on this machine as it is, on a network only encrypted, and as systemd hands it over."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from support import DEADLINE_S, Served, client, mlp, wait_until

from cli.commands.serve import WRONG_SETTING

FOLDER = Path(__file__).parent / "certificate"
TLS = {"tls_certificate": FOLDER / "certificate.pem", "tls_key": FOLDER / "key.pem"}
"""Of `honed.test`, signed by itself, good until 2126; made by openssl for these tests alone."""


@pytest.fixture
def verifying() -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=FOLDER / "certificate.pem")
    context.check_hostname = False
    return context


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_an_address_of_the_network_is_refused_and_the_remedies_named(
    honed_serve: Callable[..., tuple[int, str]], host: str
) -> None:
    code, said = honed_serve(host=host)
    assert code == WRONG_SETTING
    for remedy in ("HONED_TLS_CERTIFICATE", "127.0.0.1", "HONED_INSECURE_BIND=true"):
        assert remedy in said
    assert "Traceback" not in said


def test_who_says_so_may_listen_on_a_network_in_the_clear(serve: Callable[..., Served]) -> None:
    served = serve(host="0.0.0.0", insecure_bind=True, allowed_hosts='["0.0.0.0"]')
    assert served.tokenless.get("/v1/models").status_code == 401
    assert served.http.get("/v1/models").status_code == 200


def test_with_a_certificate_everything_is_encrypted(
    serve: Callable[..., Served], verifying: ssl.SSLContext
) -> None:
    served = serve(host="0.0.0.0", allowed_hosts='["0.0.0.0"]', **TLS)
    port = httpx.URL(served.url).port
    model = mlp(64, 32, 10)
    served.register("digits", model)
    with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=verifying) as asking:
        assert asking.get("/v1/models").status_code == 401
        token = {"Authorization": f"Bearer {served.token}"}
        page = {"Origin": f"https://127.0.0.1:{port}"}
        assert asking.get("/v1/models", headers={**token, **page}).status_code == 200
        clear = {"Origin": f"http://127.0.0.1:{port}"}
        assert asking.get("/v1/models", headers={**token, **clear}).status_code == 403
        url = "/v1/models/digits/latest/model.onnx"
        assert len(asking.get(url, headers=token).content) >= len(model) / 2
    with pytest.raises(httpx.RemoteProtocolError), client(f"http://127.0.0.1:{port}") as asking:
        asking.get("/healthz")


@pytest.mark.parametrize(
    ("settings", "words", "code"),
    [
        ({"tls_certificate": TLS["tls_certificate"]}, "belong together", WRONG_SETTING),
        ({"tls_key": TLS["tls_key"]}, "belong together", WRONG_SETTING),
        (dict.fromkeys(TLS, TLS["tls_certificate"]), "the key without a password", 1),
        (dict.fromkeys(TLS, "/nowhere.pem"), "No such file", 1),
    ],
)
def test_a_certificate_that_cannot_be_used_stops_the_start(
    honed_serve: Callable[..., tuple[int, str]],
    settings: dict[str, object],
    words: str,
    code: int,
) -> None:
    ended, said = honed_serve(**settings)
    assert ended == code
    assert "HONED_TLS_CERTIFICATE" in said
    assert words in said


def test_nobody_is_asked_for_the_password_of_a_key(
    honed_serve: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    locked = tmp_path / "locked.pem"
    key = load_pem_private_key(TLS["tls_key"].read_bytes(), password=None)
    locked.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    code, said = honed_serve(**{**TLS, "tls_key": locked})
    assert code == 1
    assert "the key without a password" in said
    assert "Enter" not in said


ACTIVATED = """
import fcntl, os, sys
passed = [int(each) for each in sys.argv[1].split(",")]
kept = [fcntl.fcntl(each, fcntl.F_DUPFD, 20) for each in passed]
for number, each in enumerate(kept):
    os.dup2(each, 3 + number)
    os.set_inheritable(3 + number, True)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(kept))}
os.execv(sys.executable, [sys.executable, "-m", "honed", "serve", "--data-dir", sys.argv[2]])
"""


@pytest.fixture
def activated(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Start a daemon with sockets as systemd passes them; where it says what."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*passed: socket.socket, **settings: object) -> Path:
        log = tmp_path / "daemon.log"
        numbers = [each.fileno() for each in passed]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HONED_")}
        chosen = {f"HONED_{name.upper()}": str(value) for name, value in settings.items()}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-c", ACTIVATED, ",".join(map(str, numbers)), tmp_path / "data"],
                env={**kept, "HONED_CONFIG": os.devnull, **chosen},
                pass_fds=numbers,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started.append(process)

        def is_listening() -> bool:
            assert process.poll() is None, log.read_text()
            return "the admin token is" in log.read_text()

        wait_until(is_listening, "the daemon to listen")
        return log

    yield start
    for process in started:
        process.terminate()
        process.wait(DEADLINE_S)


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
def test_sockets_that_systemd_made_are_taken_and_no_others_opened(
    activated: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "passed.sock"
    with socket.socket(socket.AF_UNIX) as local, socket.create_server(("127.0.0.1", 0)) as tcp:
        local.bind(str(path))
        local.listen()
        log = activated(local, tcp)
        port = tcp.getsockname()[1]
        said = [line for line in log.read_text().splitlines() if line.startswith("honed listens")]
        assert said == [
            f"honed listens on http://127.0.0.1:{port}",
            f"honed listens on unix:{path}",
        ]
        for url in (f"unix:{path}", f"http://127.0.0.1:{port}"):
            with client(url) as asking:
                assert asking.get("/healthz").status_code == 200
        with client(f"unix:{path}") as asking:
            assert asking.get("/v1/models").status_code == 200
        assert not (tmp_path / "data" / "api.sock").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
def test_a_socket_that_systemd_made_stays_when_the_daemon_stops(
    activated: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "passed.sock"
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(str(path))
        local.listen()
        activated(local, tcp=False)
    assert path.exists()
