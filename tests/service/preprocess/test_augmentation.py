"""Augmentations of series, and what all families share: draws, bounds and descriptions."""

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


def test_the_draws_are_those_of_philox() -> None:
    draws = Draws(7, 2)
    draws.of(1).random(5)
    key, counter = np.array([7, 3], np.uint64), np.array([0, 1, 2, 0], np.uint64)
    philox = np.random.Philox(key=key, counter=counter)
    assert draws.of(3, 1).random() == np.random.Generator(philox).random()


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
        ("image", PHOTO, {"zoom": 1.5}, "zoom", "from 0 to 1, not 1.5: enlarge"),
        ("image", PHOTO, {"shear": 60}, "shear", "from 0 to 45"),
        ("image", PHOTO, {"noise": -1}, "noise", "from 0 to 1"),
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
        ("image", PHOTO, TargetSpec("labels", "int64", (8, 6), 2), {"flip": 0.5}),
        ("image", PHOTO, TargetSpec("labels", "int64", (16, 12), 2), {"cutmix": 1}),
        ("standardize", SERIES, TargetSpec("labels", "int64", (20,), 2), {"shift": 0.1}),
        ("image", PHOTO, TargetSpec("mask", "float32", (16, 12)), {"crop": 0.1}),
        ("image", PHOTO, TargetSpec("mask", "float32", (16, 12)), {"zoom": 0.1}),
        ("image", PHOTO, TargetSpec("mask", "float32", (16, 12)), {"shear": 5}),
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
    page = (Path(__file__).parents[3] / "docs/preprocessing.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", page, re.M))
    for name, (_, amount) in family.amounts().items():
        assert name in rows
        assert f"{amount.least:g} to {amount.most:g}" in rows[name], name
