"""Calls, branches and loops.

Calls are recorded inline. All branches are recorded, and their results are selected. A loop whose number of steps does
not depend on the function's arguments is recorded as one step, by `accumulus.scan`. Parts of its state that do not
depend on the arguments, such as counters, are computed for all steps first. If such a counter indexes a loop constant,
the entries are looked up outside of the loop; if it indexes the changing state, the loop is written out step by step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jax.extend.core import ClosedJaxpr, Literal
from scipy import special

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.decisions import truth
from accumulus.frontends.inner import LongBodyError
from accumulus.frontends.jax.equations import (
    PRIMITIVES,
    Equation,
    by_jax,
    evaluated,
    inner_jaxprs,
    is_constant,
    records,
    value_of,
)
from accumulus.frontends.jax.moving import SCATTERS
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.scanning import scan

#: Maximum number of steps of a loop whose end is found by running it: more delay the error about a loop that never
#: ends, fewer refuse long loops that end.
MOST_STEPS: Final = 100_000
#: Primitives with operands that are indices of entries → position of the first of these operands.
INDEXED: Final = {"dynamic_slice": 1, "gather": 1, "dynamic_update_slice": 2, **dict.fromkeys(SCATTERS, 1)}
#: Functions of JAX with replacements: where their branches meet, JAX's formulas or rules are wrong at some order of
#: differentiation, and NumPy's and SciPy's are right.
_KNOWN: Final[dict[str, np.ufunc | Callable[..., Any]]] = {
    "sinc": np.sinc,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "xlogy": special.xlogy,
    "xlog1py": special.xlog1py,
    "log_ndtr": special.log_ndtr,
}
_OF_JAX: Final = re.compile(r"[\\/]jax[\\/]_src[\\/]")


# Calls ------------------------------------------------------------------------------------------------------------


#: Primitives that call a jaxpr.
CALLS: Final = (
    *("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2", "composite"),
    "custom_vmap_call",
)


def called_jaxpr(params: Mapping[str, Any]) -> tuple[Any, Sequence[Any]]:
    """Return the jaxpr that a call has among its parameters, and its constants."""
    inner = next(params[name] for name in ("jaxpr", "call_jaxpr", "call") if name in params)
    return (inner.jaxpr, inner.consts) if isinstance(inner, ClosedJaxpr) else (inner, [])


@records(*CALLS)
def _call(call: Equation, *operands: Any) -> Any:
    jaxpr, constants = called_jaxpr(call.params)
    if all(map(is_constant, operands)) and not folds_by_numpy(jaxpr):
        return by_jax(call.equation, operands)
    replacement = library_function(ClosedJaxpr(jaxpr, constants))
    return evaluated(jaxpr, constants, operands) if replacement is None else [replacement(*operands)]


def library_function(function: Any) -> Callable[..., Any] | None:
    """Return the NumPy or SciPy function with the name and sampled values of a JAX function; None if there is none."""
    if not isinstance(function, ClosedJaxpr):
        return None
    name, _, file = str(getattr(function.jaxpr.debug_info, "func_src_info", "")).partition(" at ")
    replacement = _KNOWN.get(name)
    if replacement is None or not _OF_JAX.search(file):
        return None
    variables = function.jaxpr.invars
    if len(variables) != getattr(replacement, "nin", 1) or any(
        variable.aval.dtype.kind != "f" for variable in variables
    ):
        return None
    for point in zip((0.7, 2.5, 0.0), (-0.4, 2.5, 3.0), strict=True):
        tried = [np.full(each.aval.shape, x, each.aval.dtype) for each, x in zip(variables, point, strict=False)]
        (result,) = evaluated(function.jaxpr, function.consts, tried)
        if not np.allclose(result, replacement(*tried), rtol=1e-5, atol=1e-6, equal_nan=True):
            return None
    return replacement


def folds_by_numpy(jaxpr: Any) -> bool:
    """Return True if NumPy can evaluate a jaxpr on constants, without compilation by JAX."""
    return all(
        (row := PRIMITIVES.get(equation.primitive.name)) is not None
        and row.folds
        and all(map(folds_by_numpy, inner_jaxprs(equation)))
        for equation in jaxpr.eqns
    )


# Branches ---------------------------------------------------------------------------------------------------------


@records("cond", folds=False)
def _cond(call: Equation, which: Any, *operands: Any) -> Any:
    branches = call.params["branches"]
    if is_constant(which):
        chosen = branches[int(np.clip(int(which), 0, len(branches) - 1))]
        return evaluated(chosen.jaxpr, chosen.consts, operands)
    results = [evaluated(branch.jaxpr, branch.consts, operands) for branch in branches]
    joined = results[0]
    for number, result in enumerate(results[1:], 1):
        condition = _truth_of(call.tape, which) if len(branches) == 2 else np.greater_equal(which, number)
        joined = [
            one if one is other else np.where(condition, other, one) for one, other in zip(joined, result, strict=True)
        ]
    return joined


def _truth_of(tape: Any, number: Any) -> Any:
    """Return the traced truth of a number: the condition that it was converted from, else ``number != 0``."""
    reference = int(number.references.reshape(-1)[0])
    if reference >= tape.inputs and tape.operation(reference).name == "select":
        truth, one, zero = tape.arguments(reference)
        if one < 0 and zero < 0 and (tape.value_of(one), tape.value_of(zero)) == (1.0, 0.0):
            return TracedArray(tape, np.asarray(truth, np.int64), boolean=True)
    return np.not_equal(number, 0.0)


# Loops ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop with a constant number of steps."""

    call: Equation
    # jaxpr and constants of one step, which takes the shared values, the state, and an entry of `xs`
    jaxpr: Any
    constants: Sequence[Any]
    shared: list[Any]  # values that all steps share
    begin: list[Any]  # the initial state
    xs: list[Any]  # arrays with an entry for each step
    length: int
    reverse: bool
    # values of the state that does not depend on the arguments, by position: before each step, then at the end
    tables: dict[int, list[Any]]

    @property
    def order(self) -> range:
        """Indices of the entries of `xs`, in the order of the steps."""
        return range(self.length)[::-1] if self.reverse else range(self.length)


