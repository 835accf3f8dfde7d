"""Messages about loops in Python that were written out."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from inside import Program

import accumulus as acc
from accumulus.frontends import turns
from accumulus.frontends.active import ending
from accumulus.frontends.record import _recorded
from accumulus.frontends.recorder import recorder_of
from accumulus.frontends.turns import explained
from accumulus.frontends.written_out import BusiestLine, site_of
from accumulus.repetition import roll

POWERS = [1.0, 2.0, 2.0, 3.0, 0.0, 1.0]


def other_operations(x: Any) -> Any:
    total = 0.0
    for k in range(6):
        total = total + (np.sin(x) if k % 2 else np.cos(x))
    return total


def another_end(x: Any) -> Any:
    y = [x, 2.0 * x]
    for row, (a, _) in enumerate(zip(POWERS, POWERS, strict=True)):
        y[0] = y[0] * a + y[1]
        if row >= 2:
            y[1] = np.exp(y[1])
    return y[0]


def a_constant_or_not(x: Any) -> Any:
    values = [1.0, 2.0, 3.0, x, 5.0, 6.0]
    results = []
    for each in values:
        results.append(x + np.sqrt(x * each + 2.0 * x))
    return np.sum(results)


def no_turns(x: Any) -> Any:
    for _ in range(2):
        x = np.sin(x)
    return x


def why(f: Any, text: str, name: str = "") -> str:
    """Return the message about the line of a function that contains a text."""
    import inspect

    lines, first = inspect.getsourcelines(f)
    line = first + next(k for k, each in enumerate(lines) if text in each)
    of_f = partial(_recorded, recorder_of(f), f, [1.5], ((),), (slice(0, 1),))
    record = ending(partial(of_f, point=np.array([1.5]), opens_indices=False))
    return explained(record, lambda: Program(1, scalar=True, loops=False), __file__, line, name or f.__name__)


@pytest.mark.parametrize(
    ("f", "text", "expected"),
    [
        (other_operations, "total = total +", ["Turns 2 and 3", "add instead of sin", "def turn(state, item):",
         "total, k = state, item", "return total, None", "total, _ = acc.scan(turn, total, np.arange(6))"]),
        (another_end, "y[0] = ", ["Turns 2 and 3", "exp", "y, (row, (a, _)) = state, item",
         "acc.scan(turn, y, …)  # arrays of what enumerate(zip("]),
        (a_constant_or_not, "results.append", ["Turns 2 and 3", "instead of sqrt", "def turn(each):",
         "return x + np.sqrt(x * each + 2.0 * x)", "results = acc.map(turn, values)"]),
        (no_turns, "x = np.sin", []),
    ],
)  # fmt: skip
def test_differing_iterations_and_the_equivalent_scan(f: Any, text: str, expected: list[str]) -> None:
    said = why(f, text)
    for line in expected:
        assert line in said
    assert bool(said) == bool(expected)


def test_a_busy_comprehension_is_within_the_loop_of_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Turns 2 and 3" in why(other_operations, "total = total +", "<listcomp>")
    monkeypatch.setattr(turns, "MOST_CALLS", 3)
    assert why(other_operations, "total = total +") == ""


def test_a_line_without_a_loop_or_without_source_says_nothing() -> None:
    nothing = lambda program: None  # noqa: E731
    assert explained(nothing, lambda: Program(1, scalar=True), __file__, 3, "f") == ""
    assert explained(nothing, lambda: Program(1, scalar=True), "<nowhere>", 3, "f") == ""


def test_the_report_says_why_a_long_loop_was_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    line = other_operations.__code__.co_firstlineno + 3
    monkeypatch.setattr(roll, "FEWEST_IN_RECURRENCES", 5)
    monkeypatch.setattr(BusiestLine, "busiest", (__file__, line, "other_operations"))
    report = acc.gradient(other_operations).compile(1.5).report()
    assert "Turns 2 and 3" in report.written_out
    assert "Written out turn by turn: Turns 2 and 3 of the loop" in str(report)
    assert "total, _ = acc.scan(turn, total, np.arange(6))" in str(report)
    assert acc.gradient(np.sin).compile(1.5).report().written_out == ""


def test_a_frame_between_two_lines_has_no_site() -> None:
    code = other_operations.__code__
    assert site_of(SimpleNamespace(f_code=code, f_lineno=None)) is None
    line = code.co_firstlineno + 3
    assert site_of(SimpleNamespace(f_code=code, f_lineno=line)) == (__file__, line, "other_operations")
