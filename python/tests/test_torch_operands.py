"""Torch's tensors as operands, in place, with autograd told; and what looks like one and must not be taken so."""

from __future__ import annotations

import threading
from typing import Any, Callable

import pytest

import hologram as hg
from hologram import ops

torch = pytest.importorskip("torch", reason="torch is not installed: test_exchange.py has stand-ins for its tensors")

exchange = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="this torch has no C exchange API"
)

STORE = "program p\nslot c f32\nstg.f32 1.0, c[index]\nexit"
TYPES = ["int8", "int16", "int32", "int64", "uint8", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.parametrize("name", TYPES)
def test_in_place(host: hg.Executor, name: str) -> None:
    dtype = getattr(torch, name)
    x, out = torch.arange(24).reshape(2, 3, 4).to(dtype), torch.zeros(4, 3, 2, dtype=dtype)
    ops.vector_add(host, x.permute(2, 1, 0), x.permute(2, 1, 0), out)
    assert torch.equal(out, (x + x).permute(2, 1, 0))
    ops.vector_add(host, x[0], x[1, :1], x[0])
    assert x[0, 1].tolist() == [4 + 12, 5 + 13, 6 + 14, 7 + 15]


def test_results(host: hg.Executor) -> None:
    x, out = torch.arange(10.0), torch.zeros(3)
    assert ops.reduce_sum(host, x, out) == 45
    assert out[0] == 45
    host.launch(hg.Program(STORE), c=out)
    assert out.tolist() == [1, 1, 1]


def test_bools(host: hg.Executor) -> None:
    x, out = torch.tensor([True, False]), torch.zeros(2, dtype=torch.uint8)
    ops.vector_add(host, x, x, out)
    assert out.tolist() == [2, 0]
    with pytest.raises(TypeError, match="c has dtype bool"):
        ops.vector_add(host, x, x, x)


@pytest.mark.parametrize("made", [lambda: torch.zeros(8), lambda: torch.zeros(8).as_subclass(Derived)])
@pytest.mark.parametrize("n", [8, 1 << 21])
def test_writing_raises_the_version(host: hg.Executor, made: Callable[[], Any], n: int) -> None:
    x = torch.ones(n)
    out = made().new_zeros(n)
    before = out._version, x._version
    ops.vector_add(host, x, x, out)
    assert (out == 2).all()
    assert (out._version, x._version) == (before[0] + 1, before[1])
    host.launch(hg.Program(STORE), c=out)
    assert out._version == before[0] + 2
    with pytest.raises(ValueError, match="exceeds"):
        ops.vector_add(host, x, x, out, n=n + 1)
    assert out._version == before[0] + 2, "nothing was written"


class Derived(torch.Tensor):
    pass


def test_autograd_sees_what_was_written(host: hg.Executor) -> None:
    w, x = torch.randn(8, requires_grad=True), torch.randn(8)
    y = (w * x).sum()  # keeps x
    ops.scalar_mul(host, x, x, 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_faulting_launch_has_written(host: hg.Executor) -> None:
    a, b, c = (torch.tensor(v, dtype=torch.int32) for v in ([7, 8], [2, 0], [0, 0]))
    with pytest.raises(hg.ProgramFault):
        ops.vector_div(host, a, b, c)
    assert c.tolist() == [3, 0]
    assert c._version == 1


@pytest.mark.parametrize("kind", ["tensor", "parameter", "derived"])
def test_what_requires_grad(host: hg.Executor, kind: str) -> None:
    x = torch.ones(8, requires_grad=True)
    if kind == "parameter":
        x = torch.nn.Parameter(x.detach())
    if kind == "derived":
        x = torch.ones(8).as_subclass(Derived).requires_grad_()
    out = torch.zeros(8)
    for call in (
        lambda: ops.vector_add(host, x, out, out),
        lambda: ops.vector_add(host, out, out, x),
        lambda: host.launch(hg.Program(STORE), c=x),
        lambda: host.wrap(x),
    ):
        with pytest.raises(ValueError, match=r"requires grad.*hologram_torch, torch.no_grad\(\) or tensor.detach\(\)"):
            call()
    assert not out.any()
    with torch.no_grad():
        ops.vector_add(host, x, x, out)
        ops.vector_add(host, out, out, x)
    assert out.tolist() == [2] * 8
    assert x.tolist() == [4] * 8
    assert x._version == 1
    ops.vector_add(host, x.detach(), x.detach(), out)
    assert out.tolist() == [8] * 8


def test_inference_mode(host: hg.Executor) -> None:
    with torch.inference_mode():
        x = torch.ones(8)
        ops.vector_add(host, x, x, x)
    ops.vector_add(host, x, x, x)
    assert x.tolist() == [4] * 8


def test_negative_views_are_refused(host: hg.Executor) -> None:
    out = torch.zeros(4)
    negative = torch.randn(4, dtype=torch.complex64).conj().imag
    assert negative.is_neg()
    for wrong in (negative, torch._neg_view(torch.ones(4)), torch._neg_view(torch.ones(4)).as_subclass(Derived)):
        for call in (
            lambda wrong=wrong: ops.vector_add(host, wrong, out, out),
            lambda wrong=wrong: ops.vector_add(host, out, out, wrong),
            lambda wrong=wrong: host.launch(hg.Program(STORE), c=wrong),
            lambda wrong=wrong: host.wrap(wrong),
        ):
            with pytest.raises(ValueError, match=r"negative view.*resolve_neg"):
                call()
    ops.vector_add(host, negative.resolve_neg(), out, out)
    assert torch.equal(out, negative.resolve_neg())


def fake() -> Any:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(4)


WITHOUT_MEMORY: dict[str, Callable[[], Any]] = {
    "fake": fake,
    "zero": lambda: torch._efficientzerotensor((4,)),
    "meta": lambda: torch.ones(4, device="meta"),
    "sparse": lambda: torch.ones(4).to_sparse(),
    "complex": lambda: torch.ones(4, dtype=torch.complex64),
    "conjugate": lambda: torch.ones(4, dtype=torch.complex64).conj(),
    "float8": lambda: torch.ones(4).to(torch.float8_e4m3fn),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WITHOUT_MEMORY)
def test_what_has_no_memory_of_its_own_or_another_type(host: hg.Executor, kind: str) -> None:
    wrong, out = WITHOUT_MEMORY[kind](), torch.zeros(4)
    for call in (
        lambda: ops.vector_add(host, wrong, out, out),
        lambda: ops.vector_add(host, out, out, wrong),
        lambda: host.launch(hg.Program(STORE), c=wrong),
    ):
        with pytest.raises((ValueError, TypeError, BufferError, RuntimeError)):
            call()
    assert not out.any()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("transform", ["vmap", "grad", "functionalize"])
def test_what_transforms_hand_out_is_refused(host: hg.Executor, transform: str) -> None:
    out = torch.zeros(4)

    def inner(x: Any) -> Any:
        ops.vector_add(host, x, x, out)
        return x.sum()

    with pytest.raises((ValueError, TypeError, BufferError, RuntimeError)):
        getattr(torch.func, transform)(inner)(torch.ones(2, 4) if transform == "vmap" else torch.ones(4))
    assert not out.any()


def test_tensors_are_held_while_another_thread_drops_them(host: hg.Executor) -> None:
    """Large work lets the GIL go; what it works on stays."""
    n = 1 << 22
    box = [torch.ones(n)]
    stop = threading.Event()

    def replace() -> None:
        while not stop.is_set():
            box[0] = torch.ones(n)

    thread = threading.Thread(target=replace)
    thread.start()
    out = torch.zeros(n)
    for _ in range(20):
        ops.vector_add(host, box[0], box[0], out)
        assert (out == 2).all()
    stop.set()
    thread.join()


@exchange
def test_tensors_are_taken_by_the_exchange_api(host: hg.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The careful way, which asks for a capsule, is not gone."""

    def unwanted(*_: Any, **__: Any) -> Any:
        raise AssertionError("a capsule was asked for")

    monkeypatch.setattr(torch.Tensor, "__dlpack__", unwanted)
    x, out = torch.ones(4), torch.zeros(4)
    ops.vector_add(host, x, torch.nn.Parameter(x, requires_grad=False), out)
    assert out.tolist() == [2] * 4


def test_old_torch_goes_the_careful_way() -> None:
    from hologram import _foreign

    assert _foreign.probe(Derived) == (_foreign.OTHER, None)
