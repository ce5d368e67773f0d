"""Writes runs of convolutions in the runtime's own layout.

A tensor is reordered where such a run begins and where it ends; operators between convolutions that
work in any layout, poolings, concatenations and gates of channels stay in it. All gradients follow
from the rules of these operators. A BatchNormalization with stored statistics becomes part of the
convolution that it follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx
from msgspec import field

from service.training.graph.blocks.between import ANYWHERE, Rewriting, two_axes, without_nodes
from service.training.graph.blocks.choices import BLOCKS, COLUMNS, PLAIN
from service.training.graph.blocks.layout import (
    BlockLayout,
    convolve,
    from_blocks,
    padded,
)
from service.training.graph.blocks.plain_weights import Affine, as_columns, as_rows, form_of
from service.training.graph.blocks.rules import Form, find_phases, interleaved
from service.training.graph.builder import STANDARD, Builder
from service.training.graph.flow import duplicate, moving, reads
from service.training.graph.kernel_windows import WindowShape, windows_of
from service.training.graph.node import Node, attributes_of
from service.training.graph.places import fixed
from service.training.graph.tensor import FLOAT, NotDifferentiable, Tensor, product

FUSED = frozenset(("Relu", "Sigmoid", "Tanh"))
"""Activations that the runtime applies within a convolution, with a gradient from their result."""
NORM = frozenset(("BatchNormalization",))
FEW_PLACES = 4
"""A kernel of more, side by side with the next, is a matrix product of what it covers."""


def rewritten(model: onnx.ModelProto, layout: BlockLayout) -> Builder:
    """A builder on the model's graph. model: with types."""
    new = without_nodes(model)
    new.layout = layout
    return _BlockRewriting(model, Builder(model), new).run()