@records("scan", folds=False)
def _scan(call: Equation, *operands: Any) -> Any:
    shared, carried = call.params["num_consts"], call.params["num_carry"]
    closed, length = call.params["jaxpr"], call.params["length"]
    parts = list(operands[:shared]), list(operands[shared : shared + carried]), list(operands[shared + carried :])
    loop = _Loop(call, closed.jaxpr, closed.consts, *parts, length, call.params["reverse"], {})
    independent = _independent_state(closed.jaxpr, *parts)
    loop.tables.update(_tables(loop, independent))
    return _run(loop)


@records("while", folds=False)
def _while(call: Equation, *operands: Any) -> Any:
    of_condition, of_body = call.params["cond_nconsts"], call.params["body_nconsts"]
    condition, body = call.params["cond_jaxpr"], call.params["body_jaxpr"]
    condition_operands, shared = list(operands[:of_condition]), list(operands[of_condition : of_condition + of_body])
    begin = list(operands[of_condition + of_body :])
    independent = _independent_state(body.jaxpr, shared, begin, [])
    unknown = _not_constant(condition.jaxpr.invars, condition_operands)
    unknown |= {v for k, v in enumerate(condition.jaxpr.invars[of_condition:]) if k not in independent}
    (answer,) = condition.jaxpr.outvars
    if answer.aval.shape or (not isinstance(answer, Literal) and answer in _dependent(condition.jaxpr, unknown)):
        return _run_as_at_point(condition, condition_operands, body, shared, begin)
    used = sorted(independent)
    step = body.jaxpr.replace(outvars=[body.jaxpr.outvars[k] for k in used])
    tables: dict[int, list[Any]] = {k: [begin[k]] for k in used}
    length = 0
    while bool(
        evaluated(condition.jaxpr, condition.consts, [*condition_operands, *_at_step(begin, tables, length)])[0]
    ):
        values = evaluated(step, body.consts, [*shared, *_at_step(begin, tables, length)])
        for k, value in zip(used, values, strict=True):
            tables[k].append(value)
        length += 1
        if length > MOST_STEPS:
            raise refuse(f"A while loop makes more than {MOST_STEPS:,} steps, the most that are recorded.")
    return _run(_Loop(call, body.jaxpr, body.consts, shared, begin, [], length, False, tables))


def _run_as_at_point(
    condition: ClosedJaxpr, condition_operands: list[Any], body: ClosedJaxpr, shared: list[Any], state: list[Any]
) -> Any:
    """Return the final state of a loop that runs as many steps as at the given point, which are kept as guards.

    If `jax.vmap` runs several loops at once, each continues as long as its own condition holds.
    """
    steps = 0
    while True:
        (answer,) = evaluated(condition.jaxpr, condition.consts, [*condition_operands, *state])
        if is_constant(answer):
            holds = np.asarray(answer, bool)
        else:
            decided = [truth(answer.tape, int(entry)) for entry in np.ravel(answer.references)]
            holds = np.reshape(decided, np.shape(answer))
        if not holds.any():
            return state
        following = evaluated(body.jaxpr, body.consts, [*shared, *state])
        state = [_continued(holds, *pair) for pair in zip(following, state, strict=True)]
        steps += 1
        if steps > MOST_STEPS:
            raise refuse(f"A while loop makes more than {MOST_STEPS:,} steps, the most that are recorded.")


