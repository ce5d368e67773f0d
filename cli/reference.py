"""The page docs/cli.md, from the commands themselves: `python -m cli.reference > docs/cli.md`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from cli.main import honed

INTRODUCTION = """\
# The command line

Made from the commands by `python -m cli.reference > docs/cli.md`; a test keeps both equal.

`--url` and `--token` stand before the command: `honed --url http://127.0.0.1:9000 status`. What
`--json` prints goes to stdout and is for scripts; progress and errors go to stderr: a bar on a
terminal, elsewhere a line every ten seconds.

The shell completes commands, options and names of models after
`eval "$(_HONED_COMPLETE=bash_source honed)"` in `~/.bashrc` (zsh: `zsh_source`), or
`_HONED_COMPLETE=fish_source honed | source` in fish.
"""


def render() -> str:
    """The whole page, in Markdown."""
    sections = [INTRODUCTION, *(_section(path, command) for path, command in _walk("honed", honed))]
    return "\n".join(sections)


def _walk(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _walk(f"{path} {name}", below)


def _section(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines = [f"## {path}", "", f"`{usage}`", "", _text(command), ""]
    options = [each for each in command.params if isinstance(each, click.Option)]
    if options:
        lines += ["| option | meaning |", "| --- | --- |", *map(_row, options), ""]
    return "\n".join(lines)


def _text(command: click.Command) -> str:
    """The help, each paragraph on its own lines as written."""
    return "\n".join(line.strip() for line in (command.help or "").strip().splitlines())


def _row(option: click.Option) -> str:
    names = ", ".join([*option.opts, *option.secondary_opts])
    meaning = (option.help or "").replace("|", "\\|")
    if isinstance(option.default, str | int | float) and not option.is_flag:
        meaning += f" Default: {option.default}."
    if option.show_envvar:
        meaning += f" Variable: {option.envvar}."
    return f"| `{names}{_value(option)}` | {meaning} |"


def _value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice) and option.metavar is None:
        return " " + "\\|".join(option.type.choices)
    return " " + (option.metavar or option.type.name.upper()).replace("|", "\\|")


if __name__ == "__main__":
    click.echo(render(), nl=False)
