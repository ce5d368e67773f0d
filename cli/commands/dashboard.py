"""`honed dashboard`: the console in the browser, signed in."""

from __future__ import annotations

import os
import tempfile
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any

import click

from cli.client import Client
from cli.errors import Failure
from cli.output import echo_text

ASK_EVERY_S = 0.5
REDIRECTING = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>Hone</title>
<a href="{address}">Open the console</a>
"""


@click.command()
@click.option("--print", "only_print", is_flag=True, help="Print the address, open no browser.")
@click.pass_obj
def dashboard(client: Client, *, only_print: bool) -> None:
    """Open the console in the browser, signed in.

    The address has a code that counts once and for a minute; what it gives the page is a token of
    twelve hours, with what you may do. The browser reads it from a file in your home folder, which
    only you can read, and which is removed once somebody has signed in: what a browser is started
    with, every user of the machine can see. From another machine: `ssh -L 8471:127.0.0.1:8471
    device`, and open there what `honed dashboard --print` prints here.
    """
    page = _page(client)
    code = client.post("/v1/sign-in/codes")
    address = f"{page}#code={code['code']}"
    if only_print:
        echo_text(address)
        return
    echo_text(f"opening {page}", err=True)
    with _redirecting(address) as file:
        is_open = webbrowser.open(file.as_uri())
        if not is_open:
            echo_text("no browser opens here; open this within a minute:", err=True)
            echo_text(address)
        elif not _is_used(client, code):
            raise Failure(
                "the browser has not signed in within a minute; perhaps it may not read "
                f"{file}: open what `honed dashboard --print` prints"
            )


@contextmanager
def _redirecting(address: str) -> Iterator[Path]:
    """A page that only its owner can read and that leads to the address; removed at the end.

    It is in the home folder, and not hidden: browsers in a sandbox read nothing else.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix="honed-", suffix=".html", dir=Path.home())
    except OSError as error:
        raise Failure(
            f"cannot write a page for the browser into {Path.home()}: {error.strerror}; "
            "open what `honed dashboard --print` prints"
        ) from error
    file = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as page:
            page.write(REDIRECTING.format(address=escape(address)))
        yield file
    finally:
        file.unlink(missing_ok=True)


def _is_used(client: Client, token: dict[str, Any]) -> bool:
    """Whether somebody has signed in before the code ended; waits for it."""
    from service.access.sign_in import CODE_LIFETIME_S

    ends = datetime.fromisoformat(token["expires_at"].replace("Z", "+00:00"))
    since = (ends - timedelta(seconds=CODE_LIFETIME_S)).isoformat()
    deadline = time.monotonic() + CODE_LIFETIME_S
    while time.monotonic() < deadline:
        if client.get("/v1/audit", action="sign_in", since=since, limit=1)["items"]:
            return True
        time.sleep(ASK_EVERY_S)
    return False


def _page(client: Client) -> str:
    """The console's address for a browser. Raises Failure if the daemon does not listen on TCP."""
    if client.socket is not None and not client.settings.tcp:
        raise Failure(
            "the daemon listens on its Unix socket alone, which no browser can open; "
            "set HONED_TCP=true and start it anew"
        )
    return f"{client.url}/dashboard"
