"""Exports Keras models by tf2onnx, and records how Keras trains each.

    python -m tests.zoo.make_keras FOLDER [NAME…]

Run it with an environment that has tensorflow-cpu and tf2onnx. BatchNorm becomes a product and a
sum of its own there, so models that have it train their last layer alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from keras import layers

from tests.zoo.case import STEPS, Case, write

ROWS, CLASSES, VOCABULARY = 4, 10, 50
MOVES = 0.05
OPSET = 17


@dataclass(frozen=True, slots=True)
class Network:
    """A stack of layers over one input. shape: of a row; of tokens if ids."""

    shape: tuple[int, ...]
    build: Callable[[Any], Any]
    ids: bool = False
    head: bool = False
    loss: str = "cross_entropy"

    def model(self, dtype: str) -> keras.Model:
        keras.config.set_dtype_policy(dtype)
        entry = keras.Input(self.shape, dtype="int64" if self.ids else dtype)
        return keras.Model(entry, self.build(entry))


def _gelu(x: Any) -> Any:
    """By tanh: tf2onnx does not know the other's Erfc."""
    return keras.activations.gelu(x, approximate=True)


def _perceptron(x: Any) -> Any:
    for kind in ("relu", _gelu, "softplus", "elu", "selu", "silu", "tanh", "hard_sigmoid", "mish"):
        x = layers.Dense(12, activation=kind)(x)
    x = layers.LayerNormalization()(x)
    return layers.Dense(CLASSES)(layers.PReLU()(x))


def _convolutions(x: Any) -> Any:
    x = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu6")(x)
    x = layers.SeparableConv2D(12, 3, padding="same", activation="leaky_relu")(x)
    x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    x = layers.DepthwiseConv2D(3, strides=2, padding="same", depth_multiplier=2)(x)
    x = layers.AveragePooling2D(2, padding="same")(layers.Activation("hard_silu")(x))
    x = layers.UnitNormalization()(layers.GlobalMaxPooling2D()(x))
    return layers.Dense(CLASSES)(x)


def _squeezed(x: Any) -> Any:
    x = layers.Conv2D(8, 3, dilation_rate=2, groups=1, activation="swish")(x)
    weight = layers.GlobalAveragePooling2D(keepdims=True)(x)
    weight = layers.Conv2D(8, 1, activation="sigmoid")(weight)
    x = layers.GroupNormalization(4)(layers.Multiply()([x, weight]))
    return layers.Dense(CLASSES)(layers.Flatten()(layers.Cropping2D(2)(x)))


def _picture(x: Any) -> Any:
    small = layers.Conv2D(12, 3, strides=2, padding="same", activation="relu")(x)
    up = layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu")(small)
    near = layers.UpSampling2D(2)(layers.Conv2D(4, 1)(small))
    smooth = layers.UpSampling2D(2, interpolation="bilinear")(layers.Conv2D(4, 1)(small))
    x = layers.Concatenate()([up, near, smooth, x])
    return layers.Conv2D(3, 3, padding="same")(layers.ZeroPadding2D(1)(x))


def _signal(x: Any) -> Any:
    x = layers.Conv1D(12, 3, padding="causal", dilation_rate=2, activation="relu")(x)
    x = layers.Conv1D(12, 3, strides=2, padding="same", activation="tanh")(x)
    return layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x))


def _recurrent(kind: Any, **options: Any) -> Callable[[Any], Any]:
    def build(x: Any) -> Any:
        return layers.Dense(CLASSES)(kind(8, **options)(x))

    return build


def _attending(x: Any) -> Any:
    x = layers.Embedding(VOCABULARY, 16)(x)
    x = layers.LayerNormalization()(x + layers.MultiHeadAttention(2, 8)(x, x))
    x = layers.Dense(16)(layers.Dense(32, activation=_gelu)(x)) + x
    return layers.Dense(CLASSES)(layers.GlobalAveragePooling1D()(x))


def _mobilenet(x: Any) -> Any:
    body = keras.applications.MobileNetV2(
        input_tensor=x, alpha=0.35, include_top=False, weights=None, pooling="avg"
    )
    return layers.Dense(CLASSES)(body.output)


