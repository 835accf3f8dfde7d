"""Write the tables of the documentation from what was measured: `make tables`.

`make bench ARGS="NAME --store"` keeps a group's table in benchmarks/measured/, with machine, date, commit and load. A
page has a place for it, between `<!-- measured: NAME -->` and `<!-- end -->`, which `TABLES` fills. The tests hold that
pages and numbers agree. Where a file has no commit or no machine, its numbers are older than this mechanism.
"""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "benchmarks" / "measured"
PLACE = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)

Cells = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """What a group of measurements stored."""

    rows: list[Cells]
    date: str
    commit: str | None
    machine: dict[str, str] | None
    load: float | None
    notes: list[str]

    @classmethod
    def of(cls, name: str) -> Group:
        """Read a group by the name of its table."""
        stored = json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))
        return cls(*(stored[field] for field in ("rows", "date", "commit", "machine", "load", "notes")))

    def row(self, **cells: Any) -> Cells:
        """Return the only row with these cells."""
        (found,) = (row for row in self.rows if all(row.get(name) == cell for name, cell in cells.items()))
        return found

    def mean(self, of: str = "") -> float:
        """Return the geometric mean at the end of the table, of what its ratios are of."""
        end = f", {of}" if of else ""
        rows = [row for row in self.rows if re.fullmatch(rf"mean of \d+{re.escape(end)}", row["function"])]
        return float(rows[0].get("ratio", rows[0].get("reached")))

    def counted(self) -> str:
        """Return when operations were counted; on which machine makes no difference."""
        return f"Counted on {self._day()}{self._at()}."

    def measured(self) -> str:
        """Return when and where times were measured."""
        if self.machine is None:
            return f"Measured by {self._day()}{self._at()}; the machine was not written down."
        system = ", ".join(filter(None, (self.machine["processor"], self.machine.get("system"))))
        busy = self.load is not None and self.load > 0.5
        return f"Measured on {system}, {self._day()}{self._at()}{f', at a load of {self.load:g}' if busy else ''}."

    def _day(self) -> str:
        day = datetime.date.fromisoformat(self.date)
        return f"{day.day} {day:%B %Y}"

    def _at(self) -> str:
        return f" at {self.commit}" if self.commit else ""


def written(columns: Sequence[str], rows: Iterable[Sequence[object]], after: str, *, texts: int = 1) -> str:
    """Return a table in Markdown and a line after it; numbers are to the right, the first columns are text."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    right = [k >= texts and _numbers(row[k] for row in cells) for k in range(len(columns))]
    lines = [[*columns], ["--:" if number else "---" for number in right], *cells]
    return "\n".join(["", *(f"| {' | '.join(line)} |" for line in lines), "", after, "", ""])


def _numbers(cells: Iterable[str]) -> bool:
    given = [cell for cell in cells if cell]
    return 2 * sum(re.match(r"[≤*\d]", cell) is not None for cell in given) > len(given)


def rounded(value: float, decimals: int = 1) -> str:
    """Return a number with two digits; below 10 with as many decimals."""
    return f"{value:.{decimals}f}" if value < 10.0 else f"{round(value, 1 - math.floor(math.log10(value))):,.0f}"


def duration(microseconds: float) -> str:
    """Return a time with two digits and its unit."""
    if microseconds < 1.0:
        return f"{rounded(1e3 * microseconds)} ns"
    if microseconds >= 1e6:
        return f"{rounded(microseconds / 1e6)} s"
    return f"{rounded(microseconds)} µs" if microseconds < 1e3 else f"{rounded(microseconds / 1e3)} ms"


def short(value: Any) -> str:
    """Return a number with three digits, and text as it is."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


# Tables ---------------------------------------------------------------------------------------------------------------

