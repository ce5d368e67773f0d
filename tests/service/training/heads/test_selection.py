"""Which samples `auto` leaves out, and which head it takes when it can hardly tell them apart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from workshop import CLASSES, make_samples

from service.training.data.batches import Dataset, Indices
from service.training.data.datasets import Datasets
from service.training.heads.selection import Score, folds, simplest
from storage.records.signatures import Signature

LeaveOut = Callable[[int], list[Indices]]


@pytest.fixture
def leave_out(make_dataset: Callable[..., Dataset], classification: Signature) -> LeaveOut:
    """The folds of so many samples of each class; position p is of class p % CLASSES."""

    def make(of_class: int) -> list[Indices]:
        labels = np.tile(np.arange(CLASSES), of_class)
        x, _ = make_samples(len(labels), target=classification.target)
        samples = make_dataset((x,), labels, classification)
        return list(folds(Datasets((samples, samples), samples, samples), seed=3))

    return make


def test_a_fold_leaves_out_a_tenth_of_each_class(leave_out: LeaveOut) -> None:
    found = leave_out(30)
    assert sorted(np.concatenate(found)) == [*range(90)]
    for each in found:
        assert np.bincount(each % CLASSES).tolist() == [3] * CLASSES


def test_of_many_samples_only_enough_are_left_out(leave_out: LeaveOut) -> None:
    assert [len(each) for each in leave_out(200)] == [60, 60]


def test_of_fewer_than_ten_samples_each_is_left_out_alone(leave_out: LeaveOut) -> None:
    assert [len(each) for each in leave_out(3)] == [1] * 9


@pytest.mark.parametrize(("prototype", "taken"), [(0.41, "prototype"), (0.5, "linear")])
def test_a_quicker_head_is_taken_if_it_is_hardly_worse(prototype: float, taken: str) -> None:
    """By 0.3 and by 3 standard errors."""
    apart = np.tile([-0.2, 0.2], 20)
    ours, theirs = Score(0.9, prototype + apart), Score(0.9, np.full(40, 0.4))
    assert ours.doubt(theirs) == pytest.approx(apart.std(ddof=1) / np.sqrt(40))
    assert simplest({"prototype": ours, "linear": theirs}) == taken
