"""The model's inputs and its labels."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from service.preprocess.checks import WrongDescription
from service.preprocess.text_inputs import DEFAULT_TOKENS, IDS, MOST_TOKENS, ids_of, roles_of
from service.training.errors import GraphRefused, refusal, refuse
from service.training.forward import trial
from service.training.forward.graph import TOKENS, Graph, Lengths, dtype_name, is_default
from service.training.graph.flow import moving
from service.training.tasks import TASKS, losses
from storage.errors import Problem, pointer
from storage.records.signatures import TargetSpec, TensorSpec

OPTIMIZERS = ("adamw", "sgd")
PLACE = "/spec/preprocess"
FOR_TEXTS = (
    f'for texts instead of the ids in "{IDS}", register it with spec.preprocess {{"kind": "text"}}'
    " and its tokenizer.json"
)
SHORTEST = 2
"""Tokens of the longest text."""
INPUT_DTYPES = frozenset(
    ("float32", "float64", "int64", "int32", "int16", "int8", "uint8", "uint16", "bool")
)


def free_lengths(graph: Graph, description: Mapping[str, Any]) -> str:
    """Name axis 1 of the inputs that a text feeds, unless it is fixed. Raises GraphRefused.

    Returns the input that takes the ids.
    """
    names = [value.name for value in graph.inputs]
    try:
        feeds = roles_of(description, names)
        fed = [ids_of(description, names), *feeds.values()]
    except WrongDescription as error:
        raise refuse(f"{PLACE}{error.pointer}", error.detail) from None
    sizes = {name: dims[1] for name in fed if (dims := graph.dims(name)) and len(dims) == 2}
    if len(sizes) < len(fed):
        name = next(name for name in fed if name not in sizes)
        detail = f'input "{name}" has not the shape [batch, tokens], which a text feeds'
        raise refuse(pointer("model", "graph", "input", name), detail)
    masks = frozenset(name for role, name in feeds.items() if role == "attention_mask")
    if None not in sizes.values():
        graph.lengths = Lengths(next(iter(sizes.values())) or 1, frozenset(), masks)
        return fed[0]
    fixed = next((name for name, size in sizes.items() if size is not None), None)
    if fixed is not None:
        detail = f'axis 1 of input "{fixed}" is fixed, and that of others is not; export all alike'
        raise refuse(pointer("model", "graph", "input", fixed, "shape", 1), detail)
    chosen = description.get("max_tokens")
    tokens = _usual_tokens(graph, feeds.get("position_ids")) if chosen is None else chosen
    if type(tokens) is not int or not SHORTEST <= tokens <= MOST_TOKENS:
        detail = f"max_tokens is an integer from {SHORTEST} to {MOST_TOKENS}"
        raise refuse(f"{PLACE}/max_tokens", detail)
    for value in graph.inputs:
        value.type.tensor_type.shape.dim[1].Clear()
        value.type.tensor_type.shape.dim[1].dim_param = TOKENS
    graph.lengths = Lengths(tokens, frozenset(fed), masks, is_chosen=chosen is not None)
    graph.refresh()
    return fed[0]


def check_ids(graph: Graph, ids: str | None, output: str) -> None:
    """Raises GraphRefused if the output does not depend on the ids, but on their shape at most.

    ids: the input that takes them; None if none does.
    """
    if ids is None:
        return
    computing = [node for node in graph.proto.node if not is_default(node, "Shape", "Size")]
    if output not in moving(computing, [ids]):
        raise refuse(
            pointer("model", "graph", "input", ids),
            f'"{output}" does not depend on the ids in "{ids}"; give torch.onnx.export a tensor of '
            "its own for each input: of one that is passed twice it makes one input",
        )


def _usual_tokens(graph: Graph, places: str | None) -> int:
    """As many as the table of positions has rows, at most the default. places: that input."""
    rows = SHORTEST if places is None else trial.table_size(graph, places)
    return DEFAULT_TOKENS if rows <= SHORTEST else min(DEFAULT_TOKENS, rows)


def takes_ids(graph: Graph) -> bool:
    """Whether an input has the name and the shape of token ids."""
    return any(value.name == IDS for value in graph.inputs) and len(graph.dims(IDS) or ()) == 2


def shorten(graph: Graph, notes: list[str]) -> bool:
    """Take the longest texts that the graph runs, such as its positions allow, instead of the
    default; False if somebody chose the length, or if it runs none.
    """
    lengths = graph.lengths
    if lengths is None or lengths.is_chosen or not lengths.inputs:
        return False
    model = trial.inference_form(graph.model)

    def fails(tokens: int) -> bool:
        try:
            trial.run(model, [trial.draw(graph, 2, tokens=tokens)])
        except GraphRefused:
            return True
        return False

    longest = SHORTEST - 1 + bisect(range(SHORTEST, lengths.tokens), False, key=fails)
    if longest < SHORTEST:
        return False
    graph.lengths = replace(lengths, tokens=longest, is_chosen=True)
    notes.append(f"texts have at most {longest} tokens: the model does not run on longer ones")
    return True


def input_specs(graph: Graph, names: Sequence[str]) -> tuple[TensorSpec, ...]:
    """These inputs without their batch axis. Raises GraphRefused with all problems."""
    problems = [problem for name in names for problem in _input_problems(graph, name)]
    if not names:
        problems.append(Problem("/model/graph/input", "the graph has no input to train on"))
    if problems:
        raise refusal(problems)
    return tuple(_spec(graph, name) for name in names)


def _spec(graph: Graph, name: str) -> TensorSpec:
    dims = graph.dims(name)
    assert dims is not None
    tokens = graph.lengths.tokens if graph.lengths else 0
    return TensorSpec(
        name, dtype_name(graph.elem_type(name)), tuple(size or tokens for size in dims[1:])
    )


def _input_problems(graph: Graph, name: str) -> list[Problem]:
    place = pointer("model", "graph", "input", name)
    dims = graph.dims(name)
    dtype = dtype_name(graph.elem_type(name))
    problems = []
    if dtype not in INPUT_DTYPES:
        known = ", ".join(sorted(INPUT_DTYPES))
        detail = (
            f'input "{name}" is {dtype}; inputs may be {known}: a Cast of one gives other types'
        )
        problems.append(Problem(place, detail))
    if not dims:
        problems.append(Problem(place, f'input "{name}" has no batch axis; axis 0 must be it'))
        return problems
    problems += [
        Problem(
            f"{place}/shape/{axis}",
            f'axis {axis} of input "{name}" is not fixed; export it with a fixed size, '
            "or say it in spec.preprocess, as the size of images or the length of windows: "
            "only axis 0, the batch, may be dynamic, and that of the tokens of a text"
            + (f"; {FOR_TEXTS}" if takes_ids(graph) else ""),
        )
        for axis, size in enumerate(dims)
        if axis and size is None and not (graph.lengths and name in graph.lengths.inputs)
    ]
    return problems


def target_spec(
    loss: str,
    output_shape: Sequence[int],
    classes: tuple[str, ...] | None,
    inputs: Sequence[TensorSpec] = (),
) -> TargetSpec:
    """The label's description.

    output_shape: of one row. inputs: of the forward model. Raises GraphRefused if the loss does not
    fit.
    """
    task = TASKS[loss]
    if classes is not None and not task.takes_class_names:
        others = losses(lambda of_loss: of_loss.takes_class_names)
        raise refuse("/spec/classes", f"loss {loss} has no classes; drop them or train {others}")
    task.check_inputs([spec.shape for spec in inputs], tuple(output_shape))
    return task.target_spec(output_shape, classes)


def measured_output_shape(graph: Graph, output: str) -> tuple[int, ...]:
    """Shape of one row of the output, found by running two rows, of the longest texts if any."""
    try:
        value = trial.run(trial.inference_form(graph.model), [trial.draw(graph, 2)])[0]
    except GraphRefused as error:
        if graph.lengths is None or not graph.lengths.inputs:
            raise
        reason = error.problems[0].detail
        detail = f"it does not run on {graph.lengths.tokens} tokens, give fewer: {reason}"
        raise refuse(f"{PLACE}/max_tokens", detail) from None
    kind = getattr(value, "dtype", "no tensor")
    if kind != np.float32:
        raise refuse("/spec/output", f'output "{output}" is {kind}, it must be float32')
    if value.ndim == 0 or value.shape[0] != 2:
        raise refuse(
            "/spec/output",
            f'axis 0 of "{output}" is not the batch: two rows in gave shape {list(value.shape)}; '
            "name a tensor with one row a sample",
        )
    return tuple(value.shape[1:])


def check_length(graph: Graph, output: str, loss: str) -> None:
    """Raises GraphRefused if the output is as long as its text, and the loss takes one size."""
    known = graph.measured.get(output)
    axes = () if known is None else known.type.tensor_type.shape.dim
    if not TASKS[loss].labels_tokens and any(axis.dim_param == TOKENS for axis in axes):
        of_tokens = losses(lambda of_loss: of_loss.labels_tokens)
        raise refuse(
            "/spec/loss",
            f'"{output}" has a row for each token of a text, and loss {loss} takes as many numbers '
            "of every text; export the first token's or the mean, as Hugging Face's models "
            f"ForSequenceClassification give, or choose {of_tokens}",
        )


def check_last_operator(graph: Graph, output: str, loss: str) -> None:
    """Raises GraphRefused if the loss would repeat the graph's last operator."""
    node = graph.producer(graph.origin(output, "Identity", "Squeeze", "Reshape", "Flatten"))
    if node is None or not is_default(node, *dict(TASKS[loss].last_operators)):
        return
    raise refuse(
        pointer("model", "graph", "node", node.name),
        f'node "{node.name}" ({node.op_type}) ends the graph and loss {loss} applies it again; '
        f'export the logits, or name the tensor before it as output: "{node.input[0]}"',
    )


def specification_problems(loss: str, optimizer: str) -> list[Problem]:
    """Unknown names of loss and optimizer."""
    problems = []
    if loss not in TASKS:
        problems.append(Problem("/spec/loss", f'no loss "{loss}"; choose {", ".join(TASKS)}'))
    if optimizer not in OPTIMIZERS:
        known = ", ".join(OPTIMIZERS)
        problems.append(Problem("/spec/optimizer", f'no optimizer "{optimizer}"; choose {known}'))
    return problems
