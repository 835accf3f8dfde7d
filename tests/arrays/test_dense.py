"""Products of matrices kept as such: the same as written out entry by entry."""

import pickle
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Program, evaluate, evaluate_with_bounds, record, targets
from looped import assert_same, both, unrolled
from matrices import small_matrices

import accumulus as acc
from accumulus.arrays import residues
from accumulus.arrays.compiled.residues_kernel import PRIME
from accumulus.arrays.entries import Entries, Products, selected
from accumulus.arrays.residues import matrix_product
from accumulus.arrays.structured import Dense, Structured, written_out
from accumulus.tape.blocks import MATMUL
from accumulus.tape.program import references_in

RNG = np.random.default_rng(7)
X = RNG.uniform(-1.0, 1.0, 60)
A, B = RNG.uniform(-1.0, 1.0, (5, 6)), RNG.uniform(-1.0, 1.0, (4, 5))


@pytest.fixture(autouse=True)
def every_product():
    """Small products are kept, too."""
    with small_matrices():
        yield


def layers(x):
    return np.tanh(B @ np.tanh(A @ x[:6]))


def net(w):
    data, expected = np.arange(12.0).reshape(4, 3) / 7.0, np.ones((4, 2))
    W1, b1, W2, b2 = w[:12].reshape(3, 4), w[12:16], w[16:24].reshape(4, 2), w[24:26]
    return np.mean((np.tanh(data @ W1 + b1) @ W2 + b2 - expected) ** 2)


def rectified(w):
    W1, W2 = w[:24].reshape(4, 6), w[24:36].reshape(6, 2)
    return np.sum((np.maximum(np.cos(X[:8]).reshape(2, 4) @ W1, 0.0) @ W2) ** 2, axis=0)


def gated(w):
    """A logistic layer, whose exponentials may overflow, below a rectified one."""
    h = 1.0 / (1.0 + np.exp(-(np.cos(X[:24]).reshape(8, 3) @ w[:12].reshape(3, 4))))
    z = h @ w[12:32].reshape(4, 5)
    return np.sum(np.where(z > 0.1, z, 0.0) @ w[32:37])


def gram(x):
    M = x.reshape(10, 6)
    return np.sin(M.T @ M)


def powers(x):
    M = x[:9].reshape(3, 3)
    return np.linalg.matrix_power(M, 3) @ (M @ x[:3])


def residual(x):
    h = x[:5]
    for _ in range(3):
        h = h + 0.1 * np.tanh(x[5:30].reshape(5, 5) @ h + x[30:35])
    return h


def mixed(x):
    """Constants, two arrays and the arguments in one factor."""
    left = np.concatenate([np.sin(x[:4]), np.ones(2), x[4:6] ** 2, np.cos(x[:4])]).reshape(3, 4)
    right = np.stack([x[:4], np.arange(4.0), np.exp(x[:4])], axis=1)
    return left @ right


def repeated(x):
    """One entry several times in a factor."""
    return np.broadcast_to(x[:3], (4, 3)) @ np.outer(x[:3], np.ones(2)) + np.tile(x[3], (4, 5)) @ x[5:15].reshape(5, 2)


def triangular(x):
    """Factors with zeros and with entries of two arrays in no order, one of them twice."""
    L = np.concatenate([np.zeros(1), x[:6]])[[[0, 0, 0, 0], [1, 0, 0, 0], [2, 3, 0, 0], [4, 5, 6, 0]]]
    both = np.where(np.eye(4, dtype=bool), np.sin(x[6:10]), x[10:26].reshape(4, 4))
    return np.cos(L @ x[26:46].reshape(4, 5)).T @ both @ L.T @ both


def contracted(x):
    T, M = x[:24].reshape(2, 3, 4), x[24:44].reshape(4, 5)
    return np.einsum("abc,cd->dab", T, M), np.einsum("abc,abd->cd", T, np.cos(T)), np.tensordot(T, T, ([0, 2], [0, 2]))


