"""Gradients of random kernels, beside torch's of the same Python function."""

from __future__ import annotations

import linecache
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import hologram as hg
import hologram_torch as ht

STATE = ("a", "b", "c")


def number(x: Any) -> Tensor:
    return torch.as_tensor(x, dtype=torch.float64)


class Torch(ModuleType):
    """What kernels call, of torch's; an element is done for each number of a tensor."""

    range = staticmethod(range)
    sin = staticmethod(lambda x: torch.sin(number(x)))
    tanh = staticmethod(lambda x: torch.tanh(number(x)))
    sqrt = staticmethod(lambda x: torch.sqrt(number(x)))
    log = staticmethod(lambda x: torch.log(number(x)))
    where = staticmethod(lambda p, x, y: torch.where(p, number(x), number(y)))


def kernel(rng: random.Random) -> str:
    """Return the text of a function of x, y and a whole number, with loops that hand values from round to round."""

    def value(depth: int) -> str:
        kind = rng.random()
        if depth == 0 or kind < 0.3:
            return rng.choice(["x", "y", *STATE, *STATE, f"{rng.uniform(-1, 1):.3f}"])
        if kind < 0.7:
            return f"({value(depth - 1)} {rng.choice('+-*')} {value(depth - 1)})"
        if kind < 0.9:
            return f"h.{rng.choice(['sin', 'tanh'])}({value(depth - 1)})"
        return f"h.where({value(0)} + x > {value(0)}, {value(depth - 1)}, {value(depth - 1)})"

    def lines(indent: str, depth: int) -> list[str]:
        made = []
        for _ in range(rng.randint(1, 4)):
            if depth and rng.random() < 0.4:
                made += [
                    f"{indent}for i{depth} in h.range({rng.choice(['n', '2', '3'])}):",
                    *lines(indent + "    ", depth - 1),
                ]
            else:
                made.append(f"{indent}{rng.choice(STATE)} = {value(2)}")
        return made

    starts = [f"    {s} = {rng.choice(['x', 'y', '0.0', 'x * y', '0.5'])}" for s in STATE]
    ending = f"    return a + {rng.choice(['b', 'b * c', 'c'])} + x * 0.0"
    return "\n".join(["def f(x, y, n):", *starts, *lines("    ", 2), *lines("    ", 2), ending, ""])


def function(text: str, h: Any) -> Callable[..., Any]:
    file = f"<kernel {abs(hash(text))}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"h": h}
    exec(compile(text, file, "exec"), names)
    made: Callable[..., Any] = names["f"]
    return made


def test_an_input_that_is_not_read() -> None:
    @ht.kernel
    def f(x, y):
        return x * 2.0

    x, y = (torch.ones(3, requires_grad=True) for _ in range(2))
    f(x, y).sum().backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0)) and (y.grad is None or not y.grad.any())


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels(seed: int) -> None:
    text = kernel(random.Random(seed))
    ours, theirs = ht.kernel(function(text, hg)), function(text, Torch("torch"))
    for n in (0, 1, 4):
        found, expected = [], []
        for f, into in ((ours, found), (theirs, expected)):
            x, y = (
                torch.linspace(lo, hi, 7, dtype=torch.float64).requires_grad_() for lo, hi in ((-1.1, 0.9), (0.8, -0.7))
            )
            z = f(x, y, n)
            into += [z.detach(), *torch.autograd.grad(z, [x, y], torch.cos(z.detach()), allow_unused=True)]
        for a, b in zip(found, expected):
            a, b = (torch.zeros(7, dtype=torch.float64) if t is None else t for t in (a, b))
            assert isinstance(a, Tensor)
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, msg=lambda m, n=n: f"{text}\nn = {n}: {m}")


