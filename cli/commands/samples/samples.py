"""`honed samples …`: the samples of a model."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import click

from cli.client import Client, model_path
from cli.commands.samples.changes import boxes_of, delete, label, shown_label
from cli.commands.samples.export import export
from cli.commands.samples.upload import add
from cli.download import save
from cli.options import (
    NEW_FILE,
    Group,
    filters,
    given,
    model_argument,
    output_file,
    sample_argument,
)
from cli.output import (
    Columns,
    echo,
    echo_fields,
    echo_records,
    echo_table,
    echo_text,
    plain,
    wants_json,
)
from service.samples.columns import ASKED
from storage.errors import file_size

COLUMNS = ("id", "split", "label", "key", *ASKED, "pinned", "quarantine", "created_at")
PAGE = 1000
"""Maximum number of items of a page of the API."""


@click.group(cls=Group)
def samples() -> None:
    """Add, list, show, label, export and delete samples."""


for command in (add, export, label, delete):
    samples.add_command(command)


@samples.command("list")
@model_argument
@filters
@click.option(
    "--most-uncertain",
    is_flag=True,
    help="Those without a label, first those that are most worth labelling.",
)
@click.option("--limit", type=click.IntRange(1), default=50, help="Maximum number of samples.")
def list_samples(
    client: Client, /, model: str, *, most_uncertain: bool, limit: int, **where: Any
) -> None:
    """List samples of MODEL, oldest first. The options are conditions; all of them hold."""
    asked = given(where)
    if most_uncertain:
        asked |= {"unlabelled": True, "order": "uncertainty"}
    rows = _first(client, model, limit, **asked)
    echo_records(rows, _columns(*["uncertainty"] * most_uncertain))


@samples.command("suspects")
@model_argument
@click.option("--limit", type=click.IntRange(1), default=50, help="Maximum number of samples.")
def suspects(client: Client, model: str, *, limit: int) -> None:
    """List samples of MODEL whose label the current version takes for wrong, worst first."""
    echo_records(_first(client, model, limit, suspect=True), _columns("predicted", "doubt"))


@samples.command("show")
@model_argument
@sample_argument
@output_file("Write its content here: the image, or inputs and label as .npz.", required=False)
@click.option("--thumbnail", type=NEW_FILE, help="Write a small picture of an image here, as PNG.")
@click.option("--mask", type=NEW_FILE, help="Write the mask that is its label here, as PNG.")
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
    (sample,) = _with_names(client, model, [client.get(path)])
    for part, file in (("content", output), ("thumbnail", thumbnail), ("mask", mask)):
        if file is not None:
            save(client, f"{path}/{part}", file, show=not wants_json(), private=True)
    echo(sample, _echo_sample)


@samples.command("stats")
@model_argument
def stats(client: Client, model: str) -> None:
    """Count the samples of MODEL by split and label."""
    echo(client.get(model_path(model, "samples", "stats")), _echo_stats)


@samples.command("duplicates")
@model_argument
@click.option(
    "--limit", type=click.IntRange(1, PAGE), default=100, help="Maximum number of groups."
)
def duplicates(client: Client, model: str, *, limit: int) -> None:
    """List the samples of MODEL that have the same content, a group a line."""
    groups = client.get(model_path(model, "samples", "duplicates"), limit=limit)["items"]
    echo_records(groups, {"IDS": "ids", "SHA-256": lambda group: group["sha256"][:12]})


def _first(client: Client, model: str, limit: int, **where: Any) -> list[dict[str, Any]]:
    path = model_path(model, "samples")
    samples = list(islice(client.items(path, limit=min(limit, PAGE), **where), limit))
    return _with_names(client, model, samples)


def _with_names(client: Client, model: str, samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Samples, for people with the names of their classes; scripts get the indices."""
    if wants_json() or not any(isinstance(sample["label"], int) for sample in samples):
        return samples
    counts = client.get(model_path(model, "samples", "stats"))["labels"]
    names = {count["label"]: count["name"] for count in counts if count["name"] is not None}
    fields = ("label", "predicted")
    return [{**row, **{of: names.get(row[of], row[of]) for of in fields}} for row in samples]


def _columns(*extra: str) -> Columns:
    columns = (*COLUMNS[:3], *extra, *COLUMNS[3:])
    named = {column.removesuffix("_at").upper(): column for column in columns}
    return {**named, "LABEL": lambda sample: shown_label(sample["label"])}


def _echo_sample(sample: dict[str, Any]) -> None:
    echo_fields(
        [
            *((name.removesuffix("_at"), shown_label(sample[name])) for name in COLUMNS),
            *(
                ("box", f"{box['label']} {plain(box['box'])}")
                for box in boxes_of(sample["label"]) or ()
            ),
            ("size", file_size(sample["size_bytes"])),
            ("sha-256", sample["sha256"]),
        ]
    )


def _echo_stats(stats: dict[str, Any]) -> None:
    counts = ("train", "validation", "base", "unlabelled", "quarantined")
    echo_fields(
        [*((name, stats[name]) for name in counts), ("size", file_size(stats["size_bytes"]))]
    )
    rows = (
        (row["split"], row["label"] if row["name"] is None else row["name"], row["count"])
        for row in stats["labels"]
    )
    echo_text()
    echo_table(("SPLIT", "LABEL", "SAMPLES"), rows)
