"""Draw the chart of the README from measured numbers, benchmarks/measured/overview.json: `make tables`.

Text and bars are of colours that stand out on white and on black.
"""

from __future__ import annotations

import math

from pages import CALLS, ROOT, SYSTEMS, Group, duration, rounded

CHART = ROOT / "docs" / "figures" / "time-per-jacobian.svg"

OURS, PEER, TEXT = "#2f81d8", "#9aa4ae", "#78828c"
WIDTH, LABELS, BARS, LINE, BAR = 640, 165, 360, 25, 16
#: Where the logarithmic axis begins, and its length in decades; microseconds.
LEAST, DECADES = 0.01, 6.5


def main() -> None:
    """Write the chart."""
    CHART.write_text(drawn(), encoding="utf-8", newline="\n")


def drawn() -> str:
    """Return the text of the chart."""
    group = Group.of("overview")
    means = {row["call"]: row for row in group.rows if row["function"] == "geometric mean"}
    lines, y = [], 18
    for call, title in CALLS.items():
        times = {name: value for name, value in means[call].items() if name not in ("function", "call")}
        ours = times["accumulus"]
        lines.append(_text(0, y, title, weight="bold"))
        y += 12
        for name, microseconds in sorted(times.items(), key=lambda item: item[1]):
            length = BARS * math.log10(microseconds / LEAST) / DECADES
            colour = OURS if name == "accumulus" else PEER
            top, middle = y + (LINE - BAR) / 2, y + LINE / 2 + 4
            lines.append(_text(LABELS - 8, middle, SYSTEMS[call].get(name, name), anchor="end"))
            corner, side = f"{LABELS},{top:g}", f"h{length:.1f} v{BAR} h-{length:.1f} z"
            lines.append(f'<path fill="{colour}" d="M{corner} {side}" />')
            ratio = "" if name == "accumulus" else f" · {rounded(microseconds / ours)} ×"
            lines.append(_text(LABELS + length + 8, middle, f"{duration(microseconds)}{ratio}"))
            y += LINE
        y += 26
    functions = sum(row["call"] == "batch" for row in group.rows) - 1
    for note in (f"Geometric means over {functions} functions, logarithmic scale.", group.measured()):
        lines.append(_text(0, y - 8, note, size=11))
        y += 16
    title = "Time per Jacobian: accumulus beside CasADi, JAX, autograd and finite differences"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}"'
    font = 'font-family="Helvetica, Arial, DejaVu Sans, sans-serif"'
    return "\n".join([f"{head} {font}>", f"<title>{title}</title>", *lines, "</svg>\n"])


def _text(x: float, y: float, text: str, *, size: int = 14, anchor: str = "start", weight: str = "normal") -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{TEXT}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{text}</text>'


if __name__ == "__main__":
    main()
