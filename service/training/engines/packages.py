"""Engines by name: in stored rows, and as packages, which are found without importing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a child that trains needs none of the records
    from storage.records.models import Engine

RECORDED: dict[Engine, str] = {"sessions": "sessions 1", "ort_training": "onnxruntime-training"}
"""Prefixes of the names that jobs and checkpoints record."""
TRAINING = ("onnxruntime-training-cpu", "onnxruntime-training")
"""Packages with On-Device Training."""
RUNTIMES = (
    *TRAINING,
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-directml",
    "onnxruntime-openvino",
    "onnxruntime-qnn",
)


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution."""
    from importlib.metadata import PackageNotFoundError, version  # late: a child never asks

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
