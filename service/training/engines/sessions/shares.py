"""A batch shared out: one session, run at the same time on a part of the rows each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from service.training.engine import Array
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.buffers import edges
from service.training.engines.sessions.crew import Crew

LOSS, LOSS_SCALE = "hone.loss", "hone.loss_scale"


class Shares:
    """The runs of a step model or an eval model on batches.

    bind: binds what stays the same, given the number of the share. count: of shares at most.
    """

    def __init__(
        self, session: Any, bind: Callable[[Binding, int], None], *, count: int, crew: Crew
    ) -> None:
        self.session = session
        self._crew = crew
        self._scale = np.zeros((), np.float32)
        self._losses = np.zeros(count, np.float32)
        self.bindings = [Binding(session) for _ in range(count)]
        for number, binding in enumerate(self.bindings):
            binding.read(LOSS_SCALE, self._scale)
            binding.write(LOSS, self._losses[number : number + 1].reshape(()))
            bind(binding, number)

    def run(self, feeds: Mapping[str, Array], *, rows: int, scale: float) -> tuple[float, int]:
        """The loss of the batch, and how many shares it was enough for.

        scale: the factor on the sum of the rows' losses.
        """
        self._scale[...] = scale
        parts = edges(rows, len(self.bindings))
        working = self.bindings[: len(parts)]
        for binding, (first, last) in zip(working, parts, strict=True):
            for name, array in feeds.items():
                binding.read(name, array[first:last])
        self._crew.run([binding.run for binding in working])
        return sum(self._losses[: len(parts)].tolist()), len(parts)
