"""Every function of the tables at every order up to 4, in every kind of derivative and every target.

A fixed tenth of it here, all of it in `make fuzz`.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import scalar_functions
from derivative_cases import Case, all_cases, computed, mp, references_of
from derivative_checks import TARGETS, check, is_in_tests
from inside import OPERATIONS
from structured_cases import all_structured

import accumulus as acc
from accumulus.errors import TraceError
from accumulus.frontends.numpy import elementwise, mathematics
from accumulus.frontends.numpy.table import BORROWED
from accumulus.frontends.scipy.special import DISTRIBUTIONS

CASES = [(table, case) for table, cases in all_cases().items() for case in cases]
TENTH = [(table, case, target) for table, case in CASES for target in TARGETS if is_in_tests(case, target)]


def test_names_are_unique():
    names = [case.name for _, case in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("table", "case"), CASES, ids=lambda given: getattr(given, "name", ""))
def test_references_are_of_the_points(table, case):
    references = references_of(table, case)
    assert np.isfinite(references.scales).all()
    assert not np.isnan(references.derivatives).any()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("table", "case", "target"), TENTH, ids=lambda given: getattr(given, "name", given))
def test_all_derivatives(table, case, target):
    result = check(table, case, target)
    assert not result.wrong, "\n".join(map(str, result.wrong[:20]))


def test_references_of_a_known_function():
    case = Case("sine", np.sin, mp.sin, (0.0, 1.0, 1e-300))
    rows = computed(case)
    expected = [[np.sin(x), np.cos(x), -np.sin(x), -np.cos(x), np.sin(x)] for x in (0.0, 1.0, 1e-300)]
    np.testing.assert_allclose(rows[:, 1:6], expected, rtol=3e-16, atol=0)
    one = expected[1]
    scales = np.abs(one) + np.abs([*one[1:], np.cos(1.0)])  # each is moved by the next
    np.testing.assert_allclose(rows[1, 6:], scales, rtol=1e-2)
    np.testing.assert_allclose(rows[0, 6:], [2.0**-1022, 1.0, 2.0**-1022, 1.0, 2.0**-1022])


def test_every_method_of_distributions_has_a_case():
    cased = {case.table_name.removeprefix("stats.") for table, case in CASES if table == "distribution_functions"}
    names = {f"{name}.{method}" for name, methods in DISTRIBUTIONS.items() for method in (*methods, "pdf")}
    names |= {f"multivariate_normal.{method}" for method in ("pdf", "logpdf")}
    # those by functions of SciPy: tests/frontends/scipy_functions/test_distributions.py
    assert names - cased == {
        *(f"{name}.{method}" for name in ("gamma", "beta", "t") for method in ("cdf", "sf", "ppf", "isf")),
        *(f"chi2.{method}" for method in ("pdf", "logpdf", "cdf", "sf", "ppf", "isf")),
        *(f"f.{method}" for method in ("pdf", "logpdf", "cdf", "sf", "ppf")),
    }


def test_no_function_of_the_tables_is_left_out():
    names = {case.table_name for _, case in CASES} | scalar_functions.WITHOUT_CASE.keys()
    wanted = {f"np.{name}" for name in elementwise.ELEMENTWISE}
    wanted |= {f"special.{name}" for name in (*elementwise.SPECIAL, *elementwise.OF_ORDER)}
    wanted |= {f"special.{name}" for name in BORROWED["scipy.special"]}
    wanted |= {f"math.{name}" for name in mathematics.MATH} | {f"math.{name}" for name in BORROWED["math"]}
    assert not wanted - names


def test_no_operation_is_left_out():
    recorded = {"select"}  # by np.where, which is a function of arrays
    for case in scalar_functions.CASES:
        point = next(iter(case.regular))
        tape = acc.trace(lambda x, case=case: case.function(*(x[k] for k in range(case.arity))), np.array(point)).tape
        recorded |= {tape.operation(k).name for k in range(tape.inputs, len(tape))}
    assert not {row.name for row in OPERATIONS} - recorded - scalar_functions.WITHOUT_CASE.keys()


@pytest.mark.parametrize(("function", "message"), [each[1:] for each in scalar_functions.REFUSED])
def test_orders_beyond_the_highest_are_refused(function, message):
    with pytest.raises(TraceError, match=re.escape(message)):
        acc.jacobian(function, cache=False, check=False)(1.5)


@pytest.mark.parametrize("order", [19, 20])
@pytest.mark.parametrize("derivative", [acc.hessian, acc.hvp, acc.taylor])
def test_orders_are_refused_by_every_kind_of_derivative(derivative, order):
    third = scalar_functions.differentiated(lambda x: scalar_functions.special.iv(order, x), 3)
    arguments = {
        acc.hessian: (2.0,),
        acc.hvp: ((2.0,), (1.0,)),
        acc.taylor: ((2.0,), (np.array([1.0, 0.0]),)),
    }[derivative]
    compiled = derivative(third, cache=False, check=False, effort="fast")
    if order == 20:
        with pytest.raises(TraceError, match="highest order is 24"):
            compiled(*arguments)
    else:
        compiled(*arguments)


#: Sections of docs/numerics.md that list the exceptions of tables.
SECTIONS = {
    "scalar_functions": "Every function at every order",
    "distribution_functions": "Functions of arrays at every order",
}


def _size(allowance):
    if np.isinf(allowance.units):
        return "not compared"
    sizes = ((allowance.units, "units"), (allowance.absolute, "units of 1"))
    return " and ".join(f"{units:g} {what}" for units, what in sizes if units)


def test_every_table_has_a_section():
    assert SECTIONS.keys() == all_cases().keys()


@pytest.mark.parametrize("section", sorted(set(SECTIONS.values())))
def test_documented_exceptions_are_those_of_the_table(section):
    text = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text(encoding="utf-8")
    rows = {
        (case.table_name, each.where, _size(each))
        for table, case in CASES
        for each in case.allowances
        if SECTIONS[table] == section
    }
    if section == SECTIONS["distribution_functions"]:  # those of arrays say positions and orders; sizes are compared
        arrays = [(case.table_name, each[2]) for case in all_structured() for each in case.allowances]
        rows |= {(name, "", f"{units:g} units") for name, units in arrays}
    table = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    listed = [[c.strip() for c in line.split("|")[1:4]] for line in table.splitlines() if line[:3] == "| `"]
    places = {name: where for name, where, _ in rows}
    found = set()
    for names, where, size in listed:
        for name in (each.strip().strip("`") for each in names.split(",")):
            of_arrays = places.get(name.rpartition(".")[2]) == ""
            found.add((name.rpartition(".")[2], "", size) if of_arrays else (name, where, size))
    assert found == rows
