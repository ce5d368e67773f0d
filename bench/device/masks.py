"""Data time of masks beside that of their photos: decoded in the first epoch, then read."""

from __future__ import annotations

import io
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from msgspec.structs import replace
from PIL import Image as Pillow

from bench.device.images import cache_of, epoch, packed
from bench.table import Row
from service.preprocess.image import Image
from service.preprocess.masks.masks import masks_of
from service.training.data.batches import Batches
from service.training.data.decoding import decode_all
from service.training.data.files import LabelledFiles
from service.training.data.masks import counted_masks, decode_masks
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature, TargetSpec, TensorSpec

PHOTOS, SIDE, ROUNDS = 1000, 512, 3
SMALLEST = {"PHOTOS": 12, "ROUNDS": 1}
CLASSES, SHAPES = 8, 30


def run() -> list[Row]:
    """One thread, alternating rounds; the caches are on the disk of the temporary folder."""
    firsts: dict[str, list[float]] = {"photos": [], "both": []}
    seconds: dict[str, list[float]] = {"photos": [], "both": []}
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as name:
        index = _index(Path(name) / "1.pack")
        for number in range(ROUNDS):
            for kind, opened in (("photos", _photos), ("both", _with_masks)):
                began = time.perf_counter()
                samples = opened(Path(name) / kind / str(number), index)
                epoch(samples)
                firsts[kind].append(time.perf_counter() - began)
                seconds[kind].append(epoch(samples))
    first, more = _beside(firsts)
    _, again = _beside(seconds)
    return [
        {
            "photos": PHOTOS,
            "side": SIDE,
            "photos' first epoch s": first,
            "their masks s": more,
            "ratio": more / first,
            "masks' second epoch s": again,
            "of the photos' first": again / first,
            "must reach": "\u2264 1.3, \u2264 0.05",
        }
    ]


def _beside(seconds: dict[str, list[float]]) -> tuple[float, float]:
    """Of the photos alone, and how much more it is with masks."""
    photos, both = median(seconds["photos"]), median(seconds["both"])
    return photos, both - photos


def _image(shape: tuple[int, ...]) -> tuple[Image, Signature]:
    spec = TensorSpec("image", "float32", (3, SIDE, SIDE))
    target = TargetSpec("labels", "int64", shape, CLASSES)
    return Image.parse({"kind": "image"}, spec), Signature((spec,), target)


def _photos(folder: Path, index: SampleIndex) -> Batches:
    image, signature = _image(())
    index = replace(index, labels=np.zeros(PHOTOS, np.int64))
    cache = cache_of(folder / "tensors", image, PHOTOS)
    decode_all(index, image, cache, threads=1, tick=lambda: None)
    return LabelledFiles(index, signature, image, cache)


def _with_masks(folder: Path, index: SampleIndex) -> Batches:
    image, signature = _image((SIDE, SIDE))
    masks = masks_of(image, signature.target)
    assert masks is not None
    cache = cache_of(folder / "tensors", image, PHOTOS)
    of_masks = cache_of(folder / "masks", masks, PHOTOS)
    decode_all(index, image, cache, threads=1, tick=lambda: None)
    decode_masks(index, masks, of_masks, threads=1, tick=lambda: None)
    index, labels = counted_masks(index, masks, of_masks, ignored=None)
    return LabelledFiles(index, signature, image, cache, labels)


def _index(path: Path) -> SampleIndex:
    """Photos as of `images`, and masks of ellipses."""
    index = packed(path, PHOTOS, SIDE)
    generator = np.random.default_rng(1)
    distinct = [_mask(generator) for _ in range(min(PHOTOS, 100))]
    labels = np.empty(PHOTOS, object)
    # Each differs, as masks do: a row is known by the digest of its label.
    labels[:] = [distinct[n % len(distinct)] + n.to_bytes(4, "big") for n in range(PHOTOS)]
    return replace(index, labels=labels)


def _mask(generator: np.random.Generator) -> bytes:
    y, x = np.mgrid[:SIDE, :SIDE]
    values = np.zeros((SIDE, SIDE), np.uint8)
    for value in generator.integers(0, CLASSES, SHAPES):
        top, left, high, wide = generator.uniform((0, 0, 20, 20), (SIDE, SIDE, 90, 90))
        values[((y - top) / high) ** 2 + ((x - left) / wide) ** 2 < 1] = value
    buffer = io.BytesIO()
    Pillow.fromarray(values).save(buffer, "PNG")
    return buffer.getvalue()
