"""SymPy's expressions in, compiled Jacobians or expressions out: `accumulus.sympy.lambdify` and `jacobian`.

`accumulus.jacobian` and the rest take a `sympy.Lambda` as it is. Here are functions in the manner of SymPy's own, for
symbols that are not functions' arguments yet.

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
from accumulus.frontends.sympy.expressions import expressions, free_symbols, verify_expressions
from accumulus.frontends.sympy.model import NAMES, SYMBOLS, Array, Model, Places
from accumulus.frontends.sympy.writing import Writer
from accumulus.options import Given, Options, shows_options
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivation import straight_line
from accumulus.programs.kinds import JACOBIAN
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import Selection
from accumulus.tape.tape import Tape

__all__ = ["Lambdified", "jacobian", "lambdify"]


class Lambdified:
    """Expressions, and their Jacobian, as a compiled function; the result of `lambdify`.

    Attributes:
        derivative: what computes it, an `accumulus.Derivative` of two arrays: the symbols to differentiate by, and all
            others. It has the report, the pattern of nonzeros, and the program.
    """

    def __init__(self, model: Model, wrt: Sequence[Any] | None, jacobian: bool, options: Given) -> None:
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
        self._others = np.array([places[symbol] for symbol in rest], np.intp)
        inner: Any = Model([by, rest] if rest else [by], [])
        inner.results = model.results
        self.derivative = value_and_jacobian(inner, 0, **options)
        self.__name__ = "lambdified"
        self.__doc__ = f"{'Value and Jacobian' if jacobian else 'Value'} of SymPy expressions by ({model.text})."

    def __call__(self, *arguments: Any) -> Any:
        """Return the pair (value, Jacobian), or the value alone, for a number or an array for each argument."""
        both = self.derivative(*self._packed([np.asarray(argument, float) for argument in arguments], ()))
        return both if self._has_jacobian else both[0]

    def batch(self, *arguments: Any, threads: int | None = None) -> Any:
        """Evaluate at many points, the first axis of each argument; an argument without it is the same for all."""
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
        """Return the arguments of the derivative."""
        if len(arrays) != len(self._arguments):
            raise ArgumentError(f"{len(arrays)} arguments are given; expected {len(self._arguments)}: {self._text}")
        for position, (array, argument) in enumerate(zip(arrays, self._arguments, strict=True)):
            if array.shape[: len(points)] != points or not argument.takes(array.shape[len(points) :]):
                raise ArgumentError(
                    f"argument {position} has shape {array.shape}; expected {len(argument.entries)} entries"
                    f"{' at each point' if points else ''}, for {argument.text}"
                )
        flat = np.concatenate([np.empty((*points, 0)), *(array.reshape(*points, -1) for array in arrays)], axis=-1)
        by, rest = flat[..., self._by], flat[..., self._others]
        return [by, rest] if len(self._others) else [by]

    @property
    def operations(self) -> int:
        """Operations of the program that was compiled last."""
        return self.derivative.operations

    def __repr__(self) -> str:
        return f"<{self.__name__} of ({self._text})>"


@shows_options
def lambdify(
    args: Any,
    exprs: Any,
    *,
    jacobian: bool = True,
    wrt: Any = None,
    **options: Unpack[Given],
) -> Lambdified:
    """Return a compiled function that returns the values of SymPy expressions together with their Jacobian.

    Args:
        args: as `sympy.lambdify` takes them: a symbol, or a list of symbols, and of lists and matrices of symbols.
            Symbols may be functions of time and their derivatives (``dynamicsymbols``), and a `sympy.MatrixSymbol`.
            Each list is one array.
        exprs: an expression, a matrix, or lists, tuples and dicts of these. A list of expressions is one array, and so
            is a matrix; one column is a vector, of shape (n,).
        jacobian: True if the Jacobian is returned, too.
        wrt: the symbols to differentiate by, or one of them; by default all of `args`, in their order.
        options: those of `accumulus.jacobian`.

    Returns:
        A function of `args`. It returns the pair (value, Jacobian): the value in the structure of `exprs`, and for each
        of its arrays one of shape (shape of the value, number of symbols), what ``Matrix.jacobian(wrt)`` is. Its method
        `batch` takes one more axis of points in front.

    Raises:
        ArgumentError: for an object that is no symbol, or no expression.
        TraceError: at the first call, for what cannot be recorded; it names the symbol or the class.

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
    by = None if wrt is None else _symbols(wrt)
    return Lambdified(Model(args, exprs), by, jacobian, options)


@shows_options
def jacobian(
    exprs: Any, wrt: Any, *, symbols: Iterator[Any] | None = None, **options: Unpack[Given]
) -> tuple[list[tuple[Any, Any]], Any]:
    """Return the Jacobian of SymPy expressions as expressions, with names for common subexpressions.

    It is what is compiled otherwise: planned, rewritten to few operations, and written back. SymPy's means for the same
    are ``cse(Matrix(exprs).jacobian(wrt))``.

    Args:
        exprs: an expression, a list of them, or a column or row.
        wrt: the symbols to differentiate by, or one of them.
        symbols: names for intermediate results; by default x0, x1, …, without those that are there.
        options: those of `accumulus.jacobian` that find the program: effort, time_limit, seed, method, objective.

    Returns:
        The pair (replacements, matrix) as `sympy.cse` gives it: a list of (symbol, expression), each of what comes
        before; and the Jacobian, of shape (expressions, symbols), by these.

    Raises:
        ArgumentError, TraceError: as `lambdify` does.
        VerificationError: if the expressions do not compute what the program does.

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
    point = [Spread().uniform(0.5, 1.0, (len(some),)) for some in (by, parameters)]
    with Preparation("expressions", chosen) as preparation:
        with preparation.stage("trace"):
            recording = record(model, point, check=chosen.check)
        program = CompiledProgram.of(straight_line(recording, JACOBIAN, Selection.of(0), preparation), preparation)
    tape = program.tape.copy()
    (segment,) = program.kernel.segments
    tape.outputs = [program.tape.outputs[k] for k in segment.outputs]
    taken = {str(symbol) for symbol in (*by, *parameters)}
    names = symbols if symbols is not None else (symbol for symbol in sp.numbered_symbols() if str(symbol) not in taken)
    writer = Writer(
        Tape(len(by) + len(parameters)), Places(model, np.split(np.arange(len(by) + len(parameters)), [len(by)]))
    )
    writer.references(entries)
    replacements, nonzeros = expressions(tape, [*by, *parameters], iter(names), writer.numbers)
    verify_expressions(tape, [*by, *parameters], replacements, nonzeros)
    matrix = sp.zeros(len(entries), len(by))
    for row, column, nonzero in zip(program.pattern.rows, program.pattern.columns, nonzeros, strict=True):
        matrix[int(row), int(column)] = nonzero
    return replacements, matrix


def _symbols(wrt: Any) -> list[Any]:
    """Return one symbol, or some, one by one."""
    arguments = wrt if isinstance(wrt, SYMBOLS + NAMES) else list(wrt)
    return [symbol for argument in Model(arguments, []).arguments for symbol in argument.entries]
