"""The application that commands are added to, with their shared errors, exit codes, options and searches.

**Options** are one table, from which commands take theirs. A row is the command-line form of an option of
`accumulus.options.Options`, or of the functions that make derivatives; it has the default of the API.

**Searches.** A long search shows a progress bar, and Ctrl-C ends it with the best plan so far. A search catches the
interrupt and returns its best plan. `Watch` records the signal, so that the caller knows of the interrupt.
"""

from __future__ import annotations

import functools
import inspect
import multiprocessing
import os
import signal
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from types import FrameType, NoneType, TracebackType
from typing import Annotated, Any, Final, ParamSpec, TypeVar, get_args, get_type_hints

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from typer.core import TyperGroup

from accumulus.errors import AccumulusError, ArgumentError
from accumulus.options import EFFORTS, FORMATS, GUARDS, OF_PLANS, Options
from accumulus.progress import Progress as Told
from accumulus.show.tables import amount, text
from accumulus.targets import DTYPES
from accumulus.text import printable

#: Exit status after Ctrl-C, as shells have it.
INTERRUPTED: Final = 130
P = ParamSpec("P")
#: Commands in other modules: the module with their Typer application as `app`, imported when the command is used.
ELSEWHERE: Final = {"research": "accumulus.theory.research.research_commands"}
#: Commands in the order of `accumulus --help`; the others follow.
FIRST: Final = ("plan", "check", "emit", "build", "show", "compare", "methods", "cache")
#: Heading of the commands about graphs and methods, which users of derivatives do not need.
RESEARCH: Final = "Research on graphs and methods"


class Commands(TyperGroup):
    """All commands; arguments with control characters are refused."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        names = super().list_commands(ctx)
        return [*FIRST, *(name for name in names if name not in FIRST), *ELSEWHERE]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with that name; None if there is none."""
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        command = typer.main.get_command(import_module(ELSEWHERE[cmd_name]).app)
        command.invoke = reported(command.invoke)  # type: ignore[method-assign]
        command.rich_help_panel = RESEARCH  # type: ignore[attr-defined]
        return command

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        """Run a command; refuse an argument with control characters, which a message could print on the terminal."""
        arguments = sys.argv[1:] if args is None else list(args)
        for argument in arguments:
            if any(unicodedata.category(character) == "Cc" for character in argument):
                print_note(f"error: {argument!r} holds control characters; rename the file", style="red")
                sys.exit(2)
        return super().main(arguments, *rest, **options)


