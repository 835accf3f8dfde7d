"""Every public function of scipy.special: its derivatives against differences of SciPy's values, or its refusal."""

# ruff: noqa: PLW0108 (functions as users write them)

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import special

import accumulus as acc
from accumulus.errors import AccumulusError, TraceError

UFUNCS = sorted(name for name in dir(special) if isinstance(getattr(special, name), np.ufunc))
#: Arguments where these are not ordinary ones.
ORDINARY = (1.3, 0.7, 0.4, 0.6, 0.3)
POINTS = {
    **dict.fromkeys(["bdtr", "bdtrc", "bdtri"], (2.0, 5.0, 0.4)),
    **dict.fromkeys(["nbdtr", "nbdtrc", "nbdtri"], (2.0, 3.0, 0.4)),
    **dict.fromkeys(["gammaincinv", "gammainccinv", "chdtri", "stdtrit"], (1.3, 0.4)),
    **dict.fromkeys(["betaincinv", "betainccinv", "gdtrix"], (1.3, 0.7, 0.4)),
    **dict.fromkeys(["ellipk", "ellipe", "erfinv", "erfcinv", "ndtri", "kolmogi", "logit", "log_expit"], (0.4,)),
    **dict.fromkeys(["pdtr", "pdtrc", "pdtri", "kn", "yn", "expn"], (2, 0.4)),
    "btdtria": (0.4, 1.3, 0.3),
    "btdtrib": (1.3, 0.4, 0.3),
    "chdtriv": (0.4, 1.3),
    "chndtrix": (0.4, 1.3, 0.7),
    "fdtridfd": (3.0, 0.4, 0.8),
    "stdtridf": (0.7, 0.6),
    "fdtri": (3.0, 4.0, 0.4),
    "gdtria": (0.4, 1.3, 0.7),
    "gdtrib": (1.3, 0.4, 0.7),
    "lpmv": (1.0, 3.0, 0.4),
    "ndtri_exp": (-0.4,),
    "nrdtrimn": (0.4, 1.3, 0.7),
    "nrdtrisd": (0.3, 0.4, 0.7),
    "tklmbda": (0.2, 0.7),
    "zeta": (1.3, 0.7),
    **{name: (3, *ORDINARY) for name in UFUNCS if name.startswith("eval_")},
}
#: Arguments, by number, that have no derivative: those with respect to them are refused.
CONSTANT = {
    **{name: (0,) for name in UFUNCS if name.startswith("eval_")},
    **dict.fromkeys(["expn", "hyp0f1", "pdtr", "pdtrc", "pdtri", "zeta", "pbdv", "pbvv", "pbwa"], (0,)),
    **dict.fromkeys(
        [
            "iv",
            "ive",
            "jn",
            "jv",
            "jve",
            "kn",
            "kv",
            "kve",
            "yn",
            "yv",
            "yve",
            "hankel1",
            "hankel1e",
            "hankel2",
            "hankel2e",
        ],
        (0,),
    ),
    **dict.fromkeys(["struve", "modstruve"], (0,)),
    **dict.fromkeys(
        ["bdtr", "bdtrc", "bdtri", "nbdtr", "nbdtrc", "nbdtri", "hyp1f1", "hyperu", "lpmv"],
        (0, 1),
    ),
    **dict.fromkeys(["wright_bessel", "log_wright_bessel"], (0, 1)),
    "besselpoly": (1, 2),
    **dict.fromkeys(["chndtr", "chndtrix"], (1,)),
    "tklmbda": (1,),
}
#: Why functions are not recorded at all.
REFUSED = {
    **dict.fromkeys(
        [
            "bdtrik",
            "bdtrin",
            "nbdtrik",
            "nbdtrin",
            "pdtrik",
            "smirnov",
            "smirnovi",
            "zetac",
            "chndtridf",
            "chndtrinc",
            "nctdtr",
            "nctdtridf",
            "nctdtrinc",
            "nctdtrit",
        ],
        "no derivative in closed form with respect to shapes, degrees of freedom or numbers of trials",
    ),
    **dict.fromkeys(
        ["hyp2f1", "ncfdtr", "ncfdtri", "ncfdtridfd", "ncfdtridfn", "ncfdtrinc"],
        "operations take at most three arguments",
    ),
    **dict.fromkeys(
        [name for name in UFUNCS if name.startswith(("mathieu_", "obl_", "pro_", "modfresnel"))],
        "spheroidal and Mathieu functions: derivatives need expansions that SciPy does not publish",
    ),
}


def point_of(name):
    return POINTS.get(name, ORDINARY)[: getattr(special, name).nin]


def real_parts(results):
    """Real numbers, and both parts of complex ones, as one array."""
    parts = []
    for each in results if isinstance(results, tuple) else (results,):
        parts += [each.real, each.imag] if np.iscomplexobj(each) else [each]
    return np.stack(parts)


