"""Rows of functions of SciPy: compiled values are SciPy's, and derivatives those of mpmath, in both targets."""

# ruff: noqa: PLW0108 (functions as users write them)

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from inside import Segment, compile_tape
from scipy import special

import accumulus as acc
from accumulus import Tape
from accumulus.errors import CompileError, TraceError
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.partials import partial
from accumulus.tape.scipy_rows import MACROS, UNKNOWN
from accumulus.targets import emit_source

mp = mpmath.MPContext()
mp.dps = 40
ROWS = [row for row in OPERATIONS if row.is_scipys]


def gamma_p(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def gamma_q(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def beta_i(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def wofz(x, y):
    z = mp.mpc(x, y)
    return mp.exp(-z * z) * mp.erfc(-1j * z)


def voigt(x, sigma, gamma):
    return wofz(x / (sigma * mp.sqrt(2)), gamma / (sigma * mp.sqrt(2))).real / (sigma * mp.sqrt(2 * mp.pi))


#: Row → the function in mpmath, and points. Zero is an ordinary point of many.
EXACT = {
    "dawsn": (lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), [0.0, 0.3, 2.0, 7.9, 8.1, 50.0, 1e4]),
    "erfi": (mp.erfi, [-1.0, 0.0, 2.0]),
    "wofz_re": (
        lambda x, y: wofz(x, y).real,
        [(0.0, 0.0), (0.3, 0.7), (2.0, 0.1), (9.0, 0.01), (7.0, 7.0), (300.0, 0.2)],
    ),
    "wofz_im": (
        lambda x, y: wofz(x, y).imag,
        [(0.0, 0.0), (0.3, 0.7), (2.0, 0.1), (9.0, 0.01), (7.0, 7.0), (300.0, 0.2)],
    ),
    "voigt_profile": (voigt, [(0.0, 1.0, 0.5), (0.7, 0.8, 0.9), (20.0, 0.5, 0.1), (500.0, 1.0, 2.0), (1.0, 3.0, 1e-3)]),
    "owens_t": (
        lambda h, a: mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi),
        [(0.0, 0.5), (0.7, 1.3), (2.0, -0.4)],
    ),
    "fresnels": (mp.fresnels, [0.0, 0.7, 5.0]),
    "fresnelc": (mp.fresnelc, [0.0, 0.7, 5.0]),
    "expi": (mp.ei, [-2.0, 0.3, 9.0]),
    "exp1": (mp.e1, [0.3, 9.0]),
    "si": (mp.si, [-1.0, 0.0, 1e-3, 1.9, 2.1, 30.0]),
    "ci": (mp.ci, [0.3, 2.0, 30.0]),
    "shi": (mp.shi, [0.0, 1e-3, 1.9, 2.1, 9.0]),
    "chi": (lambda x: mp.chi(x), [0.3, 9.0]),
    "spence": (lambda x: mp.polylog(2, 1 - x), [0.05, 0.5, 1.0, 1.3]),
    "rgamma": (mp.rgamma, [-3.0, -1.5, 0.0, 0.3, 1.0, 7.0]),
    "gammainc": (gamma_p, [(0.01, 1e-4), (0.5, 0.2), (1.0, 1.0), (3.0, 4.5), (9.9, 12.0), (10.1, 8.0), (150.0, 160.0)]),
    "gammaincc": (gamma_q, [(0.05, 2.0), (0.5, 1.6), (3.0, 4.5), (9.9, 12.0), (10.1, 30.0), (150.0, 160.0)]),
    "ellipk": (mp.ellipk, [-3.0, 0.0, 0.5, 0.99]),
    "ellipe": (mp.ellipe, [-3.0, 0.0, 0.5, 0.99]),
    "ellipkinc": (mp.ellipf, [(0.0, 0.0), (0.0, 0.5), (0.7, 0.0), (1.5, 0.9), (4.0, 0.3), (-2.0, -1.5)]),
    "ellipeinc": (mp.ellipe, [(0.0, 0.0), (0.0, 0.5), (0.7, 0.0), (1.5, 0.9), (4.0, 0.3), (-2.0, -1.5)]),
    "ellipj_sn": (lambda u, m: mp.ellipfun("sn", u, m=m), [(0.0, 0.5), (0.7, 0.0), (0.7, 0.6), (3.0, 0.4)]),
    "ellipj_cn": (lambda u, m: mp.ellipfun("cn", u, m=m), [(0.0, 0.5), (0.7, 0.0), (0.7, 0.6), (3.0, 0.4)]),
    "ellipj_dn": (lambda u, m: mp.ellipfun("dn", u, m=m), [(0.0, 0.5), (0.7, 0.0), (0.7, 0.6), (3.0, 0.4)]),
    "elliprc": (mp.elliprc, [(1.0, 1.0), (0.4, 2.0), (2.0, 0.4)]),
    "elliprd": (mp.elliprd, [(1.0, 1.0, 1.0), (0.4, 2.0, 0.4), (0.3, 1e-3, 5.0)]),
    "elliprf": (mp.elliprf, [(1.0, 1.0, 1.0), (0.4, 2.0, 0.4), (0.3, 1e-3, 5.0)]),
    "elliprg": (mp.elliprg, [(1.0, 1.0, 1.0), (0.4, 2.0, 0.4), (0.3, 1e-3, 5.0)]),
    "agm": (mp.agm, [(1.0, 1.0), (0.3, 4.0)]),
    "jv": (mp.besselj, [(0.5, 0.3), (1.5, 2.0), (7.3, 20.0), (-0.5, 3.0)]),
    "yv": (mp.bessely, [(0.5, 0.3), (1.5, 2.0), (7.3, 20.0)]),
    "bessel_i": (mp.besseli, [(0.5, 0.3), (1.5, 2.0), (7.3, 20.0), (30.0, 5.0)]),
    "kv": (mp.besselk, [(0.5, 0.3), (1.5, 2.0), (7.3, 20.0)]),
    "struve": (mp.struveh, [(0.0, 0.3), (1.5, 2.0), (3.0, 12.0)]),
    "modstruve": (mp.struvel, [(0.0, 0.3), (1.5, 2.0), (3.0, 12.0)]),
    "ber": (lambda x: mp.ber(0, x), [0.0, 0.7, 3.0]),
    "bei": (lambda x: mp.bei(0, x), [0.0, 0.7, 3.0]),
    "ker": (lambda x: mp.ker(0, x), [0.7, 3.0]),
    "kei": (lambda x: mp.kei(0, x), [0.7, 3.0]),
    "ai": (mp.airyai, [-3.0, 0.0, 2.0]),
    "bi": (mp.airybi, [-3.0, 0.0, 2.0]),
    "hyp0f1": (lambda b, x: mp.hyp0f1(b, x), [(0.7, 0.3), (2.0, -3.0)]),
    "hyp1f1": (mp.hyp1f1, [(0.7, 1.3, 0.0), (2.0, 0.5, -3.0)]),
    "hyperu": (mp.hyperu, [(0.7, 1.3, 0.4), (2.0, 0.5, 3.0)]),
    "betainc": (beta_i, [(0.5, 0.5, 0.3), (3.0, 4.5, 0.6), (20.0, 3.0, 0.9), (150.0, 120.0, 0.55), (0.01, 30.0, 1e-4)]),
    "stdtr": (
        lambda v, t: 1 - beta_i(v / 2, mp.mpf(1) / 2, v / (v + t * t)) / 2,
        [(1.5, 0.4), (30.0, 2.0), (1e4, 0.7)],
    ),
    "kolmogorov": (
        lambda x: 2 * mp.nsum(lambda k: (-1) ** (int(k) - 1) * mp.exp(-2 * k * k * x * x), [1, 40]),
        [0.6, 0.99, 1.01, 2.0],
    ),
}
LARGER = {
    "kolmogorov": 1e-9,
    "betainc": 1e-11,
    "stdtr": 1e-10,
    "hyperu": 1e-9,
    "elliprd": 1e-11,
    "voigt_profile": 1e-10,
    "wofz_re": 1e-10,
    "wofz_im": 1e-10,
}


def points_of(name):
    return [p if isinstance(p, tuple) else (p,) for p in EXACT[name][1]]


def compiled(row, target, order):
    """A kernel of the value and all known derivatives up to an order, and which they are."""
    tape = Tape(row.arity)
    values = {(): tape.apply(row.name, *range(row.arity))}
    known = [k for k, text in enumerate(row.partials) if text not in (None, UNKNOWN)]
    for k in known:
        values[k,] = partial(tape, values[()], k)
    tape.outputs = list(values.values())
    kernel = compile_tape(
        tape,
        (Segment(len(values), tuple(range(len(values))), tuple(range(len(values)))),),
        target=target,
        arguments=((row.arity,),),
    )
    return kernel, list(values)


@pytest.mark.parametrize("name", EXACT)
def test_derivatives_are_those_of_mpmath(name):
    row, exact = BY_NAME[name], EXACT[name][0]
    X = np.array(points_of(name))
    for target in ("llvm", "numpy"):
        kernel, which = compiled(row, target, 1)
        found = kernel.batch(X)[0]
        np.testing.assert_array_equal(found, [kernel(x)[0] for x in X])
        np.testing.assert_array_equal(found[:, 0], row.evaluate(*X.T))
        for j, key in enumerate(which[1:], 1):
            for x, got in zip(X, found[:, j], strict=True):
                point = [mp.mpf(each) for each in x]
                h = mp.mpf(10) ** -12
                ends = [exact(*(p + s * h if k == key[0] else p for k, p in enumerate(point))) for s in (-1, 1)]
                expected = float(mp.re((ends[1] - ends[0]) / (2 * h)))
                assert got == pytest.approx(expected, rel=LARGER.get(name, 1e-12), abs=1e-15), (target, x, key)


#: Functions of a vector, with points, whose second derivatives are those of mpmath.
SECOND = {
    "gammainc": lambda a, x: special.gammainc(a, x),
    "ellipkinc": lambda phi, m: special.ellipkinc(phi, m),
    "ellipeinc": lambda phi, m: special.ellipeinc(phi, m),
    "voigt_profile": lambda x, s, g: special.voigt_profile(x, s, g),
    "ellipj_sn": lambda u, m: special.ellipj(u, m)[0],
    "elliprf": lambda x, y, z: special.elliprf(x, y, z),
    "dawsn": lambda x: special.dawsn(x),
    "spence": lambda x: special.spence(x),
    "si": lambda x: special.sici(x)[0],
    "rgamma": lambda x: special.rgamma(x),
    "agm": lambda a, b: special.agm(a, b),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name):
    function, exact = SECOND[name], EXACT[name][0]
    X = np.array(points_of(name))
    hessian = acc.hessian(lambda x: function(*(x[k] for k in range(X.shape[1]))), cache=False, effort="fast")
    found = hessian.batch(X)
    h = mp.mpf(10) ** -12
    for x, got in zip(X, found, strict=True):
        point = [mp.mpf(each) for each in x]
        for i in range(len(x)):
            for j in range(i + 1):
                total = mp.mpf(0)
                for s in (-1, 1):
                    for t in (-1, 1):
                        moved = list(point)
                        moved[i] += s * h
                        moved[j] += t * h
                        total += s * t * mp.re(exact(*moved))
                expected = float(total / (4 * h * h))
                assert got[i, j] == pytest.approx(expected, rel=1e-8, abs=1e-11), (x, i, j)


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_special_values_and_both_targets(row):
    """Infinities, zeros and NaN give what SciPy gives, and both targets the same derivatives."""
    lows, highs = (np.clip(ends, -3.0, 3.0) for ends in zip(*row.domain, strict=True))
    rng = np.random.default_rng(row.code)
    ordinary = rng.uniform(lows, np.maximum(highs, lows + 0.5), (8, row.arity))
    # of parabolic cylinder functions, SciPy raises errors of its own
    infinite = [] if row.arity > 2 or row.name.startswith("pb") else [np.nan, np.inf, -np.inf]
    odd = np.array([0.0, -0.0, 1.0, -1.0, 2.0, *infinite])
    X = np.concatenate([ordinary, *(np.where(np.arange(row.arity) == k, odd[:, None], 1.3) for k in range(row.arity))])
    found = []
    for target in ("llvm", "numpy"):
        kernel, _ = compiled(row, target, 1)
        found.append(kernel.batch(X)[0])
        np.testing.assert_array_equal(found[-1][:, 0], row.evaluate(*X.T))
    np.testing.assert_allclose(found[0][:8], found[1][:8], rtol=1e-9, atol=1e-300)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["ellipk", "si", "wofz_re", "betainc", "gammainc"])
