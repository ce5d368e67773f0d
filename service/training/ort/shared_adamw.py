"""AdamW on several threads: the engine's own kernel, a share of the elements for each.

The kernel computes one element after the other, on one thread: 1.1 ns each, a third of the step of
an MLP with 670,000 parameters. Elements do not see each other, so the shares have the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.ort.helper import Helper
from service.training.ort.optimizer_state import OptimizerState
from service.training.ort.runtime import onnxruntime
from service.training.ort.sessions import session_options

Vector = NDArray[np.float32]
OPTIMIZER = "AdamWOptimizer"
INPUTS = {
    *("learning_rate", "step"),
    *("params", "gradients", "first_order_moments", "second_order_moments"),
}
MIN_SHARE = 1 << 17
"""Elements for whose sake a thread is woken, which takes as long as some 40,000 of them."""
HEAD_START = 45_000
"""Elements that the caller takes more than the others, which are not awake yet."""
PACKET = 16
"""Elements of the widest packet of any processor."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A parameter, its gradient and its moments, each flat and in place."""

    parameter: Vector
    gradient: Vector
    first: Vector
    second: Vector

    def part(self, start: int, stop: int) -> Trained:
        """Views of these elements."""
        whole = (self.parameter, self.gradient, self.first, self.second)
        return Trained(*(each[start:stop] for each in whole))


def is_adamw_alone(optimizer_model: onnx.ModelProto) -> bool:
    """Whether there is nothing beside it that looks at all gradients, as clipping by norm does."""
    graph = optimizer_model.graph
    names = {each.name for each in graph.input}
    return names == INPUTS and [node.op_type for node in graph.node] == [OPTIMIZER]


class SharedAdamW:
    """Moves parameters in place. path: the optimizer model."""

    def __init__(
        self, path: Path, trained: Mapping[str, Trained], *, steps: int, threads: int
    ) -> None:
        self._trained = trained
        self._number = np.array([steps + 1], np.int64)
        self._rate = np.zeros(1, np.float32)
        # One session serves all threads: a run keeps nothing in it.
        session = onnxruntime.InferenceSession(
            path, session_options(1), providers=["CPUExecutionProvider"]
        )
        output = [session.get_outputs()[0].name]
        shares = share_out(list(trained.values()), threads)
        # The engine looks at arrays where they lie, and the kernel writes where it reads. What
        # InferenceSession.run does first, it checks names, takes 5 to 9 µs each time (measured).
        run = session._sess.run
        self._runs = [partial(run, output, self._feeds(share), None) for share in shares]
        self._helpers = [Helper() for _ in shares[1:]]
        self._is_settled = True

    def step(self, learning_rate: float) -> None:
        """One step along the gradients. It is over when `settle` returns, and not before.

        The other threads wake late; what the caller does until then costs no time.
        """
        self.settle()
        self._rate[0] = learning_rate
        own, *others = self._runs
        self._is_settled = False
        for helper, run in zip(self._helpers, others, strict=True):
            helper.begin(run)
        own()

    def settle(self) -> None:
        """Wait for the other threads, if they are at a step."""
        if not self._is_settled:
            for helper in self._helpers:
                helper.wait()
            self._is_settled = True
            self._number += 1

    @property
    def state(self) -> OptimizerState:
        """Views of it, for a checkpoint; after `settle`."""
        moments = {name: (each.first, each.second) for name, each in self._trained.items()}
        return OptimizerState(int(self._number[0]) - 1, moments)

    def _feeds(self, share: Sequence[Trained]) -> dict[str, object]:
        return {
            "learning_rate": self._rate,
            "step": self._number,
            "params": [each.parameter for each in share],
            "gradients": [each.gradient for each in share],
            "first_order_moments": [each.first for each in share],
            "second_order_moments": [each.second for each in share],
        }


def share_out(trained: Sequence[Trained], threads: int) -> list[list[Trained]]:
    """A list for each thread that it is worth to wake, the caller's own first."""
    total = sum(len(each.parameter) for each in trained)
    count = max(1, min(threads, total // MIN_SHARE))
    head_start = HEAD_START if count > 1 else 0
    size = (total - head_start) // count
    ends = [head_start + size * number for number in range(1, count)] + [total]
    shares: list[list[Trained]] = []
    before = 0
    for end in ends:
        shares.append(_between(trained, before, end))
        before = end
    return shares


def _between(trained: Sequence[Trained], start: int, stop: int) -> list[Trained]:
    """The elements between these positions, counted through all parameters."""
    parts, at = [], 0
    for one in trained:
        size = len(one.parameter)
        first, last = (_whole_packets(edge - at, size) for edge in (start, stop))
        if first < last:
            parts.append(one.part(first, last))
        at += size
    return parts


def _whole_packets(edge: int, size: int) -> int:
    """An edge within a parameter where the kernel computes it in the same packets as ever.

    What does not fill one at the end it computes singly, with another square root.
    """
    return size if edge >= size else max(0, edge // PACKET * PACKET)
