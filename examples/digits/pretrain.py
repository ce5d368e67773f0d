"""Makes base.onnx: a small CNN, pre-trained on 400 clean digits.

The same engine and one thread give the same bytes again.

    python examples/digits/pretrain.py [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from math import sqrt
from pathlib import Path

import numpy as np
import onnx
from dataset import HERE, Digits, split
from numpy.typing import NDArray
from onnx import numpy_helper, parser

from service.training.engines.opening import open_engine
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages.preparation import Prepare

EPOCHS, BATCH_SIZE, LEARNING_RATE = 40, 32, 2e-3
SHAPES = {
    "conv1.weight": (16, 1, 3, 3),
    "conv1.bias": (16,),
    "conv2.weight": (32, 16, 3, 3),
    "conv2.bias": (32,),
    "head.weight": (10, 32 * 4 * 4),
    "head.bias": (10,),
}
NETWORK = """
<ir_version: 8, opset_import: ["" : 17]>
digits (float[N, 1, 8, 8] image) => (float[N, 10] logits) {
    conv1 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (image, "conv1.weight", "conv1.bias")
    relu1 = Relu (conv1)
    conv2 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (relu1, "conv2.weight", "conv2.bias")
    relu2 = Relu (conv2)
    pool = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (relu2)
    features = Flatten (pool)
    logits = Gemm <transB = 1> (features, "head.weight", "head.bias")
}
"""


def initial_weights(rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    """Zero biases, and weights after He et al. (2015): variance 2 / fan-in."""
    return {name: _initial(shape, rng) for name, shape in SHAPES.items()}


def _initial(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    return (rng.standard_normal(shape) * sqrt(2 / np.prod(shape[1:]))).astype(np.float32)


def cnn(weights: dict[str, NDArray[np.float32]]) -> onnx.ModelProto:
    """image (N, 1, 8, 8) float32 in [0, 1] → logits (N, 10)."""
    model = parser.parse_model(NETWORK)
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    onnx.checker.check_model(model, full_check=True)
    return model


def train(model: onnx.ModelProto, digits: Digits, folder: Path) -> dict[str, NDArray[np.float32]]:
    """The weights after training on the digits. folder: for artifacts."""
    onnx.save(model, folder / "untrained.onnx")
    source = folder / "untrained.onnx"
    order = Prepare(str(source), "forward", str(folder / "prepared"), loss="cross_entropy")
    prepared = make_step_models(source, order)
    engine = open_engine(prepared.artifacts, output=prepared.output, threads=1)
    rng = np.random.default_rng(0)
    for _ in range(EPOCHS):
        order = rng.permutation(len(digits.labels))
        for rows in np.split(order, range(BATCH_SIZE, len(order), BATCH_SIZE)):
            engine.train_batch([digits.images[rows]], digits.labels[rows])
            engine.step(LEARNING_RATE)
    engine.export(folder / "trained.onnx")
    trained = onnx.load(folder / "trained.onnx")
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in trained.graph.initializer}


def main(folder: Path) -> None:
    """Write base.onnx: the graph as built, with the trained weights."""
    pretraining, _, _ = split()
    untrained = cnn(initial_weights(np.random.default_rng(7)))
    with tempfile.TemporaryDirectory() as scratch:
        weights = train(untrained, pretraining, Path(scratch))
    onnx.save(cnn({name: weights[name] for name in SHAPES}), folder / "base.onnx")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
