"""The form in which every pass reads a model: one opset, names for all nodes, no Constant."""

from __future__ import annotations

import onnx
from onnx import defs, helper, version_converter

from service.training.errors import refuse
from service.training.graph.builder import STANDARD
from service.training.graph.flow import nodes_of, refill
from service.training.graph.node import constant_of
from service.training.graph.passes.inference import bring_back, set_aside
from service.training.graph.passes.lowering import lower, newer

IR_VERSION = 10
"""The newest that onnxruntime 1.19.2 loads."""
TRAINING_MODE_SINCE = 14
"""Opset before which a BatchNormalization with more than one output was in training mode."""


def drop_listed_initializers(model: onnx.ModelProto) -> None:
    """Make initializers that are also inputs constants."""
    names = {tensor.name for tensor in model.graph.initializer}
    refill(model.graph.input, [v for v in model.graph.input if v.name not in names])


def convert(model: onnx.ModelProto, oldest: int, newest: int) -> onnx.ModelProto:
    """The model in the nearest opset within bounds. Raises GraphRefused if there is no way."""
    version = opset(model)
    target = min(max(version, oldest), newest)
    if version == target:
        return model
    model = lower(model, newer(model.graph.node, target))
    if _means_the_same(model, version, target):
        for imported in model.opset_import:
            if imported.domain in STANDARD:
                imported.version = target
        return model
    if version < TRAINING_MODE_SINCE <= target:
        for node in model.graph.node:  # the converter does not know these outputs
            if node.op_type == "BatchNormalization" and node.domain in STANDARD:
                del node.output[1:]
    # Since IR 4, an initializer need not be an input; the converter uses the stamped IR version.
    model.ir_version = max(model.ir_version, 4)
    weights = set_aside(model)
    try:
        converted = version_converter.convert_version(model, target)
    except (RuntimeError, onnx.checker.ValidationError, version_converter.ConvertError) as error:
        reason = " ".join(str(error).split())[:300]
        raise refuse(
            "/model/opset_import",
            f"opset {version} is outside {oldest} to {newest} and cannot be converted: {reason}; "
            f"export with opset_version=18",
        ) from None
    bring_back(converted, weights)
    return converted


def _means_the_same(model: onnx.ModelProto, version: int, target: int) -> bool:
    """Whether no operator of the model has changed between the two opsets.

    To convert even three nodes takes 9 ms.
    """
    used = {(n.domain, n.op_type) for node in model.graph.node for n in nodes_of(node)}
    return all(
        domain in STANDARD
        and all(defs.has(name, opset, "") for opset in (version, target))
        and len({defs.get_schema(name, each, "").since_version for each in (version, target)}) == 1
        for domain, name in used
    )


def name_nodes(model: onnx.ModelProto) -> None:
    """Give every node a unique name, for messages, and every Split all its outputs."""
    seen: set[str] = set()
    for index, node in enumerate(model.graph.node):
        # A name that is not UTF-8 reads as bytes.
        name = node.name if isinstance(node.name, str) and node.name else f"{node.op_type}_{index}"
        while name in seen:
            name += "_"
        seen.add(name)
        node.name = name
        if node.op_type == "Split":
            node.output[:] = [o or f"{name}:unused_{i}" for i, o in enumerate(node.output)]


def lift_constants(model: onnx.ModelProto) -> set[str]:
    """Write Constant nodes as initializers; returns their names."""
    kept, lifted = [], set()
    for node in model.graph.node:
        tensor = constant_of(node)
        if tensor is None:
            kept.append(node)
        else:
            model.graph.initializer.append(tensor)
            model.graph.initializer[-1].name = node.output[0]
            lifted.add(node.output[0])
    refill(model.graph.node, kept)
    return lifted


def stamp(model: onnx.ModelProto) -> None:
    """An IR version that every engine loads, and only the opsets that a node uses."""
    model.ir_version = min(max(model.ir_version, 8), IR_VERSION)
    used = {inner.domain for node in model.graph.node for inner in nodes_of(node)}
    versions = {"": opset(model)}
    versions.update(
        (o.domain, o.version) for o in model.opset_import if o.domain in used - set(STANDARD)
    )
    refill(model.opset_import, [helper.make_opsetid(*item) for item in versions.items()])


def opset(model: onnx.ModelProto) -> int:
    """Version of the standard operators. Raises GraphRefused if the model imports none."""
    for imported in model.opset_import:
        if imported.domain in STANDARD:
            return int(imported.version)
    raise refuse("/model/opset_import", "the model imports no ONNX opset; export it again")
