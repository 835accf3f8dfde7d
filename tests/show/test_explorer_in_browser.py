"""The explorer's pages in Chromium: steps, views, keys, accessibility; skipped where there is no Chromium.

`make test-browser` installs what else they need, Playwright and axe-core, and runs them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from test_explorer import HOSTILE, NAMES, diamond

import accumulus as acc
from accumulus.show import explorer, report_page
from accumulus.show.frames import GROUPS, Frames
from accumulus.show.report import Report

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright and Chromium: make test-browser")
CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
if CHROMIUM is None:
    pytest.skip("needs Chromium: apt-get install chromium, then make test-browser", allow_module_level=True)
ROOT = Path(__file__).parents[2]
AXE = Path(os.environ.get("AXE", "build/npm/node_modules/axe-core/axe.min.js"))


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page; nothing may be asked of other origins, said on the console, or shown as a dialog."""

    @contextmanager
    def open_page(shown, width=1280, height=800, theme="light", until=".transport"):
        file, beside = shown, {tmp_path}
        if isinstance(shown, Path):
            beside = {*shown.parent.iterdir()}
        else:
            file = tmp_path / "page.html"
            file.write_text(shown, encoding="utf-8")
        allowed = {each.as_uri() for each in (file, *beside)}
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        wrong = []
        context.route(
            "**/*",
            lambda route: (
                route.continue_() if route.request.url in allowed else wrong.append(route.request.url) or route.abort()
            ),
        )
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message) or dialog.dismiss())
        page.goto(file.as_uri())
        page.wait_for_selector(until)
        yield page
        context.close()
        assert wrong == []

    return open_page


def counters(page):
    return [int(text.replace(",", "").removeprefix("≥ ")) for text in page.locator(".counters b").all_inner_texts()]


def function(x):
    return np.array([x[0] * np.sin(x[1] * x[0]), x[1] ** 3 / x[0] + x[2]])


PLANS = {
    "diamond": acc.plan(diamond(), "vertex"),
    "function": acc.plan(acc.trace(function, np.ones(3)).linearize()),
    "faces": acc.plan(
        acc.DifferentiationGraph([("y", "a"), ("z", "a"), ("a", "b"), ("a", "c"), ("b", "x"), ("c", "x"), ("b", "w")]),
        "face",
    ),
    "pages": acc.plan(
        acc.DifferentiationGraph([("y", "a"), ("z", "a"), ("z", "b"), ("a", "b"), ("b", "x"), ("b", "w"), ("y", "w")]),
        "pages",
    ),
    "no steps": acc.plan(acc.DifferentiationGraph([("y", "x")])),
}


#: Goes to every step of every kind, and returns where the page differs from what is expected.
WALK = """expected => {
  const wrong = [], sorted = (list) => list.sort((a, b) => a - b).join();
  const parts = (kind) => [...document.querySelectorAll(`${kind}:not(.hidden):not(.over)`)];
  const shown = (kind) => parts(kind).map((part) => +part.dataset.i);
  const drawn = (v) => [0, 1].every((end) => explorer.data.vertices[explorer.plan.ends[2 * v + end]].x !== null);
  for (const [kind, steps] of Object.entries(expected)) {
    explorer.goTo(0);
    explorer.choose(kind);
    if (explorer.ends().length + 1 !== steps.length) wrong.push([kind, "steps", explorer.ends().length]);
    steps.forEach(([fma, multiplications, alive, faces], k) => {
      explorer.goTo(k);
      const [first, second] = parts(".counters b").map((number) => +number.textContent.replaceAll(",", ""));
      if (first !== fma || second !== multiplications) wrong.push([kind, k, "counters", first, second]);
      if (sorted(shown(".hit")) !== sorted(alive.filter(drawn))) wrong.push([kind, k, "edges of the graph"]);
      if (faces < 0) return;
      const values = shown(".n").filter((v) => v < explorer.plan.ends.length / 2);
      if (sorted(values) !== sorted([...alive])) wrong.push([kind, k, "vertices of the line graph"]);
      if (parts(".f").length !== faces) wrong.push([kind, k, "faces"]);
    });
  }
  explorer.goTo(1e9);
  return wrong;
}"""


