"""What a preparation tells, and what Ctrl-C leaves of it."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

import accumulus as acc
from accumulus.deadline import Deadline
from accumulus.options import Options
from accumulus.programs import planning, rewritten
from accumulus.programs import program as programs
from accumulus.programs.argnums import Selection
from accumulus.programs.kinds import JACOBIAN
from accumulus.programs.preparation import Preparation
from accumulus.progress import Progress, ProgressLine

STAGES = ["trace", "linearize", "plan", "emit", "optimise", "compile"]


def swirl(x):
    for _ in range(4):
        x = np.array([x[0] * np.sin(x[1]), x[0] * x[1] * x[2], x[2] - x[0]])
    return x


def test_a_function_is_told_every_stage_and_the_best_cost():
    told = []
    jac = acc.jacobian(swirl, progress=told.append, cache=False)
    program = jac.compile(np.ones(3))
    assert list(dict.fromkeys(now.stage for now in told)) == STAGES == list(program.seconds)
    assert all(isinstance(now, Progress) for now in told)
    assert [now.seconds for now in told] == sorted(now.seconds for now in told)
    costs = [now.cost for now in told if now.cost is not None]
    assert costs
    assert costs[-1] == program.plan.cost


@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupt_is_the_callers_and_leaves_nothing(stage):
    asked = []

    def stop(now):
        if now.stage == stage and not asked:
            asked.append(now)
            raise KeyboardInterrupt

    jac = acc.jacobian(swirl, progress=stop, cache=False)
    with pytest.raises(KeyboardInterrupt):
        jac(np.ones(3))
    assert asked
    assert not jac._programs
    np.testing.assert_array_equal(jac(np.ones(3)), acc.jacobian(swirl, cache=False)(np.ones(3)))


def test_an_interrupt_of_the_search_is_the_callers_too():
    """The search itself ends with the best plan so far, which is for callers of `accumulus.plan` alone."""
    asked = []

    def stop(now):
        if now.cost is not None and not asked:
            asked.append(now)
            raise KeyboardInterrupt

    jac = acc.jacobian(swirl, progress=stop, cache=False)
    with pytest.raises(KeyboardInterrupt):
        jac(np.ones(3))
    assert asked
    asked.clear()
    graph = acc.trace(swirl, np.ones(3)).linearize()
    acc.plan(graph, progress=stop, cache=False).verify()
    assert asked


def test_planning_and_rewriting_share_one_deadline(monkeypatch):
    """The work that planning leaves is what rewriting gets; stages that have to be done anyway do not run the clock."""

    class Clock:
        time = 0.0

        def __call__(self):
            return self.time

    clock, left = Clock(), {}
    made = Preparation("f", Options(time_limit=8.0, cache=False))
    made.deadline = Deadline(8.0, clock, work=5.0)
    find_plan, emit, optimise = planning.find_plan, programs.emit, rewritten.optimise

    def planned(graph, options, *, deadline, **rest):
        left["plan"] = deadline.left
        deadline.spend(1.0)
        return find_plan(graph, options, order=graph.intermediates and [graph.vertices[v] for v in graph.intermediates])

    def emitted(accumulation):
        clock.time += 100.0
        return emit(accumulation)

    def optimised(tape, **options):
        left["optimise"] = options["deadline"].left, options["deadline"].clock_left
        return optimise(tape, **options)

    monkeypatch.setattr(planning, "find_plan", planned)
    monkeypatch.setattr(programs, "emit", emitted)
    monkeypatch.setattr(rewritten, "optimise", optimised)
    trace = acc.trace(swirl, np.ones(3))
    programs.Program(trace.recording, JACOBIAN, Selection.of(0), made)
    assert left == {"plan": 2.0, "optimise": (4.0, 8.0)}


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


def test_what_is_no_terminal_gets_nothing(capsys, monkeypatch):
    stream = io.StringIO()
    with ProgressLine("f", Console(file=stream)) as line:
        line.update("plan")
        line.show()
    assert stream.getvalue() == ""
    monkeypatch.setattr("accumulus.progress.PATIENCE", 0.0)
    acc.jacobian(swirl, cache=False)(np.ones(3))
    assert capsys.readouterr() == ("", "")
