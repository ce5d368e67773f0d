"""`honed samples add`: uploads samples to the daemon."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import click

from cli.client import Client, model_path
from cli.commands.samples import media
from cli.errors import Failure
from cli.options import FILE_OR_FOLDER, ClientCommand, columns, given, model_argument
from cli.output import echo_json, echo_text, wants_json
from cli.progress import Advance, MeteredFile, bar

BATCH_BYTES = 4 * 2**20
"""The lines of a .jsonl file that are sent in one request."""
LINE = re.compile(r"(?<=^/)\d+|(?<=^line )\d+")
"""Its number in a pointer, or in what is wrong with it."""
Post = Callable[[bytes | MeteredFile, str], dict[str, Any]]
"""Sends a body of this media type, and returns the answer."""


allow_duplicates_option = click.option(
    "--allow-duplicates",
    is_flag=True,
    help="Store samples even if the model has others with the same inputs.",
)


@click.command("add", cls=ClientCommand)
@model_argument
@click.argument("files", nargs=-1, required=True, type=FILE_OR_FOLDER)
@click.option(
    "--split",
    type=click.Choice(["train", "validation"]),
    help="Split of samples that name none. Default: derived from each sample's inputs.",
)
@click.option(
    "--on-error",
    type=click.Choice(["refuse", "skip", "fail"]),
    metavar="refuse|skip",
    default="refuse",
    help="Whether a bad sample refuses its whole request, or is skipped and listed.",
)
@click.option(
    "--label",
    help="Label of every image, recording or text: a class's name or a number. Default: see above.",
)
@click.option(
    "--label-column",
    metavar="NAME",
    help="Of .csv: the label's column, or several with commas. Default: label.",
)
@click.option(
    "--ignore-columns",
    metavar="NAMES",
    help="Of .csv: columns to leave out, with commas, or * for all that the model lacks.",
)
@columns(of_upload=True)
@allow_duplicates_option
def add(
    client: Client,
    /,
    model: str,
    files: tuple[Path, ...],
    **options: Any,
) -> None:
    """Add the samples of FILES to MODEL.

    .npz: one array per input, batch first, and `label`, optionally `key` and `weight`. .json: one
    sample, a list of them, or {"samples": [...]}. .jsonl: one sample a line, sent in requests of
    about 4 MiB. .csv: a header line, then one sample a line. .png, .jpg, .webp: an image.
    .wav, .flac: a recording. .txt: a text. A folder: all images and recordings below it, or all
    texts, as the model takes; if the model has classes, the name of a file's folder is its label,
    and of the folders images and masks in one, each PNG in the second is the label of the image of
    its name. Boxes come with a folder that has COCO's instances.json, or images, labels with a .txt
    for each image, and data.yaml or classes.txt, as YOLO's tools have it.
    A request is stored whole or not at all. A file can be sent again without harm: samples with
    the same inputs and label are duplicates, which are counted and not stored.
    """
    results = []
    for file in files:
        is_media = file.is_dir() or file.suffix.lower() in media.ENDINGS
        params = _query(file, is_media=is_media, **options)
        if is_media:
            result = add_media(client, model, file, params=params)
        else:
            result = add_file(client, model_path(model, "samples"), file, params=params)
        results.append({"file": str(file), **result})
        if not wants_json():
            echo_result(results[-1])
    if wants_json():
        echo_json(results)


def add_file(
    client: Client,
    path: str,
    file: Path,
    *,
    params: dict[str, str],
    archives: bool = False,
) -> dict[str, Any]:
    """Send a file of samples. params: of the query. archives: whether the route takes them."""
    senders = SENDERS | ({ARCHIVE: _send_whole} if archives else {})
    send = senders.get(file.suffix.lower())
    if send is None:
        kinds = ", ".join([*senders, *media.ENDINGS])
        raise click.UsageError(f"{file}: samples are {kinds} files, or folders of such")

    def post(content: bytes | MeteredFile, kind: str) -> dict[str, Any]:
        headers = {"Content-Type": kind}
        return client.ask("POST", path, params=params, content=content, headers=headers)

    with file.open("rb") as opened, bar(file.stat().st_size, file.name) as advance:
        try:
            return _total(send(post, opened, advance))
        except Failure as failure:
            raise failure.within(f"{file}: ") from failure


def add_media(
    client: Client, model: str, source: Path, *, params: dict[str, str], to: str = "samples"
) -> dict[str, Any]:
    """Send a file, or all files of a folder; params: of the query. to: the model's route."""
    classes, of_boxes, of_texts = None, None, False
    if source.is_dir():
        known = client.get(model_path(model))
        of_boxes = known["target"]["classes"]
        classes = None if "label" in params else _folder_names(known)
        of_texts = any(description["kind"] == "text" for description in known["preprocess"])
    path = model_path(model, to)
    skip = "on_error" in params
    files, faults = media.find(
        source, classes=classes, of_boxes=of_boxes, skip=skip, of_texts=of_texts
    )
    with bar(sum(item.size_bytes for item in files), source.name) as advance:
        try:
            total = _total(media.send(client, path, files, params=params, advance=advance))
        except Failure as failure:
            raise failure.within(f"{source}: ") from failure
    total["rejected"] += len(faults)
    total["errors"] += faults
    return total


