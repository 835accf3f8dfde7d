"""Comparison of variables by words of memory, against comparison in Python, while objects change at random."""

from __future__ import annotations

import threading
from operator import attrgetter, itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accumulus as acc
from accumulus.frontends import memory
from accumulus.frontends.memory import comparison_by_words, keys_of_dict
from accumulus.frontends.variables import GONE, Comparison, Variable, comparison_of

VALUES = [object() for _ in range(3)]


@pytest.fixture(autouse=True, scope="module")
def by_words():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "FEWEST", 1)
        yield


class Tally(dict):
    """A dict with an iterator of its own."""

    def __iter__(self):
        return iter(sorted(dict.keys(self)))


class World:
    """Objects of all kinds that have words, the variables that watch them, and changes of them."""

    def __init__(self):
        kept = VALUES[0]

        def function(a=VALUES[0], *, b=VALUES[1]):
            return a, b, kept

        def other(a=VALUES[1], *, b=VALUES[0]):
            return b, a, kept

        self.functions = function, other
        self.codes = function.__code__, other.__code__
        self.cell = function.__closure__[0]
        self.scope = {"a": VALUES[0], "b": VALUES[1], "unwatched": 0}
        self.tally = Tally(a=VALUES[0])
        self.items = [*VALUES]
        self.base = type("Base", (), {})
        self.kind = type("Kind", (self.base,), {"rate": VALUES[0]})
        self.instance = self.kind()
        self.instance.gain = VALUES[0]
        self.attributes = vars(self.instance)

    def variables(self):
        function = self.functions[0]
        singles = [
            *((attrgetter(name), function) for name in ("__code__", "__defaults__", "__kwdefaults__")),
            *((attrgetter("cell_contents"), self.cell), (itemgetter("a"), self.scope), (itemgetter(0), self.items)),
            *((itemgetter("rate"), vars(self.kind)), (attrgetter("__mro__"), self.kind)),
            *((attrgetter("__class__"), self.instance), (attrgetter("__dict__"), self.instance)),
            (itemgetter("gain"), self.attributes),
        ]
        entries = [(iter, self.items), (itemgetter("a", "b"), self.scope), (dict.values, self.tally)]
        contents = [(len, self.items), (list, self.scope), (len, vars(self.kind)), (keys_of_dict, self.tally)]
        hidden = [(self.scope.keys().isdisjoint, frozenset({"c"})), (vars(self.kind).keys().isdisjoint, frozenset("g"))]
        return [
            *(Variable(read, owner, read(owner), str(read)) for read, owner in singles),
            *(Variable(read, owner, tuple(read(owner)), str(read), Comparison.ENTRIES) for read, owner in entries),
            *(Variable(read, owner, read(owner), str(read), Comparison.EQUAL) for read, owner in contents),
            *(Variable(read, owner, True, str(read)) for read, owner in hidden),
        ]

    def change(self, which, k):
        value, function = VALUES[k], self.functions[0]
        changes = [
            lambda: self.scope.__setitem__("a", value),
            lambda: self.scope.__setitem__("unwatched", object()),
            lambda: self.scope.pop("unwatched", None),
            lambda: self.scope.update(a=value, b=VALUES[1]),
            lambda: self.scope.pop("c", None) if k else self.scope.__setitem__("c", value),
            lambda: self.items.__setitem__(0, value),
            lambda: self.items.append(value),
            lambda: self.items.pop() if len(self.items) > 2 else None,
            lambda: self.items.sort(key=id),
            lambda: self.items.__setitem__(slice(None), VALUES),
            lambda: setattr(self.cell, "cell_contents", value),
            lambda: setattr(function, "__code__", self.codes[k % 2]),
            lambda: setattr(function, "__defaults__", (value,)),
            lambda: setattr(function, "__kwdefaults__", {"b": value}),
            lambda: setattr(self.kind, "rate", value),
            lambda: setattr(self.kind, "unwatched", value),
            lambda: setattr(self.kind, "g", value) if k else None,
            lambda: delattr(self.kind, "g") if "g" in vars(self.kind) else None,
            lambda: setattr(self.kind, "__bases__", (self.base, type("Further", (), {})) if k else (self.base,)),
            lambda: setattr(self.instance, "gain", value),
            lambda: setattr(self.instance, "unwatched", value),
            lambda: setattr(self.instance, "__dict__", dict(self.attributes) if k else self.attributes),
            lambda: setattr(self.instance, "__class__", self.kind if k else type("Kind", (self.base,), {})),
            lambda: self.tally.__setitem__("a", value),
            lambda: self.tally.__setitem__(f"b{k}", value),
            lambda: self.tally.pop(f"b{k}", None),
        ]
        changes[which % len(changes)]()


def truth(compare):
    try:
        return compare()
    except GONE:
        return False


@given(st.lists(st.tuples(st.integers(0, 25), st.integers(0, 2)), max_size=40), st.integers(0, 3))
def test_words_say_what_python_says(changes, misses):
    world = World()
    variables = world.variables()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "MOST_MISSES", misses)
        by_words, in_python = comparison_by_words(variables), comparison_of(variables)
        assert by_words()
        for change in changes:
            world.change(*change)
            assert truth(by_words) == truth(in_python)
            assert truth(by_words) == truth(in_python)  # words that are kept from the call before


