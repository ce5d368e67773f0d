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
from cli.errors import Failure
from cli.options import with_client
from cli.output import echo_text, plain, wants_json
from storage.database.codec import dump

EVENTS = "/v1/events"


@click.command()
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
@with_client
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

    def show(event: dict[str, Any]) -> None:
        if (not models or event["model"] in models) and event["type"].startswith(types or ""):
            echo_text(dump(event) if wants_json() else _line(event))

    newest = newest_id(client)
    if after is None:
        stored = client.items(f"{EVENTS}/history", model=models or None, type=types or None)
        known = (event for event in stored if event["id"] <= newest)
        for event in reversed(list(islice(known, last))):
            show(event)
    with suppress(KeyboardInterrupt):
        if after is not None or follow:
            seen = newest if after is None else after
            for event in follow_events(client, seen, until=None if follow else newest):
                show(event)


def newest_id(client: Client) -> int:
    """The id of the newest stored event; a stream without a last id begins with it."""
    with client.stream("GET", EVENTS) as response:
        for line in response.iter_lines():
            if line.startswith("id: "):
                return int(line[4:])
    raise Failure(f"{EVENTS}: the stream ended before it told an id; is the daemon stopping?")


def follow_events(client: Client, seen: int, *, until: int | None) -> Iterator[dict[str, Any]]:
    """Events after the id `seen`, up to the id `until`; None to follow without end.

    Reconnects where a stream ended. Raises Failure if the daemon cannot be reached.
    """
    while until is None or seen < until:
        with client.stream("GET", EVENTS, params={"last_event_id": seen}) as response:
            for event in _parsed(response.iter_lines()):
                if event is not None:
                    yield event
                    seen = event["id"] or seen
                # A token restricted to models may not see the very last event; then the heartbeat
                # comment ends the list.
                if until is not None and (event is None or seen >= until):
                    return


def _parsed(lines: Iterator[str]) -> Iterator[dict[str, Any] | None]:
    """Events of a stream; None for a comment, the heartbeat of an idle stream."""
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line[6:])
        elif line.startswith(":"):
            yield None


def _line(event: dict[str, Any]) -> str:
    about = f" {event['model']}" if event["model"] else ""
    return f"{event['created_at'][:19]}  {event['type']}{about}  {plain(event['data'])}"
