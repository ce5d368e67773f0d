"""Operators whose gradients PyTorch told, kinks and ties among them: see make_pytorch_gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
STORED = Path(__file__).parents[2] / "service/training/graph/rules/pytorch_gradients.npz"


@dataclass(frozen=True, slots=True)
class Case:
    """One operator. inputs: float32 ones are differentiated by, unless they are constants."""

    op_type: str
    inputs: list[Array | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    constants: tuple[int, ...] = ()
    outputs: int = 1


def weights(shape: tuple[int, ...]) -> Array:
    """What the outputs are weighted with before they are summed."""
    return np.random.default_rng(5).normal(size=shape).astype(np.float32)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


X = normal(2, 4, 7, 6)
LINE = np.array([-3, -1, -0.5, 0, 0.5, 1, 3], np.float32)
TIED = np.random.default_rng(3).integers(0, 3, (2, 2, 6, 6)).astype(np.float32)
ZEROS = np.array([[2, 0, 3], [0, 0, 5], [1, 2, 4]], np.float32)


def recurrent(gates: int, states: int) -> list[Array | None]:
    """T = 3, N = 2, I = 4, H = 5."""
    k = 5 * gates
    layer = [normal(3, 2, 4), normal(1, k, 4, seed=1), normal(1, k, 5, seed=2)]
    return [
        *layer,
        normal(1, 2 * k, seed=3),
        None,
        *(normal(1, 2, 5, seed=4 + i) for i in range(states)),
    ]


GRID = np.random.default_rng(7).uniform(-1.6, 1.6, (2, 3, 5, 2)).astype(np.float32)
GRID_SAMPLES = [
    (mode, padding, corners)
    for mode in ("bilinear", "nearest")
    for padding in ("zeros", "border", "reflection")
    for corners in ("corners", "edges")
]

CASES: dict[str, Case] = {
    "relu": Case("Relu", [LINE]),
    "abs": Case("Abs", [LINE]),
    "clamp": Case("Clip", [LINE, np.float32(-1), np.float32(1)], constants=(1, 2)),
    "leaky_relu": Case("LeakyRelu", [LINE], {"alpha": 0.2}),
    "elu": Case("Elu", [LINE], {"alpha": 0.7}),
    "hardsigmoid": Case("HardSigmoid", [LINE], {"alpha": 1 / 6, "beta": 0.5}),
    "hardswish": Case("HardSwish", [LINE]),
    "softplus": Case("Softplus", [LINE]),
    "mish": Case("Mish", [LINE]),
    "gelu": Case("Gelu", [LINE]),
    "gelu_tanh": Case("Gelu", [LINE], {"approximate": "tanh"}),
    "prelu": Case("PRelu", [X, np.abs(normal(4, 1, 1, seed=1))]),
    "power": Case(
        "Pow", [np.array([0, 0, 1, 2], np.float32), np.array([0, 2, 3, 0.5], np.float32)]
    ),
    "maximum": Case("Max", [LINE, np.array([-3, 0, 0, 0, 0.5, 2, 2], np.float32)]),
    "amax": Case("ReduceMax", [TIED, ints(1, 3)], {"keepdims": 0}, constants=(1,)),
    "product": Case("ReduceProd", [ZEROS, ints(1)], {"keepdims": 0}, constants=(1,)),
    "norm": Case("ReduceL2", [np.array([[0, 0], [3, 4]], np.float32), ints(1)], constants=(1,)),
    "logsumexp": Case("ReduceLogSumExp", [X, ints(1, 2)], constants=(1,)),
    "softmax": Case("Softmax", [X], {"axis": 1}),
    "log_softmax": Case("LogSoftmax", [X], {"axis": 1}),
    "cumsum": Case("CumSum", [X, np.array(2)], constants=(1,)),
    "conv": Case(
        "Conv",
        [X, normal(6, 2, 3, 2, seed=1), normal(6, seed=2)],
        {"group": 2, "pads": [1, 2, 1, 2], "strides": [2, 1], "dilations": [1, 2]},
    ),
    "conv_depthwise": Case("Conv", [X, normal(4, 1, 3, 3, seed=1)], {"group": 4, "pads": [1] * 4}),
    "conv_transpose": Case(
        "ConvTranspose",
        [X, normal(4, 3, 3, 3, seed=1), normal(6, seed=2)],
        {"group": 2, "pads": [1] * 4, "strides": [2, 2], "output_padding": [1, 1]},
    ),
    "max_pool": Case("MaxPool", [TIED], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "max_pool_overlapping": Case(
        "MaxPool", [TIED], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    ),
    "average_pool": Case(
        "AveragePool", [X], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    ),
    "global_max_pool": Case("GlobalMaxPool", [TIED]),
    "layer_norm": Case("LayerNormalization", [X, normal(6, seed=1), normal(6, seed=2)]),
    "instance_norm": Case("InstanceNormalization", [X, normal(4, seed=1), normal(4, seed=2)]),
    "batch_norm": Case(
        "BatchNormalization",
        [
            X,
            normal(4, seed=1),
            normal(4, seed=2),
            normal(4, seed=3),
            np.abs(normal(4, seed=4)) + 0.1,
        ],
        constants=(3, 4),
    ),
    "local_response_norm": Case("LRN", [X], {"size": 3, "alpha": 0.3, "beta": 0.6, "bias": 1.2}),
    "embedding": Case("Gather", [normal(70, 3), np.array([[1, 69, 1], [0, 5, 1]])]),
    "gather": Case("GatherElements", [X, np.abs(TIED.astype(np.int64))[:, :, :4, :3]], {"axis": 1}),
    "scatter_add": Case(
        "ScatterElements",
        [normal(3, 4), np.array([[0, 1, 0], [2, 2, 1]]), normal(2, 3, seed=1)],
        {"axis": 0, "reduction": "add"},
    ),
    "pad_reflect": Case(
        "Pad", [X, ints(0, 0, 2, 1, 0, 0, 1, 3)], {"mode": "reflect"}, constants=(1,)
    ),
    "bilinear": Case(
        "Resize",
        [X, None, None, ints(2, 4, 10, 13)],
        {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
        constants=(3,),
    ),
    "bicubic": Case(
        "Resize",
        [X, None, None, ints(2, 4, 4, 11)],
        {
            "mode": "cubic",
            "coordinate_transformation_mode": "align_corners",
            "cubic_coeff_a": -0.75,
        },
        constants=(3,),
    ),
    **{
        f"grid_sample_{mode}_{padding}_{corners}": Case(
            "GridSample",
            [X, GRID],
            {
                "mode": {"bilinear": "linear"}.get(mode, mode),
                "padding_mode": padding,
                "align_corners": int(corners == "corners"),
            },
        )
        for mode, padding, corners in GRID_SAMPLES
    },
    "grid_sample_volume": Case(
        "GridSample", [normal(1, 2, 3, 4, 5), normal(1, 2, 3, 2, 3, seed=1)]
    ),
    **{
        f"affine_grid_{corners}": Case(
            "AffineGrid",
            [normal(2, 2, 3), ints(2, 1, 3, 4)],
            {"align_corners": int(corners == "corners")},
            constants=(1,),
        )
        for corners in ("corners", "edges")
    },
    "affine_grid_volume": Case(
        "AffineGrid", [normal(1, 3, 4), ints(1, 1, 2, 3, 4)], constants=(1,)
    ),
    "fold": Case(
        "Col2Im",
        [normal(2, 12, 20), ints(5, 6), ints(2, 3)],
        {"dilations": [2, 1], "pads": [1, 2, 1, 2], "strides": [1, 2]},
        constants=(1, 2),
    ),
    "rfft": Case(
        "DFT", [normal(3, 6, 4, 1), ints(5)[0], ints(1)[0]], {"onesided": 1}, constants=(1, 2)
    ),
    "ifft": Case("DFT", [normal(3, 6, 4, 2), None, ints(-2)[0]], {"inverse": 1}, constants=(2,)),
    "stft": Case(
        "STFT",
        [normal(2, 19, 1), ints(3)[0], normal(6, seed=1), ints(6)[0]],
        {"onesided": 1},
        constants=(1, 2, 3),
    ),
    "einsum": Case("Einsum", [X, normal(2, 4, 3, 6, seed=1)], {"equation": "bhid,bhjd->bhij"}),
    "rnn": Case("RNN", recurrent(1, 1), {"hidden_size": 5}, outputs=2),
    "gru": Case("GRU", recurrent(3, 1), {"hidden_size": 5, "linear_before_reset": 1}, outputs=2),
    "lstm": Case("LSTM", recurrent(4, 2), {"hidden_size": 5}, outputs=3),
}
