"""Scalar functions as functions of JAX and expressions of SymPy, against the references of the table of functions."""

from __future__ import annotations

import pytest

jax = pytest.importorskip("jax")
pytest.importorskip("sympy")

from derivative_checks import check, is_in_tests  # noqa: E402
from other_frontends import jax_cases, sympy_cases  # noqa: E402


@pytest.fixture(autouse=True)
def double_precision():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.parametrize(
    "case", [case for case in jax_cases() if is_in_tests(case, "llvm")], ids=lambda case: case.name
)
def test_functions_of_jax(case):
    result = check("scalar_functions", case, "numpy", ("taylor",))
    assert not result.wrong, "\n".join(map(str, result.wrong[:20]))


@pytest.mark.parametrize(
    "case", [case for case in sympy_cases() if is_in_tests(case, "llvm")], ids=lambda case: case.name
)
def test_expressions_of_sympy(case):
    result = check("scalar_functions", case, "numpy", ("hessian",))
    assert not result.wrong, "\n".join(map(str, result.wrong[:20]))
