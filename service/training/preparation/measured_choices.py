"""Measures the forms of a step's largest convolutions on this processor, where rules only guess.

Each form is timed as the step of a model with this convolution alone: forward, and both gradients.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from msgspec.structs import replace
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from service.training.engines.runtime import LOAD_ERRORS, check_memory, open_session
from service.training.engines.sessions.binding import Binding
from service.training.graph.blocks.choices import Choices, Convolution
from service.training.graph.blocks.layout import BlockLayout
from service.training.graph.step import StepModel, build_step
from service.training.loss import Loss
from service.training.tasks import FITS_ALL

logger = logging.getLogger(__name__)

BUDGET_S = 1.0
"""Of a registration."""
LEAST_WORK = 1 << 22
"""Multiplications for a sample, of all convolutions of one shape. Less is not measured."""
CLEARLY = 0.9
"""Part of the guess's time that another form must keep below. Minima of six runs on a busy machine
differed by up to 4 %."""
HOPELESS = 1.05
"""Times the guess's time from which a form is not run again."""
LEAST_SHARE = 0.05
"""Of the multiplications of all convolutions."""
ROUNDS = 6
ONCE = 0.5
"""Runs of what a batch takes once, for each run of the rest: for 16 samples on two threads."""
NOTE = "faster on this device than what rules guess: {1} for {0}"
CLOCK = time.thread_time if hasattr(time, "pthread_getcpuclockid") else time.perf_counter
"""Other processes do not count. On Windows a thread's time has steps of 16 ms."""


def measure(layout: BlockLayout, *, budget_s: float) -> bool:
    """Whether `layout.choices`, which a graph was built with, now has other forms than guessed.

    Largest convolutions first; no run begins after the budget.
    """
    works = {conv: conv.work * n for conv, n in layout.choices.convolutions.items()}
    least = max(LEAST_WORK, LEAST_SHARE * sum(works.values()))
    end = time.perf_counter() + budget_s
    try:
        for work in sorted(works, key=lambda convolution: -works[convolution]):
            if works[work] < least or time.perf_counter() >= end:
                break
            if not _measure(work, layout, end):
                break
    except (RuntimeError, *LOAD_ERRORS) as error:
        check_memory(error)
        logger.warning("choices_not_measured error=%s", error)
    return bool(layout.choices.made)


def _measure(convolution: Convolution, layout: BlockLayout, end: float) -> bool:
    """Choose what a convolution asks. Returns whether there was time."""
    chosen, asked = layout.choices.made, layout.choices.asked
    guess = _Candidate(convolution, layout, {})
    answers: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for question, (_, forms) in guess.asked.items():
        for form in forms if question in asked and question not in chosen else ():
            answers[form][question] = form
    others: list[_Candidate] = []
    for answer in answers.values():
        if time.perf_counter() > end:
            return False
        others.append(_Candidate(convolution, layout, answer))
    for _ in range(ROUNDS):
        for candidate in (guess, *others) if others else ():
            if time.perf_counter() > end:
                return False
            candidate.run()
        others = [other for other in others if other.seconds < HOPELESS * guess.seconds]
    best = min(others, key=lambda other: other.seconds, default=guess)
    if best.seconds < CLEARLY * guess.seconds:
        chosen.update(best.answers)
    return True


class _Candidate:
    """A convolution's step. answers: to questions that are open. seconds: of its fastest run."""

    def __init__(
        self, convolution: Convolution, layout: BlockLayout, answers: Mapping[str, str]
    ) -> None:
        choices = Choices({**layout.choices.made, **answers})
        self.answers = answers
        step = _step(convolution, replace(layout, choices=choices))
        self.asked = choices.asked
        self.seconds = float("inf")
        self._runs: list[tuple[Binding, float]] = []
        known: dict[str, NDArray[Any]] = {}
        once = step.once
        parts = [(step.model, 1.0)]
        if once is not None:
            parts = [(once.before, ONCE), *parts, (once.after, ONCE)]
        for model, share in parts:
            if model.graph.output:
                self._runs.append((_bound(model, layout.rows, known), share))
        self.run()

    def run(self) -> None:
        total = 0.0
        for binding, share in self._runs:
            began = CLOCK()
            binding.run()
            total += share * (CLOCK() - began)
        self.seconds = min(self.seconds, total)


def _bound(model: onnx.ModelProto, rows: int, known: dict[str, NDArray[Any]]) -> Binding:
    """A session on arrays, which it reads by name from those before."""
    session = open_session(model.SerializeToString(), threads=1, pattern=False, reuse=False)
    binding = Binding(session)
    for name, sizes in binding.inputs.items():
        if name not in known:
            shape = [size if isinstance(size, int) else rows for size in sizes]
            known[name] = np.full(shape, 0.1, np.float32)
        binding.read(name, known[name])
    grows = []
    for value in session.get_outputs():
        if all(isinstance(size, int) for size in value.shape):
            known[value.name] = np.zeros(value.shape, np.float32)
            binding.write(value.name, known[value.name])
        else:
            grows.append(value.name)
            binding.allocate(value.name)
    if grows:  # with the samples; how much, a run shows
        binding.run()
        for name in grows:
            known[name] = binding.output(name)
            binding.write(name, known[name])
    return binding


def _step(convolution: Convolution, layout: BlockLayout) -> StepModel:
    """Between a cheap operator in blocks, through which its gradient goes on, and another."""
    own = convolution
    ones = [1] * len(own.kernel)
    shapes = {"w": [own.outs, own.ins // own.groups, *own.kernel], "b": [own.outs]}
    nodes = []
    if not own.of_input:
        shapes["before"] = [own.ins, 1, *ones]
        nodes.append(helper.make_node("Conv", ["x", "before"], ["read"], group=own.ins))
    attributes = {name: getattr(own, name) for name in ("strides", "pads", "dilations")}
    read = ["x" if own.of_input else "read", "w", "b"]
    nodes += [
        helper.make_node("Conv", read, ["y"], group=own.groups, **attributes),
        helper.make_node("Relu", ["y"], ["above"]),
        helper.make_node("GlobalAveragePool", ["above"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["output"]),
    ]
    graph = helper.make_graph(
        nodes,
        "convolution",
        [_value("x", ["batch", own.ins, *own.places])],
        [_value("output", ["batch", own.outs])],
        [numpy_helper.from_array(np.full(s, 0.1, np.float32), name) for name, s in shapes.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return build_step(model, loss=Loss(FITS_ALL), parameters=list(shapes), layout=layout)


def _value(name: str, shape: list[str | int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
