"""Every way in which what a function reads may change: the derivative is that of the changed function, or it was said.

A way is a function that returns a function of an array, and one that changes what it reads. After each change all kinds
of derivatives have to be those of the function as it is then; a derivative that is not, has to have reported before
that this is not watched.
"""

# ruff: noqa: B039, E501, PLC3002, PLW0108, RUF012

from __future__ import annotations

import abc
import array
import builtins
import collections
import contextlib
import contextvars
import dataclasses
import enum
import functools
import itertools
import math
import operator
import os
import sys
import threading
import types
import weakref
import zlib
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import AccumulusError
from accumulus.frontends import memory
from accumulus.frontends.record import record

X = np.array([0.5, 2.0])
WAYS = {}


def way(make):
    WAYS[make.__name__.removeprefix("of_")] = make
    return make


def scoped(source, **names):
    """A function of source whose global variables are these."""
    scope = {"np": np, "__name__": "a_users_module", **names}
    exec(source, scope)
    return scope["f"], scope


def setter(namespace, name, value):
    return lambda: namespace.__setitem__(name, value)


# Functions and what belongs to them --------------------------------------------------------------------------------


@way
def of_global():
    f, scope = scoped("def f(x): return k * x * x", k=2.0)
    return f, setter(scope, "k", 5.0)


@way
def of_deleted_global_that_hid_a_builtin():
    f, scope = scoped("def f(x): return abs(-2.0) * x * x", abs=lambda x: 3.0)
    return f, lambda: scope.pop("abs")


@way
def of_global_that_hides_a_builtin():
    f, scope = scoped("def f(x): return abs(-2.0) * x * x")
    return f, setter(scope, "abs", lambda x: 3.0)


@way
def of_global_that_is_a_function_of_numpy():
    f, scope = scoped("def f(x): return g(x)", g=np.sin)
    return f, setter(scope, "g", np.cos)


@way
def of_global_that_is_a_module():
    f, scope = scoped("def f(x): return m.g(x)", m=SimpleNamespace(g=np.sin))
    return f, setter(scope, "m", SimpleNamespace(g=np.cos))


@way
def of_builtin_that_is_replaced():
    f, _ = scoped("def f(x): return a_builtin_of_the_test() * x * x")
    builtins.a_builtin_of_the_test = lambda: 2.0
    return f, lambda: setattr(builtins, "a_builtin_of_the_test", lambda: 5.0)


@way
def of_globals_by_a_made_up_name():
    f, scope = scoped("def f(x): return globals()['k' + '1'] * x * x", k1=2.0)
    return f, setter(scope, "k1", 5.0)


@way
def of_eval():
    f, scope = scoped("def f(x): return eval('k1' + '* 2.0') * x * x", k1=2.0)
    return f, setter(scope, "k1", 5.0)


@way
def of_code():
    def f(x):
        return 2.0 * x * x

    return f, lambda: setattr(f, "__code__", (lambda x: 7.0 * x * x).__code__)


@way
def of_code_of_a_helper():
    def helper(x):
        return 2.0 * x

    return lambda x: helper(x) * x, lambda: setattr(helper, "__code__", (lambda x: 7.0 * x).__code__)


@way
def of_code_of_a_method():
    class Model:
        def force(self, x):
            return 2.0 * x

    model = Model()
    return lambda x: model.force(x) * x, lambda: setattr(Model.force, "__code__", (lambda self, x: 7.0 * x).__code__)


@way
def of_code_of_a_property():
    class Model:
        @property
        def k(self):
            return 2.0

    model = Model()
    return lambda x: model.k * x * x, lambda: setattr(Model.k.fget, "__code__", (lambda self: 7.0).__code__)


@way
def of_cell():
    k = 2.0

    def change():
        nonlocal k
        k = 5.0

    return lambda x: k * x * x, change


@way
def of_cell_of_a_helper_in_a_cell():
    k = 2.0

    def change():
        nonlocal k
        k = 5.0

    def inner(x):
        return k * x

    def outer(x):
        return inner(x)

    return lambda x: outer(x) * x, change


@way
def of_defaults():
    def f(x, k=2.0):
        return k * x * x

    return f, lambda: setattr(f, "__defaults__", (5.0,))


@way
def of_keyword_defaults():
    def f(x, *, k=2.0):
        return k * x * x

    return f, lambda: f.__kwdefaults__.update(k=5.0)


@way
def of_defaults_of_a_helper():
    def helper(x, k=2.0):
        return k * x

    return lambda x: helper(x) * x, lambda: setattr(helper, "__defaults__", (5.0,))


@way
def of_list_in_a_default():
    def f(x, k=[2.0]):  # noqa: B006
        return k[0] * x * x

    return f, lambda: f.__defaults__[0].__setitem__(0, 5.0)


@way
def of_attribute_of_a_function():
    def f(x):
        return f.k * x * x

    f.k = 2.0
    return f, lambda: setattr(f, "k", 5.0)


@way
def of_redefined_helper():
    f, scope = scoped("def h(x): return 2.0 * x\ndef f(x): return h(x) * x")
    return f, setter(scope, "h", lambda x: 5.0 * x)


@way
def of_helper_in_a_dict():
    table = {"a": lambda x: 2.0 * x}
    name = "A".lower()
    return lambda x: table[name](x) * x, setter(table, "a", lambda x: 5.0 * x)


@way
def of_helper_state_in_a_dict():
    held = [2.0]
    table = {"a": lambda x: held[0] * x}
    name = "A".lower()
    return lambda x: table[name](x) * x, setter(held, 0, 5.0)


