"""What the kernels of this folder work on."""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np

from accumulus.native.state import NOTHING, Axes, Floats, Integers, Record, Records, State

__all__ = [
    "ARGUMENTS",
    "BOUNDED",
    "CODE",
    "COPY",
    "DEEPEST",
    "DIFFERENCE",
    "ENTER",
    "EXCESS",
    "FILL",
    "FILTER_BITS",
    "FIRST",
    "FIXED",
    "HELPER_KEY_BITS",
    "INDEX",
    "INPUT",
    "KEY_BITS",
    "NODE",
    "NUMBER",
    "OF_INPUT",
    "OF_NUMBER",
    "ORDER",
    "OTHER",
    "PLAIN",
    "PRODUCT",
    "QUOTIENT",
    "READ",
    "SECOND",
    "SIGN",
    "SUM",
    "THIRD",
    "THRESHOLD_COUNT",
    "TRY",
    "WIDTH",
    "BoundsState",
    "DefinitionsState",
    "ExtractionState",
    "Form",
    "Found",
    "Helper",
    "HelpersState",
    "Made",
    "ReadingState",
    "ValuePairsState",
    "Wanted",
]

_NO_FLOATS: Final[Floats] = np.zeros(0)


# Reading -------------------------------------------------------------------------------------------------------------

#: What to do: fill the tables, read a tape.
INDEX, READ = range(2)
#: What values are: computed, a number, an input.
OTHER, NUMBER, INPUT = range(3)
#: Codes of forms beside those of operations: inputs and numbers; what is rounded as written has this more.
OF_INPUT, OF_NUMBER = 1 << 12, 1 << 13
FIXED: Final = 1 << 14
#: The code of a definition that is another value itself.
COPY: Final = -1


