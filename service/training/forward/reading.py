"""Reads a forward model: its signature, its trainable part, and where it is cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeVar

import onnx
from msgspec import Struct

from service.training.adapters.branches import add_adapters
from service.training.engines.manifest import Adapter
from service.training.errors import GraphRefused, refusal
from service.training.forward import (
    batch_axis,
    own_loss,
    partition,
    reach,
    refusals,
    signature,
    trainable,
    trial,
    untrained,
    worth,
)
from service.training.forward.frontier import CannotCut
from service.training.forward.graph import BATCH, FLOAT, TOKENS, Graph
from service.training.forward.normalize import keep_outputs, normalize, select_output, spell_out
from service.training.protocol.messages.preparation import Cut, Lora, Parameter
from service.training.tasks import TASKS
from storage.errors import Problem
from storage.records.signatures import Signature, TargetSpec, TensorSpec

Result = TypeVar("Result")


class ForwardModel(Struct, frozen=True):
    """A graph to train. frozen: float32 parameters that do not train, including statistics. graph:
    computes its output, and its loss if the model has its own, named loss_output. prefix: runs
    before it, once per sample, and computes its inputs; None if the graph is whole. cut: where it
    was cut, or would have been if that paid off. frozen_parameters: on both sides. row: the shape
    of one row of the output, for the longest text.
    """

    graph: Graph
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
    loss_output: str | None = None
    adapters: tuple[Adapter, ...] = ()
    row: tuple[int, ...] = ()

    @property
    def has_free_lengths(self) -> bool:
        """Whether batches of texts may be of any length."""
        return self.graph.lengths is not None and bool(self.graph.lengths.inputs)

    def row_of(self, tokens: int) -> tuple[int, ...]:
        """The shape of one row of the output for texts of so many tokens."""
        dims = self.graph.proto.output[0].type.tensor_type.shape.dim[1:]
        free = [size.dim_param == TOKENS for size in dims]
        return tuple(tokens if is_free else n for is_free, n in zip(free, self.row, strict=True))

    @property
    def model(self) -> onnx.ModelProto:
        """With the shapes measured by a run, which another Graph of it would lose."""
        return self.graph.model

    @property
    def inference(self) -> onnx.ModelProto:
        """The model that training exports, with the uploaded weights and without the loss.

        Weights that only the loss reads stay: measuring the model needs them.
        """
        form = trial.inference_form(self.model)
        if self.loss_output is None:
            return form
        return own_loss.only(form, [self.output], leading_to=self.trainable)


def read_forward(
    uploaded: onnx.ModelProto,
    *,
    loss: str,
    loss_output: str | None = None,
    output: str | None = None,
    patterns: Sequence[str] | None = None,
    lora: Lora | None = None,
    classes: tuple[str, ...] | None = None,
    divide: bool = False,
    text: Mapping[str, Any] | None = None,
) -> ForwardModel:
    """The model in its normal form, cut in two if that was requested and pays off.

    patterns: names of the parameters that train, or globs over them; None for every weight.
    loss_output: the tensor that is the loss, if that is `output`. divide: cut off the frozen part
    below the parameters. text: describes what texts feed. Raises GraphRefused with every cause.
    """
    notes: list[str] = []
    graph, output = _open(uploaded, output, notes, loss=(loss_output, classes), text=text)
    adapters = () if lora is None else add_adapters(graph, lora, notes)
    added = [name for adapter in adapters for name in (adapter.left, adapter.right)]
    wanted = _Wanted(loss, loss_output, output, patterns, classes, added)
    read = _read(graph, wanted, notes)
    names = read.trainable
    halves, cut = _divide(graph, names, adapters, notes) if divide and read.below else (None, None)
    parameters = untrained.parameters(graph, names, halves, read.inert)
    halves = halves if cut and cut.pays else None
    trained = _settle(halves.suffix if halves else graph, wanted, read)
    return ForwardModel(
        graph=trained,
        output=output,
        signature=read.signature,
        trainable=names,
        frozen=untrained.frozen(trained, names),
        trainable_parameters=sum(prod(trained.initializers[name].dims) for name in names),
        frozen_parameters=sum(prod(each.shape) for each in parameters if not each.trains),
        notes=tuple(notes),
        parameters=parameters,
        prefix=halves.prefix if halves else None,
        cut=cut,
        loss_output=loss_output,
        adapters=adapters,
        row=read.row,
    )


def _open(
    uploaded: onnx.ModelProto,
    output: str | None,
    notes: list[str],
    *,
    loss: tuple[str | None, Sequence[str] | None],
    text: Mapping[str, Any] | None,
) -> tuple[Graph, str]:
    """The normal form that computes the trained tensor, and that tensor's name. loss: the tensor
    that is the loss, if one is, and the names of classes.
    """
    loss_output, classes = loss
    graph = normalize(uploaded, notes)
    ids = None if text is None else signature.free_lengths(graph, text)
    if ids is None and signature.takes_ids(graph):
        notes.append(signature.FOR_TEXTS)
    output = select_output(graph, output, notes, loss=loss_output)
    signature.check_ids(graph, ids, output)
    if loss_output is not None:
        own_loss.read_labels(graph.proto, output, classes or ())
        keep_outputs(graph, [output, loss_output], notes)  # an unread input is no label
    return graph, output


class _Wanted(Struct, frozen=True):
    """The spec's choices. adapters: names of added weights. end: where the gradient begins."""

    loss: str
    loss_output: str | None
    output: str
    patterns: Sequence[str] | None
    classes: tuple[str, ...] | None
    adapters: Sequence[str] = ()

    @property
    def end(self) -> str:
        return self.loss_output or self.output


