"""clients/js, by its own tests in Node.js against a real daemon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import DEADLINE_S, Served

CLIENT = Path(__file__).parents[2] / "clients" / "js"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_its_own_tests_pass(served: Served, bell: str) -> None:
    given = {"HONED_URL": served.url, "HONED_TOKEN": served.token}
    done = subprocess.run(
        ["node", "--test", "test/"],
        env={**os.environ, **given, "HONED_DATA_DIR": str(served.data_dir)},
        cwd=CLIENT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# pass 6" in done.stdout


def test_its_types_are_those_of_the_api(served: Served) -> None:
    code = "import json, sys, js_types as t; print(t.render(json.load(sys.stdin)), end='')"
    schemas = served.tokenless.get("/openapi.json").json()["components"]["schemas"]
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(schemas),
        env={**os.environ, "PYTHONPATH": str(CLIENT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == (CLIENT / "src" / "openapi.d.ts").read_text("utf-8"), (
        "clients/js/src/openapi.d.ts is old: python clients/js/js_types.py"
    )
