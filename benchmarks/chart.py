"""Draw the chart of the README, and write the tables of docs/compared.md, from measured numbers.

`python benchmarks/chart.py` makes all of them.

The numbers are in benchmarks/measured/, which measurements write anew:

    make bench ARGS="overview --json benchmarks/measured/overview.json"
    make bench-symforce ARGS="--json benchmarks/measured/symforce.json"

Text and bars are of colours that stand out on white and on black.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NUMBERS = ROOT / "benchmarks" / "measured" / "overview.json"
SYMFORCE = ROOT / "benchmarks" / "measured" / "symforce.json"
CHART = ROOT / "docs" / "figures" / "time-per-jacobian.svg"
PAGE = ROOT / "docs" / "compared.md"
#: Beginnings of the tables on their page, and their end.
MARKS = "<!-- made by benchmarks/chart.py -->\n", "<!-- end -->\n"
SYMFORCE_MARK = "<!-- symforce: made by benchmarks/chart.py -->\n"

OURS, PEER, TEXT = "#2f81d8", "#9aa4ae", "#78828c"
WIDTH, LABELS, BARS, LINE, BAR = 760, 170, 400, 24, 15
#: Where the logarithmic axis begins, and its length in decades; microseconds.
LEAST, DECADES = 0.01, 6.5
TITLES = {"one point": "One Jacobian, called from Python", "batch": "Each of 2,000 points in a batch, one thread"}
NAMES = {
    "one point": {"CasADi": "CasADi, Function", "CasADi buffers": "CasADi, buffers", "JAX": "JAX, jit"},
    "batch": {"CasADi": "CasADi, C by gcc -O3", "JAX": "JAX, jit(vmap)"},
}


def main() -> None:
    """Write the chart and the tables."""
    report = json.loads(NUMBERS.read_text(encoding="utf-8"))
    CHART.write_text(drawn(report), encoding="utf-8", newline="\n")
    text = PAGE.read_text(encoding="utf-8")
    symforce = symforce_table(json.loads(SYMFORCE.read_text(encoding="utf-8")))
    for mark, made in ((MARKS[0], table(report)), (SYMFORCE_MARK, symforce)):
        before, _, rest = text.partition(mark)
        text = before + mark + made + MARKS[1] + rest.partition(MARKS[1])[2]
    PAGE.write_text(text, encoding="utf-8", newline="\n")


def table(report: dict[str, Any]) -> str:
    """Return the measured times as a table for each kind of call, with the machine and the date."""
    (group,) = report["groups"]
    lines = []
    for call, title in TITLES.items():
        rows = [row for row in group["rows"] if row["call"] == call]
        columns = [name for name in rows[-1] if name not in ("function", "call")]
        names = [NAMES[call].get(name, name) for name in columns]
        lines += ["", f"{title}:", "", f"| function | {' | '.join(names)} |", "| --- |" + " --: |" * len(columns)]
        lines += [f"| {row['function']} | {' | '.join(_duration(row[name]) for name in columns)} |" for row in rows]
    return "\n".join([*lines, "", _measured(report), "", ""])


def symforce_table(report: dict[str, Any]) -> str:
    """Return operations and times of SymForce beside accumulus as a table, with the machine and the date."""
    (group,) = report["groups"]
    columns = ["operations", "SymForce", "ratio", "a point", "SymForce, C++", "ratio", "SymForce generates in"]
    lines = ["", f"| function | {' | '.join(columns)} |", "| --- |" + " --: |" * len(columns)]
    for row in group["rows"]:
        name = row["function"].replace("mean of", "geometric mean of")
        if "ratio" in row:
            at = 2 if name.endswith("operations") else 5
            cells = [rounded(row["ratio"], 2) if k == at else "" for k in range(len(columns))]
        elif "of it" not in row:
            cells = [f"{row['accumulus']:,}", str(row["SymForce"]), "", "", "", "", ""]
        else:
            times = [_duration(1e-3 * row["ns"]), _duration(1e-3 * row["SymForce ns"])]
            quotient = rounded(row["ns"] / row["SymForce ns"], 2)
            counts = [f"{row['accumulus']:,}", f"{row['SymForce']:,}", rounded(row["of it"], 2)]
            cells = [*counts, *times, quotient, _duration(1e6 * row["generated in s"])]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", _measured(report), "", ""])


def _measured(report: dict[str, Any]) -> str:
    machine = report["machine"]
    return f"Measured on {machine['processor']}, {machine['system']}, {report['date']}."


def drawn(report: dict[str, Any]) -> str:
    """Return the text of the chart."""
    (table,) = report["groups"]
    means = {row["call"]: row for row in table["rows"] if row["function"] == "geometric mean"}
    lines, y = [], 18
    for call, title in TITLES.items():
        times = {name: value for name, value in means[call].items() if name not in ("function", "call")}
        ours = times["accumulus"]
        lines.append(_text(0, y, title, weight="bold"))
        y += 12
        for name, microseconds in sorted(times.items(), key=lambda item: item[1]):
            length = BARS * math.log10(microseconds / LEAST) / DECADES
            colour = OURS if name == "accumulus" else PEER
            top, middle = y + (LINE - BAR) / 2, y + LINE / 2 + 4
            lines.append(_text(LABELS - 8, middle, NAMES[call].get(name, name), anchor="end"))
            corner, side = f"{LABELS},{top:g}", f"h{length:.1f} v{BAR} h-{length:.1f} z"
            lines.append(f'<path fill="{colour}" d="M{corner} {side}" />')
            ratio = "" if name == "accumulus" else f" · {rounded(microseconds / ours)} ×"
            lines.append(_text(LABELS + length + 8, middle, f"{_duration(microseconds)}{ratio}"))
            y += LINE
        y += 26
    functions = sum(row["call"] == "batch" for row in table["rows"]) - 1
    machine = f"{report['machine']['processor']}, {report['date']}"
    note = f"Geometric means over {functions} functions, logarithmic scale. {machine}."
    lines.append(_text(0, y - 8, note, size=11))
    title = "Time per Jacobian: accumulus beside CasADi, JAX, autograd and finite differences"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}"'
    font = 'font-family="Helvetica, Arial, DejaVu Sans, sans-serif"'
    return "\n".join([f"{head} {font}>", f"<title>{title}</title>", *lines, "</svg>\n"])


def _text(x: float, y: float, text: str, *, size: int = 13, anchor: str = "start", weight: str = "normal") -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{TEXT}"'
    return f'<text x="{x:g}" y="{y:g}" {style}>{text}</text>'


def _duration(microseconds: float) -> str:
    if microseconds < 1.0:
        return f"{rounded(1e3 * microseconds)} ns"
    if microseconds >= 1e6:
        return f"{rounded(microseconds / 1e6)} s"
    return f"{rounded(microseconds)} µs" if microseconds < 1e3 else f"{rounded(microseconds / 1e3)} ms"


def rounded(value: float, decimals: int = 1) -> str:
    """Return a number with two digits; below 10 with as many decimals."""
    return f"{value:.{decimals}f}" if value < 10.0 else f"{round(value, 1 - math.floor(math.log10(value))):,.0f}"


if __name__ == "__main__":
    main()