#: Ways to call, and what systems are called there.
CALLS = {"one point": "One Jacobian, called from Python", "batch": "Each of 2,000 points in a batch, one thread"}
SYSTEMS = {
    "one point": {"CasADi": "CasADi, Function", "CasADi buffers": "CasADi, buffers", "JAX": "JAX, jit"},
    "batch": {"CasADi": "CasADi, C by gcc -O3", "JAX": "JAX, jit(vmap)"},
}
#: Functions of which pages show operations: of all kinds, where resubstitution wins, with Hessians.
SHOWN = ["neo_hookean", "dh_arm", "gravity_field", "robot_arm", "black_scholes", "peng_robinson", "roe_flux",
         "nurbs_point", "four_body", "human_heart_dipole", "pollu", "reprojection", "pendulum_chain"]  # fmt: skip
REWRITTEN = ["black_scholes", "robot_arm", "nurbs_point", "four_body", "sabr", "peng_robinson", "roe_flux",
             "hydrogen_combustion", "reprojection", "dh_arm", "quadrotor", "human_heart_dipole", "pollu",
             "gravity_field"]  # fmt: skip
HESSIANS = ["neo_hookean", "nurbs_point", "black_scholes", "roe_flux", "four_body", "robot_arm", "pendulum_chain",
            "hydrogen_combustion", "relative_pose", "pollu"]  # fmt: skip
#: Functions of long arrays that a page shows: what they are called there, and their unknowns.
STRUCTURES = {
    "Brusselator 128²": ("Brusselator on 128² cells, by `np.roll`", 32_768),
    "Brusselator 128², loops": ("in Python loops, `(i + 1) % n`", 32_768),
    "Brusselator 300²": ("on 300² cells, by `np.roll`", 180_000),
    "Brusselator 1000²": ("on 1000² cells", 2_000_000),
    "reaction–diffusion 10⁶": ("reaction and diffusion by slices", 1_000_000),
    "100 bodies": ("100 bodies, all pairs by broadcasting", 300),
    "pendulum 1,000 steps": ("pendulum, 1,000 Runge–Kutta steps in a Python loop", 4),
    "observations 6,000": ("residuals of 6,000 observations, by index arrays", 1_080),
    "observations 10⁶": ("of 1,000,000 observations", 180_000),
    "layers 128": ("two dense layers of 128", 128),
    "layers 512": ("of 512", 512),
    "network, 10⁵ weights, 100 rows": ("loss of a network by 10⁵ weights, 100 samples", 98_880),
    "regression 2,000 × 50": ("logistic regression, 2,000 × 50", 50),
}
#: What FastDifferentiation.jl publishes, by the functions of `ratio`.
PUBLISHED = {
    "Rosenbrock": "1.13",
    "spherical harmonics": "2.2",
    "(A+B)(A·B)ᵀ": "2.6",
    "(A+B)(A·B)ᵀ, 5 rows": "2.6",
}
SIDES = ("accumulus", "thorough", "SymForce")
BY_HAND = {"quaternion_rotation": "a vector turned by a quaternion"}


def overview() -> str:
    """Times of one Jacobian by each system, by way to call."""
    group, lines = Group.of("overview"), []
    for call, title in CALLS.items():
        rows = [row for row in group.rows if row["call"] == call]
        columns = [name for name in rows[-1] if name not in ("function", "call")]
        names = [SYSTEMS[call].get(name, name) for name in columns]
        cells = [[row["function"], *(duration(row[name]) for name in columns)] for row in rows]
        lines.append(f"\n{title}:\n{written(['function', *names], cells, '').rstrip()}\n")
    return "".join([*lines, f"\n{group.measured()}\n\n"])


