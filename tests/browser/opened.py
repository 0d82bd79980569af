"""A page opened in a real browser: what it said, what it asked for, what it drew, what it shows.

`opened(page)` takes the page's text or bytes (opened from a file) or an http:// address (a served one).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "screenshots"
PATIENCE = 200_000
"""Milliseconds until a browser that does not start, or an undrawn chart, is given up. Not a limit on speed: a drawn
page is read at once."""
WATCH = """
window.broken = [];
const told = (e) => window.broken.push(e.violatedDirective + " " + e.blockedURI);
document.addEventListener("securitypolicyviolation", told);
"""
LEAVES = """
() => {
  const own = "h1,h2,h3,p,li,dt,dd,th,td,caption,summary,figcaption,pre,svg text,svg title,option,label,a,button";
  return [...document.querySelectorAll(own)].map((e) => e.textContent);
}
"""


@dataclass(frozen=True)
class Opened:
    """What a browser saw."""

    messages: tuple[str, ...]
    """Console lines of warning or error, and uncaught exceptions."""
    violations: tuple[str, ...]
    """What the Content-Security-Policy stopped."""
    requests: tuple[str, ...]
    """Everything asked for beside the page itself."""
    dialogs: tuple[str, ...]
    pwned: Any
    """The canary: what a payload that ran wrote there, or None."""
    charts: int
    drawn: int
    """Charts whose SVG stands and holds marks."""
    marks: int
    """Shapes and texts in all charts."""
    texts: tuple[str, ...]
    """What elements say, as the DOM has it."""
    markup: str
    elements: dict[str, int]
    """How many elements of each kind the DOM holds, without what Vega drew."""
    facts: Any
    """The JSON island, or None."""

    @property
    def quiet(self) -> bool:
        """Nothing ran, nothing was fetched, nothing was refused and nothing complained."""
        return not (self.messages or self.violations or self.requests or self.dialogs or self.pwned)


def browser_path() -> str:
    """Debian's chromium, or a skip that says so."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no chromium on this machine: pages are not opened (Debian: apt-get install chromium)")
    pytest.importorskip("playwright", reason="playwright drives the browser (the extra `test` has it)")
    return found


