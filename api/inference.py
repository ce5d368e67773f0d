"""Shared by the routes of both prediction protocols."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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
INLINE_BYTES = 64 * 2**10
"""Less than this is handled in the event loop: switching to a thread would take longer."""


async def read_body(request: Request, *, max_bytes: int) -> bytes:
    """The whole body. Raises TooLarge."""
    return await read_small(request, max_bytes=max_bytes, refusal=BODY_TOO_LARGE)


async def near(size_bytes: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run `work` in the event loop if size_bytes is small, else in a thread; returns its result."""
    if size_bytes <= INLINE_BYTES:
        return work(*arguments, **named)
    return await asyncio.to_thread(work, *arguments, **named)


def not_loaded(serving: Serving) -> dict[str, str]:
    """The header that names the promoted version if an older one must answer instead."""
    return {"Honed-Not-Loaded": str(serving.refused.version)} if serving.refused else {}
