"""Walks over all that NumPy's numbers, arrays and functions have, with traced values in each place.

Whatever NumPy accepts is recorded, and the recording compared with it, or it is refused by a `TraceError` that names
the line. The walks make their calls by trial: arguments that NumPy accepts are tried with a traced value in each
position.
"""

from __future__ import annotations

import copy
import types
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from accumulus.errors import MismatchError, TraceError
from accumulus.frontends.record import record

VECTOR, OTHER = np.array([0.5, 0.25, 0.75]), np.array([0.3, 0.2, 0.9])
MATRIX, SQUARE = np.array([[2.0, 0.5], [0.5, 3.0]]), np.array([[1.0, 0.2], [0.1, 1.5]])
MASK = np.array([True, False, True])
#: Names of functions that read or write files, or change settings.
OUTSIDE = """
save savetxt savez savez_compressed show_config show_runtime info source test printoptions set_printoptions
get_include fromfile loadtxt genfromtxt memmap load setbufsize seterr seterrcall set_string_function dump
tofile
"""


def _numbers(result):
    """Return the numbers of a result, in a list."""
    parts = result if isinstance(result, tuple | list) else [result]
    if any(isinstance(part, tuple | list) for part in parts):
        return [number for part in parts for number in _numbers(part)]
    parts = [half for part in parts for half in ((part.real, part.imag) if np.iscomplexobj(part) else (part,))]
    return [part for part in parts if isinstance(part, np.ndarray | np.generic | float | int)]