def _continued(holds: Any, following: Any, before: Any) -> Any:
    """Return the new state of loops that continue, and the old state of loops that have ended."""
    return (
        following
        if holds.all()
        else np.where(holds.reshape(holds.shape + (1,) * (np.ndim(before) - holds.ndim)), following, before)
    )


def _independent_state(jaxpr: Any, shared: list[Any], begin: list[Any], xs: list[Any]) -> set[int]:
    """Return the positions in the state that do not depend on the function's arguments at any step."""
    state_variables = jaxpr.invars[len(shared) : len(shared) + len(begin)]
    independent = {k for k, value in enumerate(begin) if is_constant(value)}
    unknown = _not_constant(jaxpr.invars, shared) | _not_constant(jaxpr.invars[len(shared) + len(begin) :], xs)
    while True:
        dependent = _dependent(jaxpr, unknown | {v for k, v in enumerate(state_variables) if k not in independent})
        left = {k for k in independent if isinstance(jaxpr.outvars[k], Literal) or jaxpr.outvars[k] not in dependent}
        if left == independent:
            return independent
        independent = left


def _not_constant(variables: Sequence[Any], values: Sequence[Any]) -> set[Any]:
    """Return the variables whose values depend on the function's arguments."""
    return {variable for variable, value in zip(variables, values, strict=False) if not is_constant(value)}


def _dependent(jaxpr: Any, unknown: set[Any]) -> set[Any]:
    """Return the unknown variables and all variables that depend on them."""
    dependent = set(unknown)
    for equation in jaxpr.eqns:
        if any(not isinstance(atom, Literal) and atom in dependent for atom in equation.invars):
            dependent.update(equation.outvars)
    return dependent


def _at_step(begin: list[Any], tables: dict[int, list[Any]], step: int) -> list[Any]:
    """Return the state before a step; parts without tables have their initial values."""
    return [tables[k][step] if k in tables else value for k, value in enumerate(begin)]


def _tables(loop: _Loop, independent: set[int]) -> dict[int, list[Any]]:
    """Return the values of the independent parts of the state, before each step and after the last."""
    used = sorted(independent)
    tables: dict[int, list[Any]] = {k: [loop.begin[k]] for k in used}
    changing = []
    for k in used:
        increment = _increment(loop, k)
        if increment is None:
            changing.append(k)
        else:
            begin = loop.begin[k]
            tables[k] = [np.asarray(begin + step * increment, begin.dtype) for step in range(loop.length + 1)]
    if changing:
        body = loop.jaxpr.replace(outvars=[loop.jaxpr.outvars[k] for k in changing])
        for step, entry in enumerate(loop.order):
            xs = [np.asarray(x[entry]) if is_constant(x) else x for x in loop.xs]
            values = evaluated(body, loop.constants, [*loop.shared, *_at_step(loop.begin, tables, step), *xs])
            for k, value in zip(changing, values, strict=True):
                tables[k].append(value)
    return tables


def _increment(loop: _Loop, position: int) -> Any:
    """Return the constant increment of an integer in the state; None if it has none."""
    out = loop.jaxpr.outvars[position]
    variable = loop.jaxpr.invars[len(loop.shared) + position]
    if out is variable:
        return 0
    if variable.aval.dtype.kind not in "iu" or isinstance(out, Literal):
        return None
    for equation in loop.jaxpr.eqns:
        if out in equation.outvars:
            atoms = equation.invars
            if equation.primitive.name == "add" and atoms[0] is variable and isinstance(atoms[1], Literal):
                return np.asarray(atoms[1].val)
    return None


def _run(loop: _Loop) -> list[Any]:
    jaxpr, carried = loop.jaxpr, len(loop.begin)
    if not loop.length:
        empty = [np.zeros((0, *v.aval.shape), v.aval.dtype) for v in jaxpr.outvars[carried:]]
        return [*loop.begin, *empty]
    inside, outside = _indexed(loop)
    if inside:
        return _written_out(loop)
    taken = _taken_out(loop, outside)
    unknown = [k for k in range(carried) if k not in loop.tables]
    tabulated = [(k, np.stack(loop.tables[k][:-1])) for k in sorted(loop.tables)]
    if loop.reverse:
        tabulated = [(k, table[::-1]) for k, table in tabulated]
    extra = [variable for equation in outside for variable in equation.outvars]
    invars = [*jaxpr.invars, *extra]
    rest = [equation for equation in jaxpr.eqns if all(equation is not other for other in outside)]
    body = jaxpr.replace(invars=invars, eqns=rest)
    avals = [variable.aval for variable in invars]

    def step(carry: list[Any], entry: Any) -> Any:
        entries, tables, hoisted = ((), (), ()) if entry is None else entry
        state: list[Any] = [None] * carried
        for k, value in zip(unknown, carry, strict=True):
            state[k] = value
        for (k, _), value in zip(tabulated, tables, strict=True):
            state[k] = value
        operands = [*loop.shared, *state, *entries, *hoisted]
        values = [value_of(ACTIVE.tape, value, aval) for value, aval in zip(operands, avals, strict=True)]
        results = evaluated(body, loop.constants, values)
        return [results[k] for k in unknown], (tuple(results[carried:]) if len(results) > carried else None)

    xs = (tuple(loop.xs), tuple(table for _, table in tabulated), tuple(taken))
    given_xs = xs if any(xs) else None
    try:
        carry, outputs = scan(step, [loop.begin[k] for k in unknown], given_xs, loop.length, loop.reverse)
    except LongBodyError:
        return _written_out(loop)
    last = [loop.tables[k][-1] if k in loop.tables else None for k in range(carried)]
    for k, value in zip(unknown, carry, strict=True):
        last[k] = value
    return [*last, *(outputs or ())]


