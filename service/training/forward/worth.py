"""Whether a cut pays off: the cost of reading features against the cost of running the prefix."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from time import perf_counter

import onnx

from service.training.engines.runtime import open_session
from service.training.forward import trial
from service.training.forward.frontier import CannotCut
from service.training.forward.graph import Graph
from service.training.forward.partition import Partition
from service.training.graph.tensor import FLOATS
from service.training.protocol.messages.preparation import Cut

READ_BYTES_PER_S = 200e6
"""Random read speed of an eMMC or a cheap SSD; rows in the page cache are faster."""
ROWS, RUNS = 8, 3


def weigh(graph: Graph, partition: Partition) -> Cut:
    """The cut in figures. Raises CannotCut if the runtime's optimizer cannot take the prefix.

    It pays off if a row of features is read faster than it is computed. Reading the sample itself
    is saved too.
    """
    try:
        milliseconds = _milliseconds(graph, partition.prefix)
    except trial.engine_errors() as error:
        raise CannotCut(f"what is frozen does not run by itself: {trial.sentence(error)}") from None
    feature_bytes = row_bytes(partition.prefix.graph.output)
    input_bytes = row_bytes(graph.inputs)
    extra_ms = 1e3 * (feature_bytes - input_bytes) / READ_BYTES_PER_S
    return Cut(
        tensors=partition.tensors,
        nodes=len(partition.prefix.graph.node),
        parameters=_parameters(partition.prefix),
        feature_bytes=feature_bytes,
        input_bytes=input_bytes,
        milliseconds=milliseconds,
        pays=extra_ms < milliseconds,
    )


def sentence(cut: Cut) -> str:
    """The cut for people."""
    what = (
        f"{cut.nodes} frozen operators with {cut.parameters:,} parameters, {cut.milliseconds:.3g}"
        f" ms a sample, give {cut.feature_bytes:,} bytes of features for"
        f" {cut.input_bytes:,} bytes of input"
    )
    where = ", ".join(cut.tensors)
    if cut.pays:
        return f"cut at {where}: {what}; they run once for each sample"
    return f"not cut at {where}: {what}; to store those would cost more"


def row_bytes(values: Iterable[onnx.ValueInfoProto]) -> int:
    """Bytes of one row of these inputs or outputs, whose axis 0 is the batch."""
    return sum(
        prod(dim.dim_value for dim in value.type.tensor_type.shape.dim[1:])
        * onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).itemsize
        for value in values
    )


def _milliseconds(graph: Graph, prefix: onnx.ModelProto) -> float:
    """The fastest run, per row, on one thread, optimized as in the training child."""
    session = open_session(prefix.SerializeToString(), threads=1)
    feeds = trial.draw(graph, ROWS)
    times = []
    for _ in range(RUNS):
        began = perf_counter()
        session.run(None, feeds)
        times.append(perf_counter() - began)
    return 1e3 * min(times) / ROWS


def _parameters(model: onnx.ModelProto) -> int:
    return sum(prod(t.dims) for t in model.graph.initializer if t.data_type in FLOATS and t.dims)
