"""Zips that are nearly those of a base set, sent to a real daemon."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import Served, blobs, client, mlp, wait_until

NPZ, ZIP = "application/x-npz", "application/zip"
MEBIBYTE = 2**20
LINES, DATA = "samples/000000.jsonl", "data/000000.bin"


@pytest.fixture(scope="module")
def exported(served: Served) -> bytes:
    """The archive of twenty samples."""
    served.register("exported", mlp(8, 16, 3))
    served.upload("exported", **blobs(20, 8, 3))
    return served.http.get("/v1/models/exported/samples/archive").raise_for_status().content


def parts_of(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def zipped(parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return written.getvalue()


def with_part(name: str, change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def changed(archive: bytes) -> bytes:
        parts = parts_of(archive)
        parts[name] = change(parts.get(name, b""))
        return zipped(parts)

    return changed


def with_line(**fields: Any) -> Callable[[bytes], bytes]:
    """The last sample's line with other values."""

    def changed(lines: bytes) -> bytes:
        *others, last = lines.splitlines()
        return b"\n".join([*others, json.dumps({**json.loads(last), **fields}).encode()])

    return with_part(LINES, changed)


def says_smaller(archive: bytes) -> bytes:
    """Every size in the directory is 10 bytes; what is there unpacks to 64 MiB."""
    body = bytearray(zipped({**parts_of(archive), DATA: bytes(64 * MEBIBYTE)}))
    at = -1
    while (at := body.find(b"PK\x01\x02", at + 1)) >= 0:
        body[at + 24 : at + 28] = (10).to_bytes(4, "little")
    return bytes(body)


def overlapping(archive: bytes) -> bytes:
    """All entries of the directory lead to the one that is the largest when it is unpacked."""
    names = [f"data/{number:06}.bin" for number in range(1000)]
    parts = parts_of(archive) | dict.fromkeys(names, b"") | {"data/000000.bin": bytes(MEBIBYTE)}
    body = bytearray(zipped(parts))
    with zipfile.ZipFile(io.BytesIO(body)) as opened:
        largest = opened.getinfo("data/000000.bin")
    at = -1
    while (at := body.find(b"PK\x01\x02", at + 1)) >= 0:
        body[at + 16 : at + 28] = (
            largest.CRC.to_bytes(4, "little")
            + largest.compress_size.to_bytes(4, "little")
            + largest.file_size.to_bytes(4, "little")
        )
        body[at + 42 : at + 46] = largest.header_offset.to_bytes(4, "little")
    return bytes(body)


def flipped(archive: bytes) -> bytes:
    """A byte of a sample, with the checksum of the zip as it was."""
    body = bytearray(zipped(parts_of(archive), zipfile.ZIP_STORED))
    body[body.index(DATA.encode()) + len(DATA) + 5] ^= 1
    return bytes(body)