def walk(page, plan):
    """Step through a plan by each kind of step: counters and both views agree with the plan at every step."""
    frames = Frames(plan)
    fma, multiplications = [0, *frames.fma], [0, *frames.multiplications]
    expected = {
        kind: [
            [
                fma[at],
                multiplications[at],
                sorted(frames.alive_after(at)),
                -1 if frames.faces is None else len(frames.faces_after(at)),
            ]
            for at in [0, *frames.groups(kind)]
        ]
        for kind in page.locator("select[aria-label='Step by'] option").all_inner_texts()
    }
    assert {"face"} <= set(expected) <= set(GROUPS)
    assert page.evaluate(WALK, expected) == []
    assert counters(page) == [plan.costs[name] for name in ("fma", "multiplications", "operations")]


@pytest.mark.parametrize("name", PLANS)
def test_views_agree_with_the_plan_at_every_step(opened, name):
    with opened(explorer.page(PLANS[name])) as page:
        walk(page, PLANS[name])
        page.evaluate("explorer.goTo(0)")
        page.locator("[title^='On ']").click()
        assert page.evaluate("explorer.position()") == min(1, len(PLANS[name].accumulation.steps))


def loaded(path):
    """The module in a file that is in no package."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def example():
    """The Jacobian of an example, and its report, by name."""

    @cache
    def make(path):
        module = loaded(path)
        point = module.example_point()
        jac = acc.jacobian(getattr(module, path.stem), effort="fast")
        jac(*point) if isinstance(point, tuple) else jac(point)
        return jac

    return make


EXAMPLES = pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)


@EXAMPLES
def test_every_example(opened, example, tmp_path, path):
    jac = example(path)
    html = jac.show(tmp_path / "given.html").read_text(encoding="utf-8")
    assert len(html) < 2_000_000
    with opened(html) as page:
        walk(page, jac._program().plan)
        for tab in page.locator("[role=tab]").all():
            tab.click()
        left = page.locator(".hit:not(.hidden):not(.over)").count()
        assert left >= len({value for *_, value in page.evaluate("explorer.plan.entries")})


@EXAMPLES
def test_the_report_of_every_example(opened, example, tmp_path, path):
    report = example(path).report()
    html = report.show(tmp_path / "given.html").read_text(encoding="utf-8")
    with opened(html, until=".flame") as page:
        assert f"{report.operations:,} operations" in page.locator(".numbers").inner_text()
        assert page.locator(".bars .chosen").count() >= 2
        assert page.locator(".pattern").count() == 1


@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core: make test-browser")
@EXAMPLES
def test_axe_finds_nothing_in_examples(opened, example, tmp_path, path):
    jac = example(path)
    pages = (jac.show(tmp_path / "given.html"), ".transport"), (jac.report().show(tmp_path / "costs.html"), ".flame")
    for (file, until), theme in product(pages, ("light", "dark")):
        with opened(file.read_text(encoding="utf-8"), theme=theme, until=until) as page:
            page.keyboard.press("ArrowRight")
            assert _violations(page) == []


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """The pages of the notes' figures in a folder, with the examples of the notes that their plans are of."""
    animated, figures = (loaded(ROOT / "docs" / name) for name in ("animated.py", "figures.py"))
    folder = tmp_path_factory.mktemp("animated")
    scope, wrong = figures.run(ROOT / "docs" / "notes.md")
    assert not wrong
    animated.write(scope, folder)
    return folder, scope, animated.PAGES


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_of_the_notes(opened, notes, theme):
    folder, scope, plans = notes
    for name, make in plans.items():
        with opened(folder / f"{name}.html", theme=theme) as page:
            if theme == "light":
                walk(page, make(scope))
            if AXE.is_file():
                page.evaluate("explorer.goTo(1)")
                assert _violations(page) == [], name


def test_factors_are_highlighted_in_all_views(opened):
    with opened(explorer.page(PLANS["diamond"])) as page:
        page.keyboard.press("ArrowRight")
        assert (
            page.locator(".e.left").count() == page.locator(".e.right").count() == page.locator(".e.made").count() == 1
        )
        assert (
            page.locator(".n.left").count() == page.locator(".n.right").count() == page.locator(".n.made").count() == 1
        )
        for role in ("left", "right", "made"):
            assert page.locator(f".katex-html [data-v].{role}").count() >= 1


