"""Tables: what embedding takes and refuses, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from hologram_torch import functional as F


def test_embeddings_without_elements(device: str) -> None:
    weight = torch.zeros(3, 0, device=device, requires_grad=True)
    found = F.embedding(torch.tensor([[2, 0]], device=device), weight)
    assert found.shape == (1, 2, 0)
    found.sum().backward()
    assert weight.grad is not None and weight.grad.shape == (3, 0)


def test_embedding_refuses() -> None:
    weight = torch.randn(5, 3)
    for index in (5, -1, 1 << 40):
        with pytest.raises(IndexError, match=rf"out of range in self: input\[1\] is {index}; expected 0 to 4"):
            F.embedding(torch.tensor([0, index]), weight)
        with pytest.raises(IndexError, match=rf"input\[2, 0\] is {index}; expected 0 to 4, the rows of weight"):
            F.embedding(torch.tensor([[0, 1], [2, 4], [index, -3]]), weight)
    with pytest.raises(IndexError, match=r"input is 7; expected 0 to 4"):
        F.embedding(torch.tensor(7), weight)
    with pytest.raises(TypeError, match="int32 or int64"):
        F.embedding(torch.tensor([1.0]), weight)
    with pytest.raises(RuntimeError, match="2-D"):
        F.embedding(torch.tensor([1]), weight[0])
    for padding in (5, -6):
        with pytest.raises(ValueError, match=f"padding_idx is {padding}"):
            F.embedding(torch.tensor([1]), weight, padding_idx=padding)
    with pytest.raises(ValueError, match="sparse"):
        F.embedding(torch.tensor([1]), weight, sparse=True)


@pytest.mark.parametrize("padding", [None, 0, 2, 3, -1, -4])
@pytest.mark.parametrize("share", [False, True])
def test_second_derivatives_of_embeddings(padding: Any, share: bool) -> None:
    weight, v = torch.randn(4, 3, dtype=torch.float64, requires_grad=True), torch.arange(1.0, 13.0).double().view(4, 3)
    index, g = torch.tensor([[0, 2, 3], [0, 0, 2]]), torch.arange(18.0).double().view(2, 3, 3).requires_grad_()
    options = {"padding_idx": padding, "scale_grad_by_freq": share}
    (expected,) = torch.autograd.grad(torch.nn.functional.embedding(index, weight, **options), weight, g)
    (made,) = torch.autograd.grad(F.embedding(index, weight, **options), weight, g, create_graph=True)
    torch.testing.assert_close(made, expected)
    # It is linear in what is given, so its derivative by that, times what is given, is itself.
    (second,) = torch.autograd.grad(made, g, v)
    torch.testing.assert_close((second * g).sum(), (made * v).sum())


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_embedding_gradient_is_in_order_of_places(dtype: torch.dtype) -> None:
    """One chain from the first place on: the bits of a loop, whatever the rows' number of places."""
    torch.manual_seed(3)
    weight = torch.randn(7, 5, requires_grad=True)
    index = torch.cat([torch.randint(0, 4, (300,)), torch.full((200,), 6)])[torch.randperm(500)].to(dtype)
    found = F.embedding(index.view(20, 25), weight)
    assert torch.equal(found, weight.detach()[index.long()].view(20, 25, 5))
    g = torch.randn(20, 25, 5)
    (gradient,) = torch.autograd.grad(found, weight, g)
    expected = np.zeros((7, 5), np.float32)
    for at, row in zip(index.tolist(), g.view(500, 5).numpy()):
        expected[at] += row
    assert np.array_equal(gradient.numpy(), expected)


@pytest.mark.parametrize("padding", [True, 1.0])
def test_padding_is_an_integer(padding: Any) -> None:
    with pytest.raises(TypeError, match=f"padding_idx is {padding!r}"):
        F.embedding(torch.tensor([1]), torch.ones(3, 2), padding_idx=padding)
