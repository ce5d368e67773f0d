"""How many samples an exported model is checked on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from step_models import compiled, perceptron

from service.training.data import datasets
from service.training.data.datasets import CHECK_SAMPLES, samples_to_check
from service.training.data.samples import READ_ANYWAY
from service.training.engines.manifest import read_manifest


def test_large_models_are_checked_on_fewer_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = compiled(perceptron(), tmp_path).manifest
    task: Any = SimpleNamespace(artifacts=SimpleNamespace(manifest=str(manifest)))
    assert samples_to_check(task) == CHECK_SAMPLES
    elements = read_manifest(manifest).work.elements
    for samples, expected in ((40, 40), (3, READ_ANYWAY)):
        monkeypatch.setattr(datasets, "CHECK_NUMBERS", samples * elements + 1)
        assert samples_to_check(task) == expected
    task.artifacts.manifest = None  # Microsoft's do not tell
    assert samples_to_check(task) == CHECK_SAMPLES
