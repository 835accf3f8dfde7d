"""The option `assume`: what it wins, where it holds, and that no other input is assumed to be anything."""

import functools
import pickle
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside import Context, Original, points_of

import accumulus as acc
from accumulus import Tape
from accumulus.api.casadi_source import function_source, nlp_source
from accumulus.errors import ArgumentError, NaNWarning, UnknownNameError
from accumulus.frontends.active import sharing_programs
from accumulus.options import ASSUMPTIONS, Options
from accumulus.programs.assumptions import checked_assumptions
from accumulus.resubstitution.optimise import rewrite, tape_key

POSITIVE = {"x": "positive", "y": "positive"}
X, Y = np.array([1.5, 2.0, 0.25]), 3.0


def mixed(x, w):
    """Van der Waals' mixing rule: attractions of pairs are geometric means."""
    pairs = [(i, j) for i in range(len(x)) for j in range(len(x))]
    return sum(w[i] * w[j] * (1 - 0.01 * abs(i - j)) * np.sqrt(x[i] * x[j]) for i, j in pairs)


def rooted(x, y):
    return np.sum(np.sqrt(x * x * y) * np.exp(-x) + np.sqrt(x * y) * np.sqrt(y))


def operations(kind, f, *arguments, **options):
    return kind(f, cache=False, **options).compile(*arguments).operations


# Wins ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("assumption", ["positive", "nonnegative"])
@pytest.mark.parametrize(
    ("kind", "without", "most"), [(acc.compile, 61, 32), (acc.jacobian, 62, 51), (acc.value_and_jacobian, 92, 79)]
)
def test_a_mixing_rule_takes_about_half_of_the_operations(kind, without, most, assumption):
    arguments = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.1, 0.2, 0.3, 0.4])
    assert operations(kind, mixed, *arguments) == without
    assert operations(kind, mixed, *arguments, assume={"x": assumption}) <= most


@pytest.mark.parametrize("assumption", ["positive", "nonnegative"])
def test_the_root_of_a_square_is_the_value(assumption):
    def size(x):
        return np.sqrt(x**2)

    assert operations(acc.compile, size, 2.0) == 2
    assert operations(acc.compile, size, 2.0, assume={"x": assumption}) == 0
    assert operations(acc.compile, size, 2.0, assume={0: assumption}) == 0
    assert operations(acc.compile, size, 2.0, assume={"x": "nonzero"}) == 2


def test_roots_are_taken_out_of_products():
    def pulled(x, y):
        return np.sqrt(x * x * y)

    assert operations(acc.compile, pulled, 2.0, Y) == 3
    assert operations(acc.compile, pulled, 2.0, Y, assume={"x": "positive"}) == 2
    # √(0 · y) is a number for negative y
    assert operations(acc.compile, pulled, 2.0, Y, assume={"x": "nonnegative"}) == 3
    assert operations(acc.compile, pulled, 2.0, Y, assume={"y": "positive"}) == 3


@pytest.mark.parametrize(("assumption", "is_wider"), [("positive", False), ("nonzero", False), ("nonnegative", True)])
def test_programs_may_divide_by_it(assumption, is_wider):
    context, tape = Context(Options()), Tape(2)
    tape.outputs = [tape.add(0, 1)]
    divided = Tape(2)
    divided.outputs = [divided.add(divided.divide(divided.multiply(0, 0), 0), 1)]
    assert Original(tape, context, None).domains.wider(divided) == [0]
    assert Original(tape, context, None, assumed=("", assumption)).domains.wider(divided) == [0]
    assert Original(tape, context, None, assumed=(assumption, "")).domains.wider(divided) == [0] * is_wider


