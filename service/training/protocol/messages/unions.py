"""All messages, by sender."""

from __future__ import annotations

from typing import cast, get_args

from service.training.protocol.messages.comparison import (
    Compare,
    Compared,
    Convert,
    Converted,
    Drift,
    Drifted,
    Evaluate,
    Evaluated,
    Rank,
    Ranked,
)
from service.training.protocol.messages.diagnosis import Diagnose, Diagnosed
from service.training.protocol.messages.preparation import Prepare, Prepared, Refused
from service.training.protocol.messages.shared import (
    Cancel,
    Continue,
    Failed,
    Hold,
    Pause,
    Stopped,
    Working,
)
from service.training.protocol.messages.training import (
    Chosen,
    Decoded,
    Done,
    Dropped,
    Measured,
    Progress,
    Quarantined,
    Saved,
    Seen,
    Started,
    Train,
    Updated,
    Validated,
)
from service.training.protocol.serialization import build, read

Task = Prepare | Diagnose | Train | Evaluate | Compare | Convert | Rank | Drift
Command = Pause | Cancel | Hold | Continue
Last = (
    Prepared
    | Refused
    | Diagnosed
    | Done
    | Updated
    | Validated
    | Evaluated
    | Compared
    | Converted
    | Ranked
    | Drifted
    | Stopped
    | Failed
)
"""The messages that end a task."""
Noted = Chosen | Seen | Quarantined | Dropped | Decoded | Working
"""What a job's child says of its samples and its choices before it trains."""
Message = Noted | Started | Progress | Measured | Saved | Last
Line = Task | Command | Message
MESSAGES = {str(each.__struct_config__.tag): each for each in get_args(Message)}
"""The class of each kind of message."""


def decode_message(line: bytes) -> Message:
    """Raises ValueError if the line is not a message of a child."""
    kind, value = read(line, MESSAGES, "a message of a child")
    return cast("Message", build(MESSAGES[kind], value))
