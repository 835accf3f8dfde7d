"""`acc.scan`: the same as the loop that it stands for, rolled up, written out, and on numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import evaluate, record
from looped import PLAIN, unrolled
from rolling import in_loops

import accumulus as acc
from accumulus.arrays.scans import Recurrence
from accumulus.programs import lowering
from accumulus.tape.blocks import SCAN
from accumulus.tape.interpreter import values_near


def flat(result):
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, list | tuple):
        return np.concatenate([np.empty(0), *map(flat, result)])
    return np.ravel(result)


def both(function, *arguments, argnums=0):
    """Values and derivatives rolled up, and of the loop in Python that it stands for, written out."""
    with unrolled(0):
        rolled = acc.value_and_jacobian(function, argnums, cache=False, effort="fast")
        actual = rolled(*arguments)
    with unrolled(10**9):
        expected = acc.value_and_jacobian(function, argnums, **PLAIN)(*arguments)
    np.testing.assert_allclose(flat(actual), flat(expected), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(flat(actual[0]), flat(function(*arguments)), rtol=1e-9, atol=1e-9)
    return rolled


X = np.random.default_rng(4).uniform(0.1, 1.0, 12)


def pendulum(x, steps=15):
    def step(state, _):
        angle, speed = state
        speed = speed - 0.1 * x[2] * np.sin(angle) - 0.1 * x[3] * speed
        return (angle + 0.1 * speed, speed), {"energy": speed**2, "both": np.array([angle, speed])}

    return acc.scan(step, (x[0], x[1]), length=steps)


def running(x):
    return acc.scan(lambda total, x: (total + x * x, total), 0.0, x)


def backwards(x):
    return acc.scan(lambda last, x: (np.sin(last * x), last), x[0], x, reverse=True)


def fibonacci(x):
    return acc.scan(lambda pair, x: ((pair[1], x * pair[0] + np.cos(pair[1])), pair[1]), (x[0], x[1]), x[2:])[1]


def several(x):
    def step(carry, entry):
        (a, b), matrix = carry["pair"], carry["matrix"]
        row, scale = entry
        matrix = matrix * 0.9 + np.outer(row, row) * a
        return {"pair": (b, np.sum(matrix) * scale), "matrix": matrix}, matrix[0, 1]

    init = {"pair": (x[0], 1.0), "matrix": np.zeros((2, 2))}
    return acc.scan(step, init, (x[:10].reshape(5, 2), np.arange(5.0)))


def handed_on(x):
    """Parameters in what is handed on, as JAX has them."""
    return acc.scan(lambda c, x: ((np.tanh(c[0] * c[1] + x), c[1]), None), (x[0], x[1]), x[2:])[0]


def one_of_another(x):
    first, inner = acc.scan(lambda c, x: (np.sin(c + x), c * x), x[0], x)
    return acc.scan(lambda c, x: (c * x[0] + x[1] ** 2 + first, c), x[1], (inner[::-1], x))


def nested(x):
    def step(c, y):
        total, terms = acc.scan(lambda a, b: (a * b + c, a), y, x[:3])
        return np.sin(total), terms

    return acc.scan(step, 0.5, x)


def branches(x):
    def step(c, x):
        root = np.sqrt(np.where(c > 0.5, c - 0.5, 0.0))
        return np.where(c > 0.5, root + x, 2.0 * c), np.floor(3.0 * c) * x

    return acc.scan(step, x[0], x)


def truths(x):
    return acc.scan(lambda c, x: ((c[0] | (x > 0.9), np.where(c[0], c[1], c[1] + x)), c[1]), (False, x[0]), x)[1]


def angles(x):
    """π or -π, by the signs of zeros."""

    def step(c, x):
        return 0.5 * c + np.arctan2(0.0 * c, -1.0 - x), np.arctan2(0.0 - c * 0.0, -1.0 - x)

    return acc.scan(step, x[0], -x)


def constants(x):
    return acc.scan(lambda c, n: (c + n, c), 0.0, np.arange(4.0))[1] * x[:4]


def closure_only(x):
    return acc.scan(lambda c, _: (c * x[1] + x[2], None), 1.0, length=9)[0]


def ensemble(x):
    """Each of several goes its own way: columns are of other terms, and one body."""

    def step(state, force):
        angle, speed = state
        speed = speed - 0.1 * np.sin(angle) + force * x[0]
        return (angle + 0.1 * speed, speed), angle[1] * speed[2]

    return acc.scan(step, (x[:6], np.zeros(6)), x[6:])


def wide(x):
    def step(u, strength):
        return u + strength * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1)), np.sum(u * u)

    return acc.scan(step, np.tile(x, 8), x[:4])


def uneven(x):
    """Late inputs, early outputs."""
    _, actual = acc.scan(lambda c, x: (c * x, (c, x)), x[5], np.concatenate([np.arange(4.0), x[:3], np.ones(3)]))
    return actual[0][2:6] * x[4], actual[1][5]


FUNCTIONS = [
    pendulum, running, backwards, fibonacci, several, handed_on, one_of_another, nested, branches, truths, angles,
    constants, closure_only, ensemble, wide, uneven,
    lambda x: pendulum(x)[0],
    lambda x: np.sum(pendulum(x)[1]["both"] ** 2),
    lambda x: acc.scan(lambda c, x: (x, c), x[0], x)[1],
    lambda x: acc.scan(lambda c, x: (c, x * c), x[0], x[:0]),
    lambda x: acc.scan(lambda c, x: (c, x * c), x[0], x[:1]),
    lambda x: acc.scan(lambda c, x: (c * np.abs(x) ** c, None), 1.1, x)[0] * acc.scan(
        lambda c, x: (c * np.abs(x) ** c, None), 1.1, x)[0],
    lambda x: acc.scan(lambda c, x: (np.floor(c) + x, c), x[0], x),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_steps_equal_the_written_out_program(function):
    both(function, X)


@pytest.mark.sampled(5, each="is_reverse")
@pytest.mark.parametrize("is_reverse", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_direction_equals_the_written_out_program(function, is_reverse, monkeypatch):
    one = Recurrence._way
    monkeypatch.setattr(
        Recurrence,
        "_way",
        lambda self, *args: one(self, *args) if args[2] == is_reverse or not self._reverse else None,
    )
    both(function, X)


@pytest.mark.parametrize("is_reverse", [False, True])
def test_untaken_selections_have_no_derivative(is_reverse, monkeypatch):
    one = Recurrence._way
    monkeypatch.setattr(Recurrence, "_way", lambda self, *args: one(self, *args) if args[2] == is_reverse else None)

    def f(x):
        def step(c, x):
            root = np.sqrt(np.where(c > 0.5, c - 0.5, 0.0) * x)  # of 0, where it is not chosen
            return np.where(c > 0.5, root, 0.5 * c + x), None

        return acc.scan(step, x[0], x[1:])[0]

    both(f, np.array([0.5, 0.125, 0.125, 0.2, 0.3, 0.4]))


def test_steps_are_rolled_up():
    with unrolled(0):
        for function in (pendulum, running, several, nested):
            tape = record(function, [X], arrays=True).program
            assert not tape.is_straight
            assert sum(block.code == SCAN for block in tape.blocks) == 1
        assert not any(block.code == SCAN for block in record(constants, [X], arrays=True).program.blocks)
    assert record(pendulum, [X], arrays=True).program.is_straight
    assert not record(lambda x: pendulum(x, 1_000), [X], arrays=True).program.is_straight
    assert record(lambda x: pendulum(x, 1_000), [X]).program.is_straight


def test_several_arguments_and_options():
    def f(x, k):
        return acc.scan(lambda c, x: (np.sin(c * x) + k[1], c * k[0]), k[0], x)

    both(f, X, np.array([0.3, 0.7]), argnums=(0, 1))
    with unrolled(0):
        expected = acc.jacobian(f, (0, 1), cache=False)(X, X)
        for options in ({"target": "numpy"}, {"optimise": False}, {"threads": 2}):
            actual = acc.jacobian(f, (0, 1), cache=False, **options)(X, X)
            np.testing.assert_allclose(flat(actual), flat(expected), rtol=1e-10)
        assert acc.jacobian(f, cache=False).compile(X, X).code.has_loops
        points = np.stack([X, 2.0 * X, 0.1 * X])
        single = np.stack([flat(acc.jacobian(f, cache=False)(x, X)) for x in points])
        batch = acc.jacobian(f, cache=False).batch(points, X, in_axes=(0, None))
        np.testing.assert_allclose(np.concatenate([b.reshape(3, -1) for b in batch], axis=1), single, rtol=1e-10)


def test_gradients_by_many_inputs_take_as_many_products():
    def last(u):
        def step(state, force):
            angle, speed = state
            speed = speed + 0.01 * (force - np.sin(angle))
            return (angle + 0.01 * speed, speed), None

        return acc.scan(step, (0.1, 0.0), u)[0][0]

    gradient = acc.gradient(last, cache=False)
    u = np.linspace(0.0, 1.0, 1_000)
    result = gradient(u)
    assert gradient.report().products < 10 * len(u)
    assert gradient.report().operations < 30 * len(u)
    step = 1e-6
    for k in (0, 500, 998):
        up, down = (last(u + sign * step * (np.arange(1_000) == k)) for sign in (1.0, -1.0))
        assert result[k] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-9)


def test_report_tells_steps():
    jacobian = acc.jacobian(lambda x: pendulum(x, 1_000)[0], cache=False)
    jacobian(X)
    report = jacobian.report()
    assert 1_000 in [body.steps for body in report.bodies]
    assert "2 1,000 steps " in str(report)


def test_independent_sequences_cost_one_step_each():
    def step(state, _):
        angle, speed = state
        speed = speed - 0.1 * np.sin(angle)
        return (angle + 0.1 * speed, speed), None

    def last(x):
        return acc.scan(step, (x, np.zeros_like(x)), length=100)[0][0]

    operations = []
    for count in (2, 20):
        jacobian = acc.jacobian(last, cache=False, sparse=True)
        with in_loops():
            jacobian(np.linspace(0.1, 1.0, count))
        operations.append(jacobian.report().operations)
    assert operations[1] <= 10.2 * operations[0]


def test_running_sums_are_references():
    jacobian = acc.jacobian(lambda x: running(x)[1], cache=False)
    x = np.linspace(0.0, 1.0, 1_000)
    np.testing.assert_allclose(jacobian(x), np.tril(np.broadcast_to(2.0 * x, (1_000, 1_000)), -1))
    assert jacobian.report().operations < 5_000


# Bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda x: acc.scan(3.0, x[0], x), "expected a function"),
        (lambda x: acc.scan(lambda c, x: (c, x), x[0]), "expected xs, or length"),
        (lambda x: acc.scan(lambda c, x: (c, x), x[0], x, length=3), "length: 3, xs: 12"),
        (lambda x: acc.scan(lambda c, x: (c, x), x[0], (x, x[:2])), r"xs\[0\]: 12, xs\[1\]: 2"),
        (lambda x: acc.scan(lambda c, x: (c, x), x[0], x[0]), "expected an array with an entry for each step"),
        (lambda x: acc.scan(lambda c, x: (c, x), "no", x), "expected numbers"),
        (lambda x: acc.scan(lambda c, x: c * x, x[0], x), "did not return a pair"),
        (lambda x: acc.scan(lambda c, x: ((c[0], np.append(c[1], x)), None), (x[0], x[:2]), x),
         r"carry\[1\] of shape \(2,\), and returned one of shape \(3,\)"),
        (lambda x: acc.scan(lambda c, x: ((c, c), None), x[0], x), "one structure"),
    ],
)  # fmt: skip
def test_invalid_recurrences_raise(make, match):
    with pytest.raises(acc.errors.ArgumentError, match=match):
        make(X)
    with unrolled(0), pytest.raises(acc.errors.ArgumentError, match=match):
        acc.jacobian(make, cache=False, check=False)(X)


@pytest.mark.parametrize("is_mapped", [False, True])
def test_steps_may_work_on_long_constants(is_mapped):
    table = np.sin(np.arange(6_000.0))  # more entries than the body of a loop may have

    def last(x):
        return acc.scan(lambda carry, entry: (np.mean(np.cos(carry * table)) * entry, carry), x, np.array([1.0, 2.0]))

    def f(x):
        return acc.map(last, x) if is_mapped else last(x[0])

    x = np.array([0.3, 0.6])
    jacobian = acc.jacobian(f, effort="fast", cache=False)(x)
    step = 1e-5
    differences = [(flat(f(x + each)) - flat(f(x - each))) / (2 * step) for each in step * np.eye(2)]
    result = np.concatenate([array.reshape(-1, 2) for array in jacobian])
    np.testing.assert_allclose(result, np.transpose(differences), atol=1e-9)


def test_results_that_change_their_shape_are_refused():
    sizes = iter([1, 2] * 20)

    def f(x):
        return acc.scan(lambda c, x: (c, np.zeros(next(sizes)) + x), x[0], x)

    with pytest.raises(acc.errors.ArgumentError, match="one shape at all steps"):
        f(X)
    kinds = iter([0.0, (0.0,)] * 20)
    with pytest.raises(acc.errors.ArgumentError, match="different structures"):
        acc.scan(lambda c, x: (c, next(kinds)), X[0], X)
    with pytest.raises(acc.errors.ArgumentError, match="returned object"):
        acc.scan(lambda c, x: (c, object()), X[0], X)


def test_text_is_no_result_of_steps():
    def f(x):
        last, text = acc.scan(lambda c, x: (c * x, "text"), x[0], x)
        assert text == "text"
        return last

    np.testing.assert_array_equal(acc.gradient(f)(np.array([2.0, 3.0])), [12.0, 4.0])
    assert f(np.array([2.0, 3.0])) == 12.0


def test_on_numbers_it_is_the_loop():
    carry, results = acc.scan(lambda c, x: (c + x, {"before": c, "pair": (x, [c * x])}), 0, np.arange(4), reverse=True)
    assert carry == 6
    assert results["before"].tolist() == [6, 5, 3, 0]
    assert results["pair"][1][0].tolist() == [0, 5, 6, 0]
    assert acc.scan(lambda c, _: (2 * c, None), 1, length=5) == (32, None)
    assert acc.scan(lambda c, x: ({"c": c["c"] + x[0]}, x[1]), {"c": 0.0}, (np.ones(2), np.ones((2, 3))))[1].shape == (
        2,
        3,
    )


def test_decisions_are_refused_as_elsewhere():
    def f(x):
        return acc.scan(lambda c, x: (c * int(x), None), x[0], x)[0]

    assert f(X) == 0
    with unrolled(0), pytest.raises(acc.errors.TraceError, match="where"):
        acc.jacobian(f, cache=False)(X)


def test_too_many_products_are_refused(monkeypatch):
    from accumulus.arrays import jacobian

    monkeypatch.setattr(jacobian, "MOST", 2_000)
    monkeypatch.setattr(lowering, "LAST_RESORT", 0)
    with unrolled(0), pytest.raises(acc.errors.SizeError, match="products"):
        acc.jacobian(lambda x: fibonacci(np.tile(x, 20)), cache=False)(X)


# Random recurrences ----------------------------------------------------------------------------------------------

OPERATIONS = [
    lambda a, b: a + b,
    lambda a, b: np.tanh(a * b),
    lambda a, b: a - 0.5 * b,
    lambda a, b: np.sin(a) * np.cos(b),
    lambda a, b: np.where(a > b, a, 0.5 * b),
    np.maximum,
    lambda a, b: a,
]


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 9), st.booleans())
def test_any_recurrence(seed, carries, steps, reverse):
    rng = np.random.default_rng(seed)
    plan = [(rng.integers(len(OPERATIONS)), rng.integers(99), rng.integers(99)) for _ in range(rng.integers(1, 7))]
    handed, lags = rng.integers(0, 99, carries), rng.integers(0, 99, 2)

    def f(x):
        def step(carry, entry):
            values = [*carry, entry, x[0], x[3]]
            for operation, a, b in plan:
                values.append(OPERATIONS[operation](values[a % len(values)], values[b % len(values)]))
            return [values[k % len(values)] for k in handed], tuple(values[k % len(values)] for k in lags)

        last, results = acc.scan(step, [x[k % 3] for k in range(carries)], x[:steps][:steps], reverse=reverse)
        return last, results[0], np.sum(results[1] * x[2])

    both(f, rng.uniform(-1.0, 1.0, max(steps, 4)))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_near_are_those_of_the_interpreter(function):
    program = record(function, [X], arrays=True, at_once=True).program
    for at in (X, np.zeros_like(X), -X, np.full_like(X, 1e300)):
        with np.errstate(all="ignore"):
            expected = evaluate(program, at)
        np.testing.assert_allclose(values_near(program, at), expected, rtol=1e-10, equal_nan=True)
