"""Graph files: JSON, and the choice of the format by the file name's extension.

**JSON** has two variants. Both are an object with ``edges``, a list of [from, to] or [from, to, label]; ``roots`` and
``terminals``, lists of vertices; and optionally ``name`` and ``sizes``. Unknown and duplicate keys are errors, so that
a misspelt "roots" is not ignored.

*By names*, for files written by hand: vertices are named by the edges, and ``sizes`` is an object with vertex names as
keys. A label is "one", "minus_one", "constant" or "variable"; a number, for a constant of known value; null; or any
other text, as a symbol. ``about`` is a comment.

*By numbers*, inside the file of a plan, which refers to vertices, edges and labels by number: ``vertices`` is the list
of names, ``sizes`` the list of sizes, and ``labels`` a list parallel to ``edges``, in which a symbol is an object
{"symbol": text}. If there is a ``tape``, the operations of the function, labels are references to it. Then there may
also be a ``mirror``, a list of vertices, and ``selected``, a list of [root, terminal] by position.

**All formats:**

| extension | format | written | read |
| --- | --- | --- | --- |
| `.json` | as above | yes | yes |
| `.graphml` | `accumulus.graph.exchange` | yes | yes |
| `.dot`, `.gv` | a picture for Graphviz: `accumulus.graph.pictures` | yes | no |

JSON and GraphML files are read back as an equal graph: names, order of roots and terminals, labels, known constants and
sizes. Nothing in a file is ever executed, and nothing outside the file is read.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from importlib import import_module
from itertools import chain
from os import PathLike, fspath
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, Final

import numpy as np

from accumulus.errors import AccumulusError, ArgumentError, GraphError
from accumulus.graph.graph import LARGEST_SIZE, DifferentiationGraph, Kind, label_parts
from accumulus.tape.tape import Tape

_KINDS: Final = {kind.name.lower(): kind for kind in Kind if kind is not Kind.ABSENT}
_KEYS: Final = ("name", "about", "roots", "terminals", "edges", "sizes")
_SELECTION: Final = ("mirror", "selected")
NUMBERED_KEYS: Final = ("name", "vertices", "roots", "terminals", "edges", "labels", "sizes", *_SELECTION, "tape")
_TAPE_KEYS: Final = ("inputs", "constants", "operations", "outputs")
#: Largest number of inputs of a tape: a short file could otherwise request any amount of memory, and a smaller number
#: refuses large tapes.
_MOST_INPUTS: Final = 1 << 24


# By names ----------------------------------------------------------------------------------------------------------


def read_json(path: str | PathLike[str]) -> DifferentiationGraph:
    """Read a graph from a JSON file that names its vertices.

    Raises:
        GraphError: if the file is not JSON by names (see the module), or not an acyclic graph.
        OSError: if the file cannot be read.
    """
    data = parsed_json(path, GraphError, infinite=True)
    try:
        return _from_names(data, Path(path).stem)
    except GraphError as error:
        raise GraphError(f"{path}: {error}") from None


def _from_names(data: Any, name: str) -> DifferentiationGraph:
    if not isinstance(data, dict) or not isinstance(data.get("edges"), list):
        raise GraphError("expected an object with a list 'edges' of [from, to, label]")
    check_keys(data, _KEYS, "the file", GraphError)
    edges = []
    for position, edge in enumerate(data["edges"]):
        if not isinstance(edge, list) or len(edge) not in (2, 3) or not all(map(_is_name, edge[:2])):
            raise GraphError(f"edges[{position}] is {shortened(edge)}; expected [from, to] or [from, to, label]")
        label = edge[2] if len(edge) == 3 else None
        edges.append((*edge[:2], _KINDS.get(label, label) if isinstance(label, str) else label))
    sizes, name = data.get("sizes", {}), data.get("name", name)
    if not isinstance(sizes, dict) or not all(type(size) is int for size in sizes.values()):
        raise GraphError(f"'sizes' is {shortened(sizes)}; expected an object of vertex names and whole numbers")
    if not isinstance(name, str):
        raise GraphError(f"'name' is {shortened(name)}; expected text")
    ends = [data.get(key) for key in ("roots", "terminals")]
    for key, names in zip(("roots", "terminals"), ends, strict=True):
        if names is not None and not (isinstance(names, list) and all(map(_is_name, names))):
            raise GraphError(f"'{key}' is {shortened(names)}; expected a list of vertex names")
    vertices = set(chain(*(edge[:2] for edge in edges), *(names or () for names in ends)))
    by_text = {str(v): v for v in vertices}
    if sizes and len(by_text) < len(vertices):
        raise GraphError("two vertices have the same name as text; expected different names when there are 'sizes'")
    return DifferentiationGraph(edges, *ends, sizes={by_text.get(v, v): n for v, n in sizes.items()}, name=name)


def write_json(graph: DifferentiationGraph, path: str | PathLike[str]) -> None:
    """Write a graph to a JSON file that `read_json` reads back as an equal graph.

    Raises:
        GraphError: if two vertices have the same name as text, or a symbol is the name of a kind.
        OSError: if the file cannot be written.
    """
    names = _names(graph)
    for name, times in Counter(map(str, names)).items():
        if times > 1:
            raise GraphError(
                f"{times} vertices are called {name!r} as text; rename all but one before saving the graph"
            )
    labels = [_written_label(graph, e) for e in range(len(graph.sources))]
    for e, label in enumerate(labels):
        if label in _KINDS and label == _symbol(graph, e):
            raise GraphError(f"edges[{e}] has the symbol {label!r}, which is a kind in a file; rename it before saving")
    ends = zip(graph.sources.tolist(), graph.targets.tolist(), labels, strict=True)
    data: dict[str, Any] = {
        "name": graph.name,
        "roots": [names[v] for v in graph.roots],
        "terminals": [names[v] for v in graph.terminals],
        "edges": [[names[j], names[i], label] for j, i, label in ends],
    }
    touched = {*graph.sources.tolist(), *graph.targets.tolist()}
    # the reader accepts roots or terminals without edges only if they have sizes; see `DifferentiationGraph`
    alone = {v for ends in (graph.roots, graph.terminals) if touched.isdisjoint(ends) for v in ends if touched}
    sizes = {str(names[v]): size for v, size in enumerate(graph.sizes.tolist()) if size != 1 or v in alone}
    if sizes:
        data["sizes"] = dict(sorted(sizes.items()))
    Path(path).write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _is_name(value: object) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _names(graph: DifferentiationGraph) -> list[Hashable]:
    """Return the names of the vertices; a name that is neither text nor an integer becomes text."""
    return [v if _is_name(v) else str(v) for v in graph.vertices]


def _symbol(graph: DifferentiationGraph, edge: int) -> str | None:
    return graph.symbols[edge] if graph.kinds[edge] == Kind.VARIABLE else None


def _written_label(graph: DifferentiationGraph, edge: int) -> str | float:
    """Return the symbol of an edge, its constant value, or the name of its kind."""
    kind, symbol = Kind(int(graph.kinds[edge])), _symbol(graph, edge)
    if kind is Kind.CONSTANT and edge in graph.constants:
        return graph.constants[edge]
    return kind.name.lower() if symbol is None else symbol


# By numbers --------------------------------------------------------------------------------------------------------


def graph_as_data(graph: DifferentiationGraph) -> dict[str, Any]:
    """Return the graph by numbers (see the module), as data that JSON can express."""
    data: dict[str, Any] = {
        "name": graph.name,
        "vertices": _names(graph),
        "roots": list(map(int, graph.roots)),
        "terminals": list(map(int, graph.terminals)),
        "edges": [[j, i] for j, i in graph.ends],
    }
    tape = graph.tape
    if tape is not None:
        data["labels"] = list(graph.labels)
    else:
        data["labels"] = [
            _written_number(_written_label(graph, e)) if symbol is None else {"symbol": symbol}
            for e, symbol in enumerate(_symbol(graph, e) for e in range(len(graph.sources)))
        ]
    if (graph.sizes != 1).any():
        data["sizes"] = graph.sizes.tolist()
    if graph.mirror is not None:
        data["mirror"] = graph.mirror.tolist()
    if graph.selected is not None:
        data["selected"] = graph.selected.tolist()
    if tape is not None:
        data["tape"] = {
            "inputs": tape.inputs,
            "constants": [_written_number(value) for value in tape.constants],
            "operations": [[tape.operation(r).name, *tape.arguments(r)] for r in range(tape.inputs, len(tape))],
            "outputs": list(tape.outputs),
        }
    return data


def graph_from_data(data: Any) -> DifferentiationGraph:
    """Return the graph from the data of `graph_as_data`.

    Raises:
        GraphError: if the data are malformed; the message names the part.
    """
    if not isinstance(data, dict):
        raise GraphError(f"'graph' is {shortened(data)}; expected an object")
    check_keys(data, NUMBERED_KEYS, "'graph'", GraphError)
    name, names = data.get("name", ""), data.get("vertices")
    if not isinstance(name, str):
        raise GraphError(f"the graph's 'name' is {shortened(name)}; expected text")
    if not isinstance(names, list) or not all(map(_is_name, names)):
        raise GraphError(f"'vertices' is {shortened(names)}; expected a list of names")
    count = len(names)
    roots, terminals = (whole_numbers(data.get(key), key, count, GraphError) for key in ("roots", "terminals"))
    edges, labels = data.get("edges"), data.get("labels")
    if not isinstance(edges, list) or not isinstance(labels, list) or len(edges) != len(labels):
        raise GraphError("expected two lists of one length, 'edges' of [from, to] and 'labels'")
    pairs = [whole_numbers(edge, f"edges[{e}]", count, GraphError, length=2) for e, edge in enumerate(edges)]
    sizes = whole_numbers(data.get("sizes", [1] * count), "sizes", LARGEST_SIZE + 1, GraphError, length=count)
    if 0 in sizes:
        raise GraphError("a size is 0; expected at least 1")
    sources, targets = [j for j, _ in pairs], [i for _, i in pairs]
    if "tape" in data:
        tape = _read_tape(data["tape"])
        for e, label in enumerate(labels):
            if type(label) is not int or not -len(tape.constants) <= label < len(tape):
                raise GraphError(f"labels[{e}] is {shortened(label)}; expected a reference of the tape")
    else:
        parts = [label_parts(_read_label(label, e), pairs[e]) for e, label in enumerate(labels)]
    try:
        if "tape" in data:
            chosen = _read_chosen(data, count)
            graph = DifferentiationGraph.from_tape(
                tape, labels, names, roots, terminals, sources, targets, name=name, **chosen
            )
            graph.sizes = np.array(sizes, np.int64)
        else:
            graph = DifferentiationGraph.from_arrays(
                sources,
                targets,
                [kind for kind, _, _ in parts],
                vertices=names,
                roots=roots,
                terminals=terminals,
                symbols=[symbol for _, symbol, _ in parts],
                constants={e: value for e, (_, _, value) in enumerate(parts) if value is not None},
                sizes=sizes,
                name=name,
            )
    except GraphError as error:
        raise GraphError(f"'graph': {error}") from None
    ends = [*roots, *terminals]
    if len(set(ends)) < len(ends) or set(roots) & set(targets):
        raise GraphError(
            "a root is named twice, is also a terminal, or has an incoming edge; expected roots without these"
        )
    return graph


def _read_chosen(data: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Return the arguments `mirror` and `selected` of the graph, if the file has them."""
    selection: dict[str, Any] = {}
    if "mirror" in data:
        selection["mirror"] = whole_numbers(data["mirror"], "mirror", count, GraphError, length=count)
    if "selected" in data:
        if not isinstance(data["selected"], list):
            raise GraphError(f"'selected' is {shortened(data['selected'])}; expected a list of [root, terminal]")
        selection["selected"] = [
            whole_numbers(pair, f"selected[{k}]", count, GraphError, length=2)
            for k, pair in enumerate(data["selected"])
        ]
    return selection


