"""The only access to ONNX Runtime, from any package: sessions, their options and their errors.

Nothing else imports `onnxruntime`, except `onnxruntime.quantization`.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from service.training.engines.ort_training.absence import without_training
from service.training.engines.provider_setting import CPU, Provider
from storage.errors import HoneError

with without_training():
    import onnxruntime

__all__ = ["CPU", "native", "onnxruntime"]

native = sys.modules[onnxruntime.SessionOptions.__module__]
"""Its compiled module, which has its exceptions."""
LOAD_ERRORS = (
    native.EPFail,
    native.Fail,
    native.InvalidArgument,
    native.InvalidGraph,
    native.InvalidProtobuf,
    native.NoSuchFile,
    native.NotImplemented,
    native.RuntimeException,
)
"""Exceptions of a session for a model that it cannot run; they have no common base class."""
THREAD_OPTIONS = {"OpenVINOExecutionProvider": "num_of_threads"}
"""The option of a provider that uses all processors, whatever the session's number of threads."""
FLOAT32_LEVEL = "1"
"""Accuracy level of MatMulNBits, which newer runtimes use for products with packed weights."""
REORDERING = (
    b'\x08\x08:U\n)\n\x01x\x12\x01y"\x0cReorderInput:\x13com.microsoft.nchwc\x12\x00Z\x1b\n\x01x'
    b"\x12\x16\n\x14\x08\x01\x12\x10\n\x02\x08\x01\n\x02\x08\x04\n\x02\x08\x01\n\x02\x08\x01b\t\n\x01y"
    b"\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\x12B\x17\n\x13com.microsoft.nchwc\x10\x01"
)
"""One that reorders four channels into blocks."""
IDENTITY = (
    b'\x08\x08:*\n\x10\n\x01x\x12\x01y"\x08Identity\x12\x00Z\t\n\x01x\x12\x04\n\x02\x08\x01'
    b"b\t\n\x01y\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\x11"
)
"""An ONNX model with a single node."""


def session_options(
    threads: int,
    *,
    arena: bool = True,
    pattern: bool = True,
    reuse: bool = True,
) -> Any:
    """Options that leave the device alone: no thread spins.

    arena: whether the session keeps the memory of its largest batch until it is closed. pattern:
    whether it plans the memory of further runs by the first. reuse: whether it plans, when opened,
    which results take over the memory of earlier ones; without, each is allocated, and freed after
    its last use.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = arena
    options.enable_mem_pattern = pattern
    options.enable_mem_reuse = reuse
    # Otherwise newer runtimes quantize the other operand of an unpacked weight.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", FLOAT32_LEVEL)
    options.log_severity_level = 3
    return options


def open_session(
    model: Path | str | bytes,
    *,
    threads: int,
    arena: bool = True,
    provider: Provider | None = None,
    pattern: bool = True,
    reuse: bool = True,
    is_optimized: bool = False,
) -> Any:
    """An InferenceSession with the options of `session_options`.

    Raises one of LOAD_ERRORS, MemoryError.

    provider: execution provider, with the CPU's for unsupported operators; the CPU's alone by
    default. is_optimized: whether `optimize` wrote the model.
    """
    options = session_options(threads, arena=arena, pattern=pattern, reuse=reuse)
    if is_optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(
            model,
            options,
            providers=provider_chain(provider, threads),
            enable_fallback=int(provider is None),  # hides the reason (from 1.20 on)
        )
    except (RuntimeError, *LOAD_ERRORS) as error:
        check_memory(error)
        raise


def provider_chain(provider: Provider | None, threads: int) -> list[Provider]:
    """What a session is opened with: a provider, and the CPU's for what it does not support."""
    chain: dict[str, dict[str, str]] = {}
    if provider is not None:
        name, options = provider
        of_threads = THREAD_OPTIONS.get(name)
        chain[name] = options if of_threads is None else {of_threads: str(threads), **options}
    return list({**chain, CPU: {}}.items())


def optimize(model: Path, into: Path) -> None:
    """Write a model's graph as this runtime would run it on this processor, see `here`.

    Raises one of LOAD_ERRORS, RuntimeError, MemoryError.
    """
    options = session_options(1, reuse=False)
    options.optimized_model_filepath = str(into)
    onnxruntime.InferenceSession(model, options, providers=[CPU])


def here() -> str:
    """What optimized graphs are written for: the runtime, and the kind of processor."""
    known: Any = np.show_config(mode="dicts")  # numpy looks at the processor when it is imported
    features = known["SIMD Extensions"]
    names = [*features.get("baseline", ()), *features.get("found", ())]
    return " ".join([onnxruntime.__version__, platform.machine(), *names])


@cache
def channel_block() -> int | None:
    """The channels of a block in the runtime's own layout of convolutions on this processor, see
    service/training/graph/blocks/layout.py; None if it has none.
    """
    try:
        session = open_session(REORDERING, threads=1)
        (blocked,) = session.run(None, {"x": np.zeros((1, 4, 1, 1), np.float32)})
    except (RuntimeError, *LOAD_ERRORS) as error:
        check_memory(error)
        return None
    block = int(blocked.shape[1])
    return block if block >= 4 else None


def flush_denormals() -> None:
    """Make this thread, and those it starts, treat numbers below 1e-38 as 0, on x86-64.

    Moments of a parameter that no longer gets a gradient decay this far, and each such number takes
    as long as twenty others. The runtime reads this option once per process, for the thread that
    opens the first session, so call it before that. Elsewhere it does nothing (1.31.1, arm64).
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.set_denormal_as_zero", "1")
    onnxruntime.InferenceSession(IDENTITY, options, providers=[CPU])


@contextmanager
def foreign_errors(kind: type[HoneError], doing: str) -> Iterator[None]:
    """Turn the runtime's errors into one of ours."""
    try:
        yield
    except (RuntimeError, *LOAD_ERRORS) as error:
        check_memory(error)
        raise kind(f"{doing}: {error}") from error


def check_memory(error: Exception) -> None:
    """Raises MemoryError if the runtime's error means that."""
    if any(words in str(error) for words in ("bad_alloc", "Failed to allocate memory")):
        raise MemoryError(str(error)) from error
