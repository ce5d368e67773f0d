"""What a step computes once for a batch: tensors of its parameters alone, and their gradients."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from math import prod
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
NOTHING = np.zeros((0, 0), np.float32)


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


class Factors:
    """Factors of gradients, each with an axis that grows with the samples of a run, along which
    those of a batch are joined.
    """

    def __init__(self, sizes: Mapping[str, Sequence[int | str]], *, shares: int) -> None:
        """sizes: of what is fed; those with a size that is not a number are factors."""
        self.axes = {
            name: axis
            for name, shape in sizes.items()
            for axis, size in enumerate(shape)
            if not isinstance(size, int)
        }
        self._kept: list[list[dict[str, Array]]] = [[] for _ in range(shares)]

    def keep(self, share: int, binding: Binding) -> None:
        """Copy those of a share's run."""
        if self.axes:
            self._kept[share].append({name: binding.output(name) for name in self.axes})
            for name in self.axes:
                binding.allocate(name)

    def join(self, binding: Binding) -> None:
        """Feed those of all runs that were kept."""
        runs = [run for kept in self._kept for run in kept]
        for name, axis in self.axes.items():
            binding.read(name, np.concatenate([run.pop(name) for run in runs], axis))

    def clear(self, binding: Binding) -> None:
        """Free those of a batch; call it before the next, too, as runs may fail."""
        for kept in self._kept:
            kept.clear()
        for name in self.axes:
            binding.read(name, NOTHING)


class OncePerBatch:
    """`before` computes the weights that steps read, `made`, by name, and `after` the gradients of
    parameters from the sum of theirs and from factors. Weights and gradients are in the same
    memory, as far as they fit.

    parameters, gradients: by the names of inputs and outputs. flat: memory of the gradients.
    """

    def __init__(
        self,
        files: Files,
        parameters: Mapping[str, Array],
        gradients: Mapping[str, Array],
        flat: Vector,
        *,
        threads: int,
        shares: int,
        crew: Crew,
    ) -> None:
        assert files.weights_model is not None
        assert files.gradients_model is not None
        first, last = (
            open_session(path, threads=threads, is_optimized=True, pattern=False, reuse=False)
            for path in (files.weights_model, files.gradients_model)
        )
        self._crew, self._threads = crew, threads
        results = {
            value.name: gradients[value.name].reshape(value.shape) for value in last.get_outputs()
        }
        weights = {value.name: tuple(value.shape) for value in first.get_outputs()}
        self.made = rooms(weights, flat, results.values())
        sizes = {value.name: tuple(value.shape) for value in last.get_inputs()}
        own = {name: parameters[name] for name in sizes if name in parameters}
        self.factors = Factors(sizes, shares=shares)
        sums = {n: size for n, size in sizes.items() if n not in {*own, *self.factors.axes}}
        self.parts = [ShareParts(sums) for _ in range(shares)]
        self._before = _bound(first, parameters, self.made)
        self._after = _bound(last, {**own, **self.parts[0].views}, results)

    def before(self) -> None:
        """Compute what the step reads, from the parameters."""
        self.factors.clear(self._after)
        self._before.run()

    def after(self, shares: int) -> None:
        """Compute gradients from what the first shares gave."""
        self.factors.join(self._after)
        whole = self.parts[0].flat
        others = [part.flat for part in self.parts[1:shares]]
        if others:
            cuts = [slice(*edge) for edge in edges(whole.size, self._threads)]
            self._crew.run([partial(_add, whole[cut], [o[cut] for o in others]) for cut in cuts])
        self._after.run()
        self.factors.clear(self._after)
        self._crew.run([partial(part.flat.fill, 0) for part in self.parts[:shares]])


def _add(whole: Vector, others: Sequence[Vector]) -> None:
    for other in others:
        np.add(whole, other, out=whole)


def rooms(sizes: Sizes, flat: Vector, free: Collection[Array]) -> dict[str, Vector]:
    """Arrays of these sizes, the largest first, in free memory or, where none is left, in new.

    free: parts of the flat buffer, in any order. What lies between two of them is not free.
    """
    spans, arrays = _spans(flat, free), {}
    for name, shape in sorted(sizes.items(), key=lambda item: -prod(item[1])):
        count = prod(shape)
        at = next((n for n, span in enumerate(spans) if span.size >= count), None)
        room = aligned(count) if at is None else spans[at][:count]
        arrays[name] = room.reshape(shape)
        if at is not None:
            spans[at] = spans[at][-(-count // ALIGNMENT) * ALIGNMENT :]
    return arrays


def _spans(flat: Vector, parts: Collection[Array]) -> list[Vector]:
    """Parts of a buffer, joined where one begins as the last ends."""
    spans: list[list[int]] = []
    for view in sorted(parts, key=lambda part: part.ctypes.data):
        start = (view.ctypes.data - flat.ctypes.data) // flat.itemsize
        if spans and spans[-1][1] == start:
            spans[-1][1] += view.size
        else:
            spans.append([start, start + view.size])
    return [flat[start:end] for start, end in spans]


def _bound(session: Any, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Binding:
    binding = Binding(session)
    for value in session.get_inputs():
        if value.name in inputs:
            binding.read(value.name, inputs[value.name])
    for name, array in outputs.items():
        binding.write(name, array)
    return binding
