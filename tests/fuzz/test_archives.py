"""Whatever is sent as artifacts or restored as a backup is taken, or refused with a reason."""

from __future__ import annotations

import io
import json
import shutil
import zipfile
from hashlib import sha256
from pathlib import Path
from random import Random

import pytest
from backups import back_up, fill, put_back
from hostile import RANDOM, as_body, changed, damaged, flip, odd_text, one_of, raw, text, zipped
from hypothesis import given, settings
from support import mlp

from service.training.engines.ort_training.bundle import unpack
from service.training.errors import GraphRefused
from storage.errors import HoneError

FUZZ = settings.get_profile("fuzz")
ARTIFACTS = ["training_model.onnx", "eval_model.onnx", "optimizer_model.onnx", "checkpoint"]
ODD_NAMES = ["../checkpoint", "/checkpoint", "a/checkpoint", "c:checkpoint", "checkpoint/", "é"]
MANIFEST = "manifest.json"
GOOD = mlp(3, 4, 2)

member = one_of(lambda r: damaged(r, GOOD), raw, lambda r: bytes(r.randint(0, 10**6)))
some_entries = zipped([*ARTIFACTS, *ODD_NAMES], member)


def all_entries(r: Random) -> bytes:
    """The four artifacts, in a zip of which little is wrong."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ARTIFACTS:
            archive.writestr(name, raw(r))
    return damaged(r, buffer.getvalue())


@FUZZ
@given(r=RANDOM)
def test_artifacts(body_path: Path, r: Random) -> None:
    folder = body_path.with_name("artifacts")
    shutil.rmtree(folder, ignore_errors=True)
    body_path.write_bytes(one_of(some_entries, all_entries, raw)(r))
    try:
        unpack(body_path, folder, ARTIFACTS)
    except GraphRefused as refused:
        json.dumps([refused.detail, *(problem.detail for problem in refused.problems)]).encode()
    else:
        assert {path.name for path in folder.iterdir()} >= set(ARTIFACTS)
    assert not body_path.with_name("checkpoint").exists()


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    data_dir = tmp_path_factory.mktemp("backup") / "data"
    fill(data_dir, "m", 3)
    return back_up(data_dir)


def rewritten(r: Random, backup: bytes) -> bytes:
    """A backup whose manifest agrees with what is in it, or is itself changed."""
    with zipfile.ZipFile(io.BytesIO(backup)) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(contents.pop(MANIFEST))
    if flip(r):
        manifest = changed(r, manifest)
    else:
        name = r.choice(list(contents))
        contents[name] = damaged(r, contents[name])
        if flip(r):
            contents[one_of(text, odd_text)(r)] = raw(r)
        for entry in manifest["files"]:
            content = contents[entry["name"]]
            entry |= {"size_bytes": len(content), "sha256": sha256(content).hexdigest()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name.encode(errors="replace").decode()), content)
        archive.writestr(MANIFEST, as_body(manifest), r.choice((0, 0, 0, 8, 12, 14)))
    return damaged(r, buffer.getvalue()) if r.random() < 0.3 else buffer.getvalue()


@FUZZ
@given(r=RANDOM)
def test_a_backup(body_path: Path, backup: bytes, r: Random) -> None:
    data_dir = body_path.with_name("restored")
    sent = rewritten(r, backup) if r.random() < 0.7 else damaged(r, backup)
    try:
        put_back(sent, data_dir)
    except HoneError as error:
        json.dumps([error.detail, *(problem.detail for problem in error.problems)]).encode()
        is_there = (data_dir / "hone.db").exists()
    else:
        is_there = False
    assert not is_there, "of a backup that was refused"
    shutil.rmtree(data_dir, ignore_errors=True)
