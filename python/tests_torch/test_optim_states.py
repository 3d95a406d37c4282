"""States of optimisers that are loaded: what goes on from them, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from hologram_torch import optim


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
