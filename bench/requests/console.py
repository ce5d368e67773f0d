"""The console in Chromium: first paint with live data, the cost of an open page, time to react."""

from __future__ import annotations

import gzip
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from bench.daemon import Laptop, Served, add_mlp, launched, served, train
from bench.measuring import cpu_s
from bench.needs import BROWSER, PLAYWRIGHT
from bench.table import Row

ROUNDS = 15
REST_SECONDS = 30
STATIC = Path(__file__).parents[2] / "api" / "static"
PREPARE = """
([token, selector]) => {
  sessionStorage.setItem("honed.token", token);
  sessionStorage.setItem("bench.selector", selector);
}
"""
WATCH = """
(() => {
  const look = () => {
    const selector = sessionStorage.getItem("bench.selector");
    if (selector && !window.seenAt && document.querySelector(selector)) {
      window.seenAt = -1;
      // The frame that shows it is painted before the task after it runs.
      requestAnimationFrame(() => setTimeout(() => (window.seenAt = performance.now()), 0));
    }
  };
  const everything = { subtree: true, childList: true, attributes: true };
  new MutationObserver(look).observe(document, everything);
  window.awaited = (next) => {
    sessionStorage.setItem("bench.selector", next);
    window.seenAt = 0;
    window.askedAt = performance.now();
    look();
  };
})();
"""
LIVE = ".verdict, #conditions li"
HELD, LOST = ".verdict.held", "#page.stale"
NEEDS = (BROWSER, PLAYWRIGHT)
SMALLEST = {"ROUNDS": 1, "REST_SECONDS": 1}


def run() -> list[Row]:
    """The daemon has trained a model, and a laptop's signals; the page shows the overview."""
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as folder:
        laptop = Laptop(Path(folder))
        with served(sysfs_root=laptop.sysfs) as daemon, launched() as browser:
            _fill(daemon)
            return [
                {"what": "first paint with live data, no cache, ms", "must reach": "≤ 300"}
                | _paint(browser, daemon, is_cached=False),
                {"what": "the same, files cached, ms", "must reach": "≤ 300"}
                | _paint(browser, daemon, is_cached=True),
                {"what": "files, gzip, kB", "must reach": "≤ 150", "median": _size()},
                _rest(browser, daemon),
                *_reactions(browser, daemon, laptop),
            ]


def _fill(daemon: Served) -> None:
    add_mlp(daemon, "m", 64, 64, 10, samples=2_000)
    train(daemon, "m", epochs=1, ignore_policy=True)


@contextmanager
def _page(browser: Any, daemon: Served) -> Iterator[Any]:
    """A signed-in tab in a profile of its own, which awaits live data."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{daemon.url}/healthz")
    page.evaluate(PREPARE, [daemon.token, LIVE])
    page.add_init_script(WATCH)
    try:
        yield page
    finally:
        context.close()


def _paint(browser: Any, daemon: Served, *, is_cached: bool) -> Row:
    took = []
    for _ in range(ROUNDS):
        with _page(browser, daemon) as page:
            for _ in range(1 + is_cached):
                page.goto(f"{daemon.url}/dashboard")
                seconds = _seen_at(page)
            took.append(seconds)
    return _figures(took)


def _seen_at(page: Any) -> float:
    """Milliseconds from the start of the page until what it awaits was painted."""
    page.wait_for_function("() => window.seenAt > 0")
    at: float = page.evaluate("() => window.seenAt")
    return at


def _figures(took: list[float]) -> Row:
    return {"median": median(took), "max": max(took)}


def _size() -> float:
    """Of all files of the console, each compressed, in kB."""
    return sum(len(gzip.compress(path.read_bytes())) for path in STATIC.iterdir()) / 1e3


def _rest(browser: Any, daemon: Served) -> Row:
    """The daemon's processor time with an open page, less that without."""
    process = psutil.Process(daemon.process.pid)
    alone = _share(process)
    with _page(browser, daemon) as page:
        page.goto(f"{daemon.url}/dashboard")
        _seen_at(page)
        shared = _share(process)
    return {
        "what": f"what an open page costs the daemon at rest ({100 * shared:.2f} %"
        f" of a core, without {100 * alone:.2f})",
        "must reach": "< 1 %",
        "median": 100 * (shared - alone),
    }


def _share(process: psutil.Process) -> float:
    """The share of a core that it takes at rest."""
    before = cpu_s(process)
    time.sleep(REST_SECONDS)
    return (cpu_s(process) - before) / REST_SECONDS


def _reactions(browser: Any, daemon: Served, laptop: Laptop) -> list[Row]:
    daemon.http.put("/v1/policy", json={"settle_seconds": 0})
    with _page(browser, daemon) as page:
        page.goto(f"{daemon.url}/dashboard")
        _seen_at(page)
        unplugged = []
        for _ in range(ROUNDS):
            unplugged.append(_until(page, HELD, laptop.unplug))
            _until(page, ".verdict.good", laptop.plug)
        lost = _until(page, LOST, lambda: daemon.stop(signal.SIGKILL))
    return [
        {"what": "unplugged → verdict, ms", "must reach": "≤ 700"} | _figures(unplugged),
        {"what": "daemon killed → banner, ms", "must reach": "≤ 700", "median": lost},
    ]


def _until(page: Any, selector: str, cause: Callable[[], object]) -> float:
    """Milliseconds from the cause until the page has painted what matches."""
    page.evaluate("(next) => awaited(next)", selector)
    cause()
    page.wait_for_function("() => window.seenAt > 0")
    took: float = page.evaluate("() => window.seenAt - window.askedAt")
    return took
