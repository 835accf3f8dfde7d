"""SciPy's functions: rows for the front end of NumPy, which imports them by name once SciPy is loaded.

Universal functions are formulas in `special_rows`; functions and methods are borrowed
(`accumulus.frontends.numpy.borrowed`), a module for each of SciPy's: `special`, `distributions` (`scipy.stats`),
`interpolation`, `integration`, `optimization`, `filters` (`scipy.signal`), `distances` (`scipy.spatial.distance`),
`rotations` (`scipy.spatial.transform`), `cosines` and `transforms_by_name` (`scipy.fft`), `linear_algebra`,
`matrix_functions` and `special_matrices` (`scipy.linalg`).
"""

from accumulus.frontends.scipy import (
    cosines,  # noqa: F401  # each fills the tables
    distances,  # noqa: F401
    distributions,  # noqa: F401
    filters,  # noqa: F401
    integration,  # noqa: F401
    interpolation,  # noqa: F401
    linear_algebra,  # noqa: F401
    matrix_functions,  # noqa: F401
    optimization,  # noqa: F401
    rotations,  # noqa: F401
    special,  # noqa: F401
    special_matrices,  # noqa: F401
    special_rows,  # noqa: F401
    transforms_by_name,  # noqa: F401
)
