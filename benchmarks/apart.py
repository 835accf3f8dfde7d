"""Running a function in a process of its own, with a limit: what hangs is a line in a table, not its end."""

from __future__ import annotations

import math
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

#: A process on a busy machine may take so many times its seconds by the clock.
BY_THE_CLOCK: Final = 10.0


class NotDone(Exception):
    """A process ended without a result, or was ended; says why."""


class TookTooLong(NotDone):
    """A process was ended because its time was over."""


def apart(function: Callable[..., Any], *arguments: Any, seconds: float, **environment: str) -> Any:
    """The result of `function(*arguments)`, both of which can be pickled, in a fresh process.

    Args:
        seconds: of the processor, after which the process is killed; or ten times as long by the clock.
        environment: variables that it has beside those of this process.

    Raises:
        TookTooLong, NotDone: if it was killed; if it raised an error or died.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sender, function, arguments, math.ceil(seconds)))
    with _environment(environment):
        process.start()
    sender.close()
    try:
        if not receiver.poll(BY_THE_CLOCK * seconds):
            raise TookTooLong(f"not done after {BY_THE_CLOCK * seconds:.0f} s")
        try:
            failed, result = receiver.recv()
        except EOFError:
            process.join()
            if process.exitcode == -signal.SIGXCPU:
                raise TookTooLong(f"not done after {seconds:.0f} s of the processor") from None
            raise NotDone(f"its process ended with {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
    if failed:
        raise NotDone(result)
    return result


def processor_seconds() -> float:
    """Of this process and of all its children that have ended, in user and in system code."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _run(sender: Any, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: int) -> None:
    # a busy machine takes longer by the clock; what is interrupted in compiled code ends at once by the signal
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    try:
        answer = (False, function(*arguments))
    except Exception as error:  # whatever it was, the table must say so and go on
        answer = (True, f"{type(error).__name__}: {error}")
    sender.send(answer)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
