"""A real browser for the tests of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, VIEWPORT, Tab, launched
from npm import Npm
from support import Served


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with launched() as browser:
        yield browser


@pytest.fixture(scope="session")
def npm(of_run: Path) -> Npm:
    """Installed once a run."""
    return Npm(of_run / "npm")


@pytest.fixture(scope="session")
def axe(npm: Npm) -> str:
    """The script of axe-core, which finds what keeps people from using a page."""
    return (npm.folder / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


@pytest.fixture(scope="package")
def shared(chromium: Any) -> Iterator[list[Tab]]:
    """The tab that tests use one after the other, once the first has opened it."""
    tabs: list[Tab] = []
    yield tabs
    for tab in tabs:
        tab.context.close()


@pytest.fixture
def tab(chromium: Any, shared: list[Tab]) -> Iterator[Callable[..., Tab]]:
    """Open the shared tab, or with further options one of its own; each must stay without a
    complaint."""
    used: list[Tab] = []

    def start(served: Served, viewport: dict[str, int] = VIEWPORT, **options: Any) -> Tab:
        if options or used:
            used.append(Tab(chromium, served, viewport=viewport, **options))
        else:
            if not shared:
                shared.append(Tab(chromium, served))
            used.append(shared[0].enter(served, viewport))
        return used[-1]

    yield start
    # Before the pages are left: they may complain of what ends meanwhile.
    complaints = [complaint for each in used for complaint in each.complaints]
    for each in used:
        if each in shared and each.served.process.poll() is None:
            each.leave()
        else:
            each.context.close()
            shared[:] = [other for other in shared if other is not each]
    assert not complaints
