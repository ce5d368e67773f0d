"""Models: register, list, show, change, delete."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from msgspec import UNSET
from starlette.responses import Response

from api import present
from api.access.scopes import ThePrincipal, needs
from api.dependencies import Cursor, Limit, TheDaemon, TheModel, TheStore, after_id, page
from api.files import REVALIDATE, file_answer
from api.openapi import file_answers
from api.routing import Route
from api.schemas.base import Page
from api.schemas.models import ClassBody, ClassMerge, ClassNamed, ModelBody, ModelPatch
from service.access.principal import Scope
from service.daemon import Daemon
from service.models import updates as model_updates
from service.models.classes import ModelClass
from service.models.prepared import TOKENIZER
from storage.errors import NotFound

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=Route)
TOKENIZER_TYPE = "application/json"

HEAD = ("graph_refused", "in_use", "preparation_failed", "state_conflict", "storage_full")
"""Error codes of a change to the head."""


@router.get("", summary="List models")
@needs(Scope.MODELS_READ)
def list_models(
    store: TheStore, principal: ThePrincipal, limit: Limit = 100, cursor: Cursor = None
) -> Page[ModelBody]:
    """By name; of a token that is bound to models, those."""
    rows = store.models.list(limit + 1, cursor, names=principal.models)
    return page(rows, limit, cursor=lambda row: row.name, show=present.model)


@router.get("/{name}", summary="Show a model")
@needs(Scope.MODELS_READ)
def show_model(model: TheModel) -> ModelBody:
    """With its signature, and the counts of its samples."""
    return present.model(model)


@router.patch("/{name}", summary="Change a model")
@needs(Scope.MODELS_ADMIN, "in_use", "state_conflict", "storage_full")
def change_model(model: TheModel, patch: ModelPatch, store: TheStore) -> ModelBody:
    """Changes default hyperparameters, classes, CSV columns, gate, retention, quota, preprocessing,
    or the consent to federated training.
    """
    hyperparameters = patch.hyperparameters
    changed = model_updates.change_model(
        store,
        model,
        hyperparameters=hyperparameters.model_dump(exclude_unset=True) if hyperparameters else {},
        classes=patch.classes,
        gate=patch.gate.model_dump(exclude_unset=True) if patch.gate else {},
        retention=patch.retention.model_dump(exclude_unset=True) if patch.retention else {},
        quota=patch.quota.model_dump(exclude_unset=True) if patch.quota else {},
        keeps_duplicates=None if patch.duplicates is None else patch.duplicates == "keep",
        features=patch.features if "features" in patch.model_fields_set else UNSET,
        federation=patch.federation.model_dump(exclude_unset=True) if patch.federation else {},
        preprocess=patch.preprocess,
    )
    return present.model(changed)


@router.delete("/{name}", summary="Delete a model")
@needs(Scope.MODELS_ADMIN, "in_use")
async def delete_model(model: TheModel, store: TheStore) -> None:
    """Deletes it with its samples, jobs, checkpoints and versions. Refused while it trains."""
    await asyncio.to_thread(store.models.delete, model.name)


@router.get(
    "/{name}/tokenizer.json",
    summary="Fetch the tokenizer",
    response_class=Response,
    responses=file_answers({TOKENIZER_TYPE: {}}, "As it was registered."),
)
@needs(Scope.MODELS_READ, "range_not_satisfiable")
def fetch_tokenizer(request: Request, model: TheModel, store: TheStore) -> Response:
    """Of a model that texts feed, for apps that tokenize as it does."""
    file = model.files.get(TOKENIZER)
    if file is None:
        raise NotFound(f"model {model.name!r} has no tokenizer: texts do not feed it")
    return file_answer(
        request,
        store,
        file,
        media_type=TOKENIZER_TYPE,
        filename=f"{model.name}-tokenizer.json",
        cache_control=REVALIDATE,
    )


@router.get("/{name}/classes", summary="List classes")
@needs(Scope.MODELS_READ)
def list_classes(
    model: TheModel, daemon: TheDaemon, limit: Limit = 100, cursor: Cursor = None
) -> Page[ClassBody]:
    """By index, each with the number of its samples."""
    after = after_id(cursor)
    rows = daemon.classes.show(model)[0 if after is None else after + 1 :]
    return page(rows, limit, cursor=lambda row: row.index, show=_class)


@router.post("/{name}/classes", status_code=201, summary="Add a class")
@needs(Scope.MODELS_ADMIN, "already_exists", *HEAD)
async def add_class(model: TheModel, wanted: ClassNamed, daemon: TheDaemon) -> ClassBody:
    """Gives the head a row more. It is learned by the next job that has samples of the class."""
    await daemon.classes.add(model, wanted.name)
    return await asyncio.to_thread(_shown, daemon, model.name, wanted.name)


@router.patch("/{name}/classes/{class_name:class_name}", summary="Rename a class")
@needs(Scope.MODELS_ADMIN, "already_exists", "in_use", "state_conflict", "storage_full")
def rename_class(
    model: TheModel, class_name: str, wanted: ClassNamed, daemon: TheDaemon
) -> ClassBody:
    """Samples keep their label under the new name; versions that exist keep the old name."""
    daemon.classes.rename(model, class_name, wanted.name)
    return _shown(daemon, model.name, wanted.name)


@router.post("/{name}/classes/{class_name:path}/merge", summary="Merge a class")
@needs(Scope.MODELS_ADMIN, *HEAD)
async def merge_class(
    model: TheModel, class_name: str, wanted: ClassMerge, daemon: TheDaemon
) -> ClassBody:
    """Its samples get the label of the other class, its row goes. The answer is the other class."""
    await daemon.classes.merge(model, class_name, wanted.into)
    return await asyncio.to_thread(_shown, daemon, model.name, wanted.into)


@router.delete("/{name}/classes/{class_name:class_name}", summary="Remove a class")
@needs(Scope.MODELS_ADMIN, *HEAD)
async def remove_class(
    model: TheModel,
    class_name: str,
    daemon: TheDaemon,
    unlabel: Annotated[
        bool, Query(description="Take their label from the samples of the class.")
    ] = False,
) -> None:
    """Its row goes. Refused while samples have the class as their label, unless `unlabel`."""
    await daemon.classes.remove(model, class_name, unlabel=unlabel)


def _class(row: ModelClass) -> ClassBody:
    return ClassBody.model_validate(row, from_attributes=True)


def _shown(daemon: Daemon, model: str, name: str) -> ClassBody:
    """The class as it is now."""
    rows = daemon.classes.show(daemon.store.models.get(model))
    return next(_class(row) for row in rows if row.name == name)
