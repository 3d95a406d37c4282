"""What a function of tensors refuses has changed nothing: no element, no version, no later call.

torch's own samples (OpInfo) are given to each function with one argument after the other exchanged for each of many
that do not fit, or that raise when they are looked at.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
import pytest
import torch
from opinfo import CALLED, NAMES, samples
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

import hologram as hg
from hologram._ffi import native
from hologram_torch import functional as F


class Raising:
    """What raises as soon as anything is asked of it."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def stop(self, *_: Any, **__: Any) -> Any:
        raise self.error("stop")

    __index__ = __float__ = __int__ = __bool__ = __len__ = __iter__ = __dlpack__ = __array__ = stop

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt("stop")


class Interrupting(Tensor):
    """A tensor of which torch's functions raise."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        raise KeyboardInterrupt("stop")


def unfit(t: Tensor) -> list[Any]:
    """What does not fit where a tensor, or something else, is expected."""
    freed = hg.Executor("cpu").allocate(3)
    freed.free()
    return [
        *(None, "x", 1j, float("nan"), -1, 1 << 70, [1.0], object(), freed, np.zeros(3), torch.float8_e5m2),
        *(
            shared(t),
            torch._neg_view(t.detach()) if t.dtype.is_floating_point else None,
            t.detach()[..., None].expand(*t.shape, 3),
            torch.zeros(7, 1, 2, 1, 1, 1),
            torch.zeros(0),
            torch.zeros(3, 0),
        ),
        *(
            torch.ones(2, 2).to_sparse(),
            torch.zeros(t.shape, device="meta"),
            torch.zeros(t.shape, dtype=torch.complex64),
        ),
        *(t.detach().to(torch.float8_e5m2), t.detach().to(torch.int64), t.detach() > 0, t.detach().double()),
        *(Raising(KeyboardInterrupt), Raising(ValueError), t.detach().clone().as_subclass(Interrupting)),
    ]


def shared(t: Tensor) -> Tensor:
    """A tensor whose elements share memory, so that it can't be written."""
    return t.detach().flatten()[:1].expand(t.numel()).view(t.shape) if t.ndim == 1 else torch.zeros(()).expand(3)


def state(values: list[Any]) -> list[Any]:
    """The elements and versions of tensors."""
    found: list[Any] = []
    for value in values:
        if type(value) in (Tensor, torch.nn.Parameter) and value.layout is torch.strided and not value.is_meta:
            bits = (
                value.detach().resolve_neg().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
                if value.numel()
                else b""
            )
            found.append(
                (
                    value._version,
                    value.requires_grad,
                    value.grad is None,
                    value.shape,
                    bits,
                )
            )
    return found


def outcome(function: Callable[..., Any], arguments: Any, keywords: Any) -> list[Any]:
    """A call's result and gradients, of copies of its arguments, as bytes, and what is left in these."""
    copies = tree_map(fresh, (arguments, keywords))
    result = function(*copies[0], **copies[1])
    leaves = [v for v in tree_flatten(copies)[0] if isinstance(v, Tensor) and v.requires_grad]
    slopes = torch.autograd.grad(result.sum(), leaves, allow_unused=True) if result.requires_grad and leaves else ()
    made = [about[1:] for about in state([result.detach(), *(s for s in slopes if s is not None)])]
    return made + state(tree_flatten(copies)[0])


def fresh(value: Any) -> Any:
    if type(value) is Tensor and value.layout is torch.strided and not value.is_meta:
        return value.detach().clone().requires_grad_(value.requires_grad)
    return value


