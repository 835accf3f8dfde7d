"""Files that somebody wrote to do harm, and some that are merely odd: what every reader is run over.

Each corpus maps a name to bytes. None of them may be read, unless its name says so; nothing in them may be run, and
nothing may take long or much memory.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from typing import Any

HUGE = "1" + "0" * 400
DIGITS = "9" * 5000
DEEP = "[" * 100_000 + "]" * 100_000

#: Texts that are no names to be printed as they stand.
NAMES = (
    "\x1b[2J\x1b]0;title\x07",
    "\x9b31m",
    "\u202egnp.\u2066exe\u2069",
    "[bold red]markup[/bold red] [/]",
    'x"]; node [label="',
    "a\nimport os\nos.system('touch was-run')\n#",
    "\r\n; } @evil = global i8 0",
    "%",
    "\\input{/etc/passwd}",
    "^^5cinput",
    "${}#_&~",
    "`quoted`",
    "__import__('os').system('touch was-run')",
    "\ud800",
    "\u2028\u2029\x85\x00\x0c",
    "class",
    "",
    " ",
    "y" * 100_000,
)


def _graph(**changes: object) -> str:
    data: dict[str, object] = {"edges": [["y", "a", None], ["a", "x", 2.0]], "roots": ["y"], "terminals": ["x"]}
    return json.dumps(data | changes)


def _xml(body: str, keys: str = "", head: str = "") -> str:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>{head}<graphml xmlns="http://graphml.graphdrawing.org/xmlns">{keys}'
        f'<graph edgedefault="directed">{body}</graph></graphml>'
    )


def _key(name: str, kind: str, owner: str = "node") -> str:
    return f'<key id="k" for="{owner}" attr.name="{name}" attr.type="{kind}"/>'


_EDGE = '<node id="y"/><node id="x"/><edge source="y" target="x"/>'


def _node(value: str) -> str:
    return f'<node id="y"><data key="k">{value}</data></node><node id="x"/><edge source="y" target="x"/>'


def _labelled(value: str) -> str:
    return f'<node id="y"/><node id="x"/><edge source="y" target="x"><data key="k">{value}</data></edge>'


LAUGHS = '<!DOCTYPE l [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {b} "{f"&{a};" * 10}">' for a, b in zip("abcdefghij", "bcdefghijk", strict=True)
)

JSON_GRAPHS: dict[str, bytes] = {
    name: text if isinstance(text, bytes) else text.encode()
    for name, text in {
        "nothing": "",
        "zeros": b"\0" * 1000,
        "not utf-8": b'{"edges": [["\xff", "x"]]}',
        "utf-16": _graph().encode("utf-16"),
        "byte order mark": b"\xef\xbb\xbf" + _graph().encode(),
        "deep": DEEP,
        "deep objects": '{"edges":' * 50_000,
        "deep label": f'{{"edges": [["y", "x", {DEEP}]]}}',
        "label of 5000 digits": f'{{"edges": [["y", "x", {DIGITS}]]}}',
        "label of 10**400": f'{{"edges": [["y", "x", {HUGE}]]}}',
        "label of 1e999": '{"edges": [["y", "x", 1e999]]}',
        "label true": _graph(edges=[["y", "x", True]]),
        "label list": _graph(edges=[["y", "x", [1]]]),
        "label object": _graph(edges=[["y", "x", {"a": 1}]]),
        "edge of one": _graph(edges=[["y"]]),
        "edge of four": _graph(edges=[["y", "x", 1, 2]]),
        "edge of text": _graph(edges=["yx"]),
        "edges object": _graph(edges={"y": "x"}),
        "name of a float": _graph(edges=[[1.5, "x"]]),
        "name of NaN": '{"edges": [[NaN, "x"]]}',
        "name null": _graph(edges=[[None, "x"]]),
        "name true": _graph(edges=[[True, "x"]]),
        "title a list": _graph(name=["f"]),
        "title a number": _graph(name=1),
        "size 10**400": _graph(sizes={"y": 10**400}),
        "size 0": _graph(sizes={"y": 0}),
        "size -1": _graph(sizes={"y": -1}),
        "size 1.0": _graph(sizes={"y": 1.0}),
        "size true": _graph(sizes={"y": True}),
        "size NaN": '{"edges": [["y", "x"]], "sizes": {"y": NaN}}',
        "size of nothing": _graph(sizes={"q": 2}),
        "sizes a list": _graph(sizes=[1]),
        "sizes of one text": '{"edges": [[1, "x"], ["1", "x"]], "sizes": {"1": 3}}',
        "size twice": '{"edges": [["y", "x"]], "sizes": {"y": 1, "y": 2}}',
        "edges twice": '{"edges": [], "edges": [["y", "x"]]}',
        "unknown key": _graph(root=["y"]),
        "roots a text": _graph(roots="y"),
        "roots of nothing": _graph(roots=["q"]),
        "cycle": _graph(edges=[["y", "x"], ["x", "y"]]),
        "loop": _graph(edges=[["y", "y"]]),
        "a line of JSON": _graph() + "\n" + _graph(),
        "more behind": _graph() + "]",
        "a list": "[1, 2]",
        "a string": '"edges"',
        "python": "{'edges': [('y', 'x')]}",
        "comment": "// graph\n" + _graph(),
    }.items()
}

GRAPHML: dict[str, bytes] = {
    name: text if isinstance(text, bytes) else text.encode()
    for name, text in {
        "nothing": "",
        "zeros": b"\0" * 1000,
        "json": _graph(),
        "laughs": LAUGHS + "]><graphml>&k;</graphml>",
        "external entity": _xml(
            '<node id="&e;"/>', head='<!DOCTYPE graphml [<!ENTITY e SYSTEM "file:///etc/passwd">]>'
        ),
        "external type": _xml(_EDGE, head='<!DOCTYPE graphml SYSTEM "http://127.0.0.1:9/graphml.dtd">'),
        "parameter entity": _xml(_EDGE, head='<!DOCTYPE g [<!ENTITY % p SYSTEM "file:///dev/zero"> %p;]>'),
        "unknown entity": _xml('<node id="&nbsp;"/>'),
        "unknown encoding": b'<?xml version="1.0" encoding="rot13"?><graphml/>',
        "python's encoding": b'<?xml version="1.0" encoding="unicode_escape"?><graphml/>',
        "not utf-8": _xml('<node id="').encode() + b'\xff"/>',
        "half a surrogate": _xml('<node id="&#xD800;"/>'),
        "deep": _xml("<a>" * 100_000),
        "nested graphs": _xml("<node id='y'><graph/></node>"),
        "unfinished": _xml(_EDGE)[:-3],
        "processing instruction": '<?php system("id") ?>' + _xml(_EDGE),
        "no graph": "<graphml/>",
        "svg": "<svg/>",
        "node twice": _xml('<node id="y"/>' + _EDGE),
        "numbers of one value": _xml(
            "".join(f'<node id="{name}"><data key="k">true</data></node>' for name in ("1", "01", "x"))
            + '<edge source="1" target="x"/><edge source="01" target="x"/>',
            _key("integer", "boolean"),
        ),
        "unknown node": _xml('<node id="y"/><edge source="y" target="x"/>'),
        "undirected": _xml('<node id="y"/><node id="x"/><edge source="y" target="x" directed="false"/>'),
        "hyperedge": _xml('<hyperedge><endpoint node="y"/></hyperedge>'),
        "undeclared key": _xml(_node("1")),
        **{
            f"size {value[:20]}": _xml(_node(value), _key("size", "int"))
            for value in ("0", "-1", HUGE, DIGITS, "1.0", "1e3", "1_0", "٣", "true", "NaN", "0x10", "", "1 2")
        },
        "size a text": _xml(_node("2"), _key("size", "string")),
        "size a double": _xml(_node("2"), _key("size", "double")),
        "size twice": _xml(_node('2</data><data key="k">3'), _key("size", "int")),
        **{f"root {value[:20]}": _xml(_node(value), _key("root", "int")) for value in ("-1", "1.5", "top", "1_0")},
        "root true": _xml(_node("true"), _key("root", "boolean")),
        "integer yes": _xml(_node("yes"), _key("integer", "boolean")),
        "integer of text": _xml(_node("true"), _key("integer", "boolean")),
        **{
            f"value {value[:20]}": _xml(_labelled(value), _key("value", "double", "edge"))
            for value in ("1e999", HUGE, "1_0", "infinity", "0x1p3", "one", "1,5", "")
        },
        "value 10**400": _xml(_labelled(HUGE), _key("value", "int", "edge")),
        "value a text": _xml(_labelled("2"), _key("value", "string", "edge")),
        "value true": _xml(_labelled("true"), _key("value", "boolean", "edge")),
        "kind a number": _xml(_labelled("3"), _key("kind", "int", "edge")),
        "kind unknown": _xml(_labelled("magic"), _key("kind", "string", "edge")),
        "title a number": _xml(f'<data key="k">3</data>{_EDGE}', _key("name", "int", "graph")),
        "cycle": _xml(_EDGE + '<edge source="x" target="y"/>'),
    }.items()
}


def plan_files(plan: str) -> dict[str, bytes]:
    """Plan files that were changed, from the text of one that is right; an order that eliminates vertices."""
    right = json.loads(plan)

    def changed(**changes: object) -> str:
        return json.dumps(right | changes)

    def graph(**changes: object) -> str:
        return changed(graph=right["graph"] | changes)

    edges = len(right["graph"]["edges"])
    odd = {"10**400": 10**400, "-1": -1, "1.0": 1.0, "true": True, "a text": "1", "null": None, "a list": [1]}
    files = {
        "nothing": "",
        "deep": DEEP,
        "not utf-8": b"\xff",
        "another format": changed(format="pickle"),
        "version 2": changed(version=2),
        "version true": changed(version=True),
        "version 10**400": changed(version=10**400),
        "unknown key": changed(code="import os"),
        "cost twice": plan.replace('"cost"', '"cost": 0, "cost"', 1),
        **{f"cost {name}": changed(cost=value) for name, value in odd.items()},
        **{f"lower_bound {name}": changed(lower_bound=value) for name, value in odd.items() if value is not None},
        **{f"seed {name}": changed(seed=value) for name, value in odd.items() if type(value) is not int},
        **{f"seconds {name}": changed(seconds=value) for name, value in odd.items() if value != 1 or value is True},
        "seconds NaN": changed(seconds=float("nan")),
        "seconds Infinity": changed(seconds=float("inf")),
        "seconds 1e999": plan.replace('"seconds": ', '"seconds": 1e999, "": ', 1),
        **{f"order of {name}": changed(order=[value, *right["order"][1:]]) for name, value in odd.items()},
        "order empty": changed(order=[]),
        "order twice": changed(order=right["order"] * 2),
        "steps of huge numbers": changed(steps=[["*", 10**400, 0]], entries=[]),
        "steps of themselves": changed(steps=[["*", edges, edges]], entries=[]),
        "steps of nothing": changed(steps=[], entries=[]),
        "steps of another sign": changed(steps=[["/", 0, 1]], entries=[]),
        "entries of huge numbers": changed(steps=[], entries=[[0, 0, 10**400]]),
        "entries outside": changed(steps=[], entries=[[10**6, 0, 0]]),
        "graph a list": changed(graph=[]),
        **{f"sizes {name}": graph(sizes=[value] * len(right["graph"]["vertices"])) for name, value in odd.items()},
        **{f"label {name}": graph(labels=[value] * edges) for name, value in odd.items() if name not in ("-1", "1.0")},
        "label NaN": graph(labels=[float("nan")] * edges),
        "label Infinity": graph(labels=[float("inf")] * edges),
        "label 1e999": graph(labels=["1e999"] * edges).replace('"1e999"', "1e999"),
        "edges outside": graph(edges=[[10**6, 0]] * edges),
        "edges of floats": graph(edges=[[0.0, 1.0]] * edges),
        "a cycle": graph(edges=[[0, 0]] * edges),
        "vertices of lists": graph(vertices=[[]] * len(right["graph"]["vertices"])),
        "vertices missing": graph(vertices=[]),
        "roots outside": graph(roots=[10**400]),
        "roots twice": graph(roots=right["graph"]["roots"] * 2),
        "tape of huge inputs": graph(tape={"inputs": 10**9, "constants": [], "operations": [], "outputs": []}),
        "tape a text": graph(tape="tape"),
    }
    return {name: text if isinstance(text, bytes) else text.encode() for name, text in files.items()}


def derivative_files(content: bytes, seed: int, count: int) -> dict[str, bytes]:
    """Files of a saved derivative that were changed: as they stand, and so that their hash is right."""
    from accumulus.shipping.data_files import _HEAD, MAGIC, _digest

    generator = random.Random(seed)
    start = len(MAGIC) + _HEAD.size
    (version, _, length) = _HEAD.unpack_from(content, len(MAGIC))
    right, arrays = json.loads(content[start : start + length]), content[start + length :]

    def signed(data: object, rest: bytes = arrays, version: int = version) -> bytes:
        text = json.dumps(data).encode()
        body = text + rest
        return MAGIC + _HEAD.pack(version, _digest(len(text), body), len(text)) + body

    def flipped(body: bytes, at: int) -> bytes:
        return body[:at] + bytes([body[at] ^ 1 << generator.randrange(8)]) + body[at + 1 :]

    files = {
        "nothing": b"",
        "magic alone": MAGIC,
        "a pickle": b"\x80\x04cos\nsystem\n(S'touch was-run'\ntR.",
        "another version": content[: len(MAGIC)] + struct.pack("<I", 2) + content[len(MAGIC) + 4 :],
        "half": content[: len(content) // 2],
        "one byte less": content[:-1],
        "one byte more": content + b"\0",
        "length beyond": MAGIC + _HEAD.pack(version, bytes(32), 1 << 60) + content[start:],
        "a list": signed([]),
        "deep": MAGIC + _HEAD.pack(version, _digest(len(DEEP), DEEP.encode()), len(DEEP)) + DEEP.encode(),
        "no arrays": signed(right, b""),
        "no forms": signed(right | {"forms": []}),
        "huge array": signed(right | {"arrays": [["<f8", [1 << 40, 1 << 40], 0]]}),
        "objects": signed(right | {"arrays": [["|O", [1], 0]] * len(right["arrays"])}),
        "a class that runs": signed(
            right
            | {"signature": [{"name": "x", "kind": 1, "has_default": True, "default": {"class": ["os", "system"]}}]}
        ),
    }
    for k in range(count):
        files[f"flip {k}"] = flipped(content, generator.randrange(len(content)))
        changed = json.loads(json.dumps(right))
        position = generator.choice([each for each in _places(changed) if each[1] != "arrays"])
        position[0][position[1]] = generator.choice(
            [None, True, -1, 0, 1, 7, 10**30, "x", [], {}, [1, 2], {"class": ["os", "system"]}]
        )
        files[f"changed {k}: {str(position[1])[:20]} to {str(position[0][position[1]])[:20]}"] = signed(changed)
        files[f"numbers {k}"] = signed(right, flipped(arrays, generator.randrange(len(arrays))))
    return files


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of plain data: a container and a key or position in it."""
    for key in list(data) if isinstance(data, dict) else range(len(data)):
        yield data, key
        if isinstance(data[key], dict | list):
            yield from _places(data[key])
