"""One training run: puts engine, samples, loop and parent together, and ends in a model."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

import numpy as np

from service.training.data import Dataset
from service.training.engine import Engine
from service.training.errors import CheckpointUnreadable, NoSamples
from service.training.export import export
from service.training.loop import train
from service.training.messages import Done, LoopState, Started, Train
from service.training.ort_engine import OrtEngine
from service.training.pipe import Pipe
from service.training.schedule import Plan, make_plan
from service.training.watch import JobWatch
from storage.records import Split
from storage.sample_index import read_sample_index

EXPORT_CHECK_SAMPLES = 256


def run(order: Train, pipe: Pipe, *, clock: Callable[[], float] = monotonic) -> Done:
    """Carry out the order and return its last message.

    Raises HoneError where trying again would not help, Interrupted where the parent ends it.
    """
    train_set, validation_set = load_samples(order)
    plan = make_plan(order.hyperparameters, len(train_set))
    state = start_state(order)
    engine = open_engine(order, threads=state.threads)
    pipe.send(
        Started(
            engine=engine.name,
            threads=state.threads,
            train_samples=len(train_set),
            validation_samples=len(validation_set),
            total_steps=plan.total_steps,
            epochs=plan.epochs,
        )
    )

    def watch_from(state: LoopState) -> JobWatch:
        return JobWatch(order, pipe, engine, validation_set, plan=plan, state=state, clock=clock)

    if state.step == 0 and not state.baseline:
        # Under a watch of its own: the baseline is no training time.
        state = replace(state, baseline=watch_from(state).validate(state))
    watch = watch_from(state)
    state = train(engine, train_set, plan, watch, state=state, seconds=watch.seconds)
    return finish(order, engine, watch, validation_set or train_set, plan=plan, state=state)


def finish(
    order: Train,
    engine: Engine,
    watch: JobWatch,
    check_set: Dataset,
    *,
    plan: Plan,
    state: LoopState,
) -> Done:
    """Validate, save, and export the parameters: the best where the job may stop early.

    The final checkpoint holds what is exported, so that a later job can start from the version;
    resumed, it finds training over, and comes to the same model.
    """
    reason = plan.ending(state)
    assert reason is not None
    watch.reporter.progress(state)
    metrics = watch.measure(state)
    if watch.best is not None:
        state = watch.best.offer(state, metrics)
    if watch.best is not None and watch.best.path is not None:
        engine.load_parameters(watch.best.path)
        metrics = watch.best.metrics or watch.validate(state)
    watch.saver.save(state, "final")
    path = Path(order.work_dir) / f"model-{state.step}-{secrets.token_hex(4)}.onnx"
    some = np.arange(min(len(check_set), EXPORT_CHECK_SAMPLES))
    export(
        engine,
        path,
        input_names=[spec.name for spec in order.signature.inputs],
        batches=check_set.batches(some, batch_size=order.hyperparameters.batch_size),
        threads=state.threads,
    )
    return Done(
        path=str(path),
        step=state.step,
        epoch=state.epoch,
        train_loss=state.loss_sum / state.loss_count if state.loss_count else None,
        validation=metrics,
        baseline=state.baseline,
        reason=reason,
    )


def start_state(order: Train) -> LoopState:
    """Where the loop begins. Raises CheckpointUnreadable if a resumed job does not say."""
    start = order.start
    if start.how != "resume":
        return LoopState(threads=order.limits.threads)
    if start.state is None:
        raise CheckpointUnreadable("a resumed job must bring the loop's state")
    return start.state


def load_samples(order: Train) -> tuple[Dataset, Dataset]:
    """Labelled samples up to the watermark, for training and for validation."""

    def load(split: Split) -> Dataset:
        index = read_sample_index(
            Path(order.database),
            Path(order.packs),
            model_id=order.model_id,
            split=split,
            watermark=order.watermark,
            target=order.signature.target,
        )
        return Dataset(index, order.signature)

    train_set = load(Split.TRAIN)
    if len(train_set) == 0:
        raise NoSamples(
            f"the model has no labelled training samples up to sample {order.watermark};"
            " upload some, or give labels to those that wait for one"
        )
    return train_set, load(Split.VALIDATION)


def open_engine(order: Train, *, threads: int) -> Engine:
    """The engine, with the parameters and the optimizer that the order starts from."""
    start = order.start
    if start.how != "base" and start.checkpoint is None:
        raise CheckpointUnreadable(f"a start from {start.how!r} must name its checkpoint")
    given = Path(start.checkpoint or order.artifacts.checkpoint)
    base = Path(order.artifacts.checkpoint)
    engine = OrtEngine(
        order.artifacts,
        checkpoint=given if start.how == "resume" else base,
        output=order.output,
        threads=threads,
    )
    if start.how == "parameters":
        engine.load_parameters(given)
    return engine
