"""Kernels as what people call: arguments become a signature, a signature a program, and the program runs."""

from __future__ import annotations

import functools
import inspect
import operator
import re
import threading
import types
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union, overload

import numpy as np

from hologram._arguments import naming, shown
from hologram._built import is_number
from hologram._dtypes import NAMES, dtype_of_code
from hologram._ffi import KernelBase, native
from hologram._kernel.arrays import ARRAYS, HOST, is_array, stand_in, usable
from hologram._kernel.integers import Numbers
from hologram._kernel.ir import Place, Where
from hologram._kernel.lines import TRACING, at, current, fail, ours
from hologram._kernel.making import alone
from hologram._kernel.outside import look, outside
from hologram._kernel.promotion import PRED, kind_of
from hologram._kernel.signature import BOOL, Kind, Signature, argument, atlas_names
from hologram._kernel.source import Body, body_of
from hologram._kernel.statements import Again, run
from hologram._kernel.values import Trace, Value, value_of
from hologram._results import allocate, default_executor, executor_of
from hologram.errors import DTypeError, HologramError, InvalidArgumentError, ProgramFault
from hologram.executor import Executor
from hologram.program import Program

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Compiled", "Kernel", "kernel"]

_LIMIT = 256
"""The most programs that a kernel keeps; the oldest goes first."""

_DEEPEST = 32
"""How deep kernels may call each other; they become part of their callers, so one that calls itself never ends."""

_MAY_FAULT = re.compile(r"^(?:  (?:div|rem)\.[iu]|\w+:)", re.MULTILINE)
"""What a program that may fault has: a division of integers, or a label, as loops have."""

_OTHER = object()


_Picker = Callable[["Sequence[Any]"], "tuple[Any, ...]"]


def _picker(places: Sequence[int]) -> _Picker:
    """Return what picks items of a sequence by their places."""
    if len(places) > 1:
        return operator.itemgetter(*places)
    return (lambda values: (values[places[0]],)) if places else lambda values: ()


class Compiled(NamedTuple):
    """A program and how to call it."""

    program: Program
    text: str
    names: list[str]  # of slots, parameters that are arguments, those that are computed, and the outputs
    places: list[int]  # of the arguments
    numbers: Optional[Numbers]  # computes of the arguments what is computed
    outputs: list[tuple[str, np.dtype[Any]]]
    several: bool
    lines: dict[int, Where]  # of the Python code that the text's lines come of
    arrays: _Picker  # of the arguments those that slots take
    scalars: _Picker  # of the arguments, and of what is computed behind them, those that parameters take


class _Ready(NamedTuple):
    """What the types and dtypes of a call's arguments and outputs decide."""

    compiled: Compiled
    first: int  # the place of the first array
    others: list[int]  # those of the others, of the outputs too
    offered: set[tuple[type, ...]]  # the types of which C has such calls, or can't


