"""Captured variables are recorded as they are: a changed closure, attribute, default or global triggers a recording."""

from __future__ import annotations

import copy
import functools
import pickle
import sys
from dataclasses import asdict, dataclass
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError
from accumulus.frontends.captured import FEW, MOST, Captured
from accumulus.frontends.contents import LARGEST
from accumulus.frontends.variables import SPELLED

X = np.array([1.0, 2.0])
factor = 2.0
table = {"k": 2.0, "rows": [1.0, 2.0]}
matrix = np.eye(2)
settings = SimpleNamespace(k=2.0)


def slope(jac, x=X):
    return jac(x)[0, 0]


def of_closure():
    k = 2.0

    def set_to(value):
        nonlocal k
        k = value

    return (lambda x: k * x), set_to


def of_array():
    weights = np.array([2.0, 1.0])
    return (lambda x: weights * x), functools.partial(weights.__setitem__, 0)


def of_list():
    weights = [2.0, 1.0]
    return (lambda x: weights[0] * x), functools.partial(weights.__setitem__, 0)


def of_nested():
    model = {"layers": [np.array([2.0, 1.0])]}
    return (lambda x: model["layers"][0] * x), functools.partial(model["layers"][0].__setitem__, 0)


def of_default_array():
    weights = np.array([2.0, 1.0])

    def f(x, weights=weights):
        return weights * x

    return f, functools.partial(weights.__setitem__, 0)


def of_defaults():
    def f(x, *, k=2.0):
        return k * x

    return f, lambda value: setattr(f, "__kwdefaults__", {"k": value})


class Model:
    shared = 1.0

    def __init__(self):
        self.k = 2.0
        self.calls = 0

    def force(self, x):
        self.calls += 1
        return self.scaled(x)

    def scaled(self, x):
        return self.k * x * self.shared

    def __call__(self, x):
        return self.force(x)


@dataclass(slots=True)
class Slotted:
    k: float = 2.0

    @property
    def double(self):
        return 2.0 * self.k

    def force(self, x):
        return 0.5 * self.double * x


def of_attribute(use):
    model = Model()
    return use(model), functools.partial(setattr, model, "k")


def of_slots():
    model = Slotted()
    return model.force, functools.partial(setattr, model, "k")


def of_class():
    class Constants:
        k = 2.0

    return (lambda x: Constants.k * x), functools.partial(setattr, Constants, "k")


def of_helper():
    def helper(x):
        return factor * x

    return (lambda x: -helper(-x)), functools.partial(globals().__setitem__, "factor")


def of_redefined_helper():
    scope = {"helper": lambda x: 2.0 * x}
    f = eval("lambda x: helper(x)", scope)
    return f, lambda value: scope.update(helper=lambda x: value * x)


def of_module():
    module = sys.modules.setdefault("constants_of_the_test", ModuleType("constants_of_the_test"))
    module.k = 2.0
    scope = {"constants": module}
    return eval("lambda x: constants.k * x", scope), functools.partial(setattr, module, "k")


CASES = {
    "closure": of_closure,
    "array": of_array,
    "list": of_list,
    "nested": of_nested,
    "default array": of_default_array,
    "defaults": of_defaults,
    "method": lambda: of_attribute(lambda model: model.force),
    "callable": lambda: of_attribute(lambda model: model),
    "object": lambda: of_attribute(lambda model: lambda x: -model.scaled(-x)),
    "partial": lambda: of_attribute(lambda model: functools.partial(Model.force, model)),
    "wrapped": lambda: of_attribute(lambda model: functools.wraps(model.force)(lambda x: -model.force(-x))),
    "slots": of_slots,
    "class": of_class,
    "helper": of_helper,
    "redefined helper": of_redefined_helper,
    "module": of_module,
    "global": lambda: ((lambda x: factor * x), functools.partial(globals().__setitem__, "factor")),
    "global table": lambda: ((lambda x: table["k"] * x), functools.partial(table.__setitem__, "k")),
    "global array": lambda: ((lambda x: matrix @ x), functools.partial(matrix.__setitem__, (0, 0))),
    "namespace": lambda: ((lambda x: settings.k * x), functools.partial(setattr, settings, "k")),
    "getattr": lambda: ((lambda x: getattr(settings, "k") * x), functools.partial(setattr, settings, "k")),  # noqa: B009
}


#: Cases that put another object in the place of an equal one.
REPLACED = ("defaults", "redefined helper")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", CASES)
def test_changes_trigger_a_new_recording(case):
    f, set_to = CASES[case]()
    set_to(2.0)
    jac = acc.jacobian(f, time_limit=0.0)
    both = acc.value_and_jacobian(f, time_limit=0.0)
    try:
        assert slope(jac) == 2.0
        first = jac.compile(X)
        set_to(2.0)
        assert case in REPLACED or jac.compile(X) is first
        for value in (5.0, -1.0):
            set_to(value)
            assert slope(jac) == value
            assert jac.batch(np.stack([X, X]))[1, 0, 0] == value
            set_to(value + 1.0)
            assert jac.batch(np.stack([X, X]))[1, 0, 0] == value + 1.0
            assert jac.compile(X)(X)[0, 0] == value + 1.0
            assert both(X)[0][0] == value + 1.0
    finally:
        set_to(2.0)