def outcome(function, x):
    """Return "recorded", "refused", "differs" or the name of an untyped error; None if NumPy does not take the call."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = _numbers(function(x.copy()))
    except Exception:
        return None
    if not expected or any(np.asarray(part).dtype.kind not in "fiub" for part in expected):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recording = record(lambda x: _numbers(function(x.copy())), [x], check=True, decides=True)
    except MismatchError:
        return "differs"
    except TraceError as error:
        return "refused" if Path(__file__).name in str(error) else f"refused without a line: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "recorded" if len(recording.result_shapes) == len(expected) else "differs"


def walked(cases) -> tuple[Counter[str], dict[str, str]]:
    """Return counts of outcomes, and the outcomes other than "recorded" by label."""
    found = {label: result for label, function, x in cases if (result := outcome(function, x)) is not None}
    return Counter(found.values()), {label: result for label, result in found.items() if result != "recorded"}


def names_of(others: dict[str, str], kind: str) -> set[str]:
    """Return the names of functions and methods with an outcome, from labels such as "sum(1)"."""
    return {label.partition("(")[0] for label, result in others.items() if result == kind}


# Numbers --------------------------------------------------------------------------------------------------------------

#: Special methods that Python calls for operators and builtins.
SPECIAL = """
__abs__ __bool__ __contains__ __copy__ __deepcopy__ __divmod__ __format__ __getitem__ __imul__ __int__
__iadd__ __len__ __matmul__ __neg__ __pos__ __pow__ __rdivmod__ __rpow__ __round__ __rsub__ __setitem__
__trunc__ __floor__ __ceil__
"""
#: Arguments that are tried for each method.
ARGUMENTS = (
    *((), (0,), (1,), (2,), (0, 1), (None,), (float,), ("f8",), (0.5, 3.0), ((3, 1),), ((1,),), (-1,)),
    *((np.array([0, 1]),), (MASK,), ([0], 5.0), (5.0,), (2.0, None), ({},)),
)
#: What is refused: it reads or changes memory, or makes digits.
MEMORY = """
as_integer_ratio base byteswap ctypes data dumps fromhex getfield hex resize setfield setflags tobytes
"""
#: Calls of special methods and of methods by position that nobody writes, and tables that are not sorted.
RARE = """
__contains__ __pow__ __rpow__ conj conjugate put searchsorted
"""


def _methods(value, make) -> Iterable:
    for name in dir(value):
        if (name.startswith("__") and name not in SPECIAL.split()) or name in OUTSIDE.split():
            continue
        is_method = callable(getattr(type(value), name))
        for arguments in ARGUMENTS if is_method else ((),):

            def function(x, name=name, arguments=arguments, called=is_method):
                value = make(x)
                result = getattr(value, name)
                result = result(*arguments) if called else result
                return value if result is None else result

            yield f"{name}({arguments})", function, VECTOR


@pytest.mark.parametrize(
    ("value", "make", "fewest"),
    [
        (np.float64(1.0), lambda x: x[0] * 2.0, 200),
        (VECTOR, lambda x: x * 2.0, 240),
        (MATRIX, lambda x: np.outer(x, x) + 1.0, 280),
    ],
    ids=["number", "vector", "matrix"],
)
def test_methods_and_attributes(value, make, fewest):
    counts, others = walked(_methods(value, make))
    assert set(counts) <= {"recorded", "refused"}, others
    assert names_of(others, "refused") <= {*MEMORY.split(), *RARE.split()}
    assert counts["recorded"] >= fewest


def test_indices_of_a_number():
    mask = np.array(True)
    indices = [(), ..., None, (None, ...), (..., None), (None, None), (...,), True, np.True_, mask]
    cases = [(f"{k}", lambda x, index=index: (x[0] * 2.0)[index], VECTOR) for k, index in enumerate(indices)]
    cases.append(("[x > 0]", lambda x: (x[0] * 2.0)[x[0] > 0.0], VECTOR))
    cases.append(("complex", lambda x: (x[0] + 1j * x[1])[..., None].imag, VECTOR))
    counts, others = walked(cases)
    assert not others
    assert counts["recorded"] == len(cases)


@pytest.mark.parametrize("index", [0, -1, (0,), slice(None)])
def test_a_number_has_no_entries(index):
    def function(x):
        for number in (x[0] * 2.0, x[0] + 1j):
            try:
                number[index]
            except IndexError:
                continue
            raise AssertionError
        return x

    record(function, [VECTOR], check=True, decides=True)


def test_results_of_shape_nothing_can_be_changed():
    def function(x):
        value = np.where(x[0] > 0.4, x[0] - x[1], x[1])
        same, before, whole = value, copy.copy(value), copy.deepcopy([value])
        value[np.asarray(value < 0.3)] += 1.0
        value[...] *= 2.0
        other = np.select([x[2] > 0.0], [x[2]])
        other[()] = other**2
        return value + same * other + before * whole[0]

    for x in (VECTOR, OTHER):
        recording = record(function, [x], check=True, decides=True)
        assert recording.result_shapes == ((),)


def test_a_number_is_not_iterable():
    def function(x):
        number = x[0] * 2.0
        assert not np.iterable(number)
        for call in (iter, list, len, sum, lambda each: 1.0 in each):
            try:
                call(number)
            except TypeError:
                continue
            raise AssertionError
        return number

    record(function, [VECTOR], check=True, decides=True)


# Plain arrays with traced arguments -----------------------------------------------------------------------------------


def _plain_methods() -> Iterable:
    given = (
        *(lambda x: (x,), lambda x: (x[0],), lambda x: (0.5, x[0]), lambda x: (x[0], 9.0), lambda x: (None, x)),
        *(lambda x: (x[:2],), lambda x: (x.reshape(3, 1),)),
    )
    for plain in (np.array([3.0, 1.0, 2.0]), MATRIX, np.float64(2.0), np.arange(3), np.array(2.0)):
        for name in dir(plain):
            is_method = callable(getattr(type(plain), name))
            if (name.startswith("__") and name not in SPECIAL.split()) or name in OUTSIDE.split() or not is_method:
                continue
            for k, arguments in enumerate(given):

                def function(x, plain=plain, name=name, arguments=arguments):
                    value = plain.copy()
                    result = getattr(value, name)(*arguments(x))
                    return value if result is None else result

                yield f"{name}({type(plain).__name__} {np.shape(plain)}, {k})", function, VECTOR


def test_methods_of_plain_arrays():
    counts, others = walked(_plain_methods())
    assert set(counts) <= {"recorded", "refused"}, others
    # most of these change the plain array, or write the result into one
    assert names_of(others, "refused") <= {
        *("__iadd__", "__imul__", "__setitem__", "choose", "conj", "conjugate", "fill", "put", "searchsorted"),
    }
    assert counts["recorded"] >= 150


# Functions ------------------------------------------------------------------------------------------------------------

#: Arguments that are tried for each function.
TRIED = (
    *((VECTOR,), (VECTOR, OTHER), (0.4,), (0.4, 0.6), (MATRIX,), (MATRIX, SQUARE), (VECTOR, 0.4), (0.4, VECTOR)),
    *((VECTOR, 1), ([VECTOR, OTHER],), (VECTOR, np.array([0.1, 0.4, 0.8]), OTHER), (VECTOR, 0.3, 0.4), (0.4, 0.6, 3)),
    *((MATRIX, VECTOR[:2]), (MASK, VECTOR, OTHER), (MASK, VECTOR), ([MASK], [VECTOR]), (VECTOR, 2, OTHER), (3, 0.4)),
    *(((2, 3), VECTOR), (VECTOR, [1]), (VECTOR, [0], 0.4), (MATRIX, 0), (MATRIX, 0, 1), ("i,i->", VECTOR, OTHER)),
    *(("ij,j->i", MATRIX, VECTOR[:2]), (VECTOR, (3, 1)), ([0, 1, 2], [VECTOR, OTHER, VECTOR]), (MATRIX, [0, 1])),
)
#: Number of calls of each function that are tried.
MOST_CALLS = 6
#: Functions that are refused, with a reason (`accumulus.frontends.numpy.table.unsupported`).
REFUSED = """
arange asarray_chkfinite asmatrix average bincount bmat busday_count diag_indices eig eigvals einsum_path
extract frexp from_dlpack frombuffer histogram histogram2d histogram_bin_edges histogramdd interp intersect1d
is_busday isin ix_ kaiser lexsort may_share_memory nanargmax nanargmin nanpercentile nanquantile nextafter
norm percentile poly polyder polydiv quantile real_if_close repeat require roll roots searchsorted setdiff1d
setxor1d shares_memory signbit sort_complex spacing take tri tril tril_indices trim_zeros triu triu_indices
union1d unique_all unique_counts unique_inverse unique_values
"""
#: Functions whose values are not those of NumPy everywhere: signs of vectors, undefined entries.
DIFFERING = frozenset({"eigh", "empty_like", "svd"})


def _with_traced(module, name, arguments, position):
    given = arguments[position]

    def function(x):
        each = [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
        each[position] = [*x] if isinstance(given, list) else x if isinstance(given, np.ndarray) else x[0]
        return getattr(module, name)(*each)

    return function


def _functions(module) -> Iterable:
    for name in dir(module):
        function = getattr(module, name)
        is_other = isinstance(function, type | types.ModuleType) or not callable(function)
        if name.startswith("_") or is_other or name in OUTSIDE.split():
            continue
        count = 0
        for arguments in TRIED:
            copies = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    function(*copies)
            except Exception:
                continue
            changes = any(not np.array_equal(a, b) for a, b in zip(copies, arguments, strict=True))
            if changes:  # an array for the results
                continue
            count += 1
            if count > MOST_CALLS:
                break
            for k, given in enumerate(arguments):
                is_array = isinstance(given, np.ndarray) and given.dtype.kind == "f"
                is_list = isinstance(given, list) and isinstance(given[0], np.ndarray) and given[0].dtype.kind == "f"
                if is_array or is_list or type(given) is float:
                    x = np.array(given if is_array or is_list else [given], float)
                    shapes = [np.shape(each) for each in arguments if not isinstance(each, str)]
                    yield f"{name}({shapes}, {k})", _with_traced(module, name, arguments, k), x


@pytest.mark.parametrize(
    ("module", "fewest"), [(np, 1300), (np.linalg, 75), (np.fft, 55)], ids=["numpy", "linalg", "fft"]
)
def test_functions(module, fewest):
    counts, others = walked(_functions(module))
    assert set(counts) <= {"recorded", "refused", "differs"}, others
    assert names_of(others, "differs") <= DIFFERING
    assert names_of(others, "refused") <= {*REFUSED.split()}
    assert counts["recorded"] >= fewest
