"""Compilation of functions from their transformed source.

The source is found by file and line, and used only if it compiles to the function's own bytecode. A function is not
transformed if it has no source, if its file has changed since, or if other code has rewritten it. The new function has
the file, lines, global variables, closure, defaults and name of the old one.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Final

from accumulus.frontends.source.conversions import FUTURE, original_code
from accumulus.frontends.source.exits import in_scope
from accumulus.frontends.source.nodes import MARK, copied_tree, located
from accumulus.frontends.source.syntax import HARMLESS, Transformer, is_refused

#: Cache of transformed code, by original code, file, and True if no harmless builtin is shadowed; None: unchanged.
_CODES: Final[dict[tuple[CodeType, str, bool], CodeType | None]] = {}
#: Maximum number of cached code objects, and maximum number of lines of a file. More code objects take memory, fewer
#: convert functions again. Longer files take long to parse; functions of refused ones keep their decisions as guards.
MOST_KEPT: Final = 4096
MOST_LINES: Final = 50_000
#: Name of a function while it is recompiled, since its own name would become a local variable there.
_NAME: Final = "@function"


def converted(function: FunctionType, runtime: Mapping[str, object]) -> FunctionType | None:
    """Return `function` with its decisions replaced by calls of `runtime`; None if it needs no transformation.

    Args:
        function: function to transform.
        runtime: object for each name that the transformed code calls.
    """
    code = _transformed(function, runtime)
    if code is None:
        return None
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(
        CellType(runtime[name]) if name in runtime else cells[name]  # the user's cells are shared
        for name in code.co_freevars
    )
    new = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    new.__kwdefaults__ = function.__kwdefaults__
    new.__qualname__, new.__doc__, new.__module__ = function.__qualname__, function.__doc__, function.__module__
    new.__annotations__ = function.__annotations__
    vars(new).update(vars(function))
    return new


def _transformed(function: FunctionType, runtime: Mapping[str, object]) -> CodeType | None:
    code = original_code(function)
    # equal code objects of two files may refer to different globals
    key = code, code.co_filename, HARMLESS.isdisjoint(function.__globals__)
    if key in _CODES:
        return _CODES[key]
    if len(_CODES) >= MOST_KEPT:
        _CODES.clear()
    try:
        transformed = _transform(function, runtime)
    except (SyntaxError, RecursionError, OSError, TypeError, ValueError, IndexError, AttributeError):
        transformed = None  # unsupported code runs untransformed
    if transformed is not None and not set(transformed.co_freevars) <= runtime.keys() | set(code.co_freevars):
        transformed = None
    _CODES[key] = transformed
    return transformed


def _transform(function: FunctionType, runtime: Mapping[str, object]) -> CodeType | None:
    code = original_code(function)
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines or len(lines) > MOST_LINES:
        return None
    module, imported = _tree("".join(lines))
    for node, around in _candidates(module, code):
        if is_refused(node):
            continue
        plain = _compiled(node, around, code, imported, ())
        if plain is None or not _is_same(plain, code):
            continue
        names = set(code.co_varnames) | set(code.co_cellvars) | set(code.co_freevars)

        def builtin(name: str, names: set[str] = names) -> bool:
            return hasattr(builtins, name) and name not in names and name not in function.__globals__

        new = Transformer(builtin, code.co_filename).function(copied_tree(node))
        transformed = _compiled(new, around, code, imported, tuple(runtime))
        return None if transformed is None else _named(transformed, code.co_name, code.co_qualname)
    return None


@lru_cache(maxsize=64)
def _tree(source: str) -> tuple[ast.Module, ast.stmt]:
    """Return the syntax tree of a file, and an ``import`` statement that binds the names of its imports.

    The statement is compiled together with each function, because Python compiles attributes of imported names
    differently.
    """
    module = ast.parse(source)
    names = {
        (alias.asname or alias.name).partition(".")[0]
        for node in in_scope([module])
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return module, ast.Import([ast.alias(name) for name in sorted(names - {"*"})]) if names - {"*"} else ast.Pass()


def _candidates(module: ast.Module, code: CodeType) -> Iterator[tuple[ast.FunctionDef | ast.Lambda, str]]:
    """Yield the functions of a file that begin at the first line of a code object, each with the name of its class."""
    line = code.co_firstlineno
    waiting: list[tuple[ast.AST, str]] = [(module, "")]
    while waiting:
        node, owner = waiting.pop()
        decorators = getattr(node, "decorator_list", ())
        first, last = getattr(node, "lineno", line), getattr(node, "end_lineno", None) or line
        first = min([first, *(decorator.lineno for decorator in decorators)])
        if not first <= line <= last:
            continue
        if isinstance(node, ast.Lambda):
            if code.co_name == "<lambda>" and node.lineno == line:
                yield node, owner
        elif isinstance(node, ast.FunctionDef) and code.co_name == node.name and first == line:
            yield node, owner
        if isinstance(node, ast.ClassDef):
            owner = node.name
        waiting.extend((child, owner) for child in ast.iter_child_nodes(node))


def _compiled(
    node: ast.FunctionDef | ast.Lambda, owner: str, code: CodeType, imported: ast.stmt, injected: tuple[str, ...]
) -> CodeType | None:
    """Compile a function with the free variables of the original and the injected names; None if it is not found."""

    def nothing(_: object) -> ast.expr:
        return ast.copy_location(ast.Constant(None), node)

    arguments: ast.arguments = copied_tree(node.args)
    for argument in ast.iter_child_nodes(arguments):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    arguments.defaults = list(map(nothing, arguments.defaults))
    arguments.kw_defaults = [default and nothing(default) for default in arguments.kw_defaults]
    inner: ast.stmt
    if isinstance(node, ast.Lambda):
        inner = ast.Expr(ast.copy_location(ast.Lambda(arguments, node.body), node))
    else:  # decorators are dropped, but set the first line of the code
        decorators = [ast.copy_location(nothing(d), d) for d in node.decorator_list]
        inner = ast.FunctionDef(_NAME, arguments, node.body, decorators)
    body: list[ast.stmt] = [ast.copy_location(inner, node)]
    if owner:  # the class name mangles names that begin with two underscores
        body = [ast.ClassDef(owner, [], [], body, [])]
    free = [ast.arg(name) for name in (*(n for n in code.co_freevars if n != "__class__"), *injected)]
    factory = ast.FunctionDef("factory", ast.arguments([], free, None, [], [], None, []), body, [])
    module = ast.Module([located(copied_tree(imported), node), located(factory, node)], [])
    made = compile(module, code.co_filename, "exec", flags=code.co_flags & FUTURE, dont_inherit=True)
    name = code.co_name if isinstance(node, ast.Lambda) else _NAME
    for candidate in _codes(made):
        if candidate.co_name == name and candidate.co_firstlineno == code.co_firstlineno:
            return candidate.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code objects inside of another, outermost first."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _is_same(one: CodeType, other: CodeType) -> bool:
    """Return True if two code objects have the same instructions, names, constants and positions."""
    if (one.co_code, one.co_names, one.co_varnames) != (other.co_code, other.co_names, other.co_varnames):
        return False
    if one.co_freevars != other.co_freevars or len(one.co_consts) != len(other.co_consts):
        return False
    if list(one.co_positions()) != list(other.co_positions()):
        return False
    for a, b in zip(one.co_consts, other.co_consts, strict=True):
        if isinstance(a, CodeType) and isinstance(b, CodeType):
            if not _is_same(a, b):
                return False
        elif type(a) is not type(b) or repr(a) != repr(b):
            return False
    return True


def _qualified(name: str, around: str) -> str:
    """Return the qualified name of a function inside of one with the qualified name `around`."""
    _, _, within = name.rpartition(_NAME)
    return around + within if within != name else name


def _named(code: CodeType, name: str, qualified: str) -> CodeType:
    """Return code with original names: functions that the transformation made are named like the one around them."""
    constants = tuple(
        constant
        if not isinstance(constant, CodeType)
        else _named(constant, name, qualified)
        if MARK in constant.co_varnames
        else _named(constant, constant.co_name, _qualified(constant.co_qualname, qualified))
        for constant in code.co_consts
    )
    return code.replace(co_consts=constants, co_name=name, co_qualname=qualified)
