"""``accumulus build``: a derivative as C, as a shared library, or as a Python package."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from accumulus.cli.application import app, note, reported
from accumulus.cli.option_table import OPTIONS, with_options
from accumulus.errors import ArgumentError, unknown_name

__all__ = ["build"]

#: What is built.
FORMS: Final = ("c", "library", "wheel")
#: Kinds whose arguments are directions, too, of which the command line has no shapes.
OF_DIRECTIONS: Final = ("jvp", "vjp", "hvp")


@app.command()
@reported
@with_options(*OPTIONS)
def build(
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="file.py:function", show_default=False)],
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="SIZES",
            help="Shape of an argument: 6, 3,3 or 3x3, 'scalar' for a number. Once for each argument of the function.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str, typer.Option(help="c: source and header; library: a shared one, too; wheel: a Python package.")
    ] = "wheel",
    derivative: Annotated[
        str, typer.Option(metavar="KIND", help="What is built: the function of accumulus that makes it.")
    ] = "value_and_jacobian",
    name: Annotated[
        str | None,
        typer.Option(help="Of the function and the package; by default that of the function.", show_default=False),
    ] = None,
    package_version: Annotated[str, typer.Option(metavar="VERSION", help="Of the package.")] = "0.1.0",
    native: Annotated[bool, typer.Option(help="Use all instructions of this processor; others may lack them.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", file_okay=False, help="Folder to write to.")] = Path("."),
    **options: Any,
) -> None:
    """Ship a derivative: as C source with a header, as a shared library, or as a wheel that needs NumPy alone."""
    import numpy as np

    import accumulus
    from accumulus.cli.problem import load_function, user_code
    from accumulus.programs import kinds
    from accumulus.programs.kinds import Kind
    from accumulus.shipping.c_projects import CProject, check_package_name

    if target not in FORMS:
        raise unknown_name("target", target, FORMS)
    known = [row.name for row in vars(kinds).values() if isinstance(row, Kind) and row.name not in OF_DIRECTIONS]
    if derivative not in known:
        raise unknown_name("derivative", derivative, known)
    if not re.fullmatch(r"\d+(\.\d+)*((a|b|rc|\.dev|\.post)\d+)?", package_version):
        raise ArgumentError(f"--package-version is {package_version!r}; expected numbers with dots, such as 1.0.2")
    f, shapes, path = load_function(function, shape or [])
    chosen = check_package_name(name or re.sub(r"\W", "_", function.rpartition(":")[2]).lower())
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    for key in ("argnums", "argnames"):
        if key in given and len(given[key]) == 1:
            (given[key],) = given[key]
    if derivative == "compile":
        given.pop("argnums", None)
    with user_code(path):
        made = getattr(accumulus, derivative)(f, target="numpy", **given)
        program = made.compile(*(np.ones(sizes)[()] for sizes in shapes))
    project = CProject.of(program, chosen)
    if target == "wheel":
        from accumulus.shipping.wheels import write_wheel

        names = list(inspect.signature(f).parameters)
        parameters = [names[k] if k < len(names) else f"x{k}" for k in range(len(shapes))]
        written = [write_wheel(project, output, version=package_version, parameters=parameters, native=native)]
    else:
        written = project.write(output)
        if target == "library":
            written.append(output / f"lib{chosen}.so")
            project.library(written[-1], native=native)
    for each in written:
        note(f"wrote {each}")
