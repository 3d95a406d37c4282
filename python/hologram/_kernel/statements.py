"""A kernel's function, run on values statement by statement.

Expressions are Python's own: they are evaluated by Python, and values do with operators and calls what they must.
Statements are carried out here, since Python itself can't be asked which way an `if` or a loop would go in each lane.
"""

from __future__ import annotations

import ast
import inspect
import types
from typing import Any, NamedTuple, NoReturn, Optional

from hologram._kernel import loops
from hologram._kernel.ir import Negated, Place
from hologram._kernel.lines import TRACING, at, current, fail
from hologram._kernel.loops import Range, rounds_of, wrapped
from hologram._kernel.promotion import PRED
from hologram._kernel.source import DECISIONS, Body, assigned, defined, expression_of
from hologram._kernel.values import Trace, Value, value_of
from hologram._kernel.variables import Variable, is_scalar
from hologram.errors import DTypeError, InvalidArgumentError

__all__ = ["Again", "run"]

_FALLS, _DEAD, _BREAK, _CONTINUE, _RETURN = range(5)  # how a block ends; _DEAD: no lane gets to its end
_ABSENT: Any = object()


class Again(Exception):
    """The trace begins anew: it found out that a loop can't be unrolled, since lanes leave it one by one."""


class _Loop(NamedTuple):
    """A loop around the statement that runs."""

    depth: int  # how deep in control flow of lanes it stands
    leave: str  # the label behind it, or nothing if it is unrolled
    again: str  # the label of its next round
    left: list[bool]  # whether a break was met
    node: Optional[ast.stmt] = None  # the statement, if the loop is unrolled


