"""How to plan and compile a derivative: the options of `accumulus.jacobian`, checked before anything is traced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from accumulus.accumulate.cost import Objective, check_objective
from accumulus.errors import ArgumentError, unknown_name
from accumulus.programs.sparse import FORMATS, SparseFormat
from accumulus.search.methods import check_options
from accumulus.search.options import check_cache
from accumulus.search.workers import check_executor
from accumulus.targets import check_target

__all__ = ["Settings", "check_threads"]

DTYPES: Final = ("float64", "float32")


@dataclass(frozen=True, slots=True)
class Settings:
    """Options, each documented at `accumulus.jacobian`."""

    method: str = "auto"
    objective: Objective = "operations"
    time_limit: float = 1.0
    effort: str = "balanced"
    seed: int = 0
    sparse: SparseFormat | None = None
    target: str = "llvm"
    dtype: str = "float64"
    threads: int = 1
    check_finite: bool = False
    optimise: bool | None = None
    exact_order: bool = False
    cache: bool = True
    executor: Any = None

    @classmethod
    def of(cls, **options: Any) -> Settings:
        """Settings from keyword arguments as users give them.

        Raises:
            UnknownNameError: for an option, or a name given for one, that does not exist.
            ArgumentError: for a value out of range.
        """
        unknown = set(options).difference(cls.__slots__)
        if unknown:
            raise unknown_name("option", min(unknown), cls.__slots__)
        if isinstance(options.get("sparse"), bool):
            options["sparse"] = "csr" if options["sparse"] else None
        options["dtype"] = _dtype(options.get("dtype", "float64"))
        settings = cls(**options)
        if settings.sparse is not None and settings.sparse not in FORMATS:
            raise unknown_name("sparse format", settings.sparse, FORMATS)
        check_objective(settings.objective)
        if settings.optimise not in (True, False, None):
            raise ArgumentError(f"optimise is {settings.optimise!r}; expected True, False or None")
        check_options(settings.method, settings.time_limit, settings.effort, settings.seed)
        check_cache(settings.cache)
        check_executor(settings.executor)
        check_target(settings.target)
        check_threads(settings.threads)
        return settings

    @property
    def rewrites(self) -> bool:
        """Whether the tape is rewritten; by default where products in another order hardly leave the range."""
        return self.dtype == "float64" if self.optimise is None else self.optimise


def check_threads(threads: object) -> int:
    """The number of threads, or `ArgumentError`."""
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ArgumentError(f"threads is {threads!r}; expected a whole number of at least 1")
    return threads


def _dtype(dtype: Any) -> str:
    try:
        name = str(np.dtype(dtype).name)
    except TypeError:
        name = str(dtype)
    if name not in DTYPES:
        raise unknown_name("dtype", name, DTYPES)
    return name
