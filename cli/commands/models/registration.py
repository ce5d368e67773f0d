"""`honed models add` and `check`: register a file, or diagnose it first."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, get_args

import click

from cli.client import Client
from cli.commands.models.diagnosis import parameter_counts, show_diagnosis
from cli.errors import Failure
from cli.options import (
    FILE,
    FILE_OR_FOLDER,
    ClientCommand,
    given,
    hyperparameters,
    lora_options,
    output_option,
    several,
    trainable_option,
)
from cli.output import echo, echo_json, echo_text, wants_json
from cli.progress import MeteredFile, bar
from service.training.tasks import LossName
from storage.database.codec import dump
from storage.records.models import BatchNorm

ARTIFACTS = ("training_model.onnx", "eval_model.onnx", "optimizer_model.onnx", "checkpoint")
LOSSES = get_args(LossName)


file_options = several(
    output_option,
    trainable_option,
    lora_options,
    click.option(
        "--class",
        "classes",
        multiple=True,
        metavar="NAME",
        help="Name of a class, or of a number of the label; repeat it for each, in order.",
    ),
    click.option(
        "--preprocess",
        metavar="JSON|FILE",
        help="How samples become what the model takes: JSON, one description or a list, or a "
        "file of it; see docs/preprocessing.md.",
    ),
    click.option(
        "--batch-norm",
        type=click.Choice(get_args(BatchNorm)),
        help="Whose statistics BatchNormalization uses in training: its own, or those of each "
        "batch. Default: inference, its own.",
    ),
    click.option(
        "--tokenizer",
        type=FILE,
        help="The tokenizer.json of a model that texts feed, with --preprocess of kind text.",
    ),
    hyperparameters,
)
"""Adds the options that say how a file is trained."""
spec_options = several(
    click.option(
        "--name", help="Name of the model. Default: the file's name without its extension."
    ),
    click.option("--loss", type=click.Choice(LOSSES), help="What training lowers."),
    click.option(
        "--loss-output",
        metavar="NAME",
        help="In the place of --loss: a tensor of the model's own that training lowers.",
    ),
    file_options,
)
"""Adds the options of a model's specification."""
source_argument = click.argument("source", type=FILE_OR_FOLDER)


@click.command(cls=ClientCommand)
@source_argument
@spec_options
def add(client: Client, /, source: Path, *, tokenizer: Path | None, **options: Any) -> None:
    """Register SOURCE: a forward ONNX file, or training artifacts (a zip or their folder).

    Hyperparameters given here become the model's defaults.
    """
    spec = _spec(source, **options)
    if "loss" not in spec:
        raise click.UsageError("name the loss, either with --loss or with --loss-output")
    model = send_file(client, "/v1/models", source, spec, tokenizer)
    if wants_json():
        echo_json(model)
        return
    echo_text(f"{model['name']} is ready to train: {parameter_counts(model)}")
    for note in model.get("notes") or ():
        echo_text(f"  {note}")


@click.command(cls=ClientCommand)
@source_argument
@spec_options
def check(
    client: Client,
    /,
    source: Path,
    *,
    tokenizer: Path | None,
    **options: Any,
) -> None:
    """Say what SOURCE holds and what of it would train; the daemon stores nothing.

    Takes what `honed models add` takes. Without a loss it is checked with the one that fits, which
    is suggested. Ends with exit code 1 if it could not be registered so.
    """
    named = options["name"] is not None
    spec = _spec(source, **options)
    if not named:
        spec.pop("name")
    diagnosis = send_file(client, "/v1/diagnosis", source, spec, tokenizer)
    echo(diagnosis, show_diagnosis)
    if not diagnosis["ready"]:
        click.get_current_context().exit(1)


def send_file(
    client: Client,
    path: str,
    source: Path,
    spec: dict[str, Any],
    tokenizer: Path | None,
    **how: Any,
) -> dict[str, Any]:
    """The answer to an upload. how: another method, parameters."""
    with _upload(source) as (field, file, size_bytes), bar(size_bytes, "Uploading") as advance:
        files: dict[str, Any] = {
            field: (source.name, MeteredFile(file, advance), "application/octet-stream")
        }
        if tokenizer is not None:
            files["tokenizer"] = (tokenizer.name, tokenizer.read_bytes(), "application/json")
        about = {"data": {"spec": dump(spec, ensure_ascii=True)}, "files": files}
        method, params = how.get("method", "POST"), how.get("params")
        return client.ask(method, path, params=params, **about)


def _spec(
    source: Path,
    *,
    name: str | None,
    loss: str | None,
    loss_output: str | None,
    optimizer: str | None,
    **rest: Any,
) -> dict[str, Any]:
    if loss is not None and loss_output is not None:
        raise click.UsageError("name the loss, either with --loss or with --loss-output")
    named = {"loss": {"output": loss_output} if loss_output else loss, "optimizer": optimizer}
    return given({"name": name or source.stem, **named, **spec_of(**rest)})


def spec_of(*, trainable: Any, classes: Any, preprocess: str | None, **rest: Any) -> dict[str, Any]:
    """What the options of `file_options` say of a file, as JSON."""
    own = {key: rest.pop(key) for key in ("output", "batch_norm")}
    return given(
        {
            **own,
            "trainable": [*trainable, *_adapters(rest)] or None,
            "classes": list(classes) or None,
            "hyperparameters": given(rest) or None,
            "preprocess": preprocess and _parse(preprocess),
        }
    )


def _adapters(options: dict[str, Any]) -> list[dict[str, Any]]:
    """Remove the options of LoRA, and return the adapters that they specify."""
    settings = given({key: options.pop(f"lora_{key}") for key in ("targets", "rank", "alpha")})
    return [{"lora": settings}] if settings else []


def _parse(given_text: str) -> Any:
    """Parse JSON that begins with a brace or a bracket, else the content of the named file."""
    is_inline = given_text.lstrip()[:1] in ("{", "[")
    try:
        return json.loads(given_text if is_inline else Path(given_text).read_bytes())
    except OSError as error:
        raise Failure(f"--preprocess {given_text}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"--preprocess {given_text}: not JSON: {error}") from error


@contextmanager
def _upload(source: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    """The form's field, the open file and its size in bytes; a folder of artifacts is zipped."""
    if source.is_dir():
        with tempfile.TemporaryFile() as packed:
            _pack(source, packed)
            size_bytes = packed.tell()
            packed.seek(0)
            yield "artifacts", packed, size_bytes
        return
    field = "artifacts" if zipfile.is_zipfile(source) else "model"
    with source.open("rb") as file:
        yield field, file, source.stat().st_size


def _pack(folder: Path, packed: IO[bytes]) -> None:
    missing = [name for name in ARTIFACTS if not (folder / name).is_file()]
    if missing:
        raise Failure(
            f"{folder} holds no {', '.join(missing)}; a folder of artifacts holds "
            f"{', '.join(ARTIFACTS)}, as `honed artifacts` writes them"
        )
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name in ARTIFACTS:
            archive.write(folder / name, name)
