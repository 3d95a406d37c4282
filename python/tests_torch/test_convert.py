"""Models whose layers become Hologram's, and torch's again."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Callable

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

import hologram_torch as ht
from hologram_torch import nn


class Own(torch.nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 2


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        shared = torch.nn.ReLU()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 8), shared, torch.nn.Linear(8, 8), shared
        )
        self.norm = torch.nn.LayerNorm(8)
        self.drop = torch.nn.Identity()
        self.own = Own(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.own(self.drop(self.norm(self.body(x))))


def test_convert_and_revert(capsys: pytest.CaptureFixture[str]) -> None:
    net, x = Net(), torch.randn(5, 6)
    kinds = [type(m) for m in net.modules()]
    state = {name: value.clone() for name, value in net.state_dict().items()}
    parameters = list(net.parameters())
    net(x).sum().backward()
    gradients = [p.grad.clone() for p in parameters if p.grad is not None]
    expected = net(x)
    report = ht.convert(net)
    torch.testing.assert_close(net(x), expected)
    net.zero_grad()
    net(x).sum().backward()
    for p, g in zip(parameters, gradients):
        torch.testing.assert_close(p.grad, g)
    assert all(a is b for a, b in zip(parameters, net.parameters())), "the same parameters"
    assert net.state_dict().keys() == state.keys()
    assert type(net.body[0]) is nn.Linear
    assert type(net.own) is Own
    print(report)
    text = capsys.readouterr().out
    assert "body.0" in text
    assert "own" in text
    assert "left: a class of its own" in text
    assert "left: not there" in text
    assert text.rstrip().endswith("7 of 9 layers converted")
    again = ht.convert(net)
    assert all(c.before == c.after for c in again)
    torch.testing.assert_close(pickle.loads(pickle.dumps(net))(x), expected)
    assert str(ht.revert(net)).endswith("6 of 6 layers reverted")
    assert [type(m) for m in net.modules()] == kinds
    assert torch.equal(net(x), expected)


def test_the_report_is_no_model() -> None:
    """Who takes what convert returns for the model learns at the first call that it is not."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    for report, done in ((ht.convert(model), "converted"), (ht.revert(model), "reverted")):
        with pytest.raises(TypeError, match=f"report of the layers {done}, not a model: .* change the model"):
            report(torch.ones(1, 2))


def test_revert_leaves_what_torch_has_not() -> None:
    model, x = torch.nn.Sequential(nn.Linear(3, 2, activation="relu"), nn.Tanh()), torch.randn(4, 3)
    expected = model(x)
    assert "left: torch's has no activation" in str(ht.revert(model))
    torch.testing.assert_close(model(x), expected)


def test_convert_leaves_what_cannot_run() -> None:
    model = torch.nn.Sequential(
        torch.nn.Embedding(4, 3, sparse=True),
        torch.nn.Linear(3, 2, dtype=torch.complex64),
        torch.nn.LayerNorm(2, dtype=torch.complex128),
        torch.nn.Embedding(4, 3),
    )
    report = ht.convert(model)
    notes = ["sparse gradients are", "torch.complex64 is", "torch.complex128 is"]
    assert [row.note for row in report] == [*(f"left: {note} not there" for note in notes), ""]
    assert [type(m).__module__ == nn.__name__ for m in model] == [False, False, False, True]
    assert model[1](torch.ones(1, 3, dtype=torch.complex64)).shape == (1, 2)


def test_convert_alone() -> None:
    layer = torch.nn.Linear(3, 2)
    assert len(ht.convert(layer)) == 1
    assert type(layer) is nn.Linear
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    ht.convert(model, fuse=False)
    assert [type(m) for m in (model, *model)] == [torch.nn.Sequential, nn.Linear, nn.ReLU]
    ht.convert(model)
    assert type(model) is nn.Sequential
    placed = nn.Linear(3, 2, backend="cpu")
    ht.revert(placed)
    assert type(placed) is torch.nn.Linear and vars(placed).keys() == vars(layer).keys()
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        ht.convert(3)