@way
def of_helper_found_by_a_made_up_name():
    module = ModuleType("made_up")
    exec("k = 2.0\ndef f_a(x): return k * x", vars(module))
    name = "A".lower()
    return lambda x: getattr(module, "f_" + name)(x) * x, lambda: setattr(module, "k", 5.0)


@way
def of_closure_found_by_a_made_up_name():
    module = ModuleType("made_up")
    state = [2.0]
    module.f_a = lambda x: state[0] * x
    name = "A".lower()
    return lambda x: getattr(module, "f_" + name)(x) * x, setter(state, 0, 5.0)


@way
def of_wraps():
    held = [2.0]

    def plain(x):
        return held[0] * x

    @functools.wraps(plain)
    def wrapped(*arguments):
        return plain(*arguments)

    return lambda x: wrapped(x) * x, setter(held, 0, 5.0)


@way
def of_partial():
    held = [2.0]
    f = functools.partial(lambda k, x: k[0] * x * x, held)
    return f, setter(held, 0, 5.0)


@way
def of_partial_keywords():
    f = functools.partial(lambda x, k: k * x * x, k=2.0)
    return f, setter(f.keywords, "k", 5.0)


@way
def of_partial_helper():
    held = SimpleNamespace(k=2.0)
    helper = functools.partial(lambda k, x: k.k * x, held)
    return lambda x: helper(x) * x, lambda: setattr(held, "k", 5.0)


@way
def of_partialmethod():
    class Model:
        k = [2.0]

        def scaled(self, n, x):
            return self.k[0] * n * x

        doubled = functools.partialmethod(scaled, 2.0)

    model = Model()
    return lambda x: model.doubled(x) * x, setter(Model.k, 0, 5.0)


@way
def of_lru_cache():
    f, scope = scoped("def h(n): return k * n\ndef f(x): return g(2.0) * x * x", k=2.0)
    scope["g"] = functools.lru_cache(scope["h"])

    def change():
        scope["k"] = 5.0
        scope["g"].cache_clear()

    return f, change


@way
def of_cache_that_is_filled():
    held = [2.0]

    @functools.cache
    def helper(n):
        return held[0] * n

    def change():
        held[0] = 5.0
        helper.cache_clear()

    return lambda x: helper(3) * x * x, change


@way
def of_singledispatch():
    @functools.singledispatch
    def scaled(kind, x):
        return x

    held = [2.0]
    scaled.register(str)(lambda kind, x: held[0] * x)
    return lambda x: scaled("a", x) * x, setter(held, 0, 5.0)


@way
def of_singledispatch_that_is_registered():
    @functools.singledispatch
    def scaled(kind, x):
        return 2.0 * x

    return lambda x: scaled("a", x) * x, lambda: scaled.register(str)(lambda kind, x: 5.0 * x)


@way
def of_vectorize():
    held = [2.0]
    helper = np.vectorize(lambda x: held[0] * x)
    return lambda x: helper(x) * x, setter(held, 0, 5.0)


@way
def of_vectorize_that_is_replaced():
    helper = np.vectorize(lambda x: 2.0 * x)
    return lambda x: helper(x) * x, lambda: setattr(helper, "pyfunc", lambda x: 5.0 * x)


@way
def of_frompyfunc():
    held = [2.0]
    helper = np.frompyfunc(lambda n: held[0] * n, 1, 1)
    return lambda x: float(helper(3.0)) * x * x, setter(held, 0, 5.0)


@way
def of_map():
    held = [2.0]
    return lambda x: sum(map(lambda v: held[0] * v, x)) * x, setter(held, 0, 5.0)  # noqa: C417


@way
def of_filter():
    held = [2.0]
    return lambda x: len(list(filter(lambda n: n < held[0], range(9)))) * x * x, setter(held, 0, 5.0)


@way
def of_sorted_key():
    held = [1.0]
    return lambda x: sorted([2.0, 5.0], key=lambda n: held[0] * n)[0] * x * x, setter(held, 0, -1.0)


@way
def of_reduce():
    held = [2.0]
    return lambda x: functools.reduce(lambda a, b: a + held[0] * b, x) * x, setter(held, 0, 5.0)


@way
def of_accumulate():
    held = [2.0]
    return lambda x: list(itertools.accumulate(x, lambda a, b: a + held[0] * b))[-1] * x, setter(held, 0, 5.0)


@way
def of_generator():
    held = [2.0]

    def terms(x):
        for k in range(2):
            yield held[0] * x * k

    return lambda x: sum(terms(x)) * x, setter(held, 0, 5.0)


@way
def of_context_manager():
    held = [2.0]

    @contextlib.contextmanager
    def scale():
        yield held[0]

    def f(x):
        with scale() as k:
            return k * x * x

    return f, setter(held, 0, 5.0)


@way
def of_own_context_manager():
    class Scale:
        def __init__(self):
            self.k = 2.0

        def __enter__(self):
            return self.k

        def __exit__(self, *_):
            return None

    scale = Scale()

    def f(x):
        with scale as k:
            return k * x * x

    return f, lambda: setattr(scale, "k", 5.0)


@way
def of_decorator_class():
    class Scaled:
        def __init__(self, f):
            self.f, self.k = f, 2.0

        def __call__(self, x):
            return self.k * self.f(x)

    scaled = Scaled(lambda x: x)
    return lambda x: scaled(x) * x, lambda: setattr(scaled, "k", 5.0)


# Special methods ---------------------------------------------------------------------------------------------------


