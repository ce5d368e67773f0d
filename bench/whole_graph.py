"""A bare loop over the engine on the whole graph, data in memory, as ONNX Runtime's examples do.

python -m bench.whole_graph MODEL.onnx DATA.npz EPOCHS BATCH_SIZE THREADS [PATTERN] prints one JSON
object; PATTERN chooses what trains.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

from service.training.engines.ort_training.runtime import training_api
from service.training.preparation.artifacts import make_artifacts
from service.training.protocol.messages.preparation import Prepare

LEARNING_RATE = 1e-3


def main() -> None:
    """Train, export, and print seconds and samples a second."""
    model, data = Path(sys.argv[1]), np.load(sys.argv[2])
    epochs, batch_size, threads = map(int, sys.argv[3:6])
    x, y = data["x"], data["label"]
    api = training_api()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    generator = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        chosen = tuple(sys.argv[6:]) or None
        order = Prepare(str(model), "forward", folder, "cross_entropy", trainable=chosen)
        made = make_artifacts(model, order)
        paths = made.artifacts
        state = api.CheckpointState.load_checkpoint(paths.checkpoint)
        module = api.Module(paths.training_model, state, paths.eval_model, session_options=options)
        optimizer = api.Optimizer(paths.optimizer_model, module)
        module.train()
        began = time.perf_counter()
        for _ in range(epochs):
            order = generator.permutation(len(x))
            for start in range(0, len(x), batch_size):
                rows = order[start : start + batch_size]
                module(x[rows], y[rows])
                optimizer.set_learning_rate(LEARNING_RATE)
                optimizer.step()
                module.lazy_reset_grad()
        trained = time.perf_counter()
        module.export_model_for_inferencing(Path(folder) / "model.onnx", [made.output])
        seconds = time.perf_counter() - began
    print(
        json.dumps({"seconds": seconds, "samples_per_second": epochs * len(x) / (trained - began)})
    )


if __name__ == "__main__":
    main()
