"""The compiled kernel against itself as Python, what must hold after every move, and kernels with one mistake each.

Each mistake is one change of the kernel's text. It is caught if a search with that kernel breaks what
`interpreted.check` asks for, reaches for memory that is not its own, does not end, or arrives at another program, which
`verify` refuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import interpreted
import numpy as np
import pytest
from contexts import verify
from expressions import written
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import IN_SEARCH, UNIT, with_folding
from interpreted import SOURCES, OutOfMemory, changed, check, running, state
from strategies import tapes

from accumulus import Tape
from accumulus.errors import VerificationError
from accumulus.rewriting.canonical import canonical
from accumulus.rewriting.compiled.rewrite_nodes import RewriteState

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
    "definition_hash(code, a, b, c, state.table_bits)\n": "definition_hash(code, a, b, c, state.table_bits) & 15\n",
    "state.choices and pick(state, 48) == 0": "state.choices and pick(state, 4) == 0",
}


def crowded(sources: Mapping[str, str]) -> Mapping[str, str]:
    for text, replacement in HARMLESS.items():
        sources = changed(sources, text, replacement)
    return sources


#: Programs for mistakes that show on few others.
NEGATIVE_SUM = "(b - c - d) * a + b"
NEGATIVE_CHOICE = "(c - select(u, a, b)) * exp(d), (c - select(u, a, b)) / exp(d), (c - select(u, a, b)) + sin(d)"
MERGED = "(b - c - a * d * d) * (b - c - d * (a * d)) * a"
NEGATIVE_CHOICE = NEGATIVE_CHOICE.replace("u", "less(a, b)")
SHARED_TERMS = "3 * a + 5 * (b - a - c) + 5 * d + 7 - (2 * a - 4), -2 * (c - b) + 2 * (b + a) - 3 * (d - b) - 1"
NUMBERED = "a / 3 * 7 + b / (c / 5) * 0.1, (a * 0.1) * (b / 7), ((a + 0.1) + 0.2) * 3 / 0.7 - 3 / a, a / 3 - b / 7"
BRANCHES = "c - select(less(a, b), a + d, b + d), select(less(a, b), a / b, c / d)"


def networks(sources: Mapping[str, str] | None, programs: Sequence[str] = TEXTS, seeds: int = 2) -> Iterator[str]:
    """Search on each of the programs with a kernel, and check what it does; yields names of what was done."""
    for seed in range(seeds):
        for number, program in enumerate(programs):
            tape = canonical(with_folding(written(program)))
            kept_outputs = 1 if (number + seed) % 2 else 0
            other = crowded if sources and seed else dict
            with running(sources and other(sources), PATIENCE, check, other(SOURCES)):
                network = interpreted.Network(tape, IN_SEARCH, kept_outputs=kept_outputs, seed=seed)
            verify(tape, network.emitted())
            yield "build"
            before = network.cost
            network.sweep(2 * network.size, inline=0.1 * seed)
            assert network.cost <= before, "a sweep takes what wins"
            verify(tape, network.emitted())
            yield "sweep"
            for step in range(STEPS):  # so hot that every move is accepted
                network.anneal(VISITS, UNIT * 1e6, UNIT * 1e6, 0.1)
                now(network, tape)
                yield f"walk {step}"
            network.anneal(2 * VISITS, UNIT * 0.8, UNIT * 0.2, 0.1)
            verify(tape, network.emitted())
            yield "anneal"


def now(network: Any, tape: Tape) -> None:
    """Verify the network as it is, too, not only the best that was found."""
    state = network._state
    pairs = [(f"best_{name}", name) for name in ("codes", "arguments", "signs", "next")]
    snapshot = {best: np.copy(getattr(state, best)) for best, _ in pairs}
    for best, name in pairs:
        put(state, best, getattr(state, name))
    verify(tape, network.emitted())
    for best, value in snapshot.items():
        put(state, best, value)


def put(state: RewriteState, name: str, value: Any) -> None:
    """Let an array of a state, or a number, be equal to another."""
    if np.ndim(value):
        getattr(state, name)[:] = value
    else:
        setattr(state, name, int(value))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("program", TEXTS)
def test_the_kernel_itself_passes(program):
    assert len(list(networks(SOURCES, [program]))) == len(list(networks(None, [program]))) > 0


def test_the_kernel_itself_passes_on_programs_for_mistakes():
    for program in (NEGATIVE_SUM, NEGATIVE_CHOICE, MERGED, BRANCHES, SHARED_TERMS, NUMBERED):
        assert list(networks(None, [program], 4))


@settings(max_examples=6)
@given(
    tape=tapes(max_inputs=3, max_operations=30, names=ALGEBRA), seed=st.integers(0, 5), kept_outputs=st.integers(0, 2)
)
def test_interpreted_and_compiled_kernels_agree_word_by_word(tape, seed, kept_outputs):
    tape, states = canonical(tape), []
    kept_outputs = min(kept_outputs, len(tape.outputs))
    for sources in (SOURCES, None):
        with running(sources, after=check):
            network = interpreted.Network(tape, IN_SEARCH, kept_outputs=kept_outputs, seed=seed)
        network.sweep(2 * network.size, 0.05)
        network.anneal(600, UNIT * 0.8, UNIT * 0.2, 0.1)
        states.append(state(network))
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        np.testing.assert_array_equal(value, states[1][name], name)


#: What a mistake is called, the kernel's text, and what is put in its place. Each text is there exactly once.
MUTANTS = {
    # trees of sums and products
    "gather loses the sign of a sum": ("sign *= state.signs[n]\n                    enter", "enter"),
    "gather loses the sign of a second term": (
        "tree[count + 1], abs(b), sign * sign_of(b))",
        "tree[count + 1], abs(b), sign)",
    ),
    "gather takes divisors for factors": ("-sign if code == DIVIDE else sign)", "sign)"),
    "gather opens no divisors within divisors": ("abs(b), -sign if code == DIVIDE", "abs(b), -1 if code == DIVIDE"),
    "rebuild loses the sign of a node": (
        "sign_of(x) * a, sign_of(y) * b, 0) * state.signs[n]",
        "sign_of(x) * a, sign_of(y) * b, 0)",
    ),
    "rebuild loses the sign of an argument": ("sign_of(x) * a, sign_of(y) * b", "sign_of(x) * a, b"),
    "rebuild puts a one into sums": ("neutral = ZERO if sums else ONE", "neutral = ONE"),
    "rebuild forgets what was removed on the right": ("if a != left.node or b != right.node:", "if a != left.node:"),
    "a term loses its sign": ("return entry.node * entry.sign", "return entry.node"),
    "times loses the sign of a reciprocal": (
        "state.arguments[m, 1]) * sign_of(b) * sign",
        "state.arguments[m, 1]) * sign",
    ),
    "times takes any quotient for a reciprocal": (
        " == DIVIDE and state.arguments[m, 0] == ONE:",
        " == DIVIDE:",
    ),
    # normal forms
    "a sum of equal terms is one term": ("return make_product(state, a, TWO)", "return a"),
    "a negative sum is positive": ("sign, a, b = -1, -a, -b", "a, b = -a, -b"),
    "equal branches are not compared": ("if b == c:\n        return b", "if abs(b) == abs(c):\n        return b"),
    "the sign of a choice goes to one branch": (
        "if c != ZERO:\n            c = -c",
        "if c == ZERO:\n            c = -c",
    ),
    "odd functions are even": ("sign, a = -1, -a", "a = -a"),
    "all functions are even": ("elif properties & EVEN:", "else:"),
    "all operations commute": ("if properties & COMMUTATIVE and a > b:", "if b and a > b:"),
    "a quotient by itself is its dividend": ("return sign * ONE\n", "return sign * a\n", "(a * b) / b"),
    "a value over any root is the root": (" and state.arguments[b, 0] == a:", ":"),
    "a square of a root is the root": ("return sign * under", "return sign * a"),
    "products of one value are squares of roots": (
        "if a == b and state.codes[a] == SQRT",
        "if state.codes[a] == SQRT",
    ),
    "numbers are multiplied when they are to be added": (
        "place = number_sum(state, place_of(state, a), place_of(state, b))",
        "place = number_product(state, place_of(state, a), place_of(state, b))",
        NUMBERED,
    ),
    "numbers are divided when they are to be multiplied": (
        "place = number_product(state, place_of(state, a), place_of(state, b))",
        "place = number_quotient(state, place_of(state, a), place_of(state, b))",
        NUMBERED,
    ),
    "a quotient of numbers is upside down": (
        "place = number_quotient(state, over, place_of(state, b))",
        "place = number_quotient(state, place_of(state, b), over)",
        NUMBERED,
    ),
    "a quotient of numbers is a reciprocal": (
        "over = place_of(state, a) if is_constant_node(state, a) else ONE",
        "over = ONE",
        "(a * 3) / (b * 7), 3 / 7 * c, (3 / a) / (7 / b)",
    ),
    "a factor replaces a divisor as it is": (
        "            b = constant_node(state, place)\n            if a > b:",
        "            if a > b:",
        NUMBERED,
    ),
    "constants lose their signs": ("return -place if a < 0 else place", "return place", SHARED_TERMS),
    "numbers of the program lose their signs": (
        "return constant_node(state, state.given[-1 - reference])",
        "return constant_node(state, abs(state.given[-1 - reference]))",
        SHARED_TERMS,
    ),
    # moves
    "pairs of terms are subtracted": (
        "pair = make_sum(state, a, b)",
        "pair = make_sum(state, a, -b)",
    ),
    "a pair of factors is divided": (
        "pair = make_product(state, x, y)",
        "pair = make_quotient(state, x, y)",
    ),
    "a quotient of factors is upside down": (
        "return multiplied(state, make_quotient(state, y, x), rest)",
        "return multiplied(state, make_quotient(state, x, y), rest)",
    ),
    "a pair is not divided by": (
        "return multiplied(state, pair, rest) if above else make_quotient(state, rest, pair)",
        "return multiplied(state, pair, rest)",
    ),
    "factors are split off as divisors": ("if state.tree[i].sign > 0:\n        return 0\n    state", "state"),
    "divisors are common factors": (" and entry.node == x and entry.sign == side", " and entry.node == x"),
    "a common factor loses the sign of a term": (
        "other = rebuild(state, state.other, other_factors, False) * state.tree[j].sign",
        "other = rebuild(state, state.other, other_factors, False)",
    ),
    "a common divisor is a factor": (
        "if side > 0 else make_quotient(state, inner, x)",
        "",
    ),
    "a common factor forgets the other terms": (
        "return make_sum(state, product, rest)",
        "return product",
    ),
    "a divisor is multiplied out": (
        "if tree[i].sign < 0 or state.codes[n] != ADD:",
        "if state.codes[n] != ADD:",
    ),
    "multiplying out loses the sign of the sum": (
        "rest = rebuild(state, tree, count, False) * state.signs[n]",
        "rest = rebuild(state, tree, count, False)",
        NEGATIVE_SUM,
    ),
    "multiplying out takes one term twice": (
        "push(state, multiplied(state, y, rest))",
        "push(state, multiplied(state, x, rest))",
    ),
    "combining loses the sign of a sum": ("scale *= state.signs[m]", "scale *= 1", SHARED_TERMS),
    "combining loses the sign of a multiple": (
        "place_of(state, a)) * state.signs[m]",
        "place_of(state, a))",
        SHARED_TERMS,
    ),
    "combining takes opposite coefficients for equal ones": (
        "value = other.node if other.coefficient == scale else -other.node",
        "value = other.node",
        SHARED_TERMS,
    ),
    "combining multiplies coefficients": (
        "scale = number_sum(state, terms[k].coefficient, scale)",
        "scale = number_product(state, terms[k].coefficient, scale)",
        SHARED_TERMS,
    ),
    "combining loses numbers": (
        "            scale = number_product(state, scale, place_of(state, m))\n            m = ONE",
        "            m = ONE",
        SHARED_TERMS,
    ),
    "combining keeps multiples of which no number is known": (
        "            if scale == 0:\n                return 0\n            put(waiting[left], b, scale)",
        "            put(waiting[left], b, scale)",
        "3e200 * (1e200 * a + b) + c * 1e150 * 1e200 - 1e200 * (3e200 * (a + c))",
    ),
    "sums of squares are differences of squares": (
        "return sign_a * ONE if angles and same else 0",
        "sign_b = -sign_a",
    ),
    "squares of sine and cosine of any angles are one": (
        "return sign_a * ONE if angles and same else 0",
        "return sign_a * ONE if angles else 0",
    ),
    "one less a sine's square is that": (
        "COS if code_y == SIN else SIN, state",
        "SIN if code_y == SIN else COS, state",
    ),
    "a difference of squares loses its sign": (
        "return sign_a * make_product(state, plus",
        "return make_product(state, plus",
    ),
    "a product of sums is a sum of squares": (
        "square, -make_product(state, y, y))",
        "square, make_product(state, y, y))",
        "(a + b) * (a - b), (a - b) * (c + d) * (a + b)",
    ),
    "equal sums are conjugate": ("state.arguments[b, 1] != -y", "abs(state.arguments[b, 1]) != abs(y)"),
    # choices
    "conditions are not compared": (
        "if chosen_b and state.arguments[abs(b), 0] == condition:",
        "if chosen_b:",
    ),
    "an operation within a choice takes the wrong branch": (
        "b1 = sign_b * state.arguments[abs(b), 1]",
        "b1 = sign_b * state.arguments[abs(b), 2]",
    ),
    "a choice loses the sign of its node": (
        "sign_a *= state.signs[abs(a)]\n        a1",
        "a1",
        NEGATIVE_CHOICE,
    ),
    "an operation within a choice loses its sign": (
        "make_choice(state, condition, first, second) * sign",
        "make_choice(state, condition, first, second)",
    ),
    "branches are exchanged when a choice comes within": ("condition, u, v) * sign", "condition, v, u) * sign"),
    "what branches share loses its sign": (
        "chosen, side * sign * x)",
        "chosen, side * x)",
        BRANCHES,
    ),
    "branches share what they add and subtract": ("if other == side:", "if True:"),
    "sums as branches lose a sign": (
        "a1 * sign_a, a2 * sign_a, b1 * sign_b, b2 * sign_b",
        "a1 * sign_a, a2 * sign_a, b1, b2",
    ),
    "quotients commute as branches": (
        "if code != DIVIDE and pick(state, 2):",
        "if pick(state, 2):",
        BRANCHES,
    ),
    # the network
    "lookup does not compare the second argument": (" and arguments[n, 1] == b and", " and"),
    "numbers are freed that are in the table": (
        "take_out(state, n)\n            state.freed[n] = 1",
        "state.freed[n] = 1",
    ),
    "taking out leaves a gap": ("table[hole] = other\n            hole = slot", "pass"),
    "a definition does not hold its arguments": (
        "        link(state, 3 * n + k, argument)\n        hold(state, argument)",
        "        link(state, 3 * n + k, argument)",
    ),
    "a definition does not drop the old arguments": (
        "if arity > 1:\n        drop(state, abs(b))",
        "if arity > 3:\n        drop(state, abs(b))",
    ),
    "a definition loses the sign of the value": (
        "logged(state).signs[n] = sign * state.signs[m]",
        "logged(state).signs[n] = state.signs[m]",
    ),
    "merging loses the sign of a use": ("sign_of(state.arguments[user, k]) * v", "v"),
    "merging does not renew": ("state.queue[state.queue_count] = user\n            state.queue_count += 1", "pass"),
    "renewing loses the sign of a node": (
        "define(state, n, v * state.signs[n])",
        "define(state, n, v)",
        MERGED,
    ),
    "the first use is not counted": ("state.cost += state.weights[code]\n", "pass\n"),
    "sums take up products that others use, too": (
        "== MULTIPLY and state.uses[m] == 1",
        "== MULTIPLY and state.uses[m] > 0",
    ),
    "dead sums keep products": ("release(state, p)", "pass"),
    "undoing does not restore the cost": (
        "undo(state, 0)\n            state.cost = cost",
        "undo(state, 0)",
    ),
    "undoing stops one write early": ("undo(state, 0)", "undo(state, 1)"),
    "links are not logged": ("written.heads[m] = use", "state.heads[m] = use"),
    "frozen nodes are rewritten": (
        "state.uses[n] == 0 or state.frozen[n]",
        "state.uses[n] == 0",
    ),
    "sweeps take what costs more": (
        "change <= limit if not sweep else change < 0",
        "change <= limit if not sweep else change < 100",
    ),
    "subtraction is addition": ("code, b = ADD, -b", "code = ADD"),
    "the negative is the value": ("value = -a\n", "value = a\n"),
    "the best is kept without its signs": ("copy(state.best_signs, state.signs, count)", "pass"),
}


def test_texts_of_mistakes_are_in_the_kernel():
    """Those of all mistakes, of which a plain run makes a few."""
    for name, (text, *_) in MUTANTS.items():
        assert sum(source.count(text) for source in SOURCES.values()) == 1, name


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", MUTANTS)
def test_caught(name):
    text, replacement, *programs = MUTANTS[name]
    sources = changed(SOURCES, text, replacement)
    with pytest.raises((AssertionError, VerificationError, OutOfMemory, IndexError, KeyError, RecursionError)):
        for _ in networks(sources, *([programs, 150] if programs else [])):
            pass
