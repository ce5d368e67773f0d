"""Masks in the child: decoded once, kept while their labels stay, augmented with their photos."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from masks import PREPROCESS, SIDE, png, scene
from msgspec.structs import replace
from onnx import TensorProto, helper

from service.preprocess.image import Image
from service.preprocess.masks.masks import Masks, masks_of
from service.training.data.counting import class_counts, holding
from service.training.data.features import Features, Prefix
from service.training.data.files import LabelledFiles
from service.training.data.masks import MaskLabels, decode_masks
from storage.blobs.row_cache import RowCache
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import IGNORED, Signature, TargetSpec, TensorSpec

SPEC = TensorSpec("image", "float32", (3, SIDE, SIDE))
TARGET = TargetSpec("labels", "int64", (SIDE, SIDE), 3, may_ignore=True)
COUNT = 6


@pytest.fixture
def index(tmp_path: Path) -> SampleIndex:
    """Photos and their masks; the last one waits for its mask."""
    photos = [png(scene(n)[0]) for n in range(COUNT)]
    path = tmp_path / "1.pack"
    path.write_bytes(b"".join(photos))
    lengths = np.array([len(photo) for photo in photos])
    labels = np.empty(COUNT, object)
    labels[:] = [*(png(scene(n)[1]) for n in range(COUNT - 1)), b""]
    return SampleIndex(
        ids=np.arange(1, COUNT + 1),
        packs=np.zeros(COUNT, np.int32),
        offsets=np.cumsum(lengths) - lengths,
        lengths=lengths,
        labels=labels,
        pack_paths=(path,),
    )


def photos(**preprocess: Any) -> Image:
    return Image.parse({**PREPROCESS, **preprocess}, SPEC)


def masks(**preprocess: Any) -> Masks:
    found = masks_of(photos(**preprocess), TARGET)
    assert found is not None
    return found


@pytest.fixture
def open_cache(tmp_path: Path) -> Callable[[], RowCache]:
    kind = masks()

    def open_cache() -> RowCache:
        folder, most = tmp_path / "cache" / "masks", 100 * kind.row_bytes
        return RowCache.open(folder, key=kind.row_key, row_bytes=kind.row_bytes, max_bytes=most)

    return open_cache


def decode(index: SampleIndex, cache: RowCache | None) -> Any:
    return decode_masks(index, masks(), cache, threads=1, tick=lambda: None)


def labels(index: SampleIndex, cache: RowCache | None, ignored: int | None = None) -> MaskLabels:
    return MaskLabels(index, masks(), cache, ignored=ignored)


def test_masks_are_decoded_once(index: SampleIndex, open_cache: Callable[[], RowCache]) -> None:
    first = decode(index, open_cache())
    again = decode(index, open_cache())
    assert (first.decoded, again.decoded) == (COUNT - 1, 0)
    everything = np.arange(COUNT)
    kept, made = labels(index, open_cache())[everything], labels(index, None)[everything]
    assert kept.dtype == np.int64
    assert (kept == made).all()
    assert (kept[-1] == IGNORED).all()


def test_a_mask_that_was_corrected_is_decoded_anew(
    index: SampleIndex, open_cache: Callable[[], RowCache]
) -> None:
    decode(index, open_cache())
    corrected = index.labels.copy()
    corrected[1] = png(np.full((24, 32), 2, np.uint8))
    index = replace(index, labels=corrected)

    assert (labels(index, open_cache())[np.array([1])] == 2).all()
    assert decode(index, open_cache()).decoded == 1
    assert decode(index, open_cache()).decoded == 0
    assert (labels(index, open_cache())[np.array([1])] == 2).all()
    assert (labels(index, open_cache())[np.array([0])] != 2).any()


def test_a_mask_of_no_use_is_named(index: SampleIndex) -> None:
    wrong = index.labels.copy()
    wrong[2] = png(np.full((24, 32), 9, np.uint8))
    (position,) = decode(replace(index, labels=wrong), None).unreadable
    assert position == 2


def test_what_does_not_count_is_left_out(index: SampleIndex) -> None:
    nothing = index.labels.copy()
    nothing[0] = png(np.full((24, 32), 255, np.uint8))
    nothing[1] = png(np.full((24, 32), 1, np.uint8))
    index = replace(index, labels=nothing)
    assert labels(index, None).unlabelled_or_counted().tolist() == [False] + [True] * 5
    ignoring = labels(index, None, ignored=1)
    assert ignoring.unlabelled_or_counted().tolist() == [False, False] + [True] * 4
    assert (ignoring[np.array([1])] == IGNORED).all()


def test_classes_are_counted_and_found_a_few_masks_at_a_time(
    index: SampleIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, everything = labels(index, None), np.arange(COUNT)
    whole = found[everything]
    monkeypatch.setattr("service.training.data.counting.NUMBERS_AT_ONCE", 2 * SIDE * SIDE)
    counts = class_counts(found, everything, 3)
    assert counts.tolist() == np.bincount(whole[whole >= 0], minlength=3).tolist()
    assert holding(found, [1]).tolist() == [bool((each == 1).any()) for each in whole]


def test_an_epoch_moves_masks_and_photos_alike(index: SampleIndex) -> None:
    augment = {"flip": 0.5, "crop": 0.2}
    index = index.only(np.arange(COUNT) < COUNT - 1)
    labelled = MaskLabels(index, masks(augment=augment), None, ignored=None)
    signature = Signature((SPEC,), TARGET)
    files = LabelledFiles(index, signature, photos(augment=augment), None, labelled)
    order = np.array([3, 0, 4, 1, 2])
    moved = 0
    for epoch in range(4):
        batches = files.augmented(seed=1, epoch=epoch).batches(order, batch_size=2)
        for (seen,), truth in batches:
            red = seen[:, 0] - seen[:, 1] > 1.2  # the rim is red, all else gray
            assert ((truth == 2) == red).mean() > 0.93
            assert ((truth == 2) & red).sum() > 0.6 * red.sum()
        moved += int(
            (files.augmented(seed=1, epoch=epoch).labels_of(order).copy() != labelled[order]).any()
        )
    assert moved == 4
    assert (files.labels_of(order).copy() == labelled[order]).all()


def test_features_of_a_view_go_with_the_masks_of_that_view(
    index: SampleIndex,
    make_workshop: Callable[..., Any],
    make_artifacts: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """The frozen part passes the photo on, so that its red rim shows where the mask has to be."""
    passed = helper.make_graph(
        [helper.make_node("Identity", ["image"], ["seen"])],
        "frozen",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("seen", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(passed, opset_imports=opset, ir_version=8), tmp_path / "frozen")
    augment = {"flip": 0.5, "crop": 0.2}
    index = index.only(np.arange(COUNT) < COUNT - 1)
    labelled = MaskLabels(index, masks(augment=augment), None, ignored=None)
    signature = Signature((SPEC,), TARGET)
    files = LabelledFiles(index, signature, photos(augment=augment), None, labelled)
    wanted = replace(make_workshop().task(make_artifacts()), signature=signature)
    prefix = Prefix(tmp_path / "frozen", wanted, threads=1)
    cache = RowCache.open(
        tmp_path / "features", key="k", row_bytes=4 * prefix.row_bytes, max_bytes=1 << 24
    )
    features = Features(files, prefix, cache)
    features.fill(lambda: None)

    order, seen = np.array([3, 0, 4, 1, 2]), []
    for epoch in range(4):
        view = features.augmented(seed=9, epoch=epoch)
        for (pictures,), truth in view.batches(order, batch_size=5):
            red = pictures[:, 0] - pictures[:, 1] > 1.2
            assert ((truth == 2) == red).mean() > 0.93
            seen.append(truth.copy())
    assert (seen[0] == labelled[order]).all()
    assert all((seen[0] != each).any() for each in seen[1:])
