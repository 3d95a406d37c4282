"""What is computed in f32 of 16-bit floats and rounded once, at the end: beside the same in f64, to the last bit.

A tolerance of torch's size hides that a number was rounded on the way as well, which changes every fifth result or so.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

import pytest
import torch
from torch import Tensor

from hologram_torch import functional as F
from hologram_torch import optim

ROWS, WIDTH = 400, 6


class Own:
    """What the library has, by torch's names."""

    def __getattr__(self, name: str) -> Any:
        return getattr(F, name)


class Theirs:
    def __getattr__(self, name: str) -> Any:
        found = getattr(torch.nn.functional, name, None)
        return found if callable(found) else getattr(torch, name)


class Case(NamedTuple):
    """A function of the functions to use and of tensors, and what the tensors are."""

    function: Callable[..., Tensor]
    arguments: str  # x: numbers; p: between 0 and 1; w: above 0; of rows. v, u: the same as x, w of one row
    slope: Optional[Callable[[Tensor, Tensor], Tensor]] = None  # the gradient, of the rounded result and its own


def each(name: str, **named: Any) -> Callable[..., Tensor]:
    """A loss of each element."""
    return lambda using, x, y, *more: getattr(using, name)(x, y, *more, reduction="none", **named)


def classes(using: Any, x: Tensor, *weight: Tensor, of: str = "cross_entropy", mean: bool = False) -> Tensor:
    """A loss of rows, or the means of some at a time."""
    target = torch.arange(ROWS, device=x.device) * 5 % WIDTH
    function = getattr(using, of)
    if not mean:
        return function(x, target, *weight, reduction="none")
    return torch.stack([function(a, b, *weight) for a, b in zip(x.split(5), target.split(5))])


CASES: dict[str, Case] = {
    **{name: Case(lambda using, x, name=name: getattr(using, name)(x, 1), "x") for name in (
        "sum", "mean", "std", "var", "prod", "cumsum",
    )},
    "softmax": Case(lambda using, x: using.softmax(x, 1), "x", lambda y, g: y * (g - (g * y).sum(1, True))),
    "log_softmax": Case(lambda using, x: using.log_softmax(x, 1), "x", lambda y, g: g - y.exp() * g.sum(1, True)),
    **{name: Case(each(name), arguments) for name, arguments in (
        ("l1_loss", "xy"), ("mse_loss", "xy"), ("huber_loss", "xy"), ("smooth_l1_loss", "xy"),
        ("binary_cross_entropy", "pq"), ("binary_cross_entropy_with_logits", "xq"), ("kl_div", "xq"),
    )},
    "huber_loss, delta": Case(each("huber_loss", delta=0.75), "xy"),
    "smooth_l1_loss, beta": Case(each("smooth_l1_loss", beta=0.375), "xy"),
    "logits, pos_weight": Case(
        lambda using, x, q, w: using.binary_cross_entropy_with_logits(x, q, pos_weight=w, reduction="none"), "xqw"
    ),
    "kl_div, log_target": Case(each("kl_div", log_target=True), "xy"),
    "cross_entropy": Case(classes, "x"),
    "cross_entropy, weight": Case(classes, "xu"),
    "cross_entropy, mean": Case(lambda using, x: classes(using, x, mean=True), "x"),
    "cross_entropy, weight, mean": Case(lambda using, x, u: classes(using, x, u, mean=True), "xu"),
    "nll_loss, weight": Case(lambda using, x, u: classes(using, x, u, of="nll_loss"), "xu"),
    "nll_loss, weight, mean": Case(lambda using, x, u: classes(using, x, u, of="nll_loss", mean=True), "xu"),
    "layer_norm": Case(lambda using, x: using.layer_norm(x, (WIDTH,)), "x"),
    "layer_norm, affine": Case(lambda using, x, v, u: using.layer_norm(x, (WIDTH,), v, u, 1e-3), "xvu"),
    "rms_norm": Case(lambda using, x: using.rms_norm(x, (WIDTH,), eps=1e-3), "x"),
    "rms_norm, weight": Case(lambda using, x, v: using.rms_norm(x, (WIDTH,), v, 1e-3), "xv"),
    "batch_norm": Case(lambda using, x, v, u: using.batch_norm(x, None, None, v, u, True), "xvu"),
    "batch_norm, evaluation": Case(lambda using, x, v, u: using.batch_norm(x, v, u, v, u, False), "xvu"),
    "linear": Case(lambda using, x, v, u: using.linear(x, torch.stack([v, u]), v[:2]), "xvu"),
}  # fmt: skip


def arguments_of(kinds: str, dtype: torch.dtype, device: str) -> list[Tensor]:
    made = torch.Generator().manual_seed(3)
    found = []
    for kind in kinds:
        x = torch.randn((WIDTH,) if kind in "vu" else (ROWS, WIDTH), generator=made, dtype=torch.float64)
        x = x.sigmoid() if kind in "pq" else x.abs() + 0.125 if kind in "wu" else x
        found.append(x.to(device, dtype))
    return found


def off(found: Tensor, exact: Tensor, error: float) -> int:
    """How many are not their exact numbers, rounded; an error of a few units of f32 may come before."""
    around = error * (exact.abs() + 2**-4)
    return int(((found < (exact - around).to(found.dtype)) | (found > (exact + around).to(found.dtype))).sum())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", CASES)
def test_rounded_once(name: str, dtype: torch.dtype, device: str) -> None:
    case = CASES[name]
    given = arguments_of(case.arguments, dtype, device)
    ways = []
    for using, wide in ((Own(), dtype), (Theirs(), torch.float64)):
        leaves = [x.to(wide).requires_grad_(i == 0) for i, x in enumerate(given)]
        result = case.function(using, *leaves)
        slope = torch.rand(result.shape, generator=torch.Generator().manual_seed(4)).bfloat16().to(result)
        ways.append((result.detach(), torch.autograd.grad(result, leaves[0], slope)[0]))
    if case.slope is not None:
        ways[1] = ways[1][0], case.slope(ways[0][0].double(), slope)
    for what, found, exact in zip(("result", "gradient"), *ways):
        assert found.dtype == dtype
        assert off(found, exact, 2.0**-18) == 0, f"{what}: off in {off(found, exact, 2.0**-18)} of {found.numel()}"


@pytest.mark.parametrize("name", ["std", "var", "cumsum"])
def test_what_is_computed_in_f64_is_rounded_once(name: str, device: str) -> None:
    (x,) = arguments_of("x", torch.float32, device)
    found, exact = getattr(F, name)(x, 1), getattr(torch, name)(x.double(), 1)
    assert off(found, exact, 2.0**-45) == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0, float("inf")])
def test_norms_of_gradients_are_rounded_once(norm: float, dtype: torch.dtype, device: str) -> None:
    """And what is clipped is the gradient times the factor, which is of the rounded norm."""
    for seed in range(40):
        made = torch.Generator().manual_seed(seed)
        given = [torch.randn(n, generator=made).to(device, dtype) for n in (3, 1, 7, 130)]
        parameters = [torch.nn.Parameter(torch.zeros_like(g)) for g in given]
        for p, g in zip(parameters, given):
            p.grad = g.clone()
        found = optim.clip_grad_norm_(parameters, 0.75, norm)
        exact = torch.linalg.vector_norm(torch.cat(given).double(), norm)
        assert off(found, exact, 2.0**-18 if dtype != torch.float32 else 2.0**-21) == 0
        factor = torch.clamp(torch.full_like(found, 0.75) / (found + 1e-6), max=1.0)
        for p, g in zip(parameters, given):
            assert p.grad is not None
            assert torch.equal(p.grad, g * factor)
