import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from storage.blobs.cache_folder import erase_from_caches, expect_checks
from storage.blobs.row_cache import RowCache, digests_of
from storage.disk import durable


def open_cache(folder, *, key="a", row_bytes=4, max_bytes=1 << 20):
    return RowCache.open(folder, key=key, row_bytes=row_bytes, max_bytes=max_bytes)


def rows_of(*numbers):
    return np.array(numbers, np.uint8).repeat(4).reshape(-1, 4)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "7" / "tensors"


def test_rows_are_found_by_id_after_reopening(folder):
    with open_cache(folder) as cache:
        assert cache.append([5, 3], rows_of(50, 30)) == 2
        assert cache.append([9], rows_of(90)) == 1
    with open_cache(folder) as cache:
        assert cache.find([3, 4, 9, 5, 0]).tolist() == [1, -1, 2, 0, -1]
        assert cache.rows.tolist() == rows_of(50, 30, 90).tolist()


@pytest.mark.parametrize("change", [{"key": "b"}, {"row_bytes": 8}])
def test_another_key_or_row_size_makes_the_cache_anew(folder, change):
    with open_cache(folder) as cache:
        cache.append([1], rows_of(1))
    with open_cache(folder, **change) as cache:
        assert len(cache) == 0
        assert cache.find([1]).tolist() == [-1]
    assert (folder / "rows").stat().st_size == 0


def test_the_cache_takes_no_more_than_its_bound(folder):
    with open_cache(folder, max_bytes=11) as cache:
        assert cache.append([1, 2, 3], rows_of(1, 2, 3)) == 2
        assert cache.append([3], rows_of(3)) == 0
        assert cache.find([1, 2, 3]).tolist() == [0, 1, -1]


@pytest.mark.parametrize(("file", "lost"), [("entries", 3), ("entries", 16), ("rows", 1)])
def test_a_row_that_a_crash_cut_short_never_counts(folder, file, lost):
    with open_cache(folder) as cache:
        cache.append([1, 2], rows_of(1, 2))
    data = (folder / file).read_bytes()
    (folder / file).write_bytes(data[:-lost])
    with open_cache(folder) as cache:
        assert cache.find([1, 2]).tolist() == [0, -1]
        assert cache.append([2], rows_of(2)) == 1
        assert cache.rows.tolist() == rows_of(1, 2).tolist()


def test_erased_rows_are_zeros_for_a_reader_and_gone_for_the_next(folder):
    cache = open_cache(folder)
    cache.append([1, 2, 3], rows_of(1, 2, 3))
    mapped = cache.rows
    erase_from_caches(folder.parent, [2, 77])
    erase_from_caches(folder.parent, [2])
    assert mapped.tolist() == rows_of(1, 0, 3).tolist()
    assert b"\2" not in (folder / "rows").read_bytes()
    cache.close()
    with open_cache(folder) as cache:
        assert cache.find([1, 2, 3]).tolist() == [0, -1, 2]


def test_a_row_made_before_its_sample_was_erased_is_not_kept(folder):
    with open_cache(folder) as cache:
        erase_from_caches(folder.parent, [2])
        assert cache.append([1, 2, 3], rows_of(1, 2, 3)) == 3
        assert cache.find([1, 2, 3]).tolist() == [0, -1, 1]
    assert b"\2" not in (folder / "rows").read_bytes()


def test_bytes_that_a_killed_writer_left_behind_are_erased_too(folder):
    with open_cache(folder) as cache:
        cache.append([1], rows_of(1))
    with (folder / "rows").open("ab") as file:
        file.write(b"\2\2\2\2")
    erase_from_caches(folder.parent, [2])
    assert (folder / "rows").read_bytes() == b"\1\1\1\1"


def test_two_children_do_not_overwrite_each_others_rows(folder):
    first, second = open_cache(folder), open_cache(folder)
    first.append([1], rows_of(1))
    second.append([2], rows_of(2))
    first.append([3], rows_of(3))
    assert first.find([1, 2, 3]).tolist() == [0, 1, 2]
    assert first.rows.tolist() == rows_of(1, 2, 3).tolist()


def test_a_cache_opened_without_a_bound_is_only_read(folder):
    with open_cache(folder) as cache:
        cache.append([1], rows_of(1))
    with open_cache(folder, max_bytes=None) as cache:
        assert cache.append([2], rows_of(2)) == 0
        assert cache.find([1, 2]).tolist() == [0, -1]


def test_a_worn_cache_is_made_anew(folder):
    with open_cache(folder, max_bytes=16) as cache:
        cache.append([1, 2, 3, 4], rows_of(1, 2, 3, 4))
    erase_from_caches(folder.parent, [1, 2, 3])
    with open_cache(folder, max_bytes=16) as cache:
        assert cache.append([9], rows_of(9)) == 1


def test_erasing_where_there_is_no_cache_does_nothing(tmp_path):
    erase_from_caches(tmp_path / "7", [1])
    assert list(tmp_path.iterdir()) == []


def flip(path, at, bit=0):
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def scatter(path, share=0.01):
    data = np.fromfile(path, np.uint8)
    at = np.random.default_rng(1).integers(0, len(data), max(1, int(len(data) * share)))
    data[at] += 1
    data.tofile(path)


