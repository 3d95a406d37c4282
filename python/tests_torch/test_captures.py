"""Captured graphs: calls and whole training steps, whose replays are what calls and steps are."""

from __future__ import annotations

import gc
from typing import Any, Callable

import pytest
import torch
from moving import same
from torch import Tensor

import hologram as hg
import hologram_torch
from hologram_torch import functional as F
from hologram_torch import nn, optim

on_gpu = pytest.mark.skipif(not (torch.cuda.is_available() and hg.is_cuda_available()), reason="needs a CUDA device")


def step_of(model: torch.nn.Module, optimizer: Any, x: Tensor, y: Tensor) -> Callable[[], Tensor]:
    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def captured(step: Callable[[], Any]) -> tuple[torch.cuda.CUDAGraph, Any]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    return graph, result


# ---- steps that are counted on the device

ADAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "Adam": ("Adam", {}),
    "decay": ("Adam", {"lr": 0.02, "weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-6}),
    "amsgrad": ("Adam", {"amsgrad": True, "lr": 0.01}),
    "decay apart": ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
}


def parameters(dtype: torch.dtype, device: str) -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    found = [torch.randn(shape).to(device, dtype) for shape in ((3, 4), (5,), (), (0, 2))]
    return [torch.nn.Parameter(t) for t in found]


def stepped(optimizer: Any, params: list[torch.nn.Parameter], rounds: int = 12) -> list[Tensor]:
    for round in range(rounds):
        drawn = torch.Generator().manual_seed(round)
        for i, p in enumerate(params):
            g = torch.randn(p.shape, generator=drawn).to(p.device, p.dtype)
            p.grad = None if i == 1 and round in (0, 3) else g  # whose steps are then fewer
        optimizer.step()
    return [p.detach() for p in params]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ADAMS)
def test_counts_on_the_device_make_the_same_steps(kind: str, dtype: torch.dtype, device: str) -> None:
    """As those on the host; torch takes them on a GPU alone, and gets as far."""
    name, options = ADAMS[kind]
    found = []
    for capturable in (False, True):
        params = parameters(dtype, device)
        optimizer = getattr(optim, name)(params, capturable=capturable, **options)
        found.append(stepped(optimizer, params))
    assert {k: float(v["step"]) for k, v in optimizer.state_dict()["state"].items()} == {0: 12, 1: 10, 2: 12, 3: 12}
    assert all(optimizer.state[p]["step"].device == p.device for p in params)
    tolerance = {torch.float32: 1e-7, torch.float64: 1e-15, torch.bfloat16: 0.0}[dtype]
    torch.testing.assert_close(*found, rtol=tolerance, atol=tolerance)
    if device != "cpu":
        params = parameters(dtype, device)
        theirs = stepped(getattr(torch.optim, name)(params, capturable=True, **options), params)
        tolerance = {torch.float32: 1e-5, torch.float64: 1e-6, torch.bfloat16: 3e-2}[dtype]
        torch.testing.assert_close(found[1], theirs, rtol=tolerance, atol=tolerance)


def test_a_state_of_either_kind_goes_on_as_the_other(device: str) -> None:
    """Of steps that were counted on the host, and on the device."""
    found = []
    for first, then in ((False, False), (False, True), (True, False)):
        params = parameters(torch.float32, device)
        optimizer = optim.Adam(params, capturable=first)
        stepped(optimizer, params, 5)
        other = optim.Adam(params, capturable=then)
        state = optimizer.state_dict()
        for group in state["param_groups"]:
            group["capturable"] = then
        other.load_state_dict(state)
        found.append(stepped(other, params, 5))
    torch.testing.assert_close(found[1], found[0], rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(found[2], found[0], rtol=1e-7, atol=1e-7)


@on_gpu
@pytest.mark.parametrize("kind", ADAMS)
def test_captured_steps_count(kind: str) -> None:
    """Replays of a whole step in mixed precision are steps, at the rate that a tensor then has."""
    name, options = ADAMS[kind]
    results = []
    for capture in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5)).cuda()
        rate = torch.tensor(0.01, device="cuda")
        optimizer = getattr(optim, name)(model.parameters(), **{**options, "lr": rate}, capturable=True)
        x, y = torch.zeros(24, 16, device="cuda"), torch.zeros(24, dtype=torch.int64, device="cuda")

        def step(model: Any = model, optimizer: Any = optimizer, x: Tensor = x, y: Tensor = y) -> Tensor:
            optimizer.zero_grad(set_to_none=False)
            with torch.autocast("cuda", torch.bfloat16):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            optim.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        run: Callable[[], Any] = step
        if capture:
            graph, loss = captured(step)
            run = graph.replay
        else:
            for _ in range(3):
                step()
        drawn = torch.Generator().manual_seed(1)
        losses = []
        for round in range(20):
            x.copy_(torch.randn(24, 16, generator=drawn))
            y.copy_(torch.randint(5, (24,), generator=drawn))
            rate.fill_(0.01 / (1 + round % 3))
            found = run()
            losses.append((loss if capture else found).clone())
        results.append([t.cpu() for t in (torch.stack(losses), *(p.detach() for p in model.parameters()))])
    assert same(*results)


