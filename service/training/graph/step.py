"""A training step as one ONNX model: losses and gradients from inputs, targets and parameters."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx
from msgspec import Struct, field
from msgspec.structs import replace

from service.training.engines.manifest import Draw
from service.training.graph.blocks.layout import BlockLayout
from service.training.graph.blocks.rewriting import rewritten
from service.training.graph.builder import Builder
from service.training.graph.differentiate import backward
from service.training.graph.flow import subgraphs
from service.training.graph.gates import write_gelu
from service.training.graph.passes.modes import draw_dropout, use_batch_statistics
from service.training.graph.passes.prepare import prepare
from service.training.graph.passes.spatial_first import read_model
from service.training.graph.passes.weights_apart import divide
from service.training.graph.running_sums import with_running_sums
from service.training.graph.tensor import INT64, Shape, Tensor
from service.training.graph.writing import write
from service.training.loss import CLASS_VECTORS, LABEL_SCALE, LOSS, LOSS_SCALE, TEACHER, Loss
from service.training.tasks import TASKS
from service.training.tasks.loss_graph import LossAndGradient, LossInputs

SCALES = "hone.scales"
"""Name of the first axis of the scale: 1 or the batch."""
SEED = "hone.seed"
"""What is differentiated from, in place of the gradient of one of several losses."""
TARGET = "target"
OTHER_TARGET = "hone.target"
"""For models that have a tensor called that. Apps on phones feed artifacts by these names."""


class Once(Struct, frozen=True):
    """before: from the parameters to what the step is fed of them besides. after: from the sum of
    what the step gives besides loss and gradients, and the parameters, to the other gradients.
    """

    before: onnx.ModelProto
    after: onnx.ModelProto


class StepModel(Struct, frozen=True):
    """A step, and the metadata that an executor needs.

    model: its inputs are `inputs`, `target`, the scale, `random`, `parameters`, label tensors, the
    statistics of `updated` and `frozen`, its outputs the loss, `gradients` and the new statistics.
    updated: running statistic → the output that holds its new value.
    batch_statistics: a row's results depend on other rows, so it takes whole batches. once: what is
    run once for a batch. rows: how many it takes at most. by_class: by that form of the loss.
    choices: forms that both take instead of the guessed ones, by question.
    """

    model: onnx.ModelProto
    loss: Loss
    inputs: tuple[str, ...]
    target: str | None
    random: tuple[Draw, ...]
    parameters: tuple[str, ...]
    updated: dict[str, str]
    batch_statistics: bool
    frozen: tuple[str, ...] = ()
    once: Once | None = None
    rows: int | None = None
    by_class: StepModel | None = None
    choices: dict[str, str] = field(default_factory=dict)

    @property
    def scale_rank(self) -> int:
        """The number of axes of the factor on the losses; 0 if a batch has a single loss."""
        value = next(value for value in self.model.graph.input if value.name == LOSS_SCALE)
        return len(value.type.tensor_type.shape.dim)

    @property
    def adding_up(self) -> onnx.ModelProto:
        """The model, which adds each gradient to an input."""
        others = {LOSS, *self.updated.values()}
        names = [value.name for value in self.model.graph.output if value.name not in others]
        return with_running_sums(self.model, names)

    @property
    def gradients(self) -> tuple[str, ...]:
        """Names of the outputs, in the order of `parameters`."""
        return tuple(gradient_of(name) for name in self.parameters)


def gradient_of(parameter: str) -> str:
    """The name of a parameter's gradient."""
    return f"hone.gradient.{parameter}"


