"""Values read in plain Python, one operation after the other: what the compiled reader has to find, too."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from inside import ADD, DIVIDE, MULTIPLY, needed

from accumulus.resubstitution.compiled.definitions_kernel import COPY
from accumulus.resubstitution.values import NUMBERS, normal
from accumulus.rewriting.compiled.fields import UNDEFINED
from accumulus.rewriting.rounding import LOST, SLACK, UNIT, operation_with_bounds, within
from accumulus.tape.live import as_written, seeing_zero_signs
from accumulus.tape.tape import NEGATIVE, SELECT, SUBTRACT


class SlowValues:
    """`accumulus.resubstitution.values.Values` with tuples as values and dictionaries as tables."""

    def __init__(self, base, check, points, kept_outputs=0):
        self.definitions, self.numbers, self.inputs, self.fixed = {}, {}, {}, {}
        self.points, _, self.common, self.generic, self.span = points
        self.check, self.kept_outputs, self.primes = check, kept_outputs, check.modulo.tolist()
        self.seen, self.by_form, self.by_residues = [None], {}, {}
        self.base = self.read(base, is_base=True)
        for number in NUMBERS:
            self.number(number, None)

    def __len__(self):
        return len(self.seen)

    def read(self, tape, *, is_base=False):
        """Meanings, exact meanings, own definitions and outputs; None for what is written in another way."""
        run = self.check.run(tape)
        fixed, seen = rounded_as_written(tape, self.kept_outputs), at_real_points(tape, self.points, self.span)
        meanings, exact, known_values = [], [], {}

        def meaning(of, reference):
            return of[reference] if reference >= 0 else self.number(tape.value_of(reference), tape.folding)

        for r in range(len(tape)):
            residues = tuple(zip(run.real[r].tolist(), run.imaginary[r].tolist(), strict=True))
            if r < tape.inputs:
                sign = self.sign(residues)
                if ("input", r) not in self.by_form:
                    node = self.new(self.times(sign, residues), sign, seen[r])
                    self.by_form["input", r] = sign * node
                    self.inputs[node] = sign, r
                meanings.append(self.by_form["input", r])
                exact.append(meanings[r])
                continue
            code = tape.codes[r]
            if code == NEGATIVE:
                meanings.append(-meaning(meanings, tape.first[r]))
                exact.append(-meaning(exact, tape.first[r]))
                continue
            arguments = [meaning(exact if fixed[r] else meanings, a) for a in tape.arguments(r)]
            if code == SUBTRACT:
                code, arguments = ADD, [arguments[0], -arguments[1]]
            if fixed[r]:
                written = normal(0, code, arguments, 1)
                form = "fixed", written.code, written.arguments
                if form not in self.by_form:
                    if not is_base:
                        return None
                    node = self.by_form[form] = self.new(None, written.sign, seen[r])
                    known_values[node] = self.fixed[node] = written._replace(node=node, sign=1)
                exact.append(written.sign * self.by_form[form])
                code, arguments = COPY, [exact[r]]
            value = self.trivial(code, arguments)
            if value is None:
                value = self.value(code, arguments, None if run.is_truth[r] else residues, seen[r])
            meanings.append(value)
            if not fixed[r]:
                exact.append(value)
            node = abs(value)
            if not (node in self.numbers or node in self.inputs or node in map(abs, arguments)):
                definition = normal(node, code, arguments, 1 if value > 0 else -1)
                self.definitions[definition] = None
                known_values.setdefault(node, definition)
        outputs = [meaning(exact if k < self.kept_outputs else meanings, r) for k, r in enumerate(tape.outputs)]
        return meanings, exact, known_values, outputs

    def number(self, number, folding):
        """The value of a constant, whose residues are those of the fraction that it stands for."""
        finite = math.isfinite(number)
        form = "number", abs(number) if finite else str(number)
        if form not in self.by_form:
            magnitude, residues, sign = abs(number) if finite else number, None, 1
            if number and finite:
                exact = Fraction(magnitude) if folding is None else folding.of(magnitude)
                residues = tuple((exact.numerator * pow(exact.denominator, -1, p) % p, 0) for p in self.primes)
                sign = self.sign(residues)
                residues = self.times(sign, residues)
            everywhere = np.full(len(self.points), magnitude)
            node = self.new(residues, sign, (everywhere, 0 * np.zeros_like(everywhere)))
            self.numbers[node] = sign * magnitude
            self.by_form[form] = sign * node
        return -self.by_form[form] if finite and number < 0 else self.by_form[form]

    def trivial(self, code, arguments):
        if code not in (ADD, MULTIPLY, DIVIDE):
            return None
        zero, one = self.number(0.0, None), self.number(1.0, None)
        a, b = arguments
        if not all(np.isfinite(self.seen[abs(each)][0][self.generic]).all() for each in arguments):
            return None
        sign = 1 if (a > 0) == (b > 0) else -1
        if code == ADD:
            ways = [(a == -b, zero), (abs(a) == zero, b), (abs(b) == zero, a)]
        elif code == MULTIPLY:
            ways = [(zero in (abs(a), abs(b)), zero), (abs(b) == one, sign * abs(a)), (abs(a) == one, sign * abs(b))]
        else:
            ways = [(abs(a) == zero, zero), (abs(b) == one, sign * abs(a)), (abs(a) == abs(b), sign * one)]
        return next((value for holds, value in ways if holds), None)

    def value(self, code, arguments, residues, seen):
        """The value of an operation, by its form or by its residues; these are None for truth values."""
        form = (code, *arguments)
        if form not in self.by_form:
            if residues is not None and all(real != UNDEFINED and (real, b) != (0, 0) for real, b in residues):
                sign = self.sign(residues)
                residues = self.times(sign, residues)
                node = self.found(residues, (sign * seen[0], seen[1]))
                if node is None:
                    node = self.new(residues, sign, seen)
                elif score(seen[1]) < score(self.seen[node][1]) and node not in self.numbers:
                    self.seen[node] = sign * seen[0], seen[1]
                self.by_form[form] = sign * node
            else:
                self.by_form[form] = self.new(None, 1, seen)
        return self.by_form[form]

    def found(self, residues, seen):
        """The first of all values that has these residues and may be this number."""
        return next((node for node in self.by_residues.get(residues, ()) if self.same(seen, node)), None)

    def same(self, seen, node):
        (x, error), (y, other) = seen, self.seen[node]
        for p, common in enumerate(self.common):
            if math.isfinite(x[p]) != math.isfinite(y[p]):
                if common:
                    return False
            elif math.isfinite(x[p]):
                allowed = SLACK * UNIT * (error[p] + other[p])
                if allowed < LOST * max(abs(x[p]), abs(y[p])) and abs(x[p] - y[p]) > allowed:
                    return False
        return True

    def new(self, residues, sign, seen):
        self.seen.append((sign * seen[0], seen[1]))
        node = len(self.seen) - 1
        if residues is not None:
            self.by_residues.setdefault(residues, []).append(node)
        return node

    def sign(self, residues):
        """1 if the first residue comes before its negative, else -1: no value and its negative are two values."""
        return 1 if residues[0] <= self.times(-1, residues)[0] else -1

    def times(self, sign, residues):
        """Residues, or their negatives."""
        return tuple((sign * a % p, sign * b % p) for (a, b), p in zip(residues, self.primes, strict=True))


def score(bounds):
    return np.log(np.clip(bounds, 1e-30, 1e30)).sum()


def rounded_as_written(tape, kept_outputs):
    seeing = seeing_zero_signs(tape).tolist()
    marks = [as_written(tape, kept_outputs), needed(tape, seeing) if seeing else bytearray(len(tape))]
    return [marks[0][r] or marks[1][r] or r in seeing for r in range(len(tape))]


def at_real_points(tape, points, span):
    """Of each input and operation, values at real points and bounds, by NumPy alone."""
    numbers = [np.full(len(points), number) for number in reversed(tape.constants)]
    values = [*np.asarray(points).T, *[None] * tape.operations, *numbers]
    errors = [np.zeros(len(points)) for _ in values]
    for r in (*range(tape.inputs), *range(-len(numbers), 0)):
        values[r], errors[r] = within(span, values[r], errors[r])
    with np.errstate(all="ignore"):
        for r in range(tape.inputs, len(tape)):
            arguments = tape.arguments(r)
            at = [[of[a] for a in arguments] for of in (values, errors)]
            made = operation_with_bounds(tape.codes[r], *at)
            # a choice rounds nothing
            values[r], errors[r] = made if tape.codes[r] == SELECT else within(span, *made)
    return list(zip(values, errors, strict=True))
