"""Sequences of layers, which do several in one call: that they are their layers, whatever hangs on these."""

from __future__ import annotations

import copy
import pickle
from typing import Any, Callable

import pytest
import torch
import torch.nn.utils.prune
from torch import Tensor

import hologram as hg
import hologram_torch as ht
from hologram_torch import nn


def test_sequences_are_their_layers() -> None:
    """A Sequential of any two layers, activations of their own included, makes what one after the other does."""
    x = torch.randn(4, 3)
    after = [nn.ReLU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.LeakyReLU, nn.Softplus]
    followers = [make() for make in after] + [
        nn.GELU(approximate="tanh"),
        nn.Softmax(1),
        nn.Linear(3, 2),
        nn.LayerNorm(3),
    ]
    for activation in (None, "relu", "silu", "gelu", "tanh"):
        for bias in (True, False):
            for follower in followers:
                model = nn.Sequential(nn.Linear(3, 3, bias=bias, activation=activation), follower, nn.ReLU())
                expected = x
                for layer in model:
                    expected = layer(expected)
                torch.testing.assert_close(
                    model(x), expected, rtol=0, atol=0, msg=lambda m, model=model: f"{model}: {m}"
                )


def test_layers_with_executors_are_asked_themselves() -> None:
    """What a Sequential would do with one of them runs on its executor: one that is closed says so."""
    with hg.Executor("cpu") as gone:
        models = [
            nn.Sequential(nn.Linear(gone, 3, 3), nn.ReLU()),
            nn.Sequential(nn.Linear(3, 3), nn.ReLU(gone)),
            nn.Sequential(nn.Linear(3, 3), nn.GELU(gone, "none")),
        ]
        for model in models:
            model(torch.ones(2, 3))
    for model in models:
        with pytest.raises(RuntimeError, match="freed"):
            model(torch.ones(2, 3))


def test_sequences_of_what_is_no_module_in_full() -> None:
    """As torch's: a traced layer, which keeps its parameters elsewhere, and what is merely called."""
    x = torch.randn(4, 3)
    traced = torch.jit.trace(torch.nn.Linear(3, 3), x)
    for layer in (traced, torch.jit.script(torch.nn.Linear(3, 3)), torch.neg):
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.ReLU())
        model._modules["1"] = layer
        torch.testing.assert_close(model(x), layer(model[0](x)).relu())


def linears() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.ReLU())


def in_turn(model: torch.nn.Sequential, x: Tensor) -> Tensor:
    for layer in model:
        x = layer(x)
    return x


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 2


class Called(nn.Linear):
    def __call__(self, input: Tensor) -> Any:
        return super().__call__(input) * 3


def renewed(layer: torch.nn.Module, weight: Any) -> None:
    del layer.weight
    layer.weight = weight


