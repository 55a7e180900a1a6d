"""The size of a page of `calque inspect`, and the time that a browser takes to draw it.

    python -m benchmarks.pages --pieces 60 --layers 8 --heads 8

The sentence is made up: random attention of the encoder, of the decoder and to the source, and a beam tree. The browser
is Debian's chromium (or CALQUE_CHROMIUM), headless, driven by Playwright. A tab is drawn when it is first opened; its
time ends with the frame after the click.
"""

import argparse
import os
import shutil
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests.web.documents import inspection, translation

from calque import web

TABS = ("attention", "steps", "beam")
OPEN = """name => new Promise(done => {
    const started = performance.now();
    document.querySelector(`[role="tab"][data-name="${name}"]`).click();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
})"""


def measure(browser: Browser, path: Path) -> dict[str, float]:
    """Milliseconds until the first tab is drawn, and those that every other tab takes."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    times = {"first tab, from opening the file": float(page.evaluate("performance.now()"))}
    times |= {name: float(page.evaluate(OPEN, name)) for name in TABS}
    page.close()
    return times


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pieces", type=int, default=60, help="of source and target, end marks included")
    arguments.add_argument("--layers", type=int, default=8)
    arguments.add_argument("--heads", type=int, default=8)
    arguments.add_argument("--beam", type=int, default=5)
    arguments.add_argument("--rounds", type=int, default=7)
    options = arguments.parse_args()
    words = [f"word{number}" for number in range(options.pieces - 1)]
    sentence = translation(
        " ".join(words), " ".join(words), layers=options.layers, heads=options.heads, beam=options.beam
    )
    text = web.page(title="calque inspect", view="calque/inspection", document=inspection(sentence))
    chromium = os.environ.get("CALQUE_CHROMIUM") or shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "page.html"
        path.write_text(text, encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=chromium)
        rounds = [measure(browser, path) for _ in range(options.rounds)]
        browser.close()
    print(f"{len(text.encode()) / 1e6:.2f} MB; load {os.getloadavg()[0]:.1f}")
    for name in rounds[0]:
        times = sorted(one[name] for one in rounds)
        print(f"{name}: {statistics.median(times):.0f} ms [{times[0]:.0f}–{times[-1]:.0f}]")


if __name__ == "__main__":
    main()
