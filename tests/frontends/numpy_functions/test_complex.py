"""Complex numbers inside a function are pairs of real ones: values are NumPy's, derivatives those of JAX."""

from __future__ import annotations

import cmath
import itertools
import operator

import numpy as np
import pytest
from agreement import assert_agrees
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import evaluate

import accumulus as acc
from accumulus.errors import ArgumentError, TraceError
from accumulus.frontends import record
from accumulus.frontends.numpy.complex_numbers import FORMULAS

UNARY = [name for name in FORMULAS if getattr(np, name).nin == 1]
ANALYTIC = [name for name in UNARY if getattr(np, name)(0.5j).dtype.kind == "c" and name not in ("sign", "rint")]
BINARY = [name for name in FORMULAS if getattr(np, name).nin == 2]

#: Points on both sides of every branch cut, on the cuts with zeros of either sign, and further out.
PARTS = [-2.0, -0.5, -0.0, 0.0, 0.5, 1.5]
#: At these NumPy itself gives infinities or NaN, and other formulas others.
SINGULAR = {
    **{name: {(0.0, 0.0)} for name in ("log", "log2", "log10", "reciprocal")},
    "arctan": {(0.0, 1.0), (0.0, -1.0)},
}


def parts(z):
    """A complex result, or a real one, as real numbers."""
    return (z.real, z.imag) if np.iscomplexobj(z) else z


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number_have_numpys_values_on_branch_cuts_too(name):
    ufunc = getattr(np, name)
    points = [p for p in itertools.product(PARTS, PARTS) if tuple(map(abs, p)) not in SINGULAR.get(name, ())]
    generator = np.random.default_rng(3)
    points += [tuple(point) for point in generator.normal(size=(40, 2)) * 3.0]

    def f(x, y):
        z = np.zeros((), complex)
        z.real, z.imag = x, y
        return parts(ufunc(z[()]))

    assert_agrees(f, *points, rtol=1e-13)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers_have_numpys_values(name):
    ufunc = getattr(np, name)
    generator = np.random.default_rng(4)
    points = [*generator.normal(size=(60, 4)), *np.round(generator.normal(size=(60, 4)))]
    points = [tuple(p) for p in points if any(p[2:]) and any(p[:2])]
    assert_agrees(lambda a, b, c, d: parts(ufunc(a + 1j * b, c + 1j * d)), *points, rtol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "source",
    """
    1j * x; x * 1j; x + 2j; 2j - x; x / (1 + 2j); (1 + 2j) / x; z / 2; z / (3 - 1j); z / 1j; z / (1j * x); 2.0 ** z
    z ** 2; z ** 3; z ** -2; z ** 0; z ** 0.5; z ** 1.7; z ** (1 - 2j); x ** 1j; z ** w; z - w; -z; +z; abs(z); z * z
    z.conjugate(); z.conj() * w; z.real + z.imag; np.real(z); np.imag(z); np.angle(z); np.angle(z, deg=True); z == w
    np.angle(x); z != w; z == z; np.where(x > 0, z, w); np.where(z == w, z, 1j); np.iscomplex(z); np.isreal(z * 0 + x)
    np.exp(1j * x); np.exp(-1j * x * y) * z; np.sqrt(x + 0j); np.sqrt(-x + 0j); np.log(x + 0j); np.sqrt((1j * x)**2)
    np.sqrt(np.conj(x + 0j)); np.log(-(1j * x)**2); np.arcsin(x + 0j); np.arccosh(x + 0j); np.arctanh(3 * x + 0j)
    np.round(z, 1); np.sinc(z); np.polyval([1.0, 2j, z], w); np.poly1d([1.0, 2.0, 3.0])(z); sum([z, w, 1j])
    np.hypot(abs(z), abs(w)); z + np.float64(2); np.complex128(2j) * x; np.complex64(2j) * z; z + True; 1 / z
    np.interp(x, [-2.0, 0.0, 2.0], [0.0, 1.0, 4.0]) * z; np.isclose(z, w); z.item(); z.sum(); z.astype(complex) * 2
    """.replace("\n", ";")
    .strip(" ;")
    .split(";"),
)
def test_expressions_agree_with_numpy(source):
    source = source.strip()
    f = eval(f"lambda x, y: parts((lambda z, w: {source})(x + 1j * y, np.exp(0.3j * x) - y))", globals())
    assert_agrees(f, *itertools.product([np.float64(0.7), np.float64(-1.3)], [np.float64(0.4), np.float64(-2.1)]))


