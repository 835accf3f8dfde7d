"""Sparse matrices of complex numbers: products with constants and traced entries, against SciPy and differences."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from differences import differences
from refusals import reason

import accumulus as acc
from accumulus.errors import TraceError

GENERATOR = np.random.default_rng(7)
DENSE = (GENERATOR.normal(size=(4, 4)) + 1j * GENERATOR.normal(size=(4, 4))) * (GENERATOR.random((4, 4)) < 0.6)
POINT = GENERATOR.normal(size=8)


def voltages(x):
    return x[:4] * np.exp(1j * x[4:])


def parts(z):
    dense = z.toarray() if sp.issparse(z) else z
    return np.concatenate([np.ravel(dense.real), np.ravel(dense.imag)])


#: Functions of a constant complex matrix K and a traced complex vector v.
OF_CONSTANT = {
    "K @ v": lambda K, v: K @ v,
    "v @ K": lambda K, v: v @ K,
    "K.dot(v)": lambda K, v: K.dot(v),
    "K.T @ v": lambda K, v: K.T @ v,
    "K.conj().T @ v": lambda K, v: K.conj().T @ v,
    "K @ matrix": lambda K, v: K @ np.stack([v, 1j * v], axis=1),
    "K @ real": lambda K, v: K @ v.real,
    "real K @ v": lambda K, v: K.real @ v,
    "real K times a number": lambda K, v: K.real * v[0],
    "K times a number": lambda K, v: K * v[0],
    "a number times K": lambda K, v: v[0].real * K,
    "K / number": lambda K, v: K / v[1],
    "K.multiply(v)": lambda K, v: K.multiply(v),
    "sums": lambda K, v: K * v[0] + K.real * v[1].real - K,
}


@pytest.mark.parametrize("kind", ["csr_array", "csr_matrix", "csc_array", "coo_matrix", "dia_array", "bsr_array"])
@pytest.mark.parametrize("name", OF_CONSTANT)
@pytest.mark.sampled(3, each="name")
def test_constant_matrices(kind, name):
    matrix = getattr(sp, kind)(DENSE)
    if "K / number" in name and kind == "dia_array":
        pytest.skip("SciPy divides matrices in this format elementwise in another way")

    def function(x):
        return parts(OF_CONSTANT[name](matrix, voltages(x)))

    np.testing.assert_allclose(acc.jacobian(function)(POINT), differences(function, POINT), atol=1e-9)


def with_entries(v):
    places = ([0, 1, 2, 3, 0], [1, 1, 0, 3, 3])
    return sp.csr_array((np.append(v, v[0] * v[1]), places), shape=(4, 4))


#: Functions of a sparse matrix A with traced complex entries, and a vector v.
OF_TRACED = {
    "A @ v": lambda A, v: A @ v,
    "v @ A": lambda A, v: v @ A,
    "A @ real": lambda A, v: A @ v.real,
    "conjugates": lambda A, v: A.conj() @ v + A.conjugate().T @ v,
    "parts": lambda A, v: A.real @ v + 1j * (A.imag @ v.imag),
    "sums": lambda A, v: np.concatenate([A.sum(axis=0), A.sum(axis=1), [A.sum()], A.diagonal(), A.data]),
    "with a constant": lambda A, v: A + sp.csr_array(DENSE) - A.T,
    "with a real constant": lambda A, v: A * 1j - sp.csr_array(DENSE.real),
    "multiples": lambda A, v: (2j * A).multiply(v) + A / v[0] + (-A) * v[1],
    "matrix of an array": lambda A, v: sp.csr_matrix(A) * v + sp.csc_matrix(sp.coo_array(A)).data[0],
    "formats": lambda A, v: A.tocsc().tocoo() @ v,
    "dense": lambda A, v: sp.csr_array(v[:, np.newaxis] * v) @ v + A.toarray() @ v,
    "blocks": lambda A, v: sp.block_array([[A, None], [sp.csr_array(DENSE.real), A.T]]),
    "kron": lambda A, v: sp.kron(A, sp.csr_array(DENSE[:2])) - sp.kron(DENSE[:2], A.conj().T),
    "spdiags": lambda A, v: sp.spdiags(np.stack([v, 2.0 * v]), [0, 1], 4, 4),
    "triangles": lambda A, v: sp.tril(A, 1) @ v + sp.triu(A) @ v.real,
    "diagonals": lambda A, v: sp.diags([v, v[1:]], [0, 1]).tocsr() @ v + sp.diags_array(v).conj() @ v,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", OF_TRACED)
def test_traced_entries(name):
    def function(x):
        return parts(OF_TRACED[name](with_entries(voltages(x)), voltages(x)))

    expected = differences(function, POINT)
    for target in ("llvm", "numpy"):
        np.testing.assert_allclose(acc.jacobian(function, target=target)(POINT), expected, atol=1e-9)


#: Functions of a real sparse matrix with traced entries and a constant one.
OF_REAL = {
    "bmat": lambda A, B: sp.bmat([[A, None], [B, A]]),
    "block_array": lambda A, B: sp.block_array([[A, B], [None, np.eye(4)]], format="csc"),
    "vstack": lambda A, B: sp.vstack([A, B, 2.0 * A]),
    "hstack": lambda A, B: sp.hstack([B, A], format="csr"),
    "block_diag": lambda A, B: sp.block_diag([B, A]),
    "kron": lambda A, B: sp.kron(A, B) - sp.kron(B, A),
    "triangles": lambda A, B: sp.tril(A, -1) + sp.triu(A, 1) + B,
    "spdiags": lambda A, B: sp.spdiags(A.toarray()[:2], [0, -1], 4, 4, format="csr"),
    "spdiags, square": lambda A, B: sp.spdiags(A.toarray()[:1], 0),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", OF_REAL)
def test_matrices_made_of_others(name):
    function, constant = OF_REAL[name], sp.csr_array(DENSE.real)

    def flat(x):
        return np.ravel(function(sp.csr_array((x[:5], ([0, 1, 2, 3, 0], [1, 1, 0, 3, 3])), (4, 4)), constant).toarray())

    np.testing.assert_allclose(acc.jacobian(flat)(POINT), differences(flat, POINT), atol=1e-9)


def test_power_flow():
    """S = V·conj(Y·V), whose derivatives MATPOWER has in closed form: R. D. Zimmerman, technical note 2, 2010."""
    n = 6
    lines = sp.random_array((n, n), density=0.3, random_state=GENERATOR) * (1.0 - 3.0j)
    matrix = (sp.diags_array(np.asarray(lines.sum(axis=1)) + 0.1j) - lines).tocsr()
    magnitudes, angles = 1.0 + 0.1 * GENERATOR.normal(size=n), 0.2 * GENERATOR.normal(size=n)

    def power(magnitudes, angles):
        v = magnitudes * np.exp(1j * angles)
        s = v * np.conj(matrix @ v)
        return np.concatenate([s.real, s.imag])

    v = magnitudes * np.exp(1j * angles)
    inner, current = matrix.toarray() * v, matrix @ v
    by_angles = 1j * v[:, np.newaxis] * np.conj(np.diag(current) - inner)
    by_magnitudes = v[:, np.newaxis] * np.conj(inner / magnitudes) + np.diag(np.conj(current) * v / magnitudes)
    slopes = acc.jacobian(power, argnums=(0, 1))
    for actual, expected in zip(slopes(magnitudes, angles), (by_magnitudes, by_angles), strict=True):
        np.testing.assert_allclose(actual, np.concatenate([expected.real, expected.imag]), atol=1e-13)
    gradients = acc.gradient(lambda m, a: power(m, a) @ power(m, a))
    second = acc.jacobian(gradients)(magnitudes, angles)
    np.testing.assert_allclose(second, second.T, atol=1e-10)
    batch = slopes.batch(np.stack([magnitudes, 1.1 * magnitudes]), np.stack([angles, angles]))
    np.testing.assert_allclose(batch[1][0], slopes(magnitudes, angles)[1], rtol=1e-14)


@pytest.mark.parametrize(
    ("solve", "says"),
    [
        (lambda A, b: spla.cg(A, b)[0], "Write spsolve"),
        (lambda A, b: spla.gmres(A * b[0], np.ones(4))[0], "Write spsolve"),
        (lambda A, b: spla.eigsh(A * b[0], k=1)[0], "np.linalg.eigvalsh"),
        (lambda A, b: spla.svds(A * b[0], k=1)[1], "svd of A.toarray"),
        (lambda A, b: spla.lsqr(A, b)[0], "np.linalg.lstsq"),
        (
            lambda A, b: spla.cg(spla.LinearOperator((4, 4), matvec=lambda v: b * v), np.ones(4))[0],
            "cg needs a plain number",
        ),
        (lambda A, b: sp.kronsum(A * b[0], A), "vstack, hstack, block_array, kron"),
    ],
)
def test_iterations_are_refused(solve, says):
    with pytest.raises(TraceError, match=reason(says)):
        acc.jacobian(lambda b: solve(sp.csr_array(DENSE.real), b))(POINT[:4])


def test_other_operations_are_refused():
    for operation in (lambda A: A @ A, lambda A: A[0], lambda A: A.power(2)):
        with pytest.raises(TraceError):
            acc.jacobian(lambda x, operation=operation: parts(operation(with_entries(voltages(x)))))(POINT)
