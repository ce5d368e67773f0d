"""Swagger UI in a real browser, under the policy that the daemon sends with it."""

from __future__ import annotations

from collections.abc import Callable

from browser import Tab
from support import Served


def test_the_documentation_works_under_its_policy_and_keeps_no_token(
    tab: Callable[..., Tab], served: Served
) -> None:
    shown = tab(served)
    answer = shown.page.goto(f"{served.url}/docs")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    shown.page.get_by_role("button", name="Authorize").first.click()
    shown.page.locator("#auth-bearer-value").fill(served.token)
    shown.page.locator(".auth-btn-wrapper button.authorize").click()
    shown.page.locator(".btn-done").click()
    stored = "() => JSON.stringify(localStorage) + JSON.stringify(sessionStorage)"
    assert served.token not in shown.page.evaluate(stored)
