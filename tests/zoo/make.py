"""Exports every architecture with both exporters, and records how PyTorch trains each.

    python -m tests.zoo.make FOLDER [NAME…]

Run it with an environment that has torch, timm and transformers; `make zoo` does. For each case it
writes a model and its arrays, for each architecture one JSON file.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

from tests.zoo.architectures import ARCHITECTURES
from tests.zoo.architectures.architecture import Architecture
from tests.zoo.case import Case, write
from tests.zoo.fold import KINDS, folded, norms
from tests.zoo.reference import ROWS, Reference, batches, settled, train

ALSO = {
    "script17": ("albert", "convnext", "gru_attention", "resnet", "translator", "unet_bilinear"),
    "script20": ("activations", "conv1d_group_norm", "mobilevit", "swin", "vit", "wav2vec"),
    "dynamo20": ("bert_masked", "crnn", "densenet", "llama", "pyramid", "regnet", "unet_transpose"),
    "dynamo21": ("activations", "gpt2", "hrnet", "lstm_deep", "mlp_mixer", "vit_relative"),
}
"""Exports by opset, beside those with the exporter's own."""


def main() -> None:
    """Make the cases of the named architectures, or of all."""
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)  # TorchScript's exporter knows no such operator
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or ARCHITECTURES:
        began = time.perf_counter()
        made = list(_cases(name, ARCHITECTURES[name], folder))
        write(folder, name, made)
        failed = sum(bool(case.failure) for case in made)
        seconds = time.perf_counter() - began
        print(f"{name}: {len(made)} cases, {failed} not exported, {seconds:.0f} s", flush=True)


def _cases(name: str, architecture: Architecture, folder: Path) -> Iterator[Case]:
    trained = Trained(architecture)
    for style in _styles(name):
        case = Case(f"{name}-{style}", f"{name}-{style}.onnx", architecture.loss)
        path = folder / case.model
        try:
            _export(trained, style=style, path=path)
            same = trained.as_exported(path)
        except Exception as error:  # noqa: BLE001 - an exporter may fail in any way
            cause = error.__cause__ or error
            text = traceback.format_exception_only(cause)[-1]
            yield replace(case, failure=" ".join(text.split())[:300])
            continue
        yield _record(case, trained, same, folder=folder)
        if architecture.head and style in ("script", "dynamo"):
            head = Case(f"{case.name}-head", case.model, case.loss)
            head.trainable = _initializers(path, same, architecture.head)
            yield _record(head, trained, same, folder=folder)


class Trained:
    """An architecture with its data, and what PyTorch came to, found once for all exports."""

    def __init__(self, architecture: Architecture) -> None:
        self.architecture = architecture
        self.names = list(architecture.inputs)
        self.model = settled(architecture)
        self.data = batches(architecture, self.model)
        self._same: dict[int, nn.Module] = {len(norms(self.model)): self.model}
        self._references: dict[tuple[int, bool], Reference] = {}

    def as_exported(self, path: Path) -> nn.Module:
        """The network with those BatchNorms folded that the exporter folded."""
        left = sum(node.op_type == "BatchNormalization" for node in _nodes(path))
        for count in range(1, len(KINDS) + 1):
            if left not in self._same:
                same = folded(self.model, self.data.held, KINDS[:count])
                self._same[len(norms(same))] = same
        if left not in self._same:
            raise RuntimeError(
                f"{path.name}: {left} of {len(norms(self.model))} BatchNorms are left"
            )
        return self._same[left]

    def reference(self, model: nn.Module, *, head: bool) -> Reference:
        """Of one that `as_exported` gave."""
        key = len(norms(model)), head
        if key not in self._references:
            names = [self.architecture.head] if head else None
            self._references[key] = train(model, self.architecture.loss, self.data, names)
        return self._references[key]


def _styles(name: str) -> list[str]:
    more = [style for style, names in ALSO.items() if name in names]
    return ["script", "dynamo", "script_unfolded", "dynamo_unfolded", *more]


def _export(trained: Trained, *, style: str, path: Path) -> None:
    model, example, names = trained.model, trained.data.held, trained.names
    options: dict[str, object] = {"input_names": names, "output_names": ["output"]}
    if style[-2:].isdigit():
        options["opset_version"] = int(style[-2:])
    if style.startswith("script"):
        modes = torch.onnx.TrainingMode
        options["training"] = modes.PRESERVE if "unfolded" in style else modes.EVAL
        options["dynamic_axes"] = {name: {0: "batch"} for name in (*names, "output")}
        torch.onnx.export(model, example, str(path), dynamo=False, **options)
        return
    batch = torch.export.Dim("batch", min=2, max=4096)
    options |= {"external_data": False, "verbose": False, "optimize": "unfolded" not in style}
    options["dynamic_shapes"] = tuple({0: batch} for _ in names)
    torch.onnx.export(model, example, str(path), dynamo=True, **options)


def _nodes(path: Path) -> Iterator[onnx.NodeProto]:
    model = onnx.load(path)
    if any(value.type.tensor_type.shape.dim[0].dim_value for value in model.graph.input):
        raise RuntimeError(f"{path.name}: the batch axis is fixed")
    for graph in (model.graph, *model.functions):
        yield from graph.node


def _record(case: Case, trained: Trained, model: nn.Module, *, folder: Path) -> Case:
    reference = trained.reference(model, head=case.trainable is not None)
    _save(folder / f"{case.name}.npz", trained, reference)
    case.learning_rate, case.noise = reference.learning_rate, reference.noise
    case.inputs = trained.names
    return case


def _save(path: Path, trained: Trained, reference: Reference) -> None:
    names, data = trained.names, trained.data
    arrays = {
        f"train.{name}": torch.stack([value[place] for value in data.inputs])
        for place, name in enumerate(names)
    }
    arrays |= {f"held.{name}": tensor for name, tensor in zip(names, data.held, strict=True)}
    arrays |= {"target": torch.stack(data.targets)}
    arrays |= {"before": reference.before, "after": reference.after}
    np.savez(path, **{name: tensor.numpy() for name, tensor in arrays.items()})


def _initializers(path: Path, model: nn.Module, head: str) -> list[str]:
    """Those that hold the head's parameters, perhaps transposed."""
    tensors = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    found = []
    for name, parameter in model.named_parameters():
        if name != head and not name.startswith(f"{head}."):
            continue
        value = parameter.numpy()
        forms = (value, value.T) if value.ndim == 2 else (value,)
        names = [
            key for key, array in tensors.items()
            if any(array.shape == form.shape and np.allclose(array, form) for form in forms)
        ]  # fmt: skip
        if not names:
            raise RuntimeError(f"{path.name}: no initializer holds {name}")
        found += names
    return found


if __name__ == "__main__":
    assert ROWS >= 2, "the exporters take an axis of one for a constant"
    main()
