"""Losses beside torch's: values, gradients, weights, what they refuse."""

from __future__ import annotations

import re
from typing import Any, Callable

import pytest
import torch
from torch import Tensor

from hologram_torch import functional as F


@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy"])
def test_a_target_that_is_no_class_is_named(name: str) -> None:
    """Which one, where it stands, and what it may be; also of calls that are repeated."""
    for shape, at in (((3, 4), [1]), ((2, 4, 3, 5), [1, 2, 0]), ((4,), [])):
        target = torch.zeros(shape[:1] + shape[2:] if len(shape) > 1 else (), dtype=torch.int64)
        for recorded in (False, False, False, True, True, True):
            target[tuple(at)] = 0
            x = torch.rand(shape, requires_grad=recorded)
            getattr(F, name)(x, target, ignore_index=-7)
            target[tuple(at)] = 9
            said = f"Target 9 is out of bounds: target{at or ''}; expected 0 to 3, or -7, which is ignored"
            with pytest.raises(IndexError, match=re.escape(said)):
                getattr(F, name)(x, target, ignore_index=-7)


def test_losses_refuse() -> None:
    x = torch.rand(3, 4)
    with pytest.raises(IndexError, match="Target 4 is out of bounds"):
        F.cross_entropy(x, torch.tensor([0, 1, 4]))
    for wrong in (4, -1, -99):
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            F.cross_entropy(x, torch.tensor([-100, wrong, -100]))
    with pytest.raises(IndexError, match="Target -100 is out of bounds"):
        F.nll_loss(x, torch.tensor([7, -100, 7]), ignore_index=7)
    for reduction in ("none", "mean", "sum"):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            F.binary_cross_entropy(x * 3, x, reduction=reduction)
    for wrong in (1.0001, -1e-6, float("nan"), float("inf"), -float("inf")):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            F.binary_cross_entropy(torch.tensor([0.5, wrong, 0.25]), torch.zeros(3))
    with pytest.raises(ValueError, match="reduction"):
        F.l1_loss(x, x, reduction="all")
    for delta in (0.0, -1.0):
        with pytest.raises(RuntimeError, match="non-positive values for delta"):
            F.huber_loss(x, x, delta=delta)
    with pytest.raises(RuntimeError, match="negative values for beta"):
        F.smooth_l1_loss(x, x, beta=-0.5)
    for loss in (F.nll_loss, F.cross_entropy):
        for dtype in (torch.int32, torch.bool, torch.float32, torch.int8):
            with pytest.raises(TypeError, match=f"target has dtype {dtype}"):
                loss(x, torch.ones(3, dtype=dtype))
        small = torch.tensor([0, 3, 1], dtype=torch.uint8)
        assert torch.equal(loss(x, small), loss(x, small.long()))
    assert torch.equal(F.smooth_l1_loss(x, x + 1, beta=0.0), F.l1_loss(x, x + 1))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(6, 4), (4,), (2, 4, 3), (0, 4), (3, 1), (2, 4, 0)])
def test_losses_of_classes(shape: tuple[int, ...], reduction: str) -> None:
    """Of rows, one without a batch, and pixels; with a class that is ignored; each call again, when it is known."""
    at = 1 if len(shape) > 1 else 0
    classes, rest = shape[at], shape[:at] + shape[at + 1 :]
    x = torch.randn(shape, dtype=torch.float64)
    target, weight = torch.randint(0, classes, rest), torch.rand(classes, dtype=torch.float64) + 0.5
    for name in ("cross_entropy", "nll_loss"):
        smoothings = [{}, {"label_smoothing": 0.2}] if name == "cross_entropy" else [{}]
        for more in smoothings:
            for options in (more, {**more, "weight": weight}, {**more, "ignore_index": 1}):
                for _ in range(3):
                    ways = []
                    for functions in (F, torch.nn.functional):
                        leaf = x.clone().requires_grad_()
                        loss = getattr(functions, name)(leaf, target, reduction=reduction, **options)
                        (grad,) = torch.autograd.grad(loss.sum(), leaf)
                        ways.append((loss, grad))
                    torch.testing.assert_close(*ways, equal_nan=True)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_weights_of_elements(reduction: str) -> None:
    x, y, w = (torch.rand(3, 4, requires_grad=True) for _ in range(3))
    for name in ("mse_loss", "l1_loss", "huber_loss"):
        found, expected = (getattr(m, name)(x, y, weight=w, reduction=reduction) for m in (F, torch.nn.functional))
        torch.testing.assert_close(found, expected)
        made, of = (torch.autograd.grad(loss.sum(), [x, y, w]) for loss in (found, expected))
        torch.testing.assert_close(made, of)
        with pytest.raises(ValueError, match="weight"):
            getattr(F, name)(x, y, weight=w[0], reduction=reduction)


def test_weights_of_classes_have_no_gradient() -> None:
    x, target, weight = torch.rand(3, 4, requires_grad=True), torch.tensor([0, 3, 1]), torch.rand(4, requires_grad=True)
    for loss in (F.nll_loss, F.cross_entropy):
        with pytest.raises(RuntimeError, match="weight"):
            loss(x, target, weight)
        loss(x, target, weight.detach()).backward()


