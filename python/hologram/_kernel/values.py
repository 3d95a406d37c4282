"""The values that a kernel's function computes with while it is traced: what Python's operators do to them."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, NoReturn, Optional, Union

import numpy as np

from hologram import _isa
from hologram._built import FLOATS, is_number, number
from hologram._dtypes import NAMES, code_of, dtype_of_code
from hologram._kernel.ir import Code, Place, Spot, Where, made
from hologram._kernel.lines import TRACING, at, fail, traced_frame, traced_line, user_line
from hologram._kernel.promotion import BOOLS, INTEGERS, PRED, REALS, WEAK, common_of, common_of_two, kind_of, limits
from hologram.errors import DTypeError, HologramError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "FLOATS",
    "Trace",
    "Uniform",
    "Value",
    "common",
    "trace_of",
    "type_of",
    "value_of",
]

_PYTHON = {bool: PRED, int: "i64", float: "f64"}


class Step(NamedTuple):
    """How a number that all lanes have comes of others, in Python and exactly, when the kernel is called.

    Attributes:
        function: What computes it.
        sources: Its operands: numbers of steps, or constants in a tuple of one.
        text: How it is written.
        place: The number of the argument that is the operand, where it is one, or −1.
    """

    function: Callable[..., Any]
    sources: tuple[Union[int, tuple[int]], ...]
    text: str
    place: int = -1


class Param(NamedTuple):
    """What a parameter of the program is given.

    Attributes:
        type: Its type.
        place: The number of the argument that is given as it is, or −1.
        step: The number of the step that computes it otherwise, or −1.
        line: Where it is first used.
    """

    type: str
    place: int
    step: int = -1
    line: Optional[Place] = None


class Trace:
    """One run of a function on values, and the program that comes of it.

    Args:
        plan: The types of variables that control flow makes, in the order in which they come up: what the runs before
            this one found out. A run that finds that one must hold more changes it, and sets ``again``.
        wide: The variables that hold any integer of 64 bits, found out likewise.
        stay: The `while` statements that stay loops though Python knows their conditions, found out likewise.
    """

    def __init__(self, plan: dict[int, tuple[str, bool]], wide: set[int], stay: set[object]) -> None:
        self.code = Code(self.place)
        self.caller: Optional[types.FrameType] = None  # of the operation that is under way: below it is its code alone
        self.stay = stay
        self.plan = plan
        self.wide = wide
        self.again = False
        self.variables = 0
        self.inlined = 0  # how deep in calls of other kernels
        self.unread: list[str] = []  # the kernels that run whose source can't be found
        self.scope = 0  # the branch or round of a loop that is being traced
        self.open = {0}  # those in which values were made that all lanes here have
        self._scopes = 0
        self.slots: dict[str, str] = {}  # the types of arguments that are used
        self.params: dict[str, Param] = {}  # by Atlas name
        self.steps: list[Step] = []
        self._theirs: set[str] = set()  # files that are the kernel's, not the package's
        self._known: dict[object, int] = {}  # steps by what they compute
        self._loaded: dict[tuple[object, str], int] = {}

    def place(self) -> Optional[Where]:
        """Return where in the kernel's code what is being traced is, looked for from the caller of what runs."""
        frame = self.caller
        if frame is None:
            return traced_line()
        code = frame.f_code
        if code.co_filename not in self._theirs:
            frame = traced_frame(frame)
            if frame is None:
                return traced_line()
            code = frame.f_code
            self._theirs.add(code.co_filename)
        spot: Spot = made(Spot, (code, frame.f_lasti))
        return spot

    def enter(self) -> tuple[int, set[int]]:
        """Begin a branch or a loop's body; return what ``leave`` goes back to."""
        outside = self.scope, set(self.open)
        self._scopes += 1
        self.scope = self._scopes
        self.open.add(self.scope)
        return outside

    def leave(self, outside: tuple[int, set[int]]) -> set[int]:
        """End it, and return where values were made that are known at its end."""
        inside = self.open
        self.scope, self.open = outside
        return inside

    def slot(self, name: str, type: str, boolean: bool) -> Value:
        """Return the lane's element of an array; it is loaded if it is used."""
        return Argument(self, PRED if boolean else type, False, name, type)

    def param(self, name: str, type: str, weak: bool, place: int) -> Value:
        """Return a number given at launch; weak ones are parameters of each type that they are used as."""
        if weak and type not in FLOATS:
            return Uniform(
                self, type, self.step(Step(bool if type == PRED else int, (), name, place), place), name, place
            )
        return Argument(self, type, weak, name, None, place)

    def step(self, step: Step, key: object) -> int:
        """Return the number of a step that computes what key says, a new one if there is none."""
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.steps)
            self.steps.append(step)
        return found

    def load(self, name: str, slot: str, type: str) -> int:
        """Return the register of an element of an array, whose slot is of type slot, as type."""
        key = (name, slot)
        if key not in self._loaded:
            self.slots[name] = slot
            self._loaded[key] = self._at_entry(f"ldg.{slot}", slot, f"{name}[index]", type)
        return self._loaded[key]

    def given(self, name: str, place: int, step: int, type: str) -> int:
        """Return the register of a parameter: an argument as it is, or what a step computes, as type."""
        key = (place, step), type
        if key not in self._loaded:
            held = "u8" if type == PRED else type
            if place < 0:
                name = f"number.{len(self.params)}"
            elif name in self.params:
                name = f"{name}.{held}"
            self.params[name] = Param(held, place, step, traced_line())
            self._loaded[key] = self._at_entry(f"ldp.{held}", held, name, type)
        return self._loaded[key]

    def _at_entry(self, mnemonic: str, held: str, source: str, type: str) -> int:
        # Loads stand at the program's entry, wherever the first use is.
        body, self.code.body = self.code.body, self.code.entry
        register = self.code.emit(mnemonic, held, source)
        if type == PRED:
            register = self.code.emit("set.ne.u8", PRED, register, "0")
        self.code.body = body
        return register

    def emit(self, mnemonic: str, type: str, *sources: Any) -> int:
        """Append an instruction; see Code.emit."""
        code = self.code
        if len(code.body) >= _isa.MAX_INSTS:
            fail(
                InvalidArgumentError,
                f"the kernel has more than {_isa.MAX_INSTS} instructions; loops over hologram.range stay loops",
            )
        return code.compute(mnemonic, type, sources)


