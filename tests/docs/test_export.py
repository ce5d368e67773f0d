"""docs/export.md: each program writes a model that trains, where its library is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import DEADLINE_S, Served

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text("utf-8")
PROGRAMS = re.findall(r"<!-- needs: ([\w ]+) -->\n```python\n(.*?)```", PAGE, re.DOTALL)
INTERPRETERS = [
    sys.executable,
    *filter(None, os.environ.get("EXPORT_PYTHONS", "").split(os.pathsep)),
]
"""$EXPORT_PYTHONS names interpreters of environments that have what ours has not."""


def interpreter(needed: str) -> str:
    """One that has these modules; skips the test if there is none."""
    program = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
    for each in INTERPRETERS:
        command = [each, "-c", program, *needed.split()]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return each
    pytest.skip(f"no interpreter has {needed}; name one in EXPORT_PYTHONS")


def test_the_page_has_a_program_for_each_library() -> None:
    needed = [needs for needs, _ in PROGRAMS]
    assert needed == ["torch onnxscript", "torch", "tensorflow tf2onnx", "sklearn skl2onnx"]
    assert PAGE.count("```python") == len(PROGRAMS)


@pytest.mark.parametrize("at", range(len(PROGRAMS)), ids=[needs for needs, _ in PROGRAMS])
def test_what_a_program_writes_trains(
    serve: Callable[..., Served], at: int, tmp_path: Path
) -> None:
    needed, program = PROGRAMS[at]
    command = [interpreter(needed), "-W", "ignore", "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=5 * DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
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
