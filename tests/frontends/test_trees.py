"""Arguments and results of any structure: derivatives in the same one, as JAX has them."""

from __future__ import annotations

import enum
import functools
import pickle
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accumulus as acc
from accumulus.errors import ArgumentError, TraceError

jacobian = functools.partial(acc.jacobian, effort="fast")
X = np.array([0.5, 1.25, -2.0])
Pair = namedtuple("Pair", "first second")


class Kind(enum.Enum):
    LINEAR = 1
    SQUARE = 2


@dataclass
class Spring:
    stiffness: Any
    rest: Any = 1.0
    kind: Kind = Kind.LINEAR
    name: str = "spring"

    def force(self, x):
        stretch = x - self.rest
        return self.stiffness * (stretch if self.kind is Kind.LINEAR else stretch**2)


@dataclass(frozen=True, slots=True)
class Frozen:
    gain: Any
    order: int = field(default=2, metadata={"static": True})


@dataclass
class System:
    springs: list[Spring]
    masses: dict[str, float]
    note: None = None


def system_force(system, x):
    forces = [spring.force(x) / mass for spring, mass in zip(system.springs, system.masses.values(), strict=True)]
    return {"forces": forces, "total": (sum(forces), np.sum(x))}


SYSTEM = System([Spring(2.0, 0.25), Spring(X, name="second")], {"a": 1.5, "b": 2.0})


