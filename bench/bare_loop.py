"""The yardstick: a bare training loop over the same engine, data in memory.

python -m bench.bare_loop MODEL.onnx DATA.npz INPUT EPOCHS BATCH_SIZE THREADS prints samples/s.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

from service.training.engines.ort_training.runtime import training_api
from service.training.preparation.artifacts import make_artifacts
from service.training.protocol.messages.preparation import Prepare


def main() -> None:
    """Train, and print samples a second from the first step to the last."""
    model, data, name = Path(sys.argv[1]), np.load(sys.argv[2]), sys.argv[3]
    epochs, batch_size, threads = map(int, sys.argv[4:])
    x, y = data[name], data["label"]
    api = training_api()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with tempfile.TemporaryDirectory() as folder:
        order = Prepare(str(model), "forward", folder, "cross_entropy")
        made = make_artifacts(model, order).artifacts
        state = api.CheckpointState.load_checkpoint(made.checkpoint)
        module = api.Module(made.training_model, state, made.eval_model, session_options=options)
        optimizer = api.Optimizer(made.optimizer_model, module)
        module.train()
        began = time.perf_counter()
        for _ in range(epochs):
            for start in range(0, len(x), batch_size):
                module(x[start : start + batch_size], y[start : start + batch_size])
                optimizer.step()
                module.lazy_reset_grad()
        seconds = time.perf_counter() - began
    print(epochs * len(x) / seconds)


if __name__ == "__main__":
    main()
