"""A batch that does not fit into memory takes smaller runs, also when the job is resumed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from onnx.helper import make_node
from onnx.numpy_helper import from_array
from step_models import CLASSES, compiled, model_of

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="RLIMIT_DATA counts mappings on Linux alone"
)
SIDE, WIDTH, BATCH = 256, 16, 8
JOB = dedent(
    """
    import hashlib, resource, sys
    from pathlib import Path
    import numpy as np
    from service.training.engines.manifest import Files
    from service.training.engines.sessions.engine import SessionsEngine
    from service.training.optimizer.options import OptimizerOptions

    folder, checkpoint, room_mib = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    rng = np.random.default_rng(0)
    x = rng.standard_normal((%d, 3, %d, %d)).astype(np.float32)
    labels = rng.integers(0, %d, len(x))
    start = Path(checkpoint) if checkpoint else None
    adamw = OptimizerOptions()
    engine = SessionsEngine(
        Files.below(folder), threads=1, optimizer_options=adamw, checkpoint=start
    )
    if room_mib:
        lines = Path("/proc/self/status").read_text().splitlines()
        (used_kib,) = (int(line.split()[1]) for line in lines if line.startswith("VmData"))
        limit = (used_kib << 10) + (room_mib << 20)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
    for step in (1, 2):
        print(engine.train_batch([x], labels))
        engine.step(1e-3)
        engine.save(folder / f"step{step}")
    print(engine.evaluate([x], labels)[0], engine._state.rows)
    """
) % (BATCH, SIDE, SIDE, CLASSES)


def run(folder: Path, *, checkpoint: str = "", room_mib: int = 0) -> list[str]:
    """What a process of its own says of two steps. room_mib: more than is used before, 0: any."""
    command = [sys.executable, "-c", JOB, str(folder), checkpoint, str(room_mib)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


def test_a_job_trains_in_runs_that_fit_and_resumes_with_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    nodes, weights, last, channels = [], [], "x", 3
    for number in range(3):
        sizes = (WIDTH, channels, 3, 3)
        weight = (rng.standard_normal(sizes) * 0.1).astype(np.float32)
        weights.append(from_array(weight, f"w{number}"))
        nodes.append(make_node("Conv", [last, f"w{number}"], [f"c{number}"], pads=[1] * 4))
        nodes.append(make_node("Tanh", [f"c{number}"], [f"t{number}"]))
        last, channels = f"t{number}", WIDTH
    head = rng.standard_normal((WIDTH, CLASSES)).astype(np.float32)
    nodes.append(make_node("GlobalAveragePool", [last], ["p"]))
    nodes.append(make_node("Flatten", ["p"], ["f"]))
    nodes.append(make_node("MatMul", ["f", "head"], ["logits"]))
    weights.append(from_array(head, "head"))
    shapes = {"x": ["batch", 3, SIDE, SIDE]}
    model = model_of(nodes, shapes, {"logits": ["batch", CLASSES]}, weights)
    compiled(model, tmp_path)
    *free_losses, _, free_rows = run(tmp_path)
    assert free_rows == "None"
    *losses, _, rows = run(tmp_path, room_mib=130)
    assert rows in ("1", "2")
    np.testing.assert_allclose([*map(float, losses)], [*map(float, free_losses)], rtol=1e-5)
    whole = (tmp_path / "step2").read_bytes()
    first = tmp_path / "first"
    (tmp_path / "step1").rename(first)
    run(tmp_path, checkpoint=str(first))
    assert (tmp_path / "step1").read_bytes() == whole
