"""The Fourier transforms of `scipy.fft`: those of `numpy.fft`, with options that say how they are computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.fourier.functions import TRANSFORMS
from accumulus.tape.tape import Tape

__all__: list[str] = []


def _enter(name: str, transform: Callable[..., Any]) -> None:
    @borrows("scipy.fft", name)
    def record(tape: Tape, x: Any, *arguments: Any, **keywords: Any) -> Any:
        for option in ("overwrite_x", "workers", "plan"):
            keywords.pop(option, None)
        return transform(tape, x, *arguments, **keywords)


for _name, _transform in TRANSFORMS.items():
    _enter(_name, _transform)


@borrows("scipy.fft", "fftshift")
def fftshift(tape: Tape, x: Any, axes: Any = None) -> Any:
    """Move the frequency zero to the middle."""
    return np.fft.fftshift(x, axes)


@borrows("scipy.fft", "ifftshift")
def ifftshift(tape: Tape, x: Any, axes: Any = None) -> Any:
    """Undo `fftshift`."""
    return np.fft.ifftshift(x, axes)
