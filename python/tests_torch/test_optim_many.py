"""Steps over many parameters: what C gathers and launches has the bits of one parameter after the other, by Python."""

from __future__ import annotations

import copy
import gc
import random
import weakref
from typing import Any, Callable

import pytest
import torch
from test_optim import KINDS

import hologram as hg
from hologram._ffi import native
from hologram_torch import functional as F
from hologram_torch import optim
from hologram_torch._operands import opmath

KINDS = {**KINDS, "Adam capturable": ("Adam", {"capturable": True})}
SHAPES = [(3, 4), (5,), (), (0, 2), (2, 3, 2), (64,), (33, 17), (4096,), (9000,)]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def parameters(seed: int, dtypes: list[torch.dtype], device: str = "cpu") -> list[torch.nn.Parameter]:
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    found = []
    for _ in range(rng.randint(6, 14)):
        t = torch.randn(rng.choice(SHAPES), generator=generator).to(device, rng.choice(dtypes))
        found.append(torch.nn.Parameter(t.t().contiguous().t() if t.ndim == 2 and rng.random() < 0.5 else t))
    return found


def give(params: list[torch.nn.Parameter], seed: int, none: float = 0.2) -> None:
    """Give gradients: none to some, others in another order than the parameter."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    for p in params:
        g = torch.randn(p.shape, generator=generator).to(p.device, p.dtype)
        g = g.t().contiguous().t() if g.ndim == 2 and rng.random() < 0.5 else g
        p.grad = None if rng.random() < none else g


def held(optimizer: Any, params: list[torch.nn.Parameter]) -> list[Any]:
    return [(p.detach(), dict(optimizer.state[p]) if p in optimizer.state else {}) for p in params]


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


def by_python(run: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        for name in ("torch_lists", "torch_counts"):
            patch.setattr(native, name, lambda *arguments: None)
        patch.setattr(native, "launch_each", lambda *arguments: 0)
        run()


@pytest.mark.parametrize("kind", KINDS)
def test_c_takes_all_but_first_steps(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, options = KINDS[kind]
    F.add(torch.ones(1), 1.0)  # by which C learns about torch
    params, taken, lists = parameters(1, DTYPES), [], native.torch_lists
    optimizer = getattr(optim, name)(params, **options)

    def seen(*arguments: Any) -> Any:
        taken.append(lists(*arguments))
        return taken[-1]

    monkeypatch.setattr(native, "torch_lists", seen)
    for round in range(3):
        give(params, round, none=0.3 if round else 0.0)
        optimizer.step()
    first = kind in ("SGD", "SGD decay", "SGD maximize")  # which have no states
    assert [found is not None for found in taken] == [first, True, True]


@pytest.mark.parametrize("dtypes", [[dtype] for dtype in DTYPES] + [DTYPES], ids=lambda d: f"{len(d)}{d[0]}")
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bits(kind: str, dtypes: list[torch.dtype], device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all at once, of an optimiser for each parameter, and without what C does."""
    name, options = KINDS[kind]
    make = getattr(optim, name)
    many, python = (parameters(3, dtypes, device) for _ in range(2))
    alone = [torch.nn.Parameter(p.detach().clone()) for p in many]
    half = len(many) // 2
    whole, plain = (make([{"params": ps[:half]}, {"params": ps[half:]}], **options) for ps in (many, python))
    each = [make([p], **options) for p in alone]
    for round in range(5):
        for params in (many, python, alone):
            give(params, round)
        for optimizer in (whole, plain, *each):
            if round % 2 and not isinstance(optimizer.param_groups[0]["lr"], torch.Tensor):
                for group in optimizer.param_groups:
                    group["lr"] *= 0.7
        whole.step()
        by_python(plain.step, monkeypatch)
        for optimizer in each:
            optimizer.step()
        if round == 2:
            whole.load_state_dict(copy.deepcopy(whole.state_dict()))
    same(held(whole, many), held(plain, python))
    same(held(whole, many), [held(optimizer, [p])[0] for optimizer, p in zip(each, alone)])


