"""The uploaded graph with cached keys and values computes a version, or is not used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from decoders import decoder
from msgspec.structs import replace
from onnx import numpy_helper

from service.completion.caching import with_cache
from service.completion.decoder import Decoder
from service.completion.messages import Completing
from service.training.engines.runtime import open_session
from service.training.forward.load import load

TEXT = [3, 5, 7, 9, 11, 13]
FORM = Completing(
    tokenizer="", ids="input_ids", feeds={}, max_tokens=64, special_tokens=True, output="logits"
)


@pytest.fixture
def uploaded(tmp_path: Path) -> Path:
    path = tmp_path / "upload.onnx"
    path.write_bytes(decoder(50, cached=True, seed=1))
    return path


def saved(model: onnx.ModelProto, path: Path) -> Path:
    onnx.save_model(model, path)
    return path


def trained(uploaded: Path) -> onnx.ModelProto:
    """What a job would make of it: no caches, and other weights."""
    model = load(uploaded)
    for tensor in model.graph.initializer:
        if tensor.name in ("q0", "up1", "tokens"):
            moved = numpy_helper.to_array(tensor) * np.float32(1.25)
            tensor.CopyFrom(numpy_helper.from_array(moved, tensor.name))
    return model


def opened(version: Path, uploaded: Path | None) -> tuple[Decoder, Decoder]:
    """The version's own decoder, and that with a cache, if it may be used."""
    plain = Decoder(open_session(version, threads=1, arena=False), FORM)
    form = replace(FORM, cached=str(uploaded))
    return plain, with_cache(plain, form, version=str(version), threads=1)[0]


def test_training_sees_a_decoder_without_its_cache(uploaded: Path, tmp_path: Path) -> None:
    model = load(uploaded)
    assert [value.name for value in model.graph.input] == ["input_ids"]
    assert [value.name for value in model.graph.output] == ["logits"]
    session = open_session(saved(model, tmp_path / "plain.onnx"), threads=1)
    other = open_session(decoder(50, seed=1), threads=1)
    texts = np.random.default_rng(0).integers(0, 50, (3, 7))
    found, expected = (each.run(None, {"input_ids": texts})[0] for each in (session, other))
    assert np.allclose(found, expected, atol=1e-5)


def test_a_version_is_computed_with_the_cache_of_the_upload(uploaded: Path, tmp_path: Path) -> None:
    plain, cached = opened(saved(trained(uploaded), tmp_path / "version.onnx"), uploaded)
    assert (plain.has_cache, cached.has_cache) == (False, True)
    some, others = cached.read(TEXT, room=9), plain.read(TEXT, room=9)
    for token in (4, 6, 8):
        assert np.allclose(some.logits, others.logits, atol=1e-3)
        some, others = cached.read_on(some, [0], [token]), plain.read_on(others, [0], [token])


@pytest.mark.parametrize("broken", ["another weight", "no cache", "no model"])
def test_a_cache_that_computes_something_else_is_not_used(
    uploaded: Path, tmp_path: Path, broken: str
) -> None:
    model: Any = trained(uploaded)
    if broken == "another weight":  # one that the version has in another form
        weight = next(each for each in model.graph.initializer if each.name == "q0")
        weight.name = "q0/other"
        (reader,) = (node for node in model.graph.node if "q0" in node.input)
        reader.input[1] = "q0/other"
    elif broken == "no cache":
        uploaded.write_bytes(decoder(50))
    else:
        uploaded.write_bytes(decoder(50, cached=True, mask=True))
    plain, used = opened(saved(model, tmp_path / "version.onnx"), uploaded)
    assert used is plain
