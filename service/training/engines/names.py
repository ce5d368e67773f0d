"""The names of engines in stored rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a child that trains needs none of the records
    from storage.records.models import Engine

RECORDED: dict[Engine, str] = {"sessions": "sessions 1", "ort_training": "onnxruntime-training"}
"""Prefixes of the names that jobs and checkpoints record."""
