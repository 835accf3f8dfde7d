"""Every function of arrays along directions, at every order up to 4, in every kind of derivative and every target.

A fixed tenth of it here, all of it in `make fuzz`.
"""

from __future__ import annotations

import numpy as np
import pytest
from derivative_checks import TARGETS
from structured_cases import all_structured, expected_of
from structured_checks import check_structured, is_among

from accumulus.frontends.numpy.table import BORROWED, FUNCTIONS, REFUSED, load_rows

CASES = all_structured()
TENTH = [(case, target) for case in CASES for target in TARGETS if is_among(case, target)]


def test_names_are_unique():
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_references_are_of_the_points(case):
    values, scales = expected_of(case)
    assert values.shape == scales.shape


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("case", "target"), TENTH, ids=lambda given: getattr(given, "name", given))
def test_all_derivatives(case, target):
    _, wrong, _ = check_structured(case, target)
    assert not wrong, "\n".join(map(str, wrong[:20]))


#: Names in the tables of the front ends without a case, with reasons.
EXCEPTIONS = {
    **dict.fromkeys(("np.linalg.cross", "np.linalg.matmul", "np.linalg.outer", "np.linalg.tensordot"), "products"),
    **dict.fromkeys(("np.linalg.vecdot", "np.linalg.trace"), "sums and products"),
    **dict.fromkeys(("np.linalg.diagonal", "np.linalg.matrix_transpose"), "move entries"),
    "np.linalg.matrix_rank": "whole numbers",
    "scipy.linalg.cho_factor": "with cho_solve",
    "scipy.linalg.lu_factor": "with lu_solve",
    **dict.fromkeys(("scipy.linalg.companion", "scipy.linalg.khatri_rao"), "move and multiply entries"),
    **dict.fromkeys(("scipy.linalg.matmul_toeplitz", "scipy.linalg.solve_toeplitz"), "with toeplitz"),
    "scipy.linalg.eigvalsh_tridiagonal": "with eigvalsh",
    **{
        f"scipy.linalg.{name}": "functions of matrices: tests/frontends/scipy_functions/test_matrix_functions.py"
        for name in (
            *("cosm", "coshm", "expm_frechet", "fractional_matrix_power", "logm", "signm", "sinm", "sinhm", "sqrtm"),
            *("solve_continuous_are", "solve_continuous_lyapunov", "solve_discrete_are", "solve_discrete_lyapunov"),
            *("solve_lyapunov", "solve_sylvester", "tanm", "tanhm"),
        )
    },
}


def test_every_name_of_linear_algebra_and_rotations_has_a_case():
    load_rows()
    names = {f"np.linalg.{f.__name__}" for f in FUNCTIONS if f is getattr(np.linalg, f.__name__, None)}
    names |= {f"scipy.linalg.{name}" for name in BORROWED["scipy.linalg"] if f"scipy.linalg.{name}" not in REFUSED}
    names |= {name.removeprefix("Rotation.") for name in BORROWED["scipy.spatial.transform"]}
    assert names - {case.table_name for case in CASES} == set(EXCEPTIONS) & names
    assert not set(EXCEPTIONS) & {case.table_name for case in CASES}


#: Rows of SciPy without a case, with reasons.
OTHERS = {
    "scipy.fft": "Fourier transforms are complex; tests/frontends/numpy_functions/test_fourier.py",
    "scipy.optimize": "rosen and its derivatives are formulas of NumPy's operations; solvers have a file of their own",
    "scipy.sparse": "matrices: tests/frontends/scipy_functions/test_sparse_products.py",
    "scipy.sparse.linalg": "systems: tests/frontends/scipy_functions/test_sparse_systems.py",
    "scipy.integrate": "solvers: tests/frontends/scipy_functions/test_solvers.py",
    "scipy.interpolate": "of traced data: tests/frontends/scipy_functions/test_interpolators.py",
}


def test_every_name_of_scipy_has_a_case():
    load_rows()
    cased, tables = {case.table_name for case in CASES}, ("scipy.linalg", "scipy.spatial.transform")
    elsewhere = (*tables, "scipy.stats", "scipy.stats._multivariate", "scipy.special")
    for module in [module for module in BORROWED if module.startswith("scipy.") and module not in elsewhere]:
        names = {name for name in BORROWED[module] if f"{module}.{name}" not in REFUSED}
        assert names <= cased or module in OTHERS, names - cased
