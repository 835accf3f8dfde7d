"""Functions that leave out entries that are not a number: which these are is decided at every point, by selects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from accumulus.frontends.numpy.arrays import as_array
from accumulus.frontends.numpy.table import implements
from accumulus.tape.tape import Tape

__all__: list[str] = []


def _enter_sum(function: Callable[..., Any], of_all: Callable[..., Any], neutral: float) -> None:
    @implements(function)
    def record(tape: Tape, a: Any, *arguments: Any, **keywords: Any) -> Any:
        a = as_array(tape, a)
        return of_all(np.where(np.isnan(a), neutral, a), *arguments, **keywords)


for _function, _of_all, _neutral in (
    (np.nansum, np.sum, 0.0),
    (np.nanprod, np.prod, 1.0),
    (np.nancumsum, np.cumsum, 0.0),
    (np.nancumprod, np.cumprod, 1.0),
):
    _enter_sum(_function, _of_all, _neutral)


def _enter_mean(function: Callable[..., Any], of_all: Callable[..., Any]) -> None:
    @implements(function)
    def record(tape: Tape, a: Any, *arguments: Any, where: Any = True, **keywords: Any) -> Any:
        a = as_array(tape, a)
        there = np.logical_not(np.isnan(a))
        there = there if where is True else there & where
        # what is left out is a number nevertheless, or derivatives through it would not be
        return of_all(np.where(there, a, 0.0), *arguments, where=there, **keywords)


_enter_mean(np.nanmean, np.mean)
_enter_mean(np.nanvar, np.var)
_enter_mean(np.nanstd, np.std)


def _enter_extreme(function: Callable[..., Any], of_all: Callable[..., Any], worst: float) -> None:
    @implements(function)
    def record(
        tape: Tape, a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None
    ) -> Any:
        a = as_array(tape, a)
        missing = np.isnan(a)
        options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
        extreme = of_all(np.where(missing, worst, a), **options, **({} if initial is None else {"initial": initial}))
        return extreme if initial is not None else np.where(np.all(missing, **options), np.nan, extreme)


_enter_extreme(np.nanmax, np.max, -np.inf)
_enter_extreme(np.nanmin, np.min, np.inf)
