"""The console's page of the installation: tokens, and stored data."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from browser import Tab
from support import Served, blobs, client, mlp, wait_until

from service.access.principal import Scope

DOCS = Path(__file__).parents[2] / "docs" / "events.md"
SOURCES = Path(__file__).parents[2] / "dashboard" / "src" / "views" / "system"
IS_FOCUS_UNCOVERED = """() => {
  const it = document.activeElement.closest("label.file") ?? document.activeElement;
  const { x, y, width, height } = it.getBoundingClientRect();
  return it.contains(document.elementFromPoint(x + width / 2, y + height - 2));
}"""

CUT_OFF = """() => {
  Response.prototype.blob = () => Promise.reject(new TypeError("network error"));
}"""


def test_a_token_is_made_used_and_revoked(tab: Callable[..., Tab], served: Served) -> None:
    page = tab(served).open("/system")
    create = page.get_by_role("button", name="Create a token …")
    create.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("camera")
    dialog.get_by_label("models:read").check()
    dialog.get_by_role("button", name="Create").click()

    secret = dialog.get_by_text(re.compile("^hone_")).inner_text()
    with client(served.url, token=secret) as app:
        assert app.get("/v1/models").status_code == 200
        dialog.get_by_role("button", name="Done").click()
        page.locator("dialog code").wait_for(state="detached")
        assert secret not in page.content()
        assert create.evaluate("it => it === document.activeElement")
        page.get_by_role("button", name="Revoke … camera").click()
        dialog.get_by_role("button", name="Revoke").click()
        page.get_by_text("camera revoked.").wait_for()
        assert app.get("/v1/models").status_code == 401
    page.get_by_role("row", name="camera").wait_for(state="detached")


def test_a_token_is_changed_and_rotated(tab: Callable[..., Tab], served: Served) -> None:
    body = {"name": "sensor", "scopes": ["models:read"], "limits": {"uploads": 2}}
    known = served.http.post("/v1/tokens", json=body).json()
    one = tab(served, timezone_id="Asia/Kolkata")
    page = one.open("/system")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Change … sensor").click()

    dialog.get_by_label("Maximum uploads at once").fill("0")
    dialog.get_by_role("button", name="Save").click()
    dialog.locator("[data-key='limits/uploads'] .problem").wait_for()
    dialog.get_by_label("Maximum uploads at once").fill("")
    dialog.get_by_label("Maximum sent per day").fill("1.5")
    dialog.get_by_label("Expires").fill("2099-01-02T03:04")
    dialog.get_by_label("Name").fill("meter")
    dialog.get_by_role("button", name="Save").click()
    page.get_by_role("row", name="meter").get_by_text("03:04").wait_for()
    changed = served.http.get(f"/v1/tokens/{known['id']}").json()
    assert (changed["name"], changed["expires_at"]) == ("meter", "2099-01-01T21:34:00Z")
    assert (changed["limits"]["uploads"], changed["limits"]["bytes_per_day"]) == (None, 1_572_864)

    page.get_by_role("button", name="Rotate … meter").click()
    dialog.get_by_role("button", name="Rotate").click()
    secret = dialog.get_by_text(re.compile("^hone_")).inner_text()
    for each, status in ((known["secret"], 401), (secret, 200)):
        with client(served.url, token=each) as app:
            assert app.get("/v1/models").status_code == status
    dialog.get_by_role("button", name="Done").click()
    page.locator("dialog code").wait_for(state="detached")
    one.forgive("422")


def test_a_page_goes_on_when_its_token_is_rotated_and_asks_for_another_when_it_ends(
    tab: Callable[..., Tab], served: Served
) -> None:
    body = {"name": "ending", "scopes": ["models:read", "tokens:admin"]}
    known = served.http.post("/v1/tokens", json=body).json()
    one = tab(served)
    page = one.open("/system", known["secret"])
    page.get_by_role("button", name="Rotate … ending").click()
    page.get_by_role("dialog").get_by_role("button", name="Rotate").click()
    secret = page.locator("dialog .secret").inner_text()
    page.locator(".connection.live").wait_for()
    assert page.evaluate("sessionStorage.getItem('honed.token')") == secret

    served.http.delete(f"/v1/tokens/{known['id']}").raise_for_status()

    page.locator("#token:focus").wait_for()
    assert page.locator("dialog").inner_html() == ""
    one.forgive("ERR_INCOMPLETE_CHUNKED_ENCODING", "401", "403")


def test_a_token_that_is_refused_says_why(tab: Callable[..., Tab], served: Served) -> None:
    one = tab(served)
    page = one.open("/system")
    page.get_by_role("button", name="Create a token …").click()
    page.get_by_role("dialog").get_by_role("button", name="Create").click()

    page.get_by_role("dialog").get_by_role("alert").get_by_text("/scopes").wait_for()
    one.forgive("422")


def test_a_small_phone_shows_every_tab_and_the_buttons_of_a_dialog(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("small", mlp(4, 3))
    page = tab(served, viewport={"width": 360, "height": 640}).open("/models/small")
    page.get_by_role("link", name="Settings").wait_for()
    nav = page.get_by_role("navigation", name="Pages of small")
    assert nav.evaluate("it => it.scrollWidth - it.clientWidth") == 0
    page.goto(f"{served.url}/dashboard/models/small/settings")
    page.get_by_role("button", name="Delete the model").wait_for()
    for _ in range(40):
        page.keyboard.press("Tab")
        assert page.evaluate(IS_FOCUS_UNCOVERED), page.evaluate("document.activeElement.outerHTML")
    page.goto(f"{served.url}/dashboard/models")
    search, title = page.get_by_label("Search models"), page.get_by_role("heading", name="Models")
    search.wait_for()
    assert search.bounding_box()["y"] < title.bounding_box()["y"] + title.bounding_box()["height"]

    page.goto(f"{served.url}/dashboard/system")
    page.get_by_role("button", name="Create a token …").click()
    create = page.get_by_role("dialog").get_by_role("button", name="Create")
    create.wait_for()
    assert create.bounding_box()["y"] + create.bounding_box()["height"] < 640


def test_stored_data_are_verified_and_backed_up(tab: Callable[..., Tab], served: Served) -> None:
    page = tab(served).open("/system")

    page.get_by_role("button", name="Verify all").click()
    page.get_by_text("Verification started").wait_for()
    page.get_by_text("No damage found").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download a backup").click()
    assert Path(download.value.path()).read_bytes().startswith(b"PK")

    page.evaluate(CUT_OFF)
    page.get_by_role("button", name="Download a backup").click()
    page.get_by_role("alert").get_by_text("the response was cut off. Try again.").wait_for()


def test_the_installation_says_what_it_runs_on_and_what_is_wrong(
    tab: Callable[..., Tab], served: Served
) -> None:
    page = tab(served).open("/system")

    about = page.get_by_role("region", name="About")
    about.get_by_text(version("honed"), exact=True).wait_for()
    found = page.get_by_role("region", name="Installation").get_by_role("listitem")
    found.filter(has_text="permissions").get_by_role("img", name="ok").wait_for()
    page.get_by_role("region", name="Stored data").get_by_text("database").wait_for()


def test_events_are_filtered_by_the_address_and_followed(
    tab: Callable[..., Tab], served: Served
) -> None:
    for name in ("shown", "hidden"):
        served.register(name, mlp(4, 3))
    page = tab(served).open("/system/events?model=shown")
    events = page.get_by_role("region", name="Events").locator("ol > li")
    events.filter(has_text="model.created").wait_for()

    served.http.put("/v1/models/hidden/aliases/stable", json={"version": 1}).raise_for_status()
    served.upload("shown", **blobs(20, 4, 3))
    first = events.first.filter(has_text="samples.added")
    first.get_by_text("accepted: 20").wait_for()
    assert events.count() == 2
    page.get_by_label("Events of").select_option("model.")
    wait_until(lambda: events.count() == 1, "one event")
    assert page.url.endswith("/system/events?type=model.&model=shown")
    events.get_by_role("link", name="shown").click()
    page.get_by_role("heading", name="shown").wait_for()


def test_the_audit_log_is_filtered_and_read_page_by_page(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("audited", mlp(4, 3))
    for _ in range(101):
        body = {"hyperparameters": {"epochs": 2}}
        served.http.patch("/v1/models/audited", json=body).raise_for_status()
    one = tab(served)
    page = one.open("/system/audit?model=audited")
    rows = page.locator("table.audit tbody tr")
    page.get_by_role("button", name="Show more").click()
    wait_until(lambda: rows.count() == 102, "the second page")
    assert page.get_by_role("button", name="Show more").count() == 0
    rows.last.scroll_into_view_if_needed()
    place = page.evaluate("scrollY")
    page.reload()
    wait_until(lambda: page.evaluate("scrollY") == place, "the same place")
    assert place > 0
    assert rows.count() == 102

    page.get_by_label("What").fill("register")
    page.get_by_label("What").press("Enter")
    wait_until(lambda: rows.count() == 1, "one entry")
    assert page.url.endswith("/system/audit?action=register&model=audited")
    page.get_by_label("Entries").select_option("refusal")
    page.get_by_text("No matching entries.").wait_for()
    page.get_by_role("link", name="Audit log").click()
    wait_until(lambda: rows.count() == 100, "all entries")
    assert page.get_by_label("What").input_value() == ""
    page.goto(f"{served.url}/dashboard/system/audit?kind=nothing")
    page.get_by_text("/query/kind: Input should be 'samples', 'change'").wait_for()
    assert page.get_by_label("Entries").input_value() == "nothing"
    one.forgive("422")


def test_every_scope_can_be_given() -> None:
    source = (SOURCES / "tokens.ts").read_text("utf-8")
    listed = source.partition("const SCOPES = [")[2].partition("]")[0]
    assert re.findall(r'"([\w:]+)"', listed) == [each.value for each in Scope]


def test_events_of_every_subject_can_be_chosen() -> None:
    told = re.findall(r"^\| `(\w+\.)\w+`", DOCS.read_text("utf-8"), re.MULTILINE)
    source = (SOURCES / "events.ts").read_text("utf-8")
    chosen = re.findall(r'^  \["(\w+\.?)", ', source, re.MULTILINE)
    alone = {"database.", "events."}  # one each, of the whole daemon

    assert {each for each in told if not each.startswith(tuple(chosen))} == alone
