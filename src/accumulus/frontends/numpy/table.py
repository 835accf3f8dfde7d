"""Tables of the functions that record NumPy's functions, filled by the modules that implement them.

`FUNCTIONS` has a row for each array function, and `PROTOCOLS` one for each way in which NumPy dispatches a call. Rows
of universal functions are in `accumulus.frontends.numpy.elementwise`. `BORROWED` has functions and methods of other
libraries: `accumulus.frontends.scipy` registers SciPy's, `mathematics` registers `math`, and `complex_functions`
registers `cmath`. To add a function, write its recorder, which takes the tape and the arguments of the original, under
the decorator `borrows`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np

from accumulus.frontends.active import refuse
from accumulus.tape.tape import Tape


def check_dtype(dtype: Any, operation: str) -> None:
    """Refuse data types in which NumPy would round traced values: all but float64.

    Raises:
        TraceError: for such a type.
    """
    if dtype is not None and np.dtype(dtype) != np.float64:
        raise refuse(
            f"{operation} is called with dtype={np.dtype(dtype)}: values that depend on the function's arguments "
            'are recorded as float64, and are not rounded. Leave dtype out; dtype="float32" of acc.jacobian '
            "computes everything in single precision; np.floor, np.trunc and np.rint round."
        )


@dataclass(frozen=True)
class ArrayFunction:
    """Recorder of one function of NumPy.

    `record` takes the tape and the arguments of the NumPy function. Arguments that are missing from its signature are
    refused, and so are results written elsewhere (`out`) and data types (`dtype`) in which NumPy would round.
    `constants` is True if it is also called without traced arguments, since it returns views or changes an argument;
    other calls on constants are left to NumPy. A recorder marked by `by_name` takes its arguments by the names of the
    original.
    """

    function: Callable[..., Any]
    record: Callable[..., Any]
    constants: bool = False

    @functools.cached_property
    def signature(self) -> inspect.Signature:
        """Signature of the arguments that can be recorded."""
        return inspect.signature(self.record)

    @functools.cached_property
    def original(self) -> inspect.Signature | None:
        """Signature of the original, if arguments are passed by name; else None."""
        return inspect.signature(self.function) if self.record in _BY_NAME else None

    @functools.cached_property
    def _known(self) -> set[tuple[Any, ...]]:
        """Numbers of positional arguments, and names of others, of calls that were recorded as they are."""
        return set()

    def __call__(self, tape: Tape, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Record a call.

        Raises:
            TraceError: for arguments that cannot be recorded.
        """
        form = len(arguments), *keywords
        if form in self._known:
            return self.record(tape, *arguments, **keywords)
        name = function_name(self.function)
        try:
            if self.original is None:
                bound = self.signature.bind(tape, *arguments, **keywords).arguments
            else:
                bound = self.original.bind(*arguments, **keywords).arguments
                arguments, keywords = (), {name: x for name, x in bound.items() if name not in PASSED_OVER}
                if keywords.keys() - self.signature.parameters.keys():
                    self.signature.bind(tape, **keywords)
        except TypeError as error:
            names = (self.original or self.signature).parameters
            supported = [each for each in names if each in {*self.signature.parameters, *PASSED_OVER} - {"tape"}]
            raise refuse(f"{name}: {error}. Arguments that can be recorded: {', '.join(supported)}.") from None
        if bound.get("out") is not None:
            raise refuse(f"{name}(…, out=…) is not recorded: assign the result, out[...] = ….")
        if not self.constants:
            check_dtype(bound.get("dtype"), name)
        if self.original is None and not bound.keys() & {"out", "dtype"}:
            self._known.add(form)
        return self.record(tape, *arguments, **keywords)


#: Arguments that do not change values, except for `out`, which is refused.
PASSED_OVER: Final = frozenset(
    (
        *("check_finite", "driver", "dtype", "lapack_driver", "lwork", "out", "overwrite_a", "overwrite_ab"),
        *("overwrite_b", "overwrite_input", "overwrite_x", "workers"),
    )
)
_BY_NAME: Final[set[Callable[..., Any]]] = set()


def by_name(record: Callable[..., Any]) -> Callable[..., Any]:
    """Pass arguments to the decorated recorder by the original's names, without those in `PASSED_OVER`."""
    _BY_NAME.add(record)
    return record


#: Recorders of functions that take functions. These may hold traced values even if no argument is traced; a recorder
#: returns `NotImplemented` if they hold none.
CALLING: Final[set[Callable[..., Any]]] = set()
#: Recorded array functions.
FUNCTIONS: Final[dict[Callable[..., Any], ArrayFunction]] = {}
#: Recorders for complex arguments; without an entry the row in `FUNCTIONS` applies.
COMPLEX_FUNCTIONS: Final[dict[Callable[..., Any], Callable[..., Any]]] = {}
#: Functions and methods of other libraries: module → name in it → recorder. A recorder takes the tape, then the
#: arguments of the original, beginning with the object for a method. A row is resolved after the user has loaded the
#: module.
BORROWED: Final[dict[str, dict[str, Callable[..., Any]]]] = {}
#: Compiled classes of other libraries, whose methods cannot be replaced: module and name → function from an object to
#: its stand-in.
OBJECTS: Final[dict[tuple[str, str], Callable[[Any], Any]]] = {}
#: Names of functions in `BORROWED` that are refused with their own message.
REFUSED: Final[set[str]] = set()
#: Libraries whose functions are recorded like NumPy's → package that registers the functions, imported after the
#: library is loaded.
_ROWS_OF: Final = {"scipy": "accumulus.frontends.scipy"}
#: Functions for NumPy's protocols on traced values: "__array_function__"; the methods of universal functions
#: "__call__", "reduce", "accumulate", "outer" and "at"; and "array", which converts a scalar to an array. Names for
#: complex numbers begin with "complex".
PROTOCOLS: Final[dict[str, Callable[[Tape, Any, Any, Any], Any]]] = {}