def test_long_products_under_roots():
    def squared(x, y, n):
        for _ in range(n):
            x = x * x
        return np.sqrt(x * y) / x

    for n in (1, 3, 6, 20):
        f = functools.partial(squared, n=n)
        made = acc.compile(f, assume={"x": "positive", "y": "positive"}, cache=False)
        np.testing.assert_allclose(made(1.0 + 2.0**-n, 2.0), f(1.0 + 2.0**-n, 2.0), rtol=1e-12)
        assert made.operations <= acc.compile(f, cache=False).compile(1.0, 2.0).operations

    def quotient(x, y):
        return np.sqrt(x * y / (y * y * y)) + np.sqrt(y / x) + np.sqrt(4.0 * x / (x * x))

    made = acc.compile(quotient, assume=POSITIVE, cache=False)
    np.testing.assert_allclose(made(0.3, 0.7), quotient(0.3, 0.7), rtol=1e-14)
    assert made.operations < acc.compile(quotient, cache=False).compile(0.3, 0.7).operations


def test_nothing_else_changes():
    plain, assumed = (acc.value_and_jacobian(rooted, cache=False, **o) for o in ({}, {"assume": {}}))
    for jac in (plain, assumed):
        jac(X, Y)
    assert str(plain.compile(X, Y).tape) == str(assumed.compile(X, Y).tape)


# Agreement -----------------------------------------------------------------------------------------------------------

KINDS = {
    kind.__name__: (kind, arguments)
    for kind, arguments in [
        *((each, (X, Y)) for each in (acc.compile, acc.gradient, acc.hessian, acc.value_gradient_hessian)),
        *((each, ((X, Y), (-X, -2.0))) for each in (acc.jvp, acc.hvp)),
        (acc.vjp, ((X, Y), -1.5)),
        (acc.taylor, ((X, Y), (np.stack([-X, X]), np.array([-1.0, 2.0])))),
    ]
}


