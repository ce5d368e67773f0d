"""How sessions of the runtime are opened, and what their errors mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from service.training.engines.runtime import LOAD_ERRORS, check_memory, onnxruntime
from storage.errors import HoneError

__all__ = ["LOAD_ERRORS", "check_memory", "foreign_errors", "session_options"]


def session_options(threads: int, *, spinning: bool = False) -> Any:
    """A session that leaves the device alone: by default no spinning threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", str(int(spinning)))
    # Not between runs, where the optimizer's threads want the processors.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # The arena keeps the memory of the largest batch, and all batches of a job are of one size. It
    # is given back with the session; without it a step allocates anew what it needs, which took a
    # convolutional network a sixth more time, and up to half more memory.
    options.enable_cpu_mem_arena = True
    options.log_severity_level = 3
    return options


@contextmanager
def foreign_errors(kind: type[HoneError], doing: str) -> Iterator[None]:
    """Turn the runtime's errors, and those of reading its models, into one of ours."""
    try:
        yield
    except (RuntimeError, DecodeError, *LOAD_ERRORS) as error:
        check_memory(error)
        raise kind(f"{doing}: {error}") from error
