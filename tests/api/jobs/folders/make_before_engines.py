"""Made `before_engines.zip`: a data folder of the last Hone that trained all with ort_training.

It ran in a checkout of commit 0bfae8b, with tests/helpers on its path:
`python make_before_engines.py FOLDER ZIP`. Model `kept` has its upload as version 1; `zipped` came
as Microsoft's artifacts. Each has version 2 of a job that ended, and `kept` a paused job.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from support import Served, blobs, mlp, wait_until

from storage.store import Store

NAMES = ("training_model.onnx", "eval_model.onnx", "optimizer_model.onnx", "checkpoint")


def artifacts() -> bytes:
    """What `honed artifacts` wrote of a perceptron."""
    with tempfile.TemporaryDirectory() as folder:
        model, made = Path(folder) / "model.onnx", Path(folder) / "artifacts"
        model.write_bytes(mlp(6, 8, 3, seed=1))
        command = [sys.executable, "-m", "cli", "artifacts", str(model), "-o", str(made)]
        subprocess.run([*command, "--loss", "cross_entropy"], check=True)
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for name in NAMES:
                archive.write(made / name, name)
    return content.getvalue()


def fill(served: Served) -> None:
    """Register, upload, train, and pause."""
    served.register("kept", mlp(6, 8, 3))
    spec = '{"name": "zipped", "loss": "cross_entropy"}'
    files = {"artifacts": ("artifacts.zip", artifacts())}
    served.http.post("/v1/models", data={"spec": spec}, files=files).raise_for_status()
    for name in ("kept", "zipped"):
        served.upload(name, **blobs(60, 6, 3)).raise_for_status()
        served.train(name, epochs=3, seed=1)
    job = served.ask_for_job("kept", max_steps=4000, seed=2, ignore_policy=True)["id"]
    wait_until(lambda: served.job(job)["progress"]["step"] > 0, "a step")
    served.http.post(f"/v1/jobs/{job}/pause").raise_for_status()
    served.wait_for_job(job, "paused")


def main() -> None:
    folder, target = map(Path, sys.argv[1:])
    Store.open(folder / "empty").close()
    served = Served(folder / "data", database=folder / "empty" / "hone.db")
    fill(served)
    served.stop()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((folder / "data").rglob("*")):
            if path.is_file() and path.name != "ballast" and path.parent.name != "backups":
                archive.write(path, path.relative_to(folder / "data"))


if __name__ == "__main__":
    main()
