"""What the routes of both prediction protocols share."""

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
"""Less than this is handled in the event loop: a thread would take longer to reach."""


async def read_body(request: Request, *, max_bytes: int) -> bytes:
    """The whole body. Raises TooLarge."""
    return await read_small(request, max_bytes=max_bytes, refusal=BODY_TOO_LARGE)


async def near(size_bytes: int, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What `work` returns: from the loop if size_bytes is small, else from a thread."""
    if size_bytes <= INLINE_BYTES:
        return work(*arguments, **named)
    return await asyncio.to_thread(work, *arguments, **named)


def not_loaded(serving: Serving) -> dict[str, str]:
    """The header that names the promoted version, where an older one has to answer."""
    return {"Honed-Not-Loaded": str(serving.refused.version)} if serving.refused else {}
