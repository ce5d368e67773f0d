"""Changes of a model: all of one or nothing, and none lost, on a real store."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from service.errors import InvalidInput
from service.models.updates import change_model
from storage.errors import StorageFull, in_full
from storage.records.jobs import NewTrigger
from storage.records.models import Model
from storage.store import Store

NOTHING: dict[str, Any] = {"hyperparameters": {}, "classes": None, "gate": {}, "retention": {}}


@pytest.fixture
def model(shop: Any) -> Model:
    model: Model = shop.add_model()
    shop.add_samples(model, 10)
    return model


def test_a_change_that_is_wrong_in_one_field_changes_no_other(store: Store, model: Model) -> None:
    wrong = {**NOTHING, "quota": {"max_samples": 3}, "gate": {"metric": "mae"}}

    with pytest.raises(InvalidInput):
        change_model(store, model, **wrong)

    assert store.models.get(model.name) == store.models.get_by_id(model.id)
    assert store.models.get(model.name).quota.max_samples is None
    assert store.sample_stats.counts(model.id).train == 10


def test_everything_that_is_wrong_is_told_at_once(store: Store, model: Model) -> None:
    with pytest.raises(InvalidInput) as caught:
        change_model(store, model, **{**NOTHING, "classes": ["a"], "gate": {"metric": "mae"}})

    assert [problem.pointer for problem in caught.value.problems] == ["/classes", "/gate/metric"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"optimizer": "sgd"}, "/hyperparameters/betas: sgd has no betas"),
        ({"weight_decay": None, "decays": ["w"]}, "/hyperparameters/decays: decays says"),
        ({"weight_decay": 0}, "/hyperparameters: trigger 1 could train no more; change it first"),
    ],
)
def test_what_hyperparameters_are_left_can_train(
    store: Store, model: Model, change: dict[str, Any], said: str
) -> None:
    own = {"betas": [0.9, 0.9], "weight_decay": 0.1}
    change_model(store, model, **{**NOTHING, "hyperparameters": own})
    asked = {"decays": ["w"]}
    store.triggers.add(NewTrigger(model.id, "t", {"at_most_every_hours": 1}, asked, 0, True))
    with pytest.raises(InvalidInput) as caught:
        change_model(store, model, **{**NOTHING, "hyperparameters": change})
    assert said in in_full(caught.value)


def test_a_quota_that_cannot_be_met_changes_nothing(store: Store, model: Model) -> None:
    for sample in store.samples.list(model.id, limit=10):
        store.samples.update(model.id, sample.id, pinned=True)

    with pytest.raises(StorageFull):
        change_model(
            store,
            model,
            **{**NOTHING, "hyperparameters": {"epochs": 7}, "quota": {"max_samples": 1}},
        )

    assert store.models.get(model.name).hyperparameters == {}


def test_of_changes_at_once_none_is_lost(store: Store, model: Model) -> None:
    names = ("epochs", "batch_size", "seed", "max_steps")
    start = threading.Barrier(len(names))

    def change(name: str) -> None:
        start.wait()
        change_model(store, model, **{**NOTHING, "hyperparameters": {name: 5}})

    threads = [threading.Thread(target=change, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert store.models.get(model.name).hyperparameters == dict.fromkeys(names, 5)