class Kernel(KernelBase):
    """A function of numbers, compiled into one program that works element by element on arrays; see ``kernel``.

    Attributes:
        atlas: The text of the program made last.
    """

    def __init__(self, function: Callable[..., Any], *, static: Iterable[str] = ()) -> None:
        if not callable(function):
            raise DTypeError(f"kernel: expected a function, got {type(function).__name__}")
        if isinstance(function, type):
            raise DTypeError(f"kernel: expected a function, got the class {function.__name__}")
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise DTypeError(
                f"kernel: expected a function that returns numbers, and {function.__name__} yields or awaits"
            )
        functools.update_wrapper(self, function)
        self._name = re.sub(r"\W", "_", getattr(function, "__name__", "kernel"), flags=re.ASCII).strip("_") or "kernel"
        self._function = function = getattr(function, "of_values", function)
        self._signature = Signature(self._name, function, static)
        self._simple = self._signature.positional and not self._signature.static
        annotated = self._signature.annotated
        self._annotated = [i for i, name in enumerate(self._signature.names) if name in annotated]
        self._body: Optional[Body] = None
        self._cache: dict[Any, Compiled] = {}
        self._ready: dict[Any, _Ready] = {}  # by what is quick to find out
        self._last: Optional[Compiled] = None
        self._front: Optional[KernelBase] = None  # what people call instead, to which C's calls belong then
        self._watched: Optional[dict[object, Callable[[], object]]] = None  # looks at the names outside, by these
        self._outside: tuple[list[object], tuple[object, ...]] = [], ()  # what they saw last, and what it comes to
        self._lock = threading.RLock()
        if isinstance(function, types.FunctionType):
            if not hasattr(function, "__wrapped__"):  # what wraps another calls it as Python does
                self._body = body_of(function)

    def __repr__(self) -> str:
        """Describe the kernel in one line."""
        return f"<hologram.kernel {self._name}{self._signature}: {len(self._cache)} programs>"

    def __reduce__(self) -> str:
        """Pickle as the name by which a module has the kernel, as functions are."""
        return str(self.__qualname__)  # type: ignore[attr-defined]

    def _numbers_outside(self) -> tuple[object, ...]:
        """Return the numbers and functions outside that the function names: they are part of its program."""
        looks = (self._watch() if self._watched is None else self._watched).values()
        now = [value() for value in looks]
        before, keys = self._outside
        if len(now) != len(before) or not all(map(operator.is_, now, before)):
            keys = tuple([outside(value) for value in now])
            # What a program does not depend on is not kept alive: arrays, models.
            self._outside = [_OTHER if key is None else value for value, key in zip(now, keys)], keys
        return keys

    def _watch(self) -> dict[object, Callable[[], object]]:
        """Look for names of numbers and functions outside, before each program is made: there may be more than before.

        Those that the functions name are among them, names of modules and classes not. What was found once stays.
        """
        found = dict(self._watched or {})
        if isinstance(self._function, types.FunctionType):
            look(self._function, found, set())
        if found:
            self._forget()  # C doesn't look
        self._watched = found
        return found

    # ---- compiling

    def _compiled(self, names: list[str], values: list[Any], out: Optional[tuple[Any, ...]]) -> Compiled:
        kinds = tuple(self._signature.kind(name, value) for name, value in zip(names, values))
        wanted = None if out is None else tuple(self._signature.kind("out", value).type for value in out)
        key = (kinds, wanted, self._numbers_outside())
        found = self._cache.get(key)
        if found is None:
            native.object_count()  # raises in a fork's child, whose parent's threads may have had the lock
            with self._lock:
                self._watch()
                key = (kinds, wanted, self._numbers_outside())
                found = self._cache.get(key)
                if found is None:
                    found = self._compile(names, values, kinds, wanted)
                    if len(self._cache) >= _LIMIT:
                        self._ready.clear()
                        self._forget()
                    while len(self._cache) >= _LIMIT:
                        del self._cache[next(iter(self._cache))]
                    self._cache[key] = found
                    self._last = found
        return found

    def _compile(
        self, names: list[str], values: list[Any], kinds: tuple[Kind, ...], wanted: Optional[tuple[str, ...]]
    ) -> Compiled:
        """Trace the function until the types of its variables are settled."""
        plan: dict[int, tuple[str, bool]] = {}
        wide: set[int] = set()
        stay: set[object] = set()
        while True:
            trace, atlas = Trace(plan, wide, stay), atlas_names(names)
            outer = current.trace, current.place
            try:
                current.trace, current.place = trace, None
                arguments = [argument(trace, *each) for each in zip(atlas, kinds, values, range(len(values)))]
                result = self._call(trace, names, arguments)
                several, outputs = self._outputs(trace, result, wanted, atlas)
            except Again:
                plan.clear()  # whose variables have other numbers now
                wide.clear()
                continue
            finally:
                current.trace, current.place = outer
            if not trace.again:
                break
        lines = [f"slot {name} {type}" for name, type in trace.slots.items()]
        lines += [f"slot {name} {'u8' if type == PRED else type}" for name, type in outputs]
        given = {name: param.place for name, param in trace.params.items() if param.place >= 0}
        numbers = Numbers(self._name, trace)
        for name, param in trace.params.items():
            what = "" if name in given else f"  ; {trace.steps[param.step].text}"
            lines.append(f"param {name} {param.type}{what}")
        try:
            text, written = trace.code.text(self._name, lines)
        except HologramError as error:
            raise type(error)(f"{self._name}: {error}") from None
        place = {name: i for i, name in enumerate(atlas)}
        computed = [name for name in trace.params if name not in given]
        cells = given | {name: len(values) + i for i, name in enumerate(computed)}
        return Compiled(
            Program(text, file=f"<kernel {self._name}>"),
            text,
            [*trace.slots, *given, *computed, *(name for name, _ in outputs)],
            [*(place[name] for name in trace.slots), *given.values()],
            numbers if len(numbers) else None,
            [(name, BOOL if type == PRED else dtype_of_code(NAMES.index(type) + 1)) for name, type in outputs],
            several,
            written,
            _picker([place[name] for name in trace.slots]),
            _picker([cells[name] for name in trace.params]),
        )

    def _call(self, trace: Trace, names: list[str], values: list[Any]) -> Any:
        """Run the function on values."""
        variadic = next(
            (n for n, p in self._signature.parameters.items() if p.kind is inspect.Parameter.VAR_POSITIONAL), None
        )
        given = dict(zip(names, values))
        if variadic is not None:
            rest = [value for name, value in given.items() if name not in self._signature.parameters]
            given = {name: value for name, value in given.items() if name in self._signature.parameters}
            given[variadic] = tuple(rest)
        if self._body is not None and isinstance(self._function, types.FunctionType):
            return run(trace, self._function, self._body, given)
        positional: list[Any] = []
        for name, parameter in self._signature.parameters.items():
            if parameter.kind is parameter.KEYWORD_ONLY:
                continue
            thing = given.pop(name)
            positional += thing if name == variadic else [thing]
        unread = isinstance(self._function, types.FunctionType) and not hasattr(self._function, "__wrapped__")
        trace.unread += [self._name] * unread
        try:
            return self._function(*positional, **given)
        finally:
            del trace.unread[len(trace.unread) - unread :]

    def _outputs(
        self, trace: Trace, result: Any, wanted: Optional[tuple[str, ...]], taken: list[str]
    ) -> tuple[bool, list[tuple[str, str]]]:
        """Store what the function returned."""
        several = isinstance(result, (tuple, list))
        results = list(result) if several else [result]
        code = getattr(self._function, "__code__", None)
        # Of a function of the package the caller's line is of more use.
        where = None if code is None or ours(code.co_filename) else (code.co_filename, code.co_firstlineno)
        current.place = None if where is None else Place(*where)  # of what is found out while results are stored
        if not results or any(not isinstance(r, Value) and not is_number(r) for r in results):
            found = "nothing" if result is None else f"a {type(result).__name__}"
            raise DTypeError(f"{self._name} returns {found}; expected a number or a tuple of numbers")
        if wanted is not None and len(wanted) != len(results):
            count = f"{len(wanted)} array{'s' * (len(wanted) != 1)} for {len(results)} result{'s' * (len(results) > 1)}"
            raise InvalidArgumentError(f"{self._name}: out has {count}")
        outputs = []
        for i, thing in enumerate(results):
            value = value_of(trace, thing, "the result")
            type_ = value.type
            if wanted is not None and wanted[i] != type_:
                type_ = wanted[i]
                if not _may_become(value, type_):
                    what, which = (f"out[{i}]", f"result {i}") if several else ("out", "the result")
                    offered = code is not None and ours(code.co_filename)
                    how = f"hologram.cast(…, '{_type(type_)}') converts it" if offered else "give .astype in the kernel"
                    fail(
                        DTypeError,
                        f"{self._name}: {what} is {_type(type_)}, and {which}, {_type(value.type)}, isn't put there "
                        f"silently; {how}",
                        where,
                    )
            name = "out" if len(results) == 1 else f"out{i}"
            while name in taken:
                name += "_"
            held = trace.code.emit("sel.u8", "u8", value.held(PRED), "1", "0") if type_ == PRED else value.source(type_)
            trace.code.act(f"stg.{'u8' if type_ == PRED else type_}", held, f"{name}[index]")
            outputs.append((name, type_))
        return several, outputs

    # ---- calling

    def _call_any(self, *arguments: Any, out: Any = None, executor: Optional[Executor] = None, **keywords: Any) -> Any:
        """Run the kernel: what __call__ of C does of calls such as one before.

        Args:
            arguments: Arrays, which are broadcast together as numpy does, and numbers.
            out: An array for the result, or a tuple of them for several; of the shape that the arguments broadcast to,
                or one that it broadcasts to. Without it the result is what the first array is: a numpy array, a torch
                tensor, an array of CuPy's, a Buffer; a numpy array for all others.
            executor: Where to run; that of the first Buffer, or one for the kind of memory, without it.
            keywords: Arguments by name.

        Returns:
            out, or what was made for the results: a tuple if the function returns one. A number if there is no array.
        """
        outs = None if out is None else tuple(out) if isinstance(out, (tuple, list)) else (out,)
        # Most calls are such as one before, of the same types and dtypes: what these decide is known of it.
        key, placed = None, self._placed(arguments, keywords)
        if placed is not None and outs != ():
            all_values = placed if outs is None else (*placed, *outs)
            found = [value.dtype if type(value) in ARRAYS else type(value) for value in all_values]
            if self._watched != {}:
                found.append(self._numbers_outside())
            key = tuple(found)
            ready = self._ready.get(key)
            if ready is not None:
                like = all_values[ready.first]
                shape = like.shape
                for i in ready.others:
                    if all_values[i].shape != shape:
                        shape = self._shape([v if type(v) in ARRAYS else None for v in placed], outs)
                        break
                kinds = tuple(map(type, all_values))
                if kinds not in ready.offered:  # arrays of other kinds, of the same dtypes
                    self._offer(ready, placed, outs or ())
                if executor is None and HOST.issuperset(map(type, all_values)):
                    executor = default_executor(1)
                return self._run(ready.compiled, placed, like, shape, out, outs, executor)
        names, values = self._signature.flat(arguments, keywords)
        for value in values:
            if isinstance(value, Value):
                alone(self._name, out, executor)
                return self._inline(names, values)
        for i, result in enumerate(outs or ()):
            if not is_array(result):
                what = f"out[{i}]" if isinstance(out, (tuple, list)) else "out"
                raise DTypeError(
                    f"{self._name}: {what} is {shown(result)}; expected an array, or a tuple of them for several"
                )
        arrays = [v for n, v in zip(names, values) if n not in self._signature.static and is_array(v)]
        like = arrays[0] if arrays else None
        given = []
        for name, value in zip(names, values):
            with naming(f"{self._name}: {name}"):
                given.append(usable(value))
        compiled = self._compiled(names, given, outs)
        broadcast = [v if n not in self._signature.static and is_array(v) else None for n, v in zip(names, given)]
        HOST.update({type(value) for value in values if isinstance(value, np.generic)})
        if key is not None:
            self._know(key, compiled, values, outs or ())
        return self._run(compiled, given, like, self._shape(broadcast, outs, names), out, outs, executor)

    def _placed(self, arguments: Sequence[Any], keywords: dict[str, Any]) -> Optional[Sequence[Any]]:
        """Return a call's arguments by place, if their types and dtypes may decide all but shapes and numbers."""
        if not self._simple:
            return None
        if not keywords and len(arguments) == len(self._signature.names):
            return arguments
        return self._signature.placed(arguments, keywords)

    def _know(self, key: Any, compiled: Compiled, values: list[Any], outs: tuple[Any, ...]) -> None:
        """Keep what a key says of calls such as one with these values, if it says all."""
        places = [i for i, value in enumerate(values) if type(value) in ARRAYS]
        # An array may stand for a number that is annotated as one, if it has no dimensions: no dtype says that.
        if not places or any(i in places for i in self._annotated):
            return
        if all(type(v) in ARRAYS or type(v) in HOST for v in values) and all(type(o) in ARRAYS for o in outs):
            places += range(len(values), len(values) + len(outs))
            ready = self._ready[key] = _Ready(compiled, places[0], places[1:], set())
            self._offer(ready, values, outs)

    def _offer(self, ready: _Ready, values: Sequence[Any], outs: tuple[Any, ...]) -> None:
        """Have C do calls such as one with these values, if they can't fault, as told here, nor look at names outside.

        An array that the program doesn't read has a shape as all have, so C would have to look at it, too.
        """
        compiled, types = ready.compiled, tuple([type(value) for value in (*values, *outs)])
        ready.offered.add(types)
        places = [i for i, value in enumerate(values) if type(value) in ARRAYS]
        given = [*(values[i] for i in places), *outs]
        kinds = {"numpy" if type(a) is np.ndarray else type(a).__module__.partition(".")[0] for a in given}
        usual = kinds <= {"numpy", "torch", "hologram"} and (outs or len(kinds) == 1)
        reads = len(compiled.program.slots) - len(compiled.outputs)
        if not usual or not {*places} <= {*compiled.places[:reads]}:
            return
        if self._watched != {} or compiled.numbers is not None or _MAY_FAULT.search(compiled.text):
            return
        behind = range(len(values), len(values) + len(compiled.outputs))
        bools = [str(values[i].dtype).endswith("bool") for i in compiled.places[:reads]]
        bools += [dtype == BOOL for _, dtype in compiled.outputs]
        native.kernel_add(
            self if self._front is None else self._front,
            compiled.program,
            types,
            len(outs),
            (*compiled.places[:reads], *behind, *compiled.places[reads:]),
            tuple([0 if of else NAMES.index(slot.dtype) + 1 for of, slot in zip(bools, compiled.program.slots)]),
            compiled.several,
        )

    def _forget(self) -> None:
        native.kernel_add(self if self._front is None else self._front, None, (), 0, (), (), False)

    def _run(
        self,
        compiled: Compiled,
        values: Sequence[Any],
        like: Any,
        shape: tuple[int, ...],
        out: Any,
        outs: Optional[tuple[Any, ...]],
        executor: Optional[Executor],
    ) -> Any:
        """Launch the program and return its results, arrays such as like where there is no out."""
        if executor is None:
            with naming(self._name):  # torch says of a tensor on its device meta that DLPack has none such
                executor = executor_of((*values, *(outs or ())))
        elif not isinstance(executor, Executor):
            raise DTypeError(
                f"{self._name}: executor is {shown(executor)}; expected an Executor, such as hologram.Executor('cpu')"
            )
        results = outs or tuple([allocate(like, shape, dtype, executor, values) for _, dtype in compiled.outputs])
        cells = values if compiled.numbers is None else [*values, *compiled.numbers(values)]
        try:
            arrays = (*compiled.arrays(values), *results)
            if not native.launch_each(executor, compiled.program, arrays, compiled.scalars(cells)):
                # What is left to Python is called by names, which errors tell; on the shape of the results.
                given = [*[values[i] for i in compiled.places], *cells[len(values) :], *results]
                executor.launch(compiled.program, dict(zip(compiled.names, given)))
        except ProgramFault as fault:
            told(fault, self._name, compiled.lines.get(fault.line or 0), shape)
            raise
        if outs is not None:
            return out
        if like is None:
            results = tuple(result[()] for result in results)
        return results if compiled.several else results[0]

    def _shape(
        self, values: list[Any], outs: Optional[tuple[Any, ...]], names: Optional[list[str]] = None
    ) -> tuple[int, ...]:
        """Return the shape that arguments broadcast to, None being no array; names are the parameters' without."""
        shapes = [tuple(array.shape) for array in values if array is not None]
        shape: tuple[int, ...] = shapes[0] if shapes else ()
        try:
            if any(other != shape for other in shapes):
                shape = np.broadcast_shapes(*shapes)
            if outs is not None:
                full = tuple(outs[0].shape)
                if any(tuple(o.shape) != full for o in outs) or np.broadcast_shapes(shape, full) != full:
                    given = ", ".join(str(tuple(o.shape)) for o in outs)
                    raise InvalidArgumentError(
                        f"{self._name}: out has shape {given}; the arguments broadcast to {shape}"
                    )
                return full
        except InvalidArgumentError:
            raise
        except ValueError:
            arrays = [each for each in zip(names or self._signature.names, values) if each[1] is not None]
            given = ", ".join(f"{name} {tuple(array.shape)}" for name, array in arrays)
            if outs is None:
                raise InvalidArgumentError(f"{self._name}: the shapes don't broadcast together: {given}") from None
            raise InvalidArgumentError(
                f"{self._name}: the arguments' shapes don't broadcast to out's, {tuple(outs[0].shape)}: {given}"
            ) from None
        return shape

    def _inline(self, names: list[str], values: list[Any]) -> Any:
        """Become part of the kernel that calls this one."""
        trace = next(value.trace for value in values if isinstance(value, Value))
        if trace.inlined >= _DEEPEST:
            fail(
                InvalidArgumentError, f"{self._name}: kernels call each other more than {_DEEPEST} deep; none may recur"
            )
        given = []
        for name, value in zip(names, values):
            if name not in self._signature.static:
                value = value_of(trace, value, f"{self._name}: {name}")
                if self._signature.annotated.get(name) in NAMES:
                    value = value.astype(self._signature.annotated[name])
            given.append(value)
        trace.inlined += 1
        try:
            return self._call(trace, names, given)
        finally:
            trace.inlined -= 1

    # ---- looking

    def program(self, *arguments: Any, out: Any = None, **keywords: Any) -> Program:
        """Return the program for arguments such as a call's, or for dtypes in the place of arrays."""
        names, values = self._signature.flat(arguments, keywords)
        values = [stand_in(value) if n not in self._signature.static else value for n, value in zip(names, values)]
        outs = None if out is None else tuple(stand_in(o) for o in (out if isinstance(out, (tuple, list)) else (out,)))
        return self._compiled(names, values, outs).program

    @property
    def atlas(self) -> str:
        """The text of the program made last; ``kernel.program(…)`` gives that of any arguments."""
        if self._last is None:
            raise InvalidArgumentError(f"{self._name}: no program yet; call the kernel, or {self._name}.program(…)")
        return self._last.text


