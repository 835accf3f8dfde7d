"""Unsupported code raises a `TraceError` that names file and line, quotes it, and says what to write instead."""

from __future__ import annotations

import copy
import inspect
import math
import re

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.optimize
import scipy.sparse
import scipy.special

import accumulus as acc
from accumulus.errors import AccumulusError, ArgumentError, TraceError
from accumulus.frontends import record

OUTSIDE = np.eye(3)
NUMBERS = [1.0, 2.0, 3.0]
KEPT = []
SPARSE = scipy.sparse.csr_matrix(OUTSIDE)


def store_item(x):
    A = OUTSIDE.copy()
    A[0, 0] = x[0]  # here
    return A


def store_row(x):
    A = OUTSIDE.copy()
    A[0] = x  # here
    return A


def add_in_place(x):
    A = OUTSIDE.copy()
    A += x  # here
    return A


def store_in_integers(x):
    counts = np.array([0, 0, 0])
    counts[0] = x[0]  # here
    return counts


def change_argument(x):
    x[0] = 0.0  # here
    return x


def change_argument_through_view(x):
    x[1:].reshape(2)[...] += 1  # here
    return x


def loop(x):
    while x[0] > 1:  # here
        x = x / 2
    return x


def branch(x):
    if x[0] > 0 and x[1] < 1:  # here
        return x
    return -x


def check(x):
    assert x[0] > 0  # here
    return x


def several_lines(x):
    return x + math.exp(  # here
        x[0]
    )


def inside_helper(x):
    def helper(y):
        return math.sqrt(y)  # here

    return helper(x[0])


#: Source after ``return``, and what the message must say.
RETURNS = {
    "math.sin(x[0])": r"\bmath\.sin\b.*np\.sin instead",
    "math.atan2(x[0], x[1])": r"np\.arctan2 instead",
    "math.remainder(x[0], x[1])": r"x - y \* np\.rint\(x / y\) instead",
    "math.fmod(x[0], x[1])": r"np\.fmod instead",
    "math.erf(x[0])": r"scipy\.special\.erf",
    "float(x[0])": r"float\(\).*static",
    "int(x[0])": r"int\(\).*np\.floor",
    "np.float64(x[0])": r"float64\(\)",
    "1.0 if x[0] > 0 else x": r"np\.where\(condition, a, b\)",
    "bool(x[0])": r"np\.where",
    "x[0] in NUMBERS": r"`in` compares",
    "max(x[0], x[1])": r"np\.maximum\(a, b\)",
    "min(x)": r"np\.min of an array",
    "sorted(x)": "Sorting compares",
    "1 if any(x > 0) else 2": r"np\.any",
    "0 < x[0] < 1": r"joined by &",
    "[i for i in range(x[0])]": r"bound of a loop.*static",
    "NUMBERS[x[0]]": r"index.*must be a constant",
    "OUTSIDE[x[0]]": r"index.*must be a constant",
    "x[x[0]]": r"index depends.*np\.interp",
    "x[x > 0]": r"shape.*np\.where",
    "{x[0]: 1.0}": "key of a dict",
    "f'{x[0]:.3f}'": "Leave the format out",
    "'%f' % x[0]": "plain number",
    "complex(x[0])": r"x \+ 1j \* y",
    "np.array(x, dtype=np.complex64)": "Leave dtype out",
    "np.array([x[0]], dtype=int)": "Leave dtype out",
    "x.astype(int)": r"np\.trunc",
    "np.arange(x[0])": r"np\.linspace",
    "np.zeros(x[0])": "static",
    "np.argsort(x)": r"order of the entries.*np\.maximum",
    "x.argmax()": "order of the entries",
    "np.nonzero(x)": r"shape.*np\.where",
    "np.where(x > 0)": r"shape.*np\.where\(condition, a, b\)",
    "np.linalg.eig(np.outer(x, x))": r"complex.*np\.linalg\.eigh",
    "np.linalg.norm(np.ones((9, 3)) @ np.outer(x, np.ones(9)), 2)": "at most 8 rows or 8 columns",
    "scipy.linalg.ldl(np.outer(x, x))": r"scipy\.linalg.*functions of NumPy and SciPy",
    "scipy.linalg.schur(np.outer(x, x))": r"scipy\.linalg\.schur.*complex.*eigh",
    "scipy.linalg.orth(np.outer(x, x))": "a rank, which depends on values",
    "OUTSIDE.dot(x)": r"np\.dot\(array",
    "np.sin(x, where=[True, False, True])": r"np\.where\(condition.*out=",
    "np.sum(x, out=np.zeros(()))": r"out=…",
    "np.sum(x, dtype=int)": "recorded as float64",
    "np.add(OUTSIDE, x, out=OUTSIDE)": r"np\.array\(M, float\)",
    "np.nextafter(x, 0.0)": r"np\.nextafter",
    "(x > 0) & x": "combine booleans",
    "~x": "combine booleans",
    "x.view(int)": r"\.view",
    "x.sort()": r"\.sort",
    "np.broadcast_to(x * 2, (2, 3)).fill(1.0)": "read-only view",
    "np.interp(x, x, x)": "constants",
    "np.pad(x, 1, mode='mean')": "wrap are",
    "np.matvec(np.outer(x, x), x, axis=0)": r"np\.moveaxis",
    "np.r_['0,2', x, x]": r"np\.concatenate",
    "SPARSE.multiply(x).power(2)": r"Recorded are A @ x",
    "scipy.optimize.root(lambda y: y - x, np.zeros(3)).x": r"scipy\.optimize\.root",
    "scipy.optimize.brentq(lambda y: y - x[0], 0, 1)": r"cannot call the root of <lambda>",
    "np.polynomial.Polynomial([1, 2, 3])(x)": r"np\.polynomial",
}
FUNCTIONS = {
    store_item: r"np\.array\(M, float\)",
    store_row: r"np\.array\(M, float\)",
    add_in_place: r"np\.array\(M, float\)",
    store_in_integers: "integers",
    change_argument: r"x = x\.copy\(\)",
    change_argument_through_view: r"x = x\.copy\(\)",
    loop: "constant number of times",
    branch: r"np\.where",
    check: "outside of the function",
    several_lines: r"np\.exp",
    inside_helper: r"np\.sqrt",
}


