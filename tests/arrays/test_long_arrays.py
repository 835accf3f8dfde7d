"""Functions of long arrays, recorded as operations on arrays: the same as written out entry by entry."""

import pickle
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.interpolate
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import evaluate, record
from looped import assert_same, both, unrolled

import accumulus as acc
from accumulus.arrays import jacobian as arrays_jacobian
from accumulus.programs import lowering
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.show.bodies import lines_text
from accumulus.tape import prices
from accumulus.tape import program as sizes
from accumulus.tape import segments as segment_sizes

X = np.random.default_rng(1).uniform(0.1, 1.0, 48)
A = np.random.default_rng(2).uniform(-1.0, 1.0, (6, 8))


def stencil(u):
    result = np.zeros_like(u)
    result[1:-1] = (u[2:] - 2.0 * u[1:-1] + u[:-2]) * 4.0 + u[1:-1] ** 2 * (1 - u[1:-1])
    result[0] = u[0] - 1.0
    return result


def brusselator(w):
    u, v = w.reshape(2, 4, 6)

    def laplacian(a):
        return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4.0 * a

    reaction = u**2 * v
    return np.stack([1.0 + reaction - 4.4 * u + 0.1 * laplacian(u), 3.4 * u - reaction + 0.1 * laplacian(v)])


def volumes(u):
    left, right = u[:-1], u[1:]
    flux = 0.5 * (left**2 + right**2) - 0.3 * (right - left) * np.sqrt(1 + left**2 + right**2)
    return np.concatenate([[0.0], flux[:-1] - flux[1:], [0.0]])


def bodies(x):
    x = x.reshape(16, 3)
    d = x[:, None, :] - x[None, :, :]
    r2 = np.sum(d * d, axis=-1) + 0.01
    return np.sum(d / (r2 * np.sqrt(r2))[..., None], axis=1)


def layers(x):
    return np.tanh(A.T @ np.tanh(A @ x[:8]))


def masked(x):
    root = np.sqrt(x - 0.1)
    return np.where(np.roll(x, 1) > 0.5, np.roll(root, 1), 0.0) * x


def filled(x):
    result = x.copy()
    result[1:] += x[:-1] ** 2
    result *= 2.0
    result[result > 1.0] = 0.0
    return result[::-1]


def jumping(x):
    return np.floor(np.roll(x / 0.1, 1)) * x + np.where(np.roll(x + 0.1 + 0.2 - 0.3 - x, 1) > 0.0, 1.0, x)


def angles(x):
    return np.arctan2(np.roll(0.0 - x * 0.0, 1), -1.0 - x)


def structured(x):
    table = x.reshape(6, 8)
    return {
        "sums": np.sum(table, axis=0) * np.mean(x) + np.prod(table[:2], axis=0),
        "pair": (np.einsum("ij,kj->ik", table, np.sin(table)), [np.var(x), x[3:5]]),
    }


def _multiplied_at(x):
    result = np.ones(10)
    np.multiply.at(result, np.arange(48) % 7, np.sin(x))
    return result


FUNCTIONS = [
    stencil, brusselator, volumes, bodies, layers, masked, filled, jumping, angles, structured,
    lambda x: x,
    lambda x: x[::-1] * x,
    lambda x: np.ones(3),
    lambda x: np.concatenate([x[:2], np.arange(3.0), x[:2]]),
    lambda x: np.clip(x, 0.2, 0.7) + np.mod(7.0 * x, 1.3) + np.interp(x, [0, 0.5, 1], [0, 1, 0.5]),
    lambda x: np.where((x > 0.2) & (x < 0.7) | ~(np.roll(x, 2) > 0.4), x * x, 1.0 / x),
    lambda x: np.where(np.any(x.reshape(6, 8) > 0.9, axis=1), x[:6], x[6:12]),
    lambda x: x[np.arange(48) % 5] * x[np.arange(48) * 7 % 48],
    lambda x: np.sum(x[::-1]) * np.sin(x) + np.sum(np.tile(x[0], 5)) + np.mean(np.sin(np.arange(3.0)) * 1.0) * x,
    lambda x: np.array([np.sum(np.stack([x[2], x[2], x[2]]))]) * np.linspace(x[0], 1.0, 3),
    lambda x: np.select([x < 0.2, x < 0.5], [2.0 * x, x * x], default=x[0]) + ~(np.roll(x, 1) < 0.3) * x,
    lambda x: np.concatenate([np.sin(x[:0]), np.cos(x[:1])]) * x[3],
    lambda x: np.sum(np.sin(x[:5])) * np.ones(1),
    lambda x: np.concatenate([np.sin(x[7:8]), np.floor(x)]),
    lambda x: np.floor(x) + 1.0,
]  # fmt: skip


