"""The one door to ONNX Runtime: imports its training packages without torch.

`onnxruntime/training/__init__.py` imports torch code. A bare package module of the same name,
whose `__path__` is the real folder, takes its place, so that `.api`, `.artifacts` and
`.onnxblock` import on a device without torch. Nothing else imports `onnxruntime.training`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "onnxruntime.training"
MAX_IR_VERSION = 10
"""Highest IR that 1.19.2 loads."""
MIN_OPSET, MAX_OPSET = 12, 21
"""Opsets of the default domain that 1.19.2 trains."""


def training_api() -> Any:
    """`onnxruntime.training.api`: CheckpointState, Module, Optimizer."""
    return _import("api")


def training_artifacts() -> Any:
    """`onnxruntime.training.artifacts`: generate_artifacts, LossType, OptimType."""
    return _import("artifacts")


def _import(submodule: str) -> ModuleType:
    if NAME not in sys.modules:
        spec = importlib.util.find_spec("onnxruntime")
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError("onnxruntime is not installed", name="onnxruntime")
        package = ModuleType(NAME)
        package.__path__ = [str(Path(spec.origin).parent / "training")]
        sys.modules[NAME] = package
    return importlib.import_module(f"{NAME}.{submodule}")
