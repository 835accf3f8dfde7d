"""Compiled reading of tapes: which value each operation has, and how the tape defines it.

What is not told by its value is told by its form: the operation and the values that it takes. See
`accumulus.resubstitution.values`. About a microsecond an operation.
"""

from __future__ import annotations

import math
from typing import Annotated, Final

from accumulus.native.decorators import compiled
from accumulus.native.state import NO_FLOATS, NOTHING, Axes, Floats, Integers, Record, Records, State
from accumulus.native.words import bits_of, definition_hash, scattered, shifted_right
from accumulus.resubstitution.compiled.definitions_kernel import COPY
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT

#: What to do: fill the tables, read a tape.
INDEX, READ = range(2)
#: What values are: computed, a number, an input.
OTHER, NUMBER, INPUT = range(3)
#: Codes of forms beside those of operations: inputs and numbers; what is rounded as written has this more.
OF_INPUT, OF_NUMBER = 1 << 12, 1 << 13
FIXED: Final = 1 << 14
#: Bits of a mantissa that are left out of keys.
KEY_BITS: Final = 22


class Made(Record):
    """A definition; see `accumulus.resubstitution.values.Definition`."""

    # of the definition
    node: int
    code: int
    first: int
    second: int
    third: int
    sign: int
    fixed: int  # 1 if it is of what has to be rounded as it is written


class Form(Record):
    """A way to make a value, negative where its negative is made."""

    code: int  # of the operation, or one of the other kinds of forms
    # values, or the position of an input, or the bits of a number
    first: int
    second: int
    third: int
    value: int  # what it makes


class ReadingState(State):
    """A tape that has been run at all points, and all values so far; numbered from 1 on."""

    mode: int = INDEX  # what to do
    # numbers of points
    complex_points: int
    real_points: int
    # of the tape: inputs and operations; the first of these
    size: int = 0
    inputs: int = 0
    rows: Annotated[Integers, Axes(4)] = NOTHING  # code and three arguments of each, (size, 4)
    arities: Integers  # numbers of arguments, by code
    constants: Floats = NO_FLOATS  # of the tape; that with the reference r is at -1 - r
    fixed: Integers = NOTHING  # 1 if an operation has to be rounded as it is written, (size,)
    is_sampled: Integers = NOTHING  # 1 if the values at the points identify it, (size,)
    # of each reference at each complex point, (size · complex_points,)
    real: Floats = NO_FLOATS
    imaginary: Floats = NO_FLOATS
    errors: Floats = NO_FLOATS
    # of each reference at each real point, (size · real_points,)
    reals: Floats = NO_FLOATS
    bounds: Floats = NO_FLOATS
    scores: Floats = NO_FLOATS  # how good these bounds are; less is better, (size,)
    finite: Integers = NOTHING  # 1 if it is finite at all points in general position, (size,)
    common: Integers  # at which real points values that are one are defined alike, (real_points,)
    is_base: int = 0  # 1 if what is rounded as written may be new
    output_count: int = 0  # of the tape
    kept_outputs: int = 0  # that many of the first outputs are computed as they are
    outputs: Integers = NOTHING  # references, then the values that they are
    # the value of each reference, negative where its negative is meant; written, (size,)
    meanings: Integers = NOTHING
    # the same, but what has to be rounded as it is written stands for itself; written, (size,)
    exact: Integers = NOTHING
    # definitions of this tape; written. `made_count` of them, two for each operation at most.
    made: Records[Made] = Records(Made, NOTHING)
    made_count: int = 0
    count: int = 1  # of values, 0 included, which is none
    kinds: Integers  # of each value: a number, an input, or other
    identified: Integers  # 1 if the values at complex points identify it
    numbers: Floats  # what numbers are
    # of inputs: the value is so many times the input at that position
    signs: Integers
    positions: Integers
    # at complex points; the first real part is positive
    value_real: Floats
    value_imaginary: Floats
    value_errors: Floats
    # as those of references
    value_reals: Floats
    value_bounds: Floats
    value_scores: Floats
    value_finite: Integers
    forms: Records[Form] = Records(Form, NOTHING)  # what values are made of; `form_count` of them
    form_count: int = 0
    # places in `forms`, plus one, by what they say; open addressing, 0 where there is none
    form_table: Integers = NOTHING
    key_table: Integers = NOTHING  # values by the first real part; open addressing, 0 where there is none
    table_bits: int = 0  # of the sizes of both
    rounding: float  # by how much equal values may differ for each unit of their errors
    lost: float  # of two values that have lost more than this, as a part of themselves, nothing can be said


