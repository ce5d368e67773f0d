"""Rows as they leave storage: frozen, typed, without a connection behind them."""

from __future__ import annotations

from storage.records.events import Event
from storage.records.jobs import (
    NEXT,
    Blocker,
    Job,
    JobState,
    MetricPoint,
    NewJob,
    NewTrigger,
    StoredPolicy,
    Trigger,
)
from storage.records.models import (
    FileRecord,
    Loss,
    Model,
    NewModel,
    Optimizer,
    Quota,
    SampleCounts,
    Signature,
    TargetSpec,
    TensorSpec,
    WhenFull,
)
from storage.records.samples import UNSET, Sample, Split, StageResult, Unset
from storage.records.versions import Checkpoint, NewVersion, Role, Variant, VariantName, Version

__all__ = [
    "NEXT",
    "UNSET",
    "Blocker",
    "Checkpoint",
    "Event",
    "FileRecord",
    "Job",
    "JobState",
    "Loss",
    "MetricPoint",
    "Model",
    "NewJob",
    "NewModel",
    "NewTrigger",
    "NewVersion",
    "Optimizer",
    "Quota",
    "Role",
    "Sample",
    "SampleCounts",
    "Signature",
    "Split",
    "StageResult",
    "StoredPolicy",
    "TargetSpec",
    "TensorSpec",
    "Trigger",
    "Unset",
    "Variant",
    "VariantName",
    "Version",
    "WhenFull",
]
