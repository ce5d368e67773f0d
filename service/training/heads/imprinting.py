"""Initializes the rows of new classes, in the first job that has samples of them.

Weight imprinting: a row of the last layer is set from the mean of the class's features. Source: Qi,
Brown, Lowe (2018), Low-Shot Learning with Imprinted Weights, CVPR. There, features have length 1
and rows have no bias, so that a product is a cosine. Here neither holds: all means point in about
the same direction, and a row along it would win everywhere. So the imprint is the difference
between the class's mean and that of the others, scaled to the mean distance of the other rows from
their mean, and the bias puts the boundary halfway between both means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.training.data.batches import Batches, Indices
from service.training.engine import Engine
from service.training.engines import checkpoint
from service.training.engines.checkpoint import CheckpointHead
from service.training.engines.manifest import ClassHead, manifest_of
from service.training.heads.features import Floats, HeadFeatures, spread
from service.training.protocol.messages.training import Train

MOST_OF_CLASS, MOST_OF_OTHERS = 256, 512


def start_new_classes(
    task: Train,
    samples: Batches,
    open_engine: Callable[[Train], Engine],
    *,
    tick: Callable[[], None],
) -> Train:
    """The task with a start that has imprinted rows for its new classes.

    task: not resumed, of a model whose classes have ids. samples: for training, as the engine takes
    them. open_engine: opens an engine that may be discarded. tick runs between batches. The same
    task gives the same start.
    """
    manifest = manifest_of(task.artifacts)
    assert manifest.head is not None  # classes only change together with the head
    engine = open_engine(task)
    folder = Path(task.work_dir)
    engine.save(folder / "before.checkpoint")
    start = checkpoint.read_head(folder / "before.checkpoint")
    there = set(np.unique(samples.labels).tolist())
    new = [class_id for class_id in start.fresh if manifest.head.classes.index(class_id) in there]
    if not new:
        return task
    tensors = checkpoint.read(folder / "before.checkpoint", manifest.tensor_names)
    if not task.signature.target.shape:
        means = _Means(HeadFeatures(task, engine, tick=tick), samples)
        for label in new:
            imprint(tensors, manifest.head, label, means, fresh=start.fresh)
    fresh = tuple(class_id for class_id in start.fresh if class_id not in new)
    path = folder / "start.checkpoint"
    checkpoint.save(
        path, CheckpointHead(start.engine, classes=manifest.head.classes, fresh=fresh), tensors
    )
    return replace(task, start=replace(task.start, how="parameters", checkpoint=str(path)))


def imprint(
    tensors: dict[str, Floats],
    head: ClassHead,
    new: int,
    features: Callable[[int], tuple[Floats, Floats]],
    *,
    fresh: Sequence[int],
) -> None:
    """Set the row of a class. features: index → mean features of the class and of the others."""
    row = head.classes.index(new)
    inside, outside = features(row)
    direction = inside - outside
    length = float(np.linalg.norm(direction))
    weight = np.moveaxis(tensors[head.weight], head.axis, 0)
    rows = weight.reshape(len(weight), -1)  # a convolution with a kernel of 1 has more axes
    learned = [i for i, class_id in enumerate(head.classes) if class_id not in fresh]
    if not length or not learned:
        return
    mean = rows[learned].mean(axis=0)
    scale = float(np.linalg.norm(rows[learned] - mean, axis=1).mean())
    added = direction * (scale / length)
    weight[row] = (mean + added).reshape(weight[row].shape)
    if head.bias is not None:
        bias = tensors[head.bias].reshape(-1)
        bias[row] = bias[learned].mean() - float(added @ (inside + outside)) / 2


class _Means(Struct):
    """Mean inputs of the head, over some samples of a class and over some of the others."""

    features: HeadFeatures
    samples: Batches

    def __call__(self, index: int) -> tuple[Floats, Floats]:
        is_one = self.samples.labels.reshape(-1) == index
        inside = np.flatnonzero(is_one)[:MOST_OF_CLASS]
        outside = spread(np.flatnonzero(~is_one), MOST_OF_OTHERS)
        if not len(outside):
            return (only := self._mean(inside)), only
        return self._mean(inside), self._mean(outside)

    def _mean(self, chosen: Indices) -> Floats:
        rows = self.features.of(self.samples, chosen)
        return np.asarray(rows.mean(axis=0, dtype=np.float64), np.float32)
