"""Networks over tables, points, graphs and pairs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.zoo.architectures.architecture import CLASSES, Architecture, floats, integers

USERS, ITEMS, FEATURES = 30, 40, 12
ACTIVATIONS = (
    nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.CELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish,
    nn.Softplus, nn.Softsign, nn.Sigmoid, nn.LogSigmoid, nn.Tanh, nn.Hardtanh, nn.Hardsigmoid,
    nn.Hardswish, nn.Hardshrink, nn.Softshrink, nn.Tanhshrink, nn.Threshold, nn.GLU, nn.Softmin,
)  # fmt: skip


class Activations(nn.Module):
    """One narrow layer for each activation of PyTorch, their results side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(FEATURES, 4) for _ in ACTIVATIONS])
        settings = {nn.Threshold: (0.0, 0.0), nn.Softmin: (-1,)}
        self.kinds = nn.ModuleList([kind(*settings.get(kind, ())) for kind in ACTIVATIONS])
        self.head = nn.LazyLinear(CLASSES)

    def forward(self, vector: Tensor) -> Tensor:
        pairs = zip(self.layers, self.kinds, strict=True)
        return self.head(torch.cat([kind(layer(vector)) for layer, kind in pairs], -1))


class WideAndDeep(nn.Module):
    """A linear part over numbers beside embeddings under a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, 8), nn.Embedding(ITEMS, 8)
        self.deep = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 1))
        self.wide = nn.Linear(4, 1)

    def forward(self, user: Tensor, item: Tensor, numbers: Tensor) -> Tensor:
        deep = torch.cat([self.user(user), self.item(item), numbers], 1)
        return self.deep(deep) + self.wide(numbers)


class Dlrm(nn.Module):
    """Naumov and others (2019): products of all pairs of embeddings, and a bag of many items."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.user, self.bag = nn.Embedding(USERS, 8), nn.Embedding(ITEMS, 8)
        self.top = nn.Sequential(nn.Linear(11, 16), nn.ReLU(), nn.Linear(16, 1))
        self.register_buffer("pairs", torch.tensor([1, 2, 5]))

    def forward(self, user: Tensor, items: Tensor, numbers: Tensor) -> Tensor:
        dense = self.bottom(numbers)
        parts = torch.stack([dense, self.user(user), self.bag(items).mean(1)], 1)
        products = (parts @ parts.transpose(1, 2)).flatten(1)[:, self.pairs]
        return self.top(torch.cat([dense, products], 1))


class DeepFm(nn.Module):
    """Guo and others (2017): products of all pairs of fields, a perceptron, one global bias."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("starts", torch.tensor([0, 10, 20, 30]))
        self.embed, self.weight = nn.Embedding(40, 8), nn.Embedding(40, 1)
        self.bias = nn.Parameter(torch.zeros(1))
        self.deep = nn.Sequential(
            nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 1)
        )

    def forward(self, fields: Tensor) -> Tensor:
        fields = fields + self.starts
        embedded = self.embed(fields)
        squares = embedded.sum(1) ** 2 - (embedded**2).sum(1)
        wide = self.weight(fields).sum(1) + self.bias
        return wide + squares.sum(1, keepdim=True) / 2 + self.deep(embedded.flatten(1))


class Factorization(nn.Module):
    """Neural collaborative filtering: a product of embeddings and their biases."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(USERS, 8), nn.Embedding(ITEMS, 8)
        self.user_bias, self.item_bias = nn.Embedding(USERS, 1), nn.Embedding(ITEMS, 1)

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        score = (self.user(user) * self.item(item)).sum(-1, keepdim=True)
        return score + self.user_bias(user) + self.item_bias(item)


