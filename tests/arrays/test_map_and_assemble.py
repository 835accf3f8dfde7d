"""`accumulus.map` and `accumulus.assemble`: rolled as unrolled, on numbers as recorded."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from looped import PLAIN, unrolled

import accumulus as acc
from accumulus.errors import ArgumentError, TraceError


def leaves(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [leaf for child in tree for leaf in leaves(child)] if isinstance(tree, list | tuple) else [np.asarray(tree)]


def loop(f, *xs):
    """Return the result of `acc.map`, by a loop in Python."""

    def entry(tree, k):
        if isinstance(tree, dict):
            return {key: entry(child, k) for key, child in tree.items()}
        if isinstance(tree, list | tuple):
            items = [entry(child, k) for child in tree]
            return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
        return tree[k]

    def stack(results):
        first = results[0]
        if isinstance(first, dict):
            return {key: stack([result[key] for result in results]) for key in first}
        if isinstance(first, list | tuple):
            items = [stack([result[k] for result in results]) for k in range(len(first))]
            return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
        return np.stack(results)

    first = xs[0]
    while isinstance(first, dict | list | tuple):
        first = next(iter(first.values())) if isinstance(first, dict) else first[0]
    return stack([f(*(entry(x, k) for x in xs)) for k in range(len(first))])


class Pair(NamedTuple):
    left: object
    right: object


X = np.random.default_rng(1).uniform(0.1, 1.0, 24)
P = np.array([0.3, 0.7, 1.1])
TABLE = np.random.default_rng(2).uniform(-1.0, 1.0, (8, 3))


def scalars(over, x, p):
    return over(lambda a, b: a * b + np.sin(a), x, x[::-1])


def captured(over, x, p):
    shared = np.cos(p[0]) * x[3]
    return over(lambda a: a * p[1] + shared * np.sin(p[2]) + p[0] * p[2] + x[0], x)


def rows(over, x, p):
    return over(lambda row, weights: np.tanh(row @ p) * weights, x.reshape(8, 3), TABLE)


def trees(over, x, p):
    def f(pair, options):
        total = pair.left * options["b"][1] + pair.right
        return {"a": Pair(total, np.array([total, pair.left**2])), "c": [options["b"][0], 1.5]}

    return over(f, Pair(x[:8], x[8:16]), {"b": [TABLE[:, 0], x[16:]]})


def constants(over, x, p):
    return over(lambda row: np.array([np.sum(row), np.exp(row[0])]), TABLE) * x[:2] + over(lambda row: row[0], TABLE)[0]


def geometry(over, x, p):
    """Return values of constants alone, which are computed once."""

    def f(values, corner):
        size = np.sqrt(corner[0] ** 2 + corner[1] ** 2) / 3.0
        return values * size + np.where(size > 0.2, corner[2], 0.0) * p[0]

    return over(f, x.reshape(8, 3), TABLE)


def decisions(over, x, p):
    def f(a, positive):
        above = a > p[0]
        return np.where(above & positive, a * a, p[1]), above, np.where(positive, a, 0.0)

    result = over(f, x, np.arange(24) % 3 > 0)
    return result[0] * np.roll(result[2], 1) + np.where(result[1], x, 0.0)


def traced_decisions(over, x, p):
    return over(lambda a, above: np.where(above, a, p[0] * a**2), x, x > 0.4)


def nested(over, x, p):
    def outer(row):
        return over(lambda a: a * row[0] + p[0] * x[1], row * row)

    return over(outer, x.reshape(8, 3))


def of_one(over, x, p):
    return over(lambda a: a * p[0] + x[0], x[:1])


def independent(over, x, p):
    """Results that are the same for all, one of them a constant."""
    return over(lambda a: (p[0] * p[1], 2.0, a), x)


def small_linear_algebra(over, x, p):
    def f(row):
        matrix = np.eye(2) + np.outer(row[:2], row[1:])
        return np.linalg.solve(matrix, row[:2]) + np.cumsum(row)[1:] + np.max(row)

    return over(f, x.reshape(8, 3))


def jumps(over, x, p):
    return over(lambda a, b: np.floor(a / 0.1 + b) * a + np.arctan2(0.0 * b, -1.0 - a), x, x[::-1])


def filled(over, x, p):
    def f(row):
        result = np.zeros(4)
        result[:3] = row
        result[3] = row[0] * p[0]
        result += 1.0
        return result

    return over(f, x.reshape(8, 3))


CASES = [
    scalars, captured, rows, trees, constants, geometry, decisions, traced_decisions, nested, of_one, independent,
    small_linear_algebra, jumps, filled,
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_maps_are_loops(case):
    expected = case(loop, X, P)
    for one, other in zip(leaves(case(acc.map, X, P)), leaves(expected), strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-13)
    with unrolled(10**9):
        written = acc.value_and_jacobian(lambda x, p: case(loop, x, p), (0, 1), **PLAIN)(X, P)
        flat = acc.value_and_jacobian(lambda x, p: case(acc.map, x, p), (0, 1), cache=False)(X, P)
    with unrolled(0):
        rolled = acc.value_and_jacobian(lambda x, p: case(acc.map, x, p), (0, 1), cache=False)
        actual = rolled(X, P)
        assert rolled.compile(X, P).code.has_loops == (case not in (of_one, independent))
    for one in (flat, actual):
        for mine, theirs in zip(leaves(one), leaves(written), strict=True):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


def test_numbers_are_computed_together_and_as_by_the_function():
    calls = []

    def f(a, row):
        calls.append(a)
        return a * np.sin(row), a > 0.5

    x, table = np.random.default_rng(3).uniform(0.0, 1.0, 10_000), np.random.default_rng(4).normal(size=(10_000, 2))
    values, above = acc.map(f, x, table)
    assert len(calls) < 10
    assert values.shape == (10_000, 2)
    assert above.dtype == bool
    np.testing.assert_allclose(values, x[:, None] * np.sin(table), rtol=1e-14)


def test_functions_that_decide_are_run_on_numbers_one_by_one():
    def f(a):
        return a if a > 0.5 else -a

    x = np.linspace(0.0, 1.0, 200)
    np.testing.assert_array_equal(acc.map(f, x), np.where(x > 0.5, x, -x))
    with pytest.raises(TraceError, match=r"if a > 0\.5"):
        acc.jacobian(lambda x: acc.map(f, x))(x)


def test_functions_that_are_recorded_otherwise_are_run_on_numbers():
    def f(a):
        return 2.0 * a if type(a) is np.float64 else a

    np.testing.assert_array_equal(acc.map(f, np.ones(200)), np.full(200, 2.0))


def test_no_entries_have_no_results():
    assert acc.map(lambda a: (a, np.array([a, a])), np.empty(0))[1].shape == (0, 2)
    for most in (0, 10**9):
        with unrolled(most):
            result = acc.jacobian(lambda x: np.concatenate([acc.map(lambda a: a * x[0], x[:0]), x * x]), cache=False)(P)
        np.testing.assert_allclose(result, np.diag(2 * P))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: acc.map(3.0, x), "expected a function"),
        (lambda x: acc.map(lambda: 1.0), "expected at least one array"),
        (lambda x: acc.map(lambda a, b: a, x, x[1:]), "one length for all"),
        (lambda x: acc.map(lambda a, b: a, x, 2.0), "argument 1 of .* is one number"),
        (lambda x: acc.map(lambda a: None, x), "returned NoneType None"),
    ],
)
@pytest.mark.parametrize("recorded", [True, False])
def test_arguments_without_a_common_axis_raise(call, message, recorded):
    x = np.ones(100)
    with pytest.raises(ArgumentError, match=message):
        acc.jacobian(call)(x) if recorded else call(x)


def test_text_beside_numbers_is_handed_on():
    def f(x):
        result = acc.map(lambda a, b: {"square": a * a, "of": b["name"]}, x, {"name": "side"})
        assert result["of"] == "side"
        return result["square"]

    np.testing.assert_array_equal(acc.jacobian(f)(P), np.diag(2 * P))
    np.testing.assert_array_equal(f(P), P * P)


def test_results_that_change_their_shape_are_an_error():
    with pytest.raises(ArgumentError, match=r"\(1,\) for entry 0, and \(2,\) for entry 1"):
        acc.map(lambda a: np.ones(int(a)), np.array([1.0, 2.0]))


def test_values_of_one_entry_do_not_leave_it():
    leaked = []

    def f(x):
        def g(a):
            leaked.append(a)
            return a

        return acc.map(g, x) + leaked[0]

    def into(x):
        total = np.zeros(3)

        def g(a):
            total[0] += a
            return a

        return acc.map(g, x) + total

    for function in (f, into):
        with pytest.raises(TraceError, match="one instance of a repeated function"):
            acc.jacobian(function)(P)


def test_an_entry_is_no_index():
    with pytest.raises(TraceError, match="Instead of an index, pass the entries that it selects"):
        acc.jacobian(lambda x: acc.map(lambda k: x[k], np.arange(3)))(P)


def test_errors_caught_by_a_mapped_function_are_raised():
    def f(x):
        def g(a):
            try:
                return int(a) * a
            except TraceError:
                return a

        return acc.map(g, x)

    with pytest.raises(TraceError, match="runs for many instances"):
        acc.jacobian(f)(2.0 * np.ones(3))


def test_functions_of_long_arrays_are_operations_on_arrays():
    def f(x):
        return acc.map(lambda row, k: (np.sum(np.sin(row) * x[0]) * k, row[:2] > 0.5), x.reshape(4, -1), np.arange(4.0))

    x = np.random.default_rng(5).uniform(0.0, 1.0, 4 * 6_000)
    jac = acc.value_and_jacobian(lambda x: f(x)[0], cache=False)
    values, jacobian = jac(x)
    assert jac.compile(x).code.has_loops
    assert len(jac.report().bodies) < 20
    rows = x.reshape(4, -1)
    np.testing.assert_allclose(values, np.arange(4) * np.sum(np.sin(rows), axis=1) * x[0])
    expected = np.zeros((4, 4, 6_000))
    for k in range(4):
        expected[k, k] = k * np.cos(rows[k]) * x[0]
    expected[:, 0, 0] += np.arange(4) * np.sum(np.sin(rows), axis=1)
    np.testing.assert_allclose(jacobian, expected.reshape(4, -1), atol=1e-12)
    actual, above = f(x)
    np.testing.assert_allclose(actual, values)
    assert above.shape == (4, 2)
    with unrolled(10**9):
        np.testing.assert_allclose(acc.trace(f, x, check=False).tape.operations, 4 * 18_000, rtol=0.1)


# Assembly --------------------------------------------------------------------------------------------------------

EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [1, 3], [4, 4]])


def force(ends, stiffness):
    push = stiffness * np.sin(ends[1] - ends[0]) + ends[0] ** 2 * ends[1]
    return np.array([push, -2.0 * push])


def by_hand(element, indices, rows, size, vectors, *data):
    columns = []
    for e in range(len(rows)):
        actual = element(*(v[i[e]] for v, i in zip(vectors, indices, strict=True)), *(d[e] for d in data))
        columns.append(actual)
    total = np.zeros((size, *np.shape(columns[0])[np.ndim(rows) - 1 :]))
    for row, actual in zip(rows, columns, strict=True):
        for r, value in zip(np.atleast_1d(row), actual if np.ndim(row) else [actual], strict=True):
            total[r] += value
    return total


STIFFNESS = np.linspace(0.5, 2.0, 6)


def _checked(residual, expected, arguments, argnums):
    np.testing.assert_allclose(residual(*arguments), expected, rtol=1e-13)
    actual = []
    for most in (10**9, 0):
        with unrolled(most):
            options = PLAIN if most else {"cache": False}
            derivative = acc.value_and_jacobian(residual, argnums, sparse="csr", **options)
            values, jacobian = derivative(*arguments)
            np.testing.assert_allclose(values, expected, rtol=1e-12)
            actual.append([each.toarray() for each in leaves_of(jacobian)])
    with unrolled(0):
        assert acc.check(residual, *arguments).passed
    for one, other in zip(*actual, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


def leaves_of(tree):
    return [leaf for child in tree for leaf in leaves_of(child)] if isinstance(tree, list | tuple) else [tree]


def test_results_are_added_where_values_are_taken():
    u = np.random.default_rng(5).uniform(-1.0, 1.0, 6)
    residual = acc.assemble(force, EDGES)
    _checked(residual, by_hand(force, [EDGES], EDGES, 6, [u], STIFFNESS), (u, STIFFNESS), (0, 1))


def test_several_vectors_and_separate_rows():
    def element(a, b, k):
        return a * b[0] + k * b[1]

    one, two = np.array([0, 2, 1, 1]), np.array([[0, 1], [1, 2], [2, 0], [0, 0]])
    rows = np.array([3, 3, 0, 1])
    residual = acc.assemble(element, (one, two), rows=rows, size=7)
    a, b, k = X[:3], X[3:6], X[6:10]
    _checked(residual, by_hand(element, [one, two], rows, 7, [a, b], k), (a, b, k), (0, 1, 2))
    assert len(acc.assemble(element, (one, two), rows=rows)(a, b, k)) == 4


def test_vectors_of_points():
    def element(points, size):
        center = np.mean(points, axis=0)
        return (points - center) * size + np.sum(points**2)

    triangles = np.array([[0, 1, 2], [1, 3, 2], [3, 4, 2]])
    points, sizes = X[:10].reshape(5, 2), np.array([1.0, 2.0, 3.0])
    residual = acc.assemble(element, triangles)
    _checked(residual, by_hand(element, [triangles], triangles, 5, [points], sizes), (points, sizes), 0)


def test_energies_are_added_to_one_number():
    residual = acc.assemble(lambda ends: (ends[0] - ends[1]) ** 2, EDGES[:5], rows=np.zeros(5, int))
    for most in (10**9, 0):
        with unrolled(most):
            slope = acc.gradient(lambda u: residual(u)[0], cache=False)(X[:4])
        difference = X[EDGES[:5, 0]] - X[EDGES[:5, 1]]
        expected = np.zeros(4)
        np.add.at(expected, EDGES[:5, 0], 2 * difference)
        np.add.at(expected, EDGES[:5, 1], -2 * difference)
        np.testing.assert_allclose(slope, expected, atol=1e-14)


SCALE = 2.0


def _scaled(ends):
    return SCALE * ends


def test_variables_captured_by_elements_are_watched(monkeypatch):
    jac = acc.jacobian(acc.assemble(_scaled, [[0, 1]]))
    assert jac(np.ones(2))[0, 0] == 2.0
    monkeypatch.setattr("test_map_and_assemble.SCALE" if "." not in __name__ else f"{__name__}.SCALE", 3.0)
    assert jac(np.ones(2))[0, 0] == 3.0


def test_assemblies_travel():
    residual = pickle.loads(pickle.dumps(acc.assemble(_scaled, [[0, 1], [1, 2]])))
    np.testing.assert_array_equal(residual(np.ones(3)), [2.0, 4.0, 2.0])
    assert residual.__name__ == "_scaled"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: acc.assemble(3, EDGES), "expected a function"),
        (lambda: acc.assemble(force, EDGES * 1.0), "indices is an array of float64"),
        (lambda: acc.assemble(force, EDGES > 1), "array of bool"),
        (lambda: acc.assemble(force, EDGES[None]), r"shape \(1, 6, 2\)"),
        (lambda: acc.assemble(force, EDGES - 1), r"indices\[0, 0\] is -1"),
        (lambda: acc.assemble(force, ()), "empty tuple"),
        (lambda: acc.assemble(force, (EDGES, EDGES)), "no rows"),
        (lambda: acc.assemble(force, EDGES, rows=EDGES[1:]), "one number of elements"),
        (lambda: acc.assemble(force, EDGES, rows=EDGES, size=4), r"rows\[5, 0\] is 4, and the result has 4"),
        (acc.assemble(force, EDGES), "0 arguments are given"),
        (lambda: acc.assemble(force, EDGES)(2.0, STIFFNESS), "argument 0 of force is one number"),
        (lambda: acc.assemble(force, EDGES)(np.ones(4), STIFFNESS), r"indices\[5, 0\] is 4, and argument 0 has 4"),
        (lambda: acc.assemble(force, EDGES)(np.ones(5), STIFFNESS[1:]), r"the shape \(5,\); expected data of 6"),
        (lambda: acc.assemble(lambda u: u[0], EDGES)(np.ones(5)), r"expected the shape \(2,\)"),
        (lambda: acc.assemble(lambda u: (u, u), EDGES)(np.ones(5)), "returned no array"),
    ],
)
def test_assemblies_that_cannot_be_are_an_error(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


def test_indices_beyond_the_vector_are_an_error_when_recorded():
    with pytest.raises(ArgumentError, match="argument 0 has 4 entries"):
        acc.jacobian(acc.assemble(force, EDGES))(np.ones(4), STIFFNESS)
    with pytest.raises(ArgumentError, match="depend on the function's arguments"):
        acc.jacobian(lambda x: acc.assemble(force, x)(x))(np.ones(4))


def test_many_elements_are_one_loop():
    n = 30_000
    chain = acc.assemble(force, np.stack([np.arange(n), np.arange(1, n + 1)], axis=1))
    jac = acc.jacobian(chain, sparse="csr", cache=False)
    u = np.linspace(0.0, 1.0, n + 1)
    assert jac(u, np.ones(n)).nnz == 3 * n + 1
    assert jac.compile(u, np.ones(n)).code.has_loops


# Sums at indices ------------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=30), st.booleans())
def test_sums_at_indices_are_those_written_out(positions, empty):
    positions = np.array(positions, np.int64)

    def f(x):
        result = np.zeros(7) if empty else np.sin(x[:7])
        np.add.at(result, positions, x[np.arange(len(positions)) % 24] ** 2)
        return result * x[0]

    results = []
    for most in (10**9, 0):
        with unrolled(most):
            results.append(acc.value_and_jacobian(f, cache=False, effort="fast")(X))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


def test_sums_at_indices_of_a_table_are_loops():
    def f(x):
        result = x[:6].reshape(2, 3).copy()
        np.add.at(result, (slice(None), np.array([0, 2, 0])), x[6:12].reshape(2, 3))
        np.add.at(result, np.array([1, 1]), x[0])
        return result

    with unrolled(10**9):
        expected = acc.value_and_jacobian(f, cache=False)(X)
    with unrolled(0):
        jac = acc.value_and_jacobian(f, cache=False)
        actual = jac(X)
        assert jac.compile(X).code.has_loops
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other)
