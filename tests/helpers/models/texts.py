"""Small tokenizers, and models of texts whose length is free, as exporters write them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]


def tokenizer(
    texts: Iterable[str], *, vocabulary: int = 64, pairs: bool = False, mask: bool = False
) -> bytes:
    """The tokenizer.json of a byte-pair encoding that was made for these texts."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    special = [*SPECIAL, *(["<mask>"] if mask else [])]
    options = {"vocab_size": vocabulary, "special_tokens": special, "show_progress": False}
    made.train_from_iterator(texts, trainers.BpeTrainer(**options))
    if pairs:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>",
            pair="<s> $A </s> $B:1 </s>:1",
            special_tokens=[("<s>", 2), ("</s>", 3)],
        )
    content: str = made.to_str()
    return content.encode()


class Graph:
    """Nodes and weights of a model that is being written."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, op: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        name = name or f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def put(self, name: str, value: NDArray[Any]) -> str:
        self.weights.append(from_array(value, name))
        return name

    def weight(self, name: str, *shape: int) -> str:
        drawn = self.rng.standard_normal(shape) * (0.5 / shape[0] ** 0.5)
        return self.put(name, drawn.astype(np.float32))

    def ints(self, *values: int) -> str:
        return self.put(f"ints_{len(self.weights)}", np.array(values, np.int64))


def decoder(
    vocabulary: int,
    *,
    width: int = 16,
    heads: int = 2,
    layers: int = 1,
    positions: int = 64,
    seed: int = 0,
    tokens: int | str = "tokens",
) -> bytes:
    """Logits of the next token, (batch, tokens, vocabulary), by causal attention.

    tokens: the length of its input, a name if that is free.
    """
    g = Graph(seed)
    x, length = _embedded(g, vocabulary, width, positions)
    there = g.add("Range", g.put("zero", np.array(0)), length, g.put("one", np.array(1)))
    later = g.add(
        "Greater", g.add("Unsqueeze", there, g.ints(0)), g.add("Unsqueeze", there, g.ints(1))
    )
    for layer in range(layers):
        x = _block(
            g, x, width, heads=heads, name=f"layer.{layer}", hidden=g.add("Or", _absent(g), later)
        )
    g.add(
        "MatMul",
        _norm(g, x, width, "norm"),
        g.weight("head.weight", width, vocabulary),
        name="logits",
    )
    return written(g, ["batch", tokens, vocabulary], tokens, ("attention_mask",))


def classifier(
    vocabulary: int,
    classes: int,
    *,
    width: int = 16,
    tokens: int | str = "tokens",
    seed: int = 0,
    positions: int = 64,
    pairs: bool = False,
) -> bytes:
    """Logits of classes, by attention and the mean of the tokens that are there."""
    g = Graph(seed)
    x, _ = _embedded(g, vocabulary, width, positions, pairs=pairs)
    x = _block(g, x, width, heads=2, name="layer.0", hidden=_absent(g))
    mask = g.add("Unsqueeze", g.add("Cast", "attention_mask", to=TensorProto.FLOAT), g.ints(2))
    total = g.add("ReduceSum", g.add("Mul", x, mask), g.ints(1), keepdims=0)
    mean = g.add("Div", total, g.add("ReduceSum", mask, g.ints(1), keepdims=0))
    weight, bias = g.weight("head.weight", width, classes), g.weight("head.bias", classes)
    g.add("Gemm", mean, weight, bias, name="logits")
    more = ("attention_mask", *(["token_type_ids"] if pairs else []))
    return written(g, ["batch", classes], tokens, more)


def labeller(vocabulary: int, classes: int, *, width: int = 16, positions: int = 64) -> bytes:
    """Logits of classes for each token, (batch, tokens, classes), by attention both ways."""
    g = Graph(0)
    x, _ = _embedded(g, vocabulary, width, positions)
    x = _block(g, x, width, heads=2, name="layer.0", hidden=_absent(g))
    product = g.add("MatMul", x, g.weight("head.weight", width, classes))
    g.add("Add", product, g.weight("head.bias", classes), name="logits")
    return written(g, ["batch", "tokens", classes], "tokens", ("attention_mask",))


def _embedded(
    g: Graph, vocabulary: int, width: int, positions: int, *, pairs: bool = False
) -> tuple[str, str]:
    """Embeddings of tokens and positions, and the length."""
    x = g.add("Gather", g.weight("embedding.weight", vocabulary, width), "input_ids")
    length = g.add("Gather", g.add("Shape", "input_ids"), g.put("axis", np.array(1)))
    end = g.add("Unsqueeze", length, g.ints(0))
    table = g.weight("position.weight", positions, width)
    x = g.add("Add", x, g.add("Slice", table, g.ints(0), end, g.ints(0)))
    if pairs:
        x = g.add("Add", x, g.add("Gather", g.weight("segment.weight", 2, width), "token_type_ids"))
    return x, length


def _absent(g: Graph) -> str:
    """(batch, 1, 1, tokens): which tokens are pads."""
    absent = g.add("Equal", "attention_mask", g.put(f"nothing_{len(g.weights)}", np.array(0)))
    return g.add("Unsqueeze", absent, g.ints(1, 2))


def _block(g: Graph, x: str, width: int, *, heads: int, name: str, hidden: str) -> str:
    """Attention that does not see what is hidden, with a residual, and so a layer of ReLU."""
    y, size = _norm(g, x, width, f"{name}.norm"), width // heads
    parts = []
    for part in ("query", "key", "value"):
        product = g.add("MatMul", y, g.weight(f"{name}.{part}.weight", width, width))
        split = g.add("Reshape", product, g.ints(0, 0, heads, size))
        parts.append(
            g.add("Transpose", split, perm=[0, 2, 3, 1] if part == "key" else [0, 2, 1, 3])
        )
    scores = g.add(
        "Mul", g.add("MatMul", *parts[:2]), g.put(f"{name}.scale", np.float32(size**-0.5))
    )
    never = g.put(f"{name}.never", np.float32(-1e4))
    share = g.add("Softmax", g.add("Where", hidden, never, scores), axis=-1)
    joined = g.add("Transpose", g.add("MatMul", share, parts[2]), perm=[0, 2, 1, 3])
    flat = g.add("Reshape", joined, g.ints(0, 0, width))
    x = g.add("Add", x, g.add("MatMul", flat, g.weight(f"{name}.out.weight", width, width)))
    z = g.add(
        "MatMul",
        _norm(g, x, width, f"{name}.norm2"),
        g.weight(f"{name}.up.weight", width, 2 * width),
    )
    z = g.add("MatMul", g.add("Relu", z), g.weight(f"{name}.down.weight", 2 * width, width))
    return g.add("Add", x, z)


def _norm(g: Graph, x: str, width: int, name: str) -> str:
    scale = g.put(f"{name}.weight", np.ones(width, np.float32))
    return g.add("LayerNormalization", x, scale, g.put(f"{name}.bias", np.zeros(width, np.float32)))


def written(g: Graph, output: list[Any], tokens: int | str, more: tuple[str, ...]) -> bytes:
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", tokens])
        for name in ("input_ids", *more)
    ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, output)]
    graph = helper.make_graph(g.nodes, "texts", inputs, outputs, g.weights)
    domains = {"": 17, **{node.domain: 1 for node in g.nodes if node.domain}}
    opsets = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content
