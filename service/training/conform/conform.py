"""All passes over a model, in their order, and the proof that it still computes the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import onnx

from service.training.conform import (
    batch_normalization,
    directions,
    dropout,
    gather,
    layer_normalization,
    pooling,
    recurrent,
    rewrite,
    split,
    verdict,
)
from service.training.conform.draft import Draft
from service.training.errors import GraphRefused, refusal, refuse
from service.training.forward import (
    batch_axis,
    inventory,
    partition,
    refusals,
    signature,
    trainable,
    transposes,
    trial,
    untrained,
    worth,
)
from service.training.forward.frontier import Whole
from service.training.forward.graph import FLOAT, Graph
from service.training.forward.normalize import normalize, select_output
from service.training.forward.reach import keep_reached
from service.training.forward.reading import ForwardModel
from service.training.protocol.messages.preparation import Cut
from storage.errors import Problem
from storage.records.signatures import Signature

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


def conform(
    uploaded: onnx.ModelProto,
    *,
    loss: str,
    output: str | None = None,
    patterns: Sequence[str] | None = None,
    classes: tuple[str, ...] | None = None,
    divide: bool = False,
) -> ForwardModel:
    """Mend what can be mended. Raises GraphRefused with every cause that is left.

    divide: cut off what is frozen below the chosen parameters, where that pays or the engine cannot
    train beside it.
    """
    notes: list[str] = []
    graph, output = _normalized(uploaded, output, notes)
    inputs = signature.input_specs(graph, [value.name for value in graph.inputs])
    trial.measure(graph)
    transposes.spell_out(graph)
    row = signature.measured_output_shape(graph, output)
    problems = refusals.draws(graph)
    target = _gather(problems, lambda: signature.target_spec(loss, row, classes))
    _gather(problems, lambda: signature.check_last_operator(graph, output, loss))
    inert = untrained.find(graph)
    notes += signature.class_axis_note(loss, row)
    names, below = _chosen(graph, patterns, inert, problems=problems, notes=notes)
    halves, cut = None, None
    if divide and below and not problems:
        halves, cut = _divide(graph, names, notes)
    parameters = inventory.parameters(graph, names, halves, inert)
    if halves is not None and cut is not None and not _is_made(graph, halves, cut):
        halves = None
    problems += _mend(graph, halves, names, notes).problems
    if problems or target is None:
        raise refusal(problems)
    trained = graph if halves is None else halves.suffix
    _settle(trained, output, row)
    return ForwardModel(
        model=trained.model,
        output=output,
        signature=Signature(inputs, target),
        trainable=names,
        frozen=inventory.frozen(trained, names),
        trainable_parameters=inventory.scalars(trained, names),
        frozen_parameters=inventory.frozen_scalars(parameters),
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
    graph: Graph,
    patterns: Sequence[str] | None,
    inert: Sequence[untrained.Inert],
    *,
    problems: list[Problem],
    notes: list[str],
) -> tuple[tuple[str, ...], bool]:
    """The parameters that are to train, that the loss reaches; and may others lie below them?"""
    selected = _gather(problems, lambda: trainable.select(graph, patterns))
    if not selected:
        return (), False
    names, stopped = keep_reached(graph, selected, patterns, notes)
    problems += stopped
    if patterns is not None:
        notes += untrained.lone_biases(graph, names)
        return names, True
    notes += untrained.notes(inert)
    # Where every weight trains, what lies below the first is a few cheap operators.
    return names, len(names) < len(selected) or any(each.is_stuck for each in inert)


def _divide(
    graph: Graph, names: Sequence[str], notes: list[str]
) -> tuple[partition.Partition | None, Cut | None]:
    """Both halves, and the cut in figures, whether or not it is made."""
    try:
        halves = partition.divide(graph, names)
        cut = None if halves is None else worth.weigh(graph, halves)
    except Whole as reason:
        notes.append(f"not cut: {reason}")
        return None, None
    if halves is None or cut is None:
        return None, None
    notes.append(worth.sentence(cut, made=_is_made(graph, halves, cut)))
    return halves, cut


def _is_made(graph: Graph, halves: partition.Partition, cut: Cut) -> bool:
    """Does it pay, or lie nodes below with which the engine cannot train the whole graph?"""
    above = {node.name for node in halves.suffix.proto.node}
    return cut.pays or any(node.name not in above for node in verdict.engine_stops(graph))


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
    graph: Graph,
    halves: partition.Partition | None,
    names: tuple[str, ...],
    notes: list[str],
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
