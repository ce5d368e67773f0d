"""A version's adapters beside their base, through the adapter API of ONNX Runtime where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from quantized import CLASSES, FEATURES, STORED, network
from support import Served, mlp

HAS_ADAPTERS = hasattr(onnxruntime, "AdapterFormat")
LORA = {"lora": {"rank": 2, "alpha": 4, "targets": ["*.w"]}}


def trained(served: Served, stored: str, name: str, trainable: object = LORA) -> tuple[str, Any]:
    """A model of two versions, and inputs."""
    model, _ = network(STORED[stored])
    served.register(name, model.SerializeToString(), trainable=trainable, gate={"mode": "always"})
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, FEATURES)).astype(np.float32)
    label = rng.integers(0, CLASSES, 60)
    served.upload(name, split="train", x=x, label=label).raise_for_status()
    for seed in (1, 2):
        served.train(name, epochs=4, batch_size=8, learning_rate=0.02, seed=seed)
    return f"/v1/models/{name}/versions", x[:8]


def fetch(served: Served, url: str, variant: str | None = None) -> bytes:
    answer = served.http.get(f"{url}/model.onnx", params={"variant": variant} if variant else {})
    assert answer.status_code == 200, answer.text
    return answer.content


def answers(content: bytes, x: Any, adapter: Path | None = None) -> Any:
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    options, held = onnxruntime.RunOptions(), None
    if adapter is not None:
        held = onnxruntime.LoraAdapter()
        held.Load(str(adapter))
        options.add_active_adapter(held)
    return session.run(["logits"], {"x": x}, options)[0]


@pytest.mark.parametrize("stored", ["float32", "int8", "int4"])
def test_an_adaptable_model_answers_as_its_version_and_takes_what_trains_as_inputs(
    stored: str, served: Served
) -> None:
    url, x = trained(served, stored, f"adaptable-{stored}")
    for number in (1, 2, 3):
        content = fetch(served, f"{url}/{number}", "adaptable")
        plain = fetch(served, f"{url}/{number}")
        assert np.allclose(answers(content, x), answers(plain, x), atol=1e-4)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == ["x"]
    optional = {each.name: each.shape for each in session.get_overridable_initializers()}
    assert {name.rpartition(":")[0] for name in optional} == {
        f"{name}.lora_{letter}" for name in ("attn.w", "mlp.w", "head.w") for letter in "AB"
    }
    zeros = {name: np.zeros(shape, np.float32) for name, shape in optional.items()}
    base = answers(fetch(served, f"{url}/1"), x)
    assert np.allclose(session.run(["logits"], {"x": x, **zeros})[0], base, atol=1e-4)
    assert not np.allclose(answers(content, x), base, atol=1e-4)


@pytest.mark.skipif(not HAS_ADAPTERS, reason="this onnxruntime is older than adapters, 1.20")
@pytest.mark.parametrize("stored", ["float32", "int8"])
def test_several_adapters_answer_side_by_side_on_one_base(
    stored: str, served: Served, tmp_path: Path
) -> None:
    url, x = trained(served, stored, f"adapter-{stored}")
    base = fetch(served, f"{url}/1", "adaptable")
    for number in (2, 3):
        adapter = tmp_path / f"{number}.onnx_adapter"
        adapter.write_bytes(fetch(served, f"{url}/{number}", "adapter"))
        assert adapter.stat().st_size < 6_000
        expected = answers(fetch(served, f"{url}/{number}"), x)
        assert np.allclose(answers(base, x, adapter), expected, atol=1e-4)
    assert np.allclose(answers(base, x), answers(fetch(served, f"{url}/1"), x), atol=1e-4)


@pytest.mark.skipif(not HAS_ADAPTERS, reason="this onnxruntime is older than adapters, 1.20")
def test_the_runtime_refuses_an_adapter_of_another_base(served: Served, tmp_path: Path) -> None:
    url, x = trained(served, "float32", "one-base")
    other, _ = trained(served, "int8", "other-base")
    adapter = tmp_path / "a.onnx_adapter"
    adapter.write_bytes(fetch(served, f"{other}/2", "adapter"))
    with pytest.raises(Exception, match=r"lora_[AB]:"):
        answers(fetch(served, f"{url}/1", "adaptable"), x, adapter)


@pytest.mark.skipif(HAS_ADAPTERS, reason="this onnxruntime has adapters")
def test_a_runtime_without_adapters_refuses_the_variant_and_says_why(served: Served) -> None:
    url, _ = trained(served, "int8", "too-old")
    answer = served.http.get(f"{url}/2/model.onnx", params={"variant": "adapter"})
    assert answer.status_code == 409, answer.text
    assert answer.json()["code"] == "variant_refused"
    assert "1.20" in answer.json()["detail"]
    assert "adaptable" in answer.json()["detail"]


def test_a_model_without_adapters_has_no_such_form(served: Served) -> None:
    served.register("whole", mlp(FEATURES, 8, CLASSES), gate={"mode": "always"})
    answer = served.http.get(
        "/v1/models/whole/versions/1/model.onnx", params={"variant": "adaptable"}
    )
    assert answer.status_code == 409, answer.text
    assert "trainable.lora" in answer.json()["detail"]


def test_a_version_with_more_than_its_adapters_is_refused(served: Served) -> None:
    below = {"lora": {"rank": 2, "targets": ["mlp.w"]}}
    url, _ = trained(served, "float32", "neighbours", ["head.w", below])
    job = served.train("neighbours", head={"kind": "knn", "k": 3})
    answer = served.http.get(f"{url}/{job['version']}/model.onnx", params={"variant": "adaptable"})
    assert answer.status_code == 409, answer.text
    assert "neighbours" in answer.json()["detail"]
