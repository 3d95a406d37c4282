"""Kernels on tensors, straight, with branches and with loops, and what they are called with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import hologram as hg
import hologram_torch as ht


@ht.kernel
def swish(x, beta):
    return x / (1 + hg.exp(-beta * x))


@ht.kernel
def horner(x, y, terms):
    """A loop whose rounds are counted by a number."""
    total = x * 0.0
    for k in hg.range(terms):
        total = total * x + hg.sin(y) / (k + 1)
    return total


@ht.kernel
def bent(x, y):
    """Branches that each element takes for itself."""
    if x > y:
        z = hg.log(x) * y
        if z > 0.1:
            return z * z
        return -z
    return hg.sqrt(y) + x * x * x


@ht.kernel
def newton(a):
    """A loop that ends for each element when it is done."""
    x = a
    n = 0
    while abs(x * x - a) > 1e-13:
        x = 0.5 * (x + a / x)
        n += 1
        if n > 60:
            break
    return x


@ht.kernel
def doubled(x, y):
    """A loop with rounds that end early, in branches too: branches back that go by a condition."""
    n = 0
    while x < 5:
        x = x * 2 * y + 0.5
        n += 1
        if x < 1:
            continue
        if y > 0.5:
            if n > 3:
                break
            y = y * 0.9
            continue
        x += 1 + y
    return x * y


@ht.kernel
def polar(x, y):
    return hg.sqrt(x * x + y * y), y > x, hg.tanh(y) * x


@ht.kernel
def again(x, y):
    """Results that are one value, and one that is an argument."""
    z = hg.sin(x) * y
    return z, x, z


@ht.kernel
def every(x, y):
    """Each instruction that has a derivative, in one expression or another."""
    a = hg.exp(x) + hg.exp2(y) + hg.expm1(x * y) + hg.log(x) + hg.log2(y) + hg.log10(x) + hg.log1p(y)
    b = hg.sin(x) * hg.cos(y) + hg.tan(x) - hg.tanh(y) + hg.sigmoid(x) / hg.rsqrt(y) + hg.sqrt(x) + hg.erf(y)
    c = hg.fma(x, y, x) + hg.pow(x, y) + x**3 + hg.minimum(x, y) * hg.maximum(x, y) + hg.rem(x, y) + abs(x - y)
    return a * b - hg.where(x > y, c, -c) + hg.floor(x) + hg.clip(x, 0.2, 0.7) + hg.relu(y - 0.5)


def numbers(*shape: int) -> Tensor:
    return (torch.rand(shape, dtype=torch.float64) * 0.8 + 0.1).requires_grad_()


CASES: dict[str, Any] = {
    "swish": (swish, lambda: (numbers(3, 4), 1.5)),
    "swish of tensors": (swish, lambda: (numbers(3, 4), numbers(4))),
    "loop": (horner, lambda: (numbers(3, 4), numbers(4), 5)),
    "loop of no rounds": (horner, lambda: (numbers(3), numbers(3), 0)),
    "branches": (bent, lambda: (numbers(40), numbers(40))),
    "while": (newton, lambda: (numbers(7),)),
    "while with continue": (doubled, lambda: (numbers(7), numbers(7) + 1)),
    "several": (lambda x, y: (polar(x, y)[0], polar(x, y)[2]), lambda: (numbers(5), numbers(5))),
    "one value twice": (again, lambda: (numbers(5), numbers(5))),
    "every": (every, lambda: (numbers(30), numbers(30))),
}
