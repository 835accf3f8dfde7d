"""Where in the user's code an equation comes from: JAX keeps it with each."""

from __future__ import annotations

import linecache
import os
from pathlib import Path
from typing import Any, Final

import jax

from accumulus.frontends.location import LIBRARIES, PACKAGE_DIRECTORY, Place

__all__ = ["lines_of", "place_of"]

#: Where the code is that is not the user's.
_OURS: Final = (PACKAGE_DIRECTORY, f"{Path(jax.__file__).parent}{os.sep}")


def _frame(equation: Any) -> Any:
    """The innermost frame that is neither JAX's nor of this package."""
    traceback = getattr(getattr(equation, "source_info", None), "traceback", None)
    for frame in () if traceback is None else traceback.frames:
        name = frame.file_name.replace("\\", "/")
        if name.startswith("<") and name != "<stdin>" and not name.startswith("<doctest"):
            continue
        if frame.file_name.startswith(_OURS):
            continue
        if any(f"site-packages/{library}/" in name for library in LIBRARIES):
            continue
        return frame
    return None


def place_of(equation: Any) -> Place | None:
    """The place of an equation; None if JAX does not know it."""
    frame = _frame(equation)
    if frame is None:
        return None
    source = linecache.getline(frame.file_name, frame.line_num).strip()
    return Place(frame.file_name, frame.line_num, frame.function_name, source)


def lines_of(equation: Any) -> frozenset[tuple[str, int]]:
    """File and line of an equation, for reports."""
    frame = _frame(equation)
    return frozenset() if frame is None else frozenset({(frame.file_name, frame.line_num)})
