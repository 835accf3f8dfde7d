"""Plots of reports, and pictures of graphs as PDF and PNG, by matplotlib.

Matplotlib is optional; without it there is an error that says so. Nothing needs a display: without one, a plot is on
axes of a figure that belongs to no window. Names are text: matplotlib does not read formulas in them.
"""

from __future__ import annotations

import io
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from accumulus.errors import ArgumentError, unknown_name
from accumulus.graph.layered import curve
from accumulus.graph.pictures import EDGE, FILLS, HIGH, LABEL, Picture, middle_of
from accumulus.show.costs import Costs, Line, named, source_of
from accumulus.show.explorer import parameters_of, shortened
from accumulus.show.report import Report, Subject
from accumulus.show.tables import amount, duration
from accumulus.text import printable

BLUE, ORANGE, GREY, SOFT = "#0b62c1", "#b93a05", "#7f8a95", "#d5dae0"
#: Maximum number of source lines in a plot; the others are joined. More make the plot crowded, fewer hide lines.
MOST_LINES: Final = 20
#: Pixels per inch of pictures, and the resolution of PNG, in dots per inch.
PIXELS, DOTS = 96.0, 192.0
#: Maximum width and height of a PNG, in dots: larger pictures take gigabytes to draw, a smaller limit refuses pictures
#: that could be drawn.
LARGEST: Final = 20_000


