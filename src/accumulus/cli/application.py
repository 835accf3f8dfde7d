"""The application that commands are added to, and what all of them have in common: errors, exit codes, messages."""

from __future__ import annotations

import functools
import sys
import unicodedata
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, Final, ParamSpec

import typer
from rich.console import Console
from typer.core import TyperGroup

from accumulus.errors import AccumulusError
from accumulus.show.tables import text

__all__ = ["AsJson", "app", "main", "print_note", "reported"]

INTERRUPTED: Final = 130
P = ParamSpec("P")
#: Commands that live elsewhere: the module with their Typer application as `app`, imported when they are asked for.
ELSEWHERE: Final = {"research": "accumulus.theory.research.research_commands"}


class Commands(TyperGroup):
    """All commands; what they are given is text that can be shown."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands."""
        return [*super().list_commands(ctx), *ELSEWHERE]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, None if there is none."""
        if cmd_name not in ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        command = typer.main.get_command(import_module(ELSEWHERE[cmd_name]).app)
        command.invoke = reported(command.invoke)  # type: ignore[method-assign]
        return command

    def main(self, args: Sequence[str] | None = None, *others: Any, **options: Any) -> Any:
        """Run a command; an argument that would drive the terminal is refused, since any message may quote it."""
        given = sys.argv[1:] if args is None else list(args)
        for argument in given:
            if any(unicodedata.category(character) == "Cc" for character in argument):
                print_note(f"error: {argument!r} holds control characters; rename the file", style="red")
                sys.exit(2)
        return super().main(given, *others, **options)


app = typer.Typer(
    name="accumulus",
    cls=Commands,
    help="Plan, compare and emit cheap, verified Jacobians of Python functions.",
    epilog="PROBLEM is a function, file.py:function with one --shape for each argument, or a graph, graph.json.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def main() -> None:
    """Run the command line of this process."""
    app()


def reported(command: Callable[P, None]) -> Callable[P, None]:
    """The command with errors and Ctrl-C turned into messages and exit codes."""

    @functools.wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            command(*arguments, **options)
        except AccumulusError as error:
            print_note(f"error: {error}", style="red")
            raise typer.Exit(1) from None
        except OSError as error:
            print_note(f"error: {error.filename}: {error.strerror or error}", style="red")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            print_note("stopped by Ctrl-C", style="red")
            raise typer.Exit(INTERRUPTED) from None

    return run


def _version(wanted: bool) -> None:
    if wanted:
        print(f"accumulus {version('accumulus')}")
        raise typer.Exit


@app.callback()
def accumulus(
    _: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Plan, compare and emit cheap, verified Jacobians of Python functions."""


def print_note(message: str, style: str | None = None) -> None:
    """Print a line on the error stream."""
    Console(stderr=True, highlight=False).print(text(message), style=style, soft_wrap=True)
