"""How many threads a model trains on: as many as the work of a step is worth.

More threads are not always faster: a small step is over before the others wake.
"""

from __future__ import annotations

from math import isqrt

from service.training.engines.manifest import Files, Manifest, read_manifest
from service.training.engines.opening import is_of_sessions
from service.training.protocol.messages.training import Train

WAKING_NS = 50_000
"""Overhead per step of one more thread: it is woken twice, and its results are added up."""
OPERATORS_WAKING_NS = 200_000
"""The same in On-Device Training, which wakes it for every operator."""
MULTIPLICATIONS_PER_NS, ELEMENTS_PER_NS = 40.0, 2.0
OPTIMIZER_NS = 2.0
"""The optimizer's time per parameter."""
PASSES = 3
"""A step's multiplications, as a multiple of an evaluation's."""


def select_threads(task: Train) -> int:
    """How many of the threads that the task allows shorten its steps."""
    most, rows = task.limits.threads, task.hyperparameters.batch_size
    if is_of_sessions(task.artifacts):
        manifest = read_manifest(Files.of(task.artifacts).manifest)
        return worthwhile_threads(manifest, rows=rows, most=most)
    if most == 1:
        return 1
    import onnx  # late: few jobs need it

    from service.training.engines.compilation import workload

    model = onnx.load_model(task.artifacts.eval_model, load_external_data=False)
    step_ns = rows * PASSES * workload(model).multiplications / MULTIPLICATIONS_PER_NS
    return _best(step_ns, waking_ns=OPERATORS_WAKING_NS, most=most)


def worthwhile_threads(manifest: Manifest, *, rows: int, most: int) -> int:
    """How many of `most` threads shorten a step of the session engine on this many rows."""
    work = manifest.work
    of_row = work.multiplications / MULTIPLICATIONS_PER_NS + work.elements / ELEMENTS_PER_NS
    shared_ns = rows * of_row + manifest.parameter_count * OPTIMIZER_NS
    return _best(shared_ns, waking_ns=WAKING_NS, most=most)


def _best(shared_ns: float, *, waking_ns: int, most: int) -> int:
    """n threads take work / n + n · waking, which is least at n = sqrt(work / waking)."""
    return max(1, min(most, isqrt(int(shared_ns / waking_ns))))
