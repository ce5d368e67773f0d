"""Migrates models of On-Device Training to the session engine, when they train next."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from pathlib import Path

from msgspec.structs import replace

from service.jobs import tasks
from service.logs import event
from service.models.prepared import MADE_OF, UPLOAD, describe, prepare_again
from service.models.registry import ROLES, ask_to_prepare
from service.processes.children import Children
from service.settings import Settings
from service.training.engines.packages import has_on_device_training
from service.training.protocol.messages.preparation import Prepare, Prepared
from storage.errors import HoneError
from storage.records.models import Model
from storage.store import Store

logger = logging.getLogger(__name__)
NOTE = "prepared anew for the engine of sessions, from the upload"


async def renew(model_id: int, store: Store, settings: Settings, children: Children) -> None:
    """Prepare a model again, if its upload is kept and no unfinished job needs its engine.

    If that fails, the model stays as it is, and the log says so. Version numbers and samples stay,
    and so do checkpoints, whose parameters later jobs start from.
    """
    model = await asyncio.to_thread(store.models.get_by_id, model_id)
    if model.engine == "sessions" or await asyncio.to_thread(_is_needed, model, store):
        return
    work_dir = Path(tempfile.mkdtemp(prefix="renew-", dir=store.tmp_dir))
    try:
        limits = tasks.short_task_limits(settings)
        task = await asyncio.to_thread(
            prepare_again, model, store, work_dir=work_dir, limits=limits
        )
        if task is not None:
            answer = await ask_to_prepare(task, settings, children)
            await asyncio.to_thread(_take, model, task, answer, store)
    except HoneError as error:
        event(logger, logging.WARNING, "model.not_renewed", model=model.name, detail=error.detail)
    finally:
        await asyncio.to_thread(shutil.rmtree, work_dir)


def _is_needed(model: Model, store: Store) -> bool:
    """Whether a job may resume from a checkpoint that only the model's engine can read."""
    unfinished = [*store.jobs.waiting(), *store.jobs.running()]
    return has_on_device_training() and any(
        job.model_id == model.id and store.checkpoints.latest_of(job.id) is not None
        for job in unfinished
    )


def _take(model: Model, task: Prepare, answer: Prepared, store: Store) -> None:
    """Store the new artifacts, if the model's samples and checkpoints fit them."""
    made = (answer.signature, answer.output, set(answer.trainable))
    if made != (model.signature, model.output, set(model.trainable)):
        detail = "its signature or its parameters would be others"
        event(logger, logging.WARNING, "model.not_renewed", model=model.name, detail=detail)
        return
    made_of = Path(task.work_dir) / MADE_OF
    made_of.write_bytes(describe(task))
    paths = {role: getattr(answer.artifacts, role) for role in ROLES} | {MADE_OF: str(made_of)}
    files = {role: store.files.adopt(Path(path)) for role, path in paths.items() if path}
    files |= {role: file for role, file in model.files.items() if role == UPLOAD}
    renewed = replace(
        model,
        engine="sessions",
        trainable=answer.trainable,
        trainable_parameters=answer.trainable_parameters,
        frozen_parameters=answer.frozen_parameters,
        notes=(*answer.notes, NOTE),
    )
    store.models.renew(renewed, files)
    event(logger, logging.INFO, "model.renewed", model=model.name)
