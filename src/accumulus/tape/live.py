"""Operations of a tape that are needed, that must be rounded as recorded, or that depend on signs of zeros.

Signs of zeros matter to arctan2, which is π or -π depending on the sign of a zero. They therefore matter to the
operations that compute its arguments, back to functions that are the same at 0 and at -0, like cos. Builders with
`signed_zeros` have to record such operations whenever they are recorded on a new tape. Everywhere else, including
derivatives, zeros have no sign.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.native.state import Integers
from accumulus.tape.compiled.passes_kernel import SIGNED, TAKE
from accumulus.tape.operations import BY_NAME, OPERATIONS, TIME
from accumulus.tape.passes import extended, moved, rows_of, spread
from accumulus.tape.tape import Tape

#: Codes of the operations that depend on signs of zeros.
SEES_ZERO_SIGNS: Final = frozenset(code for code, row in enumerate(OPERATIONS) if row.zero_signs == "seen")
_SEES_ZERO_SIGNS: Final = np.array([code in SEES_ZERO_SIGNS for code in range(len(OPERATIONS))])
_COMPARISONS: Final = frozenset(row.code for row in OPERATIONS if row.jumps and row.result == "boolean")
_JUMPS: Final = np.array([operation.jumps for operation in OPERATIONS]) | _SEES_ZERO_SIGNS
#: Arguments through which the sign of a zero reaches a result.
_HANDS_ON: Final = np.array(
    [
        [k < row.arity and row.arguments[k] == "real" and row.zero_signs != "lost" for k in range(3)]
        for row in OPERATIONS
    ]
)
_SIN, _COS = BY_NAME["sin"].code, BY_NAME["cos"].code
_ATTACH: Final = BY_NAME["attach"].code
#: Maximum number of operations of a tape that is walked in Python: a kernel call would take as long. A larger one walks
#: slowly where a call is quicker, a smaller one calls for tapes that are walked in less time.
_FEW: Final = 200
#: Values of constants x in ``attach(x, y)`` by which rules write their parts, see `Rules`.
REST: Final = -0.0
NO_RULE: Final = math.nan


def needed(tape: Tape, outputs: Sequence[int] | None = None, *, values: bool = True) -> bytearray:
    """Return 1 for every operation that an output depends on, else 0; entries of inputs are undefined.

    Args:
        tape: tape to examine.
        outputs: references of the outputs; None for all.
        values: if False, exclude operations that only the x of ``attach(x, d)`` needs; derivatives do not need it.
    """
    if values and 0 < tape.inputs and tape.operations <= _FEW:
        return _walked(tape, tape.outputs if outputs is None else outputs)
    rows, roots = rows_of(tape, tape.inputs), np.array(tape.outputs if outputs is None else outputs, np.int64)
    if values:
        return _marked(tape, rows, roots)
    marks, handed = np.zeros(len(tape), bool), np.ones(rows[:, 1:].shape, bool)
    marks[roots[roots >= 0]] = True
    attached = rows[:, 0] == _ATTACH
    solved = np.unique(rows[attached & (rows[:, 2] >= 0), 1])
    handed[attached, 0] = ~np.isin(rows[attached, 1], solved)
    constant = attached & (rows[:, 2] < 0)
    handed[constant, 0] &= tape.values_of(rows[constant, 2]) == 0.0  # attach(x, d) with other constants d is lasting
    return bytearray(_spread(tape, rows, marks, handed).tobytes())


def _walked(tape: Tape, roots: Iterable[int]) -> bytearray:
    """Return the result of `_marked` for a short tape with inputs."""
    inputs, first, second, third = tape.inputs, tape.first, tape.second, tape.third
    marks = bytearray(len(tape))
    for root in roots:
        if root >= 0:
            marks[root] = 1
    for k in range(len(marks) - 1, inputs - 1, -1):
        if marks[k]:
            # for operations with fewer arguments, the unused reference 0 is an input
            for argument in (first[k], second[k], third.get(k, 0)):
                if argument >= inputs:
                    marks[argument] = 1
    return marks


def as_written(tape: Tape, kept_outputs: int = 0) -> bytearray:
    """Return 1 for every operation that must be rounded as recorded, else 0; entries of inputs are undefined.

    These are the operations that an argument of floor, ceil, sign, fmod, a comparison or arctan2 depends on. Rounding
    such an argument differently, for example a quotient that is an integer, changes the result by a whole step; for
    arctan2 by 2π, if its first argument is rounded to the other side of 0.

    Args:
        tape: tape to examine.
        kept_outputs: number of leading outputs whose operations are included, too.
    """
    roots = np.array(tape.outputs[:kept_outputs], np.int64)
    jumps = _JUMPS[np.frombuffer(tape.codes, np.uint8)[tape.inputs :]]
    if not jumps.any():
        return needed(tape, roots.tolist()) if len(roots) else bytearray(len(tape))
    rows = rows_of(tape, tape.inputs)
    jumps &= np.frombuffer(needed(tape), bool)[tape.inputs :]
    return needed(tape, np.concatenate([roots, rows[jumps, 1], rows[jumps, 2]]).tolist())


def _marked(tape: Tape, rows: Integers, roots: Integers) -> bytearray:
    """Return 1 for every value that the roots depend on; `rows` has the rows of the operations."""
    marks = np.zeros(len(tape), bool)
    marks[roots[roots >= 0]] = True
    return bytearray(_spread(tape, rows, marks, np.ones(rows[:, 1:].shape, bool)).tobytes())


def _spread(tape: Tape, rows: Integers, marks: NDArray[np.bool_], handed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pass marks of operations to their arguments where `handed` is set, from the last operation to the first."""
    to, handed = rows[::-1, 1:], handed[::-1]
    start = np.broadcast_to(np.arange(len(tape) - 1, tape.inputs - 1, -1)[:, np.newaxis], to.shape)
    # for operations with fewer arguments, the unused reference 0 is an input
    inside = handed & (to >= tape.inputs)
    return spread(marks, start[inside], to[inside])