def stacked(x):
    return (
        np.matmul(x[:24].reshape(2, 3, 4), x[24:32].reshape(2, 4, 1))
        + np.matmul(x[:12].reshape(3, 4), x[32:36])[:, None]
    )


def strided(x):
    M = x.reshape(6, 10)
    return M[:, :4] @ M[::2, 1:5].T @ M[:3, 5], M[:, ::2] @ M[0, 4::-1], M[::-1] @ x[10:20], M[1:4, 2:7].T @ x[:6:2]


FUNCTIONS = [
    layers, net, rectified, gated, gram, powers, residual, mixed, repeated, triangular, contracted, stacked, strided,
    lambda x: (A @ x[:6]) @ (B @ np.sin(A @ x[6:12]))[0] * x[0] if False else B @ (A @ x[:6]),
    lambda x: x[:6] @ A.T @ B.T,
    lambda x: np.dot(x[:30], x[30:]) * x[:2],
    lambda x: np.inner(x[:20].reshape(4, 5), x[20:30].reshape(2, 5)) ** 2,
    lambda x: np.vdot(np.sin(x[:30]), x[30:].reshape(5, 6)),
    lambda x: np.outer(np.tanh(x[:5]), x[:6]) @ x[5:11],
    lambda x: A @ np.where(x[:6] > 0.1, x[:6], 0.0) + np.where(A @ x[6:12] > 0.0, A @ x[6:12], 0.0),
    lambda x: np.tanh(x[:12].reshape(2, 6) @ A.T) @ B.T,
    lambda x: np.sum(A @ x[:6].reshape(6, 1) * x[6], axis=0),
    lambda x: np.zeros((2, 3)) @ x[:3] + np.ones((2, 3)) @ x[3:6],
]  # fmt: skip


def products(tape):
    return [block.shape for block in tape.blocks if block.code == MATMUL]


