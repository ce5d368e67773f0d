"""Writes the gradients that PyTorch gives for the cases of tests/helpers/graphs/pytorch_cases.py.

    cd tests/service/training/graph/rules
    PYTHONPATH=../../../../helpers/graphs python make_pytorch_gradients.py

Needs torch and numpy, and nothing of Hone. The file that lies here is of torch 2.13.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as f
from pytorch_cases import CASES, GRID_SAMPLES, STORED, weights

Tensor = torch.Tensor


def gates(rows: Tensor, order: tuple[int, ...]) -> Tensor:
    """PyTorch orders its gates otherwise: LSTM's i, f, g, o and GRU's r, z, n."""
    parts = rows.chunk(len(order))
    return torch.cat([parts[i] for i in order])


def layer(kind: str, order: tuple[int, ...]) -> Callable[..., tuple[Tensor, ...]]:
    def run(x: Tensor, w: Tensor, r: Tensor, b: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        both = b[0].chunk(2)
        flat = [gates(w[0], order), gates(r[0], order), *(gates(part, order) for part in both)]
        first = tuple(states) if len(states) > 1 else states[0]
        function = getattr(torch._VF, kind)
        found = function(x, first, flat, True, 1, 0.0, False, False, False)
        return (found[0].unsqueeze(1), *found[1:])

    return run


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "relu": f.relu,
    "abs": torch.abs,
    "clamp": lambda x, low, high: x.clamp(float(low), float(high)),
    "leaky_relu": lambda x: f.leaky_relu(x, 0.2),
    "elu": lambda x: f.elu(x, 0.7),
    "hardsigmoid": f.hardsigmoid,
    "hardswish": f.hardswish,
    "softplus": f.softplus,
    "mish": f.mish,
    "gelu": f.gelu,
    "gelu_tanh": lambda x: f.gelu(x, approximate="tanh"),
    "prelu": lambda x, slope: f.prelu(x, slope.flatten()),
    "power": torch.pow,
    "maximum": torch.maximum,
    "amax": lambda x, _: x.amax((1, 3)),
    "product": lambda x, _: x.prod(1),
    "norm": lambda x, _: x.norm(dim=1, keepdim=True),
    "logsumexp": lambda x, _: x.logsumexp((1, 2), keepdim=True),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "cumsum": lambda x, _: x.cumsum(2),
    "conv": lambda x, w, b: f.conv2d(x, w, b, (2, 1), (1, 2), (1, 2), 2),
    "conv_depthwise": lambda x, w: f.conv2d(x, w, padding=1, groups=4),
    "conv_transpose": lambda x, w, b: f.conv_transpose2d(x, w, b, 2, 1, 1, 2),
    "max_pool": lambda x: f.max_pool2d(x, 2),
    "max_pool_overlapping": lambda x: f.max_pool2d(x, 3, 2, 1),
    "average_pool": lambda x: f.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "global_max_pool": lambda x: f.adaptive_max_pool2d(x, 1),
    "layer_norm": lambda x, w, b: f.layer_norm(x, (6,), w, b),
    "instance_norm": lambda x, w, b: f.instance_norm(x, weight=w, bias=b),
    "batch_norm": lambda x, w, b, mean, var: f.batch_norm(x, mean, var, w, b),
    "local_response_norm": lambda x: f.local_response_norm(x, 3, 0.3, 0.6, 1.2),
    "embedding": lambda table, index: f.embedding(index, table),
    "gather": lambda x, index: x.gather(1, index),
    "scatter_add": lambda x, index, updates: x.scatter_add(0, index, updates),
    "pad_reflect": lambda x, _: f.pad(x, (1, 3, 2, 1), mode="reflect"),
    "bilinear": lambda x, _: f.interpolate(x, (10, 13), mode="bilinear"),
    "bicubic": lambda x, _: f.interpolate(x, (4, 11), mode="bicubic", align_corners=True),
    **{
        f"grid_sample_{mode}_{padding}_{corners}": (
            lambda x, grid, mode=mode, padding=padding, corners=corners: f.grid_sample(
                x, grid, mode, padding, align_corners=corners == "corners"
            )
        )
        for mode, padding, corners in GRID_SAMPLES
    },
    "grid_sample_volume": lambda x, grid: f.grid_sample(x, grid, align_corners=False),
    "affine_grid_corners": lambda x, _: f.affine_grid(x, [2, 1, 3, 4], align_corners=True),
    "affine_grid_edges": lambda x, _: f.affine_grid(x, [2, 1, 3, 4], align_corners=False),
    "affine_grid_volume": lambda x, _: f.affine_grid(x, [1, 1, 2, 3, 4], align_corners=False),
    "fold": lambda x, *_: f.fold(x, (5, 6), (2, 3), (2, 1), (1, 2), (1, 2)),
    "rfft": lambda x, *_: torch.view_as_real(torch.fft.rfft(x[..., 0], 5, dim=1)),
    "ifft": lambda x, _: torch.view_as_real(torch.fft.ifft(torch.view_as_complex(x))),
    "stft": lambda x, step, window, length: torch.view_as_real(
        torch.stft(
            x[..., 0], int(length), int(step), window=window, center=False, return_complex=True
        )
    ).transpose(1, 2),
    "einsum": lambda a, b: torch.einsum("bhid,bhjd->bhij", a, b),
    "rnn": layer("rnn_tanh", (0,)),
    "gru": layer("gru", (1, 0, 2)),
    "lstm": layer("lstm", (0, 2, 3, 1)),
}


def main() -> None:
    """Every case in float64."""
    stored: dict[str, Any] = {}
    for name, case in CASES.items():
        given = [None if v is None else torch.tensor(np.asarray(v)) for v in case.inputs]
        for i, value in enumerate(given):
            if value is not None and value.is_floating_point():
                given[i] = value.double().requires_grad_(i not in case.constants)
        found = FUNCTIONS[name](*(value for value in given if value is not None))
        outputs = found if isinstance(found, tuple) else (found,)
        sum((o * torch.tensor(weights(tuple(o.shape)))).sum() for o in outputs).backward()
        for i, value in enumerate(given):
            if value is not None and value.grad is not None:
                stored[f"{name}.{i}"] = value.grad.numpy().astype(np.float32)
        stored[f"{name}.y"] = outputs[0].detach().numpy().astype(np.float32)
    np.savez_compressed(STORED, **stored)


if __name__ == "__main__":
    main()
