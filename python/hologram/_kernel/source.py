"""The source of a function that is to be traced, made ready: where Python decides by a truth, values may take part."""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import linecache
import operator
import threading
import types
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from hologram._kernel.functions import where
from hologram._kernel.lines import fail
from hologram._kernel.promotion import PRED
from hologram._kernel.values import Value, value_of
from hologram.errors import DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DECISIONS", "Body", "Expression", "assigned", "body_of", "defined", "expression_of"]


class Body:
    """The source of a function.

    Attributes:
        name: The function's name.
        file: Where it is.
        line: That of its first statement.
        locals: The names that are its own.
        plain: Whether Python itself runs it as ``run`` does.
    """

    def __init__(self, code: types.CodeType, written: list[ast.stmt], plain: bool) -> None:
        self.name = code.co_name
        self.file = code.co_filename
        self.line = written[0].lineno
        self.locals = frozenset((*code.co_varnames, *code.co_cellvars))
        self.plain = plain
        self._written = written
        if not plain:  # at once, not in several threads: loops are known by their nodes
            _ = self.statements

    @functools.cached_property
    def statements(self) -> list[ast.stmt]:
        """Its statements, made ready for ``run``."""
        return [ast.fix_missing_locations(_Rewriter().visit(node)) for node in copy.deepcopy(self._written)]


def body_of(function: types.FunctionType) -> Optional[Body]:
    """Return a function's source, or None where Python can't find it, or finds another than was compiled.

    Raises:
        InvalidArgumentError: The same function stands on its line twice.
    """
    code = function.__code__
    found = [defined.bodies[code]] if code in defined.bodies else _found(function)
    if not found:
        return None
    if len(found) > 1:
        place = f"{code.co_filename}:{code.co_firstlineno}"
        raise InvalidArgumentError(
            f"kernel: {place} has several functions like this one; write it on a line of its own"
        )
    return Body(code, found[0], code not in defined.bodies and all(map(_is_plain, found[0])))


_LEFT = (ast.Name, ast.Tuple, ast.List, ast.expr_context)
_PLAIN = (
    *(ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.keyword, ast.Attribute, ast.Subscript),
    *(ast.Slice, ast.operator, ast.unaryop, ast.cmpop, *_LEFT),
)


def _is_plain(node: ast.stmt) -> bool:
    """Whether a statement sets names, or returns, what expressions give in which Python decides nothing."""
    targets: list[ast.expr] = []
    if isinstance(node, (ast.Pass, ast.Return)):
        pass
    elif isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    elif isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    else:
        return False
    if not all(isinstance(inner, _LEFT) for target in targets for inner in ast.walk(target)):
        return False
    for inner in () if isinstance(node, ast.Pass) or node.value is None else ast.walk(node.value):
        if not isinstance(inner, _PLAIN) or isinstance(inner, ast.Not):
            return False
        if isinstance(inner, ast.Compare) and (len(inner.ops) > 1 or isinstance(inner.ops[0], (ast.In, ast.NotIn))):
            return False
    return True


class Expression(NamedTuple):
    """What evaluating an expression takes."""

    code: types.CodeType
    loads: frozenset[str]  # the names that it reads
    binds: tuple[str, ...]  # those that a := in it sets


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node consists of, as ast.iter_child_nodes does, which takes twice as long."""
    for value in vars(node).values():
        if isinstance(value, ast.AST):
            yield value
        elif value.__class__ is list:
            for item in value:
                if isinstance(item, ast.AST):
                    yield item


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all that it consists of, in no order."""
    pending = [node]
    while pending:
        inner = pending.pop()
        yield inner
        if inner.__class__ is not ast.Name and inner.__class__ is not ast.Constant:
            pending.extend(_children(inner))


def expression_of(node: ast.expr, file: str) -> Expression:
    """Return what evaluating an expression of a file takes, which the node keeps."""
    found: Optional[Expression] = getattr(node, "expression", None)
    if found is None:
        inside = list(_inside(node))
        found = Expression(
            compile(ast.Expression(node), file, "eval"),
            frozenset(each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)),
            tuple(each.target.id for each in inside if isinstance(each, ast.NamedExpr)),
        )
        # All at once: kernels that call one kernel share its nodes, in several threads, and Ctrl-C may strike between.
        node.expression = found  # type: ignore[attr-defined]
    return found


