"""The commands that plan, compare, emit and check, each a plain function whose parameters Typer reads."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Group, RenderableType

from accumulus.cli.application import AsJson, app, note, reported
from accumulus.cli.jobs import processes
from accumulus.cli.option_table import OF_SEARCHES, OPTIONS, with_options
from accumulus.cli.problem import Problem, load
from accumulus.cli.progress_bar import Watch
from accumulus.errors import TimeLimitWarning
from accumulus.show.output import write, write_json
from accumulus.show.tables import duration, key_values
from accumulus.show.tables import text as words
from accumulus.targets import languages
from accumulus.text import printable

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from accumulus.graph.graph import DifferentiationGraph
    from accumulus.search.plans.plan import Plan
    from accumulus.show.comparison import Candidate
    from accumulus.show.report import Report

__all__ = ["check", "compare", "emit", "methods", "plan"]

#: Options of commands about a problem: all that do not say how often, or how, a program is called.
OF_PROBLEMS: Final = tuple(name for name in OPTIONS if name not in ("threads", "check_finite", "most_cases"))
#: Options of checks, which hold the Jacobian that is made by them against the function.
OF_CHECKS: Final = tuple(
    name
    for name in OPTIONS
    if name not in ("derivative", "rows", "columns", "entries", "banded", "sparse", "dtype", "seed", "check")
)
#: Seconds that a method may take whatever the time limit.
ANYWAY: Final = 0.1

ProblemText = Annotated[
    str, typer.Argument(metavar="PROBLEM", help="file.py:function, or graph.json", show_default=False)
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="SIZES",
        help="Shape of an argument: 6, 3,3 or 3x3, 'scalar' for a number. Once for each argument of the function.",
        show_default=False,
    ),
]
Jobs = Annotated[int, typer.Option("--jobs", "-j", metavar="N", min=1, max=1024, help="Processes that share a search.")]
AsExpressions = Annotated[
    bool, typer.Option("--expressions", help="Print the plan as expressions instead of the report.")
]
AsLatex = Annotated[bool, typer.Option("--latex", help="The same in LaTeX.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", dir_okay=False, help="Write to this file.", show_default=False)
]


@app.command()
@reported
@with_options(*OF_PROBLEMS)
def plan(
    problem: ProblemText,
    shape: Shapes = None,
    jobs: Jobs = 1,
    as_json: AsJson = False,
    expressions: AsExpressions = False,
    latex: AsLatex = False,
    **options: Any,
) -> None:
    """Find a plan for a derivative, and report what it costs and why it was chosen."""
    if as_json and (expressions or latex):
        raise typer.BadParameter("--json prints the report; leave out --expressions and --latex, or --json")
    what = _load(problem, shape, options)
    with processes(jobs) as executor:
        found, interrupted = _find(what, options, executor)
    if expressions or latex:
        from accumulus.theory.algebra.sets import expressions as expressions_of

        written = expressions_of(found)
        sys.stdout.write(printable(f"{written.latex() if latex else written}\n", keep="\n"))
    elif as_json:
        write_json(_report(what, found).to_dict())
    else:
        write(_report(what, found))
    if interrupted:
        raise KeyboardInterrupt


@app.command()
@reported
@with_options(*(name for name in OF_PROBLEMS if name != "method"))
def compare(
    problem: ProblemText,
    shape: Shapes = None,
    jobs: Jobs = 1,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Plan with every method, and print side by side what each costs and how long it took.

    Deterministic methods that take longer than the time limit, by estimate or in fact, are left out.
    """
    from accumulus.show.comparison import Candidate, chosen_because, comparison_table

    what = _load(problem, shape, options)
    objective, time_limit = options["objective"], options["time_limit"]
    candidates: list[Candidate] = []
    interrupted = False
    names, skipped = _within(what.graph, time_limit)
    try:
        with processes(jobs) as executor:
            for method in names:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", TimeLimitWarning)  # the table says so
                    found, interrupted = _find(what, {**options, "method": method}, executor)
                if method in ("auto", found.method):
                    candidates.append(Candidate.of(found, method))
                elif interrupted:  # a better sweep is the best so far of a method that has not finished
                    candidates.append(Candidate.of(found))
                else:
                    skipped[method] = found.seconds
                if interrupted:
                    break
    except KeyboardInterrupt:
        if not candidates:
            raise
        interrupted = True
    best = min(candidates, key=lambda candidate: candidate.cost(objective))
    if as_json:
        rows = [candidate.to_dict() for candidate in candidates]
        write_json({"name": what.name, "objective": objective, "methods": rows, "skipped": skipped})
    else:
        others = [c for c in candidates if c is not best]
        reason = words(f"Fewest {objective}: {chosen_because(best, others, objective)}")
        table = comparison_table(candidates, best.method)
        parts: list[RenderableType] = [words(what.name, style="bold"), "", table, "", reason]
        if skipped:
            listed = ", ".join(f"{method} ({duration(seconds)})" for method, seconds in skipped.items())
            limit = f"Not run to the end, since that takes longer than the time limit of {duration(time_limit)}:"
            parts.append(words(f"{limit} {listed}.", style="dim"))
        write(Group(*parts))
    if interrupted:
        raise KeyboardInterrupt


