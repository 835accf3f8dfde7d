"""Observation of a running function: its own code, but not code that runs for imports and for this package."""

from __future__ import annotations

import gc
import sys

import numpy as np
import platformdirs
import pytest

import accumulus as acc
from accumulus.frontends.observed import Observed


class Finder:
    """Is asked for modules, as hooks of test frameworks and installers are."""

    def find_spec(self, name, path=None, target=None):
        return looked_up(name)


def looked_up(_):
    return None


def names(observed):
    return {code.co_name for code, _ in observed.codes.values()}


def test_code_of_imports_is_not_observed(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)

    def function():
        import colorsys

        return colorsys

    with Observed() as observed:
        function()
    assert "function" in names(observed)
    assert not names(observed) & {"find_spec", "looked_up"}


def test_calls_by_this_package_are_not_observed():
    def function():
        return platformdirs.user_cache_dir()

    namespace = {"__name__": "accumulus.example", "platformdirs": platformdirs}
    exec("def inner():\n    return platformdirs.user_cache_dir()", namespace)
    with Observed() as observed:
        namespace["inner"]()
    assert "user_cache_dir" not in names(observed)
    with Observed() as observed:
        function()
    assert names(observed) >= {"function", "user_cache_dir"}


def test_code_of_the_garbage_collector_is_not_observed():
    class Ended:
        def __del__(self):
            looked_up(self)

    def callback(phase, _):
        looked_up(phase)

    def function():
        Ended()
        gc.collect()

    gc.callbacks.append(callback)
    try:
        with Observed() as observed:
            function()
    finally:
        gc.callbacks.remove(callback)
    assert "function" in names(observed)
    assert not names(observed) & {"callback", "looked_up", "__del__"}


def test_environments_do_not_matter_to_nested_derivatives(monkeypatch):
    slope = acc.gradient(lambda y: y**3)
    derivative = acc.jacobian(lambda x: 1.0 * slope(x))
    assert derivative(2.0) == 12.0
    watched = derivative._watched.captured
    monkeypatch.setenv("ACCUMULUS_EXAMPLE", "another")
    assert not watched.changes()
    assert derivative(3.0) == 18.0
    assert derivative._watched.captured is watched


def in_branches(x):
    return np.sin(x[1]) if x[0] > 0.0 else x[1]


OF_ALL_KINDS = {
    "gradient": lambda x: acc.gradient(lambda y: np.sum(y["a"] ** 3) * y["b"][0])({"a": x, "b": [x[0]]})["a"],
    "numpy": lambda x: acc.compile(lambda y: np.sin(y) * y, target="numpy")(x) * 1.0,
    "implicit": lambda x: acc.implicit(lambda y, p: y**3 + y - p)(1.0, x[0]),
    "map": lambda x: acc.map(lambda y: y * np.sin(y), x),
    "scan": lambda x: acc.scan(lambda c, y: (c * np.sin(y), c), 1.0, x)[0],
    "branches": in_branches,
}


@pytest.mark.parametrize("name", OF_ALL_KINDS)
def test_code_that_this_package_writes_is_not_observed(name):
    f = OF_ALL_KINDS[name]
    f(np.ones(3))
    with Observed() as observed:
        f(np.ones(3))
        acc.jacobian(f, target="numpy")(np.ones(3))
    files = {code.co_filename for code, _ in observed.codes.values()}
    assert __file__ in files
    assert not [each for each in files if each.startswith("<")]
