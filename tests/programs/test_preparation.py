"""Progress of a preparation, and its state after Ctrl-C."""

from __future__ import annotations

import io
import sys
import types
import warnings

import numpy as np
import pytest
from inside import Context
from rich.console import Console

import accumulus as acc
from accumulus import Progress
from accumulus.context import PLANNING
from accumulus.errors import ArgumentError, LongProgramWarning
from accumulus.options import Options
from accumulus.programs import derivation, graphs, preparation, rewritten
from accumulus.programs.kinds import JACOBIAN
from accumulus.programs.preparation import Preparation
from accumulus.programs.selection import Selection
from accumulus.progress import ProgressLine

STAGES = ["trace", "linearize", "plan", "emit", "optimise", "compile"]


def swirl(x):
    for _ in range(4):
        x = np.array([x[0] * np.sin(x[1]), x[0] * x[1] * x[2], x[2] - x[0]])
    return x


def test_a_callback_receives_every_stage_and_the_best_cost():
    stages = []
    jac = acc.jacobian(swirl, progress=stages.append, cache=False)
    program = jac.compile(np.ones(3))
    assert list(dict.fromkeys(now.stage for now in stages)) == STAGES == list(program.seconds)
    assert all(isinstance(now, Progress) for now in stages)
    assert [now.seconds for now in stages] == sorted(now.seconds for now in stages)
    costs = [now.cost for now in stages if now.cost is not None]
    assert costs
    assert costs[-1] == program.plan.cost


@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupt_is_the_callers_and_leaves_nothing(stage):
    calls = []

    def stop(now):
        if now.stage == stage and not calls:
            calls.append(now)
            raise KeyboardInterrupt

    jac = acc.jacobian(swirl, progress=stop, cache=False)
    with pytest.raises(KeyboardInterrupt):
        jac(np.ones(3))
    assert calls
    assert not jac._programs
    np.testing.assert_array_equal(jac(np.ones(3)), acc.jacobian(swirl, cache=False)(np.ones(3)))


def test_an_interrupt_of_the_search_is_the_callers_too():
    """The search itself ends with the best plan so far, which is for callers of `accumulus.plan` alone."""
    calls = []

    def stop(now):
        if now.cost is not None and not calls:
            calls.append(now)
            raise KeyboardInterrupt

    jac = acc.jacobian(swirl, progress=stop, cache=False)
    with pytest.raises(KeyboardInterrupt):
        jac(np.ones(3))
    assert calls
    calls.clear()
    graph = acc.trace(swirl, np.ones(3)).linearize()
    acc.plan(graph, progress=stop, cache=False).verify()
    assert calls


def test_planning_and_rewriting_share_one_deadline(monkeypatch):
    """The work that planning leaves is what rewriting gets; stages that have to be done anyway do not run the clock."""

    class Clock:
        time = 0.0

        def __call__(self):
            return self.time

    clock, left = Clock(), {}
    made = Preparation("f", Options(time_limit=8.0, cache=False))
    made.context = Context(made.options, 8.0, clock, work=5.0)
    find_plan, emit, rewrite = graphs.find_plan, derivation.emit, rewritten.rewrite

    def planned(graph, context, **rest):
        left["plan"] = context.left
        context.spend(1.0)
        return find_plan(graph, Context(context.options), order=[graph.vertices[v] for v in graph.intermediates])

    def emitted(accumulation):
        clock.time += 100.0
        return emit(accumulation)

    def optimised(tape, context, **rest):
        left["optimise"] = context.left, context.clock_left
        return rewrite(tape, context, **rest)

    monkeypatch.setattr(graphs, "find_plan", planned)
    monkeypatch.setattr(derivation, "emit", emitted)
    monkeypatch.setattr(rewritten, "rewrite", optimised)
    trace = acc.trace(swirl, np.ones(3))
    derivation.straight_line(trace.recording, JACOBIAN, Selection.of(0), made)
    assert left == {"plan": 5.0 * PLANNING, "optimise": (4.0, 8.0)}


def test_a_terminal_gets_one_line_that_vanishes():
    stream = io.StringIO()
    with ProgressLine("f [bold]", Console(file=stream, force_terminal=True, width=80)) as line:
        line.update("plan")
        line.show()
        line.update("compile")
        line.show()
    written = stream.getvalue()
    assert "accumulus: f [bold]: compile" in written
    assert written.endswith("\x1b[2K")  # the line is erased
    line.show()
    assert stream.getvalue() == written


def test_a_terminal_shows_an_estimate_and_advice_at_once():
    stream = io.StringIO()
    with ProgressLine("f", Console(file=stream, force_terminal=True, width=200)) as line:
        line.update("emit")
        line.expect(1.0, "short")
        assert stream.getvalue() == ""
        line.expect(30.0, "9 operations are written out; acc.map helps")
    assert "accumulus: f: emit; 9 operations are written out; acc.map helps" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K")


@pytest.fixture
def shown(monkeypatch):
    """Return the outputs of a notebook, by number."""
    outputs = []

    class Handle:
        def __init__(self):
            outputs.append([])
            self.update = outputs[-1].append

    shell = types.SimpleNamespace(kernel=object())
    module = types.ModuleType("IPython")
    module.get_ipython = lambda: shell
    module.display = types.ModuleType("IPython.display")
    module.display.HTML = str
    module.display.display = lambda text, display_id: Handle()
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", module.display)
    return outputs


