"""Arguments and options common to all functions of this package, and the `Derivative` made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict, TypeVar

from accumulus.errors import ArgumentError
from accumulus.frontends.location import name_of
from accumulus.options import OptionKeywords, Options, with_parameters
from accumulus.programs.derivative import Derivative
from accumulus.programs.forms import Forms
from accumulus.programs.kinds import DerivativeKind
from accumulus.programs.selection import SelectionRequest

F = TypeVar("F", bound=Callable[..., Any])

#: Defaults of the options that select arguments, other than `argnums`.
ARGUMENTS: Final[dict[str, Any]] = {"argnames": None, "static_argnums": (), "static_argnames": ()}
#: Defaults of the options for the manifolds of arguments and results.
MANIFOLDS: Final[dict[str, Any]] = {"on": None, "into": None}
#: Defaults of the options that select rows, columns or entries of a derivative.
CHOICE: Final[dict[str, Any]] = {"rows": None, "columns": None, "entries": None, "banded": None}


class ManifoldOptions(OptionKeywords, total=False):
    """Options and manifolds."""

    on: Any
    into: Any


class DerivativeOptions(ManifoldOptions, total=False):
    """Options, manifolds, and the selection of arguments other than `argnums`."""

    argnames: str | Sequence[str] | None
    static_argnums: int | Sequence[int]
    static_argnames: str | Sequence[str]


class Choice(TypedDict, total=False):
    """Selection of rows, columns, entries or a band of a matrix of derivatives."""

    rows: Any
    columns: Any
    entries: Any
    banded: tuple[int, int] | None


class MatrixOptions(DerivativeOptions, Choice, total=False):
    """Options and selections of arguments and entries, for derivatives that are matrices."""


class SelectionOptions(OptionKeywords, Choice, total=False):
    """Options, and the selection of rows, columns or entries."""


def shows_arguments(function: F) -> F:
    """Show options, arguments and manifolds in the signature of a function of ``**options``."""
    return with_parameters(function, ARGUMENTS | MANIFOLDS)


def shows_arguments_and_choice(function: F) -> F:
    """Show options, arguments, manifolds and selections in the signature of a function."""
    return with_parameters(function, ARGUMENTS | MANIFOLDS | CHOICE)


def shows_manifolds(function: F) -> F:
    """Show options and manifolds in the signature of a function."""
    return with_parameters(function, MANIFOLDS)


def shows_choice(function: F) -> F:
    """Show options and selections in the signature of a function."""
    return with_parameters(function, CHOICE)


def derivative(
    f: Callable[..., Any],
    kind: DerivativeKind,
    argnums: int | Sequence[int] | None,
    keywords: DerivativeOptions | MatrixOptions,
) -> Derivative:
    """Return a derivative of `f` with respect to the arguments at `argnums` and those named in the options.

    Raises:
        ArgumentError, UnknownNameError: for an unknown argument or option, or an invalid value.
    """
    options = dict[str, Any](keywords)
    named = [options.pop(name, default) for name, default in ARGUMENTS.items()]
    on, into = manifolds_in(options)
    settled = options_and_choice(kind, options, [*ARGUMENTS, *MANIFOLDS])
    if on is not None or into is not None:
        from accumulus.api.tangents import tangent_derivative  # not needed by every process

        return tangent_derivative(f, kind, argnums, named, *settled, on, into)
    return Derivative(f, kind, Forms(f, name_of(f), argnums, *named), *settled)


def manifolds_in(options: dict[str, Any]) -> list[Any]:
    """Remove the manifolds of arguments and results from the options and return them."""
    return [options.pop(name, default) for name, default in MANIFOLDS.items()]


def options_and_choice(
    kind: DerivativeKind, keywords: Mapping[str, Any], beside: Iterable[str] = ()
) -> tuple[Options, SelectionRequest | None]:
    """Return options and the selection of a matrix, None for all; `beside` holds further names that the caller accepts.

    Raises:
        ArgumentError, UnknownNameError: for an unknown option, or an invalid value.
    """
    taken = CHOICE if kind.is_matrix else {}
    options = Options.of([*beside, *taken], **{name: value for name, value in keywords.items() if name not in taken})
    choice = {name: keywords.get(name) for name in CHOICE}
    if all(value is None for value in choice.values()):
        return options, None
    return options, SelectionRequest(**choice, sparse=options.sparse is not None)


def dense(kind: DerivativeKind, keywords: Mapping[str, Any], beside: Iterable[str] = ()) -> Options:
    """Return the options of a kind with dense results; `beside` holds further names that the caller accepts."""
    options = Options.of(beside, **keywords)
    if options.sparse is not None:
        raise ArgumentError(
            f"sparse is {keywords['sparse']!r} for {kind.name}, whose results are arrays; leave sparse out"
        )
    return options
