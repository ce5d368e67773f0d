"""`honed samples …`: the samples of a model; label and delete change them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import click

from cli.client import Client, model_path
from cli.commands.samples.export import export
from cli.commands.samples.upload import add
from cli.download import save
from cli.options import (
    Group,
    columns,
    filters,
    given,
    model_argument,
    output_file,
    sample_argument,
    with_client,
    yes_option,
)
from cli.output import (
    Columns,
    echo,
    echo_done,
    echo_fields,
    echo_records,
    echo_table,
    echo_text,
    file_size,
    plain,
    wants_json,
)
from service.samples.columns import ASKED
from storage.errors import counted


@click.command("label")
@model_argument
@click.argument("sample", metavar="ID|KEY")
@click.argument("label", required=False)
@click.option("--by-key", is_flag=True, help="ID|KEY is the app's own key, even if it is a number.")
@click.option(
    "--mask",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The label of a photo: a PNG whose values are class indices.",
)
@click.option("--none", "unlabel", is_flag=True, help="Take the label away.")
@click.option("--split", type=click.Choice(["train", "validation"]), help="Move it to this split.")
@columns(of_upload=False)
@click.option("--pin/--unpin", "pinned", default=None, help="Whether no quota takes it away.")
@with_client
def label(
    client: Client,
    /,
    model: str,
    sample: str,
    label: str | None,
    *,
    by_key: bool,
    mask: Path | None,
    unlabel: bool,
    **others: Any,
) -> None:
    """Give a sample of MODEL the label LABEL: a class's name or number, or JSON for other models.

    The sample is known by its id, or by the key that the app gave it.
    """
    changes = given(others)
    labels = [each for each in (label, mask, unlabel or None) if each is not None]
    if len(labels) > 1 or not (labels or changes):
        raise click.UsageError("give LABEL, --mask or --none, or another change")
    if mask is not None:
        changes["label"] = {"png": b64encode(mask.read_bytes()).decode()}
    elif labels:
        changes["label"] = None if label is None else _value(label)
    path, params = model_path(model, "samples"), {"key": sample}
    if sample.isdecimal() and not by_key:
        path, params = model_path(model, "samples", sample), {}
    changed = client.request("PATCH", path, params=params, json=changes).json()
    echo(changed, _echo_changed)


@click.command("delete")
@model_argument
@click.argument("ids", nargs=-1, type=int)
@filters
@click.option("--all", "everything", is_flag=True, help="Every sample of the model.")
@click.option(
    "--retrain",
    is_flag=True,
    help="Train again without them, then delete the versions that were trained on them.",
)
@yes_option
@with_client
def delete(
    client: Client,
    /,
    model: str,
    ids: tuple[int, ...],
    *,
    everything: bool,
    retrain: bool,
    yes: bool,
    **where: Any,
) -> None:
    """Delete samples of MODEL: those with these IDS, or all for which the options hold.

    Their bytes are overwritten.
    """
    conditions = given({**where, "all": everything or None})
    if bool(ids) == bool(conditions):
        raise click.UsageError("give IDS, conditions, or --all")
    if not yes:
        which = ", ".join(map(str, ids)) or plain(conditions)
        click.confirm(f"Delete samples of {model}: {which}?", abort=True, err=True)
    asked = {"retrain": retrain}
    path = model_path(model, "samples")
    if not ids:
        answer = client.request("DELETE", path, params={**conditions, **asked}).json()
        echo(answer, lambda found: _echo_deleted(model, found))
        return
    jobs = [_delete(client, f"{path}/{each}", asked) for each in ids]
    told = f"{len(ids):,} deleted" + (f"; job {jobs[-1]} trains again" if retrain else "")
    echo_done(told, deleted=list(ids), jobs=[each for each in jobs if each])


def _delete(client: Client, path: str, asked: dict[str, bool]) -> int | None:
    """Delete samples; returns the job that retrains, if any."""
    answer = client.request("DELETE", path, params=asked)
    job = answer.json()["job"] if answer.content else None
    return job and int(job["id"])


def _value(text: str) -> Any:
    """A number or an array in JSON; anything else is a class name."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    is_label = isinstance(value, dict | list | int | float) and not isinstance(value, bool)
    return value if is_label else text


def _echo_changed(sample: dict[str, Any]) -> None:
    told = [f"label {plain(_label(sample['label']))}", sample["split"]]
    told += (f"{name} {plain(sample[name])}" for name in ASKED)
    told += ["pinned"] if sample["pinned"] else []
    echo_text(f"sample {sample['id']}: {', '.join(told)}")


def _echo_deleted(model: str, found: dict[str, Any]) -> None:
    echo_text(f"{counted(found['deleted'], 'sample')} of {model} deleted")
    if found["job"]:
        echo_text(f"job {found['job']['id']} trains again without them")
    for version in found["versions"]:
        echo_text(f"version {version} is deleted too: nothing is left that it was trained on")


