"""Augmentations of images: each does what its name says, by seed, sample and epoch alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from service.preprocess.augmentation.draws import Draws
from service.preprocess.augmentation.images import ImageAugmentation

SAMPLES = range(1, 101)


@pytest.fixture
def photo() -> Any:
    """(3, 16, 12): every column has a colour of its own, brighter to the right."""
    made = np.zeros((3, 16, 12), np.uint8)
    made[:] = np.arange(12) * 15 + 20
    made[1] //= 2
    return made


@cache
def parsed(**amounts: float) -> ImageAugmentation:
    made = ImageAugmentation.parse(amounts)
    assert made is not None
    return made


def changed(photo: Any, sample: int = 1, *, epoch: int = 0, seed: int = 7, **amounts: float) -> Any:
    return parsed(**amounts).apply(photo, Draws(seed, epoch).of(sample), channels_first=True)


def test_a_flip_of_probability_1_is_the_mirror_image(photo: Any) -> None:
    np.testing.assert_array_equal(changed(photo, flip=1), photo[:, :, ::-1])


def test_a_flip_comes_as_often_as_its_probability_says(photo: Any) -> None:
    flips = [np.array_equal(changed(photo, n, flip=0.3), photo[:, :, ::-1]) for n in range(1000)]
    assert 250 < sum(flips) < 350


def test_a_crop_shifts_within_its_share_and_repeats_the_border(photo: Any) -> None:
    shifts = set()
    for sample in SAMPLES:
        row = changed(photo, sample, crop=0.25)[0, 0]
        (shift,) = (by for by in range(-3, 4) if np.array_equal(row, shifted(photo[0, 0], by)))
        shifts.add(shift)
    assert shifts == set(range(-3, 4))


def shifted(row: Any, by: int) -> Any:
    return row[(np.arange(len(row)) + by).clip(0, len(row) - 1)]


def test_a_half_turn_is_both_mirror_images(photo: Any) -> None:
    exact = ImageAugmentation(rotation=180)
    halves = [
        made
        for n in range(400)
        if abs(np.abs(turn(exact, n)) - 180) < 1
        for made in [changed(photo, n, rotation=180)]
    ]
    assert halves
    for made in halves:
        np.testing.assert_allclose(made, photo[:, ::-1, ::-1], atol=8)


def turn(augmentation: ImageAugmentation, sample: int) -> float:
    return augmentation._window(Draws(7, 0).of(sample), height=16, width=12).angle


def test_a_resized_crop_shows_a_part_of_the_share_it_says(photo: Any) -> None:
    ranges = [np.ptp(changed(photo, n, resized_crop=0.25)[0].astype(int)) for n in SAMPLES]
    whole = np.ptp(photo[0].astype(int))
    assert min(ranges) >= whole * 0.35
    assert min(ranges) < whole * 0.6
    assert max(ranges) <= whole
    assert np.array_equal(changed(photo, resized_crop=1.0).shape, photo.shape)


def test_a_resized_crop_is_that_of_a_rotation_by_nothing(photo: Any) -> None:
    """Without an angle another function of Pillow's does it."""
    for sample in SAMPLES:
        amounts = {"resized_crop": 0.4, "crop": 0.2, "flip": 0.5}
        plain = changed(photo, sample, **amounts)
        turned = changed(photo, sample, rotation=1e-4, **amounts)
        np.testing.assert_allclose(plain.astype(int), turned, atol=8)


def test_a_shift_that_is_resampled_is_by_fractions_of_a_pixel(photo: Any) -> None:
    for whole, amounts in ((True, {}), (False, {"rotation": 1e-3})):
        middles = np.array(
            [changed(photo, n, crop=0.2, **amounts)[0, 8, 5] for n in SAMPLES], float
        )
        steps = (middles - photo[0, 8, 5]) / 15
        assert (np.abs(steps - steps.round()).max() < 0.1) == whole
        assert 1.8 < np.abs(steps).max() < 2.6


def test_a_zoom_enlarges_and_shrinks_up_to_its_factor(photo: Any) -> None:
    slopes = np.array([slope(changed(photo, n, zoom=0.5)[0, 8]) for n in SAMPLES])
    assert 1 / 1.55 < slopes.min() < 1 / 1.35
    assert 1.35 < slopes.max() < 1.55
    assert np.median(slopes) == pytest.approx(1, abs=0.15)


def slope(row: Any) -> float:
    """Of the photo's columns in the middle, which is 15 a pixel."""
    return float(row[7].astype(float) - row[4]) / 45


