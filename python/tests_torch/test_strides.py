"""Results lie in memory as torch's do: what works on torch's result, such as a view, works on ours."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from opinfo import CALLED, NAMES, samples
from torch import Tensor

from hologram_torch import functional as F

T = torch.nn.functional


def steps(x: Tensor) -> list[int]:
    """A tensor's strides, but for dimensions of one element, which mean nothing."""
    return [stride for stride, n in zip(x.stride(), x.shape) if n != 1] if x.numel() else []


@pytest.mark.filterwarnings("ignore:reduction")  # of torch's kl_div
@pytest.mark.parametrize("name", NAMES)
def test_samples(name: str) -> None:
    function = CALLED.get(name, getattr(F, name))
    with torch.no_grad():
        for op, sample in samples(name, torch.float32):
            arguments, keywords = (sample.input, *sample.args), sample.kwargs
            assert steps(function(*arguments, **keywords)) == steps(op(*arguments, **keywords)), sample


LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "packed": lambda: torch.randn(4, 5, 6),
    "transposed": lambda: torch.randn(4, 6, 5).transpose(1, 2),
    "reversed": lambda: torch.randn(6, 5, 4).permute(2, 1, 0),
    "swapped": lambda: torch.randn(5, 4, 6).permute(1, 0, 2),
    "every other": lambda: torch.randn(8, 5, 6)[::2],
    "with gaps": lambda: torch.randn(4, 5, 12)[..., ::2],
    "expanded": lambda: torch.randn(4, 1, 6).expand(4, 5, 6),
    "a number": lambda: torch.randn(()).expand(4, 5, 6),
    "channels last": lambda: torch.randn(4, 5, 6, 3).to(memory_format=torch.channels_last),
    "matrix": lambda: torch.randn(6, 5).t(),
}
CALLS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "relu": lambda f, x: f.relu(x),
    "gelu": lambda f, x: f.gelu(x),
    "softmax, first": lambda f, x: f.softmax(x, 0),
    "softmax, second": lambda f, x: f.softmax(x, 1),
    "softmax, last": lambda f, x: f.softmax(x, -1),
    "log_softmax, second": lambda f, x: f.log_softmax(x, 1),
    "layer_norm": lambda f, x: f.layer_norm(x, x.shape[-1:], torch.ones(x.shape[-1])),
    "rms_norm": lambda f, x: f.rms_norm(x, x.shape[-1:]),
    "batch_norm": lambda f, x: f.batch_norm(x, None, None, training=True),
    "linear": lambda f, x: f.linear(x, torch.ones(7, x.shape[-1])),
    "mse_loss": lambda f, x: f.mse_loss(x, x + 1, reduction="none"),
    "embedding": lambda f, x: f.embedding((x > 0).long(), torch.ones(3, 2)),
}
OWN: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "exp": lambda f, x: f.exp(x),
    "pow": lambda f, x: f.pow(x, 2),
    "clamp": lambda f, x: f.clamp(x, -1, 1),
    "cumsum, first": lambda f, x: f.cumsum(x, 0),
    "cumsum, last": lambda f, x: f.cumsum(x, -1),
    "sum": lambda f, x: f.sum(x, 1),
    "amax": lambda f, x: f.amax(x, 1, keepdim=True),
    "var": lambda f, x: f.var(x, 1),
    "matmul, one right": lambda f, x: f.matmul(x, torch.ones(x.shape[-1], 3)),
    "matmul, one left": lambda f, x: f.matmul(torch.ones(3, x.shape[-2]), x),
    "matmul": lambda f, x: f.matmul(x, x.mT),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    x = LAYOUTS[layout]()
    for calls, theirs in ((CALLS, T), (OWN, torch)):
        for name, call in calls.items():
            if layout == "channels last" and name == "rms_norm":
                continue  # as torch's version has it
            assert steps(call(F, x)) == steps(call(theirs, x)), name


@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", LAYOUTS)
def test_two_layouts(first: str, second: str) -> None:
    x, y = LAYOUTS[first](), LAYOUTS[second]()
    if "channels last" in (first, second) and first != second:
        x = x[..., 0] if x.ndim == 4 else x
        y = y[..., 0] if y.ndim == 4 else y
    elif "matrix" in (first, second):
        x, y = (t[0] if t.ndim == 3 else t for t in (x, y))
        x, y = (t if t.shape == (5, 6) else t.t() for t in (x, y))
    assert steps(F.add(x, y)) == steps(x + y)
    assert steps(F.where(x > 0, x, y)) == steps(torch.where(x > 0, x, y))
