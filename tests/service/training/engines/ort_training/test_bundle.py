"""Artifacts made by Microsoft's tools are taken as they are, after checks."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from boxes import box_model
from onnx import helper, numpy_helper

from service.training.engines.ort_training import proof, runtime
from service.training.protocol.messages.preparation import Prepared, Refused

node = helper.make_node
Refuse = Callable[..., dict[str, str]]
NAMES = ("training_model.onnx", "eval_model.onnx", "optimizer_model.onnx", "checkpoint")
KINDS = {
    "MSELoss": "mse",
    "L1Loss": "l1",
    "BCEWithLogitsLoss": "bce_with_logits",
    "CrossEntropyLoss": "cross_entropy",
}


@pytest.fixture
def microsoft(graphs: Any, tmp_path: Path, _on_device_training: None) -> Callable[..., Path]:
    """A folder of artifacts, written by generate_artifacts itself."""

    def generate(
        loss: str = "MSELoss",
        optimizer: str = "AdamW",
        model: onnx.ModelProto | None = None,
        trainable: Sequence[str] = ("w", "v"),
    ) -> Path:
        tools = runtime.training_artifacts()
        directory = tmp_path / "made"
        directory.mkdir()
        tools.generate_artifacts(
            model or graphs.around(node("Relu", ["h"], ["g"], name="r")),
            requires_grad=list(trainable),
            frozen_params=[] if model else ["b"],
            loss=tools.LossType[loss],
            optimizer=tools.OptimType[optimizer],
            artifact_directory=directory,
        )
        return directory

    return generate


def pack(directory: Path, prefix: str = "", **replaced: bytes | None) -> Path:
    """A zip of the four files; replaced: stem → other bytes, None to leave it out."""
    path = directory / "artifacts.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name in NAMES:
            data = replaced.get(name.partition(".")[0], (directory / name).read_bytes())
            if data is not None:
                archive.writestr(prefix + name, data)
    return path


@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize("prefix", ["", "artifacts/"])
def test_artifacts_of_microsofts_tools_are_taken(
    loss: str,
    prefix: str,
    microsoft: Callable[..., Path],
    accept: Callable[..., Prepared],
    trainer: type,
) -> None:
    path = pack(microsoft(loss), prefix)
    prepared = accept(path, form="artifacts", loss=KINDS[loss])
    assert prepared.output == "y"
    assert prepared.trainable == ("w", "v")
    assert (prepared.trainable_parameters, prepared.frozen_parameters) == (45, 5)
    assert [(i.name, i.shape) for i in prepared.signature.inputs] == [("x", (6,))]
    x = np.ones((2, 6), np.float32)
    label = np.array([1, 2]) if loss == "CrossEntropyLoss" else np.ones((2, 3), np.float32)
    _, output = trainer(prepared.artifacts).evaluate(x, label)
    assert output.shape == (2, 3)
    assert [o.name for o in onnx.load(prepared.base_model).graph.output] == ["y"]


def test_an_inner_tensor_may_be_measured_and_exported(
    microsoft: Callable[..., Path], accept: Callable[..., Prepared]
) -> None:
    prepared = accept(pack(microsoft()), form="artifacts", output="y")
    assert prepared.output == "y"


def test_our_own_artifacts_are_taken_again(
    graphs: Any, accept: Callable[..., Prepared], tmp_path: Path
) -> None:
    scaled = [node("Relu", ["h"], ["r"]), node("Exp", ["t"], ["e"]), node("Mul", ["r", "e"], ["g"])]
    model = graphs.around(*scaled, t=np.array(0.5, np.float32))
    model.producer_name = "pytorch"  # so that t, which has no axes, trains
    for loss in KINDS.values():
        made = accept(model, loss=loss)
        path = pack(Path(made.artifacts.checkpoint).parent)
        again = accept(path.replace(tmp_path / "again.zip"), form="artifacts", loss=loss)
        assert again.signature == made.signature
        assert (again.output, again.trainable) == (made.output, made.trainable)
        assert "t" in made.trainable


def test_artifacts_for_boxes_are_made_for_apps_that_feed_maps(
    accept: Callable[..., Prepared], refuse: Refuse
) -> None:
    made = accept(box_model(), loss="detection")
    path = pack(Path(made.artifacts.checkpoint).parent)
    problems = refuse(path, form="artifacts", loss="detection")
    assert "only for forward models" in problems["/spec/loss"]


def test_another_loss_or_optimizer_than_ordered_is_refused(
    microsoft: Callable[..., Path], refuse: Refuse
) -> None:
    problems = refuse(pack(microsoft("L1Loss", "SGD")), form="artifacts", loss="mse")
    assert "say loss: l1" in problems["/spec/loss"]
    assert "the artifacts hold sgd" in problems["/spec/optimizer"]


def test_artifacts_bring_their_optimizer(
    microsoft: Callable[..., Path], accept: Callable[..., Prepared]
) -> None:
    made = accept(pack(microsoft("L1Loss", "SGD")), form="artifacts", loss="l1", optimizer="")
    assert made.optimizer == "sgd"


def test_choices_that_artifacts_have_made_already_are_refused(
    microsoft: Callable[..., Path], refuse: Refuse
) -> None:
    problems = refuse(
        pack(microsoft()), form="artifacts", trainable=("w",), weight_decay=0.1, max_grad_norm=1.0
    )
    assert set(problems) == {"/spec/trainable", "/spec/weight_decay", "/spec/max_grad_norm"}


def test_missing_files_are_all_named(microsoft: Callable[..., Path], refuse: Refuse) -> None:
    path = pack(microsoft(), eval_model=None, checkpoint=None)
    assert set(refuse(path, form="artifacts")) == {
        "/artifacts/eval_model.onnx",
        "/artifacts/checkpoint",
    }


@pytest.mark.parametrize("stem", ["training_model", "eval_model", "optimizer_model", "checkpoint"])
def test_a_broken_file_is_refused(
    stem: str, microsoft: Callable[..., Path], refuse: Refuse
) -> None:
    problems = refuse(pack(microsoft(), **{stem: b"\x01broken"}), form="artifacts")
    assert problems
    assert not any("onnxruntime_src" in detail or ".py" in detail for detail in problems.values())


@pytest.mark.parametrize("name", ["../checkpoint", "/etc/checkpoint", "a\\..\\checkpoint", "C:x"])
def test_an_entry_that_leads_out_of_the_zip_is_refused(
    name: str, microsoft: Callable[..., Path], refuse: Refuse, tmp_path: Path
) -> None:
    path = pack(microsoft())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"escaped")
    problems = refuse(path, form="artifacts")
    assert any("leads out of the zip" in detail for detail in problems.values())
    assert not (tmp_path / "checkpoint").exists()


def test_a_zip_bomb_is_refused_before_it_is_unpacked(
    microsoft: Callable[..., Path], refuse: Refuse, tmp_path: Path
) -> None:
    directory = microsoft()
    path = directory / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in NAMES:
            archive.writestr(name, bytes(20 << 20))
    problems = refuse(path, form="artifacts")
    assert len(problems) == 4
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04broken", b"no zip at all"])
def test_a_file_that_is_no_zip_is_refused(data: bytes, refuse: Refuse) -> None:
    assert "not a whole zip" in refuse(data, form="artifacts")["/artifacts"]


def test_artifacts_whose_gradient_is_wrong_are_refused(
    graphs: Any, microsoft: Callable[..., Path], refuse: Refuse
) -> None:
    """Microsoft's tools take a Conv with `auto_pad`, whose gradient the engine gets wrong."""
    generator = np.random.default_rng(0)
    model = graphs.model(
        [
            node("Conv", ["x", "k"], ["c"], name="conv", auto_pad="SAME_UPPER"),
            node("Conv", ["c", "k"], ["d"], name="again", auto_pad="SAME_UPPER"),
            node("Flatten", ["d"], ["y"], name="flatten"),
        ],
        {"k": generator.standard_normal((2, 2, 2, 2)).astype(np.float32)},
        x=("batch", 2, 3, 3),
        y=("batch", 18),
    )
    problems = refuse(pack(microsoft(model=model, trainable=["k"])), form="artifacts")
    assert "gradient of k is not that of the loss" in problems["/artifacts"]


