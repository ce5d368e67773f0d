"""The registry: takes an uploaded model through the offline phase into the store."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from service import preprocess
from service.errors import InvalidInput, PreparationFailed
from service.jobs import tasks
from service.jobs.child import Child
from service.jobs.enqueue import check_recipe
from service.logs import event
from service.models.prepared import MADE_OF, UPLOAD, describe, find_prepared
from service.models.promotion.policy import merge_gate
from service.processes.children import Children
from service.samples.ingest.csv_header import check_features
from service.samples.ingest.csv_windows import row_signature
from service.samples.ingest.require import require_names
from service.settings import Settings
from service.training.errors import GraphRefused
from service.training.protocol.messages.preparation import Lora, Prepare, Prepared, Refused
from service.training.protocol.messages.unions import Message
from storage.disk.digest import sha256_of
from storage.errors import HoneError, NotFound, Problem
from storage.records.models import BatchNorm, Loss, Model, NewModel, OptimizerName
from storage.store import Store
from storage.tables.model_rows import name_taken

logger = logging.getLogger(__name__)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SECOND_CHECK_BYTES = 2**30
"""Child processes must have left so much for a second check beside the first."""
Form = Literal["forward", "artifacts"]
ARTIFACTS_HAVE_NO_ADAPTERS = Problem(
    "/spec/trainable/lora",
    "artifacts train what they were made for; send the forward model for adapters",
)
ROLES = (
    "training_model",
    "eval_model",
    "checkpoint",
    "optimizer_model",
    "manifest",
    "inference_model",
    "prefix_model",
    "remainder_model",
    "class_step_model",
)
"""Files of a model. Only a model that was cut has a prefix_model, and only one with several outputs
a remainder_model; which of the others it has, its engine tells."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What an author says of a model; see the contract's `spec`."""

    name: str
    loss: Loss
    optimizer: OptimizerName = "adamw"
    output: str | None = None
    trainable: tuple[str, ...] | None = None
    lora: Lora | None = None
    classes: tuple[str, ...] | None = None
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    gate: dict[str, Any] = field(default_factory=dict)
    retention: dict[str, Any] = field(default_factory=dict)
    preprocess: tuple[dict[str, Any], ...] = ()
    keeps_duplicates: bool = False
    features: tuple[str, ...] | None = None
    batch_norm: BatchNorm = "inference"
    loss_output: str | None = None