def _indexed(loop: _Loop) -> tuple[list[Any], list[Any]]:
    """Return the equations with indices that are known at each step: into changing arrays, and into constant ones."""
    jaxpr, shared = loop.jaxpr, len(loop.shared)
    stays = {*jaxpr.invars[:shared], *jaxpr.constvars}
    state_variables = jaxpr.invars[shared : shared + len(loop.begin)]
    per_step = {v for k, v in enumerate(state_variables) if k in loop.tables}
    of_xs = jaxpr.invars[shared + len(loop.begin) :]
    per_step |= {v for v, x in zip(of_xs, loop.xs, strict=True) if is_constant(x)}
    unknown = _not_constant(jaxpr.invars, loop.shared) | _not_constant(of_xs, loop.xs)
    unknown |= {v for k, v in enumerate(state_variables) if k not in loop.tables}
    varying, dependent = _dependent(jaxpr, per_step), _dependent(jaxpr, unknown)
    inside: list[Any] = []
    outside: list[Any] = []
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name in INDEXED:
            indices = [a for a in equation.invars[INDEXED[name] :] if not isinstance(a, Literal)]
            if name.startswith("scatter"):
                indices = indices[:1]
            if not any(a in varying for a in indices) or any(a in dependent for a in indices):
                continue
            array = equation.invars[0]
            is_hoisted = name in ("dynamic_slice", "gather") and (isinstance(array, Literal) or array in stays)
            (outside if is_hoisted else inside).append(equation)
        elif _asks_for_numbers(equation) and any(
            not isinstance(a, Literal) and a in varying and a not in dependent for a in equation.invars
        ):
            inside.append(equation)
    return inside, outside


def _asks_for_numbers(equation: Any) -> bool:
    """Return True if an equation, or one inside of it, needs plain numbers: as indices, or to count steps."""
    if equation.primitive.name == "while" or equation.primitive.name in INDEXED:
        return True
    return any(_asks_for_numbers(inner) for jaxpr in inner_jaxprs(equation) for inner in jaxpr.eqns)


def _step_arguments(loop: _Loop, step: int, entry: int) -> list[Any]:
    """Return the known arguments of a step; other parts of the state have their initial values."""
    xs = [
        value_of(loop.call.tape, x[entry], variable.aval)
        for x, variable in zip(loop.xs, loop.jaxpr.invars[len(loop.shared) + len(loop.begin) :], strict=True)
    ]
    return [*loop.shared, *_at_step(loop.begin, loop.tables, step), *xs]


def _taken_out(loop: _Loop, equations: list[Any]) -> list[Any]:
    """Return the results of equations that are taken out of the loop, for all steps, in the order of the entries."""
    if not equations:
        return []
    body = loop.jaxpr.replace(outvars=[variable for equation in equations for variable in equation.outvars])
    results = [evaluated(body, loop.constants, _step_arguments(loop, k, entry)) for k, entry in enumerate(loop.order)]
    if loop.reverse:
        results.reverse()
    return [np.stack(column) for column in zip(*results, strict=True)]


def _written_out(loop: _Loop) -> list[Any]:
    """Record a loop step by step, with plain numbers where they are known."""
    carried, shared = len(loop.begin), len(loop.shared)
    state, outputs = list(loop.begin), []
    for step, entry in enumerate(loop.order):
        operands = _step_arguments(loop, step, entry)
        for k in range(carried):
            if k not in loop.tables:
                operands[shared + k] = state[k]
        results = evaluated(loop.jaxpr, loop.constants, operands)
        state = results[:carried]
        outputs.append(results[carried:])
    if loop.reverse:
        outputs.reverse()
    return [*state, *(np.stack(column) for column in zip(*outputs, strict=True))]
