"""Evaluation of the equations of a jaxpr, in order, on traced arrays and constants.

A value is a `TracedArray` if it depends on the inputs of the tape, else an array of NumPy, or of JAX for random keys.
Every recorded primitive is one row of `PRIMITIVES`: a function of traced arrays that is composed of recorded NumPy
functions, so that long arrays become loops here, too. Equations on constants are evaluated at once: by the row on
numbers, or by JAX if the row does not fold. Equations with unused results are left out.

Values are real numbers and truth values. Integers that depend on the inputs are reals with exact arithmetic and no
overflow. Values are not rounded to narrower float types.
"""

from __future__ import annotations

import linecache
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.location import LIBRARIES, PACKAGE_DIRECTORY, CodePosition
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.operands import concrete, depends, entries_of

# Positions of equations in the user's code ----------------------------------------------------------------------------

#: Directories of this package and of JAX.
_OURS: Final = (PACKAGE_DIRECTORY, f"{Path(jax.__file__).parent}{os.sep}")


def _frame(equation: Any) -> Any:
    """Return the innermost frame outside of JAX, this package and other libraries; None if there is none."""
    traceback = getattr(getattr(equation, "source_info", None), "traceback", None)
    for frame in () if traceback is None else traceback.frames:
        name = frame.file_name.replace("\\", "/")
        if name.startswith("<") and name != "<stdin>" and not name.startswith("<doctest"):
            continue
        if frame.file_name.startswith(_OURS):
            continue
        if any(f"site-packages/{library}/" in name for library in LIBRARIES):
            continue
        return frame
    return None


def code_position(equation: Any) -> CodePosition | None:
    """Return the position of an equation; None if JAX does not know it."""
    frame = _frame(equation)
    if frame is None:
        return None
    source = linecache.getline(frame.file_name, frame.line_num).strip()
    return CodePosition(frame.file_name, frame.line_num, frame.function_name, source)


def lines_of(equation: Any) -> frozenset[tuple[str, int]]:
    """Return the file and line of an equation as a set of one pair, for reports; empty if unknown."""
    frame = _frame(equation)
    return frozenset() if frame is None else frozenset({(frame.file_name, frame.line_num)})


@dataclass(frozen=True, slots=True)
class Equation:
    """One equation of a jaxpr, without the values of its operands."""

    tape: Any  # tape of the recording
    equation: Any  # the jaxpr's own equation
    operands: tuple[str, ...]  # kinds of the operands: "f" floats, "b" truth values, "i" or "u" integers
    shapes: tuple[tuple[int, ...], ...]  # shapes of the results
    kinds: tuple[str, ...]  # kinds of the results

    @property
    def name(self) -> str:
        """Name of the primitive."""
        return str(self.equation.primitive.name)

    @property
    def params(self) -> Mapping[str, Any]:
        """Parameters of the equation."""
        params: Mapping[str, Any] = self.equation.params
        return params


class PrimitiveRow(NamedTuple):
    """Recording of one primitive.

    `record` takes the call and the values of the operands; it returns the result, or a list if there are several.
    `folds` is True if it also evaluates constants. `reads` selects the operands that `record` takes; None for all.
    """

    record: Callable[..., Any]
    folds: bool = True
    reads: Callable[[Any], Sequence[Any]] | None = None


#: Recorded primitives by name.
PRIMITIVES: Final[dict[str, PrimitiveRow]] = {}