def special(name, method, use):
    """A way of an object whose state a special method reads."""

    def make():
        holder = type("Holder", (), {name: method})()
        holder.held = 2.0
        return lambda x: use(holder, x) * x, lambda: setattr(holder, "held", 5.0)

    WAYS[f"special {name}"] = make


special("__getitem__", lambda self, key: self.held, lambda o, x: o[0] * x)
special("__mul__", lambda self, x: self.held * x, lambda o, x: o * x)
special("__add__", lambda self, x: self.held * x, lambda o, x: o + x)
special("__sub__", lambda self, x: self.held * x, lambda o, x: o - x)
special("__truediv__", lambda self, x: self.held * x, lambda o, x: o / x)
special("__pow__", lambda self, x: self.held * x, lambda o, x: o**x)
special("__matmul__", lambda self, x: self.held * x, lambda o, x: o @ x)
special("__neg__", lambda self: self.held, lambda o, x: -o * x)
special("__pos__", lambda self: self.held, lambda o, x: +o * x)
special("__invert__", lambda self: self.held, lambda o, x: ~o * x)
special("__abs__", lambda self: self.held, lambda o, x: abs(o) * x)
special("__round__", lambda self: self.held, lambda o, x: round(o) * x)
special("__iter__", lambda self: iter([self.held]), lambda o, x: sum(k * x for k in o))
special("__reversed__", lambda self: iter([self.held]), lambda o, x: sum(k * x for k in reversed(o)))
special("__len__", lambda self: int(self.held), lambda o, x: len(o) * x)
special("__bool__", lambda self: self.held > 3, lambda o, x: (7.0 if o else 2.0) * x)
special("__float__", lambda self: self.held, lambda o, x: float(o) * x)
special("__int__", lambda self: int(self.held), lambda o, x: int(o) * x)
special("__index__", lambda self: int(self.held), lambda o, x: [1.0, 2.0, 3.0, 4.0, 5.0, 6.0][o] * x)
special("__complex__", lambda self: complex(self.held), lambda o, x: complex(o).real * x)
special("__contains__", lambda self, n: n < self.held, lambda o, x: (7.0 if 3 in o else 2.0) * x)
special("__call__", lambda self, x: self.held * x, lambda o, x: o(x))
special("__getattr__", lambda self, name: self.__dict__["held"], lambda o, x: o.anything * x)
special("__getattribute__", lambda self, name: object.__getattribute__(self, "held"), lambda o, x: o.anything * x)
special("__lt__", lambda self, other: self.held < other, lambda o, x: (7.0 if o < 3.0 else 2.0) * x)
special("__eq__", lambda self, other: self.held == other, lambda o, x: (7.0 if o == 2.0 else 2.0) * x)
special("__hash__", lambda self: int(self.held), lambda o, x: hash(o) * x)
special("__str__", lambda self: str(self.held), lambda o, x: float(str(o)) * x)
special("__repr__", lambda self: str(self.held), lambda o, x: float(repr(o)) * x)
special("__format__", lambda self, form: str(self.held), lambda o, x: float(f"{o}") * x)
special("__missing__", lambda self, key: self.held, lambda o, x: type(o).__missing__(o, 1) * x)


@way
def of_descriptor():
    class Scale:
        def __init__(self):
            self.k = 2.0

        def __get__(self, instance, owner=None):
            return self.k

    scale = Scale()
    model = type("Model", (), {"scale": scale})()
    return lambda x: model.scale * x * x, lambda: setattr(scale, "k", 5.0)


@way
def of_descriptor_by_object():
    class Field:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner=None):
            return getattr(instance, self.name)

    class Model:
        k = Field()

    model = Model()
    model._k = 2.0
    return lambda x: model.k * x * x, lambda: setattr(model, "_k", 5.0)


@way
def of_metaclass():
    class Meta(type):
        held = 2.0

        @property
        def k(cls):
            return cls.held

    Model = Meta("Model", (), {})
    return lambda x: Model.k * x * x, lambda: setattr(Meta, "held", 5.0)


@way
def of_metaclass_getitem():
    class Meta(type):
        def __getitem__(cls, key):
            return cls.held

    Model = Meta("Model", (), {"held": 2.0})
    return lambda x: Model["k"] * x * x, lambda: setattr(Model, "held", 5.0)


@way
def of_class_that_is_made_within():
    held = [2.0]

    class Model:
        def __init__(self, x):
            self.x = held[0] * x

        def force(self):
            return self.x

    return lambda x: Model(x).force() * x, setter(held, 0, 5.0)


@way
def of_method_that_is_hidden():
    class Model:
        def force(self, x):
            return 2.0 * x

    model = Model()
    return lambda x: model.force(x) * x, lambda: setattr(model, "force", lambda x: 5.0 * x)


@way
def of_class_attribute_that_is_hidden():
    class Model:
        k = 2.0

    model = Model()
    return lambda x: model.k * x * x, lambda: setattr(model, "k", 5.0)


@way
def of_attribute_of_a_base():
    Base = type("Base", (), {"k": 2.0})
    Derived = type("Derived", (Base,), {})
    model = Derived()
    return lambda x: model.k * x * x, lambda: setattr(Base, "k", 5.0)


@way
def of_attribute_of_a_base_that_is_hidden():
    Base = type("Base", (), {"k": 2.0})
    Derived = type("Derived", (Base,), {})
    model = Derived()
    return lambda x: model.k * x * x, lambda: setattr(Derived, "k", 5.0)


@way
def of_bases():
    First, Second = type("First", (), {"k": 2.0}), type("Second", (), {"k": 5.0})
    Derived = type("Derived", (First,), {})
    model = Derived()
    return lambda x: model.k * x * x, lambda: setattr(Derived, "__bases__", (Second,))


