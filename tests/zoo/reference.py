"""Five steps of SGD in PyTorch: what the engine must come to."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from tests.zoo.architectures.architecture import Architecture
from tests.zoo.case import STEPS

ROWS = 4
MOVES = 0.05
"""How far outputs go at most, relative to their size: far enough to compare, short of chaos."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Fixed inputs and targets. held: rows that are measured and not trained on."""

    inputs: list[tuple[Tensor, ...]]
    targets: list[Tensor]
    held: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """Outputs on the held rows, in float64; after_float32: the same training in float32."""

    before: Tensor
    after: Tensor
    after_float32: Tensor
    learning_rate: float

    @property
    def noise(self) -> float:
        """How far float32 is from float64, relative to the way that the outputs went."""
        gap = self.after_float32.double() - self.after
        return float(gap.norm() / (self.after - self.before).norm())


def settled(architecture: Architecture) -> nn.Module:
    """The network with statistics of real batches and no two equal parameters, for inference."""
    torch.manual_seed(1)
    model = architecture.build().train()
    for _ in range(10):
        with torch.no_grad():
            model(*(draw(8) for draw in architecture.inputs.values()))
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            module.padding_idx = None  # PyTorch keeps that row as it is; the export does not say so
    with torch.no_grad():
        for parameter in model.parameters():
            spread = parameter.std() if parameter.numel() > 1 else torch.tensor(0.0)
            parameter.add_(torch.randn_like(parameter) * max(0.05 * float(spread), 0.01))
    return model.eval().requires_grad_(False)


def batches(architecture: Architecture, model: nn.Module) -> Batches:
    """Drawn anew with a seed of their own."""
    torch.manual_seed(2)
    inputs = [tuple(draw(ROWS) for draw in architecture.inputs.values()) for _ in range(STEPS)]
    held = tuple(draw(ROWS) for draw in architecture.inputs.values())
    with torch.no_grad():
        targets = [_target(architecture.loss, model(*value)) for value in inputs]
    return Batches(inputs, targets, held)


def train(model: nn.Module, loss: str, data: Batches, trainable: list[str] | None) -> Reference:
    """The reference, at a learning rate whose outputs move little.

    trainable: prefixes of names; None for all parameters.
    """

    def outputs(dtype: torch.dtype, rate: float) -> Tensor:
        return _trained(model, dtype, loss=loss, data=data, rate=rate, names=trainable)

    start = _outputs(model, data)
    rate = 1.0
    while not float((outputs(torch.float32, rate) - start).norm() / start.norm()) < MOVES:
        rate /= 4
    before = _outputs(_copy(model, torch.float64), data)
    return Reference(before, outputs(torch.float64, rate), outputs(torch.float32, rate), rate)


def _trained(
    model: nn.Module, dtype: torch.dtype, *, loss: str, data: Batches, rate: float,
    names: list[str] | None,
) -> Tensor:  # fmt: skip
    model = _copy(model, dtype)
    chosen = [
        parameter.requires_grad_()
        for name, parameter in model.named_parameters()
        if names is None or any(name == each or name.startswith(f"{each}.") for each in names)
    ]
    optimizer = torch.optim.SGD(chosen, lr=rate)
    for inputs, target in zip(data.inputs, data.targets, strict=True):
        output = model(*(_cast(tensor, dtype) for tensor in inputs))
        optimizer.zero_grad()
        LOSSES[loss](output, _cast(target, dtype)).backward()
        optimizer.step()
    return _outputs(model, data)


LOSSES = {
    "cross_entropy": F.cross_entropy,
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "bce_with_logits": F.binary_cross_entropy_with_logits,
}


def _target(loss: str, output: Tensor) -> Tensor:
    if loss == "cross_entropy":
        return torch.randint(0, output.shape[1], (len(output), *output.shape[2:]))
    noise = torch.randn_like(output)
    return (noise > 0).float() if loss == "bce_with_logits" else noise


def _outputs(model: nn.Module, data: Batches) -> Tensor:
    dtype = next(model.parameters()).dtype
    with torch.no_grad():
        return model(*(_cast(tensor, dtype) for tensor in data.held))


def _copy(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    return copy.deepcopy(model).to(dtype)


def _cast(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