def test_pictures_and_expressions_follow_a_step(opened, example):
    """Pictures show no room beyond their ends, and the line of the step is in view."""
    jac = example(ROOT / "examples" / "pollu.py")
    with opened(explorer.page(jac._program().plan)) as page:
        page.evaluate("explorer.follow(true)")
        for step in range(1, page.evaluate("explorer.ends().length") + 1, 15):
            page.evaluate("step => explorer.goTo(step)", step)
            page.wait_for_function(
                """() => { const line = document.querySelector(".here"); if (!line) return true;
                const [a, b] = [line, line.closest(".tab")].map((each) => each.getBoundingClientRect());
                return a.top >= b.top && Math.min(a.bottom, a.top + 34) <= b.bottom; }"""
            )
            above = page.evaluate(
                """() => { const top = (part) => part.getBoundingClientRect().top;
                const boxes = [...document.querySelectorAll(".panel:first-child .v rect")];
                return Math.min(...boxes.map(top)) - top(document.querySelector(".panel .view")); }"""
            )
            assert above < 30


def test_keys(opened):
    with opened(explorer.page(PLANS["diamond"])) as page:
        slider = page.locator("input[type=range]")
        last = int(slider.get_attribute("max"))
        for key, at in (
            ("ArrowRight", 1),
            ("ArrowRight", 2),
            ("ArrowLeft", 1),
            ("End", last),
            ("ArrowRight", last),
            ("Home", 0),
            ("ArrowLeft", 0),
        ):
            page.keyboard.press(key)
            assert slider.input_value() == str(at)
        page.keyboard.press("/")
        page.keyboard.type("a")
        assert page.locator(".v.found").count() == 1
        page.keyboard.press("Escape")
        page.keyboard.press("t")
        assert page.locator("html").get_attribute("data-theme") == "dark"
        page.keyboard.press("?")
        assert page.locator("dialog").is_visible()
        page.keyboard.press("Escape")
        picture = page.locator(".panel svg[role=group]").first
        picture.focus()
        page.keyboard.press("Enter")
        before = page.evaluate("document.activeElement.getAttribute('aria-label')")
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.getAttribute('aria-label')") != before
        assert page.locator(".card:not(.hidden)").count() == 1
        assert slider.input_value() == "0"


def test_blocks_fold_and_unfold(opened):
    edges = [("y", "a"), ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "x"), ("y", "x")]
    plan = acc.plan(acc.DifferentiationGraph(edges))
    with opened(explorer.page(plan)) as page:
        page.get_by_role("tab", name="Blocks").click()
        page.get_by_role("button", name="Fold all", exact=True).click()
        assert page.locator(".v:not(.hidden)").count() == 2
        assert page.locator(".ew").count() == 1
        assert page.locator(".n.folded").count() == 1
        page.keyboard.press("ArrowRight")
        page.get_by_role("button", name="Unfold all", exact=True).click()
        assert page.locator(".v:not(.hidden)").count() == 6
        frames = Frames(plan)
        visible = page.locator(".hit:not(.hidden):not(.over)").count()
        assert visible == len(frames.alive_after(frames.groups("face")[0]))


def test_loops_show_their_plans(opened, tmp_path):
    def energy(x):
        return (np.sin(x[1:]) * x[:-1] ** 2).sum()

    gradient = acc.gradient(energy)
    gradient(np.ones(60_000))
    html = gradient.show(tmp_path / "given.html").read_text(encoding="utf-8")
    with opened(html) as page:
        assert page.locator(".panel figcaption").first.inner_text().startswith("Loops")
        body = page.locator("[data-body]").first
        body.focus()
        page.keyboard.press("Enter")
        page.keyboard.press("End")
        assert counters(page)[0] == page.evaluate("explorer.plan.costs.fma")


def test_two_plans_run_against_each_other(opened):
    plan = PLANS["function"]
    with opened(explorer.page(plan, rivals=explorer.rivals_of(plan))) as page:
        other = page.locator("select[aria-label='Run against'] option").nth(1).inner_text().split()[0]
        page.select_option("select[aria-label='Run against']", index=1)
        page.keyboard.press("End")
        assert f"The same by {other}" in page.locator(".panel figcaption").nth(1).inner_text()
        assert other in page.locator(".counters").inner_text()
        assert page.locator(".bar.other:not(.hidden)").count() == 3


