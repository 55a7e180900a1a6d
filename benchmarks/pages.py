"""Measures the size of a page of `calque inspect`, and the time that a browser takes to draw it.

    python -m benchmarks.pages --pieces 60 --layers 8 --heads 8

The sentence is made up: random attention of the encoder, of the decoder and to the source, and a beam tree. The browser
is Debian's chromium (or CALQUE_CHROMIUM), headless, driven by Playwright. A tab is drawn when it is first opened. Times
run from a click or a key to the end of the next frame; arrow keys move the cursor in the attention map.
"""

import argparse
import os
import shutil
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright
from tests.web.documents import inspection, translation

from benchmarks.machine import this_machine
from calque import web

KEYS = 100
CLICK = """selector => new Promise(done => {
    const started = performance.now();
    document.querySelector(selector).click();
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - started)));
})"""
PRESS = """async count => {
    const plane = document.querySelector(".heatmap-plane"), times = [];
    plane.focus();
    for (let press = 0; press < count; press++) {
        const started = performance.now(), key = press % 2 ? "ArrowRight" : "ArrowDown";
        plane.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
        await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
        times.push(performance.now() - started);
    }
    return times;
}"""


def measure(browser: Browser, path: Path) -> dict[str, float]:
    """The milliseconds until the first tab is drawn, and those until other tabs, heads and key presses are drawn."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready]")
    times = {"first tab, from opening the file": float(page.evaluate("performance.now()"))}
    times["attention tab"] = click(page, tab("attention"))
    times["another head"] = click(page, ".multiple[aria-checked=false]")
    keys = [float(time) for time in page.evaluate(PRESS, KEYS)]
    times |= {f"an arrow key, mean of {KEYS}": statistics.mean(keys), f"the slowest of {KEYS} keys": max(keys)}
    times |= {"steps tab": click(page, tab("steps")), "beam tab": click(page, tab("beam"))}
    page.close()
    return times


def tab(name: str) -> str:
    return f'[role="tab"][data-name="{name}"]'


def click(page: Page, selector: str) -> float:
    """The milliseconds from a click to the end of the next frame."""
    return float(page.evaluate(CLICK, selector))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument(
        "--pieces", type=int, default=60, help="pieces of source and target, end marks included (default: 60)"
    )
    arguments.add_argument("--layers", type=int, default=8)
    arguments.add_argument("--heads", type=int, default=8)
    arguments.add_argument("--beam", type=int, default=5)
    arguments.add_argument("--rounds", type=int, default=7)
    options = arguments.parse_args()
    print(this_machine().described())
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
    candidates = sum(len(step["candidates"]) for step in sentence["beam"]["steps"])
    empty = web.page(title="calque inspect", view="calque/inspection", document={})
    sizes = f"{len(text.encode()) / 1e6:.2f} MB, without its document {len(empty.encode()) / 1e3:.0f} kB"
    print(f"{sizes}; {candidates} candidates in the beam tree")
    for name in rounds[0]:
        times = sorted(one[name] for one in rounds)
        print(f"{name}: {statistics.median(times):.0f} ms [{times[0]:.0f}–{times[-1]:.0f}]")


if __name__ == "__main__":
    main()
