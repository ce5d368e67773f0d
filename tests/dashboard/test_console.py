"""The console's frame: addresses, tables, and that everybody can read and use every page."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from browser import COLORS_OF_LINKS, SERIOUS, Tab
from support import Served, blobs, mlp, wait_until

PLACES = (
    "",
    "/models",
    "/models/seen",
    "/models/seen/samples",
    "/models/seen/try",
    "/models/seen/compare",
    "/models/seen/settings",
    "/add",
    "/jobs",
    "/jobs/1",
    "/device",
    "/system",
    "/system/events",
    "/system/audit",
)
WIDEST_SHARE_BEGINS = """
it => {
  const texts = [...it.querySelectorAll("text")];
  const share = texts.find(({ textContent }) => textContent.endsWith("%"));
  share.textContent = "100.0 %";
  return share.getBBox().x;
}
"""
"""Where, in the chart's own pixels."""
AS_DRAWN = "it => Math.abs(it.getBoundingClientRect().width - it.getAttribute('width')) < 1"
SAID_BY_COLOR = (".sign.holds", ".hour.on")
BACKGROUND = "it => getComputedStyle(it).backgroundColor"
OUTLINE = "it => getComputedStyle(it).outlineStyle"
RUNNING, WAITING = ("running",), ("queued", "paused")
ENDED = ("succeeded", "failed", "cancelled")
OVERFLOWING = """
() => [...document.querySelectorAll(".card")].filter((it) => it.scrollWidth > it.clientWidth + 1)
  .map((it) => it.textContent)
"""
WIDEST = "() => document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def filled(served: Served) -> Served:
    """Models with versions: one of which was promoted, one that the gate has refused."""
    served.register("seen", mlp(4, 16, 3), classes=["north", "east", "west"])
    served.upload("seen", **blobs(300, 4, 3))
    served.train("seen", epochs=3, learning_rate=0.01, seed=1, ignore_policy=True)
    # The seed matters: chance may leave steps of this length at a good place.
    served.train("seen", max_steps=3, learning_rate=90.0, seed=5, ignore_policy=True)
    for number in range(16):
        served.register(f"empty-{number:02}", mlp(4, 3))
    served.register("empty-" + 58 * "m", mlp(4, 3))
    return served


@pytest.mark.parametrize("place", PLACES)
def test_every_page_is_readable_on_a_phone_and_a_desk_by_day_and_by_night(
    tab: Callable[..., Tab], filled: Served, axe: str, place: str
) -> None:
    page = tab(filled).open(place)
    page.evaluate(axe)
    page.locator("main details").evaluate_all("them => them.forEach(it => { it.open = true; })")
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(WIDEST) <= width
        for scheme, options in (("light", {}), ("dark", COLORS_OF_LINKS)):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert page.evaluate(SERIOUS, options) == [], (width, scheme)
    regions = page.get_by_role("region")
    names = regions.evaluate_all("them => them.map((it) => [it.tagName, it.ariaLabel])")
    headings = page.get_by_role("heading", level=2).all_text_contents()
    assert not [name for tag, name in names if tag == "DIV" and name in headings]


def test_high_contrast_keeps_what_backgrounds_say(tab: Callable[..., Tab], filled: Served) -> None:
    page = tab(filled).open("/device")
    page.emulate_media(forced_colors="active")
    page.get_by_role("button", name="Only at night").click()
    page.locator(".hour.on").first.wait_for()

    shown = [page.locator(each).first.evaluate(BACKGROUND) for each in (".card", *SAID_BY_COLOR)]
    current = page.locator("nav [aria-current]").evaluate(OUTLINE)
    page.goto(f"{filled.url}/dashboard/models/seen/samples")
    samples = page.locator(".cell")
    samples.nth(0).click(modifiers=["Control"])
    samples.nth(1).click()
    selected, active = [
        page.locator(f".cell{each}") for each in ("[aria-selected=true]", ".active")
    ]
    active.wait_for()
    outlines = {each.evaluate(OUTLINE) for each in (selected, active, samples.nth(2))}
    page.emulate_media(forced_colors="null")

    assert shown.count(shown[0]) == 1
    assert current == "solid"
    assert outlines == {"double", "solid", "none"}


def test_a_short_page_keeps_its_head_small_on_a_phone(
    tab: Callable[..., Tab], filled: Served
) -> None:
    page = tab(filled, viewport={"width": 390, "height": 844}).open("/system")
    page.get_by_role("heading", name="System").wait_for()
    assert page.get_by_role("banner").bounding_box()["height"] < 60


