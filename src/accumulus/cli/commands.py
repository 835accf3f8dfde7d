"""The commands, each a plain function whose parameters Typer reads."""

from __future__ import annotations

import json
import re
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Group, RenderableType

from accumulus.cli.application import (
    OF_DERIVATIVES,
    OF_SEARCHES,
    OPTIONS,
    RESEARCH,
    AsJson,
    Watch,
    app,
    beyond_searches,
    print_note,
    processes,
    reported,
    with_options,
)
from accumulus.cli.problem import Problem, load_problem
from accumulus.errors import ArgumentError, TimeLimitWarning, unknown_name
from accumulus.graph.files import save_graph
from accumulus.show.tables import amount, duration, key_values, print_json, print_out, table, text
from accumulus.targets import languages
from accumulus.text import printable

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from accumulus.graph.graph import DifferentiationGraph
    from accumulus.search.plan import Plan
    from accumulus.show.methods import MethodCosts
    from accumulus.show.report import Report


#: Targets of builds.
FORMS: Final = ("c", "library", "wheel")
LAYOUTS: Final = ("plain", "casadi")

FunctionText = Annotated[
    str, typer.Argument(metavar="FUNCTION", help="Function in a Python file: file.py:function.", show_default=False)
]
Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="SIZES",
        help="Shape of an argument: 6, 3,3 or 3x3, or 'scalar' for a number. Repeat for each argument, in their order.",
        show_default=False,
    ),
]


@app.command("build")
@reported
@with_options(*OPTIONS)
def build_command(
    function: FunctionText,
    shape: Shapes = None,
    target: Annotated[
        str, typer.Option(help="c: source and header; library: a shared library, too; wheel: a Python package.")
    ] = "wheel",
    name: Annotated[
        str | None, typer.Option(help="Name of the result; by default that of the function.", show_default=False)
    ] = None,
    package_version: Annotated[str, typer.Option(metavar="VERSION", help="Version of the wheel.")] = "0.1.0",
    layout: Annotated[
        str, typer.Option(help="Interface of C and libraries: plain, or casadi, which casadi.external and nlpsol load.")
    ] = "plain",
    constraints: Annotated[
        str | None,
        typer.Option(
            metavar="FUNCTION",
            help="Constraints of a nonlinear program, in the same file; with --layout casadi.",
            show_default=False,
        ),
    ] = None,
    native: Annotated[
        bool, typer.Option(help="Use all instructions of this processor; other processors may lack them.")
    ] = False,
    output: Annotated[Path, typer.Option("--output", "-o", file_okay=False, help="Folder to write to.")] = Path("."),
    **options: Any,
) -> None:
    """Write a derivative as C source with a header, as a shared library, or as a wheel that needs only NumPy."""
    from accumulus.cli.problem import given_options, load_derivative, load_function, names_of_arguments, user_code
    from accumulus.shipping.c_projects import CProject, check_package_name

    if target not in FORMS:
        raise unknown_name("target", target, FORMS)
    if layout not in LAYOUTS:
        raise unknown_name("layout", layout, LAYOUTS)
    if layout == "casadi" and target == "wheel":
        raise ArgumentError("--layout casadi is for C and libraries; expected --target c or --target library")
    if constraints is not None and layout != "casadi":
        raise ArgumentError("--constraints are given for a plain layout; expected --layout casadi")
    if layout == "casadi" and (wrong := [name for name in beyond_searches(options) if name in OF_DERIVATIVES]):
        raise ArgumentError(
            f"--{wrong[0]} is given for --layout casadi, which writes the derivatives that CasADi calls; leave it out"
        )
    if not re.fullmatch(r"\d+(\.\d+)*((a|b|rc|\.dev|\.post)\d+)?", package_version):
        raise ArgumentError(f"--package-version is {package_version!r}; expected numbers with dots, such as 1.0.2")
    chosen = check_package_name(name or re.sub(r"\W", "_", function.rpartition(":")[2]).lower())
    if layout == "casadi":
        f, shapes, path = load_function(function, shape or [])
        keywords = given_options({name: value for name, value in options.items() if name != "derivative"})
        _build_for_casadi(function, f, shapes, path, constraints, chosen, target, output, native, keywords)
        return
    made, examples, path = load_derivative(function, shape or [], {**options, "target": "numpy"}, every=False)
    with user_code(path):
        program, numbers = made.prepared(*examples)
    names = names_of_arguments(made, options["derivative"], len(numbers), len(shape or []))
    project = CProject.of(program, chosen, names)
    if target == "wheel":
        from accumulus.shipping.wheels import write_wheel

        written = [write_wheel(project, output, version=package_version, native=native)]
    else:
        written = project.write(output)
        if target == "library":
            written.append(output / f"lib{chosen}.so")
            project.library(written[-1], native=native)
    for each in written:
        print_note(f"wrote {each}")


