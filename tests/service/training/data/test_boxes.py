"""Boxes in the child: moved with their photos in each epoch and each view, and padded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from masks import png

from service.preprocess.boxes.boxes import Boxes, boxes_of
from service.preprocess.boxes.labels import StoredBoxes
from service.preprocess.image import Image
from service.training.data.boxes import BoxLabels
from service.training.data.files import LabelledFiles
from storage.database.codec import encode
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature, TargetSpec, TensorSpec

SIDE = 32
SPEC = TensorSpec("image", "float32", (3, SIDE, SIDE))
TARGET = TargetSpec("boxes", "float32", (1000, 5), box_classes=2)
BOXES = [(4, 6, 9, 5), (16, 10, 6, 12), (2, 20, 20, 8)]
"""x, y, width and height of the white box of each photo but the last, which waits for its label."""


@pytest.fixture
def index(tmp_path: Path) -> SampleIndex:
    photos = []
    for x, y, width, height in BOXES:
        pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
        pixels[y : y + height, x : x + width] = 255
        photos.append(png(pixels))
    path = tmp_path / "1.pack"
    path.write_bytes(b"".join(photos))
    lengths = np.array([len(photo) for photo in photos])
    labels = np.empty(len(BOXES), object)
    size = (SIDE, SIDE)
    labels[:] = [*(encode(StoredBoxes(size, ((*each, 1),))) for each in BOXES[:-1]), b""]
    return SampleIndex(
        ids=np.arange(1, len(BOXES) + 1),
        packs=np.zeros(len(BOXES), np.int32),
        offsets=np.cumsum(lengths) - lengths,
        lengths=lengths,
        labels=labels,
        pack_paths=(path,),
    )


def opened(index: SampleIndex, augment: dict[str, float] | None = None) -> LabelledFiles:
    described = {"kind": "image", "input": "image", "augment": augment}
    kind = Image.parse(described, SPEC)
    boxes = boxes_of(kind, TARGET)
    assert isinstance(boxes, Boxes)
    return LabelledFiles(index, Signature((SPEC,), TARGET), kind, None, BoxLabels(index, boxes))


def test_labels_are_padded_to_those_of_the_photo_with_most(index: SampleIndex) -> None:
    labels = opened(index).labels_of(np.array([2, 0]))
    assert labels.shape == (2, 1, 5)
    assert labels[0].tolist() == [[0, 0, 0, 0, -1]]
    assert labels[1] * SIDE == pytest.approx(np.array([[*BOXES[0], SIDE]]))


def test_an_epoch_moves_boxes_and_photos_alike(index: SampleIndex) -> None:
    files = opened(index, {"flip": 0.5, "crop": 0.1})
    seen = set()
    for epoch in range(6):
        for (photos,), labels in files.augmented(seed=1, epoch=epoch).batches(
            np.array([1, 0]), batch_size=2
        ):
            for photo, (box,) in zip(photos, labels, strict=True):
                rows, columns = np.nonzero(photo[0] > 0.5)
                begin = np.array([columns.min(), rows.min()])
                end = np.array([columns.max(), rows.max()]) + 1
                assert box[:4] * SIDE == pytest.approx(np.concatenate([begin, end - begin]))
                seen.add(tuple(begin.tolist()))
    assert len(seen) > 4
