"""Exports tiny PyTorch models with both exporters, and records how PyTorch trains each.

Run it with an environment that has torch, onnx and onnxscript; Hone itself never needs torch:

    python tests/service/training/graphs/make.py

It writes `*.onnx`, `data.npz` and `curves.json` beside itself. Each curve is the loss before each
step of 10 epochs over 48 rows in 3 batches of 16, always in the same order, from the weights that
were exported. A model exported for inference is trained in `eval()` mode, so that its Dropout is
off and its batch statistics stand still; if the exporter folded BatchNorm into the convolution,
PyTorch trains the folded convolution too. A model exported for training is trained in `train()`.
"""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import onnx
import torch
from networks import (
    CLASSES,
    VOCABULARY,
    Bag,
    Cnn,
    Copies,
    Gru,
    Lstm,
    Transformer,
    group_norm,
    mlp,
    norm_mlp,
    regression,
    zoo,
)
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

HERE = Path(__file__).parent
ROWS, BATCH, EPOCHS = 48, 16, 10
RECORDS = (
    "pkg.torch.export.ExportedProgram.graph_signature",
    "pkg.torch.export.graph_signature.InputSpec.kind",
    "pkg.onnxscript.optimizer.folded_from",
    "pkg.torch.onnx.fx_node",
)
"""What dynamo's exporter tells of the program; exports of fresh parameters keep it."""


@dataclass
class Case:
    """One export.

    dynamic: whether its batch axis is. live: exported for training. folded: whether the exporter
    may fold BatchNorm into convolutions. random: Dropout is on, so that curves only come close.
    fresh: parameters are as PyTorch initializes them, some equal to each other.
    """

    name: str
    build: Callable[[], nn.Module] = field(repr=False)
    input: str
    exporter: str
    opset: int
    loss: str = "cross_entropy"
    optimizer: str = "adamw"
    learning_rate: float = 0.01
    live: bool = False
    dynamic: bool = True
    folded: bool = True
    random: bool = False
    fresh: bool = False
    losses: list[float] = field(default_factory=list)
    parameters: int = 0

    @property
    def target(self) -> str:
        return "label" if self.loss == "cross_entropy" else "value"


