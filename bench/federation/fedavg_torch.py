"""FedAvg in PyTorch on the same pictures, run by the interpreter of an environment with torch.

python fedavg_torch.py TASK.npz ROUNDS EPOCHS BATCH_SIZE LEARNING_RATE prints the accuracy by round.
McMahan et al. (2017), Communication-Efficient Learning of Deep Networks from Decentralized Data;
AdamW on the devices, begun anew in each round, as ours.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn
from torch.nn import functional

State = Mapping[str, torch.Tensor]


def network(given: Mapping[str, np.ndarray]) -> nn.Sequential:
    """The perceptron that begins with the weights of cameras.network."""
    layers: list[nn.Module] = []
    for layer in range(sum(name.endswith(".weight") for name in given)):
        weight, bias = given[f"layer{layer}.weight"], given[f"layer{layer}.bias"]
        linear = nn.Linear(*weight.shape)
        linear.load_state_dict({"weight": torch.tensor(weight.T), "bias": torch.tensor(bias)})
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train(
    model: nn.Module,
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    epochs: int,
    size: int,
    rate: float,
) -> State:
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    for _ in range(epochs):
        for part in torch.randperm(len(labels)).split(size):
            optimizer.zero_grad()
            functional.cross_entropy(model(images[part]), labels[part]).backward()
            optimizer.step()
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def mean(states: list[State], samples: list[int]) -> State:
    total = sum(samples)
    return {
        name: sum(n / total * state[name] for state, n in zip(states, samples, strict=True))
        for name in states[0]
    }


def main(path: str, rounds: int, epochs: int, size: int, rate: float) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with np.load(path) as file:
        arrays = dict(file)
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    devices = sum(name.startswith("x") for name in arrays)
    model = network(
        {k.removeprefix("start."): v for k, v in arrays.items() if k.startswith("start.")}
    )
    reached = []
    for _ in range(rounds):
        begin = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        trained = []
        for device in range(devices):
            model.load_state_dict(begin)
            images, labels = tensors[f"x{device}"], tensors[f"label{device}"]
            trained.append(train(model, images, labels, epochs=epochs, size=size, rate=rate))
        counts = [len(tensors[f"label{device}"]) for device in range(devices)]
        model.load_state_dict(mean(trained, counts))
        with torch.no_grad():
            right = model(tensors["kept_x"]).argmax(1) == tensors["kept_label"]
        reached.append(float(right.float().mean()))
    print(json.dumps({"accuracy": reached}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), rate=float(sys.argv[5]))
