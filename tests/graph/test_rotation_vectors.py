"""Rotations by vectors: found in every form, with derivatives that are right, and never where they are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg
from contexts import verify, within
from exact import exact_jacobian, mpf
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import BY_NAME, canonical, emit, evaluate
from scipy.spatial.transform import Rotation

import accumulus as acc
from accumulus.graph import rotations
from accumulus.graph.linearize import linearize
from accumulus.graph.rotations import with_rotations
from accumulus.programs import derivation
from accumulus.search.find import find_plan


def skew(k):
    return np.array([[0.0, -k[2], k[1]], [k[2], 0.0, -k[0]], [-k[1], k[0], 0.0]])


def matrix_of(w):
    angle = np.sqrt(w @ w)
    K = skew(w / angle)
    return np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * (K @ K)


def by_rodrigues(w, x):
    angle = np.sqrt(np.sum(w**2))
    axis = w / angle
    return np.cos(angle) * x + np.sin(angle) * np.cross(axis, x) + (1.0 - np.cos(angle)) * np.dot(axis, x) * axis


def by_quaternion(w, x):
    angle = np.linalg.norm(w)
    u, c = np.sin(angle / 2.0) / angle * w, np.cos(angle / 2.0)
    turn = 2.0 * np.cross(u, x)
    return x + c * turn + np.cross(u, turn)


def by_half_vector(w, x):
    """The vector is half a rotation vector."""
    angle = np.sqrt(w @ w)
    u, c = np.sin(angle) / angle * w, np.cos(angle)
    return 2.0 * (u @ x) * u + (c * c - u @ u) * x + 2.0 * c * np.cross(u, x)


#: Functions of a rotation vector and a vector, and how often they turn it, in rotation vectors.
FORMS = {
    "Rodrigues": (by_rodrigues, 1.0),
    "matrix": (lambda w, x: matrix_of(w) @ x, 1.0),
    "transposed matrix": (lambda w, x: matrix_of(w).T @ x, -1.0),
    "quaternion": (by_quaternion, 1.0),
    "half a vector": (by_half_vector, 2.0),
    "Rotation": (lambda w, x: Rotation.from_rotvec(w).apply(x), 1.0),
    "inverse Rotation": (lambda w, x: Rotation.from_rotvec(w).inv().apply(x), -1.0),
    "other coordinates": (lambda w, x: by_rodrigues(w[[2, 0, 1]], x[[1, 2, 0]]), None),
    "opposite results": (lambda w, x: -by_rodrigues(w, x), None),
}

W, X = np.array([0.3, -0.2, 0.5]), np.array([1.0, 2.0, -0.7])


def projected(rotate):
    """A function of six variables whose Jacobian needs all of the rotation's."""

    def f(q):
        y = rotate(q[:3], q[3:])
        return np.array([y[0] / y[2], y[1] / y[2], y @ np.array([1.0, 2.0, 3.0])])

    return f


def emitted(tape, method="markowitz"):
    linearization = linearize(tape)
    return emit(find_plan(linearization.graph, within(None, method=method)).accumulation)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_found(form):
    rotate, times = FORMS[form]
    tape = acc.trace(projected(rotate), np.concatenate([W, X])).tape
    made = with_rotations(tape)
    assert len(made) == 2
    for each in made:
        assert BY_NAME["attach"].code in each.codes
        point = np.concatenate([W, X])
        np.testing.assert_array_equal(evaluate(each, point), evaluate(tape, point))
    if times is not None:  # what the form computes
        np.testing.assert_allclose(rotate(W, X), Rotation.from_rotvec(times * W).apply(X), rtol=1e-13)