class _BlockRewriting(Rewriting):
    """done: results of nodes that are part of others. readers: how many nodes read a tensor. next:
    the last of them. makers: nodes by their results. of_samples: tensors that depend on the model's
    inputs; others come first.
    """

    done: set[str] = field(default_factory=set)
    readers: Counter[str] = field(default_factory=Counter)
    next: dict[str, onnx.NodeProto] = field(default_factory=dict)
    makers: dict[str, onnx.NodeProto] = field(default_factory=dict)
    of_samples: set[str] = field(default_factory=set)

    def run(self) -> Builder:
        outputs = [value.name for value in self.model.graph.output]
        self.readers = Counter([*outputs, *(n for node in self.old.nodes for n in reads(node))])
        self.next = {name: node for node in self.old.nodes for name in reads(node)}
        self.makers = {name: node for node in self.old.nodes for name in node.output}
        self.of_samples = moving(self.old.nodes, [tensor.name for tensor in self.old.inputs])
        alone = [n for n in self.old.nodes if self.of_samples.isdisjoint(n.output)]
        others = [n for n in self.old.nodes if not self.of_samples.isdisjoint(n.output)]
        for node in (*alone, *others):
            if node.output[0] not in self.done and not self._rewrite(node):
                self.keep(node)
        for name in outputs:
            self.plain(name)
        return self.new

    def _rewrite(self, node: onnx.NodeProto) -> bool:
        if node.domain not in STANDARD or any(node.output[1:]):
            return False
        if self.old.tensor(node.output[0]).dtype != FLOAT:
            return False
        try:
            if node.op_type in ("Conv", "ConvTranspose"):
                is_plain = node.op_type == "Conv"
                return self._convolution(node) if is_plain else self._transposed(node)
            return self._between(node)
        except NotDifferentiable:  # it has sizes that are not known
            return False

    def _between(self, node: onnx.NodeProto) -> bool:
        """Write a node that reads something in blocks."""
        if self.moved.keys().isdisjoint(node.input):
            return False
        if node.op_type == "BatchNormalization":
            self._normalize(node)
            return True
        rule = ANYWHERE.get(node.op_type)
        result = None if rule is None else rule(self, Node.of(self.old, node))
        if result is None:
            return False
        if node.output[0] not in self.both:
            self.moved[node.output[0]] = result
        return True

    def _follower(self, name: str, kinds: frozenset[str]) -> onnx.NodeProto | None:
        """The only node that reads a tensor, if it is of these kinds."""
        reader = self.next.get(name)
        if reader is None or self.readers[name] > 1 or reader.op_type not in kinds:
            return None
        is_its_own = reader.domain in STANDARD and reader.input[0] == name
        return reader if is_its_own and not any(reader.output[1:]) else None

    def _taken(self, name: str, kinds: frozenset[str]) -> tuple[str, onnx.NodeProto | None]:
        """The tensor that is written instead, with the node that follows it, if there is one."""
        follower = self._follower(name, kinds)
        if follower is None:
            return name, None
        self.done.add(follower.output[0])
        return follower.output[0], follower

    def _convolution(self, proto: onnx.NodeProto) -> bool:
        node, weight = Node.of(self.old, proto), self.new.tensor(proto.input[1])
        if weight.sizes is None or proto.input[1] in self.moved or node.x.shape is None:
            return False
        bias = self.new.tensor(proto.input[2]) if len(proto.input) > 2 else None
        form = form_of(self, node, weight) if self._fits(node, weight) else PLAIN
        last, norm = self._taken(proto.output[0], NORM)
        last, affine = self._scaled(
            last, (None, bias) if norm is None else self._affine(norm, bias)
        )
        if form == COLUMNS:
            as_columns(self, node, weight, affine, last)
            return True
        proto, number = self._unscaled(proto)
        node, (factor, bias) = Node.of(self.old, proto), affine
        if number != 1:  # by channels: a number alone is slow beside axes of one
            numbers = self.new.numbers(np.full(weight.whole[0], number), weight.dtype)
            factor = numbers if factor is None else factor * numbers
        if factor is not None:
            weight = weight * factor.unsqueeze(*range(1, weight.rank))
        if form == BLOCKS:
            self._in_blocks(node, weight, bias, last)
        elif not as_rows(self, node, weight, bias, last):
            attributes = attributes_of(proto)
            self.rename(self.plain(proto.input[0]).op("Conv", weight, bias, **attributes), last)
        return True

    def _fits(self, node: Node, weight: Tensor) -> bool:
        """Whether the runtime's layout has kernels for a convolution, and they are faster."""
        if weight.rank not in (3, 4) or not all(isinstance(d, int) for d in node.x.ranked[1:]):
            return False
        outs, ins, *kernel = weight.whole
        block: int = self.new.layout.block
        windows = windows_of(node, tuple(kernel), node.x, node.y)
        tiles = windows.strides == windows.kernel and product(windows.kernel) > FEW_PLACES
        if tiles or product(node.x.sizes_of(windows.axes)) == 1:
            return False
        groups: int = node.attribute("group", 1)
        own = outs // groups
        if groups == 1 or ins == own == 1:
            return outs >= block // 2
        is_whole = own % block == 0 and ins % block == 0
        return is_whole or (own == ins and block % ins == 0)

    def _affine(self, norm: onnx.NodeProto, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The factor and the summand of each channel. bias: of what is normalized."""
        scale, shift, mean, variance = (self.new.tensor(name) for name in norm.input[1:5])
        factor = scale / (variance + Node.of(self.old, norm).attribute("epsilon", 1e-5)).sqrt()
        mean = mean if bias is None else mean - bias
        return factor, shift - mean * factor

    def _unscaled(self, proto: onnx.NodeProto) -> tuple[onnx.NodeProto, float]:
        """A convolution of the product with a number, as one without, and the number."""
        source = proto.input[0]
        maker = self.makers.get(source)
        if maker is None or maker.op_type != "Mul" or self.readers[source] > 1:
            return proto, 1
        for name, other in (maker.input, reversed(maker.input)):
            number, whole = self.old.tensor(name), self.old.tensor(other)
            if number.value is None or number.value.size != 1:
                continue
            if whole.shape == self.old.tensor(source).shape:
                copy = duplicate(proto)
                copy.input[0] = other
                return copy, float(number.value.item())
        return proto, 1

    def _scaled(self, last: str, affine: Affine) -> tuple[str, Affine]:
        """With the factors of channels, if results are only multiplied by some next."""
        reader = self._follower(last, frozenset(("Mul",)))
        if reader is None:
            return last, affine
        whole, scale = self.old.tensor(last), self.old.tensor(reader.input[1])
        channels, behind = whole.ranked[1], [1] * (whole.rank - 2)
        forms = ((channels, *behind), (1, channels, *behind))
        if scale.name in self.of_samples or scale.shape not in forms:
            return last, affine
        own = self.new.tensor(scale.name).reshape(channels)
        factor, shift = affine
        self.done.add(reader.output[0])
        factor = own if factor is None else factor * own
        return reader.output[0], (factor, None if shift is None else shift * own)

    def _in_blocks(self, node: Node, weight: Tensor, bias: Tensor | None, last: str) -> None:
        block, groups, x = self.new.layout.block, node.attribute("group", 1), node.x
        windows = two_axes(windows_of(node, weight.whole[2:], x, node.y))
        if weight.rank == 3:
            weight = weight.unsqueeze(2)
        outs, ins, *_ = weight.whole
        if groups == 1 and ins < block and x.name not in self.moved:
            source = self.plain(x.name)
            if source.rank == 3:
                source = source.reshape(source.ranked[0], ins, 1, fixed(source, 2))
        else:
            source = self.blocked(x.name)
        last, follower = self._taken(last, FUSED)
        batch, _, *places = node.y.ranked
        self.moved[last] = convolve(
            source,
            weight,
            bias,
            windows,
            (batch, padded(outs, block), *([1, *places] if len(places) == 1 else places)),
            groups=groups,
            activation="" if follower is None else follower.op_type,
        )

    def _transposed(self, proto: onnx.NodeProto) -> bool:
        """One whose windows tile the result: a convolution for each place of a window."""
        node, weight = Node.of(self.old, proto), self.new.tensor(proto.input[1])
        if weight.rank != 4 or node.attribute("group", 1) > 1:
            return False
        ins, outs, *kernel = weight.whole
        batch, places = node.y.ranked[0], [fixed(node.y, axis) for axis in (2, 3)]
        tiles = list(node.attribute("strides") or [1, 1]) == kernel
        odd = any(node.attribute("pads") or ()) or node.attribute("output_shape")
        block = self.new.layout.block
        if not tiles or odd or ins < block:
            return False
        source = self.blocked(proto.input[0])
        windows = WindowShape(tuple(kernel), (0, 0, 0, 0), tuple(kernel))
        phases = find_phases(windows, places, source.sizes_of([2, 3]))
        assert phases is not None
        bias = self.new.tensor(proto.input[2]) if len(proto.input) > 2 else None

        def part(own: WindowShape, taken: Sequence[Sequence[int]], shape: Form) -> Tensor:
            plain = weight
            for axis, places in enumerate(taken, 2):
                plain = plain.op("Gather", self.new.ints(reversed(places)), axis=axis)
            return convolve(source, plain.swap(0, 1), bias, own, shape)

        shape = (batch, padded(outs, block), places[0], places[1])
        self.moved[proto.output[0]] = interleaved(source, shape, phases, part)
        return True

    def _normalize(self, proto: onnx.NodeProto) -> None:
        """One that follows no convolution: a depthwise convolution of single places."""
        factor, shift = self._affine(proto)
        last, follower = self._taken(proto.output[0], FUSED)
        source, (channels,) = self.moved[proto.input[0]], factor.whole
        self.moved[last] = convolve(
            source,
            factor.reshape(channels, 1, 1, 1),
            shift,
            WindowShape((1, 1), (0, 0, 0, 0)),
            source.ranked,
            groups=channels,
            activation="" if follower is None else follower.op_type,
        )

    def moved_back(self, name: str) -> Tensor:
        before = self.old.tensor(name)
        plain = from_blocks(self.moved[name], fixed(before, 1))
        return plain.reshape(*before.ranked) if before.rank == 3 else plain
