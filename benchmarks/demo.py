"""The main job on real functions: record, plan, prove, compile, check, measure, and say what was won: `make demo`.

Four functions of `examples/` are differentiated as they stand. Each result is checked against complex steps, which
share no code with what is checked, and timed in a batch against what NumPy alone can do, finite differences, and
against CasADi and JAX if they are installed. `make bench` measures all examples, with more care.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import accumulus as acc
from accumulus.rewriting.canonical import canonical
from accumulus.show.report import Report
from accumulus.show.tables import duration
from functions import Example
from peers import Contender, NotInstalled, casadi_c, complex_step, jax_batch
from timing import measure, one_core

EXAMPLES = ("roe_flux", "robot_arm", "pollu", "pendulum_chain")
POINTS = 2000
CHECKED = 20
#: Largest difference from complex steps, relative to the largest entry of its row, that is not a mistake.
TOLERANCE = 1e-9
NAME = "accumulus"
WIDTH = 100

Points = NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """Results of the demonstration of one function.

    Attributes:
        operations: of the function itself.
        prepared: seconds from the function to its first Jacobian.
        error: largest difference from complex steps.
        per_point: seconds for one point, by who computed it.
    """

    name: str
    report: Report
    operations: int
    prepared: float
    error: float
    per_point: dict[str, float]

    def cost_of(self, method: str) -> str:
        """Operations that the plan of another method would have had."""
        return next((f"{other.operations:,}" for other in self.report.others if other.method == method), "–")

    def sentences(self) -> str:
        """Why it is cheap, and what that brings."""
        ours = self.per_point[NAME]
        ratios = [f"{_ratio(seconds / ours)} {name}" for name, seconds in self.per_point.items() if name != NAME]
        return (
            f"Value and Jacobian take {self.report.operations / self.operations:.1f} times the operations of the "
            f"function alone, where finite differences take {self.report.jacobian_shape[1] + 1} times. "
            f"At {POINTS:,} points that is {', '.join(ratios)}."
        )


def _ratio(value: float) -> str:
    if value < 1.0:
        return f"{value:.2f} times as fast as"
    return f"{value:,.{1 if value < 10 else 0}f} times faster than"


def main() -> int:
    """Run the demo; 1 if a result is wrong."""
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    outcomes = []
    with console.status("preparing the search, once a machine …") as status, one_core():
        warm_up()
        for name in EXAMPLES:
            status.update(f"{name}: planning, compiling, checking and measuring …")
            outcomes.append(examine(Example(name)))
    console.print(result_table(outcomes))
    console.print()
    for outcome in outcomes:
        console.print(Text.assemble((outcome.name, "bold"), f": {outcome.sentences()}"))
    wrong = [outcome.name for outcome in outcomes if not outcome.error <= TOLERANCE]
    if wrong:
        console.print(f"\n[red]wrong: {', '.join(wrong)}[/red]")
    return 1 if wrong else 0


def warm_up() -> None:
    """Compile the kernels of the search, which the first search on a machine has to wait for."""
    acc.jacobian(lambda x: np.array([x[0] * x[1] * np.sin(x[0]), np.sin(x[1]) * x[0]]))(np.ones(2))


def examine(example: Example) -> Outcome:
    """Prepare, check and time one example."""
    derivative = acc.value_and_jacobian(example.function)
    start = time.perf_counter()
    derivative(example.point)
    prepared = time.perf_counter() - start

    X = example.sample(POINTS)
    out = (np.empty((POINTS, example.outputs)), np.empty((POINTS, example.outputs, example.inputs)))
    contenders = [
        Contender(NAME, lambda: derivative.batch(X, out=out), lambda: derivative.batch(X)[1]),
        *peers(example, X),
    ]
    error = difference(example, X, contenders[0])
    timings = measure({contender.name: contender.run for contender in contenders}, turns=11)
    per_point = {name: timing.median / POINTS for name, timing in timings.items()}
    per_point |= finite_differences(example, X)
    operations = canonical(derivative.compile(example.point).recording.tape).operations
    return Outcome(example.name, derivative.report(), operations, prepared, error, per_point)


def difference(example: Example, X: Points, contender: Contender) -> float:
    """Largest difference from complex steps, relative to the largest entry of its row."""
    reference = complex_step.jacobian(example)
    truth = np.array([reference(x) for x in X[:CHECKED]])
    scale = np.abs(truth).max(axis=2, keepdims=True)
    scale[scale == 0.0] = 1.0
    return float(np.max(np.abs(contender.dense()[:CHECKED] - truth) / scale))


def peers(example: Example, X: Points) -> list[Contender]:
    """Those that are installed."""
    found = []
    makers: tuple[Callable[[], Contender], ...] = (
        lambda: casadi_c.contender(example, X, "dense"),
        lambda: jax_batch.contender(example, X, "jacfwd"),
    )
    for make in makers:
        try:
            found.append(make())
        except NotInstalled:
            continue
    return found


def finite_differences(example: Example, X: Points) -> dict[str, float]:
    """Seconds a point of forward differences, over all points at once where the function takes arrays of points."""
    f = example.function
    try:
        takes_arrays = np.allclose(f(X[:3].T).T, [f(x) for x in X[:3]])
    except (ValueError, IndexError, TypeError):
        takes_arrays = False
    steps = np.sqrt(np.finfo(float).eps) * np.eye(example.inputs)

    def at_once() -> list[Points]:
        value = f(X.T)
        return [(f((X + step).T) - value) / step.max() for step in steps]

    few = X[:50]

    def one_by_one() -> list[list[Points]]:
        return [[(f(x + step) - value) / step.max() for step in steps] for x in few for value in (f(x),)]

    run, points = (at_once, len(X)) if takes_arrays else (one_by_one, len(few))
    name = "finite differences" if takes_arrays else "differences in a loop"
    return {name: measure({name: run}, turns=5)[name].median / points}


def result_table(outcomes: list[Outcome]) -> Table:
    """One column a function."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("")
    for outcome in outcomes:
        table.add_column(outcome.name, justify="right", no_wrap=True)

    def row(name: str, text: Callable[[Outcome], str], *, last: bool = False) -> None:
        table.add_row(name, *map(text, outcomes), end_section=last)

    row("Jacobian", lambda o: "×".join(map(str, o.report.jacobian_shape)))
    row("structural nonzeros", lambda o: f"{o.report.nonzeros:,}", last=True)
    row("operations of the function", lambda o: f"{o.operations:,}")
    row("with its Jacobian", lambda o: f"{o.report.operations:,}")
    row("  by forward elimination", lambda o: o.cost_of("forward"))
    row("  by reverse elimination", lambda o: o.cost_of("reverse"), last=True)
    row("from function to first result", lambda o: duration(o.prepared))
    row(f"error at {CHECKED} points", lambda o: f"{o.error:.0e}", last=True)
    for name in dict.fromkeys(name for outcome in outcomes for name in outcome.per_point):
        row(f"a point, {name}", lambda o, name=name: duration(o.per_point[name]) if name in o.per_point else "–")
    table.caption = (
        "Error: largest difference from complex steps, relative to the largest entry of its row. A point: median time "
        f"for one of {POINTS:,} points on one thread; value and Jacobian by accumulus, the Jacobian by others."
    )
    table.caption_justify = "left"
    return table


if __name__ == "__main__":
    sys.exit(main())