class Registry:
    """Registers models: each is checked in a child of its own, two at once where memory allows."""

    def __init__(self, store: Store, settings: Settings, children: Children) -> None:
        self._store = store
        self._settings = settings
        self._children = children
        self._checking = 0
        self._changed = asyncio.Condition()

    async def register(self, spec: ModelSpec, source: Path, *, form: Form) -> Model:
        """Check the upload, make its artifacts, store the model and its version 1.

        Raises InvalidInput, AlreadyExists, GraphRefused with every cause, PreparationFailed.
        """
        check_name(spec.name)
        if form == "artifacts" and spec.lora is not None:
            raise InvalidInput("the spec is wrong", problems=[ARTIFACTS_HAVE_NO_ADAPTERS])
        gate = merge_gate({}, spec.gate, loss=spec.loss)
        await asyncio.to_thread(self._refuse_taken, spec.name)
        work_dir = Path(tempfile.mkdtemp(prefix="prepare-", dir=self._store.tmp_dir))
        try:
            async with self.turn():
                prepared = await self._prepare(spec, source, form=form, work_dir=work_dir)
            if form == "forward":
                await asyncio.to_thread(_keep_upload, source, prepared, work_dir / UPLOAD)
            spec = replace(spec, gate=gate)
            model = await asyncio.to_thread(
                self._store_model, spec, prepared, made_of=work_dir / MADE_OF
            )
        finally:
            await asyncio.to_thread(shutil.rmtree, work_dir)
        event(logger, logging.INFO, "model.registered", model=model.name, notes=len(model.notes))
        return model

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until another check may run beside those that do."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._checking < self._at_once())
            self._checking += 1
        try:
            yield
        finally:
            self._checking -= 1
            async with self._changed:
                self._changed.notify_all()

    def _at_once(self) -> int:
        free_bytes = self._children.memory.free_bytes
        return 2 if free_bytes is None or free_bytes >= SECOND_CHECK_BYTES else 1

    def _refuse_taken(self, name: str) -> None:
        try:
            self._store.models.get(name)
        except NotFound:
            return
        raise name_taken(name)

    async def _prepare(
        self,
        spec: ModelSpec,
        source: Path,
        *,
        form: Literal["forward", "artifacts"],
        work_dir: Path,
    ) -> Prepared:
        # Artifacts hold their optimizer; a forward model is prepared for all of them.
        fixed: dict[str, Any] = {}
        if form == "artifacts":
            fixed = {"optimizer": spec.optimizer, **spec.hyperparameters}
        task = Prepare(
            source=str(source),
            form=form,
            work_dir=str(work_dir),
            loss=spec.loss,
            loss_output=spec.loss_output,
            optimizer=fixed.get("optimizer", "adamw"),
            output=spec.output,
            trainable=spec.trainable,
            lora=spec.lora,
            classes=spec.classes,
            weight_decay=fixed.get("weight_decay") or 0.0,
            max_grad_norm=fixed.get("max_grad_norm"),
            divide=form == "forward",
            batch_norm=spec.batch_norm,
            feature_dtype=spec.hyperparameters.get("feature_dtype") or "float32",
            limits=tasks.short_task_limits(self._settings),
        )
        made_of = await asyncio.to_thread(describe, task)
        await asyncio.to_thread((work_dir / MADE_OF).write_bytes, made_of)
        known = await asyncio.to_thread(find_prepared, self._store, task, made_of)
        return known or await ask_to_prepare(task, self._settings, self._children)

    def _store_model(self, spec: ModelSpec, prepared: Prepared, *, made_of: Path) -> Model:
        is_cut = prepared.artifacts.prefix_model is not None
        described = preprocess.parse(spec.preprocess, prepared.signature, is_cut=is_cut)
        require_names(prepared.signature, described)
        rows = row_signature(prepared.signature, described)
        features = check_features(rows, spec.features, at="/spec/features")
        defaults = {k: v for k, v in spec.hyperparameters.items() if v is not None}
        new = NewModel(
            name=spec.name,
            loss=spec.loss,
            loss_output=spec.loss_output,
            optimizer=spec.optimizer,
            engine="sessions" if prepared.artifacts.manifest else "ort_training",
            output=prepared.output,
            signature=prepared.signature,
            trainable=prepared.trainable,
            trainable_parameters=prepared.trainable_parameters,
            frozen_parameters=prepared.frozen_parameters,
            hyperparameters=defaults,
            files={},
            notes=prepared.notes,
            preprocess=described,
            gate=spec.gate,
            retention=spec.retention,
            keeps_duplicates=spec.keeps_duplicates,
            features=features,
        )
        check_recipe(new, defaults, at="/spec/hyperparameters")
        with self._store.files.adopting() as adopt:
            paths = {role: getattr(prepared.artifacts, role) for role in ROLES}
            files = {role: adopt(Path(path)) for role, path in paths.items() if path is not None}
            files[MADE_OF] = adopt(made_of)
            if (upload := made_of.with_name(UPLOAD)).exists():
                files[UPLOAD] = adopt(upload)
            base = adopt(Path(prepared.base_model))
            return self._store.models.add(replace(new, files=files), base_version=base)


def _keep_upload(source: Path, prepared: Prepared, copy: Path) -> None:
    """Where version 1 is another form of it: to change its classes, the model is made anew."""
    if sha256_of(source) != sha256_of(Path(prepared.base_model)):
        shutil.copyfile(source, copy)


async def ask_to_prepare(task: Prepare, settings: Settings, children: Children) -> Prepared:
    """What a child makes of the task. Raises GraphRefused, PreparationFailed, Busy."""
    child = await Child.spawn(children, task)
    answer: Message | None = None
    try:
        async for message in child.messages(silence_timeout_s=settings.prepare_timeout_s):
            answer = message
    except HoneError as error:
        raise PreparationFailed(
            f"checking the model ended the process that did it: {error.detail}"
        ) from error
    finally:
        await child.close()
    if isinstance(answer, Refused):
        raise GraphRefused(answer.detail, problems=answer.problems)
    if not isinstance(answer, Prepared):
        raise PreparationFailed(f"the model cannot be prepared: {answer}")
    return answer


def check_name(name: str) -> None:
    """Raises InvalidInput unless the name is safe in a path, a URL and a shell."""
    if not NAME.fullmatch(name):
        raise InvalidInput(
            f"the name {name!r} cannot be used",
            problems=[
                Problem(
                    "/spec/name",
                    "a name has 1 to 64 letters, digits, dots, dashes or underscores, "
                    "and begins with a letter or digit",
                )
            ],
        )
