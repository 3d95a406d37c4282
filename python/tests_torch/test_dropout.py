"""Dropout: its rate, its seed, and that it repeats itself in checkpoints."""

from __future__ import annotations

import pytest
import torch
from accuracy import DTYPES, errors

import hologram as hg
from hologram_torch import functional as F


def test_dropout(device: str) -> None:
    x = torch.ones(200, 100, requires_grad=True, device=device)
    y = F.dropout(x, 0.25)
    kept = y != 0
    assert abs(kept.float().mean() - 0.75) < 0.02
    assert torch.equal(y[kept], torch.full_like(y[kept], 1 / 0.75))
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(gradient, y)
    assert not torch.equal(F.dropout(x, 0.25), y), "another draw"
    for rows in (kept[:100], kept[100:], kept[:, :50], kept.t()[:50]):
        assert abs(rows.float().mean() - 0.75) < 0.03
    pairs = kept.flatten()
    assert abs((pairs[1:] & pairs[:-1]).float().mean() - 0.75**2) < 0.02


def test_dropout_repeats_by_its_seed(ex: hg.Executor) -> None:
    from hologram_torch._executors import using

    x = torch.randn(7, 9)
    drops = []
    with hg.Executor("interp") as interp:
        for value, executor in ((x, None), (x.t().contiguous().t(), None), (x, ex), (x, interp), (x.double(), None)):
            torch.manual_seed(5)
            if executor is None:
                drops.append(F.dropout(value) != 0)
            else:
                with using(executor):
                    drops.append(F.dropout(value) != 0)
    assert all(torch.equal(drop, drops[0]) for drop in drops)


@pytest.mark.parametrize("seed", [0, 1, -5, 2**62 + 3, -(2**63)])
def test_dropout_draws_by_splitmix64(seed: int, device: str) -> None:
    """The generator is part of what is promised: the same seed drops the same in every version, on every device."""
    from hologram_torch._table import OPERATIONS

    n, p = 300, 0.375
    found = OPERATIONS["dropout"](torch.ones(n, device=device), torch.tensor(seed, device=device), p, 2.0)
    expected = []
    for lane in range(n):
        z = (seed + (lane + 1) * 0x9E3779B97F4A7C15) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        expected.append(2.0 * ((z ^ z >> 31) >> 40 >= p * 2**24))
    assert found.tolist() == expected


def test_dropout_in_checkpoints(device: str) -> None:
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(50, requires_grad=True, device=device)
    y = checkpoint(lambda x: F.mul(F.dropout(x), 3.0), x, use_reentrant=False)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient * x.detach(), y.detach())


def test_dropout_at_its_ends(device: str) -> None:
    x = torch.randn(50, device=device)
    assert F.dropout(x, 0.0) is x
    assert F.dropout(x, 0.5, training=False) is x
    assert torch.equal(F.dropout(x, 1.0), torch.zeros_like(x))
    y = x.clone()
    assert F.dropout(y, 0.5, inplace=True) is y
    assert (y == 0).any()
    for dtype in (torch.float16, torch.bfloat16, torch.float64):
        assert F.dropout(x.to(dtype)).dtype == dtype
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.dropout(x, 1.5)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64], ids=str)
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("layout", ["", "transposed", "expanded", "no dimensions", "no elements"])
def test_errors(layout: str, p: float, dtype: torch.dtype, device: str) -> None:
    """Of what is kept and of its gradient: what accuracy.py says of other functions."""
    made = {
        "transposed": lambda x: x.reshape(20, 35).t(),
        "expanded": lambda x: x[:7].expand(9, 7),
        "no dimensions": lambda x: x[0],
        "no elements": lambda x: x[:0],
    }
    x = made.get(layout, lambda x: x)(torch.randn(700, device=device).to(dtype)).requires_grad_()
    worst = []
    for function in (F.dropout, torch.nn.functional.dropout):
        y = function(x, p)
        weights = torch.rand(x.shape, device=device).to(dtype) + 0.5
        (gradient,) = torch.autograd.grad(y, x, weights)
        kept = (y != 0).double() / (1 - p)
        assert torch.equal(gradient == 0, y == 0)
        worst.append(max(errors(y.detach(), x.detach() * kept, None), errors(gradient, weights * kept, None)))
    assert worst[0] <= 2 * worst[1] + 1


def test_gradients_and_theirs(device: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        return F.dropout(x, 0.3)

    x = torch.randn(4, 5, dtype=torch.float64, device=device).requires_grad_()
    assert torch.autograd.gradcheck(function, x)
    assert torch.autograd.gradgradcheck(function, x)