SCRIPT, DYNAMO = "torchscript", "dynamo"
CASES = [
    Case("mlp_ts13", mlp, "vector", SCRIPT, 13, optimizer="sgd", learning_rate=0.1),
    Case("mlp_ts15_fixed", mlp, "vector", SCRIPT, 15, dynamic=False),
    Case("mlp_dy21", mlp, "vector", DYNAMO, 21),
    Case("mlp_dy18_fixed", mlp, "vector", DYNAMO, 18, dynamic=False),
    Case("cnn_ts14", Cnn, "image", SCRIPT, 14),
    Case("cnn_ts17_fixed", Cnn, "image", SCRIPT, 17, dynamic=False),
    Case("cnn_dy18", Cnn, "image", DYNAMO, 18, optimizer="sgd", learning_rate=0.1),
    Case("cnn_bn_ts15", lambda: Cnn(norm=True), "image", SCRIPT, 15),
    Case("cnn_bn_dy20", lambda: Cnn(norm=True), "image", DYNAMO, 20),
    Case("cnn_bn_live_ts15", lambda: Cnn(norm=True), "image", SCRIPT, 15, live=True),
    Case("cnn_bn_live_ts13", lambda: Cnn(norm=True), "image", SCRIPT, 13, live=True),
    Case("cnn_bn_unfolded_ts17", lambda: Cnn(norm=True), "image", SCRIPT, 17, folded=False),
    Case("cnn_bn_unfolded_dy18", lambda: Cnn(norm=True), "image", DYNAMO, 18, folded=False),
    Case("norm_gelu_ts15", norm_mlp, "vector", SCRIPT, 15),
    Case("norm_gelu_ts17", norm_mlp, "vector", SCRIPT, 17),
    Case("norm_gelu_ts20", norm_mlp, "vector", SCRIPT, 20),
    Case("norm_gelu_dy17", norm_mlp, "vector", DYNAMO, 17),
    Case("norm_gelu_dy18", norm_mlp, "vector", DYNAMO, 18),
    Case("norm_gelu_dy20", norm_mlp, "vector", DYNAMO, 20),
    Case("norm_gelu_tanh_dy21", lambda: norm_mlp("tanh"), "vector", DYNAMO, 21),
    Case("transformer_ts14", lambda: Transformer(0.0), "sequence", SCRIPT, 14),
    Case("transformer_ts17", Transformer, "sequence", SCRIPT, 17),
    Case("transformer_fresh_ts17", Transformer, "sequence", SCRIPT, 17, fresh=True),
    Case("transformer_dy18", Transformer, "sequence", DYNAMO, 18),
    Case("transformer_dy20", Transformer, "sequence", DYNAMO, 20),
    Case("transformer_dy21", Transformer, "sequence", DYNAMO, 21),
    Case(
        "transformer_live_ts17", Transformer, "sequence", SCRIPT, 17,
        live=True, random=True,
    ),
    Case("copies_ts17", Copies, "sequence", SCRIPT, 17, fresh=True),
    Case("copies_dy18", Copies, "sequence", DYNAMO, 18, fresh=True),
    Case("copies_dy20", Copies, "sequence", DYNAMO, 20, fresh=True),
    Case("lstm_ts15", Lstm, "sequence", SCRIPT, 15, learning_rate=0.03),
    Case("lstm_dy18", Lstm, "sequence", DYNAMO, 18, learning_rate=0.03),
    Case("lstm_ts17_fixed", Lstm, "sequence", SCRIPT, 17, dynamic=False, learning_rate=0.03),
    Case("lstm_both_ts17", lambda: Lstm(2, True), "sequence", SCRIPT, 17),
    Case("lstm_both_dy18", lambda: Lstm(2, True), "sequence", DYNAMO, 18),
    Case("gru_both_dy20", lambda: Gru(True), "sequence", DYNAMO, 20),
    Case("gru_ts17", Gru, "sequence", SCRIPT, 17, learning_rate=0.03),
    Case("bag_ts13", Bag, "tokens", SCRIPT, 13, learning_rate=0.03),
    Case("bag_dy18", Bag, "tokens", DYNAMO, 18, learning_rate=0.03),
    Case("regression_ts18", regression, "vector", SCRIPT, 18, loss="mse"),
    Case("regression_dy18", regression, "vector", DYNAMO, 18, loss="l1"),
    Case("regression_bce_ts17", regression, "vector", SCRIPT, 17, loss="bce_with_logits"),
    Case(
        "regression_live_ts17", regression, "vector", SCRIPT, 17, loss="mse",
        live=True, random=True,
    ),
    Case(
        "regression_live_dy18", regression, "vector", DYNAMO, 18, loss="mse",
        live=True, random=True,
    ),
    Case("zoo_ts17", zoo, "vector", SCRIPT, 17),
    Case("zoo_dy18", zoo, "vector", DYNAMO, 18),
    Case("group_norm_ts17", group_norm, "image", SCRIPT, 17),
    Case("group_norm_dy18", group_norm, "image", DYNAMO, 18),
    Case("group_norm_dy21", group_norm, "image", DYNAMO, 21),
]  # fmt: skip


