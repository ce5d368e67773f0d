"""One training run: combines engine, samples, loop and parent, and ends with a model.

What few jobs ask for is loaded for those alone: a third of a millisecond for each module.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from service.training.callbacks import JobCallbacks, OutOfTime
from service.training.data.datasets import Datasets, load_datasets
from service.training.data.sampler import Sampler
from service.training.data.samples import SampleReader
from service.training.data.warnings import training_warnings
from service.training.engine import Engine
from service.training.engines import opening
from service.training.engines.runtime import flush_denormals
from service.training.evaluation.validation import RECEIVED, validate
from service.training.export.export import export
from service.training.loop import train
from service.training.protocol.messages.training import (
    Done,
    LoopState,
    Started,
    Train,
    Updated,
    Validated,
)
from service.training.protocol.pipe import Heartbeat, Pipe
from service.training.schedule import Plan, make_plan
from service.training.start import (
    open_engine,
    prepare_task,
    scales_labels,
    select_provider,
    start_state,
)
from service.training.tasks import TASKS
from service.training.thread_selection import select_threads
from storage.database.codec import dump


def run(
    task: Train, pipe: Pipe, *, clock: Callable[[], float] = monotonic
) -> Done | Updated | Validated:
    """Carry out the task and return its last message.

    Raises HoneError if a retry would not help, Interrupted if the parent ends it.
    """
    if opening.is_of_sessions(task.artifacts):
        flush_denormals()
    heartbeat, threads = Heartbeat(pipe), task.limits.threads
    reader = SampleReader(task, threads=threads, tick=heartbeat, send=pipe.send)
    datasets = load_datasets(task, reader, threads=threads)
    if task.only_measures:
        return measure(task, datasets, tick=heartbeat)
    task = prepare_task(task, datasets, pipe, tick=heartbeat)
    sampler = datasets.sampler(task.hyperparameters)
    plan = make_plan(task.hyperparameters, len(sampler))
    state = start_state(task, threads=select_threads(task))
    engine = open_engine(task, threads=state.threads)
    tell_start(task, pipe, engine, datasets, plan=plan, threads=state.threads)

    def callbacks_from(engine: Engine, state: LoopState) -> JobCallbacks:
        return JobCallbacks(
            task, pipe, engine, datasets.validation, plan=plan, state=state, clock=clock
        )

    try:
        trained = go_through(
            task, engine, datasets, callbacks_from, sampler=sampler, plan=plan, state=state
        )
        if task.update is None:
            return finish(task, trained, datasets, plan=plan)
        state = trained.state
        metrics, reason = trained.callbacks.measure(state), plan.ending(state)
    except OutOfTime as late:
        state, metrics, reason = late.state, {}, "out_of_time"
    assert reason is not None
    from service.training.updates.update import make_update, samples_behind

    behind = samples_behind(task, datasets.train, sampler, state)
    return make_update(task, engine, state, samples=behind, validation=metrics, reason=reason)


class Trained(Struct, frozen=True):
    """The result of a job's training. warnings: about a computed head."""

    engine: Engine
    callbacks: JobCallbacks
    state: LoopState
    warnings: tuple[str, ...]


def go_through(
    task: Train,
    engine: Engine,
    datasets: Datasets,
    callbacks_from: Callable[[Engine, LoopState], JobCallbacks],
    *,
    sampler: Sampler,
    plan: Plan,
    state: LoopState,
) -> Trained:
    """Train from `state` to the end."""
    # With their own stopwatches: features and baseline do not count as training time.
    prologue = callbacks_from(engine, state)
    datasets.fill(lambda: prologue.tick(state))
    if state.step == 0 and not state.baseline:
        state = replace(state, baseline=callbacks_from(engine, state).validate(state))
    warnings: tuple[str, ...] = ()
    if task.hyperparameters.computes_head:
        from service.training.heads.computing import compute_head

        engine, warnings = compute_head(
            task, engine, datasets, sampler, tick=lambda: prologue.tick(state)
        )
    callbacks = callbacks_from(engine, state)
    state = train(
        engine, datasets.train, sampler, plan, callbacks, state=state, seconds=callbacks.seconds
    )
    callbacks.reporter.progress(state)
    return Trained(engine, callbacks, state, warnings)


def measure(task: Train, datasets: Datasets, *, tick: Callable[[], None]) -> Validated:
    """Validate the received parameters."""
    engine = open_engine(task, threads=1)
    datasets.fill(tick)
    return Validated(
        validate(
            engine,
            datasets.validation,
            make_metrics=partial(TASKS[task.loss].pass_metrics, task.signature.target),
            batch_size=task.hyperparameters.batch_size,
            tick=tick,
            advice=RECEIVED,
        )
    )


