"""Hostile uploads cost no more than their bytes do: linear in time, bounded in memory."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from service.errors import InvalidInput, TooLarge
from service.samples.ingest.csv_header import read_header
from service.samples.ingest.csv_upload import store_csv
from service.samples.ingest.files import read_about
from service.samples.ingest.intake import UploadOptions
from service.samples.ingest.json_upload import store_json
from service.samples.ingest.npz import open_npz
from service.samples.ingest.npz_upload import store_npz
from service.samples.updates import class_index
from storage.errors import StorageBroken
from storage.records.models import Model
from storage.store import Store

MAX_BYTES = 2**31


@pytest.mark.parametrize("form", ["x[{}]", "column {}"])
def test_a_header_of_many_columns_is_read_in_linear_time(model: Model, form: str) -> None:
    names = [form.format(at) for at in range(50_000)]
    began = time.process_time()
    with pytest.raises(InvalidInput):
        read_header(model, names, csv_columns={})
    with pytest.raises(InvalidInput, match="cannot be read") as refused:
        read_header(model, [*names, names[-1]], csv_columns={})
    assert "two columns" in refused.value.problems[0].detail
    assert time.process_time() - began < 2


def test_a_line_longer_than_any_sample_is_refused_before_it_is_whole(
    store: Store, model: Model, tmp_path: Path
) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(b"a,b,c,d\n" + b'"1\n",' * 2_000_000)
    with pytest.raises(InvalidInput) as refused:
        store_csv(store, model, path, UploadOptions())
    assert "a row has at most" in refused.value.problems[0].detail


def npz_with_header(header: str) -> io.BytesIO:
    body = io.BytesIO()
    text = header.encode() + b"\n"
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    body.seek(0)
    return body


@pytest.mark.parametrize(
    "said",
    [
        "'descr': '<U400000000', 'fortran_order': False, 'shape': (0,)",
        "'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,)",
        "'descr': '<f4', 'fortran_order': False, 'shape': (-1, 3)",
        "'descr': '<f4', 'fortran_order': True, 'shape': (-1, 3)",
        "'descr': '<f4', 'fortran_order': False, 'shape': (True, 3)",
        "'descr': '<f4', 'fortran_order': False, 'shape': (0x3, 3)",
        f"'descr': '<f4', 'fortran_order': False, 'shape': (0, {'1, ' * 70})",
        "'descr': '<f4', 'fortran_order': False, 'shape': (0, 1000000000000, 1000000000000)",
        "'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)",
        "'descr': '<f4', 'fortran_order': False, 'shape': ((((",
    ],
)
def test_a_header_that_numpy_would_stumble_over_is_refused(said: str) -> None:
    with (
        pytest.raises(InvalidInput, match="cannot be used"),
        open_npz(npz_with_header(f"{{{said}, }}"), max_bytes=MAX_BYTES),
    ):
        pass


def test_keys_whose_characters_are_none_are_refused(
    store: Store, model: Model, tmp_path: Path
) -> None:
    path = tmp_path / "keys.npz"
    keys = np.array([0x110000, 0xD800], np.uint32).view("<U1")
    np.savez(path, x=np.ones((2, 4), np.float32), key=keys)
    with pytest.raises(InvalidInput) as refused:
        store_npz(store, model, path, UploadOptions(), max_bytes=MAX_BYTES)
    assert len(refused.value.problems) == 2


@pytest.mark.parametrize("depth", [5_000, 200_000])
def test_json_that_is_nested_without_end_is_refused(store: Store, model: Model, depth: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        store_json(store, model, b"[" * depth, UploadOptions())
    assert "too deeply" in refused.value.problems[0].detail
    with pytest.raises(InvalidInput):
        class_index(model, "[" * depth)
    with pytest.raises(InvalidInput):
        read_about("[" * depth, ["a.png"], defaults={})


def npz_packed(method: int) -> bytearray:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", method) as archive:
        archive.writestr("x.npy", npz_header_and_data())
    return bytearray(body.getvalue())


def npz_header_and_data() -> bytes:
    array = io.BytesIO()
    np.save(array, np.ones((2, 4), np.float32))
    return array.getvalue()


def before_the_beginning(body: bytearray) -> bytearray:
    """The directory says that the entry lies where a seek would be to a negative place."""
    at = body.rindex(b"PK\x05\x06")
    body[at + 16 : at + 20] = (2**31).to_bytes(4, "little")
    return body


def of_no_encoding(body: bytearray) -> bytearray:
    """The entry's name is said to be UTF-8, and is not."""
    for at, flags in ((body.index(b"PK\x03\x04"), 6), (body.index(b"PK\x01\x02"), 8)):
        body[at + flags + 1] |= 0x08
    return bytearray(bytes(body).replace(b"x.npy", b"\xff.npy"))


@pytest.mark.parametrize(
    "body",
    [
        npz_packed(zipfile.ZIP_LZMA),
        npz_packed(zipfile.ZIP_BZIP2),
        before_the_beginning(npz_packed(zipfile.ZIP_STORED)),
        of_no_encoding(npz_packed(zipfile.ZIP_STORED)),
    ],
    ids=["lzma", "bzip2", "negative seek", "name of no encoding"],
)
def test_a_zip_that_zipfile_would_stumble_over_is_refused(body: bytearray) -> None:
    with pytest.raises(InvalidInput), open_npz(io.BytesIO(body), max_bytes=MAX_BYTES):
        pass


def test_a_zip_of_very_many_entries_is_refused_before_they_are_listed(tmp_path: Path) -> None:
    entry = b"PK\x01\x02" + bytes(42)
    directory = entry * 600_000
    sizes = len(directory).to_bytes(4, "little") + bytes(4)
    path = tmp_path / "many.npz"
    path.write_bytes(directory + b"PK\x05\x06" + bytes(4) + b"\xff" * 4 + sizes + bytes(2))
    with pytest.raises(TooLarge, match="directory"), open_npz(path, max_bytes=MAX_BYTES):
        pass


def test_a_disk_that_cannot_be_read_is_no_fault_of_a_csv(store: Store, model: Model) -> None:
    unreadable = Path("/proc/self/mem")  # opens, and gives EIO when its beginning is read
    with pytest.raises(StorageBroken):
        store_csv(store, model, unreadable, UploadOptions())


def test_a_disk_that_cannot_be_read_is_no_fault_of_an_npz(tmp_path: Path) -> None:
    path = tmp_path / "whole.npz"
    np.savez(path, x=np.ones((2, 4), np.float32))
    unreadable = path.open("ab")  # seeks, and gives an error when it is read
    with pytest.raises(StorageBroken), open_npz(unreadable, max_bytes=MAX_BYTES):
        pass


def test_a_file_that_cannot_be_opened_is_no_fault_of_an_npz(
    store: Store, model: Model, tmp_path: Path
) -> None:
    with pytest.raises(StorageBroken):
        store_npz(store, model, tmp_path, UploadOptions(), max_bytes=MAX_BYTES)
