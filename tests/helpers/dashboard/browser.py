"""Tabs of a real browser, and what their consoles complain of."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support import Served

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The first is the same engine without the browser's own windows: a fifth less work."""
CHROMIUM = next(filter(None, map(shutil.which, BROWSERS)), None)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Pages of the address bar, which Chromium loads for each window: half of what a tab takes.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
]
WAIT_MS = 90_000
LEFT = "/healthz"
NO_ICON = "/favicon.ico"
KEEP_TOKEN = "(token) => sessionStorage.setItem('honed.token', token)"
VIEWPORT = {"width": 1280, "height": 720}
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  console.error("violates the policy: " + event.violatedDirective + " " + event.blockedURI));
"""
LOW_CONTRAST = """
() => {
  const channels = (color) => {
    const whole = color.startsWith("color(") ? 255 : 1;
    return color.match(/[\\d.]+/g).map((part, at) => (at < 3 ? part * whole : Number(part)));
  };
  const over = ([r, g, b, alpha = 1], below) =>
    [r, g, b].map((channel, at) => channel * alpha + below[at] * (1 - alpha));
  const grounds = new Map([[null, [255, 255, 255]]]);
  const ground = (element) => {
    if (!grounds.has(element)) {
      const own = channels(getComputedStyle(element).backgroundColor);
      grounds.set(element, over(own, ground(element.parentElement)));
    }
    return grounds.get(element);
  };
  const seen = (color, element) => {
    for (let it = element; it; it = it.parentElement)
      color = over([...color, Number(getComputedStyle(it).opacity)], ground(it.parentElement));
    return color;
  };
  const luminance = (color) => {
    const [r, g, b] = color.map((channel) => {
      const part = channel / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const low = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
    if (own.length === 0 || element.closest(":disabled")) continue;
    const style = getComputedStyle(element);
    const outlined = style.paintOrder === "stroke";
    const below = outlined ? channels(style.stroke) : ground(element);
    const ink = over(channels(element instanceof SVGElement ? style.fill : style.color), below);
    const both = [ink, below].map((color) => luminance(seen(color, element)));
    const contrast = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    if (contrast < 4.5) low.push(`${own[0].data.trim()}: ${contrast.toFixed(2)}`);
  }
  return low;
}
"""
"""Every text of the page with less contrast than WCAG 2.2, 1.4.3 (AA) asks for."""

SERIOUS = f"""
async (options) => {{
  const low = ({LOW_CONTRAST.strip()})();
  const rules = {{ "color-contrast": {{ enabled: false }} }};
  const found = await axe.run(document, {{ resultTypes: ["violations"], rules, ...options }});
  return found.violations
    .filter(({{ impact }}) => impact === "serious" || impact === "critical")
    .map(({{ id, nodes }}) => `${{id}}: ${{nodes.map((node) => node.html).join(" ")}}`)
    .concat(low);
}}
"""
"""What keeps people from using the page: low contrast, and what axe finds; its script must have
been run. Its own rule of contrast asks for less, and takes three quarters of its time."""

COLORS_OF_LINKS = {"runOnly": ["link-in-text-block"]}
"""For a page that axe has seen in other colors: its only other rule of them."""


@contextmanager
def launched() -> Iterator[Any]:
    """A Chromium without a window, for contexts or pages."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class Tab:
    """A tab of its own browser profile, and everything that its console complained of.

    `leave` makes it as good as new for another test, for half of what a new one takes.
    """

    def __init__(self, browser: Any, served: Served, **options: Any) -> None:
        self.served = served
        self.heard: list[str] = []
        self.forgiven: list[str] = []
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(WAIT_MS)
        self.page = self.context.new_page()
        self.page.add_init_script(REPORT_VIOLATIONS)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.heard.append(str(error)))

    def open(self, place: str = "", token: str | None = None) -> Any:
        """A page of the console, once the token is accepted. place: as `/models`.

        The form is asked once per daemon: then the tab has the token as after a reload.
        """
        token = token or self.served.token
        was_left = self.page.url == self.served.url + LEFT
        if was_left:
            self.page.evaluate(KEEP_TOKEN, token)
        self.page.goto(f"{self.served.url}/dashboard{place}")
        if not was_left:
            self.give(token)
        self.page.locator(".connection.live").wait_for()
        return self.page

    def give(self, token: str) -> None:
        self.page.get_by_label("Token", exact=True).fill(token)
        self.page.get_by_role("button", name="Sign in").click()

    def forgive(self, *said: str) -> None:
        """Expect these complaints, which the test provokes: the browser reports some late."""
        self.forgiven.extend(said)

    def enter(self, served: Served, viewport: dict[str, int] = VIEWPORT) -> Tab:
        """Be the tab of a test: nothing is remembered of the one before."""
        self.served = served
        self.heard.clear()
        self.forgiven.clear()
        self.page.set_viewport_size(viewport)
        return self

    def leave(self) -> None:
        """Forget the token and what the test has set, and show a page that asks for nothing."""
        for other in self.context.pages[1:]:
            other.close()
        self.page.evaluate("() => (sessionStorage.clear(), localStorage.clear())")
        self.page.unroute_all()
        self.page.goto(self.served.url + LEFT)
        # Last: the page of the test would be drawn again.
        self.page.emulate_media(color_scheme="null", reduced_motion="null")

    @property
    def complaints(self) -> list[str]:
        """What the console reported and the test does not expect."""
        return [each for each in self.heard if not any(part in each for part in self.forgiven)]

    def _hear(self, message: Any) -> None:
        # The page that `leave` shows names no icon, and Chromium asks for this one.
        if message.type in ("error", "warning") and not message.location["url"].endswith(NO_ICON):
            self.heard.append(message.text)
