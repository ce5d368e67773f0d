"""Bodies of completion: next words, and generated text."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from api.schemas.base import Body, Request, shows
from service.completion.messages import Generate, Sampling, Suggestion

MAX_TEXT, MAX_TOKENS, USUAL_TOKENS = 2**18, 4096, 64
"""Characters of a text; tokens of a generated one, at most, and by default."""
Stop = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Prompt = Annotated[str, Field(max_length=MAX_TEXT)]
Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]


class Generation(Request):
    """How text is generated."""

    temperature: float = Field(
        1.0, ge=0, le=100, description="0 takes the likeliest token; 1 draws by the probabilities."
    )
    top_p: float = Field(
        1.0, gt=0, le=1, description="Only the likeliest tokens that have this share together."
    )
    stop: Stop | Annotated[list[Stop], Field(max_length=16)] | None = Field(
        None, description="A text, or several, that ends the generated one and is not part of it."
    )
    seed: int | None = Field(
        None, ge=0, lt=2**63, description="The same seed gives the same text. Default: by chance."
    )
    stream: bool = Field(False, description="Send the text as it is generated, as events.")

    def asked(self, *, max_tokens: int, top_k: int | None) -> Generate:
        """The question."""
        sampling = Sampling(
            temperature=self.temperature,
            top_k=top_k,
            top_p=self.top_p,
            seed=secrets.randbits(62) if self.seed is None else self.seed,
        )
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return Generate(max_tokens, sampling, stop)


class CompleteRequest(Generation):
    """A text, and what is wanted: `suggestions`, or else generated text."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"text": "see you", "suggestions": 3}, {"text": "see", "max_tokens": 16}]
        }
    )

    text: Prompt
    suggestions: int | None = Field(
        None, ge=1, le=20, description="How many of the likeliest next words; no text then."
    )
    max_tokens: Tokens | None = Field(
        None, description=f"Of the generated text, at most. Default: {USUAL_TOKENS}."
    )
    top_k: int | None = Field(
        None, ge=1, lt=2**31, description="Draw only from this many of the likeliest tokens."
    )


@shows(Suggestion)
class SuggestionBody(Body):
    """A word that may come next, and its probability.

    replaces: how many characters at the end of the text the word stands in place of: 0 for a next
    word, the length of the word that the text ends with for a completion of it.
    """


class SuggestionsBody(Body):
    """The likeliest first."""

    model: str
    version: int
    suggestions: list[SuggestionBody]


class GeneratedBody(Body):
    """Generated text. tokens: how many. finish_reason: `length` at max_tokens, else `stop`; null in
    an event that others follow, whose text is what it adds.
    """

    model: str
    version: int
    text: str
    tokens: int
    finish_reason: Literal["stop", "length"] | None


class CompletionsRequest(Generation):
    """A request of OpenAI's completions, of which some options have one value here."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"model": "notes", "prompt": "see", "max_tokens": 16}]}
    )

    model: str
    prompt: Prompt
    max_tokens: Tokens = 16
    n: Literal[1] = 1
    best_of: Literal[1] = 1
    echo: Literal[False] = False
    logprobs: None = None
    suffix: None = None
    logit_bias: None = None
    presence_penalty: Annotated[float, Field(ge=0, le=0)] = 0
    frequency_penalty: Annotated[float, Field(ge=0, le=0)] = 0
    user: str | None = None
    stream_options: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _set(cls, body: Any) -> Any:
        """Without what is null, which OpenAI's API takes for not set, as clients of it send it.

        Some send a prompt in a list.
        """
        if not isinstance(body, dict):
            return body
        told = {k: v for k, v in body.items() if v is not None}
        if isinstance(prompt := told.get("prompt"), list) and len(prompt) == 1:
            told["prompt"] = prompt[0]
        return told


class ChoiceBody(Body):
    """The text of a completion."""

    text: str
    index: int
    logprobs: None = None
    finish_reason: Literal["stop", "length"] | None


class UsageBody(Body):
    """How many tokens the prompt and the text have."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionsBody(Body):
    """A completion in OpenAI's form, or an event of one; created: seconds since 1970."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[ChoiceBody]
    usage: UsageBody | None = None