def seeing_zero_signs(tape: Tape) -> Integers:
    """Return references of the needed operations that depend on signs of zeros."""
    references = np.flatnonzero(_SEES_ZERO_SIGNS[np.frombuffer(tape.codes, np.uint8)])
    return references[np.frombuffer(needed(tape), bool)[references]] if len(references) else references


def sees_zero_signs(tape: Tape) -> bool:
    """Return True if an operation depends on signs of zeros, needed or not."""
    return bool(_SEES_ZERO_SIGNS[np.frombuffer(tape.codes, np.uint8)].any())


def signed_zeros(tape: Tape) -> NDArray[np.bool_]:
    """Return True for operations that depend on signs of zeros, or pass them on to these; inputs are undefined."""
    marks = np.zeros(len(tape), bool)
    marks[seeing_zero_signs(tape)] = True
    if not marks.any():
        return marks
    rows = rows_of(tape, tape.inputs)
    return _spread(tape, rows, marks, _HANDS_ON[rows[:, 0]])


def signed_rows(tape: Tape, start: int = 0) -> Integers:
    """Return rows as `rows_of` does, marked so that `extended` keeps relevant signs of zeros."""
    rows = rows_of(tape, start)
    rows[:, 0] += SIGNED * signed_zeros(tape)[start:]
    return rows


def with_used_constants(tape: Tape) -> Tape:
    """Return the tape without constants that no operation and no output has.

    >>> tape = Tape(1)
    >>> unused, two = tape.constant(np.nan), tape.constant(2.0)
    >>> tape.outputs = [tape.multiply(two, 0), two]
    >>> with_used_constants(tape).constants
    [2.0]
    """
    rows, outputs = rows_of(tape), np.array(tape.outputs, np.int64)
    references = np.concatenate([rows[tape.inputs :, 1:].reshape(-1), outputs])
    used = np.zeros(len(tape.constants), bool)
    used[-1 - references[references < 0]] = True
    if used.all():
        return tape
    new = np.append(np.arange(len(tape)), -np.cumsum(used)[::-1])  # negative references count from the end
    rows[:, 1:] = new[rows[:, 1:]]
    made = Tape.of_rows(tape.inputs, rows, np.array(tape.constants)[used].tolist(), new[outputs].tolist())
    made.folding = tape.folding
    return made


