"""Draw the plots of the worked projects from what their pages compute: `python docs/plots.py`.

Colours and text stand out on white and on black. The tests draw each plot again and compare the numbers in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

Scope = dict[str, Any]

BLUE, ORANGE, GREEN, TEXT, AXIS = "#2f81d8", "#d9822b", "#2f9e62", "#78828c", "#9aa4ae"
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 680, 330, 64, 16, 130, 44
RADIUS = 2.5


@dataclass(frozen=True)
class Series:
    """Points of a plot, joined by a line or each as a dot."""

    x: ArrayLike
    y: ArrayLike
    colour: str
    label: str = ""
    dots: bool = False


def plot(title: str, series: Sequence[Series], x_label: str, y_label: str, *, log: str = "") -> str:
    """Return the text of an SVG with axes, a label for each series at its end, and logarithmic axes named in `log`."""
    columns = {
        axis: [np.log10(np.asarray(getattr(each, axis), float)) if axis in log else np.asarray(getattr(each, axis))
               for each in series]
        for axis in "xy"
    }  # fmt: skip
    ranges = {axis: _padded(np.concatenate([np.ravel(each) for each in columns[axis]])) for axis in "xy"}

    def place(x: float, y: float) -> tuple[float, float]:
        (x0, x1), (y0, y1) = ranges["x"], ranges["y"]
        right, down = (x - x0) / (x1 - x0), (y1 - y) / (y1 - y0)
        return LEFT + right * (WIDTH - LEFT - RIGHT), TOP + down * (HEIGHT - TOP - BOTTOM)

    corner, end = place(ranges["x"][0], ranges["y"][1]), place(ranges["x"][1], ranges["y"][0])
    body = [_path(f"M{corner[0]:.1f},{corner[1]:.1f} V{end[1]:.1f} H{end[0]:.1f}", AXIS)]
    for tick in _ticks(*ranges["x"], "x" in log):
        x, y = place(tick, ranges["y"][0])
        body.append(_text(x, y + 17, _number(tick, "x" in log), "middle"))
    for tick in _ticks(*ranges["y"], "y" in log):
        x, y = place(ranges["x"][0], tick)
        body.append(_text(x - 7, y + 4, _number(tick, "y" in log), "end"))
    body.append(_text((corner[0] + end[0]) / 2, HEIGHT - 8, x_label, "middle"))
    body.append(_text(corner[0] + 8, TOP + 6, y_label, "start"))
    labelled: list[float] = []
    for each, x, y in zip(series, columns["x"], columns["y"], strict=True):
        points = [place(a, b) for a, b in zip(np.ravel(x), np.ravel(y), strict=True)]
        if each.dots:
            body.append(_path(" ".join(f"M{a - RADIUS:.1f},{b:.1f} a{RADIUS},{RADIUS} 0 1,0 {2 * RADIUS},0 "
                                       f"a{RADIUS},{RADIUS} 0 1,0 -{2 * RADIUS},0" for a, b in points),
                              "none", each.colour))  # fmt: skip
        else:
            body.append(_path("M" + " L".join(f"{a:.1f},{b:.1f}" for a, b in points), each.colour))
        if each.label:
            at = points[-1][1] + 4
            at = min([at, *(line - 16 for line in labelled if abs(line - at) < 16)])
            labelled.append(at)
            body.append(_text(points[-1][0] + 10, at, each.label, "start", each.colour))
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="Helvetica, Arial, DejaVu Sans, sans-serif">'
    return "\n".join([head, f"<title>{title}</title>", *body, "</svg>\n"])


def _padded(values: Any) -> tuple[float, float]:
    low, high = float(np.min(values)), float(np.max(values))
    return low - 0.04 * (high - low), high + 0.04 * (high - low)


def _ticks(low: float, high: float, is_exponent: bool) -> list[float]:
    """Return some round numbers in a range; whole ones as exponents."""
    step = 10.0 ** math.floor(math.log10(high - low))
    step = next(step * part for part in (1.0, 0.5, 0.2, 0.1) if (high - low) / (step * part) >= 3.0)
    step = max(step, 1.0) if is_exponent else step
    return [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _number(value: float, is_exponent: bool) -> str:
    if not is_exponent:
        return f"{value:.6g}".replace("-", "−")
    signs = str.maketrans("0123456789-.", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻·")
    return "10" + f"{value:.6g}".translate(signs)


def _path(d: str, stroke: str, fill: str = "none") -> str:
    return f'<path fill="{fill}" stroke="{stroke}" stroke-width="1.8" d="{d}" />'


def _text(x: float, y: float, text: str, anchor: str, colour: str = TEXT) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="13" text-anchor="{anchor}" fill="{colour}">{text}</text>'


def reactor(scope: Scope) -> dict[str, str]:
    """Draw measurements and fitted concentrations."""
    times, measured, found = scope["times"][1:], scope["measured"], scope["solution"](scope["fit"].x)
    series = []
    for k, (name, factor, colour) in enumerate((("A", 1.0, BLUE), ("10⁴ B", 1e4, ORANGE), ("C", 1.0, GREEN))):
        series += [Series(times, factor * measured[:, k], colour, dots=True),
                   Series(times, factor * found[:, k], colour, name)]  # fmt: skip
    return {"reactor": plot("Measured and fitted concentrations", series, "time", "concentration", log="x")}


def quadrotor(scope: Scope) -> dict[str, str]:
    """Draw the path of the quadrotor, and itself at every fourth interval."""
    states = np.concatenate([np.zeros((1, 6)), scope["states"]])
    series = [Series(states[:, 0], states[:, 1], BLUE)]
    for x, z, angle in states[::4, :3]:
        arm = 0.14 * np.array([-1.0, 1.0])
        series.append(Series(x + arm * np.cos(angle), z + arm * np.sin(angle), ORANGE))
    return {"quadrotor": plot("The path of the quadrotor", series, "x in metres", "height in metres")}


def bundle(scope: Scope) -> dict[str, str]:
    """Draw the root mean square of the residuals after each step."""
    errors = scope["errors"]
    series = [Series(range(len(errors)), errors, BLUE), Series(range(len(errors)), errors, BLUE, dots=True)]
    return {"bundle": plot("Error after each step", series, "step", "error in pixels", log="y")}


def scenarios(scope: Scope) -> dict[str, str]:
    """Draw delta and gamma over spot prices."""
    spots, gradients, hessians = scope["spots"], scope["on_a_line"][1], scope["on_a_line"][2]
    series = [
        Series(spots, gradients[:, 0], BLUE, "delta"),
        Series(spots, 20.0 * hessians[:, 0, 0], ORANGE, "20 gamma"),
    ]
    return {"scenarios": plot("Delta and gamma", series, "spot price", "")}


def controller(scope: Scope) -> dict[str, str]:
    """Draw the true angle, its estimate and what the camera sees."""
    times = scope["times"]
    series = [
        Series(times, scope["sightings"], AXIS, dots=True),
        Series(times, scope["angles"], BLUE, "true"),
        Series(times, scope["estimates"], ORANGE, "estimated"),
    ]
    return {"controller": plot("Angle of the pendulum", series, "seconds", "angle in radians")}


def beam(scope: Scope) -> dict[str, str]:
    """Draw the outline of the beam at rest and under some of the loads."""
    columns, rows = scope["columns"], scope["rows"]
    nodes = np.arange((columns + 1) * (rows + 1)).reshape(columns + 1, rows + 1)
    outline = np.concatenate([nodes[:, 0], nodes[-1], nodes[::-1, -1], nodes[0, ::-1]])
    series = [Series(*scope["rest"][outline].T, AXIS)]
    loads = list(scope["bent"])
    for load, colour in ((loads[1], GREEN), (loads[3], BLUE), (loads[-1], ORANGE)):
        series.append(Series(*scope["bent"][load][outline].T, colour))
    return {"beam": plot("A beam at rest and under three loads", series, "", "")}


def posterior(scope: Scope) -> dict[str, str]:
    """Draw the reported and the estimated effects of the schools."""
    schools = np.arange(1, 9)
    series = [
        Series(schools, scope["effects"], ORANGE, "reported", dots=True),
        Series(schools, scope["estimates"], BLUE, "estimated", dots=True),
    ]
    return {"posterior": plot("Effects of coaching", series, "school", "effect in points of the test")}


def corpus(scope: Scope) -> dict[str, str]:
    """Draw the gap of each graph of the corpus over its number of intermediates."""
    series = []
    for label, colour, wanted in (("generated", ORANGE, True), ("functions", BLUE, False)):
        graphs = [graph for graph in scope["graphs"].values() if (graph.data is None) == wanted]
        graphs.sort(key=lambda graph: graph.intermediates)  # the label is at the last point
        sizes = [graph.intermediates for graph in graphs]
        gaps = [100.0 * graph.results["fma"].gap() for graph in graphs]
        series.append(Series(sizes, gaps, colour, label, dots=True))
    return {"corpus": plot("Gap over size", series, "intermediates", "gap in percent, fma", log="x")}


PAGES: dict[str, Callable[[Scope], dict[str, str]]] = {
    "projects/reactor.md": reactor,
    "projects/quadrotor.md": quadrotor,
    "projects/bundle-adjustment.md": bundle,
    "projects/beam.md": beam,
    "corpus.md": corpus,
    "projects/scenarios.md": scenarios,
    "projects/controller.md": controller,
    "projects/posterior.md": posterior,
}


def main() -> None:
    """Draw all plots."""
    from figures import DOCS, FIGURES, run  # in tests/ another module has this name

    for page, draw in PAGES.items():
        if page == "projects/posterior.md" and find_spec("numpyro") is None:
            continue  # the only page that needs it
        scope, report = run(DOCS / page)
        if report:
            raise SystemExit(report)
        for name, text in draw(scope).items():
            (FIGURES / f"{name}.svg").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
