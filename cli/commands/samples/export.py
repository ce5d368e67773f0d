"""`honed samples export`: photos and their boxes, as other programs read them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

import click

from cli.client import Client, model_path
from cli.commands.samples import coco, yolo
from cli.errors import Failure
from cli.options import FOLDER, ClientCommand, filters, given, model_argument
from cli.output import echo_done
from storage.errors import counted

FORMS = {"coco": coco.write, "yolo": yolo.write}


@click.command("export", cls=ClientCommand)
@model_argument
@click.argument("folder", type=FOLDER)
@click.option(
    "--as",
    "form",
    required=True,
    type=click.Choice([*FORMS]),
    help="COCO's JSON, or a text beside each photo as YOLO's tools have it.",
)
@filters
def export(client: Client, /, model: str, folder: Path, *, form: str, **where: Any) -> None:
    """Write the photos of MODEL that have boxes, and these, to FOLDER, a new one: all or none.

    The options are conditions; all of them hold. `honed samples add` reads the folder. All samples
    of a model, of whatever kind, as one file: honed archive export.
    """
    target = client.get(model_path(model))["target"]
    if target["box_classes"] is None:
        told = f"labels of {model} are no boxes; for samples of any kind: honed archive export"
        raise Failure(told)
    path = model_path(model, "samples")
    photos: dict[PurePath, tuple[tuple[int, int], coco.Boxes]] = {}
    with _new(folder) as partial:
        for sample in client.items(path, **given(where)):
            if sample["label"] is not None:
                place, size = _photo(client, f"{path}/{sample['id']}/content", partial, sample)
                photos[place] = size, sample["label"]["boxes"]
        FORMS[form](partial, photos, target["classes"] or range(target["box_classes"]))
    echo_done(
        f"{folder}: {counted(len(photos), 'photo')} with boxes",
        output=str(folder),
        photos=len(photos),
    )


@contextmanager
def _new(folder: Path) -> Iterator[Path]:
    """A folder beside it, which becomes it when the block ends, and is removed if that fails."""
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        if folder.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        partial.mkdir(parents=True)
        yield partial
        partial.rename(folder)
    except OSError as error:
        raise Failure(f"cannot write {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _photo(
    client: Client, path: str, folder: Path, sample: dict[str, Any]
) -> tuple[PurePath, tuple[int, int]]:
    """Write a photo; its place below `images`, and its height and width."""
    from service.preprocess.pictures import upright_size

    answer = client.request("GET", path)
    kind = answer.headers["Content-Type"].rpartition("/")[2]
    place = PurePath(sample["split"], f"{sample['id']}.{kind}")
    file = folder / coco.PHOTOS / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(answer.content)
    return place, upright_size(answer.content)