def make_data() -> dict[str, np.ndarray]:
    """Inputs of four kinds; labels and values that a linear teacher finds in the vector."""
    rng = np.random.default_rng(20)
    label = np.arange(ROWS) % CLASSES
    vector = rng.standard_normal((ROWS, 12)) + np.eye(12)[label] * 1.5
    image = rng.standard_normal((ROWS, 1, 8, 8)) * 0.5
    for row, kind in enumerate(label):
        image[
            row, 0, 4 * (kind // 2) : 4 * (kind // 2) + 4, 4 * (kind % 2) : 4 * (kind % 2) + 4
        ] += 1
    sequence = rng.standard_normal((ROWS, 5, 8)) * 0.5 + np.eye(8)[label][:, None]
    tokens = rng.integers(0, VOCABULARY, (ROWS, 6))
    tokens[:, :3] = label[:, None] * 5 + tokens[:, :3] % 5
    value = np.tanh(vector @ rng.standard_normal((12, 2)) * 0.3) * 0.5 + 0.5
    arrays = {"vector": vector, "image": image, "sequence": sequence, "value": value}
    data = {name: array.astype(np.float32) for name, array in arrays.items()}
    return {**data, "tokens": tokens.astype(np.int64), "label": label.astype(np.int64)}


def export(case: Case, model: nn.Module, data: dict[str, np.ndarray]) -> Path:
    """Write the case's ONNX file."""
    path = HERE / f"{case.name}.onnx"
    rows = 2 if case.dynamic else 1
    example = torch.from_numpy(data[case.input][:rows])
    options: dict[str, object] = {"input_names": [case.input], "output_names": ["output"]}
    if case.exporter == "torchscript":
        modes = torch.onnx.TrainingMode
        mode = modes.TRAINING if case.live else modes.EVAL if case.folded else modes.PRESERVE
        if case.dynamic:
            options["dynamic_axes"] = {case.input: {0: "batch"}, "output": {0: "batch"}}
        options.update(training=mode, do_constant_folding=not case.live, dynamo=False)
    else:
        options.update(
            dynamo=True, external_data=False, verbose=False, optimize=case.folded and not case.live
        )
        if case.dynamic:
            options["dynamic_shapes"] = ({0: torch.export.Dim("batch", min=2)},)
    torch.onnx.export(model, (example,), str(path), opset_version=case.opset, **options)
    strip(path, RECORDS if case.fresh else ())
    found = onnx.load(path).opset_import[0].version
    if found != case.opset:
        raise RuntimeError(f"{case.name}: the exporter wrote opset {found}, not {case.opset}")
    return path


def strip(path: Path, records: Sequence[str]) -> None:
    """Leave out what names the machine and swells the file: stack traces, doc strings.

    records: the properties that stay.
    """
    model = onnx.load(path)
    items = [model, *model.graph.input, *model.graph.output, *model.graph.initializer]
    for graph in (model.graph, *model.functions):
        items += [graph, *graph.node, *graph.value_info]
    for item in items:
        item.ClearField("doc_string")
        kept = {each.key: each.value for each in item.metadata_props if each.key in records}
        del item.metadata_props[:]
        for key, value in kept.items():
            item.metadata_props.add(key=key, value=value)
    onnx.save(model, path)


def train(case: Case, model: nn.Module, data: dict[str, np.ndarray]) -> list[float]:
    """PyTorch's loss before each step."""
    model.train(case.live)
    criterion = {
        "cross_entropy": nn.CrossEntropyLoss(),
        "mse": nn.MSELoss(),
        "l1": nn.L1Loss(),
        "bce_with_logits": nn.BCEWithLogitsLoss(),
    }[case.loss]
    make = torch.optim.SGD if case.optimizer == "sgd" else torch.optim.AdamW
    optimizer = make(model.parameters(), lr=case.learning_rate, weight_decay=0.0)
    x, y = torch.from_numpy(data[case.input]), torch.from_numpy(data[case.target])
    losses = []
    for _ in range(EPOCHS):
        for start in range(0, ROWS, BATCH):
            optimizer.zero_grad()
            loss = criterion(model(x[start : start + BATCH]), y[start : start + BATCH])
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 7))
    return losses


def as_exported(model: nn.Module, path: Path) -> nn.Module:
    """The model, with BatchNorm folded into its convolutions if the exporter did so."""
    operators = {node.op_type for node in onnx.load(path).graph.node}
    if not model.training and isinstance(model, Cnn) and "BatchNormalization" not in operators:
        for conv, norm in (("conv1", "bn1"), ("conv2", "bn2")):
            if isinstance(getattr(model, norm), nn.BatchNorm2d):
                folded = fuse_conv_bn_eval(getattr(model, conv), getattr(model, norm))
                setattr(model, conv, folded)
                setattr(model, norm, nn.Identity())
    return model


def settle(model: nn.Module) -> None:
    """Give norms and biases values that are not those of a fresh layer.

    Exporters merge initializers that are equal, which ties parameters that PyTorch trains apart.
    """
    for module in model.modules():
        if isinstance(module, (nn.LayerNorm, nn.GroupNorm)):
            nn.init.uniform_(module.weight, 0.7, 1.3)
            nn.init.uniform_(module.bias, -0.2, 0.2)
        if isinstance(module, nn.MultiheadAttention):
            nn.init.uniform_(module.in_proj_bias, -0.2, 0.2)
            nn.init.uniform_(module.out_proj.bias, -0.2, 0.2)
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.running_var):
                nn.init.uniform_(tensor, 0.7, 1.3)
            for tensor in (module.bias, module.running_mean):
                nn.init.uniform_(tensor, -0.2, 0.2)


def main() -> None:
    torch.backends.mha.set_fastpath_enabled(False)
    torch.set_num_threads(1)
    data = make_data()
    np.savez_compressed(HERE / "data.npz", **data)
    done = []
    for case in CASES:
        torch.manual_seed(3)
        model = case.build()
        if not case.fresh:
            settle(model)
        model.train(case.live)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = export(case, copy.deepcopy(model), data)
        model = as_exported(model.train(case.live), path)
        case.parameters = sum(p.numel() for p in model.parameters())
        case.losses = train(case, model, data)
        done.append({k: v for k, v in asdict(case).items() if k != "build"})
    lines = ",\n".join(json.dumps(entry) for entry in done)
    (HERE / "curves.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
