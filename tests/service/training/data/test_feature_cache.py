"""Features are computed once for each sample, on all threads, and kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.training.data.batches import Dataset
from service.training.data.features import ROWS, Features, Prefix
from service.training.protocol.messages.training import Train
from storage.blobs.cache_folder import erase_from_caches
from storage.blobs.row_cache import RowCache
from storage.records.signatures import Signature

FRONTIER = 16
"""Values of a feature row: the hidden layer of the perceptron."""


class Counting(Prefix):
    """Counts the samples that it sees."""

    seen = 0

    def outputs(self, inputs: Any) -> Any:
        self.seen += len(inputs[0])
        return super().outputs(inputs)


@pytest.fixture
def parts(
    task: Callable[..., Train],
    make_dataset: Callable[..., Dataset],
    classification: Signature,
    samples: Any,
    tmp_path: Path,
) -> Callable[..., tuple[Features, Counting, RowCache]]:
    wanted = task()
    path = Path(wanted.artifacts.prefix_model or "")
    x, labels = samples(3 * ROWS + 5, target=classification.target)
    dataset = make_dataset((x,), labels, classification)

    def make(
        most: int = 1 << 20, *, threads: int = 1, folder: str = "model"
    ) -> tuple[Features, Counting, RowCache]:
        prefix = Counting(path, wanted, threads=threads)
        cache = RowCache.open(
            tmp_path / folder / "features",
            key=prefix.key(),
            row_bytes=prefix.row_bytes,
            max_bytes=most,
        )
        return Features(dataset, prefix, cache), prefix, cache

    return make


def test_a_sample_has_the_same_features_beside_any_others(parts: Any) -> None:
    features, _, _ = parts(most=0)
    positions = np.arange(len(features))
    (expected,) = (value.copy() for value in features.inputs(positions))
    for seed, count in ((1, len(features)), (2, 7), (3, 1), (4, ROWS + 1)):
        chosen = np.random.default_rng(seed).permutation(positions)[:count]
        np.testing.assert_array_equal(features.inputs(chosen)[0], expected[chosen])


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit(parts: Any, samples: Any, classification: Any, threads: int) -> None:
    x, _ = samples(5 * ROWS + 3, target=classification.target)
    (one, alone, cache), (more, together, other) = parts(), parts(threads=threads, folder="other")
    for some in (x, x[:1], x[: 3 * ROWS]):
        np.testing.assert_array_equal(together.rows([some]), alone.rows([some]))
        np.testing.assert_array_equal(together.run([some])[0], alone.run([some])[0])
    one.fill(lambda: None)
    more.fill(lambda: None)
    np.testing.assert_array_equal(other.rows, cache.rows)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_part_that_fails_ends_the_others(parts: Any, threads: int) -> None:
    done: list[int] = []

    def work(part: slice) -> None:
        done.append(part.start)
        if part.start == 2 * ROWS:
            raise MemoryError

    with pytest.raises(MemoryError):
        parts(threads=threads)[1].in_parts(1000 * ROWS, work)
    assert len(done) < 1000


def test_each_sample_is_computed_once(parts: Any) -> None:
    features, prefix, _ = parts()
    ticks: list[int] = []
    features.fill(lambda: ticks.append(prefix.seen))
    assert prefix.seen == len(features)
    assert ticks == [8, 16, 24, 29]

    features.inputs(np.arange(len(features)))
    features.fill(lambda: None)
    again, other, _ = parts()
    again.fill(lambda: None)

    assert prefix.seen == len(features)
    assert other.seen == 0


def test_what_was_computed_before_an_interruption_is_kept(parts: Any) -> None:
    features, _, cache = parts(most=20 * FRONTIER * 4)
    features.fill(lambda: None)
    assert len(cache) == 20
    cache.close()

    more, prefix, _ = parts(most=29 * FRONTIER * 4)
    more.fill(lambda: None)

    assert prefix.seen == len(more) - 20


def test_an_erased_sample_leaves_the_cache(parts: Any, tmp_path: Path) -> None:
    features, _, cache = parts()
    features.fill(lambda: None)
    cache.close()
    erase_from_caches(tmp_path / "model", [3])

    again, prefix, _ = parts()
    again.inputs(np.arange(len(again)))

    assert prefix.seen == 1