class Made(Record):
    """A definition; see `accumulus.resubstitution.values.Definition`.

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


# Definitions ---------------------------------------------------------------------------------------------------------

#: What to do: enter definitions into the table, find how uncertain they are, choose some without circles.
ENTER, EXCESS, ORDER = range(3)
#: Columns of definitions.
NODE, CODE, FIRST, SECOND, THIRD, SIGN = range(6)
WIDTH: Final = 6
ARGUMENTS: Final = slice(FIRST, THIRD + 1)


class DefinitionsState(State):
    """Definitions of values; see `accumulus.resubstitution.values.Definition`.

    Attributes:
        mode: what to do.
        rows: definitions, by their columns.
        count: of them.
        table: for ENTER, numbers of definitions, plus one, by what they say; open addressing, 0 where there is none.
        table_bits: of its size.
        indexed: so many definitions are in the table.
        given: definitions to be entered, (given_count, WIDTH).
        given_count: how many.
        numbers: for ENTER, written: which definition each of these is. Else the definitions in question, so many.
        number_count: how many.
        points: for EXCESS, the number of real points.
        reals, bounds: of each value at each point, (values · points,).
        generic: which points are in general position, (points,); and which `inside` of the domain.
        outside: how many times more uncertain definitions may be elsewhere.
        largest, smallest: what is beyond the first is infinite; what is below the second has errors of its size.
        slack: so many units of rounding are not more uncertain.
        rounding: by how much equal values may differ for each unit of their errors.
        lost: of two values that have lost more than this, as a part of themselves, nothing can be said.
        excess: written: how many times as uncertain each definition makes its value, at worst, (number_count,).
        is_given: for ORDER, which values are numbers or inputs, (values,).
        preferred: the definition that each value has rather than another, plus one; 0 for none.
        chosen: written: the definition of each value, plus one; 0 for what none makes, (values,).
        missing: room for a number for each definition in question.
        heads: room for a number for each value; `nexts`, for each definition and argument.
        queue: room for a number for each definition, twice.
    """

    mode: int = ENTER
    rows: Annotated[Integers, Axes(WIDTH)] = NOTHING
    count: int = 0
    table: Integers = NOTHING
    table_bits: int = 0
    indexed: int = 0
    given: Annotated[Integers, Axes(WIDTH)] = NOTHING
    given_count: int = 0
    numbers: Integers = NOTHING
    number_count: int = 0
    points: int = 0
    reals: Floats = _NO_FLOATS
    bounds: Floats = _NO_FLOATS
    generic: Integers = NOTHING
    inside: Integers = NOTHING
    outside: float = 1.0
    largest: float = 0.0
    smallest: float = 0.0
    slack: float = 0.0
    rounding: float = 0.0
    lost: float = 0.0
    excess: Floats = _NO_FLOATS
    is_given: Integers = NOTHING
    preferred: Integers = NOTHING
    chosen: Integers = NOTHING
    missing: Integers = NOTHING
    heads: Integers = NOTHING
    nexts: Annotated[Integers, Axes(3)] = NOTHING
    queue: Integers = NOTHING


# Pairs ---------------------------------------------------------------------------------------------------------------

#: What to do: fill the table, try pairs.
FILL, TRY = range(2)
#: How two values make a third.
SUM, DIFFERENCE, PRODUCT, QUOTIENT = range(4)
#: Bits of a mantissa that are left out of keys.
KEY_BITS: Final = 22
#: Logarithm of the number of bits by which keys of no value are told before they are looked up.
FILTER_BITS: Final = 16


class Found(Record):
    """A value that is made of two others.

    Attributes:
        node: the value, its negative where that is what is made.
        way: how.
        first, second: of what.
    """

    node: int
    way: int
    first: int
    second: int


class ValuePairsState(State):
    """Values at points, and the table by which they are found.

    Attributes:
        mode: what to do.
        points: at which there are values.
        real, imaginary: of each value at each point, (values · points,); of the first, 0, there is none.
        errors: bounds on the error of each, in units of rounding, (values · points,).
        open: whether a value may have another definition, (values,).
        count: of values.
        keys: of each value: its first part at the first point, without the last bits.
        table: values by their keys, open addressing; 0 where there is none.
        table_bits: of its size.
        filter: a bit for each key that there is, and some that there are not, (2 ** FILTER_BITS / 64,).
        inverses: of the squared size of each value at the first point.
        rounding: by how much equal values may differ for each unit of their errors.
        begin, end: the first values of the pairs that are tried in a call.
        found: what they make.
        found_count: how many.
        found_limit: how many there is room for.
    """

    mode: int = FILL
    points: int
    real: Floats
    imaginary: Floats
    errors: Floats
    open: Integers
    count: int
    keys: Integers
    table: Integers
    table_bits: int
    filter: Integers
    inverses: Floats
    rounding: float
    begin: int = 0
    end: int = 0
    found: Records[Found]
    found_count: int = 0
    found_limit: int


# Helpers -------------------------------------------------------------------------------------------------------------

#: Bits of a mantissa that are left out of keys.
HELPER_KEY_BITS: Final = 20


class Wanted(Record):
    """What would make values that are there by one more operation.

    Attributes:
        key: of it; 0 where there is none.
        last: the value that wanted it last.
        count: how many values want it; 0 if it is there.
    """

    key: int
    last: int
    count: int


class Helper(Record):
    """A value that is not there, and that several that are would be made by.

    Attributes:
        count: how many.
        way: how it is made, as `accumulus.resubstitution.compiled.states` has it.
        first, second: of what.
    """

    count: int
    way: int
    first: int
    second: int


class HelpersState(State):
    """Values at one point, and what is wanted there.

    Attributes:
        real, imaginary: of each value, (values,).
        count: of values.
        open: whether a value may have another definition, (values,).
        divides: whether something is divided by a value, (values,).
        wanted: by their keys, open addressing.
        table_bits: of its size.
        found: helpers, each once.
        found_count: how many.
        found_limit: how many there is room for.
    """

    real: Floats
    imaginary: Floats
    count: int
    open: Integers
    divides: Integers
    wanted: Records[Wanted]
    table_bits: int
    found: Records[Helper]
    found_count: int = 0
    found_limit: int


# Extraction ----------------------------------------------------------------------------------------------------------

THRESHOLD_COUNT: Final = 1024
#: Dead values that a move brings to life, at most.
DEEPEST: Final = 4


class ExtractionState(State):
    """Values, from 1 on, each with the definitions that it may have and the one that it has.

    A value without a definition is given: an input or a number. What the roots are computed from is *live*, and
    costs what its definition costs.

    Attributes:
        firsts: of the definitions of each value; those of value n end where those of n + 1 begin, (values + 1,).
        arguments: values that each definition takes; 0 where it takes fewer.
        prices: of the definitions.
        chosen: the definition of each value, that of a value without one being 0.
        uses: how often each value is used by live ones, or as a root.
        live: the live values with definitions.
        places: of each of these in that list.
        live_count: how many.
        marks: of the search from value to value, and the `mark` of the last search.
        stack: room for it.
        work: values that come to life or die, four for each value.
        revived: values that get another definition as they come to life, and `before`, the one that they had.
        thresholds: -ln of probabilities that are spread evenly, (THRESHOLD_COUNT,).
        random: state of the generator, (1,).
        visits: moves to try in a call.
        temperature, cooling: and its factor for each visit.
        cost: of all live values.
        best: the least so far, with its definitions in `best_chosen`.
        count: of values, 0 included.
    """

    firsts: Integers
    arguments: Annotated[Integers, Axes(3)]
    prices: Integers
    chosen: Integers
    uses: Integers
    live: Integers
    places: Integers
    live_count: int = 0
    marks: Integers
    mark: int = 0
    stack: Integers
    work: Integers
    revived: Integers
    before: Integers
    thresholds: Floats
    random: Integers
    visits: int = 0
    temperature: float = 0.0
    cooling: float = 0.0
    cost: int = 0
    best: int = 0
    best_chosen: Integers
    count: int


# Bounds --------------------------------------------------------------------------------------------------------------

#: Values alone, or with bounds on their errors.
PLAIN, BOUNDED = range(2)


class BoundsState(State):
    """A tape at real points, side by side: what belongs to a reference at a point is at reference · points + point.

    Constants stand behind the operations, the first one last: the reference -1 is the last place.

    Attributes:
        mode: whether there are bounds.
        points: how many.
        places: of inputs, operations and constants together.
        rows: code and three arguments of each input and operation, (references, 4).
        begin, end: the operations of a call.
        values: (places · points,).
        errors: bounds on their errors, in units of rounding; with BOUNDED only.
        largest, smallest: what is beyond the first is infinite; what is below the second has errors of its size.
    """

    mode: int = BOUNDED
    points: int
    places: int
    rows: Annotated[Integers, Axes(4)]
    begin: int = 0
    end: int = 0
    values: Floats
    errors: Floats
    largest: float
    smallest: float