app = typer.Typer(
    name="accumulus",
    cls=Commands,
    help="Report, check and export exact derivatives of Python functions.",
    epilog="PROBLEM is a function in a file, with the shape of each argument, or a file of a graph. "
    "Example: accumulus plan model.py:f --shape 6 --shape 3x3",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def main() -> None:
    """Run the command line of this process."""
    app()


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """Return the command with errors and Ctrl-C converted to messages and exit codes."""

    @functools.wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            command(*arguments, **options)
        except AccumulusError as error:
            print_note(f"error: {error}", style="red")
            raise typer.Exit(1) from None
        except OSError as error:
            print_note(f"error: {error.filename}: {error.strerror or error}", style="red")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            print_note("stopped by Ctrl-C", style="red")
            raise typer.Exit(INTERRUPTED) from None

    return run


def _version(requested: bool) -> None:
    if requested:
        print(f"accumulus {version('accumulus')}")
        raise typer.Exit


@app.callback()
def accumulus(
    _: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Report, check and export exact derivatives of Python functions."""


def print_note(message: str, style: str | None = None) -> None:
    """Print a line on the error stream."""
    Console(stderr=True, highlight=False).print(text(message), style=style, soft_wrap=True)


# Options --------------------------------------------------------------------------------------------------------------


F = TypeVar("F", bound=Callable[..., Any])


def _option(kind: Any, text: str, metavar: str | None = None) -> Any:
    """Return the annotation of an option of a type, with its help text; the default None is not shown."""
    return Annotated[kind, typer.Option(metavar=metavar, help=text, show_default=NoneType not in get_args(kind))]


def _several(kind: Any, text: str, metavar: str) -> Any:
    return _option(list[kind] | None, f"{text}. Repeat for several.", metavar)


#: Type and help text by name. Executors, callbacks and assumptions have no text form; each command has its own targets.
OPTIONS: Final[dict[str, Any]] = {
    "derivative": _option(str, "Function of accumulus that makes the derivative: gradient, hessian, …", "KIND"),
    "argnums": _several(int, "Position of an argument to differentiate with respect to, from 0", "N"),
    "argnames": _several(str, "Name of an argument to differentiate with respect to", "NAME"),
    "rows": _several(int, "Position of a row of the derivative to compute, instead of all", "N"),
    "columns": _several(int, "Position of a column of the derivative to compute, instead of all", "N"),
    "entries": _several(str, "Position of an entry of the derivative to compute, instead of all", "ROW,COLUMN"),
    "banded": _option(
        tuple[int, int] | None,
        "Numbers of diagonals below and above the main one, of a derivative that is a banded matrix.",
        "BELOW ABOVE",
    ),
    "method": _option(str, "Method of the search; 'accumulus methods' lists all."),
    "objective": _option(
        str, "Cost to minimise: operations of the program; multiplications or fma of the chain rule; code size."
    ),
    "time_limit": _option(float, "Maximum time of the search.", "SECONDS"),
    "effort": _option(str, f"How long a search goes on without improving: {', '.join(EFFORTS)}."),
    "seed": _option(int, "Seed of the search. The same seed gives the same plan."),
    "iterations": _option(int | None, "Maximum number of iterations of the search.", "N"),
    "cache": _option(bool, "Read plans and programs from the cache, and store them there."),
    "sparse": _option(str | None, f"Compute only the nonzeros, as a sparse matrix: {', '.join(FORMATS)}.", "FORMAT"),
    "dtype": _option(str, f"Precision of arguments and results: {', '.join(DTYPES)}."),
    "threads": _option(int, "Number of threads that share the points of a batch.", "N"),
    "check_finite": _option(bool, "Raise an error if an argument holds NaN or infinity."),
    "check": _option(bool, "Compare the recorded function with the original at several points."),
    "optimise": _option(bool | None, "Rewrite the program to fewer operations; on by default in float64."),
    "exact_order": _option(bool, "Compute the function's values as NumPy does, to the bit."),
    "guards": _option(
        str, f"Branches on values, such as if x > 0: {', '.join(GUARDS)} (compile each case, or refuse)."
    ),
    "most_cases": _option(int, "Maximum number of cases of a function that decides on values.", "N"),
}
#: Options of searches; a graph file determines everything else.
OF_SEARCHES: Final = tuple(name for name in OPTIONS if name in OF_PLANS)
#: Options that select the derivatives.
OF_DERIVATIVES: Final = ("derivative", "argnums", "argnames", "rows", "columns", "entries", "banded")
_DEFAULTS: Final[dict[str, Any]] = {**dict.fromkeys(OF_DERIVATIVES), "derivative": "value_and_jacobian"} | {
    option.name: str(option.default) if isinstance(option.default, str) else option.default
    for option in fields(Options)
}


def with_options(*names: str) -> Callable[[F], F]:
    """Replace the ``**options`` of a command by options of the table, shown in its order."""

    def decorate(command: F) -> F:
        hints = get_type_hints(command, include_extras=True)
        declared = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in inspect.signature(command).parameters.values()
        ][:-1]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[name], annotation=OPTIONS[name])
            for name in OPTIONS
            if name in names
        ]
        parameters = [*declared, *added]
        facts = vars(command)
        facts["__signature__"] = inspect.Signature(parameters)
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def beyond_searches(options: Mapping[str, Any]) -> list[str]:
    """Return the options that differ from their defaults and are not options of searches."""
    beyond = [name for name in OPTIONS if name in options and name not in OF_SEARCHES]
    return [name for name in beyond if options[name] != _DEFAULTS[name]]


# Searches -------------------------------------------------------------------------------------------------------------


#: Environment variable that keeps Python from importing modules from the current directory.
_SAFE_PATH: Final = "PYTHONSAFEPATH"


@contextmanager
def processes(jobs: int) -> Iterator[Executor | None]:
    """Yield a pool of `jobs` processes; None for one job, which runs in this process.

    The processes ignore a terminal's Ctrl-C, which this one handles, and are terminated when the context ends. They do
    not import modules from the current directory, where unrelated files may lie next to a graph.

    Raises:
        ArgumentError: if this process ignores environment variables, so that it cannot protect them.
    """
    if jobs == 1:
        yield None
        return
    if sys.flags.ignore_environment and not sys.flags.safe_path:
        raise ArgumentError(
            f"--jobs {jobs} with python -E: worker processes would import modules from the current directory; add -P, "
            "or use -I"
        )
    existing = set(multiprocessing.active_children())
    # a progress bar has a thread, and processes forked beside a thread may wait for its locks for ever
    context = multiprocessing.get_context("spawn")
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_ignore_interrupts)
    try:
        yield pool
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before
        pool.shutdown(wait=False, cancel_futures=True)
        children = set(multiprocessing.active_children()) - existing
        for process in children:
            process.terminate()
        for process in children:
            process.join()
            while process.is_alive():  # the pool's thread has collected the exit status, but not stored it yet
                process.join(0.001)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# Progress ------------------------------------------------------------------------------------------------------------


#: Maximum time limit, in seconds, of searches that show no bar: longer ones leave the user without a sign, shorter ones
#: make bars flash.
QUICK: Final = 2.0


class Watch:
    """Context in which a search runs.

    Args:
        title: text next to the bar.
        time_limit: limit of the search, in seconds.
        objective: quantity that the search minimises.

    Attributes:
        interrupted: True after Ctrl-C was pressed.
    """

    def __init__(self, title: str, time_limit: float, objective: str) -> None:
        self.interrupted = False
        self._objective = objective
        self._before: Any = None
        self._bar: tuple[Progress, TaskID] | None = None
        console = Console(stderr=True)
        if time_limit > QUICK and console.is_terminal:
            progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[best]}"),
                console=console,
                transient=True,
            )
            self._bar = progress, progress.add_task(printable(title), total=time_limit, best="")

    @property
    def progress(self) -> Callable[[Told], object] | None:
        """Return the function to which the search reports its progress; None if no progress is shown."""
        return None if self._bar is None else self._update

    def __enter__(self) -> Watch:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        if self._bar is not None:
            self._bar[0].start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar[0].stop()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _update(self, report: Told) -> None:
        assert self._bar is not None
        progress, task = self._bar
        best = "" if report.cost is None else f"{amount(report.cost)} {self._objective}"
        progress.update(task, completed=report.seconds, best=best)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        raise KeyboardInterrupt
