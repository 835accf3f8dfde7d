"""Functions that decide on values have a program for each case, and every point gets the derivatives of its own."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError, CaseError, TooManyCasesError, TraceError, UnknownNameError
from accumulus.frontends.numpy import merging

#: At rest, so that the complex step takes the branches of the real part.
STEP = 1e-30


@pytest.fixture(autouse=True)
def nothing_is_merged(monkeypatch):
    """Every decision is guarded, also those that could be recorded as choices."""
    monkeypatch.setattr(merging, "mergeable", lambda site: False)


def complex_steps(f, x):
    """The Jacobian by complex steps; comparisons of complex numbers are those of their real parts."""
    x = np.asarray(x, float)
    columns = []
    for k in range(x.size):
        z = x.astype(complex)
        z.flat[k] += 1j * STEP
        columns.append(np.ravel(f(z)).imag / STEP)
    return np.stack(columns, axis=-1).reshape(*np.shape(f(x)), *x.shape)


def halving(x):
    """A loop that runs as often as values say, and a branch."""
    total = 0.0
    while np.sum(x).real > 1:
        total = total + x[0] * x[1]
        x = x / 2
    if x[0].real < 0:
        return np.array([total, -(x[1] ** 2)])
    return np.array([total + np.sin(x[0]), x[1]])


def cubic_root(x):
    """Newton's method until it has converged."""
    y = x[0]
    while abs((y**3 - x[0] - x[1]).real) > 1e-13:
        y = y - (y**3 - x[0] - x[1]) / (3 * y**2)
    return y


def bisected(x):
    low, high = 0.0, 10.0
    for _ in range(30):
        middle = (low + high) / 2
        if middle**2 < x[0].real:
            low = middle
        else:
            high = middle
    return low * x[1] + x[0]


TABLE = [0.3, 1.7, -2.0, 4.0, 0.1]


def looked_up(x):
    """Piecewise linear in time, from a table by hours."""
    k = int(x[0].real / 3600)
    share = x[0] / 3600 - k
    return (TABLE[k] * (1 - share) + TABLE[k + 1] * share) * x[1] ** 2


def event(x):
    t, y = x
    if t.real <= 5:
        return y * np.exp(-t)
    return y * np.exp(-5.0) + (t - 5) ** 2


def eliminated(x):
    """A linear system by elimination with pivoting."""
    A, b = np.array([[x[0], 2.0], [3.0, x[1]]]), [1.0, x[2]]
    p = 0 if abs(A[0, 0].real) >= abs(A[1, 0].real) else 1
    q = 1 - p
    factor = A[q, 0] / A[p, 0]
    second = (b[q] - factor * b[p]) / (A[q, 1] - factor * A[p, 1])
    return np.array([(b[p] - A[p, 1] * second) / A[p, 0], second])


def points(name, count=150):
    rng = np.random.default_rng(5)
    if name is looked_up:
        return np.column_stack([rng.uniform(0, 4 * 3600 - 1, count), rng.normal(size=count)])
    if name is event:
        return np.column_stack([rng.uniform(0, 10, count), rng.normal(size=count)])
    if name in (cubic_root, bisected):
        return rng.uniform(0.5, 9.0, (count, 2))
    return 4 * rng.normal(size=(count, 3 if name is eliminated else 2))


FUNCTIONS = [halving, cubic_root, looked_up, event, eliminated]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["llvm", "numpy"])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_points_that_cross_all_cases(f, target):
    X = points(f)
    expected = np.stack([complex_steps(f, x) for x in X])
    jac = acc.value_and_jacobian(f, target=target)
    tolerances = {"rtol": 1e-9, "atol": 1e-11}
    values, slopes = jac.batch(X)
    np.testing.assert_allclose(slopes, expected, **tolerances)
    np.testing.assert_allclose(values, [f(x) for x in X], **tolerances)
    assert len(jac._programs) == 1
    assert "compiled" in repr(jac)
    for _ in range(2):  # anew, and by what is known
        values, slopes = jac.batch(np.ascontiguousarray(X.T), transposed=True)
        np.testing.assert_allclose(np.moveaxis(slopes, -1, 0), expected, **tolerances)
    one_by_one = acc.jacobian(f, target=target)
    np.testing.assert_allclose(np.stack([one_by_one(x) for x in X[:60]]), expected[:60], **tolerances)


