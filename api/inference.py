"""Shared by the routes of both prediction protocols."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from api.bodies.uploads import read_small
from service.prediction.predictor import Serving

P = ParamSpec("P")
T = TypeVar("T")

BODY_TOO_LARGE = (
    "a prediction's body has at most {max_bytes} bytes (HONED_PREDICTION_BODY_BYTES); "
    "send fewer instances"
)
NOT_LOADED = "Honed-Not-Loaded"
INLINE_BYTES = 64 * 2**10
"""Less than this is handled in the event loop: switching to a thread would take longer."""


async def read_body(request: Request, *, max_bytes: int) -> bytes:
    """The whole body. Raises TooLarge."""
    return await read_small(request, max_bytes=max_bytes, refusal=BODY_TOO_LARGE)


def accepted(request: Request, offered: Sequence[str]) -> str:
    """The media type that `Accept` names with the highest quality; the first if it names none."""
    qualities: dict[str, float] = {}
    for part in ",".join(request.headers.getlist("accept")).lower().split(","):
        media_type, _, parameters = part.partition(";")
        quality = re.search(r"q=([01](?:\.\d*)?)", parameters)
        qualities[media_type.strip()] = float(quality[1]) if quality else 1.0
    return max(offered, key=lambda coding: qualities.get(coding, 0.0))


async def near(size_bytes: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run `work` in the event loop if size_bytes is small, else in a thread; returns its result."""
    if size_bytes <= INLINE_BYTES:
        return work(*arguments, **named)
    return await asyncio.to_thread(work, *arguments, **named)


def not_loaded(serving: Serving) -> dict[str, str]:
    """The header that names the promoted version if an older one must answer instead."""
    return {NOT_LOADED: str(serving.refused.version)} if serving.refused else {}