def test_a_printed_page_has_its_content_alone(tab: Callable[..., Tab], filled: Served) -> None:
    page = tab(filled).open("/device")
    page.get_by_role("button", name="Only at night").wait_for()
    page.emulate_media(media="print")
    shown = [page.locator(each).first.is_visible() for each in (".side", ".buttons", ".hour")]
    left = page.get_by_role("main").bounding_box()["x"]
    page.emulate_media(media="null")

    assert (shown, left) == ([False, False, True], 0)


def test_signing_in_is_readable(tab: Callable[..., Tab], filled: Served, axe: str) -> None:
    page = tab(filled).page
    page.goto(f"{filled.url}/dashboard/models/seen")
    page.get_by_label("Token", exact=True).wait_for()
    page.evaluate(axe)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(SERIOUS) == []


def test_an_address_leads_back_to_its_page_after_signing_in(
    tab: Callable[..., Tab], filled: Served
) -> None:
    page = tab(filled).open("/models/seen")

    page.get_by_role("heading", name="seen", exact=True).wait_for()
    assert page.title() == "seen · Models · Hone"
    page.get_by_role("link", name="Device").click()
    page.get_by_role("heading", name="Device").wait_for()
    assert page.url.endswith("/dashboard/device")
    assert page.evaluate("document.activeElement.textContent") == "Device"
    for place in ("nothing", "device/nothing", "jobs/1/nothing", "models/seen/samples/1"):
        page.goto(f"{filled.url}/dashboard/{place}")
        page.get_by_role("heading", name="Page not found").wait_for()
        assert page.title() == "Not found · Hone"


def states_of(asked: list[str]) -> set[tuple[str, ...]]:
    return {tuple(re.findall(r"state=(\w+)", each)) for each in asked if each}


def test_old_jobs_are_found_and_no_list_is_fetched_for_another(
    tab: Callable[..., Tab], filled: Served
) -> None:
    page = tab(filled).open("/jobs?model=seen")
    asked: list[str] = []
    page.on("request", lambda it: asked.append(it.url.partition("/v1/jobs?")[2]))
    # As if fifty newer ones had ended.
    page.route("**/v1/jobs?*limit=50", lambda it: it.continue_(url=it.request.url[:-2] + "1"))
    page.reload()
    page.get_by_role("link", name="job 2", exact=True).wait_for()
    page.get_by_role("button", name="Show more").click()
    page.get_by_role("link", name="job 1", exact=True).wait_for()
    assert states_of(asked) == {RUNNING, WAITING, ENDED}
    page.get_by_role("link", name="Device").click()
    page.get_by_role("heading", name="Device", exact=True).wait_for()
    asked.clear()
    page.reload()
    page.get_by_role("region", name="Policy").wait_for()
    assert states_of(asked) == {RUNNING}
    page.go_back()

    page.get_by_label("Model").select_option("empty-00")
    page.get_by_text("No jobs.").wait_for()
    page.goto(f"{filled.url}/dashboard/jobs?model=nobody")
    page.get_by_text("No jobs.").wait_for()
    assert page.get_by_label("Model").input_value() == "nobody"


def test_a_long_name_breaks_within_its_card_and_a_long_queue_has_pages(
    tab: Callable[..., Tab], serve: Callable[..., Served]
) -> None:
    served = serve()
    name = 64 * "m"
    served.register(name, mlp(4, 3))
    served.upload(name, **blobs(100, 4, 3))
    done = served.train(name, epochs=1, ignore_policy=True)
    served.http.post("/v1/pause").raise_for_status()
    waiting = [served.ask_for_job(name)["id"] for _ in range(52)]
    page = tab(served).open()
    page.get_by_role("button", name=f"Cancel job {waiting[0]}").wait_for()
    assert page.evaluate(OVERFLOWING) == []
    page.get_by_role("link", name="44 more jobs").click()
    queued = page.get_by_role("button", name="Cancel job")
    queued.first.wait_for()
    assert queued.count() == 50
    page.get_by_role("button", name="Show more").click()
    page.get_by_role("button", name=f"Cancel job {waiting[-1]}").wait_for()
    assert queued.count() == 52
    row = page.get_by_role("row", name=re.compile(f"^job {done['id']} "))
    row.wait_for()
    assert page.evaluate(OVERFLOWING) == []
    assert row.bounding_box()["height"] < 150
    row.get_by_role("link", name=f"job {done['id']}").click()
    page.get_by_role("heading", name=f"Job {done['id']}", exact=True).wait_for()
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate(WIDEST) <= 320