def settled(tape: Tape) -> Tape:
    """Return a tape recorded with `signed_zeros`, recorded again without, except where signs of zeros matter.

    An operation that is needed both ways is recorded once, unless it is simpler without signs, like x for ``x + 0``.
    """
    inputs, signed = tape.inputs, signed_zeros(tape)[tape.inputs :]
    rows = rows_of(tape, inputs)
    simpler = signed & ~_SEES_ZERO_SIGNS[rows[:, 0]]
    while True:
        # each operation once; or twice, with and without signed zeros
        ends = inputs + np.cumsum(1 + simpler) - 1
        firsts = ends - simpler
        with_signs, without = (np.concatenate([np.arange(inputs), places]) for places in (firsts, ends))
        recorded = np.empty((len(rows) + np.count_nonzero(simpler), rows.shape[1]), np.int64)
        recorded[ends - inputs, 0] = rows[:, 0]
        recorded[ends - inputs, 1:] = moved(rows[:, 1:], without)
        codes, signed_positions = rows[signed, 0], firsts[signed] - inputs
        recorded[signed_positions, 0] = codes + SIGNED
        recorded[signed_positions, 1:] = np.where(
            _HANDS_ON[codes], moved(rows[signed, 1:], with_signs), moved(rows[signed, 1:], without)
        )
        result, values = extended(tape.emptied(), recorded)
        # a form that needs a new operation after the other is not simpler
        longer = values[ends] > values[firsts]
        if not longer.any():
            break
        simpler &= ~longer
    result.outputs = moved(moved(tape.outputs, without), values).tolist()
    return result


class Rules(NamedTuple):
    """Operations of rules: derivatives that a user's function has in place of those of its operations.

    A value v with a rule is ``attach(v, d)``. Here d is linear in directions ``attach(REST, x)``, which have the value
    0 and the derivative of x. The coefficients in d are the derivatives. A direction is the change of x, not a function
    of x: where d is differentiated again, it is 0. Three more forms say how derivatives are differentiated again:

    * ``attach(p, attach(d, d))`` is a value with the rule d. Where it occurs in derivatives, it is p, the value as the
      rule computes it. The value of ``attach(v, d)`` has the rule d in derivatives as well.
    * ``attach(x, attach(x, x))`` is the argument x inside a rule that has further rules inside. It keeps values inside
      apart from those outside: the first derivative takes the rules outside, the second those inside, and so on.
    * If d depends on ``attach(NO_RULE, x)``, the derivatives with respect to x are refused.

    Attributes:
        kept: True for the operations ``attach`` of rules.
        refused: True for values whose derivatives are refused.
        depth: number of rules around each value.
        moving: number of rules around the directions that a value depends on; -1 if it depends on none.
    """

    kept: NDArray[np.bool_]
    refused: NDArray[np.bool_]
    depth: list[int]
    moving: list[int]


def rules_of(tape: Tape) -> Rules | None:
    """Return the operations of rules on a tape; None without rules."""
    codes, first, second = tape.codes, tape.first, tape.second
    attached = np.flatnonzero(np.frombuffer(codes, np.uint8) == _ATTACH)
    begins = [
        k for k in attached[attached >= tape.inputs].tolist() if first[k] < 0 and _is_part(tape.value_of(first[k]))
    ]
    if not begins:
        return None
    kept, refused, without = (np.zeros(len(tape), bool) for _ in range(3))
    depth, moving = [0] * len(tape), [-1] * len(tape)
    for k in range(tape.inputs, len(tape)):
        arguments = [a for a in tape.arguments(k) if a >= 0]
        if codes[k] != _ATTACH:
            depth[k] = max([depth[a] for a in arguments], default=0)
            moving[k] = max([moving[a] for a in arguments], default=-1)
            without[k] = any(without[a] for a in arguments)
            continue
        x, d = first[k], second[k]
        is_fixed = x < 0 or moving[x] < 0
        if x < 0 and d >= 0 and moving[d] < 0 and not without[d] and _is_part(tape.value_of(x)):
            depth[k], without[k] = depth[d], tape.value_of(x) != REST
            moving[k] = -1 if without[k] else depth[d]
        elif d >= 0 and _is_marked(tape, d, x):
            depth[k], kept[d] = depth[x] + 1, True
        elif is_fixed and d >= 0 and (moving[d] >= 0 or without[d]):
            depth[k], refused[k] = (depth[d] if without[d] else moving[d]), without[d]
        else:
            depth[k] = max([depth[a] for a in arguments], default=0)
            moving[k], without[k] = -1 if is_fixed else moving[x], x >= 0 and without[x]
            kept[k] = x == d >= 0 and moving[d] >= 0
            continue
        kept[k] = True
    return Rules(kept, refused, depth, moving)


