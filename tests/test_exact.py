"""The references' textbook derivatives against numerical differentiation, so that nobody has to believe them."""

from __future__ import annotations

import pytest
from exact import EXACT, PARTIALS, mp, mpf
from inside import BY_NAME

POINTS = (("0.3", "-0.7", "0.41"), ("0.9", "0.2", "-0.5"), ("-0.6", "0.8", "0.1"))


@pytest.mark.parametrize("name", [name for name in PARTIALS if name != "attach"])
def test_textbook_derivatives(name):
    for texts in POINTS:
        point = [mpf(text) for text in texts[: len(PARTIALS[name])]]
        kinds = BY_NAME[name].arguments
        if name == "acosh" or "order" in kinds:
            point = [3 + mp.nint(x) if kind == "order" else 2 + x for kind, x in zip(kinds, point, strict=True)]
        if mp.isnan(EXACT[name](*point)):
            continue
        for position, partial in enumerate(PARTIALS[name]):
            if BY_NAME[name].arguments[position] in ("boolean", "order"):
                continue
            rest = point[:position], point[position + 1 :]
            numerical = mp.diff(lambda x, rest=rest: EXACT[name](*rest[0], x, *rest[1]), point[position])
            assert mp.almosteq(partial(*point), numerical, 1e-40, 1e-40)
