"""The vendor: signs networks by `honed sign`, and pushes them to a registry as `oras push` does.

The registry is Debian's docker-registry where it is installed, else a web server with the files.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from cli.main import honed

REGISTRY = shutil.which("docker-registry")
CONFIG = """
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
STATEMENT = "application/vnd.honed.statement.v1+json"
OCTETS = {"Content-Type": "application/octet-stream"}
NEXT_YEAR = f"{date.today() + timedelta(days=365)}"


class Vendor:
    """One who signs. key: the file of the private key, made if there is none."""

    def __init__(self, folder: Path, key: str) -> None:
        self._folder = folder
        self._key = folder / key

    @property
    def public_key(self) -> str:
        """What devices pin."""
        return self._key.with_name(f"{self._key.name}.pub").read_text("ascii")

    def release(self, where: str, tag: str, model: bytes, version: int, **spec: Any) -> str:
        """Sign a network and put it where devices find it; returns the source to follow."""
        file = self._folder / tag / "digits.onnx"
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(model)
        told = [f"--spec={name}={json.dumps(value)}" for name, value in spec.items()]
        about = ["--version", f"{version}", "--expires", NEXT_YEAR, *told]
        command = ["sign", f"{file}", "--key", f"{self._key}", "--make-key", *about]
        honed.main(command, standalone_mode=False)
        if REGISTRY is None:
            return f"http://{where}/{tag}/digits.onnx"
        return push(where, tag, {each.name: each.read_bytes() for each in _signed(file)})


def _signed(file: Path) -> tuple[Path, Path]:
    return file, file.with_name(f"{file.name}.sig")


def push(host: str, tag: str, files: dict[str, bytes]) -> str:
    """One manifest with a layer for each file."""
    with httpx.Client(base_url=f"http://{host}/v2/team/digits", trust_env=False) as web:
        layers = [_layer(web, name, content) for name, content in files.items()]
        empty = {**_layer(web, "", b"{}"), "mediaType": "application/vnd.oci.empty.v1+json"}
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": "application/vnd.honed.base.v1",
            "config": {name: empty[name] for name in ("mediaType", "digest", "size")},
            "layers": layers,
        }
        headers = {"Content-Type": MANIFEST}
        web.put(f"/manifests/{tag}", json=manifest, headers=headers).raise_for_status()
    return f"oci://{host}/team/digits:{tag}"


def _layer(web: httpx.Client, title: str, content: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    begun = web.post("/blobs/uploads/").raise_for_status()
    where = httpx.URL(begun.headers["location"]).copy_merge_params({"digest": digest})
    web.put(where, content=content, headers=OCTETS).raise_for_status()
    return {
        "mediaType": STATEMENT if title.endswith(".sig") else OCTETS["Content-Type"],
        "digest": digest,
        "size": len(content),
        "annotations": {"org.opencontainers.image.title": title},
    }


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """The address of a registry, or of a web server with what lies in the folder."""
    if REGISTRY is None:
        serve = partial(_Silent, directory=folder)
        with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield f"127.0.0.1:{server.server_port}"
            server.shutdown()
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "registry.yml"
    config.write_text(CONFIG.format(folder=folder / "registry", port=port))
    process = subprocess.Popen([REGISTRY, "serve", config], stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}/v2/")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _wait_for(url: str) -> None:
    for _ in range(200):
        with suppress(httpx.TransportError):
            httpx.get(url, trust_env=False)
            return
        time.sleep(0.05)
    raise TimeoutError(url)


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""