def _is_part(number: float) -> bool:
    """Return True for the constants of directions and of refused derivatives."""
    return math.isnan(number) or (number == REST and math.copysign(1.0, number) < 0)


def _is_marked(tape: Tape, k: int, x: int) -> bool:
    """Return True if an operation is ``attach(x, x)``."""
    return tape.codes[k] == _ATTACH and tape.first[k] == tape.second[k] == x >= 0


def has_rules(tape: Tape) -> bool:
    """Return True if the outputs depend on values with rules."""
    rules = rules_of(tape)
    return rules is not None and bool((rules.kept & np.frombuffer(needed(tape), bool))[tape.inputs :].any())


def within_rules(tape: Tape) -> tuple[Tape, Integers]:
    """Return the tape as derivatives contain its values, and the new reference of each old one.

    What is outside of rules has been differentiated, and what is inside is differentiated next, see `Rules`.
    """
    rules = rules_of(tape)
    if rules is None:
        return tape, np.arange(len(tape))
    result = tape.copy()
    zero = result.constant(0.0)
    depth, moving = rules.depth, rules.moving
    # each value outside, in derivatives; and inside of the slope of a value that has its rule there, too
    outside, inside = [*range(len(tape))], [*range(len(tape))]
    for k in range(tape.inputs, len(tape)):
        code, arguments = tape.codes[k], tape.arguments(k)
        outer, inner = ([values[a] if a >= 0 else a for a in arguments] for values in (outside, inside))
        if rules.kept[k] and not depth[k] and not rules.refused[k]:
            x, d = arguments
            if moving[k] >= 0 and x < 0:
                outside[k], inside[k] = zero, int(result.apply_code(code, inner))
                continue
            if _is_marked(tape, d, tape.first[d]):
                outside[k] = inside[k] = outer[0]
                continue
            outer[1] = inner[1]
        elif rules.kept[k] and depth[k] == 1 and _is_marked(tape, arguments[1], arguments[0]):
            outside[k], inside[k] = outer[0], int(result.apply_code(code, inner))
            continue
        outside[k] = k if outer == [*arguments] else int(result.apply_code(code, outer))
        inside[k] = k if inner == [*arguments] else int(result.apply_code(code, inner))
    places = np.array(outside, np.int64)
    result.outputs = moved(tape.outputs, places).tolist()
    return result, places


def lasting(tape: Tape) -> NDArray[np.bool_]:
    """Return True for operations ``attach`` that derivatives of every order keep; entries of inputs are undefined.

    These are ``attach(x, 1)``, which is held constant in derivatives of every order; ``attach(0, d)``, a zero with a
    derivative; and an x attached to a value that depends on inputs only through such operations, for example a
    polynomial of them. The last kind gives x derivatives of all orders, not only the first. The operations of `Rules`
    last, too.
    """
    marks = np.zeros(len(tape), bool)
    attached = np.flatnonzero(np.frombuffer(tape.codes, np.uint8) == _ATTACH)
    for k in attached[attached >= tape.inputs].tolist():
        x, d = tape.first[k], tape.second[k]
        marks[k] = tape.value_of(d) != 0.0 if d < 0 else x < 0 and tape.value_of(x) == 0.0
    rules = rules_of(tape)
    kept = np.zeros(len(tape), bool) if rules is None else rules.kept
    marks |= kept
    if not marks.any():
        return marks
    free = bytearray(b"\1" * tape.inputs) + bytearray(len(tape) - tape.inputs)
    for k in range(tape.inputs, len(tape)):
        if tape.codes[k] != _ATTACH:
            smooth = tape.operation(k).partials
            free[k] = any(a >= 0 and free[a] for a, slope in zip(tape.arguments(k), smooth, strict=True) if slope)
        elif kept[k]:
            free[k] = 1
        elif not marks[k]:
            x, d = tape.first[k], tape.second[k]
            free[k] = x >= 0 and free[x] if d < 0 else free[d]
            marks[k] = d >= 0 and not free[k]
    return marks


