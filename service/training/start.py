"""The start of a training run: its parameters, its engine with a provider, and its own choices.

What few jobs ask for is loaded for those alone, as in service/training/job.py.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from msgspec.structs import replace

from service.training.data.datasets import Datasets
from service.training.engine import Engine
from service.training.engines import opening
from service.training.engines.manifest import manifest_of
from service.training.engines.provider_setting import CPU, label
from service.training.errors import CheckpointUnreadable
from service.training.heads.kinds import Head
from service.training.hyperparameters import Hyperparameters
from service.training.loss import LABEL_SCALE
from service.training.protocol.messages.training import Chosen, LoopState, Train
from service.training.protocol.pipe import Pipe

if TYPE_CHECKING:
    from service.training.engines.sessions.engine import SessionsEngine


def prepare_task(task: Train, datasets: Datasets, pipe: Pipe, *, tick: Callable[[], None]) -> Train:
    """The task with its start and all hyperparameters known; the training samples have a teacher's
    predictions if it asks for distillation. The parent keeps what was chosen.
    """

    def open_aside(changed: Train) -> Engine:
        return open_engine(changed, threads=1)

    begun = task
    if task.start.how != "resume" and _may_have_new_classes(task):
        from service.training.heads.imprinting import start_new_classes

        begun = start_new_classes(begun, datasets.train, open_aside, tick=tick)
    if task.start.how != "resume" and scales_labels(task):
        from service.training.label_scale import start_with_label_scale

        datasets.fill(tick)
        begun = start_with_label_scale(begun, datasets.train, open_aside, tick=tick)
    if begun.to_choose:
        chosen = make_choices(begun, datasets, open_aside, tick=tick)
        pipe.send(chosen)
        begun = replace(begun, hyperparameters=with_choices(begun, chosen), to_choose=())
    if begun.hyperparameters.head is not None:
        from service.training.heads.selection import alone

        begun = alone(begun)
    if begun is not task:
        gc.collect()  # Engines are in reference cycles, and would stay in memory.
    if begun.hyperparameters.distillation:
        from service.training.teacher import teach

        teach(replace(begun, start=task.start), datasets, open_aside, tick=tick)
    return begun


def _may_have_new_classes(task: Train) -> bool:
    """Whether classes were changed, or the model's file came without some of them."""
    if task.signature.target.class_ids is not None or task.artifacts.manifest is None:
        return task.signature.target.class_ids is not None
    head = manifest_of(task.artifacts).head
    return head is not None and bool(head.fresh)


def scales_labels(task: Train) -> bool:
    """Whether the job standardizes labels: not those of parameters that others share."""
    if task.artifacts.manifest is None or task.start.given is not None:
        return False
    is_scaled = LABEL_SCALE in manifest_of(task.artifacts).tensor_names
    return is_scaled and task.hyperparameters.standardize_labels


def make_choices(
    task: Train,
    datasets: Datasets,
    open_engine: Callable[[Train], Engine],
    *,
    tick: Callable[[], None],
) -> Chosen:
    """Choose the hyperparameters that are left to the job."""
    if {"learning_rate", "head"} & {*task.to_choose}:
        datasets.fill(tick)  # else its test would compute every batch's features again
    if "head" in task.to_choose:
        from service.training.heads.selection import choose_head as choose
    else:
        from service.training.choices import choose
    return choose(task, datasets, open_engine, tick=tick)


def with_choices(task: Train, chosen: Chosen) -> Hyperparameters:
    """The given hyperparameters, with those that the job has chosen."""
    values = dict(chosen.values)
    if "head" in values:
        values["head"] = Head(**values["head"])
    return replace(task.hyperparameters, **values)


def start_state(task: Train, *, threads: int) -> LoopState:
    """The loop's initial state; a resumed job keeps its thread count.

    Raises CheckpointUnreadable if a resumed job has no state.
    """
    start = task.start
    if start.how != "resume":
        teacher = task.teacher
        return LoopState(
            threads=threads,
            parent_version=start.parent_version,
            taught_by=None if teacher is None else teacher.version,
        )
    if start.state is None:
        raise CheckpointUnreadable("a resumed job must bring the loop's state")
    return start.state


def open_engine(task: Train, *, threads: int) -> Engine:
    """The engine, with the parameters and the optimizer that the task starts from."""
    start = task.start
    if start.how != "base" and start.checkpoint is None:
        raise CheckpointUnreadable(f"a start from {start.how!r} must name its checkpoint")
    resumed = start.checkpoint if start.how == "resume" else None
    engine = opening.open_engine(
        task.artifacts,
        output=task.output,
        threads=threads,
        optimizer_options=task.hyperparameters.optimizer_options,
        loss_options=task.hyperparameters.loss_options,
        trains=not task.hyperparameters.computes_head,
        checkpoint=None if resumed is None else Path(resumed),
    )
    if resumed is not None:
        return engine
    for path in filter(None, (start.checkpoint, start.given)):
        engine.load_parameters(Path(path))
    return engine


def select_provider(task: Train, engine: Engine, datasets: Datasets) -> tuple[str, ...]:
    """Make the engine use the first execution provider in the setting that agrees with the CPU;
    returns why each one before it is not used.
    """
    wanted = tuple(takewhile(lambda provider: provider[0] != CPU, task.providers))
    if not wanted or task.hyperparameters.computes_head:
        return ()
    if not opening.is_of_sessions(task.artifacts):
        return (f"{', '.join(map(label, wanted))}: On-Device Training trains on the CPU only",)
    train, refused = datasets.train, list[str]()
    some = np.arange(min(task.hyperparameters.batch_size, len(train)))
    inputs, labels = train.inputs(some), train.targets(some)
    for provider in wanted:
        reason = cast("SessionsEngine", engine).use(provider, inputs, labels)
        if reason is None:
            break
        refused.append(f"{label(provider)} is not used: {reason}")
    return tuple(refused)