def _read_label(label: Any, edge: int) -> Kind | str | float:
    if isinstance(label, dict) and list(label) == ["symbol"] and isinstance(label["symbol"], str):
        symbol: str = label["symbol"]
        return symbol
    if isinstance(label, str) and label in _KINDS:
        return _KINDS[label]
    value = _read_number(label)
    if value is None:
        raise GraphError(
            f"labels[{edge}] is {shortened(label)}; expected {', '.join(_KINDS)}, a number, or a symbol in an object"
        )
    return value


def _read_tape(data: Any) -> Tape:
    """Return the tape; refuse operations that the tape's own methods would simplify or share."""
    if not isinstance(data, dict):
        raise GraphError(f"'tape' is {shortened(data)}; expected an object")
    check_keys(data, _TAPE_KEYS, "'tape'", GraphError)
    (inputs,) = whole_numbers([data.get("inputs")], "inputs", _MOST_INPUTS, GraphError)
    constants, operations, outputs = (data.get(key) for key in _TAPE_KEYS[1:])
    if not (isinstance(constants, list) and isinstance(operations, list) and isinstance(outputs, list)):
        raise GraphError("expected lists 'constants', 'operations' and 'outputs' of the tape")
    # with signed zeros the builders simplify less, so they also keep every operation of a tape without signed zeros
    tape = Tape(inputs, signed_zeros=True)
    for k, entry in enumerate(constants):
        value = _read_number(entry)
        if value is None or tape.constant(value) != -1 - k:
            raise GraphError(f"constants[{k}] is {shortened(entry)}; expected a number that is not in the list yet")

    def is_reference(number: Any) -> bool:
        return type(number) is int and -len(constants) <= number < len(tape)

    for k, operation in enumerate(operations):
        if not (isinstance(operation, list) and operation and isinstance(operation[0], str)) or not all(
            map(is_reference, operation[1:])
        ):
            raise GraphError(f"operations[{k}] is {shortened(operation)}; expected [name, references before it …]")
        try:
            reference = tape.apply(*operation)
        except AccumulusError as error:
            raise GraphError(f"operations[{k}]: {error}") from None
        if reference != inputs + k or len(tape) != inputs + k + 1:
            raise GraphError(f"operations[{k}] is {shortened(operation)}; expected a simplified operation")
    if len(tape.constants) != len(constants) or not all(map(is_reference, outputs)):
        raise GraphError(
            "the tape differs from one that accumulus writes; expected simplified operations, and outputs that are on "
            "it"
        )
    tape.outputs, tape.signed_zeros = outputs, False
    return tape


