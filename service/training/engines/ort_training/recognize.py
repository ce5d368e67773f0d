"""Reads loss, output and signature from artifacts made by other tools."""

from __future__ import annotations

from collections.abc import Collection

import onnx
from msgspec import Struct

from service.training.errors import refusal, refuse
from service.training.forward.graph import Graph
from service.training.forward.signature import specification_problems
from service.training.graph.builder import STANDARD
from service.training.graph.flow import refill
from service.training.protocol.messages.preparation import Prepare
from service.training.tasks import TASKS
from storage.errors import Problem, pointer
from storage.records.models import OptimizerName

LOSS_NAME, OUTPUT_NAME = "hone.loss", "hone.output"
"""Metadata keys of our evaluation models: the loss, and the tensor it compares."""
_GRADIENT_INPUTS = (".accumulation.buffer", "lazy_reset_grad")
_OPTIMIZER_NODES: dict[str, OptimizerName] = {"AdamWOptimizer": "adamw", "SGDOptimizerV2": "sgd"}


class Recognized(Struct, frozen=True):
    """inputs: names in graph order. label: the last user input. output: what the loss reads.

    is_ours: whether `honed artifacts` wrote them.
    """

    inputs: tuple[str, ...]
    label: str
    loss: str
    output: str
    is_ours: bool


def recognize(eval_model: onnx.ModelProto, parameters: Collection[str]) -> Recognized:
    """Find the forward graph's end below the loss. Raises GraphRefused if it has another form."""
    graph = Graph(eval_model)
    fed = [value.name for value in graph.inputs if value.name not in parameters]
    fed = [name for name in fed if not name.endswith(_GRADIENT_INPUTS)]
    if len(fed) < 2:
        raise refuse(
            "/artifacts/eval_model.onnx",
            "the eval model takes no inputs and label beside its parameters; generate the "
            "artifacts with a loss",
        )
    *inputs, label = fed
    named = _named(eval_model)
    loss = named or _loss(graph, label)
    if loss is None:
        raise refuse(
            "/artifacts/eval_model.onnx",
            f'the loss on "{label}" is none that Hone knows; generate the artifacts with a '
            "LossType of onnxruntime.training",
        )
    return Recognized(tuple(inputs), label, *loss, is_ours=named is not None)


def check_order(
    known: Recognized, optimizer_model: onnx.ModelProto, task: Prepare
) -> OptimizerName:
    """The optimizer of the artifacts.

    Raises GraphRefused if the task names another loss or optimizer than the artifacts have.
    """
    operators = [node.op_type for node in optimizer_model.graph.node]
    kind = next((kind for name, kind in _OPTIMIZER_NODES.items() if name in operators), None)
    problems = specification_problems(task.loss, task.optimizer or kind or "adamw")
    if not problems and known.loss != task.loss:
        problems.append(
            Problem("/spec/loss", f"the artifacts compute {known.loss}; say loss: {known.loss}")
        )
    if kind is None:
        detail = "it holds no AdamWOptimizer and no SGDOptimizerV2; generate the artifacts again"
        problems.append(Problem("/artifacts/optimizer_model.onnx", detail))
    elif task.optimizer not in ("", kind):
        detail = f"the artifacts hold {kind}, the spec says {task.optimizer}"
        problems.append(Problem("/spec/optimizer", detail))
    if problems or kind is None:
        raise refusal(problems)
    return kind


def expose(eval_model: onnx.ModelProto, output: str) -> None:
    """Make the forward output an output of the eval model, second after the loss.

    1.19.2 takes an eval model with more outputs than the training model has (measured).
    """
    graph = Graph(eval_model)
    if graph.producer(output) is None:
        raise refuse("/spec/output", f'no node of the eval model makes "{output}"')
    rest = [v for v in eval_model.graph.output[1:] if v.name != output]
    loss = eval_model.graph.output[0]
    value = onnx.helper.make_tensor_value_info(
        output, graph.elem_type(output) or onnx.TensorProto.FLOAT, graph.dims(output)
    )
    refill(eval_model.graph.output, [loss, value, *rest])


def _named(eval_model: onnx.ModelProto) -> tuple[str, str] | None:
    """Loss and output from the metadata of our own artifacts."""
    said = {prop.key: prop.value for prop in eval_model.metadata_props}
    return (said[LOSS_NAME], said[OUTPUT_NAME]) if {LOSS_NAME, OUTPUT_NAME} <= said.keys() else None


def _loss(graph: Graph, label: str) -> tuple[str, str] | None:
    for node in graph.consumers(label):
        for task in TASKS.values() if node.domain in STANDARD else ():
            if (output := task.written_by(graph, node, label)) is not None:
                return task.name, output
    return None


def place(name: str) -> str:
    """JSON pointer of an input of the eval model."""
    return pointer("artifacts", "eval_model.onnx", "graph", "input", name)
