"""Functions with rules for their derivatives: jax.custom_jvp and jax.custom_vjp.

As in JAX, the rules define the derivatives; many exist because the derivative of the program is wrong where branches
meet. A rule is recorded for a direction t that has the value 0 and the derivative of x
(`accumulus.tape.live.direction`). Since the rule is linear in t, its result has the value 0 and the derivative that the
rule defines; it is attached to the value. A derivative of the derivative differentiates the coefficients of t, which
have the derivatives of their own rules.

**Linearity is proved** from the equations of the rule: results are sums of products of t with values that do not
depend on t. Samples prove nothing: a rule that clips its cotangent at 10⁶ is linear wherever it is tried. A rule
without this proof is refused, since it defines no Jacobian: JAX's gradient then depends on the order in which the chain
rule is evaluated.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import starmap
from types import FunctionType
from typing import Any, Final

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from accumulus.frontends.active import ACTIVE, refuse
from accumulus.frontends.jax.control import CALLS, called_jaxpr, folds_by_numpy, library_function
from accumulus.frontends.jax.equations import (
    Equation,
    by_jax,
    code_position,
    evaluated,
    inner_jaxprs,
    is_constant,
    is_used,
    needed_equations,
    records,
    single,
    values_of,
)
from accumulus.frontends.jax.moving import sum_of_products
from accumulus.frontends.numpy.arrays import TracedArray
from accumulus.frontends.numpy.elementwise import ELEMENTWISE, apply
from accumulus.frontends.numpy.operands import references_of
from accumulus.tape.live import NO_RULE, REST

#: Maximum number of result entries of a function with a custom_vjp, whose rule is recorded for each entry: more make
#: long programs, fewer refuse functions that could be recorded.
MOST_ENTRIES: Final = 256
#: Maximum number of rules within rules that are recorded, each for one more order of differentiation. With more, first
#: calls take longer, whatever their order; with none, second derivatives are refused where a rule calls functions with
#: rules.
MOST_NESTED: Final = 1


#: Functions whose rules are the derivatives of their operations; these take the place of rules that are not recorded.
_OF_SPECIAL: Final = re.compile(r"[\\/]jax[\\/]_src[\\/]scipy[\\/]special")
#: Transformations of JAX that do not change what a rule computes.
_PLAIN: Final = frozenset(("_flatten_jvp", "_flatten_fwd", "_flatten_bwd"))


class _Within(threading.local):
    rules: int = 0


_WITHIN: Final = _Within()


@contextmanager
def _within_rule() -> Iterator[None]:
    _WITHIN.rules += 1
    try:
        yield
    finally:
        _WITHIN.rules -= 1


@records("custom_jvp_call")
def _custom_jvp(call: Equation, *operands: Any) -> Any:
    closed = call.params["call_jaxpr"]
    if all(map(is_constant, operands)):
        if folds_by_numpy(closed.jaxpr):
            return evaluated(closed.jaxpr, closed.consts, operands)
        return by_jax(call.equation, operands)
    replacement = library_function(closed)
    if replacement is not None:
        return [replacement(*operands)]
    return _with_rule(call, closed, operands, is_forward=True)


@records("custom_vjp_call", "custom_vjp_call_jaxpr")
def _custom_vjp(call: Equation, *operands: Any) -> Any:
    closed = call.params.get("call_jaxpr", call.params.get("fun_jaxpr"))
    return _with_rule(call, closed, operands, is_forward=False)


def _with_rule(call: Equation, closed: ClosedJaxpr, operands: Any, *, is_forward: bool) -> list[Any]:
    """Return the results of a function with the derivatives of its rule; integers and truth values have none."""
    values = evaluated(closed.jaxpr, closed.consts, operands)
    refusal, slopes = ACTIVE.refusal, None
    try:
        if _WITHIN.rules <= MOST_NESTED:
            rule = _Rule.of(call, operands, is_forward=is_forward)
            values, slopes = rule.recorded(values) if rule.has_derivatives else (values, {})
    except Exception:  # errors of the rule's own code, too
        if not _WITHIN.rules:
            raise
        ACTIVE.refusal = refusal
    if slopes is None:
        slopes = {} if _OF_SPECIAL.search(_source_of(closed)) else _refused_slopes(call, operands)
    for k, slope in slopes.items():
        values[k] = _attached(call, values[k], slope)
    return values


@dataclass(frozen=True, slots=True)
class _Rule:
    """The rule of a function for a call of it."""

    call: Equation
    function: Callable[..., list[Any]]  # the call as a function of the traced real operands, of JAX
    active: list[Any]  # variables of these operands
    operands: list[Any]  # their values
    results: list[int]  # positions of the real results that are used
    is_forward: bool

    @classmethod
    def of(cls, call: Equation, operands: Any, *, is_forward: bool) -> _Rule:
        """Return the rule.

        Raises:
            TraceError: for traced operands that are no real numbers.
        """
        closed, bindings = single(call.equation), values_of(call.equation, operands)
        active = [v for v in closed.jaxpr.invars if not is_constant(bindings[v]) and v.aval.dtype.kind == "f"]
        if any(not is_constant(bindings[v]) and v not in active for v in closed.jaxpr.invars):
            raise refuse(
                "A function with a custom derivative (jax.custom_jvp, jax.custom_vjp) receives integers or booleans "
                "that depend on the arguments of the recorded function, which is not supported."
            )
        used = [k for k, variable in enumerate(call.equation.outvars) if is_used(variable)]
        results = [k for k in used if call.kinds[k] == "f"]

        def function(*primals: Any) -> list[Any]:
            values = {**bindings, **dict(zip(active, primals, strict=True))}
            made = jaxpr_as_fun(closed)(*(values[v] for v in closed.jaxpr.invars))
            return [made[used.index(k)] for k in results]

        return cls(call, function, active, [bindings[v] for v in active], results, is_forward)

    @property
    def has_derivatives(self) -> bool:
        """True if there are real results and operands."""
        return bool(self.results) and any((x.references >= 0).any() for x in self.operands)

    def recorded(self, values: list[Any]) -> tuple[list[Any], dict[int, Any]]:
        """Return the results of the call, and the derivatives of the real ones by position.

        Raises:
            TraceError: if the rule is not shown to be linear, or cannot be recorded.
        """
        count, shapes = len(self.results), [_shape_of(v) for v in self.active]
        sides = shapes if self.is_forward else [_shape_of(self.call.equation.outvars[k]) for k in self.results]
        rule = jax.make_jaxpr(self._applied)(shapes, sides)
        if _has_rules(rule.jaxpr):
            with jax.ensure_compile_time_eval():  # static arguments of inner functions are numbers
                rule = jax.make_jaxpr(self._applied)(shapes, sides)
        _check_linear(self.call, _returning(rule.jaxpr, slice(count, None)), rule.consts, len(shapes), self.is_forward)
        primal = _returning(rule.jaxpr, slice(count))
        again = self._calls_itself(rule)
        slopes = _returning(rule.jaxpr, slice(count, None)), rule.consts
        if not self.is_forward:
            slopes = self._of_unit_cotangents(shapes)
        operands = self.operands
        if _has_rules(slopes[0]) or (not again and _has_rules(primal)):
            operands = [_attached(self.call, x, _attached(self.call, x, x)) for x in operands]
        directions = [_attached(self.call, np.full(x.shape, REST), x) for x in self.operands]
        with _within_rule():
            if self.is_forward:
                derivatives = evaluated(*slopes, [*operands, *directions])
            else:
                derivatives = self._of_rows(evaluated(*slopes, operands), directions)
            if not again:  # derivatives of the derivatives go through the values as the rule computes them
                inside = evaluated(primal, rule.consts, [*operands, *(np.zeros(side.shape) for side in sides)])
                values = [*values]
                for k, value in zip(self.results, inside, strict=True):
                    values[k] = value
        moving = [self._moving(slope, always=again) for slope in derivatives]
        slopes_within = moving if again else [_attached(self.call, slope, slope) for slope in moving]
        return values, dict(zip(self.results, slopes_within, strict=True))

    def _moving(self, slope: Any, *, always: bool) -> Any:
        """Return a derivative whose zeros are those of this order alone, or of every order if `always`.

        Operations on arrays may turn out to be zeros later, when they are written out entry by entry.
        """
        tape, references = self.call.tape, references_of(self.call.tape, slope)
        constant, in_loops = references < 0, tape.in_loops(0)
        if not (constant.any() or in_loops):
            return slope
        one = tape.constant(1.0)  # attach(x, 1) has no derivatives
        entry = next(r for x in self.operands for r in x.references.flat if r >= 0)
        moving = int(tape.apply("attach", tape.constant(REST), tape.apply("attach", int(entry), one)))
        if in_loops and not constant.all():
            references = tape.apply("add", references, moving)
        return TracedArray(tape, np.where(constant, one if always else moving, references))

    def _applied(self, x: Sequence[Any], side: Sequence[Any]) -> tuple[list[Any], Any]:
        """Return the results and the derivatives along tangents, or weighted by cotangents, as the rule has them."""
        if self.is_forward:
            values, slopes = jax.jvp(self.function, tuple(x), tuple(side))
            return values, slopes
        values, pulled_back = jax.vjp(self.function, *x)
        return values, pulled_back(list(side))

    def _of_unit_cotangents(self, shapes: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Return the rule of a custom_vjp for each result entry, as a jaxpr and its constants."""
        sizes = [math.prod(self.call.shapes[k]) for k in self.results]
        count = sum(sizes)
        if count > MOST_ENTRIES:
            raise refuse(
                f"A function with a jax.custom_vjp returns {count} entries; its rule is recorded once for each of "
                f"them, at most {MOST_ENTRIES} times. Use a jax.custom_jvp, whose rule is recorded once for all "
                "entries."
            )
        units = np.split(np.eye(count), np.cumsum(sizes)[:-1], axis=1)
        kinds = [self.call.equation.outvars[k].aval for k in self.results]
        chosen = [unit.reshape(count, *aval.shape).astype(aval.dtype) for unit, aval in zip(units, kinds, strict=True)]
        with jax.ensure_compile_time_eval():
            rows = jax.make_jaxpr(lambda *x: jax.vmap(jax.vjp(self.function, *x)[1])(chosen))(*shapes)
        return rows.jaxpr, rows.consts

    def _of_rows(self, rows: Sequence[Any], directions: Sequence[Any]) -> list[Any]:
        """Return the derivatives of the results by the rows of their Jacobian."""
        total: Any = 0.0
        for row, direction in zip(rows, directions, strict=True):
            operands = [(np.reshape(row, (len(row), -1)), "ab"), (np.reshape(direction, -1), "b")]
            total = np.add(total, sum_of_products(self.call, operands, "a"))
        ends = np.cumsum([0, *(math.prod(self.call.shapes[k]) for k in self.results)])
        return [np.reshape(total[ends[j] : ends[j + 1]], self.call.shapes[k]) for j, k in enumerate(self.results)]

    def _calls_itself(self, rule: ClosedJaxpr) -> bool:
        """Return True if the rule computes the values by the same function with the same rule."""
        outvars = rule.jaxpr.outvars[: len(self.results)]
        outer = self.call.equation
        inner = next((each for each in rule.jaxpr.eqns if outvars[0] in each.outvars), None)
        if inner is None or inner.primitive is not outer.primitive:
            return False
        if (len(inner.invars), len(inner.outvars)) != (len(outer.invars), len(outer.outvars)):
            return False
        place = dict(zip(self.active, rule.jaxpr.invars, strict=False))
        functions = _functions_of(outer.params)

        def is_same(one: Any, other: Any) -> bool:
            if isinstance(other, Literal):
                return isinstance(one, Literal) and np.array_equal(one.val, other.val)
            return not isinstance(one, Literal) and one is place.get(other)

        return (
            [*outvars] == [inner.outvars[k] for k in self.results]
            and all(starmap(is_same, zip(inner.invars, outer.invars, strict=True)))
            and functions is not None
            and functions == _functions_of(inner.params)
            and str(outer.params.get("call_jaxpr")) == str(inner.params.get("call_jaxpr"))
        )


