"""The call that most functions come down to, made in C: where it is taken, and where torch wants more."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from moving import moved
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import hologram as hg
import hologram_torch
from hologram._ffi import native
from hologram_torch import _elementwise
from hologram_torch import functional as F
from hologram_torch._calls import called
from hologram_torch._executors import here
from hologram_torch._table import OPERATIONS

QUICK = native.torch_usual(False) if F.add(torch.ones(1), 1.0) is not None else False
needs_quick = pytest.mark.skipif(not QUICK, reason="torch's libraries don't tell C about tensors here")


def quick(name: str, *arguments: Any) -> Any:
    return OPERATIONS[name].function.quick(here.now, *arguments)


@contextlib.contextmanager
def by_python() -> Iterator[None]:
    """What C would do goes the other way."""
    native.torch_directly(False)
    try:
        yield
    finally:
        native.torch_directly(True)


class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


x, y = torch.arange(6.0).reshape(2, 3), torch.linspace(-1, 1, 6).reshape(2, 3)

TAKEN: dict[str, tuple[str, tuple[Any, ...]]] = {
    "same shape": ("add", (x, y)),
    "broadcast": ("mul", (x, y[0])),
    "larger second": ("mul", (x[0], y)),
    "both broadcast": ("sub", (x[:, :1].clone(), y[0])),
    "no dimension": ("add", (x, torch.tensor(2.5))),
    "alone without dimension": ("exp", (torch.tensor(0.5),)),
    "parameter": ("neg", (torch.nn.Parameter(x, requires_grad=False),)),
    "offset": ("exp", (torch.arange(7.0)[1:],)),
    "numbers": ("leaky_relu", (y, 0.25)),
    "a whole number": ("leaky_relu", (y, 2)),
    "halves": ("gelu", (y.half(),)),
    "bfloat16": ("mul", (y.bfloat16(), y.bfloat16())),
    "f64": ("tanh", (y.double(),)),
    "integers": ("add", (torch.arange(5), torch.arange(5))),
    "mask": ("where", (y > 0, x, y)),
    "wider than a number": ("add", (x, torch.tensor(2.5, dtype=torch.float64))),
    "promoted to the second": ("add", (torch.arange(6).reshape(2, 3), y)),
}


@needs_quick
@pytest.mark.parametrize("case", TAKEN)
def test_taken(case: str, device: str) -> None:
    """The same tensor as by the other way, its strides and dtype included."""
    name, arguments = TAKEN[case]
    arguments = tuple([moved(value, device) for value in arguments])
    with by_python():
        expected = OPERATIONS[name](*arguments)  # which makes the program known, too
    OPERATIONS[name](*arguments)
    found = quick(name, *arguments)
    assert isinstance(found, Tensor)
    assert (found.dtype, found.stride(), found.requires_grad) == (expected.dtype, expected.stride(), False)
    assert torch.equal(found, expected)
    found.resize_(100)  # it owns its storage


BESIDE: dict[str, tuple[str, tuple[Any, ...]]] = {
    "second": ("add", (x, 1.5)),
    "first": ("sub", (1.5, y)),
    "whole": ("mul", (x, -3)),
    "infinite": ("add", (x, -float("inf"))),
    "not a number": ("mul", (x, float("nan"))),
    "zero": ("mul", (-x, -0.0)),
    "rounded": ("add", (x, 0.1)),
    "f64": ("add", (x.double(), 0.1)),
    "halves": ("mul", (y.half(), 1e-3)),
    "bfloat16, beyond its range": ("mul", (y.bfloat16(), 3.39e38)),
    "first of bfloat16": ("sub", (0.1, y.bfloat16())),
    "no dimension": ("add", (torch.tensor(2.5), 0.1)),
    "two": ("clamp_numbers", (y, -0.1, 0.7)),
    "one of two": ("clamp_numbers", (y, -0.1, y[0])),
}


@needs_quick
@pytest.mark.parametrize("case", BESIDE)
def test_numbers_beside_tensors(case: str) -> None:
    """Numbers have the type that torch gives them, in C as in Python."""
    name, arguments = BESIDE[case]
    with by_python():
        expected = called(name, arguments)
    called(name, arguments)
    found = quick(name, *arguments)
    assert (found.dtype, found.stride()) == (expected.dtype, expected.stride())
    assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8)) if found.ndim else found == expected
    with by_python():
        other = called(name, [v + 1 if isinstance(v, float) else v for v in arguments])
    assert (
        torch.equal(quick(name, *[v + 1 if isinstance(v, float) else v for v in arguments]), other)
        or other.isnan().any()
    )
    wanted = [v.clone().requires_grad_() if isinstance(v, Tensor) else v for v in arguments]
    assert quick(name, *wanted) is None
    called(name, wanted).sum().backward()
    assert all(v.grad is not None for v in wanted if isinstance(v, Tensor))


RECORDED: dict[str, Tensor] = {
    "16 bits without dimension": torch.tensor(1.5).half(),
    "strided": y.t(),
    "expanded": y[:, :1].expand(2, 3),
    "f64": y.double(),
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("case", RECORDED)
def test_numbers_beside_what_is_recorded(case: str, first: bool) -> None:
    """They are made tensors before autograd sees them, also where C would not take the tensor itself."""
    leaf = RECORDED[case].detach().requires_grad_()
    arguments = (2.0, leaf) if first else (leaf, 2.0)
    with by_python():
        expected = F.mul(*arguments)
    found = F.mul(*arguments)
    assert torch.equal(found, expected) and found.dtype == expected.dtype
    found.sum().backward()
    assert leaf.grad is not None and (leaf.grad == 2).all()


LEFT: dict[str, tuple[str, tuple[Any, ...]]] = {
    "no tensor": ("add", (2.0, 1.0)),
    "no array": ("add", (x, "1.0")),
    "a number beside integers": ("add", (torch.arange(5), 1)),
    "a number beside one of 16 bits": ("add", (torch.tensor(1.0).half(), 1.0)),
    "a number that f32 has not": ("add", (x, 1e300)),
    "a number beside two types": ("clamp_numbers", (x, y.double(), 1.0)),
    "too few": ("add", (x,)),
    "too many": ("add", (x, y, y)),
    "strided": ("exp", (x.t(),)),
    "expanded": ("exp", (torch.ones(1).expand(4),)),
    "shapes that don't fit": ("add", (x, torch.ones(4))),
    "empty": ("exp", (torch.empty(0, 3),)),
    "other types than seen": ("add", (x.to(torch.uint8), y.double())),
    "negative view": ("exp", (torch._neg_view(x),)),
    "complex": ("exp", (torch.ones(3, dtype=torch.complex64),)),
    "sparse": ("exp", (x.to_sparse(),)),
    "meta": ("exp", (x.to("meta"),)),
    "subclass": ("exp", (x.as_subclass(type("Derived", (Tensor,), {})),)),
    "a number that is no number": ("leaky_relu", (x, "0.5")),
    "numpy": ("exp", (x.numpy(),)),
}


@pytest.mark.parametrize("case", LEFT)
def test_left(case: str) -> None:
    F.exp(x), F.add(x, y), F.leaky_relu(x)
    name, arguments = LEFT[case]
    assert quick(name, *arguments) is None


SURROUNDINGS: dict[str, Callable[[], Any]] = {
    "dispatch mode": Mode,
    "function mode": torch.overrides.TorchFunctionMode,
    "autocast": lambda: torch.autocast("cpu"),
}


@needs_quick
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_left_in(name: str) -> None:
    assert isinstance(quick("exp", F.exp(x)), Tensor)
    with SURROUNDINGS[name]():
        assert quick("exp", x) is None  # exp is computed in f32 under autocast on GPUs
    assert isinstance(quick("exp", x), Tensor)
    with torch.autocast("cpu"):
        assert isinstance(quick("add", F.add(x, y), y), Tensor)  # which autocast leaves alone


@needs_quick
def test_left_to_transforms() -> None:
    seen = []

    def function(x: Tensor) -> Tensor:
        seen.append(quick("exp", x))
        return F.sum(F.exp(x))

    torch.testing.assert_close(torch.func.grad(function)(x), x.exp())
    assert seen == [None]


def test_jit_trace() -> None:
    """What is traced has the operations, not their results."""
    traced = torch.jit.trace(lambda x: F.add(F.exp(x), F.relu(x)), (x,), check_trace=False)
    torch.testing.assert_close(traced(y), y.exp() + y.relu())


@needs_quick
def test_recorded() -> None:
    F.mul(x, y)
    leaf = x.clone().requires_grad_()
    assert quick("mul", leaf, y) is True
    with torch.no_grad():
        assert isinstance(quick("mul", leaf, y), Tensor)
    with torch.inference_mode():
        made = F.mul(x, y)
        assert made.is_inference() and torch.equal(made, x * y)


@needs_quick
def test_more_types_than_there_is_room_for() -> None:
    """The oldest of 16 gives way, and comes back when it is met again."""
    dtypes = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
    for a in dtypes:
        for b in dtypes:
            assert torch.equal(F.mul(x.to(a), x.to(b)), x.to(a) * x.to(b))
    for _ in range(2):
        found = F.mul(x, y)
    assert torch.equal(found, x * y)
    assert isinstance(quick("mul", x, y), Tensor)


@needs_quick
def test_several_results() -> None:
    @hologram_torch.kernel
    def both(a: Any, b: Any) -> Any:
        return a + b, a - b

    for _ in range(2):
        found = both(x, y)
        assert torch.equal(found[0], x + y) and torch.equal(found[1], x - y)


def test_executor() -> None:
    """What an executor is named for runs there, and a freed one is not used."""
    with hg.Executor("cpu") as ex:
        assert torch.equal(F.add(ex, x, y), x + y)
    assert torch.equal(F.add(x, y), x + y)
    made: list[Tensor] = []
    thread = threading.Thread(target=lambda: made.extend(F.add(x, y) for _ in range(2)))
    thread.start()
    thread.join()
    assert all(torch.equal(each, x + y) for each in made)


def test_keys_unknown() -> None:
    """Without torch's word for it nothing is taken, and everything works."""
    F.add(x, y)
    native.torch_keys(())
    try:
        assert quick("add", x, y) is None
        assert torch.equal(F.add(x, y), x + y)
    finally:
        names = ("Python", "FuncTorchDynamicLayerFrontMode", "Tracer")
        native.torch_keys(tuple(int(torch._C._dispatch_key_parse(name)) for name in names))
    assert not QUICK or isinstance(quick("add", x, y), Tensor)