@on_gpu
def test_captured_steps_that_would_not_count_are_refused() -> None:
    p = torch.nn.Parameter(torch.ones(3, device="cuda"))
    optimizer = optim.Adam([p])
    p.grad = torch.ones_like(p)
    optimizer.step()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        torch.add(p.detach(), 1)
        with pytest.raises(RuntimeError, match="give capturable=True"):
            optimizer.step()
    assert float(optimizer.state[p]["step"]) == 1


@on_gpu
def test_captured_dropout_draws_anew() -> None:
    x = torch.ones(4096, device="cuda", requires_grad=True)

    def step() -> tuple[Tensor, Tensor]:
        y = F.dropout(x, 0.25)
        return y.detach(), torch.autograd.grad(y, x, torch.ones_like(y))[0]

    graph, (y, gradient) = captured(step)
    draws = []
    for _ in range(3):
        graph.replay()
        assert torch.equal(y, gradient)
        assert abs(float((y != 0).float().mean()) - 0.75) < 0.05
        draws.append(y.clone())
    assert not torch.equal(draws[0], draws[1]) and not torch.equal(draws[1], draws[2])


@on_gpu
def test_captured_converted_models_are_their_calls() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 5)).cuda()
    hologram_torch.convert(model)
    x = torch.zeros(24, 16, device="cuda")
    with torch.no_grad():
        graph, y = captured(lambda: model(x))
        x.copy_(torch.randn(24, 16))
        graph.replay()
        assert torch.equal(y, model(x))


# ---- calls and plain steps


@on_gpu
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_captured_training(momentum: float) -> None:
    """Replays with new data have the bits of steps that are not captured; embedding and softmax among them."""
    results = []
    for capture in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            nn.Embedding(50, 16), nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 50)
        )
        model = model.to("cuda")
        optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
        x, y = torch.zeros(24, dtype=torch.int64, device="cuda"), torch.zeros(24, dtype=torch.int64, device="cuda")

        step = step_of(model, optimizer, x, y)
        run: Callable[[], Any] = step
        if capture:
            graph, loss = captured(step)
            run = graph.replay
        else:
            for _ in range(3):
                step()
        drawn = torch.Generator().manual_seed(1)
        losses = []
        for _ in range(20):
            x.copy_(torch.randint(50, (24,), generator=drawn))
            y.copy_(torch.randint(50, (24,), generator=drawn))
            found = run()
            losses.append((loss if capture else found).clone())
        results.append([t.cpu() for t in (torch.stack(losses), *(p.detach() for p in model.parameters()))])
    assert same(*results)


@on_gpu
def test_captured_memory_goes_back() -> None:
    """What a graph keeps of ours is given back when it is gone."""
    ex = hg.Executor("cuda")
    x = torch.randn(512, 4096, device="cuda")

    def step() -> Tensor:
        return F.sum(F.softmax(x, 1) * 0.5, (0, 1))

    sizes = []
    for _ in range(4):
        graph, _ = captured(step)
        graph.replay()
        torch.cuda.synchronize()
        del graph
        gc.collect()
        torch.cuda.synchronize()
        ex.synchronize()
        sizes.append(ex.memory_stats()["in_use"])
    assert sizes[1] == sizes[-1], sizes


@on_gpu
def test_what_is_not_captured() -> None:
    """A call that was never made is refused before the stream is touched; the graph is whole all the same."""
    x = torch.randn(33, device="cuda")
    F.add(x, x)
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = F.add(x, x)
        with pytest.raises(RuntimeError, match="call it once before the capture"):
            F.softplus(x, beta=1.25)
    graph.replay()
    assert torch.equal(y, x + x)


@on_gpu
def test_faults_of_replays_are_told() -> None:
    weight = torch.randn(5, 3, device="cuda")
    index = torch.zeros(4, dtype=torch.int64, device="cuda")
    graph, _ = captured(lambda: F.embedding(index, weight))
    ex = hg.Executor("cuda")
    graph.replay()
    torch.cuda.synchronize()
    ex.synchronize()
    index.fill_(7)
    graph.replay()
    torch.cuda.synchronize()
    with pytest.raises(hg.ProgramFault):
        ex.synchronize()
    ex.synchronize()