@pytest.mark.sampled(4, each="sparse")
@pytest.mark.parametrize("sparse", [None, "csr"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_products_equal_the_written_out_program(function, sparse):
    looped, actual, expected = both(function, X, sparse=sparse)
    assert products(looped.compile(X).recording.program)
    assert_same(actual, expected)


@pytest.mark.sampled(4, each="function options")
@pytest.mark.parametrize("options", [{"target": "numpy"}, {"optimise": False}, {"effort": "fast"}])
@pytest.mark.parametrize("function", [layers, net, gram, contracted, strided])
def test_every_option_computes_the_same(function, options):
    _, actual, expected = both(function, X, **options)
    assert_same(actual, expected)


def test_batches_copies_and_reports():
    points = RNG.uniform(-1.0, 1.0, (5, 60))
    with unrolled(0):
        jac = acc.jacobian(net, cache=False)
        single = [jac(x) for x in points]
        assert np.array_equal(jac.batch(points, threads=2), single)
        assert np.array_equal(pickle.loads(pickle.dumps(jac.compile(X)))(points[1]), single[1])
        report = jac.report()
    assert (4, 3, 4) in [body.shape for body in report.bodies]
    assert "product of 4×3 and 3×4" in str(report)
    with unrolled(0):
        assert acc.check(net, X).passed


def test_small_products_are_multiplications_and_sums():
    with unrolled(0), small_matrices(31):
        assert not products(record(layers, [X], arrays=True).program)
        assert products(record(lambda x: A @ x[:12].reshape(6, 2), [X], arrays=True).program) == [(5, 6, 2)]


@pytest.mark.parametrize("target", targets())
def test_whole_numbers_jump_where_numpys_do(target):
    """Sums of products of whole numbers are exact, whatever their order."""
    M = RNG.integers(-9, 9, (6, 10)).astype(float)

    def f(x):
        y = M @ x[:10]
        return np.floor(y / 3.0), np.where(M.T @ y > 0.0, 1.0, x[:10]), np.maximum(M @ x[10:20], 0.0)

    x = RNG.integers(-9, 9, 60).astype(float)
    with unrolled(0):
        values, _ = acc.value_and_jacobian(f, target=target, cache=False)(x)
    for value, expected in zip(values, f(x), strict=True):
        assert np.array_equal(value, expected)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_bounds_of_products_hold(m, k, n, seed):
    rng = np.random.default_rng(seed)
    tape = Program(m * k + k * n)
    squares = tape.apply("multiply", np.arange(tape.inputs), np.arange(tape.inputs))
    left, right = squares[: m * k].reshape(m, k), squares[m * k :].reshape(n, k).T
    tape.outputs = tape.matmul(left, right).ravel()
    x = rng.normal(size=(tape.inputs, 3)) * 10.0 ** rng.integers(-3, 3, (tape.inputs, 1))
    values, bounds = evaluate_with_bounds(tape, list(x))
    exact = np.einsum(
        "mkp,nkp->mnp", *(array.reshape(-1, k, 3) for array in np.split(x.astype(np.longdouble) ** 2, [m * k]))
    )
    assert (abs(values - exact.reshape(-1, 3)) <= bounds).all()
    assert (bounds <= 1e-12 * abs(exact).reshape(-1, 3) + 1e-300).all()
    np.testing.assert_allclose(evaluate(tape, x), values)
    np.testing.assert_allclose(evaluate(tape, x[:, 0]), values[:, 0])


@given(st.integers(1, 4), st.integers(1, 40), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_products_of_residues_are_exact(m, k, n, seed):
    rng = np.random.default_rng(seed)
    left, right = (rng.integers(PRIME - 3, PRIME + 5, shape, np.int64) for shape in ((m, k), (k, n)))
    left[0], right[:, 0] = rng.integers(0, PRIME, k), rng.integers(0, PRIME, k)
    with mock.patch.object(residues, "TERMS", 16):
        result = matrix_product(left, right)
    assert (result <= PRIME + 4).all()
    assert np.array_equal(result % PRIME, left.astype(object) @ right.astype(object) % PRIME)


LABELS = "abcd"


@settings(max_examples=13, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(LABELS), min_size=1, max_size=3, unique=True), min_size=2, max_size=3),
    st.lists(st.integers(1, 4), min_size=4, max_size=4),
    st.randoms(use_true_random=False),
)
def test_any_contraction(terms, lengths, random):
    sizes = dict(zip(LABELS, lengths, strict=True))
    present = sorted({label for term in terms for label in term})
    result = "".join(random.sample(present, random.randint(0, min(3, len(present)))))
    subscripts = ",".join("".join(term) for term in terms) + "->" + result
    shapes = [tuple(sizes[label] for label in term) for term in terms]
    count = sum(int(np.prod(shape)) for shape in shapes)

    def f(x):
        pieces = np.split(np.tanh(x), np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1])
        arrays = [array.reshape(shape) for array, shape in zip(pieces, shapes, strict=True)]
        return np.sin(np.einsum(subscripts, *arrays)) * x[0] ** 2

    _, actual, expected = both(f, np.random.default_rng(random.randint(0, 99)).uniform(-1, 1, count), effort="fast")
    assert_same(actual, expected)


# What is kept as matrices ----------------------------------------------------------------------------------------


def untaken(x):
    """Reciprocals of zeros, in a branch that is not taken."""
    h = (1.0 / x[:12].reshape(3, 4)) @ x[12:16]
    return np.where(x[16:19] > 0.0, h, 0.0)


GUARDED = [
    untaken,
    lambda x: np.sum(untaken(x)),
    lambda x: np.sum(np.sin(B[:, :3] @ untaken(x)) ** 2),
    lambda x: np.cos(A[:, :3] @ untaken(x)) @ A,
    lambda x: np.sum(np.where(x[16:19] > 0.0, np.log(x[:12].reshape(3, 4)) @ (x[12:28].reshape(4, 4) @ x[28:32]), 1.0)),
]


