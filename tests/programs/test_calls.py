"""Every kind of call against a plain loop over single points, and every kind of argument at every call."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inside import targets

import accumulus as acc
from accumulus.errors import ArgumentError


def mixed(t, y, power, A):
    """A number, a vector, a constant and a matrix."""
    return {"a": A @ y * t**power, "b": np.sin(t * y[0])}


#: Shapes at one point; None for what is passed on as it is.
SHAPES = ((), (3,), None, (2, 3))
DERIVATIVES: dict = {}


def derivative(**options):
    key = tuple(options.items())
    if key not in DERIVATIVES:
        maker = acc.value_and_jacobian if options.pop("values") else acc.jacobian
        DERIVATIVES[key] = maker(mixed, argnums=(0, 1, 3), static_argnums=2, effort="fast", **options)
    return DERIVATIVES[key]


def leaves(result):
    """All arrays of a result at one point, sparse ones made dense."""
    if isinstance(result, dict):
        return [leaf for key in sorted(result) for leaf in leaves(result[key])]
    if isinstance(result, tuple):
        return [leaf for child in result for leaf in leaves(child)]
    return [np.asarray(result.toarray() if hasattr(result, "toarray") else result)]


def point_of(result, k, transposed):
    """A batch's result at point k."""
    if isinstance(result, dict):
        return {key: point_of(child, k, transposed) for key, child in result.items()}
    if isinstance(result, tuple):
        return tuple(point_of(child, k, transposed) for child in result)
    return result[k] if isinstance(result, acc.SparseBatch) else result[..., k] if transposed else result[k]


def odd(x, kind):
    """Return the same numbers in memory that a kernel cannot read."""
    if kind == "swapped":
        return x.astype(x.dtype.newbyteorder())
    if kind == "strided":
        return np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x
    if kind == "unaligned":
        memory = np.zeros(x.nbytes + 1, np.uint8)
        moved = memory[1:].view(x.dtype).reshape(x.shape) if x.size else x
        moved[...] = x
        return moved
    return np.asfortranarray(x) if kind == "fortran" else x


@pytest.mark.parametrize("target", ["llvm", "numpy"])
@given(data=st.data())
def test_a_batch_is_a_loop_over_its_points(target, data):
    jac = derivative(
        target=target,
        values=data.draw(st.booleans()),
        sparse=data.draw(st.sampled_from([None, "csr"])),
        dtype=data.draw(st.sampled_from(["float64", "float32"])),
    )
    dtype = data.draw(st.sampled_from(["f8", "f4", "i8"]))
    points, transposed = data.draw(st.sampled_from([1, 4, 8, 21])), data.draw(st.booleans())
    random = np.random.default_rng(data.draw(st.integers(0, 9)))
    with_points = data.draw(
        st.lists(st.booleans(), min_size=4, max_size=4).filter(lambda has: has[0] or has[1] or has[3])
    )
    arguments, axes, each = [], [], []
    for shape, has in zip(SHAPES, with_points, strict=True):
        if shape is None:
            arguments.append(2)
            axes.append(None)
            each.append([2] * points)
            continue
        axis = data.draw(st.integers(0, len(shape))) if has else None
        full = (*shape[:axis], points, *shape[axis:]) if has else shape
        x = np.asarray(random.uniform(-2, 2, full) * 3).astype(dtype)
        each.append([np.take(x, k, axis) if has else x[()] for k in range(points)])
        kind = data.draw(st.sampled_from(["plain", "swapped", "strided", "unaligned", "fortran"]))
        arguments.append(odd(x, kind) if full else data.draw(st.sampled_from([x, x[()], x.item()])))
        axes.append(None if axis is None else data.draw(st.sampled_from([axis, axis - len(full)])))
    for _ in range(2):  # the slow path, and then the fast one
        result = jac.batch(*arguments, in_axes=tuple(axes), transposed=transposed)
        for k in range(points):
            for many, one in zip(
                leaves(point_of(result, k, transposed)), leaves(jac(*[x[k] for x in each])), strict=True
            ):
                assert many.dtype == one.dtype
                # NumPy's own loops differ in the last bits between one and many
                np.testing.assert_allclose(many, one, rtol=0 if target == "llvm" else 1e-5, atol=0)


def quadratic(t, y):
    return t * y**2