def test_unwatched_variables_stay():
    f, change = of_closure()
    of_array = acc.gradient(lambda x: np.sum(f(x)), watch=False)
    of_dict = acc.gradient(lambda x: np.sum(f(x["a"])), watch=False)
    watching = acc.gradient(lambda x: np.sum(f(x)))
    assert [of_array(X)[0], of_dict({"a": X})["a"][0], watching(X)[0]] == [2.0, 2.0, 2.0]
    change(3.0)
    assert [of_array(X)[0], of_dict({"a": X})["a"][0], watching(X)[0]] == [2.0, 2.0, 3.0]
    assert of_array.batch(np.stack([X, X])).tolist() == [[2.0, 2.0]] * 2
    assert copy.copy(of_array)(X)[0] == 2.0
    assert "watch=False" in str(of_array.report())
    with pytest.raises(ArgumentError, match="watch is 1; expected True or False"):
        acc.gradient(np.sum, watch=1)


def test_of_functions_that_hold_nothing_the_code_is_watched():
    def f(x):
        y = np.zeros(2)
        for k in range(len(x)):
            y[k] = np.sin(x[k]) * np.pi
        return y

    captured = Captured(f)
    assert [each.saved for each in captured._variables] == [f.__code__, np, True]  # no global hides `range`
    assert not Captured(np.sum)
    assert not Captured(np.multiply)


def test_side_effects_of_the_function_are_not_watched():
    model = Model()
    jac = acc.jacobian(model.force)
    program = jac.compile(X)
    model.calls = 100
    assert jac.compile(X) is program


@pytest.mark.parametrize("order", ["C", "F"])
def test_large_arrays_are_watched_by_identity_and_some_entries(order):
    weights = np.ones((64, LARGEST // 64), order=order)
    holder = SimpleNamespace(weights=weights)
    captured = Captured(lambda x: holder.weights[0] * x)
    assert captured.is_current()
    weights *= 2.0
    assert not captured.is_current()
    captured = Captured(lambda x: holder.weights[0] * x)
    holder.weights = weights.copy()
    assert not captured.is_current()


def test_unwatchable_variables_are_reported():
    weights, small = np.ones(LARGEST), np.ones(3)
    jac = acc.jacobian(lambda x: weights[:2] * small[0] * x)
    assert slope(jac) == 1.0
    assert jac.report().unwatched == ("weights, an array of 32,768 bytes: changes of only some entries are seen",)
    assert "not watched" in str(jac.report())
    assert "weights, an array of 32,768 bytes" in str(jac.report())
    weights[:] = 3.0
    assert slope(jac) == 3.0
    watched = acc.jacobian(lambda x: small[0] * x)
    assert slope(watched) == 1.0
    assert watched.report().unwatched == ()
    for count in (300, MOST + 500):
        many = [float(k) for k in range(count)]
        long = acc.jacobian(lambda x, many=many: sum(many) * x, time_limit=0.0)
        before = slope(long)
        said = long.report().unwatched
        assert [text.partition(":")[0] for text in said] == (
            [] if count < MOST else [f"<lambda>.__defaults__[0], {count:,} entries"]
        )
        many[::2] = [2.0 * entry for entry in many[::2]]
        assert slope(long) > before


def test_sets_tables_and_sparse_matrices_are_watched():
    names = {"a"}
    jac = acc.jacobian(lambda x: (2.0 if "b" in names else 1.0) * x, time_limit=0.0)
    assert slope(jac) == 1.0
    names.add("b")
    assert slope(jac) == 2.0
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_array(np.eye(2))
    captured = Captured(lambda x: matrix @ x)
    assert captured.is_current()
    matrix.data[0] = 3.0
    assert not captured.is_current()
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"k": [2.0, np.nan], "label": ["a", "b"]})
    jac = acc.jacobian(lambda x: frame["k"][0] * x, time_limit=0.0)
    first = jac.compile(X)
    assert jac.compile(X) is first
    frame.loc[0, "k"] = 4.0
    assert slope(jac) == 4.0


def test_attributes_that_code_asks_for_all_together_are_watched():
    @dataclass
    class Rates:
        fast: float = 2.0
        slow: float = 1.0

    @dataclass(slots=True)
    class Narrow:
        fast: float = 2.0

    for rates in (Rates(), Narrow()):
        jac = acc.jacobian(lambda x, rates=rates: sum(asdict(rates).values()) * x, time_limit=0.0)
        before = slope(jac)
        rates.fast = 5.0
        assert slope(jac) == before + 3.0
    held = Rates()
    name = "slow"
    jac = acc.jacobian(lambda x: getattr(held, name) * vars(held)["fast"] * x, time_limit=0.0)
    assert slope(jac) == 2.0
    held.slow = 3.0
    assert slope(jac) == 6.0


