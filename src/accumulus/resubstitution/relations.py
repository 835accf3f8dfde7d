"""Relations between values of a program that shorten it: linear ones, and sines and cosines of sums.

**Linear relations** occur in matrices of low rank, and through conservation laws. A value that is computed by sums,
differences and products with numbers is a linear form in its *atoms*: inputs, and results of all other operations. If
the forms of a program are the rows of a matrix of low rank, most of them are combinations of a few, with fewer terms
than they have. A pivoted factorisation of the matrix finds the rows from which the others are best combined, and the
coefficients.

**Sums of angles.** cos(a)·cos(b) - sin(a)·sin(b) is cos(a + b). In a chain of links that rotate in one plane, most
values are of this kind, and one pair of functions of the sum replaces a pair of functions of a term and four products.
Such values are found numerically: the program runs at real points, and so do the sine and cosine of the sum and
difference of any two of its angles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accumulus.rewriting.canonical import canonical
from accumulus.tape.interpreter import outputs_at
from accumulus.tape.live import as_written, needed, seeing_zero_signs
from accumulus.tape.operations import BY_NAME
from accumulus.tape.tape import ADD, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT, Tape

#: Largest relative residual of a row that is a combination of others. A larger one proposes combinations that the
#: verification rejects, a smaller one misses those that rounding hides.
NOTHING: Final = 1e-13
#: Coefficients within this distance of a fraction with a small denominator are rounded to it. A larger distance or
#: denominator changes coefficients that are no such fractions, a smaller one keeps the rounding errors of the
#: elimination.
NEAR: Final = 1e-12
LARGEST_DENOMINATOR: Final = 8
#: Largest number of rows, and of columns, of a matrix: the time grows with its cube, and smaller matrices miss
#: relations. Without any, thirty functions take 1.002 times the operations (`make bench ARGS=sources`).
MOST: Final = 500

#: Coefficients by atom; the constant term belongs to `_ONE`.
Form = Mapping[int, float]
_ONE: Final = -1


class _Forms(NamedTuple):
    """Operations as linear forms."""

    forms: list[Form]  # form of each reference
    levels: list[int]  # depth of each in atoms: an atom is one level above the forms that it is computed from
    # True if it is a sum, a difference or a product with a number, and may be rewritten
    is_linear: list[bool]


class _Relation(NamedTuple):
    """A form as a combination of others: coefficients by reference, and a constant term."""

    terms: dict[int, float]
    constant: float


def with_relations(tape: Tape, kept_outputs: int = 0) -> Tape | None:
    """Return the program with forms written as combinations of others if that is cheaper; None if it never is.

    Args:
        tape: tape in canonical form.
        kept_outputs: number of leading outputs whose operations stay unchanged.
    """
    if len(seeing_zero_signs(tape)):
        return None  # rewritten values may have other signs of zeros
    structure = _forms(tape, kept_outputs)
    groups: dict[int, list[int]] = defaultdict(list)
    for reference in _roots(tape, structure):
        groups[structure.levels[reference]].append(reference)
    relations: dict[int, _Relation] = {}
    for roots in groups.values():
        for group in _connected(roots, structure.forms):
            relations |= _related(group, structure.forms)
    if not relations:
        return None
    rewritten = canonical(_rewritten(tape, structure, relations), kept_outputs)
    return rewritten if rewritten.operations < tape.operations else None


def _forms(tape: Tape, kept_outputs: int) -> _Forms:
    """Return the form of each reference in atoms; values that must be rounded as written, or have many, are atoms."""
    fixed = as_written(tape, kept_outputs)
    forms: list[Form] = [{k: 1.0} for k in range(tape.inputs)]
    levels, is_linear = [0] * tape.inputs, [False] * tape.inputs

    def form(reference: int) -> Form:
        return forms[reference] if reference >= 0 else {_ONE: tape.value_of(reference)}

    for reference in range(tape.inputs, len(tape)):
        arguments = tape.arguments(reference)
        combined = None if fixed[reference] else _combined(tape.codes[reference], [form(a) for a in arguments])
        if combined is not None and len(combined) > MOST:
            combined = None
        level = max((levels[a] for a in arguments if a >= 0), default=0)
        forms.append({reference: 1.0} if combined is None else combined)
        levels.append(level + (combined is None))
        is_linear.append(combined is not None)
    return _Forms(forms, levels, is_linear)


def _combined(code: int, arguments: list[Form]) -> Form | None:
    """Return the form of an operation on forms; None if it has none."""
    if code in (ADD, SUBTRACT):
        first, second = arguments
        sign = 1.0 if code == ADD else -1.0
        total = dict(first)
        for atom, coefficient in second.items():
            total[atom] = total.get(atom, 0.0) + sign * coefficient
        return {atom: coefficient for atom, coefficient in total.items() if coefficient}
    if code == NEGATIVE:
        return {atom: -coefficient for atom, coefficient in arguments[0].items()}
    factor = next((a[_ONE] for a in arguments if a.keys() == {_ONE}), None)
    if code == MULTIPLY and factor is not None:
        other = arguments[0] if arguments[1].keys() == {_ONE} else arguments[1]
        return {atom: factor * coefficient for atom, coefficient in other.items()}
    if code == DIVIDE and arguments[1].keys() == {_ONE} and arguments[1][_ONE]:
        return {atom: coefficient / arguments[1][_ONE] for atom, coefficient in arguments[0].items()}
    return None


def _roots(tape: Tape, structure: _Forms) -> Iterator[int]:
    """Yield linear forms of more than one atom that are outputs, or operands of nonlinear operations."""
    live, taken = needed(tape), set(tape.outputs)
    for reference in range(tape.inputs, len(tape)):
        if live[reference] and not structure.is_linear[reference]:
            taken.update(tape.arguments(reference))
    for reference in sorted(taken):
        if (
            reference >= tape.inputs
            and structure.is_linear[reference]
            and len(structure.forms[reference].keys() - {_ONE}) > 1
        ):
            yield reference


def _connected(roots: Iterable[int], forms: list[Form]) -> Iterator[list[int]]:
    """Yield roots in groups that have no atom in common."""
    groups: dict[int, tuple[list[int], set[int]]] = {}
    of_atom: dict[int, int] = {}
    for root in roots:
        atoms = forms[root].keys() - {_ONE}
        members, group_atoms = [root], set(atoms)
        for group in {of_atom[atom] for atom in atoms if atom in of_atom}:
            more, theirs = groups.pop(group)
            members += more
            group_atoms |= theirs
        groups[root] = members, group_atoms
        for atom in group_atoms:
            of_atom[atom] = root
    for members, group_atoms in groups.values():
        if 1 < len(members) <= MOST and len(group_atoms) <= MOST:
            yield sorted(members)


def _related(roots: list[int], forms: list[Form]) -> dict[int, _Relation]:
    """Return the relations of forms that are cheaper as combinations of others."""
    # the import takes a thirtieth of a second, and few programs need it
    from scipy.linalg import qr, solve_triangular

    atoms = sorted({atom for root in roots for atom in forms[root]} - {_ONE})
    column = {atom: k for k, atom in enumerate(atoms)}
    matrix = np.zeros((len(roots), len(atoms)))
    for row, root in enumerate(roots):
        for atom, coefficient in forms[root].items():
            if atom != _ONE:
                matrix[row, column[atom]] = coefficient
    constants = [forms[root].get(_ONE, 0.0) for root in roots]
    costs = [_operations(row, constant) for row, constant in zip(matrix.tolist(), constants, strict=True)]
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.square(matrix).sum(axis=1))
    if not np.isfinite(norms).all() or not norms.all():
        return {}
    # of rows at equal distance from the rows before, the cheaper one comes first
    sizes = norms * costs
    scaled = matrix / sizes[:, np.newaxis]
    triangle, order = qr(scaled.T, mode="r", pivoting=True, check_finite=False)
    rank = int(np.count_nonzero(np.abs(np.diag(triangle)) > NOTHING * abs(triangle[0, 0]) * len(atoms)))
    if rank == len(roots):
        return {}
    combined = solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:], check_finite=False)
    basis = order[:rank]
    relations = {}
    for row, scaled_weights in zip(order[rank:].tolist(), combined.T, strict=True):
        weights = np.array([_simple(w) for w in (scaled_weights * sizes[row] / sizes[basis]).tolist()])
        if np.abs(weights @ matrix[basis] - matrix[row]).max() > NOTHING * len(atoms) * norms[row]:
            continue
        terms = {roots[k]: w for k, w in zip(basis.tolist(), weights.tolist(), strict=True) if w}
        constant = constants[row] - sum(w * forms[k].get(_ONE, 0.0) for k, w in terms.items())
        if abs(constant) <= NOTHING * abs(constants[row]):
            constant = 0.0
        if _operations(terms.values(), constant) < costs[row]:
            relations[roots[row]] = _Relation(terms, constant)
    return relations


def _simple(weight: float) -> float:
    """Return a coefficient, or the simple fraction that it equals up to rounding."""
    nearest = Fraction(weight).limit_denominator(LARGEST_DENOMINATOR)
    return float(nearest) if abs(weight - nearest) <= NEAR * max(1.0, abs(weight)) else weight


def _operations(coefficients: Iterable[float] | NDArray[np.float64], constant: float) -> int:
    """Return an upper bound on the number of operations of a combination."""
    taken = [abs(float(c)) for c in coefficients if c]
    return len(taken) - 1 + sum(c != 1.0 for c in taken) + int(constant != 0.0)


def _rewritten(tape: Tape, structure: _Forms, relations: Mapping[int, _Relation]) -> Tape:
    """Return the program with the forms of `relations` computed by these, level by level."""
    written = Tape(tape.inputs)
    moved: dict[int, int] = {k: k for k in range(tape.inputs)}

    def new_reference(reference: int) -> int:
        return moved[reference] if reference >= 0 else written.constant(tape.value_of(reference))

    def write(references: Iterable[int]) -> None:
        for reference in references:
            if reference not in moved:
                moved[reference] = written.apply_code(
                    tape.codes[reference], [new_reference(a) for a in tape.arguments(reference)]
                )

    levels: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for reference in range(tape.inputs, len(tape)):
        levels[structure.levels[reference]][structure.is_linear[reference]].append(reference)
    for level in sorted(levels):
        atoms, linear = levels[level]
        write(atoms)
        # first the terms of combinations, with their operands; then the combinations; then all other values
        combinations = [reference for reference in linear if reference in relations]
        basis = {term for reference in combinations for term in relations[reference].terms}
        below = needed(tape, sorted(basis)) if basis else bytearray(len(tape))
        write(reference for reference in linear if below[reference])
        for reference in combinations:
            if reference not in moved:
                moved[reference] = _sum(written, moved, relations[reference])
        write(linear)
    written.outputs = [new_reference(output) for output in tape.outputs]
    return written


def _sum(tape: Tape, moved: Mapping[int, int], relation: _Relation) -> int:
    """Write a combination, and return its reference."""
    total = tape.constant(relation.constant) if relation.constant else None
    for reference, weight in relation.terms.items():
        term = moved[reference]
        if abs(weight) != 1.0:
            term = tape.multiply(tape.constant(abs(weight)), term)
        if total is None:
            total = term if weight > 0.0 else tape.negative(term)
        else:
            total = tape.add(total, term) if weight > 0.0 else tape.subtract(total, term)
    assert total is not None  # a row that is no combination of any is zero
    return total


# Sines and cosines of sums -------------------------------------------------------------------------------------------

#: Number of real points, and least number of them at which two equal values have to be defined. More points take time
#: for each value, fewer propose equalities by chance, which the verification rejects.
POINTS: Final = 24
DEFINED: Final = 8
#: Relative difference up to which values are equal: a larger one proposes equalities by chance, a smaller one misses
#: those of values with cancellation.
EQUAL: Final = 1e-9
#: Largest number of angles, including sums that are found: pairs of them take time in proportion to its square, and
#: with fewer, products of sines and cosines stay. Without sums, thirty functions take 1.003 times the operations (`make
#: bench ARGS=sources`).
MOST_SUMS: Final = 32
_SINE, _COSINE = BY_NAME["sin"].code, BY_NAME["cos"].code
_FIELD: Final = frozenset((ADD, SUBTRACT, MULTIPLY))

Reals = NDArray[np.float64]


class _Angle(NamedTuple):
    """An angle: a reference of the program, or the sum or difference of two angles."""

    at: Reals  # value at all points
    last: int  # last reference that it depends on
    terms: tuple[int, int, int] | None = None  # numbers of two angles, and the sign of the second


class _Function(NamedTuple):
    """A value as plus or minus the sine or cosine of an angle, given by its number."""

    code: int
    angle: int
    sign: int


def with_sums_of_angles(tape: Tape, kept_outputs: int = 0) -> Tape | None:
    """Return the program with sines and cosines of sums in place of their formulas; None if it has none.

    It need not be shorter: other values may still need the functions of the terms.

    Args:
        tape: tape in canonical form.
        kept_outputs: number of leading outputs whose operations stay unchanged.

    >>> from accumulus.rewriting.canonical import canonical
    >>> tape = Tape(2)
    >>> (s, t), (c, d) = ([tape.apply(name, x) for x in (0, 1)] for name in ("sin", "cos"))
    >>> tape.outputs = [tape.subtract(tape.multiply(c, d), tape.multiply(s, t))]
    >>> print(with_sums_of_angles(canonical(tape)))
    t2 = add(x0, x1)
    t3 = cos(t2)
    return t3
    """
    codes = np.array(tape.codes)
    trigonometric = np.flatnonzero((codes == _SINE) | (codes == _COSINE))
    # rewritten values may have other signs of zeros
    if not len(trigonometric) or len(seeing_zero_signs(tape)):
        return None
    # values of all references at random points
    all_of_it = tape.copy()
    all_of_it.outputs = list(range(len(tape)))
    values = outputs_at(all_of_it, np.random.default_rng(0).normal(size=(tape.inputs, POINTS)).T)
    fixed = np.frombuffer(as_written(tape, kept_outputs), bool)
    targets = np.flatnonzero(np.isin(codes, list(_FIELD)) & ~fixed)
    first = sorted({tape.first[r] for r in trigonometric.tolist() if tape.first[r] >= 0})
    angles = [_Angle(values[r], r) for r in first[:MOST_SUMS]]
    functions = _functions(angles, targets, values)
    return canonical(_with_functions(tape, angles, functions), kept_outputs) if functions else None


def _functions(angles: list[_Angle], targets: NDArray[np.int64], values: Reals) -> dict[int, _Function]:
    """Return the sines and cosines among values, by reference, and append new angles to `angles`."""
    functions: dict[int, _Function] = {}
    second = 0
    while second < len(angles):  # the list grows
        for first in range(second + 1):
            for sign in (1, -1) if first < second else (1,):
                at = angles[first].at + sign * angles[second].at
                last = max(angles[first].last, angles[second].last)
                number = next((k for k, angle in enumerate(angles) if _is_equal(at, angle.at)), len(angles))
                if number < len(angles):
                    at, last = angles[number].at, max(last, angles[number].last)
                elif len(angles) >= MOST_SUMS or any(_is_equal(at, -angle.at) for angle in angles):
                    continue
                behind = targets[targets > last]
                new = {
                    reference: _Function(code, number, way)
                    for code, expected in ((_SINE, np.sin(at)), (_COSINE, np.cos(at)))
                    for reference, way in _matches(expected, behind, values)
                    if reference not in functions
                }
                functions |= new
                if new and number == len(angles):
                    angles.append(_Angle(at, last, (first, second, sign)))
        second += 1
    return functions


def _matches(expected: Reals, targets: NDArray[np.int64], values: Reals) -> list[tuple[int, int]]:
    """Return references whose value is plus or minus the given one, with the sign."""
    near = targets[np.abs(np.abs(values[targets, 0]) - np.abs(expected[0])) <= EQUAL]
    return [(r, way) for r in near.tolist() for way in (1, -1) if _is_equal(values[r], way * expected)]


def _is_equal(one: Reals, two: Reals) -> bool:
    both = np.isfinite(one) & np.isfinite(two)
    return bool(both.sum() >= DEFINED and (np.abs(one - two)[both] <= EQUAL * (1.0 + np.abs(two[both]))).all())


def _with_functions(tape: Tape, angles: list[_Angle], functions: dict[int, _Function]) -> Tape:
    """Return the program with these values computed as functions of sums."""
    written = Tape(tape.inputs)
    moved = list(range(tape.inputs))

    def new_reference(reference: int) -> int:
        return moved[reference] if reference >= 0 else written.constant(tape.value_of(reference))

    def angle(number: int) -> int:
        terms = angles[number].terms
        if terms is None:
            return moved[angles[number].last]
        one, two = angle(terms[0]), angle(terms[1])
        return written.add(one, two) if terms[2] > 0 else written.subtract(one, two)

    for reference in range(tape.inputs, len(tape)):
        function = functions.get(reference)
        if function is None:
            made = written.apply_code(tape.codes[reference], [new_reference(a) for a in tape.arguments(reference)])
        else:
            made = written.apply_code(function.code, [angle(function.angle)])
            made = made if function.sign > 0 else written.negative(made)
        moved.append(made)
    written.outputs = [new_reference(output) for output in tape.outputs]
    return written