# Values, found by what they are at all points, or by what makes them, and made ---------------------------------------

#: The score of what has no error.
BEST: Final = -math.inf


@compiled
def _form_place(state: ReadingState, code: int, first: int, second: int, third: int) -> int:
    """Return the place of a form in the table, or for it."""
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
    """Return the value that a form makes; 0 if that is not known."""
    entry = state.form_table[_form_place(state, code, first, second, third)]
    if entry == 0:
        return 0
    value: int = state.forms[entry - 1].value
    return value


@compiled
def _note_form(state: ReadingState, code: int, first: int, second: int, third: int, value: int) -> int:
    """Note which value a new form makes; the value."""
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
def _key_of(x: float) -> int:
    """Return the key of a value: its first part without the last bits."""
    return bits_of(abs(x)) >> KEY_BITS


@compiled
def _enter(state: ReadingState, node: int) -> None:
    """Let a value be found by what it is."""
    mask = (1 << state.table_bits) - 1
    key = _key_of(state.value_real[node * state.complex_points])
    slot = shifted_right(scattered(key), 64 - state.table_bits)
    while state.key_table[slot]:
        slot = (slot + 1) & mask
    state.key_table[slot] = node


@compiled
def _index(state: ReadingState) -> None:
    """Fill both tables, which are empty."""
    for k in range(state.form_count):
        form = state.forms[k]
        state.form_table[_form_place(state, form.code, form.first, form.second, form.third)] = k + 1
    for node in range(1, state.count):
        if state.identified[node]:
            _enter(state, node)


@compiled
def _store(state: ReadingState, node: int, r: int, sign: float) -> None:
    """Let a value be at real points what a reference is."""
    count = state.real_points
    for q in range(count):
        state.value_reals[node * count + q] = sign * state.reals[r * count + q]
        state.value_bounds[node * count + q] = state.bounds[r * count + q]
    state.value_scores[node] = state.scores[r]
    state.value_finite[node] = state.finite[r]


@compiled
def _new(state: ReadingState, r: int, sign: float, identified: bool) -> int:
    """Return a value that was not there before: that of a reference, or its negative."""
    node: int = state.count
    state.count += 1
    state.kinds[node] = OTHER
    state.identified[node] = identified
    _store(state, node, r, sign)
    if identified:
        count = state.complex_points
        for p in range(count):
            state.value_real[node * count + p] = sign * state.real[r * count + p]
            state.value_imaginary[node * count + p] = sign * state.imaginary[r * count + p]
            state.value_errors[node * count + p] = state.errors[r * count + p]
        _enter(state, node)
    return node


@compiled
def _improve(state: ReadingState, node: int, r: int, sign: float) -> None:
    """Take over the bounds of what computes a value with smaller errors."""
    if state.scores[r] < state.value_scores[node]:
        _store(state, node, r, sign)