#: Of complex arrays z (3) and Z (3, 3), and a real matrix A (3, 3).
ARRAYS = """
z + A; z * Z; A @ z; Z @ z; z @ z; Z @ Z; A @ Z; np.dot(Z, A); np.vdot(z, z * 2j); np.vdot(A[0], z); np.inner(z, z)
np.outer(z, z); np.kron(z, A); np.tensordot(Z, A, 1); np.einsum('ij,j->i', Z, z); np.einsum('ij,jk,k', Z, A, z)
np.einsum(Z, [0, 1], z, [1]); np.vecdot(Z, z); np.linalg.multi_dot([Z, A, z]); np.cross(z, A[0]); np.convolve(z, A[0])
np.sum(Z); Z.sum(axis=0); np.mean(Z, axis=1); np.prod(z); Z.prod(axis=1, keepdims=True); np.cumsum(z); np.cumprod(Z, 1)
np.var(Z, axis=0); np.std(z); np.trace(Z); np.diff(z); np.add.reduce(Z); np.multiply.reduce(Z, axis=1)
np.add.accumulate(z); np.add.outer(z, A[0]); np.multiply.outer(A[0], z); np.stack([z, A[0], 1j * z]); Z.T; Z.mT
np.concatenate([z, A[0]]); np.vstack([z, Z]); np.block([[Z, A], [A, Z]]); np.reshape(Z, -1); Z.ravel(); Z.flatten('F')
Z[0]; Z[1, 2]; Z[:, ::2]; Z[[0, 2], 1]; Z.diagonal(); np.diag(z); np.triu(Z); np.roll(z, 1); np.tile(z, 2); z.repeat(2)
np.take(z, [2, 0]); np.insert(z, 1, 2j); np.append(z, 1.0); np.pad(z, 1); np.flip(z); np.meshgrid(z, A[0])
np.real(Z); np.imag(Z); Z.real.sum(); Z.imag * z; np.conj(Z); np.abs(Z); np.angle(z); Z.conj().T @ Z; np.size(Z) * z
np.where(A > 0, Z, 1.0); np.where(A > 0, 1j, A); np.nan_to_num(z); np.round(Z, 1); np.isclose(Z, A)
np.zeros_like(z) + z
np.ones_like(Z, dtype=float) * z; np.full_like(z, z[0]); np.full(2, z[0]); np.array([z, 2 * z]); np.array([z[0], 1.0])
np.array([[z[0], A[0, 0]], [1j, 2]]); np.array([[A[0, 0], 1.0], [2.0, 1j]]); np.array([[2.0, 1j], [A[0, 0], 1.0]])
np.array([[0, A[0, 0], 0], [A[0, 1], 2, z[0]], [0, 3, -1.0]]); np.array([A[0], z]); np.array([[1, 2, 3], z], complex)
np.vstack([[A[0, 0], 1.0], [2.0, z[0]]]); np.stack([[1.0, 2.0], [z[0], 3.0]])
np.array(A, complex) + z; A.astype(complex) * 2j; np.asarray(z) * 2; Z.copy()
[v * 2 for v in z]; np.array([v for v in Z]); list(z.flat); z.tolist(); np.linalg.norm(z); np.linalg.norm(Z, axis=0)
np.linalg.solve(Z + 3 * np.eye(3), z); np.linalg.solve(A + 3j * np.eye(3), Z); np.linalg.inv(Z + 3 * np.eye(3))
np.linalg.solve(Z[:1, :1], z[:1]); np.linalg.solve(np.kron(np.eye(2), Z + 3 * np.eye(3)), np.tile(z, 2))
np.linalg.det(Z); np.linalg.det(Z[:2, :2]); np.linalg.matrix_power(Z, 3); np.array(np.exp([z[0], z[1]]))
np.linspace(z[0], 1.0, 3); np.gradient(z); np.trapezoid(z, dx=0.5); np.trapezoid(A[0], z); np.polyval(z, A[0])
z[0].sum()
np.iscomplexobj(z) * z; np.isrealobj(z) + z; np.average(z, weights=[1, 2, 3]); (z == z[0]) * 1.0; np.vander(z)
np.sign(Z)
np.multiply(z, 2j, where=A[0] > 0, out=np.zeros(3, complex)); np.ones((2, 3)) * z; np.array([1j, 2, 3j]) * A
z - [1, 2, 3j]
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("source", [source.strip() for source in ARRAYS if source.strip()])
def test_array_functions_agree_with_numpy(source):
    def split(result):
        return [split(child) for child in result] if isinstance(result, list | tuple) else parts(result)

    def f(x, y, A):
        z = x + 1j * y
        return split(eval(source, globals(), {"z": z, "Z": np.exp(1j * A) * z, "A": A}))

    generator = np.random.default_rng(5)
    assert_agrees(f, *([generator.normal(size=shape) for shape in (3, 3, (3, 3))] for _ in range(2)))


def test_arrays_of_complex_numbers_are_filled_and_written_to():
    def f(x):
        z = np.zeros((2, 3), complex)
        z[0] = x
        z[1, 0] = 1j * x[0]
        z[1, 1:] += np.exp(1j * x[1:])
        z.real[0] *= 2.0
        z.imag = z.imag + x
        z[:, 1] *= 1j
        w = z.T.reshape(-1)
        w[0] = 3.0
        z.flat[2] = x[0] * 2j
        np.add.at(z, (0, [1, 1]), x[:2] * 1j)
        np.copyto(z[1], z[0] * 2)
        out = np.empty(3, dtype=complex)
        np.multiply(z[0], x, out=out)
        out /= 1 + 1j
        diagonal = np.zeros((3, 3), complex)
        np.fill_diagonal(diagonal, out)
        np.put(diagonal, [1], [x[0] * 1j])
        return z.real, z.imag, np.sum(w).imag, diagonal.real, diagonal.imag

    assert_agrees(f, [np.array([0.5, -1.0, 2.0])])


def test_constant_parts_cost_no_operations():
    assert record(lambda x: (x * np.exp(1j * x)).imag, [1.0]).tape.operations <= 4
    assert record(lambda x: abs((2j * x) * (x + 0j)), [1.0]).tape.operations <= 3
    z = record(lambda a, b, c, d: parts((a + 1j * b) * (c + 1j * d)), [1.0] * 4)
    assert z.tape.operations == 6


def test_quotients_and_absolute_values_neither_overflow_nor_vanish():
    def f(a, b, c, d):
        z, w = a + 1j * b, c + 1j * d
        return (z / w).real, (z / w).imag, abs(w)

    for scale, rewritten in ((1e-200, False), (1e-100, True), (1e100, True), (1e200, False)):
        arguments = np.array([1.0, -2.0, 0.5, 3.0]) * scale
        value = acc.value_and_jacobian(f, optimise=rewritten)(*arguments)[0]
        np.testing.assert_allclose(value, f(*arguments), rtol=1e-15)


EXPRESSIONS = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["z", "w", "x", "1j", "(0.5-2j)", "2.0"]),
        st.builds("({} {} {})".format, EXPRESSIONS, st.sampled_from("+-*/"), EXPRESSIONS),
        st.builds("np.{}({})".format, st.sampled_from(["exp", "sin", "cosh", "tanh", "conj", "abs"]), EXPRESSIONS),
        st.builds("({})**{}".format, EXPRESSIONS, st.sampled_from(["2", "3", "-1"])),
        st.builds("np.sqrt(3 + ({})**2)".format, st.sampled_from(["x", "z", "w"])),
        st.builds("np.log(2 + {})".format, st.sampled_from(["x", "z", "w"])),
    )
)


@settings(max_examples=max(10, settings.default.max_examples // 4), deadline=None)
@given(EXPRESSIONS, st.lists(st.integers(-40, 40), min_size=3, max_size=3))
def test_derivatives_of_expressions_are_jaxs(source, sixteenths):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    point = np.array(sixteenths) / 16.0 + 0.03

    def program(numpy):
        def f(v):
            x, z, w = v[0], v[0] + 1j * v[1], numpy.exp(1j * v[2]) * v[1]
            result = eval(source, {"np": numpy}, {"x": x, "z": z, "w": w}) * (1 + 0j)
            return numpy.stack([numpy.real(result), numpy.imag(result)])

        return f

    with np.errstate(all="ignore"):
        value = program(np)(point)
        expected = np.asarray(jax.jit(jax.jacfwd(program(jax.numpy)))(point))
    if not (np.isfinite(value).all() and np.isfinite(expected).all()) or np.abs(expected).max() > 1e6:
        return
    actual = acc.jacobian(program(np), target="numpy", time_limit=0.0, optimise=False)(point)
    np.testing.assert_allclose(actual, expected, rtol=1e-8, atol=1e-8 * max(1.0, np.abs(expected).max()))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ANALYTIC)
def test_derivatives_of_functions_are_those_of_numpys_differences(name):
    ufunc = getattr(np, name)

    def f(x):
        return np.stack([np.real(ufunc(x[0] + 1j * x[1])), np.imag(ufunc(x[0] + 1j * x[1]))])

    jac = acc.jacobian(f)
    points = np.random.default_rng(6).normal(size=(5, 2)) * 1.7
    for point, actual in zip(points, jac.batch(points), strict=True):
        h = 1e-6
        differences = [(f(point + h * e) - f(point - h * e)) / (2 * h) for e in np.eye(2)]
        np.testing.assert_allclose(actual, np.transpose(differences), rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(jac(point), actual, rtol=1e-12, atol=1e-14)


def test_long_arrays_stay_arrays():
    def f(x):
        z = np.exp(1j * x) / (2.0 + 1j * np.roll(x, 1))
        return np.abs(z * z) + (z @ z).real + np.cumsum(z).imag[-1]

    x = np.linspace(-1.0, 1.0, 40)
    short = record(f, [x], check=True)
    long = record(f, [x], arrays=True, at_once=True, check=True)
    np.testing.assert_allclose(evaluate(long.program, x), f(x), rtol=1e-12)
    assert short.tape.operations > 100


def test_the_module_cmath():
    def f(x, y):
        z = x + 1j * y
        w = cmath.rect(x, y) + cmath.exp(z) * cmath.sqrt(z) + cmath.log(z, 2.0) + cmath.log10(z) + cmath.atan(z) * 1j
        r, phi = cmath.polar(w)
        return w.real, w.imag, r, phi, cmath.phase(z), cmath.sqrt(x).imag, cmath.sinh(x).real, cmath.acos(z).imag

    assert_agrees(f, [0.5, -0.7], [-1.5, 0.3])


def test_the_builtin_complex():
    def f(x, y):
        z = complex(x, y)
        if abs(z) > 1.0:
            z = z * z
        return abs(z), complex(x).imag, complex(z, x).imag, complex(x, -0.0).imag, np.sqrt(complex(x, y * -0.0)).imag

    both = acc.value_and_jacobian(f)
    for x, y in ((0.5, 2.0), (-0.5, 2.0), (-0.5, -2.0), (0.25, -0.5)):
        value, (by_x, by_y) = both(x, y)[0], acc.jacobian(lambda x, y: f(x, y)[0], argnums=(0, 1))(x, y)
        np.testing.assert_allclose(value, f(x, y), rtol=1e-14)
        size = np.hypot(x, y)
        np.testing.assert_allclose([by_x, by_y], np.array([x, y]) * (2.0 if size > 1.0 else 1.0 / size), rtol=1e-13)


def test_branches_on_values():
    """Complex values of both branches are one; a real value of one of them stays real, whose root is NaN."""

    def f(x):
        z = x[0] + 1j * x[1]
        filled = np.zeros(2, complex)
        if x[0] > 0.0:
            w, kind = z * z, z
            filled[0] = z
        else:
            w, kind = np.conj(z), x[0]
            filled[1] = 2j * z
        steps = 0
        while abs(z) < 2.0 and steps < 20:
            z = z * z + (0.4 + 0.5j)
            steps += 1
        return w.real, w.imag, np.sqrt(kind).real, filled.real, filled.imag, abs(z)

    both = acc.value_and_jacobian(f, check=False)
    for point in np.array([[0.5, -0.25], [-2.0, 0.3], [-0.1, 0.2], [1.5, 0.5]]):
        with np.errstate(invalid="ignore"):
            for actual, expected in zip(both(point)[0], f(point), strict=True):
                np.testing.assert_allclose(actual, expected, rtol=1e-12)


ERRORS = {
    "z": "Return the real and the imaginary part",
    "1j * x": "Return the real and the imaginary part",
    "z < 1j": "orders complex numbers",
    "np.maximum(z, 1.0)": "orders complex numbers",
    "np.maximum(np.stack([z, z]), 1.0)": "orders complex numbers",
    "np.cbrt(z)": "is not recorded",
    "np.arctan2(z, 1.0)": "is not recorded",
    "np.max(np.stack([z, z]))": "only real ones",
    "np.zeros(2).__setitem__(0, z)": "only real ones",
    "np.stack([z, z]).astype(float)": "drop their imaginary parts",
    "np.linalg.det(np.stack([z] * 25).reshape(5, 5))": "up to 4",
    "np.any(np.stack([z, z]))": "z != 0",
    "np.exp(z, dtype=np.complex64)": "complex64",
}


@pytest.mark.parametrize("source", ERRORS)
def test_unsupported_functions_raise(source):
    with pytest.raises(TraceError, match=ERRORS[source]):
        record(eval(f"lambda x: (lambda z: {source})(x + 2j * x)", globals()), [1.0])


def test_a_complex_result_in_an_array_of_reals_is_numpys_error():
    def f(x):
        total = np.zeros(2)
        total += 1j * x
        return total

    with pytest.raises(TypeError, match="Cannot cast"):
        record(f, [np.ones(2)])


@pytest.mark.parametrize("convert", [int, float])
def test_no_real_number_is_made_of_a_complex_one(convert):
    with pytest.raises(TypeError, match=r"write .*z\.real"):
        record(lambda x: convert(1j * x), [1.0])


def test_complex_arguments_are_refused():
    with pytest.raises(ArgumentError, match="complex"):
        acc.jacobian(operator.abs)(1j)