def test_a_bisection_has_the_slope_of_its_branch():
    x = np.array([2.0, 3.0])
    low = bisected(np.array([2.0, 0.0])) - 2.0
    assert low == 0.0
    np.testing.assert_array_equal(acc.jacobian(bisected)(x), complex_steps(bisected, x))


def test_at_the_border_the_side_that_the_comparison_chose():
    jac = acc.jacobian(event)
    here, after = np.array([5.0, 2.0]), np.array([np.nextafter(5.0, 6.0), 2.0])
    np.testing.assert_allclose(jac(here), [-2 * np.exp(-5.0), np.exp(-5.0)], rtol=1e-14)
    np.testing.assert_allclose(jac(after), [0.0, np.exp(-5.0)], rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(jac.batch(np.stack([here, after, here])), [jac(here), jac(after), jac(here)])


def test_points_that_compiled_code_decides_otherwise_are_those_of_the_recording():
    """Near e, single precision cannot tell on which side a number is; each point is recorded once, and none forever."""

    def f(x):
        return 2.0 * x if np.exp(x) > np.e else -x

    runs = 0

    def counted(x):
        nonlocal runs
        runs += 1
        return f(x)

    jac = acc.jacobian(counted, dtype="float32", check=False)
    X = 1.0 + np.linspace(-1e-7, 1e-7, 50)
    assert set(jac.batch(X).tolist()) == {2.0, -1.0}
    assert {float(jac(x)) for x in X} == {2.0, -1.0}
    assert runs == 2


def test_results_are_written_to_out(tmp_path):
    X = points(halving, 3000)
    expected = np.stack([complex_steps(halving, x) for x in X])
    jac = acc.jacobian(halving)
    out = np.empty((3000, 2, 2))
    assert jac.batch(X, out=out, threads=2) is out or np.shares_memory(jac.batch(X, out=out), out)
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-11)
    on_disk = np.lib.format.open_memmap(tmp_path / "results.npy", "w+", np.float64, (3000, 2, 2))
    jac.batch(X, out=on_disk)
    np.testing.assert_allclose(on_disk, expected, rtol=1e-9, atol=1e-11)
    one, many = acc.jacobian(lambda a, x: halving(np.array([a, x])), argnums=1), X[:40, 1]
    scalar = one.batch(2.0, many, in_axes=(None, 0))
    np.testing.assert_allclose(scalar, [complex_steps(halving, [2.0, x])[:, 1] for x in many], rtol=1e-9, atol=1e-11)


def test_dask_arrays_are_parted_where_they_are():
    array = pytest.importorskip("dask.array")
    X = points(halving, 200)
    jac = acc.jacobian(halving)
    lazy = jac.batch(array.from_array(X, chunks=(50, 2)))
    np.testing.assert_allclose(lazy.compute(), jac.batch(X), rtol=1e-14)


def sparse(x):
    return np.array([x[0] ** 2 + x[1], x[1] if x[2] > 0 else x[0] * x[2]])