@way
def of_class_of_an_object():
    First = type("First", (), {"force": lambda self, x: 2.0 * x})
    Second = type("Second", (), {"force": lambda self, x: 5.0 * x})
    model = First()
    return lambda x: model.force(x) * x, lambda: setattr(model, "__class__", Second)


@way
def of_dict_of_an_object():
    model = type("Model", (), {})()
    model.k = 2.0
    return lambda x: model.k * x * x, lambda: setattr(model, "__dict__", {"k": 5.0})


@way
def of_super():
    class Base:
        def force(self, x):
            return 2.0 * x

    class Derived(Base):
        def force(self, x):
            return super().force(x) * x

    return Derived().force, lambda: setattr(Base, "force", lambda self, x: 5.0 * x)


@way
def of_abstract_class():
    class Base(abc.ABC):
        @abc.abstractmethod
        def scale(self): ...

        def force(self, x):
            return self.scale() * x

    class Model(Base):
        def __init__(self):
            self._k = 2.0

        def scale(self):
            return self._k

    model = Model()
    return lambda x: model.force(x) * x, lambda: setattr(model, "_k", 5.0)


@way
def of_enum_value():
    class Rate(enum.Enum):
        FAST = 2.0

    return lambda x: Rate.FAST.value * x * x, lambda: setattr(Rate.FAST, "_value_", 5.0)


@way
def of_attribute_of_an_enum():
    class Rate(enum.Enum):
        FAST = 1

        @property
        def k(self):
            return self.held[0]

    Rate.held = [2.0]
    return lambda x: Rate.FAST.k * x * x, setter(Rate.held, 0, 5.0)


@way
def of_cached_property():
    class Model:
        def __init__(self):
            self.held = 2.0

        @functools.cached_property
        def k(self):
            return self.held

    model = Model()

    def change():
        model.held = 5.0
        model.__dict__.pop("k", None)

    return lambda x: model.k * x * x, change


@way
def of_cached_property_that_is_set():
    class Model:
        @functools.cached_property
        def k(self):
            return 2.0

    model = Model()
    return lambda x: model.k * x * x, lambda: setattr(model, "k", 5.0)


@way
def of_slots():
    class Model:
        __slots__ = ("k",)

    model = Model()
    model.k = 2.0
    return lambda x: model.k * x * x, lambda: setattr(model, "k", 5.0)


@way
def of_dataclass():
    @dataclasses.dataclass
    class Model:
        k: float = 2.0

    model = Model()
    return lambda x: model.k * x * x, lambda: setattr(model, "k", 5.0)


@way
def of_frozen_dataclass():
    @dataclasses.dataclass(frozen=True)
    class Model:
        k: float = 2.0

    model = Model()
    return lambda x: model.k * x * x, lambda: object.__setattr__(model, "k", 5.0)


@way
def of_slotted_dataclass_by_fields():
    @dataclasses.dataclass(slots=True)
    class Model:
        k: float = 2.0

    model = Model()
    return lambda x: sum(dataclasses.astuple(model)) * x * x, lambda: setattr(model, "k", 5.0)


@way
def of_dataclass_fields():
    @dataclasses.dataclass
    class Model:
        k: float = 2.0

    model = Model()
    return (
        lambda x: sum(getattr(model, field.name) for field in dataclasses.fields(model)) * x * x,
        lambda: setattr(model, "k", 5.0),
    )


@way
def of_post_init():
    held = [2.0]

    @dataclasses.dataclass
    class Model:
        n: float

        def __post_init__(self):
            self.k = held[0] * self.n

    return lambda x: Model(3.0).k * x * x, setter(held, 0, 5.0)


@way
def of_namedtuple_field():
    Model = collections.namedtuple("Model", "weights")
    model = Model([2.0])
    return lambda x: model.weights[0] * x * x, setter(model.weights, 0, 5.0)


@way
def of_method_of_a_namedtuple():
    class Model(collections.namedtuple("Model", "n")):
        held = 2.0

        def k(self):
            return self.held * self.n

    model = Model(3.0)
    return lambda x: model.k() * x * x, lambda: setattr(Model, "held", 5.0)


@way
def of_attribute_that_is_asked_for():
    model = SimpleNamespace()
    return lambda x: (5.0 if hasattr(model, "k") else 2.0) * x * x, lambda: setattr(model, "k", 1.0)


@way
def of_attribute_with_a_default():
    model = type("Model", (), {})()
    return lambda x: getattr(model, "k", 2.0) * x * x, lambda: setattr(model, "k", 5.0)


@way
def of_attribute_of_a_class_with_a_default():
    model = type("Model", (), {})()
    return lambda x: getattr(model, "k", 2.0) * x * x, lambda: setattr(type(model), "k", 5.0)


@way
def of_attribute_that_is_missed():
    model = type("Model", (), {})()

    def f(x):
        try:
            return model.k * x * x
        except AttributeError:
            return 2.0 * x * x

    return f, lambda: setattr(model, "k", 5.0)


@way
def of_global_that_is_missed():
    f, scope = scoped("def f(x):\n    try: return k * x * x\n    except NameError: return 2.0 * x * x")
    return f, setter(scope, "k", 5.0)


@way
def of_all_attributes():
    model = SimpleNamespace(a=2.0)
    return lambda x: sum(vars(model).values()) * x * x, lambda: setattr(model, "b", 5.0)


@way
def of_attributes_that_are_deleted():
    model = type("Model", (), {"k": 5.0})()
    model.k = 2.0
    return lambda x: model.k * x * x, lambda: delattr(model, "k")