@app.command()
@reported
@with_options(*OF_PROBLEMS)
def emit(
    problem: ProblemText,
    shape: Shapes = None,
    target: Annotated[str, typer.Option(help=f"Language of the source: {' or '.join(languages())}.")] = "numpy",
    output: Output = None,
    jobs: Jobs = 1,
    values: Annotated[
        bool, typer.Option("--values/--no-values", help="Leave values away: jacobian for value_and_jacobian.")
    ] = True,
    **options: Any,
) -> None:
    """Print the source of a derivative of the function, or of a graph's Jacobian from its labels."""
    from accumulus.cli.source import source, source_of_loops
    from accumulus.errors import ArgumentError
    from accumulus.targets import check_target

    check_target(target)
    if not values:
        options["derivative"] = kind = options["derivative"].removeprefix("value_and_")
        if kind.startswith("value"):
            raise ArgumentError(f"--no-values is given for {kind}; expected a kind without values: hessian, gradient")
    _check(options)
    interrupted = False
    with processes(jobs) as executor:
        # the numpy target compiles in no time, and lays results out as every other
        given = {**options, "target": "numpy"}
        text = source_of_loops(problem, shape or [], target, {**given, "executor": executor})
        if text is None:
            what = _load(problem, shape, given)
            found, interrupted = _find(what, given, executor)
            text = source(what, found, target)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
        note(f"wrote {output}")
    if interrupted:
        raise KeyboardInterrupt


@app.command()
@reported
@with_options(*OF_CHECKS)
def check(
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="file.py:function", show_default=False)],
    shape: Shapes = None,
    points: Annotated[int, typer.Option(min=0, help="How many points to try around the first.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the arguments where it begins.")] = 0,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Hold a function's recording and derivatives against the function itself; exit code 1 if they differ."""
    import numpy as np

    from accumulus.checking.check import check as hold
    from accumulus.cli.derivatives import as_given
    from accumulus.cli.functions import load_function, user_code

    f, shapes, path = load_function(function, shape or [])
    generator = np.random.default_rng(seed)
    with user_code(path):
        report = hold(
            f, *(generator.uniform(0.5, 1.5, shape)[()] for shape in shapes), points=points, **as_given(options)
        )
    if as_json:
        write_json(report.to_dict())
    else:
        write(report)
    if not report.passed:
        raise typer.Exit(1)


@app.command()
@reported
def methods(as_json: AsJson = False) -> None:
    """List the methods, and what each does."""
    from accumulus.methods import methods as registered

    descriptions = registered()
    if as_json:
        write_json(descriptions)
    else:
        write(key_values(descriptions.items()))


def _check(options: dict[str, Any]) -> None:
    """Refuse options that are out of range, before anything slow begins."""
    from accumulus.options import Options

    Options.of(**{name: options[name] for name in OF_SEARCHES if name in options})


def _load(problem: str, shapes: list[str] | None, options: dict[str, Any]) -> Problem:
    _check(options)
    return load(problem, shapes or [], options)


def _find(what: Problem, options: dict[str, Any], executor: Executor | None) -> tuple[Plan, bool]:
    """The plan, and whether Ctrl-C ended the search, so that it is only the best so far."""
    from accumulus.search.find import plan as find

    chosen = {name: options[name] for name in OF_SEARCHES if name in options}
    with Watch(f"{what.name}, {chosen['method']}", chosen["time_limit"], chosen["objective"]) as watch:
        found = find(what.graph, progress=watch.progress, executor=executor, **chosen)
    return found, watch.interrupted


def _within(graph: DifferentiationGraph, time_limit: float) -> tuple[list[str], dict[str, float]]:
    """The methods that keep to the time limit, or are quick anyway; and the seconds that the others would take."""
    from accumulus.methods import methods as registered
    from accumulus.search.registry import get
    from accumulus.search.workload import Workload

    work = Workload.of(graph)
    run, skipped = [], {}
    for method in map(get, registered()):
        seconds = 0.0 if method.seconds is None else method.seconds(work)
        if seconds > max(time_limit, ANYWAY):
            skipped[method.name] = seconds
        else:
            run.append(method.name)
    return run, skipped


def _report(what: Problem, found: Plan) -> Report:
    from accumulus.show.report import Report

    if what.posed is None:
        return Report.of_plan(found, {**what.seconds, "plan": found.seconds})
    return Report.of(what.posed.compile(found))
