"""Optimisers' numbers at the ends of their ranges: what is not finite, and options out of range."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from test_optim import KINDS

from hologram_torch import optim

INF = float("inf")
CORNERS = torch.tensor([0.0, 1.0, -2.0, INF, -INF, torch.nan], dtype=torch.float64)


@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.0}, {"lr": 0.0}, {"lr": INF}], ids=str)
@pytest.mark.parametrize("kind", [*KINDS, "Adam captured", "AdamW captured"])
def test_numbers_that_are_not_finite(kind: str, options: dict[str, float], device: str) -> None:
    """Come out as torch's: what an option of 0 leaves out, nothing infinite is multiplied by."""
    name, own = KINDS.get(kind) or KINDS[kind.split()[0]]
    for dtype in (torch.float32, torch.float64):
        found = []
        for module in (optim, torch.optim):
            p, g = (t.flatten().to(device, dtype) for t in torch.meshgrid(CORNERS, CORNERS, indexing="ij"))
            optimizer = getattr(module, name)([torch.nn.Parameter(p)], **{**own, **options})
            (q,) = optimizer.param_groups[0]["params"]
            if "captured" in kind and module is optim:
                optimizer.param_groups[0]["capturable"] = True  # which torch has on GPUs alone
            for _ in range(3):
                q.grad = g.clone()
                optimizer.step()
            found.append(q.detach())
        torch.testing.assert_close(*found, rtol=1e-6, atol=1e-6, equal_nan=True)


BAD = (1e39, "x", "0.1", None, [1])
REFUSED: dict[str, list[tuple[str, Any]]] = {
    "SGD momentum": [
        *[(option, value) for option in ("lr", "weight_decay", "momentum", "dampening") for value in BAD],
        ("lr", torch.ones(2)),
        ("momentum", -(10**400)),
    ],
    "SGD": [(option, value) for option in ("lr", "weight_decay", "momentum") for value in BAD],
    "Adam": [
        *[(option, value) for option in ("lr", "weight_decay", "eps") for value in BAD],
        ("lr", 1e38),  # of which the second step makes 5e38
        ("lr", torch.ones(2)),
        *[
            ("betas", betas)
            for betas in ((1.0, 0.9), (0.9, 1.0), (0.9, 1.5), (-0.1, 0.9), (0.9,), None, 0.5, (0.9, "x"), (0.9, None))
        ],
        ("betas", (torch.nan, 0.9)),
    ],
}


@pytest.mark.parametrize("capturable", [False, True])
@pytest.mark.parametrize(
    ("kind", "option", "value"), [(kind, *each) for kind, of in REFUSED.items() for each in of], ids=str
)
def test_numbers_that_are_refused(kind: str, option: str, value: Any, capturable: bool) -> None:
    """Of one group, before anything is changed in any; the error names the option and the value."""
    if capturable and ("SGD" in kind or (option == "lr" and not isinstance(value, (str, list)) and value is not None)):
        pytest.skip("SGD has no such option, and of Adam the device then computes the rate")
    name, options = KINDS[kind]
    params = [torch.nn.Parameter(torch.ones(4)) for _ in range(2)]
    optimizer = getattr(optim, name)([{"params": [p]} for p in params], **{"lr": 0.1, **options})
    for p in params:
        p.grad = torch.ones(4)
    for group in optimizer.param_groups if capturable else ():
        group["capturable"] = True
    optimizer.step()
    kept = copy.deepcopy((optimizer.state_dict()["state"], [p.data for p in params]))
    versions = [t._version for p in params for t in (p, *optimizer.state.get(p, {}).values())]
    good, optimizer.param_groups[1][option] = optimizer.param_groups[1][option], value
    with pytest.raises(ValueError, match=f"^{name}: {option} is ") as refused:
        optimizer.step()
    assert repr(value)[:20] in str(refused.value)
    found = (optimizer.state_dict()["state"], [p.data for p in params])
    torch.testing.assert_close(found, kept, rtol=0, atol=0)
    assert versions == [t._version for p in params for t in (p, *optimizer.state.get(p, {}).values())]
    optimizer.param_groups[1][option] = good
    optimizer.step()
    assert (params[1] != kept[1][1]).all()


def test_numbers_that_f64_holds() -> None:
    """Are refused of parameters of f32 alone."""
    for module in (optim, torch.optim):
        p = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
        optimizer = module.SGD([p], lr=1e39)
        p.grad = torch.ones(2, dtype=torch.float64)
        optimizer.step()
        assert p.tolist() == [1 - 1e39] * 2


STATES: dict[str, tuple[str, Any, str]] = {
    "none": ("exp_avg", ..., r"the state of a parameter of shape \(4,\) has no 'exp_avg'"),
    "None": ("exp_avg", None, r"Adam: exp_avg in the state of a parameter of shape \(4,\) is None; expected a tensor"),
    "a list": ("exp_avg_sq", [0.0], r"exp_avg_sq in the state of a parameter of shape \(4,\) is \[0.0\]; expected a"),
    "negative": ("step", torch.tensor(-1.0), "step is -1.0; expected"),
    "an integer": ("step", 1, r"Adam: step in the state of a parameter of shape \(4,\) is 1; expected a tensor"),
    "no count": ("step", None, r"step in the state of a parameter of shape \(4,\) is None; expected a tensor"),
}


@pytest.mark.parametrize("bad", STATES)
def test_states_that_are_refused(bad: str) -> None:
    params = [torch.nn.Parameter(torch.ones(4)) for _ in range(2)]
    optimizer = optim.Adam([{"params": [p]} for p in params])
    for p in params:
        p.grad = torch.ones(4)
    optimizer.step()
    name, value, said = STATES[bad]
    optimizer.state[params[1]][name] = value
    if value is ...:
        del optimizer.state[params[1]][name]
    kept = copy.deepcopy((optimizer.state_dict()["state"], [p.data for p in params]))
    with pytest.raises(ValueError, match=said):
        optimizer.step()
    found = (optimizer.state_dict()["state"], [p.data for p in params])
    torch.testing.assert_close(found, kept, rtol=0, atol=0)
