"""What is known of comparisons in a branch: where ``v < 0`` was true, ``-v < 0`` is not asked again.

A model that calls itself for the other sign ends by that (``if v < 0: return -current(-v)``), and conditions that
are asked again within a branch cost nothing.

Keys are names of operations with their operands, without signs that both sides have: constants by value, all else by
reference. Nothing follows from a comparison that is false but that it is: NaN compares as nothing.
"""

from __future__ import annotations

from typing import Any

from accumulus.tape.tape import Tape

__all__ = ["Facts", "facts_of", "key_of"]

Key = tuple[Any, ...]
Facts = dict[Key, bool]


def key_of(tape: Any, reference: int) -> Key:
    """The key of a truth value."""
    if not isinstance(tape, Tape) or reference < tape.inputs:
        return (reference,)
    name = tape.operation(reference).name
    if name not in ("equal", "less", "less_equal", "not_equal"):
        return (reference,)
    a, b = (_term(tape, argument) for argument in tape.arguments(reference))
    # -a < -b is b < a; of a constant the sign can always be taken
    if all(sign < 0 or kind == "constant" for sign, kind, _ in (a, b)) and -1 in (a[0], b[0]):
        (_, *one), (_, *other) = (_opposite(term) for term in (b, a))
    else:
        one, other = list(a), list(b)
        if a[0] > 0 and b[0] > 0:
            one, other = list(a[1:]), list(b[1:])
    return (name, tuple(one), tuple(other))


def _term(tape: Tape, reference: int) -> tuple[int, str, float]:
    """Sign, kind and value of an operand."""
    if reference < 0:
        return 1, "constant", tape.value_of(reference) + 0.0
    if reference >= tape.inputs and tape.operation(reference).name == "negative":
        return -1, "reference", tape.arguments(reference)[0]
    return 1, "reference", reference


def _opposite(term: tuple[int, str, float]) -> tuple[int, str, float]:
    sign, kind, value = term
    return (1, kind, -value + 0.0) if kind == "constant" else (-sign, kind, value)


def facts_of(tape: Any, reference: int, truth: bool) -> Facts:
    """What follows from a truth value being true, or false."""
    found: Facts = {(reference,): truth}
    if not isinstance(tape, Tape) or reference < tape.inputs:
        return found
    name, arguments = tape.operation(reference).name, tape.arguments(reference)
    if name == "logical_not":
        return found | facts_of(tape, arguments[0], not truth)
    if name == ("logical_and" if truth else "logical_or"):
        return found | facts_of(tape, arguments[0], truth) | facts_of(tape, arguments[1], truth)
    key = key_of(tape, reference)
    found[key] = truth
    if len(key) == 3:
        _, a, b = key
        ways = {
            ("less", True): [("less_equal", a, b, True), ("less", b, a, False), ("less_equal", b, a, False)],
            ("less_equal", True): [("less", b, a, False)],
            ("less_equal", False): [("less", a, b, False)],
        }
        found |= {(n, x, y): t for n, x, y, t in ways.get((name, truth), [])}
    return found
