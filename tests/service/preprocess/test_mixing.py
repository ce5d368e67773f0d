"""Mixes of two samples: shares as the papers have them, and losses that are theirs on average."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.errors import InvalidInput
from service.preprocess import for_signature, parse
from service.preprocess.augmentation.draws import MIX, Draws
from service.preprocess.augmentation.mixing import Mix
from storage.records.signatures import Signature, TargetSpec, TensorSpec

PAIRS = 10_000
FIRST, SECOND = 0.2, 1.0
"""What every number of the two samples is."""
LABELS = np.array([3.0, -1.0])


def pairs(shape: tuple[int, ...], mix: Mix) -> Any:
    """(2, PAIRS, *shape): both samples, mixed with each other again and again."""
    rows = np.empty((2 * PAIRS, *shape), np.float32)
    rows[::2], rows[1::2] = FIRST, SECOND
    made = mix.apply(rows, range(1, len(rows) + 1), Draws(7, 0))
    return np.stack([made[::2], made[1::2]])


def shares(made: Any) -> Any:
    """(2, PAIRS): how much of each mixed sample is the sample itself."""
    means = made.reshape(2, PAIRS, -1).mean(axis=2)
    return np.stack([(SECOND - means[0]), (means[1] - FIRST)]) / (SECOND - FIRST)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_mixup_draws_the_share_of_a_sample_from_its_distribution(alpha: float) -> None:
    made = pairs((2,), Mix(mixup=alpha))
    assert np.ptp(made, axis=2).max() == 0
    found = shares(made)
    assert found.mean() == pytest.approx((alpha + 1) / (2 * alpha + 1), abs=0.01)
    assert found.min() >= -1e-6
    assert found.max() <= 1 + 1e-6


def error(seen: Any, label: Any) -> Any:
    """A loss that is linear in the label, of a model that is not linear in what it sees."""
    return np.exp(seen) * label


@pytest.mark.parametrize("mix", [Mix(0.4), Mix(2.0), Mix(0, cutmix=1.0, sides=(1, 2))])
def test_the_loss_of_a_samples_own_label_is_on_average_that_of_both(mix: Mix) -> None:
    made = pairs((1, 8, 8), mix)
    own = shares(made)
    seen = made.reshape(2, PAIRS, -1).mean(axis=2)
    ours = error(seen, LABELS[:, None]).mean()

    # As the papers do it: a pair is drawn in either order, and each label counts by its share.
    rng = np.random.default_rng(1)
    alpha = mix.mixup or mix.cutmix
    factor = rng.beta(alpha, alpha, 2 * PAIRS)
    if mix.cutmix:
        factor = np.concatenate([own[0], 1 - own[1]])  # of the first: boxes are cut at the border
    mixed = factor * FIRST + (1 - factor) * SECOND
    theirs = (factor * error(mixed, LABELS[0]) + (1 - factor) * error(mixed, LABELS[1])).mean()
    assert ours == pytest.approx(theirs, abs=0.05)


def test_cutmix_pastes_one_rectangle_of_the_other_sample() -> None:
    made = pairs((8, 8, 1), Mix(0, cutmix=1.0, sides=(0, 1)))[0, :300, :, :, 0]
    assert set(np.unique(made)) == {np.float32(FIRST), np.float32(SECOND)}
    for each in made:
        patch = each != (ground := each[0, 0])
        if patch.any() and ground in (each[0, -1], each[-1, 0], each[-1, -1]):
            rows, columns = (np.flatnonzero(patch.any(axis=axis)) for axis in (1, 0))
            assert patch.sum() == (np.ptp(rows) + 1) * (np.ptp(columns) + 1) or patch[0].any()


def test_of_both_each_sample_takes_one() -> None:
    made = pairs((8, 8), Mix(1.0, cutmix=1.0, sides=(0, 1)))[0]
    cut = np.isin(made, np.array([FIRST, SECOND], np.float32)).all(axis=(1, 2))
    assert 0.45 < cut.mean() < 0.55


def test_a_batch_of_one_and_halves_stay_what_they_are() -> None:
    row = np.full((1, 4), 0.7, np.float16)
    made = Mix(1.0).apply(row, [1], Draws(7, 0))
    assert made.dtype == np.float16
    np.testing.assert_allclose(made, row, atol=1e-3)
    assert not np.shares_memory(made, row)


def test_draws_of_mixes_are_no_draws_of_inputs() -> None:
    draws = Draws(7, 0)
    assert draws.of(1, MIX).random() != draws.of(1).random()


TARGET = TargetSpec("labels", "int64", (), 2)
PHOTO = TensorSpec("image", "float32", (3, 16, 12))


@pytest.mark.parametrize(
    ("inputs", "kind", "augment", "target", "says"),
    [
        ((PHOTO,), "image", {"cutmix": 11}, TARGET, "from 0 to 10"),
        ((PHOTO,), "image", {"cutmix": 1}, TargetSpec("l", "int64", (16, 12), 2), "positions"),
        (
            (TensorSpec("x", "float32", (4,)), TensorSpec("y", "float32", (4,))),
            "standardize",
            {"mixup": 0.2},
            TARGET,
            "several inputs; leave it out",
        ),
        (
            (TensorSpec("x", "float32", (4,)),),
            "standardize",
            {"cutmix": 1},
            TARGET,
            "it has",
        ),
    ],
)
def test_a_mix_that_does_not_suit_is_named_with_the_remedy(
    inputs: tuple[TensorSpec, ...], kind: str, augment: Any, target: TargetSpec, says: str
) -> None:
    asked = {"input": inputs[0].name, "kind": kind, "augment": augment}
    with pytest.raises(InvalidInput) as refused:
        parse(asked, Signature(inputs, target))
    assert says in refused.value.problems[0].detail


def test_features_of_a_model_that_only_mixes_are_kept_once() -> None:
    signature = Signature((PHOTO,), TARGET)
    for augment, views in (({"mixup": 0.2}, 1), ({"mixup": 0.2, "flip": 0.5}, 4)):
        described = parse({"kind": "image", "augment": augment}, signature, is_cut=True)
        assert for_signature(signature, described).views == views
