"""Arguments of a batch that have an axis of points: `in_axes`, and the default without it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import accumulus as acc
from accumulus.errors import ArgumentError
from accumulus.programs.arguments import axes_of_points, mistakable


def scaled(p, x):
    """Parameters, whatever their shape, and a vector."""
    return np.sum(p) * x**2


def derivative():
    return acc.jacobian(scaled, argnums=1, effort="fast", target="numpy")


@given(data=st.data())
def test_axes_are_counted_from_the_first_and_have_one_length(data):
    points = data.draw(st.integers(0, 4))
    shapes, axes, written = [], [], []
    for _ in range(data.draw(st.integers(1, 4))):
        shape = data.draw(st.lists(st.integers(0, 4), max_size=3))
        axis = data.draw(st.none() | st.integers(0, len(shape)))
        if axis is None:
            written.append(None)
        else:
            written.append(data.draw(st.sampled_from([axis, axis - len(shape) - 1])))
            shape.insert(axis, points)
        shapes.append(tuple(shape))
        axes.append(axis)
    if axes == [None] * len(axes):
        with pytest.raises(ArgumentError, match="axis of points"):
            axes_of_points(tuple(written), shapes, [], False, "f")
    else:
        assert axes_of_points(tuple(written), shapes, [], False, "f") == tuple(axes)
        assert axes_of_points(written, shapes, [], True, "f") == tuple(axes)


@pytest.mark.parametrize(
    ("in_axes", "shapes", "message"),
    [
        ("first", [(3,)], "in_axes is 'first'"),
        ((0, 0), [(3,)], "expected 1 entries"),
        (0.5, [(3,)], "in_axes is 0.5"),
        ((0.5,), [(3,)], "entry 0 is 0.5"),
        ((True,), [(3,)], "entry 0 is True"),
        (1, [(3,)], "no axis 1"),
        (-2, [(3,)], "no axis -2"),
        (0, [(3,), ()], "argument 1 of f is a number and no axis 0; None shares"),
        ((0, 0), [(3,), None], "argument 1 of f is not traced"),
        (None, [(3,)], "axis of points"),
        ((0, 1), [(3,), (3, 4)], "different numbers of points: argument 0 has 3, argument 1 has 4"),
    ],
)
def test_axes_that_make_no_sense_say_so(in_axes, shapes, message):
    with pytest.raises(ArgumentError, match=message):
        axes_of_points(in_axes, shapes, [], False, "f")


def test_one_axis_for_all_skips_constants():
    assert axes_of_points(-1, [(2, 3), None, (3,)], [], False, "f") == (1, None, 0)


def test_numbers_are_shared_and_arrays_have_points():
    assert axes_of_points("auto", [(), (5, 2), None, (5,)], [], False, "f") == (None, 0, None, 0)
    assert axes_of_points("auto", [(), (2, 5), None, (5,)], [], True, "f") == (None, 1, None, 0)
    # one array alone can only mean its points, whatever is known of it
    assert axes_of_points("auto", [(3,), ()], [((3,), ()), ((), ())], False, "f") == (0, None)


def test_different_lengths_raise_with_advice():
    with pytest.raises(ArgumentError, match=r"in_axes=\(0, 0\) if all arrays have, in_axes=\(None, 0\) if one has"):
        derivative().batch(np.ones(3), np.ones((7, 2)))


def test_a_known_shape_at_one_point_is_unambiguous():
    jac = derivative()
    p, X = np.array([1.0, 2.0, 4.0]), np.arange(6.0).reshape(3, 2)
    jac(p, X[0])
    with pytest.raises(ArgumentError, match=r"argument 0 of scaled has the shape \(3,\).*in_axes=\(None, 0\)"):
        jac.batch(p, X)
    shared, apart = jac.batch(p, X, in_axes=(None, 0)), jac.batch(p, X, in_axes=(0, 0))
    np.testing.assert_array_equal(shared, [jac(p, x) for x in X])
    np.testing.assert_array_equal(apart, [jac(a, x) for a, x in zip(p, X, strict=True)])
    # another number of points cannot be meant so
    with pytest.raises(ArgumentError, match="different numbers of points"):
        jac.batch(p, np.ones((4, 2)))
    np.testing.assert_array_equal(jac.batch(np.ones(4), np.ones((4, 2)))[:, 0, 0], 2.0)


def test_a_row_as_long_as_another_argument_is_ambiguous_unless_known():
    jac = derivative()
    p, X = np.array([1.0, 2.0]), np.arange(4.0).reshape(2, 2)
    for transposed in (False, True):
        with pytest.raises(ArgumentError, match="2 entries: the number of points"):
            jac.batch(p, X, transposed=transposed)
    jac(1.0, X[0])
    np.testing.assert_array_equal(jac.batch(p, X), [jac(a, x) for a, x in zip(p, X, strict=True)])


def test_the_short_way_of_a_batch_makes_no_guess_either():
    jac = acc.jacobian(scaled, argnums=1, effort="fast")
    p, X = np.array([1.0, 2.0, 4.0]), np.arange(6.0).reshape(3, 2)
    apart = [jac.batch(p, X) for _ in range(3)][-1]
    np.testing.assert_array_equal(apart, [jac(a, x) for a, x in zip(p, X, strict=True)])
    jac(p, X[0])
    for _ in range(2):
        with pytest.raises(ArgumentError, match="in_axes"):
            jac.batch(p, X)
    for _ in range(2):
        np.testing.assert_array_equal(jac.batch(p, X, in_axes=0), apart)
        np.testing.assert_array_equal(jac.batch(p, X, in_axes=(None, 0)), [jac(p, x) for x in X])
        with pytest.raises(ArgumentError, match="in_axes"):
            jac.batch(p, X)


def test_ambiguous_shapes_raise():
    assert mistakable([(), (2,)], [((3,), (2,))])
    assert not mistakable([(), (2,)], [((), (2,)), ((), (3,)), ((3,),)])
    assert not mistakable([()], [((3,),)])


def test_a_program_checks_its_shapes():
    program = derivative().compile(np.ones(3), np.ones(2))
    p, X = np.array([1.0, 2.0, 4.0]), np.arange(6.0).reshape(3, 2)
    expected = [program(p, x) for x in X]
    np.testing.assert_array_equal(program.batch(p, X, in_axes=(None, 0)), expected)
    np.testing.assert_array_equal(program.batch(np.tile(p, (3, 1)), X), expected)
    for wrong in ((p, X), (p, np.ones((4, 2)))):
        with pytest.raises(ArgumentError, match="in_axes"):
            program.batch(*wrong)
    with pytest.raises(ArgumentError, match=r"shape \(2,\).*compiled for \(3,\)"):
        program.batch(np.ones((3, 2)), X)


def test_axes_by_name_of_arguments_by_position():
    jac, p, X = derivative(), np.array([1.0, 2.0]), np.arange(6.0).reshape(3, 2)
    expected = jac.batch(p, X, in_axes=(None, 0))
    np.testing.assert_array_equal(jac.batch(p, X, in_axes={"p": None}), expected)
    np.testing.assert_array_equal(jac.batch(p, x=X.T, in_axes={"p": None, "x": 1}), expected)
    for wrong in ({"p": None, "y": 0}, {"x": 0, "p": 3}):
        with pytest.raises(ArgumentError):
            jac.batch(p, X, in_axes=wrong)