def _folder_names(known: dict[str, Any]) -> list[str] | None:
    """The labels that a folder may name: classes, not numbers."""
    from service.training.tasks import TASKS  # late: it loads numpy

    target: dict[str, Any] = known["target"]
    may_name = target["num_classes"] is not None or TASKS[known["loss"]].names_several
    return target["classes"] if may_name else None


def _query(
    file: Path,
    *,
    is_media: bool,
    on_error: str | None,
    allow_duplicates: bool,
    **others: Any,
) -> dict[str, str]:
    """The query for a file's samples. Raises UsageError for an option its kind does not take."""
    if others["label"] is not None and not is_media:
        raise click.UsageError(
            f"{file}: --label is for images, recordings and texts; other files hold their labels"
        )
    params = {name: str(value) for name, value in given(others).items()}
    of_csv = [name for name in params if name.endswith(("_column", "_columns"))]
    if of_csv and file.suffix.lower() != ".csv":
        options = (f"--{name.replace('_', '-')}" for name in of_csv)
        raise click.UsageError(f"{file}: {', '.join(options)}: for .csv files only")
    return params | given(
        {
            "on_error": "skip" if on_error == "skip" else None,
            "allow_duplicates": "true" if allow_duplicates else None,
        }
    )


def _send_whole(post: Post, file: IO[bytes], advance: Advance) -> Iterator[dict[str, Any]]:
    yield post(MeteredFile(file, advance), WHOLE[Path(file.name).suffix.lower()])


def _send_json(post: Post, file: IO[bytes], advance: Advance) -> Iterator[dict[str, Any]]:
    content = file.read().removeprefix(BOM_UTF8).lstrip()
    if content.startswith(b"["):
        content = b'{"samples": %b}' % content
    yield post(content, "application/json")
    advance(file.tell())


def _send_lines(post: Post, file: IO[bytes], advance: Advance) -> Iterator[dict[str, Any]]:
    for first, lines in _batches(file):
        try:
            answer = post(b"".join(lines), "application/jsonl")
        except Failure as failure:
            if first == 1:
                raise
            raise failure.within(
                f"lines {first} to {first + len(lines) - 1} were refused, what stands before them "
                "is stored: ",
                f"\n  (line 1 of these is line {first})",
            ) from failure
        answer["errors"] = [_renumbered(fault, by=first - 1) for fault in answer["errors"]]
        yield answer
        advance(sum(map(len, lines)))


def _renumbered(fault: dict[str, str], *, by: int) -> dict[str, str]:
    """A fault of a line, whose number is that in the whole file."""
    return {name: LINE.sub(lambda n: str(int(n[0]) + by), fault[name]) for name in fault}


COUNTS = ("accepted", "duplicates", "conflicts", "rejected", "evicted")
RARE = ("conflicts", "evicted")
"""What people are told of only where there are any."""
ARCHIVE = ".zip"
WHOLE = {".npz": "application/x-npz", ".csv": "text/csv", ARCHIVE: "application/zip"}
"""Media types of files that are sent unchanged."""
SENDERS = {
    **dict.fromkeys((".npz", ".csv"), _send_whole),
    ".json": _send_json,
    ".jsonl": _send_lines,
}


def _batches(file: IO[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """The number of a batch's first line, and its lines."""
    first = 1
    while lines := file.readlines(BATCH_BYTES):
        yield first, lines
        first += len(lines)


def _total(answers: Iterable[dict[str, Any]]) -> dict[str, Any]:
    counts = dict.fromkeys(COUNTS, 0)
    warnings: list[str] = []
    ids: list[int] = []
    errors: list[dict[str, str]] = []
    for answer in answers:
        for name in COUNTS:
            counts[name] += answer[name]
        warnings += [warning for warning in answer["warnings"] if warning not in warnings]
        ids += answer["ids"] or []
        errors += answer["errors"]
    span = [ids[0], ids[-1]] if ids else None
    return {**counts, "ids": span, "errors": errors, "warnings": warnings}


def echo_result(result: dict[str, Any]) -> None:
    """Print the result of an upload."""
    told = [name for name in COUNTS if name not in RARE or result[name]]
    counts = [
        f"{result[name]:,} {name.removesuffix('s') if result[name] == 1 else name}" for name in told
    ]
    echo_text(f"{result['file']}: {', '.join(counts)}")
    for warning in result["warnings"]:
        echo_text(f"  warning: {warning}", err=True)
    for fault in result["errors"]:
        echo_text(f"  skipped {fault['pointer']}: {fault['detail']}", err=True)