@way
def of_attrgetter():
    model = SimpleNamespace(k=2.0)
    read = operator.attrgetter("k")
    return lambda x: read(model) * x * x, lambda: setattr(model, "k", 5.0)


@way
def of_methodcaller():
    class Model:
        def scale(self):
            return self.held

    model = Model()
    model.held = 2.0
    read = operator.methodcaller("scale")
    return lambda x: read(model) * x * x, lambda: setattr(model, "held", 5.0)


@way
def of_method_of_a_container():
    table = {"a": 2.0}
    read = table.get
    return lambda x: read("a") * x * x, setter(table, "a", 5.0)


@way
def of_bound_method():
    model = SimpleNamespace(k=2.0)
    method = types.MethodType(lambda self, x: self.k * x, model)
    return lambda x: method(x) * x, lambda: setattr(model, "k", 5.0)


@way
def of_singledispatchmethod():
    class Model:
        @functools.singledispatchmethod
        def scale(self, kind):
            return self.held

    model = Model()
    model.held = 2.0
    return lambda x: model.scale(1) * x * x, lambda: setattr(model, "held", 5.0)


# Containers --------------------------------------------------------------------------------------------------------


def container(name, held, use, change):
    """A way of what a container holds."""

    def make():
        contents = held()
        return lambda x: use(contents) * x * x, lambda: change(contents)

    WAYS[f"container {name}"] = make


class OwnDict(dict):
    """A user's dict."""

    def __missing__(self, key):
        return self["other"]


class OwnList(list):
    """A user's list."""

    def total(self):
        return sum(self)


class OwnMapping(collections.abc.Mapping):
    """A user's mapping."""

    def __init__(self, entries):
        self.entries = entries

    def __getitem__(self, key):
        return self.entries[key]

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


def put(key, value):
    return lambda held: held.__setitem__(key, value)