@compiled
def _number_of(state: ReadingState, number: float) -> int:
    """Return the value that is a number, or its negative."""
    finite = abs(number) < math.inf
    magnitude = abs(number) if finite else number
    bits = bits_of(magnitude if magnitude == magnitude else math.nan)  # noqa: PLR0124
    value = _find_form(state, OF_NUMBER, bits, 0, 0)
    if value == 0:
        value = state.count
        state.count += 1
        state.kinds[value] = NUMBER
        state.numbers[value] = magnitude
        for q in range(state.real_points):
            state.value_reals[value * state.real_points + q] = magnitude
            state.value_bounds[value * state.real_points + q] = 0.0
        state.value_scores[value] = BEST
        state.value_finite[value] = finite
        state.identified[value] = finite and number != 0.0
        if state.identified[value]:
            for p in range(state.complex_points):
                state.value_real[value * state.complex_points + p] = magnitude
                state.value_imaginary[value * state.complex_points + p] = 0.0
                state.value_errors[value * state.complex_points + p] = 0.0
            _enter(state, value)
        _note_form(state, OF_NUMBER, bits, 0, 0, value)
    return -value if finite and number < 0.0 else value


@compiled
def _input_of(state: ReadingState, r: int) -> int:
    """Return the value that is an input, or its negative."""
    value = _find_form(state, OF_INPUT, r, 0, 0)
    if value == 0:
        sign = 1 if state.real[r * state.complex_points] > 0.0 else -1
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
        return _number_of(state, state.constants[-1 - reference])
    value: int = state.exact[reference] if exact else state.meanings[reference]
    return value


@compiled
def _is_same(state: ReadingState, node: int, r: int, sign: float) -> bool:
    """Return True if a reference is a value at all complex points."""
    count = state.complex_points
    for p in range(count):
        i, j = r * count + p, node * count + p
        x = sign * state.real[i] - state.value_real[j]
        y = sign * state.imaginary[i] - state.value_imaginary[j]
        if not math.sqrt(x * x + y * y) <= state.rounding * (state.errors[i] + state.value_errors[j]):
            return False
    return True


@compiled
def _is_same_number(state: ReadingState, node: int, r: int, sign: float) -> bool:
    """Return True if what a reference is at real points is a value, and undefined where that is."""
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
    """Return the value that a reference is at all points; 0 if there is none."""
    mask = (1 << state.table_bits) - 1
    exact_key = _key_of(state.real[r * state.complex_points])
    for step in range(3):
        key = exact_key - 1 if step == 1 else exact_key + 1 if step == 2 else exact_key
        slot = shifted_right(scattered(key), 64 - state.table_bits)
        while state.key_table[slot]:
            node: int = state.key_table[slot]
            if (
                _key_of(state.value_real[node * state.complex_points]) == key
                and _is_same(state, node, r, sign)
                and _is_same_number(state, node, r, sign)
            ):
                return node
            slot = (slot + 1) & mask
    return 0


# Tapes ---------------------------------------------------------------------------------------------------------------


@compiled
def _normal(state: ReadingState, node: int, code: int, a: int, b: int, c: int, sign: int) -> None:
    """Write a definition behind the others, in one way: as `accumulus.resubstitution.values.normal` has it."""
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
    """Return the value of an operation on equal values, 0 and 1, wherever it is defined; else 0."""
    if code not in (ADD, MULTIPLY, DIVIDE):
        return 0
    zero, one = _number_of(state, 0.0), _number_of(state, 1.0)
    if not (state.value_finite[abs(a)] and state.value_finite[abs(b)]):
        return 0  # what is undefined in places stays so
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
    sign = 1 if state.real[r * state.complex_points] > 0.0 else -1
    node = _find(state, r, float(sign))
    if node == 0:
        node = _new(state, r, float(sign), True)
    else:
        _improve(state, node, r, float(sign))
    return _note_form(state, code, a, b, c, sign * node)


@compiled
def _exact_value(state: ReadingState, r: int, code: int, a: int, b: int, c: int) -> int:
    """Return the value of what is rounded as it is written; 0 if no base has it."""
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
    """Find the value of an operation; whether it may be there."""
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
    """Fill the tables, or read a tape; returns 0 if what is rounded as written is written in another way there."""
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