def sequences() -> dict[str, Callable[[torch.nn.Sequential], torch.nn.Module]]:
    """What people do with a converted Linear, ReLU, Linear; each has torch's answer."""

    def changed(change: Callable[[torch.nn.Sequential], object]) -> Callable[[torch.nn.Sequential], torch.nn.Module]:
        def done(model: torch.nn.Sequential) -> torch.nn.Module:
            change(model)
            return model

        return done

    return {
        "whole": lambda m: m,
        "one": lambda m: m[0],
        "slice": lambda m: m[:1],
        "two": lambda m: m[:2],
        "children": lambda m: torch.nn.Sequential(*list(m.children())[:-2]),
        "activation": lambda m: torch.nn.Sequential(m[1]),
        "identity": changed(lambda m: m.__setitem__(1, torch.nn.Identity())),
        "other": changed(lambda m: m.__setitem__(1, torch.nn.Tanh())),
        "deleted": changed(lambda m: m.__delitem__(1)),
        "inserted": changed(lambda m: m.insert(1, torch.nn.Softmax(1))),
        "own forward": changed(lambda m: setattr(m[1], "forward", lambda x: x * 2)),
    }


@pytest.mark.parametrize("name", sequences())
def test_layers_stay_by_themselves(name: str) -> None:
    """A Linear does its activation within the Sequential alone, by the layers that there are at a call."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3))
    x = torch.randn(5, 3)
    results = []
    for converted in (False, True):
        m = copy.deepcopy(model)
        if converted:
            ht.convert(m)
        used = sequences()[name](m)
        given = x.clone().requires_grad_()
        found = used(given)
        found.sum().backward()
        results.append((found.detach(), given.grad))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("late", [False, True])
def test_hooks_of_fused_layers(late: bool) -> None:
    """Forward and backward hooks, set before converting or after, see what torch's do."""
    seen: list[list[Tensor]] = []
    for converted in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
        if converted and late:
            ht.convert(model)
        told: list[Tensor] = []
        model[0].register_forward_hook(lambda m, inputs, output, told=told: told.append(output.detach()))
        model[1].register_full_backward_hook(lambda m, by_inputs, by_outputs, told=told: told.extend(by_inputs))
        if converted and not late:
            ht.convert(model)
        model(torch.randn(4, 3)).sum().backward()
        seen.append(told)
    torch.testing.assert_close(seen[1], seen[0])


def test_hooks_see_what_passes() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    seen: list[Tensor] = []
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output))
    ht.convert(model)
    x = torch.randn(4, 3)
    model(x)
    torch.testing.assert_close(seen[0], torch.nn.functional.linear(x, model[0].weight, model[0].bias))


def test_compile_and_export_of_a_converted_model(tmp_path: Path, device: str) -> None:
    torch._dynamo.reset()
    net, x = Net().to(device), torch.randn(5, 6, device=device)
    expected = net(x)
    ht.convert(net)
    torch.testing.assert_close(torch.compile(net, fullgraph=True, backend="aot_eager")(x), expected)
    program = torch.export.export(net.eval(), (x,))
    torch.export.save(program, tmp_path / "net.pt2")
    torch.testing.assert_close(torch.export.load(tmp_path / "net.pt2").module()(x), expected)


def test_a_batch_norm_leaves_the_size_of_batches_open() -> None:
    """Converted and in training, as torch's: exported for batches of any size, and compiled once for all others."""
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(8))
    ht.convert(model)
    program = torch.export.export(model, (torch.randn(5, 8),), dynamic_shapes=({0: torch.export.Dim("b")},)).module()
    for rows in (2, 19):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(program(x), model(x))
    torch._dynamo.reset()
    counted = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, fullgraph=True, backend=counted)
    for rows in range(3, 20):
        compiled(torch.randn(rows, 8)).sum().backward()
    assert counted.frame_count == 2
