"""Every error that accumulus raises on purpose.

Each message names the argument, the expected one, and a remedy. All derive from `AccumulusError`, and from the
built-in exception that a caller would otherwise expect (`ValueError`, `TypeError`), so that either can be caught.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "AccumulusError",
    "ArgumentError",
    "CacheWarning",
    "CaseError",
    "CompileError",
    "ConvergenceError",
    "EndlessRecordingError",
    "ExecutorWarning",
    "ExpressionError",
    "FileError",
    "GraphError",
    "IntegrationError",
    "IterationWarning",
    "LongProgramWarning",
    "MismatchError",
    "NaNWarning",
    "OpaqueError",
    "OrderError",
    "PlanError",
    "RewritingWarning",
    "SizeError",
    "TimeLimitWarning",
    "TooManyCasesError",
    "TraceError",
    "UnknownNameError",
    "VerificationError",
    "unknown_name",
]


class AccumulusError(Exception):
    """Base of all errors of this package."""


class ArgumentError(AccumulusError, ValueError, TypeError):
    """An argument has the wrong shape, type or value."""


class TraceError(AccumulusError, TypeError):
    """The function does something that cannot be recorded; names the file and line where it does."""


class MismatchError(TraceError):
    """A recording computes something else than its function; names both values and the likely reason."""


class EndlessRecordingError(TraceError):
    """A recording does not end, or grows beyond all bounds: a loop or a recursion on values; names file and line."""


class CaseError(AccumulusError, ValueError):
    """A recording that decides on values is used where it does not hold, or for results that depend on the case."""


class TooManyCasesError(CaseError):
    """A function decides in too many ways for a program each; names the lines whose decisions multiply them."""


class ConvergenceError(AccumulusError, ArithmeticError):
    """An iteration has found no root from the guess that was given."""


class IntegrationError(AccumulusError, ArithmeticError):
    """The integration of a differential equation ended before its last time; says where, and why."""


class GraphError(AccumulusError, ValueError):
    """A graph is not a differentiation graph: it has a cycle, an unknown vertex, or a malformed file."""


class ExpressionError(AccumulusError, ValueError):
    """Text that is no expression, or expressions that are not the path sums of a graph; names the culprit."""


class OrderError(AccumulusError, ValueError):
    """An elimination order leaves a vertex out, repeats one, or names an unknown one."""


class PlanError(AccumulusError, ValueError):
    """A plan file is malformed, is for another graph, or holds a plan that is wrong."""


class FileError(AccumulusError, ValueError):
    """A file of a saved derivative is malformed, of another version, was changed, or holds invalid data."""


class UnknownNameError(AccumulusError, ValueError, KeyError):
    """A method, target, objective or other option that is not registered; the message lists those that are."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the repr


class VerificationError(AccumulusError, AssertionError):
    """A plan does not compute the Jacobian of its graph."""


class CacheWarning(UserWarning):
    """Other users can write the cache, so it is not used; results are unaffected."""


class ExecutorWarning(UserWarning):
    """An executor that shares in a search failed, or some of its workers did; the plan is there all the same."""


class RewritingWarning(UserWarning):
    """The optimiser's tape could not be verified, so it is not used; the program is there, only longer."""


class TimeLimitWarning(UserWarning):
    """The method that was asked for did not finish within the time limit; the plan is that of another."""


class LongProgramWarning(UserWarning):
    """A long program was written out operation by operation; says why, and how to write it so that it is not."""


class IterationWarning(UserWarning):
    """A derivative is that of the path that an iteration takes, which is not that of the solution; says where."""


class NaNWarning(UserWarning):
    """All results of a first call are NaN; names the argument or the operation where NaN begins."""


class SizeError(AccumulusError, ValueError, MemoryError):
    """The program or result that was asked for does not fit into memory."""


class CompileError(AccumulusError, RuntimeError):
    """A target cannot compile the program on this machine."""


class OpaqueError(TraceError, CompileError):
    """A program calls an opaque function where there can be operations only: in source text, in files, in float32."""

    @classmethod
    def of(cls, name: str, where: str) -> OpaqueError:
        """Return the error for a function of that name and a place that cannot call it, the subject of a sentence.

        >>> print(OpaqueError.of("simulate", "C source"))
        C source cannot call simulate, which is opaque (accumulus.custom). Derivatives that are called in this process \
        can: expected target='llvm' or 'numpy', float64, and no exact_order
        """
        return cls(
            f"{where} cannot call {name}, which is opaque (accumulus.custom). Derivatives that are called in this "
            "process can: expected target='llvm' or 'numpy', float64, and no exact_order"
        )


def unknown_name(kind: str, name: object, registered: Iterable[str]) -> UnknownNameError:
    """Return the error for a name that is not in a registry, with the closest known name and the whole list.

    >>> print(unknown_name("method", "revers", ["forward", "reverse"]))
    unknown method 'revers'; did you mean 'reverse'? Known: forward, reverse.
    """
    names = sorted(registered)
    close = get_close_matches(str(name), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return UnknownNameError(f"unknown {kind} {name!r}{hint} Known: {', '.join(names)}.")
