"""Shared by several commands: options, arguments, and groups that suggest the right name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin

import click

from cli import completion
from cli.output import JSON
from service.samples.columns import ASKED, Asked
from service.training.heads.kinds import Head, Kind
from service.training.hyperparameters import declared
from storage.records.samples import SAMPLE_COLUMNS

UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
MAX_SENTENCE = 200
"""Characters of a command's help in the list of commands."""

Command = TypeVar("Command", bound=Callable[..., Any])


class ClientCommand(click.Command):
    """A command that asks the daemon: it is given the client first, and takes --json."""

    def __init__(
        self, name: str | None, *, callback: Callable[..., Any], **attributes: Any
    ) -> None:
        super().__init__(name, callback=click.pass_obj(callback), **attributes)
        as_json(self)


class Group(click.Group):
    """Of commands that ask the daemon; it suggests the nearest when a name is wrong."""

    command_class = ClientCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Like click's. Raises UsageError with the nearest name."""
        name = args[0]
        known = self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return super().resolve_command(ctx, args)
        import difflib  # late: the daemon is a command too, and suggests nothing

        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(known)}"
        raise click.UsageError(f"there is no command {name!r}; {hint}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Every command with its whole first sentence; click would cut each to one line."""
        known = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(MAX_SENTENCE)) for name, each in known if each]
            )


FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
FILE_OR_FOLDER = click.Path(exists=True, path_type=Path)

model_argument = click.argument("model", shell_complete=completion.models)
optional_model_argument = click.argument("model", required=False, shell_complete=completion.models)
version_argument = click.argument("version", shell_complete=completion.versions)
job_argument = click.argument("job_id", type=int, shell_complete=completion.jobs)
sample_argument = click.argument("sample_id", type=int)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
as_json = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _, value: ctx.meta.update({JSON: value}),
    help="Print JSON, for scripts.",
)

output_option = click.option(
    "--output", help="Output tensor that the loss takes. Default: the only output."
)
trainable_option = click.option(
    "--trainable",
    multiple=True,
    metavar="PATTERN",
    help="Glob pattern over initializer names, as head.*; or head, last:2 for the last layers; may "
    "be repeated. Default: all weights.",
)


def output_file(text: str, *, required: bool = True) -> Callable[[Command], Command]:
    """The option -o, for a file that a command writes; text: what it says of it."""
    return click.option(
        "-o", "--output", required=required, type=NEW_FILE, callback=_replaceable, help=text
    )


def _replaceable(ctx: click.Context, param: click.Parameter, path: Path | None) -> Path | None:
    """A path that a finished file may be renamed to; of a link, what it points to."""
    if path is None:
        return None
    if str(path) == "-" or (path.exists() and not path.is_file()):
        what = f"{path} is no file, and would be replaced by one; name a new file"
        raise click.BadParameter(what, ctx=ctx, param=param)
    return path.resolve() if path.is_symlink() else path