def test_external_data_in_artifacts_is_refused(
    microsoft: Callable[..., Path], refuse: Refuse
) -> None:
    directory = microsoft()
    model = onnx.load(directory / "eval_model.onnx")
    tensor = model.graph.initializer.add(name="outside", data_type=1, dims=[1])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    problems = refuse(pack(directory, eval_model=model.SerializeToString()), form="artifacts")
    assert "/artifacts/eval_model.onnx/graph/initializer/outside" in problems


@pytest.mark.parametrize("stem", ["training_model", "eval_model", "optimizer_model"])
def test_a_model_in_artifacts_that_asks_for_too_much_is_refused_before_it_runs(
    stem: str, microsoft: Callable[..., Path], refuse: Refuse
) -> None:
    directory = microsoft()
    model = onnx.load(directory / f"{stem}.onnx")
    shape = numpy_helper.from_array(np.array([768, 10**6]), "huge_shape")
    model.graph.initializer.append(shape)
    model.graph.node.append(node("ConstantOfShape", ["huge_shape"], ["huge"]))
    problems = refuse(pack(directory, **{stem: model.SerializeToString()}), form="artifacts")
    assert "3072000000 bytes" in problems[f"/artifacts/{stem}.onnx/graph/value/huge"]


@pytest.fixture
def at_the_kink(graphs: Any) -> onnx.ModelProto:
    """A fresh bias of 0 over features of which some are 0: MobileNet's ReLU6 sits on its kink."""
    weight = np.random.default_rng(3).standard_normal((6, 5)).astype(np.float32)
    weight[:, :3] = 0
    clip = node("Clip", ["h", "zero", "six"], ["g"], name="relu6")
    zero, six = np.float32(0), np.float32(6)
    return graphs.around(clip, w=weight, b=np.zeros(5, np.float32), zero=zero, six=six)


@pytest.mark.parametrize("shake", [proof.SHAKE, 0.0])
def test_only_where_nothing_moves_fresh_biases_off_a_kink_a_gradient_would_look_wrong(
    at_the_kink: onnx.ModelProto,
    microsoft: Callable[..., Path],
    order: Callable[..., Prepared | Refused],
    monkeypatch: pytest.MonkeyPatch,
    *,
    shake: float,
) -> None:
    monkeypatch.setattr(proof, "SHAKE", shake)
    answer = order(pack(microsoft(model=at_the_kink, trainable=["w", "b", "v"])), form="artifacts")
    assert isinstance(answer, Prepared if shake else Refused)
