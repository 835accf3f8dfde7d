"""Expressions as text, as LaTeX, and in SymPy.

Text is what `accumulus.algebra.parser` reads: ``e18*(e3*e7 + e4*e8)*e15``; a name that is not letters, digits,
underscores and primes stands in backquotes. LaTeX writes products by juxtaposition and sets trailing digits as
indices. SymPy gets noncommutative symbols, since the order of factors is the path.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from accumulus.algebra.expression import Expression, Product, Reference, Sum, Symbol, fold
from accumulus.algebra.names import plain
from accumulus.errors import ExpressionError
from accumulus.text import printable

if TYPE_CHECKING:
    import sympy

__all__ = ["latex", "latex_name", "quoted", "text", "to_sympy"]

_NAME: Final = re.compile(r"[^\W\d][\w′']*")
_INDEXED: Final = re.compile(r"([^\W\d_]+)(-?\d+)([′']*)")
_ESCAPED: Final = {
    "\\": r"\backslash{}",
    "^": r"\hat{}",
    "~": r"\sim{}",
    " ": r"\ ",
    **{character: f"\\{character}" for character in "{}_$&#%"},
}


def text(expression: Expression) -> str:
    """The expression as text that `parse` reads back.

    >>> from accumulus.algebra.parser import parse
    >>> text(parse("e18 * (e4*e8 + e3*e7) * e15"))
    'e18*(e3*e7 + e4*e8)*e15'
    """
    return _written(expression, quoted, "*", "({})")


def latex(expression: Expression) -> str:
    """The expression as LaTeX mathematics.

    >>> from accumulus.algebra.parser import parse
    >>> print(latex(parse("e18*(e3*e7 + e4*e8)*e15")))
    e_{18} (e_{3} e_{7} + e_{4} e_{8}) e_{15}
    """
    return _written(expression, latex_name, " ", "({})")


def to_sympy(expression: Expression) -> sympy.Expr:
    """The expression in SymPy, over noncommutative symbols.

    Raises:
        ExpressionError: if SymPy is not installed.
    """
    try:
        import sympy
    except ImportError:
        raise ExpressionError("printing for SymPy needs SymPy: pip install sympy") from None

    def combine(node: Expression, parts: list[sympy.Expr]) -> sympy.Expr:
        if isinstance(node, (Symbol, Reference)):
            return sympy.Symbol(node.name, commutative=False)
        return sympy.Mul(*parts) if isinstance(node, Product) else sympy.Add(*parts)

    return fold(expression, combine)


def quoted(name: str) -> str:
    """The name as it stands in text: in backquotes unless it is letters, digits, underscores and primes.

    Backquotes and line breaks within a name have no spelling; they become quotes and spaces.
    """
    if _NAME.fullmatch(name) and plain(name) == name:
        return name
    return "`" + name.replace("`", "'").replace("\n", " ") + "`"


def latex_name(name: str) -> str:
    r"""A name in LaTeX: trailing digits as an index, several letters upright.

    >>> print(latex_name("e18"), latex_name("v-2"), latex_name("flux_x"))
    e_{18} v_{-2} \mathrm{flux\_x}
    """
    name = printable(name)
    match = _INDEXED.fullmatch(plain(name))
    letters, index, primes = match.groups() if match else (name.rstrip("′'"), "", name[len(name.rstrip("′'")) :])
    escaped = "".join(_ESCAPED.get(c, c) for c in letters)
    base = letters if len(letters) == 1 and letters == escaped else f"\\mathrm{{{escaped}}}"
    return base + (f"_{{{index}}}" if index else "") + "'" * len(primes)


def _written(expression: Expression, name: Callable[[str], str], times: str, parenthesis: str) -> str:
    def combine(node: Expression, parts: list[str]) -> str:
        if isinstance(node, (Symbol, Reference)):
            return name(node.name)
        if isinstance(node, Sum):
            return " + ".join(parts)
        assert isinstance(node, Product)
        factors = zip(node.factors, parts, strict=True)
        return times.join(parenthesis.format(part) if isinstance(factor, Sum) else part for factor, part in factors)

    return fold(expression, combine)
