"""LoRA of rank 8 on the attention of a transformer with 25 million parameters in int8.

Both sides take batches of 8 sequences of 64 tokens, AdamW, two threads. PyTorch: full fine-tuning
and LoRA, both in float32. Peaks are of the training process: `own` is anonymous memory, `resident`
includes pages of files, which are the base for ours and libraries for PyTorch.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from onnxruntime.quantization import QuantType, quantize_dynamic

from bench import watched
from bench.daemon import served, train
from bench.needs import LINUX, TORCH
from bench.table import Row

VOCABULARY, CLASSES, TOKENS, BATCH, RANK = 1000, 10, 64, 8, 8
"""As in lora_torch.py, which cannot be imported without torch."""
STEPS, THREADS, ROUNDS = 8, 2, 2
NEEDS = (LINUX, TORCH)
SMALLEST = {"STEPS": 1, "ROUNDS": 1}


def run() -> list[Row]:
    """One row: the peaks, and the size of a version."""
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as name:
        plain, packed = Path(name) / "float.onnx", Path(name) / "int8.onnx"
        parameters = _torch("export", plain)[0]["parameters"]
        quantize_dynamic(plain, packed, weight_type=QuantType.QInt8)
        rounds = [_round(packed.read_bytes()) for _ in range(ROUNDS)]
    found = {key: float(np.median([figures[key] for figures in rounds])) for key in rounds[0]}
    return [
        {
            "parameters": parameters,
            **found,
            "own ÷ full": found["honed own MB"] / found["PyTorch full own MB"],
            "own ÷ LoRA": found["honed own MB"] / found["PyTorch LoRA own MB"],
            "resident ÷ full": found["honed resident MB"] / found["PyTorch full resident MB"],
            "resident ÷ LoRA": found["honed resident MB"] / found["PyTorch LoRA resident MB"],
            "version ÷ int8 model": found["version stored MB"] / found["int8 model MB"],
        }
    ]


def _round(model: bytes) -> dict[str, float]:
    found = _ours(model)
    for how, name in (("full", "full"), ("lora", "LoRA")):
        _, peak = _torch(how, STEPS, THREADS)
        found |= {f"PyTorch {name} own MB": peak.own, f"PyTorch {name} resident MB": peak.resident}
    return found


def _torch(*arguments: object) -> tuple[dict[str, Any], watched.Peak]:
    return watched.run(TORCH.command(Path(__file__).with_name("lora_torch.py"), *arguments))


def _ours(model: bytes) -> dict[str, float]:
    rng = np.random.default_rng(0)
    count = STEPS * BATCH
    tokens = rng.integers(0, VOCABULARY, (count, TOKENS))
    label = rng.integers(0, CLASSES, count)
    lora = {"lora": {"rank": RANK, "alpha": 2 * RANK, "targets": ["*attn*"]}}
    with served(training_threads=THREADS, training_nice=0) as daemon:
        daemon.register("m", model, trainable=lora)
        daemon.upload("m", split="train", tokens=tokens, label=label)
        with watched.watching(lambda: watched.children(daemon.process.pid)) as peak:
            job = train(daemon, "m", epochs=1, batch_size=BATCH, learning_rate=1e-3)
        version = daemon.http.get(f"/v1/models/m/versions/{job['version']}").json()
    return {
        "honed own MB": peak.own,
        "honed resident MB": peak.resident,
        "int8 model MB": len(model) / 2**20,
        "version stored MB": version["stored_bytes"] / 2**20,
    }
