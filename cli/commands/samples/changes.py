"""`honed samples label` and `delete`."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from pathlib import Path
from typing import Any

import click

from cli.client import Client, model_path
from cli.errors import Failure
from cli.options import FILE, ClientCommand, columns, filters, given, model_argument, yes_option
from cli.output import echo, echo_done, echo_text, plain
from service.samples.columns import ASKED
from storage.errors import counted


@click.command("label", cls=ClientCommand)
@model_argument
@click.argument("sample", metavar="ID|KEY")
@click.argument("label", required=False)
@click.option("--by-key", is_flag=True, help="ID|KEY is the app's own key, even if it is a number.")
@click.option(
    "--mask", type=FILE, help="The label of a photo: a PNG whose values are class indices."
)
@click.option("--none", "unlabel", is_flag=True, help="Take the label away.")
@click.option("--split", type=click.Choice(["train", "validation"]), help="Move it to this split.")
@columns(of_upload=False)
@click.option("--pin/--unpin", "pinned", default=None, help="Whether no quota takes it away.")
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
    labels = [choice for choice in (label, mask, unlabel or None) if choice is not None]
    if len(labels) > 1 or not (labels or changes):
        raise click.UsageError("give LABEL, --mask or --none, or another change")
    if mask is not None:
        changes["label"] = {"png": b64encode(mask.read_bytes()).decode()}
    elif labels:
        changes["label"] = None if label is None else _value(label)
    path, params = model_path(model, "samples"), {"key": sample}
    if sample.isdecimal() and not by_key:
        path, params = model_path(model, "samples", sample), {}
    changed = client.ask("PATCH", path, params=params, json=changes)
    typed = {"label": label} if label and isinstance(changed["label"], int) else {}
    echo(changed, lambda sample: _echo_changed({**sample, **typed}))


@click.command("delete", cls=ClientCommand)
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
        answer = client.ask("DELETE", path, params={**conditions, **asked})
        echo(answer, lambda outcome: _echo_deleted(model, outcome))
        return
    jobs = []
    for sample in ids:
        try:
            jobs.append(_delete(client, f"{path}/{sample}", asked))
        except Failure as failure:
            raise failure.within(f"{len(jobs):,} of {len(ids):,} deleted: ") from None
    told = f"{len(ids):,} deleted" + (f"; job {jobs[-1]} trains again" if retrain else "")
    echo_done(told, deleted=list(ids), jobs=[job for job in jobs if job])


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
    told = [f"label {plain(shown_label(sample['label']))}", sample["split"]]
    told += (f"{name} {plain(sample[name])}" for name in ASKED)
    told += ["pinned"] if sample["pinned"] else []
    echo_text(f"sample {sample['id']}: {', '.join(told)}")


def _echo_deleted(model: str, outcome: dict[str, Any]) -> None:
    echo_text(f"{counted(outcome['deleted'], 'sample')} of {model} deleted")
    if outcome["job"]:
        echo_text(f"job {outcome['job']['id']} trains again without them")
    for version in outcome["versions"]:
        echo_text(f"version {version} is deleted too: nothing is left that it was trained on")


def shown_label(label: Any) -> Any:
    """Of boxes, how many there are of each class."""
    if (boxes := boxes_of(label)) is None:
        return label
    counts = Counter(str(box["label"]) for box in boxes)
    return [f"{count} {name}" for name, count in counts.items()] or "no box"


def boxes_of(label: Any) -> list[dict[str, Any]] | None:
    """If a label is boxes."""
    return label.get("boxes") if isinstance(label, dict) else None
