"""Splits a batch: parallel sessions of one model, each on a share of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

import numpy as np
from msgspec import Struct

from service.training.engine import Array
from service.training.engines.manifest import Manifest
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.buffers import Vector, edges
from service.training.engines.sessions.crew import Call, Crew
from service.training.engines.sessions.once import OncePerBatch

LOSS, LOSS_SCALE = "hone.loss", "hone.loss_scale"
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


MOSTLY_TABLES = 4
"""Times as many parameters as multiplications per sample: the rows of tables that a batch reads are
few, but each share writes gradients of all rows, which takes longer than it saves."""


def shares_of(manifest: Manifest, *, threads: int) -> int:
    """How many parts a batch is split into."""
    parameters = sum(each.size for each in manifest.parameters)
    few = parameters > MOSTLY_TABLES * manifest.work.multiplications > 0
    return 1 if manifest.batch_statistics or few else threads


def is_small(manifest: Manifest) -> bool:
    """Is a memory plan of a run worth its memory?"""
    return manifest.work.elements < SMALL


def rows_at_once(manifest: Manifest, *, of_optimized: bool = False) -> int | None:
    """How many rows a run should take, None for any number.

    More if its results are smaller than its gradients, which are added up after each run.
    of_optimized: whether the runs are of the model's optimized step.
    """
    most = manifest.optimized_rows if of_optimized else None
    elements = manifest.work.elements
    if manifest.batch_statistics or not elements:
        return most
    parameters = sum(each.size for each in manifest.parameters)
    rows = max(MIN_ROWS, ELEMENTS_AT_ONCE // elements, parameters // elements)
    return rows if most is None else min(rows, most)


Bind = Callable[[Binding, int], None]
"""Binds what does not change between runs, given the number of the share."""


class Pieces(Struct, frozen=True):
    """How a share of many rows is run piece by piece. rows: maximum per run.

    bind: binds further runs. add: adds the results of a further run to those of the first.
    """

    rows: int
    bind: Bind
    add: Callable[[int], None]


class Shares:
    """The runs of a step model or an eval model on batches.

    sessions: one for each share. pieces: None if each share is run at once. once: what is run once
    for a batch.
    """

    def __init__(
        self,
        sessions: Sequence[Any],
        bind: Bind,
        *,
        crew: Crew,
        pieces: Pieces | None = None,
        once: OncePerBatch | None = None,
    ) -> None:
        self.sessions = sessions
        self._once = once
        self._crew = crew
        self._pieces = pieces
        self._scale = np.zeros((1,) * scale_rank(sessions[0]), np.float32)
        self._losses, self._further_losses = np.zeros((2, len(sessions)), np.float32)
        self.bindings = [self._bound(bind, share, self._losses) for share in range(len(sessions))]
        self._further: dict[int, Binding] = {}

    def run(
        self,
        feeds: Mapping[str, Array],
        *,
        rows: int,
        scale: float,
        weights: Array | None = None,
    ) -> tuple[float, int]:
        """The loss of the batch, and the number of shares that it was split into.

        scale: factor on the sum of the rows' losses. weights: one factor for each row.
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
            binding, cuts = self.bindings[share], self._cuts(last - first)
            _feed(binding, feeds, first, first + cuts[0][1])
            one = len(cuts) == 1
            calls.append(binding.run if one else partial(self._run_all, share, feeds, first, cuts))
        self._crew.run(calls)
        if self._once is not None:
            self._once.after(len(parts))
        if weights is not None:
            for binding in (*self.bindings, *self._further.values()):
                binding.read(LOSS_SCALE, self._scale)
        return sum(self._losses[: len(parts)].tolist()), len(parts)

    @property
    def is_divided(self) -> bool:
        """Whether some of a step is run once for a batch."""
        return self._once is not None

    @property
    def takes_weights(self) -> bool:
        """Whether the loss takes a factor for each sample."""
        return self._scale.ndim > 0

    def _cuts(self, rows: int) -> Sequence[tuple[int, int]]:
        return edges(rows, 1 if self._pieces is None else ceil(rows / self._pieces.rows))

    def _run_all(
        self, share: int, feeds: Mapping[str, Array], first: int, cuts: Sequence[tuple[int, int]]
    ) -> None:
        assert self._pieces is not None
        self.bindings[share].run()
        if share not in self._further:
            self._further[share] = self._bound(self._pieces.bind, share, self._further_losses)
        binding = self._further[share]
        for start, end in cuts[1:]:
            _feed(binding, feeds, first + start, first + end)
            binding.run()
            self._losses[share] += self._further_losses[share]
            self._pieces.add(share)

    def _bound(self, bind: Bind, share: int, losses: Vector) -> Binding:
        binding = Binding(self.sessions[share])
        binding.read(LOSS_SCALE, self._scale)
        binding.write(LOSS, losses[share : share + 1].reshape(()))
        bind(binding, share)
        return binding


def _feed(binding: Binding, feeds: Mapping[str, Array], first: int, last: int) -> None:
    for name, array in feeds.items():
        binding.read(name, array[first:last])


def scale_rank(session: Any) -> int:
    """The number of axes of the factor on the losses."""
    shapes = {each.name: each.shape for each in session.get_inputs()}
    return len(shapes.get(LOSS_SCALE, ()))
