"""A real browser for the tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser import CHROMIUM, Tab, launched
from npm import Npm
from support import Served


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with launched() as browser:
        yield browser


@pytest.fixture(scope="session")
def npm(tmp_path_factory: pytest.TempPathFactory) -> Npm:
    return Npm(tmp_path_factory.mktemp("npm"))


@pytest.fixture(scope="session")
def axe(npm: Npm) -> str:
    """The script of axe-core, which finds what keeps people from using a page."""
    return (npm.folder / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


@pytest.fixture
def tab(chromium: Any) -> Iterator[Callable[..., Tab]]:
    """Open tabs; each must have stayed without a complaint."""
    tabs: list[Tab] = []

    def start(served: Served, **options: Any) -> Tab:
        tabs.append(Tab(chromium, served, **options))
        return tabs[-1]

    yield start
    complaints = [complaint for each in tabs for complaint in each.complaints]
    for each in tabs:
        each.context.close()
    assert not complaints
