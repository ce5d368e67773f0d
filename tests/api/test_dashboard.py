"""The files of the dashboard: open to a browser, closed to everything else."""

from __future__ import annotations

from support import Served


def test_the_page_needs_no_token_and_lets_nothing_else_in(served: Served) -> None:
    for path, kind in {
        "/dashboard": "text/html; charset=utf-8",
        "/dashboard/dashboard.js": "text/javascript; charset=utf-8",
        "/dashboard/dashboard.css": "text/css; charset=utf-8",
    }.items():
        answer = served.tokenless.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == kind
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        policy = answer.headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} <= set(policy)
        assert {"connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'"} <= set(policy)
        tag = {"If-None-Match": answer.headers["etag"]}
        assert served.tokenless.get(path, headers=tag).status_code == 304


def test_every_address_of_the_console_is_the_page(served: Served) -> None:
    page = served.tokenless.get("/dashboard")
    places = ("/models", "/models/digits/samples?label=3", "/models/dashboard.js")
    for place in (*places, "?place=dashboard.js"):
        assert served.tokenless.get(f"/dashboard{place}").content == page.content
