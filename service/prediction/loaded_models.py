"""The models that the predictor has loaded: an LRU cache."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from service.errors import ModelNotLoadable, PredictionFailed
from service.prediction.frames import Array, Tensors
from service.training.engines.runtime import LOAD_ERRORS, open_session
from storage.disk.digest import sha256_of


class LoadedModel(Struct, frozen=True, eq=False, weakref=True):
    """A loaded model. output_names: those that hold numbers. batch: the rows that each run takes,
    None if as many as come. size_bytes: of its file.
    """

    session: Any
    output_names: list[str]
    batch: int | None
    size_bytes: int

    def run(self, inputs: Tensors) -> Tensors:
        """Every output that holds numbers, by name. Raises PredictionFailed.

        A file with a fixed batch, such as version 1 may be, gets that many rows at a time.
        """
        count, size = len(next(iter(inputs.values()))), self.batch
        if size is None or count in (0, size):
            return self._run(inputs)
        parts = [self._run(_rows(inputs, start, size)) for start in range(0, count, size)]
        return {name: _joined([part[name] for part in parts], count) for name in parts[0]}

    def _run(self, inputs: Tensors) -> Tensors:
        try:
            values = self.session.run(self.output_names, dict(inputs))
        except LOAD_ERRORS as error:
            raise PredictionFailed(f"the model cannot compute these inputs: {error}") from error
        return dict(zip(self.output_names, values, strict=True))


class LoadedModels:
    """Loaded models by SHA-256 of the file; the least recently used is evicted first.

    The newest is always kept, however large.
    """

    def __init__(self, *, threads: int, max_sessions: int, max_bytes: int) -> None:
        self._max_sessions = max_sessions
        self._max_bytes = max_bytes
        self._held: OrderedDict[str, LoadedModel] = OrderedDict()
        self._threads = threads

    def load(self, sha256: str, path: str, size_bytes: int) -> LoadedModel:
        """The model of a file, loaded unless it is cached.

        Raises ModelNotLoadable, also for a file whose bytes have changed.
        """
        held = self._held.get(sha256)
        if held is None:
            held = self._held[sha256] = self._open(sha256, path, size_bytes)
        self._held.move_to_end(sha256)
        self._evict()
        return held

    def forget(self, sha256: str) -> None:
        """Drop a model, if it is cached."""
        self._held.pop(sha256, None)

    def _open(self, sha256: str, path: str, size_bytes: int) -> LoadedModel:
        try:
            if sha256_of(Path(path)) != sha256:
                raise ModelNotLoadable("its bytes are not those that were stored")
            session = open_session(path, threads=self._threads, arena=False)
        except (MemoryError, OSError, *LOAD_ERRORS) as error:
            raise ModelNotLoadable(f"ONNX Runtime cannot load it: {error}") from error
        outputs = [
            output.name
            for output in session.get_outputs()
            if output.type.startswith("tensor") and output.type != "tensor(string)"
        ]
        return LoadedModel(session, outputs, _fixed_batch(session), size_bytes)

    def _evict(self) -> None:
        while len(self._held) > 1 and (
            len(self._held) > self._max_sessions
            or sum(held.size_bytes for held in self._held.values()) > self._max_bytes
        ):
            self._held.popitem(last=False)


def _fixed_batch(session: Any) -> int | None:
    """The size of axis 0 of every input, None if it is free."""
    sizes = {value.shape[0] if value.shape else None for value in session.get_inputs()}
    size = sizes.pop() if len(sizes) == 1 else None
    return size if isinstance(size, int) and size > 0 else None


def _rows(inputs: Tensors, start: int, size: int) -> Tensors:
    """`size` rows; beyond the end the last one is repeated."""
    at = np.arange(start, start + size)
    return {name: value.take(at, axis=0, mode="clip") for name, value in inputs.items()}


def _joined(parts: list[Array], count: int) -> Array:
    """The first `count` rows. An output without a batch axis is that of the first part."""
    return np.concatenate(parts)[:count] if parts[0].ndim else parts[0]
