"""The compiled kernel against itself as Python, what must hold after every move, and kernels with one mistake each.

Each mistake is one change of the kernel's text. It is caught if a search with that kernel breaks what
`interpreted.check` asks for, reaches for memory that is not its own, does not end, or arrives at another program, which
`verify` refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import interpreted
import numpy as np
import pytest
from expressions import written
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreted import SOURCE, OutOfMemory, check, running, state
from strategies import tapes

from accumulus.errors import VerificationError
from accumulus.rewriting.costs import UNIT, search_weights
from accumulus.rewriting.plain import plain
from accumulus.rewriting.verify import verify
from accumulus.tape.tape import Tape

ALGEBRA = ("add", "subtract", "multiply", "divide", "negative", "sqrt", "sin", "cos", "less", "select")

#: Small programs on which, together, every rule has something to do.
TEXTS = (
    "a*b*c - a*b*d + (a*c - a*d) * (b - d), a - b - c",
    "(a + b) * (a - b) + c * c, (a - c) * (b - d), (a - c) * (a - d), a * a - b * b, d * d - 1",
    "a / (b * c) + d / (b * c) - a / b, (b / (c / d)) / a",
    "a * (b / c) / (d / c), -a / c, a / (b + c) - d / (b + c)",
    "(b - a) / (c * d) * (b - c), (a * c - b * c) / d, 1 / c - 1 / b",
    "select(less(a, b), a * c, b * c) - select(less(a, b), a - c, d - c)",
    "select(less(a, b), c, d) * select(less(d, a), b, c), select(less(a, b), c, d) + select(less(d, a), b, c)",
    "select(less(a, b), a * b, c * d) + select(less(a, b), a, b) * select(less(a, b), c, -d)",
    "d * (c - select(less(a, b), a, b)), (c - select(less(a, b), a, b)) + d * a, c / select(less(a, b), a, d)",
    "select(less(a, b), a + c, b - c), select(less(a, b), a - d, -b - c), c - select(less(a, b), a + d, b + d)",
    "select(less(a, b), a / c, b / c) * d, select(less(a, b), a / b, c / d), select(less(a, b), -a, b) - c",
    "sin(a) * sin(a) + cos(a) * cos(a) - b, sin(a) * sin(a) + cos(b) * cos(b), atan2(d, a)",
    "1 - sin(a) * sin(a) + c * cos(a), b - cos(a) * cos(a) + 1, sin(b - a) + cos(a - b) * sin(a - b)",
    "sqrt(b) * c * sqrt(b), b / sqrt(b) + sqrt(b) * c, sqrt(b) / b - c, sqrt(a - b) * sqrt(a - b) - d",
    "c * b / d - a * b / d, (a * b) / b",
    "a * b + c / b, (a + b) * (a + b)",
    "2 * a + 3 * b - (a + 5) + (b - 7), 3 * (2 * (a * b)) - 6 * a * c, exp(b - a) * (a - b)",
)  # fmt: skip
#: Words that a network may read; what reads more does not end.
PATIENCE = 4_000_000
#: Walks over each program, and moves in each.
STEPS = 6
VISITS = 120
#: Changes of the kernel's text that are no mistakes: definitions begin at a few places of the table, so that they
#: collide, and choices are looked into often.
HARMLESS = {
    r"64 - get\(block, TABLE_BITS\)\)\n": "64 - get(block, TABLE_BITS)) & 15\n",
    r"get\(block, CHOICES\) and pick\(block, whole\(\d+\)\) == 0": "get(block, CHOICES) and pick(block, whole(4)) == 0",
}


def crowded(text: str) -> str:
    for found, replacement in HARMLESS.items():
        text, times = re.subn(found, replacement, text)
        assert times == 1, f"{found} is not in the kernel, or more than once"
    return text


#: Programs for mistakes that show on few others.
NEGATIVE_SUM = "(b - c - d) * a + b"
NEGATIVE_CHOICE = "(c - select(u, a, b)) * exp(d), (c - select(u, a, b)) / exp(d), (c - select(u, a, b)) + sin(d)"
MERGED = "(b - c - a * d * d) * (b - c - d * (a * d)) * a"
NEGATIVE_CHOICE = NEGATIVE_CHOICE.replace("u", "less(a, b)")
SHARED_TERMS = "3 * a + 5 * (b - a - c) + 5 * d + 7 - (2 * a - 4), -2 * (c - b) + 2 * (b + a) - 3 * (d - b) - 1"
BRANCHES = "c - select(less(a, b), a + d, b + d), select(less(a, b), a / b, c / d)"


def networks(text: str | None, programs: Sequence[str] = TEXTS, seeds: int = 2) -> Iterator[str]:
    """Search on each of the programs with a kernel, and check what it does; yields names of what was done."""
    for seed in range(seeds):
        for number, program in enumerate(programs):
            tape = plain(written(program))
            kept = 1 if (number + seed) % 2 else 0
            other = crowded if text and seed else str
            with running(text and other(text), PATIENCE, check, other(SOURCE)):
                network = interpreted.Network(tape, search_weights("operations"), kept_outputs=kept, seed=seed)
            verify(tape, network.written())
            yield "build"
            before = network.cost
            network.sweep(2 * network.size, inline=0.1 * seed)
            assert network.cost <= before, "a sweep takes what wins"
            verify(tape, network.written())
            yield "sweep"
            for part in range(STEPS):  # so hot that every move is accepted
                network.anneal(VISITS, UNIT * 1e6, UNIT * 1e6, 0.1)
                now(network, tape)
                yield f"walk {part}"
            network.anneal(2 * VISITS, UNIT * 0.8, UNIT * 0.2, 0.1)
            verify(tape, network.written())
            yield "anneal"


def now(network: Any, tape: Tape) -> None:
    """Verify the network as it is, too, not only the best that was found."""
    pairs = (("BEST_CODES", "CODES"), ("BEST_ARGUMENTS", "ARGUMENTS"), ("BEST_SIGNS", "SIGNS"))
    slots, block = interpreted.slot, network._block
    kept = {best: block.array(getattr(slots, best)).copy() for best, _ in pairs}
    count = int(network._values[slots.BEST_NEXT])
    for best, present in pairs:
        block.array(getattr(slots, best))[:] = block.array(getattr(slots, present))
    network._values[slots.BEST_NEXT] = network._values[slots.NEXT]
    verify(tape, network.written())
    for best, array in kept.items():
        block.array(getattr(slots, best))[:] = array
    network._values[slots.BEST_NEXT] = count


def test_the_kernel_itself_passes():
    assert len(list(networks(SOURCE))) == len(list(networks(None))) > 0
    for program in (NEGATIVE_SUM, NEGATIVE_CHOICE, MERGED, BRANCHES, SHARED_TERMS):
        assert list(networks(None, [program], 4))


@settings(max_examples=12)
@given(tape=tapes(max_inputs=3, max_operations=30, names=ALGEBRA), seed=st.integers(0, 5), kept=st.integers(0, 2))
def test_interpreted_and_compiled_kernels_agree_word_by_word(tape, seed, kept):
    tape, states = plain(tape), []
    kept = min(kept, len(tape.outputs))
    for text in (SOURCE, None):
        with running(text, after=check):
            network = interpreted.Network(tape, search_weights("operations"), kept_outputs=kept, seed=seed)
        network.sweep(2 * network.size, 0.05)
        network.anneal(600, UNIT * 0.8, UNIT * 0.2, 0.1)
        states.append(state(network))
    assert states[0].keys() == states[1].keys()
    for place, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][place], f"slot {place}")


#: What a mistake is called, the kernel's text, and what is put in its place. Each text is there exactly once.
MUTANTS = {
    # trees of sums and products
    "gather loses the sign of a sum": ("sign *= at(block, whole(SIGNS), n)\n                    enter", "enter"),
    "gather loses the sign of a second term": ("count + 1, abs(b), sign * sign_of(b))", "count + 1, abs(b), sign)"),
    "gather takes divisors for factors": ("-sign if code == DIVIDE else sign)", "sign)"),
    "gather opens no divisors within divisors": ("abs(b), -sign if code == DIVIDE", "abs(b), -1 if code == DIVIDE"),
    "rebuild loses the sign of a node": (
        "sign_of(x) * a, sign_of(y) * b, whole(0)) * at(block, whole(SIGNS), n)",
        "sign_of(x) * a, sign_of(y) * b, whole(0))",
    ),
    "rebuild loses the sign of an argument": ("sign_of(x) * a, sign_of(y) * b", "sign_of(x) * a, b"),
    "rebuild puts a one into sums": ("neutral = ZERO if sums else ONE", "neutral = ONE"),
    "rebuild forgets what was removed on the right": (
        "a != field(block, tree, left, whole(NODE)) or b != field(block, tree, right, whole(NODE))",
        "a != field(block, tree, left, whole(NODE))",
    ),
    "a term loses its sign": (
        "return field(block, tree, entry, whole(NODE)) * field(block, tree, entry, whole(SIGN))",
        "return field(block, tree, entry, whole(NODE))",
    ),
    "times loses the sign of a reciprocal": (
        "d, whole(0)) * sign_of(b) * at(block, whole(SIGNS), m)",
        "d, whole(0)) * at(block, whole(SIGNS), m)",
    ),
    "times takes any quotient for a reciprocal": (
        " == DIVIDE and at(block, whole(ARGUMENTS), 3 * m) == ONE:",
        " == DIVIDE:",
    ),
    # normal forms
    "a sum of equal terms is one term": ("code, b = MULTIPLY, whole(TWO)", "return a"),
    "a negative sum is positive": (
        "sign, a, b = -1, -a, -b\n            return sign * intern",
        "a, b = -a, -b\n            return sign * intern",
    ),
    "equal branches are not compared": (
        "if b == c:\n            return b",
        "if abs(b) == abs(c):\n            return b",
    ),
    "the sign of a choice goes to one branch": (
        "if c != ZERO:\n                c = -c",
        "if c == ZERO:\n                c = -c",
    ),
    "odd functions are even": ("sign, a = -1, -a", "a = -a"),
    "all functions are even": ("elif properties & EVEN:", "else:"),
    "all operations commute": ("if properties & COMMUTATIVE and a > b:", "if b and a > b:"),
    "a quotient by itself is its dividend": ("return sign * ONE\n", "return sign * a\n", "(a * b) / b"),
    "a value over any root is the root": (" and at(block, whole(ARGUMENTS), 3 * b) == a:", ":"),
    "a square of a root is the root": ("return sign * at(block, whole(ARGUMENTS), 3 * a)", "return sign * a"),
    "products of one value are squares of roots": (
        "if a == b and at(block, whole(CODES), a) == SQRT",
        "if at(block, whole(CODES), a) == SQRT",
    ),
    "numbers are multiplied when they are to be added": (
        "return constant(block, number(block, a) + number(block, b))",
        "return constant(block, number(block, a) * number(block, b))",
    ),
    "constants lose their signs": ("return -value if a < 0 else value", "return value"),
    # moves
    "pairs of terms are subtracted": (
        "pair = make(block, whole(ADD), a, b, whole(0))",
        "pair = make(block, whole(ADD), a, -b, whole(0))",
    ),
    "a pair of factors is divided": (
        "pair = make(block, whole(MULTIPLY), x, y, whole(0))",
        "pair = make(block, whole(DIVIDE), x, y, whole(0))",
    ),
    "a quotient of factors is upside down": (
        "return times(block, make(block, whole(DIVIDE), y, x, whole(0)), rest)",
        "return times(block, make(block, whole(DIVIDE), x, y, whole(0)), rest)",
    ),
    "a pair is not divided by": (
        "return times(block, pair, rest) if above else make(block, whole(DIVIDE), rest, pair, whole(0))",
        "return times(block, pair, rest)",
    ),
    "factors are split off as divisors": (
        "if field(block, whole(0), i, whole(SIGN)) > 0:\n        return 0\n    set_field",
        "set_field",
    ),
    "divisors are common factors": (
        "\n                and field(block, whole(2), g, whole(SIGN)) == side",
        "",
    ),
    "a common factor loses the sign of a term": (
        "other = rebuild(block, whole(2), others, False) * field(block, whole(0), j, whole(SIGN))",
        "other = rebuild(block, whole(2), others, False)",
    ),
    "a common divisor is a factor": (
        "if side > 0 else make(block, whole(DIVIDE), inner, x, whole(0))",
        "",
    ),
    "a common factor forgets the other terms": (
        "return make(block, whole(ADD), product, rest, whole(0))",
        "return product",
    ),
    "a divisor is multiplied out": (
        "if field(block, tree, i, whole(SIGN)) < 0 or at(block, whole(CODES), n) != ADD:",
        "if at(block, whole(CODES), n) != ADD:",
    ),
    "multiplying out loses the sign of the sum": (
        "rest = rebuild(block, tree, count, False) * at(block, whole(SIGNS), n)",
        "rest = rebuild(block, tree, count, False)",
        NEGATIVE_SUM,
    ),
    "multiplying out takes one term twice": (
        "push(block, times(block, y, rest))",
        "push(block, times(block, x, rest))",
    ),
    "combining loses the sign of a sum": ("scale *= at(block, whole(SIGNS), m)", "scale *= 1.0", SHARED_TERMS),
    "combining loses the sign of a multiple": (
        "scale * number(block, a) * at(block, whole(SIGNS), m)",
        "scale * number(block, a)",
        SHARED_TERMS,
    ),
    "combining takes opposite coefficients for equal ones": (
        "value = other if get_float(coefficients, t) == scale else -other",
        "value = other",
        SHARED_TERMS,
    ),
    "combining multiplies coefficients": (
        "get_float(coefficients, k) + scale",
        "get_float(coefficients, k) * scale",
        SHARED_TERMS,
    ),
    "combining loses numbers": ("scale *= number(block, m)\n            m = ONE", "m = ONE", SHARED_TERMS),
    "sums of squares are differences of squares": (
        "return sign_a * ONE if angles and same else 0",
        "sign_b = -sign_a",
    ),
    "squares of sine and cosine of any angles are one": (
        "return sign_a * ONE if angles and same else 0",
        "return sign_a * ONE if angles else 0",
    ),
    "one less a sine's square is that": ("COS if code_y == SIN else SIN, at", "SIN if code_y == SIN else COS, at"),
    "a difference of squares loses its sign": (
        "return sign_a * make(block, whole(MULTIPLY), plus",
        "return make(block, whole(MULTIPLY), plus",
    ),
    "a product of sums is a sum of squares": (
        "square, -make(block, whole(MULTIPLY), y, y, whole(0)), whole(0))",
        "square, make(block, whole(MULTIPLY), y, y, whole(0)), whole(0))",
        "(a + b) * (a - b), (a - b) * (c + d) * (a + b)",
    ),
    "equal sums are conjugate": ("get(second, 1) != -y", "abs(get(second, 1)) != abs(y)"),
    # choices
    "conditions are not compared": (
        "if chosen_b and at(block, whole(ARGUMENTS), 3 * abs(b)) == condition:",
        "if chosen_b:",
    ),
    "an operation within a choice takes the wrong branch": (
        "b1 = sign_b * at(block, whole(ARGUMENTS), 3 * abs(b) + 1)",
        "b1 = sign_b * at(block, whole(ARGUMENTS), 3 * abs(b) + 2)",
    ),
    "a choice loses the sign of its node": (
        "sign_a *= at(block, whole(SIGNS), abs(a))\n        a1",
        "a1",
        NEGATIVE_CHOICE,
    ),
    "an operation within a choice loses its sign": (
        "make(block, whole(SELECT), condition, first, second) * at(block, whole(SIGNS), n)",
        "make(block, whole(SELECT), condition, first, second)",
    ),
    "branches are exchanged when a choice comes within": ("condition, u, v) * sign", "condition, v, u) * sign"),
    "what branches share loses its sign": (
        "chosen, side * sign * x, whole(0))",
        "chosen, side * x, whole(0))",
        BRANCHES,
    ),
    "branches share what they add and subtract": ("if other == side:", "if True:"),
    "sums as branches lose a sign": (
        "a1 * sign_a, a2 * sign_a, b1 * sign_b, b2 * sign_b",
        "a1 * sign_a, a2 * sign_a, b1, b2",
    ),
    "quotients commute as branches": (
        "if code != DIVIDE and pick(block, whole(2)):",
        "if pick(block, whole(2)):",
        BRANCHES,
    ),
    # the network
    "lookup does not compare the second argument": (
        " and get(row, 0) == a and get(row, 1) == b and",
        " and get(row, 0) == a and",
    ),
    "numbers are freed that are in the table": (
        "take_out(block, n)\n            put(get(block, FREED), n, 1)",
        "put(get(block, FREED), n, 1)",
    ),
    "taking out leaves a gap": ("write(block, table + 8 * hole, other)\n            hole = place", "pass"),
    "a definition does not hold its arguments": (
        "        link(block, 3 * n + k, argument)\n        hold(block, argument)",
        "        link(block, 3 * n + k, argument)",
    ),
    "a definition does not drop the old arguments": (
        "if arity > 1:\n        drop(block, abs(b))",
        "if arity > 3:\n        drop(block, abs(b))",
    ),
    "a definition loses the sign of the value": (
        "set_(block, whole(SIGNS), n, sign * at(block, whole(SIGNS), m))",
        "set_(block, whole(SIGNS), n, at(block, whole(SIGNS), m))",
    ),
    "merging loses the sign of a use": (
        "set_(block, whole(ARGUMENTS), place, sign_of(old) * v)",
        "set_(block, whole(ARGUMENTS), place, v)",
    ),
    "merging does not renew": (
        "put(get(block, QUEUE), count, user)\n            put(block, QUEUED_COUNT, count + 1)",
        "pass",
    ),
    "renewing loses the sign of a node": (
        "define(block, n, v * at(block, whole(SIGNS), n))",
        "define(block, n, v)",
        MERGED,
    ),
    "the first use is not counted": ("put(block, COST, get(block, COST) + at(block, whole(WEIGHTS), code))", "pass"),
    "sums take up products that others use, too": (
        "== MULTIPLY and at(block, whole(USES), m) == 1",
        "== MULTIPLY and at(block, whole(USES), m) > 0",
    ),
    "dead sums keep products": ("release(block, p)", "pass"),
    "undoing does not restore the cost": (
        "undo(block, whole(0))\n            put(block, COST, cost)",
        "undo(block, whole(0))",
    ),
    "undoing stops one write early": (
        "range(get(block, LOGGED) - 1, logged - 1, -1)",
        "range(get(block, LOGGED) - 1, logged, -1)",
    ),
    "links are not logged": ("set_(block, whole(HEADS), m, place)", "put(get(block, HEADS), m, place)"),
    "frozen nodes are rewritten": (
        "at(block, whole(USES), n) == 0 or at(block, whole(FROZEN), n)",
        "at(block, whole(USES), n) == 0",
    ),
    "sweeps take what costs more": (
        "change <= limit if not sweep else change < 0",
        "change <= limit if not sweep else change < 100",
    ),
    "subtraction is addition": ("code, b = ADD, -b", "code = ADD"),
    "the negative is the value": ("value = -a\n", "value = a\n"),
    "the best is kept without its signs": ("copy(get(block, BEST_SIGNS), get(block, SIGNS), count)", "pass"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_caught(name):
    text, replacement, *programs = MUTANTS[name]
    assert SOURCE.count(text) == 1, "this text is not in the kernel, or more than once"
    with pytest.raises((AssertionError, VerificationError, OutOfMemory, IndexError, KeyError, RecursionError)):
        for _ in networks(SOURCE.replace(text, replacement), *([programs, 150] if programs else [])):
            pass
