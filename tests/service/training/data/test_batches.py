from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from service.training.data.batches import Dataset
from service.training.data.sampler import epoch_order
from service.training.errors import SamplesInvalid
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature, TargetSpec, TensorSpec

FLAT = Signature((TensorSpec("x", "float32", (4,)),), TargetSpec("labels", "int64", (), 10))
MIXED = Signature(
    (
        TensorSpec("flag", "bool", ()),
        TensorSpec("image", "float32", (2, 3)),
        TensorSpec("words", "int64", (5,)),
    ),
    TargetSpec("target", "float32", (2,)),
)


def flat(count: int) -> tuple[Any, Any]:
    x = np.arange(count * 4, dtype=np.float32).reshape(count, 4)
    return x, np.arange(count, dtype=np.int64) % 10


def collect(dataset: Dataset, order: Any, batch_size: int) -> list[tuple[Any, ...]]:
    return [
        (*(value.copy() for value in inputs), target.copy())
        for inputs, target in dataset.batches(order, batch_size=batch_size)
    ]


@pytest.mark.parametrize("packs", [1, 3])
@pytest.mark.parametrize("batch_size", [1, 7, 64, 1000])
def test_batches_hold_the_samples_in_the_given_order(
    make_dataset: Callable[..., Dataset], packs: int, batch_size: int
) -> None:
    x, labels = flat(100)
    dataset = make_dataset((x,), labels, FLAT, packs=packs)
    order = epoch_order(100, seed=3, epoch=0)
    batches = collect(dataset, order, batch_size)
    assert [len(target) for _, target in batches[:-1]] == [batch_size] * (len(batches) - 1)
    np.testing.assert_array_equal(np.concatenate([each for each, _ in batches]), x[order])
    np.testing.assert_array_equal(np.concatenate([each for _, each in batches]), labels[order])


def test_batches_are_whole_across_windows(make_dataset: Callable[..., Dataset]) -> None:
    signature = replace(FLAT, inputs=(TensorSpec("x", "float32", (50_000,)),))
    x = np.arange(20, dtype=np.float32).repeat(50_000).reshape(20, 50_000)
    dataset = make_dataset((x,), np.zeros(20, np.int64), signature, packs=2)
    order = epoch_order(20, seed=0, epoch=0)
    batches = collect(dataset, order, 3)
    assert [len(target) for _, target in batches] == [3] * 6 + [2]
    np.testing.assert_array_equal(np.concatenate([each for each, _ in batches]), x[order])


def test_several_inputs_are_cut_from_one_record(make_dataset: Callable[..., Dataset]) -> None:
    rng = np.random.default_rng(0)
    flag = rng.random(30) > 0.5
    image = rng.random((30, 2, 3)).astype(np.float32)
    words = rng.integers(0, 99, (30, 5))
    target = rng.random((30, 2)).astype(np.float32)
    dataset = make_dataset((flag, image, words), target, MIXED, packs=2)
    order = epoch_order(30, seed=1, epoch=4)
    for number, batch in enumerate(collect(dataset, order, 8)):
        part = order[number * 8 : number * 8 + 8]
        for actual, expected in zip(batch, (flag, image, words, target), strict=True):
            assert actual.dtype == expected.dtype
            np.testing.assert_array_equal(actual, expected[part])


def test_a_step_holds_its_share_of_batches_and_the_last_what_is_left(
    make_dataset: Callable[..., Dataset],
) -> None:
    x, labels = flat(50)
    dataset = make_dataset((x,), labels, FLAT)
    steps = [
        [len(target) for _, target, *_ in step]
        for step in dataset.steps(np.arange(50), batch_size=8, accumulation_steps=3)
    ]
    assert steps == [[8, 8, 8], [8, 8, 8], [2]]


def test_no_sample_makes_no_batch(make_dataset: Callable[..., Dataset]) -> None:
    x, labels = flat(5)
    dataset = make_dataset((x,), labels, FLAT)
    empty = np.arange(0)
    assert list(dataset.batches(empty, batch_size=4)) == []
    assert list(dataset.steps(empty, batch_size=4, accumulation_steps=2)) == []


def test_an_epochs_order_depends_on_seed_and_epoch_alone() -> None:
    expected = np.random.Generator(np.random.PCG64([9, 2])).permutation(50)
    np.testing.assert_array_equal(epoch_order(50, seed=9, epoch=2), expected)
    assert sorted(epoch_order(50, seed=9, epoch=3)) == list(range(50))
    assert not np.array_equal(epoch_order(50, seed=9, epoch=3), expected)


@pytest.mark.parametrize("bad", [-1, 10, 10**12])
def test_a_label_out_of_range_is_refused_by_its_samples_id(
    make_dataset: Callable[..., Dataset], bad: int
) -> None:
    x, labels = flat(8)
    labels[5] = bad
    with pytest.raises(SamplesInvalid, match=r"^sample 6: its label is not in \[0, 10\)"):
        make_dataset((x,), labels, FLAT)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_label_that_is_not_finite_is_refused_by_its_samples_id(
    make_dataset: Callable[..., Dataset], bad: float
) -> None:
    signature = replace(FLAT, target=TargetSpec("target", "float32", (2,)))
    labels = np.zeros((8, 2), np.float32)
    labels[3, 1] = bad
    with pytest.raises(SamplesInvalid, match=r"^sample 4: its label is not finite"):
        make_dataset((flat(8)[0],), labels, signature)


def test_a_record_outside_its_pack_is_refused_by_its_samples_id(tmp_path: Path) -> None:
    (tmp_path / "1.pack").write_bytes(bytes(40))
    for offsets, wrong in (([0, 32], 12), ([8, 16], 11)):
        index = SampleIndex(
            ids=np.array([11, 12]),
            packs=np.zeros(2, np.int32),
            offsets=np.array(offsets),
            lengths=np.full(2, 16),
            labels=np.zeros(2, np.int64),
            pack_paths=(tmp_path / "1.pack",),
        )
        with pytest.raises(SamplesInvalid, match=f"^sample {wrong}: no record of 16 bytes"):
            Dataset(index, FLAT)


def test_an_epoch_takes_memory_for_one_window_and_not_for_the_samples(
    make_dataset: Callable[..., Dataset],
) -> None:
    signature = replace(FLAT, inputs=(TensorSpec("x", "float32", (1000,)),))
    dataset = make_dataset(
        (np.zeros((8000, 1000), np.float32),), np.zeros(8000, np.int64), signature, packs=2
    )
    tracemalloc.start()
    try:
        for _ in dataset.batches(epoch_order(8000, seed=0, epoch=0), batch_size=64):
            pass
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 4 << 20
