"""Reads an untrusted ONNX file: never follows a path that the file names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from service.training.errors import refusal, refuse
from service.training.graph.builder import STANDARD
from service.training.graph.flow import in_order, refill
from service.training.graph.passes.bags import lay_out_bags
from service.training.graph.passes.caches import drop_caches
from service.training.preparation.bounds import require_bounded
from storage.errors import Problem, pointer

MAX_MODEL_BYTES = 1 << 30
"""Protobuf is limited to 2 GiB, and the training model repeats the forward graph."""
EXTERNAL = (
    "the data of this tensor{others} lie outside of the file; save the model as one file "
    "(onnx.save(…, save_as_external_data=False), torch.onnx.export(…, external_data=False))"
)


def load(path: Path) -> onnx.ModelProto:
    """Parse and check a forward model; every tensor must be inside the file.

    Raises GraphRefused.
    """
    model = load_again(path)
    require_bounded(model)
    _check(model)
    return model


def load_again(path: Path) -> onnx.ModelProto:
    """The same as `load`, of a file whose graph that has checked."""
    model = parse(path)
    refuse_external(model)
    _sort(model.graph)
    domains = {each.domain for each in (*model.opset_import, *model.graph.node)}
    if domains.isdisjoint(STANDARD):  # as of tree ensembles alone; what is added needs an opset
        model.opset_import.append(onnx.helper.make_opsetid("", 18))
    lay_out_bags(model)
    drop_caches(model)
    return model


def parse(path: Path) -> onnx.ModelProto:
    """The unchanged protobuf, without loading external data."""
    size = path.stat().st_size
    if size > MAX_MODEL_BYTES:
        raise refuse("/model", f"the model has {size} bytes, at most {MAX_MODEL_BYTES} are taken")
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except (DecodeError, ValueError) as error:
        raise refuse(
            "/model", f"this is not a whole ONNX file: {error}; export the model again"
        ) from None
    if not model.HasField("graph") or not model.graph.node:
        raise refuse("/model/graph", "the file holds no graph; send a forward ONNX model")
    return model


def refuse_external(model: onnx.ModelProto, root: str = "/model") -> None:
    """Raises GraphRefused if data of tensors are outside the file, at the first of them."""
    try:
        places = [*external_tensors(model)]
    except UnicodeDecodeError as error:
        raise refuse(root, f"a name is not UTF-8: {error}; export the model again") from None
    if places:
        others = f" and of {len(places) - 1} more" if places[1:] else ""
        raise refuse(root + places[0].removeprefix("/model"), EXTERNAL.format(others=others))


def _sort(graph: onnx.GraphProto) -> None:
    """Put nodes after those that make what they read, as tools that write float16 leave undone."""
    nodes = in_order(graph.node)
    moved = [[*node.output] for node in nodes] != [[*node.output] for node in graph.node]
    if moved and len(nodes) == len(graph.node):  # else the checker refuses what two of them make
        refill(graph.node, nodes)


def external_tensors(model: onnx.ModelProto) -> Iterator[str]:
    """JSON pointers of all tensors with data outside the file."""
    yield from _in_graph(model.graph, "/model/graph")
    for function in model.functions:
        yield from _in_nodes(function.node, pointer("model", "functions", function.name))
        where = pointer("model", "functions", function.name, "attribute")
        yield from _in_attributes(function.attribute_proto, where)
    for index, training in enumerate(model.training_info):
        where = pointer("model", "training_info", index)
        yield from _in_graph(training.initialization, where + "/initialization")
        yield from _in_graph(training.algorithm, where + "/algorithm")


def _in_graph(graph: onnx.GraphProto, where: str) -> Iterator[str]:
    for tensor in graph.initializer:
        yield from _in_tensor(tensor, where + pointer("initializer", tensor.name))
    for sparse in graph.sparse_initializer:
        yield from _in_sparse(sparse, where + pointer("sparse_initializer", sparse.values.name))
    yield from _in_nodes(graph.node, where)


def _in_nodes(nodes: Iterator[onnx.NodeProto], where: str) -> Iterator[str]:
    for index, node in enumerate(nodes):
        place = where + pointer("node", node.name or index)
        yield from _in_attributes(node.attribute, place)


def _in_attributes(attributes: Iterator[onnx.AttributeProto], where: str) -> Iterator[str]:
    for attribute in attributes:
        place = where + pointer(attribute.name)
        for tensor in (attribute.t, *attribute.tensors):
            yield from _in_tensor(tensor, place)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from _in_sparse(sparse, place)
        for graph in (attribute.g, *attribute.graphs):
            yield from _in_graph(graph, place)


def _in_sparse(sparse: onnx.SparseTensorProto, where: str) -> Iterator[str]:
    yield from _in_tensor(sparse.values, where)
    yield from _in_tensor(sparse.indices, where)


def _in_tensor(tensor: onnx.TensorProto, where: str) -> Iterator[str]:
    if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
        yield where


def _check(model: onnx.ModelProto) -> None:
    problems = [
        Problem(
            "/model/graph/sparse_initializer" + pointer(sparse.values.name),
            "it is a sparse initializer; store it as a dense one, for which the zeros train, too",
        )
        for sparse in model.graph.sparse_initializer
    ]
    problems += [
        Problem(
            f"/model/graph/{side}" + pointer(value.name),
            f'{side} "{value.name}" says no shape; onnx.helper.make_tensor_value_info gives it one',
        )
        for side, values in (("input", model.graph.input), ("output", model.graph.output))
        for value in values
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")
    ]
    if problems:
        raise refusal(problems)
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, UnicodeDecodeError) as error:
        said = " ".join(str(error).split())[:400]
        raise refuse("/model/graph", f"the ONNX checker says: {said}") from None
