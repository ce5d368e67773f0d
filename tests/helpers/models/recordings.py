"""Small real recordings, and a model that takes them."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import onnx
import soundfile
from onnx import TensorProto, helper
from support import mlp

RATE = 8_000
BANDS, FRAMES = 16, 26
SHAPE = (1, BANDS, FRAMES)
PREPROCESS = {"kind": "audio", "sample_rate": RATE, "mean": [-6], "std": [4]}


def written(signal: Any, rate: int = RATE, kind: str = "WAV", **options: Any) -> bytes:
    """signal: (samples,) or (samples, channels), from -1 to 1."""
    buffer = io.BytesIO()
    soundfile.write(buffer, signal, rate, format=kind, **options)
    return buffer.getvalue()


def tone(hertz: float, seed: int, *, seconds: float = 0.3, rate: int = RATE) -> Any:
    """A tone with noise."""
    times = np.arange(round(seconds * rate)) / rate
    noise = np.random.default_rng(seed).standard_normal(len(times)) * 0.02
    return np.sin(2 * np.pi * hertz * times) / 3 + noise


def wav_header(*, rate: int = RATE, channels: int = 1, bits: int = 16, size: int = 100) -> bytes:
    """A header that may lie, and 100 bytes of samples."""
    frame = channels * bits // 8
    form = struct.pack("<HHIIHH", 1, channels, rate, rate * frame & 0xFFFFFFFF, frame, bits)
    body = b"WAVEfmt " + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", size)
    return b"RIFF" + struct.pack("<I", len(body) + size & 0xFFFFFFFF) + body + bytes(100)


def sound_model(seed: int = 0) -> bytes:
    """A model whose input `sound` has shape (1, 16, 26): flattened, then an MLP."""
    model = onnx.load_from_string(mlp(BANDS * FRAMES, 8, 2, seed=seed, inputs="flat"))
    graph = model.graph
    graph.node.insert(0, helper.make_node("Flatten", ["sound"], ["flat"], name="flatten"))
    del graph.input[:]
    shape = ["batch", *SHAPE]
    graph.input.append(helper.make_tensor_value_info("sound", TensorProto.FLOAT, shape))
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content
