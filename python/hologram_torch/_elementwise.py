"""Operations that work element by element: a scalar function, compiled for the dtypes that it meets.

The function is traced in the type it computes in (f32 for the 16-bit floats); the program converts where it loads and
stores. Its gradient is a program derived from it, an ``Elementwise`` like any other, and so differentiable again.
"""

from __future__ import annotations

import functools
import inspect
import re
import weakref
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor
from torch._prims_common import compute_elementwise_output_strides

from hologram import Program
from hologram._dtypes import NAMES, code_of
from hologram._ffi import native
from hologram._kernel.arrays import stand_in
from hologram._kernel.call import Compiled, Kernel
from hologram.errors import DTypeError, InvalidArgumentError
from hologram_torch._derivative import gradient
from hologram_torch._executors import executor_for, executor_of
from hologram_torch._listing import FLOATS, Listing, narrowed, numbered, parse, reduced
from hologram_torch._operands import ATLAS, broadcast, doubles, opmath, placed, promoted, sum_to
from hologram_torch._operation import (
    PLAIN,
    Operation,
    is_dynamo_compiling,
    is_grad_enabled,
    titled,
    unusual,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Elementwise", "find"]

_SLOT = re.compile(r'^launch "[^"]*": slot i(\d+): ')

FUNCTIONS: weakref.WeakValueDictionary[str, Elementwise] = weakref.WeakValueDictionary()
"""All that there are, by their names."""
_KEPT: set[Elementwise] = set()
MAKERS: list[Callable[[str], Optional[Elementwise]]] = []
"""What makes functions of names that ``find`` does not know yet."""


class Source(NamedTuple):
    """What an input of a gradient is: "g" a gradient, "i" an input, "o" an output of the function; and its number."""

    kind: str
    number: int


class _Plan(NamedTuple):
    """A program, the dtypes of what it makes, and the names of its slots and parameters in the order of a call.

    Attributes:
        like: For each result an input that has its dtype; None if not all have one, or not all inputs are read.
    """

    program: Program
    dtypes: tuple[torch.dtype, ...]
    names: tuple[str, ...]
    like: Optional[tuple[int, ...]]


class Elementwise:
    """A function of numbers, on tensors.

    Attributes:
        name: Its name, by which ``find`` has it.
        title: What messages call it.
        kinds: For each input what it is: "number", or "mask" (bools) or "index" (int64), which say nothing of the
            result's dtype.
        scalars: The names of its program's numbers.
        numbers: Makes them of the numbers of a call, where they are not the same.
        outputs: How many results it has.
        chooses: Whether its gradients are the result's where what it kept chooses so, and 0 elsewhere, and have no
            derivatives by what chooses, as torch's: of clamp, maximum and minimum.
        quick: The library's own call, (executor, inputs…, numbers…) to the result or a tuple of several: True of what
            autograd is to record, None of what it leaves to ``run``, autocast included where that changes the inputs.
    """

    def __init__(
        self,
        name: str,
        kinds: Sequence[str],
        scalars: Sequence[str],
        outputs: int,
        autocast: bool = False,
        title: str = "",
    ) -> None:
        self.name = name
        self.title = title or re.sub(r"#\w+", "", name)
        self.kinds = tuple(kinds)
        self.scalars = tuple(scalars)
        self.outputs = outputs
        self.numbers: Optional[Callable[[Sequence[float]], list[Any]]] = None
        self.chooses = False
        self._plans: dict[Any, _Plan] = {}
        self.quick = native.torch_map(self.title, len(self.kinds), len(self.scalars), outputs, autocast)
        self._apply: Optional[Callable[..., Any]] = None
        self._gradients: dict[tuple[bool, ...], _Gradient] = {}
        self._kept: dict[tuple[bool, ...], tuple[tuple[int, ...], Any]] = {}
        FUNCTIONS[name] = self

    # ---- programs

    def listing(self, dtype: torch.dtype) -> Listing:
        """Return the program that computes in a dtype: inputs i0, i1, …, numbers s0, …, outputs o0, …."""
        raise NotImplementedError

    def derived(self, listing: Listing, wrt: Sequence[str]) -> Listing:
        """Return the program of the gradient by some of the inputs: reads g0, …, and writes d_i0, …."""
        floats = [o for o, kind in listing.outputs.items() if kind in FLOATS]
        return gradient(listing, wrt, {output: f"g{output[1:]}" for output in floats})

    def results(self, inputs: Sequence[Tensor]) -> tuple[torch.dtype, tuple[torch.dtype, ...]]:
        """Return the dtype to compute in for these inputs, and those of the results."""
        raise NotImplementedError

    def fixed(self) -> Optional[dict[str, torch.dtype]]:
        """Return the dtypes of the inputs, where a program is for these alone; else None."""
        return None

    def _plan(self, inputs: Sequence[Tensor]) -> _Plan:
        dtypes = tuple([t.dtype for t in inputs])
        key: Any = dtypes
        if any(dtype is not dtypes[0] for dtype in dtypes):
            key = dtypes, tuple([not t.ndim for t in inputs])  # numbers of no dimension give way to others
        if not any(dtype.is_floating_point for dtype in dtypes):
            key = key, torch.get_default_dtype()  # which floats made of integers have
        found = self._plans.get(key)
        if found is None:
            for i, dtype in enumerate(dtypes):
                if dtype not in ATLAS:
                    raise DTypeError(f"{self.title}: input {i + 1} has dtype {dtype}, which hologram has no type for")
            compute, results = self.results(inputs)
            listing = self.listing(compute)
            # The slots and the numbers in the order of a call, which C takes them in.
            slots_of = dict(sorted(listing.inputs.items(), key=lambda item: int(item[0][1:])))
            params = dict(sorted(listing.params.items(), key=lambda item: int(item[0][1:])))
            listing = listing._replace(inputs=slots_of, params=params)
            types = {f"i{i}": ATLAS[dtype] for i, dtype in enumerate(dtypes)}
            types |= {f"o{i}": ATLAS[dtype] for i, dtype in enumerate(results)}
            program = Program(narrowed(listing, types, {}).text, file=f"<hologram_torch {self.title}>")
            names = [f"i{i}" for i in range(len(inputs))] + [f"s{i}" for i in range(len(self.scalars))]
            names += [f"o{i}" for i in range(self.outputs)]
            slots = [name for name in names if name[0] != "s"] + [name for name in names if name[0] == "s"]
            like = None
            if program._names == slots and all(dtype in dtypes for dtype in results):
                like = tuple([dtypes.index(dtype) for dtype in results])
            found = self._plans[key] = _Plan(program, results, tuple(names), like)
        return found

    # ---- running

    def run(
        self, inputs: Sequence[Tensor], scalars: Sequence[float] = (), out: Optional[Tensor] = None
    ) -> list[Tensor]:
        """Compute the results; out is memory for the only one, of its dtype and shape."""
        if self.numbers is not None:
            scalars = self.numbers(scalars)
        if out is None:
            quick = self.quick(executor_of(inputs[0]), *inputs, *scalars)
            if quick is not None and quick is not True:
                return [quick] if self.outputs == 1 else list(quick)
        inputs = placed(self.title, inputs)
        plan = self._plan(inputs)
        if plan.like is not None and all(type(t) in PLAIN for t in inputs):
            native.torch_map_add(self.quick.__self__, tuple(inputs), plan.program, plan.like)
        outs = self.made(inputs, plan.dtypes) if out is None else [out]
        if outs[0].numel():
            given = dict(zip(plan.names, (*inputs, *scalars, *outs)))
            bound = {name: given[name] for name in plan.program._names}  # some may not be used
            try:
                executor_for(outs[0].device).launch(plan.program, bound)
            except BufferError as error:  # torch's, for what is not strided memory
                raise DTypeError(f"{self.title}: {error}") from None
            except InvalidArgumentError as error:
                raise InvalidArgumentError(_named(self.title, str(error))) from None
        return outs

    def made(self, inputs: Sequence[Tensor], dtypes: Sequence[torch.dtype]) -> list[Tensor]:
        """Make tensors for the results."""
        first = inputs[0]
        shape = first.shape
        if len(inputs) == 1:
            return [torch.empty_like(first, dtype=dtype) for dtype in dtypes]
        if any(t.shape != shape for t in inputs):
            shape = broadcast(self.title, inputs)
        if all(t.is_contiguous() for t in inputs):
            return [torch.empty(shape, dtype=dtype, device=first.device) for dtype in dtypes]
        strides = compute_elementwise_output_strides(*[t.expand(shape) for t in inputs])
        return [torch.empty_strided(shape, strides, dtype=dtype, device=first.device) for dtype in dtypes]

    def fake(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Make tensors such as the results, of whatever they hold."""
        return self.made(inputs, self.results(inputs)[1])

    # ---- gradients

    def keeps(self, needs: tuple[bool, ...]) -> tuple[tuple[int, ...], Any]:
        """Return which of the inputs and then the results the gradients by some of the inputs need.

        And what has C make them, if all are made at once of the only result's and these, in that order: of inputs of
        one shape and dtype.
        """
        found = self._kept.get(needs)
        if found is None:
            gradient, before = self._gradient(needs), {"i": 0, "o": len(self.kinds)}
            kept = tuple(s.number + before[s.kind] for s in gradient.sources if s.kind in before)
            found = self._kept[needs] = kept, gradient.quick if gradient.direct and gradient.numbers is None else None
        return found

    def _gradient(self, needs: tuple[bool, ...]) -> _Gradient:
        found = self._gradients.get(needs)
        if found is None:
            found = self._gradients[needs] = _Gradient(self, needs)
        return found

    def gradients(
        self, needs: tuple[bool, ...], given: Sequence[Tensor], kept: Sequence[Tensor], scalars: Sequence[float]
    ) -> list[Optional[Tensor]]:
        """Return the gradients by the inputs, of the results' shape.

        Args:
            needs: Which inputs' are needed.
            given: The gradients by the results.
            kept: What ``keeps`` asked for.
            scalars: The numbers of the call.
        """
        found = self._gradient(needs)
        if found.direct:  # the first gradient and what is kept in, all gradients out
            return list(found.call((given[0], *kept), scalars))
        rest = iter(kept)
        inputs = [given[source.number] if source.kind == "g" else next(rest) for source in found.sources]
        made = iter(found.call(inputs, scalars) if found.computed else ())
        results: list[Optional[Tensor]] = []
        for flat, zero, same in zip(found.flat, found.zero, found.same):
            if flat:  # torch too has zeros for what is read and changes nothing
                results.append(torch.zeros_like(given[0]))
            else:
                results.append(None if zero else next(made) if same is None else given[same])
        return results

    # ---- as an operator without a name of its own

    def call(self, inputs: Sequence[Tensor], scalars: Sequence[float] = ()) -> list[Tensor]:
        """Compute the results, recorded where autograd records."""
        if is_dynamo_compiling() or unusual() or any(type(t) not in PLAIN for t in inputs):
            if not is_dynamo_compiling():
                keep(self)
            numbers = doubles(self.title, scalars)
            symbols = any(isinstance(number, torch.SymFloat) for number in numbers)
            return list((OF_SIZES if symbols else GENERIC)(self.name, list(inputs), numbers))
        if is_grad_enabled() and any(t.requires_grad for t in inputs):
            if self._apply is None:
                self._apply = titled(type("Recorded", (_Recorded,), {}), self.title).apply
            return list(self._apply(self, tuple(scalars), *inputs))
        return self.run(inputs, scalars)


def _named(name: str, message: str) -> str:
    """Return what a launch says of a slot as it is said of an input of a function, or of its gradient."""
    of, mark, _ = name.rpartition("'")
    what = f"the gradient of {of}" if mark else name
    return _SLOT.sub(lambda slot: f"{what}: input {int(slot[1]) + 1}: ", message)


def save(ctx: Any, function: Elementwise, inputs: Sequence[Tensor], results: Sequence[Tensor], needs: Any) -> None:
    """Keep in ctx what the gradients by some of the inputs need."""
    wanted = ctx.wanted = tuple(needs)
    layouts = quick = None
    if True in wanted:
        kept, quick = function.keeps(wanted)
        if kept:
            every = (*inputs, *results)
            ctx.save_for_backward(*[every[i] for i in kept])
    if len(inputs) > 1:
        first = results[0]
        shape, dtype = first.shape, first.dtype
        for t in inputs:
            if t.dtype is not dtype or t.shape != shape:
                layouts, quick = [(t.shape, t.dtype) for t in inputs], None
                break
    ctx.layouts, ctx.quick = layouts, quick


def pulled(
    ctx: Any,
    function: Elementwise,
    given: Sequence[Tensor],
    scalars: Sequence[float],
    saved: Optional[Sequence[Tensor]] = None,
) -> list[Optional[Tensor]]:
    """Return the gradients by the inputs, each of its input's shape and dtype.

    What ctx has saved is given where it was asked for: hooks may give it once.
    """
    if True not in ctx.wanted:
        return [None] * len(ctx.wanted)
    kept = ctx.saved_tensors if saved is None else saved
    if function.chooses:
        kept = [t.detach() for t in kept]
    found = function.gradients(ctx.wanted, given, kept, scalars)
    if ctx.layouts is not None:
        for i, (shape, dtype) in enumerate(ctx.layouts):
            value = found[i]
            if value is not None:
                found[i] = sum_to(value, shape).to(dtype)
    return found


class _Recorded(torch.autograd.Function):
    """A recorded call of any function."""

    @staticmethod
    def forward(ctx: Any, function: Elementwise, scalars: tuple[float, ...], *inputs: Tensor) -> Any:
        results = function.run(inputs, scalars)
        ctx.function, ctx.scalars = function, scalars
        save(ctx, function, inputs, results, ctx.needs_input_grad[2:])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> Any:
        return (None, None, *pulled(ctx, ctx.function, given, ctx.scalars))


class _Gradient(Elementwise):
    """The gradient of a function by some of its inputs.

    Attributes:
        sources: What its inputs are.
        same: For each input of the function the number of the gradient that its own is equal to, or None.
        zero: For each input whether its gradient is 0 everywhere, or not needed.
        flat: For each input whether its gradient is needed, and 0 everywhere though the function reads it.
        direct: Whether its inputs are one gradient and what is kept, in that order, and it computes all.
        computed: Which inputs' gradients it computes.
    """

    def __init__(self, function: Elementwise, needs: tuple[bool, ...]) -> None:
        self._function = function
        self._listings: dict[torch.dtype, Listing] = {}
        probe = function.listing(torch.float32)
        asked = [f"i{i}" if n else "" for i, n in enumerate(needs)]
        alone = [
            function.derived(probe, [name]) if name in probe.inputs else None for name in asked
        ]  # some are not read
        self.same = tuple(None if found is None else _same(found) for found in alone)
        self.zero = tuple(found is None or not found.inputs for found in alone)
        self.flat = tuple(found is not None and not found.inputs for found in alone)
        self.computed = [f"i{i}" for i, z in enumerate(self.zero) if not z and self.same[i] is None]
        inputs = list(function.derived(probe, self.computed).inputs) if self.computed else []
        inputs.sort(key=lambda name: name[0] != "g")  # whose dtype the results have
        self._inputs = inputs
        self.sources = tuple(Source(name[0], int(name[1:])) for name in inputs)
        kinds = [function.kinds[s.number] if s.kind == "i" else "number" for s in self.sources]
        mask = "".join("1" if f"i{i}" in self.computed else "0" for i in range(len(needs)))
        kinds_of = [source.kind for source in self.sources]
        self.direct = "0" not in mask and kinds_of.count("g") == 1 and kinds_of[0] == "g"
        title = f"{function.title}'{mask}"
        super().__init__(f"{function.name}'{mask}", kinds, function.scalars, len(self.computed), title=title)
        self.numbers = function.numbers

    def fixed(self) -> Optional[dict[str, torch.dtype]]:
        if self._function.fixed() is None:
            return None
        floats = {kind: dtype for dtype, kind in ATLAS.items() if dtype.is_floating_point}
        listing = self.listing(torch.float32)
        return {name: floats.get(kind, torch.int64) for name, kind in listing.inputs.items()}

    def listing(self, dtype: torch.dtype) -> Listing:
        found = self._listings.get(dtype)
        if found is None:
            derived = self._function.derived(self._function.listing(dtype), self.computed)
            names = {name: f"i{i}" for i, name in enumerate(self._inputs)}
            names |= {f"d_{name}": f"o{i}" for i, name in enumerate(self.computed)}
            found = self._listings[dtype] = narrowed(derived, {}, names)
        return found

    def results(self, inputs: Sequence[Tensor]) -> tuple[torch.dtype, tuple[torch.dtype, ...]]:
        types = self._function.fixed()
        if types is not None:
            return torch.float32, tuple(types[name] for name in self.computed)
        dtype = inputs[0].dtype
        wide = opmath(dtype)
        for t, kind in zip(inputs, self.kinds):
            if kind == "number" and t.ndim:
                wide = torch.promote_types(wide, t.dtype)
        return wide, (dtype,) * self.outputs


def _same(listing: Listing) -> Optional[int]:
    """Return the number of the gradient that a gradient's program only copies, or None."""
    if len(listing.lines) == 3 and listing.lines[0].operation == "ldg":
        name = listing.lines[0].named
        if name.startswith("g") and listing.lines[1].operation == "stg":
            return int(name[1:])
    return None


class Scalar(Elementwise):
    """A function of numbers that is written in Python, as ``hologram.kernel`` takes it.

    Args:
        name: Its name.
        function: It takes a value for each input, then the element's place in the result if there is a parameter
            "lane", then the scalars.
        kinds: What each input is.
        promotion: How the result's dtype comes of the inputs': "same" is torch's promotion; "float" besides makes
            torch's default dtype of integers and bools; "floating" refuses these; "counting" makes int64 of bools;
            "numeric" refuses bools, and "difference" also one beside numbers.
        slopes: Its gradient, where the derived one won't do: a function of the gradient by the result, the inputs and
            the scalars, that returns one for each input.
        autocast: Whether autocast changes the inputs.
        title: What messages call it, where that is not its name.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        kinds: Sequence[str],
        promotion: str = "same",
        slopes: Optional[Callable[..., Any]] = None,
        autocast: bool = False,
        title: str = "",
    ) -> None:
        parameters = list(inspect.signature(getattr(function, "of_values", function)).parameters)[len(kinds) :]
        self._lane = "lane" in parameters  # the element's place in the result, u64
        super().__init__(name, kinds, [p for p in parameters if p != "lane"], 1, autocast, title)
        self.function = function
        self.promotion = promotion
        self.slopes = slopes

    @functools.cache  # noqa: B019 (functions live as long as the program)
    def listing(self, dtype: torch.dtype) -> Listing:
        inputs = {str(i): f"i{i}" for i in range(len(self.kinds))}
        arguments = self._arguments(dtype)
        if self._lane:
            inputs[str(len(inputs))] = "lane"
            arguments.insert(len(self.kinds), "u64")
        found = traced(Kernel(self.function), arguments, inputs)[0]
        return numbered(found, "lane") if self._lane else found

    def _arguments(self, dtype: torch.dtype) -> list[Any]:
        types = {"mask": np.bool_, "index": "i64", "number": np.bool_ if dtype == torch.bool else ATLAS[dtype]}
        number = np.float64(0.5) if dtype == torch.float64 else np.float32(0.5)
        return [*(types[kind] for kind in self.kinds), *([number] * len(self.scalars))]

    def derived(self, listing: Listing, wrt: Sequence[str]) -> Listing:
        if self.slopes is None:
            return super().derived(listing, wrt)
        kind = listing.outputs["o0"]
        dtype = next(dtype for dtype, type in ATLAS.items() if type == kind)
        count = len(self.kinds)
        inputs = {"0": "g0", **{f"{i + 1}": f"i{i}" for i in range(count)}}
        all_of = traced(Kernel(self.slopes), [kind, *self._arguments(dtype)], inputs)[0]
        outputs = {f"d_i{i}": f"o{i}" for i in range(count)}
        return reduced(all_of, {outputs[f"d_{name}"]: f"d_{name}" for name in wrt})

    def results(self, inputs: Sequence[Tensor]) -> tuple[torch.dtype, tuple[torch.dtype, ...]]:
        dtype = promoted([t for t, kind in zip(inputs, self.kinds) if kind == "number"])
        if self.promotion == "difference" and any(t.dtype == torch.bool for t in inputs):
            raise DTypeError(
                f"{self.title}: the dtypes are {' and '.join(str(t.dtype) for t in inputs)}; expected no bools, as "
                "torch: logical_xor (^) tells where two masks differ, logical_not (~) inverts one, and to(torch.int64) "
                "makes numbers of them"
            )
        if not dtype.is_floating_point:
            if self.promotion == "floating":
                raise DTypeError(f"{self.title}: input has dtype {dtype}; expected a floating-point dtype")
            if self.promotion == "numeric" and dtype == torch.bool:
                raise DTypeError(f"{self.title}: input has dtype {dtype}; expected a dtype of numbers")
            if self.promotion == "float":
                dtype = torch.get_default_dtype()
            if self.promotion == "counting" and dtype == torch.bool:
                dtype = torch.int64
        return opmath(dtype), (dtype,)


def traced(kernel: Kernel, arguments: Sequence[Any], inputs: Mapping[str, str]) -> tuple[Listing, list[str], bool]:
    """Return the program of a kernel for arguments, dtypes in the place of arrays.

    Beside it come the types of its results, bools as "bool", and whether the function returns a tuple.

    Args:
        kernel: The kernel.
        arguments: What it is compiled for.
        inputs: The names that slots get, by the numbers of their arguments; all others are numbers, s0, ….
    """
    compiled = compiled_for(kernel, arguments)
    scalars = [str(i) for i in range(len(arguments)) if str(i) not in inputs]
    given = {**inputs, **{number: f"s{i}" for i, number in enumerate(scalars)}}
    renamed = {name: given[str(place)] for name, place in zip(compiled.names, compiled.places)}
    return (*listed(compiled, renamed), compiled.several)


def compiled_for(kernel: Kernel, arguments: Sequence[Any]) -> Compiled:
    """Return what a kernel is compiled to for arguments, dtypes in the place of arrays."""
    names, values = kernel._signature.flat(arguments, {})
    return kernel._compiled(names, [stand_in(value) for value in values], None)


def listed(compiled: Compiled, renamed: Mapping[str, str]) -> tuple[Listing, list[str]]:
    """Return a kernel's program with slots and parameters renamed and results o0, …, and the results' types."""
    renamed = {**renamed, **{name: f"o{i}" for i, (name, _) in enumerate(compiled.outputs)}}
    results = ["bool" if dtype == np.bool_ else NAMES[code_of(dtype) - 1] for _, dtype in compiled.outputs]
    return narrowed(parse(compiled.text), {}, renamed), results


def keep(function: Elementwise) -> None:
    """Have a function live as long as the program: a graph may have its name, and nothing else of it."""
    _KEPT.add(function)


def find(name: str) -> Elementwise:
    """Return the function of a name; those of gradients are made as needed."""
    found = FUNCTIONS.get(name)
    if found is None:
        of, mark, mask = name.rpartition("'")
        if not mark:
            for maker in MAKERS:
                made = maker(name)
                if made is not None:
                    keep(made)
                    return made
            raise LookupError(f"hologram_torch has no function {name!r}; is the module imported that defines it?")
        found = find(of)._gradient(tuple(digit == "1" for digit in mask))
    return found


class _Generic(Operation):
    """The operator for functions that have none of their own: gradients, and users' kernels."""

    def shown(self, arguments: Sequence[Any]) -> str:
        return find(arguments[0]).title

    def forward(self, name: str, inputs: list[Tensor], scalars: list[float]) -> list[Tensor]:
        return find(name).run(inputs, scalars)

    def fake(self, name: str, inputs: list[Tensor], scalars: list[float]) -> list[Tensor]:
        return find(name).fake(inputs)

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Any) -> None:
        name, inputs, ctx.scalars = arguments
        ctx.function = find(name)
        needs = ctx.needs_input_grad[1]
        save(ctx, ctx.function, inputs, result, needs if isinstance(needs, (list, tuple)) else [needs] * len(inputs))

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        given = gradients[0] if len(gradients) == 1 and isinstance(gradients[0], (list, tuple)) else gradients
        # For a list of numbers torch takes a single None, for one of none an empty list.
        return None, pulled(ctx, ctx.function, given, ctx.scalars), None if ctx.scalars else []


GENERIC = _Generic("elementwise", "(str name, Tensor[] inputs, float[] scalars) -> Tensor[]")
# Numbers stay symbols where they are made of sizes that are left open; torch.export saves no lists of such, nor empty
# ones.
OF_SIZES = _Generic("elementwise_of_sizes", "(str name, Tensor[] inputs, Scalar[] scalars) -> Tensor[]")
