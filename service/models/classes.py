"""Classes of a registered model: added, renamed, merged and removed.

The head is changed in the upload, which is then prepared as at registration: the artifacts equal
those of a model that was registered with these classes. Checkpoints and versions stay as they are;
their readers identify classes by id, which does not change with name or index.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from service.errors import InvalidInput
from service.jobs.short_tasks import ShortTasks
from service.logs import event
from service.models.prepared import (
    BASE_MODEL,
    MADE_OF,
    UPLOAD,
    describe,
    prepare_again,
    shapes_digest,
)
from service.models.promotion.policy import by_name
from service.models.registry import Registry, made_files
from service.training.errors import GraphRefused
from service.training.protocol.messages.preparation import Prepared
from service.training.tasks import TASKS
from storage.errors import AlreadyExists, NotFound, Problem
from storage.records.models import Model
from storage.records.signatures import TargetSpec
from storage.store import Store
from storage.tables.classes import Removal

logger = logging.getLogger(__name__)

KEPT = (UPLOAD, BASE_MODEL)
"""Roles of files that a change of classes does not touch."""
FEWEST = 2
"""Minimum number of classes of a classifier."""

Edit = Callable[[dict[str, Any]], dict[str, Any]]


class ModelClass(Struct, frozen=True):
    """A class. train, validation: sample counts. in_latest: whether `latest` knows it."""

    index: int
    name: str
    train: int
    validation: int
    in_latest: bool


class Change(Struct, frozen=True):
    """target: after the change. edit: adapts hyperparameters, edit_gate the gate. removal: of the
    class removed.
    """

    target: TargetSpec
    edit: Edit
    edit_gate: Edit = dict
    removal: Removal | None = None


class PreparedHead(Struct, frozen=True):
    """A model at one of its bases, prepared with other classes. files: new ones, by role."""

    model: Model
    files: dict[str, Path]


class Classes:
    """Changes the classes of models. Refused while a job of the model is under way."""

    def __init__(self, store: Store, short_tasks: ShortTasks, registry: Registry) -> None:
        self._store = store
        self._short_tasks = short_tasks
        self._registry = registry

    def show(self, model: Model) -> list[ModelClass]:
        """By index. Raises InvalidInput for a model without named classes. Blocking."""
        target, names = model.signature.target, named(model)
        counts = {
            (split.value, label): count
            for split, label, count in self._store.sample_stats.label_counts(model.id)
        }
        latest = self._store.versions.by_alias(model.id, "latest").target.ids
        return [
            ModelClass(
                index=index,
                name=name,
                train=counts.get(("train", index), 0),
                validation=counts.get(("validation", index), 0),
                in_latest=target.ids[index] in latest,
            )
            for index, name in enumerate(names)
        ]

    async def add(self, model: Model, name: str) -> None:
        """Append a class, and a row to the head.

        Raises InvalidInput, AlreadyExists, InUse, StateConflict, GraphRefused if the head cannot
        grow, PreparationFailed, StorageFull; then nothing has changed.
        """
        names = named(model)
        _refuse_taken(names, name)
        target = model.signature.target
        number = target.classes_made or len(names)
        new = replace(
            _with_names(target, (*names, name)),
            class_ids=(*target.ids, number),
            classes_made=number + 1,
        )
        await self._change_head(model, Change(new, _with_weight))
        event(logger, logging.INFO, "model.class_added", model=model.name)

    def rename(self, model: Model, old: str, name: str) -> None:
        """Raises InvalidInput, AlreadyExists, NotFound, InUse, StateConflict. Blocking."""
        names, index = named(model), find(model, old)
        if names[index] != name:
            _refuse_taken(names, name)
        target = _with_names(model.signature.target, (*names[:index], name, *names[index + 1 :]))
        new = replace(model, signature=replace(model.signature, target=target))
        self._store.models.change_classes(model, new, (), edit=dict)

    async def merge(self, model: Model, name: str, into: str) -> int:
        """Relabel the samples of the first class as the second; returns how many.

        The first class and its row are removed. Raises as `add` and `remove` do.
        """
        index, other = find(model, name), find(model, into)
        if index == other:
            detail = f"a class cannot be merged into itself; {into!r} is {name!r}"
            raise _wrong("/into", detail)
        return await self._remove(model, Removal(index, into=other))

    async def remove(self, model: Model, name: str, *, unlabel: bool = False) -> int:
        """Remove a class and its row; returns how many samples lost their label.

        Raises InUse if it has samples, unless `unlabel` is set, and as `add` does.
        """
        return await self._remove(model, Removal(find(model, name), unlabel=unlabel))

    async def _remove(self, model: Model, removal: Removal) -> int:
        target, names, index = model.signature.target, named(model), removal.index
        if target.shape:
            detail = "labels with several positions cannot be relabelled; send the samples anew"
            raise _wrong("", detail)
        if len(names) <= FEWEST:
            raise _wrong("", f"{len(names)} classes are left; a classifier needs {FEWEST}")
        new = replace(
            _with_names(target, (*names[:index], *names[index + 1 :])),
            class_ids=(*target.ids[:index], *target.ids[index + 1 :]),
            classes_made=target.classes_made or len(names),
        )
        change = Change(
            new,
            lambda values: _without(values, index),
            lambda gate: by_name(gate, names),
            removal,
        )
        moved = await self._change_head(model, change)
        event(logger, logging.INFO, "model.class_removed", model=model.name, samples=moved)
        return moved

    async def _change_head(self, model: Model, change: Change) -> int:
        await asyncio.to_thread(self._store.models.require_idle, model, change.removal)
        async with self._short_tasks.folder("classes") as folder:
            heads = []
            for base in await asyncio.to_thread(self._store.bases.list, model.id):
                get = partial(self._store.models.get_by_id, model.id, base=base.base)
                at_base = await asyncio.to_thread(get)
                heads.append(await self._head(at_base, change, folder / str(base.base)))
            return await asyncio.to_thread(self._store_heads, model, change, heads)

    async def _head(self, model: Model, change: Change, work_dir: Path) -> PreparedHead:
        """The model at one of its bases, prepared with the changed classes."""
        await asyncio.to_thread(work_dir.mkdir)
        task = await asyncio.to_thread(prepare_again, model, self._store, work_dir=work_dir)
        if task is None:
            raise GraphRefused(NOT_KEPT, problems=[Problem("/model", NOT_KEPT)])
        target = change.target
        task = replace(task, output=model.output, classes=target.classes, class_ids=target.ids)
        answer = await self._registry.prepare(task)
        _require_same(model, answer)
        made_of = work_dir / MADE_OF
        made_of.write_bytes(await asyncio.to_thread(describe, task))
        new = replace(
            model,
            engine="sessions",
            shapes=await asyncio.to_thread(shapes_digest, answer),
            trainable=answer.trainable,
            trainable_parameters=answer.trainable_parameters,
            frozen_parameters=answer.frozen_parameters,
            notes=answer.notes,
        )
        return PreparedHead(new, made_files(answer.artifacts) | {MADE_OF: made_of})

    def _store_heads(self, model: Model, change: Change, heads: Sequence[PreparedHead]) -> int:
        new = replace(model, signature=replace(model.signature, target=change.target))
        with self._store.files.adopting() as adopt:
            renewed = [
                replace(
                    head.model,
                    files={role: adopt(path) for role, path in head.files.items()}
                    | {role: head.model.files[role] for role in KEPT if role in head.model.files},
                )
                for head in heads
            ]
            return self._store.models.change_classes(
                model,
                new,
                renewed,
                edit=change.edit,
                edit_gate=change.edit_gate,
                removal=change.removal,
            )


NOT_KEPT = (
    "classes can be changed where Hone made the artifacts and keeps the upload, and this model came"
    " as artifacts of Microsoft's tools, or with an older Hone that kept another form of it;"
    " register the forward ONNX model under another name, and send the samples"
)


def named(model: Model) -> tuple[str, ...]:
    """The names of a model's classes. Raises InvalidInput if it has none."""
    names = model.signature.target.classes
    if not TASKS[model.loss].has_classes:
        raise _wrong("", f"model {model.name!r} is no classifier: its loss is {model.loss}")
    if names is not None:
        return names
    raise _wrong(
        "",
        f"the classes of {model.name!r} have no names; give them some first, with PATCH"
        f' /v1/models/{model.name} {{"classes": […]}}',
    )


