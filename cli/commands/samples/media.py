"""Uploads images, recordings and texts: files, or folders whose names are labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct

from cli.client import Client
from cli.commands.samples import coco, yolo
from cli.commands.samples.coco import PHOTOS, Boxes
from cli.errors import Failure
from cli.progress import Advance, MeteredFile
from storage.database.codec import dump

TEXTS = (".txt",)
ENDINGS = (".flac", ".jpeg", ".jpg", ".png", ".wav", ".webp", *TEXTS)
OTHERS = (
    ".avif",
    ".bmp",
    ".gif",
    ".heic",
    ".heif",
    ".m4a",
    ".mp3",
    ".ogg",
    ".opus",
    ".tif",
    ".tiff",
)
"""Of images and recordings that are not read: named, since nobody would miss them."""
MASKS = "masks"
"""The folder whose files are labels of the photos of the same names in the folder `images`."""
NO_MASKS = {*ENDINGS, *OTHERS} - {".png", *TEXTS}
BATCH_FILES = 200
BATCH_BYTES = 256 * 2**20
"""The files of one request; each is open while it is sent."""


class Media(Struct, frozen=True):
    """A file. label: a class or boxes; None for the request's. mask: a file that is its label."""

    path: Path
    size_bytes: int
    label: Any = None
    mask: Path | None = None

    @property
    def name(self) -> str:
        """The path as text that UTF-8 can hold, with slashes.

        Of a path with backslashes servers take the last part alone: browsers once sent whole ones.
        """
        return self.path.as_posix().encode("utf-8", "replace").decode()


def find(
    source: Path,
    *,
    classes: Sequence[str] | None,
    of_boxes: Sequence[str] | None = None,
    skip: bool,
    of_texts: bool = False,
) -> tuple[list[Media], list[dict[str, str]]]:
    """The file, or all files below the folder, by path; and the faults of those left out.

    classes: a file's label is the nearest folder above it that is named like a class; None labels
    nothing. If all files are in one folder that is not named so, none is labelled. of_boxes: the
    classes that boxes may have, None if the model has no names of classes. skip: leave out
    files without a class. of_texts: whether a folder's files are texts, not images or recordings.
    Raises Failure before anything is sent.
    """
    if not source.is_dir():
        return [Media(source, _size_of(source))], []
    if (labelled := _with_labels(source, of_boxes)) is not None:
        return labelled, []
    endings = TEXTS if of_texts else [ending for ending in ENDINGS if ending not in TEXTS]
    paths = _below(source, endings if of_texts else (*endings, *OTHERS))
    if not paths:
        what = "text" if of_texts else "image or recording"
        raise Failure(f"{source}: there is no {what} below it ({', '.join(endings)})")
    if classes is not None and _is_unsorted(paths, source, classes):
        classes = None
    media, faults = [], []
    for path in paths:
        label = _label(path, source, classes)
        if path.suffix.lower() in OTHERS:
            fault, remedy = "it is no PNG, JPEG, WebP, WAV or FLAC", "Convert it"
        elif label is not None or classes is None:
            media.append(Media(path, _size_of(path), label))
            continue
        else:
            fault, remedy = _no_class(classes), "Rename the folder, or give --label"
        if not skip:
            raise Failure(f"{path}: {fault}. {remedy}, or leave it out with --on-error skip")
        faults.append({"pointer": str(path), "detail": fault})
    if not media:
        raise Failure(f"{source}: of each file below it, {faults[0]['detail']}")
    return media, faults


def _with_labels(source: Path, classes: Sequence[str] | None) -> list[Media] | None:
    """Photos with the masks or boxes that lie beside them, by path; None if none do.

    One without waits for its label. Raises Failure.
    """
    if (source / PHOTOS).is_dir() and (source / MASKS).is_dir():
        if wrong := _below(source / MASKS, NO_MASKS):
            raise Failure(f"{wrong[0]}: a mask is a PNG, whose values are classes. Convert it")
        pairs = _pairs(source, MASKS, ".png")
        return [Media(photo, _size_of(photo, mask), mask=mask) for photo, mask in pairs]
    if files := coco.files_of(source):
        photos = [photo for file in files for photo in coco.read(file, source).items()]
        return _with_boxes(photos, classes)
    if not (source / PHOTOS).is_dir() or not (source / yolo.LABELS).is_dir():
        return None
    names = yolo.names_of(source)
    pairs = _pairs(source, yolo.LABELS, ".txt")
    read = ((photo, yolo.read(file, photo, names) if file else None) for photo, file in pairs)
    return _with_boxes(read, classes)


