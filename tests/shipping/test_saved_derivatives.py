"""Saved derivatives: what is loaded gives the same bits, and no more than was saved."""

from __future__ import annotations

import enum
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import changed_files
import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError, CaseError, CompileError, FileError
from accumulus.targets.c import c_target

QUICK = {"effort": "fast", "time_limit": 0.0}
NUMPY = QUICK | {"target": "numpy"}
X = np.array([0.3, 0.7, 1.1])


class Rates(NamedTuple):
    height: object
    speed: object


@dataclass
class Rocket:
    height: object
    speed: object
    name: str = "left"


class Drag(enum.Enum):
    LINEAR = 1
    SQUARE = 2


def decides(x):
    if x[0] > 0.5:
        return np.exp(x)
    while x[1] < 0.2:
        x = x * 2.0
    return x * x[0]


def flight(rocket, t, drag=Drag.LINEAR):
    loss = rocket.speed if drag is Drag.LINEAR else rocket.speed**2
    return Rates(rocket.speed, t * rocket.height - loss)


def network(p, x):
    return [np.tanh(p["W"] @ x + p["b"]).sum(), x * p["b"][0]]


DERIVATIVES = {
    "dense": (acc.jacobian(lambda x: np.sin(x) * x[0], **QUICK), [(X,), (X[:2],)]),
    "pair": (acc.value_and_jacobian(lambda x, k: x * k, argnums=(0, 1), **QUICK), [(X, 2.0)]),
    "gradient": (acc.gradient(lambda x: np.prod(np.sin(x)), **QUICK), [(X,)]),
    "compiled": (acc.compile(lambda x: {"y": np.sin(x) * x[0], "z": x[0]}, **QUICK), [(X,)]),
    "csr": (acc.jacobian(lambda x: x[1:] * x[:-1], sparse="csr", **QUICK), [(X,)]),
    "csc": (acc.value_and_jacobian(lambda x: np.append(x[1:] * x[:-1], x[0]), sparse="csc", **QUICK), [(X,)]),
    "float32": (acc.jacobian(lambda x: np.exp(x) / x[1], dtype="float32", **QUICK), [(X,)]),
    "numpy": (acc.jacobian(lambda x: np.exp(x) / x[1], target="numpy", **QUICK), [(X,)]),
    "exact": (acc.jacobian(lambda x: (x * x - x[0] * x) * 3.0, exact_order=True, **QUICK), [(X,)]),
    "cases": (acc.jacobian(decides, **QUICK), [(X,), (X + 1.0,), (X - 0.65,)]),
    "sparse cases": (acc.jacobian(decides, sparse=True, **QUICK), [(X,), (X + 1.0,)]),
    "loops": (acc.jacobian(lambda x: np.sin(x) * np.roll(x, 1), sparse=True, **QUICK), [(np.linspace(0, 1, 9000),)]),
    "recurrence": (acc.gradient(lambda x: np.cumsum(np.sin(np.cumsum(x)))[-1], **QUICK), [(np.linspace(0, 1, 9000),)]),
    "loops that decide": (
        acc.jacobian(lambda x: np.where((x > 0.5)[::-1], np.sin(x), x * x) * np.sort(x), sparse=True, **QUICK),
        [(np.linspace(0, 1, 4000),)],
    ),
    "objects": (
        acc.jacobian(flight, **QUICK),
        [(Rocket(1.0, 2.0), 3.0), (Rocket(1.0, 2.0, "right"), 3.0, Drag.SQUARE)],
    ),
    "dicts": (acc.jacobian(network, argnums=(0, 1), **QUICK), [({"W": np.eye(2), "b": np.ones(2)}, [0.1, 0.2])]),
    "static": (acc.jacobian(lambda x, n: x**n, static_argnums=1, **QUICK), [(X, 2), (X, 3)]),
    "keywords": (acc.jacobian(lambda x, *, k=1.0: x * k, argnames="k", **QUICK), [(X,)]),
}


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for child in tree.values() for leaf in leaves(child)]
    if isinstance(tree, list | tuple):
        return [leaf for child in tree for leaf in leaves(child)]
    if isinstance(tree, Rocket):
        return leaves([tree.height, tree.speed])
    if hasattr(tree, "toarray"):
        return [tree.data, *(getattr(tree, name) for name in ("indices", "indptr") if hasattr(tree, name))]
    return [] if isinstance(tree, str) else [tree]


def assert_same(actual, expected):
    assert type(actual) is type(expected)
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module", params=DERIVATIVES)
def saved(request, tmp_path_factory):
    derivative, calls = DERIVATIVES[request.param]
    expected = [derivative(*call) for call in calls]
    path = tmp_path_factory.mktemp("saved") / "derivative.accumulus"
    acc.save(derivative, path)
    return derivative, calls, expected, path


