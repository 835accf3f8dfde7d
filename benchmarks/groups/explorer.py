"""Pages of the explorer in Chromium: their size, the time to open them, and the time of a step by vertex and by face.

A page opens from navigation to its first contentful paint, in a new context each time. A step is a press of the right
arrow key, sent to the page between two frames at changing distances from them. It is drawn at the second frame after
that, since a frame begins when the one before is done; the distance of two idle frames is subtracted. The main thread's
share is the handler of the key and a forced layout. Steps are spread over the plan, some in succession at each place.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import accumulus as acc
from functions import suite
from groups import Settings
from hard_cases import pendulum_steps
from peers import NotInstalled, require
from tables import Goal, Row, Table

KINDS: Final = ("vertex", "face")
#: Megabytes of a page; seconds to open a plan of 300 operations.
SIZE, OPEN = 2.0, 1.0
#: How often a page is opened, and how many steps are taken in succession.
OPENINGS, SUCCESSION = 5, 4

PAINTED: Final = """() => new Promise((done) => new PerformanceObserver((list) => {
  const [paint] = list.getEntriesByName("first-contentful-paint");
  if (paint) done(paint.startTime);
}).observe({ type: "paint", buffered: true }))"""

#: Returns the distance of idle frames, and of each step the time to the second frame and that of the main thread.
STEPS: Final = """async ([kind, places, succession]) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => done(performance.now())));
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const idle = [], steps = [];
  explorer.choose(kind);
  const last = explorer.ends().length - succession;
  for (let place = 0; place < places; place++) {
    explorer.goTo(Math.max(0, Math.round((last * place) / Math.max(1, places - 1))));
    for (let k = 0; k < 4; k++) await frame();
    await pause(100);
    idle.push(-(await frame()) + (await frame()));
    for (let k = 0; k < succession; k++) {
      await pause(20 + ((7 * steps.length) % 17));
      const before = explorer.position(), start = performance.now();
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, cancelable: true }));
      document.body.getBoundingClientRect();
      const main = performance.now() - start;
      await frame();
      steps.push([(await frame()) - start, main]);
      if (explorer.position() !== before + 1) throw new Error(`no step from ${before}`);
    }
  }
  return [idle, steps];
}"""


def table(settings: Settings) -> Table:
    """Rows for each page: its size, the time to open it, the time of a step of each kind."""
    name, title = "explorer", "Explorer pages in headless Chromium, 1280 × 800 pixels (MB, s, ms)"
    try:
        with chromium() as browser, tempfile.TemporaryDirectory() as folder:
            rows = [
                row
                for page, (make, reach, opens) in PAGES.items()
                for row in _rows(page, browser, make(Path(folder) / "page.html"), settings.turns, reach, opens)
            ]
            notes = [f"Chromium {browser.version}; {OPENINGS} openings, {SUCCESSION * settings.turns} steps of a kind.",
                     "Goals are for the median to open, and for the 90th percentile of steps."]  # fmt: skip
    except NotInstalled as missing:
        return Table(name, title, [Row({"page": str(missing)}, Goal(SIZE, None, unit=" MB"))])
    return Table(name, title, rows, notes)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start Chromium, the variable CHROMIUM or the one on the path.

    Raises:
        NotInstalled: if it or Playwright is missing, with what to install.
    """
    try:
        playwright = require("playwright.sync_api")
    except NotInstalled:
        raise NotInstalled("needs Playwright: .venv/bin/pip install -r requirements/browser.txt") from None
    found = map(shutil.which, filter(None, (os.environ.get("CHROMIUM"), "chromium", "chromium-browser")))
    path = next(filter(None, found), None)
    if path is None:
        raise NotInstalled("needs Chromium: apt-get install chromium, or its path in the variable CHROMIUM")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _rows(name: str, browser: Any, path: Path, turns: int, reach: float, opens: float | None) -> list[Row]:
    opened, size = [], path.stat().st_size / 1e6
    for _ in range(OPENINGS):
        tab = browser.new_page(viewport={"width": 1280, "height": 800})
        tab.goto(path.as_uri())
        tab.wait_for_selector(".transport")
        opened.append(1e-3 * tab.evaluate(PAINTED))
        tab.close()
    tab = browser.new_page(viewport={"width": 1280, "height": 800})
    tab.goto(path.as_uri())
    tab.wait_for_selector(".transport")
    vertices, operations = tab.evaluate("[explorer.data.vertices.length, explorer.plan.costs.operations]")
    page = {"page": name, "vertices": vertices, "operations": operations}
    median = statistics.median(opened)
    rows = [
        Row(page | {"measured": "size", "median": size}, Goal(SIZE, size, unit=" MB")),
        Row(page | {"measured": "opens", "median": median}, opens and Goal(opens, median, unit=" s")),
    ]  # fmt: skip
    for kind in KINDS:
        idle, steps = tab.evaluate(STEPS, [kind, turns, SUCCESSION])
        between = statistics.median(idle)
        drawn, main = [each - between for each, _ in steps], [each for _, each in steps]
        cells = {"measured": f"step by {kind}", "median": statistics.median(drawn), "90 %": _most(drawn)}
        cells |= {"main thread": statistics.median(main), "main, 90 %": _most(main)}
        rows.append(Row(page | cells, Goal(reach, _most(drawn), unit=" ms")))
    tab.close()
    return rows


def _most(times: list[float]) -> float:
    """Return the 90th percentile."""
    return sorted(times)[int(0.9 * (len(times) - 1) + 0.5)]


def _of_example(path: Path) -> Path:
    (example,) = (each for each in suite() if each.name == "relative_pose")
    jac = acc.jacobian(example.function)
    jac(example.point)
    return jac.show(path)  # type: ignore[no-any-return]


def _of_pendulum(steps: int) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        case = pendulum_steps(steps)
        return acc.plan(acc.trace(case.function, case.point).linearize(), objective="fma").show(path)  # type: ignore[no-any-return]

    return make


#: What is shown: how the page is made, milliseconds that a step may take, seconds to open it.
PAGES: Final[dict[str, tuple[Callable[[Path], Path], float, float | None]]] = {
    "relative_pose": (_of_example, 50.0, OPEN),
    "pendulum, 10 steps": (_of_pendulum(10), 50.0, None),
    "pendulum, 48 steps": (_of_pendulum(48), 100.0, None),
}
