"""The console's page of the installation: tokens, and stored data."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from browser import Tab
from support import Served, client

from service.access.principal import Scope

SOURCE = Path(__file__).parents[2] / "dashboard" / "src" / "views" / "system.ts"


def test_a_token_is_made_used_and_revoked(tab: Callable[..., Tab], served: Served) -> None:
    page = tab(served).open("/system")
    page.get_by_role("button", name="Make a token …").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("camera")
    dialog.get_by_label("models:read").check()
    dialog.get_by_role("button", name="Make it").click()

    secret = dialog.get_by_text(re.compile("^hone_")).inner_text()
    with client(served.url, token=secret) as app:
        assert app.get("/v1/models").status_code == 200
        dialog.get_by_role("button", name="I have it").click()
        page.locator("dialog code").wait_for(state="detached")
        assert secret not in page.content()
        page.get_by_role("button", name="Revoke … camera").click()
        dialog.get_by_role("button", name="Revoke it").click()
        page.get_by_text("camera is revoked.").wait_for()
        assert app.get("/v1/models").status_code == 401
    page.get_by_role("row", name="camera").wait_for(state="detached")


def test_a_token_that_is_refused_says_why(tab: Callable[..., Tab], served: Served) -> None:
    one = tab(served)
    page = one.open("/system")
    page.get_by_role("button", name="Make a token …").click()
    page.get_by_role("button", name="Make it").click()

    page.get_by_role("dialog").get_by_role("alert").get_by_text("/scopes").wait_for()
    one.forgive("422")


def test_stored_data_are_verified_and_backed_up(tab: Callable[..., Tab], served: Served) -> None:
    page = tab(served).open("/system")

    page.get_by_role("button", name="Verify all").click()
    page.get_by_text("Everything was as it was stored").wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download a backup").click()

    assert Path(download.value.path()).read_bytes().startswith(b"PK")


def test_every_scope_can_be_given() -> None:
    listed = SOURCE.read_text("utf-8").partition("const SCOPES = [")[2].partition("]")[0]
    assert re.findall(r'"([\w:]+)"', listed) == [each.value for each in Scope]
