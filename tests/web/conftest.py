"""A browser for the tests of pages: Debian's chromium (or CALQUE_CHROMIUM), driven by Playwright."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from calque import web

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "browser tests need chromium: scripts/test installs Debian's as root; otherwise set CALQUE_CHROMIUM to one"


class Opened(NamedTuple):
    """A page in the browser, and what went wrong in it."""

    page: Page
    problems: list[str]
    requests: list[str]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CALQUE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Opens a document as a reader would, from a file; at the end nothing may have failed or been requested."""
    everything: list[Opened] = []

    def open_document(
        document: dict[str, Any], *, view: str = "calque/inspection", width: int = 1280, **context: Any
    ) -> Opened:
        file = tmp_path / f"page-{len(everything)}.html"
        file.write_text(web.page(title="calque inspect", view=view, document=document), encoding="utf-8")
        settings = {"viewport": {"width": width, "height": 800}, "locale": "en-GB", **context}
        page = browser.new_context(**settings).new_page()
        opened = Opened(page, [], [])
        everything.append(opened)
        page.on("console", lambda message: opened.problems.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: opened.problems.append(str(error)))
        page.on("request", lambda request: opened.requests.append(request.url))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        return opened

    yield open_document
    for opened in everything:
        opened.page.context.close()
        assert opened.problems == []
        assert [url for url in opened.requests if not url.startswith("data:") and url != opened.page.url] == []


@pytest.fixture(scope="session")
def axe() -> str:
    """The text of axe-core, from the package that brings it."""
    import axe_playwright_python

    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