def difference(function, x):
    """The derivative by Richardson's extrapolation."""
    steps = 0.2 * abs(x) / 2.0 ** np.arange(7)
    rows = [[(function(x + h) - function(x - h)) / (2.0 * h) for h in steps]]
    found = []
    for j in range(1, 7):
        before = rows[-1]
        rows.append([(4.0**j * b - a) / (4.0**j - 1.0) for a, b in pairwise(before)])
        found += [(np.max(abs(a - b)), a) for a, b in zip(rows[-1], before[1:], strict=True)]
    return min((each for each in found if np.isfinite(each[0])), key=lambda each: each[0])[1]


def along(name, k):
    """The function of its argument number k."""
    point = point_of(name)
    return lambda x: real_parts(getattr(special, name)(*point[:k], x, *point[k + 1 :]))


CASES = [(name, k) for name in UFUNCS if name not in REFUSED for k in range(getattr(special, name).nin)]


@pytest.mark.sampled(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "k"), CASES, ids=lambda given: str(given))
def test_derivatives(name, k):
    function, x = along(name, k), float(point_of(name)[k])
    derivative = acc.value_and_jacobian(function, target="numpy", effort="fast", cache=False)
    if k in CONSTANT.get(name, ()):
        with pytest.raises(TraceError, match=r"scipy\.special\.\w+|order"):
            derivative(x)
        return
    value, slope = derivative(x)
    np.testing.assert_allclose(value, function(x), rtol=1e-13, atol=1e-300)
    # SciPy finds this inverse with a small tolerance only
    np.testing.assert_allclose(slope, difference(function, x), rtol=1e-4 if name == "stdtridf" else 1e-6, atol=1e-9)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refusals_name_the_function(name):
    function = getattr(special, name)
    for k in range(function.nin):
        with pytest.raises(TraceError, match=rf"scipy\.special\.{name}\b"):
            acc.trace(along(name, k), 0.5)


#: Calls of functions that are not universal, of a vector of two numbers near the point.
CALLS = {
    "comb": lambda x: special.comb(x[0], 2),
    "h1vp": lambda x: real_parts(special.h1vp(1, x)),
    "h2vp": lambda x: real_parts(special.h2vp(1.5, x, 2)),
    "ivp": lambda x: special.ivp(1.5, x),
    "jvp": lambda x: special.jvp(0.5, x, 2),
    "kvp": lambda x: special.kvp(2, x),
    "yvp": lambda x: special.yvp(2, x),
    **{
        f"lambertw {k} {scale}": lambda x, k=k, scale=scale: real_parts(special.lambertw(scale * x, k))
        for k in (-2, -1, 0, 1, 3)
        for scale in (-0.1, -1.0, 2.0, -0.3 + 0.2j, -0.5 - 0.01j)
    },
    "log_softmax": special.log_softmax,
    "logsumexp": special.logsumexp,
    "multigammaln": lambda x: special.multigammaln(x[0] + 2.0, 3),
    "perm": lambda x: special.perm(x[0] + 3.0, 2),
    "polygamma": lambda x: special.polygamma(2, x),
    "sinc": special.sinc,
    "softmax": special.softmax,
    "softplus": lambda x: special.softplus(x),
    **{
        f"spherical_{kind}n{order}{derivative}": lambda x, k=kind, n=order, d=derivative: getattr(
            special, f"spherical_{k}n"
        )(n, x, derivative=d)
        for kind in "jyik"
        for order in (0, 3)
        for derivative in (False, True)
    },
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CALLS)
def test_functions_that_are_not_universal(name):
    function = CALLS[name]
    if name == "softplus" and not hasattr(special, name):
        pytest.skip("newer than this SciPy")
    for x in (np.array([1.3, 0.7]), np.array([2.1, 3.4])):
        value, slopes = acc.value_and_jacobian(function, target="numpy", effort="fast", cache=False)(x)
        np.testing.assert_allclose(value, function(x), rtol=1e-13)
        for k in range(2):
            expected = difference(lambda each, k=k, x=x: function(np.where(np.arange(2) == k, each, x)), x[k])
            np.testing.assert_allclose(slopes[..., k], expected, rtol=1e-7, atol=1e-9)


def test_no_function_fails_in_another_way():
    """Whatever is called with a traced number returns, or raises an error of this library or of SciPy's own."""
    left_out = {"test", "seterr", "geterr", "errstate"}
    for name in dir(special):
        function = getattr(special, name)
        if name.startswith("_") or name in left_out or not callable(function) or isinstance(function, type):
            continue
        for arguments in ([], [2], [2, 3], [2, 3, 0.5]):

            def f(x, function=function, arguments=arguments):
                return np.sum(np.abs(np.asarray(function(*arguments, x))))

            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    f(0.4)
                    own = None
                except Exception as error:
                    own = type(error)
                try:
                    acc.trace(f, 0.4)
                except AccumulusError:
                    pass
                except Exception as error:
                    if own is None or not isinstance(error, own):
                        pytest.fail(f"{name}: {error!r}")