def _build_for_casadi(
    function: str,
    f: Any,
    shapes: list[tuple[int, ...]],
    path: Path,
    constraints: str | None,
    name: str,
    target: str,
    output: Path,
    native: bool,
    options: dict[str, Any],
) -> None:
    """Write C that CasADi loads: a function with its Jacobian, or a nonlinear program."""
    import numpy as np

    from accumulus.api.casadi_source import function_source, nlp_source
    from accumulus.cli.problem import load_function, user_code
    from accumulus.shipping.c_projects import compiled_library

    examples = [np.ones(sizes)[()] for sizes in shapes]
    if constraints is None:
        with user_code(path):
            text = function_source(f, examples, name, **options)
    else:
        if len(examples) not in (1, 2):
            raise ArgumentError(
                f"{function} takes {len(examples)} arguments; expected one or two: the variables, and parameters"
            )
        g, _, _ = load_function(f"{path}:{constraints}", ["x".join(map(str, sizes)) or "scalar" for sizes in shapes])
        name = "nlp"
        with user_code(path):
            text = nlp_source(f, g, *examples, **options)
    output.mkdir(parents=True, exist_ok=True)
    source = output / f"{name}.c"
    source.write_text(text, encoding="utf-8")
    print_note(f"wrote {source}")
    if target == "library":
        library = output / f"lib{name}.so"
        compiled_library(text, library, native=native)
        print_note(f"wrote {library}")


# accumulus cache -----------------------------------------------------------------------------------------------------


