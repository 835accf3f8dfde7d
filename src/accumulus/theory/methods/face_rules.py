"""The further face rules of the notes (section 1), each behind the condition under which it keeps the Jacobian.

All three are an interior vertex split followed by what face elimination does anyway; that is their proof, and their
implementation. A split sends every path through exactly one of the two copies; elimination of a face replaces the
paths through it by paths through its product; vertices with equal P and S merge. None of these changes the sum over
all paths between any root and any terminal.

The rules, the conditions and why they are necessary are in docs/notes.md, section 1. *Absorption* splits j into j' with
S_k and j with the rest, then eliminates ⟨i,j'⟩, which k absorbs: the printed rule is the same exactly if j' is isolated
then, P_j = {i}; `absorb` raises unless it is, or makes the split of j first. *Fill-in* splits k into k' with S_j and k
with the rest, then eliminates ⟨i,j⟩, which k' absorbs. *Merge* splits k into k' with P_i and k with the rest, then k'
merges with i. Each has its mirror image.

Absorption and fill-in take one product, merge none. Absorption leaves ⟨i,j⟩ to be multiplied again for the rest of
S_j; fill-in and merge may make k match where it did not before.
"""

from __future__ import annotations

from typing import Final

from accumulus.elimination.face import FaceElimination
from accumulus.errors import OrderError

_COVERS: Final = "P_k = P_i and S_k ⊃ S_j, or P_k ⊃ P_i and S_k = S_j"


def absorb(elimination: FaceElimination, i: int, j: int, k: int, *, split: bool = False) -> int:
    """Absorb the part of face ⟨i,j⟩ that k covers into k; the face stays.

    Either P_k = P_i, S_k ⊂ S_j and P_j = {i}, and S_j loses S_k; or S_k = S_j, P_k ⊂ P_i and S_i = {j}, and P_i
    loses P_k.

    Args:
        split: where P_j ≠ {i} (S_i ≠ {j}), split j (i) first, so that what else goes through it stays.

    Returns:
        the vertex that now holds k's label.

    Raises:
        OrderError: if there is no such face, k does not fit, or the condition fails and `split` is false.
    """
    elimination.check_face(i, j)
    _check_vertex(elimination, k)
    P, S = elimination.predecessors, elimination.successors
    if P[k].keys() == P[i].keys() and S[k].keys() < S[j].keys():
        if len(P[j]) > 1 and not split:
            raise OrderError(_refusal(elimination, i, j, k, j, "predecessor", "S_j would lose S_k for them too"))
        return elimination.eliminate(i, elimination.split(j, successors=S[k]))
    if S[k].keys() == S[j].keys() and P[k].keys() < P[i].keys():
        if len(S[i]) > 1 and not split:
            raise OrderError(_refusal(elimination, i, j, k, i, "successor", "P_i would lose P_k for them too"))
        return elimination.eliminate(elimination.split(i, predecessors=P[k]), j)
    raise _misfit(elimination, i, j, k, "absorb", "P_k = P_i and S_k ⊂ S_j, or P_k ⊂ P_i and S_k = S_j")


def fill_in(elimination: FaceElimination, i: int, j: int, k: int) -> int:
    """Eliminate face ⟨i,j⟩ into the part of k that it covers: P_k = P_i and S_k ⊃ S_j, or P_k ⊃ P_i and S_k = S_j.

    Returns:
        the vertex with P_i and S_j, labelled c_i c_j + c_k.

    Raises:
        OrderError: if there is no such face, or k does not fit.
    """
    elimination.check_face(i, j)
    _check_vertex(elimination, k)
    P, S = elimination.predecessors, elimination.successors
    if P[k].keys() == P[i].keys() and S[k].keys() > S[j].keys():
        elimination.split(k, successors=S[j])
    elif S[k].keys() == S[j].keys() and P[k].keys() > P[i].keys():
        elimination.split(k, predecessors=P[i])
    else:
        raise _misfit(elimination, i, j, k, "fill in", _COVERS)
    return elimination.eliminate(i, j)


def merge_equal(elimination: FaceElimination, i: int, k: int) -> int:
    """Merge the part of k that equals i with i: P_k ⊃ P_i and S_k = S_i, or P_k = P_i and S_k ⊃ S_i.

    (Where both are equal the two are one vertex already.)

    Returns:
        the vertex that now holds c_i + c_k.

    Raises:
        OrderError: if i and k are the same, or k does not fit.
    """
    _check_vertex(elimination, i)
    _check_vertex(elimination, k)
    P, S = elimination.predecessors, elimination.successors
    if S[k].keys() == S[i].keys() and P[k].keys() > P[i].keys():
        elimination.split(k, predecessors=P[i])
    elif P[k].keys() == P[i].keys() and S[k].keys() > S[i].keys():
        elimination.split(k, successors=S[i])
    else:
        raise OrderError(
            f"cannot merge {elimination.name(k)} with {elimination.name(i)}: expected another vertex with P_k ⊃ P_i "
            "and S_k = S_i, or P_k = P_i and S_k ⊃ S_i"
        )
    return elimination.resolve(i)


def _check_vertex(elimination: FaceElimination, v: int) -> None:
    if v not in elimination:
        raise OrderError(f"{elimination.name(v)} is not an inner vertex of the line graph (any more)")


def _misfit(elimination: FaceElimination, i: int, j: int, k: int, what: str, expected: str) -> OrderError:
    face = f"({elimination.name(i)}, {elimination.name(j)})"
    return OrderError(f"cannot {what} face {face} with k = {elimination.name(k)}: expected {expected}")


def _refusal(elimination: FaceElimination, i: int, j: int, k: int, end: int, others: str, loss: str) -> OrderError:
    face = f"({elimination.name(i)}, {elimination.name(j)})"
    return OrderError(
        f"cannot absorb face {face} into {elimination.name(k)}: {elimination.name(end)} has more than one {others}, "
        f"and {loss}; give split=True to split it first"
    )
