"""The registry of methods: every way to accumulate, under its field's name, with one signature.

A method takes a graph, `Options` and a `Deadline`, and returns a `SearchResult`. A row in the table of
`accumulus.methods`, and `register` in the module that the row names, are all that is needed for `accumulus.plan`, the
command line, and the tests, which run every cross-check on every method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import Final

from accumulus.deadline import Deadline, OutOfTimeError
from accumulus.elimination.accumulation import Accumulation
from accumulus.elimination.emit import count
from accumulus.elimination.vertex import eliminate_vertices
from accumulus.graph.graph import DifferentiationGraph
from accumulus.methods import METHODS, check_method
from accumulus.options import Options
from accumulus.search.sweeps import Workload, cheapest_sweep

__all__ = ["ANYWAY", "Method", "SearchResult", "get", "register"]


@dataclass(frozen=True)
class SearchResult:
    """What a method found: a vertex elimination order, or any other accumulation of the graph.

    Attributes:
        graph: the graph that was searched.
        method: name of the method that it comes from; one that starts from others' plans and finds nothing better
            names those.
        order: intermediate vertices by number, for methods that eliminate vertices.
        lower_bound: no elimination of the method's class can cost less: of `exact-vertex` no vertex elimination, of
            `exact-edge` no edge elimination, of all others no face elimination; None if nothing is known.
        interrupted: whether Ctrl-C ended the search, so that no other may follow.
        unfinished: whether the method did not finish in its time, and this is the result of a sweep instead.
    """

    graph: DifferentiationGraph
    method: str
    order: tuple[int, ...] | None = None
    lower_bound: int | None = None
    _accumulation: Accumulation | None = field(default=None, repr=False)
    interrupted: bool = False
    unfinished: bool = False
    _costs: dict[str, int] = field(default_factory=dict, repr=False)

    @cached_property
    def accumulation(self) -> Accumulation:
        """The accumulation itself, computed on first access; without what only entries need that are not wanted."""
        if self._accumulation is not None:
            return self._accumulation.wanted()
        assert self.order is not None, "a method returns an order or an accumulation"
        return eliminate_vertices(self.graph, self.order)

    def cost(self, objective: str) -> int:
        """Its cost, as `accumulus.elimination.emit` counts it."""
        if objective not in self._costs:
            self._costs[objective] = count(self.accumulation, objective)
        return self._costs[objective]


#: Seconds that a deterministic method may take when it is called by name, even if the time limit is shorter.
ANYWAY: Final = 0.1

#: A registered function: after the deadline it returns its best result so far, or raises `OutOfTimeError`.
Finder = Callable[[DifferentiationGraph, Options, Deadline], SearchResult]


@dataclass(frozen=True, slots=True)
class Method:
    """A registered method; call it with a graph and options."""

    name: str
    find: Finder
    #: Seconds that it takes, roughly, if it is a deterministic method; None if it keeps to the time limit.
    seconds: Callable[[Workload], float] | None = None

    def __call__(self, graph: DifferentiationGraph, options: Options, deadline: Deadline | None = None) -> SearchResult:
        """The method's result; the better sweep, marked unfinished, if the method has none when its time is over.

        A deterministic method is ended by the clock alone: of its work there is only an estimate.

        Args:
            deadline: by default the time limit of the options from now on.
        """
        until = Deadline(options.time_limit) if deadline is None else deadline
        if self.seconds is not None:
            until = until.at_least(ANYWAY)
        try:
            return self.find(graph, options, until)
        except OutOfTimeError:
            sweep = cheapest_sweep(graph)
            return SearchResult(graph, sweep.name, sweep.order, unfinished=True)


#: The methods whose modules have been imported.
_REGISTERED: Final[dict[str, Method]] = {}


def register(name: str, seconds: Callable[[Workload], float] | None = None) -> Callable[[Finder], Finder]:
    """Decorator that registers a method under its name in `accumulus.methods.METHODS`.

    Args:
        seconds: estimated time of a deterministic method, which cannot keep to a time limit.
    """

    def registered(find: Finder) -> Finder:
        assert name not in _REGISTERED, f"two methods are named {name}"
        assert name in METHODS, f"{name} is not in the table of methods"
        _REGISTERED[name] = Method(name, find, seconds)
        return find

    return registered


def get(name: str) -> Method:
    """The method of that name; its module is imported if it is not there yet.

    Raises:
        UnknownNameError: if there is none; the message lists those that there are.
    """
    check_method(name)
    if name not in _REGISTERED:
        import_module(METHODS[name].module)
    return _REGISTERED[name]
