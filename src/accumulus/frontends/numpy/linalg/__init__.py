"""Linear algebra: small matrices are written out operation by operation, large ones are equations for LAPACK.

The recorded program must be correct at every point, so nothing is decided during recording. Where LAPACK branches on
values (pivots, convergence, signs), all branches are recorded and one is selected, or a fixed number of steps is
recorded that always suffices. The result of such steps is an *implicit function* of the matrix, and is differentiated
by a known rule instead of step by step (`accumulus.frontends.numpy.linalg.factorisations`): derivatives are exact at
the computed values, and cost a few products of matrices. Structural zeros cost nothing.
"""

from accumulus.frontends.numpy.linalg import (
    factorisations,  # noqa: F401  # each module registers its functions
    spectral,  # noqa: F401
    systems,  # noqa: F401
)
