"""Data classes, and functions of them, that the tests of structures share."""

from __future__ import annotations

import enum
import functools
from collections import namedtuple
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import accumulus as acc

jacobian = functools.partial(acc.jacobian, effort="fast")
X = np.array([0.5, 1.25, -2.0])
Pair = namedtuple("Pair", "first second")


class Kind(enum.Enum):
    LINEAR = 1
    SQUARE = 2


@dataclass
class Spring:
    stiffness: Any
    rest: Any = 1.0
    kind: Kind = Kind.LINEAR
    name: str = "spring"

    def force(self, x):
        stretch = x - self.rest
        return self.stiffness * (stretch if self.kind is Kind.LINEAR else stretch**2)


@dataclass(frozen=True, slots=True)
class Frozen:
    gain: Any
    order: int = field(default=2, metadata={"static": True})


@dataclass
class System:
    springs: list[Spring]
    masses: dict[str, float]
    note: None = None


def system_force(system, x):
    forces = [spring.force(x) / mass for spring, mass in zip(system.springs, system.masses.values(), strict=True)]
    return {"forces": forces, "total": (sum(forces), np.sum(x))}


SYSTEM = System([Spring(2.0, 0.25), Spring(X, name="second")], {"a": 1.5, "b": 2.0})


def leaves_of(tree):
    """Leaves of a tree of lists, tuples, dicts and data classes, by plain Python."""
    if isinstance(tree, dict):
        tree = list(tree.values())
    elif hasattr(tree, "__dataclass_fields__"):
        tree = [getattr(tree, name) for name in tree.__dataclass_fields__]
    if isinstance(tree, list | tuple):
        return [leaf for child in tree for leaf in leaves_of(child)]
    return [tree] if isinstance(tree, np.ndarray | np.generic | float) else []


def flight(x, rates, *, drag=0.1, **more):
    return x * rates["k1"] - drag * x**2 * sum(more.values(), 1.0)
