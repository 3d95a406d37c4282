"""Arrays of others on a device as operands and buffers, and buffers as arrays of others, in place."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import pytest
from support import buffer

import hologram as hg
from hologram import ops
from hologram._dtypes import NAMES, dtype_of
from hologram._export import interface
from hologram.errors import BackendError, DTypeError, InvalidArgumentError


@pytest.fixture
def own(ex: hg.Executor) -> hg.Executor:
    """An executor whose device has memory of its own."""
    if ex.host_visible:
        pytest.skip(f"{ex.backend} works in the host's memory")
    return ex


class ByInterface:
    """An array that CUDA's array interface alone shows."""

    def __init__(self, b: hg.Buffer, stream: Optional[int] = None, **changes: Any) -> None:
        self.buffer = b
        b.executor.synchronize()  # nothing orders another stream behind what made it
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": b.shape,
            "typestr": b.dtype.str,
            "data": (b._describe().data, False),
            "strides": None if b.contiguous else b.strides,
            "stream": stream,
            **changes,
        }


class ByDLPack:
    """An array that DLPack alone shows; asked notes with what."""

    def __init__(self, b: hg.Buffer, old: bool = False, device: Optional[tuple[int, int]] = None) -> None:
        self.buffer, self.old, self.device, self.asked = b, old, device, []  # type: ignore[var-annotated]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device or self.buffer.__dlpack_device__()

    def __dlpack__(self, **named: Any) -> object:
        self.asked.append(named)
        if self.old and "max_version" in named:
            raise TypeError("unexpected max_version")
        return self.buffer.__dlpack__(**named)


def shared(kind: Any, b: hg.Buffer) -> Any:
    """An array of a kind on a buffer's memory, in the order of its executor's stream."""
    return kind(b, b.executor.stream.handle) if kind is ByInterface else kind(b)


KINDS = pytest.mark.parametrize("kind", [ByInterface, ByDLPack])


@KINDS
@pytest.mark.parametrize("name", [n for n in NAMES if n != "bf16"] + ["bool"])
def test_wrapped(own: hg.Executor, kind: Any, name: str) -> None:
    b = buffer(own, np.arange(12) % 2, dtype_of(name)).view((3, 4))
    x = own.wrap(shared(kind, b))
    assert (x.shape, x.dtype, x._describe().data) == ((3, 4), b.dtype, b._describe().data)
    assert np.array_equal(x.to_numpy(), b.to_numpy())
    turned = own.wrap(shared(kind, b.view((4, 3), strides=(1, 4))))
    assert turned.strides == (b.itemsize, 4 * b.itemsize)
    assert np.array_equal(turned.to_numpy(), b.to_numpy().T)
    x.fill(1)
    assert b.to_numpy().all()
    empty = own.wrap(shared(kind, b.view((0, 3))))
    assert empty.shape == (0, 3)


@KINDS
def test_operands(own: hg.Executor, kind: Any) -> None:
    a, b, c = (buffer(own, np.arange(6) + k).view((2, 3)) for k in range(3))
    x, y, out = (shared(kind, each) for each in (a, b, c))
    ops.vector_add(own, x, y, out)
    own.synchronize()
    assert c.to_numpy().tolist() == [[1, 3, 5], [7, 9, 11]]
    ops.vector_add(own, x, b, c)
    made = ops.vector_mul(own, x, y)
    assert isinstance(made, hg.Buffer) and made.executor is own
    assert made.to_numpy().ravel().tolist() == [i * (i + 1) for i in range(6)]
    assert ops.reduce_sum(own, x) == 15
    assert own.submit(ops.reduce_sum, x).result() == 15
    p = hg.Program("program p\nslot a f32\nldg.f32 x, a[index]\nadd.f32 x, x, x\nstg.f32 x, a[index]\nexit")
    own.launch(p, a=x)
    own.synchronize()
    assert a.to_numpy().ravel().tolist() == [2.0 * i for i in range(6)]


def test_the_executor_of_operands_is_their_device_s(own: hg.Executor) -> None:
    if own._device_type != 2:
        pytest.skip("only CUDA's memory has an executor by itself")
    x = ByInterface(buffer(own, np.arange(6)))
    made = ops.vector_add(x, x)
    assert made.executor.backend == own.backend
    assert made.to_numpy().tolist() == [2.0 * i for i in range(6)]


def test_a_stream_of_its_owner(own: hg.Executor) -> None:
    """Calls go to the owner's stream; two owners' streams wait for each other."""
    one, two = hg.Stream(own), hg.Stream(own)
    a, b, c = (buffer(own, np.full(100_000, k)) for k in (1, 2, 3))
    x, y, z = ByInterface(a, one.handle), ByInterface(b, two.handle), ByInterface(c, one.handle)
    for _ in range(10):
        ops.vector_add(own, x, y, y)  # y = y + 1
        ops.vector_sub(own, y, x, z)
        ops.vector_add(own, z, x, y)
    one.synchronize()
    two.synchronize()
    own.synchronize()
    assert b.to_numpy()[0] == 12 and c.to_numpy()[0] == 11
    ops.vector_add(own, x, x, z, stream=one)
    ops.vector_add(own, z, z, z, stream=one.handle)
    one.synchronize()
    assert c.to_numpy()[0] == 4


def test_what_cannot_be_taken(own: hg.Executor) -> None:
    b = buffer(own, np.arange(4))
    for changes, error, match in (
        ({"typestr": "<c8"}, DTypeError, "typestr of a supported dtype"),
        ({"typestr": "?!"}, DTypeError, "typestr of a supported dtype"),
        ({"mask": b}, DTypeError, "has a mask"),
        ({"shape": None}, DTypeError, "__cuda_array_interface__ is"),
        ({"strides": (3,)}, InvalidArgumentError, "not multiples of the item size"),
        ({"shape": (2, 2), "strides": (4,)}, InvalidArgumentError, r"has strides \(4,\) and shape \(2, 2\)"),
        ({"stream": 2}, InvalidArgumentError, "default stream of each thread"),
        ({"data": (np.zeros(4, "f4").ctypes.data, False)}, BackendError, "is no device's memory"),
        ({"stream": "s"}, DTypeError, "__cuda_array_interface__ is"),
        ({"data": (0, False), "shape": (1,)}, InvalidArgumentError, "has its data at 0; expected the address"),
        ({"data": (0, False), "shape": ()}, InvalidArgumentError, "has its data at 0; expected the address"),
        ({"data": (-4, False)}, InvalidArgumentError, "has its data at -4"),
        ({"data": (1 << 64, False)}, InvalidArgumentError, "has its data at 18446744073709551616"),
    ):
        with pytest.raises(error, match=match):
            own.wrap(ByInterface(b, **{"stream": None, **changes}))
        with pytest.raises(error, match=match):
            ops.relu(own, ByInterface(b, **{"stream": None, **changes}), b)
    with pytest.raises(ValueError, match="read-only"):
        ops.relu(own, b, ByInterface(b, data=(b._describe().data, True)))
    with pytest.raises(BackendError, match=r"ByDLPack on DLPack device \(\d+, 7\); the executor is on"):
        own.wrap(ByDLPack(b, device=(own._device_type, 7)))
    with pytest.raises(BackendError, match="nothing is copied silently"):
        own.wrap(ByDLPack(b, device=(1, 0)))
    with pytest.raises(BackendError, match="nothing is copied silently"):
        own.wrap(np.zeros(3, np.float32))
    with hg.Executor("cpu") as host, pytest.raises(BackendError, match="in a GPU's memory is not in memory that cpu"):
        host.wrap(ByInterface(b))
    with pytest.raises(DTypeError, match="b has dtype i64, and a has f32"):
        ops.vector_add(own, ByInterface(b), ByInterface(buffer(own, np.arange(4), np.int64)), b)


def test_dlpack_out_of_a_device(own: hg.Executor) -> None:
    s = hg.Stream(own)
    b = buffer(own, np.arange(6)).view((2, 3))
    device = b.__dlpack_device__()
    assert device == (own._device_type, own._device_id)
    before = hg._ffi.native.object_count()
    for named in (
        {"stream": s.handle},
        {"stream": -1, "max_version": (1, 0)},
        {"stream": 2},
        {"stream": s.handle, "dl_device": device, "copy": False},
        {"stream": s.handle, "copy": True, "max_version": (1, 1)},
    ):
        x = own.wrap(ByCapsule(b, b.__dlpack__(**named)))
        assert x.to_numpy().tolist() == b.to_numpy().tolist()
        assert (x._describe().data == b._describe().data) is not named.get("copy", False)
        x.free()
        b.__dlpack__(**named)  # which nobody consumes
    own.synchronize()
    assert hg._ffi.native.object_count() <= before
    for stream in (0, -2, "s", 1.5, True):
        with pytest.raises(
            BufferError, match=r"__dlpack__: stream is .*; expected None, -1, 1, 2 or a stream's address"
        ):
            b.__dlpack__(stream=stream)
    with pytest.raises(BufferError, match="dl_device is"):
        b.__dlpack__(dl_device=(own._device_type, 9))
    with pytest.raises(BufferError, match="dl_device is"):
        b.__dlpack__(dl_device=(1, 0), copy=False)


class ByCapsule:
    """What gives a capsule that there is."""

    def __init__(self, b: hg.Buffer, capsule: object) -> None:
        self.b, self.capsule = b, capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.b.__dlpack_device__()

    def __dlpack__(self, **named: Any) -> object:
        return self.capsule


def test_a_copy_on_the_host(own: hg.Executor, host: hg.Executor) -> None:
    class OnHost:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **named: Any) -> object:
            return b.__dlpack__(dl_device=(1, 0), **named)

    b = buffer(own, np.arange(6)).view((2, 3))
    x = host.wrap(OnHost())
    assert np.asarray(x).tolist() == [[0, 1, 2], [3, 4, 5]]
    b = b.view((0, 2))
    assert host.wrap(OnHost()).shape == (0, 2)


def test_the_memory_lasts_as_long_as_the_capsule(own: hg.Executor) -> None:
    b = buffer(own, np.arange(6))
    capsule = b.__dlpack__(stream=own.stream.handle)
    other = ByCapsule(b, capsule)
    b.free()
    again = buffer(own, np.zeros(6))
    assert own.wrap(other_device(other, own)).to_numpy().tolist() == list(range(6))
    assert again.to_numpy().sum() == 0


def other_device(array: ByCapsule, ex: hg.Executor) -> Any:
    array.__dlpack_device__ = lambda: (ex._device_type, ex._device_id)  # type: ignore[method-assign]
    kind = type("Freed", (), {"__dlpack_device__": lambda _: (ex._device_type, ex._device_id)})
    kind.__dlpack__ = lambda _, **named: array.capsule  # type: ignore[attr-defined]
    return kind()


def test_producers_from_before_version_1(own: hg.Executor) -> None:
    b = buffer(own, np.arange(3))
    array = ByDLPack(b, old=True)
    assert own.wrap(array).to_numpy().tolist() == [0, 1, 2]
    assert [set(named) for named in array.asked] == [{"stream", "max_version"}, {"stream"}]


def test_the_interface(own: hg.Executor) -> None:
    b = buffer(own, np.arange(6)).view((2, 3))
    found = interface(b)
    assert found == {
        "version": 3,
        "shape": (2, 3),
        "typestr": "<f4",
        "data": (b._describe().data, False),
        "strides": None,
        "stream": own.stream.handle,
    }
    turned = interface(b.view((3, 2), strides=(1, 3)))
    assert turned["strides"] == (4, 12)
    assert interface(b.view((0,)))["data"] == (0, False)
    assert hasattr(b, "__cuda_array_interface__") is (own._device_type == 2)
    assert not hasattr(own.allocate(3, "bf16"), "__cuda_array_interface__")


def test_memory_of_the_host_has_no_such_interface(host: hg.Executor) -> None:
    assert not hasattr(host.allocate(3), "__cuda_array_interface__")
    assert host.allocate(3).__dlpack_device__() == (1, 0)


# ---- the real ones


@pytest.fixture
def cuda() -> Any:
    if not hg.is_cuda_available():
        pytest.skip("no GPU of NVIDIA's here")
    with hg.Executor("cuda") as made:
        yield made


@pytest.fixture
def torch(cuda: hg.Executor) -> Any:
    found = pytest.importorskip("torch", reason="torch is not installed")
    if not found.cuda.is_available():
        pytest.skip("torch has no GPU here")
    return found


@pytest.fixture
def cupy(cuda: hg.Executor) -> Any:
    return pytest.importorskip("cupy", reason="CuPy is not installed")


def test_torch_sees_buffers_in_place(cuda: hg.Executor, torch: Any) -> None:
    b = buffer(cuda, np.arange(1 << 20))
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            for _ in range(20):
                b.fill(3)
                x = torch.from_dlpack(b)
                assert x.data_ptr() == b._describe().data and x.is_cuda
                assert (x + 1).sum().item() == 4 << 20
                y = torch.as_tensor(b, device="cuda")
                assert y.data_ptr() == b._describe().data
                x += 1
                cuda.wait(cuda.record(stream))
                assert ops.reduce_sum(b) == 4 << 20
    z = b.view((1024, 1024)).view((1024, 1024), strides=(1, 1024))
    assert torch.from_dlpack(z).stride() == (1, 1024)
    assert torch.from_dlpack(buffer(cuda, [True, False], bool)).tolist() == [True, False]