def implements(
    *functions: Callable[..., Any], constants: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the recorder of `functions`."""

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        for function in functions:
            assert function not in FUNCTIONS, f"{function} has two rows"
            FUNCTIONS[function] = ArrayFunction(function, record, constants)
        return record

    return enter


def implements_complex(*functions: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the recorder of `functions` for complex arguments."""

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        record.__qualname__ = function_name(functions[0])  # the name in Python's own errors
        COMPLEX_FUNCTIONS.update(dict.fromkeys(functions, record))
        return record

    return enter


def borrows(module: str, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the recorder of ``module.name`` for each name.

    Args:
        module: public name of the module, such as "scipy.special"; it need not be loaded.
        names: names of functions ("logsumexp"), or of methods with their class ("PPoly.__call__") or with an object of
            the class ("norm.pdf"). Names that the installed SciPy lacks are ignored.
    """

    def enter(record: Callable[..., Any]) -> Callable[..., Any]:
        rows = BORROWED.setdefault(module, {})
        for name in names:
            assert name not in rows, f"{module}.{name} has two rows"
            rows[name] = record
        return record

    return enter


def refuses(module: str, reason: str, *names: str) -> None:
    """Register functions that are not recorded, with the reason that follows "… is not recorded: "."""
    for name in names:
        full = f"{module}.{name}"
        REFUSED.add(full)
        BORROWED.setdefault(module, {})[name] = functools.partial(_refuse, full, reason)


def _refuse(name: str, reason: str, tape: Any, *arguments: Any, **keywords: Any) -> Any:
    raise refuse(f"{name} of values that depend on the function's arguments is not recorded: {reason}")


def load_rows(everything: bool = False) -> None:
    """Import the packages that register functions of loaded libraries, or of all libraries."""
    for library in [library for library in _ROWS_OF if everything or library in sys.modules]:
        import_module(_ROWS_OF.pop(library))


def columns() -> Any:
    """Return the module `columns`, imported by name because it needs pandas."""
    return import_module("accumulus.frontends.numpy.columns")


def function_name(function: Any) -> str:
    """Return the public name of `function`.

    >>> function_name(np.linalg.norm)
    'np.linalg.norm'
    """
    module = getattr(function, "__module__", None)
    name = str(getattr(function, "__qualname__", getattr(function, "__name__", function)))
    if module is None:  # universal functions do not have a module
        if getattr(np, name, None) is not function:
            return f"scipy.special.{name}" if hasattr(sys.modules.get("scipy.special"), name) else name
        module = "numpy"
    public = ".".join(
        "np" if segment == "numpy" else segment for segment in module.split(".") if not segment.startswith("_")
    )
    return f"{public}.{name}"


#: Replacement of a function that is passed to another (`accumulus.frontends.numpy.calling`).
CALLED: Final[list[Callable[[Any], Any]]] = [lambda function: function]
#: Function → reason why it cannot be recorded.
_REASONS: Final = {
    name: reason
    for reason, names in {
        "The order of the entries depends on the arguments of the function, and would be fixed for all points. "
        "np.maximum, np.minimum and np.where choose at each point.": (
            "sort argsort argmax argmin lexsort partition argpartition unique unique_all unique_counts unique_inverse "
            "unique_values searchsorted digitize nanargmax nanargmin sort_complex "
            "union1d intersect1d setdiff1d setxor1d isin"
        ),
        "Which entries are chosen depends on the function's arguments, and so would the shape. Write "
        "np.where(condition, a, b) for all entries.": "argwhere flatnonzero nonzero where",
        "It depends on complex numbers, the eigenvalues of a general matrix. np.linalg.eigh and eigvalsh of symmetric "
        "matrices and svd are recorded.": "eig eigvals",
        "It counts how many values fall into each bin: its derivative is zero almost everywhere, and there is none "
        "where a value is at an edge.": "histogram histogram2d histogramdd histogram_bin_edges bincount",
        "It works on the bits of a number.": (
            "frexp nextafter spacing signbit gcd lcm left_shift right_shift bitwise_left_shift bitwise_right_shift "
            "bitwise_count packbits unpackbits isnat"
        ),
        "It divides with a remainder, or cuts off zeros, by the values of coefficients.": "polydiv trim_zeros",
    }.items()
    for name in names.split()
}


def unsupported(function: Callable[..., Any]) -> str:
    """Return the error message for a function that cannot be recorded, with alternatives."""
    name = function_name(function)
    reason = _REASONS.get(name.rpartition(".")[2])
    if reason is None:
        reason = "Write it with operators, universal functions and the functions of accumulus.frontends.supported()."
    return f"{name} of values that depend on the function's arguments is not recorded. {reason}"