def _shape_of(variable: Any) -> Any:
    return jax.ShapeDtypeStruct(variable.aval.shape, variable.aval.dtype)


def _returning(jaxpr: Any, results: slice) -> Any:
    """Return a jaxpr with some of the results."""
    return jaxpr.replace(outvars=jaxpr.outvars[results])


def _has_rules(jaxpr: Any) -> bool:
    """Return True if a jaxpr calls functions with rules."""
    return any(
        equation.primitive.name.startswith(("custom_jvp_call", "custom_vjp_call"))
        or any(map(_has_rules, inner_jaxprs(equation)))
        for equation in needed_equations(jaxpr)
    )


def _functions_of(params: Any) -> list[Any] | None:
    """Return the user's functions of a rule; None if these are not all that the rule depends on."""
    found: list[Any] = []
    waiting = [params[name] for name in ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd") if name in params]
    while waiting:
        each = waiting.pop()
        if hasattr(each, "transforms"):  # a function of JAX with transformations, by name with their parameters
            if not {function.__name__ for function, *_ in each.transforms} <= _PLAIN:
                return None
            waiting.append(each.f)
            continue
        is_jax = isinstance(each, FunctionType) and each.__module__.startswith("jax._src.")
        cells = [cell.cell_contents for cell in each.__closure__ or ()] if is_jax else []
        called = [cell for cell in cells if hasattr(cell, "transforms") or _is_interpreter(cell)]
        waiting += called
        found += [] if called else [each]
    return found or None


def _is_interpreter(each: Any) -> bool:
    """Return True for a function of JAX's interpreters, which calls a rule."""
    return isinstance(each, FunctionType) and each.__module__.startswith("jax._src.interpreters")


def _refused_slopes(call: Equation, operands: Any) -> dict[int, Any]:
    """Return values for the real results, whose derivatives with respect to every operand are refused."""
    entries = [x.references.reshape(-1) for x in operands if not is_constant(x) and not x.boolean]
    references = np.unique(np.concatenate([np.empty(0, np.int64), *entries]))
    depends = TracedArray(call.tape, references[references >= 0])
    if not depends.size:
        return {}
    no_rule = np.sum(_attached(call, np.full(depends.shape, NO_RULE), depends))
    return {k: np.broadcast_to(no_rule, call.shapes[k]) for k, kind in enumerate(call.kinds) if kind == "f"}


def _attached(call: Equation, value: Any, slope: Any) -> Any:
    """Return a value with the derivative of `slope` in place of its own."""
    return apply(call.tape, ELEMENTWISE["attach"], [value, slope])


# Proof of linearity ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Nonlinear:
    """State of a value that is not shown to be linear in the directions."""

    equation: Any  # the equation that made it


#: State of a value: it does not depend on the directions; it is 0; its entries are linear functions of the directions.
State = str | _Nonlinear
_FREE, _ZERO, _LINEAR = "free", "zero", "linear"
#: Primitives that are linear in some operands together, if they have no direction among the others → these operands.
_LINEAR_IN: Final[dict[str, slice]] = {
    **dict.fromkeys(("add", "add_any", "sub", "concatenate", "stack", "pad"), slice(None)),
    **dict.fromkeys(("neg", "copy", "copy_p", "convert_element_type", "reduce_sum", "cumsum"), slice(1)),
    **dict.fromkeys(("reduce_window_sum", "broadcast_in_dim", "reshape", "squeeze", "expand_dims"), slice(1)),
    **dict.fromkeys(("transpose", "rev", "tile", "slice", "split", "unstack", "gather", "dynamic_slice"), slice(1)),
    **dict.fromkeys(("div", "scatter-mul", "scatter_mul"), slice(1)),
    **dict.fromkeys(("scatter", "scatter-add", "scatter_add", "scatter-sub", "scatter_sub"), slice(0, 3, 2)),
    "dynamic_update_slice": slice(2),
    "select_n": slice(1, None),
    "triangular_solve": slice(1, None),
}
#: Primitives that are linear in either operand, if the other does not depend on the directions.
_BILINEAR: Final = frozenset(("mul", "dot_general", "conv_general_dilated"))


def _check_linear(call: Equation, rule: Any, constants: Sequence[Any], fixed: int, is_forward: bool) -> None:
    """Refuse a rule whose results are not shown to be linear in its last operands.

    Args:
        call: call of the function.
        rule: jaxpr of the rule.
        constants: values of its constants.
        fixed: number of leading operands, on which the results may depend in any way.
        is_forward: True for tangents, False for cotangents.

    Raises:
        TraceError: if there is no proof.
    """
    operands = [_FREE] * fixed + [_LINEAR] * (len(rule.invars) - fixed)
    for state in _states(rule, constants, operands):
        if state in (_LINEAR, _ZERO):
            continue
        kind, of = ("jax.custom_jvp", "tangents") if is_forward else ("jax.custom_vjp", "cotangents")
        if isinstance(state, _Nonlinear):
            position = code_position(state.equation)
            at = "" if position is None else f" in line {position.line}, {position.source.strip()!r}"
            why = f"it applies {state.equation.primitive.name} to them{at}"
        else:
            why = "a result is not 0 where they are"
        raise refuse(
            f"The rule of {_name_of(call)} ({kind}) is not shown to be linear in its {of}: {why}. A derivative is "
            f"linear: multiply the {of} by values that do not depend on them, add such products, and choose between "
            "them (jnp.where) by other values only. To clip or round a gradient, change the gradient of the whole "
            "function: np.clip(acc.gradient(f)(x), …). To apply the rule to the cotangents of JAX's own reverse mode, "
            "record jax.grad(f)."
        )


def _name_of(call: Equation) -> str:
    """Return the name of a function with a rule."""
    closed = call.params.get("call_jaxpr", call.params.get("fun_jaxpr"))
    return _source_of(closed).partition(" at ")[0] or "the function"


def _source_of(closed: ClosedJaxpr) -> str:
    """Return the name, file and line of a function; empty if unknown."""
    return str(getattr(closed.jaxpr.debug_info, "func_src_info", None) or "")


def _states(jaxpr: Any, constants: Sequence[Any], operands: Sequence[State]) -> list[State]:
    """Return the states of a jaxpr's results for given states of its operands."""
    known: dict[Any, State] = {v: _of_number(c) for v, c in zip(jaxpr.constvars, constants, strict=True)}
    known.update(zip(jaxpr.invars, operands, strict=True))

    def read(atom: Any) -> State:
        return _of_number(atom.val) if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        known.update(zip(equation.outvars, _results(equation, [read(a) for a in equation.invars]), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _of_number(value: Any) -> State:
    number = hasattr(value, "dtype") and jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended)
    return _FREE if number or np.asarray(value).any() else _ZERO


def _results(equation: Any, operands: list[State]) -> list[State]:
    """Return the states of an equation's results."""
    name, params, count = equation.primitive.name, equation.params, len(equation.outvars)
    if name in CALLS:
        inner, constants = called_jaxpr(params)
        return _states(inner, constants, operands)
    if name == "cond":
        which, *others = operands
        branches = [_states(branch.jaxpr, branch.consts, others) for branch in params["branches"]]
        if which not in (_FREE, _ZERO):
            return [_Nonlinear(equation)] * count
        return [_joined(equation, states) for states in zip(*branches, strict=True)]
    if name == "scan":
        first, second = params["num_consts"], params["num_consts"] + params["num_carry"]
        return _repeated(equation, params["jaxpr"], operands[:first], operands[first:second], operands[second:])
    if name == "while":
        first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
        condition, shared, begin = operands[:first], operands[first:second], operands[second:]
        state = _repeated(equation, params["body_jaxpr"], shared, begin, [])
        closed = params["cond_jaxpr"]
        (answer,) = _states(closed.jaxpr, closed.consts, [*condition, *state])
        return state if answer in (_FREE, _ZERO) else [_Nonlinear(equation)] * count
    return [_result(equation, name, operands)] * count


def _repeated(
    equation: Any, body: ClosedJaxpr, shared: Sequence[State], begin: Sequence[State], xs: Sequence[State]
) -> list[State]:
    """Return the states of a loop's last values and of its outputs for each step: states that all steps have."""
    states = list(begin)
    while True:
        results = _states(body.jaxpr, body.consts, [*shared, *states, *xs])
        after = [_joined(equation, pair) for pair in zip(states, results, strict=False)]
        if after == states:
            return [*states, *results[len(states) :]]
        states = after


def _joined(equation: Any, states: Sequence[State]) -> State:
    """Return the state of a value that is one of several."""
    other = next((state for state in states if isinstance(state, _Nonlinear)), None)
    if other is not None:
        return other
    kinds = {*states} - {_ZERO}
    return _ZERO if not kinds else kinds.pop() if len(kinds) == 1 else _Nonlinear(equation)


def _result(equation: Any, name: str, operands: list[State]) -> State:
    """Return the state of the results of an equation without inner jaxprs."""
    other = next((state for state in operands if isinstance(state, _Nonlinear)), None)
    if other is not None:
        return other
    if name in _BILINEAR:
        if _ZERO in operands:
            return _ZERO
        return _FREE if _LINEAR not in operands else _LINEAR if _FREE in operands else _Nonlinear(equation)
    if name == "custom_linear_solve":
        constants = sum(equation.params["const_lengths"])
        fixed = _LINEAR not in operands[:constants]
        return _joined(equation, operands[constants:]) if fixed else _Nonlinear(equation)
    linear = range(len(operands))[_LINEAR_IN.get(name, slice(0))]
    among = [operands[k] for k in linear]
    if _LINEAR not in operands:
        return _ZERO if among and set(among) == {_ZERO} else _FREE
    is_real = all(v.aval.dtype.kind == "f" for v in equation.outvars)
    fixed = all(state != _LINEAR for k, state in enumerate(operands) if k not in linear)
    return _LINEAR if among and fixed and is_real and _FREE not in among else _Nonlinear(equation)