@pytest.mark.parametrize("function", GUARDED)
def test_derivatives_of_untaken_branches_are_zero(function):
    x = np.abs(X) + 0.1
    x[:4], x[16] = 0.0, -1.0
    with np.errstate(all="ignore"):
        _, actual, expected = both(function, x, check=False)
    assert np.isfinite(expected[1]).all()
    assert_same(actual, expected)


def test_a_gradient_is_one_product_back_for_each_forward():
    with unrolled(0):
        program = acc.gradient(net, cache=False).compile(X)
    sizes = sorted(each.shape for each in program.code.maps if each.shape is not None)
    # two forward, two for weights, one for the layer between
    assert sizes == [(3, 4, 4), (4, 2, 4), (4, 3, 4), (4, 4, 2), (4, 4, 2)]
    assert program.facts.products < 200


def test_untaken_branches_are_summed_by_matrices_where_finite():
    with unrolled(0):
        program = acc.gradient(gated, cache=False).compile(X)
    assert program.code.maps[-1].shape is not None
    assert {(4, 8, 5), (8, 5, 4), (3, 8, 4)} <= {each.shape for each in program.code.maps if each.shape is not None}


def test_a_jacobian_of_layers_is_one_product_of_matrices():
    with unrolled(0):
        program = acc.jacobian(layers, cache=False).compile(X)
    assert [each.shape for each in program.code.maps if each.shape is not None and each.shape[2] > 1] == [(4, 5, 6)]


def test_a_factor_with_zeros_has_matrices_as_derivatives():
    below = np.zeros((8, 8), int)
    below[np.tril_indices(8, -1)] = 1 + np.arange(28)
    data = RNG.normal(size=(8, 200))

    def f(x):
        return np.sum((np.concatenate([np.zeros(1), x])[below] @ data) ** 2)

    def seldom(x):
        known_columns = data[:, :8].copy()
        return np.sum((np.concatenate([x[:1], known_columns.reshape(-1)[1:]]).reshape(8, 8) @ data) ** 2)

    shapes = []
    for function in (f, seldom):
        with unrolled(0):
            program = acc.gradient(function, cache=False).compile(np.ones(28))
        shapes.append([each.shape for each in program.code.maps if each.shape is not None])
    assert shapes == [[(8, 8, 200), (8, 200, 8)], [(8, 8, 200)]]  # one forward, one back; by one entry not all of them


def test_few_inputs_go_forward_and_few_outputs_go_back():
    W = RNG.normal(size=(6, 30, 30)) / 6.0

    def deep(x, rows):
        h = np.sum(x) + np.linspace(0.0, 1.0, 30) if len(x) == 2 else x
        for each in W:
            h = np.tanh(each @ h)
        return h[:rows]

    with unrolled(0):
        forward = acc.jacobian(lambda x: deep(x, 30), cache=False).compile(np.ones(2))
        reverse = acc.jacobian(lambda x: deep(x, 1), cache=False).compile(np.ones(30))
    assert forward.facts.products < 6 * 4 * 900
    assert reverse.facts.products < 6 * 4 * 900