CHANGES: dict[str, Callable[[torch.nn.Sequential], Any]] = {
    "hook": lambda m: m[0].register_forward_hook(lambda layer, inputs, y: y + 1),
    "hook before": lambda m: m[0].register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1,)),
    "hook of the activation": lambda m: m[2].register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1,)),
    "backward": lambda m: m[0].register_full_backward_hook(lambda layer, by_inputs, by: (by_inputs[0] * 2,)),
    "before backward": lambda m: m[1].register_full_backward_pre_hook(lambda layer, by: (by[0] * 2,)),
    "hook in the middle": lambda m: m[0].register_forward_hook(
        lambda layer, inputs, y: m[1].register_forward_hook(lambda layer, inputs, y: y + 1) and None
    ),
    "weight, no parameter": lambda m: renewed(m[0], torch.full((3, 3), 2.0)),
    "another parameter": lambda m: setattr(m[0], "weight", torch.nn.Parameter(torch.full((3, 3), 2.0))),
    "no bias": lambda m: setattr(m[0], "bias", None),
    "parametrized": lambda m: torch.nn.utils.parametrizations.weight_norm(m[0]),
    "pruned": lambda m: torch.nn.utils.prune.l1_unstructured(m[0], "weight", 4),
    "forward": lambda m: setattr(m[0], "forward", lambda x: x * 3),
    "activation": lambda m: setattr(m[0], "activation", "tanh"),
    "subclass": lambda m: m.__setitem__(0, Doubled(3, 3)),
    "subclass that is called": lambda m: m.__setitem__(1, Called(3, 3)),
    "frozen": lambda m: m[0].requires_grad_(False),
    "compiled": lambda m: setattr(m[0], "_compiled_call_impl", lambda x: x * 5),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_hangs_on_layers_of_a_sequence(change: str) -> None:
    """Whatever is set on a layer, after calls that were short, is met by the next."""
    ours, theirs = linears(), linears()
    x = torch.randn(4, 3)
    for _ in range(3):
        ours(x.clone().requires_grad_()).sum().backward()
    results = []
    for model, call in ((ours, ours.__call__), (theirs, lambda x: in_turn(theirs, x))):
        torch.manual_seed(1)
        model.zero_grad()
        CHANGES[change](model)
        given = x.clone().requires_grad_()
        y = [call(given) for _ in range(2)][change == "hook in the middle"]
        y.square().sum().backward()
        results.append([y, given.grad, *[p.grad for p in model.parameters()]])
    torch.testing.assert_close(results[0], results[1])


def test_hooks_of_all_modules() -> None:
    model, x = linears(), torch.randn(4, 3, requires_grad=True)
    for _ in range(3):
        model(x)
    every = torch.nn.modules.module
    for register in (
        every.register_module_forward_hook,
        every.register_module_forward_pre_hook,
        every.register_module_full_backward_hook,
        every.register_module_full_backward_pre_hook,
    ):
        told: list[torch.nn.Module] = []
        handle = register(lambda layer, *_, told=told: told.append(layer))
        try:
            model(x).sum().backward()
        finally:
            handle.remove()
        assert len(told) == 4 and set(told) == {model, *model}
        model(x).sum().backward()
        assert len(told) == 4


def test_other_parameters_for_a_call() -> None:
    """By functional_call, also under transforms; of layers that torch.fx traces."""
    model, x = linears(), torch.randn(4, 3)
    for _ in range(3):
        model(x)
    others = {name: torch.randn_like(p, requires_grad=True) for name, p in model.named_parameters()}
    expected = x @ others["0.weight"].t() + others["0.bias"]
    expected = (expected @ others["1.weight"].t() + others["1.bias"]).relu()
    torch.testing.assert_close(torch.func.functional_call(model, others, x), expected)
    want = torch.autograd.grad(expected.sum(), list(others.values()))
    found = torch.func.grad(lambda given: torch.func.functional_call(model, given, x).sum())(others)
    torch.testing.assert_close(list(found.values()), list(want))
    torch.testing.assert_close(model(x), in_turn(model, x))

    class Leaves(torch.fx.Tracer):
        def is_leaf_module(self, m: torch.nn.Module, name: str) -> bool:
            return not isinstance(m, torch.nn.Sequential)

    names = [node.target for node in Leaves().trace(model).nodes if node.op == "call_module"]
    assert names == ["0", "1", "2"]


def test_trained_models_are_copied() -> None:
    """After steps, as torch's are: the copy goes on like the model."""
    model, x = linears(), torch.randn(4, 3)
    optimizer = ht.optim.Adam(model.parameters(), lr=0.1)

    def step(model: torch.nn.Module, optimizer: Any) -> Tensor:
        optimizer.zero_grad()
        loss = ht.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(4):
        step(model, optimizer)
    copies = [copy.deepcopy((model, optimizer)), pickle.loads(pickle.dumps((model, optimizer)))]
    expected = [step(model, optimizer) for _ in range(3)]
    for again in copies:
        assert torch.equal(torch.stack([step(*again) for _ in range(3)]), torch.stack(expected))