@pytest.fixture(autouse=True, scope="module")
def quick_collections() -> Iterator[None]:
    """Leave what was there before to itself: torch has so much that each collection would take half a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_what_is_refused_has_changed_nothing(name: str) -> None:
    function = CALLED.get(name, getattr(F, name))
    found = samples(name, torch.float32)
    some = [found[0][1], found[len(found) // 2][1], found[-1][1]]
    refused = 0
    listed = inspect.signature(getattr(F, name)).parameters
    calls: list[Any] = [((s.input, *s.args), s.kwargs) for s in some]
    calls = calls[: 1 + (name in ("batch_norm", "layer_norm", "cross_entropy", "where", "addmm", "linear"))]
    if name == "batch_norm":  # which moves two tensors, or neither
        calls.append(((torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3)), {"training": True}))
    if "out" in listed:
        plain = tree_map(lambda v: v.detach() if isinstance(v, Tensor) else v, calls[0])
        for out in (torch.zeros(0), torch.zeros_like(function(*plain[0], **plain[1]))):
            calls.append((plain[0], {**plain[1], "out": out}))
    for right in calls:
        expected = outcome(function, *right)
        flat, spec = tree_flatten(right)
        tensor = next(v for v in flat if isinstance(v, Tensor))
        given = [v if isinstance(v, Tensor) else tensor for v in flat]
        for at, wrong in [(i, w) for i, t in enumerate(given) for w in unfit(t)]:
            values = [fresh(v) for v in flat]
            values[at] = wrong
            held = state(values)
            arguments, keywords = tree_unflatten(values, spec)
            try:
                function(*arguments, **keywords)
            except (Exception, KeyboardInterrupt) as error:
                error.__traceback__ = None
                refused += 1
                assert state(values) == held, (name, at, wrong)
            if refused % 10 == 0:
                assert outcome(function, *right) == expected, (name, at, wrong)
        assert outcome(function, *right) == expected, name
        del values, arguments, keywords, wrong
    gc.collect()
    assert native.kept() == 0
    assert refused >= 10


def test_an_out_that_requires_grad_is_written_where_nothing_is_recorded() -> None:
    x, leaf = torch.randn(8), torch.zeros(8, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        F.add(x, x, out=leaf)
    assert not leaf.any() and leaf._version == 0
    with torch.no_grad():
        assert F.add(x, x, out=leaf) is leaf
    assert torch.equal(leaf, x + x)


@pytest.mark.parametrize(
    ("called", "what"),
    [
        (lambda x, y: F.exp(x), "exp: input 1"),
        (lambda x, y: F.mul(y, x), "mul: input 2"),
        (lambda x, y: F.softmax(x, 0), "softmax: input"),
    ],
    ids=["one", "two", "rows"],
)
@pytest.mark.parametrize("kind", ["dimensions", "negative"])
def test_it_is_said_of_which_function_which_argument_is_refused(
    called: Callable[..., Any], what: str, kind: str
) -> None:
    if kind == "dimensions":
        x, y, why = torch.ones([2] * 10).transpose(0, 1), torch.ones(2), "shape .* dimensions; at most 8"
    else:
        x, y, why = torch._neg_view(torch.ones(3, 3)), torch.ones(3, 3), "the tensor is a negative view"
    with pytest.raises(ValueError, match=f"^{what}: {why}"):
        called(x, y)


WITHOUT_MEMORY: dict[str, Callable[[Any], Any]] = {
    "functional": torch._to_functional_tensor,
    "zero": lambda x: torch._efficientzerotensor(tuple(x.shape)),
    "nested": lambda x: torch.nested.nested_tensor([*x]),
    "mkldnn": lambda x: x.to_mkldnn(),
}


@pytest.mark.parametrize("of", ["input", "weight"])
@pytest.mark.parametrize("name", ["linear", "layer_norm", "rms_norm", "cross_entropy", "softmax", "relu"])
@pytest.mark.parametrize("kind", WITHOUT_MEMORY)
def test_what_has_no_memory_is_told_at_each_call(kind: str, name: str, of: str) -> None:
    """The third too, which would be remembered."""
    x, wide, row, target = torch.ones(3, 3), torch.ones(3, 3), torch.ones(3), torch.tensor([0, 1, 2])
    if of == "input":
        x = WITHOUT_MEMORY[kind](x)
    elif name in ("softmax", "relu"):
        pytest.skip("it has no weight")
    elif name == "linear":
        wide = WITHOUT_MEMORY[kind](wide)
    elif kind == "nested":
        pytest.skip("torch nests no numbers")
    else:
        row = WITHOUT_MEMORY[kind](row)
    calls: dict[str, Callable[[], Any]] = {
        "linear": lambda: F.linear(x, wide),
        "layer_norm": lambda: F.layer_norm(x, (3,), row),
        "rms_norm": lambda: F.rms_norm(x, (3,), row),
        "cross_entropy": lambda: F.cross_entropy(x, target, row),
        "softmax": lambda: F.softmax(x, 0),
        "relu": lambda: F.relu(x),
    }
    for _ in range(5):
        with pytest.raises((TypeError, ValueError), match=r"has no memory|is nested|has layout|mkldnn|dense"):
            calls[name]()


def test_an_embedding_of_no_rows() -> None:
    with pytest.raises(IndexError, match=r"input\[0\] is 0; weight has no rows"):
        F.embedding(torch.tensor([0]), torch.ones(0, 3))


@pytest.mark.parametrize("name", ["add", "mul", "maximum"])
def test_numbers_beside_bools_that_int64_has_not(name: str) -> None:
    """They would be uint64, to which torch does not promote bools either."""
    mask = torch.tensor([True])
    assert getattr(F, name)(mask, 2**62).dtype == torch.int64
    with pytest.raises(OverflowError, match=f"{name}: the number {2**63} beside a tensor of torch.bool"):
        getattr(F, name)(mask, 2**63)
