"""Objects that people hold: series and tables of pandas, data arrays of xarray, quantities of pint.

A table of kinds of objects, roles and expressions. Where an expression is recorded, its value and Jacobian are those of
the same expression of plain arrays; where it is not, the error names the line and says what to write.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import accumulus as acc
from accumulus.errors import ArgumentError, TraceError
from accumulus.frontends.record import record

pandas = pytest.importorskip("pandas")
xarray = pytest.importorskip("xarray")
pint = pytest.importorskip("pint")

UNITS = pint.UnitRegistry()
VECTOR = np.array([1.5, 2.0, 0.75])
MATRIX = np.array([[1.5, 2.0, 0.75], [3.0, 1.0, 2.5], [0.25, 4.0, 1.75]])
NUMBER = 1.375
#: Kinds of objects with the numbers that are in them.
KINDS = {
    "series": (pandas.Series(VECTOR, list("xyz"), name="s"), VECTOR),
    "integers": (pandas.Series([1, 2, 3]), np.array([1.0, 2.0, 3.0])),
    "masked series": (pandas.Series(VECTOR, dtype="Float64"), VECTOR),
    "table": (pandas.DataFrame(MATRIX, columns=list("xyz")), MATRIX),
    "data array": (xarray.DataArray(VECTOR, dims="t", coords={"t": [1, 2, 3]}), VECTOR),
    "data matrix": (xarray.DataArray(MATRIX, dims=("t", "s")), MATRIX),
    "data set": (xarray.Dataset({"v": ("t", VECTOR)}), VECTOR),
    "index": (pandas.Index(VECTOR), VECTOR),
    "masked array": (pandas.array(VECTOR, dtype="Float64"), VECTOR),
    "quantity": (UNITS.Quantity(VECTOR, "m"), VECTOR),
    "one quantity": (UNITS.Quantity(2.5, "m"), 2.5),
}
LABELLED = ("series", "integers", "masked series", "table", "data array", "data matrix")
HELD = (*LABELLED, "index", "masked array")
#: Traced values that arithmetic combines with objects.
OTHERS = {"number": NUMBER, "vector": np.array([1.25, 0.5, 2.25]), "matrix": MATRIX.T + 0.125}
ARITHMETIC = {
    "o * p": lambda o, p: o * p,
    "p * o": lambda o, p: p * o,
    "o + p": lambda o, p: o + p,
    "p - o": lambda o, p: p - o,
    "o / p": lambda o, p: o / p,
    "p / o": lambda o, p: p / o,
    "o ** p": lambda o, p: o**p,
    "p ** o": lambda o, p: p**o,
    "multiply": np.multiply,
    "maximum": lambda o, p: np.maximum(p, o),
    "o > p": lambda o, p: np.where(o > p, 2.0, 3.0) * p,
    "p < o": lambda o, p: np.where(p < o, 2.0, 3.0) * p,
    "sin": lambda o, p: np.sin(o * p),
    "asarray": lambda o, p: np.asarray(o) * p,
    "dot": lambda o, p: np.dot(p, o),
}
#: Further expressions of labelled arrays; those of plain arrays are the same.
EXPRESSIONS = {
    "np.sum": lambda o, p: np.sum(o * p, axis=0),
    "sum": lambda o, p: (o * p).sum(axis=0),
    "mean": lambda o, p: (p * o).mean(axis=0),
    "extremes": lambda o, p: (o * p).max(axis=0) - (o * p).min(axis=0),
    "cumsum": lambda o, p: (o * p).cumsum(axis=0),
    "rest": lambda o, p: ((p - o) ** 2).sum(axis=0) + np.sqrt(abs(-(o * p))).prod(axis=0),
    "rows": lambda o, p: (o * p)[:2],
    "comparison": lambda o, p: (o * p > 1.2) * p,
    "constant rows": lambda o, p: (o * p)[np.array([True, False, True])] if np.ndim(o) == 1 else o * p,
    "decision": lambda o, p: o * p if np.sum(p) > 0.0 else o,
    "clip": lambda o, p: (o * p).clip(0.9, 2.0),
}


def numbers(result):
    return np.asarray(result, float)


def check(f, same, *arguments, **options):
    """Compare value and Jacobian of a function of objects with those of the same of arrays."""
    value, jacobian = acc.value_and_jacobian(f, effort="fast", **options)(*arguments)
    expected, reference = acc.value_and_jacobian(same, effort="fast")(
        *[numbers(x) if np.ndim(x) else x for x in arguments]
    )
    np.testing.assert_allclose(value, expected, rtol=1e-13)
    np.testing.assert_allclose(jacobian, reference, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(value, numbers(f(*arguments)), rtol=1e-13)


def roles(thing, expression):
    """The function that reads an object from a closure, a global variable, an attribute."""
    holder = SimpleNamespace(thing=thing)
    scope = {"thing": thing, "expression": expression}
    return {
        "closure": lambda p: expression(thing, p),
        "attribute": lambda p: expression(holder.thing, p),
        "global": eval("lambda p: expression(thing, p)", scope),
    }


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("kind", HELD)
def test_arithmetic_with_captured_values(kind, name):
    thing, array = KINDS[kind]
    expression = ARITHMETIC[name]
    for p in OTHERS.values():
        if np.ndim(p) > max(1, np.ndim(array)):
            continue
        check(roles(thing, expression)["closure"], roles(array, expression)["closure"], p)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("kind", LABELLED)
def test_expressions_of_labelled_arrays(kind, name):
    thing, array = KINDS[kind]
    expression = EXPRESSIONS[name]
    if kind.startswith("data") and name == "clip":
        pytest.skip("np.clip of data arrays takes no bounds by position")
    for f in roles(thing, expression).values():
        check(f, lambda p: expression(array, p), NUMBER)
    if np.ndim(array) == 1:
        check(roles(thing, expression)["closure"], lambda p: expression(array, p), OTHERS["vector"])


@pytest.mark.sampled(3, each="kind name")
@pytest.mark.parametrize("name", ["o * p", "p - o", "o ** p", "sin", "sum", "mean", "rest", "cumsum"])
@pytest.mark.parametrize("kind", LABELLED)
def test_arguments(kind, name):
    thing, array = KINDS[kind]
    expression = (ARITHMETIC | EXPRESSIONS)[name]
    check(lambda o: expression(o, NUMBER), lambda a: expression(a, NUMBER), thing)
    by_both = acc.jacobian(lambda p, o: expression(o, p), argnums=(0, 1), effort="fast")(NUMBER, thing)
    expected = acc.jacobian(lambda p, a: expression(a, p), argnums=(0, 1), effort="fast")(NUMBER, array)
    for one, other in zip(by_both, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    by_other = acc.jacobian(lambda p, d: expression(d["o"], p), effort="fast")(NUMBER, {"o": thing})
    np.testing.assert_allclose(by_other, expected[0], rtol=1e-12)


# What pandas does with labels ----------------------------------------------------------------------------------------

SERIES = KINDS["series"][0]
TABLE = pandas.DataFrame({"x": VECTOR, "y": VECTOR[::-1], "group": ["a", "b", "a"]})
BY_PANDAS = {
    "column": lambda p: TABLE["x"] * p,
    "attribute": lambda p: TABLE.x * p + TABLE.y,
    "iloc": lambda p: (TABLE.x * p).iloc[1] * TABLE.x.iloc[0],
    "loc": lambda p: (SERIES * p).loc["y"],
    "values": lambda p: SERIES.values * p,
    "to_numpy": lambda p: (SERIES * p).to_numpy() @ SERIES.to_numpy(),
    "mask": lambda p: (SERIES * p)[SERIES > 1.0],
    "traced mask": lambda p: (SERIES * p)[SERIES * p > 1.0],
    "alignment": lambda p: ((SERIES * p).iloc[:2] + SERIES.iloc[::-1]).dropna(),
    "reindex": lambda p: (SERIES * p).reindex(list("zyx")),
    "shift": lambda p: (SERIES * p).shift(1).iloc[1:] / (SERIES * p).iloc[:2].to_numpy(),
    "diff": lambda p: (SERIES * p * p).diff().fillna(1.0),
    "sort": lambda p: (SERIES * p).sort_values(),
    "groupby": lambda p: (TABLE.x * p * p).groupby(TABLE.group).sum(),
    "groups": lambda p: (TABLE.x * p).groupby(TABLE.group).agg("mean"),
    "std": lambda p: (SERIES * p).std() + (SERIES * p).var() + (SERIES * p).median(),
    "np.std": lambda p: np.std(SERIES * p),
    "axes": lambda p: (TABLE[["x", "y"]] * p).sum(axis=1) * (TABLE[["x", "y"]] * p).mean().sum(),
    "assign": lambda p: TABLE.assign(k=TABLE.x * p).eval("k * y"),
    "traced array as a series": lambda p: pandas.Series(p * VECTOR, list("xyz")) * SERIES.iloc[::-1],
    "traced array as a column": lambda p: TABLE.assign(k=p * VECTOR)["k"] * TABLE.y,
    "flexible": lambda p: SERIES.mul(p * VECTOR).add(1.0),
    "apply": lambda p: SERIES.apply(lambda v: v * p),
    "functions of both": lambda p: np.where(SERIES > p, SERIES * p, p) + np.concatenate([SERIES * p, [p]])[1:],
    "norm": lambda p: np.linalg.norm(SERIES * p - VECTOR),
    "in place": lambda p: increased(p * VECTOR, SERIES),
    "stored": lambda p: stored(p, SERIES * p),
    "round": lambda p: (SERIES * p).round(2) + SERIES * p,
    "truth values": lambda p: ((SERIES * p > 1.0) & ~(SERIES * p > 2.5)) * p,
}


def increased(x, other):
    x += other
    return x


def stored(p, values):
    made = np.zeros(3)
    made[:] = values
    return made * p


@pytest.mark.parametrize("name", BY_PANDAS)
def test_labels_are_those_of_pandas(name):
    f = BY_PANDAS[name]
    value, jacobian = acc.value_and_jacobian(f, effort="fast")(NUMBER)
    h = 1e-5
    expected = (numbers(f(NUMBER + h)) - numbers(f(NUMBER - h))) / (2.0 * h)
    np.testing.assert_allclose(value, numbers(f(NUMBER)), rtol=1e-13)
    np.testing.assert_allclose(jacobian, expected, rtol=1e-6, atol=1e-8)


def test_missing_values_are_left_out_as_in_pandas():
    holes = pandas.Series([1.5, np.nan, 0.5])
    value, slope = acc.value_and_jacobian(lambda p: (holes * p + 1.0).sum() + (p / holes).mean(), effort="fast")(2.0)
    assert (value, slope) == (pytest.approx(6.0 + 8.0 / 3.0), pytest.approx(2.0 + 4.0 / 3.0))
    np.testing.assert_array_equal(acc.jacobian(lambda p: (holes * p).cumsum(), effort="fast")(2.0)[[0, 2]], [1.5, 2.0])
    result = acc.value_and_jacobian(lambda p: (holes * p).fillna(0.0) + 1.0, effort="fast")(2.0)
    np.testing.assert_array_equal(result, [[4.0, 1.0, 2.0], [1.5, 0.0, 0.5]])


def test_long_series_are_operations_on_whole_arrays():
    long = pandas.Series(np.linspace(0.0, 1.0, 50_000))
    f = lambda p, s: (np.sin(long * p) * s + long).sum() + (s * s).mean()  # noqa: E731
    recording = record(f, [NUMBER, long.to_numpy()], arrays=True)
    assert not recording.program.is_straight
    assert len(recording.program.blocks) < 10


# Units ----------------------------------------------------------------------------------------------------------------

LENGTHS, LENGTH = KINDS["quantity"][0], KINDS["one quantity"][0]
WITH_UNITS = {
    "o * p": (lambda p: (LENGTHS * p).to("cm").magnitude, lambda p: 100.0 * VECTOR * p),
    "p * o": (lambda p: (p * LENGTHS).to("cm").magnitude, lambda p: 100.0 * VECTOR * p),
    "units that differ": (
        lambda p: (p * LENGTHS + p * UNITS.Quantity(1.0, "cm")).to("m").magnitude,
        lambda p: VECTOR * p + 0.01 * p,
    ),
    "one": (lambda p: (p * LENGTH / UNITS.second).to("km/hour").magnitude, lambda p: 9.0 * p),
    "unit": (lambda p: (p * UNITS.meter).to("cm").m, lambda p: 100.0 * p),
    "ratio": (lambda p: np.exp(p * LENGTHS / LENGTH).m_as(""), lambda p: np.exp(p * VECTOR / 2.5)),
    "sum": (lambda p: np.sum(p * LENGTHS).magnitude, lambda p: np.sum(p * VECTOR)),
    "dot": (lambda p: np.dot(p * VECTOR, LENGTHS).magnitude, lambda p: np.dot(p * VECTOR, VECTOR)),
    "matmul": (lambda p: ((p * VECTOR) @ LENGTHS).magnitude, lambda p: (p * VECTOR) @ VECTOR),
    "compare": (lambda p: np.where(p * LENGTHS > LENGTH, p, 1.0), lambda p: np.where(p * VECTOR > 2.5, p, 1.0)),
    "degrees": (lambda p: np.sin(UNITS.Quantity(p, "degree")).m, lambda p: np.sin(np.pi / 180.0 * p)),
    "power": (lambda p: (LENGTHS**2 * p).to("cm**2").m, lambda p: 1e4 * VECTOR**2 * p),
}


@pytest.mark.parametrize("name", WITH_UNITS)
def test_units_are_preserved(name):
    f, same = WITH_UNITS[name]
    for checked in (True, False):  # nothing depends on the comparison with the function
        check(f, same, NUMBER, check=checked)


@pytest.mark.parametrize(
    "f",
    [
        lambda p: p * LENGTHS,
        lambda p: {"length": LENGTH * p},
        lambda p: stored(p, LENGTHS),
        lambda p: stored(p, LENGTHS * p),
        lambda p: np.asarray(LENGTHS * p),
        lambda p: np.zeros(3) + np.array([p * LENGTH, p * LENGTH, p * LENGTH]),
    ],
)
def test_units_are_not_lost(f):
    with pytest.raises(TraceError, match=re.escape('.to("meter").magnitude')) as caught:
        acc.jacobian(f, check=False)(NUMBER)
    assert "test_held_objects.py, line" in str(caught.value)


def test_errors_of_pint_pass_through():
    with pytest.raises(pint.DimensionalityError):
        acc.jacobian(lambda p: p * LENGTHS + p)(NUMBER)


# What is refused ------------------------------------------------------------------------------------------------------

DATES = pandas.Series(pandas.date_range("2020-01-01", periods=3))
REFUSED = {
    "rolling": (lambda p: (SERIES * p).rolling(2).mean(), r"series\.to_numpy\(\)"),
    "product": (lambda p: SERIES @ (p * VECTOR), r"series\.to_numpy\(\) @ x"),
    "dot": (lambda p: SERIES.dot(p * VECTOR), r"series\.to_numpy\(\) @ x"),
    "groupby": (lambda p: (SERIES * p).groupby([0, 0, 1]).sem(), r"series\.to_numpy\(\)"),
    "skew": (lambda p: (SERIES * p).skew(), r"series\.to_numpy\(\)"),
    "dates": (lambda p: DATES * p, r"\.astype\(float\)"),
    "categories": (lambda p: pandas.Series(pandas.Categorical(VECTOR)) * p, r"\.astype\(float\)"),
    "text": (lambda p: TABLE * p, "cannot be combined|.astype"),
    "missing": (lambda p: pandas.Series([1.0, None], dtype="Float64") * p, r"\.astype\(float\)"),
    "matrix": (lambda p: SERIES * (p * MATRIX), r"\.to_numpy\(\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_calls_name_the_line_and_the_alternative(name):
    f, advice = REFUSED[name]
    with pytest.raises(TraceError, match=advice) as caught:
        acc.jacobian(f)(NUMBER)
    assert "test_held_objects.py, line" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("quantity", r'\.to\("meter"\)\.magnitude'),
        ("one quantity", r'\.to\("meter"\)\.magnitude'),
        ("data set", r"dict\(dataset\.data_vars\)"),
        ("index", r"\.to_numpy\(float\)"),
        ("masked array", r"\.to_numpy\(float\)"),
    ],
)
def test_arguments_that_are_refused_are_named(kind, advice):
    thing, _ = KINDS[kind]
    with pytest.raises(ArgumentError, match=rf"argument 1 \(thing\).*{advice}"):
        acc.jacobian(lambda x, thing: x * 2.0)(1.0, thing)
    with pytest.raises(ArgumentError, match=rf"argument 0 \(held\)\['k'\].*{advice}"):
        acc.jacobian(lambda held: held["k"])({"k": thing})


def test_dates_are_not_arguments_but_arrays_of_a_data_set_are():
    with pytest.raises(ArgumentError, match="Series of datetime64"):
        acc.jacobian(lambda x, dates: x)(1.0, DATES)
    arrays = dict(xarray.Dataset({"v": ("t", VECTOR), "w": ("t", VECTOR + 1.0)}).data_vars)
    result = acc.gradient(lambda d: (d["v"] * d["w"]).sum(), effort="fast")(arrays)
    np.testing.assert_array_equal(result["v"], VECTOR + 1.0)
    dates = acc.jacobian(lambda p: (SERIES.set_axis(DATES) * p).loc["2020-01-02":], effort="fast")(NUMBER)
    np.testing.assert_array_equal(dates, VECTOR[1:])


# Changes --------------------------------------------------------------------------------------------------------------


def set_row(thing):
    thing.iloc[0] = 7.0


def set_entry(thing):
    thing.values[0] = 7.0


def set_variable(thing):
    thing["v"] = ("t", 2.0 * thing["v"].values)


CHANGES = {
    "series": (lambda n: pandas.Series(np.ones(n)), set_row, lambda o, p: (o * p).sum()),
    "index": (
        lambda n: pandas.Series(np.arange(n), np.arange(n)),
        lambda s: setattr(s, "index", s.index[::-1]),
        lambda o, p: o.loc[0] * p + p,
    ),
    "table": (lambda n: pandas.DataFrame({"x": np.ones(n), "y": np.ones(n)}), set_row, lambda o, p: (o.x * p).sum()),
    "data array": (lambda n: xarray.DataArray(np.ones(n), dims="t"), set_entry, lambda o, p: (o * p).sum()),
    "new values": (
        lambda n: xarray.DataArray(np.ones(n), dims="t"),
        lambda o: setattr(o, "values", 2.0 * o.values),
        lambda o, p: (o * p).sum(),
    ),
    "data set": (lambda n: xarray.Dataset({"v": ("t", np.ones(n))}), set_variable, lambda o, p: (o.v * p).sum()),
    "magnitude": (
        lambda n: UNITS.Quantity(np.ones(n), "m"),
        lambda q: q.magnitude.__setitem__(0, 7.0),
        lambda o, p: (o * p).sum().magnitude,
    ),
    "unit": (lambda n: UNITS.Quantity(2.0 * n, "m"), lambda q: q.ito("cm"), lambda o, p: (o * p).magnitude),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("length", [3, 3000])
@pytest.mark.parametrize("name", CHANGES)
def test_changes_in_place_are_detected_or_reported(name, length):
    make, change, expression = CHANGES[name]
    thing = make(length)
    jac = acc.jacobian(lambda p: expression(thing, p), effort="fast")
    before = jac(NUMBER)
    assert length == 3 or name == "unit" or any("thing" in text for text in jac.report().unwatched)
    if any("thing" in text and "not seen" in text for text in jac.report().unwatched):
        return
    change(thing)
    assert jac(NUMBER) == pytest.approx(acc.jacobian(lambda p: expression(thing, p), effort="fast")(NUMBER), rel=1e-12)
    assert jac(NUMBER) != before


def test_objects_that_claim_another_class_are_no_tables():
    class Told:
        def __getattribute__(self, name):
            return 2.0

    instance = Told()
    assert acc.jacobian(lambda p: instance.rate * p, effort="fast")(NUMBER) == 2.0
