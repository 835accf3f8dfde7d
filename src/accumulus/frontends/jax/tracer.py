"""The front end of JAX: a function is written down by `jax.make_jaxpr`, and its equations are recorded.

It is traced in double precision (``jax.enable_x64``), whatever JAX is configured for: numeric arguments are arrays of
float64, and so are the constants that the function makes. What it is compared with is the function compiled by JAX, in
double precision too.

JAX keeps what it has traced, by functions: of the function, and of those within it that are compiled, scanned or
differentiated. What these hold may be another since. So each recording is traced in a context of its own, which is part
of the keys of all of JAX's caches; what was compiled before is taken only if the jaxpr is the same.

A Python function that names JAX may be written for NumPy as well, and go either way. Where JAX cannot trace it, it is
recorded as NumPy's; if that fails, too, JAX's own error is raised.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FunctionType, MethodType
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.calls import function_of
from accumulus.frontends.jax import control, elementwise, folding, linalg, moving, rules, windows  # noqa: F401  # rows
from accumulus.frontends.jax.equations import current_place, evaluated, narrows
from accumulus.frontends.jax.recognition import is_of_jax
from accumulus.frontends.location import Place, user_place
from accumulus.frontends.numpy import tracer as numpy_tracer
from accumulus.frontends.numpy.arrays import TracedArray
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


#: A value of this context is part of the keys of all of JAX's caches; versions without one clear these.
_CONTEXT: Final = jax.make_user_context(None) if hasattr(jax, "make_user_context") else None
#: Functions that are kept with what was traced of them.
MOST_KEPT: Final = 64


class _Jaxprs(Recorder):
    def __init__(self) -> None:
        #: By function and shapes: the function, what was traced last, and the context in which that is compiled.
        self._kept: dict[Hashable, tuple[Any, ClosedJaxpr | None, object]] = {}

    def takes(self, function: object) -> bool:
        return is_of_jax(function)

    def run(self, function: Any, tape: Tape, arguments: Sequence[Any], inputs: Inputs) -> Any:
        return self._run(function, tape, arguments, inputs, numpy_tracer.RECORDER.run)

    def run_nested(self, function: Any, tape: Tape, arguments: Sequence[Any], inputs: Inputs) -> Any:
        return self._run(function, tape, arguments, inputs, numpy_tracer.RECORDER.run_nested)

    def _run(
        self, function: Any, tape: Tape, arguments: Sequence[Any], inputs: Inputs, of_numpy: Callable[..., Any]
    ) -> Any:
        key = _key(function, arguments)
        _, before, context = self._kept.pop(key, (None, None, None))
        token = object()
        with jax.enable_x64(True):
            try:
                with _within(token):
                    closed, structure = _written(function, arguments, [references is not None for references in inputs])
            except Exception as error:
                if not _is_python(function):
                    raise
                refusal, ACTIVE.refusal = ACTIVE.refusal, None
                with suppress(Exception):
                    return of_numpy(function, tape, arguments, inputs)
                ACTIVE.refusal = refusal
                raise error from None
            if len(self._kept) >= MOST_KEPT:
                self._kept.pop(next(iter(self._kept)), None)
            self._kept[key] = function, closed, context if before is not None and _is_same(before, closed) else token
            traced = [TracedArray(tape, references) for references in inputs if references is not None]
            results = evaluated(closed.jaxpr, closed.consts, traced)
            return jax.tree.unflatten(structure, results)

    def references(self, tape: Tape, leaf: Any) -> References | None:
        return numpy_tracer.RECORDER.references(tape, leaf)

    def evaluate(self, function: Any, arguments: Sequence[Any]) -> Any:
        token = self._kept.get(_key(function, arguments), (None, None, object()))[-1]
        with jax.enable_x64(True), _within(token):
            call, given = _call(function, arguments, [_is_number(argument) for argument in arguments])
            try:
                result = jax.tree.map(np.asarray, call(*given))
            except Exception:
                if not _is_python(function):
                    raise
                return function(*arguments)
            if _narrows(call, tuple((x.shape, x.dtype) for x in given), token):
                result = jax.tree.map(lambda leaf: leaf.astype(np.float32) if leaf.dtype.kind == "f" else leaf, result)
            return result

    def holds(self, function: Any) -> object:
        return getattr(function, "__wrapped__", function)

    def place(self) -> Place | None:
        return current_place() or user_place()


@contextmanager
def _within(token: object) -> Iterator[None]:
    """Let JAX trace anew what it has not traced with this token."""
    if _CONTEXT is None:
        jax.clear_caches()
        yield
    else:
        with _CONTEXT(token):
            yield


def _key(function: Any, arguments: Sequence[Any]) -> Hashable:
    return id(function), *[np.shape(x) if _is_number(x) else id(x) for x in arguments]


def _is_same(before: ClosedJaxpr, now: ClosedJaxpr) -> bool:
    """Whether two jaxprs of one function compute the same, so that what was compiled of the first does."""
    return str(before) == str(now) and all(map(np.array_equal, before.consts, now.consts))


def _is_python(function: Any) -> bool:
    """Whether a function may be written for NumPy, too."""
    return isinstance(function_of(function), FunctionType | MethodType | functools.partial)


def _is_number(argument: Any) -> bool:
    numbers = int | float | complex | np.number | np.ndarray
    return isinstance(argument, numbers) and np.asarray(argument).dtype.kind in "fiuc"


@functools.lru_cache(maxsize=64)
def _narrows(call: Callable[..., Any], forms: tuple[Any, ...], token: object) -> bool:
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
