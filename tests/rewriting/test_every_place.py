"""Every place that takes programs for equal is fed a false identity that samples confirm, and rejects it.

`docs/numerics.md` lists the places ("What is proved, and what is guarded"). Each finder of other programs is replaced
by one that finds a false one; the derivative stays right where the identity does not hold.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from inside import BY_NAME, MULTIPLY, Context, outputs_at, with_folding

import accumulus as acc
from accumulus import Tape
from accumulus.arrays import jacobian
from accumulus.errors import VerificationError
from accumulus.options import Options
from accumulus.programs import graphs, rewritten
from accumulus.resubstitution import optimise as by_value
from accumulus.resubstitution import resubstitute
from accumulus.resubstitution.optimise import has_results_of
from accumulus.resubstitution.proofs import prove
from accumulus.rewriting import optimise as rules
from accumulus.rewriting.acceptance import Original
from accumulus.rewriting.equivalence import Verification

FAR = 700.0
LONG = 512


def profile(x):
    """A function of |x₀ - 550|, by its square, and what rotations and angles are looked for in."""
    d = x[0] - 550.0
    r = np.sqrt(d * d)
    c, s = np.cos(x[1]), np.sin(x[1])
    u, v = c * x[2] - s * x[3], s * x[2] + c * x[3]
    e = np.exp(-r / 100.0) * np.cos(x[4])
    return np.array([u * e + d / (1.0 + r), v * e + r * d, (c * np.cos(x[4]) - s * np.sin(x[4])) * r])


def in_loops(x):
    """The sum of the function of each row."""
    return np.sum(acc.map(profile, x))


def falsified(tape: Tape) -> Tape:
    """Write -d for √(d²): true wherever d is negative, as at points near those of a first call with d = -150."""
    made = Tape(tape.inputs)
    places = list(range(tape.inputs))

    def at(reference: int) -> int:
        return places[reference] if reference >= 0 else made.constant(tape.value_of(reference))

    for r in range(tape.inputs, len(tape)):
        code, arguments = tape.codes[r], tape.arguments(r)
        inner = arguments[0]
        if code == BY_NAME["sqrt"].code and inner >= tape.inputs and tape.codes[inner] == MULTIPLY:
            one, two = tape.arguments(inner)
            if one == two:
                places.append(made.negative(at(one)))
                continue
        places.append(made.apply_code(code, [at(a) for a in arguments]))
    made.outputs = [at(output) for output in tape.outputs]
    return with_folding(made)


# What accepts programs ----------------------------------------------------------------------------------------------


def written(build: Callable[[Tape], list[int]], inputs: int) -> Tape:
    tape = Tape(inputs)
    tape.outputs = build(tape)
    return with_folding(tape)


def rooted(tape: Tape, build: Callable[[int], int]) -> list[int]:
    return [build(tape.apply("subtract", 0, tape.constant(550.0)))]


#: Pairs of programs that are equal at all points with entries from 1 to 2, and other ones elsewhere.
FALSE: dict[str, tuple[Callable[[Tape], list[int]], Callable[[Tape], list[int]]]] = {
    "√(d²) = -d": (
        lambda t: rooted(t, lambda d: t.apply("sqrt", t.multiply(d, d))),
        lambda t: rooted(t, t.negative),
    ),
    "|d| = -d": (lambda t: rooted(t, lambda d: t.apply("abs", d)), lambda t: rooted(t, t.negative)),
    "max(a, -700) = a": (lambda t: [t.apply("maximum", 0, t.constant(-700.0))], lambda t: [0]),
    "a + 1e-19 b = a": (lambda t: [t.add(0, t.multiply(t.constant(1e-19), 1))], lambda t: [0]),
    "a² + 1e-300 = a²": (
        lambda t: [t.divide(0, t.add(t.multiply(0, 0), t.constant(1e-300)))],
        lambda t: [t.divide(0, t.multiply(0, 0))],
    ),
    "a + 1e-17 = a": (lambda t: [t.divide(1, t.add(0, t.constant(1e-17)))], lambda t: [t.divide(1, 0)]),
    "√(ab) = √a √b": (
        lambda t: [t.apply("sqrt", t.multiply(0, 1))],
        lambda t: [t.multiply(t.apply("sqrt", 0), t.apply("sqrt", 1))],
    ),
    "√(a/b) = √a / √b": (
        lambda t: [t.apply("sqrt", t.divide(0, 1))],
        lambda t: [t.divide(t.apply("sqrt", 0), t.apply("sqrt", 1))],
    ),
    "log(ab) = log a + log b": (
        lambda t: [t.apply("log", t.multiply(0, 1))],
        lambda t: [t.add(t.apply("log", 0), t.apply("log", 1))],
    ),
    "arctan(tan(a/2)) = a/2": (
        lambda t: [t.apply("atan", t.apply("tan", t.multiply(t.constant(0.5), 0)))],
        lambda t: [t.multiply(t.constant(0.5), 0)],
    ),
    "a = a b / b": (lambda t: [0], lambda t: [t.divide(t.multiply(0, 1), 1)]),
    "0.1 + 0.2 = 0.3": (
        lambda t: [t.multiply(0, t.add(t.multiply(1, t.constant(0.1)), t.multiply(1, t.constant(0.2))))],
        lambda t: [t.multiply(0, t.multiply(1, t.constant(0.3)))],
    ),
    "(a < 100 ? ab : b) = ab": (
        lambda t: [t.select(t.apply("less", 0, t.constant(100.0)), t.multiply(0, 1), 1)],
        lambda t: [t.multiply(0, 1)],
    ),
    "(a - b)(a + b) = a² - b²": (
        lambda t: [t.multiply(t.subtract(0, 1), t.add(0, 1))],
        lambda t: [t.subtract(t.multiply(0, 0), t.multiply(1, 1))],
    ),
}
#: Those that are true where both sides are numbers, in exact arithmetic: domains and rounding refuse them.
TRUE_SOMEWHERE = {"a = a b / b", "(a - b)(a + b) = a² - b²"}


@pytest.mark.parametrize("name", FALSE)
def test_false_identities_that_samples_confirm_are_refused(name):
    tape, other = (written(build, 2) for build in FALSE[name])
    points = np.random.default_rng(0).uniform(1.0, 2.0, (300, 2))
    one, two = (outputs_at(each, points) for each in (tape, other))
    np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-14)
    context = Context(Options())
    for at in (None, points[:10]):
        original = Original(tape, context, at)
        assert not original.accepts(other)
        assert not has_results_of(other, tape, context, at)
        if name not in TRUE_SOMEWHERE:
            assert not original.is_same(other)
            assert not Original(tape, context, at, sums_of_angles=True).is_same(other)
    if name not in TRUE_SOMEWHERE:
        assert not prove(tape, other).is_whole
        assert not Verification(tape, 1).equal(other).all()
        with pytest.raises(VerificationError):
            Verification(tape).check(other)


# What finds programs ------------------------------------------------------------------------------------------------

Patched = list[tuple[object, str]]
FINDERS: dict[str, tuple[Patched, str]] = {
    "rules": ([(rules.Network, "emitted")], "balanced"),
    "rules alone": ([(rules.Network, "emitted")], "fast"),
    "factors of constants": ([(rules, "with_scaled_forms"), (by_value, "with_scaled_forms")], "balanced"),
    "multiplied out": ([(by_value, "multiplied_out")], "balanced"),
    "sketches": ([(by_value, "sketch")], "balanced"),
    "resubstitution": ([(resubstitute.Resubstitution, "cheaper")], "balanced"),
    "repeated resubstitution": ([(resubstitute.Resubstitution, "cheapest")], "thorough"),
    "sums of angles": ([(by_value, "with_sums_of_angles")], "thorough"),
    "sums of angles before differentiation": ([(rewritten, "with_sums_of_angles")], "thorough"),
    "rotations": ([(graphs, "with_rotations")], "balanced"),
    "waves": ([(graphs, "with_sums_of_waves")], "balanced"),
    "bodies of loops": ([(rules.Network, "emitted"), (by_value, "multiplied_out")], "loops"),
    "rotations in loops": ([(jacobian, "with_rotations")], "loops"),
}


def false_finder(finder: Callable[..., object], called: list[str]) -> Callable[..., object]:
    """A finder of what the given one finds, or else of the tape that it is given, falsified."""

    def found(*arguments: object, **keywords: object) -> object:
        made = finder(*arguments, **keywords)
        tape = made if isinstance(made, Tape) else next(each for each in arguments if isinstance(each, Tape))
        false = falsified(tape)
        called.append("changed" if false.codes != tape.codes else "same")
        return [false] if isinstance(made, list) else false

    return found


def arguments(x0: float, effort: str, seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).uniform(0.5, 1.5, (LONG, 5) if effort == "loops" else 5)
    drawn[..., 0] = x0
    return drawn


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FINDERS)
def test_what_a_finder_finds_is_proved(name, monkeypatch):
    patched, effort = FINDERS[name]
    called: list[str] = []
    for owner, attribute in patched:
        monkeypatch.setattr(owner, attribute, false_finder(getattr(owner, attribute), called))
    quick = {"cache": False, "progress": False}
    limit = {"time_limit": 5.0} if effort == "thorough" else {}
    f, kind = (in_loops, acc.gradient) if effort == "loops" else (profile, acc.jacobian)
    derivative = kind(f, effort="balanced" if effort == "loops" else effort, **limit, **quick)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rules whose results fail are a mistake, and reported
        derivative(arguments(400.0, effort, 0))
        found = derivative(arguments(FAR, effort, 1))
    assert "changed" in called, f"{name} was not asked, or found nothing to falsify: {called}"
    monkeypatch.undo()
    expected = kind(f, optimise=False, **quick)(arguments(FAR, effort, 1))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
