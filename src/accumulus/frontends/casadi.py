"""Front end for CasADi: translates a `casadi.Function` instruction by instruction into scalar operations.

Functions of MX are expanded to scalar operations first; repetition in long programs is detected later on the tape.
CasADi stores matrices column by column and only their structural nonzeros. Here arguments and results are dense arrays:
other entries of arguments are ignored, and other entries of results are 0. A column is a vector of shape (n,), and a
1×1 matrix is a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.active import refuse
from accumulus.frontends.calls import as_called
from accumulus.frontends.numpy.scalars import as_real, as_truth, by_formula
from accumulus.frontends.recorder import Inputs, Recorder, References
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.tape import Tape

#: CasADi's operation codes → names in the tape's table of operations. Some of CasADi's names are C's, as OP_FABS.
#: CasADi's own erfinv has only nine digits.
_ROWS: Final = {
    getattr(ca, operation): row.name
    for row in OPERATIONS
    if row.arity and not row.special
    for operation in (f"OP_{row.short.upper()}", f"OP_F{row.short.upper()}")
    if hasattr(ca, operation)
}
#: CasADi's operation codes → formulas, for operations that the table lacks.
_FORMULAS: Final[dict[int, Callable[..., Any]]] = {
    ca.OP_POW: lambda x, y: x**y,
    ca.OP_CONSTPOW: lambda x, y: x**y,
    ca.OP_SQ: lambda x: x * x,
    ca.OP_TWICE: lambda x: 2.0 * x,
    ca.OP_INV: lambda x: 1.0 / x,
    ca.OP_COPYSIGN: np.copysign,
    ca.OP_REMAINDER: lambda x, y: x - y * np.rint(x / y),
}
#: Operations that return their first argument.
_SAME: Final = (ca.OP_ASSIGN, ca.OP_LIFT, ca.OP_PRINTME)
_NAMES: Final = {getattr(ca, name): name for name in dir(ca) if name.startswith("OP_")}


def shape_of_matrix(sparsity: Any) -> tuple[int, ...]:
    """Return the shape of the array that stands for a matrix.

    >>> [shape_of_matrix(ca.Sparsity.dense(*size)) for size in [(1, 1), (3, 1), (1, 3), (2, 3)]]
    [(), (3,), (1, 3), (2, 3)]
    """
    rows, columns = sparsity.shape
    return (() if rows == 1 else (rows,)) if columns == 1 else (rows, columns)


def nonzero_positions(sparsity: Any) -> NDArray[np.intp]:
    """Return the flat position, in C order, of each structural nonzero in the dense array."""
    rows, columns = sparsity.get_triplet()
    places: NDArray[np.intp] = np.array(rows, np.intp) * sparsity.shape[1] + np.array(columns, np.intp)
    return places


class _Functions(Recorder):
    """Recorder for `casadi.Function` objects."""

    def takes(self, function: object) -> bool:
        return isinstance(function, ca.Function)

    def run(self, function: Any, tape: Tape, arguments: Sequence[Any], inputs: Inputs) -> Any:
        function, arguments, inputs = as_called(function, arguments, inputs)
        scalars = _expanded(function)
        entries = [
            np.array([tape.constant(float(x)) for x in np.ravel(argument)])
            if references is None
            else references.ravel()
            for argument, references in zip(arguments, inputs, strict=True)
        ]
        _check(function, [np.shape(argument) for argument in arguments])
        results = [np.full(math.prod(scalars.size_out(k)), tape.constant(0.0)) for k in range(scalars.n_out())]
        _write(scalars, tape, entries, results)
        return _shaped(scalars, results)

    def references(self, tape: Tape, leaf: Any) -> References | None:
        return np.asarray(leaf, np.int64)

    def evaluate(self, function: Any, arguments: Sequence[Any]) -> Any:
        function, arguments, _ = as_called(function, arguments)
        matrices = [ca.DM(np.reshape(argument, function.size_in(k))) for k, argument in enumerate(arguments)]
        result = function(*matrices)
        return _shaped(function, [result] if function.n_out() == 1 else result)

    def holds(self, function: Any) -> object:
        return ()


def _shaped(function: Any, results: Sequence[Any]) -> Any:
    """Return the results as arrays: a single array, or a tuple if there are several."""
    shapes = [shape_of_matrix(function.sparsity_out(k)) for k in range(len(results))]
    shaped = [np.reshape(np.array(result), shape)[()] for result, shape in zip(results, shapes, strict=True)]
    return shaped[0] if len(shaped) == 1 else tuple(shaped)


def _expanded(function: Any) -> Any:
    """Return the function expanded to scalar operations."""
    if function.has_free():
        names = ", ".join(map(str, function.get_free()[:8]))
        raise refuse(
            f"The function {function.name()} has free variables: {names}. Make all of them inputs: "
            "casadi.Function(name, [x, p], [y])."
        )
    if function.is_a("SXFunction"):
        return function
    try:
        return function.expand()
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise refuse(
            f"The function {function.name()} cannot be expanded to scalar operations, which is how functions of MX are "
            f"recorded: {reason}. To solve linear equations, name a solver of scalar operations: 'symbolicqr'."
        ) from None


def _check(function: Any, shapes: Sequence[tuple[int, ...]]) -> None:
    if len(shapes) != function.n_in():
        raise ArgumentError(
            f"{len(shapes)} arguments are given; {function.name()} has {function.n_in()}: "
            f"{', '.join(function.name_in())}"
        )
    for k, shape in enumerate(shapes):
        sparsity = function.sparsity_in(k)
        expected = shape_of_matrix(sparsity)
        if shape not in (expected, sparsity.shape) and (math.prod(shape), len(shape)) != (max(sparsity.shape), 1):
            raise ArgumentError(
                f"argument {k} ({function.name_in(k)}) of {function.name()} has shape {shape}; expected {expected}"
            )


def _write(scalars: Any, tape: Tape, inputs: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]) -> None:
    """Translate a function's instructions, which compute in reused slots, and store the references of its results."""
    places_in = [nonzero_positions(scalars.sparsity_in(k)).tolist() for k in range(scalars.n_in())]
    places_out = [nonzero_positions(scalars.sparsity_out(k)).tolist() for k in range(scalars.n_out())]
    entries = [argument.tolist() for argument in inputs]
    slots: dict[int, int] = {}
    code_of, read, written = scalars.instruction_id, scalars.instruction_input, scalars.instruction_output
    for k in range(scalars.n_instructions()):
        code = code_of(k)
        if code == ca.OP_INPUT:
            argument, nonzero = read(k)
            value = entries[argument][places_in[argument][nonzero]]
        elif code == ca.OP_CONST:
            value = tape.constant(scalars.instruction_constant(k))
        elif code == ca.OP_OUTPUT:
            result, nonzero = written(k)
            results[result][places_out[result][nonzero]] = as_real(tape, slots[read(k)[0]])
            continue
        else:
            if code == ca.OP_CALL:
                raise refuse(
                    f"The function {scalars.name()} calls another that has no scalar operations: integrators, root "
                    "finders, callbacks and external functions cannot be recorded."
                )
            value = _value(tape, code, [slots[slot] for slot in read(k)])
        slots[written(k)[0]] = value


def _value(tape: Tape, code: int, arguments: list[int]) -> int:
    row = _ROWS.get(code)
    if row is not None:
        return tape.apply(row, *(as_real(tape, argument) for argument in arguments[: BY_NAME[row].arity]))
    if code in _SAME:
        return arguments[0]
    if code in _FORMULAS:
        return by_formula(tape, _FORMULAS[code], [as_real(tape, argument) for argument in arguments])
    if code == ca.OP_IF_ELSE_ZERO:
        return tape.select(as_truth(tape, arguments[0]), as_real(tape, arguments[1]), tape.constant(0.0))
    if code == ca.OP_NOT:
        return tape.logical_not(as_truth(tape, arguments[0]))
    if code in (ca.OP_AND, ca.OP_OR):
        join = tape.logical_and if code == ca.OP_AND else tape.logical_or
        return join(*(as_truth(tape, argument) for argument in arguments))
    raise refuse(f"CasADi's operation {_NAMES.get(code, code)} cannot be recorded; docs/casadi.md lists what can.")


RECORDER: Final = _Functions()
