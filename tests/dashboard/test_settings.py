"""Forms of the console: the policy, and what of a model can be changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browser import Tab
from support import Served, mlp, wait_until


@pytest.mark.usefixtures("cleared")
def test_the_policy_is_changed_and_says_what_is_wrong(
    tab: Callable[..., Tab], served: Served
) -> None:
    one = tab(served)
    page = one.open("/device")
    form = page.get_by_role("region", name="Policy")
    save = form.get_by_role("button", name="Save")
    assert save.is_disabled()

    form.get_by_label("Niceness").fill("77")
    save.click()
    form.locator("[data-key=nice] .problem").wait_for()
    form.get_by_label("Niceness").fill("12")
    form.get_by_label("Stop below free disk space").fill("100")
    form.get_by_label("Stop while battery saver is on").uncheck()
    form.get_by_label("mon 08:00").click()
    form.get_by_label("mon 09:00").click()
    form.get_by_text("mon 08:00 to 10:00").wait_for()
    form.get_by_role("button", name="sun", exact=True).click()
    save.click()

    page.get_by_text("The policy is changed.").wait_for()
    policy = served.http.get("/v1/policy").json()
    assert (policy["nice"], policy["min_free_disk_bytes"]) == (12, 100 * 2**20)
    assert policy["obey_battery_saver"] is False
    assert policy["windows"] == [
        {"days": ["mon"], "start": "08:00", "end": "10:00"},
        {"days": ["sun"], "start": "00:00", "end": "24:00"},
    ]
    page.get_by_role("region", name="Conditions").first.get_by_text("at least 100 MiB").wait_for()
    one.forgive("422")


def test_what_is_not_saved_can_be_discarded(tab: Callable[..., Tab], served: Served) -> None:
    page = tab(served).open("/device")
    form = page.get_by_role("region", name="Policy")
    before = form.get_by_label("Niceness").input_value()

    form.get_by_label("Niceness").fill("3")
    form.get_by_role("button", name="Discard").click()

    wait_until(lambda: form.get_by_label("Niceness").input_value() == before, "the value before")
    assert form.get_by_role("button", name="Save").is_disabled()


def test_gate_quota_and_retention_are_changed(tab: Callable[..., Tab], served: Served) -> None:
    served.register("formed", mlp(4, 3))
    page = tab(served).open("/models/formed/settings")

    gate = page.get_by_role("region", name="Gate")
    gate.get_by_label("A new version becomes latest").select_option("manual")
    gate.get_by_role("button", name="Save").click()
    page.get_by_text("Gate of formed: saved.").wait_for()
    quota = page.get_by_role("region", name="Quota of samples")
    quota.get_by_label("Most samples").fill("500")
    quota.get_by_role("button", name="Save").click()
    page.get_by_text("Quota of samples of formed: saved.").wait_for()
    kept = page.get_by_role("region", name="Versions that are kept")
    kept.get_by_label("Most versions").fill("")
    kept.get_by_role("button", name="Save").click()
    page.get_by_text("Versions that are kept of formed: saved.").wait_for()

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

    page.get_by_text("doomed was deleted.").wait_for()
    page.get_by_role("heading", name="Models").wait_for()
    assert served.http.get("/v1/models/doomed").status_code == 404
    one.forgive("404")