def several(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Add options to a command, in this order."""

    def extend(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return extend


def named(options: Mapping[str, Mapping[str, Any]]) -> Callable[[Command], Command]:
    """Add options by the names that requests have for their values."""
    return several(
        *(click.option(f"--{name.replace('_', '-')}", name, **of) for name, of in options.items())
    )


lora_options = several(
    click.option(
        "--lora",
        "lora_targets",
        multiple=True,
        metavar="PATTERN",
        help="Train adapters (LoRA) beside the frozen weights of MatMul, Gemm and 1x1 Conv "
        "that this glob fits, or whose nodes it fits; may be repeated.",
    ),
    click.option("--lora-rank", type=int, help="Rank of the adapters. Default: 8."),
    click.option("--lora-alpha", type=float, help="Adapters count alpha/rank. Default: 16."),
)


def _bounded(asked: Asked) -> Any:
    low, high = asked.bounds.get("ge"), asked.bounds.get("le")
    ranges: dict[type, Any] = {float: click.FloatRange, int: click.IntRange}
    return ranges[asked.kind](low, high) if asked.kind in ranges else asked.kind


def columns(*, of_upload: bool) -> Callable[[Command], Command]:
    """Add options of columns: of a sample, or of an upload's samples that name none."""
    options: dict[str, dict[str, Any]] = {}
    for name, asked in ASKED.items():
        options[name] = {"type": _bounded(asked), "help": asked.of_one}
        if of_upload:
            default = SAMPLE_COLUMNS[name]
            unless = "" if default is None else f" Default: {default:g}."
            options[name]["help"] = f"{asked.of_many}, for those that name none.{unless}"
            where = f"Of .csv: the column of the {name}s."
            options[f"{name}_column"] = {"metavar": "NAME", "help": where}
    return named(options)


_FILTERS: dict[str, dict[str, Any]] = {
    "label": {"help": "Of this class, its name or index.", "shell_complete": completion.classes},
    "split": {"type": click.Choice(["train", "validation", "base"]), "help": "Of this split."},
    "unlabelled": {"is_flag": True, "default": None, "help": "Without a label."},
    "pinned": {"is_flag": True, "default": None, "help": "That no quota takes away."},
    "quarantined": {"is_flag": True, "default": None, "help": "That training leaves out."},
    "key": {"help": "With this key of the app."},
    "text": {"help": "Of texts: that hold this, in any case."},
    **{
        name: {"type": _bounded(asked), "help": f"{asked.of_one.removesuffix('.')}: of this value."}
        for name, asked in ASKED.items()
        if asked.filtered
    },
}


filters = named(_FILTERS)
"""Adds the options that select samples."""


def hyperparameters(command: Command) -> Command:
    """Add the options that say how a job trains; the model's defaults replace omitted ones."""
    options = {}
    for name, kind, about, default in declared():
        unless = " unless the job chooses" if about.chosen else ""
        text = about.text if default is None else f"{about.text} Default: {default}{unless}."
        options[name] = {"help": text, **_taken(kind)}
    return named(options)(command)


class Factor(click.ParamType[tuple[str, float]]):
    """GLOB=NUMBER."""

    name = "glob=number"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """The glob, and its number."""
        glob, _, number = value.rpartition("=")
        try:
            return glob, float(number)
        except ValueError:
            self.fail(f"{value!r} is not GLOB=NUMBER, as in 'backbone.*=0.1'", param, ctx)


class HeadChoice(click.ParamType["str | dict[str, Any]"]):
    """A kind of head, auto, or knn:K."""

    name = "auto|prototype|knn[:k]|linear|full"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> str | dict[str, Any]:
        """The head as a request has it."""
        kind, colon, k = value.partition(":")
        if value == "auto":
            return value
        if kind not in get_args(Kind) or (colon and not k.isdecimal()):
            self.fail(f"{value!r} is none of {self.name}, as in knn:3", param, ctx)
        return {"kind": kind, "k": int(k)} if colon else {"kind": kind}


class Time(click.ParamType[str]):
    """A time from now, like 30d, or a moment in RFC 3339.

    ahead: whether it must be in the future.
    """

    name = "time"

    def __init__(self, *, ahead: bool) -> None:
        self._ahead = ahead

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """RFC 3339, with an offset."""
        if match := re.fullmatch(r"(\d{1,5})([mhdw])", value):
            away = timedelta(**{UNITS[match[2]]: int(match[1])})
            moment = datetime.now(timezone.utc) + (away if self._ahead else -away)
            return moment.isoformat(timespec="seconds")
        try:
            moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            self.fail(f"{value!r} is neither like 30d, 12h, nor like 2031-05-01", param, ctx)
        return moment.astimezone().isoformat(timespec="seconds")


def _taken(kind: Any) -> dict[str, Any]:
    """The type for click, for a type that may be None."""
    if Head in get_args(kind):
        return {"type": HeadChoice()}
    if isinstance(kind, UnionType):
        kind = get_args(kind)[0]
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return {"type": click.Choice(arguments)}
    if get_origin(kind) is dict:
        return {"type": Factor(), "multiple": True}
    if get_origin(kind) is tuple:
        several = arguments[-1] is Ellipsis
        return {"type": arguments[0], "multiple": True} if several else {"type": arguments}
    return {"type": kind}


def given(values: dict[str, Any]) -> dict[str, Any]:
    """Only options with a value, as in JSON."""
    return {
        name: dict(value) if name == "rate_factors" else value
        for name, value in values.items()
        if value is not None and value != ()
    }