COLUMNS = ("id", "split", "label", "key", *ASKED, "pinned", "quarantine", "created_at")
PAGE = 1000
"""Maximum number of items of a page of the API."""


@click.group(cls=Group)
def samples() -> None:
    """Add, list, show, label, export and delete samples."""


samples.add_command(add)
samples.add_command(export)
samples.add_command(label)
samples.add_command(delete)


@samples.command("list")
@model_argument
@filters
@click.option(
    "--most-uncertain",
    is_flag=True,
    help="Those without a label, first those that are most worth labelling.",
)
@click.option("--limit", type=click.IntRange(1), default=50, help="Maximum number of samples.")
@with_client
def list_samples(
    client: Client, /, model: str, *, most_uncertain: bool, limit: int, **where: Any
) -> None:
    """List samples of MODEL, oldest first. The options are conditions; all of them hold."""
    asked = given(where)
    if most_uncertain:
        asked |= {"unlabelled": True, "order": "uncertainty"}
    found = _first(client, model, limit, **asked)
    echo_records(found, _columns(*["uncertainty"] * most_uncertain))


@samples.command("suspects")
@model_argument
@click.option("--limit", type=click.IntRange(1), default=50, help="Maximum number of samples.")
@with_client
def suspects(client: Client, model: str, *, limit: int) -> None:
    """List samples of MODEL whose label the current version takes for wrong, worst first."""
    echo_records(_first(client, model, limit, suspect=True), _columns("predicted", "doubt"))


@samples.command("show")
@model_argument
@sample_argument
@output_file("Write its content here: the image, or inputs and label as .npz.", required=False)
@click.option(
    "--thumbnail",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a small picture of an image here, as PNG.",
)
@click.option(
    "--mask",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the mask that is its label here, as PNG.",
)
@with_client
def show(
    client: Client,
    model: str,
    sample_id: int,
    *,
    output: Path | None,
    thumbnail: Path | None,
    mask: Path | None,
) -> None:
    """Show a sample of MODEL, and download its content."""
    path = model_path(model, "samples", sample_id)
    found = client.get(path)
    for part, file in (("content", output), ("thumbnail", thumbnail), ("mask", mask)):
        if file is not None:
            save(client, f"{path}/{part}", file, show=not wants_json())
    echo(found, _echo_sample)


@samples.command("stats")
@model_argument
@with_client
def stats(client: Client, model: str) -> None:
    """Count the samples of MODEL by split and label."""
    echo(client.get(model_path(model, "samples", "stats")), _echo_stats)


@samples.command("duplicates")
@model_argument
@click.option(
    "--limit", type=click.IntRange(1, PAGE), default=100, help="Maximum number of groups."
)
@with_client
def duplicates(client: Client, model: str, *, limit: int) -> None:
    """List the samples of MODEL that have the same content, a group a line."""
    found = client.get(model_path(model, "samples", "duplicates"), limit=limit)["items"]
    echo_records(found, {"IDS": "ids", "SHA-256": lambda group: group["sha256"][:12]})


def _first(client: Client, model: str, limit: int, **where: Any) -> list[dict[str, Any]]:
    path = model_path(model, "samples")
    return list(islice(client.items(path, limit=min(limit, PAGE), **where), limit))


def _columns(*extra: str) -> Columns:
    columns = (*COLUMNS[:3], *extra, *COLUMNS[3:])
    named = {column.removesuffix("_at").upper(): column for column in columns}
    return {**named, "LABEL": lambda sample: _label(sample["label"])}


def _label(label: Any) -> Any:
    """Of boxes, how many there are of each class."""
    if (boxes := _boxes(label)) is None:
        return label
    counts = Counter(str(each["label"]) for each in boxes)
    return [f"{count} {name}" for name, count in counts.items()] or "no box"


def _boxes(label: Any) -> list[dict[str, Any]] | None:
    """If a label is boxes."""
    return label.get("boxes") if isinstance(label, dict) else None


def _echo_sample(sample: dict[str, Any]) -> None:
    echo_fields(
        [
            *((name.removesuffix("_at"), _label(sample[name])) for name in COLUMNS),
            *(
                ("box", f"{each['label']} {plain(each['box'])}")
                for each in _boxes(sample["label"]) or ()
            ),
            ("size", file_size(sample["size_bytes"])),
            ("sha-256", sample["sha256"]),
        ]
    )


def _echo_stats(found: dict[str, Any]) -> None:
    counts = ("train", "validation", "base", "unlabelled", "quarantined")
    echo_fields(
        [*((name, found[name]) for name in counts), ("size", file_size(found["size_bytes"]))]
    )
    rows = (
        (each["split"], each["label"] if each["name"] is None else each["name"], each["count"])
        for each in found["labels"]
    )
    echo_text()
    echo_table(("SPLIT", "LABEL", "SAMPLES"), rows)