@app.command()
@reported
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete everything in the cache.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the folder of cached plans and compiled code, and its size."""
    from accumulus.cache import clear as drop
    from accumulus.cache import contents, directory, state

    if clear:
        drop()
    where, how, sizes_of = str(directory()), state(), contents()
    if as_json:
        kinds = {kind: {"files": len(sizes), "bytes": sum(sizes)} for kind, sizes in sizes_of.items()}
        print_json({"directory": where, "state": how, "kinds": kinds})
        return
    rows = [(kind, amount(len(sizes)), f"{sum(sizes) / 1e6:.1f}") for kind, sizes in sizes_of.items()]
    print_out(Group(text(where, style="bold"), "", table(["cached", "files", "MB"], rows)))
    if how != "usable":
        print_note(how, style="red")


# Plans, sources and checks -------------------------------------------------------------------------------------------


#: Options of commands about a problem: all except options of calls.
OF_PROBLEMS: Final = tuple(name for name in OPTIONS if name not in ("threads", "check_finite", "most_cases"))
#: Options of checks, which compare the Jacobian made with them to the function.
OF_CHECKS: Final = tuple(
    name
    for name in OPTIONS
    if name not in ("derivative", "rows", "columns", "entries", "banded", "sparse", "dtype", "seed", "check")
)
#: Estimated seconds up to which a method runs whatever the time limit: more exceed short limits, fewer skip more
#: methods.
ANYWAY: Final = 0.1
#: Rows of a comparison.
ROWS: Final = 10

ProblemText = Annotated[
    str,
    typer.Argument(metavar="PROBLEM", help="Function (file.py:function) or graph (graph.json).", show_default=False),
]
Jobs = Annotated[
    int, typer.Option("--jobs", "-j", metavar="N", min=1, max=1024, help="Number of processes that share the search.")
]
AsExpressions = Annotated[
    bool, typer.Option("--expressions", help="Print the plan as expressions, instead of the report.")
]
AsLatex = Annotated[bool, typer.Option("--latex", help="Print the plan as expressions in LaTeX.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", dir_okay=False, help="File to write.", show_default=False)
]


@app.command("plan")
@reported
@with_options(*OF_PROBLEMS)
def plan_command(
    problem: ProblemText,
    shape: Shapes = None,
    jobs: Jobs = 1,
    as_json: AsJson = False,
    expressions: AsExpressions = False,
    latex: AsLatex = False,
    **options: Any,
) -> None:
    """Report what a derivative costs: operations, the chosen order of the chain rule, and other orders."""
    if as_json and (expressions or latex):
        raise typer.BadParameter("--json prints the report; leave out --expressions and --latex, or --json")
    loaded = _load(problem, shape, options)
    with processes(jobs) as executor:
        plan, interrupted = _find(loaded, options, executor)
    if expressions or latex:
        from accumulus.theory.algebra.sets import expressions as expressions_of

        written = expressions_of(plan)
        sys.stdout.write(printable(f"{written.latex() if latex else written}\n", keep="\n"))
    elif as_json:
        print_json(_report(loaded, plan).to_dict())
    else:
        print_out(_report(loaded, plan))
    if interrupted:
        raise KeyboardInterrupt


@app.command("compare")
@reported
@with_options(*(name for name in OF_PROBLEMS if name != "method"))
def compare_command(
    problem: ProblemText,
    shape: Shapes = None,
    jobs: Jobs = 1,
    as_json: AsJson = False,
    all_methods: Annotated[bool, typer.Option("--all", help="Print a row for every method.")] = False,
    **options: Any,
) -> None:
    """Compare the methods that search for a plan, by cost and time.

    Ten rows show forward, reverse and Markowitz elimination, and the best methods with different costs. Deterministic
    methods that take longer than the time limit, or are expected to, are listed with their time instead.
    """
    from accumulus.show.methods import MethodCosts, chosen_because, comparison_table, distinct

    loaded = _load(problem, shape, options)
    objective, time_limit = options["objective"], options["time_limit"]
    candidates: list[MethodCosts] = []
    interrupted = False
    names, skipped = _within(loaded.graph, time_limit)
    try:
        with processes(jobs) as executor:
            for method in names:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", TimeLimitWarning)  # the table shows it
                    plan, interrupted = _find(loaded, {**options, "method": method}, executor)
                if method in ("auto", plan.method):
                    candidates.append(MethodCosts.of(plan, method))
                elif interrupted:  # a better sweep is the best plan so far of a method that has not finished
                    candidates.append(MethodCosts.of(plan))
                else:
                    skipped[method] = plan.seconds
                if interrupted:
                    break
    except KeyboardInterrupt:
        if not candidates:
            raise
        interrupted = True
    best = min(candidates, key=lambda candidate: (candidate.cost(objective), candidate.seconds))
    if as_json:
        rows = [candidate.to_dict() for candidate in candidates]
        print_json({"name": loaded.name, "objective": objective, "methods": rows, "skipped": skipped})
    else:
        shown = candidates if all_methods else distinct(candidates, objective, ROWS)
        reason = text(f"Fewest {objective}: {chosen_because(best, [c for c in shown if c is not best], objective)}")
        table = comparison_table(shown, best.method)
        parts: list[RenderableType] = [text(loaded.name, style="bold"), "", table, "", reason]
        if len(shown) < len(candidates):
            parts.append(text(f"{len(candidates) - len(shown)} more methods: --all shows them.", style="dim"))
        if skipped:
            listed = ", ".join(f"{method} ({duration(seconds)})" for method, seconds in skipped.items())
            limit = f"Not run to the end, since that takes longer than the time limit of {duration(time_limit)}:"
            parts.append(text(f"{limit} {listed}.", style="dim"))
        print_out(Group(*parts))
    if interrupted:
        raise KeyboardInterrupt


@app.command("emit")
@reported
@with_options(*OF_PROBLEMS)
def emit_command(
    problem: ProblemText,
    shape: Shapes = None,
    target: Annotated[str, typer.Option(help=f"Language of the source: {' or '.join(languages())}.")] = "numpy",
    output: Output = None,
    jobs: Jobs = 1,
    values: Annotated[
        bool,
        typer.Option("--values/--no-values", help="Also compute the function's values; --no-values leaves them out."),
    ] = True,
    **options: Any,
) -> None:
    """Print the source code of a derivative, or of a graph's Jacobian as a function of its edge labels."""
    from accumulus.cli.source import problem_source, source_of_loops
    from accumulus.targets import check_target

    check_target(target)
    if not values:
        options["derivative"] = kind = options["derivative"].removeprefix("value_and_")
        if kind.startswith("value"):
            raise ArgumentError(f"--no-values is given for {kind}; expected a kind without values: hessian, gradient")
    _check(options)
    interrupted = False
    with processes(jobs) as executor:
        # the numpy target compiles fastest, and has the same layout of results as every other
        numpy_options = {**options, "target": "numpy"}
        text = source_of_loops(problem, shape or [], target, {**numpy_options, "executor": executor})
        if text is None:
            loaded = _load(problem, shape, numpy_options)
            plan, interrupted = _find(loaded, numpy_options, executor)
            text = problem_source(loaded, plan, target)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
        print_note(f"wrote {output}")
    if interrupted:
        raise KeyboardInterrupt


@app.command("show")
@reported
@with_options(*OF_PROBLEMS)
def show_command(
    problem: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM", help="Function (file.py:function), graph.json or plan.json.", show_default=False
        ),
    ],
    shape: Shapes = None,
    output: Output = None,
    jobs: Jobs = 1,
    **options: Any,
) -> None:
    """Write or open a page that shows a plan step by step: graph, line graph and expressions."""
    from accumulus.search.plan import is_plan_file, load_plan
    from accumulus.show.explorer import described_as, show_plan

    described, interrupted = None, False
    if is_plan_file(problem):
        if shape:
            raise typer.BadParameter("--shape is for functions; leave it out for a plan file")
        chosen_plan = load_plan(problem)
    else:
        loaded = _load(problem, shape, options)
        with processes(jobs) as executor:
            chosen_plan, interrupted = _find(loaded, options, executor)
        if loaded.posed is not None:
            posed, names = loaded.posed, loaded.named_values()
            described = described_as(posed.name, posed.recording, posed.linearization, loaded.parameters, names)
    print_note(f"wrote {show_plan(chosen_plan, output, described)}")
    if interrupted:
        raise KeyboardInterrupt


