from __future__ import annotations

import pytest

from storage.errors import NotFound
from storage.records.jobs import NewTrigger


def new(model, **changes):
    fields = {"name": "nightly", "rule": {"cron": "0 3 * * *"}, "hyperparameters": {"epochs": 2}}
    return NewTrigger(model_id=model.id, **{**fields, "priority": 1, "enabled": True, **changes})


def test_a_trigger_comes_back_as_it_was_made(store, add_model):
    model = add_model(store)
    made = store.triggers.add(new(model))
    assert store.triggers.get(made.id) == made
    assert (made.model, made.rule, made.priority) == ("digits", {"cron": "0 3 * * *"}, 1)
    assert made.fired_at is None


def test_samples_that_have_a_label_by_then_are_counted(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 2, None])
    assert store.triggers.add(new(model)).labelled == 2


def test_triggers_are_listed_by_model_and_page(store, add_model):
    one, other = add_model(store), add_model(store, "other")
    ids = [store.triggers.add(new(model)).id for model in (one, other, one)]
    assert [each.id for each in store.triggers.list()] == ids
    assert [each.id for each in store.triggers.list(one.id)] == [ids[0], ids[2]]
    assert [each.id for each in store.triggers.list(one.id, limit=1)] == [ids[0]]
    assert [each.id for each in store.triggers.list(one.id, after=ids[0])] == [ids[2]]


def test_changes_by_hand_are_events_and_firing_is_none(store, add_model):
    model = add_model(store)
    trigger = store.triggers.add(new(model))
    store.triggers.update(trigger.id, new(model, enabled=False), anew=False)
    store.triggers.note(trigger.id, "asked for nothing")
    fired = store.triggers.fired(trigger, job_id=7, labelled=5)
    store.triggers.delete(trigger.id)
    kinds = [event.type for event in store.events.since(0, 100)]
    assert kinds == ["model.created", "trigger.created", "trigger.updated", "trigger.deleted"]
    assert (fired.job_id, fired.labelled, fired.enabled) == (7, 5, False)
    assert fired.fired_at == fired.tried_at is not None


def test_a_trigger_that_begins_anew_counts_from_now(store, add_model, upload):
    model = add_model(store)
    trigger = store.triggers.add(new(model))
    store.triggers.fired(trigger, job_id=7, labelled=0)
    upload(store, model, [1, 2, None])
    kept = store.triggers.update(trigger.id, new(model, name="n"), anew=False)
    assert (kept.name, kept.labelled, kept.outcome) == ("n", 0, "asked for job 7")
    anew = store.triggers.update(trigger.id, new(model, rule={"new_samples": 2}), anew=True)
    assert (anew.rule, anew.labelled, anew.outcome) == ({"new_samples": 2}, 2, "")
    assert anew.tried_at is not None
    assert (anew.fired_at, anew.job_id) == (kept.fired_at, 7)


def test_a_trigger_that_does_not_exist_is_not_found(store, add_model):
    model = add_model(store)
    for act in (store.triggers.get, store.triggers.delete):
        with pytest.raises(NotFound):
            act(9)
    with pytest.raises(NotFound):
        store.triggers.update(9, new(model), anew=True)


def test_triggers_go_with_their_model(store, add_model):
    store.triggers.add(new(add_model(store)))
    store.models.delete("digits")
    assert store.triggers.list() == []
