"""Values in compiled code: found by what they are at all points, or by what makes them, and made."""

from __future__ import annotations

import math
from typing import Final

from accumulus.native.decorators import compiled
from accumulus.native.words import bits_of, definition_hash, scattered, shifted_right
from accumulus.resubstitution.compiled.pairs_state import KEY_BITS
from accumulus.resubstitution.compiled.reading_state import (
    INPUT,
    NUMBER,
    OF_INPUT,
    OF_NUMBER,
    OTHER,
    ReadingState,
)

__all__ = ["find", "find_form", "improve", "index", "input_of", "new", "note_form", "number_of", "value_of_reference"]

#: The score of what has no error.
BEST: Final = -math.inf


@compiled
def form_place(state: ReadingState, code: int, first: int, second: int, third: int) -> int:
    """Where in the table a form is, or would be."""
    mask = (1 << state.table_bits) - 1
    place = definition_hash(code, first, second, third, state.table_bits)
    while state.form_table[place]:
        form = state.forms[state.form_table[place] - 1]
        if form.code == code and form.first == first and form.second == second and form.third == third:
            return place
        place = (place + 1) & mask
    return place


@compiled
def find_form(state: ReadingState, code: int, first: int, second: int, third: int) -> int:
    """The value that a form makes; 0 if that is not known."""
    entry = state.form_table[form_place(state, code, first, second, third)]
    if entry == 0:
        return 0
    value: int = state.forms[entry - 1].value
    return value


@compiled
def note_form(state: ReadingState, code: int, first: int, second: int, third: int, value: int) -> int:
    """Note which value a new form makes; the value."""
    form = state.forms[state.form_count]
    form.code = code
    form.first = first
    form.second = second
    form.third = third
    form.value = value
    state.form_count += 1
    state.form_table[form_place(state, code, first, second, third)] = state.form_count
    return value


@compiled
def key_of(x: float) -> int:
    """By which a value is found: its first part without the last bits."""
    return bits_of(abs(x)) >> KEY_BITS


@compiled
def enter(state: ReadingState, node: int) -> None:
    """Let a value be found by what it is."""
    mask = (1 << state.table_bits) - 1
    key = key_of(state.value_real[node * state.complex_points])
    place = shifted_right(scattered(key), 64 - state.table_bits)
    while state.key_table[place]:
        place = (place + 1) & mask
    state.key_table[place] = node


@compiled
def index(state: ReadingState) -> None:
    """Fill both tables, which are empty."""
    for k in range(state.form_count):
        form = state.forms[k]
        state.form_table[form_place(state, form.code, form.first, form.second, form.third)] = k + 1
    for node in range(1, state.count):
        if state.known[node]:
            enter(state, node)


@compiled
def store(state: ReadingState, node: int, r: int, sign: float) -> None:
    """Let a value be at real points what a reference is."""
    count = state.real_points
    for q in range(count):
        state.value_reals[node * count + q] = sign * state.reals[r * count + q]
        state.value_bounds[node * count + q] = state.bounds[r * count + q]
    state.value_scores[node] = state.scores[r]
    state.value_finite[node] = state.finite[r]


@compiled
def new(state: ReadingState, r: int, sign: float, known: bool) -> int:
    """A value that was not there before: that of a reference, or its negative."""
    node: int = state.count
    state.count += 1
    state.kinds[node] = OTHER
    state.known[node] = known
    store(state, node, r, sign)
    if known:
        count = state.complex_points
        for p in range(count):
            state.value_real[node * count + p] = sign * state.real[r * count + p]
            state.value_imaginary[node * count + p] = sign * state.imaginary[r * count + p]
            state.value_errors[node * count + p] = state.errors[r * count + p]
        enter(state, node)
    return node


@compiled
def improve(state: ReadingState, node: int, r: int, sign: float) -> None:
    """Take over the bounds of what computes a value with smaller errors."""
    if state.scores[r] < state.value_scores[node]:
        store(state, node, r, sign)


@compiled
def number_of(state: ReadingState, number: float) -> int:
    """The value that is a number, or its negative."""
    finite = abs(number) < math.inf
    magnitude = abs(number) if finite else number
    bits = bits_of(magnitude if magnitude == magnitude else math.nan)  # noqa: PLR0124
    value = find_form(state, OF_NUMBER, bits, 0, 0)
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
        state.known[value] = finite and number != 0.0
        if state.known[value]:
            for p in range(state.complex_points):
                state.value_real[value * state.complex_points + p] = magnitude
                state.value_imaginary[value * state.complex_points + p] = 0.0
                state.value_errors[value * state.complex_points + p] = 0.0
            enter(state, value)
        note_form(state, OF_NUMBER, bits, 0, 0, value)
    return -value if finite and number < 0.0 else value


@compiled
def input_of(state: ReadingState, r: int) -> int:
    """The value that is an input, or its negative."""
    value = find_form(state, OF_INPUT, r, 0, 0)
    if value == 0:
        sign = 1 if state.real[r * state.complex_points] > 0.0 else -1
        node = new(state, r, float(sign), True)
        state.kinds[node] = INPUT
        state.signs[node] = sign
        state.positions[node] = r
        value = note_form(state, OF_INPUT, r, 0, 0, sign * node)
    return value


@compiled
def value_of_reference(state: ReadingState, exact: bool, reference: int) -> int:
    """The value of a reference or a constant of the tape."""
    if reference < 0:
        return number_of(state, state.constants[-1 - reference])
    value: int = state.exact[reference] if exact else state.meanings[reference]
    return value


@compiled
def is_same(state: ReadingState, node: int, r: int, sign: float) -> bool:
    """Whether a reference is a value at all complex points."""
    count = state.complex_points
    for p in range(count):
        i, j = r * count + p, node * count + p
        x = sign * state.real[i] - state.value_real[j]
        y = sign * state.imaginary[i] - state.value_imaginary[j]
        if not math.sqrt(x * x + y * y) <= state.rounding * (state.errors[i] + state.value_errors[j]):
            return False
    return True


@compiled
def is_same_number(state: ReadingState, node: int, r: int, sign: float) -> bool:
    """Whether what a reference is at real points is a value, and undefined where that is."""
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
def find(state: ReadingState, r: int, sign: float) -> int:
    """The value that a reference is at all points; 0 if there is none."""
    mask = (1 << state.table_bits) - 1
    own = key_of(state.real[r * state.complex_points])
    for step in range(3):
        key = own - 1 if step == 1 else own + 1 if step == 2 else own
        place = shifted_right(scattered(key), 64 - state.table_bits)
        while state.key_table[place]:
            node: int = state.key_table[place]
            if (
                key_of(state.value_real[node * state.complex_points]) == key
                and is_same(state, node, r, sign)
                and is_same_number(state, node, r, sign)
            ):
                return node
            place = (place + 1) & mask
    return 0
