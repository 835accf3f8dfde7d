"""Every public function of some modules of SciPy, called with traced values, is recorded or refused with a reason.

Values of recorded functions are compared with SciPy's whenever a function is recorded.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy import interpolate, linalg, optimize

import accumulus as acc
from accumulus.errors import MismatchError, TraceError

A = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, -0.4], [0.3, 0.1, 1.8]])
S = A @ A.T
B = np.array([0.5, -1.0, 2.0])
X = np.array([0.0, 0.6, 1.1, 1.9, 2.5, 3.0])


#: Function of `scipy.linalg` → call with a traced matrix. By default a function is called with it alone.
LINALG = {
    **{name: lambda a, name=name: getattr(linalg, name)(S, a[0]) for name in ("solve", "lstsq", "solve_triangular")},
    **{name: lambda a, name=name: getattr(linalg, name)(a, a) for name in ("khatri_rao", "qz", "subspace_angles")},
    **{
        name: lambda a, name=name: getattr(linalg, name)(a, S)
        for name in ("expm_frechet", "fractional_matrix_power", "orthogonal_procrustes", "solve_lyapunov")
    },
    **{name: lambda a, name=name: getattr(linalg, name)(a[0]) for name in ("circulant", "companion", "fiedler")},
    **{name: lambda a, name=name: getattr(linalg, name)(a[0]) for name in ("fiedler_companion", "hankel", "toeplitz")},
    **{name: lambda a, name=name: getattr(linalg, name)(0.3 * a, S) for name in ("solve_discrete_lyapunov",)},
    **{name: lambda a, name=name: getattr(linalg, name)(a, S) for name in ("solve_continuous_lyapunov",)},
    **{
        name: lambda a, name=name: getattr(linalg, name)(a, np.eye(3), S, np.eye(3))
        for name in ("solve_continuous_are", "solve_discrete_are")
    },
    "cdf2rdf": lambda a: linalg.cdf2rdf(a[0], S),
    "cho_solve": lambda a: linalg.cho_solve(linalg.cho_factor(S), a[0]),
    "cho_solve_banded": lambda a: linalg.cho_solve_banded((np.ones((2, 3)), False), a[0]),
    "cholesky": lambda a: linalg.cholesky(a @ a.T),
    "cho_factor": lambda a: linalg.cho_factor(a @ a.T)[0],
    "cholesky_banded": lambda a: linalg.cholesky_banded(a[:2]),
    "clarkson_woodruff_transform": lambda a: linalg.clarkson_woodruff_transform(a, 2, 1),
    "convolution_matrix": lambda a: linalg.convolution_matrix(a[0], 4),
    "cossin": lambda a: linalg.cossin(a, 1, 1),
    "diagsvd": lambda a: linalg.diagsvd(a[0], 3, 3),
    "eig_banded": lambda a: linalg.eig_banded(a[:2]),
    "eigh": lambda a: linalg.eigh(a @ a.T)[0],
    "eigh_tridiagonal": lambda a: linalg.eigh_tridiagonal(a[0], a[1, :2])[0],
    "eigvals_banded": lambda a: linalg.eigvals_banded(a[:2]),
    "eigvalsh": lambda a: linalg.eigvalsh(a @ a.T),
    "eigvalsh_tridiagonal": lambda a: linalg.eigvalsh_tridiagonal(a[0], a[1, :2]),
    "fractional_matrix_power": lambda a: linalg.fractional_matrix_power(a, 0.5).real,
    "funm": lambda a: linalg.funm(a, np.exp),
    "leslie": lambda a: linalg.leslie(a[0], a[1, :2]),
    "lu_solve": lambda a: linalg.lu_solve(linalg.lu_factor(A), a[0]),
    "matmul_toeplitz": lambda a: linalg.matmul_toeplitz(a[0], S),
    "ordqz": lambda a: linalg.ordqz(a, S),
    "qr_delete": lambda a: linalg.qr_delete(np.eye(3), a, 0),
    "qr_insert": lambda a: linalg.qr_insert(np.eye(3), S, a[0], 0),
    "qr_multiply": lambda a: linalg.qr_multiply(a, S),
    "qr_update": lambda a: linalg.qr_update(np.eye(3), S, a[0], a[1]),
    "rsf2csf": lambda a: linalg.rsf2csf(a, S),
    "solve_banded": lambda a: linalg.solve_banded((1, 1), a, B),
    "solve_circulant": lambda a: linalg.solve_circulant(a[0], B),
    "solve_sylvester": lambda a: linalg.solve_sylvester(a, S, S),
    "solve_toeplitz": lambda a: linalg.solve_toeplitz(a[0], B),
    "svd": lambda a: linalg.svd(a)[1],
    "solveh_banded": lambda a: linalg.solveh_banded(np.stack([0.1 * a[0], 3.0 + a[1] ** 2]), B),
}
#: Function of `scipy.optimize` → call with a traced number a > 0. By default a function is called with a closure and 1.
OPTIMIZE = {
    **{
        name: lambda a, name=name: getattr(optimize, name)(lambda y: y - a, 0.0, 3.0)
        for name in ("bisect", "brenth", "brentq", "ridder", "toms748")
    },
    **{
        name: lambda a, name=name: getattr(optimize, name)(lambda y: np.sum((y - a) ** 2), [(0.0, 3.0)])
        for name in ("brute", "differential_evolution", "direct", "dual_annealing", "shgo")
    },
    **{name: lambda a, name=name: getattr(optimize, name)(lambda y: (y - a) ** 2) for name in ("bracket", "brent")},
    **{name: lambda a, name=name: getattr(optimize, name)(lambda y: (y - a) ** 2) for name in ("golden",)},
    **{
        name: lambda a, name=name: getattr(optimize, name)(lambda y: np.sum((y - a) ** 2), [1.0])
        for name in ("basinhopping", "fmin", "fmin_bfgs", "fmin_cg", "fmin_l_bfgs_b", "fmin_powell", "minimize")
    },
    "fmin_ncg": lambda a: optimize.fmin_ncg(lambda y: np.sum((y - a) ** 2), [1.0], lambda y: 2.0 * (y - a)),
    "fmin_tnc": lambda a: optimize.fmin_tnc(lambda y: np.sum((y - a) ** 2), [1.0], approx_grad=True),
    "fmin_cobyla": lambda a: optimize.fmin_cobyla(lambda y: np.sum((y - a) ** 2), [1.0], lambda y: y[0]),
    "fmin_slsqp": lambda a: optimize.fmin_slsqp(lambda y: np.sum((y - a) ** 2), [1.0]),
    "fminbound": lambda a: optimize.fminbound(lambda y: (y - a) ** 2, 0.0, 3.0),
    "approx_fprime": lambda a: optimize.approx_fprime([1.0], lambda y: y[0] * a),
    "check_grad": lambda a: optimize.check_grad(lambda y: y[0] * a, lambda y: a * np.ones(1), [1.0]),
    "curve_fit": lambda a: optimize.curve_fit(lambda t, p: p * t, X, X * a)[0],
    "fixed_point": lambda a: optimize.fixed_point(lambda y: (a + y) / (y**2 + 2.0), 1.0, xtol=1e-13),
    "fsolve": lambda a: optimize.fsolve(lambda y: y**3 - a, 1.0),
    "isotonic_regression": lambda a: optimize.isotonic_regression(X * a).x,
    "least_squares": lambda a: optimize.least_squares(lambda y: y - a, [1.0]).x,
    "leastsq": lambda a: optimize.leastsq(lambda y: y - a, [1.0])[0],
    "linear_sum_assignment": lambda a: optimize.linear_sum_assignment(np.eye(2) * a)[1],
    "line_search": lambda a: optimize.line_search(lambda y: np.sum((y - a) ** 2), lambda y: 2 * (y - a), B, -B)[0],
    "linprog": lambda a: optimize.linprog([1.0], A_ub=[[-1.0]], b_ub=np.stack([a])).x,
    "lsq_linear": lambda a: optimize.lsq_linear(S, B * a).x,
    "milp": lambda a: optimize.milp(np.stack([a])).x,
    "minimize_scalar": lambda a: optimize.minimize_scalar(lambda y: np.exp(y) - a * y).x,
    "newton": lambda a: optimize.newton(lambda y: y**3 - a, 1.0),
    "nnls": lambda a: optimize.nnls(S, B * a)[0],
    "quadratic_assignment": lambda a: optimize.quadratic_assignment(S * a, S).fun,
    "root": lambda a: optimize.root(lambda y: y**3 - a, [1.0]).x,
    "root_scalar": lambda a: optimize.root_scalar(lambda y: y**3 - a, bracket=(0.0, 3.0)).root,
    **{name: lambda a, name=name: getattr(optimize, name)(a * B) for name in ("rosen", "rosen_der", "rosen_hess")},
    "rosen_hess_prod": lambda a: optimize.rosen_hess_prod(a * B, B),
}
#: Function or class of `scipy.interpolate` → call with a traced vector y.
INTERPOLATE = {
    **{
        name: lambda y, name=name: getattr(interpolate, name)(X, y)(0.7)
        for name in (
            *("Akima1DInterpolator", "BarycentricInterpolator", "CubicSpline", "InterpolatedUnivariateSpline"),
            *("KroghInterpolator", "PchipInterpolator", "UnivariateSpline", "interp1d", "make_interp_spline"),
            *("make_smoothing_spline", "Rbf", "AAA", "FloaterHormannInterpolator"),
        )
    },
    **{
        name: lambda y, name=name: getattr(interpolate, name)(X, y, [0.7])
        for name in ("barycentric_interpolate", "krogh_interpolate", "pchip_interpolate")
    },
    "lagrange": lambda y: interpolate.lagrange(X, y)(0.7),
    "pade": lambda y: interpolate.pade(y, 2)[0](0.7),
    **{
        name: lambda y, name=name: getattr(interpolate, name)(np.stack([X, X**2], axis=1), y)(0.5, 0.5)
        for name in ("CloughTocher2DInterpolator", "LinearNDInterpolator", "NearestNDInterpolator")
    },
    **{
        name: lambda y, name=name: getattr(interpolate, name)(X, X, np.outer(y, y))(0.7, 0.7)
        for name in ("RectBivariateSpline", "SmoothBivariateSpline", "LSQBivariateSpline")
    },
    **{
        name: lambda y, name=name: getattr(interpolate, name)(X[1:4], X[1:4], np.outer(y, y)[:3, :3])(0.7, 0.7)
        for name in ("RectSphereBivariateSpline", "SmoothSphereBivariateSpline", "LSQSphereBivariateSpline")
    },
    "BPoly": lambda y: interpolate.BPoly(y[:5].reshape(1, 5), X)(0.7),
    "BSpline": lambda y: interpolate.BSpline(np.arange(10.0), y, 3)(4.2),
    "BivariateSpline": lambda y: interpolate.RectBivariateSpline(X, X, np.outer(X, X)).ev(y, y),
    "CubicHermiteSpline": lambda y: interpolate.CubicHermiteSpline(X, y, y)(0.7),
    "LSQUnivariateSpline": lambda y: interpolate.LSQUnivariateSpline(X, y, [1.0])(0.7),
    "NdBSpline": lambda y: interpolate.NdBSpline((np.arange(10.0),), y, 3)([[4.2]]),
    "NdPPoly": lambda y: interpolate.NdPPoly(y[:5].reshape(1, 5), (X,))([[0.7]]),
    "PPoly": lambda y: interpolate.PPoly(y[:5].reshape(1, 5), X)(0.7),
    "RBFInterpolator": lambda y: interpolate.RBFInterpolator(X[:, np.newaxis], y)([[0.7]]),
    "RegularGridInterpolator": lambda y: interpolate.RegularGridInterpolator((X,), y)([0.7]),
    "approximate_taylor_polynomial": lambda y: interpolate.approximate_taylor_polynomial(lambda t: t * y[0], 0, 2, 1.0)(
        1
    ),
    "bisplev": lambda y: interpolate.bisplev(0.5, 0.5, (X, X, y, 1, 1)),
    "bisplrep": lambda y: interpolate.bisplrep(np.tile(X, 6), np.repeat(X, 6), np.ravel(np.outer(y, y))),
    "generate_knots": lambda y: next(iter(interpolate.generate_knots(X, y))),
    "griddata": lambda y: interpolate.griddata(X, y, [0.7]),
    "insert": lambda y: interpolate.insert(4.2, (np.arange(10.0), np.append(y, np.zeros(4)), 3)),
    "interp2d": lambda y: interpolate.interp2d(X, X, np.outer(y, y)),
    "interpn": lambda y: interpolate.interpn((X,), y, [[0.7]]),
    "make_lsq_spline": lambda y: interpolate.make_lsq_spline(X, y, np.repeat([0.0, 3.0], 4))(0.7),
    "make_splrep": lambda y: interpolate.make_splrep(X, y)(0.7),
    "spalde": lambda y: interpolate.spalde(4.2, (np.arange(10.0), np.append(y, np.zeros(4)), 3)),
    "splantider": lambda y: interpolate.splantider((np.arange(10.0), np.append(y, np.zeros(4)), 3)),
    "splder": lambda y: interpolate.splder((np.arange(10.0), np.append(y, np.zeros(4)), 3)),
    "splev": lambda y: interpolate.splev(4.2, (np.arange(10.0), np.append(y, np.zeros(4)), 3)),
    "splint": lambda y: interpolate.splint(3.0, 4.0, (np.arange(10.0), np.append(y, np.zeros(4)), 3)),
    "splprep": lambda y: interpolate.splprep([X, y]),
    "splrep": lambda y: interpolate.splrep(X, y)[1],
    "sproot": lambda y: interpolate.sproot((np.arange(10.0), np.append(y, np.zeros(4)), 3)),
}
#: Names of no function of arrays: sizes, classes of other functions' results, and old names.
OTHERS = frozenset(
    (
        *("dft", "hadamard", "helmert", "hilbert", "invhilbert", "invpascal", "pascal", "find_best_blas_type"),
        *("get_blas_funcs", "get_lapack_funcs", "LinAlgError", "LinAlgWarning", "Bounds", "BFGS", "SR1"),
        *("HessianUpdateStrategy", "LbfgsInvHessProduct", "LinearConstraint", "OptimizeResult", "NonlinearConstraint"),
        *("OptimizeWarning", "RootResults", "show_options", "NoConvergence", "BroydenFirst", "InverseJacobian"),
        *("KrylovJacobian", "linprog_verbose_callback", "interp2d", "LSQBivariateSpline", "LSQSphereBivariateSpline"),
        *("RectSphereBivariateSpline", "SmoothBivariateSpline", "SmoothSphereBivariateSpline", "make_splprep"),
    )
)
TABLES = {
    linalg: (LINALG, lambda name: getattr(linalg, name), A),
    optimize: (OPTIMIZE, lambda name: lambda a: getattr(optimize, name)(lambda y: y**3 - a, [1.0]), 2.0),
    interpolate: (INTERPOLATE, None, np.cos(X)),
}
NAMES = [
    (module, name)
    for module in TABLES
    for name in module.__all__
    if callable(getattr(module, name)) and not inspect.ismodule(getattr(module, name)) and name not in OTHERS
]


@pytest.mark.sampled(4, each="module")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("module", "name"), NAMES, ids=[f"{module.__name__}.{name}" for module, name in NAMES])
def test_is_recorded_or_refused_with_a_reason(module, name):
    table, default, point = TABLES[module]
    call = table.get(name) or default(name)
    try:
        acc.compile(call)(point)
    except MismatchError:
        raise
    except TraceError:
        return
