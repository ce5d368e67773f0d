"""Conforms a forward graph to what the engine's gradient builder can do.

The result computes the same as what was uploaded, which is checked by running both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np
import onnx

from service.training.conform import (
    batch_axis,
    batch_normalization,
    directions,
    dropout,
    gather,
    layer_normalization,
    partition,
    pooling,
    recurrent,
    rewrite,
    signature,
    split,
    trainable,
    trial,
    verdict,
    worth,
)
from service.training.conform.draft import Draft
from service.training.conform.errors import refusal, refuse
from service.training.conform.graph import FLOAT, Graph
from service.training.conform.normalize import normalize, select_output
from service.training.conform.reach import keep_reached
from service.training.errors import GraphRefused
from service.training.messages import Cut, Parameter
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
    gather.mend,
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
    """A graph that trains. frozen: float32 parameters that do not, statistics included.

    prefix: what runs before `model`, once a sample, and gives its inputs; None if the graph is
    whole. cut: where it was cut, or would have been if that paid. frozen_parameters: on both sides.
    """

    model: onnx.ModelProto
    output: str
    signature: Signature
    trainable: tuple[str, ...]
    frozen: tuple[str, ...]
    trainable_parameters: int
    frozen_parameters: int
    notes: tuple[str, ...]
    parameters: tuple[Parameter, ...] = ()
    prefix: onnx.ModelProto | None = None
    cut: Cut | None = None


def conform(
    uploaded: onnx.ModelProto,
    *,
    loss: str,
    output: str | None = None,
    patterns: Sequence[str] | None = None,
    classes: tuple[str, ...] | None = None,
    divide: bool = False,
) -> Conformed:
    """Mend what can be mended. Raises GraphRefused with every cause that is left.

    divide: cut off what is frozen below the chosen parameters, where that pays.
    """
    notes: list[str] = []
    graph, output = _normalized(uploaded, output, notes)
    inputs = signature.input_specs(graph, [value.name for value in graph.inputs])
    trial.measure(graph)
    row = signature.measured_output_shape(graph, output)
    problems = verdict.draws(graph)
    target = _gather(problems, lambda: signature.target_spec(loss, row, classes))
    _gather(problems, lambda: signature.check_last_operator(graph, output, loss))
    names = _chosen(graph, patterns, problems)
    halves, cut = None, None
    # By default every weight trains: what lies below the first is a few cheap operators.
    if divide and patterns is not None and not problems:
        halves, cut = _divide(graph, names, notes)
    parameters = _parameters(graph, names, halves)
    if cut is not None and not cut.pays:
        halves = None
    problems += _mend(graph, halves, names, notes).problems
    if problems or target is None:
        raise refusal(problems)
    trained = graph if halves is None else halves.suffix
    _settle(trained, output, row)
    frozen = _frozen(trained, names)
    return Conformed(
        model=trained.model,
        output=output,
        signature=Signature(inputs, target),
        trainable=names,
        frozen=frozen,
        trainable_parameters=_scalars(trained, names),
        frozen_parameters=_frozen_scalars(parameters) if halves else _scalars(graph, frozen),
        notes=tuple(notes),
        parameters=parameters,
        prefix=None if halves is None else halves.prefix,
        cut=cut,
    )


def _normalized(
    uploaded: onnx.ModelProto, output: str | None, notes: list[str]
) -> tuple[Graph, str]:
    """The graph in the form that the passes read, of any batch size, and its one output."""
    graph = normalize(uploaded, notes)
    output = select_output(graph, output, notes)
    batch_axis.release(graph, notes)
    return graph, output


def _chosen(
    graph: Graph, patterns: Sequence[str] | None, problems: list[Problem]
) -> tuple[str, ...]:
    """The parameters that are to train, and that the loss reaches."""
    selected = _gather(problems, lambda: trainable.select(graph, patterns))
    if not selected:
        return ()
    names, stopped = keep_reached(graph, selected, patterns)
    problems += stopped
    return names


def _divide(
    graph: Graph, names: Sequence[str], notes: list[str]
) -> tuple[partition.Partition | None, Cut | None]:
    """Both halves, and the cut in figures, whether or not it pays."""
    halves = partition.divide(graph, names)
    cut = None if halves is None else worth.weigh(graph, halves)
    if cut is None:
        return None, None
    notes.append(worth.sentence(cut))
    return halves, cut


def _settle(graph: Graph, output: str, row: Sequence[int]) -> None:
    value = onnx.helper.make_tensor_value_info(output, FLOAT, [batch_axis.BATCH, *row])
    graph.proto.output[0].CopyFrom(value)
    graph.drop_unread()


def _gather(problems: list[Problem], check: Callable[[], Result]) -> Result | None:
    try:
        return check()
    except GraphRefused as error:
        problems.extend(error.problems)
        return None


def _mend(
    graph: Graph, halves: partition.Partition | None, names: tuple[str, ...], notes: list[str]
) -> Draft:
    """Run the passes over what trains, and compare with the whole before."""
    before = trial.inference_form(graph.model)
    draft = Draft(graph if halves is None else halves.suffix, names, notes)
    for mend in PASSES:
        mend(draft)
    if not draft.problems:
        feeds = [
            trial.draw(graph, rows, seed=rows, flag=flag)
            for rows in (1, 3)
            for flag in (True, False)
        ]
        expected = trial.run(before, feeds)
        own = feeds if halves is None else trial.run_named(halves.prefix, feeds)
        _compare(expected, trial.run(trial.inference_form(draft.graph.model), own))
    return draft


def _compare(expected: Sequence[trial.Array], found: Sequence[trial.Array]) -> None:
    """Raises GraphRefused if a mend has changed what the graph computes."""
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


def _parameters(
    graph: Graph, names: Sequence[str], halves: partition.Partition | None
) -> tuple[Parameter, ...]:
    above = graph.initializers if halves is None else halves.suffix.initializers
    chosen = {*names, *_frozen(graph, names)}
    return tuple(
        Parameter(name, tuple(tensor.dims), trains=name in names, below=name not in above)
        for name, tensor in graph.initializers.items()
        if name in chosen
    )


def _frozen_scalars(parameters: Sequence[Parameter]) -> int:
    return sum(prod(each.shape) for each in parameters if not each.trains)


def _scalars(graph: Graph, names: Sequence[str]) -> int:
    return sum(int(np.prod(graph.initializers[name].dims)) for name in names)
