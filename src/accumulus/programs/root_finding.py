"""Integrals and roots by SciPy in compiled programs, with derivatives of any order.

The values are those of SciPy's function for the compiled equations. The derivative of a root follows from the implicit
function theorem, -(∂r/∂y)⁻¹·∂r/∂p at the root, without differentiating the steps that found it. The derivative of an
integral is the integral of the integrand's derivative, with Leibniz's rule at the ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accumulus.errors import ConvergenceError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.numpy.linalg.systems import solve_as_equation
from accumulus.frontends.record import record
from accumulus.programs.equations import Call, Equations, Floats, compiled_derivative
from accumulus.programs.kinds import COMPILED, GRADIENT, JACOBIAN


class Integral(Call):
    """Integrals of the entries of f(s, p) from a to b and SciPy's error estimates, as a function of (a, b, p), flat.

    Args:
        integrand: f, a function of a number.
        options: options of `scipy.integrate.quad`.
    """

    def __init__(self, integrand: Equations, options: tuple[tuple[str, Any], ...]) -> None:
        super().__init__()
        self._integrand, self._options = integrand, options
        self.name = f"the integral of {integrand.name}"
        self.argument_count = 2 + integrand.parameters
        self.result_count = 2 * integrand.results
        self._further: dict[tuple[int, ...], Integral] = {}

    def computed(self, x: Floats) -> Floats:
        """Integrate each entry separately, since entries differ in singularities and errors."""
        from scipy.integrate import quad

        program, p = self._integrand.program(COMPILED), x[2:]
        if np.isnan(x).any():
            return np.full(self.result_count, np.nan)
        cached: dict[float, Any] = {}

        def values(s: float) -> Any:
            if s not in cached:
                cached[s] = program(s, p)
            return cached[s]

        integrals = [
            quad(lambda s, j=j: values(s)[j], x[0], x[1], **dict(self._options))[:2]
            for j in range(self._integrand.results)
        ]
        return np.array(integrals).T

    def jacobian(self, columns: tuple[int, ...], x: Any) -> Any:
        """Differentiate under the integral sign; the derivatives of error estimates are zero."""
        parts, count, chosen = [], self._integrand.results, tuple(k - 2 for k in columns if k >= 2)
        if chosen:
            if chosen not in self._further:
                self._further[chosen] = Integral(self._integrand.by_parameters(chosen), self._options)
            rows = self._further[chosen].recorded(x)[: len(chosen) * count].reshape(len(chosen), count)
        for k in columns:
            end = None if k >= 2 else self._integrand(x[k], x[2:])
            parts.append(rows[chosen.index(k - 2)] if end is None else end if k else -end)
        return np.concatenate([np.stack(parts, axis=-1).reshape(-1), np.zeros(count * len(columns))])


class Root(Call):
    """Unknowns y with r(y, p) = 0, as a function of the solver's start and p, flat.

    Args:
        find: solver: function of a start and the parameters that returns the unknowns, or raises an error.
        conditions: residual r, which is zero at the root.
        unknowns, starts: numbers of entries of y, and of the solver's start.
        accuracy: tolerance of the solver.
    """

    def __init__(
        self,
        find: Callable[[Floats, Floats], Any],
        conditions: Equations,
        unknowns: int,
        starts: int,
        accuracy: float = 0.0,
    ) -> None:
        super().__init__()
        self.accuracy = accuracy
        self._find, self._conditions, self._starts = find, conditions, starts
        self.name = f"the root of {conditions.name}"
        self.argument_count = starts + conditions.parameters
        self.result_count = unknowns

    def computed(self, x: Floats) -> Floats:
        """Return the root that the solver finds."""
        if np.isnan(x).any():
            return np.full(self.result_count, np.nan)
        unknowns = np.asarray(self._find(x[: self._starts], x[self._starts :]), float).reshape(-1)
        if not np.isfinite(unknowns).all():
            raise ConvergenceError(f"{self.name} was not found: the solver returned the unknowns {unknowns!r:.200}")
        return unknowns

    def jacobian(self, columns: tuple[int, ...], x: Any) -> Any:
        """Apply the implicit function theorem; derivatives with respect to the start are zero."""
        n, starts = self.result_count, self._starts
        chosen = [k - starts for k in columns if k >= starts]
        sensitivities: Any = np.zeros((n, 0))
        if chosen:
            slopes = compiled_derivative(self._conditions, JACOBIAN, self.name, (0, 1))
            unknowns = self.recorded(x)
            by_unknowns, by_parameters = slopes(unknowns, x[starts:])
            sensitivities = -solve_as_equation(ACTIVE.tape, by_unknowns, by_parameters[:, chosen])
            # of linear conditions they do not depend on the root, but without a root there are none
            sensitivities = np.where(np.isnan(unknowns)[:, np.newaxis], np.nan, sensitivities)
        every = np.concatenate([np.zeros((n, len(columns) - len(chosen))), sensitivities], axis=1)
        order = np.argsort(np.argsort([k >= starts for k in columns], kind="stable"), kind="stable")
        return every[:, order].reshape(-1)


def stationary(residuals: Equations, unknowns: int) -> Equations:
    """Return the gradient of half the sum of squares of residuals r(y, p) with respect to y, as equations."""

    def half(y: Any, p: Any) -> Any:
        values = residuals(y, p)
        return 0.5 * (values @ values)

    gradient = compiled_derivative(half, GRADIENT, residuals.name, 0)
    recording = record(gradient, [np.zeros(unknowns), np.zeros(residuals.parameters)])
    return Equations(recording.tape, (unknowns,), residuals.name)


def slope(function: Equations) -> Equations:
    """Return the derivative of a function of a number with respect to it, as equations."""
    derivative = compiled_derivative(function, JACOBIAN, function.name, 0)
    recording = record(lambda *arguments: derivative(*arguments).reshape(-1), function.examples)
    return Equations(recording.tape, function.sizes, function.name)
