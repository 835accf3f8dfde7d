"""Proofs modulo primes: what is proved is so, what is so by algebra is proved, and what is changed is not."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
import sympy
from contexts import rewritten_by_rules
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inside import BY_NAME, OPERATIONS, Points, canonical, evaluate
from programs import RATIONAL, Program, programs, small_fraction

import accumulus as acc
from accumulus import Tape
from accumulus.resubstitution.proofs import _largest, _roots, _Size, prove
from accumulus.rewriting.compiled.fields import PRIME_BITS
from accumulus.rewriting.equivalence import POINTS, dependent_roots, primes


class _Writer:
    """Expressions as Python writes them, on a tape."""

    def __init__(self, tape, reference):
        self.tape, self.reference = tape, reference

    def _with(self, name, other, turned=False):
        other = other.reference if isinstance(other, _Writer) else self.tape.constant(other)
        a, b = (other, self.reference) if turned else (self.reference, other)
        return _Writer(self.tape, self.tape.apply(name, a, b))

    def __getattr__(self, name):
        tape = self.tape
        return lambda *rest: _Writer(tape, tape.apply(name, self.reference, *(each.reference for each in rest)))

    def __add__(self, other):
        return self._with("add", other)

    def __radd__(self, other):
        return self._with("add", other)

    def __sub__(self, other):
        return self._with("subtract", other)

    def __rsub__(self, other):
        return self._with("subtract", other, turned=True)

    def __mul__(self, other):
        return self._with("multiply", other)

    def __rmul__(self, other):
        return self._with("multiply", other)

    def __truediv__(self, other):
        return self._with("divide", other)

    def __rtruediv__(self, other):
        return self._with("divide", other, turned=True)

    def __pow__(self, other):
        return self._with("power", other)

    def __neg__(self):
        return _Writer(self.tape, self.tape.negative(self.reference))


def proves(one, two, inputs=3):
    tapes = []
    for function in (one, two):
        tape = Tape(inputs)
        tape.outputs = [function(*(_Writer(tape, k) for k in range(inputs))).reference]
        tapes.append(tape)
    return prove(*tapes).is_whole


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (lambda x, y, z: (x + y) * (x - y), lambda x, y, z: x * x - y * y),
        (lambda x, y, z: x / y + z / y, lambda x, y, z: (x + z) / y),
        (lambda x, y, z: 1 / (1 / x + 1 / y), lambda x, y, z: x * y / (x + y)),
        (lambda x, y, z: (x**3 - y**3) / (x - y), lambda x, y, z: x * x + x * y + y * y),
        (lambda x, y, z: x**2.5 * y, lambda x, y, z: x * (x**1.5 * y)),
        (lambda x, y, z: x**-1.25, lambda x, y, z: x**-0.25 / x),
        (lambda x, y, z: 0.1 * x + 0.1 * y, lambda x, y, z: 0.1 * (x + y)),
        (lambda x, y, z: x.sin() * x.sin() + x.cos() * x.cos(), lambda x, y, z: x / x),
        (lambda x, y, z: (-x).sin() * (-x).cos(), lambda x, y, z: -(x.sin() * x.cos())),
        (lambda x, y, z: (x + y).sqrt() * (y + x).sqrt(), lambda x, y, z: x + y),
        (lambda x, y, z: (x.sqrt() - y.sqrt()) * (x.sqrt() + y.sqrt()), lambda x, y, z: x - y),
        (lambda x, y, z: (x + y.sqrt()).sqrt() * z / (x + y.sqrt()), lambda x, y, z: z / (x + y.sqrt()).sqrt()),
        (lambda x, y, z: (x + y).exp() * z - z * (y + x).exp() + z, lambda x, y, z: z),
        (lambda x, y, z: (x - y).tanh(), lambda x, y, z: -(y - x).tanh()),
        (lambda x, y, z: (x - y).cosh(), lambda x, y, z: (y - x).cosh()),
        (lambda x, y, z: (x * y).maximum(z), lambda x, y, z: z.maximum(y * x)),
        (lambda x, y, z: x.less(y).select(x * z, y * z), lambda x, y, z: z * x.less(y).select(x, y)),
        (lambda x, y, z: x.equal(y).select(x, z), lambda x, y, z: x.not_equal(y).select(z, x)),
        (lambda x, y, z: (x * y).floor() * (z + 1), lambda x, y, z: (x * y).floor() * z + (x * y).floor()),
    ],
)  # fmt: skip
def test_identities_are_proved(one, two):
    assert proves(one, two)
    # and no longer with something more
    assert not proves(one, lambda *x: two(*x) + 2.0**-30 * x[2])
    assert not proves(lambda *x: one(*x) * (1 + 2.0**-50), two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (lambda x, y, z: (x * x).sqrt(), lambda x, y, z: x),
        (lambda x, y, z: x.sqrt() * y.sqrt(), lambda x, y, z: (x * y).sqrt()),
        (lambda x, y, z: (4 * x).sqrt(), lambda x, y, z: 2 * x.sqrt()),
        (lambda x, y, z: (x.sqrt() * x).sqrt() * y.sqrt(), lambda x, y, z: (x.sqrt() * x * y).sqrt()),
        (lambda x, y, z: (1 + 1e-9) * (x * y), lambda x, y, z: x * y),
        (lambda x, y, z: x * 0.1 * 3.0, lambda x, y, z: x * (0.1 * 3.0)),
        (lambda x, y, z: (x + y).exp(), lambda x, y, z: x.exp() * y.exp()),
        (lambda x, y, z: x.tanh(), lambda x, y, z: (-x).tanh()),
        (lambda x, y, z: x.exp(), lambda x, y, z: (-x).exp()),
        (lambda x, y, z: x.atan2(y), lambda x, y, z: y.atan2(x)),
        (lambda x, y, z: x.less(y).select(x, y), lambda x, y, z: x),
        (lambda x, y, z: x.less(y).select(x, y), lambda x, y, z: y.less(x).select(y, x)),
        (lambda x, y, z: x.less(y).select(x, y), lambda x, y, z: x.minimum(y)),
        (lambda x, y, z: (x * y * z).floor(), lambda x, y, z: (x * y).floor() * z),
        (lambda x, y, z: x / (y - y), lambda x, y, z: x / (z - z)),
        (lambda x, y, z: x * float("inf"), lambda x, y, z: y * float("inf")),
        (lambda x, y, z: x**4, lambda x, y, z: x**5),
        (lambda x, y, z: x.power(y), lambda x, y, z: y.power(x)),
    ],
)  # fmt: skip
def test_false_identities_are_not_proved(one, two):
    assert not proves(one, two)


def test_roots_of_which_a_product_is_a_square_have_all_signs():
    """Of four roots, three with a square for a product: a relation that holds for half of the signs."""
    for sign in (1.0, -1.0):
        assert not proves(
            lambda x, y, z, sign=sign: x.sqrt() * y.sqrt() + z.sqrt(),
            lambda x, y, z, sign=sign: sign * (x * y).sqrt() + z.sqrt(),
        )
    # for an eighth of them, and only where all are tried
    assert not proves(
        lambda x, y, z: ((x * x).sqrt() - x) * ((y * y).sqrt() - y) * ((z * z).sqrt() - z),
        lambda x, y, z: x - x,
    )


@pytest.mark.parametrize("roots", [1, 2, 3, 6])
def test_what_is_zero_for_all_signs_but_one_is_not_proved(roots):
    """Of roots of squares, whose signs nothing but the sign of a number decides; whatever points are drawn."""
    for write in (lambda tape, x: tape.apply("sqrt", x), lambda tape, x: tape.apply("power", x, tape.constant(0.5))):
        tape, zero = Tape(roots), Tape(roots)
        factors = [tape.subtract(write(tape, tape.multiply(k, k)), k) for k in range(roots)]
        tape.outputs, zero.outputs = [tape.add(reduce(tape.multiply, factors), 0)], [0]
        assert not any(prove(tape, zero, seed).is_whole for seed in range(20))


def test_roots_that_are_independent_are_seen_to_be():
    """Where no product of radicands is a square, each sign can be turned without the others."""
    tape = Tape(6)
    radicands = [tape.add(k, tape.constant(k + 2.0)) for k in range(6)]
    roots = [tape.apply("sqrt", each) for each in radicands]
    tape.outputs = [tape.sum(roots)]
    assert _roots(tape, tape) == (6, 0)
    tape.outputs = [tape.apply("sqrt", tape.outputs[0])]
    assert _roots(tape, tape) == (7, 0)
    # a root of a square, of a product of other radicands, of 4 times another one, and of four times a root's
    inner = tape.multiply(tape.constant(4.0), tape.first[tape.outputs[0]])
    products = [tape.multiply(0, 0), tape.multiply(*radicands[:2]), tape.multiply(tape.constant(4.0), radicands[2])]
    for more, each in enumerate((*products, inner), 1):
        tape.outputs = [tape.add(tape.outputs[0], tape.apply("sqrt", each))]
        assert _roots(tape, tape) == (7 + more, more)
    # each output by itself
    tape.outputs += [tape.apply("sqrt", each) for each in products]
    sides = Points(tape).for_roots([tape], 0)
    assert dependent_roots(sides) == [4, 1, 0, 0]


@settings(max_examples=30)
@given(
    program=st.one_of(
        programs(RATIONAL, constants=(0.0, 1.0, -1.0, 2.0, 0.5), exponents=(-2.0, 2.0, 3.0), steps=14),
        programs(("add", "subtract", "multiply", "divide"), constants=(1.0,), exponents=(), inputs=2, steps=14),
    ),
    data=st.data(),
    points=st.lists(st.tuples(*[st.fractions(-4, 4, max_denominator=7)] * 4), min_size=4, max_size=4),
)
def test_proofs_of_changed_programs_are_correct(program, data, points):
    tape = canonical(program.tape())
    assume(all(map(small_fraction, tape.constants)) and program.steps)
    step = data.draw(st.integers(0, len(program.steps) - 1))
    name, arguments = program.steps[step]
    alike = [row.name for row in OPERATIONS if row.arguments == BY_NAME[name].arguments and row.name in RATIONAL]
    name = data.draw(st.sampled_from([each for each in alike if BY_NAME[each].result == BY_NAME[name].result]))
    steps = [*program.steps[:step], (name, arguments[::-1]), *program.steps[step + 1 :]]
    assume(name not in ("power", "select"))
    changed = canonical(Program(program.inputs, program.constants, tuple(steps), program.outputs).tape())
    assume(all(map(small_fraction, changed.constants)))
    proof = prove(tape, changed)
    for point in points:
        try:
            one, two = (evaluate(each, point[: tape.inputs], RATIONAL, Fraction) for each in (tape, changed))
        except ZeroDivisionError:
            continue
        assert all(a == b for a, b, proved in zip(one, two, proof.outputs, strict=True) if proved)


@settings(max_examples=20)
@given(programs((*RATIONAL, "sqrt", "sin", "cos", "exp"), constants=(1.0, 2.0), exponents=(2.0, 3.0), steps=14))
def test_results_of_rules_are_proved(program):
    """All of it where nothing was rounded and no number was folded, or is undefined."""
    tape = canonical(program.tape())
    made = rewritten_by_rules(tape, effort="fast")
    proof, itself = prove(tape, made), prove(tape, tape)
    assume(all(map(small_fraction, made.constants)))
    operations = {made.operation(r).name for r in range(made.inputs, len(made))}
    if operations <= {"add", "subtract", "multiply", "negative"} and made.operations:
        assert proof.is_whole
        assert proof.error < 2.0**-60
    assert not any(proved and not reflexive for proved, reflexive in zip(proof.outputs, itself.outputs, strict=True))


def test_degrees_are_not_too_small():
    tape = Tape(2)
    x = 0
    for _ in range(5):
        x = tape.multiply(x, x)
    tape.outputs = [x]
    assert _largest(tape) == _Size(32, 0)
    # of a sum over one denominator, only that
    tape = Tape(4)
    tape.outputs = [tape.divide(0, 3)]
    for k in range(1, 3):
        tape.outputs = [tape.add(tape.outputs[0], tape.divide(k, 3))]
    assert _largest(tape).degree == 2
    tape = Tape(1)
    tape.outputs = [tape.divide(tape.apply("sqrt", tape.add(0, tape.constant(0.25))), tape.apply("sin", 0))]
    # √(4x + 1) · (1 + t²) / (2 · 2t): a half, and two
    assert _largest(tape).degree >= 3


@given(
    program=programs(
        ("add", "subtract", "multiply", "divide"), constants=(2.0, 0.5, 3.0), exponents=(), inputs=2, steps=8
    )
)
@settings(max_examples=15)
def test_degrees_and_heights_bound_those_of_sympy(program):
    tape = canonical(program.tape())
    symbols = sympy.symbols("x0:2")
    size = _largest(tape)
    for k in range(tape.inputs, len(tape)):
        try:
            value = evaluate_at(tape, k, symbols)
        except ZeroDivisionError:
            continue
        if value.has(sympy.nan, sympy.zoo, sympy.oo):
            continue
        for fraction in sympy.fraction(sympy.cancel(value)):
            polynomial = sympy.Poly(fraction, *symbols)
            assert polynomial.total_degree() <= size.degree
            assert sum(map(abs, polynomial.coeffs())) <= 2**size.bits


def evaluate_at(tape, reference, symbols):
    alone = tape.copy()
    alone.outputs = [reference]
    arithmetic = {name: RATIONAL[name] for name in ("add", "subtract", "multiply", "negative")}
    arithmetic["divide"] = lambda a, b: sympy.nan if sympy.cancel(b) == 0 else a / b
    return sympy.sympify(evaluate(alone, symbols, arithmetic, lambda x: sympy.Rational(*x.as_integer_ratio()))[0])


def test_primes_are_primes():
    for number in range(10):
        for prime in primes(number):
            assert prime % 4 == 3
            assert 2 ** (PRIME_BITS - 1) <= prime < 2**PRIME_BITS
            assert sympy.isprime(prime)


@given(st.integers(0, 2**40), st.integers(0, 2**30))
def test_roots_are_roots(seed, number):
    """Of residues, and of roots, which have one or the other part: their squares are what they are of."""
    tape = Tape(1)
    radicand = tape.add(0, tape.constant(float(number)))
    root = tape.apply("sqrt", radicand)
    twice = tape.apply("sqrt", root)
    tape.outputs = [twice]
    points = Points(tape, seed)
    run = points.run(tape)
    for p, prime in enumerate(points.modulo.tolist()):
        at = [(int(run.real[r, p]), int(run.imaginary[r, p])) for r in (radicand, root, twice)]
        for (real, imaginary), (a, b) in pairwise(at):
            assert ((a * a - b * b) % prime, 2 * a * b % prime) == (real, imaginary)


def test_reports_name_proved_outputs(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCUMULUS_CACHE", str(tmp_path))

    def function(x):
        return np.array([np.sin(x[0]) ** 2 + np.cos(x[0]) ** 2 + x[1], (x[0] + x[1]) * (x[0] - x[1]) + x[1] ** 2])

    texts = []
    for _ in range(2):
        program = acc.value_and_jacobian(function, effort="thorough").compile(np.ones(2))
        facts = program.report().by_value
        assert facts.proved == facts.outputs == len(program.by_value.proof.outputs)
        assert facts.error < 1e-18
        assert facts.tested >= POINTS
        texts.append([line for line in str(program.report()).splitlines() if line.startswith("same results")])
    assert texts[0] == texts[1]
    assert "proved" in texts[0][0]
    assert acc.jacobian(function).compile(np.ones(2)).report().by_value is None


def test_a_program_that_was_changed_fails_the_test():
    from accumulus.errors import VerificationError
    from accumulus.resubstitution.optimise import ByValue

    before, wrong = Tape(2), Tape(2)
    before.outputs = [before.add(0, 1)]
    wrong.outputs = [wrong.add(0, wrong.multiply(wrong.constant(1.0 + 1e-9), 1))]
    assert not ByValue(before, wrong).proof.is_whole
    with pytest.raises(VerificationError):
        _ = ByValue(before, wrong).tested
