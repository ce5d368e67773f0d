"""Finds the packages that provide the module `onnxruntime`, without importing it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

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
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