@pytest.mark.sampled(6, each="function sparse")
@pytest.mark.parametrize("sparse", [None, "csr", "csc", "coo"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_loops_equal_the_written_out_program(function, sparse):
    looped, actual, expected = both(function, X, sparse=sparse)
    assert looped.compile(X).code.has_loops or record(function, [X]).tape.operations < len(X)
    assert_same(actual, expected)


@pytest.mark.sampled(5, each="function options")
@pytest.mark.parametrize("options", [{"target": "numpy"}, {"optimise": False}, {"threads": 2}, {"effort": "fast"}])
@pytest.mark.parametrize("function", [brusselator, volumes, masked, jumping, structured])
def test_every_option_computes_the_same(function, options):
    _, actual, expected = both(function, X, **options)
    assert_same(actual, expected)


def test_several_arguments_and_constants():
    def f(s, x, name, y):
        assert name == "heat"
        return {"a": s * x + np.exp(s) * y[:48], "b": np.sum(y) * x[0]}

    Y = np.linspace(0.0, 1.0, 60)
    looped, actual, expected = both(f, 0.3, X, "heat", Y, argnums=(0, 3))
    assert looped.compile(0.3, X, "heat", Y).code.has_loops
    assert_same(actual, expected)


def test_jumps_are_those_of_the_function_bit_for_bit():
    def f(x):
        return np.floor(np.roll(x / 0.1, 1)), np.where(np.roll(x + 0.1 + 0.2 - 0.3 - x, 1) > 0.0, 1.0, 2.0)

    x = np.arange(1, 49) / 10.0
    with unrolled(0):
        values, _ = acc.value_and_jacobian(f, cache=False)(x)
    for value, expected in zip(values, f(x), strict=True):
        assert np.array_equal(value, expected)


def test_derivatives_of_untaken_branches_are_zero():
    x = np.where(X > 0.5, X, 0.1)  # the root's derivative is infinite there
    with unrolled(0):
        jacobian = acc.jacobian(masked, cache=False)(x)
    assert np.isfinite(jacobian[:, x > 0.1]).all()
    for k in np.flatnonzero(np.roll(x, 1) <= 0.5):
        assert np.count_nonzero(jacobian[k]) == 0


# Batches, copies, reports ----------------------------------------------------------------------------------------


def test_batches_are_calls_one_after_the_other():
    points = np.random.default_rng(3).uniform(0.1, 1.0, (5, 48))
    with unrolled(0):
        dense, sparse = acc.jacobian(brusselator, cache=False), acc.jacobian(brusselator, sparse=True, cache=False)
        single = [dense(x) for x in points]
        for threads in (1, 2):
            assert np.array_equal(dense.batch(points, threads=threads), single)
        across = dense.batch(np.ascontiguousarray(points.T), transposed=True)
        assert np.array_equal(np.moveaxis(across, -1, 0), single)
        out = np.empty((5, 2, 4, 6, 48))
        dense.batch(points, out=out)
        assert np.array_equal(out, single)
        many = sparse.batch(points)
    assert np.array_equal(many.toarray(), np.reshape(single, (5, 48, 48)))


def test_results_are_the_callers_own():
    with unrolled(0):
        jac = acc.jacobian(stencil, sparse=True, cache=False)
        first = jac(X)
        before = first.toarray()
        first.data[:] = -1.0
        second, values = jac(X), jac.nonzeros(X)
        jac(2.0 * X)
    assert np.array_equal(second.toarray(), before)
    assert np.array_equal(values, second.data)
    assert len(jac.pattern) == len(values)


@pytest.mark.parametrize("entries", [slice(2), slice(26), slice(40), slice(7, 30), slice(46, 48), slice(20, 48)])
def test_entries_beside_all_nonzeros_are_zeros(entries):
    def f(x):
        return np.sum(np.sin(x[entries]) ** 2)

    expected = np.zeros(48)
    expected[entries] = np.sin(2.0 * X[entries])
    with unrolled(0):
        jac = acc.jacobian(f, cache=False)
        jac(X)
        for _ in range(3):
            junk = [np.full(48 * k, 7.0) for k in range(1, 40) for _ in range(9)]  # memory that holds no zeros
            del junk
            np.testing.assert_allclose(jac(X), expected, atol=1e-12)
            np.testing.assert_allclose(jac.batch(np.stack([X] * 5)), [expected] * 5, atol=1e-12)


def test_programs_travel():
    with unrolled(0):
        jac = acc.jacobian(volumes, sparse=True, cache=False)
        expected = jac(X).toarray()
    for traveller in (pickle.loads(pickle.dumps(jac)), pickle.loads(pickle.dumps(jac.compile(X)))):
        assert np.array_equal(traveller(X).toarray(), expected)


def test_report_tells_the_loops():
    with unrolled(0):
        jac = acc.jacobian(brusselator, sparse=True, cache=False)
        jac(X)
    report = jac.report()
    assert [body.instances for body in report.bodies] == [24]
    assert report.nonzeros == len(jac.pattern)
    assert "24" in str(report)
    assert report.to_dict()["bodies"][0]["results"] == report.bodies[0].results


def test_report_tells_where_loops_come_from():
    def f(x):
        y = np.sin(x) * np.roll(x, 1)
        y[1:] += acc.map(lambda a: a * a, x[1:])
        return y[np.arange(48) // 2] * np.sum(y)

    with unrolled(0):
        jac = acc.jacobian(f, sparse=True, cache=False)
        jac(X)
    first = f.__code__.co_firstlineno
    file = Path(__file__).name
    sources = [body.source for body in jac.report().bodies]
    assert any(source.startswith(f"{file}:{first + 1}") for source in sources)
    assert {source for source in sources if source} <= {lines_text(lines) for lines in _parts(__file__, first)}
    assert f"{file}:{first + 3}" in sources
    assert f"{file}:{first + 1}" in str(jac.report())
    assert pickle.loads(pickle.dumps(jac.compile(X))).report().bodies == jac.report().bodies


def _parts(file, first):
    """All sets of the three lines after the first."""
    lines = [(file, first + k) for k in (1, 2, 3)]
    return [[line for k, line in enumerate(lines) if selected >> k & 1] for selected in range(1, 8)]


def test_check_compares_loops_with_the_function():
    with unrolled(0):
        assert acc.check(stencil, X[:12]).passed


# What is recorded as loops ---------------------------------------------------------------------------------------


def test_dense_derivatives_of_short_arrays_are_loops():
    x = np.random.default_rng(3).normal(size=300)

    def softmax(x):
        e = np.exp(x - np.max(x))
        return e / np.sum(e)

    jacobian = acc.jacobian(softmax, cache=False)
    p = softmax(x)
    np.testing.assert_allclose(jacobian(x), np.diag(p) - np.outer(p, p), rtol=1e-12, atol=1e-18)
    assert jacobian.compile(x).code.has_loops
    banded = acc.jacobian(lambda x: np.diff(x) ** 2, cache=False)
    assert not banded.compile(x).code.has_loops


def test_operations_on_arrays_are_blocks_from_two_entries_on():
    assert not record(stencil, [np.ones(4)], arrays=True).program.is_straight
    assert record(stencil, [np.ones(3)], arrays=True).program.is_straight
    assert record(stencil, [np.ones(20_000)]).program.is_straight


def test_loops_over_short_arrays_are_written_out_and_rolled_up():
    def f(x):
        for _ in range(3_000):
            x = x + 0.001 * np.sin(x[::-1])
        return x

    recording = record(f, [np.ones(20)], arrays=True)
    assert not recording.program.is_straight


def test_loops_without_source_over_short_arrays_are_found_among_their_numbers():
    """Without source, iterations are recorded one by one, in blocks of three entries."""
    scope = {"np": np}
    exec(
        "def lorenz(p):\n"
        "    y = np.array([1.0, 0.5, 0.2])\n"
        "    for _ in range(2_000):\n"
        "        slope = [p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]]\n"
        "        y = y + 0.001 * np.array(slope)\n"
        "    return y\n",
        scope,
    )
    p = np.array([0.9, 0.5, 0.7])
    program = record(scope["lorenz"], [p], arrays=True).program
    assert [len(block.steps) for block in program.blocks if block.steps is not None and block.count > 1] == [2_000]
    np.testing.assert_allclose(evaluate(program, p), scope["lorenz"](p), rtol=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.max(np.stack([x[0], x[1], x[0]])) * x,
        lambda x: np.linalg.solve(np.eye(3) + np.outer(x[:3], x[3:6]), x[:3]),
        _multiplied_at,
    ],
)
@pytest.mark.parametrize("long", [2, 10**9])
def test_scalars_are_written_out_among_loops(function, long, monkeypatch):
    monkeypatch.setattr(segment_sizes, "LONG_SEGMENT", long)
    looped, actual, expected = both(lambda x: [function(x), np.sin(np.roll(x, 1)) * x], X)
    assert looped.compile(X).code.has_loops
    assert_same(actual, expected)


@pytest.mark.parametrize("function", [np.max, np.min, np.nanmax])
def test_extremes_have_second_derivatives_as_loops(function):
    """Of JAX, where several are the greatest, too."""
    scales = np.linspace(1.0, 2.0, 12).reshape(3, 4)
    x = np.array([0.3, -0.5, 0.3, 0.8, 0.8, -0.2, 0.1, -0.2, 0.4, 0.7, -0.5, 0.7])
    by_jax = getattr(jnp, function.__name__)

    def weighted(x, extreme):
        rows = x.reshape(3, 4)
        return (extreme((rows + rows[::-1]) ** 2 * scales[0], axis=1) ** 2).sum() + extreme(x)

    with unrolled(0):
        product = acc.hvp(lambda x: weighted(x, function), cache=False)
        hessian = acc.hessian(lambda x: weighted(x, function), cache=False)
        actual = product((x,), (x[::-1],)), hessian(x)
    with jax.enable_x64(True):
        expected = np.asarray(jax.jit(jax.hessian(lambda x: weighted(x, by_jax)))(x))
    np.testing.assert_allclose(actual[1], expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(actual[0], [expected @ x[::-1]], rtol=1e-12, atol=1e-12)
    for each in (product.compile((x,), (x,)), hessian.compile(x)):
        assert each.code.has_loops


def test_derivatives_that_need_too_many_blocks_are_written_out(monkeypatch):
    x = np.linspace(0.5, 2.0, 100)
    expected = acc.jacobian(stencil, cache=False)(x)
    with monkeypatch.context() as patch:
        patch.setattr(sizes, "MOST_UNROLLED", 10)
        recorded = record(stencil, [x], arrays=True).program
        patch.setattr(arrays_jacobian, "MANY_BLOCKS", len(recorded.blocks) + 1)
        jacobian = acc.jacobian(stencil, cache=False)
        np.testing.assert_array_equal(jacobian(x), expected)
    assert type(jacobian.compile(x)) is CompiledProgram


def alone(x):
    return np.sum(np.log1p(x[:-1] ** 2 * x[1:] ** 2) + np.exp(-x[1:]))


def in_pairs(x):
    """Half of the distances are the negatives of the others."""
    return np.sum(1.0 / (1.0 + (x[:, np.newaxis] - x) ** 2))


def attracted(x):
    """Few operations are in common as they are recorded, but half of them once they are rewritten."""
    apart = x.reshape(-1, 3) - x.reshape(-1, 1, 3)
    squared = np.sum(apart * apart, axis=2) + 0.01
    return np.sum(np.sum(apart / (squared * np.sqrt(squared))[:, :, np.newaxis], axis=1) * x.reshape(-1, 3))


def fitted(x):
    """Nothing is in common, however few the inputs are."""
    t = np.linspace(0.0, 2.0, 200)
    return np.sum((np.cos(t) - x[0] * np.exp(-x[1] * t) - x[2] * t) ** 2)


@pytest.mark.sampled(2, each="function kind")
@pytest.mark.parametrize("kind", ["gradient", "value_and_gradient", "hessian"])
@pytest.mark.parametrize(("function", "size"), [(alone, 300), (fitted, 3), (in_pairs, 24), (attracted, 30)])
def test_both_forms_have_the_same_derivatives(kind, function, size, monkeypatch):
    x = np.random.default_rng(3).normal(size=size)
    derivative = getattr(acc, kind)
    monkeypatch.setattr(prices, "POINTS", 10**9)
    expected = derivative(function, cache=False)
    assert not expected.compile(x).code.has_loops
    monkeypatch.setattr(prices, "POINTS", 1)
    few = derivative(function, cache=False)
    assert few.compile(x).code.has_loops

    def refused(*_):
        raise acc.errors.SizeError("too many products")

    for name in ("_first_as_loops", "loop_nest", "loops_of_sums"):
        monkeypatch.setattr(lowering, name, refused)
    written = derivative(function, cache=False)
    assert not written.compile(x).code.has_loops
    for other in (few, written):
        for one, another in zip(arrays_of(other(x)), arrays_of(expected(x)), strict=True):
            np.testing.assert_allclose(one, another, rtol=1e-12, atol=1e-12)


def test_loops_have_the_guards_of_what_was_written_out(monkeypatch):
    """Some guards are decided by others, or hold everywhere, and are left out where entries are written out."""

    def f(x):
        size = np.abs(x)
        if not np.all(np.isfinite(x)) or np.any(size < 0.0):
            raise ValueError("infinite")
        factor = 3.0
        if x[0] > 0.0:
            factor = 2.0 if x[0] > -1.0 else 5.0
        return factor * np.sum(np.exp(-(x[:-1] ** 2)) + size[1:] * x[:-1])

    X = np.random.default_rng(4).normal(size=(6, 200))
    monkeypatch.setattr(prices, "POINTS", 10**9)
    expected = acc.gradient(f, cache=False).batch(X)
    monkeypatch.setattr(prices, "POINTS", 1)
    gradient = acc.gradient(f, cache=False)
    for x, one in zip(X, expected, strict=True):
        np.testing.assert_allclose(gradient(x), one, rtol=1e-12, atol=1e-12)
        assert gradient.compile(x).code.has_loops
    np.testing.assert_allclose(gradient.batch(X), expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="infinite"):
        gradient(np.append(X[0, 1:], np.nan))


def test_operations_on_entries_that_no_result_needs_are_none():
    def f(x):
        np.exp(x * x)
        return x[::-1]

    x = np.linspace(0.0, 1.0, 100)
    assert not record(f, [x], arrays=True).written_out().tape.operations
    np.testing.assert_array_equal(acc.jacobian(f, cache=False)(x), np.eye(100)[::-1])


def arrays_of(results):
    return results if isinstance(results, tuple) else (results,)


def test_a_function_is_recorded_once_whatever_it_becomes():
    calls = []

    def counted(x):
        calls.append(len(x))
        y = x[0] * x[1] + np.sin(x[2])
        z = np.exp(x) * y
        return np.sum(np.cumsum(z)[::7]) * y + np.max(z)

    for size in (5, 150, 3000):
        x = np.linspace(0.1, 0.9, size)
        calls.clear()
        recording = record(counted, [x], arrays=True)
        assert calls == [size]
        assert not recording.program.is_straight
        expected = record(counted, [x]).tape
        assert recording.written_out().tape.operations <= expected.operations
        np.testing.assert_allclose(evaluate(recording.program, x), counted(x), rtol=1e-13)


@pytest.mark.parametrize("size", [3, 100, 3000])
def test_decisions_before_and_between_loops_stay_guards(size):
    def f(x):
        low = 1.0
        if x[0] > 0.5:
            low = 2.0
        y = np.sin(x) * low
        if np.sum(y) > 0.0 and y[1] > y[0]:
            y = y * x
        return y[: int(low)] * x[1]

    x = np.linspace(0.1, 0.9, size)
    jacobian = acc.jacobian(f, cache=False)
    for start in (x, x[::-1].copy(), -x):
        step = 1e-6
        actual = jacobian(start)
        for k in (0, 1, size - 1):
            move = np.zeros(size)
            move[k] = step
            expected = (f(start + move) - f(start - move)) / (2 * step)
            np.testing.assert_allclose(np.asarray(actual)[:, k], expected, rtol=1e-5, atol=1e-7)
    assert len(jacobian.report().cases) == 2


@pytest.mark.parametrize("size", [30, 100, 30_000])
def test_derivatives_within_functions_are_recorded_wherever_loops_begin(size):
    def inner(y):
        return np.sum(np.sin(y) * y**2)

    def f(x):
        return acc.gradient(inner)(x * x[0])[:3] * x[1]

    x = np.linspace(0.2, 0.9, size)
    y = x * x[0]
    np.testing.assert_allclose(acc.compile(f, cache=False)(x), (np.cos(y) * y**2 + 2 * y * np.sin(y))[:3] * x[1])
    slope = (np.cos(y) * y**2 + 2 * y * np.sin(y))[:3]
    np.testing.assert_allclose(acc.jacobian(f, cache=False)(x)[:, 1][[0, 2]], slope[[0, 2]], rtol=1e-12)


def test_user_code_does_not_catch_the_way_to_loops():
    def careful(x):
        try:
            return np.sin(x) * x
        except Exception:
            return x

    _, actual, expected = both(careful, X)
    assert_same(actual, expected)


def _caught_everything(x):
    try:
        y = np.sin(x) * x
    except:  # noqa: E722
        y = x
    return y


def _raised_another(x):
    try:
        return np.sin(x) * x
    except BaseException as error:
        raise ValueError("not this way") from error


def _caught_what_has_no_blocks(x):
    y = np.cos(x)
    try:
        y = y + np.linalg.det(np.outer(x[:3], x[:3]) + np.eye(3))
    except:  # noqa: E722
        y = y + x
    return y


@pytest.mark.parametrize("function", [_caught_everything, _raised_another, _caught_what_has_no_blocks])
def test_code_that_catches_everything_gets_no_other_derivative(function):
    _, actual, expected = both(function, X, check=False)
    assert_same(actual, expected)


def test_workspaces_beyond_the_index_tables_are_refused(monkeypatch):
    from accumulus.targets import nests

    monkeypatch.setattr(nests, "MOST", 100)
    with unrolled(0), pytest.raises(acc.errors.SizeError, match="index tables"):
        acc.jacobian(stencil, cache=False)(X)


def test_too_many_products_are_an_error_before_memory_runs_out(monkeypatch):
    monkeypatch.setattr(arrays_jacobian, "MOST", 100)
    with unrolled(0), pytest.raises(acc.errors.SizeError, match="products of derivatives between arrays"):
        acc.jacobian(layers, cache=False)(X)


def test_shifts_do_not_part_derivatives_more_and_more():
    def blocks(steps):
        def f(x):
            y = x * 0.0
            for _ in range(steps):
                y = y + 0.1 * x * np.concatenate([np.ones(1), y[:-1]])
            return y[-1]

        with unrolled(0):
            gradient = acc.gradient(f, cache=False)
            result = gradient(X)
        with unrolled(10**9):
            assert_same(result, acc.gradient(f, cache=False)(X))
        return len(gradient.compile(X).code.tape.blocks)

    assert blocks(40) < 2.2 * blocks(20)


def test_repeated_forms_have_one_body():
    def f(x):
        for _ in range(4):
            x = np.roll(x * np.sin(x), 1)
        return x

    with unrolled(0):
        jac = acc.jacobian(f, sparse=True, cache=False)
        jac(X)
        program = jac.compile(X)
    assert len({each.body.operations for each in program.code.maps if not each.is_sum}) <= 3


def test_a_large_stencil_is_quick_and_right():
    """Half a million unknowns: written out it would take minutes."""
    n = 500_000
    x = np.linspace(0.1, 0.9, n)
    jacobian = acc.jacobian(stencil, sparse=True, cache=False)(x)
    inner = slice(1, -1)
    diagonal = np.full(n, -8.0)
    diagonal[inner] += 2 * x[inner] - 3 * x[inner] ** 2
    diagonal[0], diagonal[-1] = 1.0, 0.0
    np.testing.assert_allclose(jacobian.diagonal(), diagonal, rtol=1e-12, atol=1e-12)
    assert jacobian.nnz == 3 * (n - 2) + 1


def test_import_does_not_wait_for_it():
    code = "import sys, accumulus; print(any(m.startswith('accumulus.arrays') for m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# Random programs -------------------------------------------------------------------------------------------------

OPERATIONS = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a - 2.0 * b,
    lambda a, b: np.sin(a) * np.cos(b),
    lambda a, b: a / (1.0 + b * b),
    lambda a, b: np.roll(a, 1) * b,
    lambda a, b: a[::-1] - b,
    lambda a, b: a.reshape(3, 4).T.ravel() * b,
    lambda a, b: np.concatenate([a[:5], b[5:]]),
    lambda a, b: np.where(a > b, a, 2.0 * b),
    lambda a, b: np.sum(a.reshape(3, 4), axis=1)[np.arange(12) % 3] + b,
    lambda a, b: np.tile(np.mean(b), 12) * a,
    lambda a, b: (A[:4, :3] @ a.reshape(3, 4)).T.ravel()[:12] if False else (A[:3, :4] @ a.reshape(4, 3)).ravel()[
        np.arange(12) % 9] + b,
    lambda a, b: np.maximum(np.abs(a), b),
    lambda a, b: a[np.arange(12) * 5 % 12] + b[3],
    lambda a, b: np.concatenate([np.zeros(3), np.diff(a, n=3)]) + b,
    lambda a, b: np.cumsum(np.sin(a)) * b,
    lambda a, b: np.cumprod(np.cos(a).reshape(3, 4), axis=0).ravel() + np.maximum.accumulate(b),
    lambda a, b: np.max(np.sin(a).reshape(3, 4), axis=1)[np.arange(12) % 3] * b,
]  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=9
    ),
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, "csr"]),
)
def test_any_program_of_arrays(steps, seed, sparse):
    def f(x):
        values = [x[:12], x[12:24] ** 2]
        for operation, a, b in steps:
            values.append(OPERATIONS[operation](values[a % len(values)], values[b % len(values)]))
        return np.stack(values[-2:])

    x = np.random.default_rng(seed).uniform(-1.0, 1.0, 24)
    _, actual, expected = both(f, x, sparse=sparse, effort="fast")
    assert_same(actual, expected)


