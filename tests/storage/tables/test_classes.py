"""Labels follow when classes change, and no label is stored under an index of before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from stored import remove_class, start_job

from storage.errors import InUse, StateConflict
from storage.records.jobs import NewJob
from storage.records.models import Model
from storage.records.samples import Split
from storage.samples.filter import SampleFilter
from storage.store import Store
from storage.tables.classes import Removal

RECORD = bytes(16)


@pytest.fixture
def model(store: Store, add_model: Callable[..., Model], upload: Callable[..., Any]) -> Model:
    model = add_model(store)
    upload(store, model, [0, 3, 3, 5, None, 9], split=["train", "validation", *["train"] * 4])
    return model


def labels(store: Store, model: Model) -> list[Any]:
    return [each.label for each in store.samples.list(model.id, limit=100)]


@pytest.mark.parametrize(
    ("removal", "expected"),
    [
        (Removal(3, into=0), [0, 0, 0, 4, None, 8]),
        (Removal(3, into=5), [0, 4, 4, 4, None, 8]),
        (Removal(3, unlabel=True), [0, None, None, 4, None, 8]),
        (Removal(4), [0, 3, 3, 4, None, 8]),
    ],
)
def test_labels_and_their_counts_follow(
    store: Store, model: Model, removal: Removal, expected: list[Any]
) -> None:
    moved = remove_class(store, model, removal)

    counted: dict[Any, int] = {}
    for _, label, count in store.sample_stats.label_counts(model.id):
        counted[label] = counted.get(label, 0) + count
    assert moved == (0 if removal.index == 4 else 2)
    assert labels(store, model) == expected
    assert counted == {label: expected.count(label) for label in expected}


def test_other_models_keep_their_labels(
    store: Store, model: Model, add_model: Callable[..., Model], upload: Callable[..., Any]
) -> None:
    other = add_model(store, "other")
    upload(store, other, [3, 9])

    remove_class(store, model, Removal(3, into=0))

    assert labels(store, other) == [3, 9]


def test_samples_keep_their_label_without_leave(store: Store, model: Model) -> None:
    with pytest.raises(InUse, match="is the label of 2 samples"):
        remove_class(store, model, Removal(3))
    assert labels(store, model) == [0, 3, 3, 5, None, 9]
    assert store.models.get(model.name).signature == model.signature


def test_nothing_changes_while_a_job_is_under_way(store: Store, model: Model) -> None:
    job = start_job(store, model.id)
    with pytest.raises(InUse, match=f"job {job.id} of this model is running"):
        remove_class(store, model, Removal(4))
    assert store.models.get(model.name).signature == model.signature


def test_of_two_changes_at_once_the_second_is_refused(store: Store, model: Model) -> None:
    remove_class(store, model, Removal(4))
    with pytest.raises(StateConflict, match="look again"):
        remove_class(store, model, Removal(6))


def test_an_upload_read_with_other_indices_is_refused(store: Store, model: Model) -> None:
    target = model.signature.target
    with store.samples.stage(model.id, 16, target=target) as staging:
        staging.add(RECORD, [5], split=Split.TRAIN)
        remove_class(store, model, Removal(4))
        with pytest.raises(StateConflict, match="send them again"):
            staging.commit()
    assert len(labels(store, model)) == 6


def test_a_job_asked_for_with_other_classes_is_refused(store: Store, model: Model) -> None:
    asked = NewJob(model.id, "manual", {}, "latest", class_ids=model.signature.target.ids)
    remove_class(store, model, Removal(4))
    with pytest.raises(StateConflict, match="ask again"):
        store.jobs.enqueue(asked)
    assert not store.jobs.waiting()


def test_an_upload_goes_through_when_a_class_was_added(store: Store, model: Model) -> None:
    target = model.signature.target
    grown = replace(target, num_classes=11, class_ids=(*range(11),), classes_made=11)
    new = replace(model, signature=replace(model.signature, target=grown))
    with store.samples.stage(model.id, 16, target=target) as staging:
        staging.add(RECORD, [5], split=Split.TRAIN)
        store.models.change_classes(model, new, (), edit=dict)
        staging.commit()
    assert labels(store, model)[-1] == 5


def test_a_label_and_a_filter_read_with_other_indices_are_refused(
    store: Store, model: Model
) -> None:
    target = model.signature.target
    remove_class(store, model, Removal(4))
    before = labels(store, model)

    with pytest.raises(StateConflict):
        store.samples.update(model.id, 1, label=5, target=target)
    with pytest.raises(StateConflict):
        store.samples.delete_where(model.id, SampleFilter(label=8), target=target)

    assert labels(store, model) == before
