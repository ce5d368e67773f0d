"""Followed sources: where new bases of a model come from."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter
from msgspec.structs import asdict

from api.access.scopes import needs
from api.dependencies import TheDaemon, TheModel
from api.routing import Route
from api.schemas.follow import FollowBody, FollowRequest
from service.access.principal import Scope
from service.daemon import Daemon
from storage.records.follows import Follow, FollowTerms

router = APIRouter(prefix="/v1/models/{name}/follow", tags=["models"], route_class=Route)


@router.put("", summary="Follow a source")
@needs(Scope.MODELS_ADMIN, "busy", "storage_full")
async def follow_source(model: TheModel, wanted: FollowRequest, daemon: TheDaemon) -> FollowBody:
    """The source is asked at once, then at intervals, when the policy allows; what a pinned key has
    signed becomes an upgrade, as by `PUT …/base`. The same again asks at once again.

    The daemon connects to the hosts that the source and hosts name.
    """
    from service.follow.terms import checked_terms  # a daemon whose models follow none needs none

    fields = wanted.model_dump() | {"name": wanted.name or model.name}
    terms = checked_terms(FollowTerms(**fields))
    follow = await asyncio.to_thread(daemon.store.follows.put, model, terms)
    await daemon.follower.look()
    return await _shown(follow, daemon)


@router.get("", summary="Show the followed source")
@needs(Scope.MODELS_READ)
async def show_follow(model: TheModel, daemon: TheDaemon) -> FollowBody:
    """With what it offers, and why that is not taken."""
    return await _shown(await asyncio.to_thread(daemon.store.follows.get, model), daemon)


@router.delete("", summary="Follow no source")
@needs(Scope.MODELS_ADMIN, "busy", "storage_full")
async def end_follow(model: TheModel, daemon: TheDaemon) -> None:
    """An upgrade that has begun goes on. Which versions were seen is forgotten."""
    await asyncio.to_thread(daemon.store.follows.delete, model)
    await daemon.follower.look()


async def _shown(follow: Follow, daemon: Daemon) -> FollowBody:
    return FollowBody.of(
        follow.progress,
        **asdict(follow.terms),
        model=follow.model,
        created_at=follow.created_at,
        asking=daemon.follower.asks(follow.model),
        blocked_by=await daemon.follower.blockers(),
        in_share=await asyncio.to_thread(daemon.follower.is_in_share, follow),
        downloaded_bytes=await asyncio.to_thread(daemon.follower.downloaded_bytes, follow),
        report_body=await asyncio.to_thread(daemon.follower.report_body, follow),
    )