def test_a_target_of_one_input() -> None:
    x, target = torch.rand(4, requires_grad=True), torch.tensor([2])
    for name in ("nll_loss", "cross_entropy"):
        found, expected = (getattr(m, name)(x, target) for m in (F, torch.nn.functional))
        torch.testing.assert_close(found, expected)
        with pytest.raises(ValueError, match="no dimensions"):
            getattr(F, name)(torch.tensor(0.5), torch.tensor(0))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("shape", [(2, 0), (0, 0), (0, 3), (0,), (2, 0, 3)], ids=str)
def test_cross_entropy_of_nothing(shape: tuple[int, ...], smoothing: float, reduction: str) -> None:
    """As torch's, of probabilities; and of classes where there is no target to be out of bounds."""
    at = 1 if len(shape) > 1 else 0
    x, rest = torch.zeros(shape), shape[:at] + shape[at + 1 :]
    targets = [torch.zeros(shape)]
    if len(shape) > 1 and 0 in rest:
        targets.append(torch.zeros(rest, dtype=torch.int64))
    for target in targets:
        for weight in (None, torch.ones(shape[at])):
            given = {"weight": weight, "label_smoothing": smoothing, "reduction": reduction}
            expected = torch.nn.functional.cross_entropy(x, target, **given)
            torch.testing.assert_close(F.cross_entropy(x, target, **given), expected, equal_nan=True)


@pytest.mark.parametrize("wrong", [(1,), (1, 3), (2,), (), (6,)], ids=str)
@pytest.mark.parametrize("probabilities", [False, True])
def test_weights_of_classes_have_one_for_each(probabilities: bool, wrong: tuple[int, ...]) -> None:
    x = torch.zeros(2, 3)
    target = torch.ones(2, 3) if probabilities else torch.tensor([0, 2])
    with pytest.raises(RuntimeError, match=r"cross_entropy: weight has the shape .*; expected \(3,\), one a class"):
        F.cross_entropy(x, target, torch.ones(wrong))


def test_cross_entropy_has_a_dimension_of_classes() -> None:
    for target in (torch.tensor(1.0), torch.tensor(0)):
        with pytest.raises(ValueError, match="cross_entropy: input has no dimensions; expected at least 1"):
            F.cross_entropy(torch.tensor(1.0), target)


def test_the_gradient_of_binary_cross_entropy_by_its_target_is_not_bounded() -> None:
    """At probabilities of 0 and 1, where the loss itself is."""
    x = torch.tensor([0.0, 1.0, 0.5, 0.25, 1e-40], dtype=torch.float64)
    grads = []
    for function in (F.binary_cross_entropy, torch.nn.functional.binary_cross_entropy):
        for target in (torch.full((5,), 0.5, dtype=x.dtype), torch.tensor([0, 1, 0, 1, 0.5], dtype=x.dtype)):
            leaf = target.requires_grad_()
            function(x, leaf, reduction="sum").backward()
            grads.append(leaf.grad)
    torch.testing.assert_close(grads[:2], grads[2:])


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
@pytest.mark.parametrize("wide", [torch.float32, torch.float64], ids=str)
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_tensor_without_dimensions_counts_in_the_dtype_of_a_loss(name: str, wide: torch.dtype) -> None:
    """torch broadcasts the two before it promotes them. Its huber_loss has the input's dtype, and no gradient."""
    x = torch.randn(3, 4, dtype=torch.float16).requires_grad_(name != "huber_loss")
    y = torch.tensor(0.3, dtype=wide)
    for given in ((y, x), (x, y))[: 1 if name == "huber_loss" else 2]:
        found = [getattr(module, name)(*given) for module in (F, torch.nn.functional)]
        assert found[0].dtype == found[1].dtype == wide
        torch.testing.assert_close(*found)
        if name != "huber_loss":
            found[1] = getattr(torch.nn.functional, name)(*[t.to(wide) for t in given])  # 2.11's mse_loss has none here
            torch.testing.assert_close(*[torch.autograd.grad(loss, x)[0] for loss in found])


WEIGHTED: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "weight": lambda f, x, w: f.binary_cross_entropy(x, x.detach(), w),
    "weight of logits": lambda f, x, w: f.binary_cross_entropy_with_logits(x, x.detach(), w),
    "pos_weight": lambda f, x, w: f.binary_cross_entropy_with_logits(x, x.detach(), pos_weight=w),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_leave_a_loss_its_dtype_and_size(name: str) -> None:
    """As torch's do: those that numpy made are float64."""
    x = torch.rand(5, 4).requires_grad_()
    for shape in ((4,), (5, 1), ()):
        weight = torch.rand(shape, dtype=torch.float64)
        found = [WEIGHTED[name](module, x, weight) for module in (F, torch.nn.functional)]
        torch.testing.assert_close(*found)
        torch.testing.assert_close(*[torch.autograd.grad(loss, x)[0] for loss in found])
    with torch.autocast("cpu", torch.bfloat16):
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            assert WEIGHTED[name](F, x.bfloat16(), torch.rand(4, dtype=dtype)).dtype == torch.float32
    with pytest.raises(RuntimeError, match=r"weight has the shape \(2, 5, 4\); expected one that broadcasts to"):
        WEIGHTED[name](F, x, torch.rand(2, 5, 4))


def test_probabilities_ignore_no_class() -> None:
    with pytest.raises(RuntimeError, match="cross_entropy: ignore_index is 1"):
        F.cross_entropy(torch.ones(2, 3), torch.full((2, 3), 1 / 3), ignore_index=1)
