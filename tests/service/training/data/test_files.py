"""Images in the child: decoded once, kept within bounds, and read back as the same tensors."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from service.preprocess.image import Image
from service.training.data.decoding import decode_all
from service.training.data.files import LabelledFiles
from storage.blobs.cache_folder import erase_from_caches
from storage.blobs.row_cache import RowCache
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature, TargetSpec, TensorSpec

SPEC = TensorSpec("image", "float32", (3, 4, 6))
SIGNATURE = Signature((SPEC,), TargetSpec("labels", "int64", (), 10))
MakeIndex = Callable[[list[bytes]], SampleIndex]


@pytest.fixture
def image() -> Image:
    return Image.parse({"kind": "image", "mean": [0.1, 0.2, 0.3], "std": [1, 2, 3]}, SPEC)


@pytest.fixture
def make_index(tmp_path: Path) -> MakeIndex:
    def make(contents: list[bytes]) -> SampleIndex:
        path = tmp_path / "1.pack"
        path.write_bytes(b"".join(contents))
        lengths = np.array([len(content) for content in contents])
        return SampleIndex(
            ids=np.arange(1, len(contents) + 1),
            packs=np.zeros(len(contents), np.int32),
            offsets=np.cumsum(lengths) - lengths,
            lengths=lengths,
            labels=np.arange(len(contents)) % 10,
            pack_paths=(path,),
        )

    return make


@pytest.fixture
def open_cache(tmp_path: Path, image: Image) -> Callable[..., RowCache]:
    def open_cache(images: int = 100) -> RowCache:
        return RowCache.open(
            tmp_path / "cache" / "tensors",
            key=image.row_key,
            row_bytes=image.row_bytes,
            max_bytes=images * image.row_bytes,
        )

    return open_cache


def photos(count: int) -> list[bytes]:
    generator = np.random.default_rng(0)
    found = []
    for _ in range(count):
        buffer = io.BytesIO()
        pixels = generator.integers(0, 255, (12, 12, 3)).astype(np.uint8)
        Pillow.fromarray(pixels).save(buffer, "PNG")
        found.append(buffer.getvalue())
    return found


def nothing() -> None:
    return None


def tensors(images: LabelledFiles, order: list[int]) -> np.ndarray[Any, Any]:
    batches = images.batches(np.array(order), batch_size=3)
    return np.concatenate([inputs[0].copy() for inputs, _ in batches])


@pytest.mark.parametrize("kept", [100, 4, 0])
def test_batches_are_the_decoded_images_whatever_the_cache_holds(
    make_index: MakeIndex, image: Image, open_cache: Callable[..., RowCache], kept: int
) -> None:
    files = photos(10)
    index = make_index(files)
    cache = open_cache(kept)

    outcome = decode_all(index, image, cache, threads=2, tick=nothing)
    order = [7, 0, 9, 3, 3, 5, 1]
    made = tensors(LabelledFiles(index, SIGNATURE, image, cache), order)

    expected = np.stack([image.decode(files[n]) for n in order])
    np.testing.assert_array_equal(made, expected)
    assert (outcome.decoded, outcome.kept) == (10, min(kept, 10))


def test_a_second_job_decodes_only_what_is_new(
    make_index: MakeIndex, image: Image, open_cache: Callable[..., RowCache]
) -> None:
    files = photos(6)
    decode_all(make_index(files[:4]), image, open_cache(), threads=1, tick=nothing)

    again = decode_all(make_index(files), image, open_cache(), threads=1, tick=nothing)
    third = decode_all(make_index(files), image, open_cache(), threads=1, tick=nothing)

    assert (again.decoded, again.kept) == (2, 6)
    assert (third.decoded, third.kept) == (0, 6)


def test_what_cannot_be_decoded_is_named_and_left_out(
    make_index: MakeIndex, image: Image, open_cache: Callable[..., RowCache]
) -> None:
    files = photos(4)
    files[1] = files[1][:60]
    files[2] = b"no image at all"
    index = make_index(files)

    outcome = decode_all(index, image, open_cache(), threads=1, tick=nothing)
    rest = index.without(list(outcome.unreadable))

    assert sorted(outcome.unreadable) == [1, 2]
    assert rest.ids.tolist() == [1, 4]
    made = tensors(LabelledFiles(rest, SIGNATURE, image, open_cache()), [0, 1])
    np.testing.assert_array_equal(made[1], image.decode(files[3]))


def test_an_image_that_is_erased_meanwhile_reads_as_zeros(
    make_index: MakeIndex, image: Image, open_cache: Callable[..., RowCache], tmp_path: Path
) -> None:
    files = photos(3)
    index = make_index(files)
    cache = open_cache(2)
    decode_all(index, image, cache, threads=1, tick=nothing)
    images = LabelledFiles(index, SIGNATURE, image, cache)

    with index.pack_paths[0].open("r+b") as pack:
        pack.write(bytes(sum(map(len, files))))
    erase_from_caches(tmp_path / "cache", [1])
    made = tensors(images, [0, 1, 2])

    black = np.empty(image.shape, np.float32)
    image.normalizer()(np.zeros(image.row_bytes, np.uint8), black)
    np.testing.assert_array_equal(made[0], black)
    np.testing.assert_array_equal(made[1], image.decode(files[1]))
    np.testing.assert_array_equal(made[2], black)


def test_the_wish_to_stop_is_heard_while_images_are_decoded(
    make_index: MakeIndex, image: Image
) -> None:
    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    with pytest.raises(Stop):
        decode_all(make_index(photos(2)), image, None, threads=1, tick=stop)
