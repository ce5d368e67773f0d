"""What a store has told: operations asked for and acknowledged, and what it must hold then."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from typing import Any

from storage.backup.own_backups import KEPT

DIGEST_BYTES, RECORD_BYTES = 32, 1024
MODEL = "soak"
_FIRST = datetime(2026, 1, 1, tzinfo=timezone.utc)


def content(number: int) -> bytes:
    """The bytes of a sample, which tell its number."""
    return sha256(number.to_bytes(8, "big")).digest() * (RECORD_BYTES // DIGEST_BYTES)


def time_of(hour: int) -> datetime:
    """When an hour of the soak was, by its own calendar."""
    return _FIRST + timedelta(hours=hour)


@dataclass
class Held:
    """samples: labels by number. aliases: versions by name. gone: numbers that nothing may hold."""

    samples: dict[int, int] = field(default_factory=dict)
    aliases: dict[str, int] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    def copied(self) -> Held:
        """These alone, as they are now."""
        return Held(dict(self.samples), dict(self.aliases), set(self.gone))


@dataclass
class Truth(Held):
    """backups: the daemon's own by their hour, without what was deleted since. archives: by name.

    replaced: what was there before an archive was restored, by the hour of that.
    is_repaired: an own backup has replaced a damaged database. hour: the last one that was used.
    """

    backups: dict[int, Held] = field(default_factory=dict)
    archives: dict[int, Held] = field(default_factory=dict)
    replaced: dict[int, Held] = field(default_factory=dict)
    is_repaired: bool = False
    hour: int = 0

    def apply(self, asked: dict[str, Any]) -> None:
        """Do what was asked for."""
        self.hour = asked.get("hour", self.hour)
        match asked["do"]:
            case "add":
                self.samples.update(zip(asked["numbers"], asked["labels"], strict=True))
            case "delete":
                self._delete(asked["number"])
            case "delete label":
                for number in self._labelled(asked["label"]):
                    self._delete(number)
            case "label":
                self.samples[asked["number"]] = asked["label"]
            case "alias":
                self.aliases[asked["alias"]] = asked["version"]
            case "backup":
                self._back_up(self.hour)
            case "archive":
                self.archives[self.hour] = self.copied()
            case "restore" | "damage":
                self._go_back(asked.get("archive"))

    def _labelled(self, label: int) -> list[int]:
        return [number for number, given in self.samples.items() if given == label]

    def _delete(self, number: int) -> None:
        del self.samples[number]
        self.gone.add(number)
        for backup in self.backups.values():
            backup.samples.pop(number, None)

    def _back_up(self, hour: int) -> None:
        """The newest of each day are kept."""
        days = {time_of(backup).date(): backup for backup in sorted(self.backups)}
        days[time_of(hour).date()] = hour
        self.backups[hour] = self.copied()
        self.backups = {day: self.backups[day] for day in sorted(days.values())[-KEPT:]}

    def _go_back(self, archive: int | None) -> None:
        """To an archive; else, as a damaged database does, to the newest own backup."""
        if archive is None:
            earlier = self.backups[max(self.backups)]
            self.is_repaired = True
        else:
            earlier, self.backups = self.archives[archive], {}
            self.replaced[self.hour] = self.copied()
        known = {*self.samples, *self.gone, *earlier.gone}
        self.samples, self.aliases = dict(earlier.samples), dict(earlier.aliases)
        self.gone = known - self.samples.keys()


def possible(before: Iterable[Truth], told: Iterable[str]) -> list[Truth]:
    """What the store may hold: what it has acknowledged, and any of what it had begun.

    Of operations at once each is begun and acknowledged by its place among them.
    """
    truths, begun = deepcopy([*before]), dict[int, dict[str, Any]]()
    asked = list[dict[str, Any]]()
    for line in told:
        said = json.loads(line)
        if "do" in said:
            asked = said.get("each", [said])
        elif "begun" in said:
            begun[said["begun"]] = asked[said["begun"]]
        elif begun.pop(said["of"]) and said["done"]:
            truths = [*_applied(truths, asked[said["of"]])]
    for each in begun.values():
        truths = [*truths, *_applied(truths, each)]
    return truths


def _applied(truths: list[Truth], asked: dict[str, Any]) -> Iterator[Truth]:
    """After what was asked for; without those in which it could not have been done."""
    for truth in truths:
        if "number" not in asked or asked["number"] in truth.samples:
            then = deepcopy(truth)
            then.apply(asked)
            yield then
