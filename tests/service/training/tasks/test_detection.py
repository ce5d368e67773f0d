"""Boxes on photos: maps and boxes of each other, the loss, and COCO's average precision."""

from __future__ import annotations

import numpy as np
import pytest

from service.training.evaluation.significance import paired_bootstrap
from service.training.tasks import TASKS
from service.training.tasks.average_precision import average_precisions, matched, rows_of
from service.training.tasks.boxes import FoundBoxes, assigned, found, overlaps
from service.training.tasks.detection import detection_loss

Photo = tuple[np.ndarray, np.ndarray]
SHAPE = (2 + 4, 8, 12)
TRUTH = np.array([[0.1, 0.2, 0.3, 0.25, 1], [0.6, 0.5, 0.35, 0.45, 0], [0, 0, 0.1, 0.1, 0]])
"""x, y, width, height, class."""


def logits_of(maps: np.ndarray) -> np.ndarray:
    """Outputs that say what these maps say."""
    made = maps.copy()
    made[:, :-4] = 30 * maps[:, :-4] - 15
    return made


def padded(*photos: np.ndarray) -> np.ndarray:
    made = np.full((len(photos), max(map(len, photos)) + 1, 5), -1.0, np.float32)
    for row, boxes in zip(made, photos, strict=True):
        row[: len(boxes)] = boxes
    return made


def test_maps_say_the_boxes_that_they_are_made_of() -> None:
    maps = assigned(padded(TRUTH, TRUTH[:0]), SHAPE)
    one, none = (found(each) for each in logits_of(maps))
    assert len(none.classes) == 0
    order = np.lexsort(one.boxes.T)
    assert one.boxes[order] == pytest.approx(TRUTH[np.lexsort(TRUTH[:, :4].T), :4], abs=1e-6)
    assert one.classes[order].tolist() == TRUTH[np.lexsort(TRUTH[:, :4].T), 4].tolist()
    assert (maps[0, :-4].max(axis=0) == 1).sum() == 3


def test_of_two_boxes_in_one_cell_the_smaller_one_is_learned_and_both_are_counted() -> None:
    both = np.array([[0.2, 0.2, 0.5, 0.5, 0], [0.43, 0.43, 0.04, 0.04, 1]])
    output = logits_of(assigned(padded(both), SHAPE))
    told = found(output[0])
    assert sorted(told.classes.tolist()) == [0, 1]  # each at the place of the smaller
    assert told.boxes[told.classes == 1] == pytest.approx(both[1:, :4], abs=1e-6)
    (row,) = rows_of(output, padded(both))
    assert row[-2:].tolist() == [1, 1]


def test_a_box_is_suppressed_by_a_likelier_one_of_its_class_alone() -> None:
    output = np.full((1, *SHAPE), -9.0, np.float32)
    output[:, -4:] = np.log(4)
    output[0, -4:-2] = 0
    for kind, column, logit in ((0, 4, 2), (0, 5, 1), (1, 5, 0.5), (0, 9, -1), (0, 1, -4)):
        output[0, kind, 4, column] = logit
    told = found(output[0])
    cells = (told.boxes[:, 0] + told.boxes[:, 2] / 2) * SHAPE[2] - 0.5
    assert [*zip(told.classes.tolist(), cells.round(6).tolist(), strict=True)] == [
        (0, 4.0),
        (1, 5.0),
        (0, 9.0),
    ]
    assert told.probabilities == pytest.approx(1 / (1 + np.exp(-np.array([2, 0.5, -1]))))


def test_an_output_that_is_not_finite_tells_no_box() -> None:
    output = logits_of(assigned(padded(TRUTH), SHAPE))
    output[:, :-4] = np.where(output[:, :-4] > 0, np.nan, output[:, :-4])
    assert len(found(output[0]).classes) == 0
    output = logits_of(assigned(padded(TRUTH), SHAPE))
    output[:, -4] = np.inf
    assert len(found(output[0]).classes) == 0


def test_boxes_are_cut_off_at_the_border_and_told_if_any_of_them_is_left() -> None:
    output = np.full(SHAPE, -9.0, np.float32)
    output[-4:] = 0
    output[0, 0, 0], output[0, 7, 11] = 3, 2
    output[-2:, 0, 0] = np.log(6)  # six cells wide and high, around the first
    output[-4, 7, 11] = 2  # a cell wide, and right of the last
    (box,) = found(output).boxes
    assert box * [12, 8, 12, 8] == pytest.approx([0, 0, 3.5, 3.5])


def random_set(seed: int, photos: int, classes: int, most: int) -> list[Photo]:
    """Of each photo up to `most` true boxes, (n, 5), and up to 100 predicted ones, (m, 6), with a
    probability: most near a true one, in steps, so that many are equal.
    """
    generator = np.random.default_rng(seed)
    made = []
    for _ in range(photos):
        count = int(generator.integers(0, most + 1))
        sides = generator.uniform(0.05, 0.4, (count, 2))
        truth = np.concatenate([generator.uniform(0, 0.6, (count, 2)), sides], axis=1)
        kinds = generator.integers(0, classes, count)
        again = generator.integers(0, max(1, count), min(100, 2 * count))
        near = truth[again] * generator.uniform(0.8, 1.25, (len(again), 4))
        chance = generator.uniform(size=len(again)).round(1) * 0.9 + 0.05
        wrong = generator.uniform(size=len(again)) < 0.2
        guessed = np.where(wrong, generator.integers(0, classes, len(again)), kinds[again])
        order = np.argsort(-chance, kind="stable")
        guesses = np.column_stack([near, guessed, chance])[order]
        made.append((np.column_stack([truth, kinds]), guesses))
    return made


