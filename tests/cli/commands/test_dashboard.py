from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from cli.client import Client


def test_the_address_signs_in_once(honed: Callable[..., Any], client: Client) -> None:
    done = honed("dashboard", "--print")

    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"(http://\S+)/dashboard#code=(\w+)", done.stdout.strip())
    assert found
    assert found[1] == client.url
    body = {"code": found[2]}
    assert httpx.post(f"{client.url}/v1/sign-in", json=body, trust_env=False).status_code == 201
    assert httpx.post(f"{client.url}/v1/sign-in", json=body, trust_env=False).status_code == 401


@pytest.mark.skipif(sys.platform == "win32", reason="Windows always has a browser")
def test_a_device_without_a_browser_is_told_the_address(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    done = honed("dashboard", BROWSER="false", DISPLAY="", HOME=str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert "/dashboard#code=" in done.stdout
    assert not [*tmp_path.glob("*.html")]


SIGNS_IN = """#!{python}
import httpx, json, os, pathlib, re, sys
(address,) = sys.argv[1:]
page = pathlib.Path(address.removeprefix("file://"))
code = re.search(r"url=(http://[^/]+)/dashboard#code=(\\w+)", page.read_text())
told = {{
    "arguments": pathlib.Path("/proc/self/cmdline").read_text(),
    "code": code[2],
    "mode": page.stat().st_mode & 0o777,
    "name": page.name,
}}
pathlib.Path("{told}").write_text(json.dumps(told))
body = {{"code": code[2]}}
httpx.post(code[1] + "/v1/sign-in", json=body, trust_env=False).raise_for_status()
"""
"""A browser that does with the page what a person's does."""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows the arguments")
def test_what_a_browser_is_started_with_does_not_sign_in(
    program: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser, told, home = (tmp_path / name for name in ("browser", "told", "home"))
    browser.write_text(SIGNS_IN.format(python=sys.executable, told=told))
    browser.chmod(0o700)
    home.mkdir()
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    monkeypatch.setenv("HOME", str(home))

    done = program("dashboard")

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    seen = json.loads(told.read_text())
    assert seen["code"] not in seen["arguments"] + done.stderr
    assert seen["name"] in seen["arguments"]
    assert (seen["mode"], seen["name"].startswith(".")) == (0o600, False)
    assert not [*home.iterdir()]
