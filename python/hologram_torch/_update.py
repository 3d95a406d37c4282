"""Programs that change tensors in place, all in one pass: the steps of optimisers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from hologram import Executor, Program
from hologram._ffi import MAX_RANK, native
from hologram._kernel.call import Kernel
from hologram.errors import DTypeError, InvalidArgumentError
from hologram_torch._elementwise import traced
from hologram_torch._executors import executor_for
from hologram_torch._listing import narrowed
from hologram_torch._operands import ATLAS, opmath

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Ready", "Update"]

_MOST = float(np.finfo(np.float32).max)

_MOST_READY = 16
"""How many different lists are remembered; beyond that it begins anew."""


class _Plan(NamedTuple):
    """A program, and which tensors and numbers of a call its slots and parameters are, in its order."""

    program: Program
    slots: list[int]
    numbers: list[int]
    narrow: bool  # whether numbers are f32


class _Part(NamedTuple):
    """Lists of tensors that one program is for: where among all tensors those are that it takes; None: all in order."""

    device: torch.device
    plan: _Plan
    places: Optional[list[int]]


Ready = list[tuple[Executor, _Plan, tuple[Tensor, ...]]]
"""What nothing refuses: executors, programs, and the tensors that these are launched on."""


class Update:
    """A function of elements of some tensors and of numbers, whose results go to tensors that there are.

    Args:
        name: Its name, for messages.
        function: The function.
        inputs: How many of its arguments are elements of tensors; numbers follow.
        alone: The numbers of those that may be of tensors without dimensions.
        chosen: Its last arguments, by which the program is another.
    """

    def __init__(
        self, name: str, function: Callable[..., Any], inputs: int, alone: Sequence[int] = (), **chosen: bool
    ) -> None:
        self._name = name
        self._alone = frozenset(alone)
        self._kernel = Kernel(function, static=chosen)
        self._chosen = list(chosen.values())
        self._inputs = inputs
        self._plans: dict[tuple[torch.dtype, ...], _Plan] = {}
        self._looks: Optional[bytes] = None  # the last
        self._ready: dict[bytes, list[_Part]] = {}  # by all that decides about them

    def ready(self, arrays: tuple[Tensor, ...], each: int, numbers: int) -> Ready:
        """Find out how lists of tensors are computed with, before anything is changed.

        Args:
            arrays: The lists, one after the other: the inputs and then the outputs, which may be inputs but input 1.
            each: How many tensors a list has.
            numbers: How many numbers the function takes.

        Raises:
            TypeError: A tensor has no float dtype, or is sparse.
            ValueError: The shapes of a list's tensors differ, or have more than 8 dimensions; one that is written is a
                negative view, has elements that share memory or are not aligned, or lies where another does; or a
                tensor has no memory.
            RuntimeError: Nothing works on the tensors' device, in this process or any more.
        """
        if not arrays:
            return []
        looks = self._looks = native.torch_looks(arrays, each, self._inputs, self._looks)
        parts = None if looks is None else self._ready.get(looks)
        if parts is None:
            given = [arrays[i : i + each] for i in range(0, len(arrays), each)]
            parts = self._sorted(given, numbers)
            if looks is None:
                arrays = tuple([t for tensors in given for t in self._apart(tensors)])
            else:
                if len(self._ready) >= _MOST_READY:
                    self._ready.clear()
                self._ready[looks] = parts
        found: Ready = []
        for device, plan, places in parts:
            executor = executor_for(device)
            if executor._freed:
                executor._check()
            found.append((executor, plan, arrays if places is None else tuple([arrays[i] for i in places])))
        return found

    def _sorted(self, given: Sequence[Sequence[Tensor]], numbers: int) -> list[_Part]:
        kinds: dict[tuple[Any, ...], list[int]] = {}
        for at, tensors in enumerate(given):
            first = tensors[0]
            shape, device = first.shape, first.device
            for i, t in enumerate(tensors):
                if t.layout != torch.strided:
                    raise DTypeError(f"{self._name}: a tensor has layout {t.layout}; expected dense ones")
                alone = i in self._alone and not t.ndim
                if t is not first and ((t.shape != shape and not alone) or t.device != device):
                    raise InvalidArgumentError(
                        f"{self._name}: tensors have shapes {tuple(shape)} on {device} and {tuple(t.shape)} on "
                        f"{t.device}; expected the same"
                    )
                if i >= self._inputs and t.is_neg():
                    raise InvalidArgumentError(
                        f"{self._name}: a tensor is a negative view, whose memory has the other signs; it is written"
                    )
                if i >= self._inputs and not t.is_contiguous() and _shares(t):
                    raise InvalidArgumentError(
                        f"{self._name}: elements of a tensor of shape {tuple(t.shape)} and strides {t.stride()} share "
                        "memory; it is written"
                    )
            if len(shape) > MAX_RANK:
                raise InvalidArgumentError(
                    f"{self._name}: a tensor has {len(shape)} dimensions; expected at most {MAX_RANK}"
                )
            if 0 not in shape:
                kinds.setdefault((device, *[t.dtype for t in tensors]), []).append(at)
        parts = []
        for (device, *types), lists in kinds.items():
            plan = self._plan(tuple(types), numbers)
            places = [at * len(types) + i for at in lists for i in plan.slots]
            whole = places == list(range(len(given) * len(types)))
            parts.append(_Part(device, plan, None if whole else places))
        return parts

    def _apart(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        """Return a list with a copy of input 1 if memory that is written may be its own."""
        if not tensors[0].numel():
            return tensors
        given, written = tensors[1].resolve_neg(), tensors[self._inputs :]
        taken: list[tuple[int, int]] = []
        for t in written:
            begin, end = _range(self._name, t)
            if begin % t.element_size():
                raise InvalidArgumentError(
                    f"{self._name}: a tensor's address is no multiple of {t.element_size()}, the size of an element; "
                    "it is written"
                )
            if any(begin < other_end and other < end for other, other_end in taken):
                raise InvalidArgumentError(
                    f"{self._name}: tensors of shape {tuple(t.shape)} that are written lie in one piece of memory, "
                    "which they may share"
                )
            taken.append((begin, end))
        begin, end = _range(self._name, given)
        if begin % given.element_size() or any(begin < other_end and other < end for other, other_end in taken):
            given = given.clone()
        return (tensors[0], given, *tensors[2:])

    def beyond(self, ready: Ready, numbers: Sequence[float]) -> Optional[int]:
        """Return which of the numbers a launch of the lists would refuse, being finite and too large; or None."""
        if sum(map(abs, numbers)) <= _MOST:
            return None
        for _, plan, _ in ready:
            for i in plan.numbers:
                if plan.narrow and _MOST < abs(numbers[i]) < math.inf:
                    return i
        return None

    def __call__(self, ready: Ready, numbers: Sequence[float]) -> None:
        """Compute the function of each of several lists of tensors, where gradients are not recorded.

        Args:
            ready: The lists.
            numbers: The numbers, the same for all.
        """
        for executor, plan, arrays in ready:
            passed = tuple([numbers[i] for i in plan.numbers])
            done = 0
            while done < len(arrays):
                done += native.launch_each(executor, plan.program, arrays[done:], passed)
                if done < len(arrays):  # something that is taken in Python, or refused
                    slots = len(plan.slots)
                    bound = dict(zip(plan.program._names, (*arrays[done : done + slots], *passed)))
                    executor.launch(plan.program, bound)
                    done += slots

    def _plan(self, dtypes: tuple[torch.dtype, ...], numbers: int) -> _Plan:
        plan = self._plans.get(dtypes)
        if plan is None:
            plan = self._plans[dtypes] = self._made(dtypes, numbers)
        return plan

    def _made(self, dtypes: tuple[torch.dtype, ...], numbers: int) -> _Plan:
        for dtype in dtypes:
            if not dtype.is_floating_point or dtype not in ATLAS:
                raise DTypeError(f"{self._name}: a tensor has dtype {dtype}; expected f16, bf16, f32 or f64")
        compute = opmath(dtypes[0])
        number = np.float64(0.5) if compute == torch.float64 else np.float32(0.5)
        inputs = {str(i): f"i{i}" for i in range(self._inputs)}
        arguments = [*[ATLAS[compute]] * self._inputs, *[number] * numbers, *self._chosen]
        listing, results, _ = traced(self._kernel, arguments, inputs)
        names = [f"i{i}" for i in range(self._inputs)] + [f"o{i}" for i in range(len(results))]
        types = {name: ATLAS[dtype] for name, dtype in zip(names, dtypes)}
        program = Program(narrowed(listing, types, {}).text, file=f"<hologram_torch {self._name}>")
        slots = [names.index(name) for name in program._names if name[0] != "s"]
        return _Plan(
            program, slots, [int(name[1:]) for name in program._names if name[0] == "s"], compute != torch.float64
        )


def _shares(t: Tensor) -> bool:
    """Whether elements of a tensor may share memory, as the library sees it: by its rows' reach, to the safe side."""
    reach = 0
    for stride, size in sorted((stride, size) for stride, size in zip(t.stride(), t.shape) if size > 1):
        if stride <= reach:
            return 0 not in t.shape
        reach += stride * (size - 1)
    return False


def _range(name: str, t: Tensor) -> tuple[int, int]:
    """Return the addresses that a tensor's elements take up, from one on to another; it has elements.

    Raises:
        ValueError: It has no memory, or its storage has been resized and has not enough.
    """
    begin, last = t.data_ptr(), sum((size - 1) * stride for size, stride in zip(t.shape, t.stride()))
    if not begin:
        raise InvalidArgumentError(f"{name}: a tensor of shape {tuple(t.shape)} has no memory")
    wanted, given = (t.storage_offset() + last + 1) * t.element_size(), t.untyped_storage().nbytes()
    if wanted > given:
        raise InvalidArgumentError(
            f"{name}: a tensor of shape {tuple(t.shape)} reaches to byte {wanted} of its storage, which has {given}"
        )
    return begin, begin + (last + 1) * t.element_size()
