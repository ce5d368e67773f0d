"""Whatever is sent as a mask is told what is wrong with it, or becomes one of its photo's size."""

from __future__ import annotations

import io
import json
from base64 import b64encode
from random import Random
from typing import Any

import numpy as np
from hostile import RANDOM, changed, damaged, flip, json_value, listed, one_of, raw, text
from hypothesis import given, settings
from masks import png
from PIL import Image

from service.prediction.frames import decode, encode
from service.preprocess.masks.__main__ import answer
from service.preprocess.masks.labels import values_of
from service.preprocess.masks.run_lengths import encode as run_lengths
from service.samples.ingest.labels import MaskReader
from service.samples.mask_checks import SentMask, question_of
from service.training.tasks import TASKS
from storage.records.signatures import TargetSpec

FUZZ = settings.get_profile("fuzz")
SIZE = (4, 5)
VALUES = np.arange(20, dtype=np.uint8).reshape(SIZE) % 3
TARGET = TargetSpec("labels", "int64", SIZE, 3, ("cat", "dog", "cow"), may_ignore=True)
READER = MaskReader(TARGET, TASKS["cross_entropy"])
PHOTO = png(np.zeros((*SIZE, 3), np.uint8))
MASKS = [png(VALUES), png(VALUES, palette=True), png(VALUES == 1)]
RUNS: list[Any] = [
    {"label": "dog", **run_lengths(VALUES == 1)},
    [{"label": number, **run_lengths(number == VALUES)} for number in range(3)],
    [{"label": "cow", "size": [*SIZE], "counts": [3, 2, 15]}],
    {"png": b64encode(MASKS[0]).decode()},
]


def checked(sent: SentMask, photo: bytes) -> None:
    """As the process answers, whose questions and answers are frames."""
    asked = b"".join(encode(question_of(TARGET, sent, photo)))
    header_bytes = int.from_bytes(asked[:4], "little")
    question = decode(asked[12 : 12 + header_bytes], asked[12 + header_bytes :])
    told = answer(question)
    if "fault" in told.header:
        json.dumps(told.header["fault"], ensure_ascii=False).encode()
        return
    made = values_of(told.tensors["png"].tobytes())
    if photo == PHOTO:
        assert made.shape == SIZE
    assert ((made < 3) | (made == 255)).all()


def odd_png(r: Random) -> bytes:
    """A PNG of any mode and size."""
    size = (r.randrange(1, 7), r.randrange(1, 7))
    picture = Image.new(
        r.choice(["1", "L", "P", "LA", "I;16", "RGB", "RGBA"]), size, r.choice([0, 1])
    )
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()


@FUZZ
@given(r=RANDOM)
def test_masks(r: Random) -> None:
    data = one_of(lambda r: damaged(r, r.choice(MASKS)), odd_png, raw)(r)
    photo = damaged(r, PHOTO) if r.random() < 0.1 else PHOTO
    checked(SentMask(None, data), photo)


@FUZZ
@given(r=RANDOM)
def test_run_lengths(r: Random) -> None:
    value = changed(r, r.choice(RUNS)) if flip(r) else listed(json_value, 3)(r)
    if isinstance(value, dict) and "counts" in value and flip(r):
        value["counts"] = text(r)
    sent, complaint = READER.parse(value)
    if complaint is None and isinstance(sent, SentMask):
        checked(sent, PHOTO)