TRACING[id(Kernel._compile.__code__)] = Kernel._compile.__code__


def told(fault: ProgramFault, name: str, place: Optional[Where], shape: tuple[int, ...]) -> None:
    """Have a fault tell the line of the kernel's function that it is of, and the element."""
    if place is not None:
        why = place.why or {"divide": "integer division by zero"}.get(fault.kind, fault.kind)
        where = [int(i) for i in np.unravel_index(fault.lane, shape)] if shape else []
        of = f" at element {where} of the shape {shape}" if where else ""
        fault.args = (f"{name}: {why}{of}{at(place.file, place.line)}",)


def _may_become(value: Value, type: str) -> bool:
    """Whether numpy would put a value of one type into an array of another ("same_kind")."""
    held, wanted = kind_of(value.type), kind_of(type)
    signed = value.type[0] == "i" and type[0] == "u" and not value.weak
    return wanted > held or (wanted == held and not signed)


def _type(type: str) -> str:
    return "bool" if type == PRED else type


@overload
def kernel(function: Callable[..., Any], *, static: Iterable[str] = ()) -> Kernel: ...


@overload
def kernel(*, static: Iterable[str] = ()) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(
    function: Optional[Callable[..., Any]] = None, *, static: Iterable[str] = ()
) -> Union[Kernel, Callable[[Callable[..., Any]], Kernel]]:
    """Compile a function of numbers into one program that works element by element on arrays.

    The decorated function takes arrays where it is written for numbers: Buffers, numpy arrays and whatever has DLPack,
    broadcast as numpy does, and numbers. It is compiled when it is first called with arguments of new dtypes. ::

        @hologram.kernel
        def f(x, y):
            return hologram.relu(x * y + x) * 0.5 - y

        f(np.ones(3, np.float32), np.float32(2))

    docs/KERNELS.md has all of it.

    Args:
        function: The function.
        static: Names of parameters whose values the function gets as they are, and which it is compiled anew for.
    """
    if function is None:
        return lambda found: Kernel(found, static=static)
    return Kernel(function, static=static)
