"""The console's page of the device: its last day, and a policy that is tried as one edits."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from browser import Tab
from support import Served, wait_until

from storage.records.jobs import DeviceMinute
from storage.store import Store

AS_WIDE = "it => Math.abs(it.getAttribute('width') - it.closest('figure').clientWidth) < 8"
MEMORY = re.compile("^Free memory over 24 hours: from .* to .*, limit 128 MiB$")


def day_of(served: Served) -> list[DeviceMinute]:
    """Two hours of training by night, an hour not allowed, an hour in which it was switched off."""
    now = datetime.now(timezone.utc).replace(second=0, microsecond=0)
    return [
        DeviceMinute(
            at=now - timedelta(minutes=minute),
            eligible=not 600 < minute <= 660,
            trained_s=60.0 if 900 < minute <= 1020 else 0.0,
            signals={"available_memory_bytes": 2.0**33, "temperature_c": 40 + minute / 60},
        )
        for minute in range(24 * 60 - 1, 0, -1)
        if not 300 < minute <= 360
    ]


def test_the_last_day_is_drawn_against_its_limits(
    tab: Callable[..., Tab], serve: Callable[..., Served]
) -> None:
    served = serve()
    served.stop()
    store = Store.open(served.data_dir)
    store.device_history.add(day_of(served))
    store.close()
    page = tab(serve()).open("/device")
    day = page.get_by_role("region", name="The last 24 hours")

    day.get_by_text(re.compile(r"^Trained 2 h 0 min; allowed 9\d % of the time")).wait_for()
    assert day.locator("svg rect.trained").count() == 1
    assert day.locator("svg rect.held").count() == 1
    heat = day.get_by_role("img", name=re.compile("^Temperature over 24 hours"))
    assert heat.locator("polyline").count() == 2, "a gap is no line"
    assert heat.locator("line.limit").count() == 2
    keys = day.locator(".strip-keys span")
    assert keys.evaluate_all("all => all.every(it => it.scrollHeight <= it.clientHeight)")
    memory = day.get_by_role("img", name=MEMORY)
    memory.focus()
    page.keyboard.press("ArrowLeft")
    day.get_by_text(re.compile("training was allowed; trained 0 s of 5 min 0 s$")).wait_for()
    page.set_viewport_size({"width": 1200, "height": 800})
    wait_until(lambda: memory.evaluate(AS_WIDE), "a chart that fills its column")
    page.set_viewport_size({"width": 390, "height": 800})
    wait_until(lambda: page.evaluate("document.documentElement.scrollWidth") <= 390, "a fit")


def test_an_unknown_signal_has_no_green_dot(
    tab: Callable[..., Tab], serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(sysfs_root=tmp_path)
    page = tab(served).open("/device")
    rows = page.get_by_role("region", name="Conditions").first
    heat = rows.get_by_role("row", name="Temperature")
    heat.get_by_text("at most 95 °C").wait_for()

    heat.get_by_role("img", name="unknown, does not block training").wait_for()

    memory = rows.get_by_role("row", name="Free memory").get_by_role("img", name="met")
    colour = "it => getComputedStyle(it).backgroundColor"
    assert heat.get_by_role("img").evaluate(colour) == "rgba(0, 0, 0, 0)"
    assert memory.evaluate(colour) == "rgb(27, 112, 72)"
    served.http.put("/v1/policy", json={"unknown": {"temperature": "block"}}).raise_for_status()
    heat.get_by_role("img", name="blocks training").wait_for()


@pytest.mark.usefixtures("cleared")
def test_presets_fill_the_policy_in_and_are_saved_like_other_changes(
    tab: Callable[..., Tab], served: Served
) -> None:
    one = tab(served)
    page = one.open("/device")
    form = page.get_by_role("region", name="Policy")
    before = served.http.get("/v1/policy").json()
    form.get_by_label("Minimum battery level").fill("77")
    form.get_by_label("Train only while the device is idle").check()

    form.get_by_role("button", name="Laptop").click()
    wait_until(lambda: form.get_by_label("Minimum battery level").input_value() == "30", "30 %")
    assert not form.get_by_label("Train only while the device is idle").is_checked()
    form.locator(".forecast").wait_for()
    assert served.http.get("/v1/policy").json() == before, "nothing is saved yet"
    saved = save(page, served)
    assert (saved["min_battery_percent"], saved["resume_battery_percent"]) == (30, 50)
    assert (saved["require_ac_power"], saved["windows"]) == (True, [])

    form.get_by_role("button", name="Only at night").click()
    form.get_by_text(
        "mon, tue, wed, thu, fri, sat, sun 22:00 to 06:00, on the device\u2019s clock"
    ).wait_for()
    hours = [form.get_by_label(f"mon {hour}:00") for hour in (12, 23)]
    assert [hour.get_attribute("aria-pressed") for hour in hours] == ["false", "true"]
    (window,) = save(page, served)["windows"]
    assert (window["start"], window["end"], len(window["days"])) == ("22:00", "06:00", 7)

    form.get_by_role("button", name="Always on").click()
    form.get_by_text("Every hour is allowed.").wait_for()
    saved = save(page, served)
    assert (saved["windows"], saved["min_battery_percent"]) == ([], None)
    assert saved["obey_battery_saver"] is False
    page.set_viewport_size({"width": 880, "height": 720})
    week = form.get_by_role("region", name="Week")
    assert week.evaluate("it => it.scrollWidth - it.clientWidth") == 0
    one.forgive("422")  # 77 % is more than the charge at which jobs resume


def save(page: Any, served: Served) -> dict[str, Any]:
    """Save the form; the policy then."""
    form = page.get_by_role("region", name="Policy")
    form.get_by_role("button", name="Save").click()
    form.locator(".forecast").wait_for(state="detached")
    policy: dict[str, Any] = served.http.get("/v1/policy").json()
    return policy


@pytest.mark.usefixtures("cleared")
def test_a_policy_tells_what_it_would_do_before_it_is_saved(
    tab: Callable[..., Tab], served: Served
) -> None:
    one = tab(served)
    page = one.open("/device")
    form = page.get_by_role("region", name="Policy")
    told: Any = form.locator(".forecast")
    assert told.count() == 0

    form.get_by_label("Maximum training per day").fill("0")
    told.get_by_text("No job could train now").wait_for()
    told.get_by_text("the limit is 0").wait_for()
    form.get_by_label("Maximum training per day").fill("1440")
    told.get_by_text("A job could train now").wait_for()
    form.get_by_label("Niceness").fill("77")
    told.get_by_text("must be a whole number from 0 to 19").wait_for()
    form.get_by_role("button", name="Discard").click()

    told.wait_for(state="detached")
    assert served.http.get("/v1/policy").json()["max_minutes_per_day"] is None
    one.forgive("422")
