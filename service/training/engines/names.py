"""What engines are called where rows record them."""

from __future__ import annotations

from storage.records.models import Engine

RECORDED: dict[Engine, str] = {"sessions": "sessions 1", "ort_training": "onnxruntime-training"}
"""How the names begin that jobs and checkpoints record. Another number means that checkpoints of
the one before cannot be read."""


def has_made(engine: Engine, recorded: str) -> bool:
    """Whether a checkpoint, or a job, that recorded this is of the engine."""
    return recorded.startswith(RECORDED[engine])
