"""What a store has told: operations asked for and acknowledged, and what it must hold then."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from storage.store import Store

RECORD_BYTES = 1024
MODEL = "soak"


def content(number: int) -> bytes:
    """The bytes of a sample, which tell its number."""
    return sha256(number.to_bytes(8, "big")).digest() * (RECORD_BYTES // 32)


@dataclass
class Truth:
    """samples: labels by number. aliases: versions by name. gone: numbers deleted for good."""

    samples: dict[int, int] = field(default_factory=dict)
    aliases: dict[str, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    def apply(self, asked: dict[str, Any]) -> None:
        """Do what was asked for."""
        match asked["do"]:
            case "add":
                self.samples.update(zip(asked["numbers"], asked["labels"], strict=True))
            case "delete":
                self._delete(asked["number"])
            case "delete label":
                for number in [n for n, label in self.samples.items() if label == asked["label"]]:
                    self._delete(number)
            case "label":
                self.samples[asked["number"]] = asked["label"]
            case "alias":
                self.aliases[asked["alias"]] = asked["version"]

    def _delete(self, number: int) -> None:
        del self.samples[number]
        self.gone.add(number)


def possible(before: Truth, told: Iterable[str]) -> list[Truth]:
    """What the store may hold: what it has acknowledged, and any of what it was about to do.

    Of operations at once each is acknowledged by its place among them.
    """
    truths, begun = [deepcopy(before)], dict[int, dict[str, Any]]()
    for line in told:
        said = json.loads(line)
        if "do" in said:
            begun = dict(enumerate(said.get("each", [said])))
            continue
        asked = begun.pop(said["of"])
        if said["done"]:
            truths = [*_applied(truths, asked)]
    for asked in begun.values():
        truths = [*truths, *_applied(truths, asked)]
    return truths


def _applied(truths: list[Truth], asked: dict[str, Any]) -> Iterator[Truth]:
    """After what was asked for; without those in which it could not have been done."""
    for each in truths:
        if "number" not in asked or asked["number"] in each.samples:
            then = deepcopy(each)
            then.apply(asked)
            yield then


def complaint(store: Store, may_be: list[Truth]) -> str | None:
    """How a store differs from all that it may hold; None if it is one of these.

    What was deleted must be nowhere in the packs.
    """
    model = store.models.get(MODEL)
    rows = store.samples.list(model.id, limit=10_000)
    numbers = {content(n): n for truth in may_be for n in truth.samples}
    found = {numbers.get(store.samples.content(model.id, row.id), -row.id): row for row in rows}
    samples = {number: row.label for number, row in found.items()}
    aliases = dict(store.aliases.list(model.id, 1000))
    aliases.pop("latest", None)
    packs = b"".join(path.read_bytes() for path in store.packs_dir.glob("*/*.pack"))
    for truth in may_be:
        left = [n for n in truth.gone if content(n)[:32] in packs]
        if (samples, aliases) == (truth.samples, truth.aliases) and not left:
            return None
    told = may_be[0]
    return (
        f"lost {sorted(told.samples.items() - samples.items())}, "
        f"came {sorted(samples.items() - told.samples.items())}, "
        f"aliases {aliases} for {told.aliases}, bytes of deleted ones left: {left}"
    )