def test_methods_and_properties_that_are_replaced_are_watched():
    class Gain:
        k = 2.0

        def force(self, x):
            return self.double * x

        @property
        def double(self):
            return self.k * self.scale()

        @staticmethod
        def scale():
            return 1.0

    jac = acc.jacobian(Gain().force, time_limit=0.0)
    assert slope(jac) == 2.0
    Gain.scale = staticmethod(lambda: 3.0)
    assert slope(jac) == 6.0
    Gain.double = property(lambda self: 7.0)
    assert slope(jac) == 7.0
    Gain.force = lambda self, x: x
    assert slope(acc.jacobian(Gain().force, time_limit=0.0)) == 1.0


def test_constants_in_arguments_are_watched():
    class Law:
        power = 2

    @dataclass
    class Spring:
        k: float
        law: Law

        def force(self, x):
            return factor * self.k * x**self.law.power

    law = Law()
    jac = acc.jacobian(lambda x, spring: spring.force(x), time_limit=0.0)
    assert [jac(3.0, Spring(1.0, law)) for _ in range(2)] == [12.0, 12.0]
    law.power = 1
    assert [jac(3.0, Spring(1.0, law)) for _ in range(2)] == [2.0, 2.0]
    globals()["factor"] = 4.0
    try:
        assert jac(3.0, Spring(1.0, law)) == 4.0
        Spring.force = lambda self, x: 5.0 * x
        assert jac(3.0, Spring(1.0, law)) == 5.0
    finally:
        globals()["factor"] = 2.0


def test_an_equal_replacement_is_watched_from_then_on():
    holder = SimpleNamespace(weights=np.ones(3))
    captured = Captured(lambda x: holder.weights[0] * x)
    holder.weights = np.ones(3)
    assert captured.is_current()
    holder.weights[1] = 2.0
    assert not captured.is_current()


@pytest.mark.parametrize(("before", "after"), [(0.0, -0.0), (1, 1.0), (1, True), (1.0, np.float64(1.0))])
def test_numbers_that_only_compare_equal_differ(before, after):
    holder = SimpleNamespace(k=before)
    captured = Captured(lambda x: holder.k * x)
    holder.k = after
    assert not captured.is_current()


def test_a_variable_that_goes_is_a_change():
    holder = SimpleNamespace(k=1.0)
    captured = Captured(lambda x: holder.k * x)
    del holder.k
    assert not captured.is_current()


@pytest.mark.parametrize("count", [1, FEW, FEW + 1, SPELLED, SPELLED + 1, 3 * SPELLED])
def test_each_of_many_global_variables_is_watched(count):
    """Few are compared alone, some one by one in compiled code, many in a loop."""
    names = [f"gain{k}" for k in range(count)]
    scope = dict.fromkeys(names, 1.0)
    exec(f"def f(x):\n    return x * ({' + '.join(names)})", scope)
    gradient = acc.gradient(scope["f"])
    assert gradient(1.0) == gradient(2.0) == count
    for k, name in enumerate(names):
        scope[name] = 2.0
        assert gradient(1.0) == count + k + 1
        assert gradient(2.0) == count + k + 1
    del scope[names[-1]]
    with pytest.raises(NameError):
        gradient(1.0)


def test_attributes_of_any_name_are_watched():
    held = SimpleNamespace(**{"plain": 1.0, "class": 1.0, "two words": 1.0, "None": 1.0})
    gradient = acc.gradient(lambda x: x * (held.plain + sum(getattr(held, name) for name in list(vars(held)))))
    assert gradient(1.0) == gradient(2.0) == 5.0
    for expected, name in zip((6.0, 7.0, 8.0), ("class", "two words", "None"), strict=True):
        setattr(held, name, 2.0)
        assert gradient(1.0) == gradient(2.0) == expected


def test_circles_end():
    model = Model()
    model.k = model
    assert Captured(model.force)
    items: list[object] = []
    items.append(items)
    assert Captured(lambda x: items)


def times_factor(x):
    return factor * x


def test_copies_and_pickles_remember_captured_variables():
    jac = acc.jacobian(times_factor)
    assert slope(jac) == 2.0
    pickled = pickle.dumps(jac)
    try:
        globals()["factor"] = 3.0
        assert slope(copy.copy(jac)) == 3.0
        assert slope(pickle.loads(pickled)) == 3.0
    finally:
        globals()["factor"] = 2.0
    again = pickle.loads(pickled)
    assert slope(again) == 2.0


def test_objects_among_the_arguments_are_watched():
    """A constant argument that stays the same object is recorded anew where its attributes change."""
    models = Model(), Model()
    derivative = acc.jacobian(lambda x, model: model.force(x), cache=False, time_limit=0.0)
    for k in (2.0, 3.0, 3.0, -1.0):
        models[0].k = k
        for _ in range(2):
            for model in models:
                assert derivative(0.5, model) == model.k * model.shared
                np.testing.assert_array_equal(
                    derivative.batch(np.ones(4), model, in_axes=(0, None)), np.full(4, model.k * model.shared)
                )
    program = derivative.compile(0.5, models[0])
    assert derivative.compile(0.5, models[0]) is program
    copied = copy.deepcopy(derivative)
    models[1].shared = 5.0
    assert copied(0.5, models[1]) == derivative(0.5, models[1]) == 5.0 * models[1].k