@pytest.mark.parametrize("source", RETURNS)
def test_expressions(source, tmp_path):
    file = tmp_path / "model.py"
    file.write_text(f"def f(x):\n    y = 2.0 * x\n    return {source}\n")
    scope = {**globals(), "scipy": scipy}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    with pytest.raises(TraceError) as caught:
        record(scope["f"], [np.ones(3)])
    message = str(caught.value)
    assert f"{file}, line 3, in " in message
    assert f"return {source}" in message
    assert re.search(RETURNS[source], message), message


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_statements(function):
    lines, first = inspect.getsourcelines(function)
    line = first + next(k for k, text in enumerate(lines) if "# here" in text)
    with pytest.raises(TraceError) as caught:
        record(function, [np.ones(3)])
    message = str(caught.value)
    assert f"{__file__}, line {line}, in " in message
    assert lines[line - first].strip() in message
    assert re.search(FUNCTIONS[function], message), message


def test_the_expression_is_marked():
    with pytest.raises(TraceError) as caught:
        record(lambda x: 2.0 * math.sin(x) + 1.0, [1.0])
    _, source, marks, *_ = str(caught.value).splitlines()
    assert [text for text, mark in zip(source, marks, strict=False) if mark == "^"] == list("math.sin(x)")


def test_the_traceback_shows_the_users_frames_only():
    def f(x):
        return math.sin(x)

    with pytest.raises(TraceError) as caught:
        record(f, [1.0])
    names = [entry.name for entry in caught.traceback]
    assert names[-1] == "f"
    assert "__float__" not in names
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_without_source_the_line_is_named():
    scope = {"math": math}
    exec(compile("def f(x):\n    return math.sin(x)\n", "<generated>", "exec"), scope)
    with pytest.raises(TraceError, match=r"<generated>, line 2, in f: A plain number"):
        record(scope["f"], [1.0])


def test_values_of_another_recording_are_refused():
    record(lambda x: KEPT.append(x) or x, [np.ones(2)])
    with pytest.raises(TraceError, match="recording has ended"):
        record(lambda x: x + KEPT[0], [np.ones(2)])
    with pytest.raises(TraceError, match="recording has ended"):
        record(lambda x: x * KEPT[0][0], [2.0])
    with pytest.raises(TraceError, match="recording has ended"):
        record(lambda x: KEPT[0], [2.0])
    KEPT.clear()


@pytest.mark.parametrize("error", [ValueError("mine"), KeyError("mine"), ZeroDivisionError(), IndexError("mine")])
def test_errors_of_the_function_pass_through(error):
    def f(x):
        raise error

    with pytest.raises(type(error)) as caught:
        record(f, [1.0])
    assert caught.value is error
    assert caught.value.__cause__ is None
    assert error.__notes__ == ["f was being recorded with a traced number."]


def test_errors_of_the_function_name_its_arguments():
    def f(x, y, name):
        return x[5] * y

    with pytest.raises(IndexError) as caught:
        record(f, [np.ones(2), 1.0, "drag"])
    (note,) = caught.value.__notes__
    assert note == "f was being recorded with a traced array of shape (2,), a traced number, str 'drag'."


@pytest.mark.parametrize(
    "f", [lambda x: x[7], lambda x: x + np.ones(4), lambda x: x @ np.ones(2), lambda x: np.stack([x, x[:1]])]
)
def test_errors_of_numpy_are_unchanged(f):
    with pytest.raises((ValueError, IndexError)) as of_numpy:
        f(np.ones(3))
    with pytest.raises(type(of_numpy.value)) as caught:
        record(f, [np.ones(3)])
    assert not isinstance(caught.value, AccumulusError)