def tell_start(
    task: Train, pipe: Pipe, engine: Engine, datasets: Datasets, *, plan: Plan, threads: int
) -> None:
    """Tell the parent what the job will do, once the engine has its execution provider."""
    refused = select_provider(task, engine, datasets)
    sampler = datasets.sampler(task.hyperparameters)
    pipe.send(
        Started(
            engine=engine.name,
            threads=threads,
            train_samples=datasets.train.sample_count(sampler.own),
            validation_samples=datasets.validation.sample_count(),
            total_steps=plan.total_steps,
            epochs=plan.epochs,
            warnings=(*refused, *warnings_of(task, datasets, sampler)),
        )
    )


def warnings_of(task: Train, datasets: Datasets, sampler: Sampler) -> Iterator[str]:
    """Warnings about the samples, before training on them."""
    if task.hyperparameters.replay and not len(sampler.base):
        yield "the base set is gone since the job was queued: nothing is replayed"
    if task.hyperparameters.early_stopping_patience and not len(datasets.validation):
        yield "there are no validation samples, so early_stopping_patience does not end the job"
    yield from training_warnings(
        datasets.samples[0],
        task.signature,
        scales_labels=scales_labels(task),
        of_one_class=TASKS[task.loss].trains_on is not None,
    )


def finish(task: Train, trained: Trained, datasets: Datasets, *, plan: Plan) -> Done:
    """Validate, save, and export the parameters: the best ones if the job may stop early.

    A later job can start from the final checkpoint; resumed from it, this one gives the same model.
    """
    engine, callbacks, state = trained.engine, trained.callbacks, trained.state
    reason = plan.ending(state)
    assert reason is not None
    metrics = callbacks.measure(state)
    if callbacks.best is not None:
        state = callbacks.best.offer(state, metrics)
    if callbacks.best is not None and callbacks.best.path is not None:
        engine.load_parameters(callbacks.best.path)
        metrics = callbacks.best.metrics or callbacks.validate(state)
    callbacks.saver.save(state, "final")
    warnings = trained.warnings
    if task.hyperparameters.calibrate:
        from service.training.heads.calibration import calibrate

        calibration = calibrate(engine, datasets.validation, tick=lambda: callbacks.tick(state))
        engine, metrics = calibration.engine, metrics | calibration.metrics
        warnings = (*warnings, *calibration.warnings)
    threshold, more = threshold_of(task, engine, datasets, tick=lambda: callbacks.tick(state))
    path = Path(task.work_dir) / f"model-{state.step}-{secrets.token_hex(4)}.onnx"
    provenance = {**provenance_of(task, engine, state, datasets), **threshold}
    export(
        engine,
        path,
        input_names=[spec.name for spec in task.signature.inputs],
        batches=datasets.checks(task.hyperparameters.batch_size),
        threads=state.threads,
        provenance={**provenance, "classes": class_names(task)},
    )
    return Done(
        path=str(path),
        step=state.step,
        epoch=state.epoch,
        train_loss=state.loss_sum / state.loss_count if state.loss_count else None,
        validation=metrics | threshold,
        baseline=state.baseline,
        reason=reason,
        provenance=provenance,
        warnings=(*warnings, *more),
        recipe=recipe_beside(path),
    )


def threshold_of(
    task: Train, engine: Engine, datasets: Datasets, *, tick: Callable[[], None]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The threshold of a model whose predictions are scores, see `ScoreThreshold`, and warnings."""
    if not TASKS[task.loss].tells_scores:
        return {}, ()
    from service.training.evaluation.anomalies import calibrate_on

    rate = task.hyperparameters.false_alarm_rate
    return calibrate_on(engine, datasets.validation, rate, tick=tick)


def recipe_beside(path: Path) -> str | None:
    """The file with the steps to the model, if it was written with one."""
    from service.training.engines.model_file import recipe_of  # late: only a job's end needs it

    recipe = recipe_of(path)
    return str(recipe) if recipe.exists() else None


def class_names(task: Train) -> str | None:
    """Class names as JSON, by index, for apps that only have the file."""
    names = task.signature.target.classes
    return None if names is None else dump(names)


def provenance_of(
    task: Train, engine: Engine, state: LoopState, datasets: Datasets
) -> dict[str, Any]:
    """The model's provenance: the same whether or not the job was interrupted."""
    return {
        **task.provenance,
        "parent_version": state.parent_version,
        "watermark": task.watermark,
        "train_samples": datasets.train.sample_count(datasets.own),
        "base_samples": datasets.train.sample_count(datasets.base),
        "validation_samples": datasets.validation.sample_count(),
        "seed": task.hyperparameters.seed,
        "steps": state.step,
        "engine": engine.name,
        "threads": state.threads,
    }
