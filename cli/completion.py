"""Shell completion of names and numbers that the daemon knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import click

from cli.client import Client
from storage.errors import HoneError

Completer = Callable[[click.Context, click.Parameter, str], list[str]]


def completing(path: str, *keys: str) -> Completer:
    """A completer that offers these fields of a list's items.

    path: of the list; `{model}` in it stands for the command's argument of that name.
    """

    def complete(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
        """Empty if the daemon cannot be reached."""
        params = ctx.find_root().params
        client = Client(url=params.get("url"), token=params.get("token"))
        arguments = {name: quote(str(value), safe="") for name, value in ctx.params.items()}
        try:
            items = list(client.items(path.format_map(arguments)))
        except (HoneError, click.ClickException, KeyError):
            return []
        return [name for name in _names(items, keys) if name.startswith(begun)]

    return complete


def _names(items: list[dict[str, Any]], keys: tuple[str, ...]) -> Iterator[str]:
    for item in items:
        for key in keys:
            value = item[key]
            yield from map(str, value if isinstance(value, list) else [value])


models = completing("/v1/models", "name")
versions = completing("/v1/models/{model}/versions", "version", "aliases")
aliases = completing("/v1/models/{model}/aliases", "alias")
classes = completing("/v1/models/{model}/classes", "name")
triggers = completing("/v1/models/{model}/triggers", "id")
checkpoints = completing("/v1/models/{model}/checkpoints", "id")
jobs = completing("/v1/jobs", "id")
tokens = completing("/v1/tokens", "name")
