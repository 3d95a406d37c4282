"""Optimisers: torch's steps, torch's states, in place."""

from __future__ import annotations

import copy
import os
import threading
from typing import Any

import fresh
import pytest
import torch

from hologram_torch import functional as F
from hologram_torch import optim
from hologram_torch._executors import executor_for

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {"lr": 0.1}),
    "SGD decay": ("SGD", {"lr": 0.1, "weight_decay": 0.2}),
    "SGD momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "SGD dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    "SGD nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "SGD maximize": ("SGD", {"lr": 0.1, "maximize": True}),
    "Adam": ("Adam", {}),
    "Adam decay": ("Adam", {"lr": 0.02, "weight_decay": 0.1, "betas": (0.8, 0.9), "eps": 1e-6}),
    "Adam amsgrad": ("Adam", {"amsgrad": True, "lr": torch.tensor(0.01, dtype=torch.float64)}),
    "Adam decay apart": ("Adam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "AdamW": ("AdamW", {"lr": 0.01, "weight_decay": 0.1}),
    "AdamW amsgrad": ("AdamW", {"amsgrad": True, "maximize": True}),
}


def parameters(dtype: torch.dtype = torch.float32, device: str = "cpu") -> list[torch.nn.Parameter]:
    torch.manual_seed(0)
    shapes = [(3, 4), (5,), (), (0, 2), (2, 3, 2)]
    found = [torch.nn.Parameter(torch.randn(shape, dtype=dtype).to(device)) for shape in shapes]
    found[0] = torch.nn.Parameter(torch.randn(4, 3, dtype=dtype).to(device).t())
    return [*found, torch.nn.Parameter(torch.ones(2, dtype=dtype, device=device))]  # without gradient


def step(optimizer: Any, params: list[torch.nn.Parameter], round: int) -> None:
    generator = torch.Generator().manual_seed(round)
    for i, p in enumerate(params[:-1]):
        p.grad = torch.randn(p.shape, generator=generator).to(p.device, p.dtype)
        if i == 1 and round in (0, 3, 7):  # whose steps are then fewer than the others'
            p.grad = None
    optimizer.step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_steps(kind: str, dtype: torch.dtype, device: str) -> None:
    """As many steps as torch's, to torch's parameters and states, which load both ways."""
    name, options = KINDS[kind]
    ours, theirs = parameters(dtype, device), parameters(dtype, device)
    mine, its = getattr(optim, name)(ours, **options), getattr(torch.optim, name)(theirs, **options)
    places = [p.data_ptr() for p in ours]
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 3e-2}[dtype]
    for round in range(12):
        if round == 6:  # each goes on with the other's state
            mine_state, its_state = copy.deepcopy(mine.state_dict()), copy.deepcopy(its.state_dict())
            mine.load_state_dict(its_state)
            its.load_state_dict(mine_state)
        step(mine, ours, round)
        step(its, theirs, round)
        for found, expected in zip(ours, theirs):
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert [p.data_ptr() for p in ours] == places
    for p, q in zip(ours, theirs):
        assert mine.state[p].keys() == its.state[q].keys()
        for name in its.state[q] if dtype.itemsize > 2 else ():
            found, expected = mine.state[p][name], its.state[q][name]
            if found is not None:
                torch.testing.assert_close(found, expected, rtol=min(tolerance, 2e-6), atol=min(tolerance, 2e-7))


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_was_looked_at_is_not_there_yet(kind: str) -> None:
    """To look for one makes an empty one."""
    name, options = KINDS[kind]
    found = []
    for module in (optim, torch.optim):
        params = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
        optimizer = getattr(module, name)(params, **options)
        assert not optimizer.state[params[0]]
        for round in range(2):
            for p in params:
                p.grad = torch.full((3,), 1.0 + round)
            optimizer.step()
        found.append(params)
    torch.testing.assert_close(found[0], found[1])


def test_closures_schedulers_and_groups() -> None:
    ours, theirs = parameters(), parameters()
    losses = []
    for params, kind in ((ours, optim.SGD), (theirs, torch.optim.SGD)):
        optimizer = kind([{"params": params[:2]}, {"params": params[2:], "lr": 0.01}], lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

        def closure(optimizer: Any = optimizer, params: Any = params) -> torch.Tensor:
            optimizer.zero_grad()
            loss = sum((p * p).sum() for p in params)
            loss.backward()
            return loss

        for _ in range(3):
            losses.append(optimizer.step(closure).item())
            schedule.step()
    assert losses[:3] == pytest.approx(losses[3:])
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p, q)


