"""Next words and generated text, by the promoted version of a model that continues texts."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from api.access.scopes import ThePrincipal, needs
from api.dependencies import TheDaemon
from api.inference import not_loaded
from api.openapi import PREDICTION_FAULTS
from api.routing import Route
from api.schemas.completion import (
    USUAL_TOKENS,
    CompleteRequest,
    CompletionsBody,
    CompletionsRequest,
    GeneratedBody,
    SuggestionsBody,
)
from api.waiting import unless_gone
from service.access.principal import Scope
from service.completion.asking import Completer, completer
from service.completion.messages import Generate, Generated
from service.errors import InvalidInput
from storage.database.codec import dump, encode
from storage.errors import HoneError, Problem

router = APIRouter(prefix="/v1", tags=["prediction"], route_class=Route)

JSON, EVENTS = "application/json", "text/event-stream"
STREAMED: dict[int | str, dict[str, Any]] = {200: {"content": {EVENTS: {}}}}
Show = Callable[[Generated, str], dict[str, Any]]
"""The body for what was generated; the text is that of the answer, or what an event adds."""


@router.post(
    "/models/{name}/complete",
    summary="Complete a text",
    response_model=SuggestionsBody | GeneratedBody,
    responses=STREAMED,
)
@needs(Scope.PREDICT, *PREDICTION_FAULTS, counted="predictions", audited="skip")
async def complete(
    name: str, request: Request, wanted: CompleteRequest, daemon: TheDaemon
) -> Response:
    """The likeliest next words, with `suggestions`; else generated text, at once or as events.

    The model has preprocessing of kind text, and the loss causal_lm.
    """
    one = await completer(daemon.store, daemon.predictor, name)
    about = {"model": name, "version": one.serving.version.version}
    if wanted.suggestions is not None:
        _refuse_generation(wanted)
        suggestions = await one.suggest(wanted.text, count=wanted.suggestions)
        return _answer(one, {**about, "suggestions": suggestions})
    tokens = wanted.max_tokens or min(USUAL_TOKENS, one.form.max_tokens // 2)
    asked = wanted.asked(max_tokens=tokens, top_k=wanted.top_k)

    def show(turn: Generated, text: str) -> dict[str, Any]:
        reason = turn.finish_reason
        return {**about, "text": text, "tokens": len(turn.tokens), "finish_reason": reason}

    return await _generated(request, one, wanted.text, asked, stream=wanted.stream, show=show)


@router.post(
    "/completions",
    summary="Complete a text, as OpenAI's clients ask",
    response_model=CompletionsBody,
    responses=STREAMED,
)
@needs(Scope.PREDICT, *PREDICTION_FAULTS, "not_found", counted="predictions", audited="skip")
async def openai_completions(
    request: Request, wanted: CompletionsRequest, daemon: TheDaemon, principal: ThePrincipal
) -> Response:
    """As /v1/models/{name}/complete generates text. Options that are not supported are refused."""
    principal.require(Scope.PREDICT, wanted.model)
    one = await completer(daemon.store, daemon.predictor, wanted.model)
    asked = wanted.asked(max_tokens=wanted.max_tokens, top_k=None)
    about = {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": wanted.model,
    }

    def show(turn: Generated, text: str) -> dict[str, Any]:
        reason, prompt, count = turn.finish_reason, turn.prompt_tokens, len(turn.tokens)
        choice = {"text": text, "index": 0, "logprobs": None, "finish_reason": reason}
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        usage = dict(zip(names, (prompt, count, prompt + count), strict=True)) if reason else None
        return {**about, "choices": [choice], "usage": usage}

    return await _generated(
        request, one, wanted.prompt, asked, stream=wanted.stream, show=show, end="data: [DONE]\n\n"
    )


async def _generated(
    request: Request,
    one: Completer,
    text: str,
    asked: Generate,
    *,
    stream: bool,
    show: Show,
    end: str = "",
) -> Response:
    """The answer; it ends with the connection."""
    if asked.max_tokens >= one.form.max_tokens:
        most = one.form.max_tokens
        detail = f"the model sees {most} tokens, the text before included; ask for fewer"
        raise InvalidInput.at("/max_tokens", detail, title="too many tokens")
    turns = one.generate(text, asked)
    if not stream:
        turn = await unless_gone(request, _last(turns))
        return _answer(one, show(turn, turn.text))
    first = await unless_gone(request, anext(turns))
    events = _events(first, turns, show, end)
    headers = {"Cache-Control": "no-store", **not_loaded(one.serving)}
    return StreamingResponse(events, media_type=EVENTS, headers=headers)


async def _last(turns: AsyncIterator[Generated]) -> Generated:
    async for turn in turns:
        last = turn
    return last


async def _events(
    first: Generated, turns: AsyncIterator[Generated], show: Show, end: str
) -> AsyncIterator[str]:
    """An event for each turn, then one with an error if there was one."""
    sent, generated = 0, first
    try:
        while True:
            yield f"data: {dump(show(generated, generated.text[sent:]))}\n\n"
            sent = len(generated.text)
            if generated.finish_reason is not None:
                break
            generated = await anext(turns)
    except HoneError as error:
        yield f"event: error\ndata: {dump({'code': error.code, 'detail': error.detail})}\n\n"
        return
    yield end


def _answer(one: Completer, body: dict[str, Any]) -> Response:
    return Response(encode(body), media_type=JSON, headers=not_loaded(one.serving))


def _refuse_generation(wanted: CompleteRequest) -> None:
    """Raises InvalidInput for options of generated text beside suggestions."""
    problems = [
        Problem(f"/{name}", "this is for generated text; leave it out, or suggestions")
        for name in sorted(wanted.model_fields_set - {"text", "suggestions"})
    ]
    if problems:
        raise InvalidInput("suggestions take no such options", problems=problems)
