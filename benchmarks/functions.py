"""The functions that are measured: every file of `examples/`, as it stands.

An example file `name.py` has a function `name(x)` of one array, an `example_point()`, and a `sample(points, seed)` of
shape (points, inputs). Peers that cannot trace NumPy run the very same source with another module under the name `np`:
`Example.running_on(namespace)` loads the file once more and puts that module in place.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).resolve().parent.parent / "examples"


@dataclass(frozen=True)
class Example:
    """One function with its points."""

    name: str

    @cached_property
    def _module(self) -> ModuleType:
        return _load(self.name)

    @property
    def function(self) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
        """The NumPy function, (inputs,) → (outputs,)."""
        return getattr(self._module, self.name)  # type: ignore[no-any-return]

    @cached_property
    def point(self) -> NDArray[np.float64]:
        """A sensible point, (inputs,)."""
        return self._module.example_point()  # type: ignore[no-any-return]

    def sample(self, points: int, seed: int = 0) -> NDArray[np.float64]:
        """Random sensible points in C order, (points, inputs)."""
        return np.ascontiguousarray(self._module.sample(points, seed))

    @property
    def inputs(self) -> int:
        """Number of variables."""
        return self.point.size

    @cached_property
    def outputs(self) -> int:
        """Number of results."""
        return int(self.function(self.point).size)

    def running_on(self, namespace: Any) -> Callable[[Any], Any]:
        """The same source with `namespace` in place of the module `numpy`."""
        module = _load(self.name)
        module.np = namespace  # type: ignore[attr-defined]
        return getattr(module, self.name)  # type: ignore[no-any-return]


def all_examples() -> list[Example]:
    """Every example, by name."""
    return [Example(path.stem) for path in sorted(FOLDER.glob("*.py"))]


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"no example {name!r} in {FOLDER}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