class _Defined(threading.local):
    def __init__(self) -> None:
        self.bodies: dict[types.CodeType, list[ast.stmt]] = {}


defined = _Defined()
"""The functions that a kernel defines inside itself, while it does: their code isn't what Python makes of the file."""


def _found(function: types.FunctionType) -> list[list[ast.stmt]]:
    """Return the bodies of the functions in the file that are compiled to the same code as one."""
    code = function.__code__
    linecache.checkcache(code.co_filename)
    source = "".join(linecache.getlines(code.co_filename, function.__globals__))
    nodes, codes = _functions(source, code.co_filename, code.co_flags & _FUTURE)
    same = [other for other in codes.get(code.co_firstlineno, ()) if other == code]
    if not same:
        return []  # the file isn't what was compiled, or something else had its hands on the code
    found: list[list[ast.stmt]] = []
    for node in nodes.get(code.co_firstlineno, ()):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            found.append(node.body)
        elif isinstance(node, ast.Lambda) and code.co_name == "<lambda>":
            arguments = node.args
            names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            if names == list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
                found.append([ast.copy_location(ast.Return(node.body), node.body)])
    if len(found) > 1 and hasattr(code, "co_positions"):  # from Python 3.11 on
        spans = set(code.co_positions())
        found = [body for body in found if _span(body[0]) in spans] or found
    return found


def _span(node: ast.AST) -> tuple[Any, ...]:
    return tuple(getattr(node, name) for name in ("lineno", "end_lineno", "col_offset", "end_col_offset"))


_FUTURE = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag, __future__.all_feature_names, 0
)