def test_reports_of_many_loops_list_the_first_and_the_last():
    def shifted(x):
        for k in range(40):
            x = np.sin(x) * np.roll(x, k)
        return np.sum(x)

    with unrolled(0):
        derivative = acc.gradient(shifted, cache=False)
        derivative(np.ones(70))
    report = derivative.report()
    assert len(report.bodies) > 30
    text = str(report)
    assert f"… {len(report.bodies) - 30} more" in text
    assert f"\n{len(report.bodies)} " in text
    assert "\n25 " not in text


def test_loops_over_small_matrices_are_recorded_as_loops():
    """A filter's matrices are short, but its operations on them are many: written out, they would take long."""
    turn = np.eye(6) + np.diag(np.full(5, 0.1), 1)

    def traces(p):
        covariance, total = np.eye(6), 0.0
        for _ in range(40):
            covariance = turn @ covariance @ turn.T * np.exp(-p[0]) + p[1] * np.eye(6)
            total = total + np.trace(covariance)
        return total

    derivative, p = acc.gradient(traces, effort="fast", cache=False), np.array([0.2, 0.3])
    step = 1e-6
    differences = [(traces(p + step * e) - traces(p - step * e)) / (2.0 * step) for e in np.eye(2)]
    np.testing.assert_allclose(derivative(p), differences, rtol=1e-7)
    assert not record(traces, [p], arrays=True).program.is_straight
    assert record(traces, [p], arrays=False).program.is_straight


