"""Each function over shapes and layouts, forward and backward: how far from torch's is said in accuracy.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import pytest
import torch
from accuracy import DTYPES, Case, check, compared
from opinfo import CALLED, NAMES, SAMPLES, info_name
from torch import Tensor

from hologram_torch import functional as F

LAYOUTS: dict[str, tuple[tuple[int, ...], Callable[[Tensor], Tensor]]] = {
    "no dimensions": ((1,), lambda x: x.reshape(())),
    "one element": ((1,), lambda x: x),
    "one row": ((1, 7), lambda x: x),
    "no elements": ((0,), lambda x: x),
    "no elements in a row": ((3, 0), lambda x: x),
    "no rows": ((0, 5), lambda x: x),
    "no elements in a stack": ((2, 0, 3), lambda x: x),
    "odd": ((13, 7), lambda x: x),
    "transposed": ((7, 13), lambda x: x.t()),
    "every other": ((14, 21), lambda x: x[::2, 1::3]),
    "expanded": ((1, 7), lambda x: x.expand(5, 7)),
    "a number": ((), lambda x: x.expand(3, 5)),
    "stack": ((3, 5, 7), lambda x: x),
    "turned": ((7, 3, 5), lambda x: x.permute(2, 1, 0)),
    "images": ((2, 3, 5, 4), lambda x: x.to(memory_format=torch.channels_last)),
}
"""What is a leaf's shape, and what a function is given of it."""


def numbers(*shape: int, dtype: torch.dtype) -> Tensor:
    """Numbers from 0.1 to 0.9: in the domain of all functions, and away from corners."""
    return (torch.rand(shape) * 0.8 + 0.1).to(dtype).requires_grad_()


