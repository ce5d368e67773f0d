"""Suggested words and generated text over HTTP, the latter compared with a bare loop."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles

import numpy as np
import onnxruntime

from bench.daemon import add_decoder, byte_tokenizer, decoder, served
from bench.requests.plain_http import Poster
from bench.requests.prediction import bare_session
from bench.table import Row

PIECES, WIDTH, LAYERS, HEADS, POSITIONS = 4000, 256, 4, 4, 256
"""5.2 million parameters."""
KEYS = 400
"""Pressed keys, after each of which three words are suggested."""
TEXT = 160
"""Characters of a text after which the next one begins."""
TOKENS, ROUNDS, WARM_UP = 200, 9, 2
SMALLEST = {"KEYS": 8, "TOKENS": 8, "ROUNDS": 2, "PIECES": 600, "WIDTH": 32}
DOCS = Path(__file__).parents[2] / "docs"
PROMPT = "A job that was paused goes on"


def run() -> list[Row]:
    """A decoder with cached keys and values, one request at a time."""
    pages = [path.read_text() for path in sorted(DOCS.glob("*.md"))]
    tokenizer = byte_tokenizer(pages, size=PIECES)
    shape = {"width": WIDTH, "layers": LAYERS, "heads": HEADS, "positions": POSITIONS}
    model = decoder(PIECES, **shape, cached=True)
    with served() as daemon:
        add_decoder(daemon, "m", model, tokenizer, max_tokens=POSITIONS)
        with closing(Poster(daemon, "/v1/models/m/complete")) as ask:
            milliseconds(ask, text=PROMPT, suggestions=3)  # loads the model
            suggested = [milliseconds(ask, text=text, suggestions=3) for text in typed(pages)]
            bare = Bare(model, tokenizer.encode(PROMPT).ids)
            generated, looped = rounds(ask, bare)
    p95 = quantiles(suggested, n=20)[-1]
    return [
        {
            "what": "three suggestions, ms",
            "honed": median(suggested),
            "p95": p95,
            "must reach": "p95 ≤ 25 ms",
        },
        {
            "what": f"{TOKENS} tokens, ms a token",
            "honed": median(generated),
            "bare loop": median(looped),
            "ratio": median(generated) / median(looped),
            "must reach": "ratio ≤ 1.3",
        },
    ]


def typed(pages: list[str]) -> Iterator[str]:
    """What a person has typed after each key, in the middle of the pages."""
    words = " ".join(" ".join(pages).split())
    start = len(words) // 2
    for key in range(KEYS):
        first = key - key % TEXT
        yield words[start + first : start + key + 1]


def rounds(ask: Poster, bare: Bare) -> tuple[list[float], list[float]]:
    """Milliseconds a token by the daemon and by the bare loop, in turn."""
    generated, looped = [], []
    body = json.dumps({"text": PROMPT, "max_tokens": TOKENS, "temperature": 0})
    for turn in range(WARM_UP + ROUNDS):
        began = time.perf_counter()
        count = ask(body)["tokens"]
        spent = time.perf_counter() - began
        began = time.perf_counter()
        bare(count)
        if turn >= WARM_UP:
            generated.append(1000 * spent / count)
            looped.append(1000 * (time.perf_counter() - began) / count)
    return generated, looped


def milliseconds(ask: Poster, **body: object) -> float:
    began = time.perf_counter()
    ask(json.dumps(body))
    return 1000 * (time.perf_counter() - began)


class Bare:
    """Takes the likeliest token each time, with the same cache and as many threads."""

    def __init__(self, model: bytes, prompt: list[int]) -> None:
        self._session = bare_session(model)
        self._outputs = [value.name for value in self._session.get_outputs()]
        self._past = [value for value in self._session.get_inputs() if value.name != "input_ids"]
        self._prompt = prompt

    def __call__(self, count: int) -> None:
        value = onnxruntime.OrtValue.ortvalue_from_numpy
        nothing = np.zeros((1, HEADS, 0, WIDTH // HEADS), np.float32)
        past = {each.name: value(nothing) for each in self._past}
        new = self._prompt
        for _ in range(count):
            fed = {"input_ids": value(np.array([new])), **past}
            logits, *present = self._session.run_with_ort_values(self._outputs, fed)
            new = [int(logits.numpy()[0, -1].argmax())]
            past = dict(zip(past, present, strict=True))
