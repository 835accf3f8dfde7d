"""Every function of the tables at every order up to 4, in every kind of derivative and every target.

A fixed tenth of it here, all of it in `make fuzz`.
"""

from __future__ import annotations

import numpy as np
import pytest
from derivative_cases import Case, all_cases, computed, mp, references_of
from derivative_checks import TARGETS, check, is_in_tests

from accumulus.frontends.scipy.distributions import DISTRIBUTIONS

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
    assert names == cased