def symforce_code() -> str:
    """Operations and times of SymForce beside accumulus."""
    group, rows = Group.of("symforce-code"), []
    for row in group.rows:
        name = row["function"].replace("mean of", "geometric mean of")
        if "ratio" in row:
            ratio = rounded(row["ratio"], 2)
            at = 2 if name.endswith("operations") else 5
            rows.append([name, *(ratio if k == at else "" for k in range(7))])
        elif "of it" not in row:
            rows.append([name, short(row["accumulus"]), row["SymForce"], "", "", "", "", ""])
        else:
            times = [duration(1e-3 * row["ns"]), duration(1e-3 * row["SymForce ns"])]
            quotient, made = rounded(row["ns"] / row["SymForce ns"], 2), duration(1e6 * row["generated in s"])
            counts = [short(row["accumulus"]), short(row["SymForce"]), rounded(row["of it"], 2)]
            rows.append([name, *counts, *times, quotient, made])
    columns = ["operations", "SymForce", "ratio", "a point", "SymForce, C++", "ratio", "SymForce generates in"]
    return written(["function", *columns], rows, group.measured())


def readme() -> str:
    """The numbers that the README shows."""
    times = {call: Group.of("overview").row(function="geometric mean", call=call) for call in CALLS}

    def faster(call: str, *systems: str) -> str:
        return " / ".join(rounded(times[call][system] / times[call]["accumulus"]) for system in systems)

    large = Group.of("structure").row(case="reaction–diffusion 10⁶")
    first = Group.of("first")
    milliseconds = [row["accumulus ms"] for row in first.rows if isinstance(row.get("accumulus ms"), int | float)]
    errors = [row["accumulus"] for row in Group.of("accuracy").rows]
    few = f"at most {math.ceil(sorted(errors)[-2])} on {len(errors) - 1} of {len(errors)} functions"
    ours, casadi = (f"{_first(large, peer)}, {_call(large, peer)}" for peer in ("", "CasADi "))
    on_gpu = Group.of("gpu")
    layouts = [on_gpu.row(function=f"mean of 8, float64, 10,000,000 {layout}") for layout in ("rows", "columns")]
    quotients = " / ".join(rounded(1.0 / row["reached"]) for row in layouts)
    rows = [
        ("one Jacobian called from Python, against JAX / finite differences",
         f"{faster('one point', 'JAX', 'finite differences')} times as fast", "overview"),
        ("per point of a batch, against CasADi's generated C (gcc -O3) / JAX",
         f"{faster('batch', 'CasADi', 'JAX')} times as fast", "overview"),
        ("per point of a batch on a GPU (NVIDIA H200), rows / columns, against JAX there", f"{quotients} times as fast",
         "gpu"),
        ("operations of value and Jacobian of thirty functions, against CasADi with `cse`",
         f"{Group.of('operations').mean():.2f} times as many", "operations"),
        ("from a function to its first Jacobian, against `jax.jit`",
         f"{first.mean():.2f} times as long, {spread(milliseconds)} ms", "first"),
        ("sparse Jacobian of 10⁶ unknowns: first, then each", f"{ours} (CasADi: {casadi})", "structure"),
        ("error (ulp, scaled by the condition number)", few, "accuracy"),
    ]  # fmt: skip
    cells = [[what, result, f"`make bench ARGS={command}`"] for what, result, command in rows]
    return written(["measured", "result", "command"], cells, "", texts=3).rstrip("\n") + "\n\n"


def preparation() -> str:
    """Times of first results and calls, and what calls leave behind."""
    first, second, uses, calls = (Group.of(name) for name in ("first", "second", "first-use", "overview"))
    (use,), imports = uses.rows, 1e-3 * second.row(function="imports of accumulus")["ms"]
    warm = spread(row["ms"] for row in second.rows if "met" in row)
    left = max(row["MiB"] for row in Group.of("memory").rows)
    ratios = sorted((row["reached"], row["function"]) for row in first.rows if "jacfwd ms" in row)
    milliseconds = [row["accumulus ms"] for row in first.rows if isinstance(row.get("accumulus ms"), int | float)]
    points = [row["accumulus"] for row in calls.rows if row["call"] == "one point" and "mean" not in row["function"]]
    rows = [
        ("from a function to its first Jacobian, empty cache, against JAX's `jit(jacfwd or jacrev)`",
         f"{first.mean():.2f} of the time in the geometric mean of {len(ratios)} functions, {spread(milliseconds)} ms; "
         f"at most {ratios[-1][0]:.2f} ({ratios[-1][1]}), then {ratios[-2][0]:.2f}", "first"),
        ("the same in a second process, from the disk cache",
         f"{warm} ms, after {imports:.2f} s of imports", "second"),
        ("the very first use on a machine, with an empty cache",
         f"{use['empty cache s'] - use['later s']:.1f} s of processor time more", "first-use"),
        ("a call at one point from Python",
         f"{spread(points)} µs for the eight functions of the chart ([table](compared.md#measured))", "overview"),
        ("memory left behind by a million calls of any kind", f"at most {max(left, 0.01):.2f} MiB", "memory"),
    ]  # fmt: skip
    cells = [[what, result, f"`make bench ARGS={command}`"] for what, result, command in rows]
    return written(["measured", "result", "command"], cells, first.measured(), texts=3)