def build_step(
    model: onnx.ModelProto,
    *,
    loss: Loss,
    parameters: Sequence[str],
    output: str | None = None,
    batch_statistics: bool = False,
    frozen: Collection[str] = (),
    layout: BlockLayout | None = None,
    by_class: bool = False,
) -> StepModel:
    """The training step of a forward model.

    output: the tensor to compare, by default the only output. batch_statistics: BatchNormalization
    uses the batch's, and updates the running ones. frozen: initializers that become inputs. layout:
    of convolutions, by default ONNX's. by_class: with the step by that form of the loss. Raises
    GraphRefused with every node without a gradient.
    """
    output = output or model.graph.output[0].name
    form = _in_training(model, output, loss, parameters, batch_statistics=batch_statistics)
    graph = read_model(form.model) if layout is None else rewritten(form.model, layout)
    target = loss.target or _target_name(model)
    losses = [loss, replace(loss, by_class=True)] if by_class else [loss]
    ends = [_append_loss(graph, output, one, target) for one in losses]
    derived = _differentiate(graph, form, ends, parameters, of=loss.tensor or output)
    kept = tuple(name for name in frozen if name in graph.constants)
    steps = [
        StepModel(
            model=_written(graph, form, end, derived, kept),
            loss=variant,
            inputs=form.users,
            target=target if loss.target or target in (t.name for t in end[1]) else None,
            random=form.draws,
            parameters=tuple(parameters),
            updated=form.updated,
            frozen=kept,
            batch_statistics=bool(form.updated)
            or TASKS[variant.name].compares_samples
            or not end[0].gradient.shape,
            once=derived.once,
            rows=layout.rows if layout and graph.counts_rows else None,
        )
        for variant, end in zip(losses, ends, strict=True)
    ]
    return replace(steps[0], by_class=steps[1]) if by_class else steps[0]


class _Form(Struct, frozen=True):
    """A model whose Dropout and BatchNormalization train. users: its inputs but the target. draws,
    updated: as a step has them. rest: names of inputs that a step has besides.
    """

    model: onnx.ModelProto
    users: tuple[str, ...]
    draws: tuple[Draw, ...]
    updated: dict[str, str]
    rest: tuple[str, ...]


class _Derived(Struct, frozen=True):
    """seed: what is read as the gradient of the compared tensor. fixed: the inputs that parameters
    or their derivatives are. outputs: the step's besides its loss. once: what is run once.
    """

    seed: str
    fixed: Sequence[str]
    outputs: dict[str, Tensor]
    once: Once | None


End = tuple[LossAndGradient, Sequence[Tensor]]
"""A loss in a graph, and the inputs that it adds."""


def _written(
    graph: Builder, form: _Form, end: End, derived: _Derived, frozen: Sequence[str]
) -> onnx.ModelProto:
    compared, fed = end
    own = compared.gradient.name
    names = [*form.users, *(t.name for t in fed), *form.rest, *derived.fixed, *form.updated]
    return write(
        graph,
        form.model,
        inputs=names,
        frozen=frozen,
        outputs={LOSS: compared.loss, **derived.outputs},
        read_as={} if own == derived.seed else {derived.seed: own},
    )


def _differentiate(
    graph: Builder, form: _Form, ends: Sequence[End], parameters: Sequence[str], *, of: str
) -> _Derived:
    """Once, whatever the number of losses. of: the tensor that each of them compares."""
    seed = ends[0][0].gradient
    if len(ends) > 1:
        seed = graph.input(SEED, seed.dtype, seed.shape)
    updates = {name: graph.tensor(name) for name in form.updated.values()}
    if graph.layout is None:
        by_parameter = backward(graph, {of: seed}, parameters)
        gradients = {gradient_of(name): by_parameter[name] for name in parameters}
        return _Derived(seed.name, parameters, {**updates, **gradients}, None)
    fed = [*form.users, *(t.name for _, names in ends for t in names), *form.rest, seed.name]
    results = [end.loss.name for end, _ in ends] + [tensor.name for tensor in updates.values()]
    divided = divide(graph, {of: seed}, parameters, fed, results)
    once, fixed = None, parameters
    if divided.made:
        remade = {gradient_of(name): tensor for name, tensor in divided.remade.items()}
        once = Once(
            before=write(graph, form.model, inputs=parameters, outputs=divided.made),
            after=write(graph, form.model, inputs=[*parameters, *divided.parts], outputs=remade),
        )
        fixed = [*(name for name in parameters if name in divided.read), *divided.made]
        graph.rename(divided.made)
    direct = {gradient_of(name): tensor for name, tensor in divided.direct.items()}
    return _Derived(seed.name, fixed, {**updates, **divided.parts, **direct}, once)


