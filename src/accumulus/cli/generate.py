"""``accumulus generate``: seeded graphs to try methods on, as files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from accumulus.cli.application import app, note, reported
from accumulus.errors import ArgumentError
from accumulus.graph.files import save_graph
from accumulus.show.output import write
from accumulus.show.tables import key_values

__all__ = ["generate"]


@app.command()
@reported
def generate(
    name: Annotated[str | None, typer.Argument(help="Of a generator; none lists them.", show_default=False)] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="ARGUMENT=VALUE",
            help="An argument of the generator: width=8, density=0.5, points=20x20, shape=tree. Repeat for others.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same as --set seed=…", show_default=False)] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", dir_okay=False, help="File to write; its end says the form: .json, .graphml."),
    ] = Path("graph.json"),
) -> None:
    """Write a generated graph to a file; same arguments, same graph, on every machine."""
    from accumulus.graph.generators import generators, get

    if name is None:
        write(key_values(generators().items()))
        return
    arguments = dict(_argument(text) for text in settings or [])
    if seed is not None:
        arguments["seed"] = seed
    graph = get(name)(**arguments)
    save_graph(graph, output)
    note(f"wrote {output}: {graph!r}")


def _argument(text: str) -> tuple[str, Any]:
    """Name and value of ``name=value``: a number, several, true, false, or a word."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ArgumentError(f"--set {text}: expected ARGUMENT=VALUE, such as width=8")
    several = value.replace("x", ",").split(",")
    if len(several) > 1 and all(part.isdecimal() for part in several):
        return name, [int(part) for part in several]
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