def spread(values: Iterable[float]) -> str:
    """Return the least and the largest number, with two digits."""
    values = [*values]
    return f"{rounded(min(values))} to {rounded(max(values))}"


def time() -> str:
    """Times per point of batches."""
    group, rows = Group.of("time"), []
    for name in dict.fromkeys(row["example"] for row in group.rows):
        of_function = {(row["output"], row["peer"].split()[0]): row for row in group.rows if row["example"] == name}
        sparse, dense, jax = (of_function[key] for key in (("sparse", "CasADi"), ("dense", "CasADi"), ("dense", "JAX")))
        times = [rounded(each["ns"]) if "ns" in each else "" for each in (sparse, dense)]
        ratios = [f"{rounded(each['reached'])} ×" for each in (sparse, dense, jax)]
        rows.append([name, times[0], ratios[0], times[1], *ratios[1:]])
    columns = ["nonzeros: ns", "CasADi's C", "whole matrices: ns", "CasADi's C", "JAX"]
    return written(["function", *columns], rows, group.measured())


def transposed() -> str:
    """Times per point of transposed batches."""
    group = Group.of("transposed")
    rows = [[row["function"], rounded(row["ns"]), f"{1 / row['reached']:.1f} ×"] for row in group.rows if "ns" in row]
    rows.append(["geometric mean", "", f"{1 / group.mean():.1f} ×"])
    return written(["function", "nonzeros, transposed: ns", "vectorised C"], rows, group.measured())


def beyond() -> str:
    """Times per point of batches whose results exceed the caches."""
    group = Group.of("beyond")
    names = ["in caches", "memory", "given", "fresh"]
    rows = [
        [row["function"], row["bytes"], *(rounded(row[name]) for name in names)] for row in group.rows if "bytes" in row
    ]
    columns = ["bytes", "in caches", "memory", "`out=` given", "fresh array"]
    return written(["function", *columns], rows, group.measured())


def peers() -> str:
    """Times of value and Jacobian, relative to those of libraries that compile symbols."""
    group = Group.of("peers")
    rows = []
    for row in group.rows:
        if row["function"] == "geometric mean":
            columns = [name for name in row if name not in ("function", "peer", "reached", "reach", "met")]
            rows.append([row["peer"], *(rounded(row[name], 2) for name in columns)])
    names = ["one call" if name == "call ×" else name for name in columns]
    return written(["time, relative to", *names], rows, group.measured())


def counts() -> str:
    """Products of the best plans for public graphs."""
    group, rows = Group.of("counts"), []
    for graph in dict.fromkeys(row["graph"] for row in group.rows):
        cells = []
        for objective in ("fma", "multiplications"):
            row = group.row(graph=graph, objective=objective)
            proven = row["lower bound"] == str(row["accumulus"])
            cells += [f"**{row['accumulus']}**" if proven else row["accumulus"], row["AlphaGrad"]]
        rows.append([graph, *cells])
    return written(["graph", "every product 1", "AlphaGrad", "±1 free", "AlphaGrad"], rows, group.counted())


