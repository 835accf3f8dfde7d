"""The weights of the objective ``time``, measured on this machine with the code that programs run.

Each operation is a step of a small program: eight values, independent of each other, are passed through the step again
and again. A step that computes f is x ← f(x) · y + z, with y so small that x stays in the domain of f, wherever f
leads; arithmetic is a step by itself. Programs of a few and of many steps are compiled, and run in turns over a batch
that stays in the cache. The difference of their times is that of the steps: loads, stores and the loop fall out. From
it goes the rest of the step, which has been measured in the same way.

An instruction that the processor does beside others costs no time in a step. It takes room all the same, so no
operation weighs less than half an addition. Where noise leaves figures that contradict each other, such as a division
cheaper than a product, the larger one counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import llvmlite.binding as llvm
import numpy as np
from numpy.typing import NDArray

from accumulus.tape.operations import OPERATIONS, Operation
from accumulus.tape.tape import Tape
from accumulus.tape.weights import FREE, NAMES, Weights, keep, kept
from accumulus.targets.kernel import Segment
from accumulus.targets.llvm.host import host
from accumulus.targets.llvm.kernel import LLVMKernel
from accumulus.targets.llvm.program import Variant

__all__ = ["measure", "measured_weights"]

#: Values that pass through the steps of a program; fewer where conditions do, for which there are seven registers. And
#: other arguments, which are the same for all values and in every fourth step.
VALUES, CONDITIONS, OTHERS = 8, 6, 8
#: Steps of the short and of the long program, where a step is arithmetic, and where it calls a function.
SHORT, LONG = 8, 40
SHORT_CALLS, LONG_CALLS = 1, 4
#: Points of a batch: small enough for the first two caches, enough for what a call costs to be small.
POINTS: Final = 512
TURNS: Final = 41
#: A turn repeats a program until it lasts about this long.
SECONDS_PER_TURN: Final = 100e-6
#: Before anything counts, so that the processor has come to its usual speed.
WARM_UP: Final = 0.05
#: The factor y of a step is this small a part of an argument.
SMALL: Final = 1e-3
#: Arguments are drawn from this part of an operation's domain.
LARGEST: Final = 3.0
#: The part of an addition that the cheapest operation weighs.
LEAST: Final = 0.5

#: Tape, value, and two of the other arguments → the next value.
Step = Callable[[Tape, int, int, int], int]


@dataclass(frozen=True, slots=True)
class _Case:
    """What is measured under one name.

    Attributes:
        step: of the program.
        rest: names of the operations that the step computes beside its own.
        low, high: bounds of the arguments.
        calls: whether a step calls a function.
        values: that pass through the steps.
    """

    step: Step
    rest: tuple[str, ...] = ()
    low: float = 0.5
    high: float = LARGEST
    calls: bool = False
    values: int = VALUES


def measured_weights(again: bool = False) -> Weights:
    """The weights of this machine: those that were kept, or measured now, which takes about two seconds, and kept.

    Args:
        again: measure in any case.

    Raises:
        CompileError: if LLVM cannot make code for this machine.
    """
    found = None if again else kept()
    if found is None:
        found = measure()
        keep(found)
    return found


def measure() -> Weights:
    """Measure all weights now."""
    cases = _cases()
    return _weights(_differences(cases), cases)


def _cases() -> dict[str, _Case]:
    cases = {
        "add": _Case(lambda tape, x, _, z: tape.add(x, z)),
        "subtract": _Case(lambda tape, x, _, z: tape.subtract(x, z)),
        "multiply": _Case(lambda tape, x, _, z: tape.multiply(x, z)),
        "divide": _Case(lambda tape, x, _, z: tape.divide(x, z)),
        "fma": _Case(_into_fma),
        # a sign in front of a rounding, since sums, products and quotients take none
        "negative": _Case(
            lambda tape, x, y, z: _into_fma(tape, tape.apply("floor", tape.negative(x)), y, z), ("fma", "floor")
        ),
        "select": _Case(lambda tape, x, y, z: tape.select(tape.apply("less", y, z), _into_fma(tape, x, y, z), x)),
        "sincos": _Case(_sincos, ("fma", "fma"), -LARGEST, LARGEST, calls=True),
    }
    for row in OPERATIONS:
        if row.arity and row.name not in cases and row.name not in FREE:
            cases[row.name] = _truth(row) if row.result == "boolean" else _function(row)
    return cases


def _into_fma(tape: Tape, x: int, y: int, z: int) -> int:
    return tape.add(tape.multiply(x, y), z)


def _sincos(tape: Tape, x: int, y: int, z: int) -> int:
    cosine = _into_fma(tape, tape.apply("cos", x), y, z)
    return tape.add(tape.multiply(tape.apply("sin", x), y), cosine)


def _function(row: Operation) -> _Case:
    """x ← f(x) · y + z, or f(x, z) · y + z."""
    lows = [max(low, -LARGEST) for low, _ in row.domain]
    highs = [min(high, low + 2 * LARGEST) for low, (_, high) in zip(lows, row.domain, strict=True)]
    margins = [0.05 * (high - low) for low, high in zip(lows, highs, strict=True)]
    low = max(low + margin for low, margin in zip(lows, margins, strict=True))
    high = min(high - margin for high, margin in zip(highs, margins, strict=True))

    def step(tape: Tape, x: int, y: int, z: int) -> int:
        return _into_fma(tape, tape.apply(row.name, x, *[z] * (row.arity - 1)), y, z)

    return _Case(step, ("fma",), low, high, calls=row.llvm.startswith("@"))


def _truth(row: Operation) -> _Case:
    """x ← x · y + z or x by a condition."""

    def comparison(tape: Tape, x: int, y: int, z: int) -> int:
        return tape.select(tape.apply(row.name, x, z), _into_fma(tape, x, y, z), x)

    def logical(tape: Tape, x: int, y: int, z: int) -> int:
        conditions = [tape.apply("less", x, z), tape.apply("less_equal", x, y)][: row.arity]
        return tape.select(tape.apply(row.name, *conditions), _into_fma(tape, x, y, z), x)

    if row.arguments[0] == "real":
        return _Case(comparison, ("fma",), values=CONDITIONS)
    return _Case(logical, ("fma", "less", *(["less_equal"] * (row.arity - 1))), values=CONDITIONS)


def _program(case: _Case, steps: int) -> Tape:
    """The case's values after so many steps; inputs are the values and the other arguments."""
    values, pairs = case.values, OTHERS // 2
    tape = Tape(values + OTHERS)
    tape.outputs = list(range(values))
    for k in range(steps):
        y = values + k % pairs
        tape.outputs = [case.step(tape, value, y, y + pairs) for value in tape.outputs]
    return tape


