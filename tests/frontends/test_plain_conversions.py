"""Conversions of traced values in code that is not transformed, against the functions themselves."""

from __future__ import annotations

import functools
import math
from types import FunctionType

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends.source.conversions import converted_calls, original_code

#: Options that prepare programs quickly.
QUICK = {"cache": False, "target": "numpy", "effort": "fast"}


class Quantity:
    """A number whose methods Python itself calls."""

    def __init__(self, value):
        self.value = value

    @property
    def half(self):
        return 0.5 * float(self.value)

    @functools.cached_property
    def root(self):
        return math.sqrt(float(self.value))

    def __getattr__(self, name):
        if name == "third":
            return float(self.value) / 3.0
        raise AttributeError(name)

    def __float__(self):
        return float(self.value) * 2.0

    def __complex__(self):
        return complex(self.value, 2.0)

    def __add__(self, other):
        return float(self.value) + float(other.value) ** 2

    def __matmul__(self, other):
        return max(float(self.value), float(other.value))

    def __lt__(self, other):
        return float(self.value) < float(other.value)

    def __call__(self, other):
        return float(other) * float(self.value)

    def __getitem__(self, key):
        return float(self.value) + key

    def __contains__(self, other):
        return float(other) < float(self.value)

    def __enter__(self):
        return float(self.value)

    def __exit__(self, *error):
        pass

    def __iter__(self):
        yield float(self.value)
        yield complex(self.value).real

    def __len__(self):
        return int(float(self.value))

    def __neg__(self):
        return -complex(self.value, 1.0).real


def to_number(value):
    """Return a plain number, as collections of test problems do."""
    if isinstance(value, int | float):
        return float(value)
    return float(value.item() if hasattr(value, "item") else value.flatten()[0])


class Groups:
    """Elements that are found by their names, in text."""

    elements = ("square", "product")

    def __call__(self, x):
        total = 0.0
        for element in self.elements:
            total = to_number(total + eval("self." + element + "(self, x)"))
        return total

    @staticmethod
    def square(self, x):  # noqa: PLW0211  # as that collection has it
        return x[0, 0] * x[0, 0] if float(x[0, 0]) > 0.0 else float(x[0, 0])

    @staticmethod
    def product(self, x):  # noqa: PLW0211
        return to_number(np.array([[x[0, 0] * x[1, 0]]])) * math.exp(float(x[1, 0]))


def by_eval(x):
    return eval("float(x[0]) ** 2 + complex(float(x[1]), 0).real")


def by_eval_with_names(x):
    return eval("  float(y) * 3", {"y": x[0]}) + eval(compile("float(x[1])", "<text>", "eval"))


def by_exec(x):
    names = {"x": x}
    exec("y = float(x[0]) * 3\nz = sum(map(float, x))", names)
    return names["y"] * names["z"]


def with_locals(x):
    y = float(x[0])
    return locals()["y"] ** 2 + float(vars(Quantity(x[1]))["value"])


def with_dir(x):
    names = [name for name in dir() if name == "x"]
    return float(x[0]) * len(names) + abs(float(x[1]))


def in_context(x):
    with Quantity(x[0]) as value:
        return value * 2.0


def with_type(x):
    """Compare types, which stay those of Python."""
    plain = eval("type(1.0) is float and isinstance(2.0, float)")
    return float(x[0]) * (3.0 if plain else 5.0) + np.zeros(1, dtype=float)[0]


TABLE = {"square": lambda v: float(v) ** 2, "exp": lambda v: math.exp(float(v))}
_GENERATED = {}
exec("def generated(v):\n    return float(v) * float(v) if float(v) > 0 else -float(v)", _GENERATED)

