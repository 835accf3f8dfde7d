"""Square roots of products of values that are not negative, in other forms.

√(a²·b) is a·√b where a is not negative, and √(a·b) is √a · √b where neither is. No rule of the search knows signs, so
programs in these forms are written here, and verified like all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from accumulus.rewriting.canonical import LARGEST_CHAIN, canonical
from accumulus.tape.interpreter import applied
from accumulus.tape.live import signed_zeros
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, Tape

#: Largest number of operations of a tape in other forms. Python visits each: a larger number takes time for long tapes,
#: a smaller one leaves their roots.
MOST: Final = 20_000
_SQRT: Final = BY_NAME["sqrt"].code


def forms_of_roots(tape: Tape, nonnegative: Collection[int]) -> Iterator[Tape]:
    """Yield the tape with roots of squares taken, and with the root of each factor; in canonical form.

    Args:
        tape: tape in canonical form.
        nonnegative: references of values that are not negative.

    >>> tape = Tape(2)
    >>> tape.outputs = [tape.apply("sqrt", tape.multiply(tape.multiply(0, 0), 1))]
    >>> print(next(forms_of_roots(tape, [0])))
    t2 = sqrt(x1)
    t3 = multiply(x0, t2)
    return t3
    """
    if _SQRT not in tape.codes or tape.operations > MOST:
        return
    known = set(nonnegative) | {-k for k, constant in enumerate(tape.constants, 1) if constant > 0.0}
    for r in range(tape.inputs, len(tape)):
        if tape.codes[r] in (ADD, MULTIPLY, DIVIDE) and known.issuperset(tape.arguments(r)):
            known.add(r)
    for is_split in (False, True):
        made = tape.emptied()
        places = {k: k for k in range(-len(tape.constants), tape.inputs)}
        signed = signed_zeros(tape).tolist()
        for r in range(tape.inputs, len(tape)):
            made.signed_zeros = signed[r]
            factors = _factors(tape, tape.first[r]) if tape.codes[r] == _SQRT else Counter()
            outside = {a: int(power / 2) for a, power in factors.items() if a in known}
            is_long = max(map(abs, outside.values()), default=0) > LARGEST_CHAIN
            if is_long or not (any(outside.values()) or (is_split and len(factors) > 1)):
                places[r] = applied(made, tape.codes[r], [places[a] for a in tape.arguments(r)])
                continue
            within = {a: power - 2 * outside.get(a, 0) for a, power in factors.items()}
            product = _product(made, outside, places)
            for a in [a for a in within if is_split and a in known]:
                root = {a: made.apply("sqrt", places[a])}
                product = _product(made, {a: within.pop(a)}, root, product)
            if any(within.values()):
                product = made.multiply(product, made.apply("sqrt", _product(made, within, places)))
            places[r] = product
        made.signed_zeros = False
        made.outputs = [places[output] for output in tape.outputs]
        yield canonical(made)


def _factors(tape: Tape, radicand: int) -> Counter[int]:
    """Return the factors of a radicand, with their powers."""
    factors, waiting = Counter[int](), Counter({radicand: 1})
    while waiting:
        r = max(waiting)  # its users have been opened
        power = waiting.pop(r)
        if r >= tape.inputs and tape.codes[r] in (MULTIPLY, DIVIDE):
            one, other = tape.arguments(r)
            waiting[one] += power
            waiting[other] += power if tape.codes[r] == MULTIPLY else -power
        else:
            factors[r] = power
    return factors


def _product(tape: Tape, powers: dict[int, int], places: dict[int, int], product: int | None = None) -> int:
    """Return the product of powers of values, on another tape, and of a further value there."""
    product = tape.constant(1.0) if product is None else product
    for a, power in powers.items():
        if power:
            part = tape.power(places[a], tape.constant(abs(power)))
            product = (tape.multiply if power > 0 else tape.divide)(product, part)
    return product