@pytest.mark.parametrize("name", NAMES)
def test_hostile_names_stay_inert(opened, name):
    graph = acc.DifferentiationGraph([(f"y{name}", f"a{name}", f"e{name}"), (f"a{name}", f"x{name}")], name=name)
    with opened(explorer.page(acc.plan(graph))) as page:
        for tab in page.locator("[role=tab]").all():
            tab.click()
        page.keyboard.press("End")
        for element in page.locator(".v, .n").all():
            element.dispatch_event("pointerover")
        assert page.evaluate(
            "[document.images.length, document.scripts.length, document.querySelectorAll('b b, h1 *').length]"
        ) == [0, 4, 0]


@pytest.mark.parametrize("kind", ["plan", "report"])
def test_a_page_that_was_tampered_with_runs_nothing_else(browser, report, tmp_path, kind):
    """The policy lets no other script run, neither one that was written into the page, nor one of another origin."""
    html = explorer.page(PLANS["diamond"]) if kind == "plan" else report_page.page_of_report(report)
    added = f"<script>window.broken = 1</script><script src='https://example.org/a.js'></script>{HOSTILE}"
    (tmp_path / "page.html").write_text(html.replace("</main>", f"</main>{added}"), encoding="utf-8")
    page, requests = browser.new_page(), []
    page.route("https://**/*", lambda route: requests.append(route.request.url) or route.abort())
    page.goto((tmp_path / "page.html").as_uri())
    page.wait_for_selector(".transport, .flame")
    assert page.evaluate("window.broken === undefined")
    assert requests == []
    page.close()


@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core: make test-browser")
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing(opened, theme, width):
    plan = PLANS["function"]
    with opened(explorer.page(plan, rivals=explorer.rivals_of(plan)), width=width, theme=theme) as page:
        for at in (2, 99):
            page.evaluate("at => explorer.goTo(at)", at)
            for tab in page.locator("[role=tab]").all():
                tab.click()
                result = _violations(page)
                assert result == []


# Pages of reports ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report():
    derivative = acc.value_and_jacobian(function, effort="fast")
    return derivative.report(np.ones(3))


def test_bars_of_a_flame_graph_open_and_close(opened, report):
    with opened(report_page.page_of_report(report), until=".flame") as page:
        bars = page.locator(".flame button")
        whole = bars.count()
        assert bars.first.inner_text() == "program"
        page.locator(".flame .derivatives").first.click()
        assert bars.count() < whole
        assert f"{report.operations} operations" in bars.first.get_attribute("title")
        bars.first.click()
        assert bars.count() == whole
        page.get_by_role("button", name="By output").click()
        assert "function[0]" in page.locator(".flame").inner_text()
        page.keyboard.press("t")
        assert page.locator("html").get_attribute("data-theme") == "dark"


def test_hostile_names_stay_inert_in_reports(opened):
    graph = acc.DifferentiationGraph([("y", "a"), ("a", "x"), ("y", "x")], name=HOSTILE)
    with opened(report_page.page_of_report(Report.of_plan(acc.plan(graph), {HOSTILE: 0.1})), until=".numbers") as page:
        assert HOSTILE in page.locator("main").inner_text()
        assert page.evaluate("[document.images.length, document.scripts.length]") == [0, 3]


@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core: make test-browser")
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_in_reports(opened, report, theme, width):
    with opened(report_page.page_of_report(report), width=width, theme=theme, until=".flame") as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for folded in page.locator("summary").all():
            folded.click()
        assert _violations(page) == []


def _violations(page):
    """Return the violations that axe finds; the debugger runs its script, to which no policy of the page applies."""
    session = page.context.new_cdp_session(page)
    session.send("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    script = "violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 160) + n.failureSummary)])"
    expression = f"axe.run({{preload: false}}).then(found => JSON.stringify([found.passes.length, found.{script}]))"
    result = session.send("Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True})
    passes, violations = json.loads(result["result"]["value"])
    assert passes > 10
    return violations
