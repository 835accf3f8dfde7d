"""Running a function in a process of its own, with a limit: what hangs is a line in a table, not its end."""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class NotDone(Exception):
    """A process ended without a result, or was ended; says why."""


class TookTooLong(NotDone):
    """A process was ended because its time was over."""


def apart(function: Callable[..., Any], *arguments: Any, seconds: float, **environment: str) -> Any:
    """The result of `function(*arguments)`, both of which can be pickled, in a fresh process.

    Args:
        seconds: after which the process is killed.
        environment: variables that it has beside those of this process.

    Raises:
        TookTooLong, NotDone: if it was killed; if it raised an error or died.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sender, function, arguments), daemon=False)
    with _environment(environment):
        process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise TookTooLong(f"not done after {seconds:.0f} s")
        try:
            failed, result = receiver.recv()
        except EOFError:
            process.join()
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


def _run(sender: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
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
