"""The screenshots of the documentation, from pages that calque wrote; look at them before they are committed.

    calque inspect RUN SENTENCE --states --output inspect.html
    calque compare greedy=RUN:beam=1 beam5=RUN:beam=5 --source test.de --reference test.en --output compare.html
    python scripts/screenshots.py inspect.html compare.html docs/images

The browser is Debian's chromium (or CALQUE_CHROMIUM). Chinese needs a font for it (fonts-noto-cjk).
"""

import argparse
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

DESKTOP = {"width": 1200, "height": 800}
PHONE = {"width": 390, "height": 844}


@contextmanager
def opened(
    browser: Browser, path: Path, *, tab: str, theme: Literal["light", "dark"] = "light", phone: bool = False
) -> Iterator[Page]:
    """A page of calque with one of its tabs open."""
    size = PHONE if phone else DESKTOP
    context = browser.new_context(viewport=size, color_scheme=theme, locale="en-GB")  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("html[data-ready]")
    page.click(f'[role="tab"][data-name="{tab}"]')
    page.wait_for_selector(f".panel-{tab}")
    yield page
    context.close()


def take(browser: Browser, *, inspect: Path, compare: Path, folder: Path) -> None:
    with opened(browser, inspect, tab="attention") as page:
        page.screenshot(path=folder / "inspect-attention.png", full_page=True)
    with opened(browser, inspect, tab="beam") as page:
        page.locator(".candidate.answer").nth(5).click()
        page.mouse.move(0, 0)
        page.screenshot(path=folder / "inspect-beam.png", full_page=True)
    with opened(browser, inspect, tab="states", theme="dark") as page:
        page.screenshot(path=folder / "inspect-states.png", full_page=True)
    with opened(browser, inspect, tab="steps", theme="dark", phone=True) as page:
        page.screenshot(path=folder / "inspect-phone.png")
    with opened(browser, compare, tab="sentences") as page:
        page.screenshot(path=folder / "compare-sentences.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inspect", type=Path, help="a page of calque inspect --states")
    parser.add_argument("compare", type=Path, help="a page of calque compare")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        chromium = os.environ.get("CALQUE_CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=chromium)
        take(browser, inspect=options.inspect, compare=options.compare, folder=options.folder)
        browser.close()


if __name__ == "__main__":
    main()
