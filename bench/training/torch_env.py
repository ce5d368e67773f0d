"""PyTorch, installed only for the comparison, in a separate environment."""

from __future__ import annotations

from bench.environment import Environment

TORCH = Environment(
    folder=".venv-bench",
    variable="BENCH_TORCH_PYTHON",
    packages=("torch==2.13.0", "onnx>=1.21,<1.24", "numpy>=1.26,<3"),
)
ZOO = Environment(
    folder=".venv-architectures",
    variable="BENCH_ZOO_PYTHON",
    packages=("torch==2.13.0", "-r", "tests/zoo/requirements.txt"),
    bare=("timm==1.0.31", "torchvision==0.28.0"),
)
"""With the libraries whose networks are trained; that of `make zoo` has the same."""
python = TORCH.python
