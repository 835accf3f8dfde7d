"""``accumulus build``: a derivative as C, as a shared library, or as a Python package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from accumulus.cli.application import app, note, reported
from accumulus.cli.option_table import OF_DERIVATIVES, OPTIONS, beyond_searches, with_options
from accumulus.errors import ArgumentError, unknown_name

__all__ = ["build"]

#: What is built.
FORMS: Final = ("c", "library", "wheel")
LAYOUTS: Final = ("plain", "casadi")


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
    name: Annotated[
        str | None,
        typer.Option(help="Of the function and the package; by default that of the function.", show_default=False),
    ] = None,
    package_version: Annotated[str, typer.Option(metavar="VERSION", help="Of the package.")] = "0.1.0",
    layout: Annotated[
        str,
        typer.Option(help="Of C and libraries: plain, or casadi, functions that casadi.external and nlpsol load."),
    ] = "plain",
    constraints: Annotated[
        str | None,
        typer.Option(
            metavar="FUNCTION",
            help="With --layout casadi: of the same file; a nonlinear program is built.",
            show_default=False,
        ),
    ] = None,
    native: Annotated[bool, typer.Option(help="Use all instructions of this processor; others may lack them.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", file_okay=False, help="Folder to write to.")] = Path("."),
    **options: Any,
) -> None:
    """Ship a derivative: as C source with a header, as a shared library, or as a wheel that needs NumPy alone."""
    from accumulus.cli.derivatives import as_given, load_derivative, parameters_of
    from accumulus.cli.functions import load_function, user_code
    from accumulus.shipping.c_projects import CProject, check_package_name

    if target not in FORMS:
        raise unknown_name("target", target, FORMS)
    if layout not in LAYOUTS:
        raise unknown_name("layout", layout, LAYOUTS)
    if layout == "casadi" and target == "wheel":
        raise ArgumentError("--layout casadi is for C and libraries; expected --target c or --target library")
    if constraints is not None and layout != "casadi":
        raise ArgumentError("--constraints are given for a plain layout; expected --layout casadi")
    if layout == "casadi" and (wrong := [name for name in beyond_searches(options) if name in OF_DERIVATIVES]):
        raise ArgumentError(
            f"--{wrong[0]} is given for --layout casadi, whose derivatives are those that CasADi asks for; leave it out"
        )
    if not re.fullmatch(r"\d+(\.\d+)*((a|b|rc|\.dev|\.post)\d+)?", package_version):
        raise ArgumentError(f"--package-version is {package_version!r}; expected numbers with dots, such as 1.0.2")
    chosen = check_package_name(name or re.sub(r"\W", "_", function.rpartition(":")[2]).lower())
    if layout == "casadi":
        f, shapes, path = load_function(function, shape or [])
        given = as_given({name: value for name, value in options.items() if name != "derivative"})
        _build_for_casadi(function, f, shapes, path, constraints, chosen, target, output, native, given)
        return
    made, examples, path = load_derivative(function, shape or [], {**options, "target": "numpy"}, every=False)
    with user_code(path):
        program, numbers = made.prepared(*examples)
    names = parameters_of(made, options["derivative"], len(numbers), len(shape or []))
    project = CProject.of(program, chosen, names)
    if target == "wheel":
        from accumulus.shipping.wheels import write_wheel

        written = [write_wheel(project, output, version=package_version, native=native)]
    else:
        written = project.write(output)
        if target == "library":
            written.append(output / f"lib{chosen}.so")
            project.library(written[-1], native=native)
    for each in written:
        note(f"wrote {each}")


def _build_for_casadi(
    function: str,
    f: Any,
    shapes: list[tuple[int, ...]],
    path: Path,
    constraints: str | None,
    name: str,
    target: str,
    output: Path,
    native: bool,
    options: dict[str, Any],
) -> None:
    """Write C that CasADi loads: the function with its Jacobian, or a nonlinear program."""
    import numpy as np

    from accumulus.api.casadi_source import function_source, nlp_source
    from accumulus.cli.functions import load_function, user_code
    from accumulus.shipping.c_projects import compiled_library

    examples = [np.ones(sizes)[()] for sizes in shapes]
    if constraints is None:
        with user_code(path):
            text = function_source(f, examples, name, **options)
    else:
        if len(examples) not in (1, 2):
            raise ArgumentError(f"{function} takes {len(examples)} arguments; expected variables, and maybe parameters")
        g, _, _ = load_function(f"{path}:{constraints}", ["x".join(map(str, sizes)) or "scalar" for sizes in shapes])
        name = "nlp"
        with user_code(path):
            text = nlp_source(f, g, *examples, **options)
    output.mkdir(parents=True, exist_ok=True)
    source = output / f"{name}.c"
    source.write_text(text, encoding="utf-8")
    note(f"wrote {source}")
    if target == "library":
        library = output / f"lib{name}.so"
        compiled_library(text, library, native=native)
        note(f"wrote {library}")
