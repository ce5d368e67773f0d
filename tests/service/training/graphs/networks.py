"""The tiny networks that `make.py` exports."""

from __future__ import annotations

import torch
from torch import nn

CLASSES, VOCABULARY = 4, 20


class Cnn(nn.Module):
    """Two convolutions, pooling and a linear head."""

    def __init__(self, norm: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(4) if norm else nn.Identity()
        self.conv2 = nn.Conv2d(4, 6, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(6) if norm else nn.Identity()
        self.head = nn.Linear(6 * 4, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.max_pool2d(torch.relu(self.bn1(self.conv1(image))), 2)
        x = torch.max_pool2d(torch.relu(self.bn2(self.conv2(x))), 2)
        return self.head(torch.flatten(x, 1))


class Transformer(nn.Module):
    """A projection, one encoder layer and a mean over time."""

    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.project = nn.Linear(8, 8)
        self.encoder = nn.TransformerEncoderLayer(
            8, 2, 16, dropout=dropout, activation="gelu", batch_first=True
        )
        self.head = nn.Linear(8, CLASSES)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.project(sequence)).mean(1))


class Copies(nn.Module):
    """Layers that are copies, norms of ones, biases of zeros, and a matrix that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.tied = nn.Linear(8, 8, bias=False)
        self.scales = nn.ParameterList([nn.Parameter(0.1 * torch.ones(8)) for _ in range(2)])
        self.convs = nn.ModuleList([nn.Conv1d(8, 8, 3, padding=1) for _ in range(2)])
        self.norms = nn.ModuleList([nn.GroupNorm(2, 8), nn.GroupNorm(4, 8)])
        self.statistics = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, CLASSES)
        for module in (*self.convs, self.head):
            nn.init.zeros_(module.bias)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        x = self.encoder(sequence)
        x = x + nn.functional.linear(torch.tanh(self.tied(x)), self.tied.weight.t())
        for scale, conv, norm in zip(self.scales, self.convs, self.norms, strict=True):
            x = x + scale * norm(conv(x.transpose(1, 2))).transpose(1, 2)
        x = self.statistics(torch.sigmoid(x.transpose(1, 2))).transpose(1, 2)
        return self.head(x.mean(1))


class Lstm(nn.Module):
    """The last hidden state of an LSTM."""

    def __init__(self, layers: int = 1, both: bool = False) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, layers, batch_first=True, bidirectional=both)
        self.head = nn.Linear(12 if both else 6, CLASSES)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(sequence)[0][:, -1])


class Gru(nn.Module):
    """The last hidden state of a GRU."""

    def __init__(self, both: bool = False) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 6, batch_first=True, bidirectional=both)
        self.head = nn.Linear(12 if both else 6, CLASSES)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(sequence)[0][:, -1])


class Bag(nn.Module):
    """The mean of token embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 6)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.embedding(tokens).mean(1))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def norm_mlp(approximate: str = "none") -> nn.Module:
    return nn.Sequential(
        nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(approximate), nn.Linear(16, CLASSES)
    )


def regression() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.SiLU(), nn.Dropout(0.2), nn.Linear(16, 2))


def zoo() -> nn.Module:
    return nn.Sequential(
        nn.Linear(12, 16), nn.Mish(), nn.Linear(16, 16), nn.Hardswish(), nn.Linear(16, 16),
        nn.ELU(), nn.Linear(16, 16), nn.PReLU(), nn.Linear(16, 16), nn.Softplus(),
        nn.Linear(16, CLASSES),
    )  # fmt: skip


def group_norm() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
        nn.Linear(4, CLASSES),
    )  # fmt: skip
