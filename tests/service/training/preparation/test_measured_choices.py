"""Forms of large convolutions are measured once, when a model is registered."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from blocked_networks import BLOCK, Network
from msgspec.structs import replace

from service.training.engines.manifest import Files, read_manifest, write_manifest
from service.training.engines.sessions.engine import SessionsEngine
from service.training.graph.blocks.choices import Choices
from service.training.graph.blocks.layout import BlockLayout
from service.training.graph.step import build_step
from service.training.loss import Loss
from service.training.optimizer.options import OptimizerOptions
from service.training.preparation import measured_choices
from service.training.preparation.measured_choices import measure
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages.preparation import Prepare, Prepared

pytestmark = pytest.mark.skipif(BLOCK is None, reason="the runtime has no layout of its own here")
CLASSES = 4
LONG_S = 60.0
RECIPE = OptimizerOptions("adamw")


def model() -> onnx.ModelProto:
    network = Network(3, 12, 12)
    network.conv(32, 3, 3, 3, pads=[1, 1, 1, 1])
    network.add("Relu")
    network.conv(32, 32, 3, 3, pads=[1, 1, 1, 1])
    network.conv(64, 32, 3, 3, strides=[2, 2])
    network.add("GlobalAveragePool")
    network.add("Flatten")
    network.add("Gemm", network.last, network.weight(64, CLASSES))
    return onnx.shape_inference.infer_shapes(network.model())


def asked() -> BlockLayout:
    """A layout that a step was built with."""
    layout, made = BlockLayout(BLOCK or 1, (BLOCK or 1) // 2, Choices()), model()
    names = [initializer.name for initializer in made.graph.initializer]
    build_step(made, loss=Loss("mse"), parameters=names, layout=layout)
    return layout


def measure_all(monkeypatch: pytest.MonkeyPatch, *, clearly: float, budget_s: float) -> None:
    monkeypatch.setattr(measured_choices, "LEAST_WORK", 0)
    monkeypatch.setattr(measured_choices, "HOPELESS", clearly)
    monkeypatch.setattr(measured_choices, "CLEARLY", clearly)
    monkeypatch.setattr(measured_choices, "BUDGET_S", budget_s)


def prepared(folder: Path) -> Prepared:
    folder.mkdir()
    path = folder / "model.onnx"
    onnx.save_model(model(), path)
    task = Prepare(str(path), "forward", str(folder), "cross_entropy")
    return make_step_models(path, task)


def other_forms(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Prepared:
    """With the fastest of the other forms, however slow these are."""
    measure_all(monkeypatch, clearly=np.inf, budget_s=LONG_S)
    return prepared(folder)


def batch(number: int) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(number)
    x = rng.standard_normal((13, 3, 12, 12)).astype(np.float32)
    return [x], rng.integers(0, CLASSES, len(x))


def train(engine: SessionsEngine, numbers: range, path: Path) -> str:
    """A digest of the checkpoint after a step on each of these batches."""
    for number in numbers:
        engine.train_batch(*batch(number))
        engine.step(1e-3)
    engine.save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_another_form_is_taken_only_if_it_is_clearly_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layout = asked()
    measure_all(monkeypatch, clearly=np.inf, budget_s=LONG_S)
    assert measure(layout, budget_s=LONG_S)
    made = layout.choices.made
    assert made
    for question, form in made.items():
        assert form in layout.choices.asked[question][1]
    layout = asked()
    measure_all(monkeypatch, clearly=0.0, budget_s=LONG_S)
    assert not measure(layout, budget_s=LONG_S)
    assert layout.choices.made == {}


def test_without_time_the_guesses_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = asked()
    measure_all(monkeypatch, clearly=np.inf, budget_s=0.0)
    assert not measure(layout, budget_s=0.0)
    assert layout.choices.made == {}


def test_small_convolutions_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    layout, least = asked(), measured_choices.LEAST_WORK
    measure_all(monkeypatch, clearly=np.inf, budget_s=LONG_S)
    monkeypatch.setattr(measured_choices, "LEAST_WORK", least)
    assert not measure(layout, budget_s=LONG_S)


def test_what_was_chosen_is_stored_and_told_and_both_steps_take_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guessed = prepared(tmp_path / "guessed")
    found = other_forms(monkeypatch, tmp_path / "measured")
    manifests = [read_manifest(Files.of(each.artifacts).manifest) for each in (guessed, found)]
    assert manifests[0].choices == {}
    chosen = manifests[1].choices
    assert chosen
    told = [note for note in found.notes if note not in guessed.notes]
    assert len(told) == len(chosen)
    for (question, form), note in zip(chosen.items(), told, strict=True):
        assert question in note
        assert form in note
    steps = [Files.of(each.artifacts) for each in (guessed, found)]
    digests = [
        step.optimized_step_model and step.optimized_step_model.read_bytes() for step in steps
    ]
    assert digests[0] != digests[1]
    assert steps[1].optimized_class_step_model is not None  # takes the same weights in blocks


def test_jobs_train_by_the_chosen_forms_and_resume_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files.of(other_forms(monkeypatch, tmp_path / "model").artifacts)

    def engine(files: Files, checkpoint: Path | None = None) -> SessionsEngine:
        return SessionsEngine(files, threads=2, optimizer_options=RECIPE, checkpoint=checkpoint)

    straight = engine(files)
    whole = train(straight, range(4), tmp_path / "straight")
    train(engine(files), range(2), tmp_path / "first")
    assert train(engine(files, tmp_path / "first"), range(2, 4), tmp_path / "second") == whole
    elsewhere = replace(files, manifest=tmp_path / "manifest.json")
    own = read_manifest(files.manifest)
    write_manifest(replace(own, optimized_for="another processor"), elsewhere.manifest)
    plain = engine(elsewhere)
    assert train(plain, range(4), tmp_path / "plain") != whole
    inputs, labels = batch(99)
    found, expected = straight.evaluate(inputs, labels), plain.evaluate(inputs, labels)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-3, atol=1e-4)
