"""Reports, derivatives and programs as notebooks show them: what Rich prints, as HTML of few and plain elements.

Rich's own export is text in columns; here tables are tables, which a notebook sets in its own fonts and colours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from accumulus.markup import block, facts, paragraph, table
from accumulus.show.tables import amount, duration, product_of

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from accumulus.programs.program import Program

__all__ = ["as_html", "programs_as_html"]


def as_html(renderable: RenderableType) -> str:
    """What a report hands to Rich, as HTML."""
    return block(*_parts(renderable))


def _parts(renderable: RenderableType) -> Iterable[str]:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    if isinstance(renderable, Group):
        for part in renderable.renderables:
            yield from _parts(part)
    elif isinstance(renderable, Table):
        yield _table(renderable)
    elif isinstance(renderable, Text):
        yield paragraph(renderable.plain, bold=renderable.style == "bold")
    elif renderable:
        yield paragraph(str(renderable))


def _table(made: Table) -> str:
    """A table of `accumulus.show.tables`."""
    columns = [[str(cell) for cell in column.cells] for column in made.columns]
    rows = list(zip(*columns, strict=True))
    if not made.show_header:
        return facts((name, words) for name, words in rows)
    marked = next((k for k, row in enumerate(made.rows) if row.style), None)
    return table([str(column.header) for column in made.columns], rows, marked=marked)


def programs_as_html(title: str, programs: Iterable[Program]) -> str:
    """What was compiled, a row for each program; nothing is planned or counted for it."""
    rows = [
        (
            ", ".join(map(product_of, program.recording.argument_shapes)),
            ", ".join(map(product_of, program.recording.result_shapes)),
            amount(program.operations),
            program.options.target,
            duration(sum(program.seconds.values())),
        )
        for program in programs
    ]
    if not rows:
        return block(paragraph(title, bold=True), paragraph("Nothing is compiled yet: that is done by the first call."))
    headings = ("arguments", "results", "operations", "target", "prepared in")
    return block(paragraph(title, bold=True), table(headings, rows))
