"""Loops with a state, `accumulus.scan`, whose step is recorded once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from accumulus.errors import ArgumentError
from accumulus.frontends.active import ACTIVE
from accumulus.frontends.inner import LongBodyError
from accumulus.frontends.kinds import StandIn
from accumulus.frontends.location import name_of
from accumulus.frontends.numpy.arrays import TracedArray, make
from accumulus.frontends.numpy.bodies import Body, as_numbers, recorded_body
from accumulus.frontends.numpy.operands import depends, entries_of, references_of
from accumulus.frontends.numpy.patching import patched, replaced
from accumulus.frontends.numpy.scalars import Traced
from accumulus.frontends.trees import Branch, Constant, Leaf, Structure, flatten, leaf_paths, opened, unflatten
from accumulus.tape.columns import Column, Range, column
from accumulus.tape.interpreter import Writing
from accumulus.tape.program import LONG
from accumulus.tape.tape import Tape

#: Maximum number of operations of a step that is recorded as a body; longer steps are operations on arrays. Longer
#: bodies take longer to differentiate and compile, shorter ones leave more steps written out.
LONGEST_BODY: Final = 5_000


def scan(
    f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Run steps ``carry, y = f(carry, x)`` for each entry along the first axis in order, like ``jax.lax.scan``.

    While a derivative is prepared, `f` is recorded once, independently of the number of steps, and becomes one loop.
    Derivatives go through the steps forward or in reverse, whichever takes fewer products. `f` may use variables of the
    enclosing function, including traced values. It cannot use its arguments as indices.

    Args:
        f: function of the state and of one entry of `xs`. It returns the next state, and a result of this step or None.
        init: initial state: a number, an array of any shape, or lists, tuples and dicts of these.
        xs: arrays of shape (steps, …), a list, tuple or dict of such arrays, or None. `f` receives their entries of
            shape (…) in the same structure.
        length: number of steps; required if `xs` is None.
        reverse: True to begin with the last entry. Results are in the order of `xs` in either case.

    Returns:
        The final state, and the results of all steps with an additional leading axis of steps.

    Raises:
        ArgumentError: for arguments that are not such arrays, and for steps that change the structure or shape of the
            state.

    >>> import numpy as np
    >>> import accumulus as acc
    >>> def last(angle, strength):
    ...     def step(state, _):
    ...         angle, speed = state
    ...         speed = speed - 0.01 * strength * np.sin(angle)
    ...         return (angle + 0.01 * speed, speed), None
    ...     (angle, speed), _ = acc.scan(step, (angle, 0.0), length=1_000)
    ...     return angle
    >>> d_angle, d_strength = acc.gradient(last, argnums=(0, 1))(0.5, 1.0)
    >>> print(f"{d_angle:.6f} {d_strength:.6f}")
    -1.041202 1.005316
    """
    if not callable(f):
        raise ArgumentError(
            f"f is {f!r:.60}; expected a function of the state that the step before returned, and of one entry"
        )
    steps = _Steps.of(f, init, xs, length, reverse)
    tape = ACTIVE.tape
    if tape is None or not steps.count or steps.entries > LONG:
        return steps.one_by_one(f, tape)
    try:
        body = steps.body(f, tape)
    except LongBodyError:
        return steps.one_by_one(f, tape)
    constant = not (depends(init) or depends(xs) or len(body.taken))
    if constant or body.tape.operations > LONGEST_BODY:
        return steps.one_by_one(f, tape)
    if tape.in_loops(0, steps=steps.count * max(body.tape.operations, 1)):
        return steps.results(tape, body, *_in_blocks(tape, steps, body))
    return steps.results(tape, body, *_written_out(tape, steps, body))


