"""Text from outside, such as names in files, paths and messages, made safe for terminals, messages and HTML.

A name may contain anything: terminal escape sequences, marks that reverse the writing direction, line breaks, lone
surrogates. Every name passes through here before it is printed or becomes part of other text.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape
from itertools import count
from typing import Final

#: Maximum number of primes appended to a name that is taken; beyond it, a number is shorter.
_PRIMES: Final = 3


def printable(text: str, keep: str = "") -> str:
    r"""Return the text with all non-printable characters escaped, as `repr` escapes them.

    Args:
        text: text to print.
        keep: characters that are not escaped.

    >>> print(printable("\x1b[31mred, \u202eturned, \ud800"), printable("two\nlines", keep="\n"))
    \x1b[31mred, \u202eturned, \ud800 two
    lines
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def fresh(name: str, taken: Container[object], begun: dict[str, int]) -> str:
    """Return the name, with primes appended if it is taken; with a prime and a number if that is shorter.

    Args:
        name: name to make unique.
        taken: names that are in use.
        begun: first number to try, by name; it is updated, so that many equal names take linear time.

    >>> [fresh("y", taken, {}) for taken in ({"y"}, {"y", "y′"}, {"y", "y′", "y′′", "y′′′"})]
    ['y′', 'y′′', 'y′4']
    """
    if name not in taken:
        return name
    for primes in range(1, _PRIMES + 1):
        if (primed := name + "′" * primes) not in taken:
            return primed
    for number in count(begun.get(name, _PRIMES + 1)):
        if (numbered := f"{name}′{number}") not in taken:
            begun[name] = number + 1
            return numbered
    raise AssertionError


# HTML ----------------------------------------------------------------------------------------------------------------
#
# Tables and texts as HTML, for notebooks. All text passes through `escaped`, so that names cannot contain tags.
#
# The few styles are inline; the notebook determines colours and fonts.

_CELL: Final = "padding: 1px 0.9em 1px 0; vertical-align: top; background: none"


def some_of(names: Iterable[str]) -> str:
    """Return the first five names, separated by commas, and the number of further ones.

    >>> some_of("abcdefg")
    'a, b, c, d, e and 2 more'
    """
    listed = [*names]
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")


def escaped(text: str) -> str:
    r"""Return the text as HTML, with invisible characters escaped and line breaks kept.

    >>> print(escaped("<b>&\x1b"), escaped("two\nlines"))
    &lt;b&gt;&amp;\x1b two<br>lines
    """
    return escape(printable(text, keep="\n")).replace("\n", "<br>")


def stacked(*parts: str) -> str:
    """Return HTML parts in one block."""
    return f"<div>{''.join(parts)}</div>"


def paragraph(text: str, *, bold: bool = False) -> str:
    """Return a line of text.

    >>> paragraph("a < b")
    '<p style="margin: 0.4em 0">a &lt; b</p>'
    """
    words = f"<b>{escaped(text)}</b>" if bold else escaped(text)
    return f'<p style="margin: 0.4em 0">{words}</p>'


def html_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, marked: int | None = None) -> str:
    """Return an HTML table whose first column holds names and whose other columns hold numbers.

    Args:
        headings: headings of the columns; empty for a table without a head.
        rows: rows, with one text for each column.
        marked: index of the row to set in bold; None for none.
    """
    lines = []
    if headings:
        lines.append(f"<thead><tr>{_cells('th', headings, right=True)}</tr></thead>")
    lines.append("<tbody>")
    for k, row in enumerate(rows):
        style = ' style="font-weight: bold"' if k == marked else ""
        lines.append(f"<tr{style}>{_cells('td', row, right=True)}</tr>")
    return _table(lines)


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names and texts as a table of two columns without a head.

    >>> "<th" in facts([("method", "vertex")]), "<td" in facts([("method", "vertex")])
    (True, True)
    """
    rows = [f"<tr>{_cells('th', [name])}{_cells('td', [words])}</tr>" for name, words in pairs]
    return _table(["<tbody>", *rows])


def _cells(tag: str, texts: Iterable[str], *, right: bool = False) -> str:
    """Return the cells of a row: the first one left-aligned; the others right-aligned if `right` is set."""
    return "".join(
        f'<{tag} style="{_CELL}; text-align: {"right" if right and k else "left"}">{escaped(text)}</{tag}>'
        for k, text in enumerate(texts)
    )


def _table(lines: Sequence[str]) -> str:
    return f'<table style="border-collapse: collapse; margin: 0.4em 0">{"".join(lines)}</tbody></table>'