container("list", lambda: [2.0, 3.0], lambda c: c[1], put(1, 5.0))
container("list of many", lambda: [2.0] * 1500, lambda c: sum(c), put(1234, 5.0))
container("list that grows", lambda: [2.0], len, lambda c: c.append(1.0))
container("list of lists", lambda: [[2.0], [3.0]], lambda c: c[1][0], lambda c: c[1].__setitem__(0, 5.0))
container("list that is sorted", lambda: [3.0, 2.0], lambda c: c[0], lambda c: c.sort())
container("dict", lambda: {"a": 2.0}, lambda c: c["a"], put("a", 5.0))
container("dict that grows", lambda: {"a": 2.0}, lambda c: sum(c.values()), put("b", 5.0))
container(
    "dict of another order",
    lambda: {"a": 2.0, "b": 3.0},
    lambda c: next(iter(c.values())),
    lambda c: put("a", c.pop("a"))(c),
)
container("keys of a dict", lambda: {2.0: 0}, lambda c: sum(c), lambda c: put(5.0, c.pop(2.0))(c))
container("own dict", lambda: OwnDict(other=2.0), lambda c: c["k"], put("other", 5.0))
container("own list", lambda: OwnList([2.0]), lambda c: c.total(), put(0, 5.0))
container("own mapping", lambda: OwnMapping({"a": 2.0}), lambda c: c["a"], lambda c: c.entries.update(a=5.0))
container(
    "get of an own mapping", lambda: OwnMapping({"a": 2.0}), lambda c: c.get("a"), lambda c: c.entries.update(a=5.0)
)
container("UserDict", lambda: collections.UserDict(a=2.0), lambda c: c["a"], put("a", 5.0))
container("UserList", lambda: collections.UserList([2.0]), lambda c: c[0], put(0, 5.0))
container("ChainMap", lambda: collections.ChainMap({}, {"a": 2.0}), lambda c: c["a"], put("a", 5.0))
container(
    "map behind a ChainMap",
    lambda: collections.ChainMap({}, {"a": 2.0}),
    lambda c: c["a"],
    lambda c: c.maps[1].update(a=5.0),
)
container(
    "MappingProxyType",
    lambda: (lambda d: SimpleNamespace(d=d, p=types.MappingProxyType(d)))({"a": 2.0}),
    lambda c: c.p["a"],
    lambda c: c.d.update(a=5.0),
)
container(
    "OrderedDict",
    lambda: collections.OrderedDict(a=2.0, b=3.0),
    lambda c: next(iter(c.values())),
    lambda c: c.move_to_end("a"),
)
container("defaultdict", lambda: collections.defaultdict(float, a=2.0), lambda c: c["a"], put("a", 5.0))
container("Counter", lambda: collections.Counter("aa"), lambda c: c["a"], lambda c: c.update("a"))
container("deque", lambda: collections.deque([2.0]), lambda c: c[0], put(0, 5.0))
container("deque that is turned", lambda: collections.deque([2.0, 3.0]), lambda c: c[0], lambda c: c.rotate(1))
container("array.array", lambda: array.array("d", [2.0]), lambda c: c[0], put(0, 5.0))
container("bytearray", lambda: bytearray(b"\x02"), lambda c: c[0], put(0, 5))
container("memoryview", lambda: memoryview(bytearray(b"\x02")), lambda c: c[0], put(0, 5))
container("set", lambda: {2.0}, sum, lambda c: c.add(5.0))
container(
    "set of objects",
    lambda: {SimpleSetItem(2.0)},
    lambda c: sum(item.k for item in c),
    lambda c: setattr(next(iter(c)), "k", 5.0),
)
container(
    "frozenset of objects",
    lambda: frozenset([SimpleSetItem(2.0)]),
    lambda c: sum(item.k for item in c),
    lambda c: setattr(next(iter(c)), "k", 5.0),
)
container("tuple of lists", lambda: ([2.0],), lambda c: c[0][0], lambda c: c[0].__setitem__(0, 5.0))
container("tuple of objects", lambda: (SimpleNamespace(k=2.0),), lambda c: c[0].k, lambda c: setattr(c[0], "k", 5.0))
container(
    "dict of objects", lambda: {"a": SimpleNamespace(k=2.0)}, lambda c: c["a"].k, lambda c: setattr(c["a"], "k", 5.0)
)
container(
    "keys view", lambda: (lambda d: (d, d.values()))({"a": 2.0}), lambda c: sum(c[1]), lambda c: c[0].update(a=5.0)
)
container("array", lambda: np.array([2.0]), lambda c: c[0], put(0, 5.0))
container(
    "view of an array",
    lambda: (lambda a: (a, a[::2]))(np.full(4, 2.0)),
    lambda c: c[1][1],
    lambda c: c[0].__setitem__(2, 5.0),
)
container("mask", lambda: np.array([True, False]), lambda c: float(c.sum()), put(1, True))
container("object array", lambda: np.array([2.0, None], object), lambda c: c[0], put(0, 5.0))
container(
    "lists in an object array",
    lambda: np.array([[2.0], None], object),
    lambda c: c[0][0],
    lambda c: c[0].__setitem__(0, 5.0),
)
container("masked array", lambda: np.ma.array([2.0, 3.0]), lambda c: float(c.sum()), put(0, np.ma.masked))
container("values of a masked array", lambda: np.ma.array([2.0, 3.0]), lambda c: float(c.sum()), put(0, 5.0))
container(
    "structured array",
    lambda: np.array([(2.0, 1)], [("k", float), ("n", int)]),
    lambda c: c["k"][0],
    lambda c: c["k"].__setitem__(0, 5.0),
)
container("all of a large array", lambda: np.full(5000, 2.0), lambda c: c[77], lambda c: c.__imul__(2.0))
container("one entry of a large array", lambda: np.full(5000, 2.0), lambda c: c[77], put(77, 5.0))
container("one entry of a very long list", lambda: [2.0] * 9000, lambda c: c[77], put(77, 5.0))
container("SimpleNamespace", lambda: SimpleNamespace(k=2.0), lambda c: c.k, lambda c: setattr(c, "k", 5.0))
container(
    "weakref",
    lambda: (lambda o: (o, weakref.ref(o)))(SimpleSetItem(2.0)),
    lambda c: c[1]().k,
    lambda c: setattr(c[0], "k", 5.0),
)
container(
    "weakref proxy",
    lambda: (lambda o: (weakref.proxy(o), [o]))(SimpleSetItem(2.0)),
    lambda c: c[0].k,
    lambda c: setattr(c[1][0], "k", 5.0),
)
container(
    "WeakValueDictionary",
    lambda: (lambda o: (o, weakref.WeakValueDictionary(a=o)))(SimpleSetItem(2.0)),
    lambda c: c[1]["a"].k,
    lambda c: setattr(c[0], "k", 5.0),
)
container("ContextVar", lambda: contextvars.ContextVar("k", default=2.0), lambda c: c.get(), lambda c: c.set(5.0))
container(
    "object in a ContextVar",
    lambda: contextvars.ContextVar("k", default=[2.0]),
    lambda c: c.get()[0],
    lambda c: c.get().__setitem__(0, 5.0),
)
container(
    "threading.local",
    lambda: (lambda t: (setattr(t, "k", 2.0), t)[1])(threading.local()),
    lambda c: c.k,
    lambda c: setattr(c, "k", 5.0),
)
container("polynomial", lambda: np.poly1d([2.0, 1.0]), lambda c: c(3.0), lambda c: c.__setitem__(0, 5.0))
container(
    "Polynomial", lambda: np.polynomial.Polynomial([2.0, 1.0]), lambda c: c(3.0), lambda c: c.coef.__setitem__(0, 5.0)
)
container("itertools.cycle", lambda: itertools.cycle([2.0]), next, lambda c: None)
container(
    "itertools.repeat", lambda: itertools.repeat([2.0]), lambda c: next(c)[0], lambda c: next(c).__setitem__(0, 5.0)
)


class SimpleSetItem:
    """An object that can be in sets, and be referred to weakly."""

    def __init__(self, k):
        self.k = k


# Modules and what is outside ---------------------------------------------------------------------------------------


@way
def of_module():
    module = ModuleType("constants")
    module.k = 2.0
    return lambda x: module.k * x * x, lambda: setattr(module, "k", 5.0)


@way
def of_function_of_a_module():
    module = ModuleType("functions")
    exec("k = 2.0\ndef g(x): return k * x", vars(module))
    return lambda x: module.g(x) * x, lambda: setattr(module, "k", 5.0)


@way
def of_monkeypatched_module():
    module = ModuleType("functions")
    exec("def g(x): return 2.0 * x", vars(module))
    return lambda x: module.g(x) * x, lambda: setattr(module, "g", lambda x: 5.0 * x)


@way
def of_module_imported_within():
    module = sys.modules["imported_within_of_the_test"] = ModuleType("imported_within_of_the_test")
    module.k = 2.0

    def f(x):
        import imported_within_of_the_test as constants

        return constants.k * x * x

    return f, lambda: setattr(module, "k", 5.0)


