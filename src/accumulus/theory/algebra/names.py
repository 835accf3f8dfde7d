"""What the edges of a graph are called in expressions, and how names are spelt in text and in LaTeX.

An edge goes by its symbol, without TeX's braces (e_{10} is e10), an edge without a symbol by its number: e1, e2, …
Several edges may share a label, as the copies of a split vertex do in the notes' drawings. The shared label is kept
where a path can still be told by its labels: if no two edges out of one vertex, or no two edges into one vertex, are
called the same, and there are no unit edges, which expressions may leave out. Otherwise the later ones get primes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import count
from typing import Final

from accumulus.graph.graph import DifferentiationGraph, Kind
from accumulus.text import fresh, printable

__all__ = ["edge_names", "fresh_names", "latex_name", "plain", "quoted"]

_NAME: Final = re.compile(r"[^\W\d][\w′']*")
_INDEXED: Final = re.compile(r"([^\W\d_]+)(-?\d+)([′']*)")
_ESCAPED: Final = {
    "\\": r"\backslash{}",
    "^": r"\hat{}",
    "~": r"\sim{}",
    " ": r"\ ",
    **{character: f"\\{character}" for character in "{}_$&#%"},
}
_TEX: Final = re.compile(r"([^\W\d_]+)_(?:\{(-?\w+)\}|(-?\w+))")


def plain(name: object) -> str:
    """A name without TeX's braces.

    >>> plain("e_{10}"), plain("v_{-2}"), plain("s_1"), plain("e18"), plain("a_b_c")
    ('e10', 'v-2', 's1', 'e18', 'a_b_c')
    """
    match = _TEX.fullmatch(str(name))
    if match is None or "_" in (match[2] or match[3]):
        return str(name)
    return match[1] + (match[2] or match[3])


def edge_names(graph: DifferentiationGraph, *, apart: bool = True) -> list[str]:
    """Name of every edge, by number.

    Args:
        apart: whether edges with one label get primes where their paths cannot be told apart.

    >>> edge_names(DifferentiationGraph([("y", "a", "e_{1}"), ("a", "x")]))
    ['e1', 'e2']
    """
    symbols = sorted({symbol for symbol in graph.symbols if symbol})
    plains = Counter(map(plain, symbols))
    short = {symbol: plain(symbol) if plains[plain(symbol)] == 1 else symbol for symbol in symbols}
    taken = set(short.values())
    names: list[str] = []
    begun: dict[str, int] = {}
    for number, symbol in enumerate(graph.symbols):
        names.append(short[symbol] if symbol else fresh(f"e{number + 1}", taken, begun))
    taken.update(names)
    units = bool((graph.kinds == Kind.ONE).any())
    if apart and (units or (_repeats(names, graph.out_edges) and _repeats(names, graph.in_edges))):
        seen: set[str] = set()
        for number, name in enumerate(names):
            if name in seen:
                names[number] = fresh(name, taken, begun)
                taken.add(names[number])
            seen.add(name)
    return names


def fresh_names(letter: str, taken: Container[str]) -> Iterator[str]:
    """letter1, letter2, … without those taken."""
    return (name for name in map(f"{letter}{{}}".format, count(1)) if name not in taken)


def _repeats(names: Sequence[str], groups: Iterable[Sequence[int]]) -> bool:
    return any(len({names[e] for e in group}) < len(group) for group in groups)


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