FUNCTIONS = {
    "property": lambda x: Quantity(x[0]).half,
    "cached property": lambda x: Quantity(x[0]).root,
    "__getattr__": lambda x: Quantity(x[0]).third,
    "__float__": lambda x: float(Quantity(x[0])),
    "__complex__": lambda x: abs(complex(Quantity(x[0]))),
    "__add__": lambda x: Quantity(x[0]) + Quantity(x[1]),
    "__matmul__": lambda x: Quantity(x[0]) @ Quantity(x[1]),
    "__lt__": lambda x: x[0] if Quantity(x[0]) < Quantity(x[1]) else 2.0 * x[1],
    "__call__": lambda x: Quantity(x[0])(x[1]),
    "__getitem__": lambda x: Quantity(x[0])[2],
    "__contains__": lambda x: x[1] if 1.0 in Quantity(x[0]) else 3.0 * x[1],
    "__enter__": in_context,
    "__iter__": lambda x: sum(Quantity(x[0])),
    "__len__": lambda x: len(Quantity(x[0])) * x[1],
    "__neg__": lambda x: -Quantity(x[0]) * x[1],
    "sorted by a key": lambda x: sorted(map(Quantity, x))[0].value,
    "reduce": lambda x: functools.reduce(lambda a, b: float(a) * float(b), x),
    "map": lambda x: sum(map(float, x)),
    "math": lambda x: math.hypot(Quantity(x[0]).half, *map(float, x)),
    "table of lambdas": lambda x: sum(TABLE[name](x[0]) for name in TABLE),
    "generated code": lambda x: _GENERATED["generated"](x[0]),
    "elements by name": lambda x: Groups()(x.reshape(2, 1)),
    "eval": by_eval,
    "eval of names": by_eval_with_names,
    "exec": by_exec,
    "locals": with_locals,
    "dir": with_dir,
    "types": with_type,
    "np.float64": lambda x: np.float64(x[0]) * 2.0 + x.dtype.type(x[1]),
    "np.complex128": lambda x: (np.complex128(x[0]) ** 2).real,
    "np.bool_": lambda x: np.where(np.bool_(x[0]), x[1], x[0]),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_plain_conversions_of_traced_values(name):
    function = FUNCTIONS[name]
    x = np.array([1.3, 0.7])
    derivative, step = acc.value_and_gradient(function, **QUICK), 1e-6
    for point in (x, x + 0.125):
        value, gradient = derivative(point)
        differences = [(function(point + step * e) - function(point - step * e)) / (2.0 * step) for e in np.eye(2)]
        np.testing.assert_allclose(value, function(point), rtol=1e-14)
        np.testing.assert_allclose(gradient, differences, rtol=1e-7, atol=1e-8)


#: Modules in which names of builtins have other meanings; each defines a property `Number.a` of `self.v`.
SHADOWED = {
    "a function named float": """
def float(v): return 2.0 * v
class Number:
    a = property(lambda self: float(self.v) + complex(self.v, 1.0).real)
""",
    "a type of numpy named float": """
from numpy import float64 as double
def complex(v): return 3.0 * v
class Number:
    a = property(lambda self: complex(self.v) * float(self.v))
""",
    "a function named eval": """
def eval(text): return 5.0
class Number:
    a = property(lambda self: eval("1") * float(self.v))
""",
    "a function named map": """
def map(kind, v): return 3.0 * v if kind is float else v
class Number:
    a = property(lambda self: map(float, self.v) * float(self.v))
""",
    "text with a name of its own": """
class Number:
    a = property(lambda self: eval("float(v)", {"v": self.v, "float": lambda v: 7.0 * v}) + float(self.v))
""",
    "text with a local name of its own": """
class Number:
    @property
    def a(self):
        float = lambda v: 7.0 * v
        return eval("float(self.v)") + complex(self.v).real
""",
    "text that defines the name": """
class Number:
    @property
    def a(self):
        names = {"v": self.v}
        exec("def float(v):\\n    return 7.0 * v\\ndef g(v):\\n    return float(v)\\ny = g(v)", names)
        return names["y"] + float(self.v)
""",
    "a class with the name": """
class Number:
    def float(self): return 3.0
    @property
    def a(self):
        class Inner:
            float = lambda v: 5.0 * v
            held = float(self.v), complex(self.v).real
            def method(self, v): return float(v)
        return sum(Inner.held) * self.float() + Inner().method(self.v) * float.fromhex("0x1p1")
""",
    "text of bytes": """
class Number:
    a = property(lambda self: eval(b"  float(v)", {"v": self.v}))
""",
    "text of an inherited future": """
from __future__ import annotations
class Number:
    @property
    def a(self):
        names = {"v": self.v}
        exec("def g(v: undefined):\\n    return float(v)\\ny = g(v)", names)
        return names["y"]
""",
    "a function made anew by text": """
class Number:
    @property
    def a(self):
        names = {}
        exec("def g(v):\\n    return float(v) ** 2", names)
        return names["g"](self.v)
""",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SHADOWED)
def test_names_of_builtins_with_other_meanings(name):
    scope = {"__name__": "shadowed"}
    exec(compile(SHADOWED[name], f"<{name}>", "exec", dont_inherit=True), scope)

    def function(x):
        number = scope["Number"]()
        number.v = x[0]
        return number.a * x[1]

    derivative, step = acc.value_and_gradient(function, **QUICK), 1e-6
    for point in (np.array([1.3, 0.7]), np.array([0.4, -1.1])):
        value, gradient = derivative(point)
        differences = [(function(point + step * e) - function(point - step * e)) / (2.0 * step) for e in np.eye(2)]
        np.testing.assert_allclose(value, function(point), rtol=1e-14)
        np.testing.assert_allclose(gradient, differences, rtol=1e-7, atol=1e-8)


def by_its_own_builtins(x):
    return eval("float(v)", {"__builtins__": {"float": float}}, {"v": x[0]})


def by_a_scope_that_computes_names(x):
    class Scope(dict):
        def __missing__(self, name):
            return {"float": float, "v": x[0]}[name]

    return eval("float(v)", {}, Scope())


def by_a_function_made_anew_elsewhere(x):
    return FunctionType(compile("def g(v): return float(v)", "<made>", "exec").co_consts[0], {})(x[0])


@pytest.mark.parametrize(
    "function", [by_its_own_builtins, by_a_scope_that_computes_names, by_a_function_made_anew_elsewhere]
)
def test_conversions_that_cannot_be_replaced_are_refused(function):
    with pytest.raises(TraceError, match="plain number"):
        acc.gradient(function, **QUICK)(np.array([1.0, 2.0]))


def test_code_is_the_original_after_a_recording():
    codes = Quantity.half.fget.__code__, Groups.__call__.__code__, by_eval.__code__
    kept = []

    def function(x):
        kept.append(lambda v: float(v) + 1.0)
        return Quantity(x[0]).half + kept[-1](x[1]) + eval("float(x[0])")

    acc.gradient(function, **QUICK)(np.array([1.0, 2.0]))
    assert codes == (Quantity.half.fget.__code__, Groups.__call__.__code__, by_eval.__code__)
    assert kept[-1](2) == 3.0  # a function that outlives the recording works on plain numbers
    assert type(Quantity(2).half) is float


def test_changed_code_keeps_everything_but_called_names():
    def function(x, kind=float):
        return float(x), isinstance(x, float), kind, [complex(y) for y in x], x.float(), "float"

    code = function.__code__
    changed = converted_calls(code)
    assert changed is not code
    assert list(changed.co_positions()) == list(code.co_positions())
    assert {"float", "@float"} <= set(changed.co_names)
    assert converted_calls(compile("x + 1", "<text>", "eval")).co_names == ("x",)
    assert original_code(function) is code


def test_a_conversion_in_a_library_is_refused_with_the_line():
    def function(x):
        return np.format_float_positional(x[0]) and x[0]

    with pytest.raises(TraceError, match=r"test_plain_conversions\.py.*\n.*format_float_positional"):
        acc.gradient(function, **QUICK)(np.array([1.0]))


def test_without_decisions_a_conversion_is_refused():
    with pytest.raises(TraceError, match="needs a plain number"):
        acc.gradient(FUNCTIONS["property"], cache=False, guards="error")(np.array([1.0, 2.0]))
