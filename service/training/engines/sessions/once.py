"""What a step computes once for a batch: tensors of its parameters alone, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from service.training.engine import Array
from service.training.engines.manifest import Files
from service.training.engines.runtime import open_session
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.buffers import Vector, aligned, edges
from service.training.engines.sessions.crew import Crew
from service.training.optimizer.layout import ALIGNMENT

Sizes = Mapping[str, tuple[int, ...]]


class ShareParts:
    """Flat memory of the gradients that the step gives for one share of a batch."""

    def __init__(self, sizes: Sizes) -> None:
        counts = [int(np.prod(shape)) for shape in sizes.values()]
        starts = np.cumsum([0, *(-(-count // ALIGNMENT) * ALIGNMENT for count in counts)])
        self.flat = aligned(int(starts[-1]))
        self.views: dict[str, Vector] = {
            name: self.flat[start : start + count].reshape(shape)
            for (name, shape), start, count in zip(sizes.items(), starts, counts, strict=False)
        }


class OncePerBatch:
    """`before` computes the weights that steps read, `made`, by name, and `after` the gradients of
    parameters from the sum of theirs.

    parameters, gradients: by the names of inputs and outputs.
    """

    def __init__(
        self,
        files: Files,
        parameters: Mapping[str, Array],
        gradients: Mapping[str, Array],
        *,
        threads: int,
        shares: int,
        crew: Crew,
    ) -> None:
        assert files.weights_model is not None
        assert files.gradients_model is not None
        first, last = (
            open_session(path, threads=1, is_optimized=True, at_once=threads)
            for path in (files.weights_model, files.gradients_model)
        )
        self._crew, self._threads = crew, threads
        self.made = {each.name: _room(each.shape) for each in first.get_outputs()}
        inputs = {each.name: tuple(each.shape) for each in last.get_inputs()}
        sizes = {name: shape for name, shape in inputs.items() if name not in parameters}
        self.parts = [ShareParts(sizes) for _ in range(shares)]
        self._before = _bound(first, parameters, self.made)
        results = {each.name: gradients[each.name] for each in last.get_outputs()}
        own = {name: parameters[name] for name in inputs if name in parameters}
        self._after = _bound(last, {**own, **self.parts[0].views}, results)

    def before(self) -> None:
        """Compute what the step reads, from the parameters."""
        self._before.run()

    def after(self, shares: int) -> None:
        """Compute gradients from the sum of those of the first shares."""
        whole = self.parts[0].flat
        others = [each.flat for each in self.parts[1:shares]]
        if others:
            cuts = [slice(*each) for each in edges(whole.size, self._threads)]
            self._crew.run([partial(_add, whole[cut], [o[cut] for o in others]) for cut in cuts])
        self._after.run()
        self._crew.run([partial(each.flat.fill, 0) for each in self.parts[:shares]])


def _add(whole: Vector, others: Sequence[Vector]) -> None:
    for other in others:
        np.add(whole, other, out=whole)


def _room(shape: Sequence[int]) -> Vector:
    return aligned(int(np.prod(shape))).reshape(shape)


def _bound(session: Any, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Binding:
    binding = Binding(session)
    for each in session.get_inputs():
        binding.read(each.name, inputs[each.name])
    for name, array in outputs.items():
        binding.write(name, array)
    return binding
