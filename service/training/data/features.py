"""Features: the outputs of a model's frozen part, computed once, cached on disk, trained on.

Every run of the prefix has the same number of rows, so that a sample's features have the same bits
whenever they are computed, with any other samples, and on any number of threads.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.preprocess import for_signature
from service.training.data.batches import Batches, Indices, size_bytes, split_records
from service.training.engine import Array
from service.training.engines.model_header import read_header
from service.training.engines.runtime import foreign_errors, onnxruntime, open_session
from service.training.engines.sessions.crew import Crew
from service.training.errors import ArtifactsUnreadable
from service.training.protocol.messages.shared import FEATURE_DTYPE
from service.training.protocol.messages.training import Train
from storage.blobs.row_cache import RowCache
from storage.errors import StorageFull
from storage.records.signatures import TensorSpec

logger = logging.getLogger(__name__)

KIND = "features"
ROWS = 8
"""Rows per run: larger batches are no faster on a CPU, and take more memory (measured)."""
VIEW_SEED = 0
MOST_COPIED = 64 << 20
"""Bytes of a prefix that each thread gets its own session of: ROWS rows at a time on each of two
threads are a quarter faster than the same rows on both (MobileNetV2), but each has the weights."""
APPEND_BYTES = 8 << 20
"""Rows are written to disk in pieces of about this size; each piece costs a flush."""

Table = NDArray[np.uint8]


class Prefix:
    """The frozen part, loaded when it first runs.

    specs: its outputs, without the batch axis. kept: their form in the cache, with fewer bits if
    the model says so. at_once: how many rows to give it, to keep all threads busy.
    Raises ArtifactsUnreadable.
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
        self._preprocess = json.dumps(task.preprocess, sort_keys=True)
        self._threads = threads
        self._copies = threads if path.stat().st_size <= MOST_COPIED else 1
        self.at_once = self._copies * ROWS
        self._crew = Crew()
        self._sessions: list[Any] = []

    def key(self) -> str:
        """Identifies everything that a sample's features depend on, except the sample."""
        parts = [
            hashlib.sha256(self._path.read_bytes()).hexdigest(),
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
        parts = [outputs for outputs, _ in self._runs(inputs)]
        return tuple(np.concatenate(each) for each in zip(*parts, strict=True))

    def rows(self, inputs: Sequence[Array]) -> Table:
        """The outputs in their cached form: (samples, row_bytes)."""
        table = np.empty((len(inputs[0]), self.row_bytes), np.uint8)
        for outputs, start in self._runs(inputs):
            at, rows = 0, table[start : start + len(outputs[0])]
            for spec, output in zip(self.kept, outputs, strict=True):
                flat = np.ascontiguousarray(_narrow(output, spec.dtype))
                size = size_bytes(spec)
                rows[:, at : at + size] = flat.reshape(len(rows), -1).view(np.uint8)
                at += size
        return table

    def close(self) -> None:
        """Free the sessions' memory; the next run loads them again."""
        self._sessions = []

    def _runs(self, inputs: Sequence[Array]) -> Iterator[tuple[list[Array], int]]:
        if not self._sessions:
            threads = self._threads if self._copies == 1 else 1
            with foreign_errors(ArtifactsUnreadable, "cannot load the frozen part of the model"):
                self._sessions = [
                    open_session(self._path, threads=threads) for _ in range(self._copies)
                ]
        for first in range(0, len(inputs[0]), self.at_once):
            starts = range(first, min(first + self.at_once, len(inputs[0])), ROWS)
            found: dict[int, list[Array]] = {}
            calls = [
                partial(self._run_on, session, inputs, start, found)
                for session, start in zip(self._sessions, starts, strict=False)
            ]
            self._crew.run(calls)
            yield from ((found[start], start) for start in starts)

    def _run_on(
        self, session: Any, inputs: Sequence[Array], start: int, found: dict[int, list[Array]]
    ) -> None:
        part = [each[start : start + ROWS] for each in inputs]
        count = len(part[0])
        # np.resize repeats the rows until the batch is full.
        full = [np.resize(each, (ROWS, *each.shape[1:])) if count < ROWS else each for each in part]
        outputs = session.run(None, dict(zip(self._input_names, full, strict=True)))
        found[start] = [output[:count] for output in outputs]


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
        made = super().augmented(seed=seed, epoch=epoch)
        made._view = epoch % len(self._views)
        return made

    def fill(self, tick: Callable[[], None]) -> None:
        """Fill the cache as far as there is room. tick runs every few samples."""
        room = max(0, self._cache.capacity - len(self._cache))
        missing = np.flatnonzero(self._row_of < 0)[:room]
        waiting: list[Table] = []
        first = done = 0
        for start in range(0, len(missing), self._prefix.at_once):
            some = missing[start : start + self._prefix.at_once]
            rows = [self._prefix.rows(view.inputs(some)) for view in self._views]
            waiting.append(np.concatenate(rows, axis=1))
            done += len(some)
            if (done - first) * self._cache.row_bytes >= APPEND_BYTES or done == len(missing):
                if not self._append(missing[first:done], waiting):
                    break
                waiting, first = [], done
            tick()
        self._look_up()

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
            each.astype(spec.dtype, copy=False)
            for each, spec in zip(kept, self._prefix.specs, strict=True)
        )

    def exact(self, chosen: Indices) -> tuple[Array, ...]:
        if self._prefix.kept == self._prefix.specs:
            return self.inputs(chosen)
        return self._prefix.run(self._views[0].inputs(chosen))

    def _places(self, rows: Indices) -> Indices:
        return rows if len(self._views) == 1 else rows * len(self._views) + self._view

    def _read_or_make(self, chosen: Indices, rows: Indices, records: Array) -> None:
        found, missing = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
        records[found] = self._rows[self._places(rows[found])]
        if len(missing):
            made = self._prefix.rows(self._views[self._view].inputs(chosen[missing]))
            records[missing] = made.view(self._record)[:, 0]

    def _append(self, positions: Indices, tables: Sequence[Table]) -> bool:
        try:
            return self._cache.append(self.ids[positions], np.concatenate(tables)) > 0
        except StorageFull as error:
            logger.warning("features_not_kept error=%s", error)
            return False

    def _look_up(self) -> None:
        self._row_of = self._cache.find(self.ids)
        self._is_whole = bool((self._row_of >= 0).all())
        self._rows = self._cache.rows.view(self._record).reshape(-1)


def open_cache(task: Train, prefix: Prefix) -> RowCache:
    """The model's features. Open it before the samples are read: see RowCache."""
    assert task.cache is not None
    pipeline = for_signature(task.signature, task.preprocess)
    return RowCache.open(
        Path(task.cache) / KIND,
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
