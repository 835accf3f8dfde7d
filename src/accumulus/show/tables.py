"""Text forms of numbers, shapes and tables, for reports and the command line.

Rich is imported for the first table, not with the package.

**Notebooks** show Rich's output as HTML with few, plain elements. Rich's own export would be preformatted text; here
tables are HTML tables in the notebook's fonts and colours.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Sequence
from math import floor
from typing import TYPE_CHECKING, Any, Final, Protocol

from accumulus import text as markup
from accumulus.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from accumulus.frontends.recorder import Recording
    from accumulus.options import Options
    from accumulus.programs.kinds import DerivativeKind
    from accumulus.targets.kernel import Kernel


#: Width, in characters, of a report that is not printed to a terminal.
WIDTH: Final = 96
#: Units of time, the largest first.
_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


class Compiled(Protocol):
    """The attributes of a `CompiledProgram` that reports use."""

    name: str
    recording: Recording
    kind: DerivativeKind
    options: Options
    code: Any  # straight-line code or loops, with its tape
    facts: Any  # of the derivation: graph, plans, sizes
    operations: int
    kernel: Kernel
    seconds: dict[str, float]
    from_cache: list[str]
    cut_short: str
    ran: Any  # numbers of calls at one point, and of points of batches

    def blocks(self) -> Any:
        """Return the positions of derivatives by result and argument."""


def amount(value: int) -> str:
    """Return an integer with thousands separated.

    >>> amount(12345)
    '12,345'
    """
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """Return a number with its noun, in singular or plural.

    >>> counted(1, "operation"), counted(2000, "operation")
    ('1 operation', '2,000 operations')
    """
    return f"{amount(value)} {noun}{'' if value == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a time with its unit, to three digits.

    >>> duration(0.0123), duration(75.0), duration(3.21e-9), duration(0.9996)
    ('12.3 ms', '75.0 s', '3.21 ns', '1.00 s')
    """
    unit, name = next(((unit, name) for unit, name in _UNITS if seconds >= 0.9995 * unit), _UNITS[-1])
    value = seconds / unit
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f} {name}"


def change(cost: int, reference: int) -> str:
    """Return the comparison of a cost with a reference as text.

    >>> change(75, 100), change(100, 100), change(110, 100), change(0, 0)
    ('25 % fewer than', 'as many as', '10 % more than', 'as many as')
    """
    if cost == reference:
        return "as many as"
    return f"{percent(abs(cost - reference), max(reference, 1))} {'fewer' if cost < reference else 'more'} than"


def percent(part: float, whole: float) -> str:
    """Return a share as text, halves rounded upward; pages of reports round in the same way.

    >>> percent(1, 8), percent(1, 3), percent(1, 400), percent(0, 3)
    ('13 %', '33 %', '0.3 %', '0 %')
    """
    share = 100 * part / whole
    return f"{floor(share + 0.5)} %" if share >= 1 or not part else f"{share * (1 + 1e-12):.1g} %"


def shape_text(shape: Sequence[int] | None) -> str:
    """Return a shape as text.

    >>> shape_text(()), shape_text((6,)), shape_text((3, 4)), shape_text(None)
    ('number', '6', '3×4', 'passed as it is')
    """
    if shape is None:
        return "passed as it is"
    return "×".join(map(str, shape)) if shape else "number"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, marked: str | None = None) -> Table:
    """Return a table whose first column holds names and whose other columns hold numbers.

    Args:
        headings: headings of the columns.
        rows: rows, with one text for each column.
        marked: name of the highlighted row.
    """
    from rich import box
    from rich.table import Table

    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for position, heading in enumerate(headings):
        result.add_column(heading, justify="right" if position else "left", no_wrap=position > 0)
    for row in rows:
        result.add_row(*map(text, row), style="bold green" if marked is not None and row[0] == marked else None)
    return result


def key_values(pairs: Iterable[tuple[str, str]]) -> Table:
    """Return names and texts as a table of two columns without lines."""
    from rich.table import Table

    result = Table.grid(padding=(0, 3, 0, 0))
    result.add_column(style="bold", no_wrap=True)
    result.add_column()
    for pair in pairs:
        result.add_row(*map(text, pair))
    return result


def text(words: str, style: str = "") -> Text:
    """Return text that Rich prints literally: without its markup, and without control characters."""
    from rich.text import Text

    return Text(printable(words, keep="\n"), style)


def plain_text(renderable: RenderableType, width: int = WIDTH) -> str:
    """Return Rich's output as text without colours, at most `width` characters wide."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=width, color_system=None, force_jupyter=False, legacy_windows=False)
    console.print(renderable)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]  # the StringIO above
    return "\n".join(line.rstrip() for line in lines).strip("\n")


# Output --------------------------------------------------------------------------------------------------------------


def print_out(renderable: RenderableType) -> None:
    """Print to standard output, in colour only on a terminal."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(renderable)
    else:
        print(plain_text(renderable))


def print_json(data: object) -> None:
    """Print data as JSON to standard output."""
    sys.stdout.write(json.dumps(data, indent=1) + "\n")


# Notebooks -----------------------------------------------------------------------------------------------------------


def as_html(renderable: RenderableType) -> str:
    """Return the tables and texts of a Rich report as HTML."""
    return markup.stacked(*_parts(renderable))


def _parts(renderable: RenderableType) -> Iterable[str]:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if isinstance(renderable, Group):
        for child in renderable.renderables:
            yield from _parts(child)
    elif isinstance(renderable, Table):
        yield _table(renderable)
    elif isinstance(renderable, Text):
        yield markup.paragraph(renderable.plain, bold=renderable.style == "bold")
    elif renderable:
        yield markup.paragraph(str(renderable))


def _table(rich_table: Table) -> str:
    """Return a Rich table of this module as HTML."""
    columns = [[str(cell) for cell in column.cells] for column in rich_table.columns]
    rows = list(zip(*columns, strict=True))
    if not rich_table.show_header:
        return markup.facts((name, words) for name, words in rows)
    marked = next((k for k, row in enumerate(rich_table.rows) if row.style), None)
    return markup.html_table([str(column.header) for column in rich_table.columns], rows, marked=marked)


def programs_as_html(title: str, programs: Iterable[Compiled]) -> str:
    """Return an HTML table with a row for each compiled program, without planning or counting anything."""
    rows = [
        (
            ", ".join(map(shape_text, program.recording.argument_shapes)),
            ", ".join(map(shape_text, program.recording.result_shapes)),
            amount(program.operations),
            program.options.target,
            duration(sum(program.seconds.values())),
        )
        for program in programs
    ]
    if not rows:
        return markup.stacked(
            markup.paragraph(title, bold=True),
            markup.paragraph("Nothing is compiled yet: that is done by the first call."),
        )
    headings = ("arguments", "results", "operations", "target", "prepared in")
    return markup.stacked(markup.paragraph(title, bold=True), markup.html_table(headings, rows))
