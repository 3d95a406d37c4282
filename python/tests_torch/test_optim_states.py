"""States of optimisers that are loaded: what goes on from them, and what is refused."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch

from hologram_torch import optim


def test_momentum_of_another_dtype() -> None:
    """Is the gradient's, and with what decays that of both, as torch clones what it begins with."""
    floats = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    for (own, given), decay, maximize in itertools.product(
        itertools.permutations(floats, 2), (0.0, 0.1), (False, True)
    ):
        found = []
        for of in (optim, torch.optim):
            torch.manual_seed(0)
            p = torch.nn.Parameter(torch.randn(6).to(own))
            p.grad_dtype = given
            optimizer = of.SGD([p], lr=0.1, momentum=0.9, weight_decay=decay, maximize=maximize, foreach=False)
            for _ in range(3):
                p.grad = torch.randn(6).to(given)
                optimizer.step()
            found.append((p.detach(), optimizer.state[p]["momentum_buffer"]))
        close = {"rtol": 0.02, "atol": 0.02} if torch.bfloat16 in (own, given) else {"rtol": 2e-3, "atol": 2e-3}
        torch.testing.assert_close(*found, **close)


def test_fused_makes_no_difference(device: str) -> None:
    """A step is one program anyway: where torch's is asked for so, or loads it, and with GradScaler, which knows."""
    for kind, options in (("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {"amsgrad": True})):
        found = []
        for of in (optim, torch.optim):
            p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0], device=device))
            made = getattr(of, kind)([p], lr=0.1, fused=True, **options)
            for optimizer in (made, getattr(of, kind)([p], lr=0.1, **options)):
                if optimizer is not made:
                    optimizer.load_state_dict(made.state_dict())
                    assert optimizer.param_groups[0]["fused"] is True
                for given in (3.0, torch.inf, -5.0):
                    scaler = torch.amp.GradScaler(device, init_scale=8.0)
                    optimizer.zero_grad()
                    scaler.scale((p * given).sum()).backward()
                    scaler.step(optimizer)
                    p.grad = p.detach().clone()
                    optimizer.step()
            found.append([p.detach(), *[optimizer.state[p][name] for name in optimizer.state[p] if name != "step"]])
            assert p.isfinite().all()
        torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("SGD", {"momentum": 0.9}), ("Adam", {}), ("Adam", {"amsgrad": True}), ("AdamW", {})],
    ids=["SGD", "Adam", "amsgrad", "AdamW"],
)
def test_states_that_lack_something(kind: str, options: dict[str, Any]) -> None:
    """A state that is loaded without a part, or with None in its place, goes on as torch's, or both refuse it."""

    def make(of: Any) -> tuple[torch.nn.Parameter, Any]:
        p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
        p.grad = torch.tensor([0.5, -0.25, 1.0])
        return p, getattr(of, kind)([p], lr=0.1, foreach=False, **options)

    _, optimizer = make(torch.optim)
    optimizer.step()
    whole = optimizer.state_dict()
    parts = whole["state"][0]
    changed = [{k: v for k, v in parts.items() if k != name} for name in parts]
    changed += [{**parts, name: None} for name in parts]
    for state in ({}, {0: {}}, *({0: one} for one in changed)):
        results: list[Any] = []
        for of in (torch.optim, optim):
            p, optimizer = make(of)
            try:
                optimizer.load_state_dict(copy.deepcopy({**whole, "state": state}))
                optimizer.step()
                results.append(p.detach())
            except (AttributeError, AssertionError, KeyError, RuntimeError, TypeError, ValueError):
                results.append(None)
        assert (results[0] is None) == (results[1] is None), state
        if results[0] is not None:
            torch.testing.assert_close(results[1], results[0])