WRONG = {
    "masked": np.ma.masked_array([1.0, 2.0], [False, True]),
    "matrix": np.asmatrix([[1.0, 2.0]]),
    "records": np.rec.array([1.0, 2.0]),
    "subclass": np.zeros(2).view(type("Mine", (np.ndarray,), {})),
    "complex": np.array([1j, 2.0]),
    "text": np.array(["1", "2"]),
    "objects": np.array([1, None]),
    "set": {1.0, 2.0},
    "times": np.array([1, 2], "M8[s]"),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("target", targets())
def test_the_same_arguments_are_refused_at_every_call(kind, target):
    wrong, y = WRONG[kind], np.array([1.0, 2.0])
    jac = acc.jacobian(quadratic, argnums=1, effort="fast", target=target)
    many = wrong if isinstance(wrong, set | np.matrix) else np.stack([wrong, wrong])
    if kind in ("masked", "subclass", "records"):
        many = many.view(type(wrong))
    calls = (
        lambda: jac(1.0, wrong),
        lambda: jac.batch(1.0, many),
        lambda: jac.batch(np.ones(2), many, in_axes=0),
        lambda: jac.batch(np.ones(2), wrong, in_axes=(0, None)),
    )
    for call in calls:
        with pytest.raises(ArgumentError, match="argument 1"):
            call()
    program = jac.compile(1.0, y)
    jac(1.0, y)
    jac.batch(1.0, np.stack([y, y]))
    later = (*calls, lambda: program(1.0, wrong), lambda: program.batch(1.0, many))
    for call in later:
        with pytest.raises(ArgumentError, match="argument 1"):
            call()


@pytest.mark.parametrize("target", targets())
def test_whole_numbers_are_taken_as_far_as_floating_point_reaches(target):
    jac = acc.jacobian(quadratic, argnums=1, effort="fast", target=target)
    y = np.array([0.5, 1.0])
    for _ in range(2):
        np.testing.assert_array_equal(np.diag(jac(2**70, y)), 2.0**70 * 2 * y)
        np.testing.assert_array_equal(np.diag(jac.batch(10**300, y[None])[0]), 1e300 * 2 * y)
        for call in (lambda: jac(10**400, y), lambda: jac.batch(-(10**400), y[None])):
            with pytest.raises(ArgumentError, match="argument 0 of quadratic is an integer of 1329 bits"):
                call()


def test_numbers_beyond_a_narrow_dtype_are_infinite_without_a_word():
    jac = acc.jacobian(lambda t: t * t, effort="fast", dtype="float32")
    for number in (1e300, np.float64(1e300), np.array(1e300), 10**300):
        assert jac(number) == np.inf


def test_memory_maps_are_arrays(tmp_path):
    X = np.memmap(tmp_path / "points", "f8", "w+", shape=(5, 2))
    X[...] = np.arange(10.0).reshape(5, 2)
    jac = acc.jacobian(quadratic, argnums=1, effort="fast")
    for _ in range(2):
        np.testing.assert_array_equal(jac.batch(2.0, X), [jac(2.0, x) for x in np.array(X)])
        np.testing.assert_array_equal(jac(2.0, X[1]), jac(2.0, np.array(X[1])))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sparse", [None, "csr"])
@pytest.mark.parametrize("target", targets())
def test_out_arrays_are_written_or_rejected_at_every_call(target, sparse, transposed):
    jac = acc.jacobian(quadratic, argnums=1, sparse=sparse, effort="fast", target=target)
    t, Y = 2.0, np.arange(10.0).reshape(5, 2)
    X = np.ascontiguousarray(Y.T) if transposed else Y
    expected = [np.diag(4.0 * y) for y in Y]

    def shaped(*shape, points=5):
        return np.full((*shape, points) if transposed else (points, *shape), np.nan)

    at_one = (2,) if sparse else (2, 2)
    wrong = [shaped(1, *at_one), shaped(3), shaped(*at_one, points=4), shaped(*at_one)[..., :0]]
    wrong += [np.empty(()), shaped(*at_one).astype("f4"), shaped(*at_one).T.copy().T, [shaped(*at_one)] * 2]
    read_only = shaped(*at_one)
    read_only.flags.writeable = False
    wrong.append(read_only)
    for _ in range(2):  # the slow path, and then the fast one
        for out in (shaped(*at_one), (shaped(*at_one),)):
            actual = jac.batch(t, X, out=out, transposed=transposed)
            memory = out if isinstance(out, np.ndarray) else out[0]
            assert np.shares_memory(actual.data if sparse else actual, memory)
            dense = actual.toarray() if sparse else np.moveaxis(actual, -1, 0) if transposed else actual
            np.testing.assert_array_equal(dense, expected)
        for out in wrong:
            before = [np.copy(array) for array in (out if isinstance(out, list) else [out])]
            with pytest.raises(ArgumentError, match="out "):
                jac.batch(t, X, out=out, transposed=transposed)
            for array, copy in zip(out if isinstance(out, list) else [out], before, strict=True):
                np.testing.assert_array_equal(array, copy)


def test_short_ways_are_for_the_constants_that_they_were_made_for():
    jac = acc.jacobian(lambda x, kind, mask: np.where(mask, x, x**2) if kind == "some" else x**3, effort="fast")
    x, mask = np.array([2.0, 3.0]), np.array([True, False])
    for _ in range(3):
        np.testing.assert_array_equal(np.diag(jac(x, "some", mask)), [1.0, 6.0])
        np.testing.assert_array_equal(np.diag(jac(x, "all", mask)), [12.0, 27.0])
    mask[...] = False
    np.testing.assert_array_equal(np.diag(jac(x, "some", mask)), [4.0, 6.0])
    with pytest.raises(TypeError):
        jac(x, "some")


def test_results_are_fresh_at_every_call():
    jac = acc.value_and_jacobian(quadratic, argnums=1, effort="fast")
    y = np.array([1.0, 2.0])
    first = jac(1.0, y)
    before = [child.copy() for child in first]
    for child in jac(2.0, y):
        child[...] = -1
    for child, copy in zip(first, before, strict=True):
        np.testing.assert_array_equal(child, copy)


@pytest.mark.parametrize("target", targets())
def test_values_of_nonzeros_are_those_of_the_matrices_at_every_call(target):
    jac = acc.value_and_jacobian(
        lambda t, y, kind: t * y[1:] * y[:-1], argnums=1, sparse="csr", effort="fast", target=target
    )
    actual = []
    for t in (1, 2.0, np.float64(3), np.array(4)):
        for kind in ("one", "two"):
            y = np.array([1.0, 2.0, 3.0]) * float(t)
            value, data = jac.nonzeros(t, y, kind)
            expected, matrix = jac(t, y, kind)
            np.testing.assert_array_equal(value, expected)
            np.testing.assert_array_equal(data, matrix.data)
            actual += [(value, value.copy()), (data, data.copy())]
    for result, before in actual:
        np.testing.assert_array_equal(result, before)
    with pytest.raises(ArgumentError, match="argument 1"):
        jac.nonzeros(1.0, {1.0, 2.0, 3.0}, "one")
