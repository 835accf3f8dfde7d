"""The functions that are measured: every file of `examples/`, as it stands, and those of `benchmarks/suite/`.

The suite has the form of the examples, and is what operations are counted on: functions from many fields, written as
their sources have them. A file `name.py` has a function `name(x)` of one array, an `example_point()`, and a
`sample(points, seed)` of shape (points, inputs). Peers that cannot trace NumPy run the very same source with another
module under the name `np`: `Example.running_on(namespace)` loads the file once more and puts that module in place, and
its `special` under that name where a file asks SciPy for special functions.

`benchmarks/held_out/` has functions of the same form from other fields. Rules, weights and limits were settled before
these were written, so what operations come to there is what to expect of a function that nobody has looked at.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SUITE = Path(__file__).resolve().parent / "suite"
HELD_OUT = Path(__file__).resolve().parent / "held_out"


@dataclass(frozen=True)
class Example:
    """One function with its points, in the file `name`.py of `folder`."""

    name: str
    folder: Path = EXAMPLES

    @cached_property
    def _module(self) -> ModuleType:
        module = _load(self.folder, self.name)
        # where functions of functions of this one find NumPy's replacements, as they do in modules that are imported
        sys.modules[self.name] = module
        return module

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
        """Return the function made from the same source with `namespace` instead of the module `numpy`."""
        module = _load(self.folder, self.name)
        module.np = namespace  # type: ignore[attr-defined]
        if hasattr(module, "special"):
            module.special = namespace.special
        return getattr(module, self.name)  # type: ignore[no-any-return]


def all_examples() -> list[Example]:
    """Every example, by name."""
    return all_in(EXAMPLES)


def suite() -> list[Example]:
    """Every further function that operations are counted on, by name."""
    return all_in(SUITE)


def held_out() -> list[Example]:
    """Functions of other fields that no rule and no setting was made with an eye on, by name."""
    return all_in(HELD_OUT)


def all_in(folder: Path) -> list[Example]:
    """Every function of a folder, by name."""
    return [Example(path.stem, folder) for path in sorted(folder.glob("*.py"))]


def _load(folder: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"no function {name!r} in {folder}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
