"""Figures of the console in Chromium: `python -m benchmarks.browser` prints JSON; `--seconds 5 --runs 2` is a short run.

A real server without Spark sends the rows of a generator, 1,000 a second, to the workspace, which follows them; all is on one machine.

- `interactive_ms`: from the start of a navigation until the workspace's editor can be typed into, by a user who is signed in; the first
  load has an empty cache, and the others do not. Targets: 1,000 each.
- `frames_per_s`: calls of requestAnimationFrame while the rows come, and `longest_frame_ms` between two of them. Target: at least 50.
- `main_thread_share`: share of a core that the page's main thread is busy meanwhile, and `browser_share` that of all of Chromium's
  processes, which paint without a GPU here. Target: 0.3.
- `markers_ms`: from the last key of a statement with an error until the marker of the error is in the editor. Target: 300.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
from playwright.sync_api import CDPSession, Page, sync_playwright

from harness.process import HeadraceProcess
from headrace.testing.door import RestDoor
from tests.web.browser import home_of, run, sign_in
from tests.web.conftest import BROWSERS, LAUNCH_FLAGS

ROWS_PER_S = 1000
SET_UP = f"""
CREATE STORE g WITH ('type' = GENERATOR);
CREATE DATABASE bench;
CREATE STREAM bench.public.rows (at TIMESTAMP_LTZ(3), id BIGINT, userid VARCHAR, page VARCHAR, millis INTEGER) WITH (
  'store' = 'g', 'timestamp' = 'at', 'generator.rows.per.second' = {ROWS_PER_S}, 'generator.columns.id' = 'sequence(1)'
);
"""
VALID = "SELECT name FROM deltastream.sys.stores"
SETTLED_MS = 1000
PRINT = "PRINT ENTITY rows IN STORE g WITH ('starting.position' = 'latest', 'print.details');"
_OBSERVE_EDITOR = """new MutationObserver((_, observer) => {
  const editor = document.querySelector('[aria-label="SQL editor"][contenteditable="true"]');
  if (editor === null) return;
  observer.disconnect();
  requestAnimationFrame(() => { window.interactiveAt = performance.now(); });
}).observe(document, {childList: true, subtree: true, attributes: true});"""
_COUNT_FRAMES = """() => {
  const frames = window.frames_ = {count: 0, longest: 0, last: performance.now()};
  const next = now => {
    frames.count += 1;
    frames.longest = Math.max(frames.longest, now - frames.last);
    frames.last = now;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}"""
_AWAIT_MARKER = """() => {
  window.typedAt = null;
  window.markedAt = null;
  addEventListener('keydown', () => { window.typedAt = performance.now(); }, {capture: true});
  new MutationObserver((_, observer) => {
    if (window.typedAt === null || document.querySelector('.cm-lintRange-error') === null) return;
    observer.disconnect();
    window.markedAt = performance.now();
  }).observe(document.querySelector('.cm-content'), {childList: true, subtree: true, attributes: true});
}"""


def main() -> None:
    """Start a server and a browser, and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="of rows")
    parser.add_argument("--runs", type=int, default=10, help="loads of the page, and errors that are typed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        server = HeadraceProcess(Path(folder))
        server.start()
        try:
            door = RestDoor(server)
            door.execute(SET_UP)
            door.close()
            print(json.dumps(_measured(server, options.seconds, options.runs), indent=1))
        finally:
            server.stop()


def _measured(server: HeadraceProcess, seconds: float, runs: int) -> dict[str, Any]:
    executable = next(filter(None, map(shutil.which, BROWSERS)), None)
    if executable is None:
        raise SystemExit("this benchmark needs Chromium: make browser installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=LAUNCH_FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(120_000)
        page.add_init_script(_OBSERVE_EDITOR)
        figures = {
            "interactive_ms": _loads(page, server, runs),
            "markers_ms": _markers(page, runs),
            **_frames(page, seconds),
        }
        browser.close()
    return figures


def _loads(page: Page, server: HeadraceProcess, runs: int) -> Mapping[str, float]:
    home = f"{home_of(server)}/sql"
    page.goto(home)
    sign_in(page, server.token)
    page.get_by_label("SQL editor").wait_for()
    network = page.context.new_cdp_session(page)
    network.send("Network.clearBrowserCache")
    times = []
    for _ in range(runs + 1):
        page.goto(home)
        page.wait_for_function("() => window.interactiveAt !== undefined")
        times.append(page.evaluate("window.interactiveAt"))
    first, *others = times
    return {
        "first": round(first),
        "median": round(statistics.median(others)),
        "longest": round(max(others)),
    }


def _markers(page: Page, runs: int) -> Mapping[str, float]:
    times = []
    for number in range(runs):
        page.get_by_label("SQL editor").click()
        page.keyboard.press("Control+A")
        page.keyboard.press("Delete")
        page.wait_for_function("() => document.querySelector('.cm-lintRange-error') === null")
        # The first keys are valid, so that nothing is marked before the last one.
        page.keyboard.insert_text(f"{VALID} LIMIT {number + 1}")
        page.wait_for_timeout(SETTLED_MS)
        page.evaluate(_AWAIT_MARKER)
        page.keyboard.press("x")
        page.wait_for_function("() => window.markedAt !== null")
        times.append(page.evaluate("window.markedAt - window.typedAt"))
    return {"median": round(statistics.median(times)), "longest": round(max(times))}


def _frames(page: Page, seconds: float) -> Mapping[str, float]:
    run(page, PRINT)
    page.get_by_role("gridcell").first.wait_for()
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")
    page.wait_for_timeout(2000)
    received, busy, processor = _received(page), _busy_s(devtools), _processor_s()
    started = page.evaluate("performance.now()")
    page.evaluate(_COUNT_FRAMES)
    page.wait_for_timeout(seconds * 1000)
    frames, ended = page.evaluate("window.frames_"), page.evaluate("performance.now()")
    took = (ended - started) / 1000
    return {
        "rows_per_s": round((_received(page) - received) / took),
        "frames_per_s": round(frames["count"] / took, 1),
        "longest_frame_ms": round(frames["longest"]),
        "main_thread_share": round((_busy_s(devtools) - busy) / took, 2),
        "browser_share": round((_processor_s() - processor) / took, 2),
    }


def _received(page: Page) -> int:
    text = page.get_by_test_id("stream-figures").locator("strong").first.inner_text()
    return int("".join(filter(str.isdigit, text)))


def _busy_s(devtools: CDPSession) -> float:
    metrics = {each["name"]: each["value"] for each in devtools.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def _processor_s() -> float:
    """Return the processor time of Chromium's processes, which are children of Playwright's."""
    processes = psutil.Process().children(recursive=True)
    times = [each.cpu_times() for each in processes if "chrom" in each.name()]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    main()