def test_sparse_results_have_one_pattern_which_grows():
    jac = acc.jacobian(sparse, sparse="csr")
    positive, negative = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, -3.0])
    A = jac(positive)
    assert A.nnz == len(jac.pattern) == 3
    B = jac(negative)
    assert B.nnz == len(jac.pattern) == 5
    np.testing.assert_array_equal(B.toarray(), [[2, 1, 0], [-3, 0, 1]])
    np.testing.assert_array_equal(jac(positive).toarray(), [[2, 1, 0], [0, 1, 0]])
    B.data[:] = jac.nonzeros(positive)
    np.testing.assert_array_equal(B.toarray(), [[2, 1, 0], [0, 1, 0]])
    for fmt in ("csr", "csc", "coo"):
        fresh = acc.jacobian(sparse, sparse=fmt)
        result = fresh.batch(np.stack([positive, negative, positive])).toarray()
        np.testing.assert_array_equal(result, [A.toarray(), [[2, 1, 0], [-3, 0, 1]], A.toarray()])


def test_results_of_other_shapes():
    def positive(x):
        return x[x > 0] ** 2

    jac = acc.jacobian(positive)
    np.testing.assert_array_equal(jac(np.array([1.0, -2.0, 3.0])), [[2, 0, 0], [0, 0, 6]])
    np.testing.assert_array_equal(jac(np.array([-1.0, -2.0, 3.0])), [[0, 0, 6]])
    with pytest.raises(
        CaseError, match=r"returns shape \(2,\) at some points of this batch and shape \(1,\) at others"
    ):
        jac.batch(np.array([[1.0, -2.0, 3.0], [-1.0, -2.0, 3.0]]))
    assert jac.batch(np.array([[-1.0, -2.0, 3.0], [-1.0, -5.0, 3.0]])).shape == (2, 1, 3)


def test_a_program_and_a_trace_are_of_one_case():
    x = np.array([1.0, 2.0])
    for program in (
        acc.jacobian(event).compile(x),
        (trace := acc.trace(event, x)).compile(acc.plan(trace.linearize())),
    ):
        np.testing.assert_allclose(program(x), complex_steps(event, x), rtol=1e-14)
        with pytest.raises(CaseError, match=r"test_cases\.py, line \d+: if t\.real <= 5: → True"):
            program(np.array([6.0, 2.0]))
        with pytest.raises(CaseError, match="at point 1 of the batch"):
            program.batch(np.array([[1.0, 2.0], [6.0, 2.0]]))


def test_too_many_cases_name_the_line():
    def f(x):
        return x * int(x)

    jac = acc.jacobian(f, most_cases=4)
    with pytest.raises(TooManyCasesError, match=r"than 4 cases[\s\S]*test_cases\.py, line \d+: answered in 5 ways"):
        jac.batch(np.linspace(0.0, 20.0, 100))
    np.testing.assert_array_equal(jac.batch(np.array([0.5, 1.5, 2.5])), [0.0, 1.0, 2.0])
    with pytest.raises(ArgumentError, match="most_cases"):
        acc.jacobian(f, most_cases=0)


def test_refused_on_demand():
    with pytest.raises(TraceError, match="A decision here depends"):
        acc.jacobian(event, guards="error")(np.ones(2))
    with pytest.raises(TraceError, match="A decision here depends"):
        acc.trace(event, np.ones(2), guards="error")
    with pytest.raises(UnknownNameError, match="unknown way of guards 'ignore'"):
        acc.jacobian(event, guards="ignore")


def test_copies_take_their_cases_along():
    jac = acc.jacobian(event)
    x, y = np.array([1.0, 2.0]), np.array([6.0, 2.0])
    expected = jac(x), jac(y)
    copy = pickle.loads(pickle.dumps(jac))
    assert repr(copy) == repr(jac) == "<jacobian(event), 2 compiled>"
    np.testing.assert_array_equal(copy(x), expected[0])
    np.testing.assert_array_equal(copy.batch(np.stack([x, y])), expected)


def test_threads_find_cases_at_once():
    jac = acc.jacobian(looked_up)
    X = points(looked_up, 80)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(jac, X))
    np.testing.assert_allclose(results, [complex_steps(looked_up, x) for x in X], rtol=1e-9, atol=1e-11)
    assert repr(jac) == "<jacobian(looked_up), 4 compiled>"
    assert len({id(program) for program in next(iter(jac._programs.values())).recent}) == 4


