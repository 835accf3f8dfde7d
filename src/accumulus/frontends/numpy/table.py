"""Tables from NumPy's functions to what records them, filled by the modules that implement them.

`FUNCTIONS` has a row for each array function, `PROTOCOLS` one for each way in which NumPy hands a call over; the rows
of universal functions are in `accumulus.frontends.numpy.elementwise`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.frontends.numpy.refusals import check_dtype
from accumulus.tape.tape import Tape

__all__ = ["FUNCTIONS", "PROTOCOLS", "ArrayFunction", "function_name", "implements", "unsupported"]


@dataclass(frozen=True)
class ArrayFunction:
    """How one function of NumPy is recorded.

    `record` takes the tape and the arguments of the NumPy function; what its signature lacks is refused, and so are
    results written elsewhere (`out`), and a type of results (`dtype`) in which NumPy would round.
    `constants` says whether it is called even if nothing depends on the inputs: it hands out views, or changes an
    argument. The others are left to NumPy then.
    """

    function: Callable[..., Any]
    record: Callable[..., Any]
    constants: bool = False

    @cached_property
    def signature(self) -> inspect.Signature:
        """The arguments that can be recorded."""
        return inspect.signature(self.record)

    def __call__(self, tape: Tape, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Record a call."""
        name = function_name(self.function)
        try:
            given = self.signature.bind(tape, *arguments, **keywords).arguments
        except TypeError as error:
            supported = [name for name in self.signature.parameters if name != "tape"]
            raise refuse(f"{name}: {error}. Arguments that can be recorded: {', '.join(supported)}.") from None
        if given.get("out") is not None:
            raise refuse(f"{name}(…, out=…) is not recorded: assign the result, out[...] = ….")
        if not self.constants:
            check_dtype(given.get("dtype"), name)
        return self.record(tape, *arguments, **keywords)


#: Recorded array functions.
FUNCTIONS: Final[dict[Callable[..., Any], ArrayFunction]] = {}
#: What NumPy asks of traced values: "__array_function__", and the ways of calling a universal function: "__call__",
#: "reduce", "accumulate", "outer", "at"; and "array", which makes an array of a scalar.
PROTOCOLS: Final[dict[str, Callable[[Tape, Any, Any, Any], Any]]] = {}


def implements(
    *functions: Callable[..., Any], constants: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated function into the table as what records `functions`."""

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            assert function not in FUNCTIONS, f"{function} has two rows"
            FUNCTIONS[function] = ArrayFunction(function, record, constants)
        return record

    return enter


def function_name(function: Any) -> str:
    """How a user writes `function`.

    >>> function_name(np.linalg.norm)
    'np.linalg.norm'
    """
    module = getattr(function, "__module__", None)
    name = str(getattr(function, "__name__", function))
    if module is None:  # universal functions do not say where they are from
        if getattr(np, name, None) is not function:
            return f"scipy.special.{name}" if hasattr(sys.modules.get("scipy.special"), name) else name
        module = "numpy"
    return f"{module.replace('numpy', 'np', 1)}.{name}"


#: Why some functions cannot be recorded.
_REASONS: Final = {
    name: reason
    for reason, names in {
        "The order of the entries depends on the arguments of the function, and would be fixed for all points. "
        "np.maximum, np.minimum and np.where choose at each point.": (
            "sort argsort argmax argmin lexsort partition argpartition unique searchsorted digitize histogram bincount "
            "median percentile quantile nanmedian nanpercentile nanquantile sort_complex"
        ),
        "Which entries are chosen depends on the function's arguments, and so would the shape. Write "
        "np.where(condition, a, b) for all entries.": (
            "argwhere compress count_nonzero extract flatnonzero nonzero where"
        ),
        "It iterates until it converges. np.linalg.solve, inv, det, norm and matrix_power are recorded; pass what does "
        "not depend on the arguments of the function as a constant.": (
            "eig eigh eigvals eigvalsh svd svdvals pinv lstsq matrix_rank cond roots"
        ),
        "There is no rule for it yet. np.linalg.solve, inv, det, norm and matrix_power are recorded; write the others "
        "with loops over entries, or pass what does not depend on the arguments of the function as a constant.": (
            "qr cholesky slogdet"
        ),
        "Its values are complex, which are not recorded.": "fft ifft rfft irfft fft2 fftn",
    }.items()
    for name in names.split()
}


def unsupported(function: Callable[..., Any]) -> str:
    """Why `function` cannot be recorded, and what can."""
    name = function_name(function)
    reason = _REASONS.get(name.rpartition(".")[2])
    if reason is None:
        reason = "Write it with operators, universal functions and the functions of accumulus.frontends.supported()."
    return f"{name} of values that depend on the function's arguments is not recorded. {reason}"