def test_a_tensor_s_memory_is_let_go_of_behind_its_work(cuda: hg.Executor, torch: Any) -> None:
    n = 1 << 24
    for i in range(20):
        b = cuda.allocate(n)
        b.fill(i)
        x = torch.from_dlpack(b)
        b.free()
        y = x
        for _ in range(5):
            y = y + 1
        total = (x + y).max()
        del x
        again = cuda.allocate(n, zero=False)
        again.fill(1000)
        assert total.item() == 2 * i + 5
        again.free()


def test_torch_s_tensors_wrapped(cuda: hg.Executor, torch: Any) -> None:
    x = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        stream.wait_stream(torch.cuda.default_stream())
        for _ in range(10):
            x += 1
        b = cuda.wrap(x)
    assert b._describe().data == x.data_ptr()
    assert ops.reduce_max(b) == (1 << 20) + 9
    bf = torch.ones(8, device="cuda", dtype=torch.bfloat16)
    assert cuda.wrap(bf).dtype.name == "bfloat16"


def test_calls_on_streams_of_torch_s(cuda: hg.Executor, torch: Any) -> None:
    s, x = torch.cuda.Stream(), torch.ones(1 << 20, device="cuda")
    out = torch.empty_like(x)
    torch.cuda.synchronize()
    b = buffer(cuda, np.ones(1 << 20))
    for _ in range(5):
        ops.vector_add(x, x, out, stream=s)
        ops.vector_add(out, out, out, stream=s.cuda_stream)
        ops.vector_add(b, out, b, stream=s)
    s.synchronize()
    assert out[0].item() == 4 and b.to_numpy()[0] == 21
    own = torch.cuda.ExternalStream(cuda.stream.handle)
    with torch.cuda.stream(own):
        y = torch.from_dlpack(b) * 2
        ops.vector_add(y, y, out)
    own.synchronize()
    assert out[0].item() == 84


def test_copies_of_torch_s_pinned_memory(cuda: hg.Executor, torch: Any) -> None:
    from hologram._copies import is_pinned

    x = torch.arange(1 << 22, dtype=torch.float32).pin_memory().numpy()
    assert is_pinned(cuda, x)
    b = cuda.from_numpy(x)
    out = torch.empty(1 << 22, dtype=torch.float32, pin_memory=True).numpy()
    assert cuda.submit(b.to_numpy, out).result() is out
    assert np.array_equal(x, out)


def test_cupy_s_arrays(cuda: hg.Executor, cupy: Any) -> None:
    x, y = cupy.arange(1 << 20, dtype=cupy.float32), cupy.ones(1 << 20, dtype=cupy.float32)
    made = ops.vector_add(x, y)
    assert isinstance(made, cupy.ndarray)
    assert float(made[5]) == 6
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        z = cupy.zeros_like(x)
        for _ in range(10):
            z += 1
        ops.vector_add(z, y, z)
        z *= 2
        assert float(z.max()) == 22
    ops.vector_add(cuda, z, z, z, stream=stream)
    stream.synchronize()
    assert float(z[0]) == 44
    assert cuda.wrap(x)._describe().data == x.data.ptr
    assert ops.reduce_sum(x[::2].reshape(2, -1), axis=1).shape == (2,)
    ops.vector_add(x, x, z)
    for made, expected in ((ops.vector_add(x, 2.0), 7), (z, 10), (ops.vector_less(y, x), True)):
        assert isinstance(made, cupy.ndarray) and made.dtype == (bool if expected is True else x.dtype)
        assert made[5].item() == expected
    twice = hg.kernel(lambda v: v + v)
    for _ in range(2):
        assert isinstance(twice(y), cupy.ndarray) and twice(y)[5].item() == 2


def test_kernels_take_what_cudas_interface_alone_shows(cuda: hg.Executor) -> None:
    found = hg.cos(ByInterface(buffer(cuda, np.arange(4))))
    assert isinstance(found, hg.Buffer)
    np.testing.assert_allclose(found.to_numpy(), np.cos(np.arange(4)), rtol=1e-6)


def test_cupy_sees_buffers_in_place(cuda: hg.Executor, cupy: Any) -> None:
    b = buffer(cuda, np.arange(100))
    for array in (cupy.asarray(b), cupy.from_dlpack(b)):
        assert array.data.ptr == b._describe().data
        assert float(array.sum()) == 4950
