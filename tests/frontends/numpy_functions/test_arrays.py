"""Attributes, methods and conversions of traced arrays and scalars."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from agreement import assert_agrees

from accumulus.errors import AccumulusError, TraceError
from accumulus.frontends import record


def split(text: str) -> list[str]:
    return [statement.strip() for statement in text.replace("\n", ";").split(";") if statement.strip()]


A = np.array([[0.5, -1.0, 2.0], [3.0, 0.25, -0.75]])

METHODS = split(
    """
    A.shape[0] * A; A.ndim * A; A.size * A; len(A) * A; A.nbytes * A; A.itemsize * A; A.real; A.conj(); A.T; A.mT
    A.flatten(); A.item(2); A.item((1, 0)); A.tolist(); A[0].tolist(); A.flat[4]; len(A.flat) * A; list(A.flat)
    list(A); [*A[0]]; [v * i for (i, _), v in np.ndenumerate(A)]
    [A[k] for k in np.ndindex(A.shape)]; dict(enumerate(A[0])); sum(A); sum(A[0]); A.astype(float)
    A.astype(bool); (A > 0).astype(float); A.dtype.itemsize * A; copy.copy(A) + copy.deepcopy(A)
    copy.copy(A[0, 0]); copy.deepcopy(A[0, 0]); A[0, 0].copy(); A[0, 0].sum(); A[0, 0].T; A[0, 0].real
    A[0, 0].imag + A; A[0, 0].item(); A[0, 0].dtype.itemsize * A; A[0, 0].clip(0, 1); (A[0, 0] > 0).any()
    A.squeeze(); A[:1].squeeze(); A[..., None]; A[()]; A[None]; A[1][2]; A[-1, ::-1]; A[np.array([1, 0]), [0, 2]]
    A[np.int64(1)]; A[:, [True, False, True]]; A[1, ...]; A[slice(0, 1)]; A[A.shape[0] - 1]; A[(0, 1)]
    A[[0, 1], [1, 2]]; A[np.array(True)]; +A; -A; abs(A); A @ A.T; A // 0.3; A % 0.7; divmod(A, 0.7); A**2; 2**A
    A == A.T[0, 0]; A != 0; (A > 0) & (A < 1); A.__array_namespace__().sin(A); A[0, 0] + [1.0, 2.0]
    (1.0, 2.0, 3.0) - A; A + True; np.array(3.0) * A; A * np.ones((1, 3), int); A * np.array([[True], [False]])
    A + np.float32(0.5); np.array(A, copy=False); np.asarray(A) + np.asarray(A, float); np.array(A, ndmin=3)
    np.array(A[0, 0]); np.array([A, A * 2]); np.array([[A[0, 0]], [A > 0][0][0, :1]])
    np.array([[], []]) + A[:, :0]; np.array(A, bool); np.asarray(A, dtype=object) * 2
    np.array([A[0, 0], 1.0], dtype=object) + 1; np.reshape(A, shape=-1)
    np.concatenate([A, A], axis=1, dtype=float); np.stack(arrays=[A, A]); np.tile(A=A, reps=2)
    np.cross(A[0, :2], A[1, 1:]); np.maximum.reduce(A, axis=1); np.add.outer(A[0], [1.0, 2.0])
    np.einsum('ij,jk', A[:, :1], A); A.max()
    """
)


#: Lists, as NumPy makes arrays of them, of arrays of shape () (a, t), scalars (s), numbers and other arrays.
LISTS = split(
    """
    np.mean([np.cumsum(s).reshape(()), s]); np.mean([[a, s], [1.0, s * s]], axis=0); np.mean([a, 1, True])
    np.mean((a, [s][0], t)); np.var([a, 2 * t]); np.std([a, s, 0.0]); np.average([a, 2 * s], weights=[t * t, 1.0])
    np.average([[a, s], [1.0, t]], axis=1, weights=[a * a, 1.0]); np.dot([a, 1.0], [s, np.array(2.0)])
    np.dot(a, [s, t]); np.inner([a, s], [1.0, t]); np.inner([a, s], 2.0); np.vdot([a], [t]); np.outer([a, s], [1.0, t])
    np.kron([a, s], [[1.0, t]]); np.cross([a, s, 1.0], [t, 2.0, s]); np.einsum('i,i', [a, s], [1.0, t])
    np.diff([a, s], prepend=a, append=[t, 1.0]); np.gradient([a, s, t * s]); np.gradient([a, s, t], 2 + a * a)
    np.gradient([a, s, t], [0.0, 1.0, 3.0]); np.trapezoid([a, s], [0.0, t]); np.sum([a, s]); np.prod((a, t, 2.0))
    np.max([a, 2 * s]); np.linalg.norm([a, 2 * s]); np.linalg.det([[a, 1.0], [s, t]])
    np.linalg.solve([[4 + a * a]], [s])
    np.array([a, s, 1.0]); np.array([[a, [s][0]], (1.0, t)]); np.array([np.array([s, 1.0]), [s, a], (1, 2)])
    np.asarray([[a, s], [1.0, 2.0]]); np.asarray([np.array(2.0), s]); np.array([np.cumsum(s), [a]])
    np.stack([a, s, 1.0])
    np.stack([[a, s], [t, True]], axis=1); np.hstack([a, s, 1.0]); np.vstack([[a], [s]]); np.append([a], s)
    np.concatenate([[a], [s, 1.0]]); np.block([[a, s], [1.0, t]]); np.insert([a, s], 1, t); np.tile([a, s], 2)
    np.r_[a, s, 1.0]; np.c_[[a, s], [1.0, t]]; np.full(2, a); np.array([a, s, 1.0], dtype=object).sum()
    np.interp(a, [-9.0, 0.0, 9.0], [0.0, t, s]); np.polyval([a, 2 * s], t); np.where([True, False], [a, s], [1.0, t])
    np.piecewise([a, s], [[True, False], [False, True]], [lambda v: v * v, 3.0]); np.shape([a, s])[0] * s
    np.eye(2) @ [a, s]; (np.eye(2) * s) @ [a, t]; [1.0, 2.0] * a; np.ones(2) + [a, s]; [a > 0, s > 9] * np.array([s, t])
    np.sin([a, s]); np.exp([[a, s], [t, a]]); np.add([a, s], 1.0); np.hypot([s, s], [1.0, a])
    np.matmul([[a, 1.0]], [s, 2])
    np.multiply.outer(np.array([s, s]), [a, 1.0]); np.multiply.outer([a, 2.0], [s, t]); np.add.reduce([a, s, 1.0])
    """
)


@pytest.mark.parametrize("source", LISTS)
def test_lists_that_hold_arrays_without_axes_agree_with_numpy(source):
    def f(v):
        s, t, a = v[0], np.sum(v[:1] * v[1:]).reshape(()), np.asarray(v[1])
        return eval(source, globals(), {"v": v, "s": s, "t": t, "a": a})

    assert_agrees(f, [np.array([0.75, -1.25])])


@pytest.mark.parametrize("source", METHODS)
def test_methods_agree_with_numpy(source):
    assert_agrees(eval(f"lambda A: {source}", globals()), [A])


#: Constant code: what depends on no argument is as it is without recording.
CONSTANT = split(
    """
    float(c[0]); int(c[1]); [5, 6, 7][int(c[1])]; bool(c[0] > 0); bool(c[:1]); f'{c[0]:.3f}'; c.tolist()
    np.argmax(c); np.sort(c); c.argsort(); np.unique(c); np.median(c); np.linalg.svd(np.outer(c, c))[1]
    np.nonzero(c); c[c > 0]; np.where(c > 0); np.fft.rfft(c).real; c.astype(int); np.array(c, int)
    np.histogram(c)[0]; np.exp(1j * c).imag; math.sqrt(c[2]); max(c); min(c[0], c[1]); sorted(c); 0.5 in c
    round(c[2]); np.searchsorted(c, 0.7); np.float64(c[0]); complex(c[0]).real; np.nextafter(c, 0.0); c.std()
    np.add.reduceat([1, 2, 3], [0, 1]); np.sin(c, where=[True] * 3, out=np.zeros(3))
    np.sum(c, where=[True, False, True]); hash(c[0]) * 0 + 1; {c[0]: 2.0}[0.5]; np.arange(c[2])
    np.random.default_rng(0).normal(c); c.size and 2.0; scipy.special.gamma(c)
    np.fromiter((i for i in range(3)), float); np.r_[c, 1.0]; np.c_[c, c]; len(np.r_) + 0
    np.polyfit([0, 1, 2], c, 1); np.interp(0.2, [0, 1], [c[0], c[1]]); np.apply_along_axis(sum, 0, c)
    np.add.reduce(c); np.full(2, c[0]); np.full_like(c, 2, dtype=int); np.linalg.solve(np.diag(c), c)
    scipy.linalg.expm(np.diag(c)); np.add.accumulate(c); c.var(); np.array_equal(c, c); np.allclose(c, 0)
    np.count_nonzero(c); np.empty_like(c).shape
    """
)


@pytest.mark.parametrize("source", CONSTANT)
def test_constant_code_runs_as_it_is(source):
    code = [
        "import math, numpy as np, scipy.linalg, scipy.special",
        "def f(x):",
        "    c = np.array([0.5, 1.5, 4.0])",
        f"    r = {source}",
        "    return r if isinstance(r, str) else np.asarray(r) * x",
    ]
    scope = {}
    exec("\n".join(code), scope)
    if isinstance(scope["f"](1.0), str):
        with pytest.raises(TraceError, match=f"'{scope['f'](1.0)}'"):
            record(scope["f"], [1.0])
    else:
        assert_agrees(scope["f"], [2.0])


def test_assignments_of_shape_and_flat():
    def reshaped(A):
        B = A * 2
        B.shape = (3, 2)
        B.flat = A.T
        C = np.zeros(6)
        C.flat[1:4] = A[0]
        return B, C

    assert_agrees(reshaped, [A])


def test_out_of_constants_and_pairs():
    def stored(A):
        total, counts, pairs = np.zeros(3), np.zeros(3), (np.zeros(3), np.zeros(3))
        np.add(A[0], 1.0, total)
        np.add([1.0, 2.0, 3.0], 1.0, out=counts)
        np.divmod(A[0], 0.7, out=pairs)
        plain = np.zeros(3, int)
        np.add(plain, np.array([1, 2, 3]), out=plain)
        np.add.at(plain, [0, 0], 1)
        np.add.reduce(A, axis=0, out=total)
        return total, counts, pairs, plain * A[0, 0]

    assert_agrees(stored, [A])


def test_where_of_universal_functions():
    def quotients(A):
        nonzero = A[0] != 0
        safe = np.divide(A[1], A[0], out=np.zeros(3), where=nonzero)
        old = np.sqrt(A[1], where=[True, False, True], out=A[0].copy())
        constant = np.log(np.array([1.0, 0.0]), where=np.array([True, False]), out=np.array([7.0, 8.0]))
        pair = np.divmod(A[0], 0.7, where=A[1] > 0, out=(np.zeros(3), np.ones(3)))
        return safe, old, constant, pair

    assert_agrees(quotients, [np.array([[0.0, -1.0, 2.0], [3.0, 0.25, 0.75]])], [np.ones((2, 3))])


def test_text_of_traced_values(capsys):
    def f(x, y):
        print(str(x), repr(y), f"{y[0] * 2}", str(np.array([x, 0.5])), repr(x > 0), sep=";")
        return x

    record(f, [1.0, np.ones(2)])
    shown = ["x0", "TracedArray([x1, x2])", "t3", "TracedArray([x0, 0.5])", "TracedBoolean(t4)"]
    assert capsys.readouterr().out == f"{';'.join(shown)}\n"


MISTAKES = split(
    """
    np.select([A > 0], [A, A]); np.interp(A, [1.0, 2.0], [1.0]); np.convolve(A[0], A[1], 'middle'); A @ 2.0
    np.linalg.solve(np.eye(3), A[0, :2]); np.linalg.norm(A[None], axis=(0, 1, 2)); np.linalg.norm(A[0], 'fro')
    np.tensordot(A, A, 1); np.cross(A[0], np.ones(4)); np.einsum('i', A); np.einsum('ij,j', A); A + np.ones(5)
    np.einsum('ij,jk', A, A); np.max(A[:, :0]); np.array([A, A[0]]); A[5]; A.foo; A[0, 0].foo; A[0.5]; A['a']
    np.reshape(A, 5); A[np.array([0.5])[0]]; [1, 2][np.array([0.5])[0]]; np.concatenate([A, A[0]]); A.sum(axis=7)
    """
)


@pytest.mark.parametrize("source", MISTAKES)
def test_mistakes_are_the_errors_of_numpy(source):
    f = eval(f"lambda A: {source}", globals())
    with pytest.raises(Exception) as of_numpy:  # noqa: PT011  # whatever NumPy raises
        f(A)
    with pytest.raises(type(of_numpy.value).__mro__[-3]) as caught:
        record(f, [A])
    assert not isinstance(caught.value, AccumulusError)


REFUSED = {
    "np.clip(A, 0, 1, dtype=int)": "dtype is not recorded",
    "np.nan_to_num(A, copy=False)": "copy=False",
    "np.linalg.norm(A[0], A[0, 0])": "ord must be a constant",
    "np.linalg.matrix_power(A @ A.T, A[0, 0])": "constant integer",
    "np.average(A, weights=[1.0, 2.0])": "length of its one axis",
    "np.take(A, [0], out=np.zeros(1))": "assign the result",
    "np.reshape(A, A[0, 0])": "must be constants",
    "np.copyto(np.zeros((2, 3), int), A)": "plain numbers",
    "np.put(np.zeros(3, int), [0], A[0, 0])": "plain numbers",
    "np.add.at(np.zeros(3, int), [0], A[0, 0])": "plain numbers",
    "np.sin(A, dtype=int)": "recorded as float64",
    "np.less.reduce(A[0])": "cannot be folded",
    "np.greater.at(A * 2, [0], 1.0)": "not recorded",
    "A[0][A[0, 0] > 0]": "np.where",
    "(A * 1).__setitem__(A > 0, A)": "a single value can be assigned",
    "A + 'text'": "not a number",
    "A * object()": "not a number",
}


@pytest.mark.parametrize("source", REFUSED)
def test_unsupported_functions_raise(source):
    with pytest.raises(TraceError, match=REFUSED[source]):
        record(eval(f"lambda A: {source}", globals()), [A])
    assert copy  # used by the sources above


def test_numbers_are_not_changed_in_place():
    """`b &= c` of truth values is `b = b & c`, and so for all operators of numbers."""

    def f(x):
        condition = before = x[0] > 0
        condition &= x[1] < 1
        condition |= ~before
        condition ^= False
        a = b = x[0]
        a += 1.0
        a *= x[1]
        a -= b
        a /= x[1]
        a **= 2
        a //= 0.25
        a %= 3.0
        return np.where(condition, a * x, b + before * x)

    for x in ([0.5, 0.25], [0.5, 1.5], [-0.5, 1.5]):
        record(f, [np.array(x)], check=True)
