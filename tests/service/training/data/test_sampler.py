from __future__ import annotations

import numpy as np
import pytest

from service.training.data.sampler import Sampler, by_class, epoch_order

OWN, BASE = np.arange(60), np.arange(60, 75)


def test_without_a_base_set_an_epoch_is_what_it_always_was() -> None:
    for sampler in (Sampler(OWN), Sampler(OWN, BASE), Sampler(OWN, replay=0.5)):
        np.testing.assert_array_equal(sampler.epoch(3, seed=9), epoch_order(60, seed=9, epoch=3))


@pytest.mark.parametrize(("replay", "drawn"), [(0.2, 15), (0.4, 40), (0.5, 60), (0.9, 540)])
def test_an_epoch_holds_every_own_sample_once_and_the_share_of_the_base_set(
    replay: float, drawn: int
) -> None:
    sampler = Sampler(OWN, BASE, replay)
    order = sampler.epoch(0, seed=1)
    assert len(order) == len(sampler) == 60 + drawn
    assert drawn / len(order) == pytest.approx(replay)
    own = order < 60
    assert sorted(order[own]) == OWN.tolist()
    assert not np.array_equal(order[own], OWN)
    assert 0 < own[: len(own) // 2].mean() < 1  # they are mixed, not behind each other


def test_the_base_set_is_gone_through_evenly_across_epochs() -> None:
    sampler = Sampler(OWN, BASE, 0.1)  # seven of fifteen
    drawn = np.concatenate([epoch[epoch >= 60] for epoch in _epochs(sampler, 15)])
    assert np.bincount(drawn - 60).tolist() == [7] * 15


def test_an_epoch_depends_on_seed_and_number_and_on_no_earlier_epoch() -> None:
    fifth = _epochs(Sampler(OWN, BASE, 0.3), 6)[5]
    np.testing.assert_array_equal(Sampler(OWN, BASE, 0.3).epoch(5, seed=4), fifth)
    assert not np.array_equal(Sampler(OWN, BASE, 0.3).epoch(5, seed=5), fifth)
    assert not np.array_equal(Sampler(OWN, BASE, 0.3).epoch(4, seed=4), fifth)


def test_a_balanced_epoch_holds_each_class_as_often() -> None:
    labels = np.array([0] * 50 + [1] * 8 + [3] * 2)
    sampler = Sampler(OWN, BASE, 0.25, by_class(OWN, labels))
    order = sampler.epoch(0, seed=1)
    own = order[order < 60]
    assert np.bincount(labels[own]).tolist() == [20, 20, 0, 20]
    assert len(order) == len(sampler) == 80
    assert len({labels[each] for each in own[:20]}) == 3  # they are mixed
    np.testing.assert_array_equal(sampler.epoch(5, seed=4), _epochs(sampler, 6)[5])


def test_balanced_epochs_go_through_each_class_evenly() -> None:
    labels = np.array([0] * 50 + [1] * 8 + [3] * 2)
    drawn = np.concatenate(_epochs(Sampler(OWN, classes=by_class(OWN, labels)), 10))
    counts = np.bincount(drawn)
    assert set(counts[:50]) == {4}  # 10 epochs of 20
    assert set(counts[50:58]) == {25}
    assert set(counts[58:]) == {100}


def _epochs(sampler: Sampler, count: int) -> list[np.ndarray]:
    return [sampler.epoch(epoch, seed=4) for epoch in range(count)]
