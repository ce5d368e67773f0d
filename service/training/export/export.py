"""The exported model: written, loaded in a fresh session, and compared with the trained one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from service.training.checkpoints import flush
from service.training.engine import Array, Engine
from service.training.engines.manifest import METADATA_PREFIX
from service.training.engines.runtime import LOAD_ERRORS, open_session
from service.training.engines.sessions.crew import Crew
from service.training.errors import ExportMismatch, LossNotFinite

Checked = tuple[Sequence[Array], Sequence[Array], Array]
"""Inputs of the exported model, the engine's inputs for them, and the target."""
TOLERANCE = 1e-4
"""Largest difference, as a share of 1 + the largest output.

Both run the same kernels, but inference sessions fuse other nodes, which changes float32 results by
about 1e-6.
"""
ROUNDING_TOLERANCE = 5e-2
"""For quantized models: a difference of 1e-6 at the edge between two steps becomes a whole step,
1/255 of the largest number. With 8 transformer layers it reached 4e-3.
"""


def export(
    engine: Engine,
    path: Path,
    *,
    input_names: Iterable[str],
    batches: Iterable[Checked],
    threads: int,
    provenance: Mapping[str, Any],
) -> None:
    """Write the whole inference model to `path`, checked on these batches and flushed meanwhile.

    The engine no longer trains: memory for steps is freed before the model is loaded.

    provenance: see `metadata_of`. Raises ExportMismatch, ArtifactsUnreadable.
    """
    engine.end_training()
    engine.export(path, metadata_of(provenance))
    check = partial(
        check_export, engine, path, input_names=input_names, batches=batches, threads=threads
    )
    Crew().run([check, partial(flush, path)])


def metadata_of(provenance: Mapping[str, Any]) -> dict[str, str]:
    """As entries of metadata_props: a name becomes `hone.<name>`; None values are left out."""
    return {
        METADATA_PREFIX + name: str(value)
        for name, value in provenance.items()
        if value is not None
    }


def check_export(
    engine: Engine,
    path: Path,
    *,
    input_names: Iterable[str],
    batches: Iterable[Checked],
    threads: int,
) -> None:
    """Raises ExportMismatch if the model at `path` does not load, or computes something else."""
    try:
        session = open_session(path, threads=threads, arena=False)
    except LOAD_ERRORS as error:
        raise ExportMismatch(f"the exported model does not load: {error}") from error
    names = list(input_names)
    for inputs, features, target in batches:
        loss, expected = engine.evaluate(features, target)
        if not isfinite(loss):
            raise LossNotFinite(
                "the loss of the trained model is not finite: its parameters have grown too"
                " large; try a lower learning_rate"
            )
        (actual,) = session.run([engine.output], dict(zip(names, inputs, strict=True)))
        compare(actual, expected, ROUNDING_TOLERANCE if engine.quantizes else TOLERANCE)


def compare(actual: Array, expected: Array, tolerance: float = TOLERANCE) -> None:
    if actual.shape != expected.shape:
        raise ExportMismatch(
            f"the exported model gives shape {actual.shape}, the trained one {expected.shape};"
            " this is a fault of the export, please report it"
        )
    allowed = tolerance * (1.0 + float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)))
    # Equality first: masked outputs may be infinite, and infinity minus itself is NaN.
    differs = actual != expected
    difference = np.abs(actual[differs] - expected[differs]).max(initial=0.0)
    if not difference <= allowed:
        raise ExportMismatch(
            f"the exported model differs from the trained one by {difference:g}, allowed is"
            f" {allowed:g}; this is a fault of the export, please report it"
        )
