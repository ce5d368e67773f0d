"""The files of the dashboard: open to a browser, closed to everything else."""

from __future__ import annotations

import httpx
from support import Served


def test_the_page_needs_no_token_and_lets_nothing_else_in(served: Served) -> None:
    for path, kind in {
        "/dashboard": "text/html; charset=utf-8",
        "/dashboard/dashboard.js": "text/javascript; charset=utf-8",
        "/dashboard/dashboard.css": "text/css; charset=utf-8",
    }.items():
        answer = httpx.get(served.url + path, trust_env=False)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == kind
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        policy = answer.headers["content-security-policy"].split("; ")
        assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} <= set(policy)
        assert {"connect-src 'self'", "frame-ancestors 'none'", "form-action 'none'"} <= set(policy)
        tag = {"If-None-Match": answer.headers["etag"]}
        assert httpx.get(served.url + path, headers=tag, trust_env=False).status_code == 304
    assert httpx.get(f"{served.url}/dashboard/x", trust_env=False).status_code == 404