def test_same_results(saved):
    derivative, calls, expected, path = saved
    loaded = acc.load(path)
    for call, result in zip(calls * 2, expected * 2, strict=True):
        assert_same(loaded(*call), result)
    assert len(loaded.report().cases) > 1 or loaded.operations == derivative.operations
    assert "from a file" in str(loaded.report())
    assert loaded.report().to_dict()["operations"] == loaded.operations
    again = pickle.loads(pickle.dumps(loaded))
    assert_same(again(*calls[0]), expected[0])


def test_same_batches(saved):
    derivative, calls, _, path = saved
    call = calls[0]
    if not isinstance(call[0], np.ndarray) or len(call[0]) > 10 or len(call) > 1:
        pytest.skip("batches of one array")
    X = np.random.default_rng(1).uniform(0.3, 0.9, (70, *call[0].shape))
    loaded = acc.load(path)
    expected = derivative.batch(X)
    acc.save(derivative, path)  # with the cases of the batch
    loaded = acc.load(path)
    assert_same(loaded.batch(X), expected)
    assert_same(loaded.batch(X.T.copy(), transposed=True), derivative.batch(X.T.copy(), transposed=True))


def test_nonzeros_and_pattern(tmp_path):
    jac, ((x,),) = DERIVATIVES["csr"]
    jac(x)
    acc.save(jac, tmp_path / "jac")
    loaded = acc.load(tmp_path / "jac")
    np.testing.assert_array_equal(loaded.nonzeros(x), jac.nonzeros(x))
    np.testing.assert_array_equal(loaded.pattern.rows, jac.pattern.rows)
    with pytest.raises(ArgumentError, match="out"):
        loaded.batch(np.ones((3, 3)), out=np.empty((2, 2)))


def test_unsaved_cases_raise(tmp_path):
    jac = acc.jacobian(decides, **QUICK)
    with pytest.raises(ArgumentError, match="has no program yet"):
        acc.save(jac, tmp_path / "jac")
    jac(X)
    acc.save(jac, tmp_path / "jac")
    loaded = acc.load(tmp_path / "jac")
    with pytest.raises(ArgumentError, match="no program for arguments of the shapes"):
        loaded(np.ones(4))
    with pytest.raises(ArgumentError, match="no program for arguments of this structure"):
        loaded({"x": 1.0})
    with pytest.raises(CaseError, match="no program for the case"):
        loaded(X + 1.0)
    with pytest.raises(CaseError, match="no program for the case"):
        loaded.batch(np.stack([X, X + 1.0]))
    assert_same(loaded(X), jac(X))
    with pytest.raises(ArgumentError, match="save takes a derivative"):
        acc.save(decides, tmp_path / "no")


def test_programs_that_cannot_be_saved(tmp_path):
    for function, call in (
        (lambda x, g: g(x), (X, np.sin)),
        (lambda x, o: x * 2.0, (X, object())),
    ):
        jac = acc.jacobian(function, **QUICK)
        jac(*call)
        with pytest.raises(ArgumentError, match="which a file of a derivative cannot hold"):
            acc.save(jac, tmp_path / "jac")
    assert not list(tmp_path.iterdir())


OTHER = """
import sys
import numpy as np
import accumulus as acc
from accumulus.errors import FileError
try:
    acc.load(sys.argv[1])
except FileError as error:
    print(error)
class Rates(tuple):
    pass
assert "test_derivatives" not in sys.modules
jac = acc.load(sys.argv[2])
print(repr(jac(np.array([0.3, 0.7, 1.1])).tolist()))
"""