def _written_number(value: Any) -> Any:
    """Return a number that JSON cannot express as text, anything else unchanged."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _read_number(data: Any) -> float | None:
    if type(data) is float or (type(data) is int and abs(data) <= 1 << 53):
        return float(data)
    return float(data) if data in ("inf", "-inf", "nan") else None


# All formats ---------------------------------------------------------------------------------------------------------


#: Module, reader and writer by file extension; modules are imported on first use.
_FORMS: Final = {
    ".json": ("files", "read_json", "write_json"),
    ".graphml": ("exchange", "read_graphml", "write_graphml"),
    ".dot": ("pictures", None, "write_dot"),
    ".gv": ("pictures", None, "write_dot"),
}

#: Extensions of files that `load_graph` reads.
READABLE: Final = tuple(end for end, (_, read, _) in _FORMS.items() if read)


def load_graph(path: str | PathLike[str]) -> DifferentiationGraph:
    """Read a graph from a JSON or a GraphML file.

    Args:
        path: file whose name ends in ``.json`` or ``.graphml``, in upper or lower case.

    Raises:
        GraphError: if the file is malformed, is a picture (``.dot``, ``.gv``), or does not hold an acyclic graph; the
            message names the place.
        ArgumentError: if the name has another extension.
        OSError: if the file cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_graph(DifferentiationGraph([("y", "a"), ("a", "x")], name="chain"), f"{folder}/chain.json")
    ...     load_graph(f"{folder}/chain.json")
    DifferentiationGraph('chain', 1 roots, 1 intermediates, 1 terminals, 2 edges)
    """
    module, read, _ = _form(path, READABLE)
    if read is None:
        raise GraphError(
            f"{fspath(path)!r} is a picture in Graphviz's language, which does not hold all of a graph; expected "
            f"{_listed(READABLE)}: save the graph as one of these, too"
        )
    graph: DifferentiationGraph = _function(module, read)(path)
    return graph


def save_graph(graph: DifferentiationGraph, path: str | PathLike[str]) -> None:
    """Write a graph to a file in the format of its extension.

    Args:
        graph: graph to write.
        path: file whose name ends in ``.json``, ``.graphml``, or, for a picture, ``.dot`` or ``.gv``.

    Raises:
        GraphError: if the format cannot express a name or symbol of the graph; then no file is written.
        ArgumentError: if the name has another extension.
        OSError: if the file cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_graph(DifferentiationGraph([("y", "a"), ("a", "x")]), f"{folder}/chain.dot")
    ...     print(open(f"{folder}/chain.dot").read()[:7])
    digraph
    """
    module, _, write = _form(path, _FORMS)
    _function(module, write)(graph, path)


def _form(path: str | PathLike[str], ends: Iterable[str]) -> tuple[str, str | None, str]:
    """Return module, reader and writer of a file's format; the error for another extension lists `ends`."""
    if not isinstance(path, str | PathLike):
        raise ArgumentError(f"path is {path!r}; expected the name of a file")
    end = Path(path).suffix.lower()
    if end not in _FORMS:
        raise ArgumentError(f"the format of {fspath(path)!r} is unknown; expected a name that ends in {_listed(ends)}")
    return _FORMS[end]


