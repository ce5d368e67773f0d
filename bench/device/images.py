"""Data time of epochs over JPEGs: the first decodes and fills the cache, later ones read it."""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
from msgspec.structs import replace
from PIL import Image as Pillow

from bench.measuring import seconds
from bench.table import Row
from service.preprocess.image import Image
from service.preprocess.masks.masks import Masks
from service.preprocess.text import Text
from service.training.data.batches import Batches
from service.training.data.decoding import decode_all
from service.training.data.files import LabelledFiles
from storage.blobs.cache_folder import expect_checks
from storage.blobs.row_cache import RowCache
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature, TargetSpec, TensorSpec

PHOTOS, SIDE, BATCH_SIZE = 10_000, 224, 32
SHAPE = (3, SIDE, SIDE)
READINGS = 5
"""How often the second epoch is read, since it takes half a second; each opens the cache anew."""
SMALLEST = {"PHOTOS": 40, "READINGS": 1}


def run() -> list[Row]:
    """One thread; the cache is on the disk of the temporary folder."""
    image = Image.parse(
        {"kind": "image", "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
        TensorSpec("image", "float32", SHAPE),
    )
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as name:
        folder = Path(name)
        index, signature = _photos(folder / "1.pack")

        def opened() -> RowCache:
            return cache_of(folder / "model" / "cache", image, PHOTOS)

        began = time.perf_counter()
        cache = opened()
        decode_all(index, image, cache, threads=1, tick=lambda: None)
        first = time.perf_counter() - began + epoch(LabelledFiles(index, signature, image, cache))
        cache.close()
        later = []
        for _ in range(READINGS):
            cache = opened()
            later.append(epoch(LabelledFiles(index, signature, image, cache)))
            cache.close()
        second, checks = median(later), []
        for _ in range(READINGS):
            plain = seconds(lambda: opened().close())
            expect_checks(folder)
            checks.append(seconds(lambda: opened().close()) - plain)
    return [
        {
            "images": PHOTOS,
            "first epoch's data s": first,
            "second epoch's data s": second,
            "ratio": second / first,
            "check after a start s": median(checks),
            "cache MB": PHOTOS * image.row_bytes / 2**20,
            "must reach": "≤ 0.05",
        }
    ]


def cache_of(folder: Path, kind: Image | Masks | Text, count: int) -> RowCache:
    """A cache that has room for so many samples."""
    size = kind.row_bytes
    return RowCache.open(folder, key=kind.row_key, row_bytes=size, max_bytes=count * size)


def epoch(images: Batches) -> float:
    """Seconds of one epoch in random order."""
    order = np.random.default_rng(0).permutation(len(images))
    began = time.perf_counter()
    for _ in images.batches(order, batch_size=BATCH_SIZE):
        pass
    return time.perf_counter() - began


def _photos(path: Path) -> tuple[SampleIndex, Signature]:
    index = replace(packed(path, PHOTOS, SIDE), labels=np.zeros(PHOTOS, np.int64))
    return index, Signature(
        (TensorSpec("image", "float32", SHAPE),), TargetSpec("labels", "int64", (), 2)
    )


def packed(path: Path, count: int, side: int) -> SampleIndex:
    """A pack of JPEGs with detail like a camera's: smooth parts, edges, noise. Without labels."""
    generator = np.random.default_rng(0)
    distinct = [_photo(generator, side) for _ in range(min(count, 100))]
    return index_of(path, [distinct[n % len(distinct)] for n in range(count)])


def index_of(path: Path, contents: Sequence[bytes]) -> SampleIndex:
    """Write a pack of samples without labels."""
    path.write_bytes(b"".join(contents))
    lengths = np.array([len(content) for content in contents])
    return SampleIndex(
        ids=np.arange(1, len(contents) + 1),
        packs=np.zeros(len(contents), np.int32),
        offsets=np.concatenate([[0], np.cumsum(lengths)[:-1]]),
        lengths=lengths,
        labels=np.empty(len(contents), object),
        pack_paths=(path,),
    )


def _photo(generator: np.random.Generator, side: int) -> bytes:
    coarse = generator.integers(0, 255, (14, 14, 3)).astype(np.uint8)
    pixels = np.asarray(Pillow.fromarray(coarse).resize((side, side)), np.float32)
    pixels += generator.normal(0, 8, pixels.shape)
    buffer = io.BytesIO()
    Pillow.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()
