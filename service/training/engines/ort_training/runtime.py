"""Imports On-Device Training without torch.

`onnxruntime/training/__init__.py` imports torch code. A bare package module of the same name,
whose `__path__` is the real folder, takes its place, so that `.api`, `.artifacts` and
`.onnxblock` import on a device without torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from service.training.engines.ort_training.absence import NAME
from service.training.engines.runtime import onnxruntime
from service.training.errors import EngineMissing

_bare = ModuleType(NAME)
_bare.__path__ = [str(Path(onnxruntime.__file__).parent / "training")]
sys.modules[NAME] = _bare


def training_api() -> Any:
    """`onnxruntime.training.api`: CheckpointState, Module, Optimizer. Raises EngineMissing."""
    return _imported("api")


def training_artifacts() -> Any:
    """`onnxruntime.training.artifacts`: generate_artifacts, LossType. Raises EngineMissing."""
    return _imported("artifacts")


def _imported(module: str) -> Any:
    if importlib.util.find_spec(f"{NAME}.{module}") is None:
        raise EngineMissing(
            f"onnxruntime {onnxruntime.__version__} has no On-Device Training, which Microsoft's"
            " artifacts need; where there is a wheel (CPython 3.10 to 3.12, not on Linux arm64):"
            " pip uninstall onnxruntime && pip install onnxruntime-training-cpu==1.19.2"
        )
    return importlib.import_module(f"{NAME}.{module}")
