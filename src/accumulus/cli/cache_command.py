"""``accumulus cache``: where the cache is, how much of what is in it, and how to be rid of that."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group

from accumulus.cli.application import AsJson, app, note, reported
from accumulus.show.output import write, write_json
from accumulus.show.tables import amount, table, text

__all__ = ["cache"]


@app.command()
@reported
def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Drop everything that is cached.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say where plans and compiled code are cached, and how large they are."""
    from accumulus.cache import clear as drop
    from accumulus.cache import contents, directory, state

    if clear:
        drop()
    where, how, found = str(directory()), state(), contents()
    if as_json:
        kinds = {kind: {"files": len(sizes), "bytes": sum(sizes)} for kind, sizes in found.items()}
        write_json({"directory": where, "state": how, "kinds": kinds})
        return
    rows = [(kind, amount(len(sizes)), f"{sum(sizes) / 1e6:.1f}") for kind, sizes in found.items()]
    write(Group(text(where, style="bold"), "", table(["cached", "files", "MB"], rows)))
    if how != "usable":
        note(how, style="red")
