"""SciPy's functions: rows for the front end of NumPy, which imports them by name once SciPy is loaded.

Universal functions are formulas in `special_rows`; functions and methods are borrowed
(`accumulus.frontends.numpy.replacements`): `special` has those of `scipy.special` and `scipy.stats`, `interpolation`
those of `scipy.interpolate`, and others of data, `solvers` those of `scipy.integrate` and `scipy.optimize` that solve
equations, `signals` those of `scipy.fft` and `scipy.signal`, `spatial` those of `scipy.spatial`, `linear_algebra` those
of `scipy.linalg`, `sparse_matrices` and `sparse_systems` those of `scipy.sparse`.
"""

from accumulus.frontends.scipy import (
    interpolation,  # noqa: F401  # each fills the tables
    linear_algebra,  # noqa: F401
    signals,  # noqa: F401
    solvers,  # noqa: F401
    sparse_matrices,  # noqa: F401
    sparse_systems,  # noqa: F401
    spatial,  # noqa: F401
    special,  # noqa: F401
    special_rows,  # noqa: F401
)
