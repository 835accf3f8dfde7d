"""The options of the command line: one table, from which commands take those that they have.

A row is how the command line says an option of `accumulus.options.Options`, or of the functions that make derivatives;
its default is that of the API.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Annotated, Any, Final, TypeVar, get_type_hints

import typer

from accumulus.options import EFFORTS, FORMATS, GUARDS, OF_PLANS, Options
from accumulus.targets import DTYPES

__all__ = ["OF_DERIVATIVES", "OF_SEARCHES", "OPTIONS", "beyond_searches", "with_options"]

F = TypeVar("F", bound=Callable[..., Any])


def _flag(text: str) -> Any:
    return Annotated[bool, typer.Option(help=text)]


def _positions(what: str) -> Any:
    text = f"Position of a {what} of the derivative that is wanted, if not all are; once for each."
    return Annotated[list[int] | None, typer.Option(metavar="N", help=text, show_default=False)]


#: By name: type and help. Executors and callbacks are no text, and targets are each command's own.
OPTIONS: Final[dict[str, Any]] = {
    "derivative": Annotated[
        str, typer.Option(metavar="KIND", help="Of a function: the function of accumulus that makes it.")
    ],
    "argnums": Annotated[
        list[int] | None,
        typer.Option(
            metavar="N",
            help="Position of an argument to differentiate by, the first is 0; once for each.",
            show_default=False,
        ),
    ],
    "argnames": Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Name of such an argument; once for each.", show_default=False),
    ],
    "rows": _positions("row"),
    "columns": _positions("column"),
    "entries": Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROW,COLUMN",
            help="Positions of an entry of the derivative that is wanted, if not all are; once for each.",
            show_default=False,
        ),
    ],
    "banded": Annotated[
        tuple[int, int] | None,
        typer.Option(metavar="BELOW ABOVE", help="Diagonals of a banded matrix.", show_default=False),
    ],
    "method": Annotated[str, typer.Option(help="How to search; 'accumulus methods' lists all.")],
    "objective": Annotated[str, typer.Option(help="What to minimise: operations, multiplications, fma.")],
    "time_limit": Annotated[float, typer.Option(metavar="SECONDS", help="A search stops at the latest after so long.")],
    "effort": Annotated[str, typer.Option(help=f"When a search that no longer improves stops: {', '.join(EFFORTS)}.")],
    "seed": Annotated[int, typer.Option(help="Of the search. Same seed, same plan.")],
    "iterations": Annotated[int | None, typer.Option(metavar="N", help="Of the search, at most.", show_default=False)],
    "cache": _flag("Whether plans and programs are taken from the cache, and stored there."),
    "sparse": Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help=f"Only the nonzeros: {', '.join(FORMATS)}.", show_default=False),
    ],
    "dtype": Annotated[str, typer.Option(help=f"Of arguments and results: {', '.join(DTYPES)}.")],
    "threads": Annotated[int, typer.Option(metavar="N", help="Threads that share the points of a batch.")],
    "check_finite": _flag("Refuse NaN and infinity."),
    "check": _flag("Compare the recording with the function on numbers."),
    "optimise": Annotated[
        bool | None,
        typer.Option(help="Rewrite the program to fewer operations; by default in float64.", show_default=False),
    ],
    "exact_order": _flag("Leave the arithmetic of the function itself as it is written."),
    "guards": Annotated[str, typer.Option(help=f"Decisions on values: {', '.join(GUARDS)}.")],
    "most_cases": Annotated[int, typer.Option(metavar="N", help="Programs for arguments of one shape, at most.")],
}
#: Those that say what is planned, and how: what a graph file has is there already.
OF_SEARCHES: Final = tuple(name for name in OPTIONS if name in OF_PLANS)
#: Those that say which derivatives are wanted.
OF_DERIVATIVES: Final = ("derivative", "argnums", "argnames", "rows", "columns", "entries", "banded")
_DEFAULTS: Final[dict[str, Any]] = {**dict.fromkeys(OF_DERIVATIVES), "derivative": "value_and_jacobian"} | {
    option.name: str(option.default) if isinstance(option.default, str) else option.default
    for option in fields(Options)
}


def with_options(*names: str) -> Callable[[F], F]:
    """Let the ``**options`` of a command be options of the table, in whose order they are shown."""

    def decorate(command: F) -> F:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name])
            for parameter in inspect.signature(command).parameters.values()
        ][:-1]
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[name], annotation=OPTIONS[name])
            for name in OPTIONS
            if name in names
        ]
        parameters = [*own, *added]
        facts = vars(command)
        facts["__signature__"] = inspect.Signature(parameters)
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def beyond_searches(options: Mapping[str, Any]) -> list[str]:
    """The options that were given, of those that no search takes."""
    beyond = [name for name in OPTIONS if name in options and name not in OF_SEARCHES]
    return [name for name in beyond if options[name] != _DEFAULTS[name]]