def test_a_function_that_catches_everything_is_recorded_as_it_computes():
    """Beginning anew must not be an error that the function could take for one of its own."""
    turn = np.eye(6) + np.diag(np.full(5, 0.1), 1)

    def guarded(p):
        covariance = np.eye(6)
        for _ in range(40):
            try:
                covariance = turn @ covariance @ turn.T * np.exp(-p[0]) + p[1] * np.eye(6)
            except BaseException:
                covariance = covariance * 1.0
        return np.trace(covariance)

    p, step = np.array([0.2, 0.3]), 1e-6
    differences = [(guarded(p + step * e) - guarded(p - step * e)) / (2.0 * step) for e in np.eye(2)]
    np.testing.assert_allclose(acc.gradient(guarded, effort="fast", cache=False)(p), differences, rtol=1e-7)


def test_loops_are_written_out_to_see_what_constants_leave_of_them():
    """The piece of a spline at a constant time is decided while it is recorded, of 500 times 170 operations."""
    knots, times = np.linspace(0.0, 1.0, 20), np.linspace(0.01, 0.99, 500)

    def worth(rates):
        return np.sum(np.exp(-times * scipy.interpolate.CubicSpline(knots, rates)(times)))

    gradient = acc.gradient(worth, effort="fast", cache=False)
    made = gradient.compile(0.02 + 0.01 * knots)
    assert not made.code.has_loops
    assert made.operations < 20_000
