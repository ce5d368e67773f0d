"""Archives whose lines outweigh their records: long labels, many small samples."""

from __future__ import annotations

import io
import zipfile

import httpx
import numpy as np
import pytest
from support import Served, mlp

from service.samples.archive import CHUNK_BYTES

SAMPLES, VALUES = 250, 4096


@pytest.fixture(scope="module")
def exported(served: Served) -> bytes:
    """250 samples with labels of 4,096 numbers: over 16 MiB of lines, under 4 MiB of records."""
    served.register("long-labels", mlp(4, VALUES), loss="mse")
    generator = np.random.default_rng(0)
    answer = served.upload(
        "long-labels",
        x=generator.standard_normal((SAMPLES, 4)).astype(np.float32),
        label=generator.standard_normal((SAMPLES, VALUES)).astype(np.float32),
        key=np.array([f"app-{n}" for n in range(SAMPLES)]),
    )
    assert answer.status_code == 201, answer.text
    return served.http.get("/v1/models/long-labels/samples/archive").content


@pytest.fixture(scope="module")
def expected(served: Served, exported: bytes) -> list[tuple[str, str]]:
    """What the archive holds."""
    return hashes(served, "long-labels")


def send(served: Served, model: str, body: bytes) -> httpx.Response:
    served.register(model, mlp(4, VALUES), loss="mse")
    return served.http.post(
        f"/v1/models/{model}/samples/archive",
        content=body,
        headers={"Content-Type": "application/zip"},
    )


def hashes(served: Served, model: str) -> list[tuple[str, str]]:
    page = served.http.get(f"/v1/models/{model}/samples", params={"limit": 1000}).json()
    return [(each["key"], each["sha256"], each["label"], each["split"]) for each in page["items"]]


def test_an_archive_of_long_labels_comes_back_whole(
    served: Served, exported: bytes, expected: list[tuple[str, str]]
) -> None:
    answer = send(served, "long-labels-again", exported)

    assert answer.status_code == 201, answer.text
    assert answer.json()["accepted"] == SAMPLES
    assert hashes(served, "long-labels-again") == expected
    with zipfile.ZipFile(io.BytesIO(exported)) as archive:
        sizes = [each.file_size for each in archive.infolist() if each.filename[0] == "s"]
    assert len(sizes) > 4
    assert max(sizes) < 2 * CHUNK_BYTES


@pytest.mark.parametrize("lost", [0, 2, -1], ids=["first", "middle", "last"])
def test_an_archive_that_lacks_a_chunk_is_refused(
    served: Served, exported: bytes, lost: int
) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(exported)) as old, zipfile.ZipFile(buffer, "w") as new:
        chunks = sorted(name[8:14] for name in old.namelist() if name.startswith("samples/"))
        for name in old.namelist():
            if chunks[lost] not in name:
                new.writestr(name, old.read(name))

    answer = send(served, f"long-label-gap-{lost + 1}", buffer.getvalue())

    assert answer.status_code == 422
    assert "missing" in answer.json()["errors"][0]["detail"]


def test_a_line_longer_than_any_sample_is_refused(served: Served, exported: bytes) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(exported)) as old, zipfile.ZipFile(buffer, "w") as new:
        new.writestr("manifest.json", old.read("manifest.json"))
        new.writestr("samples/000000.jsonl", b" " * (2 * CHUNK_BYTES), zipfile.ZIP_DEFLATED)
        new.writestr("data/000000.bin", b"")
        new.writestr("end.json", '{"chunks": 1}')

    answer = send(served, "long-line", buffer.getvalue())

    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == "/samples/000000.jsonl/1"
    assert "longer than a sample" in fault["detail"]
