"""Reads a forward model: its signature, what of it trains, and where it is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import onnx

from service.training.errors import GraphRefused, refusal
from service.training.forward import (
    batch_axis,
    inventory,
    partition,
    reach,
    refusals,
    signature,
    trainable,
    trial,
    untrained,
    worth,
)
from service.training.forward.frontier import Whole
from service.training.forward.graph import FLOAT, Graph
from service.training.forward.normalize import normalize, select_output, spell_out
from service.training.protocol.messages.preparation import Cut, Parameter
from storage.errors import Problem
from storage.records.signatures import Signature, TensorSpec

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ForwardModel:
    """A graph that is to train. frozen: float32 parameters that do not, statistics included.

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


def read_forward(
    uploaded: onnx.ModelProto,
    *,
    loss: str,
    output: str | None = None,
    patterns: Sequence[str] | None = None,
    classes: tuple[str, ...] | None = None,
    divide: bool = False,
) -> ForwardModel:
    """The model in its normal form, cut in two where that was asked for and pays.

    patterns: names of the parameters that train, or globs over them; None for every weight.
    divide: cut off what is frozen below them. Raises GraphRefused with every cause.
    """
    notes: list[str] = []
    graph = normalize(uploaded, notes)
    output = select_output(graph, output, notes)
    read = _read(graph, output, loss=loss, patterns=patterns, classes=classes, notes=notes)
    names = read.trainable
    halves, cut = _divide(graph, names, notes) if divide and read.below else (None, None)
    parameters = inventory.parameters(graph, names, halves, read.inert)
    halves = halves if cut is not None and cut.pays else None
    trained = _settle(graph if halves is None else halves.suffix, output, read.row)
    return ForwardModel(
        model=trained.model,
        output=output,
        signature=read.signature,
        trainable=names,
        frozen=inventory.frozen(trained, names),
        trainable_parameters=inventory.scalars(trained, names),
        frozen_parameters=inventory.frozen_scalars(parameters),
        notes=tuple(notes),
        parameters=parameters,
        prefix=None if halves is None else halves.prefix,
        cut=cut,
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """What is known of a graph that can train. row: shape of one row of the output.

    below: may other parameters lie below the trainable ones?
    """

    signature: Signature
    row: tuple[int, ...]
    trainable: tuple[str, ...]
    below: bool
    inert: Sequence[untrained.Inert]


def _read(
    graph: Graph,
    output: str,
    *,
    loss: str,
    patterns: Sequence[str] | None,
    classes: tuple[str, ...] | None,
    notes: list[str],
) -> _Read:
    """Raises GraphRefused with every cause."""
    problems: list[Problem] = []
    target = None
    inputs, row = _shapes(graph, output, problems=problems, notes=notes)
    if row is not None:
        target = _gather(problems, lambda: signature.target_spec(loss, row, classes))
        notes += signature.class_axis_note(loss, row)
    problems += refusals.draws(graph)
    _gather(problems, lambda: signature.check_last_operator(graph, output, loss))
    inert = untrained.find(graph)
    names, below = _chosen(graph, patterns, inert, problems=problems, notes=notes)
    if problems or inputs is None or row is None or target is None:
        known = {each.pointer for each in problems}
        more = reach.blocked(graph, names, output, has_shapes=row is not None)
        raise refusal([*problems, *(each for each in more if each.pointer not in known)])
    return _Read(Signature(inputs, target), row, names, below, inert)


def _shapes(
    graph: Graph, output: str, *, problems: list[Problem], notes: list[str]
) -> tuple[tuple[TensorSpec, ...] | None, tuple[int, ...] | None]:
    """What goes in, and the shape of one row of the output; None where it cannot be told.

    The graph is then of any batch size, and knows the shapes of all tensors.
    """

    def measure() -> tuple[int, ...]:
        batch_axis.release(graph, notes)
        trial.measure(graph)
        spell_out(graph)
        return signature.measured_output_shape(graph, output)

    names = [value.name for value in graph.inputs]
    inputs = _gather(problems, lambda: signature.input_specs(graph, names))
    return inputs, None if inputs is None else _gather(problems, measure)


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
    names, stopped = reach.keep_reached(graph, selected, patterns, notes)
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
    if cut is None:
        return None, None
    notes.append(worth.sentence(cut))
    return halves, cut


def _settle(graph: Graph, output: str, row: Sequence[int]) -> Graph:
    """Declare the output with its shape, and drop what no node reads any more."""
    value = onnx.helper.make_tensor_value_info(output, FLOAT, [batch_axis.BATCH, *row])
    graph.proto.output[0].CopyFrom(value)
    graph.drop_unread()
    return graph


def _gather(problems: list[Problem], check: Callable[[], Result]) -> Result | None:
    try:
        return check()
    except GraphRefused as error:
        problems.extend(error.problems)
        return None