def structure() -> str:
    """First results and calls of functions of long arrays."""
    group, rows = Group.of("structure"), []
    for case, (name, unknowns) in STRUCTURES.items():
        row = group.row(case=case)
        peers = []
        for peer in ("CasADi ", "JAX "):
            first = row.get(f"{peer}first (s)")
            late = "over 100 s" if isinstance(first, str) else None
            peers.append(late or (f"{_first(row, peer)}, {_call(row, peer)}" if first is not None else ""))
        rows.append([name, f"{unknowns:,}", f"{row['nonzeros']:,}", _first(row), _call(row), *peers])
    columns = ["unknowns", "nonzeros", "first", "a call", "CasADi, first and a call", "JAX"]
    return written(["function", *columns], rows, group.measured())


def lowering() -> str:
    """What the first kind of derivative of each function costs written out and as loops."""
    group, rows, seen = Group.of("lowering"), [], set[str]()
    for row in group.rows:
        if "written s" in row and row["function"] not in seen:
            seen.add(row["function"])
            cells = [
                f"{rounded(row[f'{form} s'], 2)} s, {rounded(row[f'{form} µs'])} µs" for form in ("written", "loops")
            ]
            rows.append([row["function"], row["kind"], *cells, f"{row['reached']:.2f}"])
    columns = [
        "function, entries or steps",
        "kind",
        "written out",
        "as loops",
        "the chosen one, against the better one",
    ]
    return written(columns, rows, group.measured(), texts=2)


def _first(row: Cells, peer: str = "") -> str:
    seconds = row[f"{peer}first (s)"]
    return f"{rounded(seconds, 1 if seconds >= 1.0 else 2)} s"


def _call(row: Cells, peer: str = "") -> str:
    milliseconds = row[f"{peer}call (ms)"]
    return f"{rounded(milliseconds, 1 if milliseconds >= 1.0 else 2)} ms"


def means() -> str:
    """Geometric means of operations against other systems."""
    rows = [
        ("CasADi", "operations", "", "thorough"),
        ("CasADi, a division or root counting 8, a function 15, a sign 0", "weighted", "", "thorough"),
        ("SymPy, `cse` of the Jacobian", "sympy", "cse(J), operations", "cse(J), thorough"),
        ("SymPy, forward with `cse`", "sympy", "forward, operations", "forward, thorough"),
        ("CasADi, ten functions held out", "held-out", "", "thorough"),
        ("the same, weighted", "held-out-weighted", "", "thorough"),
    ]
    cells = [[against, *(f"{Group.of(name).mean(of):.2f}" for of in both)] for against, name, *both in rows]
    return written(["against", "default", "thorough"], cells, Group.of("operations").counted())


def _operations(names: Sequence[str], group: Group) -> list[list[str]]:
    found = [group.row(function=name) for name in names]
    return [[row["function"], *(short(row[side]) for side in ("accumulus", "thorough", "with cse"))] for row in found]


def some() -> str:
    """Operations of some functions, and the means."""
    group = Group.of("operations")
    return written(["function", "accumulus", "thorough", "CasADi"], _operations(SHOWN, group), group.counted())


def rewritten() -> str:
    """Operations of functions on which resubstitution wins something."""
    group = Group.of("operations")
    return written(["function", "default", "thorough", "CasADi"], _operations(REWRITTEN, group), group.counted())


def hand() -> str:
    """Operations against programs that were written by hand."""
    group = Group.of("hand")
    rows = [
        [BY_HAND.get(row["function"], row["function"]), row["accumulus"], row["thorough"], row["by hand"]]
        for row in group.rows
        if "by hand" in row
    ]
    return written(["function", "default", "thorough", "by hand"], rows, group.counted())


def by_theorems(name: str) -> str:
    """Operations of derivatives by theorems, and without."""
    group = Group.of(name)
    columns = ["default", "default without", "thorough", "thorough without"]
    rows = [[row["function"], *(row[column] for column in columns)] for row in group.rows]
    return written(["function", *columns], rows, group.counted())


