"""A job's parts with the real engine, in this process, with a clock that the tests move."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from service.training.callbacks import JobCallbacks
from service.training.data.batches import Dataset
from service.training.data.datasets import Datasets
from service.training.data.sampler import Sampler
from service.training.engine import Engine, Series
from service.training.engines.opening import open_engine
from service.training.hyperparameters import Hyperparameters
from service.training.job import Trained, finish
from service.training.loop import train
from service.training.protocol.messages.shared import Artifacts, ResourceLimits
from service.training.protocol.messages.training import LoopState, Start, Train
from service.training.protocol.messages.unions import Message
from service.training.schedule import Plan, make_plan
from storage.records.signatures import Signature


class Ear:
    """The parent's side of the pipe, in memory."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.stop: str | None = None
        self.held = False
        self.stop_at: tuple[type, int] | None = None

    def send(self, message: Message) -> None:
        self.heard.append(message)

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.heard if isinstance(message, kind)]


class Clock:
    """Time that passes by `step_s` at every look."""

    def __init__(self, step_s: float) -> None:
        self.now = 100.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now += self.step_s
        return self.now


class Recorder:
    """The real engine, and a record of what the loop asked of it.

    in_series: whether it takes several steps in one call if it can.
    """

    def __init__(self, engine: Engine, *, in_series: bool) -> None:
        self.engine = engine
        self.in_series = in_series
        self.seeds: list[int] = []
        self.rates: list[float] = []
        self.batches: list[list[Any]] = [[]]

    def train_batch(self, inputs: Any, target: Any, *more: Any) -> float:
        self.batches[-1].append(np.concatenate([value.copy() for value in inputs]))
        return self.engine.train_batch(inputs, target, *more)

    def step(self, learning_rate: float) -> None:
        self.rates.append(learning_rate)
        self.batches.append([])
        self.engine.step(learning_rate)

    def series(self, rows: int) -> Series | None:
        return self.engine.series(rows) if self.in_series else None

    def seed(self, seed: int) -> None:
        self.seeds.append(seed)
        self.engine.seed(seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)


BASE = 30
"""Samples that are the base set's, where a job replays."""


class Bench:
    """One job's parts, set up as `job.run` does."""

    def __init__(
        self,
        artifacts: Artifacts,
        signature: Signature,
        sets: tuple[Dataset, Dataset],
        work_dir: Path,
        *,
        start: Start | None = None,
        clock_step_s: float = 0.0,
        loss: str = "cross_entropy",
        interval_s: float = 1e9,
        in_series: bool = False,
        **wanted: Any,
    ) -> None:
        self.sets = sets
        self.order = Train(
            artifacts=artifacts,
            signature=signature,
            loss=loss,
            output="logits",
            database="",
            packs="",
            model_id=1,
            watermark=1,
            hyperparameters=Hyperparameters(**{"batch_size": 16, "learning_rate": 0.01, **wanted}),
            start=start or Start(),
            work_dir=str(work_dir),
            checkpoint_interval_s=interval_s,
            limits=ResourceLimits(threads=1, nice=0),
        )
        self.engine = Recorder(self._open_engine(), in_series=in_series)
        self.state = self.order.start.state or LoopState()
        self.plan: Plan = make_plan(self.order.hyperparameters, len(self.sampler))
        self.ear, self.clock = Ear(), Clock(clock_step_s)
        self.watch = JobCallbacks(
            self.order,
            self.ear,  # type: ignore[arg-type]
            self.engine,
            sets[1],
            plan=self.plan,
            state=self.state,
            clock=self.clock,
        )

    def _open_engine(self) -> Engine:
        artifacts = self.order.artifacts
        return open_engine(
            artifacts,
            output="logits",
            threads=1,
            checkpoint=Path(self.order.start.checkpoint or artifacts.checkpoint),
            optimizer_options=self.order.hyperparameters.optimizer_options,
        )

    @property
    def datasets(self) -> Datasets:
        base = np.arange(BASE if self.order.hyperparameters.replay else 0)
        return Datasets(self.sets, *self.sets, base=base)

    @property
    def sampler(self) -> Sampler:
        return self.datasets.sampler(self.order.hyperparameters)

    def train(self) -> LoopState:
        return train(
            self.engine,
            self.sets[0],
            self.sampler,
            self.plan,
            self.watch,
            state=self.state,
            seconds=self.watch.seconds,
        )

    def finish(self, state: LoopState) -> Any:
        trained = Trained(self.engine, self.watch, state, ())
        return finish(self.order, trained, self.datasets, plan=self.plan)


MakeBench = Callable[..., Bench]
