"""A decoder with cached keys and values, from the uploaded graph and a version's weights.

Training takes the cache out of the graph, and versions' files have none. A cached decoder that does
not compute what its version does is not used: training may have written weights in another form.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx

from service.completion.decoder import Decoder
from service.completion.messages import Completing
from service.errors import PredictionFailed
from service.training.engines.runtime import LOAD_ERRORS, open_session
from service.training.errors import GraphRefused
from service.training.forward.normalize import normalize

PROBES = 3
"""Texts that both are compared by."""
PROBE_TOKENS = 6
TOLERANCE = 1e-3
"""Largest difference, as a share of 1 + the largest number: quantized weights round differently."""


def with_cache(
    plain: Decoder, form: Completing, *, version: str, threads: int
) -> tuple[Decoder, str | None]:
    """The decoder with a cache, if the model was uploaded with one that can be used; else the plain
    one, and why a cache that is there is not used. version: path of the version's file.
    """
    assert form.cached is not None
    try:
        # Steps of one token hold little memory, and a tenth of the time is allocating it anew.
        session = open_session(_joined(form.cached, version), threads=threads)
        cached = Decoder(session, form)
        if not cached.has_cache:
            return plain, None
        if _agree(plain, cached):
            return cached, None
        return plain, "it does not compute what the version does"
    except (GraphRefused, PredictionFailed, MemoryError, *LOAD_ERRORS) as error:
        return plain, f"{error}"


def _joined(upload: str, version: str) -> bytes:
    """The uploaded graph with the version's weights, which have the names of its normal form."""
    joined = normalize(onnx.load_model(Path(upload), load_external_data=False), []).model
    trained = onnx.load_model(Path(version), load_external_data=False)
    weights = {_form(tensor): tensor for tensor in trained.graph.initializer}
    for tensor in joined.graph.initializer:
        if (weight := weights.get(_form(tensor))) is not None:
            tensor.CopyFrom(weight)
    content: bytes = joined.SerializeToString()
    return content


def _form(tensor: onnx.TensorProto) -> tuple[Any, ...]:
    return (tensor.name, tensor.data_type, *tensor.dims)


def _agree(plain: Decoder, cached: Decoder) -> bool:
    """Whether both compute the same, for texts read at once and token by token."""
    draws = np.random.default_rng(0)
    size = plain.size()
    for _ in range(PROBES):
        tokens = draws.integers(0, size, min(PROBE_TOKENS, plain.window)).tolist()
        reading = cached.read(tokens[:1], room=len(tokens))
        for token in tokens[1:]:
            reading = cached.read_on(reading, [0], [token])
        expected = plain.read(tokens, room=0).logits
        allowed = TOLERANCE * (1 + np.abs(expected).max())
        if not np.abs(reading.logits - expected).max() <= allowed:
            return False
    return True
