"""Parameter groups: each goes by options and counts of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_optim import KINDS

from hologram_torch import optim

OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "SGD": (
        {"lr": 0.1, "momentum": 0.9},
        {
            "lr": 0.02,
            "weight_decay": 0.3,
            "momentum": 0.5,
            "no momentum": {"momentum": 0.0},
            "dampening": 0.3,
            "nesterov": True,
            "maximize": True,
        },
    ),
    "Adam": (
        {"lr": 0.1, "weight_decay": 0.1, "betas": (0.9, 0.5)},
        {
            "lr": 0.02,
            "weight_decay": 0.3,
            "betas": (0.5, 0.7),
            "eps": 0.1,
            "amsgrad": True,
            "maximize": True,
            "decoupled_weight_decay": True,
        },
    ),
}


def stepped(module: Any, name: str, options: dict[str, Any], groups: list[dict[str, Any]]) -> list[torch.Tensor]:
    """Return what becomes of a parameter in each group, with so many elements as its number says."""
    params = [torch.nn.Parameter(torch.linspace(-1, 1, 3 + i)) for i in range(len(groups))]
    optimizer = getattr(module, name)([{"params": [p], **own} for p, own in zip(params, groups)], **options)
    for round in range(4):
        for p in params:
            p.grad = torch.linspace(2, -1, p.numel()) * (3 - 2 * round)  # whose squares fall too
        optimizer.step()
    return [p.detach() for p in params]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name, (_, options) in OPTIONS.items() for option in options]
)
def test_options_of_one_group(name: str, option: str, first: bool) -> None:
    """They are that group's alone, be it the first or the last."""
    options, others = OPTIONS[name]
    own = others[option] if isinstance(others[option], dict) else {option: others[option]}
    groups = [own, {}] if first else [{}, own]
    found, expected = (stepped(module, name, options, groups) for module in (optim, torch.optim))
    torch.testing.assert_close(found, expected)
    plain = stepped(torch.optim, name, options, [{}, {}])
    assert [torch.equal(p, q) for p, q in zip(expected, plain)] == ([False, True] if first else [True, False])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "Adam" in kind])
def test_groups_whose_steps_differ(kind: str) -> None:
    """Each group goes by the counts of its own parameters, as where one is added later."""
    name, options = KINDS[kind]
    results = []
    for module in (optim, torch.optim):
        params = [torch.nn.Parameter(torch.full((3,), 1.0 + i)) for i in range(4)]
        optimizer = getattr(module, name)(params[:1], **options)
        for round in range(6):
            if round in (2, 3):
                optimizer.add_param_group({"params": params[1:3] if round == 2 else params[3:]})
            for p in params:
                p.grad = torch.tensor([1.0, -2.0, 0.5]) * (1 + round)
            optimizer.step()
        results.append([*params, *[optimizer.state[p]["step"] for p in params]])
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("shared", ["in a group", "in two groups", "behind one ahead", "count", "first step"])
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_given_twice(kind: str, shared: str) -> None:
    """Each time is a step of its own, as torch does them one after the other."""
    name, options = KINDS[kind]
    if shared == "count" and "SGD" in kind:
        return
    found = []
    for module, own in ((optim, {}), (torch.optim, {"foreach": False})):
        params = [torch.nn.Parameter(torch.linspace(-1, 1, 4) + i) for i in range(4)]
        groups = [{"params": params[:2]}, {"params": params[2:], "lr": 0.03}]
        optimizer = getattr(module, name)(groups, **options, **own)
        first, second = optimizer.param_groups
        for round in range(4):
            for i, p in enumerate(params):
                p.grad = None if i == 2 and round == 0 else torch.linspace(2, -1, 4) * (3 - 2 * round) + i
            if round == {"first step": 0, "behind one ahead": 2}.get(shared, 1):
                if shared == "in a group":
                    first["params"] = [params[0], params[1], params[0]]
                elif shared == "in two groups":
                    second["params"] = [params[2], params[0], params[3]]
                elif shared == "behind one ahead":  # whose count is that of the other's second time
                    second["params"] = [params[3], params[2], params[2]]
                elif shared == "count":
                    optimizer.state[params[3]]["step"] = optimizer.state[params[0]]["step"]
                else:
                    second["params"] = [params[0], params[3]]
            optimizer.step()
        found.append(
            ([p.detach() for p in params], [float(s["step"]) for s in optimizer.state.values() if "step" in s])
        )
    torch.testing.assert_close(*found, rtol=2e-6, atol=2e-6)


def test_parameters_given_twice_to_a_capturable_one() -> None:
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = optim.Adam([p])
    optimizer.param_groups[0].update(params=[p, p], capturable=True)
    p.grad = torch.ones(3)
    with pytest.raises(ValueError, match=r"^Adam: a parameter is there twice, "):
        optimizer.step()
    assert torch.equal(p, torch.ones(3))
    assert not optimizer.state[p]
