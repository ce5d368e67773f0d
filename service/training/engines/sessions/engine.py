"""The session engine: forward and backward pass are one graph, run in shares of a batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from service.training.engine import NOTHING, Array
from service.training.engines.manifest import Files, draw_all, read_manifest
from service.training.engines.packages import RECORDED
from service.training.engines.provider_setting import Provider, label
from service.training.engines.runtime import foreign_errors, onnxruntime
from service.training.engines.sessions.chosen_loss import PLAIN, ChosenLoss, as_first
from service.training.engines.sessions.crew import Crew
from service.training.engines.sessions.model_sessions import ModelSessions
from service.training.engines.sessions.optimizer import Optimizer
from service.training.engines.sessions.providers import adopt
from service.training.engines.sessions.series import StepSeries, steps_at_once
from service.training.engines.sessions.shares import Shares, scale_rank, shares_of
from service.training.engines.sessions.state import State
from service.training.engines.sessions.step_memory import gradients_of
from service.training.errors import ArtifactsUnreadable
from service.training.optimizer.options import LossOptions, OptimizerOptions

logger = logging.getLogger(__name__)
T = TypeVar("T")


class SessionsEngine:
    """A model in training.

    checkpoint: to continue from, by default the values that training starts from. threads: number
    for a step; the same number gives the same bits. trains: whether steps will follow; otherwise
    the step is loaded on demand.
    Raises ArtifactsUnreadable, CheckpointUnreadable, MemoryError.
    """

    def __init__(
        self,
        files: Files,
        *,
        threads: int,
        optimizer_options: OptimizerOptions,
        loss_options: LossOptions = PLAIN,
        checkpoint: Path | None = None,
        trains: bool = True,
    ) -> None:
        self._files = files
        self._manifest = read_manifest(files.manifest)
        shares = shares_of(self._manifest, threads=threads)
        self._state = State(self._manifest, optimizer_options, threads=threads, shares=shares)
        self._state.restore(checkpoint or files.checkpoint)
        self._loss = ChosenLoss(files, self._manifest, loss_options)
        self._seed = 0
        self._counted: list[float] = []  # what the batches of the next step count
        self._provider: Provider | None = None
        self._crew = Crew()
        self._series: StepSeries | None = None
        self._updated = {name: np.zeros_like(old) for name, old in self._state.updated.items()}
        self._sessions = ModelSessions(
            files,
            self._manifest,
            self._state,
            self._loss,
            updated=self._updated,
            threads=threads,
            shares=shares,
            crew=self._crew,
        )
        self._optimizer_options, self._threads = optimizer_options, threads
        if trains:
            self._training = self._open_training()

    @property
    def name(self) -> str:
        runtime = f"{RECORDED['sessions']} on onnxruntime {onnxruntime.__version__}"
        return runtime if self._provider is None else f"{runtime}, {label(self._provider)}"

    @property
    def output(self) -> str:
        return self._manifest.output

    @property
    def quantizes(self) -> bool:
        return self._manifest.quantizes

    def use(self, provider: Provider, inputs: Sequence[Array], target: Array) -> str | None:
        """Step on another execution provider from now on, if it agrees with the CPU on a batch.

        Returns why it is not used, None if it is.
        """
        from service.training.engines.sessions import device_training  # late: rarely needed

        host, optimizer = self._state.buffers, self._optimizer

        def open_on(provider: Provider) -> Shares:
            self._state.buffers = device_training.buffers_on(provider, host, threads=self._threads)
            return self._sessions.step(provider)

        def compare_optimizers(runs: Shares) -> str | None:
            self._optimizer, wrong = device_training.optimizer_on(
                self._state.buffers,
                lambda kind: self._open_optimizer(kind, runs),
                number=self._state.steps + 1,
            )
            return wrong

        shares, reason = adopt(
            provider,
            open_on,
            lambda runs: self._results(inputs, target, runs),
            self._results(inputs, target),
            parameters=host.parameters,
            compare_more=compare_optimizers,
        )
        if shares is None:
            self._state.buffers, self._optimizer = host, optimizer
            host.clear_gradients()
            return reason
        self._training, self._provider = shares, provider
        return None

    def _results(
        self, inputs: Sequence[Array], target: Array, runs: Shares | None = None
    ) -> dict[str, NDArray[np.float32]]:
        buffers = self._state.buffers
        buffers.send()
        loss = self._gradients(inputs, target, runs=runs)
        buffers.average_gradients(1)
        return {"the loss": np.array(loss, np.float32), **buffers.views(buffers.total())}

    def train_batch(
        self,
        inputs: Sequence[Array],
        target: Array,
        weights: Array | None = None,
        teacher: Array | None = None,
    ) -> float:
        if weights is not None and not self._training.takes_weights:
            raise ArtifactsUnreadable(
                "the model's loss is one number for a batch, so samples have no weights; give all"
                " of them the weight 1, or register the model anew"
            )
        if self._counted:
            self._state.buffers.put_gradients_by()
        counted = self._loss.counted(target)
        share = as_first(counted, self._counted)
        loss = self._gradients(inputs, target, weights, teacher, share=share) / share
        for old, new in zip(self._state.updated.values(), self._updated.values(), strict=True):
            old[...] = new
        self._counted.append(counted)
        return loss

    def _gradients(
        self,
        inputs: Sequence[Array],
        target: Array,
        weights: Array | None = None,
        teacher: Array | None = None,
        *,
        share: float = 1.0,
        runs: Shares | None = None,
    ) -> float:
        """The loss; gradients and new statistics go into their buffers.

        share: a factor on both. runs: of the step, by default those that train. Others are not
        made smaller.
        """
        rows, batch = len(target), len(self._counted)
        feeds = self._feeds(inputs, target)
        if self._manifest.draws:
            feeds |= draw_all(self._manifest.draws, seed=self._seed, batch=batch, rows=rows)
        feeds |= self._loss.feeds(target, teacher)
        scale, loss, done = share * self._loss.scale(target), 0.0, 0

        def run() -> tuple[float, int]:
            taken = runs or self._training
            last = done + taken.at_once(rows - done)
            some = {name: array[done:last] for name, array in feeds.items()}
            factors = None if weights is None else weights[done:last]
            try:
                more, shares = taken.run(some, rows=last - done, scale=scale, weights=factors)
            except MemoryError:
                self._state.buffers.clear_gradients()
                raise
            for idle in () if taken.adds_up else self._state.buffers.gradients[shares:]:
                idle.fill(0)
            return loss + more, last

        while done < rows:
            if done:
                self._state.buffers.put_gradients_by()
            loss, done = run() if runs else self._fitting(run, rows, self._provider)
        return loss

    def _fitting(self, take: Callable[[], T], rows: int, provider: Provider | None = None) -> T:
        """What is computed from a batch, in smaller runs as long as memory does not suffice.

        Results differ by rounding, so checkpoints keep the rows of a run. Raises MemoryError.
        """
        while True:
            try:
                return take()
            except MemoryError:
                most = self._sessions.largest_run(rows, provider)
                if most == 1 or self._manifest.batch_statistics:
                    raise
            # Now that the error is gone, nothing else has references to what is closed here.
            self._state.rows = most // 2
            logger.warning("smaller_runs rows=%d", self._state.rows)
            self._series = None
            for name in ("_training", "_evaluation"):
                vars(self).pop(name, None)

    def step(self, learning_rate: float) -> None:
        self._state.buffers.average_gradients(as_first(sum(self._counted), self._counted))
        self._counted.clear()
        with np.errstate(all="ignore"):  # Values that are not finite show in the next loss.
            self._update(learning_rate)

    def _update(self, learning_rate: float) -> None:
        self._state.steps += 1
        self._optimizer.step(learning_rate, number=self._state.steps)

    def series(self, rows: int) -> StepSeries | None:
        most = steps_at_once(self._manifest, rows=rows)
        feeds_more = self._loss.class_vectors or self._manifest.draws or self._updated
        splits = self._sessions.shares > 1 or self._training.at_once(rows) < rows
        adds_up, elsewhere = self._training.adds_up, self._provider is not None
        if most < 2 or feeds_more or splits or adds_up or elsewhere:
            return None
        if self._series is None or self._series.rows != rows:
            memory = self._sessions.memory()
            self._series = StepSeries(
                self._training.sessions[0],
                memory.inputs,
                memory.outputs(self._state.buffers.gradients[0]),
                self._feeds,
                self._update,
                scale=self._loss.scale,
                rows=rows,
                most=most,
                scale_rank=scale_rank(self._training.sessions[0]),
            )
        return self._series

    def evaluate(self, inputs: Sequence[Array], target: Array) -> tuple[float, Array]:
        return self._fitting(lambda: self._evaluated(inputs, target), len(target))

    def _evaluated(self, inputs: Sequence[Array], target: Array) -> tuple[float, Array]:
        self._state.buffers.fetch()
        feeds, rows = self._feeds(inputs, target), len(target)
        scale = self._loss.plain_scale(target)
        at_once = self._evaluation.at_once(rows)
        loss, parts = 0.0, []
        for start in range(0, rows, at_once):
            some = {name: array[start : start + at_once] for name, array in feeds.items()}
            for binding in self._evaluation.bindings:  # their buffers have the last batch's size
                binding.allocate(self.output)
            share, taken = self._evaluation.run(some, rows=min(at_once, rows - start), scale=scale)
            loss += share
            parts += [binding.output(self.output) for binding in self._evaluation.bindings[:taken]]
        return loss, parts[0] if len(parts) == 1 else np.concatenate(parts)

    def seed(self, seed: int) -> None:
        self._seed = seed

    def save(self, path: Path) -> None:
        self._state.save(path)

    def load_parameters(self, path: Path) -> None:
        self._state.load_parameters(path)

    def end_training(self) -> None:
        for name in ("_training", "_optimizer"):  # not opened if the engine never steps
            vars(self).pop(name, None)
        self._series = None
        self._state.end_training()

    def export(self, path: Path, metadata: Mapping[str, str] = NOTHING) -> None:
        self._state.export(self._files.inference_model, path, metadata)

    @cached_property
    def _optimizer(self) -> Optimizer:
        return self._open_optimizer(Optimizer, self._training)

    def _open_optimizer(self, kind: type[Optimizer], runs: Shares) -> Optimizer:
        return kind(
            self._optimizer_options,
            self._state.buffers,
            threads=self._threads,
            crew=self._crew,
            split=gradients_of(runs.sessions[0]),
            clears=runs.adds_up,
        )

    @cached_property
    def _training(self) -> Shares:
        return self._open_training()

    def _open_training(self) -> Shares:
        with foreign_errors(ArtifactsUnreadable, "cannot load the training step"):
            return self._sessions.step(self._provider)

    @cached_property
    def _evaluation(self) -> Shares:
        with foreign_errors(ArtifactsUnreadable, "cannot load the evaluation"):
            return self._sessions.evaluation()

    def _feeds(self, inputs: Sequence[Array], target: Array) -> dict[str, Array]:
        feeds = dict(zip(self._manifest.inputs, inputs, strict=True)) | self._loss.labels(target)
        return {name: np.ascontiguousarray(array) for name, array in feeds.items()}
