"""Which functions are JAX's, told from what they are and from the names in their code; nothing of them is run.

Taken are what JAX makes (compiled functions, those with rules of their own, what `jax.grad` and `jax.vmap` return,
jaxprs), functions and objects of libraries that are written in JAX, and Python functions whose code, or the code of a
function that it calls by name, calls a function of JAX by name: ``jnp.sin(x)``, ``lax.scan(…)``. A type of JAX's that
is named (``isinstance(x, jax.Array)``) tells nothing. ``jax.jit(f)`` says it of any function.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import jax
from jax.extend.core import ClosedJaxpr

from accumulus.frontends.location import is_foreign

__all__ = ["is_of_jax"]

#: Libraries whose functions and objects compute with JAX's arrays.
WRITTEN_IN_JAX: Final = frozenset(
    (
        *("jax", "jaxlib", "flax", "haiku", "equinox", "optax", "diffrax", "lineax", "optimistix", "jaxopt"),
        *("numpyro", "distrax", "chex", "jraph", "brax", "tensorflow_probability"),
    )
)
#: How deep functions that are called by functions are looked into.
DEEPEST: Final = 20
_MISSING: Final = object()


def is_of_jax(function: object) -> bool:
    """Whether a function computes with JAX's arrays.

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
            callable(given) and _is_of_jax(given, seen, depth + 1)
            for given in (*function.args, *function.keywords.values())
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
    """The library of a class, or that of the first class it inherits from that is of one written in JAX."""
    owners = [_top(base.__module__) for base in kind.__mro__]
    return next((owner for owner in owners if owner in WRITTEN_IN_JAX), owners[0])


def _calls_jax(function: FunctionType, instance: Any, seen: set[int], depth: int) -> bool:
    """Whether the code of a function names a function of JAX, or one of the user's that does."""
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
    """Operations of code and what they are about, kept since a function is looked at whenever it is run on numbers."""
    return tuple((instruction.opname, instruction.argval) for instruction in dis.get_instructions(code))


def _named(code: CodeType, scope: dict[str, Any], instance: Any) -> Iterator[Any]:
    """What names and attributes of modules in code stand for, as far as that is known without running it."""
    own = code.co_varnames[0] if instance is not _MISSING and code.co_argcount else None
    imported: dict[str, Any] = {}
    current: Any = _MISSING
    arrives: Any = _MISSING
    for name, known in _instructions(code):
        if name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
            current = scope.get(known, _MISSING)
        elif name.startswith("LOAD_FAST") and known == own:
            current = instance
        elif name.startswith("LOAD_FAST") and known in imported:
            current = imported[known]
        elif name == "IMPORT_NAME":
            arrives = current = _module(str(known))
        elif name == "IMPORT_FROM":
            arrives = _attribute(current, known)
            if arrives is not _MISSING:
                yield arrives
            continue
        elif name == "STORE_FAST":
            imported[known], arrives = arrives, _MISSING
            continue
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            current = _attribute(current, known)
        else:
            if name not in ("PRECALL", "CALL", "PUSH_NULL", "EXTENDED_ARG", "CACHE", "POP_TOP"):
                current = _MISSING
            continue
        if current is not _MISSING and current is not instance:
            yield current
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _named(constant, scope, instance if own in constant.co_freevars else _MISSING)


def _module(name: str) -> Any:
    """A module of JAX that code imports; others are not looked for."""
    if _top(name) != "jax":
        return _MISSING
    module: Any = jax
    return module


def _attribute(value: Any, name: str) -> Any:
    """An attribute, found without running anything of the user's."""
    if value is _MISSING:
        return _MISSING
    if isinstance(value, ModuleType):
        return getattr(value, name, _MISSING)
    found = inspect.getattr_static(value, name, _MISSING)
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    if isinstance(found, FunctionType) and not isinstance(value, type):
        return MethodType(found, value)
    return _MISSING if hasattr(type(found), "__get__") and not isinstance(found, FunctionType) else found
