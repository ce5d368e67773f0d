"""Boxes as YOLO's tools have them: a text beside each photo, a box a line, and the classes' names.

A line is the number of the class, and the box's centre, width and height as shares of the photo's.
Source: https://docs.ultralytics.com/datasets/detect
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from cli.commands.samples.coco import PHOTOS, Boxes
from cli.errors import Failure
from storage.database.codec import dump, load

LABELS = "labels"
YAML, NAMES = "data.yaml", ("classes.txt", "obj.names", f"{LABELS}/classes.txt")
"""Files of the classes' names; those of NAMES have one a line."""
DECIMALS = 2
"""Of a pixel, as in COCO."""
_FLOW = re.compile(r"^names:\s*[\[{](.*?)[\]}]", re.M | re.S)
_BLOCK = re.compile(r"^names:[ \t]*(?:#.*)?\n((?:[ \t]*(?:(?:- |\d+:).*|#.*)?(?:\n|\Z))+)", re.M)
_ENTRY = re.compile(
    r"""\s*(?:(\d+):\s|-\s)?\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|(?!\#).*?)\s*(?:(?:^|\s)\#.*)?"""
)
"""A number or a dash, if any; a name, quoted or not; and a comment."""


def names_of(folder: Path) -> dict[int, str]:
    """The classes' names by number. Raises Failure if no file has any."""
    for file in (folder / YAML, *(folder / name for name in NAMES)):
        if file.is_file():
            text = file.read_text(encoding="utf-8-sig", errors="replace")
            lines = filter(None, map(str.strip, text.splitlines()))
            names = _in_yaml(text) if file.name == YAML else dict(enumerate(lines))
            if not names:
                form = "names: [cat, dog], or one a line" if file.name == YAML else "one a line"
                raise Failure(f"{file}: no names of classes that can be read; give them as {form}")
            return names
    known = ", ".join((YAML, *NAMES))
    raise Failure(f"{folder}: no file says which class a number is; there may be {known}")


def _in_yaml(text: str) -> dict[int, str]:
    """`names` alone, as a list or by number, in brackets or one a line: all that tools write."""
    if flow := _FLOW.search(text):
        return _listed(flow[1].split(","))
    block = _BLOCK.search(text)
    return _listed(block[1].splitlines()) if block else {}


def _listed(lines: Sequence[str]) -> dict[int, str]:
    names: dict[int, str] = {}
    for line in lines:
        entry = _ENTRY.fullmatch(line)
        if entry is not None and entry[2]:
            number = len(names) if entry[1] is None else int(entry[1])
            names[number] = _unquoted(entry[2])
    return names


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    try:
        return str(load(text)) if text.startswith('"') else text
    except ValueError:
        return text


def read(file: Path, photo: Path, names: Mapping[int, str]) -> Boxes:
    """The boxes of a photo, cut at its edges. Raises Failure with the line that is wrong."""
    from service.preprocess.kind import Unreadable
    from service.preprocess.pictures import upright_size

    try:
        height, width = upright_size(photo.read_bytes())
    except Unreadable as error:
        raise Failure(f"{photo}: {error}") from error
    boxes: Boxes = []
    for number, line in enumerate(
        file.read_text(encoding="utf-8", errors="replace").splitlines(), 1
    ):
        if not line.strip():
            continue
        try:
            label, across, down, wide, high = (float(field) for field in line.split())
        except ValueError:
            told = "a line is five numbers: class, and centre, width and height of the box"
            raise Failure(f"{file}, line {number}: {told}") from None
        if not all(0 <= side <= 1 for side in (across, down, wide, high)):
            told = "centre, width and height are shares of the photo's, from 0 to 1"
            raise Failure(f"{file}, line {number}: {told}")
        if label not in names:
            told = f"there is no class {label:g}; the names are of {min(names)} to {max(names)}"
            raise Failure(f"{file}, line {number}: {told}")
        left, right = _pixels(across, wide, width)
        top, bottom = _pixels(down, high, height)
        box = [left, top, round(right - left, DECIMALS), round(bottom - top, DECIMALS)]
        boxes.append({"box": box, "label": names[int(label)]})
    return boxes


def _pixels(centre: float, share: float, size: int) -> tuple[float, float]:
    """Where a side begins and ends."""
    ends = ((centre + sign * share / 2) * size for sign in (-1, 1))
    begin, end = (round(min(max(end_at, 0.0), size), DECIMALS) for end_at in ends)
    return begin, end


def write(
    folder: Path,
    photos: Mapping[PurePath, tuple[tuple[int, int], Boxes]],
    classes: Sequence[str | int],
) -> None:
    """`labels` beside the folder `images`, and `data.yaml`; see `coco.write`."""
    numbers = {name: at for at, name in enumerate(classes)}
    for place, ((height, width), boxes) in photos.items():
        file = (folder / LABELS / place).with_suffix(".txt")
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = []
        for box in boxes:
            x, y, wide, high = box["box"]
            shares = ((x + wide / 2) / width, (y + high / 2) / height, wide / width, high / height)
            lines.append(" ".join([str(numbers[box["label"]]), *(f"{of:.8f}" for of in shares)]))
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    splits = (f"train: {PHOTOS}/train", f"val: {PHOTOS}/validation", "names:")
    listed = (f"  {at}: {dump(str(name))}" for name, at in numbers.items())
    (folder / YAML).write_text("\n".join((*splits, *listed, "")), encoding="utf-8")
