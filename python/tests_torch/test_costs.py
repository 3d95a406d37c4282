"""What calls on a GPU take besides their work: no wait for the device, and no memory but their results'."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Callable

import pytest
import torch
from kernel_cases import CASES as KERNELS
from moving import moved
from opinfo import CALLED, NAMES, samples
from torch import Tensor
from torch.utils._pytree import tree_map

import hologram as hg
import hologram_torch
from hologram_torch import functional as F
from hologram_torch import optim

pytestmark = pytest.mark.skipif(
    not (torch.cuda.is_available() and hg.is_cuda_available()), reason="needs a CUDA device"
)


@contextmanager
def busy(cycles: int, done: torch.cuda.Event) -> Iterator[None]:
    """What is done inside must not ask torch to wait for the device, which is done with its work when the event is."""
    torch.cuda.synchronize()
    torch.cuda._sleep(cycles)
    done.record()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
        torch.cuda.synchronize()


def waits_for_nothing(calls: list[Callable[[], Any]], known: int = 4) -> None:
    """Of calls that are known; the first ones compile, and record what later ones repeat."""
    for _ in range(known):
        for call in calls:
            call()
    for cycles in 1 << 30, 1 << 34:  # half a second; and where the machine was held up as long, ten
        done = torch.cuda.Event()
        with busy(cycles, done):
            for call in calls:
                call()
            waited = done.query()
        if not waited:
            return
    pytest.fail("a call waited for the device")


def both_ways(function: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]) -> Callable[[], Any]:
    """A call and the gradients of all that need one."""
    leaves = [t for t in (*given, *named.values()) if isinstance(t, Tensor) and t.requires_grad]
    y = function(*given, **named)
    y = y if isinstance(y, tuple) else (y,)
    g = [torch.ones_like(t) if t.requires_grad else None for t in y]

    def call() -> None:
        results = function(*given, **named)
        results = results if isinstance(results, tuple) else (results,)
        recorded = [(t, by) for t, by in zip(results, g) if by is not None]
        if recorded and leaves:
            outputs, by = zip(*recorded)
            torch.autograd.grad(outputs, leaves, by, allow_unused=True)

    return call


@pytest.mark.filterwarnings("ignore:reduction")  # of torch's kl_div
@pytest.mark.parametrize("name", [*NAMES, "dropout"])
def test_functions_and_their_gradients_wait_for_nothing(name: str) -> None:
    if name == "dropout":
        waits_for_nothing([both_ways(F.dropout, (torch.ones(64, 64, device="cuda", requires_grad=True),), {})])
        return
    function, calls = CALLED.get(name, getattr(F, name)), []
    found = [s for _, s in samples(name, torch.float32) if s.kwargs.get("max_norm") is None]  # which is torch's work
    for sample in found[:: -(-len(found) // 8)]:
        given, named = tree_map(partial(moved, device="cuda"), ((sample.input, *sample.args), sample.kwargs))
        calls.append(both_ways(function, given, named))
    waits_for_nothing(calls)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_wait_for_nothing(name: str) -> None:
    function, arguments = KERNELS[name]
    with torch.device("cuda"):
        given = arguments()
    waits_for_nothing([both_ways(function, given, {})])


@pytest.mark.parametrize("name", ["SGD", "SGD momentum", "Adam", "Adam capturable", "AdamW amsgrad"])
def test_training_waits_for_nothing(name: str) -> None:
    """A step of a converted model, norms and embedding in it, its gradients clipped."""
    kind, *rest = name.split()
    options: dict[str, Any] = {"momentum": 0.9} if "momentum" in rest else {}
    options |= {option: True for option in rest if option != "momentum"}
    model = torch.nn.Sequential(
        torch.nn.Embedding(50, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 32), torch.nn.GELU(),
        torch.nn.Dropout(0.1), torch.nn.Flatten(), torch.nn.BatchNorm1d(96), torch.nn.Linear(96, 5),
    ).cuda()  # fmt: skip
    hologram_torch.convert(model)
    optimizer = getattr(optim, kind)(model.parameters(), lr=0.01, **options)
    x, y = torch.randint(50, (24, 3), device="cuda"), torch.randint(5, (24,), device="cuda")

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    waits_for_nothing([step, step])


# ---- memory

N = 1024
LAYOUTS: dict[str, Callable[[], Tensor]] = {
    "in order": lambda: torch.rand(N, N, device="cuda") + 0.1,
    "turned": lambda: (torch.rand(N, N, device="cuda") + 0.1).t(),
    "every other": lambda: torch.rand(N, 2 * N, device="cuda")[:, ::2] + 0.0,
    "offset": lambda: (torch.rand(N * N + 3, device="cuda") + 0.1)[3:].view(N, N),
    "columns": lambda: (torch.rand(N, 2 * N, device="cuda") + 0.1)[:, ::2],
    "expanded": lambda: (torch.rand(1, N, device="cuda") + 0.1).expand(N, N),
}
UNARY = (
    "abs cos erf exp exp2 expm1 log log10 log1p log2 neg reciprocal rsqrt sigmoid sin sqrt square tan tanh "
    "relu gelu silu selu elu leaky_relu softplus logsigmoid"
).split()
CALLS: dict[str, Callable[[Tensor], Any]] = {
    **{name: getattr(F, name) for name in UNARY},
    **{f.__name__: lambda x, f=f: f(x, x[0]) for f in (F.add, F.sub, F.mul, F.div, F.maximum, F.minimum)},
    "pow": lambda x: F.pow(x, x[0]),
    "where": lambda x: F.where(MASK[0], x, 0.5),
    "clamp": lambda x: F.clamp(x, 0.2, 0.8),
    "mse_loss": lambda x: F.mse_loss(x, x, reduction="none"),
    "huber_loss": lambda x: F.huber_loss(x, x, reduction="none"),
    "dropout": lambda x: F.dropout(x, 0.25),
}
REDUCED: dict[str, Callable[[Tensor], Any]] = {
    **{f.__name__: f for f in (F.sum, F.mean, F.amax, F.amin)},
    **{f"{f.__name__} of columns": lambda x, f=f: f(x, 0) for f in (F.sum, F.mean, F.amax)},
    **{f"{f.__name__} of rows": lambda x, f=f: f(x, 1) for f in (F.sum, F.mean, F.amin)},
}
ROWS: dict[str, Callable[[Tensor], Any]] = {
    "softmax": lambda x: F.softmax(x, 1),
    "log_softmax": lambda x: F.log_softmax(x, 1),
    "layer_norm": lambda x: F.layer_norm(x, (N,)),
    "rms_norm": lambda x: F.rms_norm(x, (N,)),
    "linear": lambda x: F.linear(x, x[:64]),
    "mm": lambda x: F.mm(x, x),
    "cross_entropy": lambda x: F.cross_entropy(x, CLASSES[0]),
}
MASK: list[Tensor] = []
CLASSES: list[Tensor] = []


@pytest.fixture(autouse=True)
def others() -> Iterator[None]:
    """What some calls take besides, made once and let go."""
    if not MASK:
        MASK.append(torch.rand(N, N, device="cuda") > 0.5)
        CLASSES.append(torch.randint(N, (N,), device="cuda"))
    yield


def taken(call: Callable[[], Any]) -> tuple[Any, int]:
    """A known call's result, and the bytes that it took of torch's memory, what it gave back at once included."""
    for _ in range(4):
        call()
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocated_bytes.all.allocated"]
    result = call()
    return result, torch.cuda.memory_stats()["allocated_bytes.all.allocated"] - before


SMALL = 64 << 10
"""What seeds, numbers of rows and sums of parts may take."""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_are_all_that_is_taken(layout: str) -> None:
    x = LAYOUTS[layout]()
    rows = ROWS if x.is_contiguous() else {}  # which are put in order first
    wrong = {}
    for name, call in (CALLS | REDUCED | rows).items():
        result, more = taken(lambda call=call: call(x))
        if not result.nbytes <= more <= result.nbytes + SMALL:
            wrong[name] = (result.nbytes, more)
        assert result.data_ptr() != x.data_ptr()
    assert not wrong


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "expanded"])
def test_what_is_written_where_it_lies_takes_none(layout: str) -> None:
    x = LAYOUTS[layout]()
    at, kept = x.data_ptr(), x.clone()
    out = torch.empty_like(x)
    calls: dict[str, Callable[[], Any]] = {
        **{f.__name__: lambda f=f: f(x, inplace=True) for f in (F.relu, F.leaky_relu, F.elu, F.silu, F.selu)},
        **{f"{f.__name__} out": lambda f=f: f(x, x, out=x) for f in (F.add, F.mul, F.maximum)},
        **{f"{f.__name__} elsewhere": lambda f=f: f(x, out=out) for f in (F.exp, F.neg, F.sqrt)},
    }
    for name, call in calls.items():
        result, more = taken(call)
        assert more <= SMALL, name
        assert result.data_ptr() == (out if "elsewhere" in name else x).data_ptr(), name
    assert x.data_ptr() == at
    x.copy_(kept)
    F.add(x, 1.0, out=x)
    assert torch.equal(x, kept + 1)


def test_gradients_are_all_that_is_taken() -> None:
    """Backward, of what keeps its inputs alone: a gradient for each."""
    x, y = (LAYOUTS["in order"]().requires_grad_() for _ in range(2))
    g = torch.ones_like(x)
    for call in (F.mul, F.div, F.maximum):
        _, more = taken(lambda call=call: torch.autograd.grad(call(x, y), (x, y), g))
        assert more <= 3 * x.nbytes + SMALL, call
    _, more = taken(lambda: torch.autograd.grad(F.softmax(x, 1), x, g))
    assert more <= 2 * x.nbytes + SMALL


def test_optimisers_take_none() -> None:
    params = [torch.nn.Parameter(torch.randn(N, N, device="cuda")) for _ in range(3)]
    for p in params:
        p.grad = torch.randn_like(p)
    for make in (
        lambda: optim.SGD(params, lr=0.1, momentum=0.9),
        lambda: optim.AdamW(params),
        lambda: optim.Adam(params, capturable=True, amsgrad=True),
    ):
        optimizer = make()
        places = [p.data_ptr() for p in params]
        _, more = taken(optimizer.step)
        assert more <= SMALL
        assert places == [p.data_ptr() for p in params]