def hessian() -> str:
    """Operations of value, gradient and Hessian."""
    group = Group.of("hessian")
    rows = [[name, *(short(group.row(function=name)[side]) for side in ("accumulus", "CasADi"))] for name in HESSIANS]
    products = Group.of("products")
    rows += [
        ["geometric mean of thirty, ratio", f"{group.mean():.2f}", ""],
        ["values and J·v, mean of thirty", f"{products.mean('jvp'):.2f}", ""],
        ["H·v, mean of thirty", f"{products.mean('hvp'):.2f}", ""],
    ]
    return written(["function", "accumulus", "CasADi"], rows, group.counted())


def ratio() -> str:
    """Operations of Jacobians over those of their functions."""
    group = Group.of("ratio")
    rows = [
        [row["function"], *(short(row[of]) for of in ("of the function", "of its Jacobian")), f"{row['reached']:.2f}",
         PUBLISHED[row["function"]]] for row in group.rows
    ]  # fmt: skip
    columns = ["function", "its operations", "of its Jacobian", "ratio", "FastDifferentiation.jl"]
    return written(columns, rows, group.counted())


def symforce() -> str:
    """Operations of geometry and factors beside SymForce's generated C++."""
    group = Group.of("symforce")
    rows = [[row["function"], *(short(row[of]) for of in SIDES), rounded(row["reached"], 2)]
            for row in group.rows if "SymForce" in row]  # fmt: skip
    rows.append(["geometric mean", "", "", "", rounded(group.mean(), 2)])
    return written(["function", "accumulus", "thorough", "SymForce, C++", "ratio"], rows, group.counted())


def matrices() -> str:
    """Operations of functions of matrices."""
    group = Group.of("matrices")
    sizes = [name for name in group.rows[0] if name != "function"]
    rows = [[f"`{row['function']}`", *(short(row[n]) for n in sizes)] for row in group.rows]
    return written(["n", *sizes], rows, group.counted())


def solvers() -> str:
    """Whole runs of solvers of differential equations."""
    group, systems = Group.of("solvers"), ("accumulus", "CasADi", "SymPy", "JAX", "differences")
    rows = [
        [f"{row['problem']}, {row['variables']}", row["solver"], *(short(row[name]) for name in systems)]
        for row in group.rows
    ]
    return written(["problem, unknowns", "solver", *systems], rows, group.measured())


def fits() -> str:
    """Whole runs of optimisers."""
    group, systems = Group.of("fits"), ("accumulus", "JAX", "differences")
    rows = [[row["problem"], row["variables"], *(short(row[name]) for name in systems)] for row in group.rows]
    return written(["problem", "unknowns", *systems], rows, group.measured())


def explorer() -> str:
    """Sizes of explorer pages, times to open them, and times of a step."""
    group, rows = Group.of("explorer"), []
    for page in dict.fromkeys(row["page"] for row in group.rows):
        size, opens, *steps = (
            group.row(page=page, measured=what) for what in ("size", "opens", "step by vertex", "step by face")
        )
        times = [rounded(step[name]) for step in steps for name in ("median", "90 %", "main thread")]
        first = [page, f"{size['vertices']:,}", f"{size['operations']:,}", f"{size['median']:.2f} MB"]
        rows.append([*first, f"{opens['median']:.2f} s", *times])
    kinds = [f"{kind}: {name}" for kind in ("by vertex", "by face") for name in ("ms", "90 %", "main thread")]
    return written(["plan of", "vertices", "operations", "page", "opens in", *kinds], rows, group.measured())


def sources() -> str:
    """Operations without a part of resubstitution."""
    group = Group.of("sources")
    rows = [
        [row["without"], row["effort"], *(f"{float(row[name]):.3f}" for name in ("suite", "held out", "SymForce")),
         row["most"].split("; ")[0]] for row in group.rows
    ]  # fmt: skip
    columns = ["without", "effort", "suite and by hand", "ten held out", "SymForce's", "most"]
    return written(columns, rows, group.counted())