def test_a_shear_slants_columns_up_to_its_angle(photo: Any) -> None:
    slants = []
    for sample in SAMPLES:
        made = changed(photo, sample, shear=20)[0].astype(float)
        assert slope(made[8]) == pytest.approx(1, abs=0.1)
        slants.append((made[9, 5] - made[6, 5]) / 45)
    most = np.tan(np.radians(20))
    assert -most - 0.05 < min(slants) < -0.8 * most
    assert 0.8 * most < max(slants) < most + 0.05


@pytest.mark.parametrize("amounts", [{"rotation": 10}, {"resized_crop": 0.8}])
def test_what_is_resampled_stays_about_as_sharp(amounts: dict[str, float]) -> None:
    grain = np.random.default_rng(1).integers(60, 190, (1, 32, 32)).astype(np.uint8)
    deviations = [changed(grain, n, **amounts).std() for n in SAMPLES]
    assert np.mean(deviations) > 0.8 * grain.std()


def test_noise_has_a_deviation_up_to_its_share_of_the_range(photo: Any) -> None:
    gray = np.full((3, 16, 12), 128, np.uint8)
    made = np.stack([changed(gray, n, noise=0.1) for n in SAMPLES]).astype(float) - 128
    deviations = made.std(axis=(1, 2, 3))
    assert deviations.min() < 3
    assert 22 < deviations.max() < 28
    assert made.mean() == pytest.approx(0, abs=0.5)
    assert abs((made[:, 0] * made[:, 1]).mean()) < 0.1 * made.var()  # of each channel by itself


def test_brightness_contrast_and_saturation_change_what_they_name(photo: Any) -> None:
    means, spreads, colours = [], [], []
    for sample in SAMPLES:
        means.append(changed(photo, sample, brightness=0.3).mean() / photo.mean())
        other = changed(photo, sample, contrast=0.3)
        assert other.mean() == pytest.approx(photo.mean(), rel=0.1)
        spreads.append(other[0, 0].std() / photo[0, 0].std())
        other = changed(photo, sample, saturation=0.5).astype(float)
        assert luma(other).mean() == pytest.approx(luma(photo).mean(), abs=1)
        colours.append((other[0] - other[1]).mean() / (photo[0].astype(float) - photo[1]).mean())
    for found, most in ((means, 0.3), (spreads, 0.3), (colours, 0.5)):
        assert 1 - most - 0.02 < min(found) < 1 - most * 0.8
        assert 1 + most * 0.8 < max(found) < 1 + most + 0.02


def luma(planes: Any) -> Any:
    return np.tensordot([0.299, 0.587, 0.114], planes, 1)


def test_a_blur_flattens_an_edge(photo: Any) -> None:
    edge = np.zeros((1, 16, 12), np.uint8)
    edge[:, :, 6:] = 200
    steepest = [np.abs(np.diff(changed(edge, n, blur=2)[0].astype(int))).max() for n in SAMPLES]
    assert min(steepest) < 80
    assert max(steepest) > 180


def test_erasing_makes_noise_of_a_rectangle_as_often_as_it_says(photo: Any) -> None:
    erased = 0
    for sample in SAMPLES:
        other = np.any(changed(photo, sample, erasing=0.5) != photo, axis=0)
        if other.any():
            erased += 1
            rows, columns = (np.flatnonzero(other.any(axis=axis)) for axis in (1, 0))
            box = other[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            assert box.mean() > 0.9
            assert 1 <= box.size <= 0.45 * other.size
    assert 35 < erased < 65


EVERYTHING = {
    "crop": 0.2,
    "resized_crop": 0.5,
    "flip": 0.5,
    "rotation": 20,
    "zoom": 0.2,
    "shear": 10,
    "brightness": 0.2,
    "contrast": 0.2,
    "saturation": 0.2,
    "blur": 1,
    "noise": 0.05,
    "erasing": 0.5,
}


def test_seed_sample_and_epoch_decide_and_nothing_drawn_before(photo: Any) -> None:
    first = changed(photo, 3, epoch=2, **EVERYTHING)
    draws, made = Draws(7, 2), ImageAugmentation(**EVERYTHING)
    for sample in (9, 1, 3):
        again = made.apply(photo, draws.of(sample), channels_first=True)

    np.testing.assert_array_equal(again, first)
    for other in ({"sample": 4}, {"epoch": 3}, {"seed": 8}):
        asked: dict[str, Any] = {"sample": 3, "epoch": 2, **other, **EVERYTHING}
        assert not np.array_equal(changed(photo, **asked), first)


def test_both_layouts_are_changed_alike(photo: Any) -> None:
    first = changed(photo, **EVERYTHING)
    made = ImageAugmentation(**EVERYTHING)
    last = np.ascontiguousarray(photo.transpose(1, 2, 0))
    other = made.apply(last, Draws(7, 0).of(1), channels_first=False)
    np.testing.assert_array_equal(other.transpose(2, 0, 1), first)
