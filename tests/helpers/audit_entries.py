"""Entries of the audit log as tests ask for them, and tokens whose doings they look for."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from support import Served

MAX_ENTRIES = 1000
"""The most of one page: no test makes more."""


def entries(served: Served, **where: Any) -> list[dict[str, Any]]:
    """Entries that match the filter, newest first."""
    answer = served.http.get("/v1/audit", params={"limit": MAX_ENTRIES, **where})
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def since() -> dict[str, str]:
    """The filter for entries from now on.

    For one daemon that several tests use.
    """
    return {"since": datetime.now(timezone.utc).isoformat()}


def told(found: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """What was done by whom, in order."""
    return [(each["kind"], each["who"], each["action"]) for each in reversed(found)]


def make_token(served: Served, name: str, *scopes: str, **more: Any) -> tuple[str, str]:
    """The secret of a new token, and its principal's id.

    more: limits, models or an end.
    """
    body = {"name": f"audit: {name}", "scopes": scopes, **more}
    made = served.http.post("/v1/tokens", json=body).raise_for_status().json()
    return made["secret"], f"token {made['id']}"
