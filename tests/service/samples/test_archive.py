"""What an archive holds when classes change while it is written, or samples cannot be read."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from stored import adopt, new_model, remove_class

from service.errors import InvalidInput
from service.samples import archive
from service.samples.ingest.intake import UploadOptions
from storage.errors import StateConflict
from storage.records.models import Model
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


@pytest.mark.skipif(os.name == "nt", reason="a folder of Windows is like an empty file")
def test_samples_that_the_disk_refuses_to_read_are_listed(
    store: Store, model: Model, tmp_path: Path
) -> None:
    with store.samples.stage(model.id, 16) as staging:
        staging.add(bytes(16) * 3, [1, 2, 3], key=["a", None, "c"])
        staging.commit()
    pack = store.packs_dir / str(model.id) / "1.pack"
    pack.unlink()
    pack.mkdir(mode=0o700)  # which can be opened as little as a file on a broken disk
    path = tmp_path / "archive.zip"
    path.write_bytes(b"".join(archive.write_archive(store, model)))
    pack.rmdir()

    result = archive.read_archive(store, model, path, UploadOptions(), max_bytes=2**20)

    assert (result.accepted, result.rejected) == (0, 3)
    assert [problem.pointer for problem in result.problems] == [
        f"/damaged/000000.jsonl/{line}" for line in (1, 2, 3)
    ]
    assert "without it (key 'a'): sample 1: its bytes cannot be read" in result.problems[0].detail

    with zipfile.ZipFile(path) as old:
        entries = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(path, "w") as new:
        for name, content in entries.items():
            new.writestr(name, b"[1]\n" if name.startswith("damaged/") else content)
    with pytest.raises(InvalidInput) as refused:
        archive.read_archive(store, model, path, UploadOptions(), max_bytes=2**20)
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.detail) == (
        "/damaged/000000.jsonl/1",
        "not a sample: an object with key, reason",
    )
