"""Makes base.onnx and commands.csv from CLINC150, of which only these are committed.

The base learns to tell the 140 intents apart that are not among COMMANDS, in float32. Its head
goes, and what is left is stored in int8. The same engine and one thread give the same bytes again.

    git clone https://github.com/clinc/oos-eval
    python examples/voice_commands/pretrain.py oos-eval/data/data_full.json
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from model import BASE, Floats, initial_weights, network, tokenize
from onnx import numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from service.training.engines.opening import open_engine
from service.training.engines.runtime import onnxruntime
from service.training.optimizer.options import OptimizerOptions
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages.preparation import Prepare

COMMANDS = (
    *("alarm", "calendar", "find_phone", "make_call", "play_music"),
    *("shopping_list", "smart_home", "timer", "translate", "weather"),
)
EXAMPLES, KEPT_BACK = 30, 30
"""Texts of each command that the device gets, and that no training sees."""
EPOCHS, BATCH_SIZE, LEARNING_RATE = 8, 64, 2e-3
Texts = list[tuple[str, str]]


def write_commands(train: Texts, test: Texts) -> None:
    """The first so many of each."""
    with BASE.with_name("commands.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["part", "command", "text"])
        for part, texts, count in (("device", train, EXAMPLES), ("kept_back", test, KEPT_BACK)):
            for command in COMMANDS:
                own = [text for text, intent in texts if intent == command][:count]
                writer.writerows([part, command, text] for text in own)


def pretrain(texts: Texts, judged: Texts, folder: Path) -> dict[str, Floats]:
    """The weights after training on all other intents."""
    intents = sorted({intent for _, intent in texts})
    source = folder / "untrained.onnx"
    onnx.save(network(initial_weights(len(intents))), source)
    order = Prepare(str(source), "forward", str(folder / "prepared"), loss="cross_entropy")
    prepared = make_step_models(source, order)
    recipe = OptimizerOptions(weight_decay=0.01)
    engine = open_engine(
        prepared.artifacts, output=prepared.output, threads=1, optimizer_options=recipe
    )
    tokens = np.array([tokenize(text) for text, _ in texts], np.int64)
    labels = np.array([intents.index(intent) for _, intent in texts], np.int64)
    rng, steps = np.random.default_rng(0), EPOCHS * len(labels) // BATCH_SIZE
    step = 0
    for _ in range(EPOCHS):
        shuffled = rng.permutation(len(labels))
        for rows in np.split(shuffled, range(BATCH_SIZE, len(labels), BATCH_SIZE)):
            seen = np.where(rng.random(tokens[rows].shape) < 0.1, 0, tokens[rows])  # words dropped
            engine.train_batch([seen], labels[rows])
            engine.step(LEARNING_RATE * (0.5 + 0.5 * np.cos(np.pi * min(1, step / steps))))
            step += 1
    engine.export(folder / "trained.onnx")
    session = onnxruntime.InferenceSession(folder / "trained.onnx")
    unseen = np.array([tokenize(text) for text, _ in judged], np.int64)
    (said,) = session.run(["logits"], {"tokens": unseen})
    named = [intents[index] for index in said.argmax(axis=1)]
    right = np.mean([a == b for a, (_, b) in zip(named, judged, strict=True)])
    print(f"{right:.1%} of {len(judged)} unseen texts right among {len(intents)} intents")
    trained = onnx.load(folder / "trained.onnx")
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in trained.graph.initializer}


def main(source: Path) -> None:
    """Write both files."""
    data = json.loads(source.read_text())
    write_commands(data["train"], data["test"])
    others = [(t, i) for t, i in data["train"] if i not in COMMANDS]
    judged = [(t, i) for t, i in data["test"] if i not in COMMANDS]
    with tempfile.TemporaryDirectory() as scratch:
        learned = pretrain(others, judged, Path(scratch))
        fresh = initial_weights(len(COMMANDS))
        kept = {n: v if n.startswith("head.") else learned[n] for n, v in fresh.items()}
        plain = Path(scratch) / "plain.onnx"
        onnx.save(network(kept), plain)
        matrices = [node.name for node in network(kept).graph.node if node.op_type == "MatMul"]
        # Weights of 7 bits: sums of larger products overflow on x86 processors without VNNI.
        quantize_dynamic(
            plain,
            BASE,
            weight_type=QuantType.QInt8,
            reduce_range=True,
            nodes_to_quantize=[*matrices, "words"],
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
