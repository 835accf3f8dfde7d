"""The table of functions of `numpy.linalg` and `scipy.linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from structured_cases import Structured, mp, mpf

N3 = np.array([[2.0, -1.0, 0.5], [0.3, 1.5, -0.7], [-0.4, 0.6, 3.0]])
N4 = np.array([[0.5, 2.0, -1.0, 0.3], [1.0, 0.1, 0.7, -2.0], [-0.6, 1.5, 2.5, 0.4], [0.9, -0.2, 1.1, 1.7]])
S3 = np.array([[2.0, 0.4, -0.3], [0.4, 1.1, 0.25], [-0.3, 0.25, 3.0]])
S4 = np.array([[4.0, 0.5, -0.3, 0.2], [0.5, 2.5, 0.6, -0.1], [-0.3, 0.6, 3.5, 0.7], [0.2, -0.1, 0.7, 1.5]])
GRADED = np.diag([1e8, 1.0, 1e-8, 1.0])
T43 = np.array([[1.0, 0.5, -0.4], [0.2, 2.0, 0.3], [-0.7, 0.6, 1.5], [0.4, -0.8, 0.9]])
B4 = np.array([1.0, -0.5, 0.25, 2.0])


def _mat(x: list[Any], m: int, n: int) -> Any:
    return mp.matrix(m, n) if not m else mp.matrix([x[i * n : (i + 1) * n] for i in range(m)])


def _flat(a: Any) -> list[Any]:
    return [a[i, j] for i in range(a.rows) for j in range(a.cols)]


def _square(function: Any) -> Any:
    """A function of a matrix as one of its entries."""
    return lambda x: np.ravel(function(np.reshape(x, (int(np.size(x) ** 0.5), -1))))


def _exact(function: Any) -> Any:
    def call(x: list[Any]) -> list[Any]:
        n = round(len(x) ** 0.5)
        found = function(_mat(x, n, n))
        return _flat(found) if isinstance(found, mp.matrix) else list(found) if isinstance(found, list) else [found]

    return call


def _det(a: Any) -> Any:
    """By minors, since a pivot may be zero."""
    n = a.rows
    if n == 1:
        return a[0, 0]
    found = {(): mpf(1)}
    for i in range(n):
        new: dict[tuple[int, ...], Any] = {}
        for columns, minor in found.items():
            for j in range(n):
                if j not in columns:
                    sign = (-1) ** sum(c > j for c in columns)
                    key = tuple(sorted((*columns, j)))
                    new[key] = new.get(key, mpf(0)) + sign * minor * a[i, j]
        found = new
    (whole,) = found.values()
    return whole


def _sym(a: Any, lower: bool = True) -> Any:
    return mp.matrix(a.rows, a.rows) + mp.matrix(
        [[a[max(i, j), min(i, j)] if lower else a[min(i, j), max(i, j)] for j in range(a.rows)] for i in range(a.rows)]
    )


def _eigh(a: Any) -> list[Any]:
    values, vectors = mp.eigsy(_sym(a))
    order = sorted(range(a.rows), key=lambda k: values[k])
    columns = []
    for k in order:
        sign = 1 if vectors[a.rows - 1, k] > 0 else -1
        columns.append([sign * vectors[i, k] for i in range(a.rows)])
    return [values[k] for k in order] + [columns[j][i] for i in range(a.rows) for j in range(a.rows)]


def _singular(a: Any) -> list[Any]:
    return sorted((mp.sqrt(e) for e in mp.eigsy(a.T * a, eigvals_only=True)), reverse=True)


def _qr(a: Any) -> Any:
    """Gram and Schmidt, with LAPACK's signs."""
    m, n = a.rows, a.cols
    q, r = mp.matrix(m, n), mp.matrix(n, n)
    work = a.copy()
    for k in range(n):
        v = mp.matrix([a[i, k] for i in range(m)])
        for j in range(k):
            r[j, k] = sum(q[i, j] * a[i, k] for i in range(m))
            v = v - r[j, k] * mp.matrix([q[i, j] for i in range(m)])
        r[k, k] = mp.norm(v)
        for i in range(m):
            q[i, k] = v[i] / r[k, k]
    signs = _householder_signs(work)
    for k, s in enumerate(signs):
        for j in range(n):
            r[k, j] *= s
        for i in range(m):
            q[i, k] *= s
    return q, r