def test_models_are_sorted_searched_and_the_empty_ones_folded(
    tab: Callable[..., Tab], filled: Served
) -> None:
    page = tab(filled).open("/models")
    page.get_by_role("row", name="seen").get_by_text("3 not promoted").wait_for()
    assert page.evaluate("document.documentElement.scrollHeight") <= 900

    page.get_by_role("button", name="Samples").click()
    page.get_by_role("columnheader", name="Samples").and_(
        page.locator("[aria-sort=ascending]")
    ).wait_for()
    page.get_by_text("Without samples (17)").click()
    page.get_by_role("link", name="empty-15").wait_for()
    page.get_by_label("Search models").fill("empty-03")
    page.get_by_role("link", name="empty-15").wait_for(state="hidden")
    assert page.url.endswith("/models?q=empty-03&sort=samples")
    page.get_by_role("status").get_by_text("1 model", exact=True).wait_for()
    page.get_by_role("link", name="empty-03").click()
    page.get_by_role("heading", name="empty-03").wait_for()


def test_the_table_of_models_has_the_metric_of_what_apps_fetch(
    tab: Callable[..., Tab], filled: Served
) -> None:
    versions = filled.http.get("/v1/models/seen/versions").json()["items"]
    refused, fetched, first = versions
    assert (fetched["aliases"], refused["promoted"]) == (["latest"], False)
    shown = [f"{each['metrics']['accuracy'] * 100:.1f} %" for each in (fetched, refused)]
    page = tab(filled).open("/models")
    row = page.get_by_role("row", name="seen")

    row.get_by_text("3 not promoted").wait_for()

    assert row.locator("td").nth(1).inner_text() == "2 latest 3 not promoted"
    assert row.locator("td").nth(2).inner_text() == shown[0] != shown[1]
    # As if fifty newer ones were refused, which fill the list.
    page.route("**/versions?limit=50", lambda it: it.continue_(url=it.request.url[:-2] + "1"))
    page.reload()
    row.get_by_text(shown[0]).wait_for()
    page.unroute_all()
    page.goto(f"{filled.url}/dashboard/models/seen")
    registered = page.get_by_role("listitem", name=f"Version {first['version']}")
    before = f"{fetched['baseline']['accuracy'] * 100:.1f} %"
    registered.locator(".measure", has_text=before).wait_for()


def test_the_metric_of_each_version_is_drawn_with_its_axes(
    tab: Callable[..., Tab], filled: Served
) -> None:
    refused, fetched, _ = filled.http.get("/v1/models/seen/versions").json()["items"]
    values = [fetched["baseline"], fetched["metrics"], refused["metrics"]]
    first, second, third = (value["accuracy"] for value in values)
    page = tab(filled).open("/models/seen")
    card = page.get_by_role("region", name="Metric by version")
    told = f"Accuracy curve: validation accuracy went from {first:.1%} to {third:.1%}."
    chart = card.get_by_role("img", name=told.replace("%", " %"))

    chart.wait_for()

    texts = chart.locator("text").all_text_contents()
    shares = [text for text in texts if text.endswith(" %")]
    assert len(shares) >= 3
    assert [text for text in texts if text not in shares] == ["1", "2", "3", "accuracy", "version"]
    assert chart.evaluate(WIDEST_SHARE_BEGINS) >= 0
    heights = [float(each.get_attribute("cy")) for each in chart.locator("circle").all()]
    best = max(first, second, third)
    assert heights.index(min(heights)) == [first, second, third].index(best)
    hollow = [each.get_attribute("class") == "hollow" for each in chart.locator("circle").all()]
    assert hollow == [False, False, True]
    chart.focus()
    page.keyboard.press("ArrowLeft")
    card.get_by_text("version 2", exact=True).wait_for()
    card.get_by_text(f"{second:.1%}".replace("%", " %")).wait_for()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        wait_until(lambda: chart.evaluate(AS_DRAWN), "numbers that are not scaled")
        assert chart.bounding_box()["width"] <= card.bounding_box()["width"]
    page.goto(f"{filled.url}/dashboard/jobs/{refused['job_id']}")
    page.get_by_text("The accuracy curve takes at least two values.").wait_for()


def test_a_person_promotes_and_rolls_back(tab: Callable[..., Tab], filled: Served) -> None:
    page = tab(filled).open("/models/seen")
    refused = page.get_by_role("listitem", name="Version 3")
    refused.get_by_text("not promoted", exact=True).wait_for()
    assert refused.locator(".measure.held").count() == 1

    refused.get_by_role("button", name="Promote version 3").click()
    page.get_by_text("Apps now fetch version 3 of seen.").wait_for()
    refused.get_by_role("button", name="Roll back … version 3").click()
    page.get_by_role("button", name="Roll back", exact=True).click()

    page.get_by_text("Apps now fetch version 2 of seen.").wait_for()
    assert filled.http.get("/v1/models/seen/latest").json()["version"] == 2
    page.get_by_role("button", name="Release seen").click()
    page.get_by_text("The gate decides on promotion again.").wait_for()
    assert filled.http.get("/v1/models/seen").json()["held_since"] is None
