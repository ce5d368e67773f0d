"""A batch shared out: sessions of one model, run at the same time on a part of the rows each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

import numpy as np

from service.training.engine import Array
from service.training.engines.manifest import Manifest
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.buffers import Vector, edges
from service.training.engines.sessions.crew import Call, Crew

LOSS, LOSS_SCALE = "hone.loss", "hone.loss_scale"
ELEMENTS_AT_ONCE = 1 << 24
"""What the nodes of a run may give. A row of the CNN in bench/ took one thread 361 µs in runs of
16, which give so many, and 454 in runs of 64, which the cache does not hold."""
MIN_ROWS = 4
"""Of a run: in smaller ones a row of MobileNetV2 takes a tenth longer."""


SMALL = 1 << 16
"""Elements of a row. A run of a smaller graph takes 2 µs less with a plan of its memory. For larger
ones the plan takes as much memory as the first run once more, and saves no time."""


def is_small(manifest: Manifest) -> bool:
    """Is a plan of a run's memory worth its room?"""
    return manifest.work.elements < SMALL


def rows_at_once(manifest: Manifest) -> int | None:
    """How many rows a run should take, None for any number.

    More where it gives less than its gradients, which are added up after each run.
    """
    elements = manifest.work.elements
    if manifest.batch_statistics or not elements:
        return None
    parameters = sum(each.size for each in manifest.parameters)
    return max(MIN_ROWS, ELEMENTS_AT_ONCE // elements, parameters // elements)


Bind = Callable[[Binding, int], None]
"""Binds what stays the same, given the number of the share."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """How a share of many rows is run piece by piece. rows: of a run, at most.

    bind: binds all runs but the first. add: adds the results of such a run to those of the first.
    """

    rows: int
    bind: Bind
    add: Callable[[int], None]


class Shares:
    """The runs of a step model or an eval model on batches.

    sessions: one for each share. pieces: None if each share is run at once.
    """

    def __init__(
        self, sessions: Sequence[Any], bind: Bind, *, crew: Crew, pieces: Pieces | None = None
    ) -> None:
        self.sessions = sessions
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
        """The loss of the batch, and how many shares it was enough for.

        scale: the factor on the sum of the rows' losses, and weights one for each of them.
        """
        self._scale[...] = scale
        if weights is not None:
            scales = (weights * np.float32(scale)).reshape(-1, *self._scale.shape[1:])
            feeds = {**feeds, LOSS_SCALE: scales}
        parts = edges(rows, len(self.bindings))
        calls: list[Call] = []
        for share, (first, last) in enumerate(parts):
            binding, cuts = self.bindings[share], self._cuts(last - first)
            _feed(binding, feeds, first, first + cuts[0][1])
            one = len(cuts) == 1
            calls.append(binding.run if one else partial(self._run_all, share, feeds, first, cuts))
        self._crew.run(calls)
        if weights is not None:
            for binding in (*self.bindings, *self._further.values()):
                binding.read(LOSS_SCALE, self._scale)
        return sum(self._losses[: len(parts)].tolist()), len(parts)

    @property
    def takes_weights(self) -> bool:
        """Whether the loss has a number for each sample."""
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
    """How many axes the factor on the losses has."""
    shapes = {each.name: each.shape for each in session.get_inputs()}
    return len(shapes.get(LOSS_SCALE, ()))