def find(model: Model, name: str) -> int:
    """The index of a class. Raises NotFound, and InvalidInput for a model without names."""
    names = named(model)
    if name not in names:
        known = ", ".join(map(repr, names[:20]))
        raise NotFound(f"{model.name!r} has no class {name[:100]!r}; there are {known}")
    return names.index(name)


def _refuse_taken(names: tuple[str, ...], name: str) -> None:
    if name in names:
        raise AlreadyExists(f"there is a class {name!r} already; choose another name")


def _with_names(target: TargetSpec, names: tuple[str, ...]) -> TargetSpec:
    return replace(target, classes=names, num_classes=len(names))


def _require_same(model: Model, answer: Prepared) -> None:
    """Raises GraphRefused if anything but the head's rows would change."""
    signature = replace(answer.signature, target=model.signature.target)
    made = (signature, answer.output, set(answer.trainable))
    if made != (model.signature, model.output, set(model.trainable)):
        detail = "prepared anew, the model would have other inputs or other parameters that train"
        raise GraphRefused(detail, problems=[Problem("/model", detail)])


def _with_weight(values: dict[str, Any]) -> dict[str, Any]:
    """Hyperparameters after a class is appended."""
    weights = values.get("class_weights")
    return values if weights is None else {**values, "class_weights": [*weights, 1.0]}


def _without(values: dict[str, Any], index: int) -> dict[str, Any]:
    """Hyperparameters after this class is removed."""
    kept = dict(values)
    if (weights := values.get("class_weights")) is not None:
        kept["class_weights"] = [*weights[:index], *weights[index + 1 :]]
    ignored = values.get("ignore_index")
    if ignored == index:
        del kept["ignore_index"]
    elif ignored is not None and ignored > index:
        kept["ignore_index"] = ignored - 1
    return kept


def _wrong(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput.at(pointer, detail, title="the request does not fit the model's classes")