@dataclass(frozen=True, slots=True)
class _Steps:
    """Initial state and entries of the steps."""

    name: str  # of the function
    # structures of the state and of an entry; None if there are no entries
    carry: Structure
    entry: Structure | None
    begin: list[tuple[str, Any]]  # leaves of the initial state, each with its path
    leaves: list[Any]  # leaves of the entries of all steps
    order: range  # indices of the entries, in the order of the steps

    @classmethod
    def of(cls, f: Any, init: Any, xs: Any, length: int | None, reverse: bool) -> _Steps:
        name = name_of(f)
        carry, begin = flatten(init)
        for path, leaf in begin:
            if not isinstance(leaf, StandIn) and (leaf is None or np.asarray(leaf).dtype.kind not in "fiubcO"):
                raise ArgumentError(
                    f"{name} begins with {type(leaf).__name__} {leaf!r:.60} at carry{path}; expected numbers, or "
                    "arrays of them"
                )
        structure, named_leaves = (None, []) if xs is None else flatten(xs)
        lengths = {} if length is None else {"length": length}
        leaves = []
        for path, leaf in named_leaves:
            array = leaf if isinstance(leaf, StandIn) else np.asarray(leaf)
            if (not isinstance(array, StandIn) and array.dtype.kind not in "fiubcO") or not np.ndim(array):  # type: ignore[arg-type]
                description = f"{type(leaf).__name__} {leaf!r:.60}"
                raise ArgumentError(f"xs{path} is {description}; expected an array with an entry for each step")
            lengths[f"xs{path}"] = len(array)  # type: ignore[arg-type]
            leaves.append(array)
        if not lengths:
            raise ArgumentError(f"the number of steps of {name} is unknown; expected xs, or length")
        if len(set(lengths.values())) > 1 or min(lengths.values()) < 0:
            listing = ", ".join(f"{key}: {value}" for key, value in lengths.items())
            raise ArgumentError(f"different numbers of steps ({listing}); expected one length for all")
        count = int(next(iter(lengths.values())))
        return cls(name, carry, structure, begin, leaves, range(count)[::-1] if reverse else range(count))

    @property
    def count(self) -> int:
        """Number of steps."""
        return len(self.order)

    @property
    def entries(self) -> int:
        """Number of numbers in the state and in the entries of a step."""
        each = [np.size(leaf) // self.count for leaf in self.leaves]
        return sum(each) + sum(int(np.size(leaf)) for _, leaf in self.begin)

    def check(self, structure: Structure, shapes: Sequence[tuple[int, ...]]) -> None:
        """Check that the result of a step is a pair whose state has the structure and shapes of the previous one.

        Raises:
            ArgumentError: if not.
        """
        if (
            not isinstance(structure, Branch)
            or len(structure.parts) != 2
            or structure.container.kind not in (tuple, list)
        ):
            raise ArgumentError(
                f"{self.name} did not return a pair; expected the state for the next step, and a result of this step "
                "or None"
            )
        if structure.parts[0] != self.carry:
            expected = unflatten(self.carry, [np.shape(leaf) for _, leaf in self.begin])
            left = unflatten(structure.parts[0], list(shapes[: len(list(leaf_paths(structure.parts[0])))]))
            raise ArgumentError(
                f"{self.name} received the state {expected} and returned {left} (shapes); expected one structure at "
                "all steps"
            )
        for (path, leaf), shape in zip(self.begin, shapes, strict=False):
            if np.shape(leaf) != shape:
                raise ArgumentError(
                    f"{self.name} received carry{path} of shape {np.shape(leaf)}, and returned one of shape {shape}; "
                    "expected one shape at all steps"
                )

    # Step by step ----------------------------------------------------------------------------------------------

    def one_by_one(self, f: Callable[..., Any], tape: Any) -> tuple[Any, Any]:
        """Call the function for each step, on numbers or on long traced arrays."""
        if not self.count:
            body = self.body(f, tape)
            empty = [np.empty((0, *dimensions), bool if boolean else float) for dimensions, boolean in body.results]
            return self._tree(self.carry, [leaf for _, leaf in self.begin]), self._all_results(body.structure, empty)
        results: list[Any] = []
        carry, form, shape = self._tree(self.carry, [leaf for _, leaf in self.begin]), None, None
        with patched(f):
            step = replaced(f)
            for index in self.order:
                result = step(carry, self._tree(self.entry, [leaf[index] for leaf in self.leaves]))
                if _form(result) != form:
                    form, shape = _form(result), self._checked(result, shape)
                carry = result[0]
                results.append(result[1])
        if self.order.step < 0:
            results.reverse()
        assert shape is not None
        if isinstance(shape.parts[1], Leaf):
            return carry, _stacked(tape, results)
        if isinstance(shape.parts[1], Constant):
            return carry, shape.parts[1].value
        rows = [[leaf for _, leaf in flatten(each)[1]] for each in results] if results[0] is not None else []
        stacked = [_stacked(tape, each) for each in zip(*rows, strict=True)]
        return carry, self._all_results(shape, [None] * len(self.begin) + stacked)

    def _tree(self, structure: Structure | None, leaves: Sequence[Any]) -> Any:
        """Return leaves in a structure; None without one."""
        if structure is None:
            return None
        return leaves[0] if isinstance(structure, Leaf) else unflatten(structure, leaves)

    def _checked(self, result: Any, before: Branch | None) -> Branch:
        """Return the structure of a step's result.

        Raises:
            ArgumentError: if it differs from the structure at earlier steps.
        """
        structure, leaves = flatten(result)
        self.check(structure, [np.shape(leaf) for _, leaf in leaves])
        assert isinstance(structure, Branch)
        if before is not None and structure.parts[1] != before.parts[1]:
            raise ArgumentError(f"{self.name} returned results of different structures; expected one at all steps")
        for path, leaf in leaves:
            if not isinstance(leaf, Traced):
                as_numbers(leaf, path)
        return structure

    def _all_results(self, structure: Structure, leaves: Sequence[Any]) -> Any:
        """Return the results of all steps in their structure, from the leaves of states and results."""
        assert isinstance(structure, Branch)
        return unflatten(structure.parts[1], leaves[len(self.begin) :])

    # As a body ---------------------------------------------------------------------------------------------------

    def body(self, f: Callable[..., Any], tape: Any) -> Body:
        """Record one step as a body.

        Raises:
            LongBodyError: if it works on long arrays.
            ArgumentError: if it changes the structure, shapes or kinds of the state.
        """
        kinds = [_is_truth(leaf) for _, leaf in self.begin]
        places = [(np.shape(leaf), kind) for (_, leaf), kind in zip(self.begin, kinds, strict=True)]
        arguments = [(self.carry, places)]
        if self.entry is not None:
            kinds = list(map(_is_truth, self.leaves))
            entries = [(np.shape(leaf)[1:], kind) for leaf, kind in zip(self.leaves, kinds, strict=True)]
            arguments.append((self.entry, entries))

        def step(*arguments: Any) -> Any:
            return replaced(f)(*arguments, *([None] if self.entry is None else []))

        with patched(f):
            body = recorded_body(step, arguments, tape)
        self.check(body.structure, [shape for shape, _ in body.results])
        for (path, _), (_, before), (_, after) in zip(self.begin, places, body.results, strict=False):
            if before != after:
                words = ("real numbers", "truth values")
                raise ArgumentError(
                    f"{self.name} received {words[before]} at carry{path}, and returned {words[after]}; expected one "
                    "kind at all steps"
                )
        return body

    def results(self, tape: Any, body: Body, last: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[Any, Any]:
        """Return the state and the results of a scan as traced values.

        Args:
            tape: tape to record on.
            body: body of the steps.
            last: references of the state after the last step, flat.
            rows: references of each step's results, (entries, steps), in the order of the steps.
        """
        carry, first = [], 0
        for shape, boolean in body.results[: len(self.begin)]:
            size = int(np.prod(shape))
            leaf = last[first : first + size].reshape(shape)
            carry.append(make(tape, leaf if shape else int(leaf), boolean))
            first += size
        if self.order.step < 0:
            rows = rows[:, ::-1]
        leaves, first = [], 0
        for shape, boolean in body.results[len(self.begin) :]:
            size = int(np.prod(shape))
            entries = rows[first : first + size].T.reshape(self.count, *shape).copy()
            leaves.append(TracedArray(tape, entries, boolean=boolean))
            first += size
        return unflatten(self.carry, carry), self._all_results(body.structure, [None] * len(self.begin) + leaves)

    def references(self, tape: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return references of the initial state, and of the entries in step order, (entries, steps)."""
        first = [np.ravel(np.asarray(entries_of(tape, leaf)[0])) for _, leaf in self.begin]
        tables = [np.asarray(entries_of(tape, leaf)[0]).reshape(self.count, -1).T for leaf in self.leaves]
        table = np.concatenate([np.empty((0, self.count), np.int64), *tables])
        if self.order.step < 0:
            table = table[:, ::-1]
        return np.concatenate([np.empty(0, np.int64), *first]), table


def _form(value: Any) -> Any:
    """Return a key that is fast to compare at each step; equal keys mean equal structures, shapes and types."""
    if type(value) is tuple or type(value) is list:
        return (type(value), *map(_form, value))
    if type(value) is dict:
        return (*value, *map(_form, value.values()))
    if (contents := opened(value)) is not None:
        return (contents[0], *map(_form, contents[1]))
    return (
        type(value)
        if type(value) in (float, np.float64)
        else (type(value), np.shape(value), getattr(value, "dtype", None))
    )


def _is_truth(leaf: Any) -> bool:
    return bool(leaf.boolean if isinstance(leaf, Traced) else np.asarray(leaf).dtype.kind == "b")


def _stacked(tape: Any, values: Sequence[Any]) -> Any:
    """Return the results of all steps as one array."""
    if tape is None:
        shapes = {np.shape(value) for value in values}
        if len(shapes) > 1:
            raise ArgumentError(f"steps returned results of shapes {sorted(shapes)}; expected one shape at all steps")
        return np.array(values)
    boolean = all(map(_is_truth, values))
    return TracedArray(tape, np.stack([references_of(tape, value, boolean) for value in values]), boolean=boolean)


def _in_blocks(tape: Any, steps: _Steps, body: Body) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    begin, table = steps.references(tape)
    carries, count = len(begin), steps.count

    def operands(results: list[Range]) -> Iterator[Column]:
        for reference, block in zip(begin.tolist(), results, strict=False):
            yield column(np.append(reference, block.references[:-1]))
        yield from (column(row.copy()) for row in table)
        yield from (Range(reference, 0, count) for reference in body.taken.tolist())

    with tape.located(body.lines):
        results = tape.scan(body.tape, lambda blocks: list(operands(blocks)), np.arange(count + 1))
    last = np.array([block.references[-1] for block in results[:carries]], np.int64)
    rows = [block.references for block in results[carries:]]
    return last, np.stack(rows) if rows else np.empty((0, count), np.int64)


def _written_out(tape: Tape, steps: _Steps, body: Body) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    begin, table = steps.references(tape)
    carries, carry, taken = len(begin), begin.tolist(), body.taken.tolist()
    write, rows = Writing(tape).routine(body.tape), []
    for entries in table.T.tolist() if len(table) else [[]] * steps.count:
        results = write(*carry, *entries, *taken)
        carry = results[:carries]
        rows.append(results[carries:])
    return np.array(carry, np.int64), np.array(rows, np.int64).reshape(steps.count, -1).T