def test_a_notebook_gets_a_bar_that_vanishes(shown):
    with ProgressLine("f<b>") as line:
        line.update("plan")
        assert not shown
        line.expect(100.0, "see <i>")
        line.update("emit")
    (output,) = shown
    assert output[0].startswith('<progress max="1" value="0.00"></progress> accumulus: f&lt;b&gt;: plan; see &lt;i&gt;')
    assert "emit" in output[-2]
    assert output[-1] == ""
    line.show()
    assert len(shown) == 1


def test_true_shows_and_false_silences_in_notebooks(shown):
    for progress, outputs in ((True, 1), (False, 0), (None, 0), (lambda _: None, 0)):
        shown.clear()
        acc.jacobian(swirl, cache=False, progress=progress)(np.ones(3))
        assert len(shown) == outputs
        assert all(output[-1] == "" for output in shown)


def test_true_shows_every_stage_where_there_is_no_terminal(capsys):
    acc.jacobian(swirl, cache=False, progress=True)(np.ones(3))
    output = capsys.readouterr()
    assert output.out == ""
    lines = [
        line.removeprefix("accumulus: swirl: ") for line in output.err.splitlines() if line.endswith(tuple(STAGES))
    ]
    assert list(dict.fromkeys(lines)) == STAGES


def test_progress_is_a_truth_value_or_a_function():
    assert acc.jacobian(swirl, progress=False)._options.alone.progress is False
    assert acc.jacobian(swirl, progress=print)._options.alone.progress is None
    with pytest.raises(ArgumentError, match=r"progress is 'yes'; expected True .*, False .*, a function .*, or None"):
        acc.jacobian(swirl, progress="yes")


@pytest.fixture
def slow(monkeypatch):
    """Operations take long here, as far as estimates go."""
    monkeypatch.setattr(preparation, "WRITING", 1.0)


def test_long_waits_are_warned_of_before_they_begin(slow):
    for progress in (None, True):
        with pytest.warns(
            LongProgramWarning, match=r"operations of swirl are written out .* about \d+ s.*acc\.map"
        ) as warned:
            acc.jacobian(swirl, cache=False, progress=progress)(np.ones(3))
        (warning,) = warned
        assert warning.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        acc.jacobian(swirl, cache=False, progress=False)(np.ones(3))


def test_the_advice_for_speed_fits_the_program(slow, monkeypatch):
    def said(**options):
        with pytest.warns(LongProgramWarning) as warned:
            acc.jacobian(swirl, cache=False, **options)(np.ones(3))
        return str(warned[0].message)

    assert "acc.map, acc.scan or acc.assemble" in said()
    assert "without exact_order=True" in said(exact_order=True)
    assert "in float64" in said(dtype="float32")
    monkeypatch.setattr(preparation, "WRITING", 0.0)
    monkeypatch.setattr(preparation, "LONG", 0.0)
    monkeypatch.setattr(preparation, "PATIENCE", 0.0)
    assert "target='llvm' compiles them" in said(target="c")


def test_a_callback_receives_the_estimate(slow):
    stages = []
    with pytest.warns(LongProgramWarning):
        acc.jacobian(swirl, cache=False, progress=stages.append)(np.ones(3))
    assert [now.expected for now in stages if now.expected] != []
    assert all(now.expected is None or now.expected > 2.0 for now in stages)


def unrolled(steps):
    def f(x):
        for _ in range(steps):
            x = np.array([x[0] - 0.01 * np.sin(x[1]), x[1] + 0.01 * x[0] * x[2], x[2] * np.exp(-x[0] * x[0])])
        return x

    return f


def clustered(points):
    data = np.random.default_rng(0).normal(size=(points, 2))

    def f(c):
        return np.sum(np.min(np.sum((data[:, None, :] - c[None, :, :]) ** 2, axis=2), axis=1))

    return f


@pytest.mark.parametrize(
    ("asks", "function", "arguments"),
    [
        (acc.jacobian, unrolled(200), (np.array([0.3, 0.7, 0.2]),)),
        (acc.gradient, lambda x: np.sum(unrolled(200)(x)), (np.array([0.3, 0.7, 0.2]),)),
        (acc.hessian, lambda x: np.sum(unrolled(30)(x)), (np.array([0.3, 0.7, 0.2]),)),
        (acc.hvp, clustered(60), ((np.ones((3, 2)),), (np.ones((3, 2)),))),
        (acc.compile, unrolled(200), (np.array([0.3, 0.7, 0.2]),)),
        (acc.gradient, lambda x: np.linalg.slogdet(np.eye(12) + np.outer(x, x))[1], (np.linspace(0.1, 0.5, 12),)),
    ],
)
def test_estimates_count_written_out_operations(asks, function, arguments, monkeypatch):
    """Within three times the operations that are written onto the tape, before these are rewritten."""
    estimated, written = [], []
    expect, emit = Preparation.expect, derivation.emit

    def noted(self, operations, *rest, **options):
        if not options:
            estimated.append(operations)
        return expect(self, operations, *rest, **options)

    def counted(accumulation):
        tape = emit(accumulation)
        written.append(len(tape) - tape.inputs)
        return tape

    monkeypatch.setattr(Preparation, "expect", noted)
    monkeypatch.setattr(derivation, "emit", counted)
    asks(function, cache=False, target="numpy", time_limit=0).compile(*arguments)
    assert all(max(written) / 3 < each < 3 * max(written) for each in estimated)


def test_streams_that_are_no_terminal_get_nothing(capsys, monkeypatch):
    stream = io.StringIO()
    with ProgressLine("f", Console(file=stream)) as line:
        line.update("plan")
        line.show()
    assert stream.getvalue() == ""
    monkeypatch.setattr("accumulus.progress.PATIENCE", 0.0)
    acc.jacobian(swirl, cache=False)(np.ones(3))
    assert capsys.readouterr() == ("", "")
