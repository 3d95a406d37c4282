"""Users' scalar functions as operations on tensors, with gradients derived from their programs."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union, overload

import numpy as np
import torch
from torch import Tensor

import hologram
from hologram._built import is_number
from hologram._ffi import native
from hologram._kernel.call import Kernel as HologramKernel
from hologram._kernel.call import told
from hologram._kernel.outside import exact
from hologram._kernel.promotion import PRED
from hologram.errors import DTypeError, InvalidArgumentError, ProgramFault
from hologram_torch._elementwise import FUNCTIONS, GENERIC, MAKERS, Elementwise, compiled_for, keep, listed
from hologram_torch._executors import using
from hologram_torch._listing import narrowed
from hologram_torch._operands import ATLAS, broadcast, doubles
from hologram_torch._operation import is_dynamo_compiling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hologram import Executor
    from hologram._kernel.call import Compiled
    from hologram_torch._listing import Listing

__all__ = ["Kernel", "kernel"]

_TORCH = {**{kind: dtype for dtype, kind in ATLAS.items() if dtype != torch.bool}, "bool": torch.bool, PRED: torch.bool}
_KERNELS: weakref.WeakValueDictionary[str, Kernel] = weakref.WeakValueDictionary()
"""All kernels that there are, by keys that no two ever have."""
_COUNT = itertools.count()


class _Function(Elementwise):
    """A kernel's function for tensors of certain dtypes.

    Its name holds what the program is, so that those of one name do the same, in whatever process: a graph that was
    saved names them.
    """

    def __init__(self, name: str, kernel: str, signature: Sequence[str], program: _Traced) -> None:
        self._compiled, self._listing, results, scalars, self._direct, self._names = program
        self._kernel_name = kernel
        self.several = self._compiled.several
        words = [word for word in signature if word not in _NUMBERS and word != "static"]
        self._inputs = [_TORCH[word] for word in words]
        self._results = tuple(_TORCH[name] for name in results)
        super().__init__(name, ["mask" if word == "bool" else "number" for word in words], scalars, len(results))
        self._given = {at: _KINDS[word] for at, word in enumerate(signature) if word in _NUMBERS}
        if len(scalars) > len(self._direct) or self._direct != list(self._given):
            self.numbers = self._of_call

    def _of_call(self, scalars: Sequence[float]) -> list[Any]:
        """Return the program's numbers, given those of a call, which an operator has as floats."""
        given: list[Any] = [None] * (max(self._given, default=-1) + 1)
        for (at, kind), value in zip(self._given.items(), scalars):
            given[at] = kind(value)
        computed = self._compiled.numbers
        return [*(given[at] for at in self._direct), *(computed(given) if computed is not None else ())]

    def run(
        self, inputs: Sequence[Tensor], scalars: Sequence[float] = (), out: Optional[Tensor] = None
    ) -> list[Tensor]:
        try:
            return super().run(inputs, scalars, out)
        except InvalidArgumentError as error:
            found = _PARAMETER.match(str(error))
            if found is None or int(found[1]) >= len(self._direct):
                raise
            name = self._names[self._direct[int(found[1])]]
            raise InvalidArgumentError(f"{self._kernel_name}: {name}{found[2]}") from None
        except ProgramFault as fault:
            # The program that ran has the same instructions that may fault, in the same order.
            ours, theirs = (_faulting(text) for text in (self._compiled.text, narrowed(self._listing, {}, {}).text))
            if fault.line in theirs:
                line = ours[theirs.index(fault.line)]
                shape = tuple(broadcast(self.title, inputs))
                told(fault, self._kernel_name, self._compiled.lines.get(line), shape)
            raise

    def listing(self, dtype: torch.dtype) -> Listing:
        return self._listing

    def fixed(self) -> Optional[dict[str, torch.dtype]]:
        return {f"i{i}": dtype for i, dtype in enumerate(self._inputs)}

    def results(self, inputs: Sequence[Tensor]) -> tuple[torch.dtype, tuple[torch.dtype, ...]]:
        return torch.float32, self._results


_NUMBERS: dict[str, Any] = {"int": 1, "float": 0.5, "truth": True}
"""What a kernel is compiled for where a number stands: kinds of numbers, not values."""

_PARAMETER = re.compile(r'launch "\w+": parameter s(\d+)(.*)', re.DOTALL)
_FAULTING = re.compile(r" +(div|rem)\.[iu]")


def _faulting(text: str) -> list[int]:
    """Return the lines of a program whose instructions may fault."""
    return [line for line, row in enumerate(text.splitlines(), 1) if _FAULTING.match(row)]


_KINDS: dict[str, Callable[[Any], Any]] = {"int": int, "float": float, "truth": bool}


class _Traced(NamedTuple):
    """A kernel's program for a signature.

    Its numbers are s0, …: arguments as they are, some of them as several types, and after them what is computed.
    """

    compiled: Compiled
    listing: Listing
    results: list[str]  # their types, bools as "bool"
    scalars: list[str]
    direct: list[int]  # the arguments that numbers are, in their order
    names: list[str]  # of all arguments

    def content(self) -> str:
        """Return a text that tells apart what computes something else."""
        computed = self.compiled.numbers.content() if self.compiled.numbers is not None else ""
        return "\n".join([self.listing.text, *self.results, f"{self.compiled.several} {self.direct}", computed])


