"""A GPU beside the CPU: the same bits but of halves' products, no copy, no synchronisation, captured graphs.

HOLOGRAM_TEST_DEVICE names the device (cuda); with cpu what needs no GPU is tried on the CPU against itself.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any, Callable

import pytest
import torch
from kernel_cases import CASES as KERNELS
from moving import moved, products, same
from opinfo import CALLED, NAMES, samples
from test_shapes import cases
from torch import Tensor
from torch.utils._pytree import tree_map

import hologram as hg
import hologram_torch
from hologram_torch import functional as F
from hologram_torch import nn, optim

DEVICE = os.environ.get("HOLOGRAM_TEST_DEVICE", "cuda")
THERE = DEVICE == "cpu" or (torch.cuda.is_available() and hg.is_cuda_available())
pytestmark = pytest.mark.skipif(not THERE, reason="needs a CUDA device")
on_gpu = pytest.mark.skipif(DEVICE != "cuda", reason="needs a CUDA device")
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]


def outcome(function: Callable[..., Any], arguments: Any, keywords: Any) -> list[Tensor]:
    """A function's result, and the gradients of all arguments that need one."""
    result = function(*arguments, **keywords)
    if not result.requires_grad:
        return [result]
    leaves = [t for t in (*arguments, *keywords.values()) if isinstance(t, Tensor) and t.requires_grad]
    weights = torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float64).reshape(result.shape)
    found = torch.autograd.grad(result, leaves, weights.to(result.dtype).to(result.device), allow_unused=True)
    return [result.detach(), *(t for t in found if t is not None)]


@pytest.mark.filterwarnings("ignore:reduction")  # of torch's kl_div
@pytest.mark.parametrize("dtype", [*DTYPES, *INTEGERS], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_same_bits(name: str, dtype: torch.dtype) -> None:
    """torch's samples: result and gradients; the second time without a synchronisation of torch's."""
    function = CALLED.get(name, getattr(F, name))
    count = 0
    for _, sample in samples(name, dtype):
        if sample.kwargs.get("max_norm") is not None:  # torch's own work
            continue
        arguments, keywords = (sample.input, *sample.args), sample.kwargs
        there = tree_map(partial(moved, device=DEVICE), (arguments, keywords))
        expected, found = outcome(function, arguments, keywords), outcome(function, *there)
        assert same(expected, found, products(name, dtype)), sample
        if DEVICE == "cuda" and name != "embedding":  # whose gradient's gradient counts on the host
            torch.cuda.set_sync_debug_mode("error")
            try:
                function(*there[0], **there[1])
            finally:
                torch.cuda.set_sync_debug_mode("default")
        count += 1
    assert count or dtype in INTEGERS


@pytest.mark.filterwarnings("ignore")  # of degrees of freedom
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_same_bits_in_all_layouts(name: str, dtype: torch.dtype) -> None:
    """Of no dimensions, no elements, odd sizes, transposed, expanded, along negative dimensions."""
    for case in cases(name, dtype, laid=True):
        given = case.arguments, case.keywords
        there = tree_map(partial(moved, device=DEVICE), given)
        assert same(outcome(case.ours, *given), outcome(case.ours, *there), products(name, dtype)), given


@pytest.mark.parametrize("name", KERNELS)
def test_same_bits_of_kernels(name: str) -> None:
    function, arguments = KERNELS[name]
    given = arguments()
    there = tree_map(partial(moved, device=DEVICE), given)
    for at in range(len(several(function(*given)))):
        each = [outcome(lambda *a, at=at: several(function(*a))[at], values, {}) for values in (given, there)]
        assert same(*each)


def several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_numbers_of_the_host() -> None:
    """Tensors of no dimension go where the others are; others are refused."""
    x = torch.randn(2, 3)
    there, number = x.to(DEVICE), torch.tensor(2.5)
    for call in (F.add, F.mul, F.maximum, F.pow, lambda x, y: F.where(x > 0, x, y)):
        assert same([call(x, number)], [call(there, number)])
    if DEVICE != "cpu":
        for call in (F.add, F.mse_loss, F.linear):
            with pytest.raises((RuntimeError, ValueError), match=r"device|cuda"):
                call(there, torch.ones(2, 3))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int32, torch.int8, torch.uint8, torch.bool], ids=str)
def test_numbers(dtype: torch.dtype) -> None:
    """hologram.ops on tensors and Python's numbers, and with numbers as results."""
    ops = hg.ops
    x = (torch.arange(6).reshape(2, 3) % 5).to(dtype)
    there = x.to(DEVICE)
    if dtype == torch.bool:
        calls: list[Callable[[Tensor], Any]] = [ops.reduce_max, lambda t: ops.reduce_min(t, axis=0), ops.reduce_sum]
    else:
        calls = [
            lambda t: ops.vector_add(t, 2),
            lambda t: ops.vector_sub(100, t),
            lambda t: ops.vector_add(t, 2, n=4),
            lambda t: ops.vector_mul(t[:, ::2], 3),
            lambda t: ops.reduce_sum(t),
            lambda t: ops.reduce_max(t.t()),
            lambda t: ops.argmax(t),
            lambda t: ops.reduce_sum(t, axis=1),
            lambda t: [ops.vector_mul(t, k) for k in range(20)][17],
        ]
    for call in calls:
        expected, found = call(x), call(there)
        assert type(expected) is type(found)
        if isinstance(found, Tensor):
            assert found.device == there.device and same([expected], [found])
        else:
            assert expected == found


