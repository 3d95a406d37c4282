"""Programs that change tensors in place, all in one pass: the steps of optimisers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

import numpy as np
import torch
from torch import Tensor

from hologram import Program
from hologram._kernel.call import Kernel
from hologram.errors import DTypeError
from hologram_torch._elementwise import ATLAS, opmath, traced
from hologram_torch._executors import executor_for
from hologram_torch._listing import narrowed

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Update"]


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
        self._programs: dict[tuple[torch.dtype, ...], Program] = {}

    def __call__(self, inputs: Sequence[Tensor], numbers: Sequence[float], outs: Sequence[Tensor]) -> None:
        """Compute the function where gradients are not recorded; results may go to inputs.

        Raises:
            TypeError: A tensor has no float dtype.
            ValueError: The tensors' shapes differ.
        """
        first = inputs[0]
        if not first.numel():
            return
        dtypes = tuple([t.dtype for t in (*inputs, *outs)])
        program = self._programs.get(dtypes)
        if program is None:
            program = self._programs[dtypes] = self._made(dtypes, len(numbers))
        bound: dict[str, Any] = {f"i{i}": t for i, t in enumerate(inputs)}
        bound.update([(f"s{i}", number) for i, number in enumerate(numbers)])
        bound.update([(f"o{i}", t) for i, t in enumerate(outs)])
        executor_for(first.device).launch(program, bound)

    def _made(self, dtypes: tuple[torch.dtype, ...], numbers: int) -> Program:
        for dtype in dtypes:
            if not dtype.is_floating_point or dtype not in ATLAS:
                raise DTypeError(f"{self._name}: a tensor has dtype {dtype}; expected f16, bf16, f32 or f64")
        compute = opmath(dtypes[0])
        number = np.float64(0.5) if compute == torch.float64 else np.float32(0.5)
        inputs = {str(i): f"i{i}" for i in range(self._inputs)}
        listing, results, _ = traced(self._kernel, [ATLAS[compute]] * self._inputs + [number] * numbers, inputs)
        names = [f"i{i}" for i in range(self._inputs)] + [f"o{i}" for i in range(len(results))]
        types = {name: ATLAS[dtype] for name, dtype in zip(names, dtypes)}
        return Program(narrowed(listing, types, {}).text, file=f"<hologram_torch {self._name}>")
