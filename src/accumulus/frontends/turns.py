"""Diagnosis of a Python loop that was written out: the first difference between iterations, and the body to write.

The busiest loop of a function is recorded again until two iterations can be compared operation by operation. The first
iteration is left out, since it may begin with constants, which fold.
"""

from __future__ import annotations

import ast
import linecache
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final, NamedTuple

from accumulus.frontends.location import in_library
from accumulus.frontends.source.nodes import assigned_in
from accumulus.tape.operations import OPERATIONS
from accumulus.tape.program import Program
from accumulus.tape.tape import Tape

#: Number of recorded iterations. The second is compared with the third, then the third with the fourth. More take
#: longer to record for a message, fewer may compare only the irregular first iterations.
TURNS: Final = 4
#: Maximum number of compared operations of an iteration: more delay the message, fewer leave long iterations without an
#: explanation.
MOST_COMPARED: Final = 200_000


#: Number of calls of Python functions until these iterations have to be found: more make a message take as long as the
#: recording, fewer leave long iterations without an explanation.
MOST_CALLS: Final = 200_000


class _EnoughError(BaseException):
    """Signal that enough iterations are recorded; not an `Exception`, so that the user's code does not catch it."""


class Loop(NamedTuple):
    """A loop in the source of a function."""

    file: str
    node: ast.For
    function: ast.AST


def explained(
    record: Callable[[Program], Any], program: Callable[[], Program], file: str, line: int, function: str
) -> str:
    """Return the reason why a loop has no repeating body, and the code to write instead; empty if none is found.

    Args:
        record: function that records the user's function on a program.
        program: function that makes an empty program for straight-line code.
        file: file of the line.
        line: number of the line. The outermost loop around it with enough iterations is examined.
        function: name of the function that has the line.
    """
    for loop in _loops_around(file, line):
        why = _difference(record, program(), loop, function)
        if why is not None:
            return f"{why}\nAs one body:\n{_written(loop)}"
    return ""


def _loops_around(file: str, line: int) -> list[Loop]:
    """Return the loops around a line in its function, the outermost first."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return []
    loops: list[Loop] = []
    waiting: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
    while waiting:
        node, function = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            function = node
        if isinstance(node, ast.For) and node.lineno < line <= (node.end_lineno or 0):
            loops.append(Loop(file, node, function))
        waiting += [(child, function) for child in ast.iter_child_nodes(node)]
    innermost = max((loop.function for loop in loops), key=lambda each: getattr(each, "lineno", 0), default=None)
    return sorted((loop for loop in loops if loop.function is innermost), key=lambda loop: loop.node.lineno)


# Differences ----------------------------------------------------------------------------------------------------------


class _Watching:
    """A trace function that records the number of operations at the begin of each iteration, and their source lines."""

    def __init__(self, tape: Tape, loop: Loop, function: str) -> None:
        # a comprehension within the loop is a function of its own in some versions of Python
        self._tape, self._loop, self._function = tape, loop, getattr(loop.function, "name", function)
        self._calls = 0
        self.begins: list[int] = []
        self.made: Tape | None = None
        #: Number of operations before each executed line, and the line.
        self._counts: list[int] = []
        self._lines: list[tuple[str, int]] = []

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Follow the lines of the user's functions; the trace function for `sys.settrace`."""
        if event == "call":
            self._calls += 1
            if self._calls > MOST_CALLS:
                raise _EnoughError
            return None if in_library(frame) else self
        if event == "line":
            count, location = len(self._tape), (frame.f_code.co_filename, frame.f_lineno)
            self._counts.append(count)
            self._lines.append(location)
            is_loop = location == (self._loop.file, self._loop.node.lineno)
            if is_loop and frame.f_code.co_name == self._function:
                self.begins.append(count)
                if len(self.begins) > TURNS:
                    self.made = self._tape.copy()  # the tape ends with the recording
                    raise _EnoughError
        return self

    def line(self, operation: int) -> tuple[str, int]:
        """Return the line that an operation comes from."""
        return self._lines[max(bisect_right(self._counts, operation) - 1, 0)]


def _difference(record: Callable[[Program], Any], program: Program, loop: Loop, function: str) -> str | None:
    """Describe the first difference between iterations; return None if there are too few of them."""
    tape = program.scalars
    assert tape is not None
    watching, before = _Watching(tape, loop, function), sys.gettrace()
    sys.settrace(watching)
    try:
        record(program)
    except (_EnoughError, Exception):
        pass
    finally:
        sys.settrace(before)
    made = watching.made
    if made is None:
        return None
    for turn in range(1, TURNS - 1):
        first, second, end = watching.begins[turn : turn + 3]
        if end - first > MOST_COMPARED:
            continue
        difference = _first_difference(made, first, second, end)
        if difference is not None:
            position, description = difference
            file, line = watching.line(min(position, end - 1))
            where = f"{file}, line {line} ({linecache.getline(file, line).strip():.100})"
            turns = f"Turns {turn + 1} and {turn + 2} of the loop at line {loop.node.lineno}"
            return f"{turns} differ first at {where}: {description}."
    return f"Turns 2 to {TURNS} of the loop at line {loop.node.lineno} do the same: others differ."