def records(
    *names: str, folds: bool = True, reads: Callable[[Any], Sequence[Any]] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the recorder of the primitives with these names."""

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            assert name not in PRIMITIVES, f"{name} has two rows"
            PRIMITIVES[name] = PrimitiveRow(record, folds, reads)
        return record

    return enter


class _At(threading.local):
    equations: tuple[Any, ...] = ()


_AT: Final = _At()


def current_position() -> CodePosition | None:
    """Return the position in the user's code of the equation that this thread records, or of an equation around it."""
    return next(filter(None, map(code_position, reversed(_AT.equations))), None)


@contextmanager
def _at(equation: Any) -> Iterator[None]:
    before = _AT.equations
    _AT.equations = (*before, equation)
    tape = ACTIVE.tape
    try:
        with nullcontext() if tape is None else tape.located(lines_of(equation)):
            yield
    finally:
        _AT.equations = before


def is_constant(value: Any) -> bool:
    """Return True if a value does not depend on the inputs."""
    return not isinstance(value, TracedArray)


def evaluated(jaxpr: Any, constants: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
    """Record a jaxpr on the current tape and return its results.

    Args:
        jaxpr: open jaxpr.
        constants: values of its constants.
        arguments: values of its arguments.

    Raises:
        TraceError: for a primitive that is not recorded, with the line of the user's code.
    """
    bindings: dict[Any, Any] = dict(zip(jaxpr.constvars, map(_constant, constants), strict=True))
    bindings.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return np.asarray(atom.val, atom.aval.dtype) if isinstance(atom, Literal) else bindings[atom]

    for equation in needed_equations(jaxpr):
        row = PRIMITIVES.get(equation.primitive.name)
        with _at(equation), np.errstate(all="ignore"):
            results = _results(equation, row, [read(atom) for atom in _read_by(row, equation)])
        bindings.update(zip(equation.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _read_by(row: PrimitiveRow | None, equation: Any) -> Sequence[Any]:
    """Return the operands of an equation that are needed."""
    atoms: Sequence[Any] = equation.invars if row is None or row.reads is None else row.reads(equation)
    return atoms


def needed_equations(jaxpr: Any) -> list[Any]:
    """Return the equations that the results depend on, in order."""
    required = {atom for atom in jaxpr.outvars if not isinstance(atom, Literal)}
    equations = []
    for equation in reversed(jaxpr.eqns):
        if required.isdisjoint(equation.outvars):
            continue
        atoms = _read_by(PRIMITIVES.get(equation.primitive.name), equation)
        required.update(atom for atom in atoms if not isinstance(atom, Literal))
        equations.append(equation)
    return equations[::-1]


def _results(equation: Any, row: PrimitiveRow | None, operands: Sequence[Any]) -> Sequence[Any]:
    if all(map(is_constant, operands)) and (row is None or not row.folds):
        return by_jax(equation, operands)
    if row is None:
        raise refuse(
            f"JAX's primitive {equation.primitive.name} is not recorded where it depends on the function's arguments. "
            "docs/jax.md lists those that are. Code that does not depend on the arguments may use any primitive."
        )
    avals = [variable.aval for variable in equation.outvars]
    kinds = tuple(map(_kind, avals))
    if "c" in kinds and not any(inner_jaxprs(equation)):
        raise refuse(
            "Complex numbers that depend on the function's arguments are not recorded in functions of JAX: write the "
            "real and the imaginary part as two real values."
        )
    operand_kinds = tuple(_kind(atom.aval) for atom in _read_by(row, equation))
    call = Equation(ACTIVE.tape, equation, operand_kinds, tuple(tuple(aval.shape) for aval in avals), kinds)
    recorded = row.record(call, *operands)
    results = recorded if isinstance(recorded, list | tuple) else [recorded]
    return [value_of(call.tape, result, aval) for result, aval in zip(results, avals, strict=True)]


def _kind(aval: Any) -> str:
    """Return the kind of the entries: "f", "b", "i", "u" or "c"; "V" for others, such as random keys."""
    kind = getattr(getattr(aval, "dtype", None), "kind", "V")
    return "f" if kind == "V" and jax.dtypes.issubdtype(aval.dtype, np.floating) else str(kind)


def _constant(value: Any) -> Any:
    """Return a constant as a NumPy array, unless its type is JAX's own, such as a random key's."""
    if hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
        return value
    return np.asarray(value)


def value_of(tape: Any, result: Any, aval: Any) -> Any:
    """Return a result as the value of a variable: a traced array, or a NumPy array of the variable's type."""
    if result is None or not hasattr(aval, "shape"):
        return result
    shape = tuple(aval.shape)
    if depends(result):
        entries, boolean = entries_of(tape, result)
        references = np.asarray(entries, np.int64)
        assert references.shape == shape, f"{references.shape} for {aval}"
        return TracedArray(tape, references, boolean=boolean)
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended):
        return result
    constant = np.asarray(concrete(result))
    assert constant.shape == shape, f"{constant.shape} for {aval}"
    return constant.astype(aval.dtype, copy=False)


def single(equation: Any) -> ClosedJaxpr:
    """Return a closed jaxpr with one equation, whose arguments are the operands that are not literals."""
    variables = list(dict.fromkeys(atom for atom in equation.invars if not isinstance(atom, Literal)))
    jaxpr = jax.make_jaxpr(lambda: ())().jaxpr
    outvars = list(filter(is_used, equation.outvars))
    return ClosedJaxpr(jaxpr.replace(invars=variables, outvars=outvars, eqns=[equation]), [])


def is_used(variable: Any) -> bool:
    """Return True if a result of an equation is used."""
    return type(variable).__name__ != "DropVar"


def values_of(equation: Any, operands: Sequence[Any]) -> dict[Any, Any]:
    """Return the values of the operands that are not literals, by variable."""
    pairs = zip(equation.invars, operands, strict=True)
    return {atom: value for atom, value in pairs if not isinstance(atom, Literal)}


def by_jax(equation: Any, operands: Sequence[Any]) -> list[Any]:
    """Evaluate an equation on constants with JAX; None for unused results."""
    closed, bindings = single(equation), values_of(equation, operands)
    with jax.ensure_compile_time_eval():
        results = iter(jaxpr_as_fun(closed)(*(bindings[variable] for variable in closed.jaxpr.invars)))
    return [_constant(next(results)) if is_used(variable) else None for variable in equation.outvars]


def narrows(jaxpr: Any) -> bool:
    """Return True if a jaxpr rounds to floats narrower than double precision; recordings never do."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "reduce_precision":
            return True
        for variable in equation.outvars:
            aval = variable.aval
            if _kind(aval) == "f" and aval.dtype.itemsize < 8:
                return True
        if any(map(narrows, inner_jaxprs(equation))):
            return True
    return False


def inner_jaxprs(equation: Any) -> Iterator[Any]:
    """Yield the open jaxprs that an equation calls."""
    for value in equation.params.values():
        for item in value if isinstance(value, list | tuple) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, Jaxpr):
                yield item
