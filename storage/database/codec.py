"""How values that are not columns of their own are written into one."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Any

from storage.records.jobs import Blocker
from storage.records.signatures import Signature, TargetSpec, TensorSpec


def utc_now() -> datetime:
    """The time now, in UTC."""
    return datetime.now(timezone.utc)


def dump(value: object) -> str:
    """JSON without spaces. Raises ValueError for NaN and infinity, which JSON has not."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def load(text: str) -> Any:
    return json.loads(text)


def dump_time(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds, so that text order is time order."""
    return moment.astimezone(timezone.utc).isoformat(timespec="microseconds")


def load_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def load_optional_time(text: str | None) -> datetime | None:
    return None if text is None else load_time(text)


def dump_signature(signature: Signature) -> str:
    return dump(asdict(signature))


def load_signature(text: str) -> Signature:
    fields = load(text)
    target = fields["target"]
    classes = target["classes"]
    return Signature(
        inputs=tuple(
            TensorSpec(name=each["name"], dtype=each["dtype"], shape=tuple(each["shape"]))
            for each in fields["inputs"]
        ),
        target=TargetSpec(
            name=target["name"],
            dtype=target["dtype"],
            shape=tuple(target["shape"]),
            num_classes=target["num_classes"],
            classes=None if classes is None else tuple(classes),
        ),
    )


def dump_blockers(blockers: tuple[Blocker, ...]) -> str:
    return dump([asdict(blocker) for blocker in blockers])


def load_blockers(text: str) -> tuple[Blocker, ...]:
    return tuple(Blocker(**fields) for fields in load(text))
