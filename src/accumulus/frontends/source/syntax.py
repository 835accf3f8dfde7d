"""Transformation of a function's syntax tree: decisions on values become calls.

An ``if`` runs once if its condition is a plain boolean. Otherwise the recorder may run it several times, once for each
branch, and join the variables that the branches assign::

    if x > 0:               @1 = None
        y = x               while True:
    else:                       try:
        y = -x                      if <truth of x > 0, or as @1 answers>:
                                        y = x
                                    else:
                                        y = -x
                                    if @1 is None or @1.done(locals()):
                                        break
                                except BaseException as error:
                                    if @1 is None or not @1.caught(error):
                                        raise
                                y = @1.values['y']
                                if @1.finished:
                                    break

The function thus keeps its frame, its lines and its local variables. Conditional expressions, ``and``, ``or``, ``not``
and chained comparisons become calls; operands that may not be evaluated are passed as lambdas. Calls first resolve the
callee, ``@call(f)(x)``. Assignments to entries announce the array, ``@written(a)[i] = v``, and the body of a ``try`` is
announced, too. Injected names begin with ``@``, which user names cannot.

Before this, exits from ``for`` loops are replaced by flags (`accumulus.frontends.source.exits`).

The following stay unchanged, so that a plain boolean decides them: an ``if`` with an exit from an enclosing loop, or
with an exit inside of a loop that has no flag; an ``if`` with a branch that ends with ``raise``, with ``yield``, or
that assigns global or nonlocal variables; an ``if`` at the limit of Python's nested blocks. Methods of classes are
converted when they are called.
"""

# ruff: noqa: D102  # the name of a method is the node that it is for
from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from accumulus.frontends.source.exits import (
    LOOPS,
    SCOPES,
    exits_at_end,
    exits_outside,
    in_scope,
    is_loop_method_call,
    is_temporary,
    moved_into_branches,
    with_flags,
    without_exits,
)
from accumulus.frontends.source.nodes import (
    assigned,
    assigned_in,
    call_of,
    chain_of,
    constant_tuple,
    is_bool,
    is_bound_to_scope,
    is_none,
    is_truth,
    located,
    method_call,
    over_iterations,
    postponed,
    run_over,
    variable,
)

#: Builtins that neither decide on nor change values; they are called unchanged.
HARMLESS: Final = frozenset(
    (
        *("callable", "classmethod", "getattr", "hasattr", "id", "isinstance", "issubclass", "len", "property"),
        *("staticmethod", "super", "type"),
    )
)
#: Builtins that take all items of their argument at once.
CONSUMERS: Final = frozenset(("dict", "list", "max", "min", "set", "sorted", "sum", "tuple"))
#: Builtins that inspect the calling frame: code that names them is not transformed.
FRAMES: Final = frozenset({"locals", "eval", "exec", "vars", "dir"})
#: Maximum number of nested blocks (Python allows 20), and the number of blocks that a transformed `if` takes.
MOST_BLOCKS: Final = 18
BLOCKS: Final = 2


def is_refused(function: ast.AST) -> bool:
    """Return True if a function is not transformed, since it inspects its own frame."""
    return any(isinstance(node, ast.Name) and node.id in FRAMES for node in ast.walk(function))


