"""Small decoders as ONNX, with cached keys and values or without, and tokenizers of a few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from tokenizers import decoders as token_decoders

END = "<|end|>"
"""The only special token, 0."""


def word_tokenizer(words: Sequence[str]) -> Tokenizer:
    """Each word is a token, and so is each punctuation mark; 1 is for all others."""
    vocabulary = {word: token for token, word in enumerate((END, "[UNK]", *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens([END])
    return tokenizer


def byte_tokenizer(texts: Sequence[str], *, size: int) -> Tokenizer:
    """Byte pairs as in GPT-2, learned from texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = token_decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def saved(tokenizer: Tokenizer, folder: Path) -> Path:
    """Its `tokenizer.json`."""
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def bigrams(shares: Mapping[int, Mapping[int, float]], size: int) -> bytes:
    """A decoder that knows which token follows another. shares: by token, of the next one."""
    table = np.full((size, size), -30, np.float32)
    table[:, 0] = 0  # the end follows all others
    for token, following in shares.items():
        table[token] = -30
        for other, share in following.items():
            table[token, other] = np.log(share)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["logits"])]
    return _model(nodes, {"table": table}, size).SerializeToString()


def decoder(
    pieces: int,
    *,
    width: int = 32,
    heads: int = 2,
    layers: int = 2,
    positions: int = 128,
    cached: bool = False,
    length: int | None = None,
    mask: bool = False,
    places: str | None = None,
    seed: int = 0,
) -> bytes:
    """A transformer of random weights: `input_ids` (batch, length) → `logits`.

    positions: of the longest text. cached: with past_key_values and present, as Optimum exports.
    length: None for texts of any. mask: takes `attention_mask`. places: the input of positions.
    """
    nodes = _places(cached, mask=mask, places=places)
    for layer in range(layers):
        nodes += _layer(layer, f"out{layer - 1}" if layer else "embedded", cached=cached)
    nodes += _nodes(
        f"""
        normed = LayerNormalization out{layers - 1} last
        logits = MatMul normed head
        """
    )
    past = {f"{n}.{kind}": width // heads for n in range(layers) for kind in ("key", "value")}
    return _model(
        nodes,
        _weights(pieces, width, positions, heads=heads, layers=layers, seed=seed),
        pieces,
        past=past if cached else {},
        heads=heads,
        length=length,
        more=[*(["attention_mask"] if mask else []), *([places] if places else [])],
    ).SerializeToString()


def _weights(
    pieces: int, width: int, positions: int, *, heads: int, layers: int, seed: int
) -> dict[str, np.ndarray]:
    """By name, with the constants."""
    draws = np.random.default_rng(seed)
    shapes = {"tokens": (pieces, width), "places": (positions, width), "head": (width, pieces)}
    drawn = {name: draws.standard_normal(shape) for name, shape in shapes.items()}
    for layer in range(layers):
        of_layer = dict.fromkeys("qkvo", (width, width))
        of_layer |= {"up": (width, 4 * width), "down": (4 * width, width)}
        for name, shape in of_layer.items():
            drawn[f"{name}{layer}"] = draws.standard_normal(shape) / np.sqrt(shape[0])
        drawn[f"norm{layer}"] = np.ones(width)
    drawn["last"] = np.full(width, 2 * width**-0.5)
    scale, masked = np.array((width // heads) ** -0.5), np.array(-1e9)
    floats = {**drawn, "scale": scale, "masked": masked}
    numbers = {name: np.array(value) for value, name in enumerate(("zero", "one", "two"))}
    lists = {"first": [0], "second": [1], "both": [1, 2], "down_shape": [0, 0, width]}
    lists["up_shape"] = [0, 0, heads, width // heads]
    return {
        **{name: value.astype(np.float32) for name, value in floats.items()},
        **numbers,
        **{name: np.array(value) for name, value in lists.items()},
    }


def _places(cached: bool, *, mask: bool, places: str | None) -> list[NodeProto]:
    """Where each token is, and which other ones it sees."""
    known = (
        "past_shape = Shape past_key_values.0.key\nknown = Gather past_shape two"
        if cached
        else "known = Identity zero"
    )
    return _nodes(
        f"""
        size = Shape input_ids
        length = Gather size one
        {known}
        total = Add known length
        at = Range known total one
        all = Range zero total one
        place = Gather places {places or "at"}
        token = Gather tokens input_ids
        embedded = Add token place
        row = Unsqueeze at second
        column = Unsqueeze all first
        {"later" if not mask else "unseen"} = Greater column row
        {_MASKING if mask else ""}
        """
    )


_MASKING = """
        there = Cast attention_mask
        absent = Not there
        absent_by_head = Unsqueeze absent both
        later = Or unseen absent_by_head
"""


def _layer(n: int, hidden: str, *, cached: bool) -> list[NodeProto]:
    """Attention and a feed-forward net, each added to what was before."""
    lines = [f"normed{n} = LayerNormalization {hidden} norm{n}"]
    for name in "qkv":
        lines += [
            f"{name}_flat{n} = MatMul normed{n} {name}{n}",
            f"{name}_split{n} = Reshape {name}_flat{n} up_shape",
            f"{name}_new{n} = Transpose {name}_split{n}",
        ]
    for name, kind in (("k", "key"), ("v", "value")):
        past = f"past_key_values.{n}.{kind}"
        joined = f"Concat {past} {name}_new{n}" if cached else f"Identity {name}_new{n}"
        lines.append(f"present.{n}.{kind} = {joined}")
    lines += [
        f"turned{n} = Transpose present.{n}.key",
        f"products{n} = MatMul q_new{n} turned{n}",
        f"scaled{n} = Mul products{n} scale",
        f"seen{n} = Where later masked scaled{n}",
        f"shares{n} = Softmax seen{n}",
        f"mixed{n} = MatMul shares{n} present.{n}.value",
        f"back{n} = Transpose mixed{n}",
        f"joined{n} = Reshape back{n} down_shape",
        f"attended{n} = MatMul joined{n} o{n}",
        f"middle{n} = Add {hidden} attended{n}",
        f"inner{n} = LayerNormalization middle{n} norm{n}",
        f"wide{n} = MatMul inner{n} up{n}",
        f"active{n} = Relu wide{n}",
        f"narrow{n} = MatMul active{n} down{n}",
        f"out{n} = Add middle{n} narrow{n}",
    ]
    return _nodes("\n".join(lines))


def _nodes(text: str) -> list[NodeProto]:
    """`result = Operator input input`, a line each."""
    found = []
    for line in filter(None, map(str.strip, text.splitlines())):
        result, _, call = line.partition(" = ")
        operator, *inputs = call.split()
        given: dict[str, object] = {}
        if operator == "Transpose":
            given["perm"] = [0, 1, 3, 2] if result.startswith("turned") else [0, 2, 1, 3]
        if operator == "Cast":
            given["to"] = TensorProto.BOOL
        if operator == "Concat":
            given["axis"] = 2
        found.append(helper.make_node(operator, inputs, [result], name=result, **given))
    return found


def _model(
    nodes: Sequence[NodeProto],
    weights: Mapping[str, np.ndarray],
    pieces: int,
    *,
    past: Mapping[str, int] | None = None,
    heads: int = 1,
    length: int | None = None,
    more: Sequence[str] = (),
) -> ModelProto:
    info = helper.make_tensor_value_info
    read = {name for node in nodes for name in node.input}
    kept = {name: ["batch", heads, "past", size] for name, size in (past or {}).items()}
    present = {name: ["batch", heads, "all", size] for name, size in (past or {}).items()}
    graph = helper.make_graph(
        nodes,
        "decoder",
        [
            info("input_ids", TensorProto.INT64, ["batch", length or "length"]),
            *(info(name, TensorProto.INT64, ["batch", length or name]) for name in more),
            *(info(f"past_key_values.{n}", TensorProto.FLOAT, s) for n, s in kept.items()),
        ],
        [
            info("logits", TensorProto.FLOAT, ["batch", length or "length", pieces]),
            *(info(f"present.{n}", TensorProto.FLOAT, s) for n, s in present.items()),
        ],
        [numpy_helper.from_array(value, name) for name, value in weights.items() if name in read],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
