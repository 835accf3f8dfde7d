"""Compiled reading of tapes: the value of each operation, and its definition by the tape.

A value is identified by its residues at random points, or else by its form: the operation and its operands. See
`accumulus.resubstitution.values`. About a microsecond an operation.
"""

from __future__ import annotations

import math
from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import NO_FLOATS, NOTHING, Axes, Floats, Integers, Record, Records, State
from accumulus.native.words import bits_of, definition_hash, scattered, shifted_right
from accumulus.resubstitution.compiled.definitions_kernel import COPY
from accumulus.rewriting.compiled.fields import is_turned, minus
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT

#: Modes: fill the tables, read a tape.
INDEX, READ = range(2)
#: Kinds of values: computed, a number, an input.
OTHER, NUMBER, INPUT = range(3)
#: Codes of forms beyond the table of operations: inputs and numbers; offset of operations that keep their rounding.
OF_INPUT, OF_NUMBER = 1 << 12, 1 << 13
FIXED: Final = 1 << 14


class Made(Record):
    """A definition; see `accumulus.resubstitution.values.Definition`."""

    # operation and operands
    node: int
    code: int
    first: int
    second: int
    third: int
    sign: int
    fixed: int  # 1 if the value has to be rounded as written


class Form(Record):
    """A form, by which a value is made; the value is negative if the form makes its negative."""

    code: int  # operation, or one of the other codes
    # operands: values, or the position of an input, or the bits of a number
    first: int
    second: int
    third: int
    value: int  # value that the form makes


class ReadingState(State):
    """A tape with its numbers at all points, and all values so far, numbered from 1 on."""

    mode: int = INDEX  # one of the modes above
    # numbers of points
    points: int  # in finite fields
    real_points: int
    primes: Integers  # of the fields, (points,)
    # number of references: inputs and operations
    size: int = 0
    inputs: int = 0
    rows: Annotated[Integers, Axes(4)] = NOTHING  # code and three arguments of each, (size, 4)
    arities: Integers  # number of operands, by code
    constants: Floats = NO_FLOATS  # constants of the tape; reference r is at -1 - r
    constant_residues: Integers = NOTHING  # of their magnitudes, (constants · points,)
    fixed: Integers = NOTHING  # 1 if an operation has to be rounded as written, (size,)
    is_sampled: Integers = NOTHING  # 1 if the residues at the points identify it, (size,)
    # residues of each reference at each point, (size · points,)
    real: Integers = NOTHING
    imaginary: Integers = NOTHING
    # numbers of each reference at each real point, (size · real_points,)
    reals: Floats = NO_FLOATS
    bounds: Floats = NO_FLOATS
    scores: Floats = NO_FLOATS  # quality of these bounds, smaller is better, (size,)
    finite: Integers = NOTHING  # 1 if it is finite at all points in general position, (size,)
    common: Integers  # 1 for real points at which equal values are undefined together, (real_points,)
    is_base: int = 0  # 1 if values that are rounded as written may be new
    output_count: int = 0  # number of outputs
    kept_outputs: int = 0  # number of first outputs that are computed as written
    outputs: Integers = NOTHING  # references; after the call, their values
    # result: value of each reference, negative for its negative, (size,)
    meanings: Integers = NOTHING
    # result: the same, except that values rounded as written stand for themselves, (size,)
    exact: Integers = NOTHING
    # result: `made_count` definitions of this tape, at most two for each operation
    made: Records[Made] = Records(Made, NOTHING)
    made_count: int = 0
    count: int = 1  # number of values, 0 included, which does not exist
    kinds: Integers  # kind of each value: a number, an input, or computed
    identified: Integers  # 1 if its residues identify it
    numbers: Floats  # the number, for values that are numbers
    # for inputs: the value is `signs` times the input at `positions`
    signs: Integers
    positions: Integers
    # residues; those at the first point come before those of the negative
    value_real: Integers
    value_imaginary: Integers
    # numbers at real points, in the form of those of references
    value_reals: Floats
    value_bounds: Floats
    value_scores: Floats
    value_finite: Integers
    forms: Records[Form] = Records(Form, NOTHING)  # `form_count` forms of values
    form_count: int = 0
    # 1 + index in `forms`, by hash; open addressing, 0 for a free slot
    form_table: Integers = NOTHING
    key_table: Integers = NOTHING  # values by their first residue; open addressing, 0 for a free slot
    table_bits: int = 0  # logarithm of the length of both
    rounding: float  # largest difference of equal values, for each unit of their errors
    lost: float  # relative loss beyond which two values cannot be compared