class _Read(Struct, frozen=True):
    """The description of a trainable graph. row: shape of one row of the output.

    below: may there be other parameters below the trainable ones?
    """

    signature: Signature
    row: tuple[int, ...]
    trainable: tuple[str, ...]
    below: bool
    inert: Sequence[untrained.Inert]


def _read(graph: Graph, wanted: _Wanted, notes: list[str]) -> _Read:
    """Raises GraphRefused with every cause."""
    problems: list[Problem] = []
    target, of_samples = None, True
    inputs, row = _shapes(graph, wanted.output, problems=problems, notes=notes)
    if inputs is not None and row is not None:
        fed = inputs
        described = _gather(problems, lambda: _signature(graph, wanted, fed, row))
        inputs, target = described or (fed, None)
        notes += TASKS[wanted.loss].notes(row) if described else []
        if wanted.loss_output is not None:
            of_samples = bool(_gather(problems, lambda: own_loss.check_shape(graph, wanted.end)))
    problems += refusals.draws(graph)
    _gather(problems, lambda: signature.check_last_operator(graph, wanted.output, wanted.loss))
    inert = untrained.find(graph)
    names, below = _chosen(graph, wanted, inert, problems=problems, notes=notes)
    if problems or inputs is None or row is None or target is None:
        known = {problem.pointer for problem in problems}
        more = reach.blocked(graph, names, wanted.end, has_shapes=row is not None)
        raise refusal([*problems, *(problem for problem in more if problem.pointer not in known)])
    return _Read(Signature(inputs, target, of_samples), row, names, below, inert)


def _signature(
    graph: Graph, wanted: _Wanted, fed: tuple[TensorSpec, ...], row: tuple[int, ...]
) -> tuple[tuple[TensorSpec, ...], TargetSpec]:
    """The inputs that apps send, and the label. fed: all inputs. Raises GraphRefused."""
    if wanted.loss_output is None:
        signature.check_length(graph, wanted.output, wanted.loss)
        return fed, signature.target_spec(wanted.loss, row, wanted.classes, fed)
    leading = own_loss.inputs_of(graph.proto, wanted.output)
    labels = [spec for spec in fed if spec.name not in leading]
    target = own_loss.target_spec(labels, wanted.classes)
    return tuple(spec for spec in fed if spec.name in leading), target


def _shapes(
    graph: Graph, output: str, *, problems: list[Problem], notes: list[str]
) -> tuple[tuple[TensorSpec, ...] | None, tuple[int, ...] | None]:
    """The inputs, and the shape of one row of the output; None if unknown.

    The graph is then of any batch size, and knows the shapes of all tensors.
    """

    def measure() -> tuple[int, ...]:
        trial.measure(graph)
        spell_out(graph)
        return signature.measured_output_shape(graph, output)

    def measure_fitting() -> tuple[int, ...]:
        batch_axis.release(graph, notes)
        try:
            return measure()
        except GraphRefused:
            if not signature.shorten(graph, notes):
                raise
            return measure()

    names = [value.name for value in graph.inputs]
    if _gather(problems, lambda: signature.input_specs(graph, names)) is None:
        return None, None
    row = _gather(problems, measure_fitting)
    return signature.input_specs(graph, names), row


def _chosen(
    graph: Graph,
    wanted: _Wanted,
    inert: Sequence[untrained.Inert],
    *,
    problems: list[Problem],
    notes: list[str],
) -> tuple[tuple[str, ...], bool]:
    """The parameters to train that a gradient reaches; and may there be others below them?"""
    patterns = wanted.patterns
    if wanted.adapters:
        patterns = (*(patterns or ()), *wanted.adapters)
    selected = _gather(problems, lambda: trainable.select(graph, patterns))
    if not selected:
        return (), False
    names, stopped = reach.keep_reached(
        graph, selected, patterns, notes, end=wanted.end, through_quantized=bool(wanted.adapters)
    )
    problems += stopped
    if patterns is not None:
        notes += untrained.lone_biases(graph, names)
        return names, True
    notes += untrained.notes(inert)
    # If every weight trains, only a few cheap operators come before the first.
    return names, len(names) < len(selected) or any(parameter.is_stuck for parameter in inert)


def _divide(
    graph: Graph, names: Sequence[str], adapters: Sequence[Adapter], notes: list[str]
) -> tuple[partition.Partition | None, Cut | None]:
    """Both halves, and the cut in figures, whether or not it is made."""
    # Exported, such a weight has its adapter in it, and what reads it is none that can be kept.
    moving = (*names, *(adapter.weight for adapter in adapters if adapter.merges))
    try:
        halves = partition.divide(graph, moving)
        cut = None if halves is None else worth.weigh(graph, halves)
    except CannotCut as reason:
        notes.append(f"not cut: {reason}")
        return None, None
    if cut is None:
        return None, None
    notes.append(worth.sentence(cut))
    return halves, cut


def _settle(graph: Graph, wanted: _Wanted, read: _Read) -> Graph:
    """Declare output and loss with their shapes, and drop unused initializers."""
    shapes: dict[str, list[str | int]] = {wanted.output: [BATCH, *read.row]}
    if wanted.loss_output is not None:
        shapes[wanted.loss_output] = [BATCH] if read.signature.loss_of_samples else []
    if graph.lengths is not None and (known := graph.measured.get(wanted.output)) is not None:
        free = known.type.tensor_type.shape.dim
        shapes[wanted.output] = [dim.dim_param or dim.dim_value for dim in free]
    for place, (name, shape) in enumerate(shapes.items()):
        value = onnx.helper.make_tensor_value_info(name, FLOAT, shape)
        graph.proto.output[place].CopyFrom(value)
    graph.drop_unread()
    return graph


def _gather(problems: list[Problem], check: Callable[[], Result]) -> Result | None:
    try:
        return check()
    except GraphRefused as error:
        problems.extend(error.problems)
        return None
