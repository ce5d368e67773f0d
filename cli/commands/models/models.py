"""`honed models …`: what the daemon trains."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, get_args

import click

from cli import assignments
from cli.client import Client, model_path
from cli.errors import Failure
from cli.options import (
    Group,
    as_json,
    given,
    hyperparameters,
    lora_options,
    model_argument,
    output_option,
    trainable_option,
    yes_option,
)
from cli.output import echo, echo_done, echo_fields, echo_json, echo_table
from cli.progress import MeteredFile, bar
from storage.records.models import BatchNorm, NamedLoss

ARTIFACTS = ("training_model.onnx", "eval_model.onnx", "optimizer_model.onnx", "checkpoint")
LOSSES = get_args(NamedLoss)


@click.group(cls=Group)
def models() -> None:
    """Register, list, show, change and remove models."""


@models.command("add")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("--name", help="Name of the model. Default: the file's name without its extension.")
@click.option("--loss", type=click.Choice(LOSSES), help="What training lowers.")
@click.option(
    "--loss-output",
    metavar="NAME",
    help="In the place of --loss: a tensor of the model's own that training lowers.",
)
@output_option
@trainable_option
@lora_options
@click.option(
    "--class",
    "classes",
    multiple=True,
    metavar="NAME",
    help="Name of a class; repeat the option for each class, in order.",
)
@click.option(
    "--preprocess",
    metavar="JSON|FILE",
    help="How samples become what the model takes: JSON, one description or a list, or a file of "
    "it; see docs/samples.md.",
)
@click.option(
    "--batch-norm",
    type=click.Choice(get_args(BatchNorm)),
    help="Whose statistics BatchNormalization uses in training: its own, or those of each batch. "
    "Default: inference, its own.",
)
@hyperparameters
@as_json
@click.pass_obj
def add(client: Client, /, source: Path, *, as_json: bool, **options: Any) -> None:
    """Register SOURCE: a forward ONNX file, or training artifacts (a zip or their folder).

    Hyperparameters given here become the model's defaults.
    """
    spec = _spec(source, **options)
    with _upload(source) as (field, file, size_bytes), bar(size_bytes, "Uploading") as advance:
        model = client.request(
            "POST",
            "/v1/models",
            data={"spec": json.dumps(spec)},
            files={field: (source.name, MeteredFile(file, advance), "application/octet-stream")},
        ).json()
    if as_json:
        echo_json(model)
        return
    click.echo(f"{model['name']} is ready to train: {_parameters(model)}")
    for note in model.get("notes") or ():
        click.echo(f"  {note}")


@models.command("list")
@as_json
@click.pass_obj
def list_models(client: Client, *, as_json: bool) -> None:
    """List the models, their samples and their newest version."""
    found = list(client.items("/v1/models"))
    if as_json:
        echo_json(found)
        return
    echo_table(
        ("NAME", "LOSS", "TRAIN", "VALIDATION", "UNLABELLED", "LATEST"),
        ([m["name"], _loss(m), *_counts(m), m["latest_version"]] for m in found),
    )


@models.command("show")
@model_argument
@as_json
@click.pass_obj
def show(client: Client, model: str, *, as_json: bool) -> None:
    """Show one model."""
    echo(client.get(model_path(model)), _echo_model, as_json=as_json)


@models.command("set")
@model_argument
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
@as_json
@click.pass_obj
def set_fields(client: Client, model: str, settings: tuple[str, ...], *, as_json: bool) -> None:
    """Change MODEL: honed models set digits hyperparameters.epochs=10 duplicates=keep.

    hyperparameters are the defaults of its jobs; null removes one. See also honed gate, honed quota
    and honed retention.
    """
    changes = assignments.parse(settings)
    changed = client.request("PATCH", model_path(model), json=changes).json()
    echo(changed, _echo_model, as_json=as_json)


@models.command("remove")
@model_argument
@yes_option
@as_json
@click.pass_obj
def remove(client: Client, model: str, *, yes: bool, as_json: bool) -> None:
    """Remove a model with its samples, jobs and versions."""
    if not yes:
        click.confirm(f"Remove {model} with its samples, jobs and versions?", abort=True, err=True)
    client.request("DELETE", model_path(model))
    echo_done(f"{model} is removed", removed=model, as_json=as_json)


def _echo_model(found: dict[str, Any]) -> None:
    echo_fields(
        [
            ("name", found["name"]),
            ("created", found["created_at"]),
            *(("input", _tensor(tensor)) for tensor in found["inputs"]),
            ("target", "none" if 0 in found["target"]["shape"] else _tensor(found["target"])),
            ("loss", _loss(found)),
            ("optimizer", found["optimizer"]),
            ("parameters", _parameters(found)),
            ("hyperparameters", found["hyperparameters"]),
            ("samples", found["samples"]),
            ("latest version", found["latest_version"]),
        ]
    )


def _spec(
    source: Path,
    *,
    name: str | None,
    trainable: Any,
    classes: Any,
    preprocess: str | None,
    loss: str | None,
    loss_output: str | None,
    **rest: Any,
) -> dict[str, Any]:
    if (loss is None) == (loss_output is None):
        raise click.UsageError("name the loss, either with --loss or with --loss-output")
    own = {key: rest.pop(key) for key in ("optimizer", "output", "batch_norm")}
    return given(
        {
            "name": name or source.stem,
            "loss": loss or {"output": loss_output},
            **own,
            "trainable": [*trainable, *_adapters(rest)] or None,
            "classes": list(classes) or None,
            "hyperparameters": given(rest) or None,
            "preprocess": preprocess and _parse(preprocess),
        }
    )


def _adapters(options: dict[str, Any]) -> list[dict[str, Any]]:
    """What the options of LoRA ask for, which are taken out."""
    settings = given({key: options.pop(f"lora_{key}") for key in ("targets", "rank", "alpha")})
    return [{"lora": settings}] if settings else []


def _parse(given_text: str) -> Any:
    """JSON that begins with a brace or a bracket, else what the named file holds."""
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


def _parameters(model: dict[str, Any]) -> str:
    counts = model["parameters"]
    return f"{counts['trainable']:,} parameters train, {counts['frozen']:,} are frozen"


def _loss(model: dict[str, Any]) -> str:
    loss = model["loss"]
    return loss if isinstance(loss, str) else f"its output {loss['output']}"


def _counts(model: dict[str, Any]) -> list[int]:
    return [model["samples"][key] for key in ("train", "validation", "unlabelled")]


def _tensor(tensor: dict[str, Any]) -> str:
    classes = tensor.get("classes")
    names = f", classes {', '.join(classes)}" if classes else ""
    return f"{tensor['name']}: {tensor['dtype']} {tensor['shape']}{names}"
