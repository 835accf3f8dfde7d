"""Front end for JAX: `jax.make_jaxpr` traces the function, and its equations are recorded.

The function is traced in double precision (``jax.enable_x64``), independently of JAX's configuration: numeric arguments
and the function's constants are arrays of float64. The recording is compared with the function compiled by JAX, also in
double precision.

JAX caches the traces of a function, and of the inner functions that it compiles, scans or differentiates. Variables
that these close over may have changed since. Therefore each recording is traced in a new context, which is part of the
keys of all of JAX's caches; compiled code is reused only if the jaxpr is the same.

A Python function that names JAX may also work with NumPy. If JAX cannot trace it, it is recorded as a function of
NumPy; if that fails, too, JAX's error is raised.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from numpy.typing import NDArray

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.calls import function_of
from accumulus.frontends.jax import control, elementwise, linalg, moving, rules  # noqa: F401  # rows
from accumulus.frontends.jax.equations import current_position, evaluated, narrows
from accumulus.frontends.location import CodePosition, is_foreign, user_position
from accumulus.frontends.numpy import tracer as numpy_tracer
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.recorder import Inputs, Recorder, References
from accumulus.tape.tape import Tape

# Detection of JAX functions -------------------------------------------------------------------------------------------
#
# This front end takes objects of JAX (compiled functions, functions with custom rules, results of `jax.grad` and
# `jax.vmap`, jaxprs), functions and objects of libraries that are written in JAX, and Python functions whose code, or
# the code of a function that it calls by name, calls a function of JAX by name: ``jnp.sin(x)``, ``lax.scan(…)``. A type
# of JAX in the code, as in ``isinstance(x, jax.Array)``, does not count. ``jax.jit(f)`` marks any function as JAX's.

#: Libraries whose functions and objects compute with JAX's arrays.
WRITTEN_IN_JAX: Final = frozenset(
    (
        *("jax", "jaxlib", "flax", "haiku", "equinox", "optax", "diffrax", "lineax", "optimistix", "jaxopt"),
        *("numpyro", "distrax", "chex", "jraph", "brax", "tensorflow_probability"),
    )
)
#: Maximum depth of called functions that are examined: a greater one takes time for every function, a smaller one may
#: not see that a function uses JAX.
DEEPEST: Final = 20
_MISSING: Final = object()
_REAL: Final = np.dtype(float)


def is_of_jax(function: object) -> bool:
    """Return True if a function computes with JAX's arrays.

    >>> import numpy as np
    >>> is_of_jax(jax.nn.softplus), is_of_jax(jax.jit(lambda x: x)), is_of_jax(np.sin)
    (True, True, False)
    """
    return _is_of_jax(function, set(), 0)


def _is_of_jax(function: Any, seen: set[int], depth: int) -> bool:
    if id(function) in seen or depth > DEEPEST:
        return False
    seen.add(id(function))
    if isinstance(function, ClosedJaxpr | jax.custom_jvp | jax.custom_vjp):
        return True
    if isinstance(function, functools.partial):
        return _is_of_jax(function.func, seen, depth) or any(
            callable(argument) and _is_of_jax(argument, seen, depth + 1)
            for argument in (*function.args, *function.keywords.values())
        )
    if isinstance(function, MethodType):
        if _owner(type(function.__self__)) in WRITTEN_IN_JAX:
            return True
        plain: Any = function.__func__
        return isinstance(plain, FunctionType) and _calls_jax(plain, function.__self__, seen, depth)
    if isinstance(function, FunctionType):
        return _top(function.__globals__.get("__name__")) in WRITTEN_IN_JAX or _calls_jax(
            function, _MISSING, seen, depth
        )
    if isinstance(function, type | ModuleType) or not callable(function):
        return False
    if _owner(type(function)) in WRITTEN_IN_JAX:
        return True
    call = inspect.getattr_static(type(function), "__call__", None)
    return isinstance(call, FunctionType) and _calls_jax(call, function, seen, depth)


def _top(module: Any) -> str:
    return str(module).partition(".")[0]


def _owner(kind: type) -> str:
    """Return the first library written in JAX among a class and its bases; else the library of the class."""
    owners = [_top(base.__module__) for base in kind.__mro__]
    return next((owner for owner in owners if owner in WRITTEN_IN_JAX), owners[0])


def _calls_jax(function: FunctionType, instance: Any, seen: set[int], depth: int) -> bool:
    """Return True if the code of a function names a function of JAX, or a user function that does."""
    if is_foreign(_top(function.__globals__.get("__name__"))):
        return False
    closure = inspect.getclosurevars(function)
    scope = {**closure.builtins, **function.__globals__, **closure.nonlocals}
    for named in _named(function.__code__, scope, instance):
        if isinstance(named, ModuleType | type) or not callable(named):
            continue
        module = getattr(named, "__module__", None) or getattr(type(named), "__module__", "")
        if _top(module) in WRITTEN_IN_JAX or _top(type(named).__module__) in WRITTEN_IN_JAX:
            return True
        if not is_foreign(_top(module)) and _is_of_jax(named, seen, depth + 1):
            return True
    wrapped = getattr(function, "__wrapped__", None)
    return wrapped is not None and _is_of_jax(wrapped, seen, depth + 1)


@functools.lru_cache(maxsize=1024)
def _instructions(code: CodeType) -> tuple[tuple[str, Any], ...]:
    """Return the instructions of code with their arguments; cached, since every run on numbers reads them."""
    return tuple((instruction.opname, instruction.argval) for instruction in dis.get_instructions(code))


def _named(code: CodeType, scope: dict[str, Any], instance: Any) -> Iterator[Any]:
    """Yield the objects that names and module attributes in code refer to, as far as known without running it."""
    self_name = code.co_varnames[0] if instance is not _MISSING and code.co_argcount else None
    imported: dict[str, Any] = {}
    current: Any = _MISSING
    arrives: Any = _MISSING
    for name, operand in _instructions(code):
        if name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
            current = scope.get(operand, _MISSING)
        elif name.startswith("LOAD_FAST") and operand == self_name:
            current = instance
        elif name.startswith("LOAD_FAST") and operand in imported:
            current = imported[operand]
        elif name == "IMPORT_NAME":
            # other modules than JAX's are ignored
            arrives = current = jax if _top(operand) == "jax" else _MISSING
        elif name == "IMPORT_FROM":
            arrives = _attribute(current, operand)
            if arrives is not _MISSING:
                yield arrives
            continue
        elif name == "STORE_FAST":
            imported[operand], arrives = arrives, _MISSING
            continue
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            current = _attribute(current, operand)
        else:
            if name not in ("PRECALL", "CALL", "PUSH_NULL", "EXTENDED_ARG", "CACHE", "POP_TOP"):
                current = _MISSING
            continue
        if current is not _MISSING and current is not instance:
            yield current
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _named(constant, scope, instance if self_name in constant.co_freevars else _MISSING)


def _attribute(value: Any, name: str) -> Any:
    """Look up an attribute without running user code."""
    if value is _MISSING:
        return _MISSING
    if isinstance(value, ModuleType):
        return getattr(value, name, _MISSING)
    attribute = inspect.getattr_static(value, name, _MISSING)
    if isinstance(attribute, staticmethod | classmethod):
        attribute = attribute.__func__
    if isinstance(attribute, FunctionType) and not isinstance(value, type):
        return MethodType(attribute, value)
    return _MISSING if hasattr(type(attribute), "__get__") and not isinstance(attribute, FunctionType) else attribute


#: Exceptions of JAX for a function that needs a concrete number while it is traced.
_ASKED: Final = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerBoolConversionError,
    jax.errors.TracerIntegerConversionError,
)


#: Context whose value is part of the keys of all of JAX's caches. Versions without it clear their caches instead.
_CONTEXT: Final = jax.make_user_context(None) if hasattr(jax, "make_user_context") else None
#: Maximum number of functions whose traces are kept: more take memory, fewer trace functions again.
MOST_KEPT: Final = 64


class _Jaxprs(Recorder):
    def __init__(self) -> None:
        #: By function and shapes: the function, its last trace, and the context in which it was compiled.
        self._traces: dict[Hashable, tuple[Any, ClosedJaxpr | None, object]] = {}
        #: By function and shapes: positions of arguments that must be integers.
        self._integer_positions: dict[Hashable, frozenset[int]] = {}

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
        _, before, context = self._traces.pop(key, (None, None, None))
        token = object()
        with jax.enable_x64(True):
            try:
                with _within(token):
                    is_traced = [references is not None for references in inputs]
                    try:
                        closed, structure = _written(
                            function, arguments, is_traced, self._integer_positions.get(key, frozenset())
                        )
                    except (TypeError, ValueError) as error:
                        whole = frozenset(k for k, x in enumerate(arguments) if getattr(x, "dtype", _REAL).kind in "iu")
                        if not whole or "integer" not in str(error):
                            raise
                        closed, structure = _written(function, arguments, is_traced, whole)
                        self._integer_positions[key] = whole
            except Exception as error:
                if not _is_python(function):
                    raise
                refusal, ACTIVE.refusal = ACTIVE.refusal, None
                with suppress(Exception):
                    return of_numpy(function, tape, arguments, inputs)
                ACTIVE.refusal = refusal
                raise error from None
            if len(self._traces) >= MOST_KEPT:
                oldest = next(iter(self._traces))
                self._traces.pop(oldest, None)
                self._integer_positions.pop(oldest, None)
            self._traces[key] = function, closed, context if before is not None and _is_same(before, closed) else token
            traced = [TracedArray(tape, references) for references in inputs if references is not None]
            results = evaluated(closed.jaxpr, closed.consts, traced)
            return jax.tree.unflatten(structure, results)

    def references(self, tape: Tape, leaf: Any) -> References | None:
        return numpy_tracer.RECORDER.references(tape, leaf)

    def evaluate(self, function: Any, arguments: Sequence[Any]) -> Any:
        key = _key(function, arguments)
        token, whole = self._traces.get(key, (None, None, object()))[-1], self._integer_positions.get(key, frozenset())
        with jax.enable_x64(True), _within(token):
            call, inputs = _call(function, arguments, [_is_number(argument) for argument in arguments], whole)
            try:
                result = jax.tree.map(np.asarray, call(*inputs))
            except Exception:
                if not _is_python(function):
                    raise
                return function(*arguments)
            if _narrows(call, tuple((x.shape, x.dtype) for x in inputs), token):
                result = jax.tree.map(lambda leaf: leaf.astype(np.float32) if leaf.dtype.kind == "f" else leaf, result)
            return result

    def holds(self, function: Any) -> object:
        return getattr(function, "__wrapped__", function)

    def position(self) -> CodePosition | None:
        return current_position() or user_position()


@contextmanager
def _within(token: object) -> Iterator[None]:
    """Make JAX retrace functions that it has not traced with this token."""
    if _CONTEXT is None:
        jax.clear_caches()
        yield
    else:
        with _CONTEXT(token):
            yield


def _key(function: Any, arguments: Sequence[Any]) -> Hashable:
    return id(function), *[np.shape(x) if _is_number(x) else id(x) for x in arguments]


def _is_same(before: ClosedJaxpr, now: ClosedJaxpr) -> bool:
    """Return True if two jaxprs of one function are the same, so that the code compiled for the first remains valid."""
    return str(before) == str(now) and all(map(np.array_equal, before.consts, now.consts))


def _is_python(function: Any) -> bool:
    """Return True if a function is written in Python, and may therefore work with NumPy, too."""
    return isinstance(function_of(function), FunctionType | MethodType | functools.partial)


def _is_number(argument: Any) -> bool:
    numbers = int | float | complex | np.number | np.ndarray
    return isinstance(argument, numbers) and np.asarray(argument).dtype.kind in "fiuc"


@functools.lru_cache(maxsize=64)
def _narrows(call: Callable[..., Any], forms: tuple[Any, ...], token: object) -> bool:
    """Return True if a function rounds anywhere to floats narrower than double precision."""
    return narrows(jax.make_jaxpr(call)(*(jax.ShapeDtypeStruct(*form) for form in forms)).jaxpr)


def _call(
    function: Any, arguments: Sequence[Any], traced: Sequence[bool], whole: frozenset[int]
) -> tuple[Callable[..., Any], list[Any]]:
    """Return a jitted function of the numeric arguments, and these as arrays of floats or integers.

    Args:
        function: function of JAX, or a closed jaxpr.
        arguments: its arguments.
        traced: True for each argument that is a number.
        whole: positions of arguments that must be integers.

    Raises:
        TypeError: for an argument in `whole` with a fraction.
    """
    if isinstance(function, ClosedJaxpr):
        function = _of_jaxpr(function)
    inputs = [_as_input(x, k in whole) for k, x in enumerate(arguments) if traced[k]]
    if all(traced):
        return jax.jit(function), inputs

    def call(*values: Any) -> Any:
        numbers = iter(values)
        return function(*(next(numbers) if is_traced else x for x, is_traced in zip(arguments, traced, strict=True)))

    return jax.jit(functools.update_wrapper(call, function, updated=())), inputs


def _as_input(value: Any, is_whole: bool) -> NDArray[Any]:
    array = np.asarray(value)
    if not is_whole:
        return array.astype(complex if array.dtype.kind == "c" else float)
    if (array != np.trunc(array)).any():
        raise TypeError(f"{array.flat[np.argmax(array != np.trunc(array))]} is used as an index, but is not an integer")
    return array.astype(np.int64)


def _of_jaxpr(closed: ClosedJaxpr) -> Callable[..., Any]:
    """Return a function that evaluates a jaxpr on arrays, converted to its types."""
    compute = jaxpr_as_fun(closed)

    def call(*arguments: Any) -> Any:
        types = [aval.dtype for aval in closed.in_avals]
        results = compute(*(jax.numpy.asarray(x, kind) for x, kind in zip(arguments, types, strict=True)))
        return results[0] if len(results) == 1 else tuple(results)

    return call


def _written(function: Any, arguments: Sequence[Any], traced: Sequence[bool], whole: frozenset[int]) -> tuple[Any, Any]:
    """Trace a function; return a jaxpr of its numeric arguments, and the structure of its results."""
    call, inputs = _call(function, arguments, traced, whole)
    try:
        closed, shape = jax.make_jaxpr(call, return_shape=True)(*inputs)
    except _ASKED as error:
        advice = str(error).partition("\nSee ")[0].strip()
        raise refuse(
            f"JAX cannot trace this function: {advice}\nWrite jax.lax.cond, jnp.where or jax.lax.while_loop for "
            "decisions on values, or make the argument static (static_argnums)."
        ) from error
    return closed, jax.tree.structure(shape)


RECORDER: Final = _Jaxprs()