def rows(photos: list[Photo], classes: int) -> np.ndarray:
    told = [FoundBoxes(each[:, :4], each[:, 4].astype(int), each[:, 5]) for _, each in photos]
    pairs = zip(told, (truth for truth, _ in photos), strict=True)
    return np.stack([matched(one, truth, classes) for one, truth in pairs])


COCO = {
    (0, 30, 3, 4): (
        *(0.07731491647594653, 0.24510424070214637),
        [0.050088352411573285, 0.09807873549815213, 0.08377766151811412],
    ),
    (1, 8, 5, 12): (
        *(0.1202960874456445, 0.2846797750914478),
        [
            *(0.2633663366336634, 0.12154373332070047, 0.05317501674979527),
            *(0.10011902289130012, 0.06327632763276328),
        ],
    ),
    (2, 60, 1, 2): (0.08871757035668319, 0.2932744171166613, [0.08871757035668319]),
    (3, 5, 12, 40): (
        *(0.09185428530562716, 0.28570727325286993),
        [
            *(0.0866006600660066, 0.05875455966649298, 0.056503364622176505),
            *(0.18008634654674258, 0.05718971897189718, 0.0691969196919692),
            *(0.16551155115511548, 0.07896768248253397, 0.05006774361646692),
            *(0.03045733144743045, 0.07295844969112296, 0.19595709570957096),
        ],
    ),
}
"""Of `random_set` by pycocotools 2.0.11: stats[0] and stats[1] of COCOeval(…, "bbox"), and the mean
over precision[:, :, class, 0, 2]; images, boxes and categories in this order."""


@pytest.mark.parametrize("given", COCO)
def test_average_precision_is_that_of_pycocotools(given: tuple[int, int, int, int]) -> None:
    _, photos, classes, _ = given
    whole, lowest, by_class = COCO[given]
    found_rows = rows(random_set(*given), classes)
    task = TASKS["detection"]
    assert task.metric("map").of_mean(found_rows) == pytest.approx(whole, abs=1e-9)
    assert task.metric("map_50").of_mean(found_rows) == pytest.approx(lowest, abs=1e-9)
    means = average_precisions(found_rows, np.ones((1, photos)), thresholds=10)[0].mean(axis=1)
    assert means == pytest.approx(by_class, abs=1e-9)
    of_class = [task.metric("ap", place=kind).of_mean(found_rows) for kind in range(classes)]
    assert of_class == pytest.approx(by_class, abs=1e-9)


def test_a_photo_that_is_twice_in_a_set_counts_twice() -> None:
    generator, found_rows = np.random.default_rng(0), rows(random_set(4, 12, 3, 5), 3)
    found_rows[:, :300:3] += generator.uniform(0, 1e-3, (12, 100))  # equals may come in any order
    times = generator.multinomial(12, [1 / 12] * 12, 5).astype(float)
    of_rows = TASKS["detection"].metric("map").of_rows
    assert of_rows is not None
    each = [of_rows(found_rows.repeat(n.astype(int), axis=0), np.ones((1, 12)))[0] for n in times]
    assert of_rows(found_rows, times) == pytest.approx(each)


def test_a_set_without_boxes_has_no_average_precision() -> None:
    metrics = TASKS["detection"].pass_metrics(TASKS["detection"].target_spec(SHAPE, None))
    assert metrics.result()["map"] is None
    metrics.update(np.zeros((1, *SHAPE), np.float32), padded(TRUTH[:0]))
    result = metrics.result()
    assert (result["map"], result["map_50"], result["ap"]) == (None, None, [None, None])
    assert result["boxes"] == 0


def test_the_gate_tells_a_better_model_from_a_worse_one_photo_by_photo() -> None:
    truth = padded(*[TRUTH + np.array([0.01 * n, 0, 0, 0, 0]) for n in range(10)])
    right = logits_of(assigned(truth, SHAPE))
    worse = right.copy()
    worse[:7, :2] = -15  # sees nothing on most photos
    metric = TASKS["detection"].metric("map_50")
    ours, theirs = (metric.of_samples(each, truth) for each in (right, worse))
    interval = paired_bootstrap(ours, theirs, metric.figure, metric.of_rows, tick=lambda: None)
    assert interval.difference == pytest.approx(metric.of_mean(ours) - metric.of_mean(theirs))
    assert interval.low > 0
    assert interval.p_value < 0.01


def test_the_loss_is_lowest_where_the_maps_are_right() -> None:
    truth = padded(TRUTH, TRUTH[:1], TRUTH[:0])
    right = logits_of(assigned(truth, SHAPE))
    assert (detection_loss(right, truth) < 1).all()
    for change in (np.roll(right, 1, axis=3), np.roll(right, 1, axis=0), -right):
        assert (detection_loss(change, truth)[:2] > detection_loss(right, truth)[:2]).all()


def test_the_doubt_about_a_photo_is_the_entropy_of_its_boxes() -> None:
    output = logits_of(assigned(padded(TRUTH, TRUTH, TRUTH[:0]), SHAPE))
    output[1, 1, output[1, 1] > 0] = 0  # the bar may be there or not
    doubts = TASKS["detection"].doubt(output, padded(TRUTH))
    assert doubts == pytest.approx([0, np.log(2), 0], abs=1e-4)


def test_overlaps_are_shares_of_what_two_boxes_cover() -> None:
    some = np.array([[0.0, 0, 2, 2], [0, 0, 0, 0]])
    others = np.array([[1.0, 0, 2, 2], [0, 0, 2, 2], [5, 5, 1, 1], [0, 0, 0, 0]])
    assert overlaps(some, others) == pytest.approx(np.array([[1 / 3, 1, 0, 0], [0, 0, 0, 0]]))
