"""Public functions document an example that runs, each argument with its shape, each error and the source."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from inside import Program, get

import accumulus as acc
from accumulus import errors
from accumulus.methods import METHODS
from accumulus.show.report import Report
from accumulus.tape.matrices import MatrixOperations

#: Methods of a program that only front ends call, with operands of their own kinds.
OF_FRONT_ENDS = {"begin_loops", "call", "extend", "factorise", "of_matrices", "sparse_product", "sparse_solve"}


def public_functions(owner: Any) -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Yield the public functions of a module, or those of a class and its bases, with the class that has them."""
    if inspect.ismodule(owner):
        for name in getattr(owner, "__all__", [name for name in vars(owner) if not name.startswith("_")]):
            member = getattr(owner, name)
            if getattr(member, "__module__", "").startswith("accumulus"):
                if inspect.isfunction(member):
                    yield owner, member
                elif inspect.isclass(member):
                    yield from public_functions(member)
        return
    for base in owner.__mro__:
        if base.__module__.startswith("accumulus"):
            for name, member in vars(base).items():
                function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                if not name.startswith("_") and inspect.isfunction(function):
                    yield base, function


def surface() -> dict[str, tuple[Any, Callable[..., Any]]]:
    """Return all public functions and methods by name, with their class or module."""
    results: dict[str, tuple[Any, Callable[..., Any]]] = {}
    for public in [*(getattr(acc, name) for name in acc.__all__ if name != "errors"), Report, Program]:
        is_function = not (inspect.isclass(public) or inspect.ismodule(public))
        for owner, function in [(acc, public)] if is_function else public_functions(public):
            if owner not in (Program, MatrixOperations) or function.__name__ not in OF_FRONT_ENDS:
                results[f"{owner.__name__}.{function.__name__}"] = owner, inspect.unwrap(function)
    return results


SURFACE = surface()


@cache
def examples(described: Any) -> str:
    """Return the lines of code in the examples of a docstring."""
    lines = (inspect.getdoc(described) or "").splitlines()
    return "\n".join(line for line in lines if re.match(r"\s*(>>>|\.\.\.) ", line))


@pytest.mark.parametrize("name", SURFACE)
def test_an_example_calls_it(name):
    """The example is in its docstring, or in that of its class or module; pytest runs all of them."""
    owner, function = SURFACE[name]
    around = [owner, sys.modules[function.__module__]]
    if inspect.isclass(owner):  # or in that of a subclass or a base
        around += [*owner.__mro__, *owner.__subclasses__()]
    call = rf"\b{function.__name__}\("
    assert examples(function) or any(re.search(call, examples(each)) for each in around)


def section(text: str, title: str) -> str:
    """Return the lines of a section of a docstring, such as Args or Raises; empty if there is none."""
    match = re.search(rf"^{title}:\n((?: +.*\n|\n)*)", f"{text}\n", re.MULTILINE)
    return match[1] if match else ""


def argument_texts(text: str) -> dict[str, str]:
    """Return the descriptions in the section Args of a docstring, by the name of the argument."""
    entries = re.split(r"^    \*{0,2}(\w+(?:, \w+)*):", section(text, "Args"), flags=re.MULTILINE)[1:]
    pairs = zip(entries[::2], entries[1::2], strict=True)
    return {name: description for names, description in pairs for name in names.split(", ")}