# Values: found by their numbers at all points or by their forms, or new -----------------------------------------------

#: Score of an exact value.
BEST: Final = -math.inf


@compiled
def _form_place(state: ReadingState, code: int, first: int, second: int, third: int) -> int:
    """Return the slot of a form in the table, or its free slot."""
    mask = (1 << state.table_bits) - 1
    slot = definition_hash(code, first, second, third, state.table_bits)
    while state.form_table[slot]:
        form = state.forms[state.form_table[slot] - 1]
        if form.code == code and form.first == first and form.second == second and form.third == third:
            return slot
        slot = (slot + 1) & mask
    return slot


@compiled
def _find_form(state: ReadingState, code: int, first: int, second: int, third: int) -> int:
    """Return the value that a form makes; 0 if there is none."""
    entry = state.form_table[_form_place(state, code, first, second, third)]
    if entry == 0:
        return 0
    value: int = state.forms[entry - 1].value
    return value


@compiled
def _note_form(state: ReadingState, code: int, first: int, second: int, third: int, value: int) -> int:
    """Store the value that a new form makes; return the value."""
    form = state.forms[state.form_count]
    form.code = code
    form.first = first
    form.second = second
    form.third = third
    form.value = value
    state.form_count += 1
    state.form_table[_form_place(state, code, first, second, third)] = state.form_count
    return value


@compiled
def _sign_of(real: int, imaginary: int, prime: int) -> int:
    """Return 1 if a residue comes before its negative, else -1."""
    return -1 if is_turned(real, imaginary, prime) else 1


@compiled
def _first_slot(state: ReadingState, real: int, imaginary: int) -> int:
    """Return the slot at which the search for a residue begins."""
    return shifted_right(scattered(real ^ scattered(imaginary)), 64 - state.table_bits)


@compiled
def _enter(state: ReadingState, node: int) -> None:
    """Enter a value into the table by its first residue."""
    mask = (1 << state.table_bits) - 1
    first = node * state.points
    slot = _first_slot(state, state.value_real[first], state.value_imaginary[first])
    while state.key_table[slot]:
        slot = (slot + 1) & mask
    state.key_table[slot] = node


@compiled
def _index(state: ReadingState) -> None:
    """Fill both tables, which are empty at first."""
    for k in range(state.form_count):
        form = state.forms[k]
        state.form_table[_form_place(state, form.code, form.first, form.second, form.third)] = k + 1
    for node in range(1, state.count):
        if state.identified[node]:
            _enter(state, node)


@compiled
def _store(state: ReadingState, node: int, r: int, sign: float) -> None:
    """Copy a reference's numbers at real points to a value."""
    count = state.real_points
    for q in range(count):
        state.value_reals[node * count + q] = sign * state.reals[r * count + q]
        state.value_bounds[node * count + q] = state.bounds[r * count + q]
    state.value_scores[node] = state.scores[r]
    state.value_finite[node] = state.finite[r]


@compiled
def _new(state: ReadingState, r: int, sign: float, identified: bool) -> int:
    """Return a new value, that of a reference or its negative."""
    node: int = state.count
    state.count += 1
    state.kinds[node] = OTHER
    state.identified[node] = identified
    _store(state, node, r, sign)
    if identified:
        count = state.points
        for p in range(count):
            real, imaginary = state.real[r * count + p], state.imaginary[r * count + p]
            state.value_real[node * count + p] = real if sign > 0.0 else minus(real, state.primes[p])
            state.value_imaginary[node * count + p] = imaginary if sign > 0.0 else minus(imaginary, state.primes[p])
        _enter(state, node)
    return node


@compiled
def _improve(state: ReadingState, node: int, r: int, sign: float) -> None:
    """Replace the bounds of a value by those of a reference with smaller errors."""
    if state.scores[r] < state.value_scores[node]:
        _store(state, node, r, sign)


