"""Text from elsewhere, where people and programs read it: names in files, paths, messages.

A name may hold anything: sequences that a terminal obeys, marks that turn the direction of writing, line breaks, half
of a surrogate pair. Wherever one is printed, or becomes part of other text, it goes through here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from html import escape
from itertools import count
from typing import Final

#: Marks behind a name that is there already; beyond, a number is shorter.
_PRIMES: Final = 3


def printable(text: str, keep: str = "") -> str:
    r"""Return the text with everything that cannot be seen spelled out, as `repr` spells it.

    Args:
        text: text to print.
        keep: characters that stay as they are all the same.

    >>> print(printable("\x1b[31mred, \u202eturned, \ud800"), printable("two\nlines", keep="\n"))
    \x1b[31mred, \u202eturned, \ud800 two
    lines
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def fresh(name: str, taken: Container[object], begun: dict[str, int]) -> str:
    """Return the name with primes behind it so that it is not taken; with a prime and a number once that is shorter.

    Args:
        name: name to make unique.
        taken: names that are in use.
        begun: where the search for a number goes on, by name; so that many of one name take linear time.

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
# Tables and texts as HTML, for notebooks. All of it goes through `escaped`: nothing in a name is taken for a tag.
#
# Styles are few, and written at the elements: colours and fonts are those of the notebook.

_CELL: Final = "padding: 1px 0.9em 1px 0; vertical-align: top; background: none"


def some_of(names: Iterable[str]) -> str:
    """Return the first five of some names in a row, and how many more there are.

    >>> some_of("abcdefg")
    'a, b, c, d, e and 2 more'
    """
    listed = [*names]
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")


def escaped(text: str) -> str:
    r"""Return the text as HTML shows it, with invisible characters spelled out, and line breaks kept.

    >>> print(escaped("<b>&\x1b"), escaped("two\nlines"))
    &lt;b&gt;&amp;\x1b two<br>lines
    """
    return escape(printable(text, keep="\n")).replace("\n", "<br>")


def stacked(*parts: str) -> str:
    """Return parts, one below the other."""
    return f"<div>{''.join(parts)}</div>"


def paragraph(text: str, *, bold: bool = False) -> str:
    """Return a line of text.

    >>> paragraph("a < b")
    '<p style="margin: 0.4em 0">a &lt; b</p>'
    """
    words = f"<b>{escaped(text)}</b>" if bold else escaped(text)
    return f'<p style="margin: 0.4em 0">{words}</p>'


def html_table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, marked: int | None = None) -> str:
    """Return a table whose first column holds names and whose other columns hold numbers.

    Args:
        headings: of the columns; none for a table without a head.
        rows: one text for each column.
        marked: the number of the row to set off.
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
    """Return names and texts in two columns, without a head.

    >>> "<th" in facts([("method", "vertex")]), "<td" in facts([("method", "vertex")])
    (True, True)
    """
    rows = [f"<tr>{_cells('th', [name])}{_cells('td', [words])}</tr>" for name, words in pairs]
    return _table(["<tbody>", *rows])


def _cells(tag: str, texts: Iterable[str], *, right: bool = False) -> str:
    """Return cells of a row: names to the left, numbers to the right."""
    return "".join(
        f'<{tag} style="{_CELL}; text-align: {"right" if right and k else "left"}">{escaped(text)}</{tag}>'
        for k, text in enumerate(texts)
    )


def _table(lines: Sequence[str]) -> str:
    return f'<table style="border-collapse: collapse; margin: 0.4em 0">{"".join(lines)}</tbody></table>'
