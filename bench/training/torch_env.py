"""PyTorch, installed only for the comparison, in a separate environment."""

from __future__ import annotations

from bench.environment import Environment

TORCH = Environment(
    folder=".venv-bench",
    variable="BENCH_TORCH_PYTHON",
    packages=("torch==2.13.0", "onnx>=1.21,<1.24", "numpy>=1.26,<3"),
)
python = TORCH.python
