"""Selects a job's execution provider: the first in the setting that agrees with the CPU."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from service.training.data.datasets import Datasets
from service.training.engine import Engine
from service.training.engines.opening import is_of_sessions
from service.training.engines.provider_setting import CPU, Provider, label
from service.training.protocol.messages.training import Train

if TYPE_CHECKING:
    from service.training.engines.sessions.engine import SessionsEngine


def select_provider(task: Train, engine: Engine, datasets: Datasets) -> tuple[str, ...]:
    """Make the engine use it; returns why each one before it is not used."""
    wanted = tuple(takewhile(lambda provider: provider[0] != CPU, task.providers))
    if not wanted or task.hyperparameters.computes_head:
        return ()
    if not is_of_sessions(task.artifacts):
        return (f"{', '.join(map(label, wanted))}: On-Device Training trains on the CPU only",)
    return _first_that_agrees(engine, wanted, task, datasets)  # type: ignore[arg-type]


def _first_that_agrees(
    engine: SessionsEngine, wanted: tuple[Provider, ...], task: Train, datasets: Datasets
) -> tuple[str, ...]:
    train = datasets.train
    some = np.arange(min(task.hyperparameters.batch_size, len(train)))
    inputs, labels = train.inputs(some), train.targets(some)
    refused: list[str] = []
    for provider in wanted:
        reason = engine.use(provider, inputs, labels)
        if reason is None:
            break
        refused.append(f"{label(provider)} is not used: {reason}")
    return tuple(refused)
