"""An executor that shares in a search: what it is, how it is asked, and what became of what it was given.

Any `concurrent.futures.Executor` will do: processes, threads, MPI's, or one of a cluster. So will a Dask ``Client``,
which has such an executor. It stays the caller's: it is asked, and never shut down.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from accumulus.errors import ArgumentError

__all__ = ["Workers", "check_executor"]


def check_executor(executor: object) -> None:
    """Refuse what is neither None, nor an executor, nor a Dask client.

    Raises:
        ArgumentError: saying what would do.
    """
    if executor is None or isinstance(executor, (Executor, Workers)) or _has_executor(executor):
        return
    kind = f"the class {executor.__name__}" if isinstance(executor, type) else f"a {type(executor).__name__}"
    raise ArgumentError(
        f"executor is {kind}; expected a concurrent.futures.Executor, such as ProcessPoolExecutor(), a Dask Client, or "
        "None"
    )


class Workers:
    """An executor as a search sees it; one for each call of `accumulus.plan`.

    Args:
        executor: an executor, or a Dask client.

    Attributes:
        failures: what went wrong, in the order in which it did.
        complete: whether everything that was asked was also answered, and no answer was cut short by the time limit.

    Raises:
        ArgumentError: if it is none.
    """

    def __init__(self, executor: Any) -> None:
        check_executor(executor)
        self._given = executor
        self._executor: Executor | None = executor if isinstance(executor, Executor) else None
        self.failures: list[BaseException] = []
        self.complete = True

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any] | None:
        """The future result of a call, None if the executor does not take it; the failure is noted."""
        try:
            if self._executor is None:
                # the same part of two searches is two parts: nothing is to be taken from Dask's memory
                self._executor = self._given.get_executor(pure=False)
            return self._executor.submit(function, *arguments)
        except Exception as error:
            self.failed(error)
            return None

    def failed(self, error: BaseException) -> None:
        """Note that something went wrong."""
        self.failures.append(error)
        self.complete = False

    def release(self) -> None:
        """Let go of what a Dask client still has to do."""
        if self._executor is None or self._executor is self._given:
            return
        try:
            self._executor.shutdown(wait=False)
        except Exception as error:  # the cluster is gone
            self.failed(error)
        self._executor = None

    def complaint(self) -> str:
        """What the failures come to, for people."""
        first = self.failures[0]
        said = f"{type(first).__name__}: {first}" if str(first) else type(first).__name__
        others = len(self.failures) - 1
        more = f", and {others} more" if others else ""
        return (
            f"{type(self._given).__name__} failed in parts of the search ({said}{more}); the plan is there all the "
            "same, the best of all other parts. It is not kept for the next time"
        )


def _has_executor(candidate: object) -> bool:
    """Whether it is a Dask client, or something like it."""
    return not isinstance(candidate, type) and callable(getattr(candidate, "get_executor", None))
