"""Changes of values that functions hold in every way: seen, or named before in `report().unwatched`."""

from __future__ import annotations

import numpy as np
import pytest
from held_values import OPTIONS, WAYS, X, agree, restored

import accumulus as acc

#: Ways that another value comes at each call, or that nothing in Python changes.
OUTSIDE = (
    *("import of random", "import of datetime", "import of time", "time", "counter", "now", "today", "random"),
    *("np.random", "secrets", "urandom", "mask", "id of the thread", "held clock", "held class of dates"),
    *("held method of a random generator", "held Random", "held subclass of a generator", "held generator"),
    *("held count", "held tee", "held scanner", "held default_rng"),
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", WAYS)
def test_changes_are_seen_or_said(name, monkeypatch, tmp_path):
    with restored(monkeypatch, tmp_path):
        check(name)


def check(name):
    """Raise if a change by this way is neither seen nor said."""
    f, change = WAYS[name]()
    derivative = acc.compile(f, **OPTIONS)
    np.testing.assert_allclose(derivative(X), f(X))
    said = derivative.report().unwatched
    change()
    if name in OUTSIDE:
        assert said, "nothing was said of what is read from call to call"
    if not agree(derivative, f):
        assert said, f"{name} is stale, and nothing was said"
        holds = name.startswith("held ")
        assert any("held" in text or "holds" in text for text in said) or not holds, said
