"""Functions and methods of SciPy that are replaced while a function is recorded."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy
import scipy.special
from agreement import assert_agrees
from scipy import special
from scipy.special import logsumexp
from scipy.special import softmax as share

from accumulus.errors import TraceError
from accumulus.frontends import record
from accumulus.frontends.numpy.replacements import METHODS
from accumulus.frontends.numpy.table import BORROWED

POINT = np.array([0.5, -1.0, 2.0])


def test_by_every_name():
    sum_of = special.logsumexp

    def f(x):
        from scipy import special as inner
        from scipy.special import logsumexp as local

        results = [logsumexp(x), special.logsumexp(x), scipy.special.logsumexp(x), sum_of(x), local(x)]
        return [*results, inner.logsumexp(x), share(x)]

    assert_agrees(f, [POINT])


def test_lists_of_values_and_constants():
    def f(x, y):
        weights = np.ones(2)
        constant = special.softmax(weights)
        constant[0] = x
        return logsumexp([x, y]), logsumexp(np.arange(2.0)), constant

    assert_agrees(f, [0.5, 2.0])


def test_scipy_is_restored():
    before = {name: id(value) for name, value in vars(scipy.special).items()}
    held = {name: id(globals()[name]) for name in ("logsumexp", "share", "special", "scipy")}
    record(lambda x: logsumexp(x) + special.erf(x), [POINT])
    assert {name: id(value) for name, value in vars(scipy.special).items()} == before
    assert {name: id(globals()[name]) for name in held} == held
    with pytest.raises(ZeroDivisionError):
        record(lambda x: 1 // 0, [1.0])
    assert all(vars(owner).get(name) is not replacement for owner, name, replacement in METHODS)


def test_every_row_names_something():
    for module, rows in BORROWED.items():
        loaded = __import__(module, fromlist=["_"])
        for name in rows:
            assert hasattr(loaded, name.partition(".")[0]), f"{module}.{name}"


def test_errors_name_the_function_and_the_line():
    with pytest.raises(TraceError, match=r"test_borrowed.py.*\n.*logsumexp\(x, return_sign=True\)"):
        record(lambda x: logsumexp(x, return_sign=True), [POINT])
    with pytest.raises(TraceError, match=r"scipy\.special\.softmax: .*Arguments that can be recorded: x, axis"):
        record(lambda x: share(x, order=1), [POINT])


def test_scipy_is_not_imported():
    code = """
import sys
import numpy as np
import accumulus as acc
acc.jacobian(np.sin, cache=False)(np.ones(2))
sys.exit("scipy.special" in sys.modules or "scipy.stats" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
