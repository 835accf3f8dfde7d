"""The front end of JAX: a function is written down by `jax.make_jaxpr`, and its equations are recorded.

It is traced in double precision (``jax.enable_x64``), whatever JAX is configured for: numeric arguments are arrays of
float64, and so are the constants that the function makes. What it is compared with is the function compiled by JAX, in
double precision too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from accumulus.frontends.active import refuse
from accumulus.frontends.jax import control, elementwise, folding, linalg, moving, rules, windows  # noqa: F401  # rows
from accumulus.frontends.jax.equations import current_place, evaluated, narrows
from accumulus.frontends.jax.recognition import is_of_jax
from accumulus.frontends.location import Place, user_place
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.operands import references_of
from accumulus.frontends.recorder import Inputs, Recorder, References
from accumulus.tape.tape import Tape

__all__ = ["RECORDER"]

#: What JAX raises where a function asks for a number while it is traced.
_ASKED: Final = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
)


class _Jaxprs(Recorder):
    def takes(self, function: object) -> bool:
        return is_of_jax(function)

    def run(self, function: Any, tape: Tape, arguments: Sequence[Any], inputs: Inputs) -> Any:
        with jax.enable_x64(True):
            closed, structure = _written(function, arguments, [references is not None for references in inputs])
            traced = [TracedArray(tape, references) for references in inputs if references is not None]
            results = evaluated(closed.jaxpr, closed.consts, traced)
            return jax.tree.unflatten(structure, results)

    def references(self, tape: Tape, leaf: Any) -> References | None:
        if isinstance(leaf, TracedArray) or (isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fiub"):
            return references_of(tape, leaf)
        return None

    def evaluate(self, function: Any, arguments: Sequence[Any]) -> Any:
        with jax.enable_x64(True):
            call, given = _call(function, arguments, [_is_number(argument) for argument in arguments])
            result = jax.tree.map(np.asarray, call(*given))
            if _narrows(call, tuple((x.shape, x.dtype) for x in given)):
                result = jax.tree.map(lambda leaf: leaf.astype(np.float32) if leaf.dtype.kind == "f" else leaf, result)
            return result

    def holds(self, function: Any) -> object:
        return getattr(function, "__wrapped__", function)

    def place(self) -> Place | None:
        return current_place() or user_place()


def _is_number(argument: Any) -> bool:
    numbers = int | float | complex | np.number | np.ndarray
    return isinstance(argument, numbers) and np.asarray(argument).dtype.kind in "fiuc"


@functools.lru_cache(maxsize=64)
def _narrows(call: Callable[..., Any], forms: tuple[Any, ...]) -> bool:
    """Whether a compiled function rounds to narrower floats than doubles somewhere."""
    return narrows(jax.make_jaxpr(call)(*(jax.ShapeDtypeStruct(*form) for form in forms)).jaxpr)


def _call(function: Any, arguments: Sequence[Any], traced: Sequence[bool]) -> tuple[Callable[..., Any], list[Any]]:
    """A compiled function of those arguments that are numbers, and these as arrays of doubles."""
    if isinstance(function, ClosedJaxpr):
        function = _of_jaxpr(function)
    numbers = [np.asarray(x) for x, is_traced in zip(arguments, traced, strict=True) if is_traced]
    given = [x.astype(complex if x.dtype.kind == "c" else float) for x in numbers]
    if all(traced):
        return jax.jit(function), given

    def call(*values: Any) -> Any:
        place = iter(values)
        return function(*(next(place) if is_traced else x for x, is_traced in zip(arguments, traced, strict=True)))

    return jax.jit(functools.update_wrapper(call, function, updated=())), given


def _of_jaxpr(closed: ClosedJaxpr) -> Callable[..., Any]:
    """What a jaxpr computes, from arrays of any floats."""
    compute = jaxpr_as_fun(closed)

    def call(*arguments: Any) -> Any:
        types = [aval.dtype for aval in closed.in_avals]
        results = compute(*(jax.numpy.asarray(x, kind) for x, kind in zip(arguments, types, strict=True)))
        return results[0] if len(results) == 1 else tuple(results)

    return call


def _written(function: Any, arguments: Sequence[Any], traced: Sequence[bool]) -> tuple[Any, Any]:
    """A function as a jaxpr of its numeric arguments, and the structure of its results."""
    call, given = _call(function, arguments, traced)
    try:
        closed, shape = jax.make_jaxpr(call, return_shape=True)(*given)
    except _ASKED as error:
        advice = str(error).partition("\nSee ")[0].strip()
        raise refuse(
            f"JAX cannot trace this function: {advice}\nWrite jax.lax.cond, jnp.where or jax.lax.while_loop for what "
            "depends on values, or make the argument static (static_argnums)."
        ) from error
    return closed, jax.tree.structure(shape)


RECORDER: Final = _Jaxprs()