def kernel_of_two_halves(rng: random.Random) -> str:
    """Return the text of a function with values of x and values of y, which share registers and meet in a sum alone.

    So that an infinite slope of one is no business of the other's gradient.
    """

    def value(side: str, depth: int) -> str:
        kind = rng.random()
        if depth == 0 or kind < 0.2:
            return rng.choice([side, f"{side}a", f"{side}b", f"{side}b", f"{rng.choice([-1, 1]) * 0.5}"])
        if kind < 0.5:
            return f"({value(side, depth - 1)} {rng.choice('+-*')} {value(side, depth - 1)})"
        return f"h.{rng.choice(['sqrt', 'log', 'sin'])}({value(side, depth - 1)})"

    def lines(indent: str, depth: int) -> list[str]:
        made = []
        for _ in range(rng.randint(1, 4)):
            side = rng.choice("xy")
            if depth and rng.random() < 0.5:
                made += [f"{indent}for i{depth} in h.range({rng.choice('n23')}):", *lines(indent + "    ", depth - 1)]
            else:
                made.append(f"{indent}{side}{rng.choice('ab')} = {value(side, 2)} + {side} * 0.5")
        return made

    starts = ["    xa = x * 0.5", "    xb = x", "    ya = y + 0.0", "    yb = y"]
    loop = ["    for i in h.range(2):", "        xa = xa * 0.5", "        ya = ya * 0.5"]
    ending = "    return h.sqrt(xa) + xb + ya + 3 * h.log(yb)"
    return "\n".join(["def f(x, y, n):", *starts, *lines("    ", 2), *loop, *lines("    ", 1), ending, ""])


@pytest.mark.parametrize("seed", range(40))
def test_an_infinite_slope_by_one_input_is_not_in_the_gradient_by_another(seed: int) -> None:
    text = kernel_of_two_halves(random.Random(seed))
    ours, theirs = ht.kernel(function(text, hg)), function(text, Torch("torch"))
    corners = torch.tensor([0.0, 1.0, -1.0, 0.25, torch.inf, torch.nan], dtype=torch.float64)
    for n in (0, 2):
        found = []
        for f in (ours, theirs):
            x, y = (t.flatten().requires_grad_() for t in torch.meshgrid(corners, corners, indexing="ij"))
            found.append(torch.autograd.grad(f(x, y, n).sum(), [x, y]))
        for ours_of, theirs_of, of in zip(*found, (0, 1)):
            # By one input they are the same whatever the other is, and where torch's are finite torch's.
            rows = ours_of.view(6, 6).movedim(of, 0)
            torch.testing.assert_close(rows, rows[:, 1:2].expand(6, 6), rtol=0, atol=0, equal_nan=True, msg=text)
            of_both = theirs_of.isfinite()
            torch.testing.assert_close(ours_of[of_both], theirs_of[of_both], rtol=1e-9, atol=1e-9, msg=text)


@pytest.mark.parametrize("second", [False, True])
def test_infinite_slopes_beside_loops_and_branches(second: bool) -> None:
    """A register holds one value after another: what one depends on the others need not."""

    @ht.kernel
    def loop(x, y):
        z = x
        for _ in hg.range(2):
            z = z * 0.5
        return hg.sqrt(z) + 3 * y

    @ht.kernel
    def branch(x, y):
        z = x
        if x < 1:
            z = x * 0.25
        return hg.sqrt(z) + 3 * y

    for f in (loop, branch):
        x = torch.tensor([0.0, 0.5, -1.0], dtype=torch.float64, requires_grad=True)
        y = torch.ones(3, dtype=torch.float64, requires_grad=True)
        dx, dy = torch.autograd.grad(f(x, y).sum(), [x, y], create_graph=second)
        expected = torch.autograd.grad(torch.sqrt(x * 0.25).sum(), x)[0]
        torch.testing.assert_close(dx.detach(), expected, equal_nan=True)
        assert dy.tolist() == [3.0] * 3
        if second:
            again = torch.autograd.grad(dx.sum(), [x, y], allow_unused=True, materialize_grads=True)
            assert again[1].tolist() == [0.0] * 3


@pytest.mark.parametrize("by", [2.0, -2.0, 1.0, -1.0, 3.0, 0.5])
def test_remainders_of_multiples_have_slopes(by: float) -> None:
    """Where nothing is left too, which the program makes a zero with the divisor's sign."""

    @ht.kernel
    def remainder(x, y):
        return x % y

    x = torch.tensor([0.0, -0.0, 2.0, 4.0, -2.0, 1.0, 5.0, -5.0, 3.5], dtype=torch.float64, requires_grad=True)
    y = torch.full_like(x, by, requires_grad=True)
    theirs = torch.remainder(x, y)
    ours = remainder(x, y)
    assert torch.equal(ours, theirs)
    for found, wanted in zip(*(torch.autograd.grad(z.sum(), (x, y)) for z in (ours, theirs))):
        assert torch.equal(found, wanted)
