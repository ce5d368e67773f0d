"""Aliases, rollback and release: a person chooses which version apps get."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from api import present
from api.access.scopes import needs
from api.dependencies import Cursor, Limit, TheModel, TheStore, page
from api.routing import Route
from api.schemas.base import Page
from api.schemas.models import ModelBody
from api.schemas.versions import AliasBody, AliasTarget, VersionBody
from service.access.principal import Scope

router = APIRouter(prefix="/v1/models/{name}", tags=["aliases"], route_class=Route)

PATTERN = r"^[A-Za-z][A-Za-z0-9._-]{0,63}$"
RULE = (
    "1 to 64 characters: letters (A to Z, a to z), digits, dots, dashes and underscores; "
    "the first is a letter"
)


def _in_rule(alias: str) -> str:
    if not re.fullmatch(PATTERN, alias):
        raise PydanticCustomError("alias", f"an alias has {RULE}")
    return alias


Alias = Annotated[
    str,
    AfterValidator(_in_rule),
    Path(json_schema_extra={"pattern": PATTERN}, description=f"{RULE}."),
]


@router.get("/aliases", summary="List aliases")
@needs(Scope.MODELS_READ)
def list_aliases(
    model: TheModel, store: TheStore, limit: Limit = 100, cursor: Cursor = None
) -> Page[AliasBody]:
    """By name; `latest` is always among them."""
    rows = store.aliases.list(model.id, limit + 1, cursor or "")
    return page(rows, limit, cursor=lambda row: row[0], show=present.alias)


@router.get("/aliases/{alias}", summary="Show an alias")
@needs(Scope.MODELS_READ)
def show_alias(alias: Alias, model: TheModel, store: TheStore) -> AliasBody:
    """The version that it names."""
    return present.alias((alias, store.versions.by_alias(model.id, alias).version))


@router.put("/aliases/{alias}", summary="Move an alias")
@needs(Scope.MODELS_ADMIN)
def move_alias(alias: Alias, target: AliasTarget, model: TheModel, store: TheStore) -> AliasBody:
    """Atomic; creates the alias if it does not exist. Moving `latest` promotes a version."""
    return present.alias((alias, store.aliases.set(model.id, alias, target.version).version))


@router.delete("/aliases/{alias}", summary="Delete an alias")
@needs(Scope.MODELS_ADMIN, "in_use")
async def delete_alias(alias: Alias, model: TheModel, store: TheStore) -> None:
    """The version is kept. `latest` cannot be deleted, because apps fetch it."""
    await asyncio.to_thread(store.aliases.delete, model.id, alias)


@router.post("/rollback", summary="Take latest back")
@needs(Scope.MODELS_ADMIN, "state_conflict")
def roll_back(model: TheModel, store: TheStore) -> VersionBody:
    """`latest` moves back to the version before, and jobs do not move it until `release`."""
    return present.version(store.aliases.roll_back(model.id))


@router.post("/release", summary="Let jobs move latest again")
@needs(Scope.MODELS_ADMIN)
def release(model: TheModel, store: TheStore) -> ModelBody:
    """Ends the hold of a rollback; `latest` stays until the version of a job passes the gate."""
    store.aliases.release(model.id)
    return present.model(store.models.get(model.name))