class _Frame:
    """One call of a traced function."""

    def __init__(self, trace: Trace, body: Body, names: dict[str, Any]) -> None:
        self.trace = trace
        self.code = trace.code
        self.body = body
        self.names = names
        self.lost: dict[str, str] = {}  # names that have no value any more, and why
        self.variables: dict[str, Variable] = {}
        self.depth = 0  # how deep in control flow of lanes
        self.loops: list[_Loop] = []
        self.result: Any = None
        self.results: Optional[tuple[bool, list[Variable]]] = None  # of returns in control flow of lanes
        self.end = ""

    def fail(self, node: ast.AST, message: str) -> NoReturn:
        fail(InvalidArgumentError, message, (self.body.file, getattr(node, "lineno", 0)))

    def evaluate(self, node: ast.expr) -> Any:
        """Have Python evaluate an expression."""
        found = expression_of(node, self.body.file)
        if self.lost:
            for name in found.loads & self.lost.keys():
                self.fail(node, f"{name} {self.lost[name]}")
        try:
            value = eval(found.code, self.names)
        except (TypeError, ValueError) as error:
            _tell(error, self.body.file)
            raise
        for name in found.binds:
            if name in self.names:
                self.assign(name, self.names[name])
        return value

    # ---- names

    def assign(self, name: str, thing: Any) -> None:
        self.lost.pop(name, None)
        self.names[name] = thing
        variable = self.variables.get(name)
        if variable is not None:
            if is_scalar(thing):
                variable.write(thing)
            else:
                variable.opaque = True

    def bind(self, target: ast.expr, thing: Any) -> None:
        """Assign to what stands on the left of =."""
        if isinstance(target, ast.Name):
            self.assign(target.id, thing)
        elif isinstance(target, (ast.Tuple, ast.List)):
            things = list(thing)
            star = next((i for i, item in enumerate(target.elts) if isinstance(item, ast.Starred)), None)
            count = len(target.elts)
            if star is not None:
                rest = len(things) - count + 1
                if rest >= 0:
                    things[star : star + rest] = [things[star : star + rest]]
            if len(things) != count:  # as Python says it, which runs most such statements
                few = (
                    f"not enough values to unpack (expected {f'at least {count - 1}' if star is not None else count}, "
                )
                few += f"got {len(things)})"
                many = f"too many values to unpack (expected {count}, got {len(things)})"
                self.fail(target, few if len(things) < count else many)
            for item, part in zip(target.elts, things):
                self.bind(item.value if isinstance(item, ast.Starred) else item, part)
        elif self.depth:
            self.fail(target, "elements and attributes can't be assigned where lanes differ; use names")
        else:
            assignment = ast.Assign([target], ast.Name("<value>", ast.Load()), lineno=target.lineno)
            module = ast.Module([ast.fix_missing_locations(ast.copy_location(assignment, target))], [])
            self.names["<value>"] = thing
            exec(compile(module, self.body.file, "exec"), self.names)

    def hold(self, node: ast.AST, names: list[str], start: bool) -> list[str]:
        """Give names variables, those bound a first value; return those that had none.

        Without ``start`` the names that aren't bound yet get none: nothing of them outlives a round.
        """
        new = []
        for name in names:
            thing = self.names.get(name, _ABSENT)
            if name in self.variables or (thing is _ABSENT and not start):
                continue
            variable = Variable(self.trace, name)
            if thing is not _ABSENT:
                if not is_scalar(thing):
                    self.fail(node, f"{name} is a {type(thing).__name__} before; lanes can differ in numbers only")
                variable.write(thing)
            self.variables[name] = variable
            new.append(name)
        return new

    def reread(self, names: list[str]) -> None:
        """Have names stand for what their variables hold now."""
        for name in names:
            self.names[name] = self.variables[name].read()

    def lose(self, name: str, why: str) -> None:
        self.names.pop(name, None)
        self.lost[name] = why

    # ---- statements

    def block(self, statements: list[ast.stmt]) -> int:
        outer = current.place
        try:
            for node in statements:
                current.place = Place(self.body.file, node.lineno)
                flow: int = getattr(self, "do_" + type(node).__name__, self.no)(node)
                if flow != _FALLS:
                    return flow
        finally:
            current.place = outer
        return _FALLS

    def do_Nonlocal(self, node: ast.Nonlocal) -> NoReturn:
        name = node.names[0]
        self.fail(
            node,
            f"`nonlocal` is not there in kernels; have the function take {name} and return it, as in "
            f"{name} = function({name})",
        )

    def no(self, node: ast.stmt) -> NoReturn:
        words = {"With": "with", "Try": "try", "TryStar": "try", "Match": "match", "ClassDef": "class"}
        self.fail(node, f"`{words.get(type(node).__name__, type(node).__name__.lower())}` is not there in kernels")

    def do_Pass(self, node: ast.Pass) -> int:
        return _FALLS

    def do_Expr(self, node: ast.Expr) -> int:
        if not isinstance(node.value, ast.Constant):
            if self.depth:
                self.fail(node, "a call for its effect would run once, while tracing, not in each lane")
            self.evaluate(node.value)
        return _FALLS

    def do_Assign(self, node: ast.Assign) -> int:
        thing = self.evaluate(node.value)
        for target in node.targets:
            self.bind(target, thing)
        return _FALLS

    def do_AnnAssign(self, node: ast.AnnAssign) -> int:
        if node.value is not None:
            self.bind(node.target, self.evaluate(node.value))
        return _FALLS

    def execute(self, node: ast.stmt) -> int:
        """Have Python carry out a statement that sets names as it does."""
        if self.depth:
            self.fail(node, "elements and attributes can't be assigned where lanes differ; use names")
        exec(compile(ast.Module([node], []), self.body.file, "exec"), self.names)
        return _FALLS

    do_AugAssign = execute  # of an element or attribute: the others were rewritten

    def define(self, node: ast.stmt) -> int:
        exec(compile(ast.Module([node], []), self.body.file, "exec"), self.names)
        return _FALLS

    do_Import = do_ImportFrom = define

    def do_FunctionDef(self, node: ast.FunctionDef) -> int:
        for within in ast.walk(node):
            if isinstance(within, ast.Nonlocal):
                self.do_Nonlocal(within)
        module = compile(ast.Module([node], []), self.body.file, "exec")
        inner = {c: node.body for c in module.co_consts if isinstance(c, types.CodeType) and c.co_name == node.name}
        defined.bodies.update(inner)
        try:
            exec(module, self.names)
        finally:
            for code in inner:
                defined.bodies.pop(code, None)
        return _FALLS

    def do_Assert(self, node: ast.Assert) -> int:
        if isinstance(self.evaluate(node.test), Value):
            self.fail(node, "an assertion can't fail in some lanes; return the condition as a second output")
        return self.define(node)

    def do_Raise(self, node: ast.Raise) -> int:
        if self.depth:
            self.fail(node, "an exception can't be raised in some lanes; return a condition as a second output")
        return self.define(node)

    def do_Return(self, node: ast.Return) -> int:
        result: Any = None if node.value is None else self.evaluate(node.value)
        if not self.depth and self.results is None:
            self.result = result
            return _RETURN
        several = isinstance(result, (tuple, list))
        things: list[Any] = list(result) if several else [result]
        if not all(is_scalar(thing) for thing in things):
            self.fail(node, f"a kernel returns numbers, got {result!r}")
        if self.results is None:
            self.results = (several, [Variable(self.trace, "the result") for _ in things])
            self.end = self.code.label("return")
        if (several, len(things)) != (self.results[0], len(self.results[1])):
            self.fail(node, "each return of a kernel gives as many results as the others")
        for variable, thing in zip(self.results[1], things):
            variable.write(thing)
        self.code.act("bra", self.end)
        return _DEAD

    def finish(self, flow: int) -> Any:
        """Return what the call returns, after its statements."""
        if self.results is None:
            return self.result
        if flow == _FALLS:
            fail(
                InvalidArgumentError,
                f"{self.body.name} returns in some lanes and comes to its end without in others; return there too",
                (self.body.file, getattr(self.body.statements[-1], "lineno", 0)),
            )
        self.code.place(self.end)
        results = tuple(variable.read() for variable in self.results[1])
        return results if self.results[0] else results[0]

    # ---- where lanes differ

    def do_If(self, node: ast.If) -> int:
        test = self.evaluate(node.test)
        if not isinstance(test, Value):
            return self.block(node.body if test else node.orelse)
        test = value_of(self.trace, test, "the condition")
        jump = node.body[0]
        if isinstance(jump, (ast.Break, ast.Continue)) and not node.orelse:
            self.depth += 1
            self.jump(jump, test.held(PRED))
            self.depth -= 1
            return _FALLS
        names = assigned([*node.body, *node.orelse])
        new = self.hold(node, names, True)
        before = {name: (self.names.get(name, _ABSENT), self.lost.get(name)) for name in names}
        otherwise, end = self.code.label("else"), self.code.label("end")
        self.code.act("bra", otherwise, Negated(test.held(PRED)))
        self.depth += 1
        outside = self.trace.enter()
        flows = [self.block(node.body)]
        known = [self.trace.leave(outside)]
        states = [{name: self.names.get(name, _ABSENT) for name in names}]
        if flows[0] == _FALLS and node.orelse:
            self.code.act("bra", end)
        self.code.place(otherwise)
        for name, (thing, why) in before.items():
            self.names.pop(name, None)
            self.lost.pop(name, None)
            if thing is not _ABSENT:
                self.names[name] = thing
            if why is not None:
                self.lost[name] = why
        outside = self.trace.enter()
        flows.append(self.block(node.orelse))
        known.append(self.trace.leave(outside))
        states.append({name: self.names.get(name, _ABSENT) for name in names})
        self.code.place(end)
        self.depth -= 1
        living = [state for flow, state in zip(flows, states) if flow == _FALLS]
        if len(living) == 1:  # who comes here went through that branch
            self.trace.open |= known[flows.index(_FALLS)]
        for name in names:
            variable = self.variables[name]
            things = [state[name] for state in living]
            if len(living) == 1 and things[0] is not _ABSENT:
                self.names[name] = things[0]
                self.lost.pop(name, None)
            elif len(living) == 2 and all(t is not _ABSENT for t in things) and not variable.opaque:
                self.names[name] = variable.read()
                self.lost.pop(name, None)
            elif living and name not in self.lost:
                why = "is set in some lanes only: give it a value before the `if`"
                self.lose(name, why if not variable.opaque else "is no number, and is set where lanes differ")
        for name in new:
            del self.variables[name]
        return _FALLS if living else _DEAD

    def rounds(self, statements: list[ast.stmt], loop: _Loop) -> None:
        """Trace the body of a loop that stays one."""
        self.depth += 1
        self.loops.append(loop)
        self.block(statements)
        self.loops.pop()
        self.depth -= 1

    def after(self, names: list[str], held: list[str], new: list[str]) -> None:
        """Settle what names stand for behind a loop."""
        for name in names:
            variable = self.variables.get(name)
            if variable is not None and name in held:
                if variable.opaque:
                    self.lose(name, "is set to what is no number in a loop over hologram.range")
                else:
                    self.names[name] = variable.read()
            elif name in self.names:
                self.lose(name, "is set in the loop only, whose rounds may be none: give it a value before the loop")
        for name in new:
            del self.variables[name]

    def do_For(self, node: ast.For) -> int:
        items = self.evaluate(node.iter)
        if not isinstance(items, Range):
            return self.unroll(node, items)
        if node.orelse:
            self.fail(
                node,
                "`else` can't follow a loop over hologram.range; set a name before `break`",
            )
        if not isinstance(node.target, ast.Name):
            self.fail(node, "a loop over hologram.range counts one name")
        trace, code = self.trace, self.code
        start, stop = (value_of(trace, bound, "hologram.range") for bound in (items.start, items.stop))
        # It counts in ints, as Python's range does; of u64 in these.
        strong = {bound.type for bound in (start, stop) if not bound.weak}
        type = "u64" if "u64" in strong else "i64"
        if type == "u64" and any(t[0] == "i" for t in strong):
            fail(
                DTypeError,
                f"hologram.range: {start.type} and {stop.type} have no common integer type; convert a bound with "
                ".astype(…)",
            )
        ends = start.bounds, stop.bounds
        first = start.source(type)
        rounds, rest = rounds_of(trace, items.step, type, start, stop)
        counter = code.register(type)
        code.write(counter, f"mov.{type}", first)
        names = [name for name in assigned(node.body) if name != node.target.id]
        if is_scalar(self.names.get(node.target.id)):  # which it is still after no rounds
            names.append(node.target.id)
        names_held = [name for name in names if name in self.names]
        new = self.hold(node, names, False)
        loop = _Loop(self.depth, code.label("leave"), code.label("next"), [])
        code.loop(rounds, loop.again)
        outside = trace.enter()
        self.reread(names_held)
        index = Value(trace, type, type == "i64", trace.emit(f"mov.{type}", type, counter))
        if type == "i64":
            index.bounds = (ends[0][0], ends[1][1] - 1) if items.step > 0 else (ends[1][0] + 1, ends[0][1])
        # The step may wrap, as the sum does: what comes of the last round's is not read.
        code.write(counter, f"add.{type}", counter, wrapped(items.step, type))
        self.assign(node.target.id, index)
        self.rounds(node.body, loop)
        trace.leave(outside)
        code.place(loop.again)
        if rest is not None:
            self.no_more(node, rest)
        elif loop.left:
            # A branch to a LOOP's end goes on to the next round, so what leaves it needs a place of its own.
            code.nothing()
        if loop.left:
            code.place(loop.leave)
        self.after(list(dict.fromkeys([*names, node.target.id])), names_held, new)
        return _FALLS

    def no_more(self, node: ast.For, rest: Any) -> None:
        """Fault where all rounds of a LOOP are done and the loop has more."""
        code, enough = self.code, self.code.label("enough")
        if rest != "true":
            code.act("bra", enough, Negated(rest))
        code.fault(Place(self.body.file, node.lineno, f"a loop has more than {loops.MOST} rounds, and did so many"))
        code.place(enough)

    def do_While(self, node: ast.While) -> int:
        rounds = 0
        while True:
            forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
            if node in self.trace.stay:
                return self.do_while(node, forever)
            test = self.evaluate(node.test)
            if isinstance(test, Value) or forever:
                return self.do_while(node, forever)
            if not test:
                return self.block(node.orelse)
            rounds += 1
            if rounds > 65536:
                self.fail(node, "the loop goes on while tracing; its condition never depends on a value")
            flow = self.unrolled(node)
            if flow == _BREAK:
                return _FALLS
            if flow in (_DEAD, _RETURN):
                return flow

    def do_while(self, node: ast.While, forever: bool) -> int:
        """Trace a loop whose condition differs between lanes."""
        if node.orelse:
            self.fail(node, "`else` can't follow a loop that lanes leave one by one; set a name before `break`")
        code = self.code
        binds = [inner.target.id for inner in ast.walk(node.test) if isinstance(inner, ast.NamedExpr)]
        names = list(dict.fromkeys([*assigned(node.body), *binds]))
        held = [name for name in names if name in self.names]
        new = self.hold(node, names, False)
        loop = _Loop(self.depth, code.label("leave"), code.label("next"), [])
        code.place(loop.again)
        outside = self.trace.enter()
        self.reread(held)
        if not forever:
            test = self.evaluate(node.test)
            code.act("bra", loop.leave, Negated(value_of(self.trace, test, "the condition").held(PRED)))
        self.rounds(node.body, loop)
        self.trace.leave(outside)
        code.loop_back(loop.again)
        code.place(loop.leave)
        self.after(names, held, new)
        return _DEAD if forever and not loop.left else _FALLS

    # ---- loops that Python runs

    def unroll(self, node: ast.For, items: Any) -> int:
        for item in items:
            self.bind(node.target, item)
            flow = self.unrolled(node)
            if flow == _BREAK:
                return _FALLS
            if flow in (_DEAD, _RETURN):
                return flow
        return self.block(node.orelse)

    def unrolled(self, node: Any) -> int:
        self.loops.append(_Loop(self.depth, "", "", [], node))
        flow = self.block(node.body)
        self.loops.pop()
        return flow

    def jump(self, node: ast.stmt, *condition: int) -> int:
        """Leave the loop, or its round, where a predicate holds."""
        loop = self.loops[-1]
        leaves = isinstance(node, ast.Break)
        if loop.leave:
            self.code.act("bra", loop.leave if leaves else loop.again, *condition)
            if leaves:
                loop.left.append(True)
            return _DEAD
        if self.depth != loop.depth:
            if isinstance(loop.node, ast.While):
                self.trace.stay.add(loop.node)
                raise Again
            word = "break" if leaves else "continue"
            self.fail(node, f"`{word}` in some lanes only: loop over hologram.range, which lanes can leave one by one")
        return _BREAK if leaves else _CONTINUE

    do_Break = do_Continue = jump