Displayed = TypeVar("Displayed", ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Transformer(ast.NodeTransformer):
    """Transformer of one function.

    Args:
        builtin: function that returns True if a name refers to Python's builtin of that name.
        file: file of the function.
    """

    def __init__(self, builtin: Callable[[str], bool], file: str = "") -> None:
        self.builtin = builtin
        self.file = file
        self._count = 0
        self._depth = 0
        #: Number of loops around the current statement in its function; and whether that function yields.
        self._loops, self._yields = 0, False
        #: Names that the current function declares global or nonlocal.
        self._outside: frozenset[str] = frozenset()
        #: Identities of return statements that become assignments of the result.
        self._results: set[int] = set()
        #: Identities of generator expressions whose items are taken at once.
        self._consumed: set[int] = set()

    # Expressions --------------------------------------------------------------------------------------------------
    #
    # Conditional expressions, ``and``, ``or`` and chained comparisons become calls, with lambdas for operands that may
    # not be evaluated. Calls resolve the callee first, and assignments to entries announce the array.

    def is_plain(self, test: ast.expr) -> bool:
        """Return True if a condition cannot be a traced value."""
        match test:
            case ast.Constant():
                return True
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.is_plain(operand)
            case ast.BoolOp(values=values):
                return all(map(self.is_plain, values))
            case ast.Compare(ops=ops, comparators=others):
                return (all(isinstance(op, ast.Is | ast.IsNot) for op in ops) and not is_truth(others[-1])) or any(
                    isinstance(o, ast.Constant) and isinstance(o.value, str) for o in [test.left, *others]
                )
            case ast.Call(func=ast.Name(id=name)):
                return name in ("callable", "hasattr", "isinstance", "issubclass") and self.builtin(name)
        return False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if is_loop_method_call(node.func):
            return node
        if isinstance(node.func, ast.Name) and node.func.id in CONSUMERS and self.builtin(node.func.id):
            self._consumed |= {id(each) for each in node.args if isinstance(each, ast.GeneratorExp)}
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id in HARMLESS and self.builtin(node.func.id)):
            node.func = located(call_of("@call", node.func), node.func)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        plain = self.is_plain(node.test) or is_bound_to_scope(node)
        self.generic_visit(node)
        if plain:
            return node
        test = self._decided(node.test, self._site(node))
        return located(call_of("@choose", self._site(node), test, postponed(node.body), postponed(node.orelse)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        plain = self.is_plain(node) or is_bound_to_scope(node)
        self.generic_visit(node)
        if plain:
            return node
        name = "@and" if isinstance(node.op, ast.And) else "@or"
        return located(call_of(name, self._site(node), node.values[0], *map(postponed, node.values[1:])), node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        plain = not isinstance(node.op, ast.Not) or self.is_plain(node)
        self.generic_visit(node)
        return node if plain else located(call_of("@not", node.operand), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        binds = is_bound_to_scope(node)
        self.generic_visit(node)
        if len(node.ops) == 1:
            if isinstance(node.ops[0], ast.Is | ast.IsNot) and is_truth(node.comparators[0]):
                return located(
                    call_of("@is", node.left, node.comparators[0], ast.Constant(isinstance(node.ops[0], ast.Is))), node
                )
            return node
        if binds:
            return node
        parts: list[ast.expr] = [self._site(node), node.left]
        for op, right in zip(node.ops, node.comparators, strict=True):
            parts += [ast.Constant(type(op).__name__), postponed(right)]
        return located(call_of("@compare", *parts), node)

    def _decided(self, test: ast.expr, site: ast.expr, *merge: ast.expr) -> ast.expr:
        """Return a condition that an iteration of a loop may decide in another way than the one before."""
        return call_of("@decided", site, test, *merge) if self._loops else test

    def _site(self, node: ast.expr) -> ast.expr:
        return constant_tuple((self.file, node.lineno, node.col_offset))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = located(call_of("@written", node.value), node.value)
        elif any(isinstance(child, ast.Name | ast.Attribute | ast.Subscript) for child in ast.walk(node.slice)):
            node.value = located(call_of("@indexed", node.value), node.value)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = located(call_of("@owner", node.value), node.value)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.iter = run_over(node.iter)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._at_once(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        if id(node) in self._consumed:
            return self._at_once(node)
        return self.generic_visit(node)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self._at_once(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._at_once(node)

    def _at_once(self, node: Displayed) -> Displayed:
        """Return a transformed comprehension whose iterations follow each other, as those of a ``for`` statement."""
        self._loops += 1
        self.generic_visit(node)
        self._loops -= 1
        for each in node.generators:
            if not each.is_async:
                each.iter = over_iterations(each.iter, self._site(each.iter))
        return node

    # Functions ----------------------------------------------------------------------------------------------------

    def function(self, node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef | ast.Lambda:
        """Return the transformed function; defaults, decorators and annotations are left to its definition."""
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
            return node
        before = self._depth, self._outside, self._results, self._loops, self._yields
        self._depth, self._results, self._loops = 0, set(), 0
        nodes = list(in_scope(node.body))
        self._outside = frozenset(n for d in nodes if isinstance(d, ast.Global | ast.Nonlocal) for n in d.names)
        self._yields = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in nodes)
        if not self._yields:
            body = node.body if self._outside else with_flags(node.body, self.file)
            node.body = moved_into_branches(body, ast.Return)
        node.body = self.block(node.body, at_end=True)
        self._depth, self._outside, self._results, self._loops, self._yields = before
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args = self.visit(node.args)
        return self.function(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.args = self.visit(node.args)
        return self.function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node

    # Statements -----------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt], *, at_end: bool = False) -> list[ast.stmt]:
        """Return the transformed statements of a block; `at_end` is True for the block that ends the function."""
        transformed: list[ast.stmt] = []
        for index, statement in enumerate(statements):
            if isinstance(statement, ast.If):
                last = at_end and index == len(statements) - 1
                transformed += self._if(statement, exits_at_end([statement], ast.Return) if last else set())
            else:
                transformed += self._announced(statement)
                if isinstance(statement, ast.While):
                    transformed += self._while(statement)
                else:
                    transformed.append(self.visit(statement))
        return transformed

    def _announced(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return a call to insert before an augmented assignment, or an assignment of a global or nonlocal name."""
        match statement:
            case ast.AugAssign(target=ast.Name(id=name)) if name not in self._outside:
                return [located(ast.Expr(call_of("@written", variable(name))), statement)]
        if not isinstance(statement, (*SCOPES, *LOOPS, ast.With, ast.Try, ast.Match)) and self._sets_outside(statement):
            return [located(ast.Expr(call_of("@outside")), statement)]
        return []

    def _sets_outside(self, statement: ast.stmt) -> bool:
        return bool(self._outside) and not self._outside.isdisjoint(assigned_in([statement]))

    def generic_visit(self, node: ast.AST) -> ast.AST:
        deeper = isinstance(node, (*LOOPS, ast.With, ast.AsyncWith, ast.Try, ast.TryStar))
        self._depth += deeper
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, self.block(value))
            elif isinstance(value, list):
                setattr(node, field, [self.visit(v) if isinstance(v, ast.AST) else v for v in value])
            elif isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        self._depth -= deeper
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        if self._sets_outside(ast.Assign([node.target], ast.Constant(None))):
            node.body.insert(0, located(ast.Expr(call_of("@outside")), node))
        node.body = without_exits(moved_into_branches(node.body, ast.Continue))
        self._loops += 1
        self.generic_visit(node)
        self._loops -= 1
        node.iter = run_over(node.iter)
        if not self._yields:  # else the loop that takes what is yielded has its iterations
            node.iter = over_iterations(node.iter, constant_tuple((self.file, node.lineno, node.col_offset)))
        return node

    def _while(self, node: ast.While) -> list[ast.stmt]:
        """Return a ``while`` statement, between calls that announce its begin and its end."""
        node.body = without_exits(moved_into_branches(node.body, ast.Continue))
        self._loops += 1
        self._depth += 1  # of the `try`
        self.generic_visit(node)
        self._depth -= 1
        self._loops -= 1
        if self._yields:
            return [node]
        self._count += 1
        loop = f"@{self._count}"
        begun = assigned(loop, call_of("@while", constant_tuple((self.file, node.lineno, node.col_offset))))
        node.body.insert(0, located(ast.Expr(method_call(loop, "turn")), node.body[0]))
        end = located(ast.Expr(method_call(loop, "end")), node)
        return [located(begun, node), located(ast.Try([node], [], [], [end]), node)]

    def visit_Try(self, node: ast.Try) -> ast.AST:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        if node.handlers:
            watched = ast.With([ast.withitem(call_of("@trying"))], node.body)
            node.body = [located(watched, node.body[0])]
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        catches_all = node.type is None or any(
            isinstance(n, ast.Name) and n.id == "BaseException" for n in ast.walk(node.type)
        )
        self.generic_visit(node)
        if catches_all:
            node.body.insert(0, located(ast.Expr(call_of("@outside")), node))
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        is_result = id(node) in self._results
        value = ast.Constant(None) if node.value is None else self.visit(node.value)
        if is_result:
            return located(assigned("@result", value), node)
        node.value = value if node.value is not None else None
        return node

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign) -> ast.AST:
        displayed = isinstance(node.value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
        self.generic_visit(node)
        if displayed and node.value is not None:
            node.value = located(call_of("@new", node.value), node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        return self.visit_Assign(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.target, ast.Subscript | ast.Attribute):
            announced = node.target.value  # the object may be changed in place, too
            assert isinstance(announced, ast.Call)
            announced.args.append(located(ast.Constant(True), node))
        return node

    def _if(self, node: ast.If, results: set[int]) -> list[ast.stmt]:
        """Return an ``if`` with its ``elif`` clauses, followed by a return if it sets the result of the function."""
        tests, bodies, other = chain_of(node)
        if not self._is_merged(tests, bodies, other, results | self._results):
            node.test = self.visit(node.test)
            node.body = self.block(node.body)
            node.orelse = self.block(node.orelse)
            return [node]
        self._count += 1
        merge = f"@{self._count}"
        names = sorted(name for name in assigned_in([node]) if not is_temporary(name))
        outermost = not self._results
        if results and outermost:
            self._results = results
        if self._results & exits_at_end([node], ast.Return):
            names.append("@result")
        self._depth += BLOCKS
        before = [
            self._truth(test, merge, index, (self.file, node.lineno, node.col_offset, *names))
            for index, test in enumerate(tests)
        ]
        blocks = [self.block(body) for body in bodies]
        last = self.block(other)
        self._depth -= BLOCKS
        for test, body, where in reversed(list(zip(before, blocks, tests, strict=True))):
            last = [located(ast.If(test, body, last), where)]
        statements = self._loop(node, merge, names, last[0])
        if results and outermost:
            self._results = set()
            statements.insert(0, located(assigned("@result", ast.Constant(None)), node))
            statements.append(located(ast.Return(ast.Name("@result", ast.Load())), node))
        return statements

    def _is_merged(
        self, tests: Sequence[ast.expr], bodies: list[list[ast.stmt]], other: list[ast.stmt], results: set[int]
    ) -> bool:
        """Return True if the source of an ``if`` permits the recording of several branches."""
        if self._depth + BLOCKS > MOST_BLOCKS or all(map(self.is_plain, tests)):
            return False
        blocks = [*bodies, other]
        if any(block and isinstance(block[-1], ast.Raise) for block in blocks):
            return False
        nodes: list[ast.AST] = [*tests, *(statement for block in blocks for statement in block)]
        inside = list(in_scope(nodes))
        if exits_outside(nodes) or any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for n in inside):
            return False
        if any(isinstance(n, ast.Return) and id(n) not in results for n in inside):
            return False
        return self._outside.isdisjoint(assigned_in(nodes))

    def _truth(self, test: ast.expr, merge: str, index: int, site: tuple[str | int, ...]) -> ast.expr:
        """Return the condition of an ``if``: its plain truth, or the answer of the merge."""
        decided = self.visit(test)
        if not any(isinstance(name, str) and name.startswith("@stop") for name in site):
            place = constant_tuple((*site, index))
            decided = self._decided(decided, place, constant_tuple(site), variable(merge))
        tested = ast.NamedExpr(ast.Name("@truth", ast.Store()), decided)
        answered = ast.NamedExpr(ast.Name("@truth", ast.Store()), call_of("@plain", variable("@truth")))
        begun = call_of("@begin", variable(merge), constant_tuple(site), call_of("@locals"))
        answer = ast.IfExp(
            ast.BoolOp(ast.Or(), [is_bool(tested), is_bool(answered)]),
            variable("@truth"),
            ast.Call(
                ast.Attribute(ast.NamedExpr(ast.Name(merge, ast.Store()), begun), "ask", ast.Load()),
                [variable("@truth"), ast.Constant(index)],
                [],
            ),
        )
        opens = method_call(merge, "opens", ast.Constant(index))
        first = ast.BoolOp(ast.Or(), [is_none(merge), opens])
        return located(ast.IfExp(first, answer, ast.Attribute(variable(merge), "answer", ast.Load())), test)

    def _loop(self, node: ast.If, merge: str, names: Sequence[str], chain: ast.stmt) -> list[ast.stmt]:
        """Return the loop around an ``if`` that runs it once, or once for each branch."""
        done = ast.If(
            ast.BoolOp(ast.Or(), [is_none(merge), method_call(merge, "done", call_of("@locals"))]), [ast.Break()], []
        )
        again = ast.UnaryOp(ast.Not(), method_call(merge, "caught", variable("@e")))
        handler = ast.ExceptHandler(
            variable("@error"), "@e", [ast.If(ast.BoolOp(ast.Or(), [is_none(merge), again]), [ast.Raise()], [])]
        )
        restored: list[ast.stmt] = []
        for name in names:
            value = ast.Subscript(ast.Attribute(variable(merge), "values", ast.Load()), ast.Constant(name), ast.Load())
            is_undefined = ast.Compare(variable(name), [ast.Is()], [variable("@undefined")])
            restored.append(assigned(name, value))
            restored.append(ast.If(is_undefined, [ast.Delete([ast.Name(name, ast.Del())])], []))
        finished = ast.If(ast.Attribute(variable(merge), "finished", ast.Load()), [ast.Break()], [])
        attempt = ast.Try([chain, done], [handler], [], [])
        return [
            located(assigned(merge, ast.Constant(None)), node),
            located(ast.While(ast.Constant(True), [attempt, *restored, finished], []), node),
        ]
