"""Resize and ConvTranspose, whose gradients have no kernel on a CPU, as operators that train."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.forward import trial
from service.training.forward.build import Builder
from service.training.forward.graph import attribute, input_at, int_attribute, ints_attribute

Matrix = NDArray[np.float32]
_GEOMETRY = ("axes", "keep_aspect_ratio_policy")


def resize(b: Builder, node: onnx.NodeProto) -> str | None:
    """Resampling is linear along each axis: Gather where it picks values, else MatMul."""
    before, after = b.graph.dims(node.input[0]), b.graph.dims(node.output[0])
    mode = attribute(node, "coordinate_transformation_mode")
    policy = attribute(node, "keep_aspect_ratio_policy", b"stretch")
    if before is None or after is None or None in before[1:]:
        return None
    if mode == b"tf_crop_and_resize" or policy != b"stretch":
        return None
    result = input_at(node, 0)
    for axis in range(1, len(before)):
        size, wanted = before[axis], after[axis]
        if size is None or wanted is None:
            return None
        if size != wanted:
            matrix = _resampling(b, node, axis, size, wanted)
            if matrix is None:
                return None
            result = _apply(b, result, axis, matrix, len(before))
    return result


def conv_transpose(b: Builder, node: onnx.NodeProto) -> str | None:
    """Zeros between the values, then Conv with the kernel turned round.

    Source: Dumoulin and Visin (2016), section 4.
    """
    dims, kernel = b.graph.dims(node.input[0]), b.graph.dims(node.input[1])
    automatic = attribute(node, "auto_pad", b"NOTSET") != b"NOTSET"
    if dims is None or kernel is None or None in (*dims[1:], *kernel) or automatic:
        return None
    if attribute(node, "output_shape") is not None:
        return None
    axes = len(dims) - 2
    strides = ints_attribute(node, "strides") or [1] * axes
    dilations = ints_attribute(node, "dilations") or [1] * axes
    pads = ints_attribute(node, "pads") or [0] * (2 * axes)
    extra = ints_attribute(node, "output_padding") or [0] * axes
    spans = [d * ((k or 0) - 1) for d, k in zip(dilations, kernel[2:], strict=True)]
    begins = [span - pad for span, pad in zip(spans, pads[:axes], strict=True)]
    ends = [s - pad + more for s, pad, more in zip(spans, pads[axes:], extra, strict=True)]
    if min(*begins, *ends) < 0:
        return None
    group = int_attribute(node, "group", 1)
    spread = _spread(b, input_at(node, 0), [size or 0 for size in dims[1:]], strides)
    turned = _turn(b, input_at(node, 1), [size or 0 for size in kernel], group)
    inputs = [name for name in (spread, turned, input_at(node, 2)) if name]
    return b.op("Conv", *inputs, group=group, dilations=dilations, pads=[*begins, *ends])


def _resampling(
    b: Builder, node: onnx.NodeProto, axis: int, size: int, wanted: int
) -> Matrix | None:
    """(size, wanted): what the node itself makes of each unit vector along the axis."""
    axes = ints_attribute(node, "axes")
    position = axis if axes is None else axes.index(axis)
    scales = b.graph.array(input_at(node, 2))
    own: dict[str, Any] = {
        a.name: attribute(node, a.name) for a in node.attribute if a.name not in _GEOMETRY
    }
    if scales is not None and scales.size:
        inputs, name = ["x", "", "scales"], "scales"
        value: NDArray[np.generic] = np.array([1, scales.flat[position]], np.float32)
    else:
        inputs, name = ["x", "", "", "sizes"], "sizes"
        value = np.array([size, wanted], np.int64)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Resize", inputs, ["y"], **own)],
        "axis",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [size, size])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [size, wanted])],
        [onnx.numpy_helper.from_array(value, name)],
    )
    opset = onnx.helper.make_opsetid("", b.graph.opset)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8)
    return trial.run(model, [{"x": np.eye(size, dtype=np.float32)}])[0].astype(np.float32)


def _apply(b: Builder, name: str, axis: int, matrix: Matrix, rank: int) -> str:
    if bool(np.all((matrix == 0) | (matrix == 1))):
        return b.op("Gather", name, b.constant(matrix.argmax(0).astype(np.int64)), axis=axis)
    perm = [other for other in range(rank) if other != axis] + [axis]
    product = b.op("MatMul", b.transpose(name, perm), b.constant(matrix))
    return b.transpose(product, [perm.index(other) for other in range(rank)])


def _spread(b: Builder, name: str, sizes: list[int], strides: list[int]) -> str:
    """Put stride - 1 zeros between neighbours along each spatial axis. sizes: channels first."""
    if all(stride == 1 for stride in strides):
        return name
    channels, *extents = sizes
    axes = len(extents)
    apart = b.reshape(name, [-1, channels, *(n for size in extents for n in (size, 1))])
    after = [0, 0, *(n for stride in strides for n in (0, stride - 1))]
    padded = b.op("Pad", apart, b.ints([0] * len(after) + after))
    products = [size * stride for size, stride in zip(extents, strides, strict=True)]
    whole = b.reshape(padded, [-1, channels, *products])
    ends = [(size - 1) * stride + 1 for size, stride in zip(extents, strides, strict=True)]
    return b.op("Slice", whole, b.ints([0] * axes), b.ints(ends), b.ints(range(2, axes + 2)))


def _turn(b: Builder, name: str, kernel: list[int], group: int) -> str:
    """(in, out / group, …) → (out, in / group, …), reversed along each spatial axis."""
    inside, outside, *extents = kernel
    rest = [axis + 3 for axis in range(len(extents))]
    grouped = b.reshape(name, [group, inside // group, outside, *extents])
    swapped = b.transpose(grouped, [0, 2, 1, *rest])
    result = b.reshape(swapped, [group * outside, inside // group, *extents])
    for axis, extent in enumerate(extents, 2):
        if extent > 1:
            result = b.op("Gather", result, b.ints(range(extent - 1, -1, -1)), axis=axis)
    return result
