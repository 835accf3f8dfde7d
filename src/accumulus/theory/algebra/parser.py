"""Expressions from text, by a hand-written parser that never evaluates anything.

    expression = product {"+" product}
    product    = factor {("*" | "·") factor}
    factor     = name | "(" expression ")"
    name       = letter {letter | digit | "_" | "′" | "'"} ["_{" … "}"] | "`" anything but a backquote "`"

A name written with TeX's index braces is taken without them: e_{10} is e10. A set of expressions is one statement a
line, or several between semicolons; lines that begin with # are skipped:

    s1 = e8*e11 + e9*e12                                 defines a reference
    ∂v1/∂v9 = e1*(e3*e7*e11 + e4*s1) + e2*…              an entry of the Jacobian; d may stand for ∂

Linear in the text; parentheses may be nested as deep as memory allows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

from accumulus.errors import ExpressionError
from accumulus.theory.algebra.expression import Expression, Reference, Symbol, product, total
from accumulus.theory.algebra.names import plain

__all__ = ["Statement", "fail", "parse", "statements"]

_TOKEN: Final = re.compile(r"(?P<space>\s+)|(?P<name>[^\W\d](?:[\w′']*_\{-?\w+\}|[\w′']*)|`[^`\n]+`)|(?P<sign>[*·+()])")
_STATEMENT: Final = re.compile(r"(?:[^\n;`]|`[^`\n]*`|`)+")
_LEFT: Final = re.compile(r"(?:[^=`]|`[^`]*`)*=")
_VERTEX: Final = r"(`[^`]*`|\S.*?)"
_ENTRY: Final = re.compile(rf"\s*[∂d]\s*{_VERTEX}\s*/\s*[∂d]\s*{_VERTEX}\s*=")
_END: Final = "the end"
_HINTS: Final = {
    "-": "there are no differences in sums over paths; a sign is part of a label",
    "−": "there are no differences in sums over paths; a sign is part of a label",
    "/": "there are no quotients in sums over paths",
    "^": "there are no powers in sums over paths: no edge comes twice on a path",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """One line of a set: what is defined, and where in the text its expression stands."""

    #: Name of a reference, root and terminal of an entry, or None where there is an expression only.
    key: str | tuple[str, str] | None
    start: int
    stop: int


def parse(text: str, references: Collection[str] = (), *, start: int = 0, stop: int | None = None) -> Expression:
    """The expression that the text, or its part from `start` to `stop`, stands for.

    Args:
        references: names that are references; all others are symbols.

    Raises:
        ExpressionError: pointing at the character where the text stops being an expression.

    >>> print(parse("e1*(e3*e7*e11 + e4*s1)", references=["s1"]))
    e1*(e3*e7*e11 + e4*s1)
    >>> parse("e1*(e3 + )")
    Traceback (most recent call last):
        ...
    accumulus.errors.ExpressionError: expected a name or '(' here, found ')'
      e1*(e3 + )
               ^
    """
    stop = len(text) if stop is None else stop
    # of every open parenthesis, and of the whole: where it opens, its terms so far, the factors of the last term
    levels: list[tuple[int, list[Expression], list[Expression]]] = [(start, [], [])]
    operand = True
    for position, token in _tokens(text, start, stop):
        opened, terms, factors = levels[-1]
        if operand and token == "(":
            levels.append((position, [], []))
        elif operand:
            if token in ("*", "·", "+", ")", _END):
                fail(text, position, f"expected a name or '(' here, found {_shown(token)}")
            name = token.strip("`") if token[0] == "`" else plain(token)
            factors.append(Reference(name) if name in references else Symbol(name))
            operand = False
        elif token == "+":
            terms.append(product(factors))
            factors.clear()
            operand = True
        elif token in ("*", "·"):
            operand = True
        elif token == ")" and len(levels) > 1:
            levels.pop()
            levels[-1][2].append(total([*terms, product(factors)]))
        elif token == ")":
            fail(text, position, "this ')' closes nothing")
        elif token == _END and len(levels) > 1:
            fail(text, opened, "this '(' is never closed")
        elif token != _END:
            fail(text, position, f"expected '*', '+' or ')' here, found {_shown(token)}; write products as e3*e7")
    _, terms, factors = levels[0]
    return total([*terms, product(factors)])


def statements(text: str) -> Iterator[Statement]:
    """The statements of a set, in order.

    Raises:
        ExpressionError: pointing at a left side that is neither a name nor ∂root/∂terminal.
    """
    for match in _STATEMENT.finditer(text):
        line = match[0]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        left = _LEFT.match(line)
        if left is None:
            yield Statement(None, match.start(), match.end())
            continue
        entry = _ENTRY.fullmatch(left[0])
        key: str | tuple[str, str]
        if entry:
            key = (_bare(entry[1]), _bare(entry[2]))
        else:
            name = left[0][:-1].strip()
            token = _TOKEN.fullmatch(name)
            if token is None or not token["name"]:
                at = match.start() + len(line) - len(line.lstrip())
                fail(text, at, "expected a name, or ∂root/∂terminal, before '='")
            key = _bare(name)
        yield Statement(key, match.start() + left.end(), match.end())


def fail(text: str, position: int, message: str) -> NoReturn:
    """Raise ExpressionError with the line of the text and a caret under the position."""
    first = text.rfind("\n", 0, position) + 1
    last = text.find("\n", position)
    line = text[first : len(text) if last < 0 else last]
    column = position - first
    begin = max(0, column - 60)
    shown = line[begin : column + 60].replace("\t", " ")
    before, after = "…" if begin else "", "…" if column + 60 < len(line) else ""
    where = f" (line {text.count(chr(10), 0, position) + 1})" if "\n" in text.strip() else ""
    caret = " " * (len(before) + column - begin) + "^"
    raise ExpressionError(f"{message}{where}\n  {before}{shown}{after}\n  {caret}")


def _tokens(text: str, start: int, stop: int) -> Iterator[tuple[int, str]]:
    position = start
    while position < stop:
        match = _TOKEN.match(text, position, stop)
        if match is None:
            character = text[position]
            hint = _HINTS.get(character, "a name begins with a letter; other names stand in `backquotes`")
            fail(text, position, f"{character!r} is not part of an expression: {hint}")
        if not match["space"]:
            yield position, match[0]
        position = match.end()
    yield len(text[:stop].rstrip()) if text[start:stop].strip() else stop, _END


def _bare(name: str) -> str:
    return name[1:-1] if name[0] == name[-1] == "`" and len(name) > 2 else plain(name.strip("()"))


def _shown(token: str) -> str:
    return "the end of the expression" if token == _END else repr(token)
