"""Torch's tensors as operands, in place, with autograd told; and what looks like one and must not be taken so."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any, Callable

import fresh
import numpy as np
import pytest

import hologram as hg
from hologram import _foreign, ops
from hologram._ffi import hooks, native

torch = pytest.importorskip("torch", reason="torch is not installed: test_exchange.py has stand-ins for its tensors")

exchange = pytest.mark.skipif(
    not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"), reason="this torch has no C exchange API"
)


@pytest.fixture(autouse=True, params=["asked directly", "asked in Python"])
def way(request: pytest.FixtureRequest, host: hg.Executor) -> Any:
    """Torch is asked about its tensors by its libraries, where they say what they should, and in Python everywhere."""
    x = torch.zeros(1)
    ops.vector_add(host, x, x, x)  # finds out which
    wanted = request.param == "asked directly"
    if native.torch_directly(wanted) is not wanted:
        assert native.torch_modes() is None or not _foreign.verify_torch()
        pytest.skip("this torch's libraries have not all the functions, or they say something else")
    yield request.param
    native.torch_directly(True)


def test_a_buffer_is_no_index_and_the_error_says_what_is(host: hg.Executor) -> None:
    buffer, x = host.from_numpy(np.array([2, 0])), torch.arange(3.0)
    with pytest.raises(TypeError, match=r"numpy.asarray\(buffer\) .*; torch takes that as an index, and no Buffer"):
        x[buffer]
    assert x[np.asarray(buffer)].tolist() == [2, 0]


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


def test_what_is_written_through_a_buffer_raises_the_version(host: hg.Executor) -> None:
    x, ones = torch.zeros(2, 4), np.ones(8, np.float32)
    buffer = host.wrap(x)
    view = buffer.view((2, 2), offset=1, strides=(4, 2))
    program = hg.Program(STORE)
    other = host.from_numpy(ones)
    writes: list[Callable[[], object]] = [
        lambda: ops.vector_add(host, ones.reshape(2, 4), ones.reshape(2, 4), buffer),
        lambda: host.launch(program, c=view),
        lambda: host.launch(program, {"c": buffer}, n=8),
        lambda: host.trace(program, c=view),
        lambda: ops.fill(host, view, np.float32(3)),
        lambda: ops.reduce_sum(host, ones, buffer),
        lambda: buffer.fill(2),
        lambda: view.fill(2),
        lambda: buffer.from_numpy(ones),
        lambda: view.from_numpy(ones[:4]),
        lambda: buffer.from_bytes(ones.tobytes()),
        lambda: buffer.copy_from(other.view((2, 4))),
    ]
    for i, write in enumerate(writes, 1):
        write()
        assert x._version == i, i
    ops.vector_add(host, buffer, buffer, np.zeros((2, 4), np.float32))
    with pytest.raises(ValueError, match=r"exceeds|elements"):
        ops.vector_add(host, ones, ones, buffer, n=9)
    assert x._version == len(writes), "nothing was written"
    w = torch.randn(2, 4, requires_grad=True)
    y = (w * x).sum()  # keeps x
    ops.scalar_mul(host, buffer, buffer, 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_a_wrapped_tensor_lives_no_longer_than_its_buffer(host: hg.Executor) -> None:
    x = torch.zeros(4)
    seen = weakref.ref(x)
    buffer = host.wrap(x)
    del x
    buffer.free()
    assert seen() is None
    parameter = torch.nn.Parameter(torch.zeros(4))
    with torch.no_grad():
        host.wrap(parameter).fill(1)
        host.wrap(torch.zeros(4).as_subclass(Derived)).fill(1)
    assert parameter._version == 1


def test_autograd_sees_what_was_written(host: hg.Executor) -> None:
    w, x = torch.randn(8, requires_grad=True), torch.randn(8)
    y = (w * x).sum()  # keeps x
    ops.scalar_mul(host, x, x, 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


@pytest.mark.parametrize("kind", [torch.Tensor, Derived])  # C takes the one, and leaves the other to Python
def test_a_faulting_launch_has_written(host: hg.Executor, kind: Any) -> None:
    a, b, c = (torch.tensor(v, dtype=torch.int32).as_subclass(kind) for v in ([7, 8], [2, 0], [0, 0]))
    with pytest.raises(hg.ProgramFault):
        ops.vector_div(host, a, b, c)
    assert c.tolist() == [3, 0]
    assert c._version == 1


@pytest.mark.parametrize("kind", [torch.Tensor, Derived])
def test_a_cancelled_launch_has_written(kind: Any) -> None:
    forever = hg.Program(
        "program p\nslot c f32\nstg.f32 1.0, c[index]\n"
        "again:\nldg.f32 x, c[0]\nset.ne.f32 p, x, 0.0\nbra again, p\nexit"
    )
    c = torch.zeros(4).as_subclass(kind)
    with hg.Executor("cpu") as ex:
        over = threading.Event()

        def cancel() -> None:
            while not over.wait(0.001):
                if c.detach().numpy()[0]:  # it has written
                    ex.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            with pytest.raises(hg.errors.LaunchCancelledError):
                ex.launch(forever, c=c)
        finally:
            over.set()
            thread.join()
    assert c[0] == 1 and c._version == 1


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


def changed_in_inference() -> Any:
    """A tensor that counts no versions, but is no longer one of inference."""
    with torch.inference_mode():
        x = torch.ones(4)
    x.data = torch.ones(4)
    return x


def test_a_tensor_without_a_version(host: hg.Executor) -> None:
    """torch refuses to raise it, with an exception that must not end the process."""
    x = changed_in_inference()
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        ops.vector_add(host, torch.ones(4), torch.ones(4), x)
    with torch.inference_mode():
        assert x.tolist() == [2] * 4


WITHOUT_MEMORY: dict[str, Callable[[], Any]] = {
    "fake": fake,
    "zero": lambda: torch._efficientzerotensor((4,)),
    "slice of zero": lambda: torch._efficientzerotensor((9,))[5:],
    "slice of meta": lambda: torch.ones(9, device="meta")[5:],
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "mkldnn": lambda: torch.ones(4).to_mkldnn(),
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
        lambda: host.wrap(wrong),
    ):
        with pytest.raises((ValueError, TypeError, BufferError, RuntimeError)):
            call()
    assert not out.any()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("transform", ["vmap", "grad", "functionalize"])
@pytest.mark.parametrize("cut", [0, 5])
def test_what_transforms_hand_out_is_refused(host: hg.Executor, transform: str, cut: int) -> None:
    out = torch.zeros(4)

    def inner(x: Any) -> Any:
        ops.vector_add(host, x[cut:], x[cut:], out)
        return x.sum()

    with pytest.raises((ValueError, TypeError, BufferError, RuntimeError)):
        getattr(torch.func, transform)(inner)(torch.ones(2, 4 + cut) if transform == "vmap" else torch.ones(4 + cut))
    assert not out.any()


class Mode(torch.overrides.TorchFunctionMode):
    """Looks on, and may do more when it is asked for what an attribute is."""

    def __init__(self, more: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.more = more
        self.seen = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
        self.seen += 1
        self.more()
        return function(*args, **(keywords or {}))


def test_modes_see_what_is_asked(host: hg.Executor) -> None:
    x, out = torch.ones(4), torch.zeros(4)
    with Mode() as mode:
        ops.vector_add(host, x, x, out)
    assert mode.seen
    assert out.tolist() == [2] * 4
    assert out._version == 1


def test_a_mode_that_changes_tensors_while_they_are_looked_at(host: hg.Executor) -> None:
    """A call never works on memory that a tensor had before."""
    x, out = torch.ones(1 << 16), torch.zeros(1 << 16)
    small = torch.zeros(4)

    def replace() -> None:
        out.set_(small)
        x.set_(torch.ones(4))

    with Mode(replace):
        ops.vector_add(host, x, x, out)
    assert small.tolist() == [2] * 4


def test_copies_on_write(host: hg.Executor) -> None:
    x = torch.ones(4)
    lazy = torch._lazy_clone(x)
    ops.vector_add(host, x, x, lazy)
    assert (x.tolist(), lazy.tolist()) == ([1] * 4, [2] * 4)


def test_results_are_written_where_tensors_were_swapped(host: hg.Executor) -> None:
    x, one, other = torch.ones(4), torch.zeros(4), torch.zeros(4)
    ops.vector_add(host, x, x, one)
    torch.utils.swap_tensors(one, other)
    ops.vector_add(host, x, other, one)
    assert (one.tolist(), other.tolist()) == ([3] * 4, [2] * 4)


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
    assert _foreign.probe(Derived) == (_foreign.OTHER, None)


@exchange
@pytest.mark.skipif(sys.platform == "win32", reason="the names in torch's libraries are others there")
def test_this_torch_is_asked_directly() -> None:
    """Else one of the functions changed: tensors work, but a call takes some half a microsecond more."""
    assert native.torch_modes() is not None
    assert _foreign.verify_torch()


@exchange
@pytest.mark.parametrize("wrong", ["is_neg", "requires_grad", "stride", "data_ptr", "element_size"])
def test_what_answers_otherwise_is_not_used(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    """The libraries are compared with torch itself; here it is torch that says something else."""
    right = getattr(torch.Tensor, wrong)
    other = property(lambda _: True) if wrong == "requires_grad" else lambda self: right(self) and None
    monkeypatch.setattr(torch.Tensor, wrong, other, raising=False)
    assert not _foreign.verify_torch()
    monkeypatch.undo()
    assert _foreign.verify_torch() is (native.torch_modes() is not None)


def test_the_comparison_knows_nothing_of_the_callers_modes() -> None:
    before = _foreign.verify_torch()
    with torch.inference_mode(), torch.device("meta"), Mode() as mode:
        assert _foreign.verify_torch() is before
        assert not mode.seen
    assert torch.func.vmap(lambda x: x + _foreign.verify_torch())(torch.zeros(3)).tolist() == [float(before)] * 3


# ---- results that are left to us


@pytest.mark.parametrize("name", TYPES)
def test_a_result_is_a_tensor(host: hg.Executor, name: str) -> None:
    x = torch.arange(24).reshape(2, 3, 4).to(getattr(torch, name))
    for given, other in (
        (x, x),
        (x.permute(2, 0, 1)[1:, :, ::2], x[0, 0, 0]),
        (x[1, 2, 3], x[0]),
        (x[:, :0], x[:, :0]),
    ):
        made = ops.vector_add(host, given, other)
        assert type(made) is torch.Tensor and made.dtype == x.dtype and made.is_contiguous()
        assert not made.requires_grad and torch.equal(made, given + other)
        assert torch.equal(ops.vector_add(given, other), made)
    assert torch.equal(ops.copy(x, n=5), x.reshape(-1)[:5])
    assert torch.equal(ops.vector_mul(x, 2), x * 2)


def test_the_first_array_says_what_a_result_is(host: hg.Executor) -> None:
    x, a = torch.ones(4), np.ones(4, np.float32)
    buffer = host.wrap(x)
    for first, second in ((x, a), (a, x), (buffer, x), (x, buffer), (torch.nn.Parameter(x, requires_grad=False), x)):
        made = ops.vector_add(first, second)
        kind = torch.Tensor if isinstance(first, torch.Tensor) else type(first)
        assert type(made) is kind and np.asarray(made).tolist() == [2] * 4
    assert type(ops.vector_add(torch.ones(4).as_subclass(Derived), x)) is torch.Tensor
    assert ops.vector_add(torch.tensor([True, False]), torch.ones(2, dtype=torch.uint8)).tolist() == [2, 1]
    assert ops.copy(torch.tensor([True, False])).dtype == torch.bool


def test_a_result_is_new(host: hg.Executor) -> None:
    x = torch.ones(1000)
    made = ops.vector_add(x, x)
    assert made._version == 0 and x._version == 0
    counts = [sys.getrefcount(torch.ones(3)), sys.getrefcount(ops.vector_add(x, x))]
    assert counts[0] == counts[1]
    seen = weakref.ref(made)
    made.resize_(5000).fill_(1)
    del made
    assert seen() is None
    w = torch.ones(1000, requires_grad=True)
    (w * ops.vector_add(x, x)).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [2] * 1000
    with torch.inference_mode():
        assert ops.vector_add(x, x).is_inference()
    with torch.device("meta"), Mode():
        assert ops.vector_add(x, x).tolist() == [2] * 1000


def test_results_leave_no_memory(host: hg.Executor) -> None:
    x = torch.ones(1 << 18)
    for _ in range(3000):  # 3 GB
        ops.vector_add(x, x)
    resource = pytest.importorskip("resource")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 3_000_000


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", WITHOUT_MEMORY)
def test_no_result_of_what_has_no_memory(host: hg.Executor, kind: str) -> None:
    for call in (lambda x: ops.vector_add(host, x, x), ops.vector_neg):
        with pytest.raises((ValueError, TypeError, BufferError, RuntimeError)):
            call(WITHOUT_MEMORY[kind]())
    with pytest.raises(ValueError, match="requires grad"):
        ops.vector_neg(torch.ones(4, requires_grad=True))
    with pytest.raises(ValueError, match="negative view"):
        ops.vector_neg(torch._neg_view(torch.ones(4)))


def test_modes_that_make_other_tensors(host: hg.Executor) -> None:
    from torch._subclasses import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    x = torch.ones(4)

    class Replaces(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
            x.set_(torch.full((4,), 3.0))  # while the result is made
            return function(*args, **(keywords or {}))

    with Replaces():
        made = ops.vector_add(host, x, x)
    assert made.tolist() == (2 * x).tolist(), "the memory that x had before was added"
    before = x.tolist()
    with FakeTensorMode():
        try:
            made = ops.vector_add(host, x, x)
        except (ValueError, TypeError, BufferError, RuntimeError, AssertionError):
            made = None  # a fake one has no memory
    assert made is None or made.tolist() == (2 * x).tolist()
    assert x.tolist() == before


def test_a_tensor_s_implementation_is_where_it_was_found() -> None:
    x = torch.nn.Parameter(torch.ones(3))
    assert _foreign.verify_torch() is (native.torch_modes() is not None)
    assert native.torch_modes() is None or native.torch_at(x) == x._cdata


def test_a_proxy_is_no_tensor(host: hg.Executor) -> None:
    """What says that it is a tensor, and is none, is not looked into."""
    tensor = torch.ones(4)
    b = host.wrap(weakref.proxy(tensor))
    ops.scalar_mul(host, b, b, 2.0)
    gc.collect()
    assert tensor.tolist() == [2, 2, 2, 2]


def test_reductions_softmax_losses_and_products_left_to_us() -> None:
    x, t = torch.rand(4, 6), torch.rand(4, 6)
    assert ops.reduce_max(x) == x.max().item() and ops.argmax(x) == int(x.argmax())
    assert ops.reduce_sum(x.to(torch.int8)) == int(x.to(torch.int8).sum())
    for made, wanted in (
        (ops.softmax(x, axis=1), x.softmax(1)),
        (ops.softmax(x.T, axis=0), x.T.softmax(0)),
        (ops.gemm(x, t.T), x @ t.T),
        (ops.matvec(x, t[0]), x @ t[0]),
        (ops.reduce_sum(x, axis=0, keepdims=True), x.sum(0, keepdim=True)),
        (ops.argmin(x, axis=1), x.argmin(1)),
        (ops.reduce_sum(x.to(torch.int16), axis=1), x.to(torch.int16).sum(1)),
    ):
        assert type(made) is torch.Tensor and made.dtype == wanted.dtype and made.shape == wanted.shape
        torch.testing.assert_close(made, wanted)
    assert ops.mse_loss(x, t) == pytest.approx(torch.nn.functional.mse_loss(x, t).item(), rel=1e-5)
    out = torch.empty(6)
    version = out._version
    assert ops.reduce_sum(x, axis=0, output=out) is out and out._version == version + 1


def test_results_of_other_types(host: hg.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """C makes results by axes, of bools, of wider types and of numbers itself, whatever was seen before."""
    if native.torch_directly(True) or hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):

        def left(name: str, *_: Any) -> None:
            raise AssertionError(f"{name} was left to Python")

        monkeypatch.setitem(hooks, "operation", left)
    for name in ("int8", "int32", "uint8", "float32", "float64"):
        x = (torch.arange(24) % 7).to(getattr(torch, name)).reshape(2, 3, 4).permute(2, 0, 1)
        for got, want in (
            (ops.reduce_sum(host, x, axis=1), x.sum(1)),
            (ops.reduce_sum(x, axis=(0, -1), keepdims=True), x.sum((0, -1), keepdim=True)),
            (ops.reduce_max(host, x, keepdims=True), x.amax((0, 1, 2), keepdim=True)),
            (ops.argmax(host, x, axis=2), torch.from_numpy(x.numpy().argmax(2))),
            (ops.cumsum(host, x, axis=0), x.cumsum(0)),
            (ops.vector_less(host, x, x[:1]), x < x[:1]),
            (ops.vector_equal(x, 3), x == 3),
            (ops.vector_sub(host, 5, x), 5 - x),
            (ops.where(host, x > 2, x, 1), torch.where(x > 2, x, torch.ones_like(x))),
            (ops.where(x > 2, 1, x), torch.where(x > 2, torch.ones_like(x), x)),
            (ops.vector_add(host, x.contiguous(), x.contiguous(), n=5), (x + x).reshape(-1)[:5]),
        ):
            if name == "uint8" and got.dtype == torch.uint64:  # which torch makes an int64
                got = got.to(torch.int64)
            assert (type(got), got.dtype, got.shape) == (torch.Tensor, want.dtype, want.shape)
            assert torch.equal(got, want)
    assert ops.vector_sub(host, 2, torch.tensor(3.0)).shape == ()
    assert torch.equal(ops.gemm(host, x, x[0], trans_b=True), x @ x[0].T)


def test_a_matrix_by_itself_transposed(host: hg.Executor) -> None:
    """After calls with the same tensor as it is, which are prepared and so made at once."""
    x = torch.arange(9, dtype=torch.float32).reshape(3, 3)
    for _ in range(2):
        assert torch.equal(ops.gemm(host, x, x), x @ x)
        assert torch.equal(ops.gemm(host, x, x, trans_b=True), x @ x.T)
        assert torch.equal(ops.gemm(host, x, x, trans_a=True), x.T @ x)


def test_numbers_beside_bfloat16_need_no_other_package() -> None:
    code = """
