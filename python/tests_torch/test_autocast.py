"""Under autocast each function computes in the dtype that torch's does."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any, Callable

import pytest
import torch
from moving import moved
from opinfo import CALLED, NAMES, samples
from torch import Tensor
from torch.utils._pytree import tree_map

from hologram_torch import functional as F
from hologram_torch import nn
from hologram_torch._operation import OPERATIONS

REFUSED = {"binary_cross_entropy"}
"""What torch refuses on GPUs, where its logarithms would be in f16; ours are in f32."""


@pytest.mark.filterwarnings("ignore:reduction")  # of torch's kl_div
@pytest.mark.parametrize("lower", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_results_and_gradients_have_torchs_dtypes(name: str, lower: torch.dtype, device: str) -> None:
    if name in REFUSED and device != "cpu":
        pytest.skip("torch refuses it")
    ours, tried = CALLED.get(name, getattr(F, name)), 0
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for op, sample in samples(name, dtype)[:12]:
            given = tree_map(partial(moved, device=device), (sample.input, sample.args, sample.kwargs))
            found = []
            for function in (op, ours):
                first, rest, named = tree_map(lambda t: t.clone() if isinstance(t, Tensor) else t, given)
                try:
                    with torch.autocast(device, lower):
                        y = function(first, *rest, **named)
                except RuntimeError:  # of dtypes that torch does not take beside each other
                    if function is ours:
                        raise
                    break
                found.append(y)
            if len(found) == 2:
                assert found[0].dtype == found[1].dtype, (dtype, sample)
                assert found[0].requires_grad == found[1].requires_grad
                tried += 1
    assert tried


TORCHS = {"huber": "huber_loss", "mse": "mse_loss", "l1": "l1_loss", "smooth_l1": "smooth_l1_loss"}
"""Operators by other names."""
ASIDE = {"layer_norm", "rms_norm", "square"}
"""What is widened before it is called, and what torch computes by another operator."""


def ruled(name: str, key: str) -> bool:
    """Whether torch's autocast has a rule for an operator."""
    packet = getattr(torch.ops.aten, name)
    for overload in packet.overloads():
        with contextlib.suppress(RuntimeError):  # those of TorchScript alone
            qualified = f"aten::{name}" + (f".{overload}" if overload != "default" else "")
            if torch._C._dispatch_has_kernel_for_dispatch_key(qualified, key):
                return True
    return False


def test_rules_are_torchs() -> None:
    """By its own lists, which say without a GPU what is done on one."""
    known = [n for n in OPERATIONS if hasattr(torch.ops.aten, TORCHS.get(n, n)) and n not in ASIDE]
    assert len(known) > 40
    for name in known:
        rule, theirs = OPERATIONS[name].autocast, TORCHS.get(name, name)
        assert ruled(theirs, "AutocastCUDA") == (rule is not None), name
        assert ruled(theirs, "AutocastCPU") == (rule in ("lower", "loss")), name


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "softmax", "log_softmax"])
def test_a_dtype_that_is_asked_for(name: str, dtype: torch.dtype, device: str) -> None:
    for given in (torch.float16, torch.bfloat16, torch.float32):
        x = torch.rand(4, 8).to(device=device, dtype=given)
        with torch.autocast(device, torch.float16):
            found, expected = (getattr(of, name)(x, 1, dtype=dtype) for of in (F, torch))
        assert found.dtype == expected.dtype == dtype
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "BatchNorm1d", "pow"])
def test_what_is_widened_before_it_is_called(name: str, device: str) -> None:
    """On GPUs, where torch does; a layer's parameters stay in f32."""
    calls: list[tuple[Callable[[Any, Tensor], Tensor], Any]] = []
    if name == "pow":
        calls = [(lambda f, x, p=p: f.pow(x, p), torch) for p in (2, 0.5, -0.5, -1, 3, 1.5)]
    elif name == "BatchNorm1d":
        calls = [(lambda m, x: m.BatchNorm1d(8).to(device)(x), torch.nn)]
    else:
        calls = [(lambda f, x: getattr(f, name)(x, (8,)), torch.nn.functional)]
    for dtype in (torch.float16, torch.bfloat16):
        x = torch.rand(4, 8).to(device=device, dtype=dtype)
        for call, namespace in calls:
            with torch.autocast(device, dtype):
                found, expected = call(nn if namespace is torch.nn else F, x), call(namespace, x)
            assert found.dtype == expected.dtype
            torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