def _in_training(
    model: onnx.ModelProto,
    output: str,
    loss: Loss,
    parameters: Sequence[str],
    *,
    batch_statistics: bool,
) -> _Form:
    """With Dropout masks from inputs, and optionally BatchNormalization by batch statistics."""
    moved = (*parameters, *loss.label_tensors)
    model = prepare(model, None if loss.tensor else output, training=True, parameters=moved)
    write_gelu(model, moved)
    users = tuple(v.name for v in model.graph.input if v.name != loss.target)
    model, draws = draw_dropout(model)
    updated: dict[str, str] = {}
    if batch_statistics:
        model, updated = use_batch_statistics(model)
    if draws or updated:
        model = prepare(model, parameters=moved)
    return _Form(model, users, draws, updated, (*(d.name for d in draws), *loss.label_tensors))


def build_evaluation(
    model: onnx.ModelProto,
    *,
    loss: Loss,
    parameters: Sequence[str],
    output: str | None = None,
    frozen: Sequence[str] = (),
) -> onnx.ModelProto:
    """The same inputs; the outputs are the loss and the compared tensor."""
    output = output or model.graph.output[0].name
    prepared = prepare(model, None if loss.tensor else output, parameters=parameters)
    users = [v.name for v in prepared.graph.input if v.name != loss.target]
    graph = Builder(prepared)
    compared, fed = _append_loss(graph, output, loss, _target_name(model))
    names = [*users, *(t.name for t in fed), *parameters]
    results = {LOSS: compared.loss, output: graph.tensor(output)}
    kept = [name for name in frozen if name in graph.constants]
    return write(graph, prepared, inputs=names, frozen=kept, outputs=results)


def differentiate(
    model: onnx.ModelProto, *, loss: str, parameters: Sequence[str]
) -> onnx.ModelProto:
    """A model that computes the sum of a tensor, and its gradient for each parameter."""
    prepared = prepare(model, loss, parameters=parameters)
    users = [v.name for v in prepared.graph.input if v.name not in parameters]
    graph = read_model(prepared)
    value = graph.tensor(loss)
    one = graph.numbers(1.0, value.dtype).expand_like(value)
    by_parameter = backward(graph, {loss: one}, parameters)
    results = {LOSS: value.sum()}
    results.update((gradient_of(name), by_parameter[name]) for name in parameters)
    return write(graph, prepared, inputs=[*users, *parameters], outputs=results)


def _target_name(model: onnx.ModelProto) -> str:
    """The name of the target, unless a tensor of the model has it."""
    return OTHER_TARGET if TARGET in _tensors(model.graph) else TARGET


def _tensors(graph: onnx.GraphProto) -> set[str]:
    names = {tensor.name for tensor in (*graph.input, *graph.initializer)}
    for node in graph.node:
        names.update(node.output, *(_tensors(inner) for inner in subgraphs(node)))
    return names


def _append_loss(
    graph: Builder, output: str, loss: Loss, target: str
) -> tuple[LossAndGradient, list[Tensor]]:
    """The loss, and the inputs that it adds to the graph. target: the name of the target's."""
    value = graph.tensor(loss.tensor or output)
    shape = value.shape
    assert shape is not None, f'the rank of "{value.name}" is not known'
    task = TASKS[loss.name]
    of_target = task.target_shape(loss, (graph.batch or "batch", *shape[1:]))
    compared = None
    if loss.target:
        compared = graph.tensor(loss.target)
    elif of_target is not None:
        compared = graph.input(
            target, INT64 if task.label_dtype == "int64" else value.dtype, of_target
        )
    of_samples: Shape = (SCALES, *[1] * (len(shape) - 1)) if shape else ()
    scale = graph.input(LOSS_SCALE, value.dtype, of_samples)
    vectors: list[Tensor] = []
    teacher: list[Tensor] = []
    if loss.by_class:
        classes = shape[loss.class_axis % len(shape)]
        vectors = [graph.input(name, value.dtype, (classes,)) for name in CLASS_VECTORS]
        teacher = [graph.input(TEACHER, value.dtype, shape)]
    labels = graph.tensor(LABEL_SCALE) if loss.scales_labels else None
    written = task.compare(loss, LossInputs(value, scale, compared, vectors, teacher, labels))
    return written, [*([] if compared is None else [compared]), scale, *vectors, *teacher]
