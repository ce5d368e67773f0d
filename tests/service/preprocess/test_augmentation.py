"""Augmentations: each does what its name says, by seed, sample and epoch alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidInput
from service.preprocess import parse
from service.preprocess.augmentation.audio import AudioAugmentation
from service.preprocess.augmentation.draws import Draws
from service.preprocess.augmentation.family import Family
from service.preprocess.augmentation.images import ImageAugmentation
from service.preprocess.augmentation.series import SeriesAugmentation
from storage.records.signatures import Signature, TargetSpec, TensorSpec

FAMILIES: list[type[Family]] = [ImageAugmentation, SeriesAugmentation, AudioAugmentation]
LABELS = TargetSpec("labels", "int64", (), 2)
PHOTO = TensorSpec("image", "float32", (3, 16, 12))
SERIES = TensorSpec("x", "float32", (20, 3))
SAMPLES = range(1, 101)


@pytest.fixture
def photo() -> Any:
    """(3, 16, 12): every column has a colour of its own, brighter to the right."""
    made = np.zeros((3, 16, 12), np.uint8)
    made[:] = np.arange(12) * 15 + 20
    made[1] //= 2
    return made


def changed(photo: Any, sample: int = 1, *, epoch: int = 0, seed: int = 7, **amounts: float) -> Any:
    made = ImageAugmentation.parse(amounts)
    assert made is not None
    return made.apply(photo, Draws(seed, epoch).of(sample), channels_first=True)


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
    "brightness": 0.2,
    "contrast": 0.2,
    "saturation": 0.2,
    "blur": 1,
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


def test_the_draws_are_those_of_philox() -> None:
    draws = Draws(7, 2)
    draws.of(1).random(5)
    key, counter = np.array([7, 3], np.uint64), np.array([0, 1, 2, 0], np.uint64)
    philox = np.random.Philox(key=key, counter=counter)
    assert draws.of(3, 1).random() == np.random.Generator(philox).random()


def test_both_layouts_are_changed_alike(photo: Any) -> None:
    first = changed(photo, **EVERYTHING)
    made = ImageAugmentation(**EVERYTHING)
    last = np.ascontiguousarray(photo.transpose(1, 2, 0))
    other = made.apply(last, Draws(7, 0).of(1), channels_first=False)
    np.testing.assert_array_equal(other.transpose(2, 0, 1), first)


def series(rows: Any, *, epoch: int = 0, place: int = 0, **amounts: Any) -> Any:
    made = SeriesAugmentation.parse(amounts)
    assert made is not None
    return made.apply(rows, range(1, len(rows) + 1), Draws(7, epoch), place=place)


def test_jitter_and_scaling_have_the_deviations_that_they_say() -> None:
    rows = np.ones((500, 20, 3), np.float32)
    noise = series(rows, jitter=0.1) - 1
    factors = series(rows, scaling=0.2)

    assert noise.std() == pytest.approx(0.1, rel=0.05)
    assert np.ptp(factors, axis=1).max() == 0
    assert factors[:, 0].std() == pytest.approx(0.2, rel=0.1)
    assert np.unique(factors[:, 0]).size > 1000
    assert rows.min() == rows.max() == 1


def test_a_shift_moves_along_the_axis_of_time() -> None:
    for axis, shape in ((0, (20, 3)), (1, (3, 20))):
        time = np.arange(20, dtype=np.float32)[:, None]
        rows = np.repeat(np.broadcast_to(time if axis == 0 else time.T, shape)[None], 200, axis=0)
        moved = np.moveaxis(series(rows, shift=0.2, time_axis=axis), axis + 1, 1)
        shifts = {float(each) for each in (moved[:, 10, 0] - 10)}
        assert shifts == set(range(-4, 5))
        assert (np.diff(moved[:, :, 0]) >= 0).all()


def test_masking_zeroes_one_stretch_up_to_its_share() -> None:
    masked = series(np.ones((200, 20, 3), np.float32), masking=0.3) == 0
    assert (masked.all(axis=2) == masked.any(axis=2)).all()
    lengths = masked[:, :, 0].sum(axis=1)
    assert set(lengths.tolist()) == set(range(7))
    assert (np.abs(np.diff(masked[:, :, 0].astype(int), axis=1)).sum(axis=1) <= 2).all()


def test_inputs_of_a_sample_are_changed_independently() -> None:
    rows = np.zeros((4, 20, 3), np.float32)
    first = series(rows, jitter=1)
    assert np.array_equal(first, series(rows, jitter=1))
    assert not np.array_equal(first, series(rows, jitter=1, place=1))
    assert not np.array_equal(first[0], first[1])


@pytest.mark.parametrize(
    ("kind", "spec", "augment", "field", "says"),
    [
        ("image", PHOTO, {"flip": 1.5}, "flip", "from 0 to 1, not 1.5: probability"),
        ("image", PHOTO, {"flip": True}, "flip", "not True"),
        ("image", PHOTO, {"flip": None}, "flip", "not None"),
        ("image", PHOTO, {"erasing": -0.1}, "erasing", "from 0 to 1"),
        ("image", PHOTO, {"rotation": float("nan")}, "rotation", "from 0 to 180"),
        ("image", PHOTO, {"jitter": 0.1}, "jitter", "it has crop, resized_crop, flip"),
        ("image", PHOTO, {"flip": 1, "views": 1}, "views", "an integer from 2 to 64"),
        ("image", PHOTO, {"flip": 1, "views": 2.5}, "views", "an integer"),
        ("image", PHOTO, [0.5], "", "an object"),
        ("standardize", SERIES, {"flip": 0.5}, "flip", "it has jitter, scaling, shift"),
        ("standardize", SERIES, {"shift": 0.1, "time_axis": 2}, "time_axis", "[20, 3]"),
        ("standardize", TensorSpec("x", "float32", (1,)), {"shift": 0.1}, "shift", "leave shift"),
        ("standardize", TensorSpec("x", "float32", ()), {"masking": 0.1}, "masking", "leave"),
    ],
)
def test_what_does_not_suit_is_named_with_the_remedy(
    kind: str, spec: TensorSpec, augment: Any, field: str, says: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse({"kind": kind, "augment": augment}, Signature((spec,), LABELS))
    (problem,) = refused.value.problems
    assert problem.pointer == f"/spec/preprocess/augment/{field}".rstrip("/")
    assert says in problem.detail


def test_a_gray_image_has_no_saturation() -> None:
    gray = TensorSpec("image", "float32", (1, 8, 8))
    asked = {"kind": "image", "channels": "gray", "augment": {"saturation": 0.1}}
    with pytest.raises(InvalidInput) as refused:
        parse(asked, Signature((gray,), LABELS))
    assert "leave it out" in refused.value.problems[0].detail


@pytest.mark.parametrize(
    ("kind", "spec", "target", "moving"),
    [
        ("image", PHOTO, TargetSpec("labels", "int64", (16, 12), 2), {"flip": 0.5}),
        ("standardize", SERIES, TargetSpec("labels", "int64", (20,), 2), {"shift": 0.1}),
        ("image", PHOTO, TargetSpec("mask", "float32", (16, 12)), {"crop": 0.1}),
    ],
)
def test_labels_of_positions_are_not_moved_away_from(
    kind: str, spec: TensorSpec, target: TargetSpec, moving: dict[str, float]
) -> None:
    with pytest.raises(InvalidInput, match="preprocessing") as refused:
        parse({"kind": kind, "augment": moving}, Signature((spec,), target))
    assert "labels are of positions" in refused.value.problems[0].detail
    still = {"brightness": 0.1} if kind == "image" else {"jitter": 0.1}
    assert parse({"kind": kind, "augment": still}, Signature((spec,), target))


def test_a_description_says_what_is_on_and_is_read_again() -> None:
    signature = Signature((PHOTO,), LABELS)
    (plain,) = parse({"kind": "image", "augment": {"flip": 0, "views": 8}}, signature)
    (described,) = parse({"kind": "image", "augment": {"flip": 0.5, "crop": 0}}, signature)
    (again,) = parse(described, signature)

    assert "augment" not in plain
    assert described["augment"] == {"flip": 0.5, "views": 4}
    assert again == described


@pytest.mark.parametrize("family", FAMILIES)
def test_the_documentation_lists_every_augmentation_with_its_bounds(family: type[Family]) -> None:
    page = (Path(__file__).parents[3] / "docs/samples.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.M))
    for name, (_, amount) in family.amounts().items():
        assert name in rows
        assert f"{amount.least:g} to {amount.most:g}" in rows[name], name