@compiled
def _number_of(state: ReadingState, number: float, place: int) -> int:
    """Return the value of a number, negative for its negative.

    Args:
        state: state of the kernel.
        number: the number.
        place: its place among the constants; -1 for 0 and 1.
    """
    finite = abs(number) < math.inf
    magnitude = abs(number) if finite else number
    bits = bits_of(magnitude if magnitude == magnitude else math.nan)  # noqa: PLR0124
    value = _find_form(state, OF_NUMBER, bits, 0, 0)
    if value == 0:
        node = state.count
        state.count += 1
        state.kinds[node] = NUMBER
        first = int(magnitude) if place < 0 else state.constant_residues[place * state.points]
        sign = _sign_of(first, 0, state.primes[0])
        for q in range(state.real_points):
            state.value_reals[node * state.real_points + q] = sign * magnitude
            state.value_bounds[node * state.real_points + q] = 0.0
        state.numbers[node] = sign * magnitude
        state.value_scores[node] = BEST
        state.value_finite[node] = finite
        state.identified[node] = finite and number != 0.0
        if state.identified[node]:
            for p in range(state.points):
                residue = int(magnitude) if place < 0 else state.constant_residues[place * state.points + p]
                state.value_real[node * state.points + p] = residue if sign > 0 else minus(residue, state.primes[p])
                state.value_imaginary[node * state.points + p] = 0
            _enter(state, node)
        value = _note_form(state, OF_NUMBER, bits, 0, 0, sign * node)
    return -value if finite and number < 0.0 else value


@compiled
def _input_of(state: ReadingState, r: int) -> int:
    """Return the value of an input, negative for its negative."""
    value = _find_form(state, OF_INPUT, r, 0, 0)
    if value == 0:
        first = r * state.points
        sign = _sign_of(state.real[first], state.imaginary[first], state.primes[0])
        node = _new(state, r, float(sign), True)
        state.kinds[node] = INPUT
        state.signs[node] = sign
        state.positions[node] = r
        value = _note_form(state, OF_INPUT, r, 0, 0, sign * node)
    return value


@compiled
def _value_of_reference(state: ReadingState, exact: bool, reference: int) -> int:
    """Return the value of a reference or a constant of the tape."""
    if reference < 0:
        return _number_of(state, state.constants[-1 - reference], -1 - reference)
    value: int = state.exact[reference] if exact else state.meanings[reference]
    return value


@compiled
def _is_same(state: ReadingState, node: int, r: int, sign: float) -> bool:
    """Return True if a reference has the residues of a value at all points."""
    count = state.points
    for p in range(count):
        real, imaginary = state.real[r * count + p], state.imaginary[r * count + p]
        if sign < 0.0:
            real, imaginary = minus(real, state.primes[p]), minus(imaginary, state.primes[p])
        if real != state.value_real[node * count + p] or imaginary != state.value_imaginary[node * count + p]:
            return False
    return True


@compiled
def _is_same_number(state: ReadingState, node: int, r: int, sign: float) -> bool:
    """Return True if a reference agrees with a value at real points, and is undefined at the same ones."""
    count = state.real_points
    for q in range(count):
        x, y = sign * state.reals[r * count + q], state.value_reals[node * count + q]
        first, second = abs(x) < math.inf, abs(y) < math.inf
        if first != second and state.common[q]:
            return False
        allowed = state.rounding * (state.bounds[r * count + q] + state.value_bounds[node * count + q])
        if first and second and allowed < state.lost * max(abs(x), abs(y)) and not abs(x - y) <= allowed:
            return False
    return True


@compiled
def _find(state: ReadingState, r: int, sign: float) -> int:
    """Return the value that has the residues of a reference, and agrees with it as a number; 0 if there is none."""
    mask = (1 << state.table_bits) - 1
    real, imaginary = state.real[r * state.points], state.imaginary[r * state.points]
    if sign < 0.0:
        real, imaginary = minus(real, state.primes[0]), minus(imaginary, state.primes[0])
    slot = _first_slot(state, real, imaginary)
    while state.key_table[slot]:
        node: int = state.key_table[slot]
        if _is_same(state, node, r, sign) and _is_same_number(state, node, r, sign):
            return node
        slot = (slot + 1) & mask
    return 0


# Tapes ---------------------------------------------------------------------------------------------------------------


@compiled
def _normal(state: ReadingState, node: int, code: int, a: int, b: int, c: int, sign: int) -> None:
    """Append a definition in the normal form of `accumulus.resubstitution.values.normal`."""
    if code in (ADD, MULTIPLY) and abs(a) > abs(b):
        a, b = b, a
    if code in (MULTIPLY, DIVIDE):
        sign = sign if (a > 0) == (b > 0) else -sign
        a, b = abs(a), abs(b)
    elif code == ADD and a < 0:
        sign, a, b = -sign, -a, -b
    made = state.made[state.made_count]
    made.node = node
    made.code = code
    made.first = a
    made.second = b
    made.third = c
    made.sign = sign
    made.fixed = 0


