"""The device's own zone, as its C library has it, beside the zones that have a name."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from service.triggers.cron import cron_trigger
from service.triggers.rule import Rule, checked_rule, latest_moment
from service.triggers.zone import LocalZone, registry_zone, zone_of

UTC = timezone.utc
YEAR = datetime(2026, 1, 1, tzinfo=UTC)
POSIX = {
    "CET-1CEST,M3.5.0,M10.5.0/3": "Europe/Berlin",
    "EST5EDT,M3.2.0,M11.1.0": "America/New_York",
    "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0": "Australia/Lord_Howe",
    "<+03>-3": "Europe/Istanbul",
    "UTC0": "UTC",
}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Move the device to another time zone."""
    if not hasattr(time, "tzset"):
        pytest.skip("this platform has no tzset")
    yield lambda name: monkeypatch.setenv("TZ", name)
    monkeypatch.undo()
    time.tzset()


def half_hours() -> Iterator[datetime]:
    return (YEAR + timedelta(minutes=30 * count) for count in range(2 * 24 * 365))


def test_a_zone_that_does_not_exist_is_refused():
    assert zone_of("Europe/Berlin") == ZoneInfo("Europe/Berlin")
    for name in ("Europe/Nowhere", "../etc/passwd", ""):
        with pytest.raises(ValueError, match="no time zone"):
            zone_of(name)


@pytest.mark.parametrize(("posix", "name"), POSIX.items(), ids=POSIX.values())
def test_a_posix_rule_is_the_zone_of_that_name(device, posix, name):
    device(posix)
    local, named = zone_of(None), ZoneInfo(name)
    for moment in half_hours():
        ours, theirs = moment.astimezone(local), moment.astimezone(named)
        assert (ours.replace(tzinfo=None), ours.fold) == (theirs.replace(tzinfo=None), theirs.fold)
        assert ours.astimezone(UTC) == moment


@pytest.mark.parametrize(("posix", "name"), POSIX.items(), ids=POSIX.values())
def test_hours_that_are_skipped_or_repeated_have_the_offsets_of_pep_495(device, posix, name):
    device(posix)
    local, named = zone_of(None), ZoneInfo(name)
    for moment in half_hours():
        for fold in (0, 1):
            wall = moment.replace(tzinfo=None, fold=fold, microsecond=5)
            ours, theirs = (wall.replace(tzinfo=zone).utcoffset() for zone in (local, named))
            assert ours == theirs, wall


@pytest.mark.parametrize(("posix", "name"), POSIX.items(), ids=POSIX.values())
def test_cron_fires_as_in_the_zone_of_that_name(device, posix, name):
    device(posix)
    ours = cron_trigger("*/30 1-3 * * *", zone_of(None))
    theirs = cron_trigger("*/30 1-3 * * *", ZoneInfo(name))
    now = YEAR
    for _ in range(6 * 365):
        found = ours.get_next_fire_time(None, now).astimezone(UTC)
        assert found == theirs.get_next_fire_time(None, now).astimezone(UTC)
        now = found + timedelta(seconds=1)


def test_a_time_of_day_goes_by_the_devices_zone(device):
    device("CET-1CEST,M3.5.0,M10.5.0/3")
    rule = Rule(eligible_after="02:00")
    summer = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
    assert latest_moment(rule, summer)[0] == datetime(2026, 7, 1, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("name", ["UTC0", "<+03>-3", "Europe/Berlim", ":/nowhere", "x"])
@pytest.mark.parametrize(
    "fields",
    [
        {"cron": "0 3 * * *"},
        {"eligible_after": "02:00"},
        {"new_samples": 5},
        {"at_most_every_hours": 1.0},
    ],
)
def test_a_zone_that_is_no_name_refuses_no_trigger(device, name, fields):
    device(name)
    assert checked_rule(**fields).to_dict().items() >= fields.items()


def test_a_registry_without_a_zone_leaves_the_c_librarys(device):
    device("Europe/Berlin")
    assert registry_zone() == ZoneInfo("Europe/Berlin")
    device("<+03>-3")
    assert isinstance(registry_zone(), LocalZone)


def test_system_files_that_disagree_are_nobodys_business(device, caplog):
    """tzlocal says so at every reading, twice; the C library has one answer."""
    caplog.set_level(logging.DEBUG)
    cron_trigger("0 3 * * *", zone_of(None)).get_next_fire_time(None, YEAR)
    assert [record for record in caplog.records if record.name == "tzlocal"] == []
