"""What each operation of the table costs in time, and what a tape costs by that: the objective ``time``.

A weight is how long an operation keeps the processor busy at one point while a batch runs, in picoseconds: throughput,
not latency, on vectors of doubles, as the `llvm` target computes them. A tape costs the sum over its live operations,
but for what that target computes together:

* a sum or difference takes one product that nothing else uses into a fused multiply-add, where the machine has it. Of
  two such products it takes one, and a product with two uses is never taken;
* sine and cosine of one argument are one call;
* the sign of a product with a constant, or of a quotient with a constant dividend, goes into the constant if nothing
  else uses them. Other signs are an instruction each: code that lets the sign of a zero alone cannot hide them.

The rules are those of LLVM's code generator with ``contract`` and no other freedom, read off its machine code. What a
sum of weights leaves out: chains of operations that wait for each other, loads, stores, and values that do not fit the
registers. Inputs, constants and `attach` cost nothing.

Weights are measured once a machine (`accumulus.targets.llvm.measure`) and kept in the user's cache directory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from accumulus.cache import load, store
from accumulus.errors import ArgumentError
from accumulus.tape.live import needed
from accumulus.tape.operations import BY_NAME, OPERATIONS
from accumulus.tape.tape import Tape

__all__ = ["Weights", "keep", "kept", "typical", "weights"]

Source = Literal["measured", "typical"]

_ADD: Final = BY_NAME["add"].code
_SUBTRACT: Final = BY_NAME["subtract"].code
_MULTIPLY: Final = BY_NAME["multiply"].code
_DIVIDE: Final = BY_NAME["divide"].code
_NEGATIVE: Final = BY_NAME["negative"].code
_SELECT: Final = BY_NAME["select"].code
_SIN: Final = BY_NAME["sin"].code
_COS: Final = BY_NAME["cos"].code
_ARITY: Final = np.array([operation.arity for operation in OPERATIONS])

#: Operations that have a weight, in the order of the table.
NAMES: Final = tuple(operation.name for operation in OPERATIONS if operation.arity)
#: No instruction is written for these.
FREE: Final = frozenset({"attach"})

# Measured by `accumulus.targets.llvm.measure` on an AMD EPYC of 2024 (Zen 5, vectors of eight doubles, LLVM 22):
# medians of seven measurements, rounded to two digits. That of fmod is one and a half divisions, as on another EPYC.
# fmt: off
_TYPICAL: Final = {
    "add": 15, "subtract": 15, "multiply": 15, "divide": 130, "negative": 24, "power": 1600, "sqrt": 230, "cbrt": 390,
    "hypot": 360, "exp": 350, "expm1": 500, "exp2": 410, "log": 430, "log1p": 460, "log2": 450, "log10": 410,
    "sin": 540, "cos": 560, "tan": 500, "asin": 430, "acos": 500, "atan": 590, "atan2": 780, "sinh": 960, "cosh": 460,
    "tanh": 480, "asinh": 1200, "acosh": 1200, "atanh": 700, "erf": 980, "erfc": 1000, "abs": 16, "sign": 68,
    "floor": 17, "ceil": 20, "fmod": 190, "minimum": 31, "maximum": 25, "less": 41, "less_equal": 42, "equal": 45,
    "not_equal": 42, "logical_and": 13, "logical_or": 8, "logical_not": 7, "attach": 0, "select": 17,
}
# fmt: on
_TYPICAL_FMA, _TYPICAL_SINCOS = 16, 560


@dataclass(frozen=True)
class Weights:
    """Picoseconds a point of every operation of the table.

    Args:
        operations: one weight for each operation but `input`, by name: 0 for `attach`, at least 1 for all others.
        fma: a product and the sum that it goes into, as one instruction.
        sincos: sine and cosine of one argument together.
        fused: whether the machine has fused multiply-add; if not, `fma` is of no account.
        source: "measured" on this machine, or "typical" figures of another.
        machine: which one, in words.

    Raises:
        ArgumentError: for a table that lacks an operation, or figures that contradict themselves: those of a pair are
            at least those of either part, and at most their sum; a division costs no less than a product.

    >>> w = typical()
    >>> tape = Tape(3)
    >>> tape.outputs = [tape.add(tape.multiply(0, 1), 2)]
    >>> w.cost(tape) == w.fma
    True
    """

    operations: Mapping[str, int] = field(hash=False)
    fma: int
    sincos: int
    fused: bool
    source: Source
    machine: str = ""

    def __post_init__(self) -> None:
        given = self.operations
        if set(given) != set(NAMES):
            missing, unknown = sorted(set(NAMES) - set(given)), sorted(set(given) - set(NAMES))
            raise ArgumentError(f"weights lack {missing} and name {unknown}; expected one for each operation")
        if self.source not in get_args(Source):
            raise ArgumentError(f"weights come from {self.source!r}; expected one of {', '.join(get_args(Source))}")
        for name, weight in (*given.items(), ("fma", self.fma), ("sincos", self.sincos)):
            if type(weight) is not int or (weight != 0 if name in FREE else weight < 1):
                wanted = "0" if name in FREE else "a whole number of picoseconds, at least 1"
                raise ArgumentError(f"the weight of {name} is {weight!r}; expected {wanted}")
        sums = (given["add"], given["subtract"])
        bounds = {
            "fma": (self.fma, max(*sums, given["multiply"]), min(sums) + given["multiply"]),
            "sincos": (self.sincos, max(given["sin"], given["cos"]), given["sin"] + given["cos"]),
        }
        for name, (weight, least, most) in bounds.items():
            if not least <= weight <= most:
                raise ArgumentError(f"the weight of {name} is {weight}; expected {least} … {most}, as of its parts")
        if given["divide"] < given["multiply"]:
            raise ArgumentError(f"a division weighs {given['divide']}, less than a product ({given['multiply']})")

    def cost(self, tape: Tape) -> int:
        """Picoseconds that the live operations of `tape` take at one point; time and memory linear in its length.

        >>> w = typical()
        >>> tape = Tape(1)
        >>> tape.outputs = [tape.apply("sin", 0), tape.apply("cos", 0)]
        >>> w.cost(tape) == w.sincos
        True
        """
        # inputs come first, of arity 0
        live = np.frombuffer(needed(tape), np.uint8).astype(bool)
        live[: tape.inputs] = False
        codes = np.frombuffer(tape.codes, np.uint8)
        first, second = (np.frombuffer(argument, np.intc) for argument in (tape.first, tape.second))
        uses = _uses(tape, live, codes, first, second)

        counts = np.bincount(codes[live], minlength=len(OPERATIONS))
        total = int(counts @ self._by_code)
        if self.fused:
            product = live & (codes == _MULTIPLY) & (uses == 1)
            for code, name in ((_ADD, "add"), (_SUBTRACT, "subtract")):
                sums = np.flatnonzero(live & (codes == code))
                takes = _at(product, first[sums]) | _at(product, second[sums])
                saved = self.operations[name] + self.operations["multiply"] - self.fma
                total -= saved * int(np.count_nonzero(takes))

        folds = live & (uses == 1) & ((codes == _MULTIPLY) | (codes == _DIVIDE)) & (first < 0)
        signs = np.flatnonzero(live & (codes == _NEGATIVE))
        total -= self.operations["negative"] * int(np.count_nonzero(_at(folds, first[signs])))

        sines, cosines = (first[live & (codes == code)] for code in (_SIN, _COS))
        together = len(np.intersect1d(sines, cosines, assume_unique=True))
        return total - together * (self.operations["sin"] + self.operations["cos"] - self.sincos)

    @cached_property
    def _by_code(self) -> NDArray[np.int64]:
        return np.array([self.operations.get(operation.name, 0) for operation in OPERATIONS])

    def relative(self, weight: int) -> float:
        """A weight as a multiple of that of an addition."""
        return weight / self.operations["add"]

    def to_dict(self) -> dict[str, Any]:
        """The weights as plain data, fit for JSON; `from_dict` reads them."""
        return {
            "source": self.source,
            "machine": self.machine,
            "unit": "picoseconds a point",
            "fused": self.fused,
            "fma": self.fma,
            "sincos": self.sincos,
            "operations": dict(self.operations),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Weights:
        """The weights that `to_dict` wrote.

        Raises:
            ArgumentError: if they are not such weights.
        """
        try:
            return cls(
                operations=dict(data["operations"]),
                fma=data["fma"],
                sincos=data["sincos"],
                fused=bool(data["fused"]),
                source=data["source"],
                machine=str(data["machine"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ArgumentError(f"these are no weights: {type(error).__name__} {error}") from error


def _uses(
    tape: Tape, live: NDArray[np.bool_], codes: NDArray[np.uint8], first: NDArray[np.intc], second: NDArray[np.intc]
) -> NDArray[np.int64]:
    """How often each reference is an argument of a live operation, or an output."""
    arity = _ARITY[codes]
    used = [first[live & (arity >= 1)], second[live & (arity >= 2)]]
    chosen = np.flatnonzero(live & (codes == _SELECT)).tolist()
    used.append(np.array([tape.third[reference] for reference in chosen], np.intc))
    used.append(np.array(tape.outputs, np.intc))
    together = np.concatenate(used)
    return np.bincount(together[together >= 0], minlength=len(tape))


def _at(mask: NDArray[np.bool_], references: NDArray[np.intc]) -> NDArray[np.bool_]:
    """The mask at references; False for constants."""
    return (references >= 0) & mask[np.maximum(references, 0)] if len(mask) else np.zeros(len(references), bool)


@cache
def typical() -> Weights:
    """Built-in figures, for machines on which nothing has been measured yet."""
    return Weights(_TYPICAL, _TYPICAL_FMA, _TYPICAL_SINCOS, True, "typical", "AMD EPYC (Zen 5), vectors of 8 doubles")


def weights() -> Weights:
    """The weights that were measured on this machine, if there are any, else `typical`.

    They stay the same while the process lives, unless it measures.
    """
    return kept() or typical()


#: What was read or measured, by cache directory.
_KNOWN: Final[dict[str | None, Weights]] = {}


def kept() -> Weights | None:
    """What `keep` wrote completely, on this machine, with this version; None if there is nothing."""
    place = os.environ.get("ACCUMULUS_CACHE")
    found = _KNOWN.get(place)
    if found is None:
        with suppress(ValueError, RecursionError):
            found = Weights.from_dict(json.loads(load("weights", _machine()) or b""))
            _KNOWN[place] = found
    return found


def keep(measured: Weights) -> None:
    """Use these weights from now on, and write them to the user's cache directory if that is possible."""
    _KNOWN[os.environ.get("ACCUMULUS_CACHE")] = measured
    store("weights", _machine(), json.dumps(measured.to_dict()).encode())


@cache
def _machine() -> str:
    """Key of the processor and of what makes code for it."""
    from importlib.metadata import version

    import llvmlite
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    parts = (version("accumulus"), llvmlite.__version__, llvm.get_process_triple(), llvm.get_host_cpu_name(), features)
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:24]
