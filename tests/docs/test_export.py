"""docs/export.md: each program writes a model that trains, where its library is installed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from programs import interpreter, printed
from support import Served

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text("utf-8")
PROGRAMS = re.findall(r"<!-- needs: ([\w ]+) -->\n```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_has_a_program_for_each_library() -> None:
    needed = [needs for needs, _ in PROGRAMS]
    assert needed == ["torch onnxscript", "torch", "tensorflow tf2onnx", "sklearn skl2onnx"]
    assert PAGE.count("```python") == len(PROGRAMS)


@pytest.mark.parametrize("at", range(len(PROGRAMS)), ids=[needs for needs, _ in PROGRAMS])
def test_what_a_program_writes_trains(
    serve: Callable[..., Served], at: int, tmp_path: Path
) -> None:
    needed, program = PROGRAMS[at]
    printed(interpreter(needed), "-W", "ignore", "-c", program, cwd=tmp_path)
    served, model = serve(), (tmp_path / "model.onnx").read_bytes()
    for name, trainable in (("whole", None), ("head", ["last:1"])):
        spec = {"trainable": trainable} if trainable else {}
        registered = served.register(name, model, **spec)
        shape = registered["inputs"][0]["shape"]
        generator = np.random.default_rng(0)
        image = generator.random((40, *shape), dtype=np.float32)
        added = served.upload(
            name, **{registered["inputs"][0]["name"]: image}, label=np.arange(40) % 10
        )
        assert added.status_code == 201, added.text
        job = served.train(name, max_steps=3)
        assert np.isfinite(job["metrics"]["train_loss"])
    counts = [
        served.http.get(f"/v1/models/{name}").json()["parameters"] for name in ("whole", "head")
    ]
    assert counts[0]["frozen"] == 0
    assert 0 < counts[1]["trainable"] < counts[0]["trainable"]
