"""Puts inference models together: a frozen prefix, a trained suffix, other outputs, new nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path

import onnx

from service.training.engine import Array
from service.training.errors import ArtifactsUnreadable
from service.training.graph.builder import STANDARD
from service.training.graph.flow import duplicate, refill, subgraphs
from service.training.graph.passes.canonical import stamp
from service.training.graph.passes.simplify import prune
from service.training.protocol.messages.shared import Artifacts

BEFORE = "/before"
"""Suffix for the name of an output that was replaced."""


def assemble(path: Path, artifacts: Artifacts, metadata: Mapping[str, str]) -> None:
    """Complete the trained part's model at `path` to the whole model, with this metadata.

    The author's own entries stay. Raises ArtifactsUnreadable if the parts do not fit together.
    """
    model = _load(path)
    if artifacts.prefix_model is not None:
        model = join(_load(artifacts.prefix_model), model)
    if artifacts.remainder_model is not None:
        model = attach(model, _load(artifacts.remainder_model))
    kept = {entry.key: entry.value for entry in model.metadata_props}
    onnx.helper.set_model_props(model, kept | dict(metadata))
    onnx.save_model(model, path)


def _load(path: Path | str) -> onnx.ModelProto:
    return onnx.load_model(path, load_external_data=False)


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
    _import_opsets(prefix, suffix.opset_import)
    stamp(prefix)
    return prefix


def attach(exported: onnx.ModelProto, fragment: onnx.ModelProto) -> onnx.ModelProto:
    """A copy of the exported model with the fragment's outputs, in their order."""
    whole = deepcopy(exported)
    graph, taken = whole.graph, {node.name for node in whole.graph.node}
    declared = {value.name: value for value in exported.graph.output}
    for node in fragment.graph.node:
        copy = duplicate(node)
        while copy.name in taken:
            copy.name += "_"
        taken.add(copy.name)
        graph.node.append(copy)
    graph.initializer.extend(fragment.graph.initializer)
    refill(graph.output, [declared.get(value.name, value) for value in fragment.graph.output])
    _import_opsets(whole, fragment.opset_import)
    stamp(whole)
    return whole


def replace_output(
    path: Path,
    output: str,
    nodes: Callable[[str], Sequence[onnx.NodeProto]],
    constants: Mapping[str, Array],
) -> None:
    """Make these nodes compute `output` of the model at `path`, from its tensors.

    nodes: called with the name of the output. They may read the former output, under its name with
    BEFORE appended. Other readers of the output read the new one; unused nodes are removed.
    """
    model = _load(path)
    graph = model.graph
    place = next(at for at, node in enumerate(graph.node) if output in node.output)
    maker = graph.node[place]
    maker.output[:] = [name + BEFORE if name == output else name for name in maker.output]
    before, after = graph.node[: place + 1], graph.node[place + 1 :]
    graph.initializer.extend(onnx.numpy_helper.from_array(v, n) for n, v in constants.items())
    refill(graph.node, [*before, *nodes(output), *after])
    prune(graph, [value.name for value in graph.output])
    del graph.value_info[:]
    onnx.save_model(model, path)


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


def _import_opsets(model: onnx.ModelProto, others: Iterable[onnx.OperatorSetIdProto]) -> None:
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
