"""What `accumulus.resubstitution.compiled.reading_kernel` works on."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np

from accumulus.native.state import NOTHING, Axes, Floats, Integers, Record, Records, State

__all__ = [
    "COPY",
    "FIXED",
    "INDEX",
    "INPUT",
    "NUMBER",
    "OF_INPUT",
    "OF_NUMBER",
    "OTHER",
    "READ",
    "Form",
    "Made",
    "ReadingState",
]

#: What to do: fill the tables, read a tape.
INDEX, READ = range(2)
#: What values are: computed, a number, an input.
OTHER, NUMBER, INPUT = range(3)
#: Codes of forms beside those of operations: inputs and numbers; what is rounded as written has this more.
OF_INPUT, OF_NUMBER = 1 << 12, 1 << 13
FIXED: Final = 1 << 14
#: The code of a definition that is another value itself.
COPY: Final = -1

_NO_FLOATS: Final[Floats] = np.zeros(0)


class Made(Record):
    """A definition; see `accumulus.resubstitution.definitions.Definition`.

    Attributes:
        node, code, first, second, third, sign: of the definition.
        fixed: whether it is of what has to be rounded as it is written.
    """

    node: int
    code: int
    first: int
    second: int
    third: int
    sign: int
    fixed: int


class Form(Record):
    """What a value is made of, and the value, negative where its negative is made.

    Attributes:
        code: of the operation, or one of the other kinds of forms.
        first, second, third: values, or the position of an input, or the bits of a number.
        value: what it makes.
    """

    code: int
    first: int
    second: int
    third: int
    value: int


class ReadingState(State):
    """A tape that has been run at all points, and all values so far; numbered from 1 on.

    Attributes:
        mode: what to do.
        complex_points, real_points: numbers of points.
        size, inputs: of the tape: inputs and operations; the first of these.
        rows: code and three arguments of each, (size, 4).
        arities: numbers of arguments, by code.
        constants: of the tape; that with the reference r is at -1 - r.
        fixed: whether an operation has to be rounded as it is written, (size,).
        told: whether it can be told by its value, (size,).
        real, imaginary, errors: of each reference at each complex point, (size · complex_points,).
        reals, bounds: of each reference at each real point, (size · real_points,).
        scores: how good these bounds are; less is better, (size,).
        finite: whether it is finite at all points in general position, (size,).
        common: at which real points values that are one are defined alike, (real_points,).
        is_base: whether what is rounded as written may be new.
        output_count: of the tape.
        kept_outputs: that many of the first outputs are computed as they are.
        outputs: references, then the values that they are.
        meanings: the value of each reference, negative where its negative is meant; written, (size,).
        exact: the same, but what has to be rounded as it is written stands for itself; written, (size,).
        made: definitions of this tape; written. `made_count` of them, two for each operation at most.
        count: of values, 0 included, which is none.
        kinds: of each value: a number, an input, or other.
        known: whether it can be told by what it is at complex points.
        numbers: what numbers are.
        signs, positions: of inputs: the value is so many times the input at that position.
        value_real, value_imaginary, value_errors: at complex points; the first real part is positive.
        value_reals, value_bounds, value_scores, value_finite: as those of references.
        forms: what values are made of; `form_count` of them.
        form_table: places in `forms`, plus one, by what they say; open addressing, 0 where there is none.
        key_table: values by the first real part; open addressing, 0 where there is none.
        table_bits: of the sizes of both.
        rounding: by how much equal values may differ for each unit of their errors.
        lost: of two values that have lost more than this, as a part of themselves, nothing can be said.
    """

    mode: int = INDEX
    complex_points: int
    real_points: int
    size: int = 0
    inputs: int = 0
    rows: Annotated[Integers, Axes(4)] = NOTHING
    arities: Integers
    constants: Floats = _NO_FLOATS
    fixed: Integers = NOTHING
    told: Integers = NOTHING
    real: Floats = _NO_FLOATS
    imaginary: Floats = _NO_FLOATS
    errors: Floats = _NO_FLOATS
    reals: Floats = _NO_FLOATS
    bounds: Floats = _NO_FLOATS
    scores: Floats = _NO_FLOATS
    finite: Integers = NOTHING
    common: Integers
    is_base: int = 0
    output_count: int = 0
    kept_outputs: int = 0
    outputs: Integers = NOTHING
    meanings: Integers = NOTHING
    exact: Integers = NOTHING
    made: Records[Made] = Records(Made, NOTHING)
    made_count: int = 0
    count: int = 1
    kinds: Integers
    known: Integers
    numbers: Floats
    signs: Integers
    positions: Integers
    value_real: Floats
    value_imaginary: Floats
    value_errors: Floats
    value_reals: Floats
    value_bounds: Floats
    value_scores: Floats
    value_finite: Integers
    forms: Records[Form] = Records(Form, NOTHING)
    form_count: int = 0
    form_table: Integers = NOTHING
    key_table: Integers = NOTHING
    table_bits: int = 0
    rounding: float
    lost: float