SIGN = 1.0


def test_captured_changes_discard_all_cases():
    global SIGN  # noqa: PLW0603

    def f(x):
        return SIGN * x if x > 0 else x * x

    jac = acc.jacobian(f)
    assert [float(jac(x)) for x in (2.0, -2.0)] == [1.0, -4.0]
    SIGN = -1.0
    try:
        assert [float(jac(x)) for x in (2.0, -2.0)] == [-1.0, -4.0]
    finally:
        SIGN = 1.0


def test_long_arrays():
    def reaction(t, u):
        rate = 2.0 if t <= 5 else 3.0
        du = np.zeros_like(u)
        du[1:-1] = rate * (u[2:] - 2 * u[1:-1] + u[:-2])
        return du

    n = 30_000
    jac = acc.jacobian(reaction, argnums=1, sparse="csr")
    u = np.linspace(0.0, 1.0, n)
    for t, rate in ((1.0, 2.0), (6.0, 3.0), (5.0, 2.0)):
        A = jac(t, u)
        assert A[1, 1] == -2 * rate
        assert A.nnz == 3 * (n - 2)
    data = jac.batch(np.array([1.0, 6.0, 2.0]), np.stack([u, u, u]), in_axes=(0, 0)).data
    np.testing.assert_array_equal(data[:, 1], [-4.0, -6.0, -4.0])
    assert repr(jac).endswith("2 compiled>")


@pytest.mark.parametrize("options", [{}, {"target": "numpy"}, {"threads": 2}, {"sparse": "csr"}])
def test_points_of_many_cases_are_parted_first(options):
    """More than two cases among many points: one pass over all guards says where each point belongs."""
    X = np.column_stack([np.random.default_rng(0).uniform(-4.0, 4.0, 3000), np.linspace(-1.0, 1.0, 3000)])

    def f(x):
        return np.array([x[0] * int(x[0]), x[1] * np.sin(x[0])])

    expected = np.zeros((3000, 2, 2))
    expected[:, 0, 0] = np.trunc(X[:, 0])
    expected[:, 1, 0], expected[:, 1, 1] = X[:, 1] * np.cos(X[:, 0]), np.sin(X[:, 0])
    jac = acc.jacobian(f, **options)
    for turn in range(4):
        transposed = turn % 2 == 1
        actual = jac.batch(np.ascontiguousarray(X.T) if transposed else X, transposed=transposed)
        if "sparse" in options:
            actual = actual.toarray()
        elif transposed:
            actual = np.moveaxis(actual, -1, 0)
        np.testing.assert_allclose(actual, expected, rtol=1e-14, atol=1e-14)
    (cases,) = jac._programs.values()
    assert cases.is_partitioned
    assert len(cases.programs) == 7
    assert sum(program.ran.points for program in cases.programs) == 4 * 3000
    few = np.column_stack([np.full(3000, 2.5), X[:, 1]])
    jac.batch(few)
    assert not cases.is_partitioned


def test_the_report_lists_the_cases():
    jac = acc.jacobian(event)
    jac.batch(np.array([[1.0, 2.0], [6.0, 2.0], [7.0, 1.0]]))
    for _ in range(5):
        jac(np.array([2.0, 2.0]))
    report = jac.report()
    first, second = report.cases
    (condition,) = first.conditions
    assert (condition.file, condition.source, condition.answers) == (__file__, "if t.real <= 5:", ("True",))
    assert second.conditions[0].answers == ("False",)
    assert (first.calls, first.points, second.calls, second.points) == (5, 1, 0, 2)
    text = str(report)
    assert f"t.real <= 5 (test_cases.py:{condition.line})" in text
    loop = acc.jacobian(halving)
    loop(np.array([3.0, 2.0]))
    assert "3 times True, False" in str(loop.report())
    assert not acc.jacobian(lambda x: x * x).compile(1.0).report().cases