def _with_boxes(
    photos: Iterable[tuple[Path, Boxes | None]], classes: Sequence[str] | None
) -> list[Media]:
    """classes: that there may be; None for numbers. Raises Failure."""
    labelled = []
    for photo, boxes in sorted(photos, key=lambda pair: pair[0]):
        for box in boxes or ():
            if classes is None and box["label"].isdecimal():
                box["label"] = int(box["label"])
            elif classes is not None and box["label"] not in classes:
                known = ", ".join(classes)
                told = f"a box of {box['label']!r:.100}; the model's classes are {known}"
                raise Failure(f"{photo}: {told}")
        label = None if boxes is None else {"boxes": boxes}
        labelled.append(Media(photo, _size_of(photo), label))
    return labelled


def _size_of(*files: Path | None) -> int:
    return sum(file.stat().st_size for file in files if file is not None)


def _pairs(source: Path, folder: str, ending: str) -> list[tuple[Path, Path | None]]:
    """Photos, by path, each with the file of its name in the folder. Raises Failure."""
    paths = (path for path in _below(source / folder, (ending,)) if path.name != yolo.NAMES[0])
    beside = {_place(path, source / folder): path for path in paths}
    photos = _below(source / PHOTOS, ENDINGS)
    pairs = [(photo, beside.pop(_place(photo, source / PHOTOS), None)) for photo in photos]
    if beside:
        raise Failure(f"{min(beside.values())}: no photo in {source / PHOTOS} has its name")
    return pairs


def _place(path: Path, folder: Path) -> Path:
    return path.relative_to(folder).with_suffix("")


def send(
    client: Client,
    path: str,
    files: Sequence[Media],
    *,
    params: dict[str, str],
    advance: Advance,
) -> Iterator[dict[str, Any]]:
    """Send the files; yields the answer to each request. path: of the route. params: of queries."""
    for first, batch in _batches(files):
        try:
            yield _send_batch(client, path, batch, params=params, advance=advance)
        except Failure as failure:
            if first == 0:
                raise
            raise failure.within(
                f"files {first + 1} to {first + len(batch)} were refused, what stands before "
                "them is stored: ",
                f"\n  (/files/0 is {batch[0].name})",
            ) from failure


def _send_batch(
    client: Client,
    path: str,
    batch: Sequence[Media],
    *,
    params: dict[str, str],
    advance: Advance,
) -> dict[str, Any]:
    about = [{} if item.label is None else {"label": item.label} for item in batch]
    with ExitStack() as opened:
        files = []
        for upload in batch:
            file = MeteredFile(opened.enter_context(upload.path.open("rb")), advance)
            files.append(("file", (upload.name, file, "application/octet-stream")))
            if upload.mask is not None:
                mask = MeteredFile(opened.enter_context(upload.mask.open("rb")), advance)
                files.append(("mask", (upload.name, mask, "image/png")))
        return client.ask(
            "POST",
            path,
            params=params,
            data={"samples": dump(about, ensure_ascii=True)},
            files=files,
        )


def _below(folder: Path, endings: Collection[str]) -> list[Path]:
    """Files with one of these endings below a folder, by path; none that is hidden or in a hidden
    folder, such as `.ipynb_checkpoints`.
    """
    paths = (path for path in folder.rglob("*") if path.suffix.lower() in endings)
    seen = (path for path in paths if not _is_hidden(path.relative_to(folder)))
    return sorted(path for path in seen if path.is_file())


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _is_unsorted(paths: Sequence[Path], source: Path, classes: Sequence[str]) -> bool:
    """Whether all are in one folder that is not named like a class, so that none has a label."""
    return source.resolve().name not in classes and {path.parent for path in paths} == {source}


def _label(file: Path, source: Path, classes: Sequence[str] | None) -> str | None:
    if classes is None:
        return None
    folders = (source.resolve().name, *file.relative_to(source).parts[:-1])
    for folder in reversed(folders):
        if folder in classes:
            return folder
    return None


def _no_class(classes: Sequence[str]) -> str:
    known = ", ".join(classes)
    return f"no folder that it lies in has the name of a class; the model's classes are {known}"


def _batches(files: Sequence[Media]) -> Iterator[tuple[int, Sequence[Media]]]:
    """The position of a batch's first file, and its files."""
    first = 0
    size_bytes = 0
    for position, item in enumerate(files):
        size_bytes += item.size_bytes
        if position > first and (size_bytes > BATCH_BYTES or position - first == BATCH_FILES):
            yield first, files[first:position]
            first, size_bytes = position, item.size_bytes
    yield first, files[first:]
