"""The training child's main: one task in, messages out.

The last message tells how the task ended. Without one the child died, and the parent may retry.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from service.training.confinement import OF_FILES_ALONE, confine
from service.training.errors import EngineMissing, OutOfMemory
from service.training.limits import apply_limits, memory_limit_bytes
from service.training.protocol.messages.shared import Failed, Stopped
from service.training.protocol.pipe import Interrupted, Pipe, claim_stdout
from storage.disk.durable import fault_behind
from storage.errors import HoneError

if TYPE_CHECKING:  # a child loads only what its own task needs
    from service.training.protocol.messages.unions import Message, Task

logger = logging.getLogger("service.training")

WORK = {
    "prepare": ("service.training.preparation.prepare", "prepare"),
    "diagnose": ("service.training.preparation.diagnosis", "diagnose"),
    "train": ("service.training.job", "run"),
    "evaluate": ("service.training.evaluation.evaluate", "evaluate"),
    "compare": ("service.training.evaluation.compare", "compare"),
    "rank": ("service.training.evaluation.ranking", "rank"),
    "drift": ("service.training.evaluation.drift", "drift"),
    "convert": ("service.training.export.convert", "convert"),
}
"""Kind of task → the module and function that carry it out; the module is loaded on demand."""


def main() -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    # Ctrl-C reaches the whole terminal group; the parent decides what it means for a job.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Pipe(stdin=0, stdout=claim_stdout())
    with suppress(Interrupted):
        pipe.send(answer(pipe.read_task(), pipe))
    return 0


def answer(task: Task, pipe: Pipe) -> Message:
    """Carry out the task and return its last message.

    An error of our own code ends it for good: the next child would make it again.
    """
    try:
        apply_limits(task.limits)
        confine(task)
        return carry_out(task, pipe)
    except Interrupted as stop:
        return Stopped(stop.reason)
    except MemoryError:
        return Failed(OutOfMemory.code, out_of_memory(task))
    except Exception as error:
        told = fault_behind(error, f"the task {task.kind} failed") or error
        if isinstance(told, HoneError):
            return Failed(told.code, told.detail)
        if isinstance(told, ImportError):
            return Failed(EngineMissing.code, f"{told}; honed doctor says what is not installed")
        logger.exception("child_broke")
        words = f"{type(error).__name__}: {error}"
        return Failed(
            "internal", f"a bug in Hone ended the task {task.kind}, please report it: {words}"
        )


def carry_out(task: Task, pipe: Pipe) -> Message:
    work = load(task.kind)
    if task.kind in (*OF_FILES_ALONE, "convert"):
        # Native code that prepares a model cannot be interrupted, and has nothing to save.
        pipe.listen(on_orphaned=lambda: os._exit(0))
    else:
        pipe.listen()
    return work(task, pipe)


def load(kind: str) -> Callable[[Any, Pipe], Message]:
    """The function that carries out tasks of a kind.

    Garbage collection is off while loading: it would find nothing, and take 6 % of a child's start.
    """
    module, name = WORK[kind]
    gc.disable()
    try:
        work = getattr(import_module(module), name)
    finally:
        gc.freeze()
        gc.enable()
    return (lambda task, _: work(task)) if kind in OF_FILES_ALONE else work


def out_of_memory(task: Task) -> str:
    limit = memory_limit_bytes()
    within = "the device's memory" if limit is None else f"the limit of {limit} bytes"
    remedy = "a smaller batch_size" if task.kind == "train" else "a smaller model"
    return f"the task does not fit into {within}; try {remedy}, or allow more memory"


if __name__ == "__main__":
    code = main()
    # Everything the last message names is on disk by now. Shutting down interpreter and engine
    # properly would make the parent, which waits for the exit, wait another 36 to 60 ms.
    sys.stderr.flush()
    os._exit(code)