def test_versions_are_raised() -> None:
    p = torch.nn.Parameter(torch.ones(3))
    loss = F.sum(F.mul(p, p))
    p.grad = torch.ones(3)
    optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_gradscaler(device: str) -> None:
    results = []
    for kind in (optim.SGD, torch.optim.SGD):
        (p,) = params = [torch.nn.Parameter(torch.ones(4, device=device))]
        optimizer, scaler = kind(params, lr=0.1), torch.amp.GradScaler(device, init_scale=16.0, growth_interval=2)
        for round in range(6):
            optimizer.zero_grad()
            loss = F.sum(F.square(p)) * (float("inf") if round == 2 else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        results.append((p.detach().clone(), scaler.get_scale()))
    torch.testing.assert_close(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


def test_what_is_refused() -> None:
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    for make in (
        lambda **asked: optim.SGD([p], lr=0.1, momentum=0.5, **asked),
        lambda **asked: optim.AdamW([p], **asked),
    ):
        optimizer = make(differentiable=True)
        said = r": differentiable is True; a step here has no gradient: set group\['differentiable'\] = False in"
        with pytest.raises(ValueError, match=said):
            optimizer.step()
        assert (p == 1).all() and not optimizer.state
    p.grad = torch.ones(3).to_sparse()
    with pytest.raises(TypeError, match="sparse"):
        optim.Adam([p]).step()


@pytest.mark.parametrize("norm", [2.0, 1.0, 3.0, -1.0, 0, "inf", float("inf"), float("-inf")])
@pytest.mark.parametrize("most", [0.5, 1000.0])
def test_clip(norm: Any, most: float, device: str) -> None:
    ours, theirs = parameters(device=device), parameters(device=device)
    for params in (ours, theirs):
        step(optim.SGD(params, lr=0.0), params, 0)
        params[3].grad = None  # of no elements: torch's inf norm refuses it
    at = [p.grad.data_ptr() for p in ours if p.grad is not None]
    found = optim.clip_grad_norm_(ours, most, norm)
    expected = torch.nn.utils.clip_grad_norm_(theirs, most, norm)
    torch.testing.assert_close(found, expected)
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p.grad, q.grad)
    assert [p.grad.data_ptr() for p in ours if p.grad is not None] == at


@pytest.mark.parametrize("norm", [2.0, 1.0, 3.0, float("inf")])
def test_clip_in_the_gradients_own_digits_and_range(norm: float) -> None:
    f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
    for dtypes in ([f64], [f32], [f16], [bf16], [f32, f64], [f16, f32], [bf16, f16, f64]):
        for size in (1.0, 1 / 3, 1e30, 1e-30, 1e100):
            ours, theirs = ([torch.nn.Parameter(torch.zeros(3, dtype=dtype)) for dtype in dtypes] for _ in range(2))
            for params in (ours, theirs):
                for p in params:  # as large as the narrowest of them can be
                    p.grad = (torch.tensor([1.0, 2.0, -3.0], dtype=f64) * (size if dtypes == [f64] else 1 / 3)).to(p)
            # torch rounds the norm of each.
            close: Any = {"rtol": 4 * max(torch.finfo(dtype).eps for dtype in dtypes), "atol": 0}
            found = optim.clip_grad_norm_(ours, 1.0, norm)
            torch.testing.assert_close(found, torch.nn.utils.clip_grad_norm_(theirs, 1.0, norm), **close)
            for p, q in zip(ours, theirs):
                torch.testing.assert_close(p.grad, q.grad, **close)


def test_clip_of_what_16_bits_do_not_hold_squared() -> None:
    p = torch.nn.Parameter(torch.zeros(4, dtype=torch.float16))
    for norm, whole in ((2.0, 600.0), (3.0, 300 * 4 ** (1 / 3)), (1.0, 1200.0)):
        p.grad = torch.full((4,), 300.0, dtype=torch.float16)
        found = optim.clip_grad_norm_([p], 1.0, norm)
        torch.testing.assert_close(found.double(), torch.tensor(whole).double(), rtol=1e-3, atol=0)
        torch.testing.assert_close(p.grad.double(), torch.full((4,), 300 / whole).double(), rtol=2e-3, atol=0)


@pytest.mark.parametrize("norm", [2.0, 3.0, 0.0, torch.inf])
def test_clip_is_compiled(norm: float, device: str) -> None:
    """As one graph, also where a parameter has no gradient."""
    torch._dynamo.reset()
    found = []
    for compiled in (True, False):
        params = [torch.nn.Parameter(torch.ones(3, n, device=device)) for n in (2, 3, 4)]
        for p in params[1:]:
            p.grad = torch.arange(float(p.numel()), device=device).view_as(p)

        def clip(params: list[torch.nn.Parameter] = params) -> torch.Tensor:
            return optim.clip_grad_norm_(params, 1.0, norm)

        if compiled:
            clip = torch.compile(clip, fullgraph=True, backend="aot_eager")
        found.append([clip(), *[p.grad for p in params[1:]]])
        assert params[0].grad is None
    assert all(torch.equal(a, b) for a, b in zip(*found))


def test_clip_of_what_is_not_finite() -> None:
    p = torch.nn.Parameter(torch.ones(2))
    p.grad = torch.tensor([1.0, torch.inf])
    with pytest.raises(RuntimeError, match="non-finite"):
        optim.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    assert optim.clip_grad_norm_(iter([torch.nn.Parameter(torch.ones(2))]), 1.0) == 0
    for norm in (2.0, 1.0, float("inf")):
        for worst in (torch.inf, torch.nan):
            found = []
            for clip in (optim.clip_grad_norm_, torch.nn.utils.clip_grad_norm_):
                p.grad = torch.tensor([1.0, worst])
                found += [clip([p], 1.0, norm, False, True), p.grad]
            torch.testing.assert_close(found[:2], found[2:], equal_nan=True)


@pytest.mark.parametrize("kind", ["SGD", "SGD momentum", "Adam", "AdamW amsgrad"])
@pytest.mark.parametrize(
    "bad",
    ["complex", "expanded", "sparse", "negative", "windows", "9 dimensions", "not aligned", "no memory", "shrunk"],
)
@pytest.mark.parametrize("later", [False, True], ids=["first", "later"])
def test_a_step_that_is_refused_changes_nothing(kind: str, bad: str, later: bool) -> None:
    """Not even what comes before it, in its group or in others."""
    name, options = KINDS[kind]
    first, before = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    last = torch.nn.Parameter(torch.ones(3))
    optimizer = getattr(optim, name)([{"params": [first]}, {"params": [before, last]}], **options)
    for p in (first, before, last):
        p.grad = torch.ones(3)
    if later:
        optimizer.step()
    if bad == "expanded":
        last.data = torch.ones(1).expand(3)
    elif bad == "complex":
        last.data, last.grad = torch.ones(3, dtype=torch.complex64), None
    elif bad == "sparse":
        last.grad = torch.ones(3).to_sparse()
    elif bad == "negative":
        last.data = torch._neg_view(torch.ones(3))
    elif bad == "windows":
        last.data, last.grad = torch.ones(5).as_strided((3, 3), (1, 1)), None
    elif bad == "9 dimensions":
        last.data, last.grad = torch.ones((3,) + (1,) * 8), None
    elif bad == "not aligned":
        last.data = torch.frombuffer(bytearray(13), dtype=torch.float32, offset=1)
    elif bad == "no memory":
        last.grad.untyped_storage().resize_(0)
    elif bad == "shrunk":
        last.grad.untyped_storage().resize_(8)
    if last.grad is None:
        last.grad = torch.ones(last.shape, dtype=last.dtype)
        optimizer.state.pop(last, None)
    kept = copy.deepcopy((optimizer.state_dict()["state"], first.data, before.data, last.data))
    refused = TypeError if bad in ("complex", "sparse") else ValueError
    with pytest.raises(refused, match=r"share|complex64|sparse|negative|9 dimensions|address|no memory|storage"):
        optimizer.step()
    found = (optimizer.state_dict()["state"], first.data, before.data, last.data)
    torch.testing.assert_close(found, kept, rtol=0, atol=0)
    assert later or not optimizer.state
    last.grad = None
    optimizer.step()
    assert (first != 1).all()
    kept = copy.deepcopy(optimizer.state_dict()["state"])
    before.grad = torch.ones(3).to_sparse()
    with pytest.raises(TypeError, match="sparse"):
        optimizer.step()
    torch.testing.assert_close(optimizer.state_dict()["state"], kept, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["SGD", "SGD momentum", "Adam", "AdamW amsgrad"])
def test_gradients_that_are_negative_views(kind: str) -> None:
    """As torch takes them, beside others."""
    name, options = KINDS[kind]
    found = []
    for module in (optim, torch.optim):
        params = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
        optimizer = getattr(module, name)(params, **options)
        for view in (False, True, False):
            for p in params:
                p.grad = torch.full((3,), 2.0)
            if view:
                params[1].grad = torch._neg_view(torch.full((3,), 2.0))
            optimizer.step()
        found.append([p.detach() for p in params])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("kind", ["SGD momentum", "Adam", "AdamW amsgrad"])
def test_states_in_the_parameter_s_memory(kind: str) -> None:
    """Are refused before anything is changed."""
    name, options = KINDS[kind]
    before, last = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    optimizer = getattr(optim, name)([before, last], **options)
    for p in (before, last):
        p.grad = torch.ones(3)
    optimizer.step()
    memory = torch.ones(5)
    last.data, optimizer.state[last][[*optimizer.state[last]][-1]] = memory[:3], memory[2:]
    kept = copy.deepcopy((optimizer.state_dict()["state"], before.data, memory))
    with pytest.raises(ValueError, match="may share"):
        optimizer.step()
    torch.testing.assert_close((optimizer.state_dict()["state"], before.data, memory), kept, rtol=0, atol=0)


def counted() -> tuple[Any, torch.nn.Parameter]:
    """An optimiser that did a step, and a parameter of it."""
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    optimizer = optim.Adam([p])
    optimizer.step()
    return optimizer, p


def test_a_step_on_an_executor_that_is_freed_changes_nothing() -> None:
    def work() -> None:
        optimizer, p = counted()
        kept = copy.deepcopy((optimizer.state_dict()["state"], p.data))
        executor_for(p.device).cleanup()
        with pytest.raises(RuntimeError, match="freed"):
            optimizer.step()
        torch.testing.assert_close((optimizer.state_dict()["state"], p.data), kept, rtol=0, atol=0)
        done.append(True)

    done: list[bool] = []
    thread = threading.Thread(target=work)  # which has executors of its own
    thread.start()
    thread.join()
    assert done


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_step_in_a_fork_s_child_changes_nothing() -> None:
    code = """
import os, torch
from test_optim import counted
optimizer, p = counted()
before, count = p.data.clone(), float(optimizer.state[p]["step"])
if os.fork() == 0:
    try:
        optimizer.step()
    except RuntimeError as error:
        same = torch.equal(before, p.data) and float(optimizer.state[p]["step"]) == count
        os._exit(0 if same and type(error).__name__ == "ForkError" else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
"""
    done = fresh.run(code)
    assert done.returncode == 0, done.stderr


def within(memory: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """A parameter and its gradient, in one piece of memory."""
    rows = memory[:24].view(4, 6)
    return {
        "shifted": (memory[:12], memory[2:14]),
        "shifted back": (memory[2:14], memory[:12]),
        "the same": (memory[:12], memory[:12]),
        "between": (memory[:24:2], memory[1:24:2]),
        "columns": (rows[:, :3], rows[:, 2:5]),
        "transposed": (rows[:3, :3], rows[:3, :3].t()),
        "beside": (memory[:12], memory[12:24]),
    }


@pytest.mark.parametrize("asked", ["C", "Python"])
@pytest.mark.parametrize("case", within(torch.zeros(24)))
@pytest.mark.parametrize("kind", ["SGD", "SGD momentum", "Adam", "AdamW amsgrad"])
def test_gradients_in_the_parameter_s_memory(kind: str, case: str, asked: str) -> None:
    """A step computes with the gradient that there was before, whoever looks where it is."""
    name, options = KINDS[kind]
    found = []
    for shared in (False, True):
        p, g = within(torch.arange(1.0, 25.0))[case]
        other = torch.nn.Parameter(torch.ones(3))
        param = torch.nn.Parameter(p.clone(memory_format=torch.preserve_format))
        optimizer = getattr(optim, name)([other, param], **options)
        other.grad, param.grad = torch.ones(3), torch.ones(p.shape)
        optimizer.step()
        param.data, param.grad = (p, g) if shared else (p.clone(), g.clone())
        if asked == "Python":
            other.grad = torch._neg_view(torch.full((3,), -1.0))
        optimizer.step()
        assert param.data.data_ptr() == p.data_ptr() or not shared
        found.append((other, param, [*optimizer.state.values()]))
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_gradients_that_are_not_aligned() -> None:
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.frombuffer(bytearray(b"_" + b"\0\0\x80?" * 3), dtype=torch.float32, offset=1)
    optim.SGD([p], lr=0.5).step()
    assert p.tolist() == [0.5] * 3


COUNTS = [torch.tensor(3), torch.tensor([3.0]), torch.tensor(3.0, dtype=torch.float64)]


@pytest.mark.parametrize("count", COUNTS, ids=str)
def test_counts_of_steps_of_other_kinds(count: torch.Tensor) -> None:
    """A state's number of steps may be any tensor of one number, an integer too."""
    found = []
    for module in (optim, torch.optim):
        p = torch.nn.Parameter(torch.ones(3))
        optimizer = module.Adam([p], lr=0.1)
        for i in range(3):
            p.grad = torch.full((3,), 2.0 - i)
            optimizer.step()
            if not i:
                optimizer.state[p]["step"] = count.clone()
        found.append([p.detach(), optimizer.state[p]["step"]])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("kind", ["Adam", "Adam amsgrad"])
def test_counts_of_steps(kind: str) -> None:
    """As torch has them, whatever tensors they are in: those that C reads, and others."""
    given: dict[str, Any] = {
        "as ever": torch.tensor(2.0),
        "f64": torch.tensor(2.0, dtype=torch.float64),
        "f16": torch.tensor(2.0, dtype=torch.float16),
        "int64": torch.tensor(2),
        "one dimension": torch.tensor([2.0]),
        "with a gradient": torch.tensor(2.0, requires_grad=True),
        "a view": torch.arange(4.0)[2],
        "negated": torch._neg_view(torch.tensor(-2.0)),
        "a parameter": torch.nn.Parameter(torch.tensor(2.0)),
    }
    for what, count in given.items():
        results = []
        for module in (optim, torch.optim):
            params = [torch.nn.Parameter(torch.ones(3)) for _ in range(3)]
            optimizer = module.Adam(params, **{**KINDS[kind][1], "foreach": False})
            for round in range(3):
                for p in params[round % 2 :]:  # so steps differ
                    p.grad = torch.full((3,), 1.0 + round)
                optimizer.step()
                if round == 0:
                    copied = copy.deepcopy(count)
                    optimizer.state[params[1]]["step"] = copied
                    version = copied._version
            assert copied._version == version + 2, what
            results.append([*params, *[optimizer.state[p]["step"].double().view(()) for p in params]])
        torch.testing.assert_close(results[0], results[1], msg=lambda m, what=what: f"{what}: {m}")


@pytest.mark.parametrize("to_none", [False, True])
def test_zero_grad(to_none: bool) -> None:
    """Torch's: gradients that have gradients lose them, and other kinds of tensors are zeros of their kind."""

    class Other(torch.Tensor):
        pass

    def grads() -> list[Any]:
        leaf = torch.ones(3, requires_grad=True)
        of = [torch.ones(3), leaf, leaf * 2, torch.ones(3).to_sparse(), torch.ones(3).as_subclass(Other), None]
        return [*of, torch.ones(1).expand(3).clone()]

    for kept in (grads(), *([g] for g in grads())):  # together, and each alone: one that is torch's makes all torch's
        results = []
        for kind in (optim.SGD, torch.optim.SGD):
            params = [torch.nn.Parameter(torch.ones(3)) for _ in kept]
            for p, g in zip(params, kept):
                leaf = g is not None and g.requires_grad and g.is_leaf
                p.grad = None if g is None else g.detach().clone().requires_grad_() if leaf else g.clone()
            before = [p.grad for p in params]
            kind([{"params": params[:1]}, {"params": params[1:]}] if kept[1:] else params, lr=0.1).zero_grad(to_none)
            now = [p.grad for p in params]
            results.append([None if g is None else (g.to_dense(), g.requires_grad, g.grad_fn is None) for g in now])
            assert to_none or all(p.grad is g for p, g in zip(params, before))
        torch.testing.assert_close(results[0], results[1])


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate parameters")
def test_a_parameter_that_stands_twice_has_two_steps() -> None:
    """As of torch, which goes by the parameters one after the other."""
    found = []
    for kind in (optim.Adam, torch.optim.Adam):
        p, q = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2))
        optimizer = kind([p, q, p], lr=0.1, foreach=False)
        for _ in range(3):
            p.grad, q.grad = torch.tensor([1.0, -2.0, 3.0]), torch.ones(2)
            optimizer.step()
        found.append((p, q, optimizer.state[p]["step"], optimizer.state[q]["step"]))
    torch.testing.assert_close(*found)
