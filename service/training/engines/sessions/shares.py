"""Splits a batch: parallel sessions of one model, each on a share of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from service.training.engine import Array
from service.training.engines.manifest import Manifest
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.buffers import edges
from service.training.engines.sessions.crew import Call, Crew
from service.training.engines.sessions.once import OncePerBatch
from service.training.loss import LOSS, LOSS_SCALE, SUM

ELEMENTS_AT_ONCE = 1 << 24
"""Maximum elements of all results in a run. A row of the CNN in bench/ took one thread 361 µs in
runs of 16, which have this many, and 454 in runs of 64, which do not fit into the cache."""
MIN_ROWS = 4
"""Minimum rows of a run: in smaller ones, a row of MobileNetV2 takes a tenth longer."""


SMALL = 1 << 16
"""Elements per row. With a memory plan, a run of a smaller graph takes 2 µs less. For larger ones,
the plan takes as much memory as the first run again, and saves no time."""


PLANNED_BYTES = 1 << 16
"""Size of a model's file above which sessions do not plan which results share memory. That takes
time with the square of the nodes: 15 of 31 ms for the 995 of MobileNetV2's step. Without, its peak
and those of four other networks were no higher, and its step took as long; that of a CNN with 130
nodes took some 2 % longer."""


FEW_ROWS = 32
"""Rows of a run up to which a step adds its gradients to those of earlier runs by itself."""
RUNS_KEPT = 16
"""Runs whose factors of gradients a share keeps; those of ResNet-18 take 0.6 MB for each row."""
MOSTLY_TABLES = 4
"""Times as many parameters as multiplications per sample: the rows of tables that a batch reads are
few, but each share writes gradients of all rows, which takes longer than it saves."""


def shares_of(manifest: Manifest, *, threads: int) -> int:
    """How many parts a batch is split into."""
    return 1 if manifest.batch_statistics or is_mostly_tables(manifest) else threads


def is_mostly_tables(manifest: Manifest) -> bool:
    return manifest.parameter_count > MOSTLY_TABLES * manifest.work.multiplications > 0


def adds_up(manifest: Manifest) -> bool:
    """Does a step add its gradients to what is there: of several runs on few rows each, or some
    rows of large tables?
    """
    if manifest.batch_statistics:
        return False
    return is_mostly_tables(manifest) or (rows_at_once(manifest) or FEW_ROWS + 1) <= FEW_ROWS


def is_small(manifest: Manifest) -> bool:
    """Is a memory plan of a run worth its memory?"""
    return manifest.work.elements < SMALL


def rows_at_once(manifest: Manifest, *, of_optimized: bool = False) -> int | None:
    """How many rows a run should take, None for any number.

    More if its results are smaller than its gradients, which are added up after each run.
    of_optimized: whether the runs are of the model's optimized step.
    """
    most = manifest.optimized_rows if of_optimized else None
    elements, least = manifest.work.elements, max(MIN_ROWS, manifest.work.least_rows)
    if manifest.batch_statistics or not elements:
        return most
    rows = max(least, ELEMENTS_AT_ONCE // elements, manifest.parameter_count // elements)
    return rows if most is None else min(rows, most)


Bind = Callable[[Binding, int], None]
"""Binds what does not change between runs, given the number of the share."""


class Shares:
    """The runs of a step model or an eval model on batches.

    sessions: one for each share. most: rows of a run; None for any number. once: what is run once
    for a batch. binding: makes that of a session. adds_up: whether runs add their gradients to
    those that are there.
    """

    def __init__(
        self,
        sessions: Sequence[Any],
        bind: Bind,
        *,
        crew: Crew,
        most: int | None = None,
        once: OncePerBatch | None = None,
        binding: Callable[[Any], Binding] = Binding,
    ) -> None:
        self.sessions = sessions
        self._new_binding = binding
        self._once = once
        self._crew = crew
        self._most = most
        self._scale = np.zeros((1,) * scale_rank(sessions[0]), np.float32)
        self._losses = np.zeros(len(sessions), np.float32)
        self.bindings = [self._bound(bind, share) for share in range(len(sessions))]
        self.adds_up = any(name.startswith(SUM) for name in self.bindings[0].inputs)

    def run(
        self,
        feeds: Mapping[str, Array],
        *,
        rows: int,
        scale: float,
        weights: Array | None = None,
    ) -> tuple[float, int]:
        """The loss of the rows, and the number of shares that they were split into.

        rows: at most `most` in a share, unless `adds_up`. scale: factor on the sum of the rows'
        losses. weights: one factor for each row.
        """
        self._scale[...] = scale
        if weights is not None:
            scales = (weights * np.float32(scale)).reshape(-1, *self._scale.shape[1:])
            feeds = {**feeds, LOSS_SCALE: scales}
        if self._once is not None:
            self._once.before()
        parts = edges(rows, len(self.bindings))
        calls: list[Call] = []
        for share, (first, last) in enumerate(parts):
            if self.adds_up:
                calls.append(partial(self._run_all, share, feeds, first, last))
            else:
                _feed(self.bindings[share], feeds, first, last)
                calls.append(partial(self._run_one, share))
        self._crew.run(calls)
        if self._once is not None:
            self._once.after(len(parts))
        if weights is not None:
            for binding in self.bindings:
                binding.read(LOSS_SCALE, self._scale)
        return sum(self._losses[: len(parts)].tolist()), len(parts)

    @property
    def takes_weights(self) -> bool:
        """Whether the loss takes a factor for each sample."""
        return self._scale.ndim > 0

    def at_once(self, rows: int) -> int:
        """How many of these rows a call of `run` takes."""
        keeps = self._once is not None and self._once.factors.axes
        if self._most is None or (self.adds_up and not keeps):
            return rows
        most = self._most * len(self.sessions) * (RUNS_KEPT if self.adds_up else 1)
        return ceil(rows / ceil(rows / most))

    def _run_one(self, share: int) -> None:
        self.bindings[share].run()
        if self._once is not None:
            self._once.factors.keep(share, self.bindings[share])

    def _run_all(self, share: int, feeds: Mapping[str, Array], first: int, last: int) -> None:
        binding, loss = self.bindings[share], 0.0
        runs = 1 if self._most is None else ceil((last - first) / self._most)
        for start, end in edges(last - first, runs):
            _feed(binding, feeds, first + start, first + end)
            self._run_one(share)
            loss += float(self._losses[share])
        self._losses[share] = loss

    def _bound(self, bind: Bind, share: int) -> Binding:
        binding = self._new_binding(self.sessions[share])
        binding.read(LOSS_SCALE, self._scale)
        binding.write(LOSS, self._losses[share : share + 1].reshape(()))
        bind(binding, share)
        return binding


def _feed(binding: Binding, feeds: Mapping[str, Array], first: int, last: int) -> None:
    for name, array in feeds.items():
        binding.read(name, array[first:last])


def scale_rank(session: Any) -> int:
    """The number of axes of the factor on the losses."""
    shapes = {value.name: value.shape for value in session.get_inputs()}
    return len(shapes.get(LOSS_SCALE, ()))
