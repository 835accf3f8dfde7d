"""NumPy's and SciPy's functions and the methods of arrays, each with arguments of odd kinds, traced ones among them.

What comes of a case is what NumPy computes, or NumPy's own error, or a typed error of this library: nothing else.
Cases are numbered; `make fuzz` runs all of them, the tests a tenth.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np
from checking import Outcome

import accumulus as acc
from accumulus.errors import AccumulusError

#: Arguments that are made of x, a vector of three numbers.
ARGUMENTS: Final[dict[str, Callable[[Any], Any]]] = {
    "x": lambda x: x,
    "x[0]": lambda x: x[0],
    "x[:0]": lambda x: x[:0],
    "x[:, None][:, :0]": lambda x: x[:, None][:, :0],
    "np.reshape(x[0], ())": lambda x: np.reshape(x[0], ()),
    "np.outer(x, x) + np.eye(3)": lambda x: np.outer(x, x) + np.eye(3),
    "np.zeros((2, 0, 3)) * x": lambda x: np.zeros((2, 0, 3)) * x,
    "[x[0], x[1]]": lambda x: [x[0], x[1]],
    "[x, x[:2]]": lambda x: [x, x[:2]],
    "(x[0] > 0, x[1] > 0)": lambda x: (x[0] > 0, x[1] > 0),
    "x > 0": lambda x: x > 0,
    "1j * x": lambda x: 1j * x,
    "np.broadcast_to(x[0], (2, 5))": lambda x: np.broadcast_to(x[0], (2, 5)),
    "np.array([x[0], None], object)": lambda x: np.array([x[0], None], object),
    "{'a': x}": lambda x: {"a": x},
}
#: Further ones, and keywords.
OTHERS: Final[dict[str, Any]] = {
    "": None,
    "None": None,
    "'a'": "a",
    "0": 0,
    "-7": -7,
    "2.5": 2.5,
    "(0, 0)": (0, 0),
    "np.ma.masked_array": np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]),
    "np.arange(1, 4)": np.arange(1, 4),
    "x": None,
}
KEYWORDS: Final[tuple[dict[str, Any], ...]] = ({}, {"axis": 5}, {"axis": -1}, {"dtype": np.float32}, {"out": None})
#: Functions that wait, draw, read, write, or are of no numbers.
LEFT_OUT: Final = frozenset(
    """
    array_repr array_str array2string asarray_chkfinite bmat busday_count busday_offset busdaycalendar
    datetime_as_string datetime_data empty empty_like from_dlpack frombuffer fromfile fromfunction fromiter
    fromregex fromstring fromfunction genfromtxt get_include getbufsize geterr geterrcall info is_busday load
    loadtxt memmap printoptions save savetxt savez savez_compressed set_printoptions setbufsize seterr seterrcall
    show_config show_runtime test tofile tolist dump dumps nested_iters nditer errstate get_printoptions
    issubdtype isdtype iterable mintypecode typename sctypes may_share_memory shares_memory item tobytes data
    """.split()  # noqa: SIM905
)
#: Functions whose results are not unique where a matrix is singular.
AMBIGUOUS: Final = frozenset(
    ("np.linalg.matrix_rank", "np.linalg.svd", "np.linalg.qr", "np.linalg.eig", "np.linalg.eigh")
)
SPECIAL: Final = """
    erf erfc gamma gammaln psi beta betaln j0 j1 jv iv kv y0 expit logit xlogy entr exp10 log_ndtr logsumexp
    softmax binom zeta polygamma huber boxcox eval_legendre hyp2f1 wofz ellipk
    gammainc betainc ellipj airy sici voigt_profile lambertw spherical_yn comb hankel1 kelvin eval_jacobi elliprj
    """.split()  # noqa: SIM905


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """Return all functions, by how they are written."""
    from scipy import special

    found: dict[str, Callable[..., Any]] = {}
    for prefix, module in (("np", np), ("np.linalg", np.linalg), ("np.fft", np.fft)):
        for name in sorted(dir(module)):
            value = getattr(module, name)
            if not name.startswith("_") and name not in LEFT_OUT and callable(value) and not isinstance(value, type):
                found[f"{prefix}.{name}"] = value
    for name in SPECIAL:
        found[f"special.{name}"] = getattr(special, name)
    for name in sorted(dir(np.ndarray)):
        if not name.startswith("_") and name not in LEFT_OUT and callable(getattr(np.ndarray, name)):
            found[f".{name}"] = _method(name)
    return found


def _method(name: str) -> Callable[..., Any]:
    return lambda array, *arguments, **keywords: getattr(array, name)(*arguments, **keywords)


def count() -> int:
    """Return the number of cases."""
    return len(functions()) * len(ARGUMENTS) * PER_ARGUMENT


#: Cases of a function and a first argument: it alone, with a keyword, with an ordinary argument, and with odd ones.
PER_ARGUMENT: Final = 4


def check_case(number: int) -> Outcome:
    """Run a case, and say what came of it."""
    rest, turn = divmod(number, PER_ARGUMENT)
    name, first = list(functions())[rest // len(ARGUMENTS)], list(ARGUMENTS)[rest % len(ARGUMENTS)]
    other = ("", "", ("x", "np.arange(1, 4)", "2.5", "0")[rest % 4], list(OTHERS)[rest % len(OTHERS)])[turn]
    keywords = KEYWORDS[1 + rest // len(OTHERS) % (len(KEYWORDS) - 1)] if turn in (1, 3) else {}
    function, second = functions()[name], OTHERS[other]

    def f(x: Any) -> Any:
        further = {"": [], "x": [x]}.get(other, [copy.copy(second)])
        return function(ARGUMENTS[first](x), *further, **keywords)

    source = f"{name}({first}, {other}, {keywords})\n"
    x = np.array([0.5, 1.25, 2.0])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected: Any = None
        error: Exception | None = None
        try:
            expected = f(x.copy())
        except Exception as raised:
            error = raised
        try:
            found = acc.compile(f, target="numpy", time_limit=0.0, effort="fast", cache=False)(x)
        except AccumulusError:
            return Outcome(number, "right", "refused")
        except Exception as raised:
            own = error is not None and isinstance(raised, type(error))
            remark = "NumPy's own error" if own else f"{type(raised).__name__}: {raised}"
            return Outcome(number, "right" if own else "crash", remark, source)
        if error is not None and not isinstance(error, ArithmeticError):
            return Outcome(number, "wrong", f"{found!r}, and NumPy raises {type(error).__name__}: {error}", source)
        same = error is not None or name in AMBIGUOUS or _is_same(found, expected)
        remark = "as NumPy" if same else f"{found!r} instead of {expected!r}"
        return Outcome(number, "right" if same else "wrong", remark, source)


def _is_same(found: Any, expected: Any) -> bool:
    if isinstance(expected, tuple | list):
        if isinstance(found, np.ndarray):
            found = list(found)
        return len(found) == len(expected) and all(map(_is_same, found, expected))
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(_is_same(found[key], expected[key]) for key in expected)
    one, other = np.asarray(found, float), np.asarray(expected, float)
    rtol = 2e-3 if getattr(expected, "dtype", None) == np.float16 else 1e-6  # what is traced is of float64
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=rtol, atol=1e-9, equal_nan=True))