def _searched(name: str, unit: str = "") -> Callable[[], str]:
    """Return a table of what the search reaches, as `make bench-search` prints it."""

    def table() -> str:
        group = Group.of(name)
        columns = [column for column in group.rows[0] if column not in ("reach", "reached", "met")]
        rows = [
            [*(short(row[column]) for column in columns), f"≤ {short(row['reach'])}{unit}",
             f"{short(row['reached'])}{unit} {'✓' if row['met'] else '✗'}"]
            for row in group.rows
        ]  # fmt: skip
        return written([*columns, "to reach", "reached"], rows, group.measured())

    return table


#: By the name of their place in a page.
def special() -> str:
    """Times of special functions and splines in batches, beside SciPy's."""
    group = Group.of("special")
    rows = [
        [f"`{row['function']}`" if row["function"].islower() else row["function"],
         *(rounded(row[of]) for of in ("with value", "SciPy's value"))] for row in group.rows
    ]  # fmt: skip
    return written(["function", "value and derivative: ns", "SciPy, the value alone: ns"], rows, group.measured())


def gpu() -> str:
    """Times of batches on a GPU beside JAX's, by layout and type."""
    group, rows = Group.of("gpu"), []
    cases = {(row["function"], row["layout"]): None for row in group.rows if "layout" in row}
    for name, layout in cases:
        cells = [name, layout]
        for dtype in ("float64", "float32"):
            row = group.row(function=name, layout=layout, type=dtype, points=10_000_000)
            cells += [rounded(row["ns"], 2), rounded(row["JAX ns"], 2), rounded(1.0 / row["reached"])]
            cells += [f"{100 * row['of memory']:.0f} %"] if dtype == "float64" else []
        rows.append(cells)
    for points in (10_000_000, 1_000_000):
        for layout in ("rows", "columns"):
            cells = [f"**geometric mean, {points:,} points**", layout]
            for dtype in ("float64", "float32"):
                mean = group.row(function=f"mean of 8, {dtype}, {points:,} {layout}")["reached"]
                cells += ["", "", f"**{rounded(1.0 / mean)}**", *([""] if dtype == "float64" else [])]
            rows.append(cells)
    columns = [
        "function",
        "points are",
        "float64",
        "JAX",
        "times as fast",
        "of memory",
        "float32",
        "JAX",
        "times as fast",
    ]
    note = f"Nanoseconds a point. {group.notes[0]}. {group.measured()}"
    return written(columns, rows, note, texts=2)


TABLES: dict[str, Callable[[], str]] = {
    "overview": overview,
    "symforce-code": symforce_code,
    "readme": readme,
    "preparation": preparation,
    "time": time,
    "transposed": transposed,
    "beyond": beyond,
    "peers": peers,
    "counts": counts,
    "structure": structure,
    "lowering": lowering,
    "means": means,
    "operations": some,
    "resubstitution": rewritten,
    "hand": hand,
    "rotations": partial(by_theorems, "rotations"),
    "systems": partial(by_theorems, "systems"),
    "hessian": hessian,
    "ratio": ratio,
    "matrices": matrices,
    "symforce": symforce,
    "solvers": solvers,
    "fits": fits,
    "explorer": explorer,
    "sources": sources,
    "gpu": gpu,
    "special": special,
    "search-small": _searched("search-small"),
    "search-public": _searched("search-public"),
    "search-start": _searched("search-start", " s"),
    "search-random": _searched("search-random", " s"),
    "search-shared": _searched("search-shared"),
}


def filled(page: str) -> str:
    """Return the text of a page with its tables written anew."""
    return PLACE.sub(lambda place: f"{place[1]}{TABLES[place[2]]()}{place[3]}", page)


def main() -> None:
    """Write the tables of all pages."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            path.write_text(new, encoding="utf-8", newline="\n")
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
