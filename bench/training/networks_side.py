"""PyTorch's side of `bench architectures`, run from the repository by the zoo's environment.

python -m bench.training.networks_side list
python -m bench.training.networks_side export NAME FOLDER
python -m bench.training.networks_side train NAME FOLDER FORM THREADS SECONDS [PREFIX…]

`export` writes the network as ONNX, its weights, and samples; `train` trains the parameters with
these prefixes, all by default, in one of FORMS. Each prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from bench.training.networks import NETWORKS, Network

FORMS = ("eager", "channels_last", "compiled")
BATCHES = 8
LEARNING_RATE = 1e-4
WARM_STEPS = 3
PATCHES = 2
"""Convolutions that transformers begin with."""


def build(name: str) -> nn.Module:
    """The network, the same at every call, with statistics that fit its weights."""
    torch.manual_seed(0)
    network = NETWORKS[name]
    net = network.build()
    norms = [m for m in net.modules() if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d))]
    net.eval()
    for norm in norms:
        norm.train()
        norm.momentum = None
    with torch.no_grad():
        for _ in range(3 if norms else 0):
            net(*(draw(8) for draw in network.inputs.values()))
        for parameter in net.parameters():  # exporters merge equal tensors
            parameter.add_(torch.randn_like(parameter), alpha=1e-3)
    return net.eval()


def samples(network: Network) -> tuple[list[Tensor], Tensor]:
    """As many as fill some batches."""
    torch.manual_seed(1)
    rows = BATCHES * network.batch_size
    inputs = [draw(rows) for draw in network.inputs.values()]
    return inputs, inputs[0] if network.loss == "mse" else network.target(rows)


def export(name: str, folder: Path) -> dict[str, Any]:
    torch.backends.mha.set_fastpath_enabled(False)  # the exporter knows no such operator
    network, net = NETWORKS[name], build(name)
    names = list(network.inputs)
    torch.onnx.export(
        net,
        tuple(draw(2) for draw in network.inputs.values()),
        folder / "model.onnx",
        input_names=names,
        output_names=["output"],
        dynamic_axes={name: {0: "batch"} for name in (*names, "output")},
        opset_version=17,
        training=torch.onnx.TrainingMode.PRESERVE,
        do_constant_folding=False,
        dynamo=False,
    )
    inputs, label = samples(network)
    arrays = {name: tensor.numpy() for name, tensor in zip(names, inputs, strict=True)}
    np.savez(folder / "data.npz", label=label.numpy(), **arrays)
    convolutions = sum(isinstance(m, (nn.Conv1d, nn.Conv2d)) for m in net.modules())
    return {
        "batch_size": network.batch_size,
        "loss": network.loss,
        "is_convolutional": convolutions > PATCHES,
    }


def train(
    name: str, form: str, *, threads: int, seconds: float, prefixes: tuple[str, ...]
) -> dict[str, Any]:
    """Samples per second by the median step."""
    torch.set_num_threads(threads)
    network, net = NETWORKS[name], build(name)
    inputs, label = samples(network)
    for key, parameter in net.named_parameters():
        parameter.requires_grad = key.startswith(prefixes) if prefixes else True
    if form == "channels_last":
        net = net.to(memory_format=torch.channels_last)
    model = torch.compile(net) if form == "compiled" else net
    chosen = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(chosen, lr=LEARNING_RATE, weight_decay=0.0, fused=True)
    took: list[float] = []
    began = time.perf_counter()
    while len(took) < WARM_STEPS + 2 or time.perf_counter() - began < seconds:
        rows = slice(0, network.batch_size)
        batch = [tensor[rows] for tensor in inputs]
        if form == "channels_last":
            batch = [_last(tensor) for tensor in batch]
        started = time.perf_counter()
        output = model(*batch)
        criterion = F.mse_loss if network.loss == "mse" else F.cross_entropy
        loss = criterion(output, label[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        took.append(time.perf_counter() - started)
        if len(took) == WARM_STEPS:
            began = time.perf_counter()
    return {"samples_per_second": network.batch_size / float(np.median(took[WARM_STEPS:]))}


def _last(tensor: Tensor) -> Tensor:
    return tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor


def main() -> None:
    warnings.simplefilter("ignore")
    action, *rest = sys.argv[1:]
    if action == "list":
        found: dict[str, Any] = {name: list(network.tail) for name, network in NETWORKS.items()}
    elif action == "export":
        found = export(rest[0], Path(rest[1]))
    else:
        name, form, threads, seconds, *prefixes = rest
        found = train(
            name,
            form,
            threads=int(threads),
            seconds=float(seconds),
            prefixes=tuple(prefixes),
        )
    print(json.dumps(found))


if __name__ == "__main__":
    main()
