"""Forms of the console: the policy, and what of a model can be changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import Tab
from pictures import PREPROCESS, image_model, photo
from support import Served, mlp, wait_until

TWO_FRAMES = (
    "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
)


@pytest.mark.usefixtures("cleared")
def test_the_policy_is_changed_says_what_is_wrong_and_is_reset(
    tab: Callable[..., Tab], served: Served
) -> None:
    defaults = served.http.get("/v1/policy").json()
    one = tab(served)
    page = one.open("/device")
    form = page.get_by_role("region", name="Policy")
    save = form.get_by_role("button", name="Save")
    assert save.is_disabled()

    form.get_by_label("Niceness").fill("77")
    save.click()
    form.locator("[data-key=nice] .problem").wait_for()
    assert form.locator(".problem").get_by_text("from 0 to 19").count() == 1
    form.get_by_label("Niceness").fill("12")
    form.get_by_label("Minimum free disk space").fill("100")
    form.get_by_label("Stop while battery saver is on").uncheck()
    form.get_by_label("Train only on mains power").uncheck()
    form.get_by_label("Wait while these programs run").fill("game, film")
    form.get_by_label("mon 08:00").click()
    form.get_by_label("mon 09:00").click()
    form.get_by_text("mon 08:00 to 10:00").wait_for()
    form.get_by_role("button", name="sun", exact=True).click()
    save.click()

    page.get_by_text("Policy saved.").wait_for()
    policy = served.http.get("/v1/policy").json()
    assert (policy["nice"], policy["min_free_disk_bytes"]) == (12, 100 * 2**20)
    assert policy["obey_battery_saver"] is policy["require_ac_power"] is False
    assert policy["blocking_processes"] == ["game", "film"]
    assert policy["windows"] == [
        {"days": ["mon"], "start": "08:00", "end": "10:00"},
        {"days": ["sun"], "start": "00:00", "end": "24:00"},
    ]
    conditions = page.get_by_role("region", name="Conditions").first
    conditions.get_by_text("at least 100 MiB").wait_for()
    conditions.get_by_role("row", name="Blocking programs").get_by_text("not running").wait_for()

    form.get_by_role("button", name="Restore the defaults …").click()
    page.get_by_role("dialog").get_by_role("button", name="Restore the defaults").click()
    page.get_by_text("Default policy restored.").wait_for()
    assert served.http.get("/v1/policy").json() == defaults
    wait_until(lambda: form.get_by_label("Niceness").input_value() == str(defaults["nice"]), "it")
    one.forgive("422")


def test_a_button_stays_where_it_is_pressed(tab: Callable[..., Tab], served: Served) -> None:
    one = tab(served)
    page = one.open("/device")
    form = page.get_by_role("region", name="Policy")
    save = form.get_by_role("button", name="Save")
    asked: list[Any] = []

    def hold(route: Any) -> None:
        asked.append(route)

    page.route("**/v1/policy/check", hold)

    form.get_by_label("Niceness").fill("77")
    form.get_by_text("Checking").wait_for()
    wait_until(lambda: page.evaluate("true") and asked, "the request for a forecast")
    save.hover()
    before = save.bounding_box()
    page.mouse.down()
    with page.expect_response("**/v1/policy/check") as answered:
        asked[0].continue_()
    answered.value.finished()
    page.evaluate(TWO_FRAMES)
    assert save.bounding_box() == before
    page.mouse.up()

    form.locator("[data-key=nice] .problem").wait_for()
    form.get_by_text("Not a valid policy").wait_for()
    form.get_by_role("button", name="Discard").click()
    one.forgive("422")


def test_what_is_not_saved_can_be_discarded(tab: Callable[..., Tab], served: Served) -> None:
    page = tab(served).open("/device")
    form = page.get_by_role("region", name="Policy")
    before = form.get_by_label("Niceness").input_value()

    save = form.get_by_role("button", name="Save")
    form.get_by_label("Niceness").fill("3")
    disk = form.get_by_label("Minimum free disk space")
    disk.press_sequentially("e")  # what is no number is nothing to the page
    save.click()
    wait_until(lambda: disk.evaluate("it => it === document.activeElement"), "the wrong field")
    form.get_by_role("button", name="Discard").click()

    wait_until(lambda: form.get_by_label("Niceness").input_value() == before, "the value before")
    wait_until(save.is_disabled, "nothing to save")


def test_gate_quota_and_retention_are_changed(tab: Callable[..., Tab], served: Served) -> None:
    served.register("formed", mlp(4, 3))
    page = tab(served).open("/models/formed/settings")

    gate = page.get_by_role("region", name="Gate")
    gate.get_by_label("A new version becomes latest").select_option("manual")
    gate.get_by_role("button", name="Save").click()
    page.get_by_text("Gate of formed saved.").wait_for()
    quota = page.get_by_role("region", name="Sample quota")
    held = gate.get_by_label("Hold versions back")
    for change in ("3", ""):
        quota.get_by_label("Maximum samples").fill(change)
        held.click()
    another = {"gate": {"hold_on_drift": True}, "quota": {"max_samples": 9}}
    served.http.patch("/v1/models/formed", json=another).raise_for_status()
    wait_until(lambda: quota.get_by_label("Maximum samples").input_value() == "9", "the other's")
    assert held.is_checked()
    quota.get_by_label("Maximum samples").fill("500")
    quota.get_by_role("button", name="Save").click()
    page.get_by_text("Sample quota of formed saved.").wait_for()
    kept = page.get_by_role("region", name="Version retention")
    kept.get_by_label("Maximum versions").fill("")
    kept.get_by_role("button", name="Save").click()
    page.get_by_text("Version retention of formed saved.").wait_for()

    model = served.http.get("/v1/models/formed").json()
    assert model["gate"]["mode"] == "manual"
    assert model["quota"]["max_samples"] == 500
    assert model["retention"]["max_versions"] is None


def test_a_model_is_deleted_after_asking(tab: Callable[..., Tab], served: Served) -> None:
    served.register("doomed", mlp(4, 3))
    one = tab(served)
    page = one.open("/models/doomed/settings")

    page.get_by_role("button", name="Delete the model … doomed").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the model").click()

    page.get_by_text("doomed deleted.").wait_for()
    page.get_by_role("heading", name="Models").wait_for()
    assert served.http.get("/v1/models/doomed").status_code == 404
    one.forgive("404")


def test_triggers_are_added_changed_switched_and_deleted(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("fired", mlp(4, 3))
    one = tab(served)
    page = one.open("/models/fired/settings")
    triggers = page.get_by_role("region", name="Triggers")
    triggers.get_by_text("Add a trigger").click()

    triggers.get_by_label("Schedule, as cron").fill("61 2 * * *")
    triggers.get_by_role("button", name="Add the trigger").click()
    triggers.locator("[data-key=cron] .problem").wait_for()
    triggers.get_by_label("Schedule, as cron").fill("30 2 * * *")
    triggers.get_by_label("Name").fill("nightly")
    triggers.get_by_role("button", name="Add the trigger").click()
    made = triggers.get_by_role("listitem", name="Trigger nightly")
    made.get_by_text("Fires next: ").wait_for()
    name = triggers.get_by_label("Name").last
    wait_until(lambda: name.input_value() == "", "the form to be cleared")

    (known,) = served.http.get("/v1/models/fired/triggers").json()["items"]
    assert (known["name"], known["cron"]) == ("nightly", "30 2 * * *")
    made.get_by_text("Change").click()
    made.get_by_label("Minimum interval").fill("12")
    made.get_by_role("button", name="Save").click()
    made.get_by_text("at most every 12 hours").wait_for()
    made.get_by_role("button", name="Switch off nightly").click()
    made.get_by_text("Will not fire.").wait_for()
    made.get_by_role("button", name="Delete … nightly").click()
    page.get_by_role("button", name="Delete the trigger").click()
    triggers.get_by_text("No triggers: jobs are started").wait_for()
    assert served.http.get("/v1/models/fired/triggers").json()["items"] == []
    one.forgive("422")


def test_preprocessing_is_changed_as_far_as_nothing_hangs_on_it(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("seen-so", image_model(), preprocess=PREPROCESS)
    one = tab(served)
    page = one.open("/models/seen-so/settings")
    form = page.get_by_role("region", name="Preprocessing")

    form.get_by_label("std").fill("[0]")
    form.get_by_role("button", name="Save").click()
    form.locator("[data-key=std] .problem").get_by_text("std is above 0").wait_for()
    form.get_by_label("std").fill("[0.5]")
    form.get_by_role("button", name="Save").click()
    page.get_by_text("Preprocessing of seen-so saved.").wait_for()
    assert served.http.get("/v1/models/seen-so").json()["preprocess"][0]["std"] == [0.5]

    sent = served.http.post(
        "/v1/models/seen-so/samples", content=photo(90, 1), headers={"Content-Type": "image/png"}
    )
    assert sent.status_code == 201, sent.text
    form.get_by_text("only augment and, of texts, leave_out can be changed").wait_for()
    form.get_by_label("augment").fill('{"flip": 0.5, "nonsense": 1}')
    form.get_by_role("button", name="Save").click()
    form.locator("[data-key=augment] .problem").wait_for()
    one.forgive("422")


def test_a_variant_is_made_and_downloaded(tab: Callable[..., Tab], served: Served) -> None:
    served.register("formed-so", mlp(4, 3))
    page = tab(served).open("/models/formed-so")
    page.get_by_text("Variants", exact=True).click()

    with page.expect_download() as waiting:
        page.get_by_role("button", name="Create and download ORT format of version 1").click()

    assert waiting.value.suggested_filename == "formed-so-1.ort"
    page.get_by_role("button", name="Download ORT format of version 1").wait_for()
    (variant,) = served.http.get("/v1/models/formed-so/versions/1").json()["variants"]
    assert Path(waiting.value.path()).stat().st_size == variant["size_bytes"]