import sys
sys.modules["ml_dtypes"] = None  # an import fails
import torch
from hologram import ops
x = torch.arange(5, dtype=torch.bfloat16)
for value in (2, 0.1, True):
    assert torch.equal(ops.vector_mul(x, value), x * torch.tensor(value, dtype=torch.bfloat16)), value
"""
    done = fresh.run(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("kind", [torch.Tensor, Derived])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, TypeError, hg.errors.InvalidArgumentError])
def test_an_interrupted_call_may_have_written(host: hg.Executor, kind: Any, error: type[BaseException]) -> None:
    """What ends a call that goes on says nothing of what was stored until then."""
    x = torch.zeros(4).as_subclass(kind)

    def interrupt(line: str) -> None:
        if line.count("exit"):
            raise error("mine")

    with pytest.raises(error, match="mine"):
        host.trace(hg.Program(STORE), c=x, receive=interrupt)
    assert x[0] == 1 and x._version == 1


def test_ctrl_c_while_tensors_are_looked_at_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no tensor, or can't be asked, is left to Python."""

    class Other:
        pass

    def interrupted(kind: type) -> Any:
        raise KeyboardInterrupt

    def fails(kind: type) -> Any:
        raise ValueError

    monkeypatch.setitem(hooks, "probe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        native.torch_uses((Other(),), 0, 0)
    monkeypatch.setitem(hooks, "probe", fails)
    assert native.torch_uses((Other(),), 0, 0) is None
