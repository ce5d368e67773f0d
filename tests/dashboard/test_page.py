"""The dashboard in a real browser: what it shows, and what its buttons do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser import LOW_CONTRAST, Tab
from support import Served, blobs, mlp, wait_until

SLOW = {"epochs": 100_000, "learning_rate": 1e-4, "ignore_policy": True}
CLICK = "(selectors) => selectors.forEach((each) => document.querySelector(each).click())"
"""All clicks before the page draws anew."""
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
    page = tab(served).open()
    page.get_by_text("No model yet").wait_for()

    served.register(
        "digits", mlp(16, 256, 4), hyperparameters={"max_seconds": 4, "epochs": 100_000}
    )
    model = page.get_by_role("article", name="digits")
    model.get_by_text("no samples yet").wait_for()
    served.upload("digits", **blobs(1000, 16, 4))
    model.get_by_text(re.compile(r"\d+ train")).wait_for()
    page.get_by_role("button", name="Train digits").click()

    page.get_by_role("heading", name="Training now").wait_for()
    page.get_by_role("progressbar").wait_for()
    page.get_by_role("img", name=re.compile("training loss went from")).wait_for()
    page.get_by_text(re.compile(r"^(step )?\d.*, epoch [1-9]")).wait_for()
    model.get_by_text("Version 2").wait_for()
    model.locator(".measure").get_by_text("validation accuracy").wait_for()
    version = served.http.get("/v1/models/digits/versions/2").json()
    model.get_by_text(version["reason"]).wait_for()
    page.get_by_role("heading", name="Nothing is training").wait_for()
    assert page.locator(".curve polyline").count() == 2


def test_jobs_are_paused_resumed_and_cancelled_by_keyboard(
    tab: Callable[..., Tab], served: Served, slow: Callable[[str], int]
) -> None:
    job = slow("pressed")
    page = tab(served).open()
    served.wait_for_job(job, "running")

    press(page, f"Pause job {job}")
    page.get_by_text("Paused by a person").first.wait_for()
    page.get_by_role("heading", name="Nothing is training").wait_for()
    press(page, f"Resume job {job}")
    page.get_by_role("heading", name="Training now").wait_for()
    press(page, f"Cancel job {job}")
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    assert served.job(job)["state"] == "running"
    press(page, f"Cancel job {job}")
    press(page, "Cancel the job")
    served.wait_for_job(job, "cancelled")
    page.locator(f"[data-key=job-{job}] .badge.cancelled").wait_for()


def test_a_question_that_is_asked_again_at_once_is_answered_once(
    tab: Callable[..., Tab], served: Served, slow: Callable[[str], int]
) -> None:
    job = slow("asked")
    page = tab(served).open()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(f"{request.method} {request.url}"))
    page.get_by_role("button", name=f"Cancel job {job}").first.wait_for()

    cancel = f"[data-key='cancel:{job}']"
    page.evaluate(CLICK, [cancel, "#question-no", cancel, "#question-yes"])

    served.wait_for_job(job, "cancelled")
    page.locator(f"[data-key=job-{job}] .badge.cancelled").wait_for()
    assert len([each for each in asked if each.endswith("/cancel")]) == 1


def test_a_button_waits_until_the_page_shows_what_it_did(
    tab: Callable[..., Tab], served: Served, slow: Callable[[str], int]
) -> None:
    job = slow("twice")
    page = tab(served).open()
    page.get_by_role("button", name=f"Pause job {job}").click()
    page.locator("#waiting").wait_for()
    page.evaluate(NOTE_ENABLED)

    page.get_by_role("button", name=f"Resume job {job}").first.dblclick()

    page.get_by_role("heading", name="Training now").wait_for()
    assert page.evaluate("() => window.enabled") == []


def test_a_button_keeps_its_focus_when_its_neighbour_goes(
    tab: Callable[..., Tab], served: Served, slow: Callable[[str], int]
) -> None:
    job = slow("focused")
    page = tab(served).open()
    page.get_by_role("button", name=f"Pause job {job}").click()
    page.get_by_role("button", name=f"focused job {job} with its curve").click()
    page.locator(".now").get_by_text("Paused by a person").wait_for()
    cancel = page.locator(".now").get_by_role("button", name=f"Cancel job {job}")
    cancel.focus()

    served.http.post(f"/v1/jobs/{job}/resume").raise_for_status()

    page.get_by_role("heading", name="Training now").wait_for()
    page.locator(".now").get_by_role("button", name=f"Pause job {job}").wait_for()
    assert cancel.evaluate("it => it === document.activeElement")


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
    page.get_by_text("All training is paused by hand.").wait_for()
    job = served.ask_for_job("waits")["id"]
    page.locator(f"[data-key=job-{job}]").get_by_text("training is paused by hand").wait_for()
    page.get_by_role("button", name="Resume all training").click()
    page.get_by_role("button", name="Pause all training").wait_for()


def test_what_apps_send_is_shown_as_text(tab: Callable[..., Tab], served: Served) -> None:
    served.register("untrusted", mlp(4, 3), classes=[MARKUP, "b", "c"])
    trigger = {"name": MARKUP, "new_samples": 1, "hyperparameters": {"epochs": 1}}
    answer = served.http.post("/v1/models/untrusted/triggers", json=trigger)
    assert answer.status_code == 201, answer.text
    one = tab(served)
    page = one.open()
    served.upload("untrusted", split="train", **blobs(20, 4, 3))
    jobs = {"model": "untrusted"}
    wait_until(lambda: served.http.get("/v1/jobs", params=jobs).json()["items"], "the trigger")
    job = served.http.get("/v1/jobs", params=jobs).json()["items"][0]["id"]

    page.get_by_role("button", name=f"untrusted job {job} with its curve").click()

    page.locator(".now").get_by_text(MARKUP).wait_for()
    assert page.locator("#page img, #page b").count() == 0
    refused = "() => { try { document.body.innerHTML = '<b></b>' } catch (e) { return e.name } }"
    assert page.evaluate(refused) == "TypeError"
    one.forgive("TrustedHTML", "require-trusted-types-for")


def test_a_refusal_is_told_in_the_daemons_words(tab: Callable[..., Tab], served: Served) -> None:
    served.register("bare", mlp(4, 3))
    one = tab(served)
    page = one.open()

    page.get_by_role("button", name="Train bare").click()

    page.get_by_text("Training bare did not work").wait_for()
    page.get_by_text("no labelled training samples").wait_for()
    page.get_by_role("button", name="Dismiss this message").click()
    page.get_by_text("Training bare did not work").wait_for(state="hidden")
    one.forgive("409")


def test_the_page_is_readable_and_fits_on_a_phone_and_a_desk_by_day_and_by_night(
    tab: Callable[..., Tab], served: Served, slow: Callable[[str], int]
) -> None:
    slow("read")
    one = tab(served)
    one.page.goto(f"{served.url}/dashboard")
    one.page.get_by_label("Admin token").wait_for()
    for scheme in ("light", "dark"):
        one.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert one.page.evaluate(LOW_CONTRAST) == []
    page = one.open()
    page.get_by_role("img", name=re.compile("Loss curve")).wait_for()

    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"document.documentElement.scrollWidth <= {width}")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert page.evaluate(LOW_CONTRAST) == [], (width, scheme)
