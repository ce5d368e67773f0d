"""The daemon's side: asks the predictor for words, or for a text turn by turn."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from service.completion.messages import (
    COMPLETE,
    NO_CACHE,
    TEXT,
    Completing,
    Generate,
    Generated,
    Question,
    Suggest,
    Suggestion,
)
from service.errors import InvalidInput
from service.logs import event
from service.models.prepared import TOKENIZER, UPLOAD
from service.prediction.predictor import Predictor, Serving
from service.preprocess.text_inputs import ROLES, is_text
from service.training.tasks import TASKS, losses
from storage.database.codec import convert
from storage.records.models import Model
from storage.store import Store

logger = logging.getLogger(__name__)


class Completer(Struct, frozen=True):
    """Completes texts by the promoted version of a model, the same one to the end."""

    predictor: Predictor
    serving: Serving
    form: Completing

    async def suggest(self, text: str, *, count: int) -> list[Suggestion]:
        """The likeliest next words. Raises as `Predictor.predict` does."""
        answer = await self._ask(text, Suggest(count))
        return convert(answer["suggestions"], list[Suggestion])

    async def generate(self, text: str, asked: Generate) -> AsyncIterator[Generated]:
        """What there is after each turn; the last has a finish_reason.

        Between two turns the predictor answers others. Raises as `Predictor.predict` does.
        """
        while True:
            turn = convert(await self._ask(text, asked), Generated)
            yield turn
            if turn.finish_reason is not None:
                return
            asked = replace(asked, tokens=turn.tokens)

    async def _ask(self, text: str, asked: Suggest | Generate) -> dict[str, Any]:
        said = {COMPLETE: to_builtins(Question(self.form, asked))}
        tensors = {TEXT: np.frombuffer(text.encode(), np.uint8)}
        answer = (await self.predictor.ask(self.serving.version, tensors, said)).header
        if (reason := answer.pop(NO_CACHE, None)) is not None:
            model, version = self.serving.model.name, self.serving.version.version
            fields = {"model": model, "version": version, "detail": reason}
            event(logger, logging.WARNING, "completion.no_cache", **fields)
        return answer


async def completer(store: Store, predictor: Predictor, model: str) -> Completer:
    """The completer of a model.

    Raises InvalidInput for one that does not continue texts, NotFound, and as `predict` does.
    """
    serving = await predictor.serving_now(model)
    return Completer(predictor, serving, await asyncio.to_thread(_form, store, serving.model))


def _form(store: Store, model: Model) -> Completing:
    """Raises InvalidInput, Damaged."""
    text = next(filter(is_text, model.preprocess), None)
    wrong = None
    if text is None:
        wrong = "has no tokenizer: register it with spec.preprocess of kind text, and a tokenizer"
    elif not TASKS[model.loss].continues_texts:
        continuing = losses(lambda of_loss: of_loss.continues_texts)
        wrong = f"does not continue texts: its loss is {model.loss}; register it with {continuing}"
    if text is None or wrong is not None:
        raise InvalidInput.at("", f"it {wrong}", title=f"model {model.name!r} {wrong}")
    upload = model.files.get(UPLOAD)
    return Completing(
        tokenizer=str(store.integrity.file(model.files[TOKENIZER].sha256)),
        ids=text["input"],
        feeds={role: text[role] for role in ROLES if text.get(role) is not None},
        max_tokens=text["max_tokens"],
        special_tokens=text["special_tokens"],
        output=model.output,
        cached=None if upload is None else str(store.integrity.file(upload.sha256)),
    )