#: Forms whose derivatives are not those of the theorem as expressions: it needs the sine of twice the angle, or they
#: have a series as a case.
OTHERS = {"half a vector", "Rotation", "inverse Rotation"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", ["markowitz", "forward", "reverse"])
def test_derivatives_are_those_of_the_operations(form, method):
    tape = acc.trace(projected(FORMS[form][0]), np.concatenate([W, X])).tape
    right = canonical(emitted(tape))
    for each in with_rotations(tape):
        if form not in OTHERS:
            verify(right, emitted(each, method))
        else:
            for scale in (*((1e-9, 1e-3) if "Rotation" in form else ()), 0.5, 1.0, 1.9, 2.1, 5.0):
                q = np.concatenate([scale * W / np.linalg.norm(W), X])
                np.testing.assert_allclose(
                    evaluate(emitted(each, method), q), evaluate(right, q), rtol=1e-12, atol=1e-14
                )


@pytest.mark.parametrize("form", sorted(FORMS.keys() - OTHERS))
def test_programs_are_shorter_by_default(form, monkeypatch):
    f, point = projected(FORMS[form][0]), np.concatenate([W, X])

    def programs():
        shift, weights = np.linspace(1.0, 2.0, 6), np.array([1.0, -2.0, 0.5])
        return [
            acc.value_and_jacobian(f, cache=False).compile(point),
            acc.gradient(lambda q: np.sum(f(q) ** 2), cache=False).compile(point),
            acc.jvp(f, cache=False).compile((point,), (shift,)),
            acc.vjp(f, cache=False).compile((point,), weights),
        ]

    jacobian, *others = programs()
    assert jacobian.report().theorem == "left Jacobian of rotations"
    assert "by theorem" in str(jacobian.report())
    monkeypatch.setattr("accumulus.programs.graphs.with_rotations", lambda *_: [])
    before, *others_before = programs()
    assert not before.report().theorem
    assert jacobian.operations < 0.88 * before.operations
    for other, other_before in zip(others, others_before, strict=True):
        assert other.operations <= other_before.operations


def errors(found, exact):
    """How far a matrix is off, by entry."""
    rows = zip(np.asarray(found), exact, strict=True)
    return np.array([[abs(mpf(float(a)) - b) for a, b in zip(*both, strict=True)] for both in rows], float)


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore::accumulus.errors.RewritingWarning")  # of half a vector, which is used as before
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", [{}, {"effort": "thorough", "time_limit": 1.0}], ids=["balanced", "thorough"])
def test_programs_are_as_accurate_as_plain_ones(form, options):
    """Also at small and large angles, and for nearly parallel vectors."""
    f, draw = projected(FORMS[form][0]), np.random.default_rng(3)
    points = [np.concatenate([scale * draw.normal(size=3), draw.normal(size=3)]) for scale in (1.0, 1e-4, 1e-2, 10.0)]
    points += [np.concatenate([W, -2.0 * W + 1e-6]), np.concatenate([W + 1e-3, X])]
    program, plain = acc.jacobian(f, cache=False, **options), acc.jacobian(f, optimise=False, cache=False)
    tape = acc.trace(f, points[0]).tape
    for point in points:
        exact = exact_jacobian(tape, point)
        size = float(max(abs(entry) for row in exact for entry in row))
        limit = 4.0 * errors(plain(point), exact) + 64.0 * np.finfo(float).eps * size
        assert np.all(errors(program(point), exact) <= limit)


def by_rodrigues_at(angle, w, x):
    axis = w / np.sqrt(w @ w)
    return np.cos(angle) * x + np.sin(angle) * np.cross(axis, x) + (1.0 - np.cos(angle)) * (axis @ x) * axis


def by_rodrigues_over(angle, w, x):
    axis = w / angle
    return np.cos(angle) * x + np.sin(angle) * np.cross(axis, x) + (1.0 - np.cos(angle)) * (axis @ x) * axis


def in_a_rare_case(w, x):
    return np.where(w @ w > 1e-12, by_rodrigues(w, x), x + np.cross(w, x))


#: Functions that are defined at angle 0 by a case.
AT_ZERO = {
    "Rotation": lambda w, x: Rotation.from_rotvec(w).apply(x),
    "inverse Rotation": lambda w, x: Rotation.from_rotvec(-w).inv().apply(x),
    "rare case": in_a_rare_case,
    "rare case of the vector": lambda w, x: np.where(
        w @ w > 1e-12, by_rodrigues(np.where(w @ w > 1e-12, w, 1.0), x), x + np.cross(w, x)
    ),
    "case in Python": lambda w, x: by_rodrigues(w, x) if np.sqrt(w @ w) > 1e-6 else x + np.cross(w, x),
}


class TestAtAngleZero:
    @pytest.mark.parametrize("options", [{}, {"effort": "thorough", "time_limit": 1.0}], ids=["balanced", "thorough"])
    @pytest.mark.parametrize("name", AT_ZERO)
    def test_derivatives_are_those_of_the_case(self, name, options):
        rotate = acc.jacobian(AT_ZERO[name], (0, 1), cache=False, **options)
        rotate(W, X)
        for scale in (0.0, 1e-200, 1e-9, 1e-7):
            by_w, by_x = rotate(scale * W, X)
            np.testing.assert_allclose(by_w, -skew(X), atol=10.0 * scale)
            np.testing.assert_allclose(by_x, np.eye(3), atol=2.0 * scale)

    def test_what_follows_the_case_is_defined_there_too(self):
        def f(w, x):
            y = in_a_rare_case(w, x)
            return y[:2] / y[2]

        pixels = acc.jacobian(f, (0, 1), cache=False)
        pixels(W, X)
        by_y = np.array([[1.0, 0.0, -X[0] / X[2]], [0.0, 1.0, -X[1] / X[2]]]) / X[2]
        by_w, by_x = pixels(np.zeros(3), X)
        np.testing.assert_allclose(by_w, -by_y @ skew(X), rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(by_x, by_y, rtol=1e-13, atol=1e-13)

    def test_programs_without_a_case_for_it_are_undefined_as_before(self):
        with np.errstate(invalid="ignore"), pytest.warns(acc.errors.NaNWarning):
            assert np.isnan(acc.jacobian(lambda w: by_rodrigues(w, X), cache=False)(np.zeros(3))).any()


#: Functions with values that nearly are those of a rotation, or that are in most cases.
NO_ROTATIONS = {
    "smoothed angle": lambda w, x: by_rodrigues_at(np.sqrt(w @ w + 1e-6), w, x),
    "other angle": lambda w, x: by_rodrigues_at(1.5 * np.sqrt(w @ w), w, x),
    "largest of the angle and a number": lambda w, x: by_rodrigues_over(np.maximum(np.sqrt(w @ w), 1e-3), w, x),
    "two squares": lambda w, x: by_rodrigues(np.array([w[0], w[1], 0.0]), x),
    "another rotation in a rare case": lambda w, x: by_rodrigues_at(
        np.where(w @ w > 1e-3, np.sqrt(w @ w), 2.0 * np.sqrt(w @ w)), w, x
    ),
}


@pytest.mark.parametrize("name", NO_ROTATIONS)
@pytest.mark.parametrize("scale", [1.0, 1e-2, 1e-4])
def test_what_is_no_rotation_has_its_own_derivatives(name, scale):
    rotate = NO_ROTATIONS[name]
    tape = acc.trace(lambda q: rotate(q[:3], q[3:]), np.concatenate([W, X])).tape
    assert with_rotations(tape) == []
    by_w, by_x = acc.jacobian(rotate, (0, 1), cache=False)(scale * W, X)
    exact = np.array(exact_jacobian(tape, np.concatenate([scale * W, X])), float)
    np.testing.assert_allclose(np.concatenate([by_w, by_x], axis=1), exact, rtol=1e-11, atol=1e-11)


def test_programs_of_other_operations_are_not_searched(monkeypatch):
    monkeypatch.setattr(rotations, "_Search", None)
    for f in (lambda x: np.sin(x) * np.cos(x), lambda x: np.sqrt(x @ x) * np.sin(x)):
        assert with_rotations(acc.trace(f, W).tape) == []


def test_vectors_that_depend_on_rotations():
    def f(q):
        w, x = q[:3], q[3:]
        y = by_rodrigues(w, x * w)
        z = by_rodrigues(np.sin(y), y + w)
        return matrix_of(-z).T @ by_rodrigues(w, z) + y

    q = np.concatenate([W, X])
    result = acc.jacobian(f, cache=False)
    exact = np.array(exact_jacobian(acc.trace(f, q).tape, q), float)
    np.testing.assert_allclose(result(q), exact, rtol=1e-11)
    assert result.report().theorem


def test_wrong_derivatives_are_refused(monkeypatch):
    combined = rotations._Frame._combined
    monkeypatch.setattr(rotations._Frame, "_combined", lambda self, one, skew, outer: combined(self, one, outer, skew))
    agreed = []
    check = derivation.has_results_of
    monkeypatch.setattr(
        derivation, "has_results_of", lambda *args, **options: agreed.append(check(*args, **options)) or agreed[-1]
    )
    result = acc.jacobian(by_rodrigues, (0, 1), cache=False)
    by_w, _ = result(W, X)
    assert agreed == [False, False]
    assert not result.report().theorem
    rest = by_rodrigues(W, X)
    for k, step in enumerate(1e-6 * np.eye(3)):
        np.testing.assert_allclose(by_w[:, k], (by_rodrigues(W + step, X) - rest) / 1e-6, atol=1e-5)


@pytest.mark.parametrize("spoiled", ["_last", "by_rotation", "by_factors"])
def test_every_part_of_the_theorem_is_checked(spoiled, monkeypatch):
    part = getattr(rotations._VectorFrame, spoiled)
    monkeypatch.setattr(
        rotations._VectorFrame, spoiled, lambda self, *args: self._made.multiply(part(self, *args), self._s)
    )
    result = acc.jacobian(by_rodrigues, (0, 1), cache=False)
    result(W, X)
    assert not result.report().theorem


OPERATIONS = {"sum": lambda z, w, y: z + w, "product": lambda z, w, y: z * y, "sine": lambda z, w, y: np.sin(z)}


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_programs_of_rotations(data):
    """Compositions of rotated vectors, in all forms, with other operations between them."""
    steps = st.tuples(st.sampled_from(sorted(FORMS)), st.sampled_from(sorted(OPERATIONS)))
    drawn = data.draw(st.lists(steps, min_size=1, max_size=3))

    def f(q):
        w, y = q[:3], q[3:]
        for form, operation in drawn:
            y = OPERATIONS[operation](FORMS[form][0](w, y), w, y)
            w = w + 0.1 * y if operation == "sine" else w
        return y

    q = np.array(data.draw(st.lists(st.floats(0.2, 1.5), min_size=6, max_size=6)))
    exact = np.array(exact_jacobian(acc.trace(f, q).tape, q), float)
    result = acc.jacobian(f, cache=False)(q)
    np.testing.assert_allclose(result, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())


def matrix_of_quaternion(q):
    """Rotation matrix of a unit quaternion, scalar first."""
    a, x, y, z = q
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - a * z), 2.0 * (x * z + a * y)],
            [2.0 * (x * y + a * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - a * x)],
            [2.0 * (x * z - a * y), 2.0 * (y * z + a * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )


def by_unit_quaternion(q, x):
    turn = 2.0 * np.cross(q[1:], x)
    return x + q[0] * turn + np.cross(q[1:], turn)


def unit(q):
    return q / np.sqrt(np.sum(q**2))


#: Functions of a quaternion and a vector, and the rotation that they compute, with the scalar last.
OF_QUATERNIONS = {
    "matrix": (lambda q, x: matrix_of_quaternion(unit(q)) @ x, lambda q: q[[1, 2, 3, 0]]),
    "transposed matrix": (
        lambda q, x: matrix_of_quaternion(unit(q)).T @ x,
        lambda q: q[[1, 2, 3, 0]] * [-1.0, -1.0, -1.0, 1.0],
    ),
    "formula": (lambda q, x: by_unit_quaternion(unit(q), x), lambda q: q[[1, 2, 3, 0]]),
    "norm": (lambda q, x: by_unit_quaternion(q / np.linalg.norm(q), x), lambda q: q[[1, 2, 3, 0]]),
    "scalar last": (lambda q, x: by_unit_quaternion(unit(q)[[3, 0, 1, 2]], x), lambda q: q),
    "Rotation": (lambda q, x: Rotation.from_quat(q).apply(x), lambda q: q),
    "inverse Rotation": (lambda q, x: Rotation.from_quat(q).inv().apply(x), lambda q: q * [-1.0, -1.0, -1.0, 1.0]),
}

QX = np.array([0.9, -0.3, 0.4, 0.2, 1.0, 2.0, -0.7])


def of_quaternion(name):
    rotate = OF_QUATERNIONS[name][0]

    def f(v):
        y = rotate(v[:4], v[4:])
        return np.array([y[0] / y[2], y[1] / y[2], y @ np.array([1.0, 2.0, 3.0])])

    return f


class TestQuaternions:
    @pytest.mark.parametrize("name", OF_QUATERNIONS)
    def test_derivatives_are_right_and_shorter(self, name, monkeypatch):
        rotate, meaning = OF_QUATERNIONS[name]
        np.testing.assert_allclose(rotate(QX[:4], QX[4:]), Rotation.from_quat(meaning(QX[:4])).apply(QX[4:]))
        f = of_quaternion(name)
        tape, draw = acc.trace(f, QX).tape, np.random.default_rng(5)
        right = canonical(emitted(tape))
        made = with_rotations(tape)
        assert len(made) == 2
        for each in made:
            np.testing.assert_array_equal(evaluate(each, QX), evaluate(tape, QX))
            verify(right, emitted(each))
        jacobian = acc.value_and_jacobian(f, cache=False)
        program = jacobian.compile(QX)
        assert program.report().theorem == "left Jacobian of rotations"
        for point in (QX, *draw.normal(size=(3, 7)), np.concatenate([1e3 * QX[:4], QX[4:]])):
            exact = np.array(exact_jacobian(tape, point), float)
            np.testing.assert_allclose(jacobian(point)[1], exact, rtol=1e-11, atol=1e-12 * np.abs(exact).max())
        monkeypatch.setattr("accumulus.programs.graphs.with_rotations", lambda *_: [])
        assert program.operations < 0.9 * acc.value_and_jacobian(f, cache=False).compile(QX).operations

    def test_other_quadratic_functions_are_no_rotations(self):
        """A quaternion that is assumed to have length 1, one of five entries, and one that is divided by another."""
        for rotate in (
            by_unit_quaternion,
            lambda q, x: matrix_of_quaternion(q) @ x,
            lambda q, x: by_unit_quaternion(q / np.sqrt(q @ q + x[0] ** 2), x),
            lambda q, x: by_unit_quaternion(q / np.sqrt(q[::-1] @ q), x),
            lambda q, x: by_unit_quaternion(q / (q @ q), x),
        ):
            f = lambda v, rotate=rotate: rotate(v[:4], v[4:])  # noqa: E731
            tape = acc.trace(f, QX).tape
            exact = np.array(exact_jacobian(tape, QX), float)
            assert with_rotations(tape) == []
            np.testing.assert_allclose(acc.jacobian(f, cache=False)(QX), exact, rtol=1e-11, atol=1e-11)

    @pytest.mark.parametrize("spoiled", ["_prepared", "by_rotation", "by_factors"])
    def test_every_part_of_the_theorem_is_checked(self, spoiled, monkeypatch):
        part = getattr(rotations._QuaternionFrame, spoiled)

        def wrong(self, *args):
            result = part(self, *args)
            if isinstance(result, list):  # L
                return [result[1], result[0], *result[2:]]
            return self._made.multiply(result, self._twice)

        monkeypatch.setattr(rotations._QuaternionFrame, spoiled, wrong)
        result = acc.jacobian(of_quaternion("formula"), cache=False)
        result(QX)
        assert not result.report().theorem

    def test_derivatives_at_length_zero_are_those_of_the_case(self):
        rotate = acc.jacobian(
            lambda q, x: np.where(q @ q > 1e-12, by_unit_quaternion(unit(q), x), x + q[:3]), (0, 1), cache=False
        )
        rotate(QX[:4], QX[4:])
        by_q, by_x = rotate(np.zeros(4), QX[4:])
        np.testing.assert_array_equal(by_q, np.eye(3, 4))
        np.testing.assert_array_equal(by_x, np.eye(3))

    def test_quaternions_of_length_zero_have_no_derivative_as_before(self):
        f = of_quaternion("formula")
        with np.errstate(invalid="ignore"), pytest.warns(acc.errors.NaNWarning):
            assert np.isnan(acc.jacobian(f, cache=False)(np.concatenate([np.zeros(4), QX[4:]]))).any()


class TestLoops:
    @staticmethod
    def images(w, x):
        """Images of the points (n, 3) at rotation vectors (n, 3), with operations on whole arrays."""
        angle = np.sqrt(np.sum(w**2, axis=-1, keepdims=True))
        axis = w / angle
        along = np.sum(axis * x, axis=-1, keepdims=True)
        y = np.cos(angle) * x + np.sin(angle) * np.cross(axis, x) + (1.0 - np.cos(angle)) * along * axis
        return y[:, :2] / y[:, 2:]

    def test_bodies_of_loops_are_shorter(self, monkeypatch):
        w, x = np.random.default_rng(0).normal(size=(2, 3000, 3))
        found, reports = [], []
        for _ in range(2):
            images = acc.jacobian(self.images, (0, 1), sparse="csr", cache=False)
            found.append([each.toarray()[:100] for each in images(w, x)])
            reports.append(images.report())
            monkeypatch.setattr("accumulus.arrays.jacobian.with_rotations", lambda *_: [])
        shorter, before = (report.operations for report in reports)
        assert shorter < 0.9 * before
        for one, other in zip(*found, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)

    def test_second_derivatives_are_those_of_the_operations(self):
        w, x = np.random.default_rng(0).normal(size=(2, 2000, 3))
        w, x = 0.3 * w, x + np.array([0.0, 0.0, 9.0])

        def f(w):
            return np.sum(self.images(w, x) ** 2)

        (found,) = acc.hvp(f, cache=False)((w,), (np.ones_like(w),))
        gradient, step = acc.gradient(f, cache=False), 1e-5
        difference = (gradient(w + step) - gradient(w - step)) / (2.0 * step)
        np.testing.assert_allclose(found, difference, rtol=1e-6, atol=1e-6 * np.abs(difference).max())


def test_lengths_that_are_zero_warn_of_nothing():
    rows = np.random.default_rng(0).normal(size=(9, 2))

    def f(p):
        squares = np.sum((rows[:, None, :] / p - rows[None, :, :] / p) ** 2, axis=2)
        factor = np.linalg.cholesky(np.exp(-squares) + 0.1 * np.eye(9))
        return np.sum(scipy.linalg.solve_triangular(factor, rows[:, 0], lower=True))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient = acc.gradient(f, cache=False)(np.ones(2))
    np.testing.assert_allclose(gradient, [0.86636012, 0.99657519], rtol=1e-7)