def leaves_of(tree):
    """Leaves of a tree of lists, tuples, dicts and data classes, by plain Python."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    elif hasattr(tree, "__dataclass_fields__"):
        tree = [getattr(tree, name) for name in tree.__dataclass_fields__]
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in leaves_of(part)]
    return [tree] if isinstance(tree, np.ndarray | np.generic | float) else []


def differences(f, x, h=1e-6):
    x = np.asarray(x, float)
    columns = []
    for index in np.ndindex(*x.shape):
        step = np.zeros(x.shape)
        step[index] = h
        columns.append((np.asarray(f(x + step)) - np.asarray(f(x - step))) / (2 * h))
    return np.stack(columns, axis=-1).reshape(*np.shape(f(x)), *x.shape)


def test_data_classes_in_lists_with_dicts():
    jac = jacobian(system_force)
    found = jac(SYSTEM, X)
    second = found["forces"][1]
    assert type(second) is System
    assert (second.note, list(second.masses), second.springs[1].name) == (None, ["a", "b"], "second")
    assert second.springs[1].kind is Kind.LINEAR
    np.testing.assert_allclose(second.springs[1].stiffness, np.diag((X - 1.0) / 2.0))
    np.testing.assert_allclose(second.springs[0].stiffness, np.zeros(3))
    np.testing.assert_allclose(second.masses["b"], -X * (X - 1.0) / 4.0)
    total = found["total"][0].springs[0].rest
    np.testing.assert_allclose(total, np.full(3, -2.0 / 1.5))
    np.testing.assert_allclose(found["total"][1].masses["a"], 0.0)


def test_changed_constants_and_structures_are_recorded_anew():
    jac = jacobian(lambda spring, x: spring.force(x), argnums=1)
    np.testing.assert_allclose(jac(Spring(2.0), 4.0), 2.0)
    np.testing.assert_allclose(jac(Spring(3.0), 4.0), 3.0)
    np.testing.assert_allclose(jac(Spring(3.0, kind=Kind.SQUARE), 4.0), 18.0)
    np.testing.assert_allclose(jac(Spring(3.0), 4.0), 3.0)
    np.testing.assert_allclose(jac(Spring([3.0, 1.0][0], rest=X), 4.0), np.full(3, 3.0))


def test_static_fields_are_constants():
    jac = jacobian(lambda p, x: p.gain * sum(x**k for k in range(p.order)), argnums=(0, 1))
    by_p, by_x = jac(Frozen(3.0, 4), 2.0)
    assert (by_p.gain, by_p.order, by_x) == (15.0, 4, 3.0 * (1 + 4 + 12))
    assert jac(Frozen(3.0, 2), 2.0)[1] == 3.0


def test_fields_that_the_constructor_computes_are_refused_with_advice():
    @dataclass
    class Box:
        width: float
        height: float
        area: float = field(init=False)

        def __post_init__(self):
            self.area = self.width * self.height

    with pytest.raises(ArgumentError, match=r"Box\.area is no argument of its constructor.*accumulus\.register"):
        jacobian(lambda box: box.area)(Box(2.0, 3.0))
    assert jacobian(lambda box, x: box.area * x, argnums=1)(Box(2.0, 3.0), 1.0) == 6.0
    assert jacobian(lambda x: Box(x, 2.0 * x))(3.0).area == 12.0
    acc.register(Box, lambda box: ((box.width, box.height), None), lambda _, parts: Box(*parts))
    slope = jacobian(lambda box: box.area * box.width)(Box(2.0, 3.0))
    assert (slope.width, slope.height) == (12.0, 4.0)


def test_what_a_constructor_of_its_own_computes_is_refused_too():
    class Table:
        def __init__(self, x):
            self.slope = 2.0 * x

    @dataclass(init=False)
    class Model:
        x: float
        table: Any

        def __init__(self, x):
            self.x, self.table = x, Table(x)

    with pytest.raises(ArgumentError, match=r"Model\.table is no argument of its constructor"):
        jacobian(lambda model: model.table.slope)(Model(3.0))
    jac = jacobian(lambda x, model: model.table.slope * model.x * x)
    assert [float(jac(1.0, Model(x))) for x in (3.0, 4.0)] == [18.0, 32.0]


def test_properties_and_cached_ones_are_computed_of_traced_fields():
    @dataclass
    class Box:
        width: float

        @functools.cached_property
        def area(self):
            return self.width**2

        @property
        def volume(self):
            return self.area * self.width

    box = Box(3.0)
    assert box.area == 9.0
    assert jacobian(lambda box: box.area + box.volume)(box).width == 6.0 + 27.0


def test_attrs_classes():
    attrs = pytest.importorskip("attrs")

    @attrs.frozen
    class Rates:
        fast: Any
        slow: Any = 2.0
        label: str = "r"

    found = jacobian(lambda rates, x: rates.fast * x - rates.slow)(Rates(3.0), X)
    assert type(found) is Rates
    assert found.label == "r"
    np.testing.assert_allclose(found.fast, X)
    np.testing.assert_allclose(found.slow, -np.ones(3))
    result = jacobian(lambda x: Rates(x * x, x[0]))(X)
    np.testing.assert_allclose(result.fast, np.diag(2 * X))


STRUCTURES = {
    "list": (lambda p: [p[0] * p[1], p[1]], [X, 2.0]),
    "tuple": (lambda p: (p[0] * p[1], (p[1],)), (X, 2.0)),
    "named tuple": (lambda p: Pair(p.first * p.second, p.first), Pair(X, 2.0)),
    "dict": (lambda p: {"z": p["a"] * p["b"], "y": p["b"] ** 2}, {"b": 2.0, "a": X}),
    "ordered": (lambda p: OrderedDict(z=p["a"] * p["b"]), OrderedDict(b=2.0, a=X)),
    "default": (lambda p: p["a"] * p["b"], defaultdict(float, b=2.0, a=X)),
    "empty parts": (lambda p: ([], p["a"] * 2.0, {}), {"a": X, "none": None, "empty": (), "more": []}),
    "nested": (lambda p: [{"s": p[0][1]["k"] * p[1]}, p[0][0] ** 2], ((X, {"k": 3.0}), X[:1])),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures_are_those_of_jax(name):
    jax = pytest.importorskip("jax")
    f, p = STRUCTURES[name]
    with jax.enable_x64(True):
        wanted = jax.jacobian(lambda p: jax.tree_util.tree_map(jax.numpy.asarray, f(p)))(
            jax.tree_util.tree_map(jax.numpy.asarray, p)
        )
        found = jacobian(f)(p)
        ours, theirs = jax.tree_util.tree_flatten(found), jax.tree_util.tree_flatten(wanted)
    assert ours[1] == theirs[1]
    for one, other in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def trees(leaves):
    keys = st.sampled_from(["a", "b", "long name", "k"])
    return st.recursive(
        leaves,
        lambda parts: (
            st.lists(parts, max_size=3).map(tuple)
            | st.dictionaries(keys, parts, max_size=3)
            | st.builds(Pair, parts, parts)
            | st.builds(lambda p: Frozen(p, 2), parts)
            | st.lists(parts, max_size=2).map(lambda parts: [*parts, X[:1]])
        ),
        max_leaves=6,
    )


@given(trees(st.floats(-2, 2) | st.just(X) | st.none() | st.sampled_from(["text", Kind.LINEAR, True])), st.booleans())
def test_random_structures(tree, by_keyword):
    def f(x, tree):
        numbers = [np.sum(np.sin(leaf) * (k + x)) for k, leaf in enumerate(numbers_of(tree))]
        return Pair(sum(numbers, x), tree_map(lambda leaf: leaf * x, tree))

    def numbers_of(tree):
        if isinstance(tree, dict):
            return [leaf for part in tree.values() for leaf in numbers_of(part)]
        if isinstance(tree, Frozen):
            return numbers_of(tree.gain)
        if isinstance(tree, list | tuple):
            return [leaf for part in tree for leaf in numbers_of(part)]
        return [] if tree is None or isinstance(tree, str | Kind | bool) else [tree]

    def tree_map(g, tree):
        if isinstance(tree, dict):
            return {key: tree_map(g, part) for key, part in tree.items()}
        if isinstance(tree, Frozen):
            return Frozen(tree_map(g, tree.gain), None)
        if isinstance(tree, tuple):
            parts = [tree_map(g, part) for part in tree]
            return Pair(*parts) if isinstance(tree, Pair) else tuple(parts)
        if isinstance(tree, list):
            return [tree_map(g, part) for part in tree]
        return None if tree is None or isinstance(tree, str | Kind | bool) else g(tree)

    given_numbers = numbers_of(tree)
    jac = jacobian(f, argnums=(0, 1), cache=False) if given_numbers else jacobian(f, cache=False)
    found = jac(0.75, tree=tree) if by_keyword else jac(0.75, tree)
    if not given_numbers:
        assert found.first == 1.0
        return
    by_x, by_tree = found.first
    np.testing.assert_allclose(by_x, 1.0 + sum(np.sum(np.sin(leaf)) for leaf in given_numbers), rtol=1e-13)
    slopes = numbers_of(by_tree)
    assert len(slopes) == len(given_numbers)
    for k, (slope, leaf) in enumerate(zip(slopes, given_numbers, strict=True)):
        np.testing.assert_allclose(slope, np.cos(leaf) * (k + 0.75), rtol=1e-13)
    by_leaf = leaves_by_leaf(found.second)
    assert len(by_leaf) == len(given_numbers)
    for k, (own_x, own_tree) in enumerate(by_leaf):
        np.testing.assert_allclose(own_x, given_numbers[k])
        for j, block in enumerate(numbers_of(own_tree)):
            size = np.size(given_numbers[k])
            expected = 0.75 * np.eye(size) if j == k else np.zeros((size, np.size(given_numbers[j])))
            np.testing.assert_allclose(np.reshape(block, expected.shape), expected)


def leaves_by_leaf(tree):
    """Pairs of derivatives at the leaves of a result; a plain tuple of two whose first part is an array is one."""
    if type(tree) is tuple and len(tree) == 2 and isinstance(tree[0], np.ndarray | np.generic):
        return [tree]
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, Frozen):
        tree = [tree.gain]
    return [pair for part in tree for pair in leaves_by_leaf(part)] if isinstance(tree, list | tuple) else []


def test_errors_name_the_path():
    f = jacobian(lambda p: p["a"][0])
    with pytest.raises(ArgumentError, match=r"argument 0 \(p\)\['a'\]\[1\] is an array of complex128"):
        f({"a": (1.0, np.array([1j]))})
    with pytest.raises(ArgumentError, match=r"argument 0 \(p\)\['b'\] is a set of numbers"):
        f({"a": (1.0,), "b": {1.0}})
    with pytest.raises(ArgumentError, match=r"holds no numbers"):
        f({"a": "text"})
    with pytest.raises(TraceError, match=r"function .* at \['k'\]\[0\]"):
        jacobian(lambda x: {"k": (np.mean, x)})(1.0)
    assert jacobian(lambda x: {"k": ("a", 2.0 * x, Kind.LINEAR)})(1.0) == {"k": ("a", 2.0, Kind.LINEAR)}
    loop: list[Any] = [1.0, "a"]
    loop.append(loop)
    with pytest.raises(ArgumentError, match=r"argument 0 \(p\)\[2\] is the list that holds it"):
        f(loop)


# Keywords -----------------------------------------------------------------------------------------------------


def flight(x, rates, *, drag=0.1, **more):
    return x * rates["k1"] - drag * x**2 * sum(more.values(), 1.0)


def test_arguments_are_differentiated_by_name():
    rates = {"k1": 2.0, "k2": 3.0}
    by_rates = jacobian(flight, argnames="rates")(2.0, rates)
    assert (by_rates["k1"], by_rates["k2"]) == (2.0, 0.0)
    by_drag, by_x = jacobian(flight, argnames=("drag", "x"))(2.0, rates=rates)
    np.testing.assert_allclose((by_drag, by_x), (-4.0, 2.0 - 0.4))
    by_x, by_more = jacobian(flight, argnums=0, argnames="gust")(2.0, rates, gust=4.0, drag=0.5)
    np.testing.assert_allclose((by_x, by_more), (2.0 - 0.5 * 4.0 * 5.0, -2.0))
    value, slope = acc.value_and_jacobian(flight, argnums=1)(2.0, rates, drag=0.0)
    assert (value, slope["k1"]) == (4.0, 2.0)


def test_defaults_that_are_not_given_are_differentiated_by_when_asked():
    def f(x, k=3.0, shift=1.0):
        return k * x**2 + shift

    assert jacobian(f, argnums=1)(2.0) == 4.0
    assert jacobian(f, argnames=("shift", "k"))(2.0) == (1.0, 4.0)
    assert jacobian(f)(2.0) == 12.0
    f.__defaults__ = (5.0, 1.0)
    assert jacobian(f, argnames="k")(2.0) == 4.0


def test_methods_partials_callables_and_many_arguments():
    class Model:
        def __init__(self, gain):
            self.gain = gain

        def force(self, x, *, rates):
            return self.gain * x * rates[0]

        def __call__(self, x, *rest, scale=1.0):
            return self.gain * x * scale + sum(part["a"] for part in rest)

    model = Model(2.0)
    assert jacobian(model.force, argnames="rates")(3.0, rates=(5.0,)) == (6.0,)
    model.gain = 4.0
    assert jacobian(functools.partial(model.force, rates=(7.0,)))(3.0) == 28.0
    assert jacobian(functools.partial(model.force, rates=(7.0,)), argnames="rates")(3.0) == (12.0,)
    derivative = jacobian(model, argnums=(0, 2), argnames="scale")
    assert derivative(3.0, {"a": 1.0}, {"a": 2.0}, scale=0.5) == (2.0, {"a": 1.0}, 12.0)
    model.gain = 6.0
    assert derivative(3.0, {"a": 1.0}, {"a": 2.0}, scale=0.5) == (3.0, {"a": 1.0}, 18.0)


def test_static_names():
    def power(x, *, n, weights=()):
        return sum(x**k for k in range(n)) * len(weights)

    jac = jacobian(power, static_argnames=("n", "weights"))
    assert jac(2.0, n=3, weights=[1.0]) == 5.0
    assert jac(2.0, n=4, weights=[1.0, 2.0]) == 2 * (1 + 4 + 12)
    assert acc.trace(power, 2.0, n=3, weights=[1.0], static_argnames=("n", "weights")).tape.inputs == 1


# Lists of numbers ------------------------------------------------------------------------------------------------


def test_a_list_of_numbers_is_an_array_in_derivatives():
    def rosenbrock(x):
        return 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2

    expected = acc.gradient(rosenbrock)(np.array([1.5, -2.0]))
    np.testing.assert_array_equal(acc.gradient(rosenbrock)([1.5, -2.0]), expected)
    np.testing.assert_array_equal(jacobian(lambda p: rosenbrock(p["x"]))({"x": [1.5, -2]})["x"], expected)
    found = jacobian(lambda x: np.sin(x) * x)([1.0, 2.0])  # takes arrays only
    np.testing.assert_allclose(found, np.diag(np.cos([1.0, 2.0]) * [1.0, 2.0] + np.sin([1.0, 2.0])))
    found = jacobian(lambda m: [m[0][1] * m[1][0], m[0][0]])([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(found, [[[0.0, 3.0], [2.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]])


def test_lists_stay_lists_where_that_makes_a_difference():
    np.testing.assert_array_equal(jacobian(lambda x: x + x)([1.0, 2.0]), [[1, 0], [0, 1], [1, 0], [0, 1]])
    np.testing.assert_array_equal(jacobian(lambda x: np.stack(2 * x))([3.0]), [[1.0], [1.0]])
    assert jacobian(lambda x: np.sum(x) * (2.0 if isinstance(x, list) else 3.0))([1.0, 2.0]).tolist() == [2.0, 2.0]
    np.testing.assert_array_equal(jacobian(lambda x: x)([1.0, 2.0]), np.eye(2))


def test_lists_in_batches():
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    jac = acc.gradient(lambda x: x[0] * x[1])
    np.testing.assert_array_equal(jac.batch(rows), np.array(rows)[:, ::-1])
    np.testing.assert_array_equal(jac.batch([rows[0], rows[1]]), np.array(rows)[:2, ::-1])


# Batches, sparse results, programs ------------------------------------------------------------------------------


def test_axes_of_points_by_prefix():
    n = 5
    generator = np.random.default_rng(1)
    stiff, rest, xs = generator.uniform(1, 2, (n, 3)), generator.uniform(0, 1, n), generator.uniform(1, 2, (3, n))

    def f(spring, x, *, shift=0.0):
        return {"force": spring.force(x) + shift}

    jac = jacobian(f, argnums=(0, 1))
    points = [jac(Spring(stiff[k], rest[k]), xs[:, k]) for k in range(n)]
    many = jac.batch(Spring(stiff, rest), xs, in_axes=(0, 1))
    by_field = jac.batch(Spring(stiff.T, rest), xs, in_axes=(Spring(1, 0), -1))
    named = jac.batch(Spring(stiff, rest), x=xs, in_axes={"spring": 0, "x": 1})
    for k, (spring, x) in enumerate(point["force"] for point in points):
        for found in (many, by_field, named):
            np.testing.assert_allclose(found["force"][0].stiffness[k], spring.stiffness, rtol=1e-14)
            np.testing.assert_allclose(found["force"][0].rest[k], spring.rest, rtol=1e-14)
            np.testing.assert_allclose(found["force"][1][k], x, rtol=1e-14)
    shared = jac.batch(Spring(2.0, 0.5), xs.T, in_axes=(None, 0))
    assert shared["force"][0].stiffness.shape == (n, 3)
    shifted = jacobian(f, argnames="shift").batch(Spring(2.0, 0.5), xs.T, shift=np.ones(n), in_axes=(None, 0))
    np.testing.assert_array_equal(shifted["force"], np.ones((n, 3)))
    with pytest.raises(ArgumentError, match=r"in_axes of argument 0 of f is \(0,\); expected one entry each for"):
        jac.batch(Spring(stiff, rest), xs, in_axes=((0,), 1))
    with pytest.raises(ArgumentError, match="expected 2 entries"):
        jac.batch(Spring(stiff, rest), xs, in_axes=(0,))


def test_sparse_results_values_of_nonzeros_and_patterns():
    def f(p):
        return {"y": p["x"][1:] * p["x"][:-1] * p["k"]}

    jac = jacobian(f, sparse="csr")
    p = {"x": np.array([1.0, 2.0, 3.0]), "k": 2.0}
    dense, matrices = jacobian(f)(p), jac(p)
    np.testing.assert_array_equal(matrices["y"]["x"].toarray(), dense["y"]["x"])
    np.testing.assert_array_equal(matrices["y"]["k"].toarray().ravel(), dense["y"]["k"])
    assert jac.pattern["y"]["x"].shape == (2, 3)
    np.testing.assert_array_equal(jac.nonzeros(p)["y"]["x"], matrices["y"]["x"].data)
    many = jac.batch({"x": np.ones((4, 3)), "k": 2.0})
    assert many["y"]["x"][3].shape == (2, 3)


def test_reports_pickles_copies_and_checks():
    derivative = jacobian(system_force)
    wanted = derivative(SYSTEM, X)
    again = pickle.loads(pickle.dumps(derivative))
    for one, other in zip(leaves_of(again(SYSTEM, X)), leaves_of(wanted), strict=True):
        np.testing.assert_array_equal(one, other)
    assert derivative.operations == derivative.report().operations
    assert "1 compiled" in repr(derivative)
    assert acc.check(system_force, SYSTEM, X, points=4, effort="fast").passed
    assert acc.check(flight, 2.0, {"k1": 1.0}, keywords={"drag": 0.5}, argnames="drag", points=3, effort="fast").passed


def test_traces_of_structures():
    trace = acc.trace(system_force, SYSTEM, X)
    plan = acc.plan(trace.linearize(), effort="fast")
    system, x = trace.compile(plan)(2.0, 0.25, X, 1.0, 1.5, 2.0, X)["forces"][0]
    np.testing.assert_allclose(system.springs[0].stiffness, (X - 0.25) / 1.5)
    np.testing.assert_allclose(x, np.eye(3) * 2.0 / 1.5)


def test_what_is_registered_elsewhere():
    jax = pytest.importorskip("jax")

    @functools.partial(jax.tree_util.register_dataclass, data_fields=["gain"], meta_fields=["bias"])
    @dataclass
    class Affine:
        gain: Any
        bias: float

    slope = jacobian(lambda a, x: a.gain * x + a.bias)(Affine(2.0, 1.0), 3.0)
    assert type(slope) is Affine
    assert (slope.gain, slope.bias) == (3.0, 1.0)
    optree = pytest.importorskip("optree")

    class Polynomial:
        def __init__(self, *coefficients):
            self.coefficients = coefficients

    optree.register_pytree_node(
        Polynomial, lambda p: (p.coefficients, None), lambda _, parts: Polynomial(*parts), namespace="accumulus"
    )
    slope = jacobian(lambda p, x: p.coefficients[0] + p.coefficients[1] * x)(Polynomial(2.0, 1.0), 3.0)
    assert slope.coefficients == (1.0, 3.0)


def test_arrays_of_jax_are_numbers():
    jax = pytest.importorskip("jax")
    x = jax.numpy.array([1.0, 2.0])
    np.testing.assert_allclose(jacobian(lambda x: x**2)(x), np.diag([2.0, 4.0]))
    np.testing.assert_allclose(jacobian(lambda p: p["x"] ** 2)({"x": x})["x"], np.diag([2.0, 4.0]))


# Calls of a form that was met before -----------------------------------------------------------------------------


def test_later_calls_take_what_they_are_given():
    """The short way through a call looks at types, keys, constants and fields again."""

    def f(p, x, *, mode="a"):
        return p["k"] * x * (2.0 if mode == "a" else 3.0) + sum(p.values(), 0.0) * (4.0 if "m" in p else 1.0)

    jac = jacobian(f, argnums=1)
    wanted = jacobian(f, argnums=0)
    for _ in range(2):
        assert jac({"k": 2.0, "l": 1.0}, 3.0) == 4.0
        assert jac({"k": 5.0, "l": 1.0}, 3.0, mode="b") == 15.0
        assert jac({"l": 7.0, "k": 1.0}, 3.0, mode="a") == 2.0
        assert jac({"k": 2, "m": np.float32(1.0)}, x=np.float64(3.0)) == 4.0
        assert jac({"k": True, "l": 1.0}, 3.0) == 2.0
        assert wanted({"k": 2.0, "m": 1.0}, 3.0) == {"k": 10.0, "m": 4.0}
        np.testing.assert_array_equal(jac({"k": X, "l": 0.0}, 3.0), 2.0 * X)
        np.testing.assert_array_equal(jac({"k": X.tolist(), "l": X}, X), np.diag(2.0 * X))
    with pytest.raises(ArgumentError, match=r"\['k'\] is a set of numbers"):
        jac({"k": {1.0}, "l": 1.0}, 3.0)
    with pytest.raises(KeyError):
        jac({"l": 1.0}, 3.0)


def test_objects_that_change_between_calls():
    spring = Spring(2.0)
    jac = jacobian(lambda spring, x: spring.force(x) + getattr(spring, "more", 0.0), argnums=1)
    assert [float(jac(spring, 3.0)) for _ in range(2)] == [2.0, 2.0]
    spring.stiffness, spring.kind = 5.0, Kind.SQUARE
    assert [float(jac(spring, 3.0)) for _ in range(2)] == [20.0, 20.0]
    spring.more = 1.0
    by_spring = jacobian(lambda spring, x: spring.force(x) + getattr(spring, "more", 0.0))
    assert by_spring(spring, 3.0).more == 1.0
    spring.stiffness = [1.0, 2.0]
    assert jacobian(lambda spring: spring.stiffness[1] * 3.0)(spring).stiffness.tolist() == [0.0, 3.0]


def test_long_and_deep_structures():
    numbers = tuple(float(k) for k in range(500))
    np.testing.assert_array_equal(acc.gradient(lambda p: sum(p) * p[0])(numbers)[1:], np.zeros(499))
    tree: Any = 1.5
    for _ in range(60):
        tree = [tree, "a"]

    def inside(tree):
        return inside(tree[0]) if isinstance(tree, list) else tree

    slope = acc.gradient(lambda tree: inside(tree) ** 2)
    assert [inside(slope(tree)) for _ in range(2)] == [3.0, 3.0]


def test_results_are_written_to_arrays_of_their_structure():
    def f(p):
        return {"y": p["x"] * p["k"], "z": p["k"] ** 2}

    jac = jacobian(f)
    points = {"x": np.arange(8.0).reshape(4, 2), "k": np.arange(4.0)}
    wanted = jac.batch(points, in_axes=0)
    out = {"z": {"k": np.empty(4), "x": np.empty((4, 2))}, "y": {"k": np.empty((4, 2)), "x": np.empty((4, 2, 2))}}
    jac.batch(points, in_axes=0, out=out)
    for row in ("y", "z"):
        for column in ("x", "k"):
            np.testing.assert_array_equal(out[row][column], wanted[row][column])
    flat = [np.empty((4, 2, 2)), np.empty((4, 2)), np.empty((4, 2)), np.empty(4)]
    jac.batch(points, in_axes=0, out=flat)
    np.testing.assert_array_equal(flat[1], wanted["y"]["k"])
    with pytest.raises(
        ArgumentError, match=r"out has arrays at \['y'\]; expected .* at \['y'\]\['x'\], \['y'\]\['k'\]"
    ):
        jac.batch(points, in_axes=0, out={"y": np.empty(4)})


def test_programs_take_what_they_were_compiled_for():
    program = jacobian(flight, argnames="rates").compile(2.0, {"k1": 2.0}, drag=0.5)
    assert program(3.0, {"k1": 5.0}, drag=0.0) == {"k1": 3.0}
    np.testing.assert_array_equal(program.batch(X, {"k1": 1.0}, drag=0.0, in_axes={"x": 0, "rates": None})["k1"], X)
    assert pickle.loads(pickle.dumps(program))(3.0, {"k1": 5.0}, drag=0.0) == {"k1": 3.0}
    assert program.operations == program.program.operations
    with pytest.raises(ArgumentError, match="another structure"):
        program(3.0, {"k2": 5.0}, drag=0.0)
    sparse = jacobian(lambda p: p["x"] ** 2, sparse="csr").compile({"x": X})
    np.testing.assert_array_equal(sparse.nonzeros({"x": 2.0 * X})["x"], 4.0 * X)


def test_errors_of_batches_and_numbers_name_the_path():
    jac = jacobian(lambda p, x: p["k"] * x)
    with pytest.raises(ArgumentError, match=r"argument 0 \(p\)\['k'\] has 3, argument 1 \(x\) has 4"):
        jac.batch({"k": np.ones(3)}, np.ones((4, 2)))
    with pytest.raises(ArgumentError, match=r"argument 0 \(p\)\['k'\] of <lambda> has shape \(3,\) and no axis 1"):
        jac.batch({"k": np.ones(3)}, np.ones((3, 2)), in_axes=({"k": 1}, 0))
    finite = jacobian(lambda p: p["k"][0] * p["l"], check_finite=True)
    with pytest.raises(ArgumentError, match=r"argument 0 \(p\)\['l'\] of <lambda> is nan"):
        finite({"k": [1.0, 2.0], "l": np.nan})


def test_decisions_on_numbers_in_containers():
    def f(p, x, *, limit):
        y = x * p.gain if x > limit else x + p.gain
        return y * sum(x**k for k in range(p.more["n"]))

    @dataclass
    class Choice:
        gain: Any
        more: dict[str, Any]

    jac = jacobian(f, argnums=1, argnames="limit")
    for _ in range(2):
        for x, n in ((0.5, 2), (2.0, 2), (2.0, 3)):
            gain, powers = 3.0, sum(x**k for k in range(n))
            slope = sum(k * x ** (k - 1) for k in range(1, n))
            expected = gain * powers + x * gain * slope if x > 1.0 else powers + (x + gain) * slope
            by_x, by_limit = jac(Choice(gain, {"n": n}), x, limit=1.0)
            np.testing.assert_allclose((by_x, by_limit), (expected, 0.0))
    many = jac.batch(Choice(3.0, {"n": 2}), np.array([0.5, 2.0]), limit=1.0, in_axes=(None, 0))[0]
    np.testing.assert_allclose(many, [1.5 + 3.5, 9.0 + 6.0])


def test_whole_numbers_in_containers_are_indices():
    x = np.arange(4.0)
    pick = jacobian(lambda x, places: x[places[1]] * x[places[0]])
    for _ in range(2):
        np.testing.assert_array_equal(pick(x, (1, 3)), [0.0, 3.0, 0.0, 1.0])
        np.testing.assert_array_equal(pick(x, [2, 1]), [0.0, 2.0, 1.0, 0.0])


def test_functions_of_jax_take_containers():
    jax = pytest.importorskip("jax")

    def f(p, x, *, shift):
        return {"y": jax.numpy.sin(p["k"] * x) + shift, "z": p["k"] ** 2}

    found = acc.jacobian(jax.jit(f), argnums=0, argnames="shift", effort="fast")({"k": 2.0}, X, shift=1.0)
    np.testing.assert_allclose(found["y"][0]["k"], X * np.cos(2.0 * X), rtol=1e-12)
    np.testing.assert_allclose(found["y"][1], np.ones(3))
    np.testing.assert_allclose(found["z"][0]["k"], 4.0)
