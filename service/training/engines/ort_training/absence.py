"""Keeps parts of ONNX Runtime that are not used here from being imported with others.

`import onnxruntime` looks for its ORTModule; the training build would load its offline tools, onnx
and protobuf before finding that torch is missing, which takes 13 MB and 65 ms. Its quantization
imports symbolic shape inference, which is optional, and with it sympy: 34 MB and 170 ms.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

NAME = "onnxruntime.training"
ONLY_IMPORTED = {
    "onnxruntime.tools.symbolic_shape_infer": ("SymbolicShapeInference",),
    "onnxruntime.transformers.onnx_utils": ("extract_raw_data_from_model", "has_external_data"),
}


@contextmanager
def without_training() -> Iterator[None]:
    """Make imports of it fail inside the block."""
    sys.modules[NAME] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[NAME]


@contextmanager
def without_sympy() -> Iterator[None]:
    """Inside the block imports of what quantization has for other options than ours give None."""
    for name, imported in ONLY_IMPORTED.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(dict.fromkeys(imported))
    try:
        yield
    finally:
        for name in ONLY_IMPORTED:
            del sys.modules[name]
