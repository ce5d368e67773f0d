"""`GET /v1/system`: what the daemon runs on, told by a child of it."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from importlib.metadata import version

import pytest
from support import Served, mlp


def test_versions_and_findings_are_those_of_the_daemon(served: Served) -> None:
    body = served.http.get("/v1/system").json()

    assert body["versions"]["honed"] == version("honed")
    assert body["versions"]["sqlite"] == sqlite3.sqlite_version
    assert body["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert body["data_dir"] == str(served.data_dir)
    found = {check["name"]: check for check in body["checks"]}
    assert found.keys() >= {"python", "runtime", "onnx", "sandbox", "disk space", "permissions"}
    assert found["permissions"]["status"] == "ok"
    assert all(check["remedy"] for check in found.values() if check["status"] != "ok")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes")
def test_what_others_may_read_is_found_and_backups_are_listed(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    served.register("kept", mlp(4, 3))
    served.stop()
    served = serve()
    (served.data_dir / "admin.token").chmod(0o644)

    body = served.http.get("/v1/system").json()

    found = {check["name"]: check for check in body["checks"]}
    assert found["token"]["status"] == "fail"
    assert found["token"]["remedy"].startswith("chmod 600 ")
    (backup,) = body["backups"]
    assert backup["size_bytes"] > 0
