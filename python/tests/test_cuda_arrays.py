"""Arrays by __cuda_array_interface__ and DLPack: CuPy's and others' as operands, and our buffers as others' arrays.

What C does with such an operand is tested everywhere, on arrays that say so of the host's memory; the rest on a GPU.
"""

from __future__ import annotations

import gc
from typing import Any, Optional

import numpy as np
import pytest
from support import DEVICE

import hologram as hg
from hologram import ops

on_gpu = pytest.mark.skipif(DEVICE != "cuda", reason="it wants an NVIDIA GPU")


class Array:
    """An array of numpy's that says where it is as a GPU's does."""

    def __init__(self, array: np.ndarray[Any, Any], **other: Any) -> None:
        self.array, self.other = array, other

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        told = {key: self.array.__array_interface__[key] for key in ("shape", "typestr", "data", "strides")}
        return {**told, "version": 3, "mask": None, "stream": None, **self.other}

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("strided", [False, True])
def test_operands_in_place(host: hg.Executor, strided: bool) -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros((3, 4), np.float32)
    if strided:
        x, y = x.T, np.zeros((4, 6), np.float32)[:, ::2]
    for _ in range(3):
        y[...] = 0
        ops.vector_add(host, Array(x), x, Array(y))
        assert np.array_equal(y, x + x)
    p = hg.Program("slot a f32\nslot c f32\n ldg.f32 v, a[index]\n neg.f32 v, v\n stg.f32 v, c[index]\n exit")
    host.launch(p, a=Array(x), c=Array(y))
    assert np.array_equal(y, -x)


@pytest.mark.parametrize("dtype", ["i1", "i8", "u2", "f2", "f4", "f8"])
def test_dtypes(host: hg.Executor, dtype: str) -> None:
    x, y = np.arange(5).astype(dtype), np.zeros(5, dtype)
    ops.vector_mul(host, Array(x), Array(x), Array(y))
    assert np.array_equal(y, x * x)


def test_work_that_takes_long_keeps_its_operands(host: hg.Executor) -> None:
    """The GIL is let go of meanwhile, so that the array's owner may be dropped."""
    x, y = np.ones(1 << 22, np.float32), np.zeros(1 << 22, np.float32)
    text = "ldg.f32 v, a[index]\n loop 40, end\n sin.f32 v, v\nend:\n stg.f32 v, c[index]\n exit"
    host.launch(hg.Program(f"slot a f32\nslot c f32\n{text}"), a=Array(x), c=Array(y))
    gc.collect()
    assert 0 < y[0] < 1 and (y == y[0]).all()


@pytest.mark.parametrize(
    "other", [{"typestr": "<c8"}, {"typestr": ">f4"}, {"strides": (6,)}, {"data": (0, False)}, {"mask": "m"}]
)
def test_what_is_wrong_is_an_error(host: hg.Executor, other: dict[str, Any]) -> None:
    x = np.ones(4, np.float32)
    with pytest.raises((hg.HologramError, TypeError)):
        ops.vector_add(host, Array(x, **other), x, x)
    assert (x == 1).all()


# ---- on a GPU


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


@on_gpu
@pytest.mark.parametrize("stream", [False, True])
def test_cupy_operands_on_its_stream(ex: hg.Executor, cupy: Any, stream: bool) -> None:
    with cupy.cuda.Stream(non_blocking=True) if stream else cupy.cuda.Stream.null:
        for n in (1000, 1 << 22):
            x = cupy.arange(n, dtype=cupy.float32)
            for _ in range(20):  # each waits for what comes before, by whichever of the two
                y = cupy.zeros(n, cupy.float32)
                ops.vector_add(ex, x, x, y)
                y *= 2
                ops.vector_sub(ex, y, x, y)
                assert bool((y == 3 * x).all())


@on_gpu
def test_cupy_results(ex: hg.Executor, cupy: Any) -> None:
    x = cupy.linspace(-1, 1, 999, dtype=cupy.float32).reshape(27, 37)
    y = ops.relu(ex, x)
    assert isinstance(y, cupy.ndarray) and y.shape == x.shape
    assert bool((y == cupy.maximum(x, 0)).all())
    assert np.array_equal(ops.reduce_sum(ex, x[:, ::2], axis=1).shape, (27,))


@on_gpu
def test_wrapped_cupy_arrays(ex: hg.Executor, cupy: Any) -> None:
    x = cupy.arange(12, dtype=cupy.int32).reshape(3, 4).T
    b = ex.wrap(x)
    assert b.shape == (4, 3)
    assert np.array_equal(b.to_numpy(), x.get())
    b.fill(7)
    ex.synchronize()
    assert bool((x == 7).all())


@on_gpu
@pytest.mark.parametrize("dtype", ["f32", "i8", "f64", "u8", "f16"])
def test_buffers_are_cupy_s_arrays(ex: hg.Executor, cupy: Any, dtype: str) -> None:
    x = np.arange(24).reshape(4, 6).astype(hg._dtypes.dtype_of(dtype))
    b = ex.from_numpy(x)
    for made in (cupy.asarray(b), cupy.from_dlpack(b), cupy.asarray(b.view((6, 4), strides=(1, 6)))):
        assert np.array_equal(made.get(), x if made.shape == x.shape else x.T)
    at = cupy.asarray(b)
    at += 1
    cupy.cuda.Device().synchronize()
    assert np.array_equal(b.to_numpy(), x + 1)


@on_gpu
@pytest.mark.parametrize("stream", [None, -1, 1, 2])
def test_buffers_are_torch_s_tensors(ex: hg.Executor, stream: Optional[int]) -> None:
    torch = pytest.importorskip("torch")
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    b = ex.from_numpy(x)
    if stream == -1:
        ex.synchronize()
    assert b.__dlpack_device__() == (2, 0)
    assert np.array_equal(torch.from_dlpack(b).cpu().numpy(), x)
    t = torch.utils.dlpack.from_dlpack(b.__dlpack__(stream=stream))
    assert t.device.type == "cuda"
    t += 1
    torch.cuda.synchronize()
    assert np.array_equal(b.to_numpy(), x + 1)
    with pytest.raises(BufferError, match="stream is 0"):
        b.__dlpack__(stream=0)


@on_gpu
def test_lent_memory_is_not_used_again_too_soon(ex: hg.Executor) -> None:
    """The tensor's end is known to its owner long before that of the kernels that read it."""
    torch = pytest.importorskip("torch")
    for _ in range(20):
        b = ex.from_numpy(np.ones(1 << 20, np.float32))
        t = torch.from_dlpack(b)
        b.free()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.cuda._sleep(1 << 22)  # some milliseconds
            total = t.sum()
        del t
        other = ex.allocate(1 << 20, zero=False)
        other.fill(5.0)
        ex.synchronize()
        assert float(total) == 1 << 20
        other.free()


def test_the_host_s_buffers_have_no_such_interface(host: hg.Executor) -> None:
    b = host.allocate(3)
    assert not hasattr(b, "__cuda_array_interface__")
    with pytest.raises(AttributeError):
        _ = b.__cuda_array_interface__
