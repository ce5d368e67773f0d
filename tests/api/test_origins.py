"""A web app of another origin is let in if it is named, and with a narrow token alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support import Served, mlp

from cli.commands.serve import WRONG_SETTING

PAGE = "http://localhost:3000"
BROWSER = {"Origin": PAGE, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
PREFLIGHT = {
    **BROWSER,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type",
}


@pytest.fixture(scope="module")
def open_to_page(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("page")
    running = Served(folder / "data", database=database, allowed_origins=f'["{PAGE.upper()}"]')
    running.register("bell", mlp(8, 6, 3))
    yield running
    running.stop()


def token(served: Served, *scopes: str) -> str:
    body = {"name": f"page {len(served.http.get('/v1/tokens').json()['items'])}", "scopes": scopes}
    return served.http.post("/v1/tokens", json=body).raise_for_status().json()["secret"]


def ask(served: Served, secret: str, **headers: str) -> httpx.Response:
    given = {"Authorization": f"Bearer {secret}", **BROWSER, **headers}
    body = {"inputs": {"x": [0.5] * 8}}
    return served.tokenless.post("/v1/models/bell/predict", json=body, headers=given)


def test_a_named_page_predicts_with_a_narrow_token_and_may_read_the_answer(
    open_to_page: Served,
) -> None:
    answer = ask(open_to_page, token(open_to_page, "predict"))
    assert answer.status_code == 200, answer.text
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "origin" in answer.headers["vary"].lower()
    assert "ETag" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in answer.headers


def test_its_browser_is_told_what_it_may_send(open_to_page: Served) -> None:
    answer = open_to_page.tokenless.options("/v1/models/bell/predict", headers=PREFLIGHT)
    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert "Authorization" in answer.headers["access-control-allow-headers"]
    private = {**PREFLIGHT, "Access-Control-Request-Private-Network": "true"}
    asked = open_to_page.tokenless.options("/v1/models", headers=private)
    assert asked.headers["access-control-allow-private-network"] == "true"


@pytest.mark.parametrize("scope", ["models:admin", "device:policy", "backup", "tokens:admin"])
def test_a_token_that_may_do_more_than_apps_do_is_refused(open_to_page: Served, scope: str) -> None:
    answer = ask(open_to_page, token(open_to_page, "predict", scope))
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
    assert scope in answer.json()["detail"]
    assert answer.headers["access-control-allow-origin"] == PAGE


def test_the_admin_token_and_no_token_are_refused(open_to_page: Served) -> None:
    assert ask(open_to_page, open_to_page.token).json()["code"] == "foreign_origin"
    bare = open_to_page.tokenless.get("/v1/models", headers=BROWSER)
    assert (bare.status_code, bare.headers["access-control-allow-origin"]) == (401, PAGE)


@pytest.mark.parametrize(
    "origin", ["http://localhost:3001", "https://localhost:3000", "null", f"{PAGE}.evil.example"]
)
def test_other_pages_stay_out(open_to_page: Served, origin: str) -> None:
    secret = token(open_to_page, "predict")
    answer = ask(open_to_page, secret, Origin=origin)
    asked = open_to_page.tokenless.options("/v1/models", headers={**PREFLIGHT, "Origin": origin})
    for refused in (answer, asked):
        assert (refused.status_code, refused.json()["code"]) == (403, "foreign_origin")
        assert "access-control-allow-origin" not in refused.headers


def test_no_page_is_let_in_unless_one_is_named(served: Served) -> None:
    answer = served.tokenless.options("/v1/models", headers=PREFLIGHT)
    assert answer.status_code == 403


def test_apps_ask_as_before(open_to_page: Served) -> None:
    answer = open_to_page.http.get("/v1/models")
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "origin", ["*", "null", "http://*.example", "localhost:3000", f"{PAGE}/app", "file://x"]
)
def test_what_names_no_single_origin_ends_the_start(tmp_path: Path, origin: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HONED_")}
    given = {"HONED_CONFIG": os.devnull, "HONED_ALLOWED_ORIGINS": f'["{origin}"]'}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "honed",
            "serve",
            "--port",
            "0",
            "--data-dir",
            str(tmp_path / "data"),
        ],
        env={**kept, **given},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == WRONG_SETTING
    assert "HONED_ALLOWED_ORIGINS" in done.stderr
    assert "is no origin of a web app" in done.stderr
