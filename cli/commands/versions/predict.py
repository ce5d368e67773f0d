"""`honed predict`: a model's predictions for a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from cli.client import Client, model_path
from cli.options import NEW_FILE, ClientCommand, given, model_argument
from cli.output import echo, echo_table, echo_text, plain

KINDS = {
    ".json": "application/json",
    ".npz": "application/x-npz",
    ".csv": "text/csv",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".wav": "audio/wav",
    ".flac": "audio/flac",
    ".txt": "text/plain",
}
"""Media types of files that are sent, as the route takes them."""
STDIN = Path("-")


@click.command(cls=ClientCommand)
@model_argument
@click.argument(
    "inputs", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
@click.option("--keep", is_flag=True, help="Store the inputs as samples that wait for a label.")
@click.option("--top", type=click.IntRange(min=1), help="Only this many of the likeliest classes.")
@click.option(
    "--output", multiple=True, metavar="NAME", help="An output of the model; may be repeated."
)
@click.option("--version", type=click.IntRange(1), help="Use this version, promoted or not.")
@click.option(
    "--mask", type=NEW_FILE, help="Write the mask of a photo here, as PNG, and print nothing."
)
def predict(
    client: Client,
    model: str,
    inputs: Path,
    *,
    keep: bool,
    top: int | None,
    output: tuple[str, ...],
    version: int | None,
    mask: Path | None,
) -> None:
    """Have the daemon predict with the promoted version of MODEL, or with another.

    INPUTS is a file. .json: {"inputs": {NAME: VALUES}} or {"text": TEXT}, or {"instances": [...]}
    of these; - reads it from stdin. .npz: one array per input, batch first. .csv: a header line,
    then one row of inputs a line. .png, .jpg, .webp: an image. .wav, .flac: a recording. .txt: a
    text.
    What is wrong can be corrected if it was kept: honed samples label MODEL ID LABEL.
    """
    kind = KINDS[".json"] if inputs == STDIN else KINDS.get(inputs.suffix.lower())
    if kind is None:
        raise click.UsageError(f"{inputs}: inputs are {', '.join(KINDS)} files")
    answer = client.request(
        "POST",
        model_path(model, "predict"),
        params={"keep": keep, "output": output, **given({"top": top, "version": version})},
        content=sys.stdin.buffer.read() if inputs == STDIN else inputs.read_bytes(),
        headers={"Content-Type": kind, "Accept": KINDS[".png" if mask else ".json"]},
    )
    if mask is None:
        echo(answer.json(), _echo)
    else:
        mask.write_bytes(answer.content)


def _echo(answer: dict[str, Any]) -> None:
    echo_text(f"version {answer['version']} of {answer['model']}:")
    ids = answer.get("ids") or [None] * len(answer["predictions"])
    rows = [
        (*row, sample)
        for prediction, sample in zip(answer["predictions"], ids, strict=True)
        for row in _rows(prediction)
    ]
    columns = 3 if answer.get("ids") else 2
    echo_table(("PREDICTION", "PROBABILITY", "SAMPLE")[:columns], (row[:columns] for row in rows))


def _rows(prediction: dict[str, Any]) -> list[tuple[str, float | None]]:
    """The answer and its probability; of a photo one for each box, then what was asked for."""
    if (boxes := prediction.get("boxes")) is None:
        return [(_answer(prediction), prediction.get("probability"))]
    rows = [(f"{box['label']} {plain(box['box'])}", box["probability"]) for box in boxes]
    outputs = prediction.get("outputs")
    return (rows or [("no box", None)]) + ([] if outputs is None else [(plain(outputs), None)])


def _answer(prediction: dict[str, Any]) -> str:
    """The label, likeliest classes, spans or numbers; then the outputs that were asked for."""
    told = dict(prediction)
    if (top := told.pop("top", None)) is not None:
        ranked = zip(top["label"], top["probability"], strict=True)
        told["label"] = [f"{plain(label)} {plain(probability)}" for label, probability in ranked]
    if (spans := told.get("spans")) is not None:
        told["label"] = [_span(span) for span in spans]
    if (score := told.get("score")) is not None:
        said = {True: "anomaly, score", False: "normal, score", None: "score"}[told["anomaly"]]
        told["label"] = f"{said} {plain(score)}"
    numbers = next(
        (told[name] for name in ("label", "values", "embedding", "probabilities") if name in told),
        None,
    )
    shown = [part for part in (numbers, told.get("outputs")) if part is not None]
    return "  ".join(map(plain, shown))


def _span(span: dict[str, Any]) -> str:
    return f"{span['label']} {span['start']}-{span['end']} {plain(span['score'])}"
