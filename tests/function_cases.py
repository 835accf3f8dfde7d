"""For every array function that is recorded, programs that use it; `test_functions.py` refuses one without any.

They are called with a vector v of three entries, a square matrix A, a matrix M of two rows and four columns and a
number s. Constants are C, a 3×3 matrix, and c, a vector.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

C: Final = np.array([[2.0, -1.0, 0.0], [0.5, 3.0, 1.0], [0.0, 0.25, -2.0]])
c: Final = np.array([0.5, -1.5, 2.0])
knots: Final = np.array([-1.5, -0.5, 0.25, 1.0])


def _filled_diagonal(A, v):
    D = np.zeros((3, 3))
    np.fill_diagonal(D, v)
    E = A.copy()
    np.fill_diagonal(E, 7.0)
    return D, E


def _copied(v, s):
    D = np.zeros((2, 3))
    np.copyto(D, v)
    E = np.ones(3)
    np.copyto(E, s, where=v > 0)
    return D, E


def _put(v, s):
    D = np.zeros((2, 2))
    np.put(D, [3, 0], [s, v[0]])
    return D


def _placed(function, v):
    D = np.zeros((2, 3))
    function(D, np.array([[True, False, True], [False, True, False]]), v)
    E = np.ones(3)
    function(E, v > 0, 2.0)
    return D, E


def _put_along(A, v):
    D = np.zeros((3, 3))
    np.put_along_axis(D, np.array([[0], [2], [1]]), A[:, :1], axis=1)
    np.put_along_axis(D, np.array([[1, 1, 0]]), v[None], axis=0)
    return D


def _holed(A):
    return np.where(np.array([[False, True, False], [False, False, True], [False, False, False]]), np.nan, A)


def _regular(A):
    return A + 5.0 * np.eye(3)


def _positive(A):
    return A @ A.T + 2.0 * np.eye(3)


def _of_symmetric(A):
    """What the signs of eigenvectors do not change."""
    values, vectors = np.linalg.eigh(A)
    return values, (vectors * np.sin(values)) @ vectors.T


def _of_singular(A):
    u, values, vh = np.linalg.svd(A, full_matrices=False)
    return values, (u * np.sin(values)) @ vh


#: Source of the cases by the name of the function, so that a failure shows what was run.
CASES: Final[dict[str, list[str]]] = {
    "np.all": ["np.all(A > -1, axis=0)", "np.all(v > 0)", "(A > 0).all(axis=(0, 1))"],
    "np.any": ["np.any(A > 1, axis=1)", "np.any(v)", "(v > 1).any()"],
    "np.sum": ["np.sum(A)", "np.sum(A, axis=0)", "A.sum(axis=(0, 1), keepdims=True)", "M.sum(-1)", "np.sum([s, 1.0])",
               "np.sum(v, initial=s)", "np.sum(v, dtype=float)",
               "np.sum(A, axis=0, where=A > 0)", "np.sum(A, where=C > 0, initial=s)", "np.sum(M[:, :0], axis=1)"],
    "np.prod": ["np.prod(v)", "A.prod(axis=1)", "np.prod(v, initial=2.0)", "np.prod(M[:, :0], axis=1)"],
    "np.mean": ["np.mean(A)", "A.mean(axis=0)", "np.mean(M, axis=1, keepdims=True)", "np.mean([s, s * s])",
                "np.mean(A + C, axis=1, where=C != 0.25)"],
    "np.average": ["np.average(v)", "np.average(v, weights=[1, 2, 3])", "np.average(A, axis=0, weights=A * A + 1)",
                   "np.average(A, axis=1, weights=c)", "np.average(c, weights=v * v + 1)",
                   "np.average(A, axis=0, weights=c + 3, returned=True)", "np.average(v, returned=True)"],
    "np.var": ["np.var(A)", "A.var(axis=0, ddof=1)", "np.var(M, axis=1, keepdims=True)", "np.var(A, where=C > 0)"],
    "np.std": ["np.std(A)", "A.std(axis=1, ddof=1)"],
    "np.ptp": ["np.ptp(v)", "np.ptp(A, axis=0)"],
    "np.max": ["np.max(A)", "A.max(axis=1)", "np.max([s, 0.0])", "np.max(v, initial=0.5)",
               "np.max(A, axis=0, where=A < 1, initial=-9.0)"],
    "np.amax": ["np.amax(A, axis=0)"],
    "np.min": ["np.min(A)", "A.min(axis=1, keepdims=True)", "np.min(v > 0)"],
    "np.amin": ["np.amin(A, axis=0)"],
    "np.cumsum": ["np.cumsum(A)", "A.cumsum(axis=1)", "np.cumsum(v > 0)"],
    "np.cumprod": ["np.cumprod(v)", "np.cumprod(A, axis=0)"],
    "np.diff": ["np.diff(v)", "np.diff(M, axis=0)", "np.diff(M, n=2)", "np.diff(v, prepend=0.0, append=[s, s])"],
    "np.ediff1d": ["np.ediff1d(v)", "np.ediff1d(M, to_end=[s, 1.0], to_begin=s)"],
    "np.gradient": ["np.gradient(v)", "np.gradient(v, 0.5)", "np.gradient(v, [0.0, 1.0, 3.0])",
                    "np.gradient(A, axis=1)", "np.gradient(v, s * s + 1)", "np.gradient(A)",
                    "np.gradient(A, 0.5, [0.0, 1.0, 4.0])",
                    "np.gradient(v, edge_order=2)", "np.gradient(M, [0.0, 0.5, 2.0, 3.0], axis=1, edge_order=2)",
                    "np.gradient(A, 2.0, axis=(1, 0))", "np.gradient(c, v + np.array([0.0, 5.0, 11.0]))"],
    "np.trapezoid": ["np.trapezoid(v)", "np.trapezoid(A, dx=0.5, axis=0)", "np.trapezoid(v, c)", "np.trapezoid(c, v)"],
    "np.reshape": ["np.reshape(M, (4, 2))", "M.reshape(-1)", "M.reshape(2, 2, 2)", "np.reshape(M, (4, 2), order='F')",
                   "np.reshape([s, v[0]], (2, 1))"],
    "np.ravel": ["np.ravel(M)", "M.ravel(order='F')", "M.flatten()", "M.T.flatten('F')"],
    "np.transpose": ["np.transpose(M)", "M.T", "M.transpose(1, 0)", "M.reshape(2, 2, 2).transpose((2, 0, 1))"],
    "np.matrix_transpose": ["np.matrix_transpose(M)", "M.mT"],
    "np.linalg.matrix_transpose": ["np.linalg.matrix_transpose(M)"],
    "np.swapaxes": ["np.swapaxes(M, 0, 1)", "M.swapaxes(0, -1)"],
    "np.moveaxis": ["np.moveaxis(M.reshape(2, 2, 2), 0, -1)"],
    "np.rollaxis": ["np.rollaxis(M.reshape(2, 2, 2), 2)"],
    "np.expand_dims": ["np.expand_dims(v, 0)", "np.expand_dims(v, (0, 2))"],
    "np.squeeze": ["np.squeeze(v[:, None])", "v[None, :1].squeeze(0)"],
    "np.atleast_1d": ["np.atleast_1d(s)", "np.atleast_1d(s, v)"],
    "np.atleast_2d": ["np.atleast_2d(v)", "np.atleast_2d([s, 1.0])"],
    "np.atleast_3d": ["np.atleast_3d(v)"],
    "np.broadcast_to": ["np.broadcast_to(v, (2, 3))", "np.broadcast_to(s, (2,))"],
    "np.broadcast_arrays": ["np.broadcast_arrays(v, A, s)"],
    "np.tile": ["np.tile(v, 2)", "np.tile(M, (2, 1))", "np.tile(s, 3)"],
    "np.repeat": ["np.repeat(v, 2)", "np.repeat(M, [1, 2], axis=0)", "v.repeat(2)", "np.repeat(s, 2)"],
    "np.roll": ["np.roll(v, 1)", "np.roll(M, -1, axis=1)"],
    "np.flip": ["np.flip(M)", "np.flip(M, axis=0)"],
    "np.fliplr": ["np.fliplr(M)"],
    "np.flipud": ["np.flipud(M)"],
    "np.rot90": ["np.rot90(M)", "np.rot90(M, 2)"],
    "np.resize": ["np.resize(v, (2, 2))"],
    "np.copy": ["np.copy(v)", "v.copy()", "np.copy(c) * s"],
    "np.astype": ["np.astype(v, float) * s", "np.astype(v > 0, np.float64)"],
    "np.diagonal": ["np.diagonal(A)", "A.diagonal(1)"],
    "np.linalg.diagonal": ["np.linalg.diagonal(A)"],
    "np.diag": ["np.diag(v)", "np.diag(A)", "np.diag(v, k=1)", "np.diag([s, 1.0])", "np.diag(A, -1)"],
    "np.diagflat": ["np.diagflat(v)"],
    "np.tril": ["np.tril(A)", "np.tril(A, -1)"],
    "np.triu": ["np.triu(A)", "np.triu(A, 1)"],
    "np.split": ["np.split(v, 3)", "np.split(M, [1, 3], axis=1)"],
    "np.array_split": ["np.array_split(M, 3, axis=1)"],
    "np.hsplit": ["np.hsplit(M, 2)"],
    "np.vsplit": ["np.vsplit(M, 2)"],
    "np.dsplit": ["np.dsplit(M.reshape(2, 2, 2), 2)"],
    "np.take": ["np.take(v, [2, 0])", "np.take(v, 1)", "A.take([0, 2], axis=1)"],
    "np.take_along_axis": ["np.take_along_axis(A, np.array([[0], [2], [1]]), axis=1)"],
    "np.delete": ["np.delete(v, 1)", "np.delete(A, [0, 2], axis=1)"],
    "np.insert": ["np.insert(v, 1, s)", "np.insert(A, 1, v, axis=0)"],
    "np.append": ["np.append(v, s)", "np.append(A, [v], axis=0)", "np.append(c, v)"],
    "np.pad": ["np.pad(v, 1)", "np.pad(v, (2, 1), constant_values=3.0)", "np.pad(M, 1, mode='edge')",
               "np.pad(v, 2, mode='wrap')", "np.pad(v, 1, constant_values=s)", "np.pad(v, 2, 'reflect')",
               "np.pad(A, (1, 2), 'linear_ramp', end_values=s)", "np.pad(M, 1, 'symmetric')"],
    "np.concatenate": ["np.concatenate([v, c, [s]])", "np.concatenate((A, C), axis=1)", "np.concatenate([v > 0, v])",
                       "np.concatenate([c, np.array([s])])"],
    "np.stack": ["np.stack([v, c])", "np.stack([v, v], axis=1)"],
    "np.hstack": ["np.hstack([v, s])", "np.hstack((A, C))"],
    "np.vstack": ["np.vstack([v, c])", "np.vstack([A, [[s, s, s]]])"],
    "np.dstack": ["np.dstack([v, c])"],
    "np.column_stack": ["np.column_stack([v, c, A])"],
    "np.block": ["np.block([[A, C], [C, A.T]])", "np.block([[A, v[:, None]], [v, s]])"],
    "np.meshgrid": ["np.meshgrid(v, c)", "np.meshgrid(v, c, indexing='ij', sparse=True)"],
    "np.lib.stride_tricks.sliding_window_view": ["np.lib.stride_tricks.sliding_window_view(v, 2)"],
    "np.fill_diagonal": ["_filled_diagonal(A, v)"],
    "np.copyto": ["_copied(v, s)"],
    "np.put": ["_put(v, s)"],
    "np.dot": ["np.dot(v, c)", "np.dot(A, v)", "np.dot(v, A)", "A.dot(C)", "np.dot(s, A)",
               "np.dot([s, v[0]], [1.0, 2.0])", "np.dot(M.reshape(2, 2, 2), M.reshape(2, 2, 2))", "np.dot(C, v)"],
    "np.vdot": ["np.vdot(A, C)"],
    "np.inner": ["np.inner(v, c)", "np.inner(A, C)", "np.inner(s, v)"],
    "np.outer": ["np.outer(v, c)", "np.outer(A, v)"],
    "np.matmul": ["A @ C", "C @ A", "A @ v", "v @ A", "v @ v", "A @ M.T[:3]", "c @ A", "C @ v", "np.matmul(A, A.T)",
                  "M.reshape(2, 2, 2) @ M.reshape(2, 2, 2)", "M.reshape(2, 2, 2) @ M[:, :2]"],
    "np.vecdot": ["np.vecdot(A, v)", "np.vecdot(A, C)"],
    "np.matvec": ["np.matvec(A, v)", "np.matvec(C, A)"],
    "np.vecmat": ["np.vecmat(v, A)"],
    "np.linalg.vecdot": ["np.linalg.vecdot(A, v)"],
    "np.linalg.matmul": ["np.linalg.matmul(A, C)"],
    "np.linalg.outer": ["np.linalg.outer(v, c)"],
    "np.linalg.trace": ["np.linalg.trace(A)", "np.linalg.trace(M.reshape(2, 2, 2))"],
    "np.linalg.tensordot": ["np.linalg.tensordot(A, C, axes=1)"],
    "np.linalg.cross": ["np.linalg.cross(v, c)", "np.linalg.cross(A, C, axis=0)"],
    "np.tensordot": ["np.tensordot(A, C)", "np.tensordot(A, C, axes=1)", "np.tensordot(M, A[:2], axes=(0, 0))",
                     "np.tensordot(M.reshape(2, 2, 2), M, axes=([0], [0]))", "np.tensordot(v, c, axes=0)"],
    "np.kron": ["np.kron(v, c)", "np.kron(M, A)", "np.kron(s, v)", "np.kron(v, M)"],
    "np.trace": ["np.trace(A)", "A.trace(offset=1)", "np.trace(M.reshape(2, 2, 2))"],
    "np.cross": ["np.cross(v, c)", "np.cross(A, C)", "np.cross(v, A)", "np.cross(A, C, axis=0)",
                 "np.cross([s, 0.0, 1.0], v)"],
    "np.linalg.multi_dot": ["np.linalg.multi_dot([A, C, A])", "np.linalg.multi_dot([v, A, C, v])",
                            "np.linalg.multi_dot([M.T[:3], M, M.T])"],
    "np.linalg.matrix_power": ["np.linalg.matrix_power(A, 3)", "np.linalg.matrix_power(A, 0)",
                               "np.linalg.matrix_power(_regular(A), -2)"],
    "np.einsum": ["np.einsum('ij,j->i', A, v)", "np.einsum('ii', A)", "np.einsum('ii->i', A)", "np.einsum('ij->ji', A)",
                  "np.einsum('i,ij,j', v, A, c)", "np.einsum('...i,i', A, c)", "np.einsum('ij,jk,kl->il', A, C, A)",
                  "np.einsum(A, [0, 1], v, [1], [0])", "np.einsum('i->', v)", "np.einsum('ij,ij->ij', A, C)",
                  "np.einsum('...ij,...jk->...ik', M.reshape(2, 2, 2), M.reshape(2, 2, 2))", "np.einsum('ij', A.T)",
                  "np.einsum('iij->j', np.ones((2, 2, 3)) * v)", "np.einsum('i,i,i->i', v, v, c)",
                  "np.einsum(',i', s, v)"],
    "np.linalg.solve": ["np.linalg.solve(_regular(A), v)", "np.linalg.solve(_regular(A), C)",
                        "np.linalg.solve(_regular(A)[:2, :2], v[:2])", "np.linalg.solve(C, v)",
                        "np.linalg.solve(_regular(A)[:1, :1], v[:1])", "np.linalg.solve(_regular(A)[None], A)"],
    "np.linalg.inv": ["np.linalg.inv(_regular(A))", "np.linalg.inv(_regular(A)[1:, 1:])"],
    "np.linalg.det": ["np.linalg.det(A)", "np.linalg.det(A[:2, :2])", "np.linalg.det(np.kron(np.eye(2), _regular(A)))",
                      "np.linalg.det(M.reshape(2, 2, 2))", "np.linalg.det(A[:1, :1])"],
    "np.linalg.norm": ["np.linalg.norm(v)", "np.linalg.norm(A)", "np.linalg.norm(v, 1)", "np.linalg.norm(v, np.inf)",
                       "np.linalg.norm(v, -np.inf)", "np.linalg.norm(v, 0)", "np.linalg.norm(v, 3)",
                       "np.linalg.norm(A, axis=0)", "np.linalg.norm(A, 1)", "np.linalg.norm(A, np.inf)",
                       "np.linalg.norm(A, -1)", "np.linalg.norm(A, 'fro')", "np.linalg.norm([s, 1.0])",
                       "np.linalg.norm(A, axis=1, keepdims=True)", "np.linalg.norm(A, -np.inf, axis=(1, 0))",
                       "np.linalg.norm(A, keepdims=True)", "np.linalg.norm(A, 2)", "np.linalg.norm(M, 'nuc')",
                       "np.linalg.norm(_regular(A), -2, axis=(1, 0), keepdims=True)"],
    "np.linalg.vector_norm": ["np.linalg.vector_norm(A)", "np.linalg.vector_norm(A, axis=0, ord=1)"],
    "np.linalg.cholesky": ["np.linalg.cholesky(_positive(A))", "np.linalg.cholesky(_positive(A), upper=True)"],
    "np.linalg.qr": ["np.linalg.qr(_regular(A))", "np.linalg.qr(_regular(A)[:, :2], 'complete')",
                     "np.linalg.qr(_regular(A)[:2], mode='r')"],
    "np.linalg.slogdet": ["np.linalg.slogdet(_regular(A))"],
    "np.linalg.lstsq": ["np.linalg.lstsq(_regular(A)[:, :2], v)", "np.linalg.lstsq(_regular(A)[:2], C[:2])[0]"],
    "np.linalg.pinv": ["np.linalg.pinv(_regular(A)[:, :2])", "np.linalg.pinv(np.diag([5.0 + s, 0.0]), hermitian=True)"],
    "np.linalg.eigh": ["_of_symmetric(A)"],
    "np.linalg.eigvalsh": ["np.linalg.eigvalsh(A)", "np.linalg.eigvalsh(_positive(A), UPLO='U')"],
    "np.linalg.svd": ["_of_singular(_regular(A)[:2])", "np.linalg.svd(A, compute_uv=False)"],
    "np.linalg.svdvals": ["np.linalg.svdvals(M)"],
    "np.linalg.cond": ["np.linalg.cond(_regular(A))", "np.linalg.cond(_regular(A), 1)"],
    "np.linalg.matrix_rank": ["np.linalg.matrix_rank(_regular(A)) + s"],
    "np.linalg.tensorinv": ["np.linalg.tensorinv(_regular(A).reshape(3, 3, 1), ind=1)"],
    "np.linalg.tensorsolve": ["np.linalg.tensorsolve(_regular(A)[:, None], v[:, None])",
                              "np.linalg.tensorsolve(_regular(A).reshape(3, 1, 3), v, axes=(1,))"],
    "np.linalg.matrix_norm": ["np.linalg.matrix_norm(A)", "np.linalg.matrix_norm(M.reshape(2, 2, 2), ord=1)"],
    "np.where": ["np.where(v > 0, v, c)", "np.where(A > s, A, 0.0)", "np.where([True, False, True], v, s)",
                 "np.where(v > 0, v > 1, v < -1)", "np.where(s > 0, v, A)"],
    "np.select": ["np.select([v < -1, v < 1], [v * 2, v * v], default=s)"],
    "np.piecewise": ["np.piecewise(v, [v < 0, v >= 0], [lambda x: -x, lambda x: x * x])",
                     "np.piecewise(v, [v < 0], [lambda x: -x, 3.0])"],
    "np.clip": ["np.clip(v, -1, 1)", "v.clip(min=0)", "np.clip(v, c - 1, s)", "np.clip(v, None, 0.5)"],
    "np.sinc": ["np.sinc(v)", "np.sinc(0.0 * v)"],
    "np.round": ["np.round(v * 1.3)", "np.round(v, 1)", "(v * 40).round(-1)"],
    "np.around": ["np.around(v, 2)"],
    "np.fix": ["np.fix(v * 1.7)"],
    "np.real": ["np.real(v)", "v.real"],
    "np.real_if_close": ["np.real_if_close(v)"],
    "np.angle": ["np.angle(v + 0.01)", "np.angle(A - 0.01, deg=True)"],
    "np.imag": ["np.imag(v)"],
    "np.nan_to_num": ["np.nan_to_num(v / (v * 0.0 + np.array([0.0, 1.0, -1.0])))",
                      "np.nan_to_num(v, nan=1.0, posinf=2.0)"],
    "np.isclose": ["np.isclose(v, c)", "np.isclose(v, v + 1e-9)", "np.isclose(v * np.nan, np.nan, equal_nan=True)"],
    "np.interp": ["np.interp(v, knots, knots**2)", "np.interp(v, knots, M[0], left=s)", "np.interp(s, [0.0], [2.0])",
                  "np.interp(A, knots, knots, right=9.0)"],
    "np.polyval": ["np.polyval(v, s)", "np.polyval([1.0, -2.0, 0.5], A)", "np.poly1d([2.0, 1.0])(v)",
                   "np.polynomial.polynomial.polyval(v, [1.0, 2.0])"],
    "np.vander": ["np.vander(v)", "np.vander(v, 2, increasing=True)"],
    "np.convolve": ["np.convolve(v, M[0])", "np.convolve(M[0], c, 'same')",
                    "np.convolve(v, [1.0, -1.0], mode='valid')"],
    "np.linspace": ["np.linspace(s, 3.0, 4)", "np.linspace(0.0, s, 3, endpoint=False)", "np.linspace(v, c, 3, axis=1)",
                    "np.linspace(v, 1.0, 3, retstep=True)", "np.linspace(s, 2.0, 1)"],
    "np.logspace": ["np.logspace(s, 1.0, 4)", "np.logspace(0.0, v, 3, base=2.0)",
                    "np.logspace(v, 1.0, 3, endpoint=False, axis=1)"],
    "np.geomspace": ["np.geomspace(s**2 + 1.0, 3.0, 4)", "np.geomspace(2.0, v**2 + 0.5, 3, endpoint=False, axis=1)",
                     "np.geomspace(-1.0 - s**2, -9.0, 5)"],
    "np.tril_indices_from": ["M[np.tril_indices_from(M, -1)]"],
    "np.triu_indices_from": ["M[np.triu_indices_from(M)]"],
    "np.diag_indices_from": ["A[np.diag_indices_from(A)]"],
    "np.apply_along_axis": ["np.apply_along_axis(lambda x: x.sum(), 0, A)", "np.apply_along_axis(np.cumsum, 1, M)",
                            "np.apply_along_axis(lambda x: np.outer(x, x), 0, A)"],
    "np.shape": ["np.ones(np.shape(A)) * s"],
    "np.ndim": ["s * np.ndim(A)"],
    "np.size": ["s * np.size(A)"],
    "np.iscomplexobj": ["s * np.iscomplexobj(v)"],
    "np.isrealobj": ["s * np.isrealobj(v)"],
    "np.iscomplex": ["np.iscomplex(v)"],
    "np.isreal": ["np.isreal(v)"],
    "np.zeros_like": ["np.zeros_like(v) + s", "np.zeros_like(A, dtype=float)", "np.zeros_like(v, shape=(2,)) + s"],
    "np.ones_like": ["np.ones_like(v) * s"],
    "np.empty_like": ["np.empty_like(v, dtype=bool).shape[0] * s", "np.copysign(0.0 * np.empty_like(v).size, s) + s"],
    "np.full_like": ["np.full_like(v, 2.0) * s", "np.full_like(A, s)", "np.full_like(c, s)"],
    "np.result_type": ["v.astype(np.result_type(v, 1.0))"],
    "np.array_str": ["s * (len(np.array_str(np.ones(2))) > 0)"],
    "np.array_repr": ["s * (len(np.array_repr(np.ones(2))) > 0)"],
    "np.array2string": ["s * (len(np.array2string(np.ones(2))) > 0)"],
    "np.allclose": ["np.allclose(v, c)", "np.allclose(v, v + 1e-10)"],
    "np.array_equal": ["np.array_equal(v, v + 0.0)", "np.array_equal(v, c)", "s * np.array_equal(v, M)"],
    "np.array_equiv": ["np.array_equiv(v, A)", "np.array_equiv(v, [v, v])"],
    "np.isposinf": ["np.isposinf(v / 0.0)"],
    "np.isneginf": ["np.isneginf(v / 0.0)"],
    "np.choose": ["np.choose([0, 1, 1], [v, c])", "np.choose(np.array([2, 0, 1]), A)"],
    "np.ldexp": ["np.ldexp(v, 3)", "np.ldexp(v, [1, -1, 0])"],
    "np.apply_over_axes": ["np.apply_over_axes(np.sum, A, [0, 1])"],
    "np.count_nonzero": ["1.0 * np.count_nonzero(v > 0)", "np.count_nonzero(A, axis=0) + 0.0"],
    "np.cumulative_sum": ["np.cumulative_sum(v)", "np.cumulative_sum(A, axis=1, include_initial=True)"],
    "np.cumulative_prod": ["np.cumulative_prod(v, include_initial=True)"],
    "np.unwrap": ["np.unwrap(v * 3)", "np.unwrap(A * 5, axis=0)", "np.unwrap(v * 4, period=3.0, discont=2.0)",
                  "np.unwrap(v * 4, period=s * s + 3.0)"],
    "np.nansum": ["np.nansum(_holed(A))", "np.nansum(_holed(A), axis=0)"],
    "np.nanprod": ["np.nanprod(_holed(A), axis=1)"],
    "np.nancumsum": ["np.nancumsum(_holed(A), axis=1)"],
    "np.nancumprod": ["np.nancumprod(_holed(A))"],
    "np.nanmean": ["np.nanmean(_holed(A), axis=0)", "np.nanmean(v)"],
    "np.nanvar": ["np.nanvar(_holed(A), axis=0, ddof=1)"],
    "np.nanstd": ["np.nanstd(_holed(A) + C)"],
    "np.nanmax": ["np.nanmax(_holed(A))", "np.nanmax(_holed(A), axis=1, keepdims=True)"],
    "np.nanmedian": ["np.nanmedian(_holed(A))", "np.nanmedian(_holed(A), axis=1)", "np.nanmedian(v)"],
    "np.nanquantile": ["np.nanquantile(_holed(A), [0.25, 0.8], axis=0)"],
    "np.nanpercentile": ["np.nanpercentile(_holed(A), 30.0, axis=1, keepdims=True, method='hazen')"],
    "np.nanmin": ["np.nanmin(_holed(A), axis=0)"],
    "np.median": ["np.median(v)", "np.median(M, axis=1)", "np.median(A)", "np.median(M, axis=(0, 1), keepdims=True)"],
    "np.quantile": ["np.quantile(v, 0.3)", "np.quantile(A, [0.1, 0.5, 1.0], axis=1)",
                    "np.quantile(M, 0.25, axis=1, method='median_unbiased')",
                    "np.quantile(v, [[0.0, 0.9]], method='lower')"],
    "np.percentile": ["np.percentile(v, 30)", "np.percentile(A, [5, 95], axis=0, keepdims=True)",
                      "np.percentile(M, 40, method='hazen')", "np.percentile(v, 70, method='nearest')"],
    "np.cov": ["np.cov(A)", "np.cov(M, rowvar=False)", "np.cov(v, c)", "np.cov(v)", "np.cov(A, bias=True)",
               "np.cov(A, fweights=[1, 2, 3])", "np.cov(A, aweights=[0.5, 1.0, 2.0])",
               "np.cov(A, ddof=0, aweights=c + 3)"],
    "np.corrcoef": ["np.corrcoef(A + 9 * C)", "np.corrcoef(v + np.array([0.0, 5.0, 1.0]), c)"],
    "np.correlate": ["np.correlate(v, M[0])", "np.correlate(M[0], c, 'same')", "np.correlate(v, M[0], 'full')",
                     "np.correlate(v, M[1], 'same')", "np.correlate(M[0], M[1], 'same')", "np.correlate(M[0], v)"],
    "np.polyadd": ["np.polyadd(v, M[0])"],
    "np.polysub": ["np.polysub(v, [1.0, 2.0])"],
    "np.polymul": ["np.polymul(v + 9, c)"],
    "np.polyder": ["np.polyder(v)", "np.polyder(M[0], 2)"],
    "np.polyint": ["np.polyint(v)", "np.polyint(v, 2, k=[1.0, s])"],
    "np.poly": ["np.poly(v)"],
    "np.polyfit": ["np.polyfit(knots, M[0], 2)", "np.polyfit(knots, M.T, 1, w=[1.0, 2.0, 1.0, 0.5])"],
    "np.place": ["_placed(np.place, v)"],
    "np.putmask": ["_placed(np.putmask, v)"],
    "np.put_along_axis": ["_put_along(A, v)"],
    "np.i0": ["np.i0(v)", "np.i0(A)"],
    "np.unstack": ["np.unstack(A)", "np.unstack(M, axis=1)"],
    "np.row_stack": ["np.row_stack([v, c])"],
    "np.fft.fft": ["np.real(np.fft.fft(v))", "np.imag(np.fft.fft(v))"],
    "np.fft.ifft": ["np.real(np.fft.ifft(v))", "np.imag(np.fft.ifft(v))"],
    "np.fft.rfft": ["np.real(np.fft.rfft(v))", "np.imag(np.fft.rfft(v))"],
    "np.fft.irfft": ["np.fft.irfft(v)"],
    "np.fft.hfft": ["np.fft.hfft(v)"],
    "np.fft.ihfft": ["np.real(np.fft.ihfft(v))", "np.imag(np.fft.ihfft(v))"],
    "np.fft.fftn": ["np.real(np.fft.fftn(M))", "np.imag(np.fft.fftn(M))"],
    "np.fft.ifftn": ["np.real(np.fft.ifftn(M))", "np.imag(np.fft.ifftn(M))"],
    "np.fft.rfftn": ["np.real(np.fft.rfftn(M))", "np.imag(np.fft.rfftn(M))"],
    "np.fft.irfftn": ["np.fft.irfftn(M)"],
    "np.fft.fft2": ["np.real(np.fft.fft2(M))", "np.imag(np.fft.fft2(M))"],
    "np.fft.ifft2": ["np.real(np.fft.ifft2(M))", "np.imag(np.fft.ifft2(M))"],
    "np.fft.rfft2": ["np.real(np.fft.rfft2(M))", "np.imag(np.fft.rfft2(M))"],
    "np.fft.irfft2": ["np.fft.irfft2(M)"],
    "np.fft.fftshift": ["np.fft.fftshift(M)"],
    "np.fft.ifftshift": ["np.fft.ifftshift(v)"],
}  # fmt: skip


def program(source: str) -> Any:
    """The function of v, A, M and s that `source` describes."""
    return eval(f"lambda v, A, M, s: {source}", globals())