def _function(module: str, name: str) -> Any:
    return getattr(import_module(f"accumulus.graph.{module}"), name)


def _listed(ends: Iterable[str]) -> str:
    *most, last = ends
    return f"{', '.join(most)} or {last}"


# JSON from untrusted files -------------------------------------------------------------------------------------------
#
# Besides invalid JSON these are errors: an object with a duplicate key, of which Python's parser keeps the last value;
# numbers beyond the range of float64; files larger than `LARGEST_FILE`; and paths that are not regular files.

#: Largest file in bytes; a graph of a million edges takes about a tenth. Larger files could exhaust memory, a smaller
#: limit refuses large graphs.
LARGEST_FILE: Final = 1 << 28
#: Largest number of a vertex, edge or reference.
LARGEST_NUMBER: Final = (1 << 31) - 1


class _OddError(ValueError):
    """Error for JSON that Python's parser accepts and this module refuses."""


def parsed_json(path: str | PathLike[str], error: type[AccumulusError], *, infinite: bool) -> Any:
    """Return the content of a JSON file.

    Args:
        path: file to read.
        error: class of the error to raise.
        infinite: if True, accept ``NaN``, ``Infinity`` and ``-Infinity``, which Python writes.

    Raises:
        error: if the file is not JSON; the message names the file and the place.
        OSError: if the file cannot be read.
    """
    return json_of(read_bytes(path, error), path, error, infinite=infinite)


