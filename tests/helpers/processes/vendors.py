"""A vendor: keys, signed files, a web server that may lie or break off, Debian's real registry."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from support import wait_until

from service.follow.keys import pem_of
from service.follow.statement import (
    ENVELOPE_TYPE,
    SignedFile,
    Statement,
    envelope,
    signed_by,
)
from storage.records.follows import OfferedBase

REGISTRY = shutil.which("docker-registry")
needs_registry = pytest.mark.skipif(REGISTRY is None, reason="apt-get install docker-registry")
MODEL = random.Random(1).randbytes(300_000)
SOON = datetime.now(timezone.utc) + timedelta(days=30)
YESTERDAY = datetime.now(timezone.utc) - timedelta(days=1)
CONFIG = """
version: 0.1
log: {{level: warn, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
{auth}
"""


class Vendor:
    """Who signs. key: private."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.pem = pem_of(self.key.public_key().public_bytes_raw())

    def sign(self, model: bytes, version: int = 2, **changes: Any) -> bytes:
        """The envelope of a file."""
        fields = {"name": "digits", "expires_at": SOON, "model": signed(model), **changes}
        return signed_by(Statement(version=version, **fields), self.key)

    def sign_bytes(self, payload: bytes) -> bytes:
        """The envelope of anything."""
        return envelope(payload, self.key)


def signed(content: bytes) -> SignedFile:
    return SignedFile(hashlib.sha256(content).hexdigest(), len(content))


def seen(content: bytes, version: int) -> OfferedBase:
    file = signed(content)
    return OfferedBase(version, file.sha256, file.size_bytes, YESTERDAY)


Lie = Callable[["Handler", bytes], None]


def says(status: int, **headers: str) -> Lie:
    """An answer without a body."""
    return lambda handler, _: handler.answer(status, b"", **headers)


class Website:
    """Files by path, with ETags and ranges; by TLS if it has a certificate (with its key).

    lies: path → what answers instead.
    asked: method, path and `Range` of each question. posted: bodies.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.lies: dict[str, Lie] = {}
        self.asked: list[tuple[str, str, str | None]] = []
        self.logins: list[str | None] = []
        self.posted: list[bytes] = []
        site = self

        class OfSite(Handler):
            @property
            def site(self) -> Website:
                return site

        self._server = Server(("127.0.0.1", 0), OfSite)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self.url = f"https://localhost:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Website:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def publish(self, vendor: Vendor, model: bytes, version: int = 2, **changes: Any) -> str:
        """Put a file and its statement there; the source to follow."""
        self.files["/digits.onnx"] = model
        self.files["/digits.onnx.sig"] = vendor.sign(model, version, **changes)
        return f"{self.url}/digits.onnx"

    def paths(self) -> list[str]:
        """Of the requests so far."""
        return [path for _, path, _ in self.asked]


class Server(ThreadingHTTPServer):
    """One that is silent about clients which end a connection."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers from a website's files."""

    protocol_version = "HTTP/1.1"
    site: Website

    def do_GET(self) -> None:
        self.site.asked.append((self.command, self.path, self.headers.get("Range")))
        self.site.logins.append(self.headers.get("Authorization"))
        content = self.site.files.get(self.path.partition("?")[0])
        if self.path in self.site.lies:
            self.site.lies[self.path](self, content or b"")
        elif content is None:
            self.answer(404, b"")
        else:
            self.serve(content)

    def do_POST(self) -> None:
        self.site.logins.append(self.headers.get("Authorization"))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path in self.site.lies:
            self.site.lies[self.path](self, body)
        else:
            self.site.posted.append(body)
            self.answer(200, b"{}")

    do_HEAD = do_GET  # noqa: N815 - as http.server calls it

    def serve(self, content: bytes) -> None:
        """As an honest server does."""
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        if self.headers.get("If-None-Match") == tag:
            self.answer(304, b"", ETag=tag)
            return
        begin = self.begin()
        if begin:
            part = {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
            self.answer(206, content[begin:], ETag=tag, **part)
        else:
            self.answer(200, content, ETag=tag)

    def begin(self) -> int:
        """Where the asked range begins."""
        return int(self.headers.get("Range", "bytes=0-")[len("bytes=") :].rstrip("-"))

    def answer(
        self, status: int, body: bytes, *, length: int | None = None, **headers: str
    ) -> None:
        """length: to be announced instead of the body's."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 304:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def break_off(self, content: bytes, after: int) -> None:
        """Announce the whole, send some bytes of it, and cut the connection."""
        begin = self.begin()
        part = {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
        status, headers = (206, part) if begin else (200, {})
        cut = content[begin : begin + after]
        self.answer(status, cut, length=len(content) - begin, **headers)
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def registry(folder: Path, *, auth: str = "") -> Iterator[str]:
    """A running docker-registry; its address. auth: a section of its configuration."""
    assert REGISTRY is not None
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "registry.yml"
    config.write_text(CONFIG.format(folder=folder / "registry", port=port, auth=auth))
    log = folder / "registry.log"
    with log.open("wb") as output:
        process = subprocess.Popen([REGISTRY, "serve", config], stdout=output, stderr=output)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _answers(url), "the registry to answer")
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v2/", trust_env=False).status_code in (200, 401)
    except httpx.TransportError:
        return False


def push(
    host: str, model: bytes, statement: bytes | None, *, tag: str = "stable", **options: Any
) -> str:
    """Push as `oras push` does; the source to follow. options: of httpx."""
    with httpx.Client(base_url=f"http://{host}/v2/team/digits", trust_env=False, **options) as web:
        layers = [_layer(web, "digits.onnx", "application/vnd.oci.image.layer.v1.tar", model)]
        if statement is not None:
            layers.append(_layer(web, "digits.onnx.sig", ENVELOPE_TYPE, statement))
        empty = _layer(web, "", "application/vnd.oci.empty.v1+json", b"{}")
        kind = "application/vnd.oci.image.manifest.v1+json"
        manifest = {
            "schemaVersion": 2,
            "mediaType": kind,
            "artifactType": "application/vnd.honed.base.v1",
            "config": {name: empty[name] for name in ("mediaType", "digest", "size")},
            "layers": layers,
        }
        body = json.dumps(manifest).encode()
        answer = web.put(f"/manifests/{tag}", content=body, headers={"Content-Type": kind})
        answer.raise_for_status()
    return f"oci://{host}/team/digits:{tag}"


def push_index(source: str) -> str:
    """Push an index of what a source's tag names, as of platforms; the source to follow."""
    host, _, path = source.removeprefix("oci://").partition("/")
    repository, _, tag = path.partition(":")
    kinds = [f"application/vnd.oci.image.{each}.v1+json" for each in ("manifest", "index")]
    with httpx.Client(base_url=f"http://{host}/v2/{repository}", trust_env=False) as web:
        found = web.get(f"/manifests/{tag}", headers={"Accept": kinds[0]})
        digest, size = found.headers["docker-content-digest"], len(found.content)
        one = {"mediaType": kinds[0], "digest": digest, "size": size}
        index = {"schemaVersion": 2, "mediaType": kinds[1], "manifests": [one]}
        headers = {"Content-Type": kinds[1]}
        web.put("/manifests/index", json=index, headers=headers).raise_for_status()
    return f"oci://{host}/{repository}:index"


def _layer(web: httpx.Client, title: str, kind: str, content: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    begun = web.post("/blobs/uploads/")
    begun.raise_for_status()
    where = httpx.URL(begun.headers["location"]).copy_merge_params({"digest": digest})
    headers = {"Content-Type": "application/octet-stream"}
    web.put(where, content=content, headers=headers).raise_for_status()
    return {
        "mediaType": kind,
        "digest": digest,
        "size": len(content),
        "annotations": {"org.opencontainers.image.title": title},
    }
