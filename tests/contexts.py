"""Contexts of tests: options by keyword, the seconds that a search has, and the check of its result."""

from __future__ import annotations

import signal
import sys
from typing import Any

from inside import Context, Deadline, Original, Verification, with_folding

from accumulus import Tape
from accumulus.options import Options
from accumulus.rewriting.optimise import Rounds, by_rules
from accumulus.tape.passes import with_noted_folding


def within(seconds: float | None = None, **options: Any) -> Context:
    """Return a context of these options; by default it lasts for their time limit."""
    return Context(Options(**options), seconds)


def timed(deadline: Deadline, **options: Any) -> Context:
    """Return a context with the work and the clock of a deadline."""
    context = within(**options)
    for name in ("_account", "_until", "_most", "seconds"):
        setattr(context, name, getattr(deadline, name))
    return context


def rewritten_by_rules(
    tape: Tape,
    *,
    kept_outputs: int = 0,
    rounds: Rounds | None = None,
    deadline: Deadline | None = None,
    original: Original | None = None,
    **options: Any,
) -> Tape:
    """Return what rules make of a tape, with the options of the search by keyword."""
    context = within(**options) if deadline is None else timed(deadline, **options)
    return by_rules(tape, context, kept_outputs=kept_outputs, rounds=rounds, original=original)


def verify(tape: Tape, other: Tape, seed: int = 0, **options: Any) -> None:
    """Check that two tapes have the same outputs; constants of the second may be folded ones of the first.

    Options are those of `Verification`.
    """
    tape, other = with_folding(tape.copy()), other.copy()
    Verification(tape, seed, **options).check(with_noted_folding(other, tape))


def counted(run, interrupts_at, file=None):
    """Calls of functions, of a file or any, that a run makes in this thread; Ctrl-C comes with one of them."""
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        if file is None or (event == "call" and frame.f_code.co_filename == file):
            calls += 1
            if calls == interrupts_at:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls
