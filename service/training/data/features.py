"""Features: the outputs of a model's frozen part, computed once, cached on disk, trained on.

Every run of the prefix has the same number of rows, so that a sample's features have the same bits
whenever they are computed, with any other samples, and on any number of threads.
"""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import ceil
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.preprocess import for_signature
from service.training.data.batches import Batches, Indices, size_bytes, split_records
from service.training.data.samples import SampleReader
from service.training.engine import Array
from service.training.engines.model_header import read_header
from service.training.engines.runtime import foreign_errors, onnxruntime, open_session
from service.training.engines.sessions.crew import Crew
from service.training.errors import ArtifactsUnreadable
from service.training.protocol.messages.shared import FEATURE_DTYPE
from service.training.protocol.messages.training import Train
from storage.blobs.row_cache import RowCache
from storage.database.codec import dump
from storage.disk.digest import sha256_of
from storage.errors import StorageFull
from storage.records.signatures import TensorSpec

logger = logging.getLogger(__name__)

KIND = "features"
ROWS = 8
"""Rows per run: larger batches are no faster on a CPU, and take more memory (measured)."""
VIEW_SEED = 0
APPEND_BYTES = 8 << 20
"""Rows are written to disk in pieces of at most this size; each piece costs a flush."""

Table = NDArray[np.uint8]