def array_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the parameters that are arrays by their annotation, or may be (Any)."""
    parameters = inspect.signature(function).parameters.values()
    return [
        each.name
        for each in parameters
        if (re.search("NDArray|References|Column", annotation := str(each.annotation)) and "Callable" not in annotation)
        or (annotation == "Any" and each.kind is not each.VAR_KEYWORD and each.name not in NO_ARRAYS)
    ]


#: A shape: the word, or a tuple such as (…, 3) or (n, m).
SHAPE = re.compile(r"\bshapes?\b|\(…|\([\w·, +×−-]+,[^)]*\)")
#: Parameters of type Any that are no arrays, or are described by the arguments that they are written to.
NO_ARRAYS = {"ax", "executor", "out", "rows"}


@pytest.mark.parametrize("name", SURFACE)
def test_shapes_of_arrays_are_documented(name):
    """The shape is in the description of the argument; without one, in the docstring."""
    _, function = SURFACE[name]
    if function.__module__ == "accumulus.jax":  # made from functions that are checked themselves
        return
    text = inspect.getdoc(function) or ""
    described = argument_texts(text)
    assert [each for each in array_parameters(function) if not SHAPE.search(described.get(each, text))] == []


@pytest.mark.parametrize("name", SURFACE)
def test_errors_that_it_raises_are_documented(name):
    _, function = SURFACE[name]
    if function.__module__ == "accumulus.jax":  # made from functions that are checked themselves
        return
    body = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = {
        node.exc.func.id
        for node in ast.walk(body)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)
    }
    documented = section(inspect.getdoc(function) or "", "Raises")
    for error in {"UnknownNameError" if each == "unknown_name" else each for each in raised} & {*dir(errors)}:
        assert re.search(rf"\b{error}\b", documented), f"{name} raises {error}"


#: A source: a publication with its year, or the notes.
SOURCE = re.compile(r"\b(18|19|20)\d\d\b|\bthe notes\b")
#: Public functions without an algorithm of the literature, by reason.
WITHOUT_SOURCE = {
    "they record, and the algorithms run later": "trace map scan assemble custom register",
    "they read or write files and tables": "save load save_graph load_graph save_plan load_plan corpus methods",
    "they call functions that name theirs, within another system": "jax.* casadi.* sympy.*",
}
EXEMPT = re.compile("|".join(rf"accumulus\.{each}" for names in WITHOUT_SOURCE.values() for each in names.split()))


def names_its_source(function: Callable[..., Any]) -> bool:
    module = sys.modules[function.__module__]
    return any(SOURCE.search(inspect.getdoc(each) or "") for each in (function, module))


def test_algorithms_name_their_source():
    """The source is in the docstring of the function, or in that of its module, which may describe several."""
    functions = {name: function for name, (owner, function) in SURFACE.items() if not inspect.isclass(owner)}
    missing = {name for name, function in functions.items() if not names_its_source(function)}
    assert [name for name in missing if not EXEMPT.fullmatch(name)] == []
    assert {each for each in functions if EXEMPT.fullmatch(each)} == missing, "names a source now"


def test_methods_name_their_source():
    """All but `auto`, which runs the others."""
    assert [name for name in METHODS if not names_its_source(get(name).find)] == ["auto"]


@pytest.mark.parametrize("name", SURFACE)
def test_each_of_many_arguments_is_described(name):
    """Functions of more than two arguments describe each, in a section or in a sentence."""
    _, function = SURFACE[name]
    code = function.__code__
    parameters = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]} - {"self", "cls"}
    text = inspect.getdoc(function) or ""
    if len(parameters) > 2 and function.__module__ != "accumulus.jax":
        assert {each for each in parameters if not re.search(rf"\b{each}\b", text)} == set()


def undescribed_constants(source: str) -> list[str]:
    """Return the numbers in a module's head that have no comment, neither their own nor that of the line above."""
    lines, missing, described = source.splitlines(), [], 0
    for node in ast.parse(source).body:
        target = (
            node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else 0
        )
        if not isinstance(target, ast.Name):
            continue
        above, here = lines[node.lineno - 2].strip(), lines[node.end_lineno - 1]
        if "  # " in here or (above.startswith("#") and not above.startswith("# ---")) or described == node.lineno - 1:
            described = node.end_lineno
        elif re.fullmatch(r"_?[A-Z][A-Z0-9_]*", target.id) and isinstance(
            getattr(node.value, "value", None), int | float
        ):
            missing.append(target.id)
    return missing


def test_constants_are_described():
    """Kernels are left out: their constants are codes and sizes of words."""
    package = Path(acc.__file__).parent
    modules = [path for path in package.rglob("*.py") if path.parent.name not in ("compiled", "native")]
    missing = {path.name: names for path in modules if (names := undescribed_constants(path.read_text("utf-8")))}
    assert missing == {}
