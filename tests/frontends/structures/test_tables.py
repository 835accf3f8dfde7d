"""Tables and series of pandas as arguments and results."""

from __future__ import annotations

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError, TraceError

pandas = pytest.importorskip("pandas")

FRAME = pandas.DataFrame(
    {"price": [1.5, 2.0, 0.5], "count": [3, 1, 2], "label": ["a", "b", "a"]}, index=["x", "y", "z"]
)
SERIES = FRAME["price"]


def revenue(frame):
    return (frame["price"] * frame["count"]).sum()


FUNCTIONS = {
    "column": (lambda f: f["price"] ** 2, lambda a: a[:, 0] ** 2),
    "attribute": (lambda f: f.price * f["count"], lambda a: a[:, 0] * a[:, 1]),
    "rows": (lambda f: f.loc["y", "price"] * f.iloc[0]["count"], lambda a: a[1, 0] * a[0, 1]),
    "values": (lambda f: f[["price", "count"]].to_numpy() @ np.ones(2), lambda a: a @ np.ones(2)),
    "filtered by a constant column": (lambda f: f[f.label == "a"]["price"].sum(), lambda a: a[0, 0] + a[2, 0]),
    "functions": (lambda f: np.exp(f["price"]) * np.sin(f["count"]), lambda a: np.exp(a[:, 0]) * np.sin(a[:, 1])),
    "new column": (
        lambda f: f.assign(total=f["price"] * f["count"])["total"].cumsum(),
        lambda a: np.cumsum(a[:, 0] * a[:, 1]),
    ),
    "frame": (lambda f: f[["count", "price"]] * 2.0, lambda a: a[:, ::-1] * 2.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tables_are_arrays_of_their_columns_of_numbers(name):
    f, same = FUNCTIONS[name]
    numbers = FRAME[["price", "count"]].to_numpy(float)
    value, jacobian = acc.value_and_jacobian(f, effort="fast")(FRAME)
    reference, expected = acc.value_and_jacobian(same, effort="fast")(numbers)
    np.testing.assert_allclose(value, np.asarray(f(FRAME), float), rtol=1e-14)
    np.testing.assert_allclose(value, reference, rtol=1e-14)
    np.testing.assert_allclose(jacobian, expected, rtol=1e-13)
    assert jacobian.shape == (*np.shape(reference), 3, 2)


def test_series_in_containers_and_with_other_names():
    jac = acc.jacobian(lambda p, x: (p["s"] * 2.0)["y"] * x + p["s"]["z"], argnums=(0, 1), effort="fast")
    for _ in range(2):
        by_p, by_x = jac({"s": SERIES}, 3.0)
        np.testing.assert_array_equal(by_p["s"], [0.0, 6.0, 1.0])
        assert by_x == 4.0
    other = SERIES.rename(index={"x": "y", "y": "x"})
    np.testing.assert_array_equal(jac({"s": other}, 3.0)[0]["s"], [6.0, 0.0, 1.0])
    changed = SERIES.copy()
    changed["y"] = 7.0
    assert jac({"s": changed}, 3.0)[1] == 14.0


def test_rows_are_points_of_a_batch():
    frame = FRAME[["price", "count"]]
    many = acc.gradient(lambda row: row["price"] * row["count"] ** 2, effort="fast").batch(frame)
    count, price = frame["count"].to_numpy(), frame["price"].to_numpy()
    np.testing.assert_allclose(many, np.stack([count**2.0, 2.0 * price * count], axis=1))
    with pytest.raises(ArgumentError, match="columns that are not numeric"):
        acc.gradient(lambda row: row["price"], effort="fast").batch(FRAME)


def test_constant_columns_are_constants_and_checked():
    jac = acc.gradient(lambda f: f[f.label == "a"]["price"].sum(), effort="fast")
    np.testing.assert_array_equal(jac(FRAME)[:, 0], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(jac(FRAME.assign(label=["b", "a", "b"]))[:, 0], [0.0, 1.0, 0.0])
    assert acc.check(revenue, FRAME, points=4, effort="fast").passed


def test_pandas_compiled_code_raises_with_the_line():
    with pytest.raises(TraceError, match=r"f\.price\.rolling\(2\)"):
        acc.jacobian(lambda f: f.price.rolling(2).sum())(FRAME)
