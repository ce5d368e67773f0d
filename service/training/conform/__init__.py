"""Conforms a forward graph to what the engine's gradient builder can do.

The result computes the same as what was uploaded, which is checked by running both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import onnx

from service.training.conform import (
    batch_axis,
    batch_normalization,
    directions,
    dropout,
    layer_normalization,
    pooling,
    recurrent,
    rewrite,
    signature,
    split,
    trainable,
    trial,
    verdict,
)
from service.training.conform.draft import Draft
from service.training.conform.errors import refusal, refuse
from service.training.conform.graph import FLOAT, Graph
from service.training.conform.normalize import normalize, select_output
from service.training.conform.reach import keep_reached
from service.training.errors import GraphRefused
from storage.errors import Problem
from storage.records import Signature

__all__ = ["Conformed", "conform"]

Result = TypeVar("Result")

PASSES: tuple[Callable[[Draft], None], ...] = (
    dropout.mend,
    batch_normalization.mend,
    pooling.mend,
    rewrite.mend,
    layer_normalization.mend,
    split.mend,
    directions.mend,
    recurrent.mend,
    verdict.judge,
)
"""In this order: what a pass writes, later ones may mend."""

RELATIVE_TOLERANCE = 1e-5
"""Of the largest output; float32 has 1.2e-7, and a deep net adds up rounding."""


@dataclass(frozen=True, slots=True)
class Conformed:
    """A graph that trains. frozen: float32 parameters that do not, statistics included."""

    model: onnx.ModelProto
    output: str
    signature: Signature
    trainable: tuple[str, ...]
    frozen: tuple[str, ...]
    trainable_parameters: int
    frozen_parameters: int
    notes: tuple[str, ...]


def conform(
    uploaded: onnx.ModelProto,
    *,
    loss: str,
    output: str | None = None,
    patterns: Sequence[str] | None = None,
    classes: tuple[str, ...] | None = None,
) -> Conformed:
    """Mend what can be mended. Raises GraphRefused with every cause that is left."""
    notes: list[str] = []
    graph = normalize(uploaded, notes)
    output = select_output(graph, output, notes)
    batch_axis.release(graph, notes)
    inputs = signature.input_specs(graph, [value.name for value in graph.inputs])
    trial.measure(graph)
    row = signature.measured_output_shape(graph, output)
    problems: list[Problem] = []
    target = _gather(problems, lambda: signature.target_spec(loss, row, classes))
    _gather(problems, lambda: signature.check_last_operator(graph, output, loss))
    chosen = _gather(problems, lambda: trainable.select(graph, patterns)) or ()
    names, stopped = keep_reached(graph, chosen, patterns) if chosen else ((), [])
    problems += stopped
    problems += _mend(graph, names, notes).problems
    if problems or target is None:
        raise refusal(problems)
    _settle(graph, output, row)
    return _conformed(graph, Signature(inputs, target), names, notes)


def _settle(graph: Graph, output: str, row: Sequence[int]) -> None:
    value = onnx.helper.make_tensor_value_info(output, FLOAT, [batch_axis.BATCH, *row])
    graph.proto.output[0].CopyFrom(value)
    graph.drop_unread()


def _conformed(
    graph: Graph, read: Signature, names: tuple[str, ...], notes: Sequence[str]
) -> Conformed:
    frozen = _frozen(graph, names)
    return Conformed(
        model=graph.model,
        output=graph.outputs[0],
        signature=read,
        trainable=names,
        frozen=frozen,
        trainable_parameters=_scalars(graph, names),
        frozen_parameters=_scalars(graph, frozen),
        notes=tuple(notes),
    )


def _gather(problems: list[Problem], check: Callable[[], Result]) -> Result | None:
    try:
        return check()
    except GraphRefused as error:
        problems.extend(error.problems)
        return None


def _mend(graph: Graph, names: tuple[str, ...], notes: list[str]) -> Draft:
    before = trial.inference_form(graph.model)
    draft = Draft(graph, names, notes)
    for mend in PASSES:
        mend(draft)
    if not draft.problems:
        _compare(before, graph)
    return draft


def _compare(before: onnx.ModelProto, graph: Graph) -> None:
    """Raises GraphRefused if a mend has changed what the graph computes."""
    feeds = [
        trial.draw(graph, rows, seed=rows, flag=flag) for rows in (1, 3) for flag in (True, False)
    ]
    expected = trial.run(before, feeds)
    found = trial.run(trial.inference_form(graph.model), feeds)
    for want, got in zip(expected, found, strict=True):
        limit = RELATIVE_TOLERANCE * float(np.nanmax(np.abs(want), initial=0.0)) + 1e-7
        if want.shape != got.shape or not np.allclose(want, got, 0.0, limit, equal_nan=True):
            raise refuse(
                "/model/graph",
                "the mended graph does not compute what the uploaded one does "
                "for the same inputs; please report this model, nothing was registered",
            )


def _frozen(graph: Graph, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        name
        for name, tensor in graph.initializers.items()
        if tensor.data_type == FLOAT
        and tensor.dims
        and name not in names
        and (trainable.is_weight(graph, name) or trainable.is_statistic(graph, name))
    )


def _scalars(graph: Graph, names: Sequence[str]) -> int:
    return sum(int(np.prod(graph.initializers[name].dims)) for name in names)