MODULES: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "Linear": (lambda: torch.nn.Linear(17, 9), (5, 17)),
    "LayerNorm": (lambda: torch.nn.LayerNorm(17), (5, 17)),
    "RMSNorm": (lambda: torch.nn.RMSNorm(17), (5, 17)),
    "BatchNorm1d": (lambda: torch.nn.BatchNorm1d(17), (5, 17)),
    "BatchNorm2d": (lambda: torch.nn.BatchNorm2d(3), (5, 3, 4, 7)),
    "Softmax": (lambda: torch.nn.Softmax(1), (5, 17)),
    "LogSoftmax": (lambda: torch.nn.LogSoftmax(1), (5, 17)),
    "GELU": (torch.nn.GELU, (5, 17)),
    "ELU": (torch.nn.ELU, (5, 17)),
    "SiLU": (torch.nn.SiLU, (5, 17)),
    "Softplus": (torch.nn.Softplus, (5, 17)),
    "LeakyReLU": (torch.nn.LeakyReLU, (5, 17)),
    "SELU": (torch.nn.SELU, (5, 17)),
    "LogSigmoid": (torch.nn.LogSigmoid, (5, 17)),
    "Tanh": (torch.nn.Tanh, (5, 17)),
    "Sigmoid": (torch.nn.Sigmoid, (5, 17)),
    "ReLU": (torch.nn.ReLU, (5, 17)),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_layers(name: str, dtype: torch.dtype) -> None:
    """Converted layers on both devices: results, gradients, and what they count."""
    make, shape = MODULES[name]
    here = torch.nn.Sequential(make()).to(dtype)
    hologram_torch.convert(here)
    there = torch.nn.Sequential(make()).to(dtype).to(DEVICE)
    hologram_torch.convert(there)
    there.load_state_dict(here.state_dict())
    x = torch.randn(shape).to(dtype)
    for _ in range(2):
        results = []
        for model, device in ((here, "cpu"), (there, DEVICE)):
            model.zero_grad()
            given = x.detach().clone().to(device).requires_grad_()
            found = model(given)
            F.sum(F.square(found)).backward()
            assert given.grad is not None
            grads = [p.grad for p in model.parameters() if p.grad is not None]
            results.append([found.detach(), given.grad, *grads, *model.buffers()])
        assert same(*results, products(name, dtype))


def classifier(device: str) -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)


def trained(device: str, make: Callable[..., Any], steps: int) -> list[Tensor]:
    model = classifier(device)
    optimizer = make(model.parameters())
    drawn = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(steps):
        x, y = torch.rand(32, 64, generator=drawn).to(device), torch.randint(10, (32,), generator=drawn).to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [torch.stack(losses), *(p.detach() for p in model.parameters())]


OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-3),
    "adam": lambda p: optim.Adam(p, amsgrad=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_has_the_same_bits(name: str) -> None:
    assert same(trained("cpu", OPTIMIZERS[name], 200), trained(DEVICE, OPTIMIZERS[name], 200))


@on_gpu
def test_nothing_is_copied() -> None:
    x, y = torch.randn(1 << 20, device="cuda"), torch.randn(1 << 20, device="cuda")
    F.add(x, y)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    found = F.add(x, y)
    assert torch.cuda.memory_allocated() - before == 4 << 20
    at = x.data_ptr()
    F.add(x, y, out=x)
    F.relu(x[::2], inplace=True)
    assert x.data_ptr() == at
    assert torch.equal(x[1::2], found[1::2])
    assert torch.equal(x[::2], found[::2].clamp(min=0))


def step_of(model: torch.nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> Callable[[], Tensor]:
    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@on_gpu
def test_a_step_does_not_wait() -> None:
    """The device is kept busy; a whole step is queued behind that."""
    model = classifier("cuda")
    x, y = torch.rand(32, 64, device="cuda"), torch.randint(10, (32,), device="cuda")
    step = step_of(model, optim.AdamW(model.parameters()), x, y)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    busy = torch.cuda.Event()
    torch.cuda._sleep(1 << 31)  # about a second
    busy.record()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            step()
        assert not busy.query(), "the step waited for the device"
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()


def test_all_layers_are_tried() -> None:
    """What convert knows stands in MODULES, but for what has tests of its own."""
    assert {name for name in nn.__all__ if not name.endswith("Loss")} - set(MODULES) == {
        "Dropout",
        "Embedding",
        "Sequential",
    }
