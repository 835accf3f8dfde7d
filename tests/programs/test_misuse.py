"""Every kind of derivative on every target: what overlaps, what is empty, what lies wrong; and memory stays flat."""

from __future__ import annotations

import gc
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from inside import flatten, targets

import accumulus as acc
from accumulus.errors import ArgumentError

QUICK = {"effort": "fast", "time_limit": 0.0, "cache": False}
POINTS = 6
X = np.random.default_rng(5).uniform(0.5, 1.5, (POINTS, 3))


def energy(x):
    return np.sum(np.sin(x) * x[::-1]) * x[0]


KINDS = {
    "jacobian": lambda x: (x,),
    "value_and_jacobian": lambda x: (x,),
    "gradient": lambda x: (x,),
    "value_and_gradient": lambda x: (x,),
    "hessian": lambda x: (x,),
    "value_gradient_hessian": lambda x: (x,),
    "compile": lambda x: (x,),
    "jvp": lambda x: ((x,), (x[..., ::-1].copy(),)),
    "vjp": lambda x: ((x,), np.full(np.shape(x)[:-1], 2.0)[()]),
    "hvp": lambda x: ((x,), (x[..., ::-1].copy(),)),
}
every = pytest.mark.parametrize(("kind", "target"), [(kind, target) for kind in KINDS for target in targets()])


@cache
def made(kind, target):
    return getattr(acc, kind)(energy, target=target, **QUICK)


def leaves(result):
    return [leaf for _, leaf in flatten(result)[1]]


@every
def test_of_no_points_there_are_no_results(kind, target):
    derivative = made(kind, target)
    expected = leaves(derivative(*KINDS[kind](X[0])))
    actual = leaves(derivative.batch(*KINDS[kind](X[:0]), in_axes=0))
    assert [each.shape for each in actual] == [(0, *np.shape(each)) for each in expected]


@every
def test_results_may_not_overlap_arguments_or_each_other(kind, target):
    derivative = made(kind, target)
    memory = np.empty((40, POINTS, 3))
    memory[0] = X
    out = KINDS[kind](memory[0])
    expected = leaves(derivative.batch(*out, in_axes=0))
    flat, size = memory.reshape(-1), [each.size for each in expected]
    starts = 36 + np.cumsum([0, *size])
    apart = [flat[a : a + n].reshape(e.shape) for a, n, e in zip(starts, size, expected, strict=False)]
    for one, other in zip(leaves(derivative.batch(*out, in_axes=0, out=apart)), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    onto = [flat[17 : 17 + size[0]].reshape(expected[0].shape), *apart[1:]]
    with pytest.raises(ArgumentError, match="overlaps"):
        derivative.batch(*out, in_axes=0, out=onto)
    if len(apart) > 1:
        onto = [*apart[:-1], flat[starts[0] : starts[0] + size[-1]].reshape(expected[-1].shape)]
        with pytest.raises(ArgumentError, match="overlaps"):
            derivative.batch(*out, in_axes=0, out=onto)
    np.testing.assert_array_equal(memory[0], X)


@every
def test_results_need_a_layout_and_arguments_do_not(kind, target):
    derivative = made(kind, target)
    out = KINDS[kind](X)
    expected = leaves(derivative.batch(*out, in_axes=0))
    right = [np.empty_like(each) for each in expected]
    last = right[-1]
    read_only = last.copy()
    read_only.flags.writeable = False
    wrong = [np.empty((*last.shape, 2))[..., 0], last.astype(np.float32), last[1:], read_only, last.tolist(), None]
    for each in [*wrong, np.asfortranarray(last)] if last.ndim > 1 else wrong:
        with pytest.raises(ArgumentError):
            derivative.batch(*out, in_axes=0, out=[*right[:-1], each])
    with pytest.raises(ArgumentError):
        derivative.batch(*out, in_axes=0, out=[*right, last.copy()])
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    for x in (strided, np.asfortranarray(X), X[::-1].copy()[::-1], X.astype(np.longdouble)):
        for one, other in zip(leaves(derivative.batch(*KINDS[kind](x), in_axes=0)), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's account of memory")
@pytest.mark.parametrize("options", [{}, {"sparse": "csr"}, {"target": "numpy", "calls": 2_000}])
def test_memory_stays_flat_over_many_calls(options):
    options = dict(options)
    calls = options.pop("calls", 40_000 if "sparse" not in options else 6_000)
    derivative = acc.value_and_jacobian(lambda x: x * x[0], **QUICK, **options)
    x, several = X[0].copy(), X.copy()

    def run(count):
        for _ in range(count):
            derivative(x)
        for _ in range(count // 10):
            derivative.batch(several)
        for _ in range(count // 100):
            with pytest.raises(ArgumentError):
                derivative.batch(several[0, 0])
        gc.collect()

    def pages():
        return int(Path("/proc/self/statm").read_text().split()[1])

    run(calls // 10)
    blocks, before = sys.getallocatedblocks(), pages()
    run(calls)
    assert sys.getallocatedblocks() - blocks < calls // 100
    assert (pages() - before) * 4096 < 2 << 20


@pytest.mark.parametrize(("call", "said"), [
    (lambda jac: jac.batch(np.ones(3)), r"shape \(3,\), which are 3 points.*expected shape \(points, n\), x\[np\.new"),
    (lambda jac: jac.batch(np.ones(3), in_axes=0), r"x\[np\.newaxis\]"),
    (lambda jac: jac.batch(np.ones(3), transposed=True), r"expected shape \(n, points\), x\[:, np\.newaxis\]"),
    (lambda jac: jac.batch(1.0), "no argument of .* has an axis of points"),
    (lambda jac: jac.batch(np.ones((4, 3)), in_axes=2), "no axis 2"),
])  # fmt: skip
@pytest.mark.parametrize("used", [False, True])
def test_batches_that_are_none(call, said, used):
    jac = acc.jacobian(lambda x: x[0] * x[1:], **QUICK)
    if used:
        jac(X[0])
    with pytest.raises(ArgumentError, match=said):
        call(jac)
    assert jac.batch(X[:1]).shape == (1, 2, 3)
    assert jac.batch(X[:0]).shape == (0, 2, 3)