def attached_values(tape: Tape) -> list[int]:
    """Return the values with attached derivatives, except `lasting` ones, which are ordinary operations."""
    attached = np.flatnonzero(np.frombuffer(tape.codes, np.uint8) == _ATTACH)
    references: list[int] = attached[~lasting(tape)[attached]].tolist()
    return references


def depending(tape: Tape, values: Iterable[int]) -> bytearray:
    """Return 1 for the given values, and for every operation that depends on one of them."""
    depends = bytearray(len(tape))
    for k in values:
        depends[k] = 1
    for k in range(tape.inputs, len(tape)):
        depends[k] |= any(a >= 0 and depends[a] for a in tape.arguments(k))
    return depends


def comparisons_of(tape: Tape) -> list[int]:
    """Return the references of the comparisons that outputs need."""
    live = needed(tape)
    return [r for r in range(tape.inputs, len(tape)) if live[r] and tape.codes[r] in _COMPARISONS]


def comparisons_before(tape: Tape) -> list[int]:
    """Return the comparisons that each value depends on, as bits in the order of `comparisons_of`."""
    bits = [0] * len(tape)
    own = {r: 1 << k for k, r in enumerate(comparisons_of(tape))}
    for r in range(tape.inputs, len(tape)):
        mask = own.get(r, 0)
        for a in tape.arguments(r):
            if a >= 0:
                mask |= bits[a]
        bits[r] = mask
    return bits


def most_comparisons(tape: Tape) -> int:
    """Return the largest number of comparisons that an output depends on."""
    bits = comparisons_before(tape)
    return max((bits[output].bit_count() for output in tape.outputs if output >= 0), default=0)


def of_all_orders(tape: Tape) -> Tape:
    """Return the tape with ``attach(x, d)`` replaced by x, unless lasting, if x itself has `lasting` derivatives.

    Values with rules stay.
    """
    lasts, rules = lasting(tape), rules_of(tape)
    of_all = lasts if rules is None else lasts & ~rules.kept
    again = [
        k
        for k in range(tape.inputs, len(tape))
        if tape.codes[k] == _ATTACH
        and tape.second[k] >= 0
        and not lasts[k]
        and tape.first[k] >= 0
        and of_all[tape.first[k]]
    ]
    if not again:
        return tape
    return _taking(tape, np.array(again))[0]


def unattached(tape: Tape, *, keeping: bool = False) -> tuple[Tape, Integers]:
    """Return the tape with ``attach(x, d)`` replaced by x, and the new reference of each old one.

    Args:
        tape: tape to change.
        keeping: if True, keep `lasting` ones, for further derivatives.
    """
    if _ATTACH not in tape.codes:
        return tape, np.arange(len(tape))
    taken = np.frombuffer(tape.codes, np.uint8) == _ATTACH
    return _taking(tape, np.flatnonzero(taken & ~lasting(tape) if keeping else taken))


def _taking(tape: Tape, operations: Integers) -> tuple[Tape, Integers]:
    """Return the tape with operations replaced by their first arguments, and the new reference of each old one."""
    rows = signed_rows(tape, tape.inputs)
    rows[operations - tape.inputs, 0] = TAKE
    result, values = extended(tape.emptied(), rows)
    result.outputs = moved(tape.outputs, values).tolist()
    return result, values


def time_of(tape: Tape) -> int:
    """Return the time of the operations that the outputs need at one point, in units of an addition.

    Sine and cosine of one angle are one call, which takes as long as the sine.

    >>> tape = Tape(2)
    >>> tape.outputs = [tape.multiply(tape.apply("sin", 0), tape.apply("cos", 0)), tape.add(0, 1)]
    >>> time_of(tape) == TIME[_SIN] + 2
    True
    """
    live = np.frombuffer(needed(tape), bool)
    codes, first = np.frombuffer(tape.codes, np.uint8), np.frombuffer(tape.first, np.intc)
    sines, cosines = (first[live & (codes == code)] for code in (_SIN, _COS))
    total = int(np.array(TIME)[codes[live]].sum())
    return total - TIME[_COS] * len(np.intersect1d(sines, cosines, assume_unique=True))
