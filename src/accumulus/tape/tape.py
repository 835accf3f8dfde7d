"""The tape: a hash-consed, single-assignment list of scalar operations.

A *reference* is an int. References 0 … inputs-1 are the inputs, larger ones are operations in topological order
(arguments precede their use), and negative ones are constants, outside the list. Two references are equal exactly if
they are the same expression, so the function, its local partials and its Jacobian share all common expressions on one
tape.

Each builder folds constants and simplifies if the result is the same number:

* ``x + 0``, ``x * 1``, ``x / 1``, ``x - 0``, ``--x``, ``x ** 1`` are x; ``0 - x`` is ``-x``; ``x * 0`` and ``0 / x``
  are 0;
* signs move outwards, where sums absorb them: ``(-x) * y`` is ``-(x * y)``, ``x + (-y)`` is ``x - y``, ``sin(-x)`` is
  ``-sin(x)``, ``cos(-x)`` is ``cos(x)``, ``(-x) - y`` is ``-(x + y)``, and ``y - x`` is ``-(x - y)`` if the latter is
  on the tape;
* ``x + x`` is ``2 * x``, division by a power of two is a product, ``x ** 2`` is ``x * x``, ``x ** 0.5`` is
  ``sqrt(x)``.

The simplifications assume that a factor of a literal zero is finite, that a divisor of a literal zero is not zero, and
that the sign of a zero does not matter. They assume nothing else: ``x - x`` and ``x / x`` stay, since they are NaN for
an infinite x. No sum or product is reassociated.

The arguments of arctan2, which is π or -π depending on the sign of a zero, are recorded by builders with
`signed_zeros`. These make none of the three assumptions. They omit the simplifications of ``x + 0``, ``0 - x``, ``x *
0``, ``0 / x``, ``(-x) - y``, ``y - x`` and ``sign(-x)``, but ``x - 0`` is still x. See `accumulus.tape.live`.

A builder call takes constant time. A tape takes about 120 bytes for each operation (`tests/tape/test_size.py` limits it
to 300).
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import repeat
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError, unknown_name
from accumulus.tape.folding import Folding
from accumulus.tape.operations import BY_NAME, OPERATIONS, Operation

ADD: Final = BY_NAME["add"].code
SUBTRACT: Final = BY_NAME["subtract"].code
MULTIPLY: Final = BY_NAME["multiply"].code
DIVIDE: Final = BY_NAME["divide"].code
NEGATIVE: Final = BY_NAME["negative"].code
POWER: Final = BY_NAME["power"].code
SELECT: Final = BY_NAME["select"].code

#: Maximum number of equations of a tape that is shown as LaTeX: more take notebooks long to typeset, and nobody reads
#: them; fewer hide short programs.
LONGEST_LATEX: Final = 60
_APPLICABLE: Final = BY_NAME.keys() - {"input"}
_COMMUTATIVE: Final = tuple(operation.commutative for operation in OPERATIONS)
_PARITY: Final = tuple(operation.parity for operation in OPERATIONS)
#: The parity that also holds for signs of zeros: sign(x) is 0 for either zero.
_SIGNED_PARITY: Final = tuple(None if operation.jumps else operation.parity for operation in OPERATIONS)
_TERNARY: Final = frozenset(operation.code for operation in OPERATIONS if operation.arity == 3)
_BOOLEAN: Final = tuple(operation.result == "boolean" for operation in OPERATIONS)


class Tape:
    """Straight-line program over scalars, recorded by its builder methods and read by index.

    >>> tape = Tape(inputs=2)
    >>> y = tape.multiply(tape.apply("sin", 0), tape.add(1, tape.constant(0.0)))
    >>> tape.outputs = [y]
    >>> print(tape)
    t2 = sin(x0)
    t3 = multiply(x1, t2)
    return t3
    >>> tape.operation(y).name, tape.arguments(y), tape.name(y), tape.value_of(tape.constant(0.5))
    ('multiply', (1, 2), 't3', 0.5)
    >>> with tape.unsigned_zeros():
    ...     terms = [tape.power(0, tape.constant(3.0)), tape.divide(0, 1), tape.subtract(1, 0), tape.negative(1)]
    >>> total, is_less = tape.sum(terms), tape.apply_code(BY_NAME["less"].code, (0, 1))
    >>> outside = tape.logical_or(tape.logical_not(is_less), tape.logical_and(is_less, is_less))
    >>> tape.is_boolean(outside), tape.name(tape.select(is_less, total, total)) == tape.name(total)
    (True, True)
    >>> squares = tape.map(lambda tape: lambda x: tape.multiply(x, x), [tape.constant_array(np.array([2.0, 3.0]))])
    >>> tape.values_of(squares).tolist(), tape.emptied().operations, len(tape.copy()) == len(tape), tape.in_loops(9)
    ([4.0, 9.0], 0, True, False)
    >>> with tape.located("model.py:7"):
    ...     print(Tape.of_rows(1, np.array([[0, 0, 0, 0], [ADD, 0, 0, 0]]), (), (1,)))
    t1 = add(x0, x0)
    return t1
    """

    __slots__ = (
        "_constant_references",
        "_operation_references",
        "codes",
        "constants",
        "first",
        "folded_zero_signs",
        "folding",
        "has_linear_algebra",
        "inputs",
        "literal",
        "outputs",
        "second",
        "signed_zeros",
        "simplified",
        "third",
    )

    def __init__(self, inputs: int, *, signed_zeros: bool = False, literal: bool = False) -> None:
        self.inputs = inputs
        #: True if builders record operations that they would otherwise simplify because of the value of one constant.
        #: Steps of a loop that take 0 or 1 from a table then stay alike. Copies have False.
        self.literal = literal
        #: Number of operations that were simplified because of the value of one constant.
        self.simplified = 0
        #: True if builders keep the sign of every zero. Copies have False.
        self.signed_zeros = signed_zeros
        #: True if builders have folded an operation that depends on the signs of zeros.
        self.folded_zero_signs = False
        #: True if linear algebra has been recorded; see `Program`.
        self.has_linear_algebra = False
        #: Operation code of each reference; inputs have code 0.
        self.codes = bytearray(inputs)
        #: First, second and third argument of each operation; 0 where it takes fewer.
        self.first = array("i", bytes(4 * inputs))
        self.second = array("i", bytes(4 * inputs))
        self.third: dict[int, int] = {}
        #: Value of the constant with reference r < 0 is ``constants[-1 - r]``.
        self.constants: list[float] = []
        #: What constants stand for, for a tape that is rewritten; tapes made of it have the same. None for other tapes,
        #: whose constants stand for themselves.
        self.folding: Folding | None = None
        #: References of the values that the program returns, which are real.
        self.outputs: list[int] = []
        #: Look-up tables of builders: references of constants by value, and of operations by a key. On tapes that were
        #: not recorded by builders, they are made at their first use.
        self._constant_references: dict[float | str, int] = {}
        self._operation_references: dict[int, int] = {}

    @classmethod
    def of_rows(cls, inputs: int, rows: NDArray[np.int64], constants: Sequence[float], outputs: Sequence[int]) -> Tape:
        """Return a tape of operations that are already simplified.

        Args:
            inputs: number of inputs, the first rows.
            rows: code and three argument references of each input and operation, (n, 4).
            constants: values of the constants, by −1 − reference.
            outputs: references of the outputs.
        """
        tape = cls.__new__(cls)
        tape.inputs = inputs
        tape.signed_zeros = tape.folded_zero_signs = tape.has_linear_algebra = tape.literal = False
        tape.simplified = 0
        tape.codes = bytearray(rows[:, 0].astype(np.uint8).tobytes())
        tape.first, tape.second = (array("i", rows[:, k].astype(np.intc).tobytes()) for k in (1, 2))
        tape.third = {}
        if not _TERNARY.isdisjoint(tape.codes):
            chosen = np.flatnonzero(_ARITY[rows[:, 0]] == 3)
            tape.third = dict(zip(chosen.tolist(), rows[chosen, 3].tolist(), strict=True))
        tape.constants, tape.outputs, tape.folding = list(constants), list(outputs), None
        return tape

    def __getattr__(self, name: str) -> Any:
        if name == "_operation_references":
            self._operation_references = self._operations_by_key()
            return self._operation_references
        if name == "_constant_references":
            self._constant_references = {_key(value): -k for k, value in enumerate(self.constants, 1)}
            return self._constant_references
        raise AttributeError(f"'Tape' object has no attribute {name!r}")

    def _operations_by_key(self) -> dict[int, int]:
        codes, first, second, inputs = self.codes, self.first, self.second, self.inputs
        references = {
            ((a << 32) + b << 8) | code: reference
            for reference, code, a, b in zip(
                range(inputs, len(codes)), codes[inputs:], first[inputs:], second[inputs:], strict=True
            )
            if code not in _TERNARY
        }
        for reference, c in self.third.items():
            references[_ternary_key(codes[reference], first[reference], second[reference], c)] = reference
        return references

    # Reading ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return the number of inputs and operations; references below it are valid."""
        return len(self.codes)

    @property
    def operations(self) -> int:
        """Number of operations on the tape, needed or not."""
        return len(self.codes) - self.inputs

    def operation(self, reference: int) -> Operation:
        """Return the row of the table for the operation at `reference`."""
        return OPERATIONS[self.codes[reference]]

    def arguments(self, reference: int) -> tuple[int, ...]:
        """Return references of the arguments of the operation at `reference`; empty for inputs."""
        arity = OPERATIONS[self.codes[reference]].arity
        if arity == 1:
            return (self.first[reference],)
        if arity == 2:
            return (self.first[reference], self.second[reference])
        if arity == 3:
            return (self.first[reference], self.second[reference], self.third[reference])
        return ()

    def value_of(self, reference: int) -> float:
        """Return the value of the constant with the negative reference `reference`."""
        return self.constants[-1 - reference]

    def values_of(self, references: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the values of constants, in the shape of their references."""
        constants = self.constants
        return np.array([constants[-1 - r] for r in references.ravel().tolist()], float).reshape(references.shape)

    def is_boolean(self, reference: int) -> bool:
        """Return True if `reference` is the result of a comparison or of a logical operation."""
        return reference >= 0 and _BOOLEAN[self.codes[reference]]

    def __str__(self) -> str:
        lines = [
            f"{self.name(reference)} = {self.operation(reference).name}"
            f"({', '.join(map(self.name, self.arguments(reference)))})"
            for reference in range(self.inputs, len(self))
        ]
        return "\n".join([*lines, f"return {', '.join(map(self.name, self.outputs))}"])

    def _repr_latex_(self) -> str | None:
        return to_latex(self)

    def name(self, reference: int) -> str:
        """Return the name of `reference` in print: x for inputs, t for operations, the number for constants."""
        if reference < 0:
            return repr(self.value_of(reference))
        return f"{'x' if reference < self.inputs else 't'}{reference}"

    def copy(self) -> Tape:
        """Return an independent tape with the same references."""
        other = Tape.__new__(Tape)
        other.inputs = self.inputs
        other.signed_zeros = other.folded_zero_signs = other.has_linear_algebra = other.literal = False
        other.simplified = self.simplified
        other.codes = self.codes[:]
        other.first, other.second, other.third = self.first[:], self.second[:], self.third.copy()
        other.constants, other.outputs, other.folding = self.constants[:], self.outputs[:], self.folding
        return other

    def emptied(self) -> Tape:
        """Return a tape with the same inputs and constants, and no operations."""
        other = Tape(self.inputs)
        other.constants, other.folding = self.constants[:], self.folding
        del other._constant_references  # made at its first use
        return other

    # Writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def unsigned_zeros(self) -> Iterator[None]:
        """Let builders ignore signs of zeros within the context, for functions whose order of operations is NumPy's."""
        before, self.signed_zeros = self.signed_zeros, False
        self.has_linear_algebra = True
        try:
            yield
        finally:
            self.signed_zeros = before

    def constant(self, value: float) -> int:
        """Return the reference of the constant `value`; equal values share one, and zeros of either sign differ."""
        value = float(value)
        key = _key(value)
        reference = self._constant_references.get(key)
        if reference is None:
            self.constants.append(value)
            reference = -len(self.constants)
            self._constant_references[key] = reference
        return reference

    def constant_array(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return references of many constants, in their shape."""
        bits = np.ascontiguousarray(values).reshape(-1).view(np.int64)
        if len(bits) and (bits == bits[0]).all():  # equal numbers are looked up once
            return np.full(values.shape, self.constant(values.flat[0]), np.int64)
        references = [self.constant(number) for number in values.ravel().tolist()]
        return np.array(references, np.int64).reshape(values.shape)

    def in_loops(self, entries: int, work: int | None = None, steps: int = 0) -> bool:
        """Return False, whatever `entries`, `work` and `steps`: a tape has no loops, see `Program.in_loops`."""
        return False

    def located(self, lines: object) -> AbstractContextManager[None]:
        """Do nothing: a tape does not store source lines of operations."""
        return nullcontext()

    @property
    def scalars(self) -> Tape:
        """The tape itself; for a `Program`, its tape if it has no loops."""
        return self

    @property
    def open(self) -> Tape:
        """The tape on which operations on numbers are recorded."""
        return self

    def map(
        self, build: Callable[[Tape], Callable[..., int]], operands: Sequence[Any], shape: tuple[int, ...] | None = None
    ) -> NDArray[np.int64]:
        """Apply a formula to each entry of references and arrays of them.

        Args:
            build: function of a tape that returns the formula, a function from references to a reference.
            operands: references, and arrays of them.
            shape: shape that the operands are broadcast to; by default their common shape.
        """
        if shape is None:
            shape = np.broadcast_shapes(*map(np.shape, operands))
        write = build(self)
        if not shape:
            return np.asarray(write(*map(int, operands)), np.int64)
        columns: list[Iterable[int]] = [
            repeat(operand)
            if type(operand) is int
            else (operand if operand.shape == shape else np.broadcast_to(operand, shape)).ravel().tolist()
            for operand in operands
        ]
        return np.array(list(map(write, *columns)), np.int64).reshape(shape)

    def apply(self, name: str, *arguments: int) -> int:
        """Return the reference of the operation `name` of the table on `arguments`, simplified.

        >>> tape = Tape(inputs=1)
        >>> tape.apply("exp", 0), tape.value_of(tape.apply("exp", tape.constant(0.0)))
        (1, 1.0)

        Raises:
            UnknownNameError: for a name that is not in the table.
            ArgumentError: for a wrong number of arguments.
        """
        if name not in _APPLICABLE:
            raise unknown_name("operation", name, _APPLICABLE)
        code = BY_NAME[name].code
        if len(arguments) != OPERATIONS[code].arity:
            raise ArgumentError(f"{name} takes {OPERATIONS[code].arity} arguments, {len(arguments)} were given")
        return self.apply_code(code, arguments)

    def apply_code(self, code: int, arguments: Sequence[int]) -> int:
        """Apply the operation with the given code, unchecked."""
        builder = _BUILDERS[code]
        return self._general(code, arguments) if builder is None else builder(self, *arguments)

    def add(self, a: int, b: int) -> int:
        """Return a + b."""
        if a > b:
            a, b = b, a
        if a < 0:
            if b < 0:
                return self.constant(self.constants[-1 - a] + self.constants[-1 - b])
            if self._is_nothing(a):
                return b
        elif a == b:
            return self.multiply(self.constant(2.0), a)
        codes = self.codes
        if b >= 0 and codes[b] == NEGATIVE:
            return self.subtract(a, self.first[b])
        if a >= 0 and codes[a] == NEGATIVE:
            return self.subtract(b, self.first[a])
        return self._record(ADD, a, b)

    def subtract(self, a: int, b: int) -> int:
        """Return a - b."""
        if b < 0:
            return self.add(a, self.constant(-self.constants[-1 - b]))
        if a < 0 and self._is_nothing(a):
            return self.negative(b)
        codes = self.codes
        if codes[b] == NEGATIVE:
            return self.add(a, self.first[b])
        if self.signed_zeros:
            return self._record(SUBTRACT, a, b)
        if a >= 0 and codes[a] == NEGATIVE:
            return self.negative(self.add(self.first[a], b))
        opposite = self._operation_references.get(((b << 32) + a << 8) | SUBTRACT)
        if (
            opposite is not None
            and a >= 0
            and a != b
            and ((a << 32) + b << 8) | SUBTRACT not in self._operation_references
        ):
            return self.negative(opposite)
        return self._record(SUBTRACT, a, b)

    def multiply(self, a: int, b: int) -> int:
        """Return a · b."""
        if a > b:
            a, b = b, a
        codes = self.codes
        if a < 0:
            constant = self.constants[-1 - a]
            if b < 0:
                return self.constant(constant * self.constants[-1 - b])
            if self.literal:
                return self._record(MULTIPLY, a, b)
            if constant in (0.0, 1.0, -1.0):
                self.simplified += 1
                if constant:
                    return b if constant > 0.0 else self.negative(b)
                if not self.signed_zeros:
                    return self.constant(0.0)
            if codes[b] == NEGATIVE:
                return self.multiply(self.constant(-constant), self.first[b])
        else:
            if codes[a] == NEGATIVE:
                return self.negative(self.multiply(self.first[a], b))
            if codes[b] == NEGATIVE:
                return self.negative(self.multiply(a, self.first[b]))
        return self._record(MULTIPLY, a, b)

    def divide(self, a: int, b: int) -> int:
        """Return a / b."""
        if b < 0:
            divisor = self.constants[-1 - b]
            if a < 0:
                return self._general(DIVIDE, (a, b))
            if self.literal:
                return self._record(DIVIDE, a, b)
            if divisor and abs(math.frexp(divisor)[0]) == 0.5 and math.isfinite(1.0 / divisor):
                return self.multiply(a, self.constant(1.0 / divisor))
        elif self.codes[b] == NEGATIVE:
            return self.negative(self.divide(a, self.first[b]))
        if a < 0 and not self.literal:
            dividend = self.constants[-1 - a]
            self.simplified += dividend == 0.0
            if dividend == 0.0 and not self.signed_zeros:
                return self.constant(0.0)
            if dividend == -1.0:
                return self.negative(self.divide(self.constant(1.0), b))
        elif a >= 0 and self.codes[a] == NEGATIVE:
            return self.negative(self.divide(self.first[a], b))
        return self._record(DIVIDE, a, b)

    def negative(self, a: int) -> int:
        """Return -a."""
        if a < 0:
            return self.constant(-self.constants[-1 - a])
        if self.codes[a] == NEGATIVE:
            return self.first[a]
        return self._record(NEGATIVE, a, 0)

    def power(self, a: int, b: int) -> int:
        """Return a to the power b; `accumulus.rewriting.canonical` simplifies further powers."""
        if b < 0 <= a:
            exponent = self.constants[-1 - b]
            if exponent == 0.0:
                return self.constant(1.0)
            if exponent == 1.0:
                return a
            if exponent == 2.0:
                return self.multiply(a, a)
            if exponent == 0.5:
                return self.apply("sqrt", a)
            if exponent == -0.5:
                return self.divide(self.constant(1.0), self.apply("sqrt", a))
            if exponent == -1.0:
                return self.divide(self.constant(1.0), a)
        return self._general(POWER, (a, b))

    def select(self, condition: int, a: int, b: int) -> int:
        """Return a if `condition` holds, else b."""
        if condition < 0:
            return a if self.constants[-1 - condition] else b
        if a == b:
            return a
        return self._ternary(SELECT, condition, a, b)

    def logical_not(self, a: int) -> int:
        """Return not a; the negation of "equal" is "not_equal", also for NaN."""
        if a >= 0:
            name = OPERATIONS[self.codes[a]].name
            if name == "logical_not":
                return self.first[a]
            if name in ("equal", "not_equal"):
                opposite = "not_equal" if name == "equal" else "equal"
                return self.apply(opposite, self.first[a], self.second[a])
        return self._general(BY_NAME["logical_not"].code, (a,))

    def logical_and(self, a: int, b: int) -> int:
        """Return a and b."""
        if a > b:
            a, b = b, a
        if a < 0:
            return b if self.constants[-1 - a] else self.constant(0.0)
        return a if a == b else self._general(BY_NAME["logical_and"].code, (a, b))

    def logical_or(self, a: int, b: int) -> int:
        """Return a or b."""
        if a > b:
            a, b = b, a
        if a < 0:
            return self.constant(1.0) if self.constants[-1 - a] else b
        return a if a == b else self._general(BY_NAME["logical_or"].code, (a, b))

    def minimum(self, a: int, b: int) -> int:
        """Return the smaller of a and b, or NaN.

        >>> tape = Tape(inputs=2)
        >>> tape.minimum(0, 1), tape.minimum(0, tape.constant(math.inf))
        (2, 0)
        """
        return self._extremum(BY_NAME["minimum"].code, a, b, math.inf)

    def maximum(self, a: int, b: int) -> int:
        """Return the larger of a and b, or NaN.

        >>> tape = Tape(inputs=2)
        >>> tape.maximum(0, 1), tape.maximum(0, tape.constant(-math.inf))
        (2, 0)
        """
        return self._extremum(BY_NAME["maximum"].code, a, b, -math.inf)

    def _extremum(self, code: int, a: int, b: int, neutral: float) -> int:
        if a > b:
            a, b = b, a
        return b if a < 0 <= b and self.constants[-1 - a] == neutral else self._general(code, (a, b))

    def sum(self, terms: Iterable[int]) -> int:
        """Return the terms added from left to right; 0 if there are none."""
        total = None
        for term in terms:
            total = term if total is None else self.add(total, term)
        return self.constant(0.0) if total is None else total

    def _is_nothing(self, constant: int) -> bool:
        """Return True if ``constant + x`` is x for all x; with signed zeros, only -0 has this property."""
        value = self.constants[-1 - constant]
        if self.literal or value != 0.0:
            return False
        self.simplified += 1
        return not self.signed_zeros or math.copysign(1.0, value) < 0.0

    def _general(self, code: int, arguments: Sequence[int]) -> int:
        """Fold the operation if all arguments are constants, else record it."""
        if max(arguments) < 0:
            self.folded_zero_signs |= OPERATIONS[code].zero_signs == "seen"
            # NumPy's numbers, since Python's raise an error where IEEE 754 gives infinity or NaN
            return self.constant(OPERATIONS[code].evaluate(*(np.float64(self.value_of(a)) for a in arguments)))
        if len(arguments) == 3:
            return self._ternary(code, *arguments)
        a = arguments[0]
        b = arguments[1] if len(arguments) > 1 else 0
        parity = (_SIGNED_PARITY if self.signed_zeros else _PARITY)[code]
        if parity is not None and self.codes[a] == NEGATIVE:
            even = self._record(code, self.first[a], b)
            return even if parity == "even" else self.negative(even)
        if a > b and _COMMUTATIVE[code]:
            a, b = b, a
        return self._record(code, a, b)

    def _record(self, code: int, a: int, b: int) -> int:
        key = ((a << 32) + b << 8) | code
        reference = self._operation_references.get(key)
        return self._append(key, code, a, b) if reference is None else reference

    def _ternary(self, code: int, a: int, b: int, c: int) -> int:
        key = _ternary_key(code, a, b, c)
        reference = self._operation_references.get(key)
        if reference is None:
            reference = self._append(key, code, a, b)
            self.third[reference] = c
        return reference

    def _append(self, key: int, code: int, a: int, b: int) -> int:
        reference = len(self.codes)
        self._operation_references[key] = reference
        self.codes.append(code)
        self.first.append(a)
        self.second.append(b)
        return reference


def to_latex(tape: Tape) -> str | None:
    r"""Return operations and outputs as aligned equations for notebooks; None for more than `LONGEST_LATEX` of them.

    >>> tape = Tape(2)
    >>> tape.outputs = [tape.apply("sin", tape.divide(0, 1))]
    >>> print(to_latex(tape))
    $$\begin{aligned}
    t_{2} &= \frac{x_{0}}{x_{1}} \\
    t_{3} &= \sin\left(t_{2}\right) \\
    y_{0} &= t_{3}
    \end{aligned}$$
    """
    if not 0 < tape.operations + len(tape.outputs) <= LONGEST_LATEX:
        return None
    lines = [
        f"t_{{{k}}} &= {_latex_operation(tape.operation(k).latex, [_latex_name(tape, a) for a in tape.arguments(k)])}"
        for k in range(tape.inputs, len(tape))
    ]
    lines += [f"y_{{{k}}} &= {_latex_name(tape, reference)}" for k, reference in enumerate(tape.outputs)]
    return "$$\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}$$"


def _latex_operation(latex: str, arguments: list[str]) -> str:
    return latex.format(*arguments) if "{0}" in latex else f"{latex}\\left({', '.join(arguments)}\\right)"


def _latex_name(tape: Tape, reference: int) -> str:
    """Return an input, an operation, or a constant; constants with a sign or a power of ten are bracketed."""
    if reference >= 0:
        return f"{'x' if reference < tape.inputs else 't'}_{{{reference}}}"
    text = f"{tape.value_of(reference):.15g}"
    if "e" in text:
        digits, power = text.split("e")
        text = rf"{digits} \cdot 10^{{{int(power)}}}"
    return rf"\left({text}\right)" if text.startswith("-") or "cdot" in text else text.replace("inf", r"\infty")


def _key(value: float) -> float | str:
    """Return the key of a constant."""
    # 0.0 and -0.0 are equal as keys, but different as divisors; NaN is not equal to itself
    return str(value) if value == 0.0 or math.isnan(value) else value


def _ternary_key(code: int, a: int, b: int, c: int) -> int:
    """Return the key of an operation with three arguments."""
    return (((c << 32) + a << 32) + b << 8) | code


#: Simplifying methods, by code; None for operations that only fold constants.
_BUILDERS: Final = tuple(getattr(Tape, operation.name, None) for operation in OPERATIONS)


# Bytes: for the cache, and for keys of plans and code made from tapes -----------------------------------------------

_ARITY: Final = np.array([operation.arity for operation in OPERATIONS])
#: Arguments of operations that are truth values, by code.
TAKES_TRUTH: Final = np.array(
    [[k < row.arity and row.arguments[k] == "boolean" for k in range(3)] for row in OPERATIONS]
)
#: Count of the leading integers: numbers of inputs, references, constants and outputs.
_HEAD: Final = 4


def to_bytes(tape: Tape) -> bytes:
    """Return inputs, operations, constants (bit for bit) and outputs as bytes; equal tapes have equal bytes."""
    rows = np.zeros((len(tape), 4), "<i4")
    rows[:, 0] = np.frombuffer(bytes(tape.codes), np.uint8)
    rows[:, 1], rows[:, 2] = tape.first, tape.second
    rows[list(tape.third), 3] = list(tape.third.values())
    head = np.array([tape.inputs, len(tape), len(tape.constants), len(tape.outputs)], "<i8")
    rest = np.array(tape.constants, "<f8"), np.array(tape.outputs, "<i8"), rows
    return b"".join(array.tobytes() for array in (head, *rest))


def from_bytes(content: bytes) -> Tape:
    """Return the tape that `to_bytes` has serialised, with the same references.

    Raises:
        ValueError: if the bytes are not a tape: if they have a wrong length, unknown operations, operations that
            precede their arguments or take a truth value for a number or the reverse, or anything but 0 in the place of
            an argument that an operation does not take.
    """
    inputs, size, constants, outputs = np.frombuffer(content, "<i8", _HEAD).tolist()
    if min(inputs, size - inputs, constants, outputs) < 0:
        raise ValueError("the bytes are not those of a tape")
    if len(content) != 8 * (_HEAD + constants + outputs) + 16 * size:
        raise ValueError(f"{len(content)} bytes are more or fewer than a tape has that begins in this way")
    constants_read = np.frombuffer(content, "<f8", constants, 8 * _HEAD)
    outputs_read = np.frombuffer(content, "<i8", outputs, 8 * (_HEAD + constants))
    rows = np.frombuffer(content, "<i4", 4 * size, 8 * (_HEAD + constants + outputs)).reshape(-1, 4).astype(np.int64)
    _check_rows(inputs, rows, constants)
    if outputs and not (outputs_read.min() >= -constants and outputs_read.max() < size):
        raise ValueError("the tape has outputs that are not on it")
    return Tape.of_rows(inputs, rows, constants_read.tolist(), outputs_read.tolist())


def _check_rows(inputs: int, rows: NDArray[np.int64], constants: int) -> None:
    codes = rows[:, 0]
    if codes[:inputs].any() or (codes < 0).any() or (codes >= len(OPERATIONS)).any() or not codes[inputs:].all():
        raise ValueError("the tape has operations that do not exist")
    before = np.arange(len(rows))[:, None]
    taken = np.arange(3) < _ARITY[codes][:, None]
    if (taken & ((rows[:, 1:] >= before) | (rows[:, 1:] < -constants))).any():
        raise ValueError("the tape has operations that come before their arguments")
    # passes over tapes follow all three references of a row
    if (rows[:, 1:][~taken] != 0).any():
        raise ValueError("the tape has arguments that its operations do not take")
    is_truth = np.append(np.array(_BOOLEAN)[codes], np.zeros(constants, bool))  # the last constant comes first
    if (taken & (is_truth[rows[:, 1:]] != TAKES_TRUTH[codes])).any():
        raise ValueError("the tape has an operation with a boolean operand instead of a number, or the reverse")
