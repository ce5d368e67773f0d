from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx

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


def test_a_device_without_a_browser_is_told_the_address(honed: Callable[..., Any]) -> None:
    done = honed("dashboard", BROWSER="false", DISPLAY="")

    assert done.returncode == 0, done.stderr
    assert "/dashboard#code=" in done.stdout
