"""The command line: what it prints where, and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from references import complex_step
from typer.testing import CliRunner

import accumulus as acc
from accumulus.cli import app, commands

GRAPH = str(Path(__file__).parents[1] / "data" / "graphs" / "HumanHeartDipole.json")
MODEL = """
import numpy as np
from neighbour import twist

print("model loaded")


def swirl(x, p):
    return np.array([x[0] * p, twist(x[1]) * x[0], np.exp(x[0] * p)])


def scalar(t):
    return np.sin(t)


def matrix(a):
    return a @ a


def long(x):
    return np.sin(x) * np.roll(x, 1)


def branches(x):
    if x[0] > 0:
        return x
    return -x


def general(x):
    return np.linalg.eigvals(np.outer(x, x))


def typed(x):
    return x * 2.0 if type(x) is np.ndarray else x * 3.0


def inner(x):
    raise ValueError("a message of my own")


def raises(x):
    return inner(x)
"""
SWIRL = ("--shape", "2", "--shape", "scalar")
QUICK = ("--time-limit", "0.2")


@pytest.fixture
def model(tmp_path):
    (tmp_path / "neighbour.py").write_text("import numpy as np\n\n\ndef twist(a):\n    return np.tanh(a)\n")
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    yield str(path)
    for name in ("model", "neighbour"):
        sys.modules.pop(name, None)
    sys.path.remove(str(tmp_path)) if str(tmp_path) in sys.path else None


def run(*arguments):
    return CliRunner().invoke(app, [*arguments])


def test_plan_prints_a_report_and_nothing_else(model):
    result = run("plan", f"{model}:swirl", *SWIRL, *QUICK)
    assert result.exit_code == 0, result.output
    assert "model loaded" in result.stderr
    assert "model loaded" not in result.stdout
    assert result.stdout.startswith("Value and Jacobian of swirl")
    for word in ("2, number", "3×3", "forward", "reverse", "markowitz", "verified", "operations", "prepared in"):
        assert word in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_plan_on_a_graph_file():
    result = run("plan", GRAPH, "--objective", "multiplications", *QUICK)
    assert result.exit_code == 0, result.output
    assert "Jacobian of HumanHeartDipole" in result.stdout


def test_plan_as_json_is_json_alone(model):
    result = run("plan", f"{model}:swirl", *SWIRL, *QUICK, "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["name"] == "swirl"
    assert data["jacobian_shape"] == [3, 3]
    assert data["function"]["argument_shapes"] == [[2], []]
    assert data["operations"] == sum(data["by_kind"].values())
    assert {"trace", "linearize", "plan", "emit", "compile"} <= set(data["seconds"])


def test_check_passes_and_fails(model):
    result = run("check", f"{model}:swirl", *SWIRL, "--points", "3")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("swirl: passed")
    assert "Jacobian, complex step" in result.stdout
    wrong = run("check", f"{model}:typed", "--shape", "2", "--json")
    assert wrong.exit_code == 1
    data = json.loads(wrong.stdout)
    assert not data["passed"]
    assert "test of types" in data["findings"][0]["reason"]
    assert run("check", GRAPH).exit_code == 2
    assert run("check", f"{model}:nothing", *SWIRL).exit_code == 1
    assert run("check", f"{model}:branches", "--shape", "2").exit_code == 0


def test_compare_has_a_row_for_every_method():
    result = run("compare", GRAPH, "--objective", "fma", "--all", *QUICK)
    assert result.exit_code == 0, result.output
    table, _, left_out = result.stdout.partition("Not run to the end")
    rows = {line.split()[0] for line in table.splitlines() if line.strip()}
    # what a busy machine had no time for is named
    assert all(name in rows or name in left_out for name in acc.methods())
    assert "Fewest fma" in result.stdout


def test_compare_shows_ten_rows_with_different_costs():
    result = run("compare", GRAPH, "--objective", "fma", *QUICK)
    table, _, rest = result.stdout.partition("Fewest fma")
    rows = [line.split() for line in table.splitlines()[4:] if line.strip()]
    methods, costs = [row[0] for row in rows], [tuple(row[1:4]) for row in rows]
    assert len(rows) <= 10
    assert {"forward", "reverse", "markowitz", "auto"} <= set(methods)
    assert [int(cost[0].replace(",", "")) for cost in costs] == sorted(int(cost[0].replace(",", "")) for cost in costs)
    alternatives = [
        cost
        for method, cost in zip(methods, costs, strict=True)
        if method not in ("forward", "reverse", "markowitz", "auto")
    ]
    assert len(set(alternatives)) == len(alternatives)
    assert "more methods: --all shows them." in rest


def test_commands_for_research_are_apart():
    page = run("--help").stdout
    users, _, research = page.partition("Research on graphs and methods")
    assert all(
        f" {name} " in users for name in ("plan", "check", "emit", "build", "show", "compare", "methods", "cache")
    )
    assert all(f" {name} " in research and f" {name} " not in users for name in ("generate", "research"))


def test_compare_as_json_counts_as_the_plans_do():
    result = run("compare", GRAPH, "--objective", "multiplications", *QUICK, "--json")
    data = json.loads(result.stdout)
    costs = {row["method"]: row["multiplications"] for row in data["methods"]}
    # a busy machine has no time for some
    assert {"forward", "reverse", "markowitz", "auto"} <= costs.keys() <= set(acc.methods())
    graph = acc.load_graph(GRAPH)
    for method in ("forward", "reverse", "markowitz"):
        assert costs[method] == acc.plan(graph, method=method, objective="multiplications").cost
    assert costs["auto"] == min(costs.values())


def test_compare_lists_skipped_methods(monkeypatch):
    monkeypatch.setattr(commands, "ANYWAY", 0.0)
    result = run("compare", GRAPH, "--objective", "fma", "--time-limit", "0.003", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert {row["method"] for row in data["methods"]} == set(acc.methods()) - set(data["skipped"])
    assert all(seconds > 0.003 for seconds in data["skipped"].values())
    assert {"pages", "local-jacobians"} <= set(data["skipped"])
    page = run("compare", GRAPH, "--objective", "fma", "--time-limit", "0.003").stdout
    assert "Not run to the end, since that takes longer than the time limit of 3.00 ms:" in page
    assert "pages (" in page


def test_plan_prints_expressions():
    result = run("plan", GRAPH, "--method", "reverse", "--expressions")
    assert result.exit_code == 0, result.output
    graph = acc.load_graph(GRAPH)
    written = acc.ExpressionSet.parse(result.stdout)
    written.to_accumulation(graph).verify()
    assert written.equivalent(acc.expressions(acc.plan(graph, "reverse")))


def test_plan_prints_latex():
    result = run("plan", GRAPH, "--method", "reverse", "--latex")
    assert result.exit_code == 0, result.output
    assert result.stdout == acc.expressions(acc.plan(acc.load_graph(GRAPH), "reverse")).latex() + "\n"
    assert result.stdout.startswith("\\begin{align*}")


def test_emitted_numpy_source_runs(model):
    result = run("emit", f"{model}:swirl", *SWIRL, *QUICK)
    assert result.exit_code == 0, result.output
    scope = {}
    exec(compile(result.stdout, "emitted", "exec"), scope)
    x, p = np.array([0.3, -0.7]), 1.2

    def swirl(x, p):
        return np.array([x[0] * p, np.tanh(x[1]) * x[0], np.exp(x[0] * p)])

    value, by_x, by_p = scope["swirl_jacobian"](x, p)
    np.testing.assert_allclose(value, swirl(x, p), rtol=1e-14)
    np.testing.assert_allclose(by_x.reshape(3, 2), complex_step(swirl, x, p), rtol=1e-13)
    np.testing.assert_allclose(by_p, complex_step(swirl, x, p, argument=1), rtol=1e-13)


def test_emit_without_values_to_a_file(model, tmp_path):
    target = tmp_path / "emitted.py"
    result = run("emit", f"{model}:scalar", "--shape", "scalar", "--no-values", "--output", str(target))
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    scope = {}
    exec(target.read_text(), scope)
    np.testing.assert_allclose(scope["scalar_jacobian"](0.4), [[np.cos(0.4)]], rtol=1e-15)


def test_emitted_source_of_a_graph_takes_its_labels(tmp_path):
    path = tmp_path / "chain.json"
    path.write_text(json.dumps({"edges": [["y", "a", "f"], ["a", "x", "g"], ["y", "b", -1.0], ["b", "x", "h"]]}))
    result = run("emit", str(path))
    assert result.exit_code == 0, result.output
    assert "x0 = f, x1 = g, x2 = h" in result.stdout
    scope = {}
    exec(compile(result.stdout, "emitted", "exec"), scope)
    np.testing.assert_array_equal(scope["chain_jacobian"](np.array([2.0, 3.0, 5.0])), [[2 * 3 - 5]])


def test_emit_llvm(model):
    result = run("emit", f"{model}:matrix", "--shape", "2x2", "--target", "llvm", *QUICK)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("; Value and Jacobian of matrix")
    assert "define" in result.stdout


def test_methods():
    assert [line.split()[0] for line in run("methods").stdout.splitlines()] == list(acc.methods())
    assert json.loads(run("methods", "--json").stdout) == acc.methods()


def test_version():
    assert run("--version").stdout == f"accumulus {acc.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "{model}:swril", *SWIRL), ("swril", "did you mean 'swirl'")),
        (("plan", "{model}:general", "--shape", "2"), ("model.py, line", "np.linalg.eigvals", "eigvalsh")),
        (("plan", "{model}:scalar", "--shape", "scalar", "--method", "revers"), ("did you mean 'reverse'",)),
        (("plan", "{model}:scalar", "--shape", "scalar", "--objective", "speed"), ("'speed'", "operations")),
        (("plan", "{model}:scalar", "--shape", "scalar", "--effort", "huge"), ("'huge'", "balanced")),
        (("plan", "{model}:scalar", "--shape", "scalar", "--time-limit", "-1"), ("-1",)),
        (("emit", "{model}:scalar", "--shape", "scalar", "--target", "fortran"), ("'fortran'", "llvm, numpy")),
        (("emit", "{model}:scalar", "--shape", "scalar", "-o", "{model}/no/file"), ("no/file",)),
    ],
)
def test_errors_exit_with_1_and_give_advice(model, arguments, words):
    result = run(*(argument.replace("{model}", model) for argument in arguments))
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert "error: " in result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "nothing.json"), ("nothing.json",)),
        (("plan", "nothing.py:f"), ("nothing.py",)),
        (("plan", "{model}"), ("swirl",)),
        (("plan", "{model}:swirl"), ("(x, p)", "--shape")),
        (("plan", "{model}:scalar", "--shape", "six"), ("'six'",)),
        (("plan", "{model}:scalar", "--shape", "3x0"), ("'3x0'",)),
        (("plan", GRAPH, "--shape", "6"), ("--shape",)),
        (("plan", "model.txt"), ("file.py:function",)),
        (("plan",), ("PROBLEM",)),
        (("plan", GRAPH, "--json", "--expressions"), ("--expressions",)),
        (("plan", GRAPH, "--json", "--latex"), ("--json",)),
        (("plot", GRAPH), ("plot",)),
    ],
)
def test_commands_that_make_no_sense_exit_with_2(model, arguments, words):
    result = run(*(argument.replace("{model}", model) for argument in arguments))
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    for word in words:
        assert word in result.stderr


def test_errors_of_the_user_s_code_show_that_code_only(model):
    result = run("plan", f"{model}:raises", "--shape", "2")
    assert result.exit_code == 1
    assert "ValueError: a message of my own" in result.stderr
    assert "in raises" in result.stderr
    assert "in inner" in result.stderr
    assert "accumulus/" not in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = (", "SyntaxError"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("raise SystemExit(3)", "__main__"),
    ],
)
def test_files_that_cannot_be_loaded(tmp_path, text, words):
    path = tmp_path / "unloadable.py"
    path.write_text(text)
    result = run("plan", f"{path}:f", "--shape", "2")
    assert result.exit_code == 1
    assert words in result.stderr
    assert "importlib" not in result.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not a JSON file"), ('{"edges": [["a", "b"], ["b", "a"]]}', "cycle"), ("[]", "edges")],
)
def test_malformed_graphs(tmp_path, text, words):
    path = tmp_path / "graph.json"
    path.write_text(text)
    result = run("plan", str(path))
    assert result.exit_code == 1
    assert words in result.stderr


def test_the_command_itself_starts_without_the_compiler():
    code = "import sys, accumulus.cli; sys.exit(bool({'numba', 'llvmlite', 'scipy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_installed_command(tmp_path):
    command = [sys.executable, "-m", "accumulus", "plan", GRAPH, "--method", "markowitz", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout)["chosen"]["method"] == "markowitz"
    assert done.stderr == ""


def test_emitted_c_of_long_arrays_has_loops(model):
    result = run("emit", f"{model}:long", "--shape", "6000", "--target", "c", *QUICK)
    assert "// Value and Jacobian of long" in result.stdout
    assert "void long_jacobian(const double *x, double *result, double *result_1, double *work);" in result.stdout
    assert result.stdout.count("for (ptrdiff_t i") < 12