def test_single_precision(name):
    row = BY_NAME[name]
    tape = Tape(row.arity)
    tape.outputs = [tape.apply(name, *range(row.arity))]
    X = np.full((9, row.arity), 0.4, np.float32)
    for target in ("llvm", "numpy"):
        kernel = compile_tape(
            tape, (Segment(1, (0,), (0,)),), target=target, dtype="float32", arguments=((row.arity,),)
        )
        np.testing.assert_allclose(kernel.batch(X)[0][:, 0], row.evaluate(*X.T.astype(float)), rtol=1e-5)


@pytest.mark.parametrize("target", ["c", "cuda", "jax"])
def test_other_languages_refuse_them(target):
    tape = Tape(1)
    tape.outputs = [tape.apply("ellipk", 0)]
    with pytest.raises(CompileError, match="ellipk"):
        emit_source(tape, (Segment(1, (0,), (0,)),), target)


def test_code_from_the_cache_is_linked_anew(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def f(x):
        return special.ellipkinc(x[0], x[1])

    x = np.array([0.7, 0.3])
    results = [acc.gradient(f, effort="fast")(x) for _ in range(2)]
    np.testing.assert_array_equal(*results)


def test_unknown_derivatives_say_what_to_do():
    with pytest.raises(TraceError, match=r"scipy\.special\.hyp1f1 with respect to its first argument.*acc\.custom"):
        acc.gradient(lambda x: special.hyp1f1(x, 2.0, 0.4), cache=False)(1.3)
    # the argument may still be one that is not differentiated
    slope = acc.gradient(lambda x, a: special.hyp1f1(a, 2.0, x), cache=False)(0.4, 1.3)
    assert slope == pytest.approx(float(mp.diff(lambda t: mp.hyp1f1(mp.mpf(1.3), 2, t), 0.4)), rel=1e-12)


def test_macros_are_used():
    texts = " ".join([*MACROS.values(), *(text or "" for row in ROWS for text in row.partials)])
    assert not [name for name in MACROS if f"{name}(" not in texts]