def leaves(value):
    return [value] if not isinstance(value, tuple | list) else [leaf for each in value for leaf in leaves(each)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("options", [{}, {"effort": "thorough", "time_limit": 0.3}, {"exact_order": True}], ids=str)
def test_kinds_agree_with_the_plain_program(name, options):
    kind, arguments = KINDS[name]
    results = [kind(rooted, cache=False, **options, **more)(*arguments) for more in ({}, {"assume": POSITIVE})]
    for one, other in zip(*map(leaves, results), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


PLAIN, ASSUMED = (acc.value_and_gradient(rooted, argnums=(0, 1), **more) for more in ({}, {"assume": POSITIVE}))


@given(st.lists(st.floats(1e-100, 1e100), min_size=3, max_size=3), st.floats(1e-100, 1e100))
def test_positive_points_agree(x, y):
    for one, other in zip(*(leaves(each(np.array(x), y)) for each in (PLAIN, ASSUMED)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-280)


def test_a_report_tests_the_program():
    program = acc.compile(rooted, assume=POSITIVE, effort="thorough", time_limit=0.3, cache=False).compile(X, Y)
    assert program.by_value.tested > 0
    assert "operations" in str(program.report())


# Other inputs --------------------------------------------------------------------------------------------------------


def swapped(y, x):
    return np.sqrt(x * x) - np.sqrt(y * y)


def ordered(x, y):
    return np.sqrt(y * y) - np.sqrt(x * x)


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("assume", [{"x": "positive"}, {"y": "positive"}])
def test_the_same_program_with_other_names_is_another(cache, assume):
    for f in (ordered, swapped, ordered):
        chosen = [assume.get("x"), assume.get("y")] if f is ordered else [assume.get("y"), assume.get("x")]
        signs = [1.0 if each else -1.0 for each in chosen]
        program = acc.compile(f, assume=assume, cache=cache)
        arguments = 3.0 * signs[0], 2.0 * signs[1]
        for k in (1.0, 2.0):
            np.testing.assert_equal(float(program(*(k * a for a in arguments))), f(*(k * a for a in arguments)))
        assert program.operations < acc.compile(f, cache=cache).compile(*arguments).operations


def test_shared_programs_know_their_arguments():
    """Two functions of one name and one program, with the same option, which is about other inputs."""
    functions = [lambda x, y: np.sqrt(y * y) - np.sqrt(x * x), lambda y, x: np.sqrt(x * x) - np.sqrt(y * y)]
    with sharing_programs():
        results = [acc.compile(f, assume={"x": "positive"}, cache=False) for f in functions]
        assert float(results[0](3.0, -2.0)) == -1.0
        assert float(results[1](-2.0, 3.0)) == 1.0


def test_the_key_of_a_tape_has_what_is_assumed():
    tape = Tape(2)
    tape.outputs = [tape.apply("sqrt", tape.multiply(0, 0))]
    keys = {tape_key(tape, Context(Options()), 0, assumed=each) for each in ((), ("positive", ""), ("", "positive"))}
    assert len(keys) == 3
    assert rewrite(tape, Context(Options()), assumed=("positive", "")).operations == 0
    assert rewrite(tape, Context(Options()), assumed=("", "positive")).operations == 2
    with pytest.raises(ValueError, match="1 inputs"):
        Original(tape, Context(Options()), None, assumed=("positive",))


def test_seeds_are_not_assumed_to_be_anything():
    def of_seed(x):
        return np.sqrt(x * x) * 2.0

    push = acc.jvp(of_seed, assume={"x": "positive"}, cache=False)
    for tangent in (1.0, -1.0):
        assert [float(each) for each in push((3.0,), (tangent,))] == [6.0, 2.0 * tangent]
    value, (slope,) = acc.vjp(of_seed, assume={"x": "positive"}, cache=False)((3.0,), -1.0)
    assert (float(value), float(slope)) == (6.0, -2.0)

    # the tangent of an outer derivative is an argument: √(v²) stays
    outer = acc.jacobian(lambda v: np.sqrt(acc.jvp(of_seed, assume={"x": "positive"})((3.0,), (v,))[1] ** 2))
    assert float(outer(-2.0)) == -2.0


def test_bodies_of_loops_are_not_assumed_to_be_anything():
    def long(x):
        centred = x - np.mean(x)
        return np.sqrt(centred * centred) + np.sqrt(x * x)

    x = np.linspace(0.1, 5.0, 20_000)
    program = acc.compile(long, assume={"x": "positive"}, cache=False)
    np.testing.assert_allclose(program(x), long(x), rtol=1e-12)
    assert program.compile(x).code.maps is not None
    summed = acc.gradient(lambda x: np.sum(long(x)), assume={"x": "positive"}, cache=False)
    np.testing.assert_allclose(summed(x), acc.gradient(lambda x: np.sum(long(x)), cache=False)(x), rtol=1e-12)


def test_cases_keep_their_decisions():
    def decided(x, y):
        return np.sqrt(x * x) if x > y else np.sqrt(y * y)

    program = acc.compile(decided, assume={"x": "positive"}, cache=False)
    for x, y in [(2.0, 1.0), (1.0, 2.0), (2.0, -3.0)]:
        assert float(program(x, y)) == decided(x, y)
    with pytest.raises(ArgumentError, match="nonzero"):
        acc.compile(decided, assume={"x": "nonzero"}, cache=False)(0.0, 1.0)


def test_leaves_of_containers_and_keywords():
    def f(p, *, scale, other):
        return np.sqrt(p["a"] ** 2) + np.sqrt(p["b"][0] ** 2) + np.sqrt(scale**2) + np.sqrt(other**2)

    keywords = {"scale": 3.0, "other": -2.0}
    assume = {"p": "positive", "scale": "nonnegative"}
    made = acc.compile(f, assume=assume, cache=False)
    p = {"a": 1.0, "b": [2.0]}
    assert float(made(p, **keywords)) == f(p, **keywords) == 8.0
    assert float(made(p, other=-4.0, scale=1.0)) == 8.0
    assert made.operations == 5
    with pytest.raises(ArgumentError, match=r"argument p of .* has the entry -2\.0.*positive"):
        acc.compile(f, assume=assume)({"a": 1.0, "b": [-2.0]}, **keywords)


def test_arguments_that_are_not_given_or_no_numbers():
    def f(x, k=1.0, way="up", n=2):
        return np.sqrt(x * x) * k * n

    assume = {"k": "positive", "way": "positive", "n": "positive"}
    assert float(acc.compile(f, assume=assume)(-2.0)) == 4.0
    assert float(acc.compile(f, assume=assume)(-2.0, way="down")) == 4.0
    assert float(acc.compile(f, assume=assume, static_argnames="n")(-2.0, 1.0, "up", 3)) == 6.0


# Violations ----------------------------------------------------------------------------------------------------------

BAD = {"positive": 0.0, "nonnegative": -1e-300, "nonzero": -0.0}


@pytest.mark.parametrize("assumption", ASSUMPTIONS)
@pytest.mark.parametrize("kind", [acc.compile, acc.jacobian, acc.gradient])
def test_violations_at_the_first_call(kind, assumption):
    def f(x):
        return np.sum(x)

    made = kind(f, assume={"x": assumption})
    with pytest.raises(ArgumentError, match=f"argument x of f has the entry {BAD[assumption]}.*{assumption}"):
        made(np.array([1.0, BAD[assumption]]))
    with pytest.raises(ArgumentError, match="argument x of f"):
        made.compile(np.array([1.0, BAD[assumption]]))
    with pytest.warns(NaNWarning) if kind is acc.compile else nullcontext():
        made(np.array([1.0, np.nan]))


def test_violations_at_any_point_of_the_first_batch():
    x = np.ones((1000, 2))
    x[777, 1] = -3.0
    made = acc.jacobian(lambda x: x * x, assume={"x": "positive"})
    with pytest.raises(ArgumentError, match=r"entry -3\.0"):
        made.batch(x)
    with pytest.raises(ArgumentError, match=r"entry -3\.0"):
        made.batch(np.ascontiguousarray(x.T), transposed=True)


@pytest.mark.parametrize(
    ("assume", "error", "match"),
    [
        ("positive", ArgumentError, "expected a dict"),
        (["x"], ArgumentError, "expected a dict"),
        ({1.5: "positive"}, ArgumentError, r"names 1\.5; expected a dict"),
        ({True: "positive"}, ArgumentError, "names True"),
        ({-1: "positive"}, ArgumentError, "names -1"),
        ({"x": "postive"}, UnknownNameError, "did you mean 'positive'"),
        ({"x": 1}, UnknownNameError, "Known: nonnegative, nonzero, positive"),
        ({"x": ["positive"]}, UnknownNameError, "Known:"),
        ({"z": "positive"}, ArgumentError, "assume names 'z'; the arguments of the function are x, y"),
        ({"x": "positive", 0: "nonzero"}, ArgumentError, "each argument once"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [acc.jacobian, acc.jvp, acc.compile])
def test_what_cannot_be_assumed(kind, assume, error, match):
    with pytest.raises(error, match=match):
        kind(lambda x, y: x * y, assume=assume)


def test_positions_that_the_call_does_not_have():
    with pytest.raises(ArgumentError, match=r"argument 2; .* was called with 2 arguments"):
        acc.compile(lambda x, y: x * y, assume={2: "positive"})(1.0, 2.0)


def test_variadic_arguments_have_positions():
    made = acc.compile(lambda *x: np.sqrt(x[0] ** 2) - np.sqrt(x[1] ** 2), assume={1: "positive"}, cache=False)
    assert float(made(-2.0, 3.0)) == -1.0
    assert made.operations == 3


def test_where_no_call_is_checked():
    trace = acc.trace(rooted, X, Y)
    with pytest.raises(ArgumentError, match="leave assume out"):
        trace.compile(acc.plan(trace.linearize()), assume=POSITIVE)
    with pytest.raises(ArgumentError, match="leave assume out"):
        acc.check(rooted, X, Y, assume=POSITIVE)
    with pytest.raises(ArgumentError, match="leave assume out"):
        acc.jacobian(rooted, on=acc.manifolds.SO3, assume=POSITIVE)
    with pytest.raises(ArgumentError, match="leave assume out"):
        function_source(rooted, [X, Y], "f", assume=POSITIVE)
    with pytest.raises(ArgumentError, match="leave assume out"):
        nlp_source(lambda x: x @ x, lambda x: x, X, assume={0: "positive"})


@pytest.mark.parametrize("make", ["sympy", "jax", "casadi"])
def test_other_libraries_refuse_it(make):
    pytest.importorskip(make)
    if make == "sympy":
        import sympy

        a, b = sympy.symbols("a b")
        with pytest.raises(ArgumentError, match="leave assume out"):
            acc.sympy.lambdify([a, b], [sympy.sqrt(a**2) * b], assume={0: "positive"})
    elif make == "jax":
        with pytest.raises(ArgumentError, match="leave it out"):
            acc.jax.gradient(rooted, assume=POSITIVE)
    else:
        with pytest.raises(ArgumentError, match="leave assume out"):
            acc.casadi.external(rooted, X, Y, assume={0: "positive"})


def test_the_c_source_of_a_program_has_it():
    plain, assumed = (
        acc.compile(rooted, cache=False, target="c", **o).compile(X, Y) for o in ({}, {"assume": POSITIVE})
    )
    assert assumed.source().count("sqrt(") < plain.source().count("sqrt(")
    np.testing.assert_allclose(assumed(X, Y), plain(X, Y), rtol=1e-14)


def test_a_lagrangian_has_its_own_arguments():
    curvature = acc.hessian_of_lagrangian(
        lambda x, p: np.sqrt(p * p) * x[0] ** 2,
        lambda x, p: x[0] * x,
        assume={"x": "positive", 3: "positive"},
        cache=False,
    )
    x, multipliers = np.array([1.0, 2.0]), np.array([-1.0, -2.0])
    np.testing.assert_allclose(curvature(x, -1.0, multipliers, 3.0), [[-8.0, -2.0], [-2.0, 0.0]], rtol=1e-14)


# Points, files -------------------------------------------------------------------------------------------------------


def test_points_of_rounding_satisfy_it():
    tape = Tape(4)
    tape.outputs = [tape.select(tape.apply("less", 0, 1), tape.add(0, 1), tape.multiply(2, 3))]
    assumed = ("positive", "nonnegative", "nonzero", "")
    points = points_of(tape, np.ones((2, 4)), np.random.default_rng(0), assumed=assumed)
    positive, nonnegative, nonzero, free = points.at.T
    assert (positive > 0.0).all()
    assert (nonnegative >= 0.0).all()
    assert (nonnegative == 0.0).any()
    assert (nonzero != 0.0).all()
    assert (nonzero < 0.0).any()
    assert (free < 0.0).any()
    assert {len(points.at)} == {len(each) for each in (points.inside, points.common, points.generic)}


def test_files_and_pickles_keep_the_program(tmp_path):
    gradient = acc.value_and_gradient(rooted, assume=POSITIVE)
    expected = gradient(X, Y)
    acc.save(gradient, tmp_path / "rooted.acc")
    for again in (acc.load(tmp_path / "rooted.acc"), acc.value_and_gradient(rooted, assume=POSITIVE)):
        np.testing.assert_array_equal(leaves(again(X, Y))[1], expected[1])
        assert again.operations == gradient.operations
    options = pickle.loads(pickle.dumps(Options(assume=POSITIVE)))
    assert options == Options(assume=POSITIVE)
    assert hash(options) == hash(Options(assume=tuple(POSITIVE.items())))


def test_numbers_of_a_call_by_position():
    assume = (("x", "positive"),)
    assert checked_assumptions(assume, rooted, (X, -Y), "f") == {0: "positive"}
    assert checked_assumptions((), rooted, (X, Y), "f") == {}