def to_digits(digits: object) -> str:
    """Return what a kernel writes to round to a number of digits."""
    scale = f"{10**digits}" if isinstance(digits, int) and 0 <= digits <= 15 else "10**digits"
    return f"to digits round hologram.round(x * {scale}) / {scale}"


class _Shape(tuple[int, ...]):
    """The shape of one number, which has no extents."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> NoReturn:
        """Refuse: a kernel doesn't know the shapes of its arrays."""
        fail(DTypeError, f"shape[{key!r}] of a value: {_ONE}; give the extent as an argument")


_ONE = "a kernel sees one element at a time"
_REDUCTIONS = frozenset("sum mean prod max min any all argmax argmin std var cumsum cumprod dot sort".split())


class Value:
    """A number of each lane, known when the kernel runs: what its function's arguments and results are.

    Python's operators and numpy's functions work on it element by element. Its value isn't known while the function is
    traced, so Python's own decisions can't depend on it.

    Attributes:
        type: The Atlas type, "pred" for a bool.
        weak: Whether it came of Python numbers alone, and so takes the type of what it meets, as in numpy.
        bounds: Of integers the least and the largest that it can be.
    """

    __slots__ = ("bounds", "constant", "register", "scope", "trace", "type", "weak")
    __array_priority__ = 1000.0

    def __init__(
        self, trace: Trace, type: str, weak: bool, register: int = -1, constant: Union[bool, int, float, None] = None
    ) -> None:
        self.trace = trace
        self.scope = trace.scope
        self.type = type
        self.weak = weak
        self.register = register
        self.constant = constant
        if type not in FLOATS:
            self.bounds = limits(type) if constant is None else (int(constant), int(constant))

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype of the value."""
        return np.dtype(bool) if self.type == PRED else dtype_of_code(NAMES.index(self.type) + 1)

    shape: tuple[int, ...] = _Shape()
    ndim = 0

    def __repr__(self) -> str:
        """Describe the value in one line."""
        return f"<hologram value of a kernel: {'bool' if self.type == PRED else self.type}>"

    # ---- conversion

    def source(self, type: str) -> Union[int, str]:
        """Return what an instruction reads for this value as a type: a register, or a number's text."""
        if self.constant is None and self.type == type and (not self.weak or type in FLOATS):
            return self.register
        if self.constant is not None:
            if type == PRED:
                return "true" if self.constant else "false"
            try:
                return number("the number", self.constant, type)
            except HologramError as error:
                # A variable may not know yet that it will hold floats; a cast rounds what an operation refuses.
                if isinstance(self.constant, float) and not (self.weak and type in FLOATS):
                    return self._convert(
                        self.trace.emit("mov.f64", "f64", number("", self.constant, "f64")), "f64", type
                    )
                fail(error.__class__, str(error))
        if self.weak and self.type == "i64" and kind_of(type) == INTEGERS and not self.fits(type):
            self._check(type)
        return self._convert(self.register, self.type, type)

    def fits(self, type: str) -> bool:
        """Whether an integer type holds whatever this integer can be."""
        least, most = limits(type)
        return least <= self.bounds[0] and self.bounds[1] <= most

    def _check(self, type: str) -> None:
        """Fault in lanes whose integer a type doesn't hold: an int of Python's is never cut."""
        code, emit = self.trace.code, self.trace.emit
        if type == "u64":
            holds = emit("set.ge.i64", PRED, self.register, "0")
        else:
            cut = emit(f"cvt.{type}.i64", type, self.register)
            holds = emit("set.eq.i64", PRED, emit(f"cvt.i64.{type}", "i64", cut), self.register)
        label = code.label("held")
        code.act("bra", label, holds)
        least, most = limits(type)
        file, line, _ = user_line()
        code.fault(
            Place(
                file,
                line,
                f"an int of Python's leaves the type that it meets here: {type} goes from {least} to {most} "
                "(hologram.cast converts one of the two)",
            )
        )
        code.place(label)

    def held(self, type: str) -> int:
        """Return a register with this value as a type."""
        source = self.source(type)
        return source if isinstance(source, int) else self.trace.emit(f"mov.{type}", type, source)

    def _convert(self, register: int, held: str, type: str) -> int:
        emit = self.trace.emit
        if held == type:
            return register
        if held == PRED:
            return emit(f"sel.{type}", type, register, *(("0x1p+0", "0x0p+0") if type in FLOATS else ("1", "0")))
        if type == PRED:
            return emit(f"set.ne.{held}", PRED, register, "0x0p+0" if held in FLOATS else "0")
        return emit(f"cvt.{type}.{held}", type, register)

    def astype(self, dtype: Any) -> Value:
        """Return the value converted to a dtype, as numpy converts arrays: floats to integers truncate."""
        type = type_of(dtype)
        value = value_of(self.trace, self, "astype: x")
        if isinstance(value.constant, float):  # which a cast rounds and saturates, where an operation refuses it
            value = Value(self.trace, "f64", False, constant=value.constant)
        if value.register >= 0:
            return Value(self.trace, type, False, value._convert(value.register, value.type, type))
        return Value(self.trace, type, False, value.held(type))

    # ---- what Python and numpy ask for

    def _no(self, what: str, hint: str) -> NoReturn:
        fail(DTypeError, f"{what} can't be had of a value that is known only when the kernel runs; {hint}")

    def __bool__(self) -> NoReturn:
        """Refuse: its truth is not known."""
        if self.trace.unread:
            why = (
                f"the source of {self.trace.unread[-1]}, which `if`, `while`, `and`, `or` and `not` need, can't be "
                "found: of what is typed at a prompt, given by python -c or made by exec, or whose file has changed; "
                "put the function into a file"
            )
        else:
            frame = traced_frame()
            name = "" if frame is None else frame.f_code.co_name
            # Of the kernel itself there are only expressions, which have no name, or all of it.
            own = frame is None or frame.f_back is None or id(frame.f_back.f_code) in TRACING
            of = f"{name} if it is" if name.isidentifier() and not own else "functions"
            why = f"`if`, `while`, `and`, `or` and `not` work in {of} decorated with @hologram.kernel"
        functions = "hologram.where(condition, a, b), & | ~, and hologram.minimum and maximum for Python's min and max"
        self._no("the truth", f"use {functions}; {why}")

    def __int__(self) -> NoReturn:
        """Refuse: its value is not known."""
        self._no("an int", "x.astype(numpy.int32) converts it; hologram.floor, ceil, trunc and round round it")

    def __float__(self) -> NoReturn:
        """Refuse: its value is not known."""
        self._no("a Python float", "use hologram's functions, not math's; x.astype(numpy.float32) converts it")

    def __complex__(self) -> NoReturn:
        """Refuse: there are no complex numbers."""
        self._no("a complex number", "kernels have none; compute with the parts")

    def __index__(self) -> NoReturn:
        """Refuse: its value is not known."""
        self._no("an index", "loop with hologram.range(n), or name the argument in static= to have its value in Python")

    def __format__(self, form: str) -> str:
        """Say what repr does; a form for numbers is refused."""
        if form:
            self._no(f"text in the form {form!r}", "without a form it shows its type")
        return repr(self)

    def __round__(self, digits: object = None) -> NoReturn:
        """Refuse: Python's round gives an int."""
        self._no("Python's round", "use hologram.round(x)" + ("" if digits is None else f"; {to_digits(digits)}"))

    __trunc__ = __floor__ = __ceil__ = __int__

    def __iter__(self) -> Iterator[Any]:
        """Refuse: it is one number."""
        self._no(
            "iteration",
            "it is one number; hologram.range(n) loops, and hologram.minimum(a, b) and maximum(a, b) are the smaller "
            "and the larger of two",
        )

    def __len__(self) -> NoReturn:
        """Refuse: it is one number."""
        self._no("the length", "a kernel sees one element at a time")

    def __array__(self, *arguments: object, **keywords: object) -> NoReturn:
        """Refuse: its value is not known."""
        self._no("a numpy array", "x.astype(numpy.float32) converts it")

    def __getitem__(self, key: object) -> NoReturn:
        """Refuse: it is one number."""
        self._no("an element", "a kernel sees one element at a time; pass neighbours as shifted views of the array")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        """Refuse: it is one number."""
        self._no("an element", "a kernel returns its results")

    __hash__ = None  # type: ignore[assignment]  # == makes a value

    def __matmul__(self, other: object) -> NoReturn:
        """Refuse: it is one number."""
        self._no("a matrix product", f"{_ONE}; hologram.ops.gemm multiplies matrices")

    __rmatmul__ = __matmul__

    def __getattr__(self, name: str) -> NoReturn:
        """Tell what there is instead of an array's method.

        Raises:
            AttributeError: Always, so that hasattr and Python's protocols find that it isn't there.
        """
        if name.startswith("__"):
            raise AttributeError(name)
        from hologram._kernel import functions

        hint = "it has dtype and astype"
        if name in _REDUCTIONS:
            hint = f"{_ONE}; reduce the result, with hologram.ops or numpy"
        elif name in functions.PUBLIC:
            hint = f"write hologram.{name}(…)"
        raise AttributeError(f"a value of a kernel has no {name}; {hint}" + at(*user_line()[:2]))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """Compute numpy's functions of values."""
        from hologram._kernel import functions

        found = functions.UFUNCS.get(ufunc.__name__)
        if method != "__call__" or keywords or found is None:
            what = f"numpy.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")
            fail(
                DTypeError,
                f"{what}{' with keywords' * bool(keywords)} is not there in kernels; see hologram's functions",
            )
        return found(*inputs)

    def __array_function__(self, function: Any, kinds: Any, arguments: Any, keywords: Any) -> Any:
        """Compute numpy's functions of values."""
        from hologram._kernel import functions

        found = functions.FUNCTIONS.get(function.__name__)
        if found is None or keywords:
            hint = f"{_ONE}; reduce the result" if function.__name__ in _REDUCTIONS else "see hologram's functions"
            fail(DTypeError, f"numpy.{function.__name__} is not there in kernels; {hint}")
        return found(*arguments)