TRACING[id(_Frame.block.__code__)] = _Frame.block.__code__


def run(trace: Trace, function: types.FunctionType, body: Body, arguments: dict[str, Any]) -> Any:
    """Run a function on values and return what it returns."""
    names = {name: thing for name, thing in function.__globals__.items() if name not in body.locals}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue  # not set yet
    names.update(DECISIONS)
    names.update(arguments)
    if body.plain:
        return _straight(function, body, names, arguments)
    frame = _Frame(trace, body, names)
    return frame.finish(frame.block(body.statements))


def _straight(function: types.FunctionType, body: Body, names: dict[str, Any], arguments: dict[str, Any]) -> Any:
    """Have Python run a function whose statements it carries out as they are here, which needs none compiled again."""
    outer = current.place
    current.place = Place(body.file, body.line)
    try:
        code = function.__code__
        count, keywords = code.co_argcount, code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
        given = [arguments[name] for name in code.co_varnames[:count]]
        if code.co_flags & inspect.CO_VARARGS:
            given += arguments[code.co_varnames[count + len(keywords)]]
        copy = types.FunctionType(code, names, function.__name__, None, function.__closure__)
        return copy(*given, **{name: arguments[name] for name in keywords})
    except (TypeError, ValueError) as error:
        _tell(error, body.file)
        raise
    finally:
        current.place = outer


def _tell(error: Exception, file: str) -> None:
    """Have an error tell its line that Python itself raised in the code that is run, as of range(0, 3, 0).

    Raises:
        HologramError: It is such a one. What functions raise has lines of its own.
    """
    within = None if error.__traceback__ is None else error.__traceback__.tb_next
    if type(error) in (TypeError, ValueError) and within is not None and within.tb_next is None:
        kind = DTypeError if type(error) is TypeError else InvalidArgumentError
        raise kind(f"{error}{at(file, within.tb_lineno)}") from error


TRACING[id(_straight.__code__)] = _straight.__code__