def random_dense(rng, vertex, references, p, q):
    """A dense derivative of new references by some of a vertex's."""
    m, k = rng.integers(1, 4, 2)
    tails = rng.permutation(vertex)[: p * k * q].reshape(p, k, q)
    heads = rng.permutation(references)[: p * m * q].reshape(p, m, q)
    return Dense(heads, tails, rng.integers(0, 9, (m, k)))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_products_of_dense_edges_are_those_of_their_entries(seed):
    """Any two edges through an array, and their sum with another, as matrices of numbers."""
    rng = np.random.default_rng(seed)
    tape = Program(9)
    vertex, above, below = np.arange(100, 124), np.arange(200, 230), np.arange(0, 40)
    edges = []
    for other, is_above in ((above, True), (below, False)):
        p, q = rng.integers(1, 3, 2) if rng.random() < 0.5 else (1, 1)
        edge = random_dense(rng, vertex, other, p, q)
        edge = edge if is_above else edge.transposed
        if rng.random() < 0.5:
            entries = edge.entries
            selection = rng.random(len(entries)) < rng.choice([0.4, 1.1])
            selection[0] = True
            values = entries.values if rng.random() < 0.7 else None
            edge = Entries(
                *(
                    None if piece is None else selected(piece, selection)
                    for piece in (entries.heads, entries.tails, values)
                )
            )
        edges.append(edge)
    structured = Structured(Products(tape))
    outer, inner = edges
    made = structured.chained(outer, inner, 100, 24)
    cost, single = (0, 0) if all(isinstance(edge, Entries) for edge in edges) else structured.cost(outer, inner)
    assert cost >= single >= 0
    numbers = rng.normal(size=9)

    def matrix(edges, heads, tails):
        actual = np.zeros((300, 300))
        for edge in map(written_out, edges):
            tape.outputs = references_in(structured.products.values(edge))
            np.add.at(actual, (references_in(edge.heads), references_in(edge.tails)), evaluate(tape, numbers))
        return actual[np.ix_(heads, tails)]

    expected = matrix([outer], above, vertex) @ matrix([inner], vertex, below)
    np.testing.assert_allclose(matrix(made, above, below), expected, atol=1e-12)
    doubled = structured.added([*made, *made, *structured.chained(written_out(outer), written_out(inner), 100, 24)])
    np.testing.assert_allclose(matrix(doubled, above, below), 3.0 * expected, atol=1e-12)


# Random programs -------------------------------------------------------------------------------------------------

C = RNG.uniform(-1.0, 1.0, (12, 12))
OPERATIONS = [
    lambda a, b: C @ a,
    lambda a, b: np.tanh(C.T @ a + b),
    lambda a, b: (a.reshape(3, 4) @ b.reshape(4, 3)).ravel()[np.arange(12) % 9],
    lambda a, b: (a.reshape(3, 4) @ C[:4, :4]).ravel() + b,
    lambda a, b: (C[:3, :3] @ b.reshape(3, 4)).ravel() * a,
    lambda a, b: np.outer(a, b) @ C[0],
    lambda a, b: np.append(a[:6], b[:3]).reshape(3, 3) @ np.stack([a[:4], b[4:8], np.ones(4)]) @ C[:4, 0] @ C[:3],
    lambda a, b: np.full(12, a @ b),
    lambda a, b: np.einsum("ij,kj,lk->il", a.reshape(3, 4), b.reshape(3, 4), C[:4, :3]).ravel(),
    lambda a, b: a + b,
    lambda a, b: np.sin(a) * b,
    lambda a, b: a[::-1] - 2.0 * b,
    lambda a, b: np.sum(a.reshape(4, 3), axis=0)[np.arange(12) % 3] * b,
    lambda a, b: np.where(b > 0.2, a, 0.0),
    lambda a, b: np.maximum(a, 0.1) + np.mean(b),
    lambda a, b: np.tile(a[3:7], 3) * b[2],
]  # fmt: skip


@settings(max_examples=13, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8
    ),
    st.integers(0, 2**32 - 1),
    st.sampled_from([None, "csr"]),
    st.sampled_from([np.sum, lambda values: values[-1][:2], np.stack]),
)
def test_any_program_with_products(steps, seed, sparse, result):
    def f(x):
        values = [x[:12], x[12:24] ** 2]
        for operation, a, b in steps:
            values.append(OPERATIONS[operation](values[a % len(values)], values[b % len(values)]))
        return result(values[-2:])

    x = np.random.default_rng(seed).uniform(-1.0, 1.0, 24)
    _, actual, expected = both(f, x, sparse=sparse, effort="fast")
    assert_same(actual, expected)


def test_sums_of_products_may_be_very_long():
    x = np.linspace(-1.0, 1.0, 1_200_000)
    gradient = acc.gradient(lambda x: x @ np.sin(x), cache=False)(x)
    np.testing.assert_allclose(gradient, np.sin(x) + x * np.cos(x), rtol=1e-14)