@way
def of_name_imported_within():
    module = sys.modules["imported_within_of_the_test"] = ModuleType("imported_within_of_the_test")
    module.k = 2.0

    def f(x):
        from imported_within_of_the_test import k

        return k * x * x

    return f, lambda: setattr(module, "k", 5.0)


@way
def of_environment():
    os.environ["ACCUMULUS_OF_THE_TEST"] = "2.0"
    return lambda x: float(os.environ["ACCUMULUS_OF_THE_TEST"]) * x * x, setter(
        os.environ, "ACCUMULUS_OF_THE_TEST", "5.0"
    )


@way
def of_getenv():
    os.environ["ACCUMULUS_OF_THE_TEST"] = "2.0"
    return lambda x: float(os.getenv("ACCUMULUS_OF_THE_TEST")) * x * x, setter(
        os.environ, "ACCUMULUS_OF_THE_TEST", "5.0"
    )


@way
def of_file():
    import tempfile
    from pathlib import Path

    path = Path(tempfile.mkdtemp()) / "k.txt"
    path.write_text("2.0")

    def f(x):
        with open(path) as file:
            return float(file.read()) * x * x

    return f, lambda: path.write_text("5.0")


@way
def of_path():
    import tempfile
    from pathlib import Path

    path = Path(tempfile.mkdtemp()) / "k.txt"
    path.write_text("2.0")
    return lambda x: float(path.read_text()) * x * x, lambda: path.write_text("5.0")


@way
def of_year():
    import datetime

    class Clock:
        year = 2.0

    clock = Clock()
    return lambda x: clock.year * datetime.date(2000, 1, 1).day * x * x, lambda: setattr(clock, "year", 5.0)


@way
def of_math_constant():
    held = SimpleNamespace(pi=math.pi)
    return lambda x: held.pi * x * x, lambda: setattr(held, "pi", 3.0)


@way
def of_lock():
    held = SimpleNamespace(lock=threading.Lock(), k=2.0)

    def f(x):
        with held.lock:
            return held.k * x * x

    return f, lambda: setattr(held, "k", 5.0)


# Derivatives within, scans, maps -----------------------------------------------------------------------------------


@way
def of_gradient_within():
    held = [2.0]
    slope = acc.gradient(lambda y: held[0] * np.sum(y**3))
    return lambda x: slope(x), setter(held, 0, 5.0)


@way
def of_gradient_made_within():
    held = [2.0]
    return lambda x: acc.gradient(lambda y: held[0] * np.sum(y**3))(x), setter(held, 0, 5.0)


@way
def of_jvp_within():
    held = SimpleNamespace(k=2.0)
    return lambda x: acc.jvp(lambda y: held.k * y**3)((x,), (x,))[1], lambda: setattr(held, "k", 5.0)


@way
def of_compiled_within():
    held = [2.0]
    inner = acc.compile(lambda y: held[0] * y)
    return lambda x: inner(x) * x, setter(held, 0, 5.0)


@way
def of_map_of_a_body():
    held = [2.0]
    return lambda x: acc.map(lambda y: held[0] * y**2, x), setter(held, 0, 5.0)


@way
def of_scan_of_a_body():
    held = [2.0]
    return lambda x: acc.scan(lambda s, y: (s * held[0] + y, s), x[0], x)[0] * x, setter(held, 0, 5.0)


# Functions of JAX --------------------------------------------------------------------------------------------------


