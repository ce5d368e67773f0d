"""Joins a frozen prefix and a trained suffix into one inference model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx

from service.training.errors import ArtifactsUnreadable
from service.training.graph.builder import STANDARD
from service.training.graph.flow import refill, subgraphs
from service.training.graph.passes.canonical import stamp


def join(prefix: onnx.ModelProto, suffix: onnx.ModelProto) -> onnx.ModelProto:
    """Extend the prefix to the joined model: its inputs, the outputs of the suffix.

    The suffix reads the outputs of the prefix by name. Other names used in both are renamed in the
    suffix. Raises ArtifactsUnreadable if they do not fit together.
    """
    crossing = [value.name for value in prefix.graph.output]
    strange = {value.name for value in suffix.graph.input} - set(crossing)
    strange -= {tensor.name for tensor in suffix.graph.initializer}
    if strange:
        raise ArtifactsUnreadable(
            f"the trained part asks for {sorted(strange)}, the frozen part gives {crossing};"
            " register the model anew"
        )
    _rename(suffix.graph, _clashes(prefix.graph, suffix.graph, keep=crossing))
    graph = prefix.graph
    graph.node.extend(suffix.graph.node)
    graph.initializer.extend(suffix.graph.initializer)
    refill(graph.output, suffix.graph.output)
    del graph.value_info[:]
    del prefix.metadata_props[:]
    import_opsets(prefix, suffix.opset_import)
    stamp(prefix)
    return prefix


def _clashes(
    prefix: onnx.GraphProto, suffix: onnx.GraphProto, *, keep: Iterable[str]
) -> dict[str, str]:
    """Names of tensors and nodes in the suffix that the prefix also uses → free names."""
    taken = {name for name in _names(prefix) if name}
    own = {name for name in _names(suffix) if name}
    fixed = {*keep, *(value.name for value in suffix.output)}
    renamed = {}
    for name in sorted((taken & own) - fixed):
        free = f"{name}/trained"
        while free in taken or free in own:
            free += "_"
        renamed[name] = free
        own.add(free)
    return renamed


def _names(graph: onnx.GraphProto) -> Iterable[str]:
    yield from (tensor.name for tensor in graph.initializer)
    yield from (value.name for value in graph.input)
    for node in graph.node:
        yield node.name
        yield from node.output
        for inner in subgraphs(node):
            yield from _names(inner)


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.name = names.get(node.name, node.name)
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for inner in subgraphs(node):
            _rename(inner, names)


def import_opsets(model: onnx.ModelProto, others: Iterable[onnx.OperatorSetIdProto]) -> None:
    """Let a model also use operators of these sets. Raises ArtifactsUnreadable."""
    known = {_domain(opset.domain): opset.version for opset in model.opset_import}
    for other in others:
        version = known.setdefault(_domain(other.domain), other.version)
        if version != other.version and _domain(other.domain) == "":
            raise ArtifactsUnreadable(
                f"the trained part is of opset {other.version}, the frozen part of {version};"
                " register the model anew"
            )
    refill(model.opset_import, [onnx.helper.make_opsetid(*opset) for opset in known.items()])


def _domain(name: str) -> str:
    return "" if name in STANDARD else name
