"""``accumulus weights``: what each operation costs in time on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group

from accumulus.cli.commands import AsJson, _note, app, reported
from accumulus.show.output import write, write_json
from accumulus.show.tables import amount, table, text

if TYPE_CHECKING:
    from rich.table import Table

    from accumulus.tape.weights import Weights

__all__ = ["weights", "weights_table"]


@app.command()
@reported
def weights(
    again: Annotated[bool, typer.Option("--again", help="Measure, even if that has been done before.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print what each operation costs on this machine, and measure it first if that has not been done yet."""
    from accumulus.tape.weights import kept
    from accumulus.targets.llvm.measure import measured_weights

    if again or kept() is None:
        _note("measuring; this takes a few seconds, once on this machine")
    found = measured_weights(again)
    if as_json:
        write_json(found.to_dict())
    else:
        fused = "is one fused instruction" if found.fused else "are two instructions: there is no fused one here"
        head = text(f"Weights of operations, {found.source}: {found.machine}", style="bold")
        write(Group(head, "", weights_table(found), "", text(f"A product and the sum that it goes into {fused}.")))


def weights_table(found: Weights) -> Table:
    """The weights, the cheapest operations first; pairs among them."""
    rows = {name.replace("_", " "): weight for name, weight in found.operations.items() if weight}
    if found.fused:
        rows["multiply and add"] = found.fma
    rows["sin and cos"] = found.sincos
    ordered = sorted(rows.items(), key=lambda item: item[1])
    return table(
        ["operation", "ps a point", "additions"],
        [(name, amount(weight), f"{found.relative(weight):.1f}") for name, weight in ordered],
    )
