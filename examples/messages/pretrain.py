"""Makes base.onnx and tokenizer.json: an encoder of sentences that knows the code's words.

A daemon of its own trains it, as any model of texts: to tell the rooms of the project apart by
their sentences. Then its head goes, and the table of its words is stored in int8.

    python examples/messages/pretrain.py [FOLDER]
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper, parser
from onnxruntime.quantization import QuantType, quantize_dynamic
from reading import TOPICS, Texts, rooms
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

sys.path.append(str(Path(__file__).parents[1]))

from asking import ask, register, train

from cli.demo.daemon import running

VOCABULARY, WIDTH, LONGEST = 2048, 64, 48
NAME = "rooms"
EPOCHS, BATCH_SIZE, LEARNING_RATE = 6, 64, 1e-2
NETWORK = """
<ir_version: 8, opset_import: ["" : 17]>
messages (int64[N, tokens] input_ids, int64[N, tokens] attention_mask) => (float[N, ?] logits)
<int64[1] last = {2}, int64[1] tokens = {1}> {
    [look_up] each = Gather (words, input_ids)
    seen = Cast <to = 1> (attention_mask)
    kept = Unsqueeze (seen, last)
    said = Mul (each, kept)
    sum = ReduceSum <keepdims = 0> (said, tokens)
    count = ReduceSum <keepdims = 1> (seen, tokens)
    features = Div (sum, count)
    logits = Gemm (features, "head.weight", "head.bias")
}
"""
Weights = dict[str, NDArray[np.float32]]


def trained_tokenizer(texts: list[str]) -> Tokenizer:
    """Byte-pair encoding of these texts."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options = {"vocab_size": VOCABULARY, "special_tokens": ["<pad>"], "initial_alphabet": alphabet}
    made.train_from_iterator(texts, trainers.BpeTrainer(**options, show_progress=False))
    return made


def initial_weights(classes: int) -> Weights:
    """Of variance 0.01 for words, 1/inputs for the head."""
    draw = np.random.default_rng(0).standard_normal
    return {
        "words": (draw((VOCABULARY, WIDTH)) / 10).astype(np.float32),
        "head.weight": (draw((WIDTH, classes)) / np.sqrt(WIDTH)).astype(np.float32),
        "head.bias": np.zeros(classes, np.float32),
    }


def encoder(weights: Weights) -> onnx.ModelProto:
    """input_ids, attention_mask (N, tokens) int64 → logits (N, classes), of the mean of words."""
    model = parser.parse_model(NETWORK)
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    onnx.checker.check_model(model, full_check=True)
    return model


def learned(texts: Texts, tokenizer: Path, folder: Path) -> Weights:
    """The weights once a daemon has trained them. folder: for its data."""
    names = sorted({room for _, room in texts})
    untrained = encoder(initial_weights(len(names))).SerializeToString()
    text = {"kind": "text", "max_tokens": LONGEST}
    with running(folder) as daemon:
        os.environ["HONED_URL"] = daemon.client.url
        os.environ["HONED_TOKEN"] = daemon.token_file.read_text("ascii").strip()
        options = ("--tokenizer", tokenizer)
        register(NAME, untrained, "cross_entropy", *options, preprocess=text, classes=names)
        lines = "\n".join(json.dumps({"text": text, "label": room}) for text, room in texts)
        headers = {"Content-Type": "application/jsonl"}
        print(ask("POST", f"{NAME}/samples", content=lines, headers=headers).text)
        recipe = {"epochs": EPOCHS, "batch-size": BATCH_SIZE, "learning-rate": LEARNING_RATE}
        recipe |= {"seed": 1}
        print(train(NAME, *(f"--{name}={value}" for name, value in recipe.items())))
        trained = onnx.load_from_string(ask("GET", f"{NAME}/latest/model.onnx").content)
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in trained.graph.initializer}


def main(folder: Path) -> None:
    """Write both files."""
    texts, tokenizer = rooms(), folder / "tokenizer.json"
    trained_tokenizer([each for each, _ in texts]).save(str(tokenizer), pretty=False)
    with tempfile.TemporaryDirectory() as scratch:
        weights = learned(texts, tokenizer, Path(scratch))
        plain = Path(scratch) / "plain.onnx"
        onnx.save(encoder(initial_weights(len(TOPICS)) | {"words": weights["words"]}), plain)
        base, only = folder / "base.onnx", ["look_up"]
        quantize_dynamic(plain, base, weight_type=QuantType.QInt8, nodes_to_quantize=only)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
