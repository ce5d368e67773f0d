"""Sentences with names and places, and models that learn to find these as spans."""

from __future__ import annotations

import json
from typing import Any

from support import Served
from texts import labeller, tokenizer

NAMES, PLACES = ("Anna", "Bob Lee", "Carla"), ("Berlin", "New York", "Oslo")
CLASSES = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def sentence(n: int) -> tuple[str, list[dict[str, Any]]]:
    """A text, and its spans."""
    name, place = NAMES[n % 3], PLACES[n // 3 % 3]
    before = ("today", "so", "\u00e4h \U0001f600")[n // 9 % 3]
    text = f"{before} {name} lives in {place} , {n}"
    at = text.index(name), text.index(place)
    return text, [
        {"start": at[0], "end": at[0] + len(name), "label": "PER"},
        {"start": at[1], "end": at[1] + len(place), "label": "LOC"},
    ]


SENTENCES = [sentence(n) for n in range(81)]
TEXTS = [text for text, _ in SENTENCES]


def register(served: Served, name: str, classes: tuple[str, ...] = CLASSES, **text: Any) -> Any:
    files = {
        "model": ("m.onnx", labeller(96, len(classes))),
        "tokenizer": ("t.json", tokenizer(TEXTS, vocabulary=96)),
    }
    said = {
        "name": name,
        "loss": "token_classification",
        "preprocess": {"kind": "text", "max_tokens": 32, **text},
        "classes": classes,
    }
    return served.http.post("/v1/models", data={"spec": json.dumps(said)}, files=files)


def send(served: Served, name: str, samples: list[dict[str, Any]]) -> Any:
    return served.http.post(f"/v1/models/{name}/samples", json={"samples": samples})