def _householder_signs(a: Any) -> list[int]:
    """The signs of R's diagonal, in doubles."""
    r = np.linalg.qr(np.array([[float(a[i, j]) for j in range(a.cols)] for i in range(a.rows)]), "r")
    return [1 if e > 0 else -1 for e in np.diag(r)]


def _inverse(a: Any) -> Any:
    return mp.inverse(a)


def _pinv(a: Any) -> Any:
    if a.rows >= a.cols:
        return mp.inverse(a.T * a) * a.T
    return a.T * mp.inverse(a * a.T)


def _sylvester_polar(a: Any) -> list[Any]:
    """Newton's iteration for the orthogonal factor."""
    u = a.copy()
    for _ in range(60):
        u = (u + mp.inverse(u).T) / 2
    p = u.T * a
    return _flat(u) + _flat((p + p.T) / 2)


def _expm(a: Any) -> Any:
    """Taylor's series of the matrix divided by a power of two."""
    n, k = a.rows, 40 + max(0, int(mp.log(mp.mnorm(a, 1) + 1, 2)))
    b, term, total = a / mpf(2) ** k, mp.eye(n), mp.eye(n)
    for j in range(1, 40):
        term = term * b / j
        total = total + term
    with mp.workdps(mp.dps + k):
        for _ in range(k):
            total = total * total
    return total


def _both(m: int, function: Any) -> Any:
    """A function of a square matrix and a vector as one of a vector."""
    return lambda x: np.ravel(function(np.reshape(x[: m * m], (m, m)), x[m * m :]))


def _exact_solve(m: int, prepare: Any = lambda a: a) -> Any:
    return lambda x: list(mp.lu_solve(prepare(_mat(x[: m * m], m, m)), mp.matrix(x[m * m :])))


def _joined(*parts: Any) -> np.ndarray:
    return np.concatenate([np.ravel(part) for part in parts])


def _upper(a: Any) -> Any:
    return mp.matrix([[a[i, j] if j >= i else mpf(0) for j in range(a.cols)] for i in range(a.rows)])


def _chol(a: Any) -> Any:
    return mp.cholesky(_sym(a))


def _rect(m: int, n: int, function: Any) -> Any:
    return lambda x: np.ravel(function(np.reshape(x, (m, n))))


def _exact_rect(m: int, n: int, function: Any) -> Any:
    def call(x: list[Any]) -> list[Any]:
        found = function(_mat(x, m, n))
        return _flat(found) if isinstance(found, mp.matrix) else list(found)

    return call


def _pair(parts: Any) -> Any:
    return np.concatenate([np.ravel(part) for part in parts])


SQUARES4 = [N4, S4, np.eye(4), GRADED @ N4 @ GRADED]
SINGULAR4 = [np.diag([0.0, 1.0, 2.0, 3.0]), np.diag([0.0, 0.0, 2.0, 3.0]), np.outer(B4, B4 + 1.0), np.zeros((4, 4))]
SYM = np.array([[1.0, 0.3, -0.2], [0.3, 0.5, 0.7], [-0.2, 0.7, -0.4]])
SYM4 = np.array([[0.0, 1.0, 0.3, -0.2], [1.0, 0.4, 0.1, 0.5], [0.3, 0.1, -0.8, 0.6], [-0.2, 0.5, 0.6, 0.9]])