def of_jax():
    """Ways of functions of JAX."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    names = {"jax": jax, "jnp": jnp, "acc": acc}
    sources = {
        "global": "def f(x): return jnp.sin(x) * k",
        "helper": "def g(x): return k * x\ndef f(x): return jnp.sin(g(x))",
        "jit": "@jax.jit\ndef f(x): return jnp.sin(x) * k",
        "inner jit": "@jax.jit\ndef g(x): return k * x\ndef f(x): return jnp.sin(g(x))",
        "inner jit in jit": "@jax.jit\ndef h(x): return k * x\n@jax.jit\ndef g(x): return h(x)\ndef f(x): return jnp.sin(g(x))",
        "checkpoint": "@jax.checkpoint\ndef g(x): return k * x\ndef f(x): return jnp.sin(g(x))",
        "custom_jvp": "@jax.custom_jvp\ndef g(x): return k * x\n@g.defjvp\ndef _(p, t): return k * p[0], k * t[0]\n"
        "def f(x): return jnp.sin(g(x))",
        "custom_vjp": "@jax.custom_vjp\ndef g(x): return k * x\ng.defvjp(lambda x: (k * x, ()), lambda r, t: (k * t,))\n"
        "def f(x): return jnp.sin(g(x))",
        "rule of a custom_jvp": "@jax.custom_jvp\ndef g(x): return x * x\n@g.defjvp\ndef _(p, t): return p[0] * p[0], k * t[0]\n"
        "def f(x): return jax.vmap(jax.grad(g))(x) * x + jnp.sin(x)",
        "scan": "def body(c, y): return c * k + y, c\ndef f(x): return jax.lax.scan(body, x[0], x)[1] * jnp.sin(x)",
        "fori_loop": "def body(i, c): return c * k\ndef f(x): return jax.lax.fori_loop(0, 3, body, jnp.sin(x))",
        "cond": "def g(x): return x * k\ndef h(x): return x\ndef f(x): return jax.lax.cond(x[0] > 0.0, g, h, jnp.sin(x))",
        "vmap": "def g(x): return k * x\ndef f(x): return jnp.sin(jax.vmap(g)(x))",
        "grad": "def g(x): return k * jnp.sin(x)\ndef f(x): return jax.vmap(jax.grad(g))(x)",
        "array": "def f(x): return jnp.sin(x) * a",
        "numpy array": "def f(x): return jnp.sin(x) * b",
        "attribute": "def f(x): return jnp.sin(x) * o.k",
        "class attribute": "def f(x): return jnp.sin(x) * O.k",
        "list": "def f(x): return jnp.sin(x) * held[0]",
        "branch on a global": "def f(x):\n    if k > 3: return jnp.sin(x)\n    return jnp.cos(x)",
        "gradient of the library within": "def g(x): return k * jnp.sum(jnp.sin(x))\ndf = jax.grad(g)\ndef f(x): return df(x) * x",
        "written for either": "import numpy as np\ndef f(x, m=np): return k * m.sin(x) + (jnp.sum(x) if m is jnp else np.sum(x))",
        "special method": "class S:\n    def __mul__(self, x): return o.k * x\ns = S()\ndef f(x): return s * jnp.sin(x)",
    }
    results = {}
    for name, source in sources.items():

        def make(source=source):
            O = type("O", (), {"k": 2.0})
            f, scope = scoped(
                source,
                **names,
                k=2.0,
                a=jnp.array([2.0, 3.0]),
                b=np.array([2.0, 3.0]),
                o=SimpleNamespace(k=2.0),
                O=O,
                held=[2.0],
            )

            def change():
                scope["k"], scope["a"], scope["held"][0] = 5.0, jnp.array([5.0, 6.0]), 5.0
                scope["b"][0] = O.k = scope["o"].k = 5.0

            return f, change

        results[f"jax {name}"] = make
    return results


try:
    import jax

    WAYS |= of_jax()
except ImportError:
    pass


# The test ----------------------------------------------------------------------------------------------------------

OPTIONS = {"effort": "fast", "optimise": False, "cache": False}
V = np.array([1.0, -2.0])


def in_batch(f):
    derivative = acc.jacobian(f, **OPTIONS)
    return lambda x: derivative.batch(np.stack([x, x]))[1], derivative


def plain(kind):
    def made(f):
        derivative = kind(f)
        return derivative, derivative

    return made


#: Kinds of derivatives → how they are made, and what they are of the Jacobian, or of the function.
KINDS = {
    "jacobian": (plain(lambda f: acc.jacobian(f, **OPTIONS)), lambda f, x: jacobian_of(f, x)),
    "value": (plain(lambda f: acc.compile(f, **OPTIONS)), lambda f, x: as_values(f(x))),
    "batch": (in_batch, lambda f, x: jacobian_of(f, x)),
    "jvp": (
        plain(lambda f: (lambda d: Product(d, lambda x: d((x,), (V,))[1]))(acc.jvp(f, **OPTIONS))),
        lambda f, x: jacobian_of(f, x) @ V,
    ),
    "nested": (
        plain(lambda f: acc.jacobian(lambda x: acc.jacobian(f, **OPTIONS)(x) @ V, **OPTIONS)),
        lambda f, x: jacobian_of(lambda y: jacobian_of(f, y, 1e-3) @ V, x, 1e-3),
    ),
}


class Product:
    """A derivative that is called with one point."""

    def __init__(self, derivative, call):
        self.report, self.call = derivative.report, call

    def __call__(self, x):
        return self.call(x)


def without_caches(expected, f, x):
    """Return the expected result of a function of JAX, traced anew."""
    jax.clear_caches()
    return expected(f, x)


def as_values(value):
    return np.asarray(value, float)


def jacobian_of(f, x, step=1e-4):
    """The Jacobian by central differences of fourth order."""
    columns = []
    for k in range(len(x)):
        e = np.zeros_like(x)
        e[k] = step
        near, far = (as_values(f(x + n * e)) - as_values(f(x - n * e)) for n in (1.0, 2.0))
        columns.append((8.0 * near - far) / (12.0 * step))
    return np.stack(columns, -1)


#: Each way with one kind, so that each kind meets ways of all sorts; ``ACCUMULUS_EVERY_CHANGE=1`` tries all.
PAIRS = [
    (name, kind)
    for k, name in enumerate(WAYS)
    for place, kind in enumerate(KINDS)
    if "ACCUMULUS_EVERY_CHANGE" in os.environ or place == k % len(KINDS)
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_every_change_is_seen_or_said(name, kind, monkeypatch, recwarn):
    if zlib.crc32(f"{name} {kind}".encode()) % 2:  # as if there were many variables
        monkeypatch.setattr(memory, "FEWEST", 1)
    with jax.enable_x64(True) if name.startswith("jax ") else contextlib.nullcontext():
        check(name, kind, monkeypatch)


def check(name, kind, monkeypatch):
    """Raise if a change by this way is neither seen nor said for this kind of derivative."""
    recorded = []
    monkeypatch.setattr("accumulus.programs.watched.record", lambda *a, **k: recorded.append(1) or record(*a, **k))
    f, change = WAYS[name]()
    make, expected = KINDS[kind]
    if name.startswith("jax "):
        expected = functools.partial(without_caches, expected)
    call, derivative = make(f)
    np.testing.assert_allclose(call(X), expected(f, X), rtol=1e-4, atol=1e-4)
    f(X)
    once = len(recorded)
    call(X)
    call(2.0 * X)
    assert len(recorded) == once, "recorded anew although nothing has changed"
    said = derivative.report().unwatched
    change()
    try:
        actual = call(X)
    except AccumulusError:
        return
    if not np.allclose(actual, expected(f, X), rtol=1e-4, atol=1e-4):
        assert said, f"{name} is stale, and nothing was said"
