"""Triggers against a real store: what they ask for, and what they leave."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from service.triggers.rule import Rule
from storage.records.jobs import Blocker, JobState, NewTrigger
from storage.records.models import Quota
from storage.samples.filter import SampleFilter


def causes(store):
    return [job.trigger for job in store.jobs.list(limit=100)]


def end_all_jobs(store):
    for job in store.jobs.waiting():
        store.jobs.move(job.id, job.state, JobState.CANCELLED)


def test_new_samples_ask_once_for_each_lot(store, shop, model, add, asking):
    add(Rule(new_samples=10), name="lots", priority=3, hyperparameters={"epochs": 2})
    asking.check()
    assert causes(store) == []
    shop.add_samples(model, 10)
    asking.check()
    asking.check()
    (job,) = store.jobs.list(limit=10)
    assert (job.trigger, job.priority, job.hyperparameters["epochs"]) == ("lots", 3, 2)
    end_all_jobs(store)
    asking.check()
    assert len(causes(store)) == 1


def test_drift_asks_once_each_time_that_it_begins(store, model, add, asking, clock):
    store.events.append("model.drifted", model.name, {"version": 1})
    add(Rule(on_drift=True))
    asking.check()
    assert causes(store) == []
    for count in (1, 2):
        clock.advance(60)
        store.events.append("model.drifted", model.name, {"version": count + 1})
        asking.check()
        end_all_jobs(store)
        asking.check()
        assert causes(store) == ["drift"] * count


def test_samples_count_when_they_get_their_label(store, shop, model, add, asking):
    add(Rule(new_samples=2))
    shop.add_samples(model, 2, labelled=False)
    asking.check()
    assert causes(store) == []
    for sample in store.samples.list(model.id, SampleFilter(unlabelled=True), limit=2):
        store.samples.update(model.id, sample.id, label=1)
    asking.check()
    assert causes(store) == ["samples"]


def test_deleted_samples_do_not_hold_new_ones_back(store, shop, model, add, asking):
    add(Rule(new_samples=3))
    for sample in store.samples.list(model.id, limit=4):
        store.samples.delete(model.id, sample.id)
    asking.check()
    shop.add_samples(model, 3)
    asking.check()
    assert causes(store) == ["samples"]


def test_a_full_model_gets_new_samples_too(store, shop, model, add, asking):
    add(Rule(new_samples=3))
    held = store.sample_stats.counts(model.id).train
    store.models.change(model.name, lambda now: replace(now, quota=Quota(max_samples=held)))
    for _ in range(3):
        assert causes(store) == []
        shop.add_samples(model, 1)
        asking.check()
    assert causes(store) == ["samples"]


def test_a_model_whose_job_waits_is_left_alone_and_it_is_said(store, add, asking):
    first = add(Rule(cron="0 3 * * *"))
    second = add(Rule(cron="0 4 * * *"))
    asking.fire(first.id)
    asking.fire(second.id)
    assert causes(store) == ["cron"]
    assert store.triggers.get(first.id).outcome == "asked for job 1"
    assert store.triggers.get(second.id).outcome == "asked for nothing: job 1 waits already"


def test_a_model_without_samples_asks_for_nothing_and_it_is_said(store, shop, asking):
    empty = shop.add_model("empty")
    new = NewTrigger(empty.id, "cron", Rule(cron="0 3 * * *").to_dict(), {}, 0, True)
    trigger = store.triggers.add(new)
    asking.fire(trigger.id)
    assert causes(store) == []
    assert "no labelled training samples" in store.triggers.get(trigger.id).outcome


def test_a_trigger_that_is_off_or_gone_is_silent(store, add, asking):
    off = add(Rule(cron="0 3 * * *"), enabled=False)
    asking.fire(off.id)
    asking.fire(999)
    assert causes(store) == []


def test_what_was_missed_for_days_is_asked_for_once(store, add, asking, clock):
    trigger = add(Rule(cron="0 3 * * *", time_zone="UTC"))
    clock.advance(9 * 86_400)
    asking.check()
    end_all_jobs(store)
    asking.check()
    asking.fire(trigger.id)  # as the timer does, which wakes up at the same moment
    assert causes(store) == ["cron"]


def test_the_first_eligible_moment_is_waited_for(store, add, asking, clock, look):
    instant = (clock.wall + timedelta(hours=1)).isoformat()
    add(Rule(eligible_after=instant))
    look.state["blocked_by"] = (Blocker("power", "on battery power"),)
    clock.advance(7200)
    asking.check()
    assert causes(store) == []
    look.state["blocked_by"] = ()
    asking.check()
    assert causes(store) == ["eligible"]


def test_a_deleted_model_takes_its_triggers_along(store, model, add, asking):
    add(Rule(at_most_every_hours=1))
    store.models.delete(model.name)
    asking.check()
    assert store.triggers.list() == []


def test_the_limit_of_hours_holds_a_cron_trigger_back_and_it_is_said(store, add, asking, clock):
    trigger = add(Rule(cron="* * * * *", at_most_every_hours=1))
    for _ in range(60):
        asking.fire(trigger.id)
        end_all_jobs(store)
        clock.advance(60)
    assert causes(store) == ["cron"]
    held = store.triggers.get(trigger.id)
    assert held.outcome == "asked for nothing: fired less than 1 h ago"
    asking.fire(trigger.id)
    assert causes(store) == ["cron", "cron"]


def test_an_hourly_firing_that_is_a_moment_late_does_not_cost_the_next(store, add, asking, clock):
    trigger = add(Rule(cron="0 * * * *", at_most_every_hours=1))
    for late_s in (0.4, 0.1):
        clock.advance(late_s)
        asking.fire(trigger.id)
        end_all_jobs(store)
        clock.advance(3600 - late_s)
    assert causes(store) == ["cron", "cron"]


def test_a_rule_that_cannot_be_read_here_says_so_and_holds_nobody_up(
    store, shop, model, add, asking
):
    broken = add(Rule(eligible_after="02:00", time_zone="Mars/Base"))
    unknown = store.triggers.add(NewTrigger(model.id, "t", {"moon": "full"}, {}, 0, True))
    add(Rule(new_samples=1))
    shop.add_samples(model, 1)
    asking.check()
    assert causes(store) == ["samples"]
    assert "Mars/Base" in store.triggers.get(broken.id).outcome
    assert "moon" in store.triggers.get(unknown.id).outcome


def test_hyperparameters_that_no_job_can_have_are_told_and_hold_nobody_up(
    store, shop, model, add, asking
):
    wrong = add(Rule(new_samples=1), name="wrong", hyperparameters={"replay": 0.5})
    add(Rule(new_samples=1), name="right")
    shop.add_samples(model, 1)
    asking.check()
    assert causes(store) == ["right"]
    outcome = store.triggers.get(wrong.id).outcome
    assert outcome.startswith("asked for nothing: the job has nothing to replay; /replay: ")
