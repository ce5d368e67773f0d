"""Registering decoders with a daemon, and having it complete texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import httpx
from support import Served
from tokenizers import Tokenizer

EVENT = "data: "
LAST = "data: [DONE]"
"""The last event of a stream in OpenAI's form."""


def add_decoder(
    served: Served, name: str, model: bytes, tokenizer: Tokenizer, **text: Any
) -> dict[str, Any]:
    """Register a model that learns to continue texts. text: more of its preprocessing."""
    spec = {"name": name, "loss": "causal_lm", "preprocess": {"kind": "text", **text}}
    answer = served.http.post(
        "/v1/models",
        data={"spec": json.dumps(spec)},
        files={"model": model, "tokenizer": tokenizer.to_str().encode()},
    )
    assert answer.status_code == 201, answer.text
    registered: dict[str, Any] = answer.json()
    return registered


def ask_to_complete(served: Served, name: str, **body: Any) -> httpx.Response:
    return served.http.post(f"/v1/models/{name}/complete", json=body)


def events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Those of a stream, as they come."""
    for line in lines:
        assert not line or line.startswith(EVENT), line
        if line and line != LAST:
            yield json.loads(line.removeprefix(EVENT))
