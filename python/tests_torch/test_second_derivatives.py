"""Second derivatives beside torch's own: where there are none, and of operations on rows to within few roundings."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch import Tensor

from hologram_torch import functional as F
from hologram_torch._rows import BY_ROWS, GRADIENTS, LAYER_NORM, LOG_SOFTMAX, RMS_NORM, SOFTMAX

X = torch.tensor([-1.5, -0.5, 0.5, 2.0, 0.0])
Y = torch.tensor([-1.0, -0.5, 1.0, 3.0, 1.0])

FLAT: dict[str, tuple[Callable[[Any], Callable[..., Tensor]], tuple[Tensor, ...]]] = {
    "abs": (lambda of: of.abs, (X,)),
    "neg": (lambda of: of.neg, (X,)),
    "relu": (lambda of: of.relu, (X,)),
    "leaky_relu": (lambda of: getattr(of, "leaky_relu", torch.nn.functional.leaky_relu), (X,)),
    "clamp by numbers": (lambda of: lambda x: of.clamp(x, -1, 1), (X,)),
    "clamp from a number": (lambda of: lambda x: of.clamp(x, min=-1), (X,)),
    "clamp by tensors": (lambda of: of.clamp, (X, Y - 1, Y + 0.2)),
    "maximum": (lambda of: of.maximum, (X, Y)),
    "minimum": (lambda of: of.minimum, (X, Y)),
    "add": (lambda of: of.add, (X, Y)),
    "where": (lambda of: lambda x, y: of.where(Y > 0, x, y), (X, Y)),
    "amax": (lambda of: lambda x: of.amax(x, 0), (X,)),
    "l1_loss": (lambda of: getattr(of, "l1_loss", torch.nn.functional.l1_loss), (X, Y)),
    "maximum of shapes": (lambda of: of.maximum, (X, Y[:, None])),
    "l1_loss of halves": (lambda of: getattr(of, "l1_loss", torch.nn.functional.l1_loss), (X.bfloat16(), Y.bfloat16())),
}


def seconds(function: Callable[..., Tensor], given: tuple[Tensor, ...], form: str) -> list[Any]:
    """Return, of each first derivative, its derivatives by the inputs and what was given; None where it has none."""
    inputs = [x.clone().requires_grad_() for x in given]
    result = function(*inputs)
    g = torch.full_like(result, 0.75).requires_grad_(form != "constant")
    firsts = torch.autograd.grad(result, inputs, g, create_graph=True)
    found: list[Any] = []
    for first in firsts:
        if not first.requires_grad:
            found.append("no graph")
            continue
        of = (first * first if form == "squared" else first).sum()
        by = [*inputs, g] if form != "constant" else inputs
        found.append(torch.autograd.grad(of, by, allow_unused=True, retain_graph=True))
    return found


@pytest.mark.parametrize("form", ["constant", "given", "squared"])
@pytest.mark.parametrize("name", FLAT)
def test_of_what_is_piecewise_linear(name: str, form: str) -> None:
    pick, given = FLAT[name]
    got, want = seconds(pick(F), given, form), seconds(pick(torch), given, form)
    for ours, torchs in zip(got, want):
        if isinstance(torchs, str) or isinstance(ours, str):
            assert ours == torchs
            continue
        for a, b in zip(ours, torchs):
            assert (a is None) == (b is None)
            torch.testing.assert_close(a, b)


DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
EPS = 1e-5


def drawn(dtype: torch.dtype, *shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def near(found: Tensor, exact: Tensor, what: str, roundings: float = 24) -> None:
    """Check that a number is off by one rounding to its dtype, and by few of the type that it is computed in.

    The latter are of the largest number of all: sums cancel.
    """
    dtype = found.dtype
    wide = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    assert exact.dtype == torch.float64
    assert found.shape == exact.shape
    info = torch.finfo(dtype)
    ulp = torch.exp2(torch.floor(torch.log2(exact.abs().clamp(min=info.tiny)))) * info.eps
    allowed = ulp / 2 + roundings * torch.finfo(wide).eps / 2 * exact.abs().max()
    off = (found.double() - exact).abs()
    assert bool((off <= allowed).all()), f"{what}: {float((off / allowed).max())} times what is allowed"


def along(given: list[Tensor], results: Callable[..., Any], by: list[Tensor]) -> list[Tensor]:
    """Return the gradients by what is given, of what comes of it."""
    leaves = [t.detach().clone().requires_grad_() for t in given]
    made = results(*leaves)
    made = [made] if isinstance(made, Tensor) else list(made)
    return list(torch.autograd.grad(made, leaves, by[: len(made)]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "dim"), [((5, 7), 1), ((3, 40, 2), 1), ((2, 700), 1), ((4, 9), 0)])
def test_of_softmax(dtype: torch.dtype, shape: tuple[int, ...], dim: int) -> None:
    """Of the gradient by what it is given and by the result that it takes, each rounded once."""
    g, h = drawn(dtype, *shape, seed=1), drawn(dtype, *shape, seed=2)
    y = torch.softmax(drawn(torch.float64, *shape, seed=3), dim).to(dtype)
    logs = torch.log_softmax(drawn(torch.float64, *shape, seed=3), dim).to(dtype)
    wide_g, wide_h, wide_y, power = g.double(), h.double(), y.double(), logs.double().exp()

    by_g, by_y = along([g, y], lambda g, y: SOFTMAX.gradient(g, y, dim), [h])
    pull = (wide_h * wide_y).sum(dim, True)
    near(by_g, (wide_h - pull) * wide_y, "softmax by g")
    near(by_y, wide_h * (wide_g - (wide_g * wide_y).sum(dim, True)) - wide_g * pull, "softmax by y")

    by_g, by_y = along([g, logs], lambda g, y: LOG_SOFTMAX.gradient(g, y, dim), [h])
    near(by_g, wide_h - (wide_h * power).sum(dim, True), "log_softmax by g")
    near(by_y, -wide_h * power * wide_g.sum(dim, True), "log_softmax by y")


def layer_unit(x: Tensor, dims: list[int]) -> Tensor:
    return (x - x.mean(dims, True)) / (x.var(dims, correction=0, keepdim=True) + EPS).sqrt()


def rms_unit(x: Tensor, dims: list[int]) -> Tensor:
    return x / (x.square().mean(dims, True) + EPS).sqrt()


def slope(unit: Callable[..., Tensor], g: Tensor, x: Tensor, w: Tensor, dims: list[int]) -> tuple[Tensor, Tensor]:
    """Return the gradient by a norm's input, and the products that make that by its weight."""
    (by_x,) = torch.autograd.grad(unit(x, dims) * w, x, g, create_graph=True)
    return by_x, g * unit(x, dims)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(5, 7), (40, 16), (3, 300)])
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm", "layer_norm_gradients", "batch_norm_gradients"])
def test_of_norms(norm: str, shape: tuple[int, int], dtype: torch.dtype) -> None:
    """Of the gradient by what it is given, by the input and by the weight, each rounded once."""
    dims, of_weight = ([1], (shape[1],)) if norm != "batch_norm_gradients" else ([0], (1, shape[1]))
    g, x, h, k = (drawn(dtype, *shape, seed=seed) for seed in (1, 2, 3, 4))
    w = drawn(dtype, *of_weight, seed=5)
    numbers = (RMS_NORM(x, None, dims, EPS) if norm == "rms_norm" else LAYER_NORM(x, None, None, dims, EPS))[1:]
    unit = rms_unit if norm == "rms_norm" else layer_unit
    both = norm.endswith("_gradients")
    operation: Any = {
        "layer_norm": LAYER_NORM.gradient, "rms_norm": RMS_NORM.gradient, "layer_norm_gradients": GRADIENTS,
        "batch_norm_gradients": BY_ROWS,
    }[norm]  # fmt: skip
    kinds = torch.float64 if dtype == torch.float64 else torch.float32
    by = [h, drawn(kinds, *of_weight, seed=6), drawn(kinds, *of_weight, seed=7)] if both else [h, k.to(kinds)]

    def exact(g: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        by_x, product = slope(unit, g, x, w, dims)
        if both:
            sums = [t.sum(0, norm == "batch_norm_gradients") for t in (product, g)]
            return (by_x, *sums)
        return by_x, product

    found = along([g, x, w], lambda g, x, w: operation(g, x, w, *numbers, dims, EPS), by)
    want = along([t.double() for t in (g, x, w)], exact, [t.double() for t in by])
    for name, a, b in zip(("g", "input", "weight"), found, want):
        near(a, b, f"{norm} by {name}", 64)


def test_bounds_see_what_is_wrong() -> None:
    """A factor, a term that is left out, and a number that was rounded on the way."""
    exact = drawn(torch.float64, 50, seed=1)
    for dtype in DTYPES:
        near(exact.to(dtype), exact, "as it is")
        for wrong in (exact * 1.02, exact + 0.02 * exact.abs().max(), exact.bfloat16().double() * 1.5 / 1.5 + 2e-3):
            with pytest.raises(AssertionError, match="times what is allowed"):
                near(wrong.to(dtype), exact, "wrong")