def _points(case: _Case) -> NDArray[np.float64]:
    """Arguments of a case's programs, (variables, points)."""
    X = np.random.default_rng(0).uniform(case.low, case.high, (case.values + OTHERS, POINTS))
    X[case.values : case.values + OTHERS // 2] *= SMALL
    return X


def _kernel(case: _Case, steps: int) -> Callable[[], object]:
    """A program of so many steps, ready to run."""
    tape, X = _program(case, steps), _points(case)
    positions = tuple(range(case.values))
    # a step of all values, then the next: in the order of results each value would wait for itself
    variant = Variant(host().vector_bytes // 8, urgent=True)
    kernel = LLVMKernel(tape, (Segment(case.values, positions, positions),), "float64", variant=variant)
    # variables × points need no shuffles, and compile in less time
    out = kernel.allocate(POINTS, transposed=True)
    return lambda: kernel.run((X,), out, 0, POINTS, transposed=True)


def _differences(cases: Mapping[str, _Case]) -> dict[str, float]:
    """Picoseconds of one step at one point, by case."""
    programs = {}
    for name, case in cases.items():
        lengths = (SHORT_CALLS, LONG_CALLS) if case.calls else (SHORT, LONG)
        programs[name] = [_kernel(case, steps) for steps in lengths], lengths[1] - lengths[0]
    until = time.perf_counter() + WARM_UP
    while time.perf_counter() < until:
        programs["fma"][0][1]()
    repeats = {name: [_repeats(run) for run in runs] for name, (runs, _) in programs.items()}
    found: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(TURNS):
        for name, (runs, steps) in programs.items():
            few, many = (_seconds(run, n) / n for run, n in zip(runs, repeats[name], strict=True))
            found[name].append((many - few) / (POINTS * cases[name].values * steps) * 1e12)
    return {name: statistics.median(values) for name, values in found.items()}


def _repeats(run: Callable[[], object]) -> int:
    run()
    return max(1, round(SECONDS_PER_TURN / max(_seconds(run, 1), 1e-9)))


def _seconds(run: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        run()
    return time.perf_counter() - start


def _weights(steps: Mapping[str, float], cases: Mapping[str, _Case]) -> Weights:
    """Whole weights that make sense, from the times of steps, however noisy."""
    least = max(1, round(LEAST * (steps["add"] + steps["subtract"]) / 2))
    own: dict[str, float] = {}

    def time_of(name: str) -> float:
        if name not in own:
            own[name] = steps[name] - sum(map(time_of, cases[name].rest))
        return own[name]

    found = {name: max(least, round(time_of(name))) for name in cases}
    found["divide"] = max(found["divide"], found["multiply"])
    # one instruction with two spellings
    found["add"] = found["subtract"] = round((found["add"] + found["subtract"]) / 2)
    fma = _between(found["fma"], max(found["add"], found["multiply"]), found["add"] + found["multiply"])
    sines = found["sin"], found["cos"]
    return Weights(
        operations={name: 0 if name in FREE else found[name] for name in NAMES},
        fma=fma,
        sincos=_between(found["sincos"], max(sines), sum(sines)),
        fused=host().fused,
        source="measured",
        machine=f"{llvm.get_host_cpu_name()}, vectors of {host().vector_bytes // 8} doubles",
    )


def _between(value: int, least: int, most: int) -> int:
    return min(max(value, least), most)