def json_of(content: bytes, path: str | PathLike[str], error: type[AccumulusError], *, infinite: bool) -> Any:
    """Return the parsed JSON of a file's content; see `parsed_json` for the arguments and errors."""

    def constant(word: str) -> float:
        if not infinite:
            raise _OddError(f"{word} is not a JSON number")
        return float(word)

    try:
        text = content.decode("utf-8")
        return json.loads(text, object_pairs_hook=_object, parse_float=_finite, parse_constant=constant)
    except _OddError as odd:
        raise error(f"{path}: {odd}") from None
    except (ValueError, RecursionError) as reason:
        raise error(f"{path} is not a JSON file: {reason}") from None


def read_bytes(path: str | PathLike[str], error: type[AccumulusError]) -> bytes:
    """Return the content of a regular file of at most `LARGEST_FILE` bytes, or raise `error`."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with open(path, "rb", opener=lambda name, _: os.open(name, flags)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise error(f"{Path(path)} is not a regular file; expected one")
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise error(f"{Path(path)} is larger than {LARGEST_FILE >> 20} MB; expected a smaller file")
    return content


def check_keys(data: Mapping[str, Any], expected: tuple[str, ...], subject: str, error: type[AccumulusError]) -> None:
    """Refuse unexpected keys: a misspelt key would otherwise be ignored silently."""
    for key in data:
        if key not in expected:
            raise error(f"{subject} has the unknown key {shortened(key)}; expected {', '.join(expected)}")


def whole_numbers(
    numbers: Any, subject: str, below: int, error: type[AccumulusError], length: int | None = None
) -> list[int]:
    """Return `numbers` if it is a list of whole numbers from 0 to below − 1, else raise `error`."""
    if (
        not isinstance(numbers, list)
        or (length is not None and len(numbers) != length)
        or not all(type(number) is int and 0 <= number < below for number in numbers)
    ):
        many = "" if length is None else f"{length} "
        raise error(
            f"'{subject}' is {shortened(numbers)}; expected a list of {many}whole numbers from 0 to {below - 1}"
        )
    return numbers


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; refuse duplicate keys."""
    members = dict(pairs)
    if len(members) < len(pairs):
        key, times = Counter(key for key, _ in pairs).most_common(1)[0]
        raise _OddError(f"the key {shortened(key)} is there {times} times in one object; expected once")
    return members


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _OddError(f"the number {shortened(text)} is beyond what a float64 holds; expected a smaller one")
    return value
