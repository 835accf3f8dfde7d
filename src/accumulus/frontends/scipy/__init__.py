"""Recorded functions of SciPy, which the front end for NumPy imports once SciPy is loaded.

Universal functions are formulas in `special_rows`. Functions and methods are replaced while a function is recorded
(`accumulus.frontends.numpy.replacements`):

* `special`: `scipy.special` and `scipy.stats`;
* `interpolation` and `interpolators`: `scipy.interpolate`, and further functions of sampled data;
* `solvers`: solvers of equations in `scipy.integrate` and `scipy.optimize`;
* `signals`: `scipy.fft` and `scipy.signal`;
* `spatial`: `scipy.spatial`;
* `linear_algebra` and `matrix_functions`: `scipy.linalg`;
* `sparse_matrices` and `sparse_systems`: `scipy.sparse`.
"""

from accumulus.frontends.scipy import (
    interpolation,  # noqa: F401  # each module registers its functions
    interpolators,  # noqa: F401
    linear_algebra,  # noqa: F401
    matrix_functions,  # noqa: F401
    signals,  # noqa: F401
    solvers,  # noqa: F401
    sparse_matrices,  # noqa: F401
    sparse_systems,  # noqa: F401
    spatial,  # noqa: F401
    special,  # noqa: F401
    special_rows,  # noqa: F401
)
