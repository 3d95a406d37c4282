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
