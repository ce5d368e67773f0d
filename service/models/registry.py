"""The registry: prepares uploaded models and stores them."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from msgspec.structs import asdict, replace

from service.errors import ChildDied, InvalidInput, PreparationFailed
from service.jobs.short_tasks import ShortTasks
from service.logs import event
from service.models.prepared import (
    BASE_MODEL,
    MADE_OF,
    UPLOAD,
    describe,
    find_prepared,
    shapes_digest,
)
from service.models.specification import (
    Form,
    ModelSpec,
    check_name,
    described,
    prepare_task,
)
from service.training.protocol.messages.diagnosis import Diagnose, Diagnosed
from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.protocol.messages.shared import Artifacts
from service.training.protocol.messages.unions import Task
from storage.disk.digest import sha256_of
from storage.errors import AlreadyExists, NotFound, Problem
from storage.records.models import FileRecord, Model, NewModel
from storage.store import Store
from storage.tables.model_rows import name_taken

Answer = TypeVar("Answer", Prepared, Diagnosed)

logger = logging.getLogger(__name__)

SECOND_CHECK_BYTES = 2**30
"""How much of the child processes' memory must be free to run a second check in parallel."""


class Registry:
    """Registers models: each is checked in its own child, two at once if memory allows."""

    def __init__(self, store: Store, short_tasks: ShortTasks) -> None:
        self._store = store
        self._short_tasks = short_tasks
        self._checking = 0
        self._changed = asyncio.Condition()

    async def register(
        self, spec: ModelSpec, source: Path, *, form: Form, tokenizer: Path | None = None
    ) -> Model:
        """Check the upload, make its artifacts, store the model and its version 1.

        tokenizer: of a model that texts feed.
        Raises InvalidInput, AlreadyExists, GraphRefused with every cause, PreparationFailed.
        """
        check_name(spec.name)
        await asyncio.to_thread(self._refuse_taken, spec.name)
        async with self._short_tasks.folder("prepare") as work_dir:
            task = prepare_task(spec, source, form, work_dir=work_dir, tokenizer=tokenizer)
            prepared = await self.prepare_once(task)
            model = await asyncio.to_thread(
                self._store_model, spec, prepared, made_of=work_dir / MADE_OF
            )
        event(logger, logging.INFO, "model.registered", model=model.name, notes=len(model.notes))
        return model

    async def diagnose(
        self,
        spec: ModelSpec,
        source: Path,
        *,
        form: Form,
        names_loss: bool = True,
        tokenizer: Path | None = None,
    ) -> Diagnosed:
        """What the upload holds, and everything that prevents its registration. Stores nothing.

        spec: its name may be empty. names_loss: whether its loss counts; else the check uses the
        loss it suggests. Raises GraphRefused for a file that cannot be read, PreparationFailed.
        """
        async with self._short_tasks.folder("diagnose") as work_dir:
            check = prepare_task(spec, source, form, work_dir=work_dir, tokenizer=tokenizer)
            diagnosis = await self._ask(
                Diagnose(check if names_loss else replace(check, loss="")), Diagnosed
            )
        spec = replace(spec, loss=diagnosis.loss)
        faults = await asyncio.to_thread(lambda: [*self._faults(spec, diagnosis.prepared)])
        return replace(diagnosis, problems=(*faults, *diagnosis.problems))

    def _faults(self, spec: ModelSpec, prepared: Prepared | None) -> Iterator[Problem]:
        """Everything wrong with a spec, apart from its graph."""
        checks: list[Callable[[], object]] = []
        if spec.name:
            checks += [lambda: check_name(spec.name), lambda: self._refuse_taken(spec.name)]
        if prepared is not None:
            checks.append(lambda: described(spec, prepared))
        for check in checks:
            try:
                check()
            except InvalidInput as wrong:
                yield from wrong.problems
            except AlreadyExists as taken:
                yield Problem("/spec/name", taken.detail)

    async def prepare_once(self, task: Prepare) -> Prepared:
        """As `prepare`, unless another model has the same artifacts. Beside them it describes the
        task, and keeps the upload if the inference model is another form of it.
        """
        work_dir = Path(task.work_dir)
        made_of = await asyncio.to_thread(describe, task)
        await asyncio.to_thread((work_dir / MADE_OF).write_bytes, made_of)
        prepared = await asyncio.to_thread(find_prepared, self._store, task, made_of)
        prepared = prepared or await self.prepare(task)
        if task.form == "forward":
            await asyncio.to_thread(_keep_upload, task, prepared, made_of)
        return prepared

    async def prepare(self, task: Prepare) -> Prepared:
        """A child's answer to the task. Raises GraphRefused, PreparationFailed, and StorageFull,
        Busy or StorageBroken if the device is at fault.
        """
        return await self._ask(task, Prepared)

    async def _ask(self, task: Task, answer: type[Answer]) -> Answer:
        """Waits until another check may run in parallel with the current ones."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._checking < self._at_once())
            self._checking += 1
        try:
            failure = "the model cannot be prepared"
            return await self._short_tasks.ask(task, answer, failure=failure)
        except ChildDied as error:
            raise PreparationFailed(error.detail) from error
        finally:
            self._checking -= 1
            async with self._changed:
                self._changed.notify_all()

    def _at_once(self) -> int:
        free_bytes = self._short_tasks.children.memory.free_bytes
        return 2 if free_bytes is None or free_bytes >= SECOND_CHECK_BYTES else 1

    def _refuse_taken(self, name: str) -> None:
        try:
            self._store.models.get(name)
        except NotFound:
            return
        raise name_taken(name)

    def _store_model(self, spec: ModelSpec, prepared: Prepared, *, made_of: Path) -> Model:
        new = described(spec, prepared)
        with self._store.files.adopting() as adopt:
            new = with_files(new, prepared, made_of, adopt)
            return self._store.models.add(new, base_version=new.files[BASE_MODEL])


def with_files(
    new: NewModel, prepared: Prepared, made_of: Path, adopt: Callable[[Path], FileRecord]
) -> NewModel:
    """The model with its files by role. made_of: beside it lies the upload, if that is kept."""
    uploaded, shapes = json.loads(made_of.read_bytes())["upload"], shapes_digest(prepared)
    files = {role: adopt(path) for role, path in made_files(prepared.artifacts).items()}
    files |= {MADE_OF: adopt(made_of), BASE_MODEL: adopt(Path(prepared.base_model))}
    if (upload := made_of.with_name(UPLOAD)).exists():
        files[UPLOAD] = adopt(upload)
    return replace(new, files=files, sha256=uploaded, shapes=shapes)


def made_files(artifacts: Artifacts) -> dict[str, Path]:
    """The files by role; which there are depends on the model's form and engine."""
    return {role: Path(path) for role, path in asdict(artifacts).items() if path is not None}


def _keep_upload(task: Prepare, prepared: Prepared, made_of: bytes) -> None:
    """Copy the upload if version 1 is another form of it: changing classes starts from it."""
    if json.loads(made_of)["upload"] != sha256_of(Path(prepared.base_model)):
        shutil.copyfile(task.source, Path(task.work_dir) / UPLOAD)