def test_refuses_what_is_no_map() -> None:
    with pytest.raises(TypeError, match="expected a map"):
        native.torch_map_add(object(), (), object(), ())


def test_dtypes_do_not_tell_what_is_made() -> None:
    """A number of no dimension gives way to others, whatever came of tensors of the same dtypes before."""
    dtypes = [torch.int32, torch.int64, torch.float16, torch.float32, torch.float64]
    for name in ("mul", "maximum"):
        for a in dtypes:
            for b in dtypes:
                for first, second in (((), (3,)), ((3,), (3,)), ((3,), ()), ((), ()), ((1,), (3,))):
                    given = torch.full(first, 2, dtype=a), torch.full(second, 3, dtype=b)
                    found, expected = (getattr(m, name)(*given) for m in (F, torch))
                    assert found.dtype == expected.dtype and torch.equal(found, expected), (name, given)


@needs_quick
@pytest.mark.parametrize("name", ["mul", "sigmoid"])
def test_gradients_made_in_c(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once, where all are in order, and inputs have the result's shape and dtype."""
    function, of_torch = getattr(F, name), getattr(torch, name)
    single = name == "sigmoid"
    asked = []
    pulled = _elementwise.pulled
    monkeypatch.setattr(_elementwise, "pulled", lambda *arguments: asked.append(1) or pulled(*arguments))
    a, b = (torch.randn(3, 4, requires_grad=True) for _ in range(2))
    inputs = (a,) if single else (a, b)
    row = torch.randn(4, requires_grad=True)
    double = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    others = () if single else ((a, row), (a, double))
    for given in (torch.randn(3, 4), torch.randn(4, 3).t(), torch.randn(1, 1).expand(3, 4)):
        for taken in (inputs, *others):
            g = given.to(of_torch(*taken).dtype)
            for _ in range(2):  # of which the first tells C
                asked.clear()
                found = torch.autograd.grad(function(*taken), taken, g)
                torch.testing.assert_close(found, torch.autograd.grad(of_torch(*taken), taken, g))
            assert (taken is inputs and given.is_contiguous()) == (not asked)
    if not single:
        for needs in (a, b):  # a gradient of one alone
            torch.testing.assert_close(
                torch.autograd.grad(function(a, b), [needs], given), torch.autograd.grad(a * b, [needs], given)
            )
    (first,) = torch.autograd.grad(function(*inputs), [a], torch.ones(3, 4), create_graph=True)  # which has one too
    (expected,) = torch.autograd.grad(of_torch(*inputs), [a], torch.ones(3, 4), create_graph=True)
    of = a if single else b
    torch.testing.assert_close(*(torch.autograd.grad(t.sum(), of)[0] for t in (first, expected)))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: [t], lambda held: held.pop()):  # which give it once
        for given in (torch.ones(3, 4), torch.ones(1, 1).expand(3, 4)):
            torch.autograd.grad(function(*inputs), inputs, given)
