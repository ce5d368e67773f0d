"""Trains one step and reports it: `python -m cli.doctor.engine_probe FOLDER`.

A separate process, since a broken engine may crash natively, and sandboxed like jobs. FOLDER: an
empty one, to write into.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from cli.demo import digits
from cli.output import echo_text
from service.processes import sandbox
from service.training.engine import Engine
from service.training.engines.opening import open_engine
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages.preparation import Prepare

BATCH_SIZE = 32


def main() -> None:
    """Raises whatever the engine raises; a model that does not learn is a RuntimeError."""
    folder = Path(sys.argv[1])
    images, labels = (array[:BATCH_SIZE] for array in digits.kept_back())
    sandbox.enter(readable=[digits.folder()], writable=[folder])
    engine = _engine(folder)
    before, _ = engine.evaluate([images], labels)
    began = time.perf_counter()
    engine.train_batch([images], labels)
    engine.step(1e-3)
    milliseconds = (time.perf_counter() - began) * 1000
    after, _ = engine.evaluate([images], labels)
    if not after < before:
        raise RuntimeError(f"one step took the loss from {before:.4g} to {after:.4g}")
    without = "without torch" if "torch" not in sys.modules else "with torch loaded"
    echo_text(f"{engine.name} trains, {without}: one step in {milliseconds:.1f} ms")


def _engine(folder: Path) -> Engine:
    source = str(digits.folder() / "base.onnx")
    order = Prepare(source, "forward", str(folder), loss="cross_entropy")
    prepared = make_step_models(Path(source), order)
    return open_engine(prepared.artifacts, output=prepared.output, threads=1)


if __name__ == "__main__":
    main()