CASES = [
    Structured("np.linalg.det", _square(np.linalg.det), _exact(_det), [*SQUARES4, *SINGULAR4], normwise=True),
    Structured("np.linalg.det 1x1", _square(np.linalg.det), _exact(_det), [[2.0], [0.0]]),
    Structured("np.linalg.det 2x2", _square(np.linalg.det), _exact(_det), [[1.0, 2, 3, 4], [0.0] * 4]),
    Structured("np.linalg.det 3x3", _square(np.linalg.det), _exact(_det), [N3, np.diag([0.0, 1, 2])], normwise=True),
    Structured(
        "np.linalg.det 6x6",
        _square(np.linalg.det),
        _exact(_det),
        [np.kron(np.eye(2), N3) + 0.1, np.diag([0.0, 0, 1, 2, 3, 4]), np.kron([[1.0, 2], [0.5, 1]], N3)],
        normwise=True,
        nested=False,
    ),
    Structured("scipy.linalg.det", _square(scipy.linalg.det), _exact(_det), [N4, *SINGULAR4[:2]], normwise=True),
    Structured(
        "np.linalg.slogdet",
        _square(lambda a: np.linalg.slogdet(a)[1]),
        _exact(lambda a: mp.log(abs(_det(a)))),
        [N4, S4, np.eye(4)],
        normwise=True,
    ),
    Structured("np.linalg.inv", _square(np.linalg.inv), _exact(_inverse), [N4, S4, np.eye(4)], normwise=True),
    Structured("np.linalg.inv 3x3", _square(np.linalg.inv), _exact(_inverse), [N3, np.eye(3)], normwise=True),
    Structured("scipy.linalg.inv", _square(scipy.linalg.inv), _exact(_inverse), [N4], normwise=True),
    Structured(
        "np.linalg.solve",
        _both(4, np.linalg.solve),
        _exact_solve(4),
        [_joined(N4, B4), _joined(np.eye(4), B4), _joined(N4[[3, 0, 1, 2]], B4)],
        normwise=True,
    ),
    Structured("scipy.linalg.solve", _both(4, scipy.linalg.solve), _exact_solve(4), [_joined(N4, B4)], normwise=True),
    Structured(
        "scipy.linalg.solve pos",
        _both(3, lambda a, b: scipy.linalg.solve(a, b, assume_a="pos", lower=True)),
        _exact_solve(3, _sym),
        [_joined(S3, B4[:3])],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.solve_triangular",
        _both(3, scipy.linalg.solve_triangular),
        _exact_solve(3, _upper),
        [_joined(N3, B4[:3]), _joined(np.eye(3), B4[:3])],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.cho_solve",
        _both(3, lambda a, b: scipy.linalg.cho_solve(scipy.linalg.cho_factor(a, lower=True), b)),
        _exact_solve(3, _sym),
        [_joined(S3, B4[:3])],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.lu_solve",
        _both(4, lambda a, b: scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b)),
        _exact_solve(4),
        [_joined(N4, B4)],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.lu",
        _square(lambda a: scipy.linalg.lu(a, permute_l=True)[1]),
        _exact(lambda a: mp.lu(a)[2]),
        [N4],
        normwise=True,
    ),
    Structured("np.linalg.cholesky", _square(np.linalg.cholesky), _exact(_chol), [S4, np.eye(4)], normwise=True),
    Structured(
        "scipy.linalg.cholesky",
        _square(scipy.linalg.cholesky),
        _exact(lambda a: mp.cholesky(_sym(a, False)).T),
        [S3],
        normwise=True,
    ),
    Structured(
        "np.linalg.qr",
        _rect(4, 3, lambda a: _pair(np.linalg.qr(a))),
        _exact_rect(4, 3, lambda a: _flat(_qr(a)[0]) + _flat(_qr(a)[1])),
        [T43, N4[:, :3]],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.qr",
        _square(lambda a: _pair(scipy.linalg.qr(a))),
        _exact(lambda a: _flat(_qr(a)[0]) + _flat(_qr(a)[1])),
        [N3],
        normwise=True,
    ),
    Structured(
        "np.linalg.lstsq",
        lambda x: np.linalg.lstsq(np.reshape(x[:12], (4, 3)), x[12:], rcond=None)[0],
        lambda x: list(_pinv(_mat(x[:12], 4, 3)) * mp.matrix(x[12:])),
        [_joined(T43, B4), _joined(N4[:, :3], B4)],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.lstsq wide",
        lambda x: scipy.linalg.lstsq(np.reshape(x[:12], (3, 4)), x[12:])[0],
        lambda x: list(_pinv(_mat(x[:12], 3, 4)) * mp.matrix(x[12:])),
        [_joined(T43.T, B4[:3])],
        normwise=True,
    ),
    Structured(
        "np.linalg.pinv", _rect(4, 3, np.linalg.pinv), _exact_rect(4, 3, _pinv), [T43], normwise=True, nested=False
    ),
    Structured(
        "scipy.linalg.pinv",
        _rect(3, 2, scipy.linalg.pinv),
        _exact_rect(3, 2, _pinv),
        [T43[:3, :2]],
        normwise=True,
        nested=False,
    ),
    Structured(
        "np.linalg.eigvalsh",
        _square(np.linalg.eigvalsh),
        _exact(lambda a: sorted(mp.eigsy(_sym(a), eigvals_only=True))),
        [SYM, S3],
        normwise=True,
        nested=False,
    ),
    Structured(
        "scipy.linalg.eigvalsh",
        _square(scipy.linalg.eigvalsh),
        _exact(lambda a: sorted(mp.eigsy(_sym(a), eigvals_only=True))),
        [SYM],
        normwise=True,
        nested=False,
    ),
    Structured(
        "np.linalg.eigh",
        _square(lambda a: _pair(np.linalg.eigh(a))),
        _exact(_eigh),
        [SYM, S3],
        normwise=True,
        nested=False,
    ),
    Structured(
        "scipy.linalg.eigh",
        _square(lambda a: _pair(scipy.linalg.eigh(a))),
        _exact(_eigh),
        [SYM],
        normwise=True,
        nested=False,
    ),
    Structured(
        "np.linalg.svd",
        _rect(4, 3, lambda a: np.linalg.svd(a, compute_uv=False)),
        _exact_rect(4, 3, _singular),
        [T43],
        normwise=True,
        nested=False,
    ),
    Structured(
        "np.linalg.svdvals", _rect(3, 2, np.linalg.svdvals), _exact_rect(3, 2, _singular), [T43[:3, :2]], normwise=True
    ),
    Structured(
        "scipy.linalg.svdvals",
        _rect(3, 2, scipy.linalg.svdvals),
        _exact_rect(3, 2, _singular),
        [T43[:3, :2]],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.svd",
        _rect(3, 2, lambda a: scipy.linalg.svd(a)[1]),
        _exact_rect(3, 2, _singular),
        [T43[:3, :2]],
        normwise=True,
    ),
    Structured(
        "np.linalg.cond",
        _rect(3, 2, np.linalg.cond),
        _exact_rect(3, 2, lambda a: [_singular(a)[0] / _singular(a)[1]]),
        [T43[:3, :2]],
        normwise=True,
    ),
    Structured(
        "np.linalg.norm", np.linalg.norm, lambda x: [mp.norm(x)], [B4, [3.0, 4.0, 0.0, 0.0], [1e-8, 2e-8, 0.0, 0.0]]
    ),
    Structured(
        "np.linalg.norm 2",
        _rect(3, 2, lambda a: np.linalg.norm(a, 2)),
        _exact_rect(3, 2, lambda a: _singular(a)[:1]),
        [T43[:3, :2]],
        normwise=True,
    ),
    Structured(
        "np.linalg.norm nuc",
        _rect(3, 2, lambda a: np.linalg.norm(a, "nuc")),
        _exact_rect(3, 2, lambda a: [sum(_singular(a))]),
        [T43[:3, :2]],
        normwise=True,
    ),
    Structured(
        "np.linalg.norm p", lambda x: np.linalg.norm(x, 3), lambda x: [mp.cbrt(sum(abs(e) ** 3 for e in x))], [B4]
    ),
    Structured("scipy.linalg.norm", scipy.linalg.norm, lambda x: [mp.norm(x)], [B4]),
    Structured("np.linalg.vector_norm", np.linalg.vector_norm, lambda x: [mp.norm(x)], [B4]),
    Structured("np.linalg.matrix_norm", _square(np.linalg.matrix_norm), _exact(lambda a: mp.norm(_flat(a))), [N3]),
    Structured(
        "np.linalg.matrix_power",
        _square(lambda a: np.linalg.matrix_power(a, 5)),
        _exact(lambda a: a**5),
        [N3, np.zeros((3, 3)), np.eye(3)],
        normwise=True,
    ),
    Structured(
        "np.linalg.matrix_power inverse",
        _square(lambda a: np.linalg.matrix_power(a, -3)),
        _exact(lambda a: mp.inverse(a) ** 3),
        [N3],
        normwise=True,
    ),
    Structured(
        "np.linalg.multi_dot",
        _square(lambda a: np.linalg.multi_dot([a, a + 1.0, a])),
        _exact(lambda a: a * (a + mp.ones(3)) * a),
        [N3],
        normwise=True,
    ),
    Structured(
        "np.linalg.tensorsolve",
        _both(4, lambda a, b: np.linalg.tensorsolve(a.reshape(2, 2, 4), b.reshape(2, 2))),
        _exact_solve(4),
        [_joined(N4, B4)],
        normwise=True,
    ),
    Structured(
        "np.linalg.tensorinv",
        _square(lambda a: np.linalg.tensorinv(a.reshape(2, 2, 4), 2)),
        _exact(_inverse),
        [N4],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.expm",
        _square(scipy.linalg.expm),
        _exact(_expm),
        [N3, S3, np.zeros((3, 3)), np.diag([1.0, 1.0, 2.0]), 3.0 * N3],
        normwise=True,
        nested=False,
    ),
    Structured(
        "scipy.linalg.polar",
        _square(lambda a: _pair(scipy.linalg.polar(a))),
        _exact(_sylvester_polar),
        [N3, np.eye(3)],
        normwise=True,
        nested=False,
    ),
    Structured(
        "scipy.linalg.solve_banded",
        lambda x: scipy.linalg.solve_banded((1, 1), np.reshape(x[:12], (3, 4)), x[12:]),
        lambda x: list(
            mp.lu_solve(
                mp.matrix(
                    [[x[(1 + i - j) * 4 + j] if abs(i - j) <= 1 else mpf(0) for j in range(4)] for i in range(4)]
                ),
                mp.matrix(x[12:]),
            )
        ),
        [_joined([[0.0, 0.5, -0.3, 0.7], [2.0, 3.0, -2.5, 1.5], [0.4, 0.9, -0.6, 0.0]], B4)],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.solveh_banded",
        lambda x: scipy.linalg.solveh_banded(np.reshape(x[:8], (2, 4)), x[8:], lower=True),
        lambda x: list(
            mp.lu_solve(
                mp.matrix(
                    [[x[abs(i - j) * 4 + min(i, j)] if abs(i - j) <= 1 else mpf(0) for j in range(4)] for i in range(4)]
                ),
                mp.matrix(x[8:]),
            )
        ),
        [_joined([[2.0, 3.0, 2.5, 1.5], [0.4, 0.9, -0.6, 0.0]], B4)],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.toeplitz",
        lambda x: np.linalg.det(scipy.linalg.toeplitz(x)),
        lambda x: [_det(mp.matrix([[x[abs(i - j)] for j in range(4)] for i in range(4)]))],
        [B4, [0.0, 0.0, 1.0, 2.0]],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.hankel",
        lambda x: np.linalg.det(scipy.linalg.hankel(x[:3], x[2:])),
        lambda x: [_det(mp.matrix([[x[i + j] for j in range(3)] for i in range(3)]))],
        [[1.0, 2.0, -0.5, 0.7, 3.0]],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.circulant",
        lambda x: np.linalg.det(scipy.linalg.circulant(x)),
        lambda x: [_det(mp.matrix([[x[(i - j) % 4] for j in range(4)] for i in range(4)]))],
        [B4],
        normwise=True,
    ),
    Structured(
        "scipy.linalg.block_diag",
        lambda x: np.linalg.det(scipy.linalg.block_diag(x.reshape(2, 2), x.reshape(2, 2) + 1.0)),
        lambda x: [_det(_mat(x, 2, 2)) * _det(_mat([e + 1 for e in x], 2, 2))],
        [B4],
        normwise=True,
    ),
]