@compiled
def _trivial(state: ReadingState, code: int, a: int, b: int) -> int:
    """Return the value of an operation on equal values, 0 and 1, if it is the same at all points; else 0."""
    if code not in (ADD, MULTIPLY, DIVIDE):
        return 0
    zero, one = _number_of(state, 0.0, -1), _number_of(state, 1.0, -1)
    if not (state.value_finite[abs(a)] and state.value_finite[abs(b)]):
        return 0  # undefined results stay undefined
    if code == ADD:
        if a == -b:
            return zero
        return b if abs(a) == zero else a if abs(b) == zero else 0
    sign = 1 if (a > 0) == (b > 0) else -1
    if abs(a) == zero or (code == MULTIPLY and abs(b) == zero):
        return zero
    if abs(b) == one:
        return sign * abs(a)
    if code == MULTIPLY:
        return sign * abs(b) if abs(a) == one else 0
    return sign * one if abs(a) == abs(b) else 0


@compiled
def _value_of(state: ReadingState, r: int, code: int, a: int, b: int, c: int) -> int:
    """Return the value of an operation on values."""
    value = _find_form(state, code, a, b, c)
    if value != 0:
        return value
    if not state.is_sampled[r]:
        return _note_form(state, code, a, b, c, _new(state, r, 1.0, False))
    first = r * state.points
    sign = _sign_of(state.real[first], state.imaginary[first], state.primes[0])
    node = _find(state, r, float(sign))
    if node == 0:
        node = _new(state, r, float(sign), True)
    else:
        _improve(state, node, r, float(sign))
    return _note_form(state, code, a, b, c, sign * node)


@compiled
def _exact_value(state: ReadingState, r: int, code: int, a: int, b: int, c: int) -> int:
    """Return the value of an operation that is rounded as written; 0 if the base does not have it."""
    _normal(state, 0, code, a, b, c, 1)
    made = state.made[state.made_count]
    sign = made.sign
    node = _find_form(state, FIXED + made.code, made.first, made.second, made.third)
    if node == 0:
        if not state.is_base:
            return 0
        node = _new(state, r, float(sign), False)
        _note_form(state, FIXED + made.code, made.first, made.second, made.third, node)
        made.node = node
        made.sign = 1
        made.fixed = 1
        state.made_count += 1
    return sign * node


@compiled
def _read(state: ReadingState, r: int) -> bool:
    """Find the value of an operation; return False if the base does not have it, and must."""
    code, a, b, c = state.rows[r, 0], state.rows[r, 1], state.rows[r, 2], state.rows[r, 3]
    fixed = state.fixed[r] != 0
    if code == NEGATIVE:
        state.meanings[r] = -_value_of_reference(state, False, a)
        state.exact[r] = -_value_of_reference(state, True, a)
        return True
    arity = state.arities[code]
    first = _value_of_reference(state, fixed, a)
    second = _value_of_reference(state, fixed, b) if arity > 1 else 0
    third = _value_of_reference(state, fixed, c) if arity > 2 else 0
    if code == SUBTRACT:
        code, second = ADD, -second
    if fixed:
        exact = _exact_value(state, r, code, first, second, third)
        if exact == 0:
            return False
        state.exact[r] = exact
        code, first, second, third = COPY, exact, 0, 0
    value = _trivial(state, code, first, second)
    if value == 0:
        value = _value_of(state, r, code, first, second, third)
    state.meanings[r] = value
    if not fixed:
        state.exact[r] = value
    node = abs(value)
    if state.kinds[node] == OTHER and node not in (abs(first), abs(second), abs(third)):
        _normal(state, node, code, first, second, third, 1 if value > 0 else -1)
        state.made_count += 1
    return True


def run_reading(state: ReadingState) -> int:
    """Fill the tables, or read a tape; return 0 if the tape rounds a value in another way than the base does."""
    if state.mode == INDEX:
        _index(state)
        return 1
    state.made_count = 0
    for r in range(state.inputs):
        state.meanings[r] = state.exact[r] = _input_of(state, r)
    for r in range(state.inputs, state.size):
        if not _read(state, r):
            return 0
    for k in range(state.output_count):
        state.outputs[k] = _value_of_reference(state, k < state.kept_outputs, state.outputs[k])
    return 1
