"""What parent and training child say to each other: one JSON object a line.

The parent's first line on the child's stdin is an order (`Prepare`, `Train`, `Evaluate` or
`Convert`); later lines are commands (`Pause`, `Cancel`, `Hold`, `Continue`); end of file means that
the parent is gone. The child answers on stdout; the last message of an order is `Prepared`,
`Refused`, `Done`, `Evaluated`, `Converted`, `Stopped` or `Failed`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import get_args

from service.training.messages.answers import (
    Converted,
    Decoded,
    Done,
    Evaluated,
    Failed,
    Measured,
    Prepared,
    Progress,
    Quarantined,
    Refused,
    Saved,
    Scored,
    Seen,
    Started,
    Stopped,
    Working,
)
from service.training.messages.commands import (
    Cancel,
    Continue,
    Hold,
    Pause,
)
from service.training.messages.orders import (
    Convert,
    Evaluate,
    Prepare,
    Score,
    Train,
)
from service.training.messages.parts import (
    FEATURE_DTYPE,
    Artifacts,
    Comparison,
    Cut,
    Hyperparameters,
    Interval,
    Limits,
    LoopState,
    Measurement,
    Parameter,
    Start,
)
from service.training.wire import build

__all__ = [
    "FEATURE_DTYPE",
    "KINDS",
    "Artifacts",
    "Cancel",
    "Command",
    "Comparison",
    "Continue",
    "Convert",
    "Converted",
    "Cut",
    "Decoded",
    "Done",
    "Evaluate",
    "Evaluated",
    "Failed",
    "Hold",
    "Hyperparameters",
    "Interval",
    "Limits",
    "Line",
    "LoopState",
    "Measured",
    "Measurement",
    "Message",
    "Order",
    "Parameter",
    "Pause",
    "Prepare",
    "Prepared",
    "Progress",
    "Quarantined",
    "Refused",
    "Saved",
    "Score",
    "Scored",
    "Seen",
    "Start",
    "Started",
    "Stopped",
    "Train",
    "Working",
    "decode",
    "encode",
]

Order = Prepare | Train | Evaluate | Convert | Score
Command = Pause | Cancel | Hold | Continue
Message = (
    Prepared
    | Refused
    | Started
    | Quarantined
    | Seen
    | Decoded
    | Progress
    | Measured
    | Saved
    | Working
    | Done
    | Evaluated
    | Converted
    | Scored
    | Stopped
    | Failed
)
Line = Order | Command | Message


KINDS = {
    each.default: kind for kind in get_args(Line) for each in fields(kind) if each.name == "kind"
}
"""What a line says of its kind → its class."""


def encode(line: Line) -> bytes:
    """One JSON line, ended by a newline. Raises ValueError if a number is not finite."""
    return json.dumps(asdict(line), allow_nan=False, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Line:
    """Raises ValueError if the line is not a message."""
    value = json.loads(line)
    kind = KINDS.get(str(value.get("kind"))) if isinstance(value, dict) else None
    if kind is None:
        raise ValueError(f"this is no message: {line[:200]!r}")
    found: Line = build(kind, value)
    return found
