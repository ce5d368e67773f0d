"""The console in a real browser: jobs from the button to their end, and what apps send."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from browser import Tab
from support import Served, blobs, mlp, wait_until

SLOW = {"epochs": 100_000, "learning_rate": 1e-4, "ignore_policy": True}
WAIT_LESS = """((timeout) => {
  AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms / 10);
})(AbortSignal.timeout)"""
NOTE_ENABLED = """
() => {
  window.enabled = [];
  const note = (changes) => changes.forEach(({ target }) => {
    if (!target.disabled) window.enabled.push(target.dataset.key);
  });
  new MutationObserver(note).observe(document.body, {
    subtree: true, attributeFilter: ["disabled"],
  });
}
"""
"""Which buttons can be pressed again."""
MARKUP = "<img src=x onerror=alert(1)><b>bold</b>"
PINNED = "Running job"


@pytest.fixture
def slow(served: Served) -> Iterator[Callable[[str], int]]:
    """Start jobs that train until the test has ended."""
    started: list[int] = []

    def start(name: str) -> int:
        served.register(name, mlp(32, 256, 4))
        served.upload(name, **blobs(2000, 32, 4))
        started.append(served.ask_for_job(name, **SLOW)["id"])
        return started[-1]

    yield start
    for job in started:
        served.http.post(f"/v1/jobs/{job}/cancel")
        served.wait_for_job(job)


@pytest.mark.usefixtures("cleared")
def test_a_job_is_seen_from_the_button_to_its_version(
    tab: Callable[..., Tab], served: Served
) -> None:
    unlimited = {"require_ac_power": False, "min_battery_percent": None, "windows": []}
    served.http.put("/v1/policy", json=unlimited).raise_for_status()
    page = tab(served).open("/models")
    page.get_by_text("No models yet").wait_for()

    ends = {"max_seconds": 4, "epochs": 100_000}
    served.register("digits", mlp(16, 256, 4), hyperparameters=ends)
    page.get_by_role("link", name="digits").click()
    page.get_by_text("No samples yet.").wait_for()
    served.upload("digits", **blobs(1000, 16, 4))
    page.locator(".facts").get_by_text("validation").wait_for()
    page.get_by_role("button", name="Train … digits").click()
    page.get_by_placeholder("100000, the model").wait_for()
    page.get_by_role("button", name="Queue the job").click()

    page.get_by_role("link", name=re.compile("queued")).click()
    page.get_by_role("img", name=re.compile("training loss went from")).wait_for()
    page.get_by_text(re.compile(r"^(step )?\d.*, epoch [1-9]")).wait_for()
    page.get_by_role("link", name="version 2").click()
    version = served.http.get("/v1/models/digits/versions/2").json()
    made = page.get_by_role("listitem", name="Version 2")
    made.get_by_text(version["reason"]).wait_for()
    made.locator(".measure").get_by_text("validation accuracy").wait_for()
    page.get_by_role("region", name=PINNED).wait_for(state="hidden")


def test_the_running_job_is_pinned_while_another_is_looked_at(
    tab: Callable[..., Tab], served: Served, slow: Callable[[str], int]
) -> None:
    served.register("earlier", mlp(4, 3))
    served.upload("earlier", **blobs(100, 4, 3))
    ended = served.train("earlier", epochs=2, ignore_policy=True)["id"]
    job = slow("pinned")
    page = tab(served).open("/jobs")

    page.get_by_role("link", name=f"job {ended}", exact=True).click()

    page.get_by_role("heading", name=f"Job {ended}", exact=True).wait_for()
    page.get_by_role("main").get_by_text("ignoring the policy").wait_for()
    pinned = page.get_by_role("region", name=PINNED)
    pinned.get_by_role("button", name=f"Pause job {job}").wait_for()
    chart = page.get_by_role("img", name=re.compile("^Loss curve"))
    chart.focus()
    page.keyboard.press("ArrowLeft")
    page.locator(".legend").first.get_by_text(re.compile(r"^step \d+")).wait_for()
    page.go_back()
    page.get_by_role("heading", name="Jobs", exact=True).wait_for()


def test_jobs_are_paused_resumed_and_cancelled_by_keyboard(
    tab: Callable[..., Tab], served: Served, slow: Callable[[str], int]
) -> None:
    job = slow("pressed")
    page = tab(served).open()
    served.wait_for_job(job, "running")

    press(page, f"Pause job {job}")
    page.get_by_text("Paused manually").first.wait_for()
    page.get_by_role("region", name=PINNED).wait_for(state="hidden")
    page.locator("h1:focus").wait_for()
    press(page, f"Resume job {job}")
    page.get_by_role("region", name=PINNED).wait_for()
    page.locator("h2#waiting:focus").wait_for()
    press(page, f"Cancel job {job}")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    assert served.job(job)["state"] == "running"
    press(page, f"Cancel job {job}")
    press(page, "Cancel the job")
    served.wait_for_job(job, "cancelled")
    page.get_by_role("status").get_by_text(f"Job {job} cancelled.").wait_for()
    page.locator(f"[data-key=job-{job}] .badge.cancelled").wait_for()
    page.locator("h1:focus").wait_for()


def test_a_button_waits_until_the_page_shows_what_it_did(
    tab: Callable[..., Tab], served: Served, slow: Callable[[str], int]
) -> None:
    job = slow("twice")
    page = tab(served).open()
    page.get_by_role("button", name=f"Pause job {job}").click()
    page.get_by_text("Paused manually").wait_for()
    page.evaluate(NOTE_ENABLED)

    page.get_by_role("button", name=f"Resume job {job}").first.dblclick()

    page.get_by_role("region", name=PINNED).wait_for()
    assert f"resume:{job}" not in page.evaluate("() => window.enabled")


@pytest.mark.usefixtures("cleared")
def test_a_button_keeps_its_focus_when_its_neighbour_goes(
    tab: Callable[..., Tab], served: Served, slow: Callable[[str], int]
) -> None:
    job = slow("focused")
    served.wait_for_job(job, "running")
    served.http.post(f"/v1/jobs/{job}/pause").raise_for_status()
    served.wait_for_job(job, "paused")
    served.http.post("/v1/pause").raise_for_status()
    page = tab(served).open(f"/jobs/{job}")
    main = page.get_by_role("main")
    main.get_by_role("button", name=f"Resume job {job}").wait_for()
    cancel = main.get_by_role("button", name=f"Cancel job {job}")
    cancel.focus()

    served.http.post(f"/v1/jobs/{job}/resume").raise_for_status()

    main.get_by_role("button", name=f"Resume job {job}").wait_for(state="hidden")
    assert cancel.evaluate("it => it === document.activeElement")


def test_a_field_keeps_its_focus_and_caret_while_the_page_is_drawn_anew(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("typed", mlp(4, 3))
    page = tab(served).open("/models/typed/settings")
    add = page.get_by_role("region", name="Triggers").locator("[data-key=add]")
    zone = add.get_by_label("Time zone")
    page.get_by_text("Add a trigger").click()
    zone.fill("Europe/Brlin")
    zone.evaluate("it => it.setSelectionRange(8, 8)")

    made = served.http.post("/v1/models/typed/triggers", json={"cron": "0 3 * * *"})
    page.get_by_role("listitem", name="Trigger cron").wait_for()
    page.keyboard.type("e")

    assert made.status_code == 201
    assert zone.input_value() == "Europe/Berlin"
    assert zone.evaluate("it => [it === document.activeElement, it.selectionStart]") == [True, 9]


def press(page: Any, name: str) -> None:
    # A button is disabled while an answer is awaited, and takes no focus then.
    button = page.get_by_role("button", name=name, exact=True, disabled=False).first
    button.focus()
    wait_until(lambda: button.evaluate("it => it === document.activeElement"), f"{name} to focus")
    page.keyboard.press("Enter")


@pytest.mark.usefixtures("cleared")
def test_a_waiting_job_says_why_and_all_training_is_paused(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("waits", mlp(4, 3))
    served.upload("waits", split="train", **blobs(20, 4, 3))
    page = tab(served).open()

    page.get_by_role("button", name="Pause all training").click()
    page.get_by_text("All training is paused, not allowed since").wait_for()
    job = served.ask_for_job("waits")["id"]
    page.locator(f"[data-key=job-{job}]").get_by_text("training is paused by hand").wait_for()
    page.get_by_role("button", name="Resume all training").click()
    page.get_by_role("button", name="Pause all training").wait_for()
    page.get_by_role("button", name="Snooze 30 min").click()
    # Until when is told once: by the device's clock, which may not be the browser's.
    page.get_by_text("Training is snoozed", exact=True).wait_for()
    page.get_by_text(re.compile(r"snoozed until \w+ \d\d:\d\d, \d+ min more")).first.wait_for()
    page.get_by_role("button", name="End snooze").click()
    page.get_by_role("button", name="Snooze 30 min").wait_for()


def test_what_apps_send_is_shown_as_text(tab: Callable[..., Tab], served: Served) -> None:
    served.register("untrusted", mlp(4, 3), classes=[MARKUP, "b", "c"])
    trigger = {"name": MARKUP, "new_samples": 1, "hyperparameters": {"epochs": 1}}
    answer = served.http.post("/v1/models/untrusted/triggers", json=trigger)
    assert answer.status_code == 201, answer.text
    one = tab(served)
    served.upload("untrusted", split="train", **blobs(20, 4, 3))
    jobs = {"model": "untrusted"}
    wait_until(lambda: served.http.get("/v1/jobs", params=jobs).json()["items"], "the trigger")
    job = served.http.get("/v1/jobs", params=jobs).json()["items"][0]["id"]

    page = one.open(f"/jobs/{job}")

    page.get_by_role("main").get_by_text(MARKUP).first.wait_for()
    page.goto(f"{served.url}/dashboard/models/untrusted")
    page.get_by_role("main").get_by_text(MARKUP).first.wait_for()
    assert page.locator("#page img, #page b").count() == 0
    refused = "() => { try { document.body.innerHTML = '<b></b>' } catch (e) { return e.name } }"
    assert page.evaluate(refused) == "TypeError"
    one.forgive("TrustedHTML", "require-trusted-types-for")


def test_a_refusal_is_told_beside_its_button(tab: Callable[..., Tab], served: Served) -> None:
    served.register("bare", mlp(4, 3))
    one = tab(served)
    page = one.open("/models/bare")

    page.get_by_role("button", name="Train … bare").click()
    page.get_by_role("button", name="Queue the job").click()

    told = page.get_by_role("dialog").get_by_role("alert")
    told.get_by_text("no labelled training samples").wait_for()
    page.route("**/v1/models/bare/jobs", lambda _: None)
    page.evaluate(WAIT_LESS)
    page.get_by_role("button", name="Queue the job").click()
    told.get_by_text("It may still carry this out: look before you try again.").wait_for()
    one.forgive("409")


def test_fields_say_what_is_wrong_with_them(tab: Callable[..., Tab], served: Served) -> None:
    served.register("fields", mlp(4, 3))
    served.upload("fields", **blobs(20, 4, 3))
    one = tab(served)
    page = one.open("/models/fields")
    page.get_by_role("button", name="Train … fields").click()

    page.get_by_label("Batch size").fill("0")
    page.get_by_role("button", name="Queue the job").click()

    told = page.get_by_role("alert").get_by_text("greater than or equal to 1")
    page.locator("label", has_text="Batch size").filter(has=told).wait_for()
    assert told.count() == 1
    one.forgive("422")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_failed_job_shows_its_log_at_once(
    tab: Callable[..., Tab], serve: Callable[..., Served]
) -> None:
    served = serve(retry_backoff_s=0.01)
    served.register("dying", mlp(32, 64, 4))
    served.upload("dying", **blobs(500, 32, 4))
    job = served.ask_for_job("dying", epochs=100_000, ignore_policy=True)["id"]
    page = tab(served).open(f"/jobs/{job}")
    log = page.get_by_role("region", name="Log").first
    log.get_by_role("button", name="Show the log").wait_for()

    killed: set[int] = set()
    while served.job(job)["state"] == "running":
        child = served.child_pid()
        if child is not None and child not in killed:
            killed.add(child)
            os.kill(child, signal.SIGKILL)
    assert len(killed) == 4

    page.locator(".badge.failed").wait_for()
    wait_until(lambda: log.get_by_text("was ended by SIGKILL").count() == 4, "every end")
    assert re.fullmatch(r"\d\d:\d\d:\d\d", log.locator("time").first.inner_text())
    log.get_by_role("button", name="Hide the log").click()
    log.get_by_role("button", name="Show the log").click()
    log.get_by_text("was ended by SIGKILL").first.wait_for()


def test_the_overview_tells_of_drift_until_another_version_is_latest(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("drifting", mlp(3, 8, 2), hyperparameters={"epochs": 2})
    served.http.patch("/v1/models/drifting", json={"gate": {"mode": "always"}}).raise_for_status()
    served.upload("drifting", split="train", **blobs(300, 3, 2))
    served.train("drifting", ignore_policy=True)
    page = tab(served).open()
    page.get_by_role("heading", name="Overview").wait_for()
    told = page.locator(".notice", has_text="Recent inputs of drifting differ")
    assert told.count() == 0

    moved = blobs(300, 3, 2)
    served.upload("drifting", split="train", x=np.asarray(moved["x"]) + 9, label=moved["label"])
    assert served.http.get("/v1/models/drifting/drift").json()["drifted"] is True
    told.get_by_role("link", name="drifting").wait_for()
    served.train("drifting", ignore_policy=True)
    told.wait_for(state="detached")
