"""`and`, `or`, `not`, chained comparisons, conditional expressions and `is True` of traced values.

Further operands are functions, which run only where Python would evaluate them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from accumulus.frontends.numpy.joining import truth_of
from accumulus.frontends.numpy.merging import either
from accumulus.frontends.numpy.scalars import Traced

__all__ = ["all_of", "any_of", "choose", "compare", "is_truth", "negate"]

Later = Callable[[], Any]
_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


def choose(site: Any, condition: Any, one: Later, other: Later) -> Any:
    """``one() if condition else other()``."""
    if condition.__class__ is bool:
        return one() if condition else other()
    truth = truth_of(condition)
    if truth.__class__ is bool:
        return one() if truth else other()
    return either(site, truth, one, other)


def all_of(site: Any, first: Any, *others: Later) -> Any:
    """``first and others[0]() and …``."""
    for place, other in enumerate(others):
        truth = truth_of(first)
        if truth.__class__ is not bool:
            return either(site, truth, lambda: all_of(site, other(), *others[place + 1 :]), _known(first, False))  # noqa: B023
        if not truth:
            return first
        first = other()
    return first


def any_of(site: Any, first: Any, *others: Later) -> Any:
    """``first or others[0]() or …``."""
    for place, other in enumerate(others):
        truth = truth_of(first)
        if truth.__class__ is not bool:
            return either(site, truth, _known(first, True), lambda: any_of(site, other(), *others[place + 1 :]))  # noqa: B023
        if truth:
            return first
        first = other()
    return first


def _known(value: Any, truth: bool) -> Later:
    """A value whose truth is known where this is called."""
    return lambda: truth if getattr(value, "boolean", False) else value


def negate(value: Any) -> Any:
    """``not value``."""
    if value.__class__ is bool:
        return not value
    truth = truth_of(value)
    return not truth if truth.__class__ is bool else ~truth


def compare(site: Any, left: Any, *parts: Any) -> Any:
    """``left < parts[1]() <= parts[3]() …``, by names of nodes of the syntax tree."""
    name, right, *further = parts
    between = right()
    result = _COMPARISONS[name](left, between)
    if not further:
        return result
    return all_of(site, result, lambda: compare(site, between, *further))


def is_truth(value: Any, wanted: bool, positive: bool) -> Any:
    """``value is wanted``, of True or False; ``is not``, if it is not `positive`."""
    if isinstance(value, Traced) and isinstance(value.entries, int) and value.boolean:
        return truth_of(value) if wanted == positive else negate(value)
    return (value is wanted) == positive
