"""Options of derivatives and plans: each has its default and its check here, and nowhere else.

One object passes from the user's call through planning and rewriting to the compiled program. A stage that needs a
different option, such as a brief search, receives a copy with that option replaced (`dataclasses.replace`).
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Final, Literal, TypedDict, TypeVar, get_args

import numpy as np

from accumulus.errors import ArgumentError, UnknownNameError, unknown_name
from accumulus.methods import check_method
from accumulus.progress import Progress
from accumulus.targets import DTYPES, check_target

# Objectives ----------------------------------------------------------------------------------------------------------
#
# Objectives that rate plans and programs, and the properties that depend on the objective.

#: Message for an objective that earlier versions offered.
TIME_WAS_REMOVED: Final = (
    "objective 'time' was removed: on average its programs were no faster. Use 'operations', which is what the "
    "compiled functions minimise"
)


class Objective(StrEnum):
    """A cost to minimise; equal to its name as a string.

    >>> Objective.of("operations").on_tape
    True
    >>> Objective.FMA == "fma"
    True
    """

    #: Every product, as the literature counts them.
    FMA = "fma"
    #: Products, except those with ±1 and of two constants.
    MULTIPLICATIONS = "multiplications"
    #: Operations of the emitted tape.
    OPERATIONS = "operations"
    #: Bytes of the machine code of C: plans with the fewest operations, emitted as the most compact C.
    CODE_SIZE = "code size"

    @classmethod
    def of(cls, name: str) -> Objective:
        """Return the objective with that name.

        Raises:
            UnknownNameError: if there is none.
        """
        try:
            return cls(name)
        except ValueError:
            if name == "time":
                raise UnknownNameError(TIME_WAS_REMOVED) from None
            raise unknown_name("objective", name, [member.value for member in cls]) from None

    @property
    def on_tape(self) -> bool:
        """Return True if it is counted on the emitted tape, where equal operations count once and values count, too."""
        return self in (Objective.OPERATIONS, Objective.CODE_SIZE)

    @property
    def counted(self) -> Objective:
        """Return the objective that plans are counted by in its place."""
        return Objective.OPERATIONS if self is Objective.CODE_SIZE else self

    @property
    def of_eliminations(self) -> Objective:
        """Return the objective that searches over eliminations minimise in its place; they have no tape."""
        return Objective.FMA if self is Objective.FMA else Objective.MULTIPLICATIONS

    @property
    def every_product(self) -> bool:
        """Return True if free products, with ±1 or of two constants, count as well."""
        return self is Objective.FMA

    def ranked(self, fma: int, multiplications: int) -> tuple[int, int]:
        """Return the counts in order of priority: the objective's own, then the tie-breaker."""
        return (fma, multiplications) if self.every_product else (multiplications, fma)


#: Objectives that plans are counted by.
COUNTED: Final = tuple(objective for objective in Objective if objective.counted is objective)


# Options -------------------------------------------------------------------------------------------------------------


F = TypeVar("F", bound=Callable[..., Any])

