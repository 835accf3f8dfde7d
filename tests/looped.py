"""Functions of arrays with loops, and as written out entry by entry."""

from contextlib import contextmanager

import numpy as np
import scipy.sparse

import accumulus as acc
from accumulus.frontends import active


@contextmanager
def unrolled(most):
    """Let arrays be written out entry by entry up to so many entries."""
    before = active.MOST_UNROLLED, active.LONG
    active.MOST_UNROLLED, active.LONG = most, 1
    try:
        yield
    finally:
        active.MOST_UNROLLED, active.LONG = before


def both(function, *arguments, argnums=0, **options):
    """Values and derivatives with loops, and as written out."""
    with unrolled(0):
        looped = acc.value_and_jacobian(function, argnums, cache=False, **options)
        found = looped(*arguments)
    with unrolled(10**9):
        options = {name: given for name, given in options.items() if name == "sparse"}
        expected = acc.value_and_jacobian(function, argnums, cache=False, optimise=False, **options)(*arguments)
    return looped, found, expected


def assert_same(found, expected):
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list | tuple):
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        return
    if scipy.sparse.issparse(expected):
        assert found.format == expected.format
        assert found.has_canonical_format
        found, expected = found.toarray(), expected.toarray()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
