"""The page and its daemon: the token, and what happens when they lose touch."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from browser import Tab
from daemon_process import start_daemon
from playwright.sync_api import Route
from support import Served, blobs, mlp

from cli.commands.dashboard import REDIRECTING

NO_SIGNS = str.maketrans(":/", "--")
"""Of names of tokens."""
SET_HIDDEN = """(hidden) => {
  Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_the_token_is_asked_for_once_and_stays_in_its_tab(
    tab: Callable[..., Tab], served: Served
) -> None:
    one = tab(served)
    one.page.goto(f"{served.url}/dashboard")
    one.give("wrong")

    alert = one.page.get_by_role("alert")
    alert.filter(has_text="rejected this token").wait_for()
    one.forgive("401")
    one.give(served.token)
    one.page.locator(".connection.live").wait_for()
    one.page.reload()
    one.page.locator(".connection.live").wait_for()
    assert served.token not in one.page.url
    assert one.page.evaluate("Object.keys(localStorage).length + document.cookie.length") == 0
    other = one.context.new_page()
    other.goto(f"{served.url}/dashboard")
    other.get_by_label("Token", exact=True).wait_for()
    one.page.get_by_role("button", name="Sign out").click()
    one.page.get_by_label("Token", exact=True).wait_for()
    assert one.page.evaluate("sessionStorage.length") == 0


def test_a_token_of_fewer_scopes_is_told_what_it_may_not_read(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("kept", mlp(4, 3))
    one = tab(served)
    page = one.page
    for scope, lacking, place in (
        ("samples:read", "models:read", "models/kept"),
        ("models:read", "device:policy", "device"),
        ("models:read", "samples:read", "models/kept/samples"),
        ("train", "models:read", "jobs"),
        ("predict", "models:read", ""),
        ("predict", "backup", "system"),
    ):
        body = {"name": f"{scope}.{place}".translate(NO_SIGNS), "scopes": [scope]}
        page.goto(f"{served.url}/dashboard/{place}")
        one.give(served.http.post("/v1/tokens", json=body).json()["secret"])
        page.get_by_text(f"this needs the scope {lacking}; token").wait_for()
        page.locator(".connection", has_text="live").wait_for()
        untrue = re.compile("not found|Loading|not responding|No jobs|No samples|No matching")
        assert page.get_by_text(untrue).count() == 0
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Token", exact=True).wait_for()
    one.forgive("403")


def test_what_the_daemon_failed_to_tell_is_asked_for_again(
    tab: Callable[..., Tab], served: Served
) -> None:
    one = tab(served)
    page = one.open("/device")
    page.get_by_role("heading", name="Policy").wait_for()
    failure = {"status": 500, "json": {"code": "internal", "detail": "the disk failed"}}
    page.route("**/v1/policy", lambda it: it.fulfill(**failure))
    one.forgive("500")
    served.http.put("/v1/policy", json={"nice": 7}).raise_for_status()
    page.get_by_text("the disk failed").wait_for()
    assert page.get_by_role("heading", name="Policy").count() == 1
    page.reload()
    page.get_by_text("the disk failed").wait_for()
    page.unroute_all()
    page.get_by_role("heading", name="Policy").wait_for()
    assert page.get_by_text("the disk failed").count() == 0
    served.http.delete("/v1/policy").raise_for_status()


def test_a_code_signs_in_and_leaves_the_address(tab: Callable[..., Tab], served: Served) -> None:
    code = served.http.post("/v1/sign-in/codes").json()["code"]
    one = tab(served)

    one.page.goto(f"{served.url}/dashboard/device#code={code}")

    one.page.locator(".connection.live").wait_for()
    assert one.page.url == f"{served.url}/dashboard/device"
    other = one.context.new_page()
    other.goto(f"{served.url}/dashboard#code={code}")
    other.get_by_role("alert").filter(has_text="was used").wait_for()
    other.get_by_label("Token", exact=True).wait_for()
    assert "code" not in other.url


def test_a_code_that_is_opened_in_an_open_tab_signs_in_too(
    tab: Callable[..., Tab], served: Served
) -> None:
    codes = [served.http.post("/v1/sign-in/codes").json()["code"] for _ in range(2)]
    one = tab(served)
    page = one.page
    page.goto(f"{served.url}/dashboard")
    page.get_by_label("Token", exact=True).wait_for()

    for code in codes:
        before = page.evaluate("sessionStorage.getItem('honed.token')")
        page.goto(f"{served.url}/dashboard#code={code}")
        page.wait_for_function("(it) => sessionStorage.getItem('honed.token') !== it", arg=before)
        page.locator(".connection.live").wait_for()
        assert page.url == f"{served.url}/dashboard"
        assert page.evaluate("sessionStorage.getItem('honed.token')").startswith("hone_")

    page.goto(f"{served.url}/dashboard#code={codes[0]}")
    page.get_by_role("status").get_by_text("was used").wait_for()
    page.locator(".connection.live").wait_for()
    assert page.url == f"{served.url}/dashboard"
    page.go_back()
    page.locator(".connection.live").wait_for()
    assert "code" not in page.url
    one.forgive("401")


def test_the_page_that_the_command_writes_signs_in(
    tab: Callable[..., Tab], served: Served, tmp_path: Path
) -> None:
    code = served.http.post("/v1/sign-in/codes").json()["code"]
    page = tmp_path / "page.html"
    page.write_text(REDIRECTING.format(address=f"{served.url}/dashboard#code={code}"))
    one = tab(served)

    one.page.goto(page.as_uri())

    one.page.locator(".connection.live").wait_for()
    assert one.page.url == f"{served.url}/dashboard"


def test_a_daemon_that_goes_away_is_missed_and_found_again(
    tab: Callable[..., Tab], serve: Callable[..., Served]
) -> None:
    served = serve()
    served.register("before", mlp(4, 3))
    one = tab(served)
    page = one.open("/models/before")
    port = served.url.rpartition(":")[2]

    served.stop()
    page.get_by_text("The daemon is not responding.").wait_for()
    assert page.get_by_role("button", name="Download version 1").is_disabled()
    upgraded = page.get_by_text("The daemon was upgraded. Reload this page.")
    assert upgraded.count() == 0
    page.route("**/dashboard/dashboard.js", lambda it: it.fulfill(body="another"))
    command = ["serve", "--port", port, "--data-dir", str(served.data_dir)]
    again = start_daemon(command, os.environ, served.log)
    try:
        page.locator(".connection.live").wait_for()
        page.get_by_text("The daemon is not responding.").wait_for(state="hidden")
        upgraded.wait_for()
        with httpx.Client(base_url=served.url, trust_env=False) as client:
            token = {"Authorization": f"Bearer {served.token}"}
            client.delete("/v1/models/before", headers=token).raise_for_status()
        page.get_by_role("heading", name="Model “before” not found").wait_for()
    finally:
        page.goto("about:blank")
        again.send_signal(signal.SIGTERM)
        again.wait(30)
    one.forgive("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET")
    one.forgive("ERR_EMPTY_RESPONSE", "503", "404")


def test_a_page_that_nobody_sees_asks_nothing_and_comes_back_where_it_left(
    tab: Callable[..., Tab], served: Served
) -> None:
    page = tab(served).open("/models")
    other = tab(served, viewport={"width": 800, "height": 600}).open("/models")
    served.register("seen", mlp(4, 3))
    page.get_by_role("link", name="seen").wait_for()
    asked: list[Any] = []
    page.on("request", lambda request: asked.append(request))  # noqa: PLW0108 - Playwright marks it

    page.evaluate(SET_HIDDEN, True)
    served.register("unseen", mlp(4, 3))
    other.get_by_role("link", name="unseen").wait_for()
    assert page.get_by_role("link", name="unseen").count() == 0
    assert not asked
    page.evaluate(SET_HIDDEN, False)

    page.get_by_role("link", name="unseen").wait_for()
    assert asked[0].url.endswith("/v1/events")
    assert int(asked[0].headers["last-event-id"]) > 0


def test_without_events_the_page_asks_again(tab: Callable[..., Tab], served: Served) -> None:
    one = tab(served)
    one.page.route("**/v1/events", lambda route: route.fulfill(status=404, body="{}"))
    one.page.goto(f"{served.url}/dashboard/models")
    one.give(served.token)
    one.page.locator(".connection.polling").wait_for()

    served.register("polled", mlp(4, 3))

    one.page.get_by_role("link", name="polled").wait_for()
    one.forgive("404")


def test_a_daemon_that_takes_connections_and_says_nothing_counts_as_lost(
    tab: Callable[..., Tab], served: Served
) -> None:
    one = tab(served)
    asked: list[Any] = []
    held: list[Any] = []

    def refuse_once_then_say_nothing(route: Any) -> None:
        asked.append(route)
        if len(asked) == 1:
            route.abort()

    def hold_first(route: Any) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    one.page.goto(f"{served.url}/dashboard/models")
    one.page.route("**/v1/events", refuse_once_then_say_nothing)
    one.page.route("**/dashboard/dashboard.js", hold_first)
    one.give(served.token)

    one.page.locator(".connection.lost").wait_for(timeout=40_000)
    assert len(held) == 1  # nor is its script waited for without end
    one.page.unroute("**/v1/events")
    one.page.locator(".connection.live").wait_for()
    one.page.unroute_all()
    one.forgive("ERR_FAILED")


def test_the_documentation_works_under_its_policy_and_keeps_no_token(
    tab: Callable[..., Tab], served: Served, description: dict[str, Any]
) -> None:
    path = "/v1/models"
    shown = tab(served)
    # One path: the others are drawn for most of the time, and hold no token.
    shown.page.route(
        "**/openapi.json",
        lambda route: route.fulfill(
            json={**description, "paths": {path: description["paths"][path]}}
        ),
    )
    answer = shown.page.goto(f"{served.url}/docs")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    shown.page.get_by_role("button", name="Authorize").first.click()
    shown.page.locator("#auth-bearer-value").fill(served.token)
    shown.page.locator(".auth-btn-wrapper button.authorize").click()
    shown.page.locator(".btn-done").click()
    stored = "() => JSON.stringify(localStorage) + JSON.stringify(sessionStorage)"
    assert served.token not in shown.page.evaluate(stored)


def test_a_late_list_of_another_filter_leaves_what_is_chosen(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("late", mlp(4, 3))
    first = served.upload("late", **blobs(3, 4, 3)).json()["ids"][0]
    page = tab(served).open("/models/late/samples?label=2&split=validation")
    page.get_by_text("No matching samples.").wait_for()
    late: list[Route] = []

    def hold(route: Route) -> None:
        late.append(route)

    page.route(re.compile("/samples.*label=2"), hold)
    with page.expect_request(re.compile("/samples.*label=2")):  # again, of its own accord
        served.upload("late", "train", **blobs(1, 4, 3, seed=1))
    page.locator("[data-key=label] select").select_option("")
    page.locator("[data-key=split] select").select_option("")
    page.get_by_role("option", name=f"Sample {first}").click()
    with page.expect_response(re.compile("/samples.*label=2")):
        late[0].continue_()

    page.keyboard.press("Delete")
    page.get_by_role("dialog").get_by_role("button", name="Keep").click()