def _first_difference(tape: Tape, first: int, second: int, end: int) -> tuple[int, str] | None:
    """Return the first operation that differs between two iterations, and the difference; None if there is none."""
    for k in range(max(second - first, end - second)):
        one, other = first + k, second + k
        if one >= second:
            return other, f"the turn goes on with {OPERATIONS[tape.codes[other]].name}, where the one before has ended"
        if other >= end:
            return end, f"the turn ends where the one before goes on with {OPERATIONS[tape.codes[one]].name}"
        names = [OPERATIONS[tape.codes[each]].name for each in (one, other)]
        if names[0] != names[1]:
            return other, f"{names[1]} instead of {names[0]}"
        for a, b in zip(tape.arguments(one), tape.arguments(other), strict=True):
            ways = _way(a, first), _way(b, second)
            if ways[0] != ways[1]:
                return other, f"{names[1]} takes {ways[1]} instead of {ways[0]}"
    return None


def _way(reference: int, begin: int) -> str:
    """Describe the source of an operand: a constant, an operation of the same iteration, or an earlier value."""
    if reference < 0:
        return "a constant"
    return (
        f"the value of operation {reference - begin + 1} of the turn"
        if reference >= begin
        else ("a value from before the turn")
    )


# Suggested replacements -----------------------------------------------------------------------------------------------


def _written(loop: Loop) -> str:
    """Return the source of the loop as `acc.scan`, or as `acc.map` if iterations share no state."""
    node = loop.node
    appended = _appended(node.body)
    lists = [call.func.value for call in appended]  # type: ignore[attr-defined]
    used = {
        each.id
        for statement in node.body
        for each in ast.walk(statement)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each not in lists
    }
    stored = assigned_in(node.body) | _changed(node.body) | {each.id for each in lists if each.id in used}
    targets = assigned_in([node.target])
    after = {
        each.id
        for each in ast.walk(loop.function)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and each.lineno > (node.end_lineno or 0)
    }
    carried = sorted(name for name in stored - targets if name in after or name in _read_first(node.body))
    parts = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    item, values = _together([ast.unparse(element) for element in parts]), _values(node.iter)
    results = [call for call, each in zip(appended, lists, strict=True) if each.id not in carried]
    names = [each.id for each in lists if each.id not in carried]
    made = _together([ast.unparse(call.args[0]) for call in results]) or "None"
    source = f"  # arrays of what {ast.unparse(node.iter)} has, a row for each turn" if values == "…" else ""
    if not carried:
        return (
            f"    def turn({item}):\n        ...\n        return {made if results else '…'}\n"
            f"    {_together(names) or 'results'} = acc.map(turn, {values}){source}"
        )
    state = _together(carried)
    handed = _closed(state)
    return (
        f"    def turn(state, item):\n        {handed}, {_closed(item)} = state, item\n        ...\n"
        f"        return {handed}, {_closed(made)}\n"
        f"    {handed}, {_together(names) or '_'} = acc.scan(turn, {handed}, {values}){source}"
    )


def _closed(names: str) -> str:
    """Return a list of names, in parentheses if there are several."""
    return f"({names})" if "," in names else names


def _together(names: Sequence[str]) -> str:
    return ", ".join(names)


def _values(node: ast.expr) -> str:
    """Return the source of the values of a loop, as `acc.scan` and `acc.map` take them; "…" if unknown."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        is_plain = all(isinstance(each, ast.Name | ast.Attribute | ast.Subscript) for each in node.args)
        arguments = [ast.unparse(each) for each in node.args]
        if node.func.id == "range":
            return f"np.arange({_together(arguments)})"
        if node.func.id == "zip" and is_plain:
            return f"({_together(arguments)})"
        if node.func.id == "enumerate" and is_plain and len(arguments) == 1:
            return f"(np.arange(len({arguments[0]})), {arguments[0]})"
    if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return ast.unparse(node)
    return "…"


def _changed(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names of variables whose entries are assigned."""
    names = set()
    for statement in body:
        for node in ast.walk(statement):
            if (
                isinstance(node, ast.Subscript)
                and not isinstance(node.ctx, ast.Load)
                and isinstance(node.value, ast.Name)
            ):
                names.add(node.value.id)
    return names


def _appended(body: Sequence[ast.stmt]) -> list[ast.Call]:
    """Return calls that append to a list."""
    return [
        node
        for statement in body
        for node in ast.walk(statement)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "append"
        and isinstance(node.func.value, ast.Name)
        and len(node.args) == 1
    ]


def _read_first(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that an iteration reads before it assigns them."""
    read_first: set[str] = set()
    assigned: set[str] = set()

    def follow(statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            parts: list[ast.AST] = []
            inside: list[ast.stmt] = []
            if isinstance(statement, ast.For):
                parts, inside = [statement.iter, statement.target], [*statement.body, *statement.orelse]
            elif isinstance(statement, ast.If | ast.While):
                parts, inside = [statement.test], [*statement.body, *statement.orelse]
            for node in parts or [statement]:
                read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
                changed = (n.target for n in ast.walk(node) if isinstance(n, ast.AugAssign))
                read |= {target.id for target in changed if isinstance(target, ast.Name)}
                read_first.update(read - assigned)
                assigned.update(assigned_in([node]))
            follow(inside)

    follow(body)
    return read_first