def plot(report: Report, kind: str, ax: Any = None) -> Any:
    """Plot a report on axes, see `Report.plot`."""
    if kind not in PLOTS:
        raise unknown_name("plot", kind, PLOTS)
    draw = PLOTS[kind]
    data = _checked(report, kind)
    with _matplotlib(f"report.plot({kind!r})"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        axes = _axes() if ax is None else ax
        draw(axes, data)
        axes.set_title(printable(f"{report.title} of {report.name}"), fontsize="medium", parse_math=False)
    return axes


def _checked(report: Report, kind: str) -> Any:
    """Return what a plot draws: the report, its measured speed, or its costs.

    Raises:
        ArgumentError: if the report does not have it.
    """
    if kind in ("sizes", "roofline"):
        if report.measured is None:
            raise ArgumentError(
                f"{kind!r} needs a measured report, and this one has no speed; expected jac.report(x) with example "
                "arguments x"
            )
        return report.measured
    if kind == "methods" and not report.differentiates:
        raise ArgumentError(
            f"'methods' accumulate derivatives, and this is {report.name} itself; expected a derivative"
        )
    if report.has_loops and kind != "methods":
        raise ArgumentError(
            f"{kind!r} is of code in a straight line, and {report.name} runs as loops; expected 'methods', 'sizes' or "
            "'roofline', or report.bodies and derivative.sparsity(x) as data"
        )
    if kind == "methods" and report.chosen is None:
        raise ArgumentError(
            f"{report.name} has no plans to compare; expected a derivative of more than sums and copies"
        )
    if kind in ("lines", "pattern"):
        subject = report.subject
        if not isinstance(subject, Subject):
            raise ArgumentError(
                f"{kind!r} needs the program, and this report is of a graph or a copy; expected jac.report()"
            )
        if report.from_file:
            raise ArgumentError(f"{kind!r} needs the plan, and {report.name} was loaded from a file, which has none")
        costs = Costs.of(subject.program, subject.function, parameters_of(subject.program, subject.function))
        if kind == "pattern" and not costs.blocks:
            raise ArgumentError(
                f"{report.name} has no matrix of derivatives here; expected a Jacobian or Hessian to plot"
            )
        return costs
    return report


@contextmanager
def _matplotlib(subject: str, instead: str = "report.show() needs nothing else") -> Iterator[None]:
    try:
        import matplotlib as _  # noqa: F401  # only to see whether it is there
    except ImportError:
        raise ArgumentError(
            f"{subject} needs matplotlib, which is not installed: pip install matplotlib; {instead}"
        ) from None
    yield


def _axes() -> Any:
    """Return axes of a new figure, of a window or notebook where there is one."""
    from matplotlib.figure import Figure

    try:
        from matplotlib import pyplot

        return pyplot.subplots(layout="constrained")[1]
    except Exception:  # backends of windows raise errors of their own where there is no display
        return Figure(layout="constrained").subplots()


def _plain(ax: Any, axis: str | None = None) -> None:
    """Remove the upper and right line of axes, and draw a grid."""
    ax.spines[["top", "right"]].set_visible(False)
    if axis is not None:
        ax.grid(axis=axis, color=SOFT, linewidth=0.8)
        ax.set_axisbelow(True)


def _bars(ax: Any, names: list[str], values: list[float], colours: list[str], label: str) -> None:
    """Draw horizontal bars, the first on top, with their values."""
    bars = ax.barh(range(len(names)), values, color=colours)
    ax.bar_label(bars, [amount(int(value)) for value in values], padding=3, fontsize="small")
    ax.set_yticks(range(len(names)), names)
    for tick in ax.get_yticklabels():
        tick.set_parse_math(False)
    ax.invert_yaxis()
    ax.set_xlabel(label)
    ax.margins(x=0.12)
    ax.xaxis.get_major_locator().set_params(integer=True)
    _plain(ax)


# Plots ---------------------------------------------------------------------------------------------------------------


def _methods(ax: Any, report: Report) -> None:
    chosen, objective = report.chosen, report.objective
    assert chosen is not None
    rows = sorted([*report.others, chosen], key=lambda each: (each.cost(objective), each.method))
    costs = [float(each.cost(objective)) for each in rows]
    colours = [BLUE if each is chosen else GREY for each in rows]
    _bars(ax, [each.method for each in rows], costs, colours, f"{objective.counted} before rewriting")
    if chosen.lower_bound is not None:
        ax.axvline(chosen.lower_bound, color=ORANGE, label="lower bound")
        ax.legend(frameon=False)


def _stages(ax: Any, report: Report) -> None:
    stages = [("the plan", report.emitted), *report.stages]
    if stages[-1][1] != report.operations:
        stages.append(("the program", report.operations))
    colours = [GREY] * (len(stages) - 1) + [BLUE]
    _bars(ax, [name for name, _ in stages], [float(count) for _, count in stages], colours, "operations")


def _lines(ax: Any, costs: Costs) -> None:
    totals: Counter[Line | None] = Counter()
    for (line, *_), count in costs.by_line.items():
        totals[line] += count
    first = [line for line, _ in totals.most_common(MOST_LINES - 1 if len(totals) > MOST_LINES else None)]
    names, values = [], []
    for line in sorted(first, key=lambda line: (line is None, line)):
        names.append("line unknown" if line is None else f"{named(line)}  {shortened(source_of(line), 44)}")
        values.append(float(totals[line]))
    if len(first) < len(totals):
        names.append(f"{len(totals) - len(first)} more lines")
        values.append(float(totals.total()) - sum(values))
    _bars(ax, names, values, [BLUE] * len(names), "operations")


def _pattern(ax: Any, costs: Costs) -> None:
    tops = dict.fromkeys(dict.fromkeys(block.result for block in costs.blocks), 0)
    lefts = dict.fromkeys(dict.fromkeys(block.argument for block in costs.blocks), 0)
    height = _stack(tops, {block.result: block.shape[0] for block in costs.blocks})
    width = _stack(lefts, {block.argument: block.shape[1] for block in costs.blocks})
    rows = np.concatenate([block.rows + tops[block.result] for block in costs.blocks])
    columns = np.concatenate([block.columns + lefts[block.argument] for block in costs.blocks])
    each = [number for block in costs.blocks for number in block.each]
    values = np.full((height, width), np.nan)
    values[rows, columns] = each if len(each) == len(rows) else 1.0
    image = ax.imshow(values, cmap="Blues", vmin=0.0, aspect="equal", interpolation="nearest")
    if len(each) == len(rows) and each:
        ax.figure.colorbar(image, ax=ax, label="operations that a nonzero needs", shrink=0.8)
    for start in [*tops.values()][1:]:
        ax.axhline(start - 0.5, color=GREY, linewidth=0.8)
    for start in [*lefts.values()][1:]:
        ax.axvline(start - 0.5, color=GREY, linewidth=0.8)
    ax.set_xlabel("entries of " + ", ".join(map(printable, lefts)) if all(lefts) else "columns", parse_math=False)
    ax.set_ylabel("entries of " + ", ".join(map(printable, tops)) if all(lefts) else "rows", parse_math=False)
    ax.locator_params(integer=True)


def _stack(starts: dict[str, int], sizes: dict[str, int]) -> int:
    """Set the start of each name, one after the other; return the length of all."""
    at = 0
    for name in starts:
        starts[name] = at
        at += sizes[name]
    return at


def _sizes(ax: Any, speed: Any) -> None:
    ax.loglog(speed.points, speed.seconds, "o-", color=BLUE, label="a point of a batch")
    ax.plot([1], [speed.call], "s", color=ORANGE, label="a call from Python")
    ax.set_xlabel("points of a batch")
    ax.set_ylabel("time of a point")
    ax.yaxis.set_major_formatter(lambda seconds, _: duration(seconds))
    ax.legend(frameon=False)
    _plain(ax, "both")


def _roofline(ax: Any, speed: Any) -> None:
    k = speed.intensity
    low, high = min(k / 8.0, speed.peak / speed.bandwidth[0] / 4.0), max(8.0 * k, 4.0 * speed.peak / speed.bandwidth[1])
    x = np.geomspace(low, high, 200)
    for in_cache, style, name in ((True, "-", "in a cache"), (False, "--", "in memory")):
        ax.loglog(x, [speed.limit(each, in_cache=in_cache) for each in x], style, color=GREY, label=f"copies {name}")
    ax.plot([k] * len(speed.rates), speed.rates, "o", color=BLUE, label="batches")
    ax.annotate(
        f"{amount(speed.points[int(np.argmax(speed.rates))])} points", (k, max(speed.rates)), (7, -3),
        textcoords="offset points", fontsize="small",
    )  # fmt: skip
    ax.set_xlabel("operations per byte of arguments and results")
    ax.set_ylabel("operations per second")
    ax.legend(frameon=False)
    _plain(ax, "both")


#: Functions that draw on axes, by name.
PLOTS: Final[dict[str, Callable[[Any, Any], None]]] = {
    "methods": _methods,
    "stages": _stages,
    "lines": _lines,
    "pattern": _pattern,
    "sizes": _sizes,
    "roofline": _roofline,
}


# Pictures ------------------------------------------------------------------------------------------------------------


def drawn_as(picture: Picture, extension: str) -> bytes:
    """Return the picture of a graph as a file.

    Args:
        picture: picture to draw.
        extension: ".pdf" or ".png".

    Raises:
        ArgumentError: if matplotlib is not installed, or a PNG would be too large.
    """
    scale = DOTS / PIXELS
    if extension == ".png" and scale * max(picture.width, picture.height) > LARGEST:
        raise ArgumentError(
            f"a PNG of {picture.width:.0f}×{picture.height:.0f} pixels is too large; expected .svg or .pdf, or a page"
        )
    with _matplotlib(f"a picture as {extension}", "pictures as .svg, .tex and .dot need nothing else"):
        from matplotlib import rc_context
        from matplotlib.figure import Figure

    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "path"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
        figure = Figure(figsize=(max(picture.width, 1.0) / PIXELS, max(picture.height, 1.0) / PIXELS))
        ax = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        ax.set_axis_off()
        ax.set_xlim(0.0, max(picture.width, 1.0))
        ax.set_ylim(max(picture.height, 1.0), 0.0)
        _draw(ax, picture)
        file = io.BytesIO()
        metadata = {"Title": printable(picture.title)} | ({"CreationDate": None} if extension == ".pdf" else {})
        figure.savefig(file, format=extension[1:], dpi=DOTS, transparent=True, metadata=metadata)
    return file.getvalue()


def _draw(ax: Any, picture: Picture) -> None:
    from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
    from matplotlib.path import Path as Route

    point = 72.0 / PIXELS
    for way, label, dashed in picture.edges:
        numbers = [float(text) for text in re.findall(r"-?\d+", curve(way, HIGH / 2.0, HIGH / 2.0 + 4.0))]
        points = np.array(numbers).reshape(-1, 2)
        route = Route(points, [Route.MOVETO] + [Route.CURVE4] * (len(points) - 1))
        ax.add_patch(
            PathPatch(route, fill=False, edgecolor=EDGE, linewidth=point, linestyle=(0, (4, 3)) if dashed else "-")
        )
        x, y = way[-1][0], way[-1][1] - HIGH / 2.0
        ax.add_patch(Polygon([(x - 3.5, y - 7.0), (x + 3.5, y - 7.0), (x, y)], facecolor=EDGE, linewidth=0))
        if label:
            x, y = middle_of(way)
            ax.text(x + 3.0, y, label, color=LABEL, fontsize=12.0 * point, va="center", parse_math=False)
    for text, (x, y), width, end in picture.nodes:
        fill, line, ink = FILLS[end]
        corner = f"round,pad=0,rounding_size={min(picture.corner, HIGH / 2.0)}"
        box = (x - width / 2.0, y - HIGH / 2.0)
        ax.add_patch(FancyBboxPatch(box, width, HIGH, boxstyle=corner, facecolor=fill, edgecolor=line, linewidth=point))
        ax.text(x, y, text, color=ink, fontsize=13.0 * point, ha="center", va="center_baseline", parse_math=False)
