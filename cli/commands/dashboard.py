"""`honed dashboard`: the console in the browser, signed in."""

from __future__ import annotations

import webbrowser

import click

from cli.client import Client
from cli.errors import Failure


@click.command()
@click.option("--print", "only_print", is_flag=True, help="Print the address, open no browser.")
@click.pass_obj
def dashboard(client: Client, *, only_print: bool) -> None:
    """Open the console in the browser, signed in.

    The address has a code that counts once and for a minute; what it gives the page is a token of
    twelve hours, with what you may do. From another machine: `ssh -L 8471:127.0.0.1:8471 device`,
    and open there what `honed dashboard --print` prints here.
    """
    code = client.post("/v1/sign-in/codes")["code"]
    address = f"{_page(client)}#code={code}"
    if only_print:
        click.echo(address)
        return
    click.echo(f"opening {_page(client)}", err=True)
    if not webbrowser.open(address):
        click.echo("no browser opens here; open this within a minute:", err=True)
        click.echo(address)


def _page(client: Client) -> str:
    """The console's address for a browser. Raises Failure if the daemon does not listen on TCP."""
    if client.socket is not None and not client.settings.tcp:
        raise Failure(
            "the daemon listens on its Unix socket alone, which no browser can open; "
            "set HONED_TCP=true and start it anew"
        )
    return f"{client.url}/dashboard"
