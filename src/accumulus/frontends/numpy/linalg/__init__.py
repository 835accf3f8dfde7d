"""Linear algebra for small matrices, written out operation by operation.

The recorded program must be right at every point, so nothing is decided while it is recorded: where LAPACK goes on by
what it finds (pivots, convergence, signs), all ways are recorded and chosen from, or so many steps that they always
suffice. What comes of such steps is an *implicit function* of the matrix, and is differentiated as that, by the known
rule, instead of step by step (`accumulus.frontends.numpy.linalg.factorisations`): the derivatives are
exact at the computed values, and cost a few products of matrices. Structural zeros cost nothing.
"""

from accumulus.frontends.numpy.linalg import (
    factorisations,  # noqa: F401  # each fills the table
    spectral,  # noqa: F401
    systems,  # noqa: F401
)
