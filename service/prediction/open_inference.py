"""Tensors of the Open Inference Protocol v2, as JSON or binary.

https://github.com/kserve/open-inference-protocol; the binary extension:
https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct

from service.errors import InvalidInput
from service.prediction.answers import as_bytes, numbers
from service.prediction.frames import Array, Tensors
from service.samples.ingest import tensors
from service.samples.ingest.json_value import read_array, read_body
from service.training.tasks import TASKS
from storage.database.codec import encode
from storage.errors import Problem
from storage.records.models import Model
from storage.records.signatures import TensorSpec
from storage.records.versions import Version

DATATYPES = {
    "bool": "BOOL",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
}
"""numpy's name of a data type → the protocol's."""


class InferRequest(Struct, frozen=True):
    """A request. outputs: name → whether it is wanted as binary; empty for all of them."""

    id: str | None
    inputs: Tensors
    outputs: dict[str, bool]
    binary_outputs: bool


def describe(model: Model, version: Version) -> dict[str, Any]:
    """Inputs and outputs of a version, in the protocol's model metadata. -1: the batch axis."""
    shape = TASKS[model.loss].output_shape(version.target)
    return {
        "inputs": [
            {"name": spec.name, "datatype": DATATYPES[spec.dtype], "shape": [-1, *spec.shape]}
            for spec in model.signature.inputs
        ],
        "outputs": [{"name": model.output, "datatype": "FP32", "shape": [-1, *shape]}],
    }


def read_request(model: Model, body: bytes, *, header_bytes: int | None) -> InferRequest:
    """header_bytes: length of the JSON, if tensors follow it. Raises InvalidInput."""
    end = len(body) if header_bytes is None else header_bytes
    if end > len(body):
        raise _wrong("", f"Inference-Header-Content-Length is {end}, the body has {len(body)}")
    asked = read_body(body[:end])
    if not isinstance(asked, dict) or not _objects(asked.get("inputs")):
        raise _wrong("/inputs", "a request is an object with inputs, a list of tensors")
    if not _objects(asked.get("outputs", [])) or not isinstance(asked.get("id", ""), str):
        raise _wrong("", "id is text, outputs is a list of objects")
    wanted = {str(output.get("name")): _parameters(output) for output in asked.get("outputs", [])}
    if any("classification" in parameters for parameters in wanted.values()):
        raise _wrong("/outputs", "classification is not supported; see /v1/models/{name}/predict")
    return InferRequest(
        id=asked.get("id"),
        inputs=_Inputs(model, memoryview(body)[end:]).read(asked["inputs"]),
        outputs={name: bool(parameters.get("binary_data")) for name, parameters in wanted.items()},
        binary_outputs=bool(_parameters(asked).get("binary_data_output")),
    )


def write_answer(
    request: InferRequest, outputs: Tensors, *, model: str, version: int
) -> tuple[list[bytes], int | None]:
    """The body's parts, and the length of the JSON if tensors follow it. Raises InvalidInput."""
    names = request.outputs or dict.fromkeys(outputs, request.binary_outputs)
    for name in names:
        if name not in outputs:
            raise _wrong("/outputs", f"there is no output {name!r}; there are {list(outputs)}")
    entries, binary = [], []
    for name, as_binary in names.items():
        array = outputs[name]
        datatype = DATATYPES.get(array.dtype.name)
        if datatype is None:
            raise _wrong("/outputs", f"output {name!r} is {array.dtype.name}, which has no name")
        entry: dict[str, Any] = {"name": name, "shape": list(array.shape), "datatype": datatype}
        if as_binary:
            binary.append(as_bytes(array))
            entry["parameters"] = {"binary_data_size": len(binary[-1])}
        else:
            entry["data"] = numbers(array.reshape(-1))
        entries.append(entry)
    answer = {"model_name": model, "model_version": str(version), "outputs": entries}
    if request.id is not None:
        answer["id"] = request.id
    header = encode(answer)
    return [header, *binary], len(header) if binary else None


class _Inputs:
    """Reads the inputs of one request; binary ones are in `rest`, in their order."""

    def __init__(self, model: Model, rest: memoryview) -> None:
        self._specs = {spec.name: spec for spec in model.signature.inputs}
        self._rest = rest

    def read(self, entries: list[dict[str, Any]]) -> Tensors:
        arrays: dict[str, Array] = {}
        problems = []
        for position, entry in enumerate(entries):
            name, at = entry.get("name"), f"/inputs/{position}"
            spec = self._specs.get(name) if isinstance(name, str) else None
            if spec is None:
                known = sorted(self._specs)
                problems.append(Problem(at, f"the model has no input {name!r}; it has {known}"))
                continue
            array = self._tensor(entry, spec)
            if isinstance(array, str):
                problems.append(Problem(at, f"input {name!r} {array}"))
            else:
                arrays[spec.name] = array
        missing = [name for name in self._specs if name not in arrays] if not problems else []
        problems += [Problem("/inputs", f"input {name!r} is missing") for name in missing]
        if not problems and len({len(array) for array in arrays.values()}) > 1:
            problems.append(Problem("/inputs", "the inputs differ in their first dimension"))
        if problems:
            raise InvalidInput("the inputs do not fit the model", problems=problems)
        return arrays

    def _tensor(self, entry: dict[str, Any], spec: TensorSpec) -> Array | str:
        """The tensor, shape (batch, *spec.shape), or what is wrong with it."""
        shape, datatype = entry.get("shape"), entry.get("datatype")
        if datatype != DATATYPES[spec.dtype]:
            return f"has datatype {datatype!r}, the model takes {DATATYPES[spec.dtype]!r}"
        wanted = f"the model takes {[-1, *spec.shape]}, with at least one row"
        if not isinstance(shape, list) or not all(type(axis) is int for axis in shape):
            return f"has no shape; {wanted}"
        if tuple(shape[1:]) != spec.shape or not shape or shape[0] < 1:
            return f"has shape {shape}, {wanted}"
        flat = self._flat(entry, spec)
        if isinstance(flat, str):
            return flat
        if flat.size != math.prod(shape):
            return f"holds {flat.size} values, its shape {shape} says {math.prod(shape)}"
        rows, bad = tensors.convert(flat.reshape(shape), spec.dtype)
        return tensors.range_complaint(flat.reshape(shape), spec.dtype) if bad.any() else rows

    def _flat(self, entry: dict[str, Any], spec: TensorSpec) -> Array | str:
        size = _parameters(entry).get("binary_data_size")
        if size is None:
            return _json_values(entry.get("data"), spec)
        if type(size) is not int or not 0 <= size <= len(self._rest):
            return f"has binary_data_size {size!r}; {len(self._rest)} bytes are left of the body"
        data, self._rest = self._rest[:size], self._rest[size:]
        dtype = tensors.little_endian(spec.dtype)
        if size % dtype.itemsize:
            return f"has {size} bytes, which is not a whole number of {DATATYPES[spec.dtype]}"
        return np.frombuffer(data, dtype)


def _json_values(data: Any, spec: TensorSpec) -> Array | str:
    if not isinstance(data, list):
        return "has no data: a list, flat or nested"
    array = read_array(data, spec.dtype)
    if isinstance(array, str):
        return array
    complaint = tensors.type_complaint(array.dtype, spec.dtype)
    return complaint if complaint is not None else array.reshape(-1)


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _parameters(value: dict[str, Any]) -> dict[str, Any]:
    parameters = value.get("parameters")
    return parameters if isinstance(parameters, dict) else {}


def _wrong(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, title="the request cannot be read")
