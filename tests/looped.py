"""Functions of arrays with loops, and as written out entry by entry."""

from contextlib import contextmanager, nullcontext

import numpy as np
import scipy.sparse
from rolling import in_loops

import accumulus as acc
from accumulus.tape import program as sizes

#: What is written out is prepared in the shortest way; `assert_same` holds its results against the loops' anyway.
PLAIN = {"cache": False, "check": False, "effort": "fast", "optimise": False, "time_limit": 0.0}


@contextmanager
def unrolled(most, long=None):
    """Let loops of up to so many operations be written out, and arrays be loops from so many entries on.

    If that is not given, all arrays are, however short, if no loop is written out, and else none: then everything is
    recorded entry by entry.
    """
    before = sizes.MOST_UNROLLED, sizes.MOST_UNROLLED_STEPS, sizes.LONG
    sizes.LONG = long or (10**9 if most else 1)
    sizes.MOST_UNROLLED = sizes.MOST_UNROLLED_STEPS = most
    try:
        with nullcontext() if most else in_loops():
            yield
    finally:
        sizes.MOST_UNROLLED, sizes.MOST_UNROLLED_STEPS, sizes.LONG = before


def both(function, *arguments, argnums=0, **options):
    """Values and derivatives with loops, and as written out."""
    with unrolled(0):
        looped = acc.value_and_jacobian(function, argnums, cache=False, **options)
        actual = looped(*arguments)
    with unrolled(10**9):
        options = {"sparse": options.get("sparse")} | PLAIN
        expected = acc.value_and_jacobian(function, argnums, **options)(*arguments)
    return looped, actual, expected


def assert_same(actual, expected):
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        actual, expected = list(actual.values()), list(expected.values())
    if isinstance(expected, list | tuple):
        for one, other in zip(actual, expected, strict=True):
            assert_same(one, other)
        return
    if scipy.sparse.issparse(expected):
        assert actual.format == expected.format
        assert actual.has_canonical_format
        actual, expected = actual.toarray(), expected.toarray()
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)