SparseFormat = Literal["csr", "csc", "coo"]
FORMATS: Final[tuple[SparseFormat, ...]] = get_args(SparseFormat)
Effort = Literal["fast", "balanced", "thorough"]
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
#: Treatments of branches on values: a program for each case, or an error.
GUARDS: Final = ("cases", "error")
#: What may be assumed of all entries of an argument.
ASSUMPTIONS: Final = ("positive", "nonnegative", "nonzero")
#: Names or positions of arguments, with what is assumed of them.
Assumptions = tuple[tuple[str | int, str], ...]
#: Environment variable that, if 0, disables the cache for a process, except for kernels.
SWITCH: Final = "ACCUMULUS_CACHE_PLANS"
#: Options that determine which plan is found. The others concern progress, the cache, and the compiled program.
OF_PLANS: Final = ("method", "objective", "time_limit", "effort", "seed", "iterations", "executor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of planning, rewriting and compiling.

    Each is documented at `accumulus.jacobian`, and `iterations` at `accumulus.plan`.

    Raises:
        UnknownNameError: for an unknown name of a method, objective, format, target or the like.
        ArgumentError: for a value of a wrong type or out of range.
    """

    method: str = "auto"
    objective: Objective = Objective.OPERATIONS
    time_limit: float = 2.0
    effort: Effort = "balanced"
    seed: int = 0
    iterations: int | None = None
    executor: Any = None
    progress: Callable[[Progress], object] | bool | None = None
    cache: bool = True
    sparse: SparseFormat | None = None
    target: str = "llvm"
    dtype: str = "float64"
    threads: int = 1
    check_finite: bool = False
    check: bool = True
    optimise: bool | None = None
    exact_order: bool = False
    guards: str = "cases"
    most_cases: int = 64
    watch: bool = True
    assume: Assumptions | None = None

    def __post_init__(self) -> None:
        check_method(self.method)
        self._set("objective", Objective.of(self.objective))
        if self.effort not in EFFORTS:
            raise unknown_name("effort", self.effort, EFFORTS)
        self._set("time_limit", _seconds("time_limit", self.time_limit))
        _check_whole("seed", self.seed)
        if self.iterations is not None:
            _check_whole("iterations", self.iterations)
            if self.iterations < 0:
                raise ArgumentError(f"iterations is {self.iterations!r}; expected at least 0, or None for no limit")
        _check_executor(self.executor)
        if not (self.progress is None or isinstance(self.progress, bool) or callable(self.progress)):
            raise ArgumentError(
                f"progress is {self.progress!r}; expected True (shown from the start), False (never shown), a "
                "function of an accumulus.Progress, or None (shown after two seconds)"
            )
        if not isinstance(self.cache, bool):
            raise ArgumentError(
                f"cache is {self.cache!r}; expected True or False (the folder is named by ACCUMULUS_CACHE)"
            )
        if isinstance(self.sparse, bool):
            self._set("sparse", "csr" if self.sparse else None)
        if self.sparse is not None and self.sparse not in FORMATS:
            raise unknown_name("sparse format", self.sparse, FORMATS)
        check_target(self.target)
        self._set("dtype", _dtype(self.dtype))
        check_threads(self.threads)
        for name in ("check", "check_finite", "watch"):
            if not isinstance(getattr(self, name), bool):
                raise ArgumentError(f"{name} is {getattr(self, name)!r}; expected True or False")
        if self.optimise not in (True, False, None):
            raise ArgumentError(f"optimise is {self.optimise!r}; expected True, False or None")
        if self.guards not in GUARDS:
            raise unknown_name("way of guards", self.guards, GUARDS)
        _check_whole("most_cases", self.most_cases)
        if self.most_cases < 1:
            raise ArgumentError(f"most_cases is {self.most_cases!r}; expected at least 1")
        self._set("assume", _assumptions(self.assume))

    @classmethod
    def of(cls, beside: Iterable[str] = (), /, **values: Any) -> Options:
        """Return options from users' keyword arguments; `beside` holds further names that the caller accepts.

        Raises:
            UnknownNameError: for an unknown option, or an unknown name as its value.
            ArgumentError: for a value of a wrong type or out of range.
        """
        names = [option.name for option in fields(cls)]
        unknown = set(values).difference(names)
        if unknown:
            raise unknown_name("option", min(unknown), [*names, *beside])
        return cls(**values)

    @property
    def takes_arrays(self) -> bool:
        """Return True if operations on long arrays may become loops: in float64, if sums may be reordered."""
        return self.dtype == "float64" and not self.exact_order

    @property
    def rewrites(self) -> bool:
        """Return True if the tape is rewritten; the default is float64, whose range reordered products rarely leave."""
        return self.dtype == "float64" if self.optimise is None else self.optimise

    @property
    def counts_rewritten(self) -> bool:
        """Return True if the cost of a plan is known only after its tape has been rewritten."""
        return self.rewrites and self.objective.on_tape

    @property
    def compares_rewritten(self) -> bool:
        """Return True if several programs of the same derivatives may be rewritten, of which the shortest is taken."""
        plain = self.counts_rewritten and self.method == "auto" and not self.exact_order
        return plain and self.effort != "fast" and self.searches

    @property
    def alone(self) -> Options:
        """Return these options without objects of this process: the executor and the progress callback."""
        return replace(self, executor=None, progress=None if callable(self.progress) else self.progress)

    @property
    def caches(self) -> bool:
        """Return True if plans, tapes and programs are loaded from the cache and stored in it."""
        return self.cache and os.environ.get(SWITCH) != "0"

    @property
    def searches(self) -> bool:
        """Return True if the limits allow a search beyond the best greedy plan."""
        return self.time_limit > 0 and self.iterations != 0

    @property
    def shown(self) -> bool | None:
        """Return the argument `shown` of `ProgressLine`; False if a callback receives the progress."""
        return False if callable(self.progress) else self.progress

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


class OptionKeywords(TypedDict, total=False):
    """Options as users pass them, for type checkers; the same names as in `Options`."""

    method: str
    objective: str
    time_limit: float
    effort: str
    seed: int
    iterations: int | None
    executor: Any
    progress: Callable[[Progress], object] | bool | None
    cache: bool
    sparse: bool | SparseFormat | None
    target: str
    dtype: str
    threads: int
    check_finite: bool
    check: bool
    optimise: bool | None
    exact_order: bool
    guards: str
    most_cases: int
    watch: bool
    assume: Mapping[str | int, str] | Assumptions | None


def shows_options(function: F) -> F:
    """Show names and defaults of options in the signature of a function of ``**options``, for `help` and editors."""
    return with_parameters(function, {})


def refuses(*names: str) -> Callable[[F], F]:
    """Return a decorator that leaves options out of the signature that a function shows, since it refuses them."""

    def without(function: F) -> F:
        signature = inspect.signature(function)
        kept = [each for name, each in signature.parameters.items() if name not in names]
        vars(function)["__signature__"] = signature.replace(parameters=kept)
        return function

    return without


def with_parameters(function: F, more: dict[str, Any]) -> F:
    """Show the options and the keywords in `more`, with their defaults, in the signature of a function."""
    signature = inspect.signature(function)
    options = {
        option.name: str(option.default) if isinstance(option.default, str) else option.default  # an objective is text
        for option in fields(Options)
    }
    named = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        for name, default in (more | options).items()
    ]
    declared = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    vars(function)["__signature__"] = signature.replace(parameters=declared + named)
    return function


def takes_one_function(name: str, call: str, extra: Sequence[object]) -> None:
    """Refuse further positional arguments of a function of a function, which other libraries accept.

    Raises:
        ArgumentError: if there are any; the message shows the right call.
    """
    if extra:
        raise ArgumentError(
            f"acc.{name} takes a function and options by keyword, not {len(extra)} further arguments. It returns a "
            f"function of these: write acc.{name}(f)({call})"
        )


def refuse_assumptions(options: Mapping[str, Any], subject: str, reason: str) -> None:
    """Raise an `ArgumentError` for `assume` where no call is checked against it, or arguments are others."""
    if options.get("assume"):
        raise ArgumentError(f"assume is {options['assume']!r} for {subject}, {reason}; leave assume out")


def _check_executor(executor: Any) -> None:
    if executor is None or isinstance(executor, Executor):
        return
    if not isinstance(executor, type) and callable(getattr(executor, "get_executor", None)):
        return  # a Dask client, or a compatible object
    kind = f"the class {executor.__name__}" if isinstance(executor, type) else f"a {type(executor).__name__}"
    raise ArgumentError(
        f"executor is {kind}; expected a concurrent.futures.Executor, such as ProcessPoolExecutor(), a Dask Client, or "
        "None"
    )


def check_threads(threads: object) -> int:
    """Return the number of threads; raise `ArgumentError` if it is invalid."""
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ArgumentError(f"threads is {threads!r}; expected a whole number of at least 1")
    return threads


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ArgumentError(f"{name} is {value!r}; expected a number of seconds")
    try:
        seconds = float(value)
    except OverflowError:
        raise ArgumentError(f"{name} is beyond the range of floats; expected seconds, math.inf for no limit") from None
    if math.isnan(seconds) or seconds < 0:
        raise ArgumentError(f"{name} is {value!r}; expected at least 0 seconds (0: the best greedy plan)")
    return seconds


def _check_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ArgumentError(f"{name} is {value!r}; expected a whole number")


def _assumptions(assume: Any) -> Assumptions | None:
    """Return what is assumed as pairs, which have a hash; None for nothing."""
    expected = 'expected a dict from names or positions of arguments to what is assumed, as {"x": "positive"}'
    if assume is not None and not isinstance(assume, Mapping | tuple):
        raise ArgumentError(f"assume is {assume!r:.80}; {expected}")
    pairs = tuple(assume.items()) if isinstance(assume, Mapping) else assume or ()
    for argument, assumption in pairs:
        is_place = isinstance(argument, int) and not isinstance(argument, bool) and argument >= 0
        if not (is_place or isinstance(argument, str)):
            raise ArgumentError(f"assume names {argument!r:.80}; {expected}")
        if assumption not in ASSUMPTIONS:
            raise unknown_name(f"assumption about argument {argument}", assumption, ASSUMPTIONS)
    return pairs or None


def _dtype(dtype: Any) -> str:
    try:
        name = str(np.dtype(dtype).name)
    except TypeError:
        name = str(dtype)
    if name not in DTYPES:
        raise unknown_name("dtype", name, DTYPES)
    return name
