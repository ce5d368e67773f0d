"""Asking a daemon for predictions."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
from support import Served

X = np.random.default_rng(3).standard_normal((5, 8)).astype(np.float32)
"""Five samples of eight features."""


def ask(served: Served, name: str, *rows: np.ndarray, **query: Any) -> httpx.Response:
    body: dict[str, Any] = {"instances": [{"inputs": {"x": row.tolist()}} for row in rows]}
    return served.http.post(f"/v1/models/{name}/predict", json=body, params=query)
