"""The baseline: a bare training loop over the engine on the whole graph, with data in memory.

python -m bench.training.bare_loop MODEL.onnx DATA.npz INPUT EPOCHS BATCH_SIZE THREADS [PATTERN]
prints one JSON object; PATTERN chooses what trains.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from service.training.engines.manifest import Files
from service.training.engines.runtime import flush_denormals
from service.training.engines.sessions.engine import SessionsEngine
from service.training.optimizer.options import OptimizerOptions
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages.preparation import Prepare

LEARNING_RATE = 1e-3


def main() -> None:
    """Train, export, and print seconds and samples per second from the first step."""
    model, data = Path(sys.argv[1]), np.load(sys.argv[2])
    epochs, batch_size, threads = map(int, sys.argv[4:7])
    x, y = data[sys.argv[3]], data["label"]
    generator = np.random.default_rng(5)
    flush_denormals()
    with tempfile.TemporaryDirectory() as folder:
        chosen = tuple(sys.argv[7:]) or None
        make_step_models(
            model, Prepare(str(model), "forward", folder, "cross_entropy", trainable=chosen)
        )
        engine = SessionsEngine(
            Files.below(Path(folder)), threads=threads, optimizer_options=OptimizerOptions()
        )
        began = time.perf_counter()
        for _ in range(epochs):
            order = generator.permutation(len(x))
            for start in range(0, len(x), batch_size):
                rows = order[start : start + batch_size]
                engine.train_batch([x[rows]], y[rows])
                engine.step(LEARNING_RATE)
        trained = time.perf_counter()
        engine.export(Path(folder) / "model.onnx")
        seconds = time.perf_counter() - began
    print(
        json.dumps({"seconds": seconds, "samples_per_second": epochs * len(x) / (trained - began)})
    )


if __name__ == "__main__":
    main()
