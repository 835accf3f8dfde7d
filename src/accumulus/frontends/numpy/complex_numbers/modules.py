"""The functions of `cmath`, which take numbers only: those of NumPy do the same for what is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from accumulus.frontends.numpy.borrowed import borrows
from accumulus.frontends.numpy.complex_numbers.values import make_complex
from accumulus.tape.tape import Tape

__all__ = ["CMATH"]

#: Functions of one number, with NumPy's.
CMATH: Final[dict[str, Callable[..., Any]]] = {
    **{name: getattr(np, name) for name in ("exp", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: getattr(np, name) for name in ("isnan", "isinf", "isfinite")},
}


def _enter(name: str, function: Callable[..., Any]) -> None:
    @borrows("cmath", name)
    def record(tape: Tape, z: Any) -> Any:
        return function(z + 0j)


for _name, _function in CMATH.items():
    _enter(_name, _function)


@borrows("cmath", "log")
def log(tape: Tape, z: Any, base: Any = None) -> Any:
    """The logarithm, natural or to a base."""
    natural = np.log(z + 0j)
    return natural if base is None else natural / np.log(base + 0j)


@borrows("cmath", "phase")
def phase(tape: Tape, z: Any) -> Any:
    """The angle to the positive real axis."""
    return np.angle(z)


@borrows("cmath", "polar")
def polar(tape: Tape, z: Any) -> tuple[Any, Any]:
    """Absolute value and angle."""
    return np.absolute(z), np.angle(z)


@borrows("cmath", "rect")
def rect(tape: Tape, r: Any, phi: Any) -> Any:
    """The number with this absolute value and angle."""
    return make_complex(tape, r * np.cos(phi), r * np.sin(phi))


@borrows("cmath", "isclose")
def isclose(tape: Tape, a: Any, b: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> Any:
    """Whether a and b differ by at most a share of the larger one, or by `abs_tol`."""
    return abs(a - b) <= np.maximum(rel_tol * np.maximum(abs(a), abs(b)), abs_tol)