ARCHIVES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "cut short": (lambda it: it[:-30], "not a zip file"),
    "a byte flipped": (flipped, "Bad CRC-32"),
    "sizes that lie": (says_smaller, "Bad CRC-32"),
    "entries that share their bytes": (overlapping, "differ"),
    "a thousand zeros for each byte": (
        with_part(DATA, lambda _: bytes(200 * MEBIBYTE)),
        "not those that were exported",
    ),
    "another manifest": (with_part("manifest.json", lambda _: b"[]" * 1000), "manifest.json"),
    "a manifest of lists": (
        with_part("manifest.json", lambda _: b"[" + b"[]," * 5 * MEBIBYTE + b"[]]"),
        "of memory",
    ),
    "an end of lists": (
        with_part("end.json", lambda _: b"[" + b"[]," * 5 * MEBIBYTE + b"[]]"),
        "of memory",
    ),
    "one chunk too many": (with_part("end.json", lambda _: b'{"chunks": 2}'), "it is missing"),
    "chunks without end": (with_part("end.json", lambda _: b'{"chunks": 1e999}'), "chunks"),
    "no data": (with_part(DATA, lambda _: b""), "not those that were exported"),
    "more data": (with_part(DATA, lambda it: it + b"x"), "its samples have"),
    "a line without end": (with_part(LINES, lambda _: b" " * 8 * MEBIBYTE), "it is longer"),
    "a length without end": (with_line(length=10**30), "the most is"),
    "a negative length": (with_line(length=-1), "'length' is -1"),
    "another digest": (with_line(sha256="0" * 64), "not those that were exported"),
    "no label": (with_line(label=None), "has no label"),
    "a label too large": (with_line(label=2**70), "64 bits"),
    "a label that is a list": (with_line(label=[[0]]), "label has shape [1, 1]"),
    "a key of many bytes": (with_line(key="k" * 100_000), "key"),
    "a key that cannot be printed": (with_line(key="\ud800"), "not JSON"),
    "a split of another": (with_line(split="../base"), "'split' is"),
    "a weight that is no number": (with_line(weight=float("nan")), "a finite float32"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_that_is_nearly_one_is_refused_and_leaves_nothing(
    served: Served, exported: bytes, kind: str
) -> None:
    make, said = ARCHIVES[kind]
    refused(served, make(exported), ZIP, said)


def array(values: Any, *, version: tuple[int, int] | None = None) -> bytes:
    written = io.BytesIO()
    np.lib.format.write_array(written, np.asarray(values), version=version, allow_pickle=True)
    return written.getvalue()


def header(text: str, data: bytes = b"") -> bytes:
    """An array whose header says what numpy would not write."""
    told = text.encode()
    return b"\x93NUMPY\x01\x00" + len(told).to_bytes(2, "little") + told + data


X, LABEL = array(np.zeros((3, 8), np.float32)), array(np.zeros(3, np.int64))
SHAPED = "{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}"
ARRAYS: dict[str, dict[str, bytes]] = {
    "pickled": {"x": X, "label": array(np.array([{}, {}, {}], dtype=object))},
    "a shape without end": {"x": header(SHAPED.format("<f4", False, (2**62, 8))), "label": LABEL},
    "a negative shape": {"x": header(SHAPED.format("<f4", False, (-3, 8))), "label": LABEL},
    "rows without bytes": {"x": header(SHAPED.format("<f4", False, (10**18, 0))), "label": LABEL},
    "axes without end": {"x": header(SHAPED.format("<f4", False, (1,) * 2000)), "label": LABEL},
    "a program for a header": {"x": header("__import__('os').abort()"), "label": LABEL},
    "a header deep in brackets": {"x": header("(" * 60_000), "label": LABEL},
    "texts for numbers": {"x": array(np.full((3, 8), "a" * 4000)), "label": LABEL},
    "fewer labels": {"x": X, "label": array(np.zeros(2, np.int64))},
    "other axes": {"x": array(np.zeros((3, 8, 1, 1), np.float32)), "label": LABEL},
    "not finite": {"x": array(np.full((3, 8), np.nan, np.float32)), "label": LABEL},
    "labels of no class": {"x": X, "label": array(np.full(3, 2**62))},
    "version 3": {"x": array(np.zeros((3, 8), np.float32), version=(3, 0)), "label": LABEL},
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_that_are_nearly_some_are_refused_and_leave_nothing(
    served: Served, exported: bytes, kind: str
) -> None:
    assert exported
    body = zipped({f"{name}.npy": content for name, content in ARRAYS[kind].items()})
    refused(served, body, NPZ)


def refused(served: Served, body: bytes, media_type: str, said: str = "") -> None:
    """By name, without a trace, and the daemon takes the next one."""
    if all(entry["name"] != "taking" for entry in served.http.get("/v1/models").json()["items"]):
        served.register("taking", mlp(8, 16, 3))
    path, headers = "/v1/models/taking/base-set", {"Content-Type": media_type}
    answer = served.http.post(path, content=body, headers=headers)
    assert 400 <= answer.status_code < 500, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 10_000
    assert said in answer.text, answer.text
    assert served.http.get(path).json()["samples"] == 0
    tmp = served.data_dir / "tmp"
    wait_until(lambda: not list(tmp.iterdir()), "the upload to be deleted")
    with client(served.url, token=served.token) as other:
        assert other.get("/readyz").status_code == 200
