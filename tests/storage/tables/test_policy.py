from __future__ import annotations

from datetime import date, datetime, timezone

from storage.records.jobs import StoredPolicy
from storage.store import Store

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=timezone.utc)


def test_at_first_nobody_has_asked_for_anything(store):
    assert store.policy.get() == StoredPolicy(settings=None, snoozed_until=None, paused=False)


def test_what_was_asked_for_outlives_a_restart(data_dir):
    store = Store.open(data_dir)
    store.policy.set_settings({"nice": 12})
    store.policy.set_snooze(NOON)
    store.policy.set_paused(True)
    store.close()
    again = Store.open(data_dir)
    assert again.policy.get() == StoredPolicy({"nice": 12}, NOON, True)
    again.policy.set_settings(None)
    again.policy.set_snooze(None)
    again.policy.set_paused(False)
    assert again.policy.get() == StoredPolicy(None, None, False)
    again.close()


def test_every_change_is_an_event(store):
    store.policy.set_paused(True)
    (told,) = store.events.since(0, 10)
    assert (told.type, told.data) == ("policy.updated", {"changed": "pause", "paused": True})


def test_seconds_add_up_by_day(store):
    monday, tuesday = date(2026, 3, 2), date(2026, 3, 3)
    for day, seconds in ((monday, 10.0), (monday, 5.5), (tuesday, 1.0)):
        store.policy.add_trained(day, seconds)
    assert store.policy.trained_s(monday) == 15.5
    assert store.policy.trained_s(tuesday) == 1.0
    assert store.policy.trained_s(date(2026, 3, 4)) == 0.0
