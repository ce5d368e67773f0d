"""Promotion: whether a new version becomes `latest`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether `latest` moves, and why, in a sentence for people."""

    promoted: bool
    reason: str


def decide(candidate: dict[str, Any], baseline: dict[str, Any]) -> Decision:
    """Let every finished version through.

    candidate, baseline: validation metrics of the new and of the starting parameters, empty
    without validation samples.
    """
    if not candidate:
        return Decision(True, "promoted: there are no validation samples to compare on")
    name = "accuracy" if "accuracy" in candidate else "loss"
    before, after = baseline.get(name), candidate.get(name)
    return Decision(True, f"promoted: validation {name} went from {before} to {after}")
