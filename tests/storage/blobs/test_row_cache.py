import subprocess
import sys

import numpy as np
import pytest

from storage.blobs.row_cache import RowCache, erase_from_caches


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


@pytest.mark.parametrize(("file", "lost"), [("ids", 3), ("ids", 8), ("rows", 1)])
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


def test_the_child_imports_it_without_sqlite_utils():
    code = "import sys, storage.blobs.row_cache; assert 'sqlite_utils' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
