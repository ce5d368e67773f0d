"""Which samples are in a model's reference set, for the training child: no thread, no writer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def read_reference_ids(database: Path, *, model_id: int) -> NDArray[np.int64]:
    """Ids of the frozen samples, rising, those that no longer count among them."""
    with closing(
        sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    ) as connection:
        rows = connection.execute(
            "SELECT sample_id FROM reference_samples WHERE model_id = ? ORDER BY sample_id",
            (model_id,),
        ).fetchall()
    return np.array([sample_id for (sample_id,) in rows], np.int64)
