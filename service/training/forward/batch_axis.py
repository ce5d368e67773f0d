"""Frees a batch axis that was exported with a fixed size, and proves that it may be free."""

from __future__ import annotations

import numpy as np
import onnx

from service.training.errors import GraphRefused, pointer, refuse
from service.training.forward import trial
from service.training.forward.graph import Graph, is_default

BATCH = "batch"


def release(graph: Graph, notes: list[str]) -> None:
    """Name axis 0 of every input `batch`; if it was fixed, compare many rows with single ones.

    Raises GraphRefused if the graph holds the size inside.
    """
    fixed = {value.name: dims[0] for value in graph.inputs if (dims := graph.dims(value.name))}
    sizes = {size for size in fixed.values() if size is not None}
    if not sizes:
        _name_axis(graph)
        return
    if len(sizes) > 1:
        raise _refused(graph, f"the inputs have fixed batch sizes {sorted(sizes)}")
    size = sizes.pop()
    original = onnx.ModelProto()
    original.CopyFrom(graph.model)
    _name_axis(graph)
    _free_shapes(graph, size)
    _prove(graph, original, size)
    notes.append(f"the batch axis, exported with the fixed size {size}, was made dynamic")


def _name_axis(graph: Graph) -> None:
    for value in graph.inputs:
        shape = value.type.tensor_type.shape
        if shape.dim:
            shape.dim[0].Clear()
            shape.dim[0].dim_param = BATCH
    for output in graph.proto.output:
        output.type.tensor_type.ClearField("shape")
    graph.refresh()


def _free_shapes(graph: Graph, size: int) -> None:
    """Reshape and Expand to a constant shape that begins with the batch size."""
    for node in graph.proto.node:
        if not is_default(node, "Reshape") or (shape := graph.array(node.input[1])) is None:
            continue
        if len(shape) and shape[0] == size and -1 not in shape[1:]:
            node.input[1] = graph.add_initializer(
                f"{node.name}/shape", np.array([-1, *shape[1:]], np.int64)
            )
        elif len(shape) and shape[0] == size:
            dims = graph.dims(node.input[0])
            rest = int(np.prod([d or 0 for d in dims[1:]])) if dims else 0
            known = int(np.prod([s for s in shape[1:] if s != -1]))
            if rest and rest % known == 0:
                free = [rest // known if s == -1 else s for s in shape[1:]]
                node.input[1] = graph.add_initializer(
                    f"{node.name}/shape", np.array([-1, *free], np.int64)
                )
    graph.refresh()


def _prove(graph: Graph, original: onnx.ModelProto, size: int) -> None:
    """Rows must not depend on how many there are: two and three batches at once, and one by one."""
    free = trial.inference_form(graph.model)
    single = trial.inference_form(original)
    for batches in (2, 3):
        feeds = trial.draw(graph, size * batches, seed=batches)
        parts = [
            {name: value[size * i : size * (i + 1)] for name, value in feeds.items()}
            for i in range(batches)
        ]
        try:
            whole = trial.run(free, [feeds])[0]
        except GraphRefused as error:
            raise _refused(graph, error.problems[0].detail) from None
        expected = np.concatenate(trial.run(single, parts))
        if whole.shape != expected.shape or not np.allclose(
            whole, expected, 1e-4, 1e-5, equal_nan=True
        ):
            raise _refused(graph, "rows change with the number of rows beside them")


def _refused(graph: Graph, reason: str) -> GraphRefused:
    name = graph.inputs[0].name if graph.inputs else ""
    return refuse(
        pointer("model", "graph", "input", name, "shape", 0),
        f'axis 0 of input "{name}" is fixed and cannot be freed ({reason}); export with a dynamic '
        "batch axis (dynamic_axes / dynamic_shapes)",
    )