@functools.lru_cache(maxsize=8)
def _functions(source: str, file: str, flags: int) -> tuple[dict[int, list[ast.AST]], dict[int, list[types.CodeType]]]:
    """Return the functions of a file by the lines that they begin on, decorators included, and what they compile to."""
    nodes: dict[int, list[ast.AST]] = {}
    codes: dict[int, list[types.CodeType]] = {}
    try:
        tree = ast.parse(source, file)
        pending = [compile(source, file, "exec", flags, True)]
    except (SyntaxError, ValueError):  # it is not what was compiled
        return nodes, codes
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
            nodes.setdefault(min([node.lineno, *(d.lineno for d in decorators)]), []).append(node)
    while pending:
        code = pending.pop()
        codes.setdefault(code.co_firstlineno, []).append(code)
        pending.extend(constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return nodes, codes


class _Rewriter(ast.NodeTransformer):
    """Makes calls of the expressions in which Python decides by a truth, so that values may take part."""

    def _call(self, node: ast.expr, name: str, *arguments: ast.expr) -> ast.expr:
        # Each operand becomes a function, called if Python would have come to it. A := in one would be lost.
        if any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(node)):
            return self._python(node)
        nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        thunks: list[ast.expr] = [ast.copy_location(ast.Lambda(nothing, argument), argument) for argument in arguments]
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), thunks, []), node)

    def _python(self, node: ast.expr) -> ast.expr:
        """Leave an expression to Python, which asks all operands but the last for a truth: no values may be there."""

        def known(operand: ast.expr) -> ast.expr:
            return ast.copy_location(ast.Call(ast.Name("<known>", ast.Load()), [operand], []), operand)

        if isinstance(node, ast.BoolOp):
            node.values[:-1] = map(known, node.values[:-1])
        elif isinstance(node, ast.Compare):
            node.left, *node.comparators[:-1] = map(known, (node.left, *node.comparators[:-1]))
        elif isinstance(node, ast.UnaryOp):
            node.operand = known(node.operand)
        elif isinstance(node, ast.IfExp):
            node.test = known(node.test)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return self._call(node, "<and>" if isinstance(node.op, ast.And) else "<or>", *node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._call(node, "<not>", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        return self._call(node, "<if>", node.test, node.body, node.orelse)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            name = {ast.In: "<in>", ast.NotIn: "<not in>"}.get(type(node.ops[0]))
            return self._call(node, name, node.left, *node.comparators) if name else node
        operators = []
        for op in node.ops:  # each as a function of two operands
            compare: ast.expr = ast.Compare(ast.Name("a", ast.Load()), [op], [ast.Name("b", ast.Load())])
            two = ast.arguments(
                posonlyargs=[], args=[ast.arg("a"), ast.arg("b")], kwonlyargs=[], kw_defaults=[], defaults=[]
            )
            operators.append(ast.copy_location(ast.Lambda(two, self.visit(compare)), node))
        table = ast.copy_location(ast.Tuple(list(operators), ast.Load()), node)
        return self._call(node, "<chain>", table, node.left, *node.comparators)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            return node
        sum = ast.copy_location(ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value), node)
        return ast.copy_location(ast.Assign([node.target], sum, lineno=node.lineno), node)


def _decide(start: bool, operands: tuple[Callable[[], Any], ...]) -> Any:
    """Compute `and` (start is True) or `or` of operands: of bools the bool, of others the operand that Python gives."""
    result: Any = start
    for operand in operands:
        if isinstance(result, Value):
            other = value_of(result.trace, operand(), "an operand of `and` or `or`")
            if result.type == other.type == PRED:
                result = operator.and_(result, other) if start else operator.or_(result, other)
            else:
                result = where(_truth(result), other, result) if start else where(_truth(result), result, other)
        elif bool(result) != start:
            return result
        else:
            result = operand()
    return result


def _truth(value: Value) -> Any:
    return value if value.type == PRED else value.astype(bool)


def _chain(operators: Callable[[], Any], *operands: Callable[[], Any]) -> Any:
    left = operands[0]()
    steps: list[Callable[[], Any]] = []

    def step(compare: Any, operand: Callable[[], Any]) -> Any:
        nonlocal left
        right = operand()
        left, before = right, left
        return compare(before, right)

    for compare, operand in zip(operators(), operands[1:]):
        steps.append(functools.partial(step, compare, operand))
    return _decide(True, tuple(steps))


def _choose(test: Callable[[], Any], body: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    condition = test()
    if isinstance(condition, Value):
        return where(condition, body(), orelse())
    return body() if condition else orelse()


def _negate(operand: Callable[[], Any]) -> Any:
    value = operand()
    return ~_truth(value) if isinstance(value, Value) else not value


def _contains(left: Callable[[], Any], right: Callable[[], Any]) -> Any:
    item, container = left(), right()
    items = container if isinstance(container, (tuple, list)) else [container]
    if any(isinstance(each, Value) for each in (item, *items)):
        fail(
            DTypeError,
            "`in` can't be had of a value that is known only when the kernel runs; compare it with each, as by "
            "(x == 1) | (x == 2), or with bounds, as by (0 <= x) & (x < 3)",
        )
    return item in container


def _known(operand: Any) -> Any:
    if isinstance(operand, Value):
        fail(
            InvalidArgumentError,
            "a `:=` can't stand within `and`, `or`, `not`, `a if b else c` or a chained comparison of values that are "
            "known only when the kernel runs; assign the name in a line of its own before, as in y = …",
        )
    return operand


DECISIONS = {
    "<known>": _known,
    "<and>": lambda *operands: _decide(True, operands),
    "<or>": lambda *operands: _decide(False, operands),
    "<not>": _negate,
    "<if>": _choose,
    "<chain>": _chain,
    "<in>": _contains,
    "<not in>": lambda left, right: not _contains(left, right),
}


def assigned(statements: list[ast.stmt]) -> list[str]:
    """Return the names that statements assign, not those of functions inside them."""
    found: dict[str, None] = {}

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found[node.id] = None
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = None
            return
        elif isinstance(node, ast.NamedExpr):
            found[node.target.id] = None
        elif isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return
        for child in _children(node):
            walk(child)

    for statement in statements:
        walk(statement)
    return list(found)