class Argument(Value):
    """An argument of the kernel, loaded where it is used."""

    __slots__ = ("name", "place", "slot")

    def __init__(self, trace: Trace, type: str, weak: bool, name: str, slot: Optional[str], place: int = -1) -> None:
        super().__init__(trace, type, weak)
        self.scope = 0
        self.name = name
        self.slot = slot
        self.place = place

    def source(self, type: str) -> Union[int, str]:
        """Return the register of the argument as a type."""
        if self.slot is not None:
            return self._convert(self.trace.load(self.name, self.slot, self.type), self.type, type)
        # A weak number is given as what it is used as, so that it is rounded once, and in Python.
        held = type if self.weak and type in FLOATS else self.type
        return self._convert(self.trace.given(self.name, self.place, -1, held), held, type)


class Uniform(Value):
    """An integer or bool of Python's that all lanes have: an argument, or what comes of such alone.

    It is computed in Python when the kernel is called, so it is of any size until it meets a type, which must hold it.
    """

    __slots__ = ("place", "step", "text")

    def __init__(self, trace: Trace, type: str, step: int, text: str, place: int = -1) -> None:
        super().__init__(trace, type, True)
        if type != PRED:
            self.bounds = -(1 << 64), 1 << 64  # beyond all types
        self.scope = 0
        self.step = step
        self.text = text
        self.place = place

    def source(self, type: str) -> Union[int, str]:
        """Return the register of the number as a type."""
        held = type if kind_of(type) >= kind_of(self.type) > BOOLS else self.type
        step = self.step if self.place < 0 else -1
        return self._convert(self.trace.given(self.text, self.place, step, held), held, type)


