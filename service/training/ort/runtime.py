"""The one door to ONNX Runtime: imports it without its offline tools, and without torch.

`onnxruntime/training/__init__.py` imports torch code. A bare package module of the same name,
whose `__path__` is the real folder, takes its place, so that `.api`, `.artifacts` and
`.onnxblock` import on a device without torch.

It does so before `onnxruntime` itself is imported, which looks for its ORTModule, and thereby would
load the offline tools, onnx and protobuf before it finds that torch is missing: 13 MB and 65 ms for
a process that wants to run a model. Nothing else imports `onnxruntime`, `onnxruntime.quantization`
excepted.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "onnxruntime.training"


def _stand_in() -> None:
    """Put the bare package in its place."""
    spec = importlib.util.find_spec("onnxruntime")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("onnxruntime is not installed", name="onnxruntime")
    package = ModuleType(NAME)
    package.__path__ = [str(Path(spec.origin).parent / "training")]
    sys.modules[NAME] = package
    # None: an import of it fails, as it does without torch.
    sys.modules[f"{NAME}.ortmodule"] = None  # type: ignore[assignment]


_stand_in()

import onnxruntime  # noqa: E402 - behind the stand-in
from onnxruntime.capi import _pybind_state as pybind  # noqa: E402

__all__ = ["onnxruntime", "pybind", "quiet", "training_api", "training_artifacts"]

MAX_IR_VERSION = 10
"""Highest IR that 1.19.2 loads."""
MIN_OPSET, MAX_OPSET = 12, 21
"""Opsets of the default domain that 1.19.2 trains."""


def training_api() -> Any:
    """`onnxruntime.training.api`: CheckpointState, Module, Optimizer."""
    return importlib.import_module(f"{NAME}.api")


def training_artifacts() -> Any:
    """`onnxruntime.training.artifacts`: generate_artifacts, LossType, OptimType."""
    return importlib.import_module(f"{NAME}.artifacts")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the gradient builder's hundreds of INFO lines off stderr.

    They come from a logger of their own that no severity setting reaches (measured with 1.19.2),
    so the file descriptor itself points elsewhere meanwhile. Not for use in several threads.
    The Python tools log at INFO too, on the root logger.
    """
    sys.stderr.flush()
    kept, disabled = os.dup(2), logging.root.manager.disable
    logging.disable(max(disabled, logging.INFO))
    with tempfile.TemporaryFile() as elsewhere:
        os.dup2(elsewhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            logging.disable(disabled)
