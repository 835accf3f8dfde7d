"""What a command prints: text or tables for people, plain where nobody looks at a terminal, and JSON for machines."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from accumulus.show.tables import plain_text

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["write", "write_json"]


def write(renderable: RenderableType) -> None:
    """Print to standard output, in colour only on a terminal."""
    if sys.stdout.isatty():
        from rich.console import Console

        Console().print(renderable)
    else:
        print(plain_text(renderable))


def write_json(data: object) -> None:
    """Print as JSON to standard output."""
    sys.stdout.write(json.dumps(data, indent=1) + "\n")
