"""Programs that change tensors in place, all in one pass: the steps of optimisers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hologram import Program
from hologram._ffi import native
from hologram._kernel.call import Kernel
from hologram.errors import DTypeError, InvalidArgumentError
from hologram_torch._elementwise import ATLAS, opmath, traced
from hologram_torch._executors import executor_for
from hologram_torch._listing import narrowed

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Update"]


class _Plan(NamedTuple):
    """A program, and which tensors and numbers of a call its slots and parameters are, in its order."""

    program: Program
    slots: list[int]
    numbers: list[int]


class Update:
    """A function of elements of some tensors and of numbers, whose results go to tensors that there are.

    Args:
        name: Its name, for messages.
        function: The function.
        inputs: How many of its arguments are elements of tensors; numbers follow.
    """

    def __init__(self, name: str, function: Callable[..., Any], inputs: int) -> None:
        self._name = name
        self._kernel = Kernel(function)
        self._inputs = inputs
        self._plans: dict[tuple[torch.dtype, ...], _Plan] = {}

    def check(self, given: Sequence[Sequence[Tensor]], numbers: int) -> None:
        """Refuse what a call would, before anything is changed.

        Args:
            given: Lists of the inputs, of which those at the end may be missing: they are such as the first.
            numbers: How many numbers the call has.

        Raises:
            TypeError: A tensor has no float dtype.
            ValueError: The shapes of a list's tensors differ, or elements of one that is written share memory.
        """
        seen = set()
        for tensors in given:
            first = tensors[0]
            shape, device = first.shape, first.device
            if 0 in shape:
                continue
            key = (device, *[t.dtype for t in tensors])
            if key not in seen:
                missing = self._inputs - len(tensors)
                dtypes = [t.dtype for t in tensors] + [first.dtype] * missing
                # The outputs are the first input and those from the third on.
                self._plan((*dtypes, first.dtype, *dtypes[2:]), numbers)
                executor_for(device)
                seen.add(key)
            for i, t in enumerate(tensors):
                if t is not first and (t.shape != shape or t.device != device):
                    raise InvalidArgumentError(
                        f"{self._name}: tensors have shapes {tuple(first.shape)} on {first.device} and "
                        f"{tuple(t.shape)} on {t.device}; expected the same"
                    )
                if i != 1 and not t.is_contiguous() and torch._debug_has_internal_overlap(t) == 1:
                    raise InvalidArgumentError(
                        f"{self._name}: elements of a tensor of shape {tuple(t.shape)} and strides {t.stride()} share "
                        "memory; it is written"
                    )

    def __call__(self, given: Sequence[Sequence[Tensor]], numbers: Sequence[float]) -> None:
        """Compute the function of each of several lists of tensors, where gradients are not recorded.

        Args:
            given: Lists of the inputs and then the outputs, which may be inputs.
            numbers: The numbers, the same for all.

        Raises:
            TypeError: A tensor has no float dtype.
            ValueError: The shapes of a list's tensors differ.
        """
        kinds: dict[tuple[Any, ...], list[Sequence[Tensor]]] = {}
        for tensors in given:
            if tensors[0].numel():
                kinds.setdefault((tensors[0].device, *[t.dtype for t in tensors]), []).append(tensors)
        for (device, *types), lists in kinds.items():
            dtypes = tuple(types)
            plan = self._plan(dtypes, len(numbers))
            executor, slots = executor_for(device), plan.slots
            arrays = tuple([tensors[i] for tensors in lists for i in slots])
            passed = tuple([numbers[i] for i in plan.numbers])
            done = 0
            while done < len(arrays):
                done += native.launch_each(executor, plan.program, arrays[done:], passed)
                if done < len(arrays):  # something that is taken in Python, or refused
                    bound = dict(zip(plan.program._names, (*arrays[done : done + len(slots)], *passed)))
                    executor.launch(plan.program, bound)
                    done += len(slots)

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
        listing, results, _ = traced(self._kernel, [ATLAS[compute]] * self._inputs + [number] * numbers, inputs)
        names = [f"i{i}" for i in range(self._inputs)] + [f"o{i}" for i in range(len(results))]
        types = {name: ATLAS[dtype] for name, dtype in zip(names, dtypes)}
        program = Program(narrowed(listing, types, {}).text, file=f"<hologram_torch {self._name}>")
        slots = [names.index(name) for name in program._names if name[0] != "s"]
        return _Plan(program, slots, [int(name[1:]) for name in program._names if name[0] == "s"])