def test_in_another_process(tmp_path):
    """The process has neither the function nor its module, and imports nothing that the file names."""
    jac, calls = DERIVATIVES["objects"]
    jac(*calls[0])
    acc.save(jac, tmp_path / "objects")
    plain = acc.jacobian(lambda x: np.sin(x) * x[0], **QUICK)
    expected = plain(X)
    acc.save(plain, tmp_path / "plain")
    environment = {**os.environ, "PYTHONPATH": f"{Path(acc.__file__).parents[1]}{os.pathsep}{Path(__file__).parent}"}
    command = [sys.executable, "-c", OTHER, tmp_path / "objects", tmp_path / "plain"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()
    assert "needs the class" in lines[0]
    assert "classes=[" in lines[0]
    assert lines[1] == repr(expected.tolist())


def test_classes_that_are_handed_over(tmp_path, monkeypatch):
    jac, calls = DERIVATIVES["objects"]
    expected = jac(*calls[0])
    acc.save(jac, tmp_path / "jac")
    monkeypatch.delitem(sys.modules, Rates.__module__)
    with pytest.raises(FileError, match="import it before"):
        acc.load(tmp_path / "jac")
    assert_same(acc.load(tmp_path / "jac", classes=[Rates, Rocket, Drag])(*calls[0]), expected)


def test_constants_that_were_not_saved(tmp_path):
    """Numbers of the first constant were returned for all others."""

    def decides(x, n):
        return x**n if x[0] > 0.5 else x * n

    for function in (lambda x, n: x**n, decides):
        jac = acc.jacobian(function, static_argnums=1, **NUMPY)
        for n in (2, 3):
            jac(X, n)
        acc.save(jac, tmp_path / "jac")
        loaded = acc.load(tmp_path / "jac")
        np.testing.assert_array_equal(loaded(X, 3), jac(X, 3))
        with pytest.raises(ArgumentError, match="or for these constants"):
            loaded(X, 5)
        with pytest.raises(ArgumentError, match="or for these constants"):
            loaded.batch(np.stack([X, X]), 5, in_axes=(0, None))


@pytest.mark.parametrize("constant", [(1, None), (None, (2.5, "a")), frozenset([None, 1j]), (b"ab", ())])
def test_constants_in_constants(constant, tmp_path):
    jac = acc.jacobian(lambda x, c: x * len(c), static_argnums=1, **NUMPY)
    expected = jac(X, constant)
    acc.save(jac, tmp_path / "jac")
    np.testing.assert_array_equal(acc.load(tmp_path / "jac")(X, constant), expected)


def test_cases_whose_guards_read_alike(tmp_path):
    """On the border of two cases the program is the one that NumPy finds, not the first with such a guard."""
    jac = acc.jacobian(lambda x: x * int(x[0] + 2.0), **NUMPY)
    low, high = jac(X), jac(X + 1.0)
    acc.save(jac, tmp_path / "jac")
    parts = changed_files.Content.of((tmp_path / "jac").read_bytes())
    for each in parts.data["forms"][0]["shapes"][0]["programs"]:
        each["guards"][0][3] = "alike"
    (tmp_path / "alike").write_bytes(parts.written())
    loaded = acc.load(tmp_path / "alike")
    (cases,) = loaded._programs.values()
    for each in cases.programs:
        assert cases.add(each, 2) is each
    np.testing.assert_array_equal(loaded(X), low)
    np.testing.assert_array_equal(loaded(X + 1.0), high)


def test_loaded_programs_stay_when_their_first_results_are_not_numbers(tmp_path):
    jac = acc.jacobian(lambda x: np.log(x) * x[0], **NUMPY)
    x = np.array([1.0, 2.0])
    expected = jac(x)
    acc.save(jac, tmp_path / "jac")
    loaded = acc.load(tmp_path / "jac")
    assert np.isnan(loaded(-x)).any()
    for _ in range(2):
        np.testing.assert_array_equal(loaded(x), expected)


def test_reports_have_the_costs_of_the_saved_plans(tmp_path):
    straight = acc.jacobian(lambda x: np.sin(x) * x[0], **NUMPY)
    looped = acc.gradient(lambda x: np.sum(np.exp(x[1:] * x[:-1])), cache=False, effort="fast")
    for derivative, point in ((straight, X), (looped, np.linspace(0.0, 1.0, 20_000))):
        derivative(point)
        expected = derivative.report()
        acc.save(derivative, tmp_path / "saved")
        loaded = acc.load(tmp_path / "saved")
        loaded(point)
        acc.save(loaded, tmp_path / "again")
        for each in (loaded, acc.load(tmp_path / "again")):
            each(point)
            actual = each.report()
            for name in ("operations", "by_kind", "jacobian_shape", "nonzeros", "products", "objective"):
                assert getattr(actual, name) == getattr(expected, name), name
            assert [body.instances for body in actual.bodies] == [body.instances for body in expected.bodies]
            assert actual.chosen.operations == expected.chosen.operations
            assert actual.chosen.lower_bound == expected.chosen.lower_bound
            assert "from a file" in str(actual)
            with pytest.raises(ArgumentError, match=r"from a file|runs as loops"):
                actual.plot("lines")
            assert actual.show(tmp_path / "report.html").exists()


def test_kinds_and_names_of_arrays(tmp_path):
    for make in (acc.value_and_jacobian, acc.jacobian, acc.compile):
        derivative = make(lambda x: np.sin(x) * x[0], **NUMPY)
        derivative(X)
        acc.save(derivative, tmp_path / "saved")
        loaded = acc.load(tmp_path / "saved")
        assert loaded.compile(X).array_names == derivative.compile(X).array_names
        assert loaded.__name__ == derivative.__name__
        with pytest.raises(FileError, match="no plan to show"):
            loaded.show()


def test_a_target_that_does_not_work_here(tmp_path, monkeypatch):
    jac = acc.jacobian(lambda x: np.sin(x) * x[0], **{**QUICK, "target": "c"})
    jac(X)
    acc.save(jac, tmp_path / "jac")

    def fail():
        raise CompileError("there is no C compiler")

    monkeypatch.setattr(c_target, "compiler", fail)
    with pytest.raises(CompileError, match="no C compiler"):
        acc.load(tmp_path / "jac")
