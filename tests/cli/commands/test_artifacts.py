from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from graph_parts import node, normal
from onnx import helper, numpy_helper
from training_api import require_training_api

from cli.demo import digits
from service.training.loss import LABEL_MEAN, LABEL_SCALE

BASE = digits.folder() / "base.onnx"
FILES = ["checkpoint", "eval_model.onnx", "optimizer_model.onnx", "training_model.onnx"]
NOWHERE = {"HONED_URL": "http://127.0.0.1:1"}


def test_artifacts_are_made_without_a_daemon(honed: Callable[..., Any], tmp_path: Path) -> None:
    require_training_api()
    made = honed(
        *("artifacts", BASE, "-o", tmp_path / "new" / "made", "--loss", "cross_entropy"),
        *("--trainable", "head.*", "--json"),
        **NOWHERE,
    )
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    assert told["trainable"] == ["head.weight", "head.bias"]
    assert told["parameters"] == {"trainable": 5130, "frozen": 4800}
    assert sorted(path.name for path in (tmp_path / "new" / "made").iterdir()) == FILES
    onnx.checker.check_model(onnx.load(told["artifacts"]["eval_model"]))


def test_a_version_with_standardized_labels_keeps_their_scale(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    require_training_api()
    value = helper.make_tensor_value_info
    tensors = {"w": normal(5, 2), LABEL_SCALE: np.full(2, 10), LABEL_MEAN: np.full(2, 50)}
    graph = helper.make_graph(
        [
            node("MatMul", ["x", "w"], ["h"], name="last"),
            node("Mul", ["h", LABEL_SCALE], ["s"], name="scale"),
            node("Add", ["s", LABEL_MEAN], ["y"], name="mean"),
        ],
        "version",
        [value("x", onnx.TensorProto.FLOAT, ["batch", 5])],
        [value("y", onnx.TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(v.astype(np.float32), name) for name, v in tensors.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "version.onnx")
    made = honed("artifacts", tmp_path / "version.onnx", "-o", tmp_path / "made", "--loss", "mse")
    assert made.returncode == 0, made.stderr
    assert "10 parameters train, 4 are frozen" in made.stdout


def test_every_cause_of_a_refusal_is_told_and_nothing_is_written(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    refused = honed(
        *("artifacts", BASE, "-o", tmp_path / "made", "--loss", "cross_entropy"),
        *("--trainable", "tail.*"),
    )
    assert refused.returncode == 1
    assert "tail.*" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "made").exists()


def test_a_folder_that_cannot_be_written_is_said(honed: Callable[..., Any], tmp_path: Path) -> None:
    require_training_api()
    (tmp_path / "file").touch()
    refused = honed("artifacts", BASE, "-o", tmp_path / "file" / "in", "--loss", "cross_entropy")
    assert refused.returncode == 1
    assert f"cannot write into {tmp_path / 'file' / 'in'}" in refused.stderr


def test_explain_lists_the_parameters_and_the_cut_and_writes_nothing(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    explained = honed(
        *("artifacts", BASE, "--loss", "cross_entropy", "--trainable", "head", "--explain"),
        **NOWHERE,
    )
    assert explained.returncode == 0, explained.stderr
    lines = explained.stdout.splitlines()
    assert next(line for line in lines if line.startswith("head.weight")).split()[1:3] == [
        "5,120",
        "trains",
    ]
    assert "5,130 parameters train, 4,800 are frozen" in lines
    assert any(line.startswith("the cut at ") for line in lines)
    assert not list(tmp_path.iterdir())


def test_explain_answers_scripts_in_json(honed: Callable[..., Any]) -> None:
    told = json.loads(
        honed(
            *("artifacts", BASE, "--loss", "cross_entropy", "--trainable", "last:1"),
            *("--explain", "--json"),
        ).stdout
    )
    places = {parameter["name"]: parameter["place"] for parameter in told["parameters"]}
    assert places["head.bias"] == "trains"
    assert set(places.values()) == {"trains", "below"}
    assert told["cut"]["parameters"] == told["frozen"] == 4800


def test_explain_tells_why_a_frozen_part_is_not_cut_off(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    over_the_batch = node("Softmax", ["h"], ["s"], name="over_the_batch", axis=0)
    told = _explain(honed, tmp_path, over_the_batch, "--trainable", "v")

    assert told[-1] == "not cut: a sample's row of s depends on the rows beside it"
    assert not any("no cut" in line for line in told)


def test_explain_tells_which_weights_do_not_train(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    fused = node("FusedMatMul", ["h", "m"], ["s"], name="fused", domain="com.microsoft")
    told = _explain(honed, tmp_path, fused, "--trainable", "v")
    assert "18 parameters train, 72 are frozen" in told

    told = _explain(honed, tmp_path, node("Sub", ["h", "m"], ["s"], name="off"))
    assert told[-2] == "no cut: no layer is frozen below what trains"
    assert told[-1].startswith('"m" does not train by default: node "off" (Sub)')


def _explain(
    honed: Callable[..., Any], folder: Path, middle: onnx.NodeProto, *options: str
) -> list[str]:
    """x (batch, 6) → MatMul w → h → the node, which may read m → s → MatMul v → y."""
    shapes = {"w": (6, 6), "m": (6, 6) if middle.domain else (1, 6), "v": (6, 3)}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            node("MatMul", ["x", "w"], ["h"], name="first"),
            middle,
            node("MatMul", ["s", "v"], ["y"], name="last"),
        ],
        "graph",
        [value("x", onnx.TensorProto.FLOAT, ["batch", 6])],
        [value("y", onnx.TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(normal(*shape), name) for name, shape in shapes.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), folder / "model.onnx")
    explained = honed(
        *("artifacts", folder / "model.onnx", "--loss", "mse", *options, "--explain"), **NOWHERE
    )
    assert explained.returncode == 0, explained.stderr
    lines: list[str] = explained.stdout.splitlines()
    return lines


def test_without_a_folder_or_a_question_the_usage_is_wrong(honed: Callable[..., Any]) -> None:
    wrong = honed("artifacts", BASE, "--loss", "cross_entropy")
    assert wrong.returncode == 2
    assert "--output-dir" in wrong.stderr
