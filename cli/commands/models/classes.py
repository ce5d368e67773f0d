"""`honed classes …`: the classes of a classifier."""

from __future__ import annotations

import click

from cli import completion
from cli.client import Client, model_path
from cli.options import Group, model_argument
from cli.output import Columns, echo_done, echo_records

name_argument = click.argument("name", shell_complete=completion.classes)
COLUMNS: Columns = {
    "INDEX": "index",
    "NAME": "name",
    "TRAIN": "train",
    "VALIDATION": "validation",
    "IN LATEST": "in_latest",
}


@click.group(cls=Group)
def classes() -> None:
    """Change the classes of a model while it lives; docs/models.md tells what becomes of what."""


@classes.command("list")
@model_argument
def list_classes(client: Client, model: str) -> None:
    """List the classes of MODEL, their samples, and whether `latest` knows them."""
    echo_records(list(client.items(model_path(model, "classes"))), COLUMNS)


@classes.command("add")
@model_argument
@click.argument("name")
def add(client: Client, model: str, name: str) -> None:
    """Add the class NAME to MODEL; the next job that has samples of it learns it."""
    echo_records(client.post(model_path(model, "classes"), {"name": name}), COLUMNS)


@classes.command("rename")
@model_argument
@name_argument
@click.argument("new_name")
def rename(client: Client, model: str, name: str, new_name: str) -> None:
    """Give the class NAME another name; versions that exist keep the old one."""
    path = model_path(model, "classes", name)
    echo_records(client.patch(path, {"name": new_name}), COLUMNS)


@classes.command("merge")
@model_argument
@name_argument
@click.argument("into", shell_complete=completion.classes)
def merge(client: Client, model: str, name: str, into: str) -> None:
    """Give the samples of the class NAME the label INTO, and remove NAME."""
    path = model_path(model, "classes", name, "merge")
    echo_records(client.post(path, {"into": into}), COLUMNS)


@classes.command("remove")
@model_argument
@name_argument
@click.option("--unlabel", is_flag=True, help="Take their label from the samples of the class.")
def remove(client: Client, model: str, name: str, *, unlabel: bool) -> None:
    """Remove the class NAME of MODEL. Refused while samples have it, unless --unlabel."""
    client.request("DELETE", model_path(model, "classes", name), params={"unlabel": unlabel})
    echo_done(f"class {name} of {model} is removed", model=model, removed=name)
