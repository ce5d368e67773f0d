"""The features that a classifier's head reads: one row per sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.training.data.batches import BATCH_SIZE, Batches, Indices
from service.training.engine import Array, Engine
from service.training.engines.manifest import ClassHead, manifest_of
from service.training.engines.runtime import foreign_errors, onnxruntime, open_session
from service.training.errors import ArtifactsUnreadable
from service.training.evaluation.inference import cut_out
from service.training.protocol.messages.training import Train

Floats = NDArray[np.float32]


class HeadFeatures:
    """Computes the features of samples with the part of the model below the head.

    manifest: of the model, which has a head. rank: number of axes of the tensor that the head
    reads; if it has positions, a row is their mean. tick runs between batches.
    """

    def __init__(self, task: Train, engine: Engine, *, tick: Callable[[], None]) -> None:
        manifest = manifest_of(task.artifacts)
        assert manifest.head is not None  # callers have checked this
        self.manifest = manifest
        self.head: ClassHead = manifest.head
        self.rank = 2
        self._inputs = manifest.inputs
        self._engine = engine
        self._folder = Path(task.work_dir)
        self._threads = task.limits.threads
        self._tick = tick
        self._session: onnxruntime.InferenceSession | None = None

    def read(self, inputs: Sequence[Array]) -> Floats:
        """The features of samples with these inputs, (samples, width)."""
        feeds = dict(zip(self._inputs, inputs, strict=True))
        features = feeds.get(self.head.features)
        if features is None:  # With a frozen part, it is usually the cached features.
            (features,) = self._open(feeds).run(None, feeds)
        self.rank = features.ndim
        by_position = np.moveaxis(features, self.head.features_axis, -1)
        rows: Floats = by_position.reshape(len(features), -1, by_position.shape[-1]).mean(axis=1)
        return rows

    def of(self, samples: Batches, chosen: Indices) -> Floats:
        """The features of the chosen samples, (chosen, width)."""
        return np.concatenate([rows for rows, _ in self.parts(samples, chosen)])

    def parts(self, samples: Batches, chosen: Indices) -> Iterator[tuple[Floats, Indices]]:
        """The same in pieces, each with the positions of its samples."""
        for start in range(0, len(chosen), BATCH_SIZE):
            some = chosen[start : start + BATCH_SIZE]
            yield self.read(samples.inputs(some)), some
            self._tick()

    def _open(self, feeds: dict[str, Array]) -> onnxruntime.InferenceSession:
        if self._session is None:
            path = self._folder / "features.onnx"
            self._engine.export(path)
            types = {name: str(array.dtype) for name, array in feeds.items()}
            part = cut_out(path, types, self.head.features)
            with foreign_errors(ArtifactsUnreadable, "cannot run the model up to its head"):
                self._session = open_session(part, threads=self._threads, arena=False)
        return self._session


def spread(chosen: Indices, most: int) -> Indices:
    """At most this many of them, evenly spread."""
    if len(chosen) <= most:
        return chosen
    some: Indices = chosen[np.linspace(0, len(chosen) - 1, most).astype(np.int64)]
    return some