def test_all_kinds_have_words_where_dicts_have_versions():
    layout = memory._layout()
    if layout is None or layout.version is None:
        pytest.skip("this Python keeps no versions of dicts")
    assert all(memory._addresses(variable, layout) for variable in World().variables())


def test_a_dict_that_changes_all_the_time_is_compared_in_python():
    world = World()
    compare = comparison_by_words(world.variables())
    for k in range(3 * memory.MOST_MISSES):
        world.scope["unwatched"] = k
        assert compare()
    world.scope["a"] = VALUES[2]
    assert not compare()
    world.scope["a"] = VALUES[0]
    assert compare()
    world.items[1] = VALUES[0]  # still by words
    assert not compare()


def test_all_variables_of_a_dict_that_changes_all_the_time_are_compared_in_python_at_once(monkeypatch):
    scope = {f"c{k}": VALUES[k % 3] for k in range(40)}
    compare, calls = comparison_by_words([Variable(itemgetter(key), scope, scope[key], key) for key in scope]), []
    addresses = memory._addresses
    monkeypatch.setattr(memory, "_addresses", lambda *arguments: calls.append(1) or addresses(*arguments))
    for k in range(3 * memory.MOST_MISSES):
        scope["unwatched"] = k
        assert compare()
    calls.clear()
    scope["unwatched"] = -1
    assert compare()
    assert not calls
    scope["c20"] = object()
    assert not compare()


def test_a_list_that_moves_while_its_words_are_read_is_read_again(monkeypatch):
    items, more = [*VALUES], []
    variables = [Variable(iter, each, tuple(each), "items", Comparison.ENTRIES) for each in [items] * 20]
    addresses = memory._addresses
    if not addresses(variables[0], memory._layout()):
        pytest.skip("this Python's lists have another layout")

    def moved(variable, layout):
        found = addresses(variable, layout)
        more.append(1)
        if len(more) == len(variables):
            items.extend([None] * 100)
            del items[3:]
        return found

    words = memory._Words(variables, memory._layout())
    with monkeypatch.context() as patch:
        patch.setattr(memory, "_addresses", moved)
        assert words.are_same()
    assert words._table[0] == 0  # none of those where the items were
    assert words.are_same()
    assert words._have_same_words()
    items[1] = VALUES[0]
    assert not words.are_same()


def test_words_are_renewed_by_one_call_at_a_time(monkeypatch):
    world = World()
    compare, unchanged, inner = comparison_by_words(world.variables()), Variable.is_unchanged, []

    def is_unchanged(variable):
        if not inner:
            inner.append(None)
            inner[0] = compare()  # as a finaliser may, or another thread
            world.scope["unwatched"] = len(inner)
        return unchanged(variable)

    monkeypatch.setattr(Variable, "is_unchanged", is_unchanged)
    assert compare()
    assert inner == [True]
    world.items[1] = VALUES[0]
    assert not compare()


def test_words_are_compared_while_threads_change_other_names():
    world = World()
    compare, ends, failures = comparison_by_words(world.variables()), threading.Event(), []

    def change():
        k = 0
        while not ends.is_set():
            k += 1
            world.scope["unwatched"] = world.instance.unwatched = k

    def look():
        for _ in range(300):
            if not compare():
                failures.append(1)

    threads = [threading.Thread(target=each) for each in (change, look, look)]
    for each in threads:
        each.start()
    for each in threads[1:]:
        each.join()
    ends.set()
    threads[0].join()
    assert not failures


def test_a_function_of_many_variables_follows_each():
    scope = {f"c{k}": float(k) for k in range(40)}
    terms = " + ".join(f"c{k} * x ** {k % 3}" for k in range(40))
    exec(f"def function(x):\n    return {terms}", scope)
    value = acc.compile(scope["function"], cache=False)
    for k in range(40):
        assert value(2.0) == pytest.approx(scope["function"](2.0), rel=1e-14)
        scope[f"c{k}"] += 1.5
        scope["unwatched"] = k


def test_a_class_that_exec_makes_without_a_module_is_watched():
    scope = {}
    exec("class Model:\n    rate = 2.0\n    def value(self, x):\n        return self.rate * x\nmodel = Model()", scope)
    value = acc.compile(scope["model"].value, cache=False)
    assert value(2.0) == 4.0
    scope["Model"].rate = 5.0
    assert value(2.0) == 10.0
    scope["Model"].value.__code__ = (lambda self, x: 7.0 * x).__code__
    assert value(2.0) == 14.0


def test_entries_count_as_variables(monkeypatch):
    """One variable may stand for a thousand names of a module."""
    made = []
    words = memory._Words
    monkeypatch.setattr(memory, "FEWEST", 24)
    monkeypatch.setattr(memory, "_Words", lambda *given: made.append(given) or words(*given))
    for count in (memory.FEWEST - 1, memory.FEWEST):
        scope = {f"c{k}": object() for k in range(count)}
        entries = Variable(itemgetter(*scope), scope, tuple(scope.values()), "c", Comparison.ENTRIES, tuple(scope))
        assert comparison_by_words([entries])()
    layout = memory._layout()
    assert len(made) == (layout is not None and layout.version is not None)
