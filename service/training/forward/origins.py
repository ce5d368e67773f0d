"""PyTorch's exporter's records of a model: which values were parameters, and whose.

`torch.onnx.export(…, dynamo=True)` keeps the program's signature in the graph's properties, for
each value its origin there, and for each node its call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec
import onnx

from service.training.errors import refuse
from storage.database.codec import decode, dump

KEPT = "pytorch.parameters"
"""Property of a model: initializer → was it a parameter? As JSON.

Passes and exports keep it in the place of the records, so that a version trains as its upload does.
"""
_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
_SOURCES = "pkg.onnxscript.optimizer.folded_from"
_CALL = "pkg.torch.onnx.fx_node"
_SPECIFICATION = re.compile(r"^(\w+): (PARAMETER|BUFFER) target='([^']+)'", re.MULTILINE)
_ARGUMENT = re.compile(r"%(\w+)")
_QUOTED = re.compile(r"['\"]([^'\"]+)['\"]")
_NUMBERED = re.compile(r"val_\d+")
"""The exporter's names for values without a name in the program."""


class Origins:
    """parameters, buffers: their names in the program, whether or not the graph has them.

    are_kept: the model is a version, or was made of one.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        arguments = _SPECIFICATION.findall(_properties(model.graph).get(_SIGNATURE, ""))
        self.parameters = {name for _, kind, name in arguments if kind == "PARAMETER"}
        self.buffers = {name for _, kind, name in arguments if kind == "BUFFER"}
        self._names = {argument: name for argument, _, name in arguments}
        self._values = {value.name: _properties(value) for value in model.graph.value_info}
        self._kept = _kept(model)
        self.are_kept = bool(self._kept)

    def is_parameter(self, name: str) -> bool | None:
        """Was the initializer a parameter, or computed from one? None if unknown."""
        if name in self._kept:
            return self._kept[name]
        value = self._values.get(name, {})
        if _SOURCES in value:
            return not self.parameters.isdisjoint(self.sources(name))
        if _KIND in value:
            return value[_KIND] == "PARAMETER"
        if name in self.parameters:
            return True
        known = name in self.buffers or (self.parameters and _NUMBERED.fullmatch(name))
        return False if known else None

    def sources(self, name: str) -> set[str]:
        """The names of the initializer and of the values that it was computed from."""
        return {name, *_QUOTED.findall(self._values.get(name, {}).get(_SOURCES, ""))}

    def arguments(self, node: onnx.NodeProto) -> list[str]:
        """Names of the arguments of the node's call, in order."""
        _, _, call = _properties(node).get(_CALL, "").partition("(args = ")
        return [self._names.get(argument, argument) for argument in _ARGUMENT.findall(call)]


def recorded(model: onnx.ModelProto) -> dict[str, bool]:
    """Initializer → was it a parameter? Without unknown ones."""
    origins = Origins(model)
    told = {tensor.name: origins.is_parameter(tensor.name) for tensor in model.graph.initializer}
    return {name: parameter for name, parameter in told.items() if parameter is not None}


def _kept(model: onnx.ModelProto) -> dict[str, bool]:
    try:
        return decode(_properties(model).get(KEPT, "{}"), dict[str, bool])
    except msgspec.DecodeError as error:
        raise refuse(f"/model/metadata_props/{KEPT}", f"{error}; leave the property out") from None


def keep(model: onnx.ModelProto, told: Mapping[str, bool]) -> None:
    """Write what `recorded` found into a property of the model, where it found something."""
    if told:
        properties = _properties(model) | {KEPT: dump(told)}
        onnx.helper.set_model_props(model, properties)


def _properties(
    holder: onnx.ModelProto | onnx.GraphProto | onnx.NodeProto | onnx.ValueInfoProto,
) -> dict[str, str]:
    properties: Iterable[onnx.StringStringEntryProto] = holder.metadata_props
    return {entry.key: entry.value for entry in properties}
