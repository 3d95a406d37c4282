"""C and Python mean the same by a call with tensors: test_two_ways.py's calls of chance, with tensors among the arrays.

Tensors are of all layouts, with gradients and without, inference tensors, of no elements, conjugated or negated; they
are asked about in C, by torch's libraries or by Python. What is refused leaves their versions as they were.
"""

from __future__ import annotations

import gc
import os
import random
from typing import Any

import pytest
import test_two_ways as two_ways
import torch

import hologram as hg
from hologram import ops
from hologram._ffi import native

TIMES = int(os.environ.get("HOLOGRAM_STRESS", 1))


@pytest.fixture(scope="module")
def host() -> Any:
    with hg.Executor("cpu") as executor:
        yield executor


def a_layout(rng: random.Random, t: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor, laid out in one of many ways in memory of their own."""
    how = rng.randrange(7)
    if how < 2 or not t.ndim:
        return t.clone()
    if how == 2:
        return t.mT.contiguous().mT if t.ndim > 1 else t.clone()
    if how == 3:  # every other of wider rows
        return torch.stack([t, torch.zeros_like(t)], -1).flatten(-2)[..., ::2]
    if how == 4:  # with an offset
        return torch.cat([torch.ones_like(t[:1]), t])[1:]
    if how == 5:
        return t[..., :1].clone().expand(t.shape)
    return t.permute(*range(t.ndim - 1, -1, -1)).contiguous().permute(*range(t.ndim - 1, -1, -1))


def a_tensor(rng: random.Random, array: Any) -> Any:
    """A tensor of an array's elements, of one kind or other."""
    if array.dtype.name not in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"):
        return array
    t = a_layout(rng, torch.tensor(array.tolist(), dtype=getattr(torch, array.dtype.name)).reshape(array.shape))
    how = rng.random()
    if t.is_floating_point():
        if how < 0.08:
            return t.to(torch.bfloat16)
        if how < 0.16:
            return t.requires_grad_()
        if how < 0.2:
            return t.clone().requires_grad_() * 1  # one that was computed
        if how < 0.24:
            return torch.nn.Parameter(t, requires_grad=rng.random() < 0.5)
        if how < 0.27:
            return torch._neg_view(t)
    elif how < 0.05:
        return t + 1j
    if 0.3 < how < 0.34:
        with torch.inference_mode():
            return t.clone()
    if 0.34 < how < 0.38:
        return t.to_sparse() if t.ndim else t.to("meta")
    if 0.38 < how < 0.45:
        return t.detach()
    return t


def mixed(original: Any) -> Any:
    """What makes the operands of calls, with tensors among them."""

    def operand(rng: random.Random, host: hg.Executor, *about: Any) -> Any:
        made = original(rng, host, *about)
        if type(made) is not two_ways.np.ndarray or rng.random() < 0.1:
            return made
        found = a_tensor(rng, made)
        return host.wrap(found) if rng.random() < 0.1 and wrappable(found) else found

    return operand


def wrappable(value: Any) -> bool:
    return (
        type(value) is torch.Tensor
        and value.layout is torch.strided
        and not (value.requires_grad or value.is_neg() or value.is_complex() or value.is_meta)
    )


def contents(original: Any) -> Any:
    def held(value: Any) -> Any:
        if isinstance(value, hg.Buffer) and value._tensor is not None and not native.gone(value):
            return "Buffer", held(value._tensor), original(value)
        if not isinstance(value, torch.Tensor):
            return original(value)
        version = None if value.is_inference() else value._version
        about = type(value), value.dtype, value.shape, value.layout, value.requires_grad, version
        if value.is_meta or value.layout is not torch.strided:
            return about
        plain = value.detach().resolve_neg().resolve_conj()
        return (
            about,
            value.stride(),
            plain.flatten().clone(memory_format=torch.contiguous_format).view(torch.uint8).tolist()
            if plain.numel()
            else [],
        )

    return held


@pytest.fixture(autouse=True)
def tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("an_operand", "a_wrong_operand"):
        monkeypatch.setattr(two_ways, name, mixed(getattr(two_ways, name)))
    monkeypatch.setattr(two_ways, "contents", contents(two_ways.contents))


@pytest.mark.parametrize("way", ["asked directly", "asked in Python"])
def test_operations(host: hg.Executor, way: str) -> None:
    """Of each operation; the ways to ask torch are those of test_torch_operands.py, of which each has its calls."""
    x = torch.zeros(1)
    ops.vector_add(x, x, x)
    if native.torch_directly(way == "asked directly") is not (way == "asked directly"):
        pytest.skip("this torch's libraries have not all the functions, or they say something else")
    try:
        gc.collect()
        before = native.object_count()
        for name in sorted(ops._by_name):
            for seed in range(len(way) * 1000, len(way) * 1000 + 20 * TIMES):
                usual, careful, how = two_ways.both_ways(ops._by_name[name], seed, host)
                assert usual == careful, (name, how)
                del usual, careful, how
        gc.collect()
        assert native.kept() == 0 and native.object_count() == before
    finally:
        native.torch_directly(True)
