"""All messages, by sender."""

from __future__ import annotations

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
