"""Results and arguments of a recording in SymPy, and the references of their symbols."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from sympy.core.function import AppliedUndef
from sympy.matrices.expressions.matexpr import MatrixElement
from sympy.tensor.array import NDimArray

from accumulus.errors import ArgumentError
from accumulus.frontends.active import refuse
from accumulus.tape.operations import BY_NAME, Operation

#: Types of objects that stand for one number: symbols, functions of time, derivatives, and entries of symbolic arrays.
SYMBOLS: Final = (sp.Symbol, AppliedUndef, sp.Derivative, MatrixElement, sp.Indexed)

#: Types of symbolic arrays that consist of a name.
NAMES: Final = (sp.MatrixSymbol, sp.IndexedBase)


@dataclass(frozen=True, slots=True)
class Array:
    """A matrix, or a flat list, of results: its entries in C order, and the shape in which they are returned."""

    shape: tuple[int, ...]
    entries: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument: a symbol, an array of them, or the name of an array."""

    symbols: tuple[Any, ...]  # in C order; only the object itself for a `sympy.MatrixSymbol` or `sympy.IndexedBase`
    shape: tuple[int, ...] | None  # of the array; None for any shape with as many entries

    @property
    def text(self) -> str:
        """Text of the argument, shortened."""
        shown = ", ".join(map(str, self.symbols[:8])) + (", …" if len(self.symbols) > 8 else "")
        return shown if self.shape is not None or self.is_name else f"[{shown}]"

    @property
    def is_name(self) -> bool:
        """True for the name of an array, whose entries are written ``A[i, j]``."""
        return len(self.symbols) == 1 and isinstance(self.symbols[0], NAMES)

    @property
    def entries(self) -> tuple[Any, ...]:
        """All symbols, including the entries of a `sympy.MatrixSymbol`.

        Raises:
            ArgumentError: for the name of an array of unknown size.
        """
        if not self.is_name:
            return self.symbols
        if self.shape is None:
            raise ArgumentError(
                f"{self.text} is an array of any size; expected one of known size: a MatrixSymbol, or a list of entries"
            )
        return tuple(self.symbols[0][index] for index in np.ndindex(*self.shape))

    @property
    def ndim(self) -> int:
        """Minimum number of axes of an array that is passed for this argument."""
        return 1 if self.shape is None else len(self.shape)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return True if an array of this shape may be passed."""
        return self.shape == shape if self.shape is not None else self.is_name or math.prod(shape) == len(self.symbols)

    @classmethod
    def of(cls, argument: Any, position: int) -> Argument:
        """Convert an argument in the form of `sympy.lambdify`: a symbol, a matrix, or nested lists of symbols.

        Raises:
            ArgumentError: for anything else.
        """
        if isinstance(argument, sp.MatrixSymbol):
            sizes = argument.shape
            return cls((argument,), tuple(map(int, sizes)) if all(size.is_Integer for size in sizes) else None)
        if isinstance(argument, sp.IndexedBase):
            return cls((argument,), None)
        if isinstance(argument, SYMBOLS):
            return cls((argument,), ())
        symbols: list[Any] = []
        if isinstance(argument, sp.MatrixBase | NDimArray | list | tuple | sp.Tuple):
            _symbols_in(argument, symbols)
        wrong = [symbol for symbol in symbols if not isinstance(symbol, SYMBOLS)]
        if wrong or (not symbols and not isinstance(argument, list | tuple | sp.Tuple)):
            offender = wrong[0] if wrong else argument
            raise ArgumentError(
                f"argument {position} holds {offender!s:.100} ({type(offender).__name__}); expected symbols, or lists, "
                "tuples and matrices of symbols. A number or an expression cannot be an argument: give it a symbol"
            )
        return cls(tuple(symbols), None)


def _symbols_in(items: Any, symbols: list[Any]) -> None:
    for item in items.flat() if isinstance(items, sp.MatrixBase) else items:
        if isinstance(item, sp.MatrixBase | NDimArray | list | tuple | sp.Tuple):
            _symbols_in(item, symbols)
        else:
            symbols.append(item)


class Model:
    """SymPy expressions as a function of their symbols.

    A symbol stands for a number; a list or a matrix of symbols stands for an array. The result is a number for an
    expression; an array for a matrix, and for a list or tuple of expressions; or lists, tuples and dicts of these. A
    matrix with one column is a vector of shape (n,).

    Args:
        arguments: symbol, list or matrix of symbols, or a list or tuple of these, nested as in ``sympy.lambdify``.
        results: expressions, matrices, or lists, tuples and dicts of those.

    Raises:
        ArgumentError: for an argument that is not a symbol, or occurs twice; for a result that is not an expression.

    >>> from sympy.abc import x, y
    >>> Model([x, [y]], x * y)
    Model([x, [y]], 1 expression)
    """

    def __init__(self, arguments: Any, results: Any) -> None:
        several = isinstance(arguments, Sequence | sp.Tuple) and not isinstance(arguments, str)
        argument_list: Iterable[Any] = arguments if several else (arguments,)
        self.arguments = tuple(Argument.of(argument, k) for k, argument in enumerate(argument_list))
        symbols = [symbol for argument in self.arguments for symbol in argument.symbols]
        if len(set(symbols)) < len(symbols):
            twice = next(symbol for k, symbol in enumerate(symbols) if symbol in symbols[:k])
            raise ArgumentError(f"{twice} appears twice among the arguments; expected every symbol once")
        #: Structure of the results, with expressions and `Array`s as leaves.
        self.results = _structured(results)
        self.__name__ = "expressions"
        self.__doc__ = "SymPy expressions."

    def map(self, of_each: Callable[[Sequence[Any]], Any]) -> Any:
        """Apply `of_each` to the entries of each leaf, and return the values in the structure of the results."""
        return _mapped(self.results, of_each)

    @property
    def text(self) -> str:
        """Text of the arguments, shortened."""
        shown = [argument.text for argument in self.arguments]
        return ", ".join(shown if len(shown) <= 12 else [*shown[:12], "…"])

    def __repr__(self) -> str:
        counts: list[int] = []

        def count(entries: Sequence[Any]) -> list[float]:
            counts.append(len(entries))
            return [0.0] * len(entries)

        self.map(count)
        return f"Model([{self.text}], {sum(counts)} expression{'s' * (sum(counts) != 1)})"


def _structured(results: Any) -> Any:
    if isinstance(results, dict):
        return {key: _structured(item) for key, item in results.items()}
    if isinstance(results, sp.MatrixExpr) and not isinstance(results, sp.ImmutableMatrix | sp.ImmutableSparseMatrix):
        try:
            results = results.as_explicit()
        except ValueError as error:
            raise ArgumentError(f"{results} has no size in numbers: {error}; expected a matrix that has one") from None
    if isinstance(results, sp.MatrixBase):
        shape = results.shape if results.shape[1] != 1 else results.shape[:1]
        return Array(tuple(map(int, shape)), tuple(results.flat()))
    if isinstance(results, NDimArray):
        return Array(tuple(map(int, results.shape)), tuple(map(_expression, _flat(results))))
    if isinstance(results, np.ndarray):
        return Array(results.shape, tuple(map(_expression, results.ravel().tolist())))
    if isinstance(results, list | tuple | sp.Tuple):
        if results and not any(map(_is_container, results)):
            return Array((len(results),), tuple(map(_expression, results)))
        parts = [_structured(item) for item in results]
        return (
            type(results)(*parts) if hasattr(results, "_fields") else parts if type(results) is list else tuple(parts)
        )
    return _expression(results)


def _flat(array: Any) -> Any:
    return array.reshape(len(array)) if array.rank() else [array[()]]


def _is_container(item: Any) -> bool:
    return isinstance(item, dict | list | tuple | sp.Tuple | sp.MatrixBase | sp.MatrixExpr | NDimArray | np.ndarray)


def _expression(item: Any) -> Any:
    try:
        expression = sp.sympify(item, strict=True)
    except sp.SympifyError:
        expression = None
    if not isinstance(expression, sp.Expr | sp.logic.boolalg.Boolean):
        raise ArgumentError(
            f"a result is {item!s:.100} ({type(item).__name__}); expected a SymPy expression, a matrix, or lists, "
            "tuples and dicts of those"
        )
    return expression


def _mapped(results: Any, of_each: Callable[[Sequence[Any]], Any]) -> Any:
    if isinstance(results, Array):
        return np.reshape(of_each(results.entries), results.shape)
    if isinstance(results, dict):
        return {key: _mapped(item, of_each) for key, item in results.items()}
    if isinstance(results, list | tuple):
        parts = [_mapped(item, of_each) for item in results]
        return type(results)(*parts) if hasattr(results, "_fields") else type(results)(parts)
    return np.reshape(of_each((results,)), ())[()]


def named_row(node: Any) -> Operation | None:
    """Return the table row that an undefined function names, if the number of arguments fits; else None.

    >>> named_row(sp.Function("erfcx")(sp.Symbol("x"))).name
    'erfcx'
    """
    if not isinstance(node, AppliedUndef) or hasattr(node, "_imp_"):
        return None
    row = BY_NAME.get(node.func.__name__)
    return row if row is not None and row.arity == len(node.args) else None


class SymbolReferences:
    """Lookup of the references, or numbers, of a model's symbols.

    Args:
        model: model with the arguments.
        arrays: references, or numbers, of the entries of each argument.

    Raises:
        ArgumentError: for a wrong number of arguments, or an argument of a wrong shape.
    """

    def __init__(self, model: Model, arrays: Sequence[NDArray[Any]]) -> None:
        if len(arrays) != len(model.arguments):
            raise ArgumentError(f"{len(arrays)} arguments are given; expected {len(model.arguments)}: {model.text}")
        self.text = model.text
        self._of_symbol: dict[Any, Any] = {}
        self._of_name: dict[Any, NDArray[Any]] = {}
        for position, (argument, array) in enumerate(zip(model.arguments, arrays, strict=True)):
            if not argument.takes(array.shape):
                expected = (
                    f"shape {argument.shape}" if argument.shape is not None else f"{len(argument.symbols)} entries"
                )
                raise ArgumentError(
                    f"argument {position} has shape {array.shape}; expected {expected}, for {argument.text}"
                )
            if argument.is_name:
                self._of_name[argument.symbols[0]] = array
            else:
                self._of_symbol.update(zip(argument.symbols, array.ravel().tolist(), strict=True))

    def add(self, symbol: Any, reference: Any) -> None:
        """Add a symbol with its reference."""
        self._of_symbol[symbol] = reference

    def of(self, node: Any) -> Any:
        """Return the reference of a symbol or of an array's entry; None if it is not an argument.

        Raises:
            TraceError: for an entry outside of an array.
        """
        reference = self._of_symbol.get(node)
        if reference is not None or not self._of_name or not isinstance(node, sp.Indexed | MatrixElement):
            return reference
        base = node.base if isinstance(node, sp.Indexed) else node.parent
        array, index = self._of_name.get(base), node.indices
        if array is None:
            return None
        if len(index) != array.ndim or not all(
            i.is_Integer and -size <= i < size for i, size in zip(index, array.shape, strict=True)
        ):
            raise refuse(
                f"{node} is not an entry of {base}, which is given as an array of shape {array.shape}; expected whole "
                "numbers as indices."
            )
        return array[tuple(map(int, index))].item()