@pytest.mark.parametrize("kind", ["SGD momentum", "Adam", "AdamW amsgrad"])
@pytest.mark.parametrize(
    "change", ["data", "larger", "dtype", "replaced", "added", "twice", "no state", "plain", "reordered", "deleted"]
)
def test_what_changes_between_steps(kind: str, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is remembered of a parameter: each step goes by what there is now."""
    name, options = KINDS[kind]
    outcomes = []
    for way in range(2):
        params = [torch.nn.Parameter(torch.linspace(-1, 1, 6).view(2, 3) + i) for i in range(5)]
        optimizer = getattr(optim, name)(params, **options)

        def step(seed: int, way: int = way, params: Any = params, optimizer: Any = optimizer) -> None:
            give(params, seed, none=0.0)
            optimizer.step() if way else by_python(optimizer.step, monkeypatch)

        step(0)
        p, group = params[2], optimizer.param_groups[0]
        if change == "data":  # other memory of another order
            p.data = torch.ones(3, 2).t()
        elif change == "larger":
            p.grad = None
            p.data = torch.ones(7)
            optimizer.state.pop(p)
        elif change == "dtype":
            p.grad = None
            p.data = p.data.double()
        elif change == "replaced":
            params[2] = group["params"][2] = torch.nn.Parameter(torch.ones(4))
        elif change == "added":
            params.append(torch.nn.Parameter(torch.ones(4)))
            optimizer.add_param_group({"params": params[-1:]})
        elif change == "twice":
            group["params"].append(p)
        elif change == "no state":
            optimizer.state.pop(params[1])
        elif change == "plain":
            optimizer.state = dict(optimizer.state)
        elif change == "reordered":
            group["params"].reverse()
        elif change == "deleted":
            del group["params"][1]
        step(1)
        step(2)
        outcomes.append(held(optimizer, params))
    same(outcomes[0], outcomes[1])


@pytest.mark.parametrize("kind", ["SGD", "SGD momentum", "Adam"])
@pytest.mark.parametrize("bad", ["sparse", "dtype", "state"])
def test_one_of_many_that_is_refused(kind: str, bad: str) -> None:
    name, options = KINDS[kind]
    params = [torch.nn.Parameter(torch.ones(4)) for _ in range(20)]
    optimizer = getattr(optim, name)(params, **options)
    give(params, 0, none=0.0)
    optimizer.step()
    give(params, 1, none=0.0)
    if bad == "sparse":
        params[17].grad = torch.ones(4).to_sparse()
    elif bad == "dtype":
        params[17].data = torch.ones(4, dtype=torch.complex64)
    elif name == "Adam":
        optimizer.state[params[17]]["exp_avg"] = torch.ones(())  # a number in an array's place
    elif kind == "SGD momentum":
        optimizer.state[params[17]]["momentum_buffer"] = torch.ones(())
    else:
        return
    before = copy.deepcopy(held(optimizer, params))
    with pytest.raises((TypeError, ValueError), match=r"sparse|complex64|shapes|dtype"):
        optimizer.step()
    same(held(optimizer, params), before)


def test_what_is_gathered() -> None:
    params = [torch.nn.Parameter(torch.ones(2)) for _ in range(4)]
    give(params, 0, none=0.0)
    params[1].grad = None
    state: dict[Any, Any] = {p: {"a": torch.zeros(2), "n": torch.tensor(float(i))} for i, p in enumerate(params)}
    p, q = params[0], params[2]

    def lists(kept: Any = ("a",), count: Any = "n") -> Any:
        return native.torch_lists(params, state, kept, count)

    for _ in range(2):  # in the order of states, and in another
        arrays, counts = lists()
        assert [id(t) for t in arrays[:5]] == [id(t) for t in (p, p.grad, state[p]["a"], p, state[p]["a"])]
        assert [id(t) for t in arrays[5:10]] == [id(t) for t in (q, q.grad, state[q]["a"], q, state[q]["a"])]
        assert len(arrays) == 15
        assert [int(n) for n in counts] == [0, 2, 3]
        state = dict(reversed(state.items()))
    assert lists(("a",), None)[1] == ()
    assert [id(t) for t in lists((), None)[0][:3]] == [id(t) for t in (p, p.grad, p)]
    state.pop(params[1])  # which has no gradient
    assert lists() is not None
    for value in (None, 1.0, [torch.ones(2)]):
        state[q]["a"] = value
        assert lists() is None
    del state[q]["a"]
    assert lists() is None
    assert native.torch_lists(tuple(params), state, (), None) is None
    assert native.torch_lists([1], state, (), None) is None
    assert native.torch_lists([], state, ("a",), "n") == ((), ())


def test_counts_are_one_where_they_agree() -> None:
    a, b = torch.tensor(3.0), torch.tensor(3.0)
    assert native.torch_counts((a, b), False) == 3.0
    assert native.torch_counts((a, b), True) == 4.0
    assert native.torch_counts((a,), True) == 5.0
    assert native.torch_counts((a, b), False) == (5.0, 4.0)
    assert native.torch_counts((), False) is None
    assert native.torch_counts((a, torch.tensor(1)), True) is None
    assert (a, b) == (5.0, 4.0)


def test_nothing_is_kept() -> None:
    params = [torch.nn.Parameter(torch.ones(3)) for _ in range(5)]
    optimizer = optim.Adam(params)
    for round in range(4):
        give(params, round, none=0.0)
        optimizer.step()
        optim.clip_grad_norm_(params, 1.0)
    gone = [weakref.ref(t) for p in params for t in (p, p.grad, *optimizer.state[p].values())]
    del params, optimizer
    gc.collect()
    assert not any(t() is not None for t in gone)


def clipped(grads: list[torch.Tensor], most: float, norm: float) -> torch.Tensor:
    """The norm and what becomes of gradients, of functions one after the other."""
    apart = [grads[0].flatten()]  # neighbours of a dtype are one, up to 65,536 elements
    for g in grads[1:]:
        if g.dtype == apart[-1].dtype and g.numel() + apart[-1].numel() <= 65536:
            apart[-1] = torch.cat([apart[-1], g.flatten()])
        else:
            apart.append(g.flatten())
    wide = [g.to(opmath(g.dtype)) for g in apart]
    dtype = grads[0].dtype
    for g in grads:
        dtype = torch.promote_types(dtype, g.dtype)
    if norm == 2:
        found = F.sqrt(F.sum(torch.stack([F.sum(F.square(g)).to(opmath(dtype)) for g in wide])))
    elif norm == float("inf"):
        found = F.amax(torch.stack([F.amax(F.abs(g)).to(opmath(dtype)) for g in wide]))
    else:
        parts = [F.sum(F.pow(F.abs(g), norm)).to(opmath(dtype)) for g in wide]
        found = F.pow(F.sum(torch.stack(parts)), 1.0 / norm)
    found = found.to(dtype)
    factor = F.clamp(F.div(most, F.add(found, 1e-6)), max=1.0)
    for g in grads:
        g.copy_(F.mul(g, factor))
    return found


@pytest.mark.parametrize("dtypes", [[d] for d in DTYPES] + [DTYPES[:2], DTYPES[1:]], ids=lambda d: f"{len(d)}{d[0]}")
@pytest.mark.parametrize("norm", [2.0, 3.0, float("inf")])
def test_clipping_has_the_bits_of_functions(norm: float, dtypes: list[torch.dtype], device: str) -> None:
    for seed in range(4):  # of which the third repeats what is known by then
        for most in (0.5, 1e6):
            params = [p for p in parameters(seed % 2, dtypes, device) if p.numel()]
            give(params, seed)
            grads = [p.grad.clone() for p in params if p.grad is not None]
            same(optim.clip_grad_norm_(params, most, norm), clipped(grads, most, norm))
            same([p.grad for p in params if p.grad is not None], grads)


def test_clipping_of_more_than_are_one(device: str) -> None:
    shapes = [(65535,), (), (1,), (0,), (2, 40000), (300, 3), (65536,), (7,)]
    params = [torch.nn.Parameter(torch.empty(shape, device=device)) for shape in shapes]
    for p in params:
        p.grad = torch.randn(p.shape, device=device)
    params[5].grad = torch.randn(3, 300, device=device).t()
    grads = [p.grad.clone() for p in params if p.grad is not None]
    same(optim.clip_grad_norm_(params, 0.5, 2.0), clipped(grads, 0.5, 2.0))
    same([p.grad for p in params if p.grad is not None], grads)


def test_clipping_begins_with_what_is_empty_or_sparse(device: str) -> None:
    for shapes in ([(0,)], [(0,), (3,)], [(0, 2), (0,), (5,), (0,)]):
        params = [torch.nn.Parameter(torch.empty(shape, device=device)) for shape in shapes]
        for p in params:
            p.grad = torch.randn(p.shape, device=device)
        grads = [p.grad.clone() for p in params if p.grad is not None]
        same(optim.clip_grad_norm_(params, 0.5, 2.0), clipped(grads, 0.5, 2.0))
        same([p.grad for p in params if p.grad is not None], grads)
    sparse, dense = (torch.nn.Parameter(torch.zeros(3, device=device)) for _ in range(2))
    sparse.grad, dense.grad = torch.ones(3, device=device).to_sparse(), torch.ones(3, device=device)
    with pytest.raises(TypeError, match="dense"):
        optim.clip_grad_norm_([sparse, dense], 1.0)


def test_clipping_numbers_beside_wider_gradients(device: str) -> None:
    """A gradient without dimensions is multiplied in the norm's dtype, where that is the wider, and rounded once."""
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        given = [(torch.rand(n, generator=generator, dtype=torch.float64) + 1).to(device) for n in ((), (), (3,))]
        given[0] = given[0].float()
        params = [torch.nn.Parameter(torch.zeros_like(g)) for g in given]
        for p, g in zip(params, given):
            p.grad = g.clone()
        same([optim.clip_grad_norm_(params, 0.5)], [clipped(given, 0.5, 2.0)])
        same([p.grad for p in params], given)


def test_clipping_what_is_not_written_in_its_own_memory() -> None:
    """As mul with out= does it."""
    p, q = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
    p.grad, q.grad = torch.ones(3), torch.ones(1).expand(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        optim.clip_grad_norm_([p, q], 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_that_share_memory(device: str, kind: str) -> None:
    """Each step sees what those before it wrote, in their order: on a GPU too, where others' are one launch."""
    name, options = KINDS[kind]

    def stepped(together: bool) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(3)
        memory = torch.randn(40, generator=generator).to(device)
        params = [torch.nn.Parameter(memory[at : at + 12]) for at in (0, 5, 20, 28, 10)]
        grads = [torch.randn(12, generator=generator).to(device) for _ in params]
        groups = [params] if together else [[p] for p in params]
        optimizers = [getattr(optim, name)(group, **options) for group in groups]
        for _ in range(3):
            for p, g in zip(params, grads):
                p.grad = g.clone()
            for optimizer in optimizers:
                optimizer.step()
        return [memory]

    same(stepped(True), stepped(False))


def launched(work: Callable[[], Any]) -> list[str]:
    """Return the names of the kernels that work has a GPU run."""
    work()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work()
        torch.cuda.synchronize()
    return [e.name for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]


@pytest.mark.skipif(not (torch.cuda.is_available() and hg.is_cuda_available()), reason="needs a CUDA device")
def test_a_step_is_one_launch() -> None:
    """Of as many parameters of a dtype as a launch has room for, whatever their shapes, each with its own bits."""
    for dtype, n in ((torch.float32, 200), (torch.bfloat16, 7)):
        params = [torch.nn.Parameter(torch.randn(SHAPES[i % 6], device="cuda").to(dtype)) for i in range(n)]
        alone = copy.deepcopy(params)
        grads = [torch.randn_like(p) for p in params]

        def give_all(to: list[torch.nn.Parameter], grads: list[torch.Tensor] = grads) -> None:
            for p, g in zip(to, grads):
                p.grad = g.clone()

        give_all(params)
        give_all(alone)
        optimizer, others = optim.Adam(params), [optim.Adam([p]) for p in alone]
        for _ in range(3):
            optimizer.step()
            for other in others:
                other.step()
        same([p.detach() for p in params], [p.detach() for p in alone])
        assert len(launched(optimizer.step)) == 1
        graph = torch.cuda.CUDAGraph()
        captured = optim.SGD(params, lr=0.1)
        for _ in range(2):
            captured.step()
        torch.cuda.synchronize()
        before = [p.detach().clone() for p in params]
        with torch.cuda.graph(graph):
            captured.step()
        assert len(launched(graph.replay)) == 1  # twice, the first time unseen
        expected = copy.deepcopy(params)
        for p, start, g in zip(expected, before, grads):
            p.data.copy_(start)
            p.grad = g.clone()
        for _ in range(2):
            optim.SGD(expected, lr=0.1).step()
        same([p.detach() for p in params], [p.detach() for p in expected])


@pytest.mark.skipif(not (torch.cuda.is_available() and hg.is_cuda_available()), reason="needs a CUDA device")
def test_a_batch_is_no_part_of_a_recording() -> None:
    """Which repeats single calls: it is spoiled, so that nothing is repeated without the batch."""
    params = [torch.nn.Parameter(torch.ones(8, device="cuda")) for _ in range(4)]
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer = optim.SGD(params, lr=0.5)
    optimizer.step()
    optimizer.step()
    native.torch_record(True)
    try:
        optimizer.step()
        assert native.torch_recorded() < 0
    finally:
        native.torch_record(False)
    assert [p.tolist() for p in params] == [[-0.5] * 8] * 4
