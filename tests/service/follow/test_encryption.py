"""TLS is verified always; and a child that is killed costs only what it had not written yet."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from support import wait_until
from vendors import MODEL, Website, says, signed

from service.follow.messages import Fetched, Login, line
from service.processes.interpreter import APPLICATION, command, environment


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Of localhost, which nobody has signed but itself."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "localhost.key", tmp_path / "localhost.crt"
    words = (
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    )
    made = ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]
    subprocess.run(["openssl", *words.split(), *made], check=True, stderr=subprocess.DEVNULL)
    path = tmp_path / "localhost.pem"
    path.write_bytes(key.read_bytes() + certificate.read_bytes())
    return path


def test_a_certificate_that_no_authority_has_signed_is_not_believed(device, vendor, certificate):
    with Website(certificate) as site:
        code, detail = device.refusal(site.publish(vendor, MODEL))
        assert (code, "CERTIFICATE_VERIFY_FAILED" in detail) == ("source_unreachable", True)
        assert site.asked == []


@pytest.mark.parametrize(
    "variable",
    [
        "SSL_CERT_FILE=/nowhere.pem",
        "SSL_CERT_FILE=/dev/null",
        "ALL_PROXY=socks5://127.0.0.1:1080",
        "HTTPS_PROXY=ftp://proxy.example",
        "NO_PROXY=fd00::/8",
    ],
)
def test_an_environment_that_nobody_could_use_is_named(
    device, vendor, website, monkeypatch, variable
):
    name, _, value = variable.partition("=")
    monkeypatch.setenv(name, value)
    code, detail = device.refusal(website.publish(vendor, MODEL))
    assert (code, name in detail) == ("source_unreachable", True)


def test_what_is_on_this_device_is_asked_without_a_proxy(device, vendor, website, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    assert device.fetch(website.publish(vendor, MODEL)) == MODEL


def test_an_authority_that_the_device_names_is_believed(device, vendor, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
    with Website(certificate) as site:
        source = site.publish(vendor, MODEL)
        assert isinstance(device.ask_in_child(source)[-1], Fetched)
        (device.folder / signed(MODEL).sha256).unlink()
        # From TLS nothing leads back to plain HTTP.
        plain = site.url.replace("https", "http") + "/elsewhere"
        site.lies["/digits.onnx"] = says(302, Location=plain)
        assert device.refusal(source)[0] == "redirect_refused"


def test_a_host_that_is_allowed_may_store_the_file_and_gets_no_login(
    device, vendor, certificate, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
    with Website(certificate) as site, Website(certificate) as storage:
        source = site.publish(vendor, MODEL)
        storage.files["/blob"] = MODEL
        site.lies["/digits.onnx"] = says(302, Location=f"{storage.url}/blob?signature=x")
        site.lies["/digits.onnx.sig"] = wants_password
        login = Login("anna", "s3cret")
        assert device.refusal(source, login=login)[0] == "redirect_refused"
        hosts = (storage.url.removeprefix("https://"),)
        assert device.fetch(source, login=login, terms={"hosts": hosts}) == MODEL
        assert storage.logins == [None]


def test_a_token_service_that_sends_on_to_another_host_takes_no_login_there(
    device, vendor, certificate, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
    with Website(certificate) as site, Website(certificate) as elsewhere:
        source = site.publish(vendor, MODEL)
        bearer, there = f'Bearer realm="{site.url}/token"', f"{elsewhere.url}/token"
        site.lies["/digits.onnx.sig"] = says(401, WWW_Authenticate=bearer)
        site.lies["/token?scope=repository%3ANone%3Apull"] = says(307, Location=there)
        terms = {"hosts": (elsewhere.url.removeprefix("https://"),)}
        code, _ = device.refusal(source, login=Login("anna", "s3cret"), terms=terms)
        assert code == "source_refused"
        assert site.logins[-1] is not None
        assert elsewhere.logins == [None]


def wants_password(handler, content):
    if handler.headers.get("Authorization"):
        handler.serve(content)
    else:
        handler.answer(401, b"", WWW_Authenticate='Basic realm="files"')


def test_a_child_that_is_killed_at_any_moment_leaves_the_beginning_of_the_file(
    device, vendor, website
):
    drawn = random.Random(3)
    source = website.publish(vendor, MODEL)
    path = device.folder / signed(MODEL).sha256

    def partly(handler, content):
        begin = handler.begin()
        part = {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
        piece = content[begin : begin + drawn.randrange(1, len(content) // 8)]
        status, headers = (206, part) if begin else (200, {})
        handler.answer(status, piece, length=len(content) - begin, **headers)
        handler.wfile.flush()
        handler.rfile.read(1)

    website.lies["/digits.onnx"] = partly
    for _ in range(5):
        before = size(path)
        child = subprocess.Popen(
            command("service.follow"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=APPLICATION,
            env=environment(),
        )
        with child:
            child.stdin.write(line(device.inquiry(source)))
            child.stdin.flush()
            wait_until(lambda: size(path) > before, "some bytes")  # noqa: B023
            child.kill()
        assert MODEL.startswith(path.read_bytes())
    del website.lies["/digits.onnx"]
    assert device.fetch(source) == MODEL


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