def _traced(kernel: HologramKernel, signature: Sequence[str], statics: Sequence[Any]) -> _Traced:
    """Return a kernel's program for a signature."""
    arguments: list[Any] = []
    inputs: dict[int, str] = {}
    values = iter(statics)
    for at, word in enumerate(signature):
        if word in _NUMBERS:
            arguments.append(_NUMBERS[word])
        elif word == "static":
            arguments.append(next(values))
        else:
            inputs[at] = f"i{len(inputs)}"
            arguments.append(np.bool_ if word == "bool" else word)
    compiled = compiled_for(kernel, arguments)
    direct = [place for place in compiled.places if place not in inputs]
    count = len(compiled.names) - len(compiled.places) - len(compiled.outputs)
    scalars = [f"s{i}" for i in range(len(direct) + count)]
    slots = [inputs[place] for place in compiled.places if place in inputs]
    listing, results = listed(compiled, dict(zip(compiled.names, [*slots, *scalars])))
    return _Traced(compiled, listing, results, scalars, direct, kernel._signature.flat(arguments, {})[0])


def _function_of(kernel: Kernel, signature: Sequence[str], statics: Sequence[Any]) -> _Function:
    """Return a kernel's function for a signature; that of another kernel of the name, if it does the same."""
    program = _traced(kernel._kernel, signature, statics)
    digest = hashlib.blake2b(program.content().encode(), digest_size=10).hexdigest()
    name = f"{kernel._name}({','.join(signature)})#{digest}"
    found = FUNCTIONS.get(name)
    return found if isinstance(found, _Function) else _Function(name, kernel._kernel._name, signature, program)


def _by_name(name: str) -> Optional[_Function]:
    """Return a kernel's function by its name: what a graph that was saved names is made when it is first called.

    Raises:
        LookupError: No kernel has such a function.
    """
    of, mark, _ = name.rpartition("#")
    kernel, bracket, words = of.rstrip(")").rpartition("(")
    if not mark or not bracket:
        return None
    found = [each for each in (ref() for ref in _KERNELS.valuerefs()) if each is not None and each._name == kernel]
    if not found:
        raise LookupError(
            f"there is no kernel {kernel}, which a graph calls; is the module imported that defines it, or makes it?"
        )
    if "static" in words.split(","):
        raise LookupError(
            f"the kernel {kernel} has static arguments, whose values a graph that calls it does not hold: call the "
            "kernel with them and such tensors before"
        )
    for each in found:
        function = each._function(tuple(words.split(",")), ())
        if function.name == name:
            return function
    raise LookupError(
        f"the kernel {kernel} computes something else than the one that a graph calls: its code, or a number that it "
        "names, was another when the graph was made, or Hologram was"
    )


MAKERS.append(_by_name)


