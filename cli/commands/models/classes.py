"""`honed classes …`: the classes of a classifier."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.client import Client, model_path
from cli.options import Group, as_json, model_argument
from cli.output import echo_done, echo_json, echo_table

name_argument = click.argument("name", shell_complete=completion.classes)


@click.group(cls=Group)
def classes() -> None:
    """Change the classes of a model while it lives; docs/models.md tells what becomes of what."""


@classes.command("list")
@model_argument
@as_json
@click.pass_obj
def list_classes(client: Client, model: str, *, as_json: bool) -> None:
    """List the classes of MODEL, their samples, and whether `latest` knows them."""
    found = list(client.items(model_path(model, "classes")))
    if as_json:
        echo_json(found)
    else:
        _echo_table(found)


@classes.command("add")
@model_argument
@click.argument("name")
@as_json
@click.pass_obj
def add(client: Client, model: str, name: str, *, as_json: bool) -> None:
    """Add the class NAME to MODEL; the next job that has samples of it learns it."""
    _echo(client.post(model_path(model, "classes"), {"name": name}), as_json=as_json)


@classes.command("rename")
@model_argument
@name_argument
@click.argument("new_name")
@as_json
@click.pass_obj
def rename(client: Client, model: str, name: str, new_name: str, *, as_json: bool) -> None:
    """Give the class NAME another name; versions that exist keep the old one."""
    changes = {"name": new_name}
    path = model_path(model, "classes", name)
    _echo(client.request("PATCH", path, json=changes).json(), as_json=as_json)


@classes.command("merge")
@model_argument
@name_argument
@click.argument("into", shell_complete=completion.classes)
@as_json
@click.pass_obj
def merge(client: Client, model: str, name: str, into: str, *, as_json: bool) -> None:
    """Give the samples of the class NAME the label INTO, and remove NAME."""
    path = model_path(model, "classes", name, "merge")
    _echo(client.post(path, {"into": into}), as_json=as_json)


@classes.command("remove")
@model_argument
@name_argument
@click.option("--unlabel", is_flag=True, help="Take their label from the samples of the class.")
@as_json
@click.pass_obj
def remove(client: Client, model: str, name: str, *, unlabel: bool, as_json: bool) -> None:
    """Remove the class NAME of MODEL. Refused while samples have it, unless --unlabel."""
    params = {"unlabel": unlabel}
    client.request("DELETE", model_path(model, "classes", name), params=params)
    told = f"class {name} of {model} is removed"
    echo_done(told, model=model, removed=name, as_json=as_json)


def _echo(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        echo_json(found)
    else:
        _echo_table([found])


def _echo_table(found: list[dict[str, Any]]) -> None:
    echo_table(
        ("INDEX", "NAME", "TRAIN", "VALIDATION", "IN LATEST"),
        (
            (
                each["index"],
                each["name"],
                each["train"],
                each["validation"],
                "yes" if each["in_latest"] else "no",
            )
            for each in found
        ),
    )
