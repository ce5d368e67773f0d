"""A perceptron whose last layer alone trains, on features of the first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from service.training.preparation.prepare import prepare
from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.protocol.messages.training import Train


@pytest.fixture
def cut(forward_model: Path, tmp_path: Path) -> Callable[..., Prepared]:
    """The perceptron, of which the last layer alone trains."""

    def make(folder: str = "cut", **choices: Any) -> Prepared:
        task = Prepare(
            source=str(forward_model),
            form="forward",
            work_dir=str(tmp_path / folder),
            loss="cross_entropy",
            trainable=("w1", "b1"),
            **{"divide": True, **choices},
        )
        prepared = prepare(task)
        assert isinstance(prepared, Prepared), prepared
        return prepared

    return make


@pytest.fixture
def task(
    make_workshop: Callable[..., Any], cut: Callable[..., Prepared], tmp_path: Path
) -> Callable[..., Train]:
    """Train a prepared model, by default the cut perceptron, on the same samples each time."""
    usual, workshop = cut(), make_workshop()

    def make(
        prepared: Prepared = usual, *, cache: str = "cache", most: int = 1 << 20, **wanted: Any
    ) -> Train:
        made: Train = workshop.task(prepared.artifacts, **{"epochs": 4, **wanted})
        return replace(made, cache=str(tmp_path / cache), feature_cache_bytes=most)

    return make
