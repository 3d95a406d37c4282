"""torch's own samples (OpInfo) for the functions of hologram_torch.functional."""

from __future__ import annotations

import math
import warnings
from typing import Any, Callable

import torch

from hologram_torch import functional as F

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would rather have hypothesis too
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core

# Whoever asks for samples they look for a unittest.TestCase in his stack, frame by frame, which takes a hundred times
# as long as to make the samples. There is none.
common_utils.extract_test_fn = core.extract_test_fn = lambda: None

SAMPLES: dict[str, list[Any]] = {}
for _info in op_db:
    SAMPLES.setdefault(_info.name, []).append(_info)

VARIANTS = {  # what other variants test is not offered: other signatures, rounding, complex numbers
    "div": {"no_rounding_mode"},
    "silu": {""},
}


CALLED: dict[str, Callable[..., Any]] = {
    "embedding": lambda weight, index, **named: F.embedding(index, weight, **named),
    "where": lambda x, condition, y: F.where(condition, x, y),
}
"""Functions whose arguments OpInfo gives in another order."""


class _Log10(torch.autograd.Function):
    """torch.log10, whose gradient in torch 2.11 has for the logarithm of 10 the double below the nearest."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return torch.log10(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradients[0] / (x * math.log(10))


DOUBLES: dict[str, Callable[..., Any]] = {"log10": _Log10.apply}
"""What stands for torch's function where results in float64 are held against its own."""


def info_name(name: str) -> str:
    return name if name in SAMPLES else f"nn.functional.{name}"


def samples(name: str, dtype: torch.dtype) -> list[Any]:
    found = []
    for info in SAMPLES[info_name(name)]:
        if name in VARIANTS and info.variant_test_name not in VARIANTS[name]:
            continue
        if not info.supports_dtype(dtype, "cpu"):
            continue
        torch.manual_seed(1)
        found += [(info.op, s) for s in info.sample_inputs("cpu", dtype, requires_grad=dtype.is_floating_point)]
    return found


NAMES = [name for name in F.__all__ if info_name(name) in SAMPLES and name != "dropout"]  # which is by chance
