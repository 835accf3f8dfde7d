"""Graphs as plain data by numbers, with the tape that their labels come from: what a plan file holds of its graph.

The graph files of `accumulus.graph.files` are for people: they name vertices, and numbers follow from the order in
which names appear. A plan speaks of vertices, edges and labels by number, so its graph has to be read back as it was,
and the operations of a function are those of its tape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from reprlib import repr as shortened
from typing import Any, Final

import numpy as np

from accumulus.errors import AccumulusError, GraphError, PlanError
from accumulus.graph.graph import LARGEST_SIZE, DifferentiationGraph, Kind
from accumulus.tape.tape import Tape

__all__ = ["LARGEST", "check_keys", "graph_as_data", "graph_from_data", "whole_numbers"]

#: No number of a vertex, edge or reference is as large.
LARGEST: Final = (1 << 31) - 1

#: Inputs of a tape, at most: they need memory, though nothing in the file says more of them than their number.
_MOST_INPUTS: Final = 1 << 24

_KEYS: Final = ("name", "vertices", "roots", "terminals", "edges", "labels", "sizes", "tape")
_KINDS: Final = {kind.name.lower(): kind for kind in Kind if kind is not Kind.ABSENT}


def graph_as_data(graph: DifferentiationGraph) -> dict[str, Any]:
    """The graph as lists and numbers; names of vertices that are not text or whole numbers become text."""
    names = [v if isinstance(v, (str, int)) and not isinstance(v, bool) else str(v) for v in graph.vertices]
    data: dict[str, Any] = {
        "name": graph.name,
        "vertices": names,
        "roots": list(map(int, graph.roots)),
        "terminals": list(map(int, graph.terminals)),
        "edges": [[j, i] for j, i in zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)],
        "labels": list(graph.labels) if graph.tape is not None else _written_labels(graph),
    }
    if (graph.sizes != 1).any():
        data["sizes"] = graph.sizes.tolist()
    if graph.tape is not None:
        tape = graph.tape
        data["tape"] = {
            "inputs": tape.inputs,
            "constants": [_written_number(value) for value in tape.constants],
            "operations": [[tape.operation(r).name, *tape.arguments(r)] for r in range(tape.inputs, len(tape))],
            "outputs": list(tape.outputs),
        }
    return data


def _written_labels(graph: DifferentiationGraph) -> list[Any]:
    labels: list[Any] = []
    for e, number in enumerate(graph.kinds.tolist()):
        kind = Kind(number)
        if kind is Kind.CONSTANT and e in graph.constants:
            labels.append(_written_number(graph.constants[e]))
        elif graph.symbols[e] is not None:
            labels.append({"symbol": graph.symbols[e]})
        else:
            labels.append(kind.name.lower())
    return labels


def graph_from_data(data: Any) -> DifferentiationGraph:
    """The graph that `graph_as_data` wrote.

    Raises:
        PlanError: naming what is wrong with it.
    """
    if not isinstance(data, dict):
        raise PlanError(f"'graph' is {shortened(data)}; expected an object")
    check_keys(data, _KEYS, "'graph'")
    name, names = data.get("name", ""), data.get("vertices")
    if not isinstance(name, str):
        raise PlanError(f"the graph's 'name' is {shortened(name)}; expected text")
    if not isinstance(names, list) or not all(type(v) in (str, int) for v in names):
        raise PlanError(f"'vertices' is {shortened(names)}; expected a list of names")
    roots, terminals = (whole_numbers(data.get(key), key, len(names)) for key in ("roots", "terminals"))
    edges, labels = data.get("edges"), data.get("labels")
    if not isinstance(edges, list) or not isinstance(labels, list) or len(edges) != len(labels):
        raise PlanError("expected two lists of one length, 'edges' of [from, to] and 'labels'")
    pairs = [whole_numbers(edge, f"edges[{e}]", len(names), length=2) for e, edge in enumerate(edges)]
    sizes = whole_numbers(data.get("sizes", [1] * len(names)), "sizes", LARGEST_SIZE + 1, length=len(names))
    if 0 in sizes:
        raise PlanError("a size is 0; expected at least 1")
    sources, targets = [j for j, _ in pairs], [i for _, i in pairs]
    try:
        if "tape" in data:
            tape = _read_tape(data["tape"])
            known = range(-len(tape.constants), len(tape))
            for e, label in enumerate(labels):
                if type(label) is not int or label not in known:
                    raise PlanError(f"labels[{e}] is {shortened(label)}; expected a reference of the tape")
            graph = DifferentiationGraph.from_tape(tape, labels, names, roots, terminals, sources, targets, name=name)
            graph.sizes = np.array(sizes, np.int64)
        else:
            kinds, symbols, constants = _read_labels(labels)
            graph = DifferentiationGraph.from_arrays(
                sources,
                targets,
                kinds,
                vertices=names,
                roots=roots,
                terminals=terminals,
                symbols=symbols,
                constants=constants,
                sizes=sizes,
                name=name,
            )
        ends = [*roots, *terminals]
        if len(set(ends)) < len(ends) or set(roots) & set(targets):
            raise PlanError("a root is named twice, is a terminal, or has an edge to it; expected none of that")
    except GraphError as error:
        raise PlanError(f"'graph': {error}") from None
    return graph


def _read_labels(labels: list[Any]) -> tuple[list[Kind], list[str | None], dict[int, float]]:
    kinds: list[Kind] = []
    symbols: list[str | None] = []
    constants: dict[int, float] = {}
    for e, label in enumerate(labels):
        symbol, kind = None, None
        if isinstance(label, dict) and list(label) == ["symbol"] and isinstance(label["symbol"], str):
            symbol, kind = label["symbol"], Kind.VARIABLE
        elif isinstance(label, str) and label in _KINDS:
            kind = _KINDS[label]
            if kind < Kind.CONSTANT:
                constants[e] = 1.0 if kind is Kind.ONE else -1.0
        else:
            value = _read_number(label)
            if value is not None:
                kind, constants[e] = Kind.of(value), value
        if kind is None:
            raise PlanError(
                f"labels[{e}] is {shortened(label)}; expected {', '.join(_KINDS)}, a number, or a symbol in an object"
            )
        kinds.append(kind)
        symbols.append(symbol)
    return kinds, symbols, constants


def _read_tape(data: Any) -> Tape:
    """The tape, built anew by its own builders: it comes out as it is written, or was never one."""
    if not isinstance(data, dict):
        raise PlanError(f"'tape' is {shortened(data)}; expected an object")
    check_keys(data, ("inputs", "constants", "operations", "outputs"), "'tape'")
    (inputs,) = whole_numbers([data.get("inputs")], "inputs", _MOST_INPUTS)
    constants, operations, outputs = (data.get(key) for key in ("constants", "operations", "outputs"))
    if not (isinstance(constants, list) and isinstance(operations, list) and isinstance(outputs, list)):
        raise PlanError("expected lists 'constants', 'operations' and 'outputs' of the tape")
    # those that keep the signs of zeros leave what the others have written, too
    tape = Tape(inputs, signed_zeros=True)
    for k, given in enumerate(constants):
        value = _read_number(given)
        if value is None or tape.constant(value) != -1 - k:
            raise PlanError(f"constants[{k}] is {shortened(given)}; expected a number that is not there before")
    for k, operation in enumerate(operations):
        known = range(-len(constants), len(tape))
        if not (
            isinstance(operation, list)
            and operation
            and isinstance(operation[0], str)
            and all(type(argument) is int and argument in known for argument in operation[1:])
        ):
            raise PlanError(f"operations[{k}] is {shortened(operation)}; expected [name, references before it …]")
        try:
            reference = tape.apply(*operation)
        except AccumulusError as error:
            raise PlanError(f"operations[{k}]: {error}") from None
        if reference != inputs + k or len(tape) != inputs + k + 1:
            raise PlanError(
                f"operations[{k}] is {shortened(operation)}; expected one that is not there in simpler form"
            )
    if len(tape.constants) != len(constants) or not all(
        type(output) is int and output in range(-len(constants), len(tape)) for output in outputs
    ):
        raise PlanError("the tape is not what was written; expected simplified operations, and outputs that it has")
    tape.outputs, tape.signed_zeros = outputs, False
    return tape


def whole_numbers(given: Any, what: str, below: int, length: int | None = None) -> list[int]:
    """A list of whole numbers from 0 to below − 1."""
    if (
        not isinstance(given, list)
        or (length is not None and len(given) != length)
        or not all(type(number) is int and 0 <= number < below for number in given)
    ):
        many = "" if length is None else f"{length} "
        raise PlanError(f"'{what}' is {shortened(given)}; expected a list of {many}whole numbers from 0 to {below - 1}")
    return given


def check_keys(data: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    """Refuse keys that are not known, since one that is misspelt would be overlooked."""
    unknown = [key for key in data if key not in known]
    if unknown:
        raise PlanError(f"{what} has the key {shortened(unknown[0])}; expected {', '.join(known)}")


def _written_number(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(float(value))


def _read_number(given: Any) -> float | None:
    if type(given) is float or (type(given) is int and abs(given) <= 1 << 53):
        return float(given)
    return float(given) if given in ("inf", "-inf", "nan") else None