SERIES = (6, 8)
NETWORKS = {
    "perceptron": Network((12,), _perceptron),
    "convolutions": Network((33, 33, 3), _convolutions),
    "squeezed": Network((16, 16, 3), _squeezed),
    "picture": Network((16, 16, 3), _picture, loss="mse"),
    "signal": Network((16, 8), _signal),
    "lstm": Network(SERIES, _recurrent(layers.LSTM)),
    "lstm_unrolled": Network(SERIES, _recurrent(layers.LSTM, unroll=True)),
    "gru": Network(SERIES, _recurrent(layers.GRU)),
    "gru_unrolled": Network(SERIES, _recurrent(layers.GRU, unroll=True)),
    "rnn_unrolled": Network(SERIES, _recurrent(layers.SimpleRNN, unroll=True)),
    "attending": Network((12,), _attending, ids=True),
    "mobilenet": Network((96, 96, 3), _mobilenet, head=True),
}


def main() -> None:
    """Make the cases of the named networks, or of all."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or NETWORKS:
        write(folder, f"keras_{name}", [_case(name, NETWORKS[name], folder)])
        print(name, flush=True)


def _case(name: str, network: Network, folder: Path) -> Case:
    case = Case(f"keras_{name}", f"keras_{name}.onnx", network.loss, inputs=["x"])
    random = np.random.default_rng(3)
    keras.utils.set_random_seed(1)
    model = network.model("float32")
    weights = [w + 0.05 * random.standard_normal(w.shape) for w in model.get_weights()]
    weights = [np.abs(w) if w.ndim == 1 else w for w in weights]  # variances stay positive
    model.set_weights(weights)
    _export(network, model, folder / case.model)
    arrays = _data(network, model, random)
    rate, start = 1.0, _trained(network, weights, "float32", arrays, 0.0)
    while True:
        moved = _trained(network, weights, "float32", arrays, rate) - start
        if np.linalg.norm(moved) < MOVES * np.linalg.norm(start):
            break
        rate /= 4
    before, after = (_trained(network, weights, "float64", arrays, r) for r in (0.0, rate))
    single = _trained(network, weights, "float32", arrays, rate)
    case.learning_rate = rate
    case.noise = float(np.linalg.norm(single - after) / np.linalg.norm(after - before))
    case.trainable = ["head"] if network.head else None
    np.savez(folder / f"{case.name}.npz", **arrays, before=before, after=after)
    return case


def _export(network: Network, model: keras.Model, path: Path) -> None:
    kind = tf.int64 if network.ids else tf.float32
    called = tf.function(lambda x: model(x, training=False))
    spec = tf.TensorSpec((None, *network.shape), kind, name="x")
    written, _ = tf2onnx.convert.from_function(called, input_signature=(spec,), opset=OPSET)
    onnx.save(written, path)


def _data(network: Network, model: keras.Model, random: np.random.Generator) -> dict[str, Any]:
    shape = (STEPS + 1, ROWS, *network.shape)
    x = random.standard_normal(shape).astype(np.float32)
    x = random.integers(0, VOCABULARY, shape) if network.ids else x
    target = random.standard_normal((STEPS, ROWS, *model.output.shape[1:])).astype(np.float32)
    if network.loss == "cross_entropy":
        target = random.integers(0, CLASSES, (STEPS, ROWS))
    return {"train.x": x[:-1], "held.x": x[-1], "target": target}


def _trained(
    network: Network, weights: list[Any], dtype: str, arrays: dict[str, Any], rate: float
) -> Any:
    """Outputs on the held rows after five steps of SGD."""
    model = network.model(dtype)
    model.set_weights(weights)
    steps = [] if rate == 0 else list(zip(arrays["train.x"], arrays["target"], strict=True))
    trains = model.trainable_variables[-2:] if network.head else model.trainable_variables
    for x, target in steps:
        with tf.GradientTape() as tape:
            output = model(_as(x, dtype), training=False)
            loss = _loss(network.loss, output, target, dtype)
        for variable, slope in zip(trains, tape.gradient(loss, trains), strict=True):
            variable.assign_sub(rate * tf.convert_to_tensor(slope))
    return model(_as(arrays["held.x"], dtype), training=False).numpy()


def _loss(name: str, output: Any, target: Any, dtype: str) -> Any:
    if name == "cross_entropy":
        losses = keras.losses.sparse_categorical_crossentropy(target, output, from_logits=True)
        return tf.reduce_mean(losses)
    return tf.reduce_mean(tf.square(output - _as(target, dtype)))


def _as(array: Any, dtype: str) -> Any:
    return tf.constant(array.astype(dtype) if array.dtype.kind == "f" else array)


if __name__ == "__main__":
    main()
