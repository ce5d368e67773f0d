"""How examples ask a daemon: by the command line, and over HTTP.

Both find it by HONED_URL and HONED_TOKEN.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx

TIMEOUT_S = 60


def honed(*arguments: str | Path) -> str:
    """What the command line prints; the example ends where it fails."""
    program = [Path(sys.executable).with_name("honed"), *arguments]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"honed {arguments[0]}: {done.stderr}")
    return done.stdout


def ask(method: str, path: str, **request: Any) -> httpx.Response:
    """The answer to a request of /v1/models/…; the example ends where it is an error.

    request: as httpx takes it.
    """
    headers = {"Authorization": f"Bearer {os.environ['HONED_TOKEN']}"}
    headers |= request.pop("headers", {})
    url = f"{os.environ['HONED_URL']}/v1/models/{path}"
    answer = httpx.request(
        method, url, headers=headers, timeout=TIMEOUT_S, trust_env=False, **request
    )
    if answer.is_error:
        raise SystemExit(f"{method} {path}: {answer.text}")
    return answer