class Variational(nn.Module):
    """A VAE at its mean: the draw is left out, the spread scales the code."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(16, 4), nn.Linear(16, 4)
        self.decode = nn.Sequential(nn.Linear(4, 16), nn.Softplus(), nn.Linear(16, FEATURES))

    def forward(self, vector: Tensor) -> Tensor:
        hidden = self.encode(vector)
        spread = torch.exp(0.5 * self.log_variance(hidden).clamp(-4, 4))
        return self.decode(self.mean(hidden) * torch.rsqrt(1 + spread**2))


class PointNet(nn.Module):
    """Shared layers over points, a learned turn of them, the maximum over all."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Linear(16, 9)
        self.first = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.second = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, CLASSES))

    def forward(self, points: Tensor) -> Tensor:
        turn = self.turn(self.first(points).max(-1).values).view(-1, 3, 3) + torch.eye(3)
        turned = torch.bmm(turn, points)
        return self.head(torch.max(self.second(turned), 2).values)


class GraphNetwork(nn.Module):
    """Two rounds of messages along a given adjacency matrix, with attention over neighbours."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(FEATURES, 16), nn.Linear(16, 16)])
        self.score = nn.Linear(16, 1)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, nodes: Tensor, adjacency: Tensor) -> Tensor:
        degree = adjacency.sum(-1, keepdim=True).clamp(min=1)
        for layer in self.layers:
            nodes = F.leaky_relu(layer(adjacency @ nodes / degree), 0.2)
        scores = self.score(nodes).masked_fill(degree < 2, -1e9)
        return self.head((scores.softmax(1) * nodes).sum(1))


class Siamese(nn.Module):
    """The cosine of two inputs under one tower."""

    def __init__(self) -> None:
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, 8))
        self.scale = nn.Parameter(torch.tensor([3.0, 0.5]))

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        left, right = (F.normalize(self.tower(side), dim=-1) for side in (left, right))
        distance = torch.linalg.vector_norm(left - right, dim=-1)
        return torch.stack([(left * right).sum(-1), distance], 1) * self.scale


class Experts(nn.Module):
    """A soft mixture of experts by einsum, with normalized weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(FEATURES, 3)
        self.weight = nn.Parameter(torch.randn(3, FEATURES, 8) * 0.3)
        self.norm = nn.Parameter(torch.ones(8))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, vector: Tensor) -> Tensor:
        every = torch.einsum("bf,efo->beo", vector, self.weight)
        mixed = torch.einsum("be,beo->bo", self.gate(vector).softmax(-1), every)
        mixed = mixed * torch.rsqrt(mixed.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norm
        return self.head(torch.where(mixed > 0, mixed, torch.exp(mixed) - 1))


def _perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(),
        nn.Linear(32, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, CLASSES),
    )  # fmt: skip


def _regression() -> nn.Module:
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.SELU(), nn.Linear(16, 2))


def _adjacency(rows: int) -> Tensor:
    return (torch.rand(rows, 6, 6) < 0.4).float() + torch.eye(6)


VECTOR = {"vector": floats(FEATURES)}
RATING = {"user": integers(USERS), "item": integers(ITEMS)}
ARCHITECTURES = {
    "activations": Architecture(Activations, VECTOR, head="head"),
    "perceptron": Architecture(_perceptron, VECTOR, head="7"),
    "regression": Architecture(_regression, VECTOR, "l1", head="2"),
    "wide_and_deep": Architecture(
        WideAndDeep, {**RATING, "numbers": floats(4)}, "bce_with_logits", head="wide"
    ),
    "dlrm": Architecture(
        Dlrm,
        {"user": integers(USERS), "items": integers(ITEMS, 5), "numbers": floats(4)},
        "bce_with_logits",
        head="top.2",
    ),
    "deepfm": Architecture(DeepFm, {"fields": integers(10, 4)}, "bce_with_logits", head="deep.4"),
    "factorization": Architecture(Factorization, RATING, "mse", head="item_bias"),
    "variational": Architecture(Variational, VECTOR, "mse", head="decode.2"),
    "pointnet": Architecture(PointNet, {"points": floats(3, 20)}, head="head.2"),
    "graph_network": Architecture(
        GraphNetwork, {"nodes": floats(6, FEATURES), "adjacency": _adjacency}, head="head"
    ),
    "siamese": Architecture(
        Siamese, {"left": floats(FEATURES), "right": floats(FEATURES)}, "mse", head="scale"
    ),
    "experts": Architecture(Experts, VECTOR, head="head"),
}
