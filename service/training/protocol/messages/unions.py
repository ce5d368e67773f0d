"""All messages, by sender."""

from __future__ import annotations

from service.training.protocol.messages.commands import Cancel, Continue, Hold, Pause
from service.training.protocol.messages.comparison import (
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
from service.training.protocol.messages.shared import Failed, Stopped, Working
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
from service.training.protocol.messages.versions import Compare, Compared

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
