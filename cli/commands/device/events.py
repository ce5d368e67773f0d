"""`honed events`: past events and new ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import click

from cli import completion
from cli.client import Client
from cli.options import ClientCommand, given
from cli.output import echo_text, plain, wants_json
from storage.database.codec import dump

EVENTS, DATA = "/v1/events", "data: "


@click.command(cls=ClientCommand)
@click.option(
    "--model",
    "models",
    multiple=True,
    shell_complete=completion.models,
    help="Events of this model only; may be repeated.",
)
@click.option(
    "--type", "types", multiple=True, metavar="PREFIX", help="Types that begin so, as job."
)
@click.option(
    "--last", type=click.IntRange(0), default=20, help="How many of those that are stored."
)
@click.option("--after", type=click.IntRange(0), help="All after the event with this id instead.")
@click.option("--follow", is_flag=True, help="Go on with what happens, until Ctrl-C.")
def events(
    client: Client,
    *,
    models: tuple[str, ...],
    types: tuple[str, ...],
    last: int,
    after: int | None,
    follow: bool,
) -> None:
    """Print what happened last, an event a line; docs/events.md lists the types.

    With --json each line is a JSON object.
    """
    asked = given({"model": models, "type": types})
    stored = client.items(f"{EVENTS}/history", **asked)
    if after is None:
        after = until = newest_id(client)
        for event in reversed(list(islice(stored, last))):
            _echo(event)
            after = max(after, event["id"])
    else:  # the stream begins with them, and tells which of them are lost
        until = next((event["id"] for event in stored), after)
    with suppress(KeyboardInterrupt):
        if follow or after < until:
            for event in follow_events(client, after, asked):
                _echo(event)
                if not follow and (event["id"] or 0) >= until:
                    break


def newest_id(client: Client) -> int:
    """The id of the newest stored event; 0 without one."""
    newest = client.get(f"{EVENTS}/history", limit=1)["items"]
    return newest[0]["id"] if newest else 0


def follow_events(client: Client, seen: int, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Events after the id `seen`, without end; asked: models and types of events.

    Reconnects where a stream ended. Raises Failure if the daemon cannot be reached.
    """
    while True:
        params = {"last_event_id": seen, **asked}
        with client.stream("GET", EVENTS, params=params) as response:
            for line in response.iter_lines():
                if line.startswith(DATA):
                    event = json.loads(line.removeprefix(DATA))
                    seen = event["id"] or seen
                    yield event


def _echo(event: dict[str, Any]) -> None:
    echo_text(dump(event) if wants_json() else _line(event))


def _line(event: dict[str, Any]) -> str:
    about = f" {event['model']}" if event["model"] else ""
    return f"{event['created_at'][:19]}  {event['type']}{about}  {plain(event['data'])}"
