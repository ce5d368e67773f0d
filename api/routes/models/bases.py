"""The base of a model: shown, upgraded to a new one; an upgrade that waits is dropped."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from api import present
from api.access.scopes import needs
from api.bodies.uploads import json_part, require_media_type, require_room_for
from api.dependencies import TheDaemon, TheModel
from api.openapi import SCHEMAS
from api.routes.models.registration import form_schema, spooled_model, wrong_form
from api.routing import Route
from api.schemas.jobs import JobBody
from api.schemas.upgrades import ModelBaseBody
from api.waiting import unless_gone
from service.access.principal import Scope
from service.daemon import Daemon
from service.models.upgrade.spec import upgrade_spec
from storage.records.models import Model

CHECKED = {
    "description": "It fits; nothing has changed (`check`).",
    "content": {"application/json": {"schema": {"$ref": f"{SCHEMAS}UpgradeCheckBody"}}},
}

router = APIRouter(prefix="/v1/models/{name}", tags=["models"], route_class=Route)


@router.get("/base", summary="Show the base")
@needs(Scope.MODELS_READ)
def show_base(model: TheModel, daemon: TheDaemon) -> ModelBaseBody:
    """The file that `latest` descends from, former ones that versions remain of, and the upgrade
    that is not decided.
    """
    return _shown(daemon, model)


@router.put(
    "/base",
    status_code=202,
    response_model=JobBody,
    summary="Upgrade to a new base",
    responses={200: CHECKED},
    openapi_extra=form_schema("UpgradeSpecBody", ["model"], example={"spec": {"running": "wait"}}),
)
@needs(
    Scope.MODELS_ADMIN,
    "busy",
    "graph_refused",
    "in_use",
    "no_samples",
    "preparation_failed",
    "state_conflict",
    "storage_full",
    counted="registrations",
)
async def upgrade_base(
    request: Request,
    response: Response,
    model: TheModel,
    daemon: TheDaemon,
    check: Annotated[
        bool, Query(description="Only tell whether the file fits, and what does not.")
    ] = False,
) -> Response | JobBody:
    """Parts: `model`, a forward ONNX file of any architecture that the stored samples fit, `spec`
    (JSON), and for a model of texts `tokenizer`, if it changes.

    The file is prepared, and trained by the job of the answer when the policy allows. The old base
    serves until the gate lets a version of the new one become `latest`. An upgrade that waits is
    replaced.
    """
    # Late: few devices ever get an upgrade.
    from api.schemas.upgrades import UpgradeCheckBody, UpgradeSpecBody

    require_media_type(request, "multipart/form-data")
    require_room_for(request, daemon)
    async with request.form(max_files=3, max_fields=4) as form:
        fields = await json_part(form, "spec", UpgradeSpecBody) or UpgradeSpecBody()
        spec = upgrade_spec(fields.model_dump(exclude_none=True))
        async with spooled_model(form, daemon) as (name, path, tokenizer):
            if name != "model":
                raise wrong_form(f"/{name}", 'an upgrade is a forward ONNX file, the part "model"')
            if check:
                checking = daemon.upgrades.check(model, spec, path, tokenizer=tokenizer)
                new, consent_ends = await unless_gone(request, checking)
                body = UpgradeCheckBody.of(
                    new, inputs=new.signature.inputs, consent_ends=consent_ends
                )
                return Response(body.model_dump_json(), media_type="application/json")
            beginning = daemon.upgrades.begin(model, spec, path, tokenizer=tokenizer)
            job = await unless_gone(request, beginning)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return present.job(job)


@router.delete("/base", summary="Drop the upgrade")
@needs(Scope.MODELS_ADMIN, "in_use")
async def drop_upgrade(model: TheModel, daemon: TheDaemon) -> None:
    """Drops the upgrade that waits, with its versions, and cancels its job."""
    await daemon.upgrades.drop(model)


def _shown(daemon: Daemon, model: Model) -> ModelBaseBody:
    rows = {row.base: row for row in daemon.store.bases.list(model.id)}
    upgrade = daemon.upgrades.of(model)
    former = [row for row in rows.values() if row.adopted_at is not None]
    return ModelBaseBody.of(
        rows[model.base],
        former=[row for row in former if row.base != model.base],
        source=daemon.store.follows.source(model.id),
        upgrade=upgrade
        and {
            **{name: getattr(upgrade.base, name) for name in ("base", "sha256", "arrived_at")},
            **{name: getattr(upgrade, name) for name in ("state", "reason", "retry_at")},
            "versions": upgrade.base.versions,
            "job_id": upgrade.job.id,
        },
    )