class _Browser:
    """One browser, in a thread of its own: playwright's loop would otherwise be that of every later test."""

    def __init__(self, path: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._tabs: dict[bool, _Tab] = {}
        self._thread.submit(self._start, path).result()

    def _start(self, path: str) -> None:
        from playwright.sync_api import sync_playwright

        self._driver = sync_playwright().start()
        # A name that resolves nowhere: whatever a page asks for cannot leave this machine.
        arguments = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        self._browser = self._driver.chromium.launch(executable_path=path, args=arguments, timeout=PATIENCE)

    def read(self, dark: bool, address: str, **how: Any) -> Opened:
        """What a page at this address does. The tab is used again: a new one costs a second."""

        def job() -> Opened:
            if dark not in self._tabs:
                self._tabs[dark] = _Tab(self._browser, dark)
            return self._tabs[dark].read(address, **how)

        return self._thread.submit(job).result()

    def close(self) -> None:
        self._thread.submit(lambda: (self._browser.close(), self._driver.stop())).result()
        self._thread.shutdown()


@cache
def the_browser() -> _Browser:
    """One for each test process; `conftest` closes it."""
    return _Browser(browser_path())


class _Tab:
    """A tab that writes down what happens in it."""

    def __init__(self, browser: Any, dark: bool) -> None:
        scheme = "dark" if dark else "light"
        self.tab = browser.new_page(color_scheme=scheme, viewport={"width": 1100, "height": 900})
        self.tab.set_default_timeout(PATIENCE)
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.dialogs: list[str] = []
        self.tab.add_init_script(WATCH)
        self.tab.on("console", self._said)
        self.tab.on("pageerror", lambda error: self.messages.append(f"uncaught: {error}"))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("popup", lambda popup: self.requests.append(f"popup {popup.url}"))
        self.tab.on("dialog", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.messages.append(f"{message.type}: {message.text}")

    def _asked(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def read(self, address: str, screenshot: str, act: Callable[[Any], None] | None, pdf: Path | None) -> Opened:
        tab = self.tab
        tab.goto("about:blank")
        for book in (self.messages, self.requests, self.dialogs):
            book.clear()
        tab.goto(address, wait_until="load")
        _settle(tab)
        if act is not None:
            act(tab)
            tab.wait_for_timeout(50)
        if screenshot:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            tab.screenshot(path=SCREENSHOTS / f"{screenshot}.png", full_page=True)
        if pdf is not None:
            tab.pdf(path=pdf)
        asked = [url for k, url in enumerate(self.requests) if k or url.split("#")[0] != address.split("#")[0]]
        told = {"messages": tuple(self.messages), "requests": tuple(asked), "dialogs": tuple(self.dialogs)}
        return Opened(**told, **_seen(tab))


def opened(
    page: str | bytes,
    *,
    dark: bool = False,
    screenshot: str = "",
    act: Callable[[Any], None] | None = None,
    pdf: Path | None = None,
) -> Opened:
    """Open a page and wait until its charts are drawn.

    screenshot: name under build/screenshots. act: something done to the page before it is read. pdf: print it there.
    """
    how = {"screenshot": screenshot, "act": act, "pdf": pdf}
    if isinstance(page, str) and page.startswith("http"):
        return the_browser().read(dark, page, **how)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_bytes(page if isinstance(page, bytes) else page.encode())
        return the_browser().read(dark, path.as_uri(), **how)


BROKEN = """() => {
  const broken = [];
  for (const details of document.querySelectorAll("details")) details.open = true;
  for (const cell of document.querySelectorAll("th, td")) {
    const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let text = walk.nextNode(); text; text = walk.nextNode())
      for (const word of text.data.matchAll(/[a-z]{2,11}(?![^\\s,;:.])/gi)) {
        if (word.index && !/\\s/.test(text.data[word.index - 1])) continue;
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        if (range.getClientRects().length > 1) broken.push(word[0]);
      }
  }
  return broken;
}"""


def widths(tab: Any, wide: int) -> dict[str, Any]:
    """On a screen so wide: words of up to eleven letters that tables break, and how wide the page is."""
    tab.set_viewport_size({"width": wide, "height": 900})
    try:
        across = "() => document.documentElement.scrollWidth"
        return {"broken": tab.evaluate(BROKEN), "across": tab.evaluate(across)}
    finally:
        tab.set_viewport_size({"width": 1100, "height": 900})


def _settle(tab: Any) -> None:
    """Until every chart says that it was drawn; a page where one cannot be is read as it stands."""
    from playwright.sync_api import TimeoutError as Late

    undrawn = "() => document.querySelectorAll('.chart:not([data-drawn])').length === 0 || window.broken.length > 0"
    try:
        tab.wait_for_function(undrawn, timeout=PATIENCE)
    except Late:
        return
    tab.wait_for_timeout(30)  # for whatever a payload would still do after that


def _seen(tab: Any) -> dict[str, Any]:
    count = "(what) => document.querySelectorAll(what).length"
    kinds = """() => { const n = {}; for (const e of document.querySelectorAll("*")) if (!e.closest(".chart > div"))
      n[e.tagName.toLowerCase()] = (n[e.tagName.toLowerCase()] || 0) + 1; return n; }"""
    drawn = """() => [...document.querySelectorAll(".chart")].filter((c) =>
      c.querySelector("svg.marks [class*='role-mark'] :is(path, line, rect, circle, text)")).length"""
    island = """() => { const e = document.getElementById("figures"); return e ? JSON.parse(e.textContent) : null; }"""
    return {
        "violations": tuple(tab.evaluate("() => window.broken")),
        "pwned": tab.evaluate("() => window.pwned === undefined ? null : String(window.pwned)"),
        "charts": tab.evaluate(count, ".chart"),
        "drawn": tab.evaluate(drawn),
        "marks": tab.evaluate(count, "svg.marks :is(path, line, rect, circle, text)"),
        "texts": tuple(tab.evaluate(LEAVES)),
        "markup": tab.content(),
        "elements": tab.evaluate(kinds),
        "facts": tab.evaluate(island),
    }
