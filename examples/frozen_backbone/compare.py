"""Trains the head of one network three times: by a bare loop on the whole graph, and by two jobs.

The samples are the 1,000 digits that examples/digits' camera saw, enlarged to 64 by 64 pixels. The
first job computes the features of each picture once; the second finds them.

    python examples/frozen_backbone/compare.py [--samples 1000] [--epochs 10]
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from network import INPUT, SIDE, network
from numpy.typing import NDArray

from cli.client import Client
from cli.commands.jobs.training import watch_job
from cli.demo.daemon import running

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "device.npz"
BATCH_SIZE, LEARNING_RATE = 16, 2e-3
Pictures = NDArray[np.float32]
Labels = NDArray[np.int64]


def pictures(count: int) -> tuple[Pictures, Labels]:
    """(count, 1, 64, 64) in [0, 1], and the digits."""
    with np.load(DIGITS) as data:
        images, labels = data["image"][:count], data["label"][:count].astype(np.int64)
    factor = SIDE // images.shape[-1]
    return images.repeat(factor, axis=2).repeat(factor, axis=3), labels


def bare_loop(model: bytes, x: Pictures, y: Labels, *, epochs: int) -> float:
    """Seconds of the same training by the engine alone, on the whole graph, data in memory."""
    with tempfile.TemporaryDirectory() as name:
        source, data = Path(name) / "model.onnx", Path(name) / "data.npz"
        source.write_bytes(model)
        np.savez(data, label=y, **{INPUT: x})
        loop = [sys.executable, "-m", "bench.training.bare_loop", source, data, INPUT]
        course = [str(epochs), str(BATCH_SIZE), "1", "head"]
        done = subprocess.run([*loop, *course], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return float(json.loads(done.stdout)["seconds"])


def register(client: Client, model: bytes, x: Pictures, y: Labels) -> list[str]:
    """A model whose head alone trains, and its samples; what the daemon says of the cut."""
    spec = {"name": "digits", "loss": "cross_entropy", "trainable": "head"}
    files = {"model": ("model.onnx", model)}
    client.request("POST", "/v1/models", data={"spec": json.dumps(spec)}, files=files)
    body = io.BytesIO()
    np.savez(body, label=y, **{INPUT: x})
    headers = {"Content-Type": "application/x-npz"}
    path = "/v1/models/digits/samples"
    client.request("POST", path, content=body.getvalue(), headers=headers)
    notes: list[str] = client.get("/v1/models/digits")["notes"]
    return notes


def job(client: Client, *, epochs: int) -> dict[str, Any]:
    """Train from the registered weights, to the end."""
    asked = {
        "epochs": epochs,
        "batch_size": BATCH_SIZE,
        "learning_rate": LEARNING_RATE,
        "from": "base",
        "ignore_policy": True,
    }
    done = watch_job(client, client.post("/v1/models/digits/jobs", asked))
    if done["state"] != "succeeded":
        sys.exit(f"the job {done['state']}: {done['error']}")
    return done


def seconds(done: dict[str, Any]) -> float:
    """From the request to the version."""
    times = [datetime.fromisoformat(done[key][:-1]) for key in ("created_at", "finished_at")]
    return (times[1] - times[0]).total_seconds()


def main() -> None:
    """Print what each took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=10)
    chosen = parser.parse_args()
    model, (x, y) = network(), pictures(chosen.samples)
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as daemon:
        for note in register(daemon.client, model, x, y):
            print(note)
        first, second = (job(daemon.client, epochs=chosen.epochs) for _ in range(2))
    print(f"whole graph, bare loop: {bare_loop(model, x, y, epochs=chosen.epochs):6.2f} s")
    print(f"first job:              {seconds(first):6.2f} s, with a process of its own")
    print(f"second job:             {seconds(second):6.2f} s, on the features of the first")
    accuracy = second["metrics"]["validation"]["accuracy"]
    print(f"validation accuracy:    {accuracy:.2f}")


if __name__ == "__main__":
    main()
