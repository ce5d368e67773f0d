"""Two models on the same samples: in a real child, on a real store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linear_models import BAD, FEATURES, GOOD, linear, measurement

from service.training.protocol.messages.comparison import Evaluate, Evaluated
from service.training.protocol.messages.shared import Failed, Pause, ResourceLimits, Stopped
from storage.records.samples import Split
from storage.records.signatures import Signature
from storage.samples.filter import SampleFilter


@pytest.fixture
def compare(spawn: Callable[..., Any]) -> Callable[..., Any]:
    def compare(workshop: Any, candidate: Path, baseline: Path, **more: Any) -> Any:
        order = Evaluate(
            candidate=str(candidate),
            baseline=str(baseline),
            measurement=measurement(workshop, **more),
            limits=ResourceLimits(nice=0),
        )
        return spawn(order).last()

    return compare


def test_both_are_measured_on_the_samples_as_they_are_now(
    make_workshop: Callable[..., Any], compare: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=60)
    good, bad = linear(tmp_path / "good.onnx", GOOD), linear(tmp_path / "bad.onnx", BAD)
    newer = {"split": Split.VALIDATION}
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
        staging.add(np.zeros((7, FEATURES), np.float32), [0] * 7, split=Split.VALIDATION)
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
    child = spawn(Evaluate(model, model, measurement(workshop), ResourceLimits(nice=0)))
    child.send(Pause())
    assert isinstance(child.last(), Stopped | Evaluated)
