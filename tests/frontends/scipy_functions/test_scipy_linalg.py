"""Functions of `scipy.linalg` against SciPy itself, and their derivatives against differences."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.linalg
from agreement import assert_agrees
from differences import differentiates
from inside import needed
from refusals import reason

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends import record, supported

GENERATOR = np.random.default_rng(2)
A = GENERATOR.normal(size=(4, 4))
POSITIVE = A @ A.T + np.eye(4)
PAIR = np.stack([POSITIVE, A.T @ A + np.eye(4)])
RIGHT = np.array([1.0, -2.0, 0.5, 3.0])
SIDES = np.outer(RIGHT, [1.0, 0.5])
FACTORS = scipy.linalg.lu_factor(A)
BANDS = GENERATOR.normal(size=(4, 6)) + np.array([0.0, 0.0, 3.0, 0.0])[:, None]
SYMMETRIC_BANDS = 0.3 * GENERATOR.normal(size=(3, 6)) + np.array([0.0, 0.0, 2.0])[:, None]


def free_of_signs(values, vectors):
    return values, vectors[0] * vectors[-1]


def of_triple(u, values, vh):
    return (u * np.sin(values)) @ vh


#: Functions of one matrix, by name, and a point.
CASES = {
    "solve": (lambda a: (scipy.linalg.solve(a, RIGHT), scipy.linalg.solve(a, SIDES, transposed=True)), A),
    **{
        f"solve {kind}": (
            lambda a, kind=kind: [scipy.linalg.solve(a, RIGHT, assume_a=kind, lower=lower) for lower in (True, False)],
            np.triu(POSITIVE) + 0.9 * np.tril(POSITIVE, -1),
        )
        for kind in ("sym", "pos", "diagonal", "tridiagonal", "upper triangular", "lower triangular", "gen")
    },
    "inv, det, norm": (lambda a: (scipy.linalg.inv(a), scipy.linalg.det(a), scipy.linalg.norm(a, 2)), A),
    "cholesky": (lambda a: (scipy.linalg.cholesky(a), scipy.linalg.cholesky(a, lower=True)), POSITIVE),
    "cho_solve": (
        lambda a: [scipy.linalg.cho_solve(scipy.linalg.cho_factor(a, lower=k), SIDES) for k in (True, False)],
        POSITIVE,
    ),
    "cho_factor": (lambda a: scipy.linalg.cho_factor(a)[0], POSITIVE),
    "solve_triangular": (
        lambda a: [
            scipy.linalg.solve_triangular(a, RIGHT, trans=trans, lower=lower, unit_diagonal=unit)
            for trans, lower, unit in [(0, True, False), ("T", True, True), (1, False, False), ("N", False, True)]
        ],
        POSITIVE,
    ),
    "lu": (lambda a: (*scipy.linalg.lu(a), *scipy.linalg.lu(a[:3], permute_l=True), *scipy.linalg.lu(a[:, :2])), A),
    "lu_factor": (lambda a: [*scipy.linalg.lu_factor(a), *scipy.linalg.lu_factor(a[::-1])], A),
    "lu_solve": (
        lambda a: [scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), RIGHT[:3], trans=trans) for trans in (0, 1)],
        A[:3, :3],
    ),
    "lu_solve with constant factors": (lambda b: scipy.linalg.lu_solve(FACTORS, b), RIGHT),
    "qr": (
        lambda a: [
            *scipy.linalg.qr(a[:, :3]),
            *scipy.linalg.qr(a[:, :3], mode="economic"),
            *scipy.linalg.qr(a, mode="r"),
        ],
        A,
    ),
    "eigh": (lambda a: free_of_signs(*scipy.linalg.eigh(a)), POSITIVE),
    "eigh of a part": (lambda a: free_of_signs(*scipy.linalg.eigh(a, lower=False, subset_by_index=[1, 2])), POSITIVE),
    "eigh of two": (lambda a: free_of_signs(*scipy.linalg.eigh(a[0], a[1])), PAIR),
    "eigvalsh": (lambda a: (scipy.linalg.eigvalsh(a[0], a[1]), scipy.linalg.eigvalsh(a[0])), PAIR),
    "svd": (lambda a: of_triple(*scipy.linalg.svd(a)), A),
    "singular values": (lambda a: (scipy.linalg.svdvals(a), scipy.linalg.svd(a[:2], compute_uv=False)), A),
    "pinv": (lambda a: scipy.linalg.pinv(a[:2]), A),
    "lstsq": (lambda a: scipy.linalg.lstsq(a[:, :2], RIGHT), A),
    "solve_banded": (lambda bands: scipy.linalg.solve_banded((1, 2), bands, np.arange(6.0)), BANDS),
    "solveh_banded": (
        lambda bands: (
            scipy.linalg.solveh_banded(bands, np.arange(6.0)),
            scipy.linalg.solveh_banded(bands[::-1], np.ones((6, 2)), lower=True),
        ),
        SYMMETRIC_BANDS,
    ),
    "moved entries": (
        lambda a: (
            *(scipy.linalg.block_diag(a, a[0], 2.0), scipy.linalg.circulant(a[0])),
            *(scipy.linalg.toeplitz(a[0]), scipy.linalg.toeplitz(a[0], a[1, :3])),
            *(scipy.linalg.hankel(a[0]), scipy.linalg.hankel(a[0], a[1, :3])),
        ),
        A,
    ),
    "structured matrices": (
        lambda a: (
            *(scipy.linalg.companion(a[0]), scipy.linalg.khatri_rao(a, a[:2])),
            *(scipy.linalg.matmul_toeplitz((a[0], a[1]), a), scipy.linalg.solve_toeplitz(a[0], a[1])),
            scipy.linalg.eigvalsh_tridiagonal(a[0], a[1, 1:]),
        ),
        POSITIVE,
    ),
    "expm of a large matrix": (lambda a: scipy.linalg.expm(-3.0 * a), POSITIVE[:3, :3]),
    "expm of a stack": (lambda a: scipy.linalg.expm(a[:, :2, :2]), PAIR / 4.0),
    "polar": (
        lambda a: [*scipy.linalg.polar(a[:3, :3]), *scipy.linalg.polar(a[:2]), *scipy.linalg.polar(a, "left")],
        A,
    ),
}


#: Of which derivatives are compared elsewhere.
VALUES_ONLY = ("expm of a stack", "svd", "lstsq", "pinv")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    function, point = CASES[name]

    def flat(x):
        results = function(x)
        return np.concatenate(
            [np.ravel(array) for array in (results if isinstance(results, tuple | list) else [results])]
        )

    assert_agrees(function, [point], rtol=1e-9, example=[point])
    if name not in VALUES_ONLY:
        differentiates(flat)(point)


def test_permutations_hold_at_every_point():
    points = np.random.default_rng(3).normal(size=(30, 4, 4))
    program = acc.value_and_jacobian(scipy.linalg.lu, optimise=False)
    values, _ = program.batch(points)
    for point, *factors in zip(points, *values, strict=True):
        for factor, expected in zip(factors, scipy.linalg.lu(point), strict=True):
            np.testing.assert_allclose(factor, expected, atol=1e-11)


@pytest.mark.parametrize("guards", ["error", None])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0])
def test_exponentials_against_fifty_digits(guards, scale):
    a = scale * (np.diag([-1.0, -0.5, 0.2]) + 0.3 * GENERATOR.normal(size=(3, 3))) / 3.0
    options = {} if guards is None else {"guards": guards}
    value, by_entry = acc.value_and_jacobian(scipy.linalg.expm, optimise=False, **options)(a)
    change = np.random.default_rng(1).normal(size=(3, 3))
    with mpmath.workdps(50):
        block = np.block([[a, change], [np.zeros((3, 3)), a]])
        exact = np.array(mpmath.expm(mpmath.matrix(block.tolist())).tolist(), float)
    scale = np.abs(exact[:3, :3]).max()
    np.testing.assert_allclose(value, exact[:3, :3], rtol=0, atol=1e-13 * scale)
    result = np.tensordot(by_entry, change, 2)
    np.testing.assert_allclose(result, exact[:3, 3:], rtol=0, atol=1e-13 * np.abs(exact[:3, 3:]).max())


def test_the_cost_of_banded_systems_is_that_of_their_bands():
    def operations(n):
        tape = record(lambda b: scipy.linalg.solve_banded((1, 1), b, np.ones(n)), [np.ones((3, n))]).tape
        return np.count_nonzero(needed(tape))

    assert operations(40) - operations(20) == 2 * (operations(20) - operations(10))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (scipy.linalg.schur, "complex numbers"),
        (scipy.linalg.null_space, "a rank"),
        (lambda a: scipy.linalg.qr(a, pivoting=True), "without pivoting"),
        (lambda a: scipy.linalg.eigh(a, subset_by_value=[0, 1]), "subset_by_index"),
        (lambda a: scipy.linalg.pinv(a, return_rank=True), "matrix_rank"),
        (lambda a: scipy.linalg.lu(a, p_indices=True), "permutation"),
    ],
)
def test_refusals_give_a_reason(function, words):
    with pytest.raises(TraceError, match=reason(words)):
        record(function, [np.eye(3)])


def test_supported_lists_recorded_functions_only():
    names = supported()
    assert "scipy.linalg.expm" in names
    assert "scipy.linalg.schur" not in names