def blank(path):
    data = bytearray(path.read_bytes())
    data[4096 : 4096 + 8192] = bytes(8192)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("rows", lambda path: flip(path, 5, bit=7)),
        ("rows", scatter),
        ("rows", blank),
        ("entries", lambda path: flip(path, 0, bit=3)),
        ("entries", lambda path: flip(path, 16 * 3 + 9)),
        ("entries", scatter),
    ],
    ids=["a bit", "one percent", "8 KiB of zeros", "an id", "a digest", "many entries"],
)
def test_a_damaged_cache_is_dropped_at_its_first_use_after_a_start(folder, file, damage):
    generator = np.random.default_rng(0)
    rows = generator.integers(1, 255, (2000, 30), dtype=np.uint8)
    with open_cache(folder, row_bytes=30) as cache:
        cache.append(np.arange(1, 2001), rows)
    erase_from_caches(folder.parent, [17])
    expect_checks(folder.parent.parent)
    with open_cache(folder, row_bytes=30) as cache:
        assert cache.damage is None
        assert len(cache) == 2000

    damage(folder / file)
    expect_checks(folder.parent.parent)
    with open_cache(folder, row_bytes=30, max_bytes=None) as cache:
        assert "rows are not what was kept" in cache.damage
        assert cache.find([1, 2]).tolist() == [-1, -1]
    with open_cache(folder, row_bytes=30) as cache:
        assert "rows are not what was kept" in cache.damage
        assert len(cache) == 0
        cache.append(np.arange(1, 2001), rows)
    with open_cache(folder, row_bytes=30) as cache:
        assert cache.damage is None
        np.testing.assert_array_equal(cache.rows, np.delete(rows, 16, axis=0))


def test_rows_are_checked_once_after_a_start(folder):
    asked = []
    with open_cache(folder) as cache:
        cache.append([1, 2], rows_of(1, 2))
    expect_checks(folder.parent.parent)
    for _ in range(2):
        RowCache.open(
            folder, key="a", row_bytes=4, max_bytes=99, tick=lambda: asked.append(1)
        ).close()
    assert asked == [1]


def test_a_row_that_is_erased_while_it_is_checked_is_no_damage(folder):
    with open_cache(folder) as cache:
        cache.append([1, 2], rows_of(1, 2))
    expect_checks(folder.parent.parent)
    wrong = RowCache._wrong

    def erase_first(self, entries, tick):
        erase_from_caches(folder.parent, [2])
        return wrong(self, entries, tick)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowCache, "_wrong", erase_first)
        cache = open_cache(folder)
    assert cache.damage is None
    assert cache.find([1]).tolist() == [0]


UNREADABLE = {
    "empty": b"",
    "no text": b"\xff\xfe",
    "no object": b"[1]",
    "no size": b'{"key": "a"}',
    "a wrong size": b'{"key": "a", "row_bytes": 0}',
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
def test_a_cache_whose_key_cannot_be_read_is_dropped(folder, content):
    with open_cache(folder) as cache:
        cache.append([1, 2], rows_of(1, 2))
        (folder / "key").write_bytes(content)
        assert erase_from_caches(folder.parent, [2]) == ["tensors"]
        assert not (folder / "rows").exists()
        assert cache.append([2], rows_of(2)) == 0  # a child that was reading it
    assert erase_from_caches(folder.parent, [2]) == []
    with open_cache(folder) as cache:
        assert cache.damage is None
        cache.append([1], rows_of(1))
    (folder / "key").write_bytes(content)
    with open_cache(folder) as cache:
        assert cache.damage == "its key cannot be read"
        assert len(cache) == 0


def test_rows_that_a_crash_left_without_a_key_are_removed(folder):
    with open_cache(folder) as cache:
        cache.append([1, 2], rows_of(1, 2))
    (folder / "key").unlink()
    assert erase_from_caches(folder.parent, [1]) == []
    assert not (folder / "rows").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="names descriptors by /proc")
def test_a_key_is_flushed_before_it_takes_its_place(folder, monkeypatch):
    flushed = []

    def note(descriptor):
        flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)

    monkeypatch.setattr(durable, "sync_descriptor", note)
    open_cache(folder).close()
    assert flushed == [".key.new"]


@pytest.mark.parametrize("row_bytes", [1, 7, 8, 16, 21])
def test_every_flipped_bit_and_every_two_change_the_digest(row_bytes):
    row = np.arange(row_bytes, dtype=np.uint8)[None]
    ids = np.array([5])
    bits = np.unpackbits(row, axis=1)
    flips = np.eye(bits.shape[1], dtype=np.uint8)
    pairs = [flips[a] | flips[b] for a in range(len(flips)) for b in range(a)]
    rows = np.packbits(np.concatenate([bits, bits ^ flips, bits ^ np.array(pairs)]), axis=1)
    found = digests_of(np.repeat(ids, len(rows)), rows)
    assert len(set(found.tolist())) == len(rows)
    assert digests_of(ids, row) != digests_of(ids + 1, row)


def test_the_child_imports_it_without_sqlite_utils():
    code = "import sys, storage.blobs.row_cache; assert 'sqlite_utils' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
