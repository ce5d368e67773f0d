"""A tensor of a graph being built: its operators write ONNX nodes, so rules read like maths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import onnx
from msgspec import Struct
from numpy.typing import NDArray

Dim: TypeAlias = int | str | None
Shape: TypeAlias = tuple[Dim, ...]
Operand: TypeAlias = "Tensor | float"
Array: TypeAlias = NDArray[Any]

BOOL, INT64, FLOAT = onnx.TensorProto.BOOL, onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
FLOATS = frozenset(
    (FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
)


class GraphBuilder(Protocol):
    """What a tensor needs from its graph, a `Builder`."""

    opset: int
    nodes: list[onnx.NodeProto]
    constants: dict[str, onnx.TensorProto]
    rules: dict[str, Any]
    placed: dict[str, tuple[Tensor, int, int]]
    pads: dict[str, tuple[Tensor, list[int]]]
    layout: Any
    counts_rows: bool

    @property
    def inputs(self) -> list[Tensor]: ...
    def op(self, op_type: str, *inputs: Tensor | None, **attributes: Any) -> Tensor: ...
    def ops(
        self, op_type: str, *inputs: Tensor | None, outputs: int = 1, **attributes: Any
    ) -> list[Tensor]: ...
    def append(
        self, node: onnx.NodeProto, types: Sequence[tuple[int, Shape | None]]
    ) -> list[Tensor]: ...
    def tensor(self, name: str) -> Tensor: ...
    def fresh(self, hint: str) -> str: ...
    def constant(self, value: Array) -> Tensor: ...
    def numbers(self, value: Array | float, dtype: int) -> Tensor: ...
    def ints(self, values: Iterable[int]) -> Tensor: ...
    def vector(self, *parts: int | Tensor) -> Tensor: ...
    def foreign(self, node: onnx.NodeProto, like: Tensor, shape: Shape) -> Tensor: ...
    def retype(self, tensor: Tensor, shape: Sequence[Dim] | None) -> Tensor: ...


class Tensor(Struct, frozen=True, eq=False):
    """A name in a graph, with its known type.

    dtype: ONNX element type, 0 if unknown. shape: sizes, symbols, or None for an unknown size;
    None if even the rank is unknown. value: of a constant.
    """

    graph: GraphBuilder
    name: str
    dtype: int = FLOAT
    shape: Shape | None = None
    value: Array | None = None

    def op(self, op_type: str, *others: Tensor | None, **attributes: Any) -> Tensor:
        """The only output of a node whose first input this is."""
        return self.graph.op(op_type, self, *others, **attributes)

    def __add__(self, other: Operand) -> Tensor:
        return self if _is(other, 0) else self.op("Add", self._like(other))

    def __radd__(self, other: float) -> Tensor:
        return self + other

    def __sub__(self, other: Operand) -> Tensor:
        return self if _is(other, 0) else self.op("Sub", self._like(other))

    def __rsub__(self, other: float) -> Tensor:
        return self._like(other).op("Sub", self)

    def __mul__(self, other: Operand) -> Tensor:
        return self if _is(other, 1) else self.op("Mul", self._like(other))

    def __rmul__(self, other: float) -> Tensor:
        return self * other

    def __truediv__(self, other: Operand) -> Tensor:
        return self if _is(other, 1) else self.op("Div", self._like(other))

    def __rtruediv__(self, other: float) -> Tensor:
        return self.op("Reciprocal") * other

    def __pow__(self, other: Operand) -> Tensor:
        if _is(other, 2):
            return self * self
        return self if _is(other, 1) else self.op("Pow", self._like(other))

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.op("MatMul", other)

    def __neg__(self) -> Tensor:
        return self.op("Neg")

    def __gt__(self, other: Operand) -> Tensor:
        return self.op("Greater", self._like(other))

    def __lt__(self, other: Operand) -> Tensor:
        return self.op("Less", self._like(other))

    def __ge__(self, other: Operand) -> Tensor:
        return self.op("GreaterOrEqual", self._like(other))

    def __le__(self, other: Operand) -> Tensor:
        return self.op("LessOrEqual", self._like(other))

    def __and__(self, other: Tensor) -> Tensor:
        return self.op("And", other)

    def __invert__(self) -> Tensor:
        return self.op("Not")

    def equal(self, other: Operand) -> Tensor:
        """Elementwise; `==` compares identity."""
        return self.op("Equal", self._like(other))

    def exp(self) -> Tensor:
        return self.op("Exp")

    def log(self) -> Tensor:
        return self.op("Log")

    def sqrt(self) -> Tensor:
        return self.op("Sqrt")

    def abs(self) -> Tensor:
        return self.op("Abs")

    def sign(self) -> Tensor:
        return self.op("Sign")

    def where(self, yes: Operand, no: Operand) -> Tensor:
        """Of a boolean tensor: `yes` where it holds, else `no`. One of the two is a tensor."""
        kind = yes if isinstance(yes, Tensor) else no
        assert isinstance(kind, Tensor)
        return self.op("Where", kind._like(yes), kind._like(no))

    def cast(self, dtype: int) -> Tensor:
        """The same numbers as another element type."""
        return self if self.dtype == dtype else self.op("Cast", to=dtype)

    def cast_like(self, other: Tensor) -> Tensor:
        return self.cast(other.dtype)

    @property
    def rank(self) -> int:
        return len(self.ranked)

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape if all of it is known."""
        known = tuple(d for d in self.shape or (None,) if isinstance(d, int))
        return known if known == self.shape else None

    @property
    def whole(self) -> tuple[int, ...]:
        """The shape, all of which must be known."""
        return tuple(self.whole_from(0))

    @property
    def ranked(self) -> Shape:
        """The shape, parts of which may be unknown. Raises NotDifferentiable if its rank is."""
        if self.shape is None:
            raise NotDifferentiable(f'the rank of "{self.name}" is not known')
        return self.shape

    def sizes_of(self, axes: Iterable[int]) -> list[int]:
        """Sizes that are known; those of other axes are left out."""
        return [size for axis in axes if isinstance(size := (self.shape or ())[axis], int)]

    def whole_from(self, axis: int) -> list[int]:
        """Sizes from an axis on. Raises NotDifferentiable unless they are known."""
        rest = self.ranked[axis:]
        known = [size for size in rest if isinstance(size, int)]
        if len(known) < len(rest):
            raise NotDifferentiable(f'the shape of "{self.name}" is not known')
        return known

    def axis(self, axis: int) -> int:
        """An axis counted from the front."""
        return axis + self.rank if axis < 0 else axis

    def axes(self, axes: Sequence[int] | None) -> list[int]:
        """Axes counted from the front, all if none are given."""
        return [self.axis(a) for a in axes] if axes is not None else list(range(self.rank))

    def dims(self, start: int = 0, end: int | None = None) -> Tensor:
        """Sizes of axes as an int64 vector: a constant where they are known."""
        part = self.shape[start:end] if self.shape is not None else (None,)
        known = [d for d in part if isinstance(d, int)]
        if len(known) == len(part):
            return self.graph.ints(known)
        whole = (start, end) == (0, None)
        return self.op("Shape") if whole else self.op("Shape", start=start, end=end or self.rank)

    def size(self, axis: int) -> Tensor:
        """The size of one axis, a vector of one int64."""
        return self.dims(self.axis(axis), self.axis(axis) + 1)

    def transpose(self, *perm: int) -> Tensor:
        return self if list(perm) == sorted(perm) else self.op("Transpose", perm=list(perm))

    def swap(self, a: int, b: int) -> Tensor:
        """Two axes exchanged."""
        perm, a, b = list(range(self.rank)), self.axis(a), self.axis(b)
        perm[a], perm[b] = b, a
        return self.transpose(*perm)

    def reshape(self, *shape: Dim | Tensor) -> Tensor:
        """Each part a size, -1, a symbol or an int64 vector of sizes; symbols must be unique."""
        if self.shape == shape and None not in shape:
            return self
        free = [d for d in shape if not isinstance(d, int)]
        parts = [p if isinstance(p, (int, Tensor)) else -1 for p in shape]
        assert len(free) <= 1 or all(isinstance(d, Tensor) for d in free), shape
        result = self.op("Reshape", self.graph.vector(*parts), allowzero=int(0 in shape))
        if any(isinstance(d, Tensor) for d in shape):
            return result
        known = tuple(d for d in shape if not isinstance(d, Tensor))
        dims = result.shape or tuple(None for _ in known)
        return result.known(*(k if k != -1 else d for k, d in zip(known, dims, strict=True)))

    def reshape_like(self, other: Tensor) -> Tensor:
        """The same numbers in the shape of another tensor."""
        if self.shape is not None and self.shape == other.shape and None not in self.shape:
            return self
        shape = other.shape
        if shape is not None and 0 not in shape and sum(not isinstance(d, int) for d in shape) <= 1:
            return self.reshape(*(-1 if d is None else d for d in shape))
        return self.op("Reshape", other.dims(), allowzero=1).known_like(other)

    def expand_like(self, other: Tensor) -> Tensor:
        if self.shape is not None and self.shape == other.shape and None not in self.shape:
            return self
        return self.op("Expand", other.dims()).known_like(other)

    def known(self, *shape: Dim) -> Tensor:
        """The same tensor, with a shape that the caller knows better than inference."""
        return self.graph.retype(self, shape)

    def known_like(self, other: Tensor) -> Tensor:
        return self.graph.retype(self, other.shape)

    def unsqueeze(self, *axes: int) -> Tensor:
        return self.op("Unsqueeze", self.graph.ints(axes)) if axes else self

    def squeeze(self, *axes: int) -> Tensor:
        return self.op("Squeeze", self.graph.ints(axes)) if axes else self

    def sum(self, axes: Sequence[int] | None = None, *, keep: bool = False) -> Tensor:
        """Over some axes, or over all."""
        if axes is None:
            total = self.op("ReduceSum", keepdims=int(keep))
            return total if keep else total.known()
        return self.op("ReduceSum", self.graph.ints(axes), keepdims=int(keep)) if axes else self

    def mean(self, axes: Sequence[int], *, keep: bool = False) -> Tensor:
        return self.op("ReduceMean", self.graph.ints(axes), keepdims=int(keep)) if axes else self

    def per_number(self, of: Tensor, axes: Sequence[int]) -> Tensor:
        """Divided by how many numbers a tensor has along some axes."""
        counts = [of.shape[axis] if of.shape else None for axis in axes]
        known = [count for count in counts if isinstance(count, int)]
        if len(known) == len(counts):
            return self * (1 / max(product(known), 1))
        sizes = of.op("Shape").op("Gather", self.graph.ints(axes), axis=0)
        return self / sizes.op("ReduceProd", keepdims=0).cast_like(self)

    def slice(self, start: Sequence[int], end: Sequence[int], axes: Sequence[int]) -> Tensor:
        """From `start` to before `end` on each of the axes."""
        return self.op("Slice", *map(self.graph.ints, (start, end, axes)))

    def flip(self, *axes: int) -> Tensor:
        """Reversed along axes; mostly used for trained kernels."""
        if not axes:
            return self
        ints, n, far = self.graph.ints, len(axes), np.iinfo(np.int64).min
        return self.op("Slice", ints([-1] * n), ints([far] * n), ints(axes), ints([-1] * n))

    def log_softmax(self, axis: int) -> Tensor:
        """Written out for an inner axis, where the runtime's operator takes five times as long."""
        if axis == self.rank - 1 or self.dtype != FLOAT:
            return self.op("LogSoftmax", axis=axis)
        centred = self - self.op("ReduceMax", self.graph.ints([axis]), keepdims=1)
        return centred - centred.exp().sum([axis], keep=True).log()

    def zeros(self) -> Tensor:
        """Zeros of this tensor's shape."""
        return self.graph.numbers(0.0, self.dtype).expand_like(self)

    def _like(self, other: Operand) -> Tensor:
        return other if isinstance(other, Tensor) else self.graph.numbers(other, self.dtype)


product = math.prod


class NotDifferentiable(Exception):
    """A rule's reason why this node has no gradient; the reverse pass adds the node's name."""


def _is(operand: Operand, number: float) -> bool:
    return not isinstance(operand, Tensor) and operand == number