class Kernel:
    """A function of numbers as an operation on tensors; see ``kernel``."""

    def __init__(self, function: Callable[..., Any], *, static: Iterable[str] = ()) -> None:
        self._kernel = function if isinstance(function, HologramKernel) else hologram.kernel(function, static=static)
        functools.update_wrapper(self, self._kernel, updated=())
        self._name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', 'kernel')}"
        self._key = f"{self._name} {next(_COUNT)}"
        _KERNELS[self._key] = self
        self._functions: dict[Any, _Function] = {}
        self._lock = threading.RLock()  # an interrupted call's handler may call again

    def __repr__(self) -> str:
        """Describe the kernel in one line."""
        return f"<hologram_torch.kernel {self._kernel._name}{self._kernel._signature}>"

    def __reduce__(self) -> str:
        """Pickle as the name by which a module has the kernel, as functions are."""
        return str(self.__qualname__)  # type: ignore[attr-defined]

    def __call__(self, *arguments: Any, executor: Optional[Executor] = None, **named: Any) -> Any:
        """Run the kernel.

        Args:
            arguments: Tensors, which are broadcast together, and numbers: Python's, or numpy's, which have their dtype.
            executor: Where to run, if not where the tensors are.
            named: Arguments by name.

        Returns:
            A tensor, or a tuple of them for several results; what ``hologram.kernel`` returns if no argument is a
            tensor.

        Raises:
            NotImplementedError: A gradient is needed, and the program has an instruction without derivative.
            ValueError: An integer that no double holds exactly is given where torch's dispatcher passes it on: with
                modes, transforms and subclasses of tensors.
        """
        if is_dynamo_compiling():
            return self._operator(arguments, named)
        if "out" in named:
            if any(isinstance(value, Tensor) for value in (*arguments, *named.values())):
                raise DTypeError(f"{self._kernel._name}: it takes no out= with tensors: its results are new ones")
            return self._kernel(*arguments, executor=executor, **named)
        names, values = self._kernel._signature.flat(arguments, named)
        device = next((value.device for value in values if isinstance(value, Tensor)), None)
        if device is None:
            return self._kernel(*arguments, executor=executor, **named)
        values = [
            self._of_numpy(name, value, device) if isinstance(value, np.generic) else value
            for name, value in zip(names, values)
        ]
        function, inputs, scalars = self._sorted(names, values)
        if executor is None:
            results = function.call(inputs, scalars)
        else:
            with using(executor):
                results = function.call(inputs, scalars)
        return tuple(results) if function.several else results[0]

    def _of_numpy(self, name: str, value: Any, device: torch.device) -> Any:
        """Return a number of numpy's as a tensor of its dtype, or as Python's where an annotation says more."""
        if name in self._kernel._signature.static or not is_number(value):
            return value
        number = value.item() if isinstance(value, (np.bool_, np.integer)) else float(value)
        if name in self._kernel._signature.annotated:
            return number
        return torch.tensor(number, dtype=_TORCH[self._kernel._signature.kind(name, value).type], device=device)

    def _sorted(self, names: list[str], values: list[Any]) -> tuple[_Function, list[Tensor], list[float]]:
        signature: list[str] = []
        inputs: list[Tensor] = []
        scalars: list[float] = []
        statics: list[Any] = []
        for name, value in zip(names, values):
            if name in self._kernel._signature.static:
                signature.append("static")
                statics.append(value)
            elif isinstance(value, Tensor):
                if value.dtype not in ATLAS:
                    raise DTypeError(f"{self._kernel._name}: {name} has dtype {value.dtype}, which hologram has not")
                signature.append("bool" if value.dtype == torch.bool else ATLAS[value.dtype])
                inputs.append(value)
            elif isinstance(value, (bool, int, float)):
                signature.append("truth" if isinstance(value, bool) else "int" if isinstance(value, int) else "float")
                scalars.append(value)
            else:
                raise DTypeError(
                    f"{self._kernel._name}: {name} is a {type(value).__name__}; expected a torch.Tensor or a number"
                )
        return self._function(tuple(signature), tuple(statics)), inputs, scalars

    def _function(self, signature: tuple[str, ...], statics: tuple[Any, ...]) -> _Function:
        key = signature, exact(statics), self._kernel._numbers_outside()
        found = self._functions.get(key)
        if found is None:
            native.object_count()  # raises in a fork's child, whose parent's threads may have had the lock
            with self._lock:
                self._kernel._watch()
                key = signature, exact(statics), self._kernel._numbers_outside()
                found = self._functions.get(key)
                if found is None:
                    found = self._functions[key] = _function_of(self, signature, statics)
        return found

    def _operator(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call the operator for users' kernels: what torch.compile traces."""
        taken = self._kernel._signature
        if named or len(arguments) != len(taken.names) or taken.static or not taken.positional:
            raise InvalidArgumentError(
                f"{self._kernel._name}: under torch.compile give all arguments by position; none may be static"
            )
        inputs = [value for value in arguments if isinstance(value, Tensor)]
        scalars = doubles(self._name, [value for value in arguments if not isinstance(value, Tensor)])
        words = [
            str(value.dtype)
            if isinstance(value, Tensor)
            else ("truth" if isinstance(value, bool) else "int" if isinstance(value, int) else "float")
            for value in arguments
        ]
        name, several = _compiled(self._key, ",".join(words))
        results = GENERIC.operator(name, inputs, scalars)
        return tuple(results) if several else results[0]


def _compiled(key: str, signature: str) -> tuple[str, bool]:
    """Return the name of a kernel's function for a signature, in which tensors stand as torch's dtypes."""
    words = []
    for word in signature.split(","):
        dtype = getattr(torch, word.rpartition(".")[2]) if word.startswith("torch.") else None
        words.append(word if dtype is None else "bool" if dtype == torch.bool else ATLAS[dtype])
    function = _KERNELS[key]._function(tuple(words), ())
    keep(function)
    return function.name, function.several


# All that torch.compiler.assume_constant_result does, which imports the compiler: seconds, for those who never use it.
_compiled._dynamo_marked_constant = True  # type: ignore[attr-defined]


@overload
def kernel(function: Callable[..., Any], *, static: Iterable[str] = ()) -> Kernel: ...


@overload
def kernel(*, static: Iterable[str] = ()) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(
    function: Optional[Callable[..., Any]] = None, *, static: Iterable[str] = ()
) -> Union[Kernel, Callable[[Callable[..., Any]], Kernel]]:
    """Make an operation on tensors of a function of numbers, with its gradient.

    The function is compiled as ``hologram.kernel`` does, into one pass over memory, and may do all that is allowed
    there: loops, branches, other kernels. Its gradient is a program derived from that program, and has a gradient
    itself. ::

        @hologram_torch.kernel
        def swish(x, beta):
            return x / (1 + hologram.exp(-beta * x))

        swish(torch.randn(8, requires_grad=True), 1.5).sum().backward()

    Types are hologram.kernel's (numpy's): numbers take the type of what they meet, and f16 is computed in f16.

    Args:
        function: The function, or what ``hologram.kernel`` made of one.
        static: Names of parameters whose values the function gets as they are, and which it is compiled anew for.
    """
    if function is None:
        return lambda found: Kernel(found, static=static)
    return Kernel(function, static=static)
