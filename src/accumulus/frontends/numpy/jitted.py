"""Functions compiled by Numba, in whose place their Python source runs while a function is recorded.

Numba is not imported for that: if it is not loaded, there are none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from accumulus.frontends.active import ACTIVE

__all__ = ["interpreted"]


@functools.lru_cache(maxsize=256)
def interpreted(dispatcher: Any) -> Callable[..., Any]:
    """A function that runs the source of `dispatcher` in a thread that records, and the compiled code in others."""

    @functools.wraps(dispatcher.py_func)
    def function(*arguments: Any, **keywords: Any) -> Any:
        return (dispatcher if ACTIVE.tape is None else dispatcher.py_func)(*arguments, **keywords)

    vars(function)["py_func"] = dispatcher.py_func
    return function
