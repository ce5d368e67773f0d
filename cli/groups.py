"""Groups of commands that suggest what a mistyped name was meant to be."""

from __future__ import annotations

import difflib

import click


class Group(click.Group):
    """A group whose wrong usage says more."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's. Raises UsageError with the name that comes nearest."""
        name = args[0]
        known = self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return super().resolve_command(ctx, args)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise click.UsageError(f"There is no command {name}; {hint}", ctx)
