"""Triggers: they start a model's jobs without a request."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from fastapi import APIRouter, Response

from api.access.scopes import needs
from api.dependencies import Cursor, Id, Limit, TheModel, TheStore, after_id, page
from api.routing import Route
from api.schemas.base import Page
from api.schemas.device import TriggerBody, TriggerFields, TriggerPatch, TriggerRequest
from service.access.principal import Scope
from service.models.hyperparameters import check_hyperparameters
from service.triggers.rule import Rule, change, checked_rule
from service.triggers.schedule import next_time
from storage.errors import NotFound
from storage.records.jobs import NewTrigger, Trigger
from storage.records.models import Model
from storage.store import Store

router = APIRouter(prefix="/v1/models/{name}/triggers", tags=["triggers"], route_class=Route)

RULE_FIELDS = frozenset(Rule.__struct_fields__)


@router.post("", status_code=201, summary="Make a trigger")
@needs(Scope.TRAIN, "busy", "storage_full")
def make_trigger(
    model: TheModel, store: TheStore, request: TriggerRequest, response: Response
) -> TriggerBody:
    """It asks for a job unless one of the model waits; the policy says when that runs."""
    _check_hyperparameters(model, request)
    trigger = store.triggers.add(_new(model, request))
    response.headers["Location"] = f"/v1/models/{model.name}/triggers/{trigger.id}"
    return _body(trigger)


@router.get("", summary="List triggers")
@needs(Scope.MODELS_READ)
def list_triggers(
    model: TheModel, store: TheStore, limit: Limit = 100, cursor: Cursor = None
) -> Page[TriggerBody]:
    """Of one model, oldest first."""
    rows = store.triggers.list(model.id, limit=limit + 1, after=after_id(cursor) or 0)
    return page(rows, limit, show=_body)


@router.get("/{trigger_id}", summary="Show a trigger")
@needs(Scope.MODELS_READ)
def show_trigger(model: TheModel, store: TheStore, trigger_id: Id) -> TriggerBody:
    """With what became of its last try."""
    return _body(_of(model, store, trigger_id))


@router.patch("/{trigger_id}", summary="Change a trigger")
@needs(Scope.TRAIN, "busy", "storage_full")
def change_trigger(
    model: TheModel, store: TheStore, trigger_id: Id, patch: TriggerPatch
) -> TriggerBody:
    """Switch it off, or let it wait for something else.

    What it waits for counts from the change, or from when it is switched on again.
    """
    known = _of(model, store, trigger_id)
    changes = patch.model_dump(exclude_unset=True)
    whole = TriggerRequest.model_validate({**_shown(known), **_default_name(known), **changes})
    if "hyperparameters" in changes:
        _check_hyperparameters(model, whole)
    return _body(change(store, known, _new(model, whole)))


@router.delete("/{trigger_id}", summary="Delete a trigger")
@needs(Scope.TRAIN)
def delete_trigger(model: TheModel, store: TheStore, trigger_id: Id) -> None:
    """Jobs that it has asked for stay."""
    store.triggers.delete(_of(model, store, trigger_id).id)


def _of(model: Model, store: Store, trigger_id: int) -> Trigger:
    trigger = store.triggers.get(trigger_id)
    if trigger.model_id != model.id:
        raise NotFound(f"model {model.name!r} has no trigger {trigger_id}")
    return trigger


def _check_hyperparameters(model: Model, asked: TriggerFields) -> None:
    """Raises InvalidInput if no job of the model could have them, whatever its samples."""
    hyperparameters = asked.hyperparameters.model_dump(exclude_none=True)
    check_hyperparameters(model, hyperparameters, at="/hyperparameters")


def _new(model: Model, asked: TriggerFields) -> NewTrigger:
    rule = checked_rule(**asked.model_dump(include=set(RULE_FIELDS)))
    return NewTrigger(
        model_id=model.id,
        name=asked.name or rule.kind,
        rule=rule.to_dict(),
        hyperparameters=asked.hyperparameters.model_dump(exclude_none=True),
        priority=asked.priority,
        enabled=asked.enabled,
    )


def _default_name(trigger: Trigger) -> dict[str, None]:
    """Clears a name that is just the trigger's kind, so that its next kind names it."""
    return {"name": None} if trigger.name == Rule(**trigger.rule).kind else {}


def _shown(trigger: Trigger) -> dict[str, Any]:
    """The fields that people set, with defaults for those that the rule was stored without."""
    return {
        **Rule(**trigger.rule).to_dict(),
        "name": trigger.name,
        "hyperparameters": trigger.hyperparameters,
        "priority": trigger.priority,
        "enabled": trigger.enabled,
    }


def _body(trigger: Trigger) -> TriggerBody:
    return TriggerBody.of(
        trigger,
        next_at=next_time(trigger, now=datetime.now(timezone.utc)),
        tried_at=trigger.tried_at if trigger.outcome else None,
        **_shown(trigger),
    )