def type_of(dtype: Any) -> str:
    """Return the Atlas type of a dtype, "pred" for bool."""
    from hologram._dtypes import dtype_of

    try:
        found = dtype_of(dtype)
    except HologramError as error:
        fail(error.__class__, str(error))
    return PRED if found == np.dtype(bool) else NAMES[code_of(found) - 1]


def value_of(trace: Trace, thing: object, what: str) -> Value:
    """Return a value for what a function computes with: a value, or a number of Python's or numpy's."""
    if isinstance(thing, Value):
        if thing.trace is not trace:
            fail(InvalidArgumentError, f"{what} is a value of another kernel, or of an earlier trace of this one")
        if thing.scope not in trace.open:
            fail(InvalidArgumentError, f"{what} was computed in a branch or loop that not all lanes here went through")
        return thing
    weak = _PYTHON.get(type(thing))
    if weak is not None:
        return Value(trace, weak, True, -1, thing)  # type: ignore[arg-type]
    if isinstance(thing, np.ndarray) and thing.ndim == 0:
        thing = thing[()]
    if is_number(thing):
        if isinstance(thing, np.generic):
            exact: Any = thing.item() if isinstance(thing, (np.bool_, np.integer)) else float(thing)
            return Value(trace, type_of(thing.dtype), False, constant=exact)
        kind = BOOLS if isinstance(thing, bool) else INTEGERS if isinstance(thing, int) else REALS
        return Value(trace, WEAK[kind], True, constant=thing)  # type: ignore[arg-type]
    hint = (
        "; an array goes into a kernel as an argument" if hasattr(thing, "shape") or hasattr(thing, "__len__") else ""
    )
    fail(DTypeError, f"{what} is {_shown(thing)}; expected a value or a number{hint}")


def _shown(thing: object) -> str:
    text = repr(thing)
    return text if len(text) <= 40 and "\n" not in text else f"a {type(thing).__name__}"


def common(*values: Value) -> tuple[str, bool]:
    """Return the type of an operation on values, and whether its result is weak."""
    if len(values) == 2:
        a, b = values
        return common_of_two(a.type, a.weak, b.type, b.weak)
    return common_of([(value.type, value.weak) for value in values])


def trace_of(*things: object) -> Optional[Trace]:
    """Return the trace that a function of these arguments belongs to: that of a value, or None.

    The trace that runs is no answer: a signal's handler may call while it does.
    """
    for thing in things:
        if isinstance(thing, Value):
            return thing.trace
    return None
