"""Folds BatchNorm into the layer before it, as exporters do, so that PyTorch trains the same."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

KINDS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.Linear)


def folded(model: nn.Module, inputs: tuple[Tensor, ...], kinds: tuple[type, ...]) -> nn.Module:
    """A copy without those BatchNorms that read, alone, what a layer of these kinds gives."""
    model = copy.deepcopy(model)
    expected = _run(model, inputs)
    for layer_name, norm_name in _pairs(model, inputs, kinds):
        layer, norm = model.get_submodule(layer_name), model.get_submodule(norm_name)
        _replace(model, layer_name, _fused(layer, norm))
        # timm's norms go on with their activation.
        rest = [getattr(norm, part) for part in ("drop", "act") if hasattr(norm, part)]
        _replace(model, norm_name, nn.Sequential(*rest))
        if float((_run(model, inputs) - expected).norm() / expected.norm()) > 1e-3:
            # What the layer gives is also read elsewhere, such as by a skip connection.
            _replace(model, layer_name, layer)
            _replace(model, norm_name, norm)
    return model


def norms(model: nn.Module) -> list[str]:
    """Names of the BatchNorms."""
    kind = nn.modules.batchnorm._BatchNorm
    return [name for name, module in model.named_modules() if isinstance(module, kind)]


def _run(model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    with torch.no_grad():
        return model(*inputs)


def _fused(layer: nn.Module, norm: nn.Module) -> nn.Module:
    if isinstance(layer, nn.Linear):
        return fuse_linear_bn_eval(layer, norm)
    transposed = isinstance(layer, (nn.ConvTranspose1d, nn.ConvTranspose2d))
    return fuse_conv_bn_eval(layer, norm, transpose=transposed)


def _pairs(
    model: nn.Module, inputs: tuple[Tensor, ...], kinds: tuple[type, ...]
) -> Iterator[tuple[str, str]]:
    """Names of layers and of the norms that read what they just gave, each run once."""
    made: dict[int, str] = {}
    kept: list[Tensor] = []
    runs: dict[str, int] = {}
    pairs: dict[str, str] = {}

    def note(name: str, module: nn.Module, given: tuple[Tensor, ...], result: Tensor) -> None:
        runs[name] = runs.get(name, 0) + 1
        if isinstance(module, kinds):
            kept.append(result)  # alive, so that no other tensor takes its id
            made[id(result)] = name
        elif id(given[0]) in made:
            pairs[made[id(given[0])]] = name

    watched = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, (*kinds, nn.modules.batchnorm._BatchNorm))
    }
    hooks = [
        module.register_forward_hook(lambda m, a, r, name=name: note(name, m, a, r))
        for name, module in watched.items()
    ]
    _run(model, inputs)
    for hook in hooks:
        hook.remove()
    return ((layer, norm) for layer, norm in pairs.items() if runs[layer] == runs[norm] == 1)


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, module)
