import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from storage.errors import StorageBroken
from storage.readonly.sample_index import damaged_positions, read_sample_index
from storage.records.samples import Split
from storage.records.signatures import TargetSpec

CLASS = TargetSpec("labels", "int64", (), 10)


def read(store, model, *, target=CLASS, split=Split.TRAIN, watermark=10**9):
    return read_sample_index(
        store.database,
        store.packs_dir,
        model_id=model.id,
        split=split,
        watermark=watermark,
        target=target,
    )


def test_the_index_leads_to_each_labelled_sample(store, add_model, upload, record_of):
    model = add_model(store)
    upload(store, model, [4, None, 6], split=Split.TRAIN)
    upload(store, model, [7], first=3, split=Split.VALIDATION)
    upload(store, model, [8], first=4, split=Split.TRAIN)
    index = read(store, model)
    assert index.ids.tolist() == [1, 3, 5]
    assert index.labels.tolist() == [4, 6, 8]
    assert (index.packs.dtype, index.offsets.dtype) == (np.int32, np.int64)
    for pack, offset, number in zip(index.packs, index.offsets, (0, 2, 4), strict=True):
        data = np.memmap(index.pack_paths[pack], mode="r")[offset : offset + 16]
        assert data.tobytes() == record_of(number)
    assert read(store, model, split=Split.VALIDATION).ids.tolist() == [4]


def test_nothing_beyond_the_watermark_is_read(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1] * 5, split=Split.TRAIN)
    assert read(store, model, watermark=3).ids.tolist() == [1, 2, 3]


def test_labels_take_the_shape_and_dtype_of_the_target(store, add_model, upload):
    model = add_model(store)
    values = np.arange(6, dtype="<f4").reshape(2, 3)
    upload(store, model, [row.tobytes() for row in values], split=Split.TRAIN)
    labels = read(store, model, target=TargetSpec("target", "float32", (3,))).labels
    assert labels.dtype == np.float32
    np.testing.assert_array_equal(labels, values)


@pytest.mark.parametrize("target", [CLASS, TargetSpec("target", "float32", (3,))])
def test_a_model_without_samples_has_an_empty_index(store, add_model, target):
    index = read(store, add_model(store), target=target)
    assert (index.ids.shape, index.labels.shape) == ((0,), (0, *target.shape))
    assert index.pack_paths == ()


def test_labels_that_do_not_fit_the_target_are_refused(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [b"\0\0\0\0"], split=Split.TRAIN)
    upload(store, add_model(store, "other"), [1], split=Split.TRAIN)
    with pytest.raises(StorageBroken, match="do not fit its target 'labels'"):
        read(store, model)
    with pytest.raises(StorageBroken, match="do not fit its target 'target'"):
        read(store, store.models.get("other"), target=TargetSpec("target", "float32", (3,)))


def test_a_hundred_thousand_samples_are_indexed_in_a_moment(store, add_model):
    model = add_model(store)
    with store.samples.stage(model.id, 4) as staging:
        labels = [n % 10 for n in range(100_000)]
        staging.add(np.zeros((100_000, 4), np.uint8), labels, split=Split.TRAIN)
        staging.commit()
    began_s = time.process_time()
    index = read(store, model)
    assert len(index.ids) == 100_000
    assert time.process_time() - began_s < 1.0


def test_the_training_child_gets_the_index_without_sqlite_utils_or_threads():
    check = (
        "import sys, threading, storage.readonly.sample_index; "
        "assert 'sqlite_utils' not in sys.modules; "
        "assert threading.active_count() == 1"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_positions_of_damaged_samples_are_found(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1] * 600, split=Split.TRAIN)
    index = read(store, model)
    ticks = []
    assert damaged_positions(index, tick=lambda: ticks.append(1)) == []
    assert len(ticks) == 3

    content = bytearray(index.pack_paths[0].read_bytes())
    for number in (5, 599):
        content[16 * number] ^= 1
    index.pack_paths[0].write_bytes(content)
    assert damaged_positions(index, tick=lambda: None) == [5, 599]
    assert damaged_positions(index.without([5]), tick=lambda: None) == [598]

    among = np.arange(600) != 5  # the others are not read
    assert damaged_positions(index, tick=lambda: None, among=among) == [599]

    index.pack_paths[0].write_bytes(content[: 16 * 10])
    assert damaged_positions(index, tick=lambda: None, among=among) == list(range(10, 600))
    assert damaged_positions(index, tick=lambda: None) == [5, *range(10, 600)]
    index.pack_paths[0].unlink()
    assert damaged_positions(index, tick=lambda: None) == list(range(600))


@pytest.mark.parametrize(("size", "calls"), [(1 << 14, 3), ((1 << 14) - 8, 1)])
def test_large_samples_alone_are_read_by_several_threads(store, add_model, size, calls):
    model = add_model(store)
    with store.samples.stage(model.id, size) as staging:
        rows = np.arange(40 * size, dtype=np.uint32).astype(np.uint8).reshape(40, size)
        rows[:, 0] = np.arange(40)
        staging.add(rows, [1] * 40, split=Split.TRAIN)
        staging.commit()
    index = read(store, model)
    content = bytearray(index.pack_paths[0].read_bytes())
    for number in (0, 17, 39):
        content[size * number] ^= 1
    index.pack_paths[0].write_bytes(content)
    at_once = []

    def in_parallel(work):
        at_once.append(len(work))
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda call: call(), work))

    found = damaged_positions(index, tick=lambda: None, in_parallel=in_parallel, threads=3)
    assert (found, at_once) == ([0, 17, 39], [calls])
