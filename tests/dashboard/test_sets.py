"""What versions are judged on, the source of bases, and consent to federated training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser import Tab
from support import Served, blobs, mlp, npz, wait_until
from vendors import Vendor, Website

LONG = "unbroken" * 12
PHONE = {"width": 390, "height": 844}


def test_a_base_set_and_a_reference_set_are_made_and_removed(
    tab: Callable[..., Tab], served: Served, tmp_path: Path
) -> None:
    served.register("kept", mlp(6, 8, 3), classes=["a", "b", LONG])
    served.upload("kept", **blobs(60, 6, 3))
    (tmp_path / "clean.npz").write_bytes(npz(**blobs(40, 6, 3, seed=1)))
    (tmp_path / "notes.txt").write_text("no samples")
    one = tab(served, viewport=PHONE)
    page = one.open("/models/kept/settings")
    base = page.get_by_role("region", name="Base set")
    base.get_by_text("Add samples").click()

    base.get_by_label("first labelled samples").fill("20")
    base.get_by_role("button", name="Add them").click()
    base.locator("[data-key=labels]").get_by_text(LONG).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert shown(served, "base-set")["samples"] == 20
    file = base.get_by_label("Choose a file")
    file.set_input_files(tmp_path / "notes.txt")
    base.get_by_role("alert").wait_for()
    wait_until(file.is_enabled, "the end of the first upload")
    file.set_input_files(tmp_path / "clean.npz")
    page.get_by_text("Added to the base set: 40 new samples, and 0 that").wait_for()
    base.get_by_role("button", name="Remove … the base set").click()
    page.get_by_role("button", name="Remove the base set").click()
    page.get_by_text("20 samples returned, 40 deleted.").wait_for()
    base.get_by_text("unless it has samples of its original task.").wait_for()
    assert shown(served, "base-set")["samples"] == 0

    reference = page.get_by_role("region", name="Reference set")
    reference.get_by_role("button", name="Freeze the validation samples").click()
    page.get_by_text("The reference set has").wait_for()
    frozen = shown(served, "reference")["samples"]
    assert frozen == served.http.get("/v1/models/kept").json()["samples"]["validation"] > 0
    page.get_by_text(f"The reference set has {frozen} sample").wait_for()
    reference.get_by_role("button", name="Remove … the reference set").click()
    page.get_by_role("button", name="Remove the reference set").click()
    reference.get_by_text("None. The gate uses only the validation samples").wait_for()
    assert shown(served, "reference")["frozen_at"] is None
    one.forgive("415")


def shown(served: Served, part: str, name: str = "kept") -> dict[str, Any]:
    return served.http.get(f"/v1/models/{name}/{part}").raise_for_status().json()


def test_consent_to_a_federation_is_given_with_its_terms(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("shared", mlp(4, 3))
    one = tab(served)
    page = one.open("/models/shared/settings")
    card = page.get_by_role("region", name="Federation")

    card.get_by_label("Take part").check()
    card.get_by_role("button", name="Save").click()
    card.locator(".problem").first.wait_for()
    card.get_by_label("SuperLink").fill("fl.example:9092")
    card.get_by_label("Privacy budget").fill("8")
    card.get_by_label("Maximum norm").fill("1")
    card.get_by_label("Minimum noise").fill("1.5")
    card.get_by_label("Fine-tuning").fill('{"epochs": 2}')
    card.get_by_role("button", name="Save").click()

    card.get_by_text("ε 0 of 8").wait_for()
    consent = served.http.get("/v1/models/shared/federation").json()
    assert (consent["allowed"], consent["superlink"]) == (True, "fl.example:9092")
    assert (consent["epsilon"], consent["noise_multiplier"]) == (8, 1.5)
    assert consent["personalize"] == {"epochs": 2}
    one.forgive("422")


def test_a_model_is_upgraded_to_a_file_that_waits_and_is_dropped(
    tab: Callable[..., Tab], served: Served, tmp_path: Path
) -> None:
    served.register("old", mlp(6, 8, 3))
    served.upload("old", "train", **blobs(60, 6, 3))
    served.upload("old", "validation", **blobs(30, 6, 3, seed=2))
    served.train("old", epochs=3)
    (tmp_path / "blind.onnx").write_bytes(mlp(6, 1, 3, seed=4))
    (tmp_path / "wide.onnx").write_bytes(mlp(7, 4, 3))
    one = tab(served, viewport=PHONE)
    page = one.open("/models/old/settings")
    base = page.get_by_role("region", name="Base", exact=True)

    file = base.get_by_label("Upgrade to a file")
    file.set_input_files(tmp_path / "wide.onnx")
    base.get_by_role("alert").wait_for()
    wait_until(file.is_enabled, "the end of the first upload")
    served.http.patch("/v1/models/old", json={"gate": {"mode": "manual"}}).raise_for_status()
    file.set_input_files(tmp_path / "blind.onnx")
    page.get_by_text("trains the upgrade when the policy allows").wait_for()
    base.get_by_text("An upgrade is waiting: not promoted").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    base.get_by_role("button", name="Drop … the upgrade").click()
    page.get_by_role("button", name="Drop the upgrade").click()
    page.get_by_text("Upgrade dropped.").wait_for()
    assert shown(served, "base", "old")["upgrade"] is None
    one.forgive("422")


def test_a_source_is_shown_changed_and_unfollowed(tab: Callable[..., Tab], served: Served) -> None:
    served.register("lenses", mlp(4, 8, 3))
    path = "/v1/models/lenses/follow"
    one = tab(served)
    with Website() as site:
        source = f"{site.url}/lenses.onnx"
        terms = {"source": source, "keys": [Vendor().pem], "every_hours": 12}
        page = one.open("/models/lenses/settings")
        card = page.get_by_role("region", name="Vendor\u2019s source")
        card.get_by_text("honed models follow").wait_for()
        assert served.http.put(path, json=terms).status_code == 200

        card.get_by_text(source, exact=True).wait_for()
        card.get_by_text("What a report would say").click()
        card.get_by_text("Never a sample, a label or a parameter").wait_for()
        card.get_by_label("Send one report").fill("https://vendor.example/v1/metrics")
        card.get_by_role("button", name="Save").click()
        page.get_by_text("The source of lenses is saved, and asked now.").wait_for()
        known = served.http.get(path).json()
        assert (known["report"], known["every_hours"]) == ("https://vendor.example/v1/metrics", 12)
        card.get_by_label("Send one report").fill("")
        card.get_by_role("button", name="Save").click()
        wait_until(lambda: served.http.get(path).json()["report"] is None, "the report's end")

        card.get_by_role("button", name="Unfollow … the source").click()
        page.get_by_role("button", name="Unfollow the source").click()
        card.get_by_text("honed models follow").wait_for()
    assert served.http.get(path).status_code == 404
    one.forgive("404")  # what was shown is asked for once more