@app.command("check")
@reported
@with_options(*OF_CHECKS)
def check_command(
    function: FunctionText,
    shape: Shapes = None,
    points: Annotated[int, typer.Option(min=0, help="Number of points to try around the first one.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first point.")] = 0,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Check a function's derivatives against the function itself at several points; exit code 1 if they differ."""
    import numpy as np

    from accumulus.checking.check import check as hold
    from accumulus.cli.problem import given_options, load_function, user_code

    f, shapes, path = load_function(function, shape or [])
    generator = np.random.default_rng(seed)
    with user_code(path):
        report = hold(
            f, *(generator.uniform(0.5, 1.5, shape)[()] for shape in shapes), points=points, **given_options(options)
        )
    if as_json:
        print_json(report.to_dict())
    else:
        print_out(report)
    if not report.passed:
        raise typer.Exit(1)


@app.command("methods")
@reported
def methods_command(as_json: AsJson = False) -> None:
    """List the methods that search for plans."""
    from accumulus.methods import methods as registered

    descriptions = registered()
    if as_json:
        print_json(descriptions)
    else:
        print_out(key_values(descriptions.items()))


def _check(options: dict[str, Any]) -> None:
    """Raise an error for options that are out of range, before anything slow begins."""
    from accumulus.options import Options

    Options.of(**{name: options[name] for name in OF_SEARCHES if name in options})


def _load(problem: str, shapes: list[str] | None, options: dict[str, Any]) -> Problem:
    _check(options)
    return load_problem(problem, shapes or [], options)


def _find(problem: Problem, options: dict[str, Any], executor: Executor | None) -> tuple[Plan, bool]:
    """Return the plan, and True if Ctrl-C ended the search, so that it is only the best plan so far."""
    from accumulus.search.find import plan as find

    chosen = {name: options[name] for name in OF_SEARCHES if name in options}
    with Watch(f"{problem.name}, {chosen['method']}", chosen["time_limit"], chosen["objective"]) as watch:
        best = find(problem.graph, progress=watch.progress, executor=executor, **chosen)
    return best, watch.interrupted


def _within(graph: DifferentiationGraph, time_limit: float) -> tuple[list[str], dict[str, float]]:
    """Return the methods within the time limit, or quick ones, and the estimated seconds of all others."""
    from accumulus.methods import methods as registered
    from accumulus.search.elimination import Workload
    from accumulus.search.registry import get

    work = Workload.of(graph)
    run, skipped = [], {}
    for method in map(get, registered()):
        seconds = 0.0 if method.seconds is None else method.seconds(work)
        if seconds > max(time_limit, ANYWAY):
            skipped[method.name] = seconds
        else:
            run.append(method.name)
    return run, skipped


def _report(problem: Problem, plan: Plan) -> Report:
    from accumulus.show.report import Report

    if problem.posed is None:
        return Report.of_plan(plan, {**problem.seconds, "plan": plan.seconds})
    return Report.of(problem.posed.compile(plan))


# accumulus generate --------------------------------------------------------------------------------------------------


@app.command("generate", rich_help_panel=RESEARCH)
@reported
def generate_command(
    name: Annotated[
        str | None, typer.Argument(help="Name of a generator; without one, all are listed.", show_default=False)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="ARGUMENT=VALUE",
            help="Argument of the generator: width=8, density=0.5, points=20x20, shape=tree. Repeat for several.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the generator, as --set seed=N.", show_default=False)
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", dir_okay=False, help="File to write, with the ending .json or .graphml.")
    ] = Path("graph.json"),
) -> None:
    """Write a generated graph to a file, to try methods on; the same arguments give the same graph everywhere."""
    from accumulus.graph.generators import generator_named, generators

    if name is None:
        print_out(key_values(generators().items()))
        return
    arguments = dict(_argument(text) for text in settings or [])
    if seed is not None:
        arguments["seed"] = seed
    graph = generator_named(name)(**arguments)
    save_graph(graph, output)
    print_note(f"wrote {output}: {graph!r}")


def _argument(text: str) -> tuple[str, Any]:
    """Return name and value of ``name=value``: a number, several numbers, true, false, or a word."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ArgumentError(f"--set {text}: expected ARGUMENT=VALUE, such as width=8")
    several = value.replace("x", ",").split(",")
    if len(several) > 1 and all(entry.isdecimal() for entry in several):
        return name, [int(entry) for entry in several]
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
