"""A day of signals: gathered by the minute, written by the quarter of an hour."""

from __future__ import annotations

from datetime import timedelta

import pytest

from service.policy.history import MINUTE, SignalHistory, intervals
from storage.errors import StorageFull

DAY = timedelta(hours=24)


class Looks:
    """A device that is looked at every five seconds."""

    def __init__(self, history, clock, device) -> None:
        self.history, self.clock, self.device = history, clock, device
        self.trained_s = 0.0

    def go_on(self, seconds: float, *, trains: bool = False, eligible: bool = True, **signals):
        for _ in range(int(seconds / 5)):
            now = self.clock.advance(5)
            self.trained_s += 5 * trains
            self.history.add(
                now,
                self.device(now, **signals).readings,
                eligible=eligible,
                trained_today_s=self.trained_s,
            )
            if self.history.is_due:
                self.history.write()


@pytest.fixture
def history(store) -> SignalHistory:
    return SignalHistory(store.device_history)


@pytest.fixture
def looks(history, clock, device) -> Looks:
    clock.advance(60 - clock.now().wall.second)
    return Looks(history, clock, device)


def test_a_minute_holds_means_shares_and_how_long_was_trained(store, history, looks):
    begin = looks.clock.now().wall
    looks.go_on(5, foreign_cpu_percent=10.0)
    looks.go_on(25, foreign_cpu_percent=30.0, trains=True)
    looks.go_on(25, foreign_cpu_percent=50.0, on_ac_power=False, eligible=False)
    looks.go_on(5)
    first, *_ = history.since(begin)

    assert (first.at, first.eligible, first.trained_s) == (begin, False, 25.0)
    assert first.signals["foreign_cpu_percent"] == pytest.approx(37.273)
    assert first.signals["on_ac_power"] == pytest.approx(0.54545)
    assert not {"local_time", "running_processes"} & set(first.signals)


def test_an_unknown_signal_is_absent_and_comes_back(history, looks):
    begin = looks.clock.now().wall
    looks.go_on(60, temperature_c=None)
    looks.go_on(60, temperature_c=50.0)
    found = [each.signals.get("temperature_c") for each in history.since(begin)]
    assert found[:2] == [None, 50.0]


def test_the_disk_is_written_four_times_an_hour(store, looks, monkeypatch):
    writes = []
    add = store.device_history.add
    monkeypatch.setattr(store.device_history, "add", lambda rows: (writes.append(rows), add(rows)))
    looks.go_on(3600 + 60)
    assert [len(rows) for rows in writes] == [15, 15, 15, 15]


def test_what_was_gathered_outlives_a_restart(store, history, looks):
    begin = looks.clock.now().wall
    looks.go_on(200, temperature_c=61.0)
    history.close()
    after = SignalHistory(store.device_history).since(begin)
    assert [each.signals["temperature_c"] for each in after] == [61.0] * 4


def test_no_more_than_a_day_is_kept_whatever_the_clock_did(store, history, looks, clock):
    begin = clock.now().wall
    looks.go_on(30 * 60)
    clock.jump(DAY.total_seconds())
    looks.go_on(20 * 60)
    kept = store.device_history.since(begin)
    assert kept[0].at >= kept[-1].at - DAY
    clock.jump(-7 * DAY.total_seconds())
    looks.go_on(20 * 60)
    now = clock.now().wall
    assert all(each.at <= now for each in store.device_history.since(begin - 30 * DAY))


def test_what_a_full_disk_refuses_is_written_later(store, history, looks, monkeypatch):
    begin = looks.clock.now().wall
    with monkeypatch.context() as patch:

        def refuse(_rows: object) -> None:
            raise StorageFull("no room")

        patch.setattr(store.device_history, "add", refuse)
        with pytest.raises(StorageFull):
            looks.go_on(3600)
    looks.go_on(16 * 60)
    assert len(store.device_history.since(begin)) == 30


def test_intervals_are_even_and_say_where_nothing_is_known(history, looks, clock):
    begin = clock.now().wall
    looks.go_on(295, temperature_c=40.0, trains=True)
    clock.advance(605)
    looks.go_on(295, temperature_c=60.0, eligible=False)

    found = intervals(
        history.since(begin), since=begin, until=begin + 20 * MINUTE, length=5 * MINUTE
    )

    assert found.eligible == (True, None, None, False)
    assert found.trained_s == (290.0, 0.0, 0.0, 0.0)
    assert found.signals["temperature_c"] == (pytest.approx(40.0), None, None, 60.0)
