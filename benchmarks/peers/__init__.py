"""Other ways to the same Jacobian, to check against and to be compared with.

Every module here can make a `Contender` from an `Example`. One that needs a package or program that is not there raises
`NotInstalled`, which the tables show in place of a number.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Layout = Literal["sparse", "dense"]


class NotInstalled(Exception):
    """A peer, or a tool that it needs, is not on this machine."""


@dataclass(frozen=True)
class Contender:
    """One way to compute the Jacobians at fixed points.

    Attributes:
        name: as tables show it.
        run: does the whole job once and writes or returns the result in its own layout; this is what is timed.
        dense: does it once and returns (points, outputs, inputs); this is what is checked.
    """

    name: str
    run: Callable[[], Any]
    dense: Callable[[], NDArray[np.float64]]


def require(package: str) -> Any:
    """The imported package, or `NotInstalled`."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise NotInstalled(f"{package} not installed") from error
