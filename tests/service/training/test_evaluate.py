"""Two models on the same samples, and other forms of one: in a real child, on a real store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from service.training.messages import (
    Convert,
    Converted,
    Evaluate,
    Evaluated,
    Failed,
    Limits,
    Measurement,
    Pause,
    Stopped,
)
from storage.records import Signature, Split
from storage.sample_filter import SampleFilter

FEATURES, CLASSES = 6, 3
GOOD = np.random.default_rng(3).standard_normal((FEATURES, CLASSES)).astype(np.float32)
"""What the labels of the fixtures were made with."""
BAD = -GOOD


def linear(
    path: Path,
    weights: Any,
    *,
    rows: int | str = "batch",
    ends_with: str | None = None,
    unused_input: bool = False,
) -> Path:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "w"], ["logits"], name="product")]
    inputs = [value("x", TensorProto.FLOAT, [rows, FEATURES])]
    output = "logits"
    if ends_with is not None:
        nodes.append(helper.make_node(ends_with, ["logits"], ["end"], name="end"))
        output = "end"
    if unused_input:
        inputs.append(value("unused", TensorProto.FLOAT, [rows, 1]))
        nodes.append(helper.make_node("Add", [output, "unused"], ["sum"], name="sum"))
        output = "sum"
    graph = helper.make_graph(
        nodes,
        "linear",
        inputs,
        [value(output, TensorProto.FLOAT, [rows, CLASSES])],
        [numpy_helper.from_array(np.asarray(weights, np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"author": "me", "hone.job_id": "7"})
    onnx.save(model, path)
    return path


def measurement(workshop: Any, *, loss: str = "cross_entropy", **more: Any) -> Measurement:
    return Measurement(
        signature=workshop.signature,
        loss=loss,
        output="logits",
        database=str(workshop.store.database),
        packs=str(workshop.store.packs_dir),
        model_id=workshop.model_id,
        **{"metric": "accuracy", **more},
    )


@pytest.fixture
def compare(spawn: Callable[..., Any]) -> Callable[..., Any]:
    def compare(workshop: Any, candidate: Path, baseline: Path, **more: Any) -> Any:
        order = Evaluate(
            candidate=str(candidate),
            baseline=str(baseline),
            measurement=measurement(workshop, **more),
            limits=Limits(nice=0),
        )
        return spawn(order).last()

    return compare


def test_both_are_measured_on_the_samples_as_they_are_now(
    make_workshop: Callable[..., Any], compare: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=60)
    good, bad = linear(tmp_path / "good.onnx", GOOD), linear(tmp_path / "bad.onnx", BAD)
    newer = {"splits": Split.VALIDATION}
    with workshop.store.samples.stage(workshop.model_id, FEATURES * 4) as staging:
        staging.add(np.zeros((1, FEATURES), np.float32), [0], **newer)
        staging.commit()

    answer = compare(workshop, bad, good)

    assert isinstance(answer, Evaluated)
    compared = answer.validation
    assert answer.reference is None
    assert compared.samples == sum(compared.class_counts) == 61
    assert compared.baseline is not None
    assert compared.baseline["accuracy"] == 1.0
    assert compared.candidate["accuracy"] < 0.2
    right = round(compared.candidate["accuracy"] * 61)
    assert compared.discordant == (61 - right, 0)
    assert compared.interval is None


def test_a_loss_is_compared_by_a_bootstrap(
    make_workshop: Callable[..., Any], compare: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=60)
    good, bad = linear(tmp_path / "good.onnx", GOOD), linear(tmp_path / "bad.onnx", BAD)
    compared = compare(workshop, bad, good, metric="loss").validation
    assert compared.discordant is None
    assert compared.interval.low > 0
    assert compared.interval.p_value < 0.01
    difference = compared.candidate["loss"] - compared.baseline["loss"]
    assert compared.interval.difference == pytest.approx(difference)


def test_several_outputs_are_right_in_part(
    make_workshop: Callable[..., Any],
    compare: Callable[..., Any],
    tmp_path: Path,
    regression: Signature,
) -> None:
    workshop = make_workshop(signature=regression, train=10, validation=60)
    good, bad = linear(tmp_path / "good.onnx", GOOD), linear(tmp_path / "bad.onnx", BAD)
    compared = compare(workshop, good, bad, loss="bce_with_logits").validation
    assert compared.candidate["accuracy"] == 1.0
    assert compared.discordant is None
    assert compared.interval.low > 0.5


def test_the_reference_set_is_compared_by_itself(
    make_workshop: Callable[..., Any], compare: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=20)
    workshop.store.references.freeze(workshop.model_id)
    validation = SampleFilter(split=Split.VALIDATION)
    for sample in workshop.store.samples.list(workshop.model_id, validation, limit=5):
        workshop.store.samples.update(workshop.model_id, sample.id, split=Split.TRAIN)
    with workshop.store.samples.stage(workshop.model_id, FEATURES * 4) as staging:
        staging.add(np.zeros((7, FEATURES), np.float32), [0] * 7, splits=Split.VALIDATION)
        staging.commit()
    good, bad = linear(tmp_path / "good.onnx", GOOD), linear(tmp_path / "bad.onnx", BAD)
    answer = compare(workshop, good, bad, reference=True)
    assert (answer.validation.samples, answer.reference.samples) == (22, 15)
    assert answer.reference.candidate["accuracy"] == 1.0


@pytest.mark.parametrize(
    "form", [{"rows": 1}, {"rows": 7}, {"ends_with": "Softmax"}, {"unused_input": True}]
)
def test_a_model_as_it_was_registered_is_measured_whatever_its_form(
    make_workshop: Callable[..., Any],
    compare: Callable[..., Any],
    tmp_path: Path,
    form: dict[str, Any],
) -> None:
    workshop = make_workshop(train=10, validation=60)
    uploaded = linear(tmp_path / "uploaded.onnx", GOOD, **form)
    compared = compare(workshop, linear(tmp_path / "new.onnx", GOOD), uploaded).validation
    assert compared.fault is None
    assert compared.baseline == compared.candidate


def test_without_samples_there_is_nothing_to_compare(
    make_workshop: Callable[..., Any], compare: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=0)
    model = linear(tmp_path / "model.onnx", GOOD)
    compared = compare(workshop, model, model).validation
    assert (compared.samples, compared.candidate, compared.baseline) == (0, {}, {})


def test_a_latest_that_cannot_be_run_is_a_finding_and_no_failure(
    make_workshop: Callable[..., Any], compare: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=20)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    compared = compare(workshop, linear(tmp_path / "new.onnx", GOOD), broken).validation
    assert compared.baseline is None
    assert "cannot be loaded" in compared.fault


def test_a_candidate_that_cannot_be_run_is_a_failure(
    make_workshop: Callable[..., Any], compare: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=20)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    answer = compare(workshop, broken, linear(tmp_path / "old.onnx", GOOD))
    assert isinstance(answer, Failed)
    assert answer.code == "export_mismatch"


def test_a_comparison_obeys_a_pause(
    make_workshop: Callable[..., Any], spawn: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=60)
    model = str(linear(tmp_path / "model.onnx", GOOD))
    child = spawn(Evaluate(model, model, measurement(workshop), Limits(nice=0)))
    child.send(Pause())
    assert isinstance(child.last(), Stopped | Evaluated)


@pytest.fixture
def convert(spawn: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    def convert(workshop: Any, source: Path, variant: Any, **more: Any) -> Any:
        folder = tmp_path / "made"
        folder.mkdir()
        order = Convert(
            source=str(source),
            variant=variant,
            work_dir=str(folder),
            measurement=measurement(workshop, **more),
            limits=Limits(nice=0),
        )
        return spawn(order).last()

    return convert


def test_an_int8_form_is_measured_beside_its_source_and_keeps_its_provenance(
    make_workshop: Callable[..., Any], convert: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=100, validation=60)
    answer = convert(workshop, linear(tmp_path / "source.onnx", GOOD), "int8")
    assert isinstance(answer, Converted), answer
    assert answer.method in ("static", "dynamic")
    assert answer.validation.baseline is not None
    assert answer.validation.baseline["accuracy"] == 1.0
    assert answer.validation.candidate["accuracy"] > 0.9
    model = onnx.load(answer.path)
    onnx.checker.check_model(model)
    assert any(tensor.data_type == TensorProto.INT8 for tensor in model.graph.initializer)
    properties = {entry.key: entry.value for entry in model.metadata_props}
    assert properties["author"] == "me"
    assert properties["hone.job_id"] == "7"
    assert properties["hone.variant"] == "int8"
    assert properties["hone.quantization"] == answer.method


def test_without_calibration_samples_quantization_is_dynamic(
    make_workshop: Callable[..., Any], convert: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=0, validation=60)
    answer = convert(workshop, linear(tmp_path / "source.onnx", GOOD), "int8")
    assert isinstance(answer, Converted), answer
    assert answer.method == "dynamic"


def test_an_ort_form_computes_the_same(
    make_workshop: Callable[..., Any], convert: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=60)
    source = linear(tmp_path / "source.onnx", GOOD)
    answer = convert(workshop, source, "ort")
    assert isinstance(answer, Converted), answer
    x = np.random.default_rng(0).standard_normal((5, FEATURES)).astype(np.float32)
    outputs = [
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[
            0
        ]
        for path in (str(source), answer.path)
    ]
    np.testing.assert_allclose(*outputs, rtol=1e-5)


def test_a_model_without_a_layer_to_quantize_is_refused(
    make_workshop: Callable[..., Any], convert: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=60)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "start", "end", "axis"], ["logits"], name="part")],
        "slice",
        [value("x", TensorProto.FLOAT, ["batch", FEATURES])],
        [value("logits", TensorProto.FLOAT, ["batch", CLASSES])],
        [
            numpy_helper.from_array(np.array([number]), name)
            for name, number in (("start", 0), ("end", CLASSES), ("axis", 1))
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "slice.onnx")
    answer = convert(workshop, tmp_path / "slice.onnx", "int8")
    assert isinstance(answer, Failed)
    assert answer.code == "variant_refused"
