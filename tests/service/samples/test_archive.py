"""What an archive holds when the model's classes change while it is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stored import adopt, new_model, remove_class

from service.samples import archive
from storage.errors import StateConflict
from storage.records.samples import Split
from storage.store import Store
from storage.tables.classes import Removal

AT_ONCE = 2


def test_an_archive_ends_unfinished_when_a_class_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "SAMPLES_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(archive, "CHUNK_BYTES", 1)
    store = Store.open(tmp_path / "data")
    model = store.models.add(new_model(), adopt(store, b"base"))
    with store.samples.stage(model.id, 16) as staging:
        for value in range(2 * AT_ONCE):
            staging.add(np.full(4, value, np.float32).tobytes(), [9], split=[Split.TRAIN])
        staging.commit()
    written = archive.write_archive(store, model)
    next(written)
    remove_class(store, model, Removal(4))
    with pytest.raises(StateConflict, match="export them again"):
        list(written)
    store.close()
