"""The vendor: signs networks by `honed sign`, and puts them on a web server.

A registry serves them as well: docs/following.md pushes both files there.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cli.main import honed

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
        return f"http://{where}/{tag}/digits.onnx"


@contextmanager
def web_server(folder: Path) -> Iterator[str]:
    """The address of a server of what lies in the folder."""
    serve = partial(_Silent, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""