LEAST = 0.5
"""The size of what cancels: of such numbers."""

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""What stands behind the first argument."""


def plain(x: Tensor) -> Iterator[Call]:
    yield (), {}


def pairs(x: Tensor) -> Iterator[Call]:
    yield (numbers(*x.shape, dtype=x.dtype),), {}
    if x.ndim:
        yield (numbers(*x.shape[-1:], dtype=x.dtype),), {}
        yield (numbers(*x.shape[:-1], 1, dtype=x.dtype),), {}
    yield (numbers(dtype=x.dtype),), {}


def reductions(x: Tensor) -> Iterator[Call]:
    ways: list[Any] = [*range(-x.ndim, min(x.ndim, 2))] if x.ndim else [0, -1]
    ways += [[-1, 0]] if x.ndim > 1 else []
    yield (), {}
    for at, way in enumerate(ways):
        yield (way,), {"keepdim": True} if at % 2 else {}


def along(x: Tensor) -> Iterator[Call]:
    for dim in range(-x.ndim, x.ndim) if x.ndim else (0, -1):
        yield (dim,), {}


def norms(count: int) -> Callable[[Tensor], Iterator[Call]]:
    def calls(x: Tensor) -> Iterator[Call]:
        for lead in range(x.ndim):
            shape = tuple(x.shape[lead:])
            yield (shape,), {"eps": 0.1}
            yield (shape, *(numbers(*shape, dtype=x.dtype) for _ in range(count))), {"eps": 0.1}

    return calls


def batches(x: Tensor) -> Iterator[Call]:
    if x.ndim > 1 and x.numel() != x.shape[1]:
        each = [numbers(x.shape[1], dtype=x.dtype) for _ in range(4)]
        yield (None, None, *each[2:]), {"training": True, "eps": 0.1}
        yield (each[0].detach(), each[1].detach(), *each[2:]), {}


def losses(x: Tensor) -> Iterator[Call]:
    for reduction in ("none", "mean", "sum"):
        yield (numbers(*x.shape, dtype=x.dtype),), {"reduction": reduction}


def classes(x: Tensor) -> Iterator[Call]:
    at = 1 if x.ndim > 1 else 0
    if not x.ndim or not x.shape[at]:
        return
    target = torch.randint(x.shape[at], x.shape[:at] + x.shape[at + 1 :])
    for reduction in ("none", "mean", "sum"):
        yield (target,), {"reduction": reduction}
        ignored = {"ignore_index": 0} if x.numel() > 1 else {}  # else it leaves a mean of none, NaN or 0 in torch
        yield (target, numbers(x.shape[at], dtype=x.dtype).detach()), {"reduction": reduction, **ignored}


def products(*more: int, ndim: int) -> Callable[[Tensor], Iterator[Call]]:
    def calls(x: Tensor) -> Iterator[Call]:
        if x.ndim == ndim:
            lead = x.shape[:-2] if ndim == 3 else ()
            yield (numbers(*lead, x.shape[-1], 3, dtype=x.dtype),), {}

    return calls


def matrices(x: Tensor) -> Iterator[Call]:
    if x.ndim:
        yield (numbers(x.shape[-1], dtype=x.dtype),), {}
        yield (numbers(x.shape[-1], 3, dtype=x.dtype),), {}
        yield (numbers(2, *[1] * max(x.ndim - 2, 0), x.shape[-1], 3, dtype=x.dtype),), {}


def layers(x: Tensor) -> Iterator[Call]:
    if x.ndim:
        yield (numbers(4, x.shape[-1], dtype=x.dtype),), {}
        yield (numbers(4, x.shape[-1], dtype=x.dtype), numbers(4, dtype=x.dtype)), {}


CALLS: dict[str, Callable[[Tensor], Iterator[Call]]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "maximum", "minimum", "pow"), pairs),
    **dict.fromkeys(("sum", "mean", "amax", "amin", "std", "var"), reductions),
    "prod": lambda x: (call for call in reductions(x) if not call[0] or isinstance(call[0][0], int)),
    **dict.fromkeys(("cumsum", "softmax", "log_softmax"), along),
    **dict.fromkeys(("mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "kl_div"), losses),
    **dict.fromkeys(("binary_cross_entropy", "binary_cross_entropy_with_logits"), losses),
    **dict.fromkeys(("nll_loss", "cross_entropy"), classes),
    "layer_norm": norms(2),
    "rms_norm": norms(1),
    "batch_norm": batches,
    "linear": layers,
    "matmul": matrices,
    "mm": products(ndim=2),
    "bmm": products(ndim=3),
    "addmm": lambda x: (
        ((numbers(x.shape[0], 3, dtype=x.dtype), numbers(3, x.shape[1], dtype=x.dtype)), {}) for _ in range(x.ndim == 2)
    ),
    # Of rows without elements torch's own gradient ends a GPU's context.
    "embedding": lambda x: (((torch.randint(len(x), (4, 3)),), {}) for _ in range(x.ndim == 2 and x.numel() > 0)),
    "where": lambda x: (((torch.rand(x.shape) > 0.5, *call[0]), {}) for call in pairs(x)),
    "clamp": lambda x: iter([((0.3, 0.6), {}), ((numbers(dtype=x.dtype), None), {})]),
}


def cases(name: str, dtype: torch.dtype, laid: bool = False) -> Iterator[Case]:
    """Yield a function's calls, which lay out their first argument themselves; or it is laid out already, and its
    gradient has nothing of torch's, such as the sums of what is expanded.
    """
    torch.manual_seed(2)
    ours, theirs = CALLED.get(name, getattr(F, name)), SAMPLES[info_name(name)][0].op
    for kind, (shape, layout) in LAYOUTS.items():
        if kind == "a number" and ("softmax" in name or "norm" in name):
            continue  # which don't depend on it
        # Of classes that don't lie in order torch refuses the gradient.
        ordered = layout if name != "nll_loss" else lambda x, layout=layout: layout(x).contiguous()
        leaf = numbers(*shape, dtype=dtype)
        for rest, named in CALLS.get(name, plain)(layout(leaf.detach())):
            if name in ("amax", "amin") and not leaf.numel() and not accepted(theirs, layout(leaf), rest, named):
                continue
            if laid:
                yield Case(ours, theirs, (layout(leaf.detach()).requires_grad_(), *rest), named)
                continue
            yield Case(
                lambda x, *rest, layout=layout, **named: ours(layout(x), *rest, **named),
                lambda x, *rest, layout=ordered, **named: theirs(layout(x), *rest, **named),
                (leaf, *rest),
                named,
            )


def accepted(function: Callable[..., Any], x: Tensor, rest: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether torch has an answer: an extremum of nothing has none."""
    try:
        function(x, *rest, **named)
    except (IndexError, RuntimeError):
        return False
    return True


@pytest.mark.filterwarnings("ignore")  # of degrees of freedom
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_errors(name: str, dtype: torch.dtype, device: str) -> None:
    check(name, cases(name, dtype), device, LEAST)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_doubles(name: str, device: str) -> None:
    """There is nothing wider: the two may differ by both errors, if torch's is as many last places as in float32."""
    found, _, worst, _ = compared(name, cases(name, torch.float64), LEAST, device)
    _, theirs, _, _ = compared(name, cases(name, torch.float32), LEAST, device)
    assert found <= 3 * theirs + 1, worst