def test_an_error_that_the_function_handles_is_none():
    def f(x):
        try:
            return math.sin(x)
        except TypeError:
            return np.sin(x)

    assert record(f, [1.0], check=True).tape.operations == 1
    with pytest.raises(TraceError, match=r"math\.sin"):  # nothing shows that it came to nothing
        record(f, [1.0])


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (None, "NoneType None.*return statement missing"),
        ("text", "str 'text'"),
        ((1.0, math), r"module .* at \[1\]"),
        ({"a": [1.0, {"b"}]}, r"set \{'b'\} at \['a'\]\[1\]"),
        (1j, "complex"),
        (np.ones(2, complex), "an array of complex128"),
        (np.array(["a"]), "an array of <U1"),
        ({1.0, 2.0}, "set"),
        (object(), "object"),
        (math, "module"),
    ],
)
def test_results_that_are_no_numbers(result, said):
    def named(x):
        return result

    with pytest.raises(TraceError, match=rf"named \({re.escape(__file__)}, line \d+\) returned {said}"):
        record(named, [1.0])


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        (1j, r"builtins\.complex.*real number"),
        (np.ones(2, complex), r"array of complex128.*real and imaginary"),
        (np.array([None]), "array of object"),
        (np.array(["a"]), "array of <U1"),
        ([1.0, 2.0], r"list of numbers.*np\.array.*static"),
        ((1, 2), "tuple of numbers"),
        ({"a": np.ones(2)}, "dict of numbers"),
        (np.ma.array([1.0]), "MaskedArray"),
    ],
)
def test_arguments_that_cannot_be_traced(argument, said):
    copied = copy.deepcopy(argument)
    with pytest.raises(ArgumentError, match=rf"argument 1 \(y\) is .*{said}"):
        record(lambda x, y: x, [1.0, argument])
    np.testing.assert_equal(argument, copied)


def test_static_positions_must_exist():
    with pytest.raises(ArgumentError, match="static argument 3 does not exist: 1 argument"):
        record(lambda x: x, [1.0], static=frozenset({3}))


def test_the_arguments_of_the_caller_are_untouched():
    x = np.array([1.0, 2.0])
    with pytest.raises(TraceError, match="in place"):
        record(change_argument, [x])
    np.testing.assert_array_equal(x, [1.0, 2.0])
    assert x.flags.writeable


def unpacked(x):
    first, second = x
    return first * second


@pytest.mark.parametrize("x", [1.0, 2, np.float64(1.5), np.array(1.0)])
@pytest.mark.parametrize(
    "f", [lambda x: x[0] * x[1], lambda x: len(x) * 2.0, lambda x: sum(each for each in x), unpacked, lambda x: x @ x]
)
def test_numbers_where_the_function_takes_arrays(f, x):
    said = r"argument 0 \(x\) is the number [\d.]+\. If the function takes an array.*np\.array"
    with pytest.raises(TraceError, match=said):
        acc.jacobian(f)(x)


def test_numbers_where_the_function_takes_the_shape_of_arrays():
    with pytest.raises(TraceError, match=r"has no attribute 'shape'\. Here argument 0 \(x\) is the number 1\."):
        acc.jacobian(lambda x: x.shape[0] * 1.0)(1.0)


@pytest.mark.parametrize(("call", "said"), [
    (lambda jac, x: jac(x), r"fit g\(x, y\): missing a required argument: 'y'"),
    (lambda jac, x: jac(), r"missing a required argument: 'x'"),
    (lambda jac, x: jac(x, x, x), "too many positional arguments"),
    (lambda jac, x: jac(x, z=x), "missing a required argument: 'y'"),
    (lambda jac, x: jac(x, x, z=x), "unexpected keyword argument 'z'"),
    (lambda jac, x: jac(x, x, x=x), "multiple values for argument 'x'"),
])  # fmt: skip
def test_arguments_that_do_not_fit_the_signature(call, said):
    def g(x, y):
        return x[0] * y

    with pytest.raises(ArgumentError, match=said):
        call(acc.jacobian(g), np.ones(2))


@pytest.mark.parametrize(("name", "options"), [
    ("minimize", {"x0": [0.0]}), ("fmin", {"x0": [0.0]}), ("fmin_bfgs", {"x0": [0.0]}), ("leastsq", {"x0": [0.0]}),
    ("basinhopping", {"x0": [0.0]}), ("differential_evolution", {"bounds": [(0.0, 2.0)]}), ("broyden1", {"xin": [0.0]}),
])  # fmt: skip
def test_optimisers_name_what_is_recorded(name, options):
    solver = getattr(scipy.optimize, name)
    with pytest.raises(TraceError, match=r"acc\.implicit\((residual|gradient)\)"):
        acc.jacobian(lambda x: solver(lambda p: (p[0] - x) ** 2, **options))(1.0)
