"""Compiled Jacobians of SymPy's expressions, or their Jacobians as expressions: `lambdify` and `jacobian`.

`accumulus.jacobian` and the other functions accept a `sympy.Lambda` directly. The functions here follow SymPy's own,
for expressions whose symbols are not yet arguments of a function.

>>> import numpy as np, sympy as sp, accumulus as acc
>>> x, y = sp.symbols("x y")
>>> acc.jacobian(sp.Lambda(((x, y),), sp.Matrix([x * y, sp.sin(x)])))(np.array([0.0, 2.0]))
array([[2., 0.],
       [1., 0.]])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from accumulus.api.jacobians import value_and_jacobian
from accumulus.errors import ArgumentError
from accumulus.frontends.kinds import Spread
from accumulus.frontends.record import record
from accumulus.frontends.sympy.expressions import free_symbols, sympy_expressions, verify_expressions
from accumulus.frontends.sympy.model import NAMES, SYMBOLS, Array, Model, SymbolReferences
from accumulus.frontends.sympy.writing import ExpressionWriter
from accumulus.options import OptionKeywords, Options, refuse_assumptions, refuses, shows_options
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivation import straight_line
from accumulus.programs.kinds import JACOBIAN
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import Selection
from accumulus.tape.tape import Tape

__all__ = ["Lambdified", "jacobian", "lambdify"]


class Lambdified:
    """Expressions and their Jacobian as a compiled function; the result of `lambdify`.

    Attributes:
        derivative: the `accumulus.Derivative` that computes both, a function of two arrays: the symbols to
            differentiate with respect to, and all others. It has the report, the pattern of nonzeros, and the program.
    """

    def __init__(self, model: Model, wrt: Sequence[Any] | None, jacobian: bool, options: OptionKeywords) -> None:
        symbols = [symbol for argument in model.arguments for symbol in argument.entries]
        by = symbols if wrt is None else list(wrt)
        if unknown := [symbol for symbol in by if symbol not in set(symbols)]:
            raise ArgumentError(f"wrt holds {unknown[0]}; expected symbols among the arguments: {model.text}")
        by = by if jacobian else []
        places = {symbol: position for position, symbol in enumerate(symbols)}
        chosen = set(by)
        rest = [symbol for symbol in symbols if symbol not in chosen]
        self._arguments = model.arguments
        self._has_jacobian = jacobian
        self._text = model.text
        self._by = np.array([places[symbol] for symbol in by], np.intp)
        self._rest = np.array([places[symbol] for symbol in rest], np.intp)
        inner: Any = Model([by, rest] if rest else [by], [])
        inner.results = model.results
        self.derivative = value_and_jacobian(inner, 0, **options)
        self.__name__ = "lambdified"
        self.__doc__ = f"{'Value and Jacobian' if jacobian else 'Value'} of SymPy expressions by ({model.text})."

    def __call__(self, *arguments: Any) -> Any:
        """Return the pair (value, Jacobian), or the value alone, for numbers or arrays in place of the arguments."""
        both = self.derivative(*self._packed([np.asarray(argument, float) for argument in arguments], ()))
        return both if self._has_jacobian else both[0]

    def batch(self, *arguments: Any, threads: int | None = None) -> Any:
        """Evaluate at many points: an argument of shape s has shape (points, *s); one without that axis is shared.

        >>> import sympy
        >>> x, y = sympy.symbols("x y")
        >>> lambdify([x, y], [x * y, sympy.sin(x)]).batch([0.0, 2.0], 3.0)[0].tolist()
        [[0.0, 0.0], [6.0, 0.9092974268256816]]
        """
        arrays = [np.asarray(argument, float) for argument in arguments]
        has_points = [array.ndim > argument.ndim for array, argument in zip(arrays, self._arguments, strict=False)]
        points = next((array.shape[:1] for array, has in zip(arrays, has_points, strict=False) if has), (1,))
        broadcast = [
            array if has else np.broadcast_to(array, (*points, *array.shape))
            for array, has in zip(arrays, has_points, strict=False)
        ]
        packed = self._packed(broadcast + arrays[len(has_points) :], points)
        both = self.derivative.batch(*packed, in_axes=(0,) * len(packed), threads=threads)
        return both if self._has_jacobian else both[0]

    def _packed(self, arrays: Sequence[NDArray[Any]], points: tuple[int, ...]) -> list[NDArray[np.float64]]:
        """Return the arguments of the derivative, after checking their shapes."""
        if len(arrays) != len(self._arguments):
            raise ArgumentError(f"{len(arrays)} arguments were given; expected {len(self._arguments)}: {self._text}")
        for position, (array, argument) in enumerate(zip(arrays, self._arguments, strict=True)):
            if array.shape[: len(points)] != points or not argument.takes(array.shape[len(points) :]):
                raise ArgumentError(
                    f"argument {position} has shape {array.shape}; expected {len(argument.entries)} entries"
                    f"{' at each point' if points else ''}, for {argument.text}"
                )
        flat = np.concatenate([np.empty((*points, 0)), *(array.reshape(*points, -1) for array in arrays)], axis=-1)
        by, rest = flat[..., self._by], flat[..., self._rest]
        return [by, rest] if len(self._rest) else [by]

    @property
    def operations(self) -> int:
        """Number of operations of the last compiled program."""
        return self.derivative.operations

    def __repr__(self) -> str:
        return f"<{self.__name__} of ({self._text})>"


@refuses("assume")
@shows_options
def lambdify(
    args: Any, exprs: Any, *, jacobian: bool = True, wrt: Any = None, **options: Unpack[OptionKeywords]
) -> Lambdified:
    """Return a compiled function that returns the values of SymPy expressions together with their Jacobian.

    Args:
        args: arguments as for `sympy.lambdify`: a symbol, or a list of symbols, lists and matrices of symbols. Symbols
            may be functions of time and their derivatives (``dynamicsymbols``), or a `sympy.MatrixSymbol`. Each list of
            n symbols is one array of shape (n,).
        exprs: an expression, a matrix, or lists, tuples and dicts of these. A list of expressions is one array, and so
            is a matrix; a matrix of one column is a vector of shape (n,).
        jacobian: if True, the function returns the Jacobian, too.
        wrt: symbol, or list or matrix of symbols, of any shape, to differentiate with respect to; by default all of
            `args`, in their order.
        options: options of `accumulus.jacobian`.

    Returns:
        A function of `args`. It returns the pair (value, Jacobian). The value has the structure of `exprs`. Each of its
        arrays has a Jacobian of shape (shape of the array, number of symbols), equal to ``Matrix.jacobian(wrt)``. The
        method `batch` takes an additional leading axis of points.

    Raises:
        ArgumentError: for an object that is not a symbol, or not an expression.
        TraceError: at the first call, for an expression that cannot be recorded; the message names the symbol or the
            class.

    >>> import sympy as sp, accumulus as acc
    >>> x, y, k = sp.symbols("x y k")
    >>> f = acc.sympy.lambdify([[x, y], k], [k * x * y, sp.sin(x)], wrt=[x, y])
    >>> value, J = f([0.0, 2.0], 3.0)
    >>> J
    array([[6., 0.],
           [1., 0.]])
    >>> f.batch([[0.0, 2.0], [0.0, 1.0]], 3.0)[1].shape
    (2, 2, 2)
    """
    refuse_assumptions(options, "expressions", "whose symbols are the entries of other arguments")
    by = None if wrt is None else _symbols(wrt)
    return Lambdified(Model(args, exprs), by, jacobian, options)


@refuses("assume")
@shows_options
def jacobian(
    exprs: Any, wrt: Any, *, symbols: Iterator[Any] | None = None, **options: Unpack[OptionKeywords]
) -> tuple[list[tuple[Any, Any]], Any]:
    """Return the Jacobian of SymPy expressions as expressions, with names for common subexpressions.

    The Jacobian is planned, rewritten to few operations, and converted back to expressions instead of being compiled.
    SymPy's equivalent is ``cse(Matrix(exprs).jacobian(wrt))``.

    Args:
        exprs: an expression, a list of n of them, or a matrix of shape (n, 1) or (1, n).
        wrt: symbol, or list or matrix of symbols, of any shape, to differentiate with respect to.
        symbols: names for intermediate results; by default x0, x1, …, except names that are in use.
        options: options of `accumulus.jacobian` that determine the program: effort, time_limit, seed, method,
            objective.

    Returns:
        The pair (replacements, matrix), in the form of `sympy.cse`: a list of pairs (symbol, expression), each in terms
        of the symbols before it; and the Jacobian in terms of these, of shape (expressions, symbols).

    Raises:
        ArgumentError, TraceError: as `lambdify` does.
        VerificationError: if the expressions do not compute the same values as the program.

    >>> import sympy as sp, accumulus as acc
    >>> x, y = sp.symbols("x y")
    >>> acc.sympy.jacobian([sp.exp(x * y), x * y], [x, y])
    ([(x0, exp(x*y))], Matrix([
    [x0*y, x*x0],
    [   y,    x]]))
    """
    by = _symbols(wrt)
    results = Model([by], exprs).results
    entries = results.entries if isinstance(results, Array) else (results,)
    if any(isinstance(entry, dict | list | tuple) for entry in (results, *entries)):
        raise ArgumentError("the expressions are nested; expected one expression, a list of them, or a column or row")
    parameters = [symbol for symbol in free_symbols(entries) if symbol not in set(by)]
    model: Any = Model([by, parameters], list(entries))
    chosen = Options.of(**{**options, "target": "numpy", "sparse": "coo"})
    refuse_assumptions(options, "expressions", "whose symbols are the entries of other arguments")
    point = [Spread().uniform(0.5, 1.0, (len(some),)) for some in (by, parameters)]
    with Preparation("expressions", chosen) as preparation:
        with preparation.stage("trace"):
            recording = record(model, point, check=chosen.check)
        program = CompiledProgram.of(straight_line(recording, JACOBIAN, Selection.of(0), preparation), preparation)
    tape = program.tape.copy()
    (segment,) = program.kernel.segments
    tape.outputs = [program.tape.outputs[output] for output, _ in segment.pairs()]
    taken = {str(symbol) for symbol in (*by, *parameters)}
    names = symbols if symbols is not None else (symbol for symbol in sp.numbered_symbols() if str(symbol) not in taken)
    writer = ExpressionWriter(
        Tape(len(by) + len(parameters)),
        SymbolReferences(model, np.split(np.arange(len(by) + len(parameters)), [len(by)])),
    )
    writer.references(entries)
    replacements, nonzeros = sympy_expressions(tape, [*by, *parameters], iter(names), writer.numbers)
    verify_expressions(tape, [*by, *parameters], replacements, nonzeros)
    matrix = sp.zeros(len(entries), len(by))
    for row, column, nonzero in zip(program.pattern.rows, program.pattern.columns, nonzeros, strict=True):
        matrix[int(row), int(column)] = nonzero
    return replacements, matrix


def _symbols(wrt: Any) -> list[Any]:
    """Return a symbol, or several, as a list of single symbols."""
    arguments = wrt if isinstance(wrt, SYMBOLS + NAMES) else list(wrt)
    return [symbol for argument in Model(arguments, []).arguments for symbol in argument.entries]
