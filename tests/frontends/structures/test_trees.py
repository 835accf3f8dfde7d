"""Arguments and results of any structure: derivatives in the same one, as JAX has them."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structure_models import SYSTEM, Frozen, Kind, Pair, Spring, System, X, jacobian, system_force

import accumulus as acc
from accumulus.errors import ArgumentError, TraceError


def test_data_classes_in_lists_with_dicts():
    jac = jacobian(system_force)
    result = jac(SYSTEM, X)
    second = result["forces"][1]
    assert type(second) is System
    assert (second.note, list(second.masses), second.springs[1].name) == (None, ["a", "b"], "second")
    assert second.springs[1].kind is Kind.LINEAR
    np.testing.assert_allclose(second.springs[1].stiffness, np.diag((X - 1.0) / 2.0))
    np.testing.assert_allclose(second.springs[0].stiffness, np.zeros(3))
    np.testing.assert_allclose(second.masses["b"], -X * (X - 1.0) / 4.0)
    total = result["total"][0].springs[0].rest
    np.testing.assert_allclose(total, np.full(3, -2.0 / 1.5))
    np.testing.assert_allclose(result["total"][1].masses["a"], 0.0)


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

    with pytest.raises(ArgumentError, match=r"Box\.area is not an argument of the constructor.*accumulus\.register"):
        jacobian(lambda box: box.area)(Box(2.0, 3.0))
    assert jacobian(lambda box, x: box.area * x, argnums=1)(Box(2.0, 3.0), 1.0) == 6.0
    assert jacobian(lambda x: Box(x, 2.0 * x))(3.0).area == 12.0
    acc.register(Box, lambda box: ((box.width, box.height), None), lambda _, children: Box(*children))
    slope = jacobian(lambda box: box.area * box.width)(Box(2.0, 3.0))
    assert (slope.width, slope.height) == (12.0, 4.0)


def test_attributes_computed_by_a_custom_constructor_raise():
    class Table:
        def __init__(self, x):
            self.slope = 2.0 * x

    @dataclass(init=False)
    class Model:
        x: float
        table: Any

        def __init__(self, x):
            self.x, self.table = x, Table(x)

    with pytest.raises(ArgumentError, match=r"Model\.table is not an argument of the constructor"):
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

    actual = jacobian(lambda rates, x: rates.fast * x - rates.slow)(Rates(3.0), X)
    assert type(actual) is Rates
    assert actual.label == "r"
    np.testing.assert_allclose(actual.fast, X)
    np.testing.assert_allclose(actual.slow, -np.ones(3))
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
        expected = jax.jit(jax.jacobian(lambda p: jax.tree_util.tree_map(jax.numpy.asarray, f(p))))(
            jax.tree_util.tree_map(jax.numpy.asarray, p)
        )
        actual = jacobian(f)(p)
        ours, theirs = jax.tree_util.tree_flatten(actual), jax.tree_util.tree_flatten(expected)
    assert ours[1] == theirs[1]
    for one, other in zip(ours[0], theirs[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)


def trees(leaves):
    keys = st.sampled_from(["a", "b", "long name", "k"])
    return st.recursive(
        leaves,
        lambda children: (
            st.lists(children, max_size=3).map(tuple)
            | st.dictionaries(keys, children, max_size=3)
            | st.builds(Pair, children, children)
            | st.builds(lambda p: Frozen(p, 2), children)
            | st.lists(children, max_size=2).map(lambda children: [*children, X[:1]])
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
            return [leaf for child in tree.values() for leaf in numbers_of(child)]
        if isinstance(tree, Frozen):
            return numbers_of(tree.gain)
        if isinstance(tree, list | tuple):
            return [leaf for child in tree for leaf in numbers_of(child)]
        return [] if tree is None or isinstance(tree, str | Kind | bool) else [tree]

    def tree_map(g, tree):
        if isinstance(tree, dict):
            return {key: tree_map(g, child) for key, child in tree.items()}
        if isinstance(tree, Frozen):
            return Frozen(tree_map(g, tree.gain), None)
        if isinstance(tree, tuple):
            children = [tree_map(g, child) for child in tree]
            return Pair(*children) if isinstance(tree, Pair) else tuple(children)
        if isinstance(tree, list):
            return [tree_map(g, child) for child in tree]
        return None if tree is None or isinstance(tree, str | Kind | bool) else g(tree)

    given_numbers = numbers_of(tree)
    jac = jacobian(f, argnums=(0, 1), cache=False) if given_numbers else jacobian(f, cache=False)
    actual = jac(0.75, tree=tree) if by_keyword else jac(0.75, tree)
    if not given_numbers:
        assert actual.first == 1.0
        return
    by_x, by_tree = actual.first
    np.testing.assert_allclose(by_x, 1.0 + sum(np.sum(np.sin(leaf)) for leaf in given_numbers), rtol=1e-13)
    slopes = numbers_of(by_tree)
    assert len(slopes) == len(given_numbers)
    for k, (slope, leaf) in enumerate(zip(slopes, given_numbers, strict=True)):
        np.testing.assert_allclose(slope, np.cos(leaf) * (k + 0.75), rtol=1e-13)
    by_leaf = leaves_by_leaf(actual.second)
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
    return [pair for child in tree for pair in leaves_by_leaf(child)] if isinstance(tree, list | tuple) else []


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
    with pytest.raises(ArgumentError, match=r"argument 0 \(p\)\[2\] is a list that contains itself"):
        f(loop)


def test_classes_registered_elsewhere():
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
        Polynomial, lambda p: (p.coefficients, None), lambda _, children: Polynomial(*children), namespace="accumulus"
    )
    slope = jacobian(lambda p, x: p.coefficients[0] + p.coefficients[1] * x)(Polynomial(2.0, 1.0), 3.0)
    assert slope.coefficients == (1.0, 3.0)


def test_arrays_of_jax_are_numbers():
    jax = pytest.importorskip("jax")
    x = jax.numpy.array([1.0, 2.0])
    np.testing.assert_allclose(jacobian(lambda x: x**2)(x), np.diag([2.0, 4.0]))
    np.testing.assert_allclose(jacobian(lambda p: p["x"] ** 2)({"x": x})["x"], np.diag([2.0, 4.0]))


def test_functions_of_jax_take_containers():
    jax = pytest.importorskip("jax")

    def f(p, x, *, shift):
        return {"y": jax.numpy.sin(p["k"] * x) + shift, "z": p["k"] ** 2}

    result = acc.jacobian(jax.jit(f), argnums=0, argnames="shift", effort="fast")({"k": 2.0}, X, shift=1.0)
    np.testing.assert_allclose(result["y"][0]["k"], X * np.cos(2.0 * X), rtol=1e-12)
    np.testing.assert_allclose(result["y"][1], np.ones(3))
    np.testing.assert_allclose(result["z"][0]["k"], 4.0)


@dataclass
class Open:
    """An object that users give further attributes, of any name."""

    a: object


@pytest.mark.parametrize(
    "name", ["b c", "class", "a; raise SystemExit #", "a\n    raise SystemExit", "\ufb01", "x" * 999]
)
def test_attributes_of_any_name(name):
    """Code that reads arguments is made from their structure; the name of an attribute is no part of it."""
    gradient = acc.gradient(lambda p: p.a * getattr(p, name), effort="fast")
    point = Open(2.0)
    setattr(point, name, 3.0)
    for _ in range(3):
        result = gradient(point)
        assert (result.a, getattr(result, name)) == (3.0, 2.0)
