"""Archives of a model whose samples are damaged: exported without them, and imported."""

from __future__ import annotations

import io
import json
import stat
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.client import Client, model_path
from cli.demo.daemon import DaemonProcess

SAMPLES, RECORD_BYTES = 5, 64 * 4


@pytest.fixture
def damaged(daemon: DaemonProcess, client: Client, add_model: Callable[..., str]) -> str:
    """A model of five samples, one of which has other bytes now."""
    name = add_model(samples=SAMPLES)
    path = model_path(name, "samples")
    ids = [entry["id"] for entry in client.get(path)["items"]]
    contents = [client.request("GET", f"{path}/{each}/content").content for each in ids]
    with zipfile.ZipFile(io.BytesIO(contents[2])) as npz:
        record = npz.read("image.npy")[-RECORD_BYTES:]
    for pack in (daemon.token_file.parent / "packs").glob("*/*.pack"):
        stored = pack.read_bytes()
        if record in stored:
            pack.write_bytes(stored.replace(record, b"!" + record[1:]))
    return name


def test_a_damaged_sample_is_left_out_of_an_archive_and_listed_in_it(
    honed: Callable[..., Any],
    client: Client,
    add_model: Callable[..., str],
    damaged: str,
    tmp_path: Path,
) -> None:
    archive = tmp_path / "samples.zip"
    for _ in range(2):  # found by the first export, and known to the second
        exported = honed("archive", "export", damaged, "-o", archive)
        assert exported.stdout.endswith("; without 1 that are damaged, see damaged/ in it\n")
    if sys.platform != "win32":  # which has no such modes
        assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    with zipfile.ZipFile(archive) as opened:
        assert json.loads(opened.read("end.json")) == {"chunks": 1, "damaged": 1}
        assert len(opened.read("samples/000000.jsonl").splitlines()) == SAMPLES - 1
        (left_out,) = map(json.loads, opened.read("damaged/000000.jsonl").splitlines())
    assert left_out["key"] is None
    assert "its bytes are not those that were stored" in left_out["reason"]
    query = {"type": "samples.quarantined", "model": damaged}
    told = client.request("GET", "/v1/events/history", params=query).json()["items"]
    assert len(told) == 1

    client.request("DELETE", model_path(damaged, "samples"), params={"all": "true"})
    imported = honed("archive", "import", damaged, archive)

    assert "samples.zip: 4 accepted, 0 duplicates, 1 rejected\n" in imported.stdout
    assert "skipped /damaged/000000.jsonl/1: the archive is without it: sample" in imported.stderr