class Prefix:
    """The frozen part, loaded when it first runs.

    specs: its outputs, without the batch axis. kept: their form in the cache, with fewer bits if
    the model says so. Raises ArtifactsUnreadable.
    """

    def __init__(self, path: Path, task: Train, *, threads: int) -> None:
        if not path.is_file():
            raise ArtifactsUnreadable(f"there is no artifact at {path}; register the model anew")
        self.specs, metadata = read_header(path)
        half = metadata.get(FEATURE_DTYPE) == "float16"
        self.kept = tuple(_halved(spec) for spec in self.specs) if half else self.specs
        self.row_bytes = sum(map(size_bytes, self.kept))
        self._path = path
        self._input_names = [spec.name for spec in task.signature.inputs]
        self._preprocess = dump(task.preprocess, sort_keys=True)
        self._threads = threads
        self._crew = Crew()
        self._session: Any = None

    def key(self) -> str:
        """Identifies everything that a sample's features depend on, except the sample."""
        parts = [
            sha256_of(self._path),
            onnxruntime.__version__,
            *(f"{spec.name} {spec.dtype} {spec.shape}" for spec in self.kept),
            *self._input_names,
            self._preprocess,
            f"{ROWS} rows",
            *(["clipped"] if self.kept != self.specs else []),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def run(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """The outputs, in full precision."""
        parts_by_start: dict[int, list[Array]] = {}

        def work(part: slice) -> None:
            parts_by_start[part.start] = self.outputs([array[part] for array in inputs])

        self.in_parts(len(inputs[0]), work)
        parts = [parts_by_start[start] for start in sorted(parts_by_start)]
        return tuple(np.concatenate(outputs) for outputs in zip(*parts, strict=True))

    def rows(self, inputs: Sequence[Array]) -> Table:
        """The outputs in their cached form: (samples, row_bytes)."""
        table = np.empty((len(inputs[0]), self.row_bytes), np.uint8)

        def work(part: slice) -> None:
            self.keep(self.outputs([array[part] for array in inputs]), table[part])

        self.in_parts(len(table), work)
        return table

    def in_parts(
        self, count: int, work: Callable[[slice], None], tick: Callable[[], None] = lambda: None
    ) -> None:
        """Call `work` with every part of `count` rows, ROWS or fewer, on all threads.

        tick runs on the caller's thread after each of its parts. If one raises, the other threads
        end after their part.
        """
        if self._session is None:
            with foreign_errors(ArtifactsUnreadable, "cannot load the frozen part of the model"):
                self._session = open_session(self._path, threads=1)
        starts = iter(range(0, count, ROWS))  # of all threads: each takes the next

        def take_parts(then: Callable[[], None]) -> None:
            try:
                for start in starts:
                    work(slice(start, min(start + ROWS, count)))
                    then()
            finally:
                deque(starts, maxlen=0)

        helpers = min(self._threads, ceil(count / ROWS)) - 1
        self._crew.run([partial(take_parts, tick), *[partial(take_parts, lambda: None)] * helpers])

    def outputs(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for at most ROWS rows, in full precision. Called by `work` of in_parts."""
        count = len(inputs[0])
        # np.resize repeats the rows until the batch is full.
        full = [
            np.resize(each, (ROWS, *each.shape[1:])) if count < ROWS else each for each in inputs
        ]
        outputs = self._session.run(None, dict(zip(self._input_names, full, strict=True)))
        return [output[:count] for output in outputs]

    def keep(self, outputs: Sequence[Array], rows: Table) -> None:
        """Write outputs in their cached form."""
        at = 0
        for spec, output in zip(self.kept, outputs, strict=True):
            flat = np.ascontiguousarray(_narrow(output, spec.dtype))
            size = size_bytes(spec)
            rows[:, at : at + size] = flat.reshape(len(rows), -1).view(np.uint8)
            at += size

    def close(self) -> None:
        """Free the session's memory; the next run loads it again."""
        self._session = None


class Features(Batches):
    """The features of a dataset. Those that are not cached are computed on demand.

    For an augmented dataset, the cache has several views of each sample, the first one of the
    sample itself, and epochs take them in turn. Views do not depend on the job's seed, so that
    later jobs can reuse them.
    """

    def __init__(self, samples: Batches, prefix: Prefix, cache: RowCache) -> None:
        super().__init__(
            samples.ids,
            samples.labels,
            row_bytes=prefix.row_bytes,
            weights=samples.weights,
            mix=samples.mix,
        )
        self._views = [samples]
        for epoch in range(1, cache.row_bytes // prefix.row_bytes):
            self._views.append(samples.augmented(seed=VIEW_SEED, epoch=epoch))
        self._view = 0
        self._prefix = prefix
        self._cache = cache
        self._record = np.dtype((np.void, prefix.row_bytes))
        self._buffer = np.empty(0, self._record)
        self._look_up()

    def augmented(self, *, seed: int, epoch: int) -> Features:
        batches = super().augmented(seed=seed, epoch=epoch)
        batches._view = epoch % len(self._views)
        return batches

    def fill(self, tick: Callable[[], None]) -> None:
        """Fill the cache as far as there is room. tick runs every few samples."""
        room = max(0, self._cache.capacity - len(self._cache))
        missing = np.flatnonzero(self._row_of < 0)[:room]
        at_once = max(1, APPEND_BYTES // self._cache.row_bytes)
        for start in range(0, len(missing), at_once):
            some = missing[start : start + at_once]
            if not self._append(some, self._make(some, tick)):
                break
        self._look_up()

    def _make(self, chosen: Indices, tick: Callable[[], None]) -> Table:
        """Features of all views of the samples. They are gathered while other threads compute."""
        width = self._prefix.row_bytes
        table = np.empty((len(chosen), width * len(self._views)), np.uint8)
        gathering = Lock()

        def work(part: slice) -> None:
            for number, view in enumerate(self._views):
                with gathering:  # the samples have one buffer
                    inputs = [array.copy() for array in view.inputs(chosen[part])]
                columns = slice(number * width, (number + 1) * width)
                self._prefix.keep(self._prefix.outputs(inputs), table[part, columns])

        self._prefix.in_parts(len(chosen), work, tick)
        return table

    def inputs(self, chosen: Indices) -> tuple[Array, ...]:
        if len(self._buffer) < len(chosen):
            self._buffer = np.empty(len(chosen), self._record)
        records = self._buffer[: len(chosen)]
        rows = self._row_of[chosen]
        if self._is_whole:
            np.take(self._rows, self._places(rows), out=records, mode="clip")
        else:
            self._read_or_make(chosen, rows, records)
        kept = split_records(records, self._prefix.kept)
        return tuple(
            array.astype(spec.dtype, copy=False)
            for array, spec in zip(kept, self._prefix.specs, strict=True)
        )

    def labels_of(self, chosen: Indices) -> Array:
        return self._views[self._view].labels_of(chosen)

    def exact(self, chosen: Indices) -> tuple[Array, ...]:
        if self._prefix.kept == self._prefix.specs:
            return self.inputs(chosen)
        return self._prefix.run(self._views[0].inputs(chosen))

    def _places(self, rows: Indices) -> Indices:
        return rows if len(self._views) == 1 else rows * len(self._views) + self._view

    def _read_or_make(self, chosen: Indices, rows: Indices, records: Array) -> None:
        known, missing = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
        records[known] = self._rows[self._places(rows[known])]
        if len(missing):
            computed = self._prefix.rows(self._views[self._view].inputs(chosen[missing]))
            records[missing] = computed.view(self._record)[:, 0]

    def _append(self, positions: Indices, table: Table) -> bool:
        try:
            return self._cache.append(self.ids[positions], table) > 0
        except StorageFull as error:
            logger.warning("features_not_kept error=%s", error)
            return False

    def _look_up(self) -> None:
        self._row_of = self._cache.find(self.ids)
        self._is_whole = bool((self._row_of >= 0).all())
        self._rows = self._cache.rows.view(self._record).reshape(-1)


def open_cache(task: Train, prefix: Prefix, reader: SampleReader) -> RowCache:
    """The model's features. Open it before the samples are read: see RowCache."""
    pipeline = for_signature(task.signature, task.preprocess)
    return reader.open_cache(
        KIND,
        key=f"{prefix.key()}-{pipeline.key}",
        row_bytes=prefix.row_bytes * pipeline.views,
        max_bytes=task.feature_cache_bytes,
    )


def _narrow(output: Array, dtype: str) -> Array:
    """Convert to the dtype: values beyond its range become its largest value, not infinity."""
    if output.dtype == dtype:
        return output
    most = np.finfo(dtype).max
    return np.clip(output, -most, most).astype(dtype)


def _halved(spec: TensorSpec) -> TensorSpec:
    if spec.dtype != "float32":
        return spec
    return TensorSpec(spec.name, "float16", spec.shape)
