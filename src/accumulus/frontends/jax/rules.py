"""Functions with derivatives of their own: `jax.custom_jvp` and `jax.custom_vjp`.

Their rules are what counts, as for JAX: many are there because the derivative of the program is not that of the
function where branches meet. A rule is recorded for a direction t that has the value 0 and the derivative of x. Since
the rule is linear in t, what it returns has the value 0 and the derivative that the rule says; that is attached to the
value. Within a rule, derivatives of the values that it uses do not matter, since they are multiplied by t: there,
functions are recorded without their rules.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import Literal, jaxpr_as_fun

from accumulus.frontends.active import refuse
from accumulus.frontends.jax.control import folds_by_numpy, known_function, part_of
from accumulus.frontends.jax.equations import Call, by_jax, evaluated, is_constant, records, single
from accumulus.frontends.jax.folding import product
from accumulus.frontends.numpy.elementwise import ELEMENTWISE, apply

__all__: list[str] = []

#: Entries of the results of a function with a custom_vjp, at most: its rule is recorded for each.
MOST_ENTRIES: Final = 256


class _Within(threading.local):
    rule: bool = False


_WITHIN: Final = _Within()


@contextmanager
def _within_rule() -> Iterator[None]:
    before, _WITHIN.rule = _WITHIN.rule, True
    try:
        yield
    finally:
        _WITHIN.rule = before


@records("custom_jvp_call")
def _custom_jvp(call: Call, *operands: Any) -> Any:
    closed = call.params["call_jaxpr"]
    if all(map(is_constant, operands)):
        if folds_by_numpy(closed.jaxpr):
            return evaluated(closed.jaxpr, closed.consts, operands)
        return by_jax(call.equation, operands)
    known = known_function(closed)
    if known is not None:
        return [known(*operands)]
    results = evaluated(closed.jaxpr, closed.consts, operands)
    if _WITHIN.rule:
        return results
    function, active, values = _of_active(call, operands)
    if not active:
        return results
    shapes = [jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype) for variable in active]
    rule = jax.make_jaxpr(lambda x, t: jax.jvp(function, x, t))(tuple(shapes), tuple(shapes))
    slopes = part_of(rule.jaxpr, rule.jaxpr.outvars[len(rule.jaxpr.outvars) // 2 :])
    with _within_rule():
        found = evaluated(slopes, rule.consts, [*values, *(_direction(call, x) for x in values)])
    return [
        _attached(call, value, slope) if kind == "f" and slope is not None else value
        for value, slope, kind in zip(results, _of_all(call, found), call.kinds, strict=True)
    ]


@records("custom_vjp_call", "custom_vjp_call_jaxpr")
def _custom_vjp(call: Call, *operands: Any) -> Any:
    closed = call.params.get("call_jaxpr", call.params.get("fun_jaxpr"))
    values = evaluated(closed.jaxpr, closed.consts, operands)
    if _WITHIN.rule:
        return values
    function, active, given = _of_active(call, operands)
    used = [k for k, variable in enumerate(call.equation.outvars) if _is_used(variable)]
    slopes = [k for k in used if call.kinds[k] == "f"]
    if not active or not slopes:
        return values
    sizes = [math.prod(call.shapes[k]) for k in slopes]
    count = sum(sizes)
    if count > MOST_ENTRIES:
        raise refuse(
            f"A function with a jax.custom_vjp returns {count} entries; its rule is recorded for each of them, and for "
            f"at most {MOST_ENTRIES}. A jax.custom_jvp is recorded at once for all."
        )
    units = np.split(np.eye(count), np.cumsum(sizes)[:-1], axis=1)
    chosen = [unit.reshape(count, *call.shapes[k]) for unit, k in zip(units, slopes, strict=True)]

    def rows(*x: Any) -> Any:
        back = jax.vjp(lambda *x: [function(*x)[used.index(k)] for k in slopes], *x)[1]
        return jax.vmap(back)(chosen)

    shapes = [jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype) for variable in active]
    rule = jax.make_jaxpr(rows)(*shapes)
    total: Any = 0.0
    with _within_rule():
        found = evaluated(rule.jaxpr, rule.consts, given)
    for x, row in zip(given, found, strict=True):
        flat = np.reshape(row, (count, -1))
        total = np.add(total, product(call, [(flat, "ab"), (np.reshape(_direction(call, x), -1), "b")], "a"))
    first = 0
    for k, size in zip(slopes, sizes, strict=True):
        slope = np.reshape(total[first : first + size], call.shapes[k])
        values[k] = _attached(call, values[k], slope)
        first += size
    return values


def _is_used(variable: Any) -> bool:
    return type(variable).__name__ != "DropVar"


def _of_all(call: Call, results: list[Any]) -> list[Any]:
    """Results with None for those that nothing uses."""
    found = iter(results)
    return [next(found) if _is_used(variable) else None for variable in call.equation.outvars]


def _of_active(call: Call, operands: Any) -> tuple[Any, list[Any], list[Any]]:
    """The call as a function of the operands that are differentiated by: their variables, and their values."""
    closed = single(call.equation)
    known = {
        atom: value for atom, value in zip(call.equation.invars, operands, strict=True) if not isinstance(atom, Literal)
    }
    active = [v for v in closed.jaxpr.invars if not is_constant(known[v]) and v.aval.dtype.kind == "f"]
    if any(not is_constant(known[v]) and v not in active for v in closed.jaxpr.invars):
        raise refuse(
            "A function with a derivative of its own (jax.custom_jvp, jax.custom_vjp) is given whole numbers or truth "
            "values that depend on the function's arguments."
        )

    def function(*given: Any) -> Any:
        values = {**known, **dict(zip(active, given, strict=True))}
        return jaxpr_as_fun(closed)(*(values[v] for v in closed.jaxpr.invars))

    return function, active, [known[v] for v in active]


def _direction(call: Call, x: Any) -> Any:
    """Zeros with the derivative of x."""
    return apply(call.tape, ELEMENTWISE["attach"], [np.zeros(x.shape), x])


def _attached(call: Call, value: Any, slope: Any) -> Any:
    """A value with the derivative of something else."""
    return apply(call.tape, ELEMENTWISE["attach"], [value, slope])
