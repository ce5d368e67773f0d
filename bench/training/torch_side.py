"""PyTorch's side of the comparison, run by the interpreter of an environment that has torch.

python torch_side.py export NAME MODEL.onnx writes the model that both sides train.
python torch_side.py train NAME DATA.npz EPOCHS BATCH_SIZE THREADS trains it the usual way, writes
the trained model to DATA.npz's folder, and prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

LEARNING_RATE = 1e-3
SHAPES = {
    "mlp": (784,),
    "mlp-small": (32,),
    "cnn": (1, 28, 28),
    "frozen-backbone": (3, 96, 96),
    "mobilenet": (3, 96, 96),
    "transformer": (32, 64),
}
CLASSES = 10


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project. Source: Sandler et al. (2018), MobileNetV2."""

    def __init__(self, inputs: int, outputs: int, *, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.adds = stride == 1 and inputs == outputs
        expand = [] if expansion == 1 else conv(inputs, hidden, kernel=1)
        self.layers = nn.Sequential(
            *expand,
            *conv(hidden, hidden, kernel=3, stride=stride, groups=hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


class InvertedResidualNet(nn.Module):
    """MobileNetV2 at width 1 for 96 by 96 pixels.

    frozen: only its head trains, and the statistics stay those of the exported model.
    """

    PLAN = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )

    def __init__(self, *, frozen: bool) -> None:
        super().__init__()
        layers, width = conv(3, 32, kernel=3, stride=2), 32
        for expansion, outputs, count, stride in self.PLAN:
            for number in range(count):
                step = stride if number == 0 else 1
                layers.append(InvertedResidual(width, outputs, stride=step, expansion=expansion))
                width = outputs
        layers += conv(width, 1280, kernel=1)
        self.backbone = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(1280, CLASSES)
        for parameter in self.backbone.parameters():
            parameter.requires_grad = not frozen

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(image))

    def train(self, mode: bool = True) -> InvertedResidualNet:
        """Keep the backbone's statistics, as is usual in fine-tuning."""
        super().train(mode)
        self.backbone.eval()
        return self


class Transformer(nn.Module):
    """Two encoder layers over 32 steps of 64 features, and a mean over time."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        # Its layers are copies of one: the exporter would merge equal tensors.
        self.encoder.layers[1] = nn.TransformerEncoderLayer(
            64, 4, 128, dropout=0.0, batch_first=True
        )
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x).mean(1))


def conv(
    inputs: int, outputs: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    padding = kernel // 2
    return [
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(),
    ]


def mlp(*sizes: int) -> nn.Module:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def build(name: str) -> nn.Module:
    """The model, the same at every call."""
    torch.manual_seed(0)
    if name == "mlp":
        return mlp(784, 512, 512, CLASSES)
    if name == "mlp-small":
        return mlp(32, 64, 64, CLASSES)
    if name == "cnn":
        return nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, CLASSES),
        )
    if name == "transformer":
        return Transformer()
    net = InvertedResidualNet(frozen=name == "frozen-backbone")
    settle(net)
    return net


@torch.no_grad()
def settle(net: InvertedResidualNet) -> None:
    """Give the random backbone statistics that fit its weights, like a pretrained one's."""
    net.backbone.train()
    for layer in net.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = None
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        net.backbone(torch.rand(16, 3, 96, 96, generator=generator))
    net.eval()


def export(name: str, path: Path) -> None:
    net = build(name).eval()
    torch.onnx.export(
        net,
        (torch.rand(2, *SHAPES[name]),),
        path,
        input_names=["x"],
        output_names=["logits"],
        dynamic_axes={"x": {0: "batch"}, "logits": {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )


def train(name: str, data: Path, epochs: int, batch_size: int, threads: int) -> dict[str, float]:
    """seconds: from the first step to the written model; training_seconds: only the steps."""
    torch.set_num_threads(threads)
    with np.load(data) as arrays:
        x, y = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["label"])
        held_x, held_y = torch.from_numpy(arrays["held_x"]), torch.from_numpy(arrays["held_label"])
    net = build(name).train()
    chosen = [parameter for parameter in net.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(chosen, lr=LEARNING_RATE, weight_decay=0.0, fused=True)
    generator = torch.Generator().manual_seed(5)
    began = time.perf_counter()
    for _ in range(epochs):
        for rows in batches(len(x), batch_size, generator):
            loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    trained = time.perf_counter()
    torch.save(net.state_dict(), data.with_name(f"{name}.pt"))
    seconds = time.perf_counter() - began
    hits = evaluate(net, held_x, held_y, batch_size)
    return {
        "seconds": seconds,
        "samples_per_second": epochs * len(x) / (trained - began),
        "accuracy": hits / len(held_y),
    }


def batches(count: int, size: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    yield from torch.randperm(count, generator=generator).split(size)


@torch.no_grad()
def evaluate(net: nn.Module, x: torch.Tensor, y: torch.Tensor, batch_size: int) -> int:
    net.eval()
    pairs = zip(x.split(batch_size), y.split(batch_size), strict=True)
    return sum(int((net(a).argmax(1) == b).sum()) for a, b in pairs)


def main() -> None:
    action, name, path = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if action == "export":
        export(name, path)
    else:
        print(json.dumps(train(name, path, *map(int, sys.argv[4:7]))))


if __name__ == "__main__":
    main()
