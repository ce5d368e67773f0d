"""python -m service.preprocess.masks: checks masks on stdin against their photos.

A mask, like a photo, may be malicious: the daemon decodes none.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from service.prediction.frames import Frame, encode, read
from service.preprocess.kind import TOO_LARGE, Unreadable
from service.preprocess.masks.labels import (
    UNCOUNTED,
    Pixels,
    as_png,
    beyond_classes,
    occurring,
    values_of,
)
from service.preprocess.masks.run_lengths import decode
from service.preprocess.pictures import upright_size
from service.processes import sandbox
from storage.arrays import NDArray


def main() -> int:
    """Answers each question until the end of its input."""
    sandbox.enter()
    while (question := read(sys.stdin.buffer)) is not None:
        sys.stdout.buffer.writelines(encode(answer(question)))
        sys.stdout.buffer.flush()
    return 0


def answer(question: Frame) -> Frame:
    """`png`, the mask as it is stored, or `fault`, what is wrong with it. Without a mask: `size`,
    height and width of the photo.
    """
    try:
        size = upright_size(question.tensors["photo"].tobytes())
        if "mask" not in question.tensors:
            return Frame({"size": size})
        label = question.tensors["mask"].tobytes()
        classes, names = question.header["classes"], question.header["names"]
        if question.header["runs"] is None:
            held = _check(values_of(label), size, classes)
            is_bilevel = classes == 2 and bool(held[UNCOUNTED] and not held[1])
            return Frame({"black_and_white": is_bilevel}, {"png": np.frombuffer(label, np.uint8)})
        values = _painted(question.header["runs"], size, classes, names)
        return Frame({}, {"png": np.frombuffer(as_png(values), np.uint8)})
    except Unreadable as error:
        return Frame({"fault": str(error)})
    except MemoryError:
        return Frame({"fault": TOO_LARGE})


def _check(values: Pixels, size: tuple[int, int], classes: int) -> NDArray[np.bool_]:
    """(256,): which values occur."""
    if values.shape != size:
        height, width = values.shape
        raise Unreadable(
            f"the mask has {width} x {height} pixels, its photo {size[1]} x {size[0]} as it is seen"
        )
    held = occurring(values)
    if beyond := beyond_classes(held, classes):
        raise Unreadable(f"the mask {beyond}")
    return held


def _painted(
    runs: Sequence[Mapping[str, Any]], size: tuple[int, int], classes: int, names: Sequence[str]
) -> Pixels:
    """Class 0, and over it each run's class where it is set, in their order."""
    values = np.zeros(size, np.uint8)
    for run in runs:
        values[decode(run, size)] = _class(run.get("label"), classes, names)
    return values


def _class(label: Any, classes: int, names: Sequence[str]) -> int:
    if label is None and classes == 2:
        return 1
    if label in names:
        return [*names].index(label)
    if type(label) is int and (0 <= label < classes or label == UNCOUNTED):
        return label
    known = ", ".join(map(repr, names[:20])) or f"0 to {classes - 1}"
    raise Unreadable(f"run lengths of the label {label!r:.100}; the model's classes are {known}")


if __name__ == "__main__":
    sys.exit(main())
