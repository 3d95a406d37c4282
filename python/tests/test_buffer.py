"""Buffers: copies in and out, views, zero copy, reference counts, the end."""

from __future__ import annotations

import gc
from typing import Any, Callable

import numpy as np
import pytest
from support import DTYPES, buffer, from_dlpack

import hologram as hg
from hologram._dtypes import dtype_of


def sample(name: str, n: int) -> np.ndarray[Any, Any]:
    """Arbitrary bits of a type."""
    rng = np.random.default_rng(n)
    return rng.integers(0, 256, n * dtype_of(name).itemsize, np.uint8).view(dtype_of(name))


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("n", [1, 7, 1000])
def test_round_trip_is_exact(ex: hg.Executor, name: str, n: int) -> None:
    x = sample(name, n)
    b = ex.allocate(n, name)
    b.from_numpy(x)
    assert b.to_numpy().tobytes() == x.tobytes()
    assert b.to_numpy().dtype == x.dtype
    assert b.to_bytes() == x.tobytes()
    other = ex.allocate(n, name)
    other.from_bytes(x.tobytes())
    assert other.to_bytes() == x.tobytes()
    third = ex.allocate(n, name)
    third.copy_from(other)
    assert third.to_bytes() == x.tobytes()


@pytest.mark.parametrize("shape", [(2, 3), (6,), [6], (1, 1, 4), (), (1,) * 8, np.array([2, 2])])
def test_buffers_have_shapes(ex: hg.Executor, shape: Any) -> None:
    expected = np.arange(np.prod(shape, dtype=int), dtype=np.int16).reshape(shape)
    b = ex.allocate(shape, "i16")
    assert (b.shape, b.size, b.ndim) == (expected.shape, expected.size, expected.ndim)
    assert not b.to_numpy().any()
    b.from_numpy(expected)
    copy = ex.from_numpy(expected)
    for each in (b, copy):
        found = each.to_numpy()
        assert found.shape == expected.shape and (found == expected).all()
    out = ex.allocate(shape, "i16", zero=False)
    hg.ops.vector_add(ex, b, copy, out)
    assert (out.to_numpy() == 2 * expected).all()
    used = ex.memory_stats()["executor"]
    b.free()
    assert ex.memory_stats()["executor"] < used


@pytest.mark.parametrize("shape", [(0,), (2, 0), (-1,), (-2, -3), (1,) * 9, (1 << 40, 1 << 40), (2.0,), ("a",), "23"])
def test_shapes_that_cannot_be(ex: hg.Executor, shape: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="allocate: size"):
        ex.allocate(shape)


def test_copies_take_elements_whatever_the_shapes(host: hg.Executor) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    flat, buffer, turned = host.allocate(8), host.wrap(x), host.wrap(np.zeros((4, 2), np.float32).T)
    flat.copy_from(buffer)
    assert flat.to_numpy().tolist() == list(range(8))
    flat.fill(0)
    flat.copy_from(host.wrap(x.T))
    assert flat.to_numpy().tolist() == x.T.ravel().tolist()
    turned.copy_from(flat)
    assert np.array_equal(np.asarray(turned).ravel(), x.T.ravel())
    buffer.copy_from(host.wrap(x[::-1].copy()).view((4, 2)))
    assert x.tolist() == [[4, 5, 6, 7], [0, 1, 2, 3]]

    class Copied:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **options: Any) -> object:
            return host.wrap(x.T).__dlpack__(copy=True)

    copy = np.from_dlpack(Copied())
    assert np.array_equal(copy, x.T)
    assert not np.shares_memory(copy, x)


def test_to_numpy_is_a_copy(ex: hg.Executor) -> None:
    b = buffer(ex, [1, 2])
    b.to_numpy()[0] = 9
    assert b.to_numpy()[0] == 1


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("value", [0, 1, 100])
def test_fill(ex: hg.Executor, name: str, value: int) -> None:
    b = ex.allocate(33, name)
    b.fill(value)
    assert (b.to_numpy() == value).all()


@pytest.mark.parametrize("value", [1.5, -0.0, float("inf"), 1e-45, np.float32(0.1), 3])
def test_fill_float(ex: hg.Executor, value: Any) -> None:
    b = ex.allocate(5)
    b.fill(value)
    assert b.to_bytes() == np.full(5, value, np.float32).tobytes()


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("u8", -1, ValueError),
        ("u8", 256, ValueError),
        ("i8", 128, ValueError),
        ("i64", 1 << 63, ValueError),
        ("u64", 1 << 64, ValueError),
        ("i32", 1.5, TypeError),
        ("i32", float("nan"), TypeError),
        ("i32", 1e300, ValueError),
        ("f32", 1e39, ValueError),
        ("f16", 70000, ValueError),
        ("f32", "1", TypeError),
        ("f32", None, TypeError),
        ("f32", [1, 2], TypeError),
    ],
)
def test_fill_refuses(ex: hg.Executor, name: str, value: Any, error: type[Exception]) -> None:
    b = ex.allocate(4, name)
    with pytest.raises(error):
        b.fill(value)
    assert not b.to_numpy().any()


@pytest.mark.parametrize("name", [name for name in DTYPES if name[0] in "iu"])
def test_the_ends_of_integers_are_taken_everywhere(ex: hg.Executor, name: str) -> None:
    """By fill, as a number beside arrays and as a parameter; beyond them all is refused, and stays as it was."""
    info = np.iinfo(dtype_of(name))
    store = hg.Program(f"program t\nslot c {name}\nparam k {name}\nldp.{name} v, k\nstg.{name} v, c[index]\nexit")
    ways: list[Callable[[hg.Buffer, Any], Any]] = [
        lambda b, value: b.fill(value),
        lambda b, value: ex.launch(store, c=b, k=value),
        lambda b, value: hg.ops.fill(ex, b, value),
        lambda b, value: hg.ops.vector_add(ex, ex.allocate(2, name), int(value), b),  # numpy's are arrays
    ]
    for way in ways:
        for end in (info.min, info.max):
            for value in (end, np.array(end, info.dtype)[()]):
                b = ex.from_numpy(np.array([3, 4], info.dtype))
                way(b, value)
                assert b.to_numpy().tolist() == [end] * 2
        for beyond in (info.min - 1, info.max + 1):
            with pytest.raises(ValueError, match=str(beyond)):
                way(b, beyond)
            assert b.to_numpy().tolist() == [info.max] * 2


def test_integral_floats_fill_integers(ex: hg.Executor) -> None:
    b = ex.allocate(4, "u64")
    b.fill(2.0**63)
    assert (b.to_numpy() == 1 << 63).all()


def test_from_numpy_errors(ex: hg.Executor) -> None:
    b = ex.allocate(4)
    with pytest.raises(TypeError, match="list"):
        b.from_numpy([1, 2, 3, 4])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dtype"):
        b.from_numpy(np.zeros(4))
    with pytest.raises(ValueError, match="doesn't match"):
        b.from_numpy(np.zeros(3, np.float32))
    with pytest.raises(ValueError, match="doesn't match"):
        b.from_bytes(b"123")
    with pytest.raises(ValueError, match="sizes"):
        b.copy_from(ex.allocate(5))
    with pytest.raises(ValueError, match="dtype"):
        b.copy_from(ex.allocate(4, "i32"))
    with pytest.raises(TypeError):
        b.copy_from(np.zeros(4, np.float32))  # type: ignore[arg-type]


def test_from_numpy_takes_strided_and_shaped_arrays(ex: hg.Executor) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    b = ex.allocate(12)
    b.from_numpy(x[:, ::2])
    assert b.to_numpy().tolist() == x[:, ::2].ravel().tolist()


def test_bool_counts_as_u8(ex: hg.Executor) -> None:
    b = ex.allocate(3, bool)
    b.from_numpy(np.array([True, False, True]))
    assert b.to_numpy().tolist() == [True, False, True]
    raw = ex.allocate(3, "u8")
    raw.copy_from(b)
    assert raw.to_numpy().tolist() == [1, 0, 1]
    for value in (2, 0.5, -1.0, np.bool_(True), np.int64(2), np.uint8(255), np.float32(0.5)):
        for at in (b, b.view((2,), strides=(2,))):
            b.fill(0)
            at.fill(value)
            raw.copy_from(b)
            assert set(raw.to_numpy()[::2]) == {1}, f"{value!r}: a bool's byte is 0 or 1"
    b.fill(np.float32(0))
    assert not b.to_numpy().any()


def test_free_is_idempotent_and_use_after_it_an_error(ex: hg.Executor) -> None:
    a, c = ex.allocate(4), ex.allocate(4)
    a.free()
    a.free()
    assert a._freed
    assert "freed" in repr(a)
    for use in (
        a.to_numpy,
        a.to_bytes,
        a.memoryview,
        lambda: a.fill(1),
        lambda: a.from_numpy(np.zeros(4, np.float32)),
        lambda: c.copy_from(a),
        lambda: a.copy_from(c),
        lambda: hg.ops.vector_add(ex, a, c, c),
        lambda: hg.ops.vector_add(ex, a, c, c, n=2),
        lambda: hg.ops.reduce_sum(ex, a, c),
        lambda: a.view([2]),
        lambda: a.nbytes and a.strides,
        lambda: np.asarray(a),
    ):
        with pytest.raises(RuntimeError, match="freed"):
            use()


def test_view(ex: hg.Executor) -> None:
    b = buffer(ex, np.arange(12))
    v = b.view((3, 4))
    assert v.to_numpy().tolist() == np.arange(12).reshape(3, 4).tolist()
    tail = b.view([4], offset=8)
    tail.fill(-1)
    assert b.to_numpy().tolist() == [*range(8), -1, -1, -1, -1]
    b.free()
    assert v.to_numpy()[0, 1] == 1
    for wrong in (
        {"shape": [13]},
        {"shape": [4], "offset": 9},
        {"shape": [2], "offset": -1},
        {"shape": [3], "strides": [6]},
    ):
        with pytest.raises((ValueError, RuntimeError)):
            v.view(**wrong)
    with pytest.raises(ValueError, match="strides"):
        v.view([2, 2], strides=[1])


def test_a_buffer_of_a_buffer_has_its_elements_in_its_order(host: hg.Executor) -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for array in (x, x.T, x[:, ::2], x[::-1, 1:], np.broadcast_to(x[0], (3, 6)), x[:0], x[1, 2, ...]):
        b = host.wrap(host.wrap(array))
        assert b.shape == array.shape
        assert np.array_equal(b.to_numpy(), array)
        assert not array.size or np.shares_memory(np.asarray(b), x)


def test_views_of_a_strided_buffer_see_its_elements_alone(host: hg.Executor) -> None:
    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    column = host.wrap(x[:, ::2])  # what lies between is somebody else's
    assert column.view((6,), strides=(8,)).to_numpy().tolist() == x[:, 0].tolist()
    assert column.view((3, 2), offset=4, strides=(16, 2)).to_numpy().tolist() == x[::2, 4::2].tolist()
    assert column.view((4, 6), strides=(2, 8)).to_numpy().tolist() == x[:, ::2].T.tolist()
    for wrong in (
        {"shape": (24,)},
        {"shape": (6, 4)},
        {"shape": (4,), "offset": 1, "strides": (2,)},
        {"shape": (5,), "strides": (2,)},
        {"shape": (2,), "strides": (9,)},
    ):
        with pytest.raises(ValueError, match=r"view: .*see memory between the elements of the buffer, which has shape"):
            column.view(**wrong)
        with pytest.raises(ValueError, match="between the elements"):
            column.view((1,)).view(**wrong)
        with pytest.raises(ValueError, match="between the elements"):
            column.view((0,)).view((), strides=()).view(**wrong)
    assert column.view((1,)).view((6,), strides=(8,)).to_numpy().tolist() == x[:, 0].tolist()


def test_strided_views_in_operations(ex: hg.Executor) -> None:
    b = buffer(ex, np.arange(12))
    even, odd, out = b.view([6], strides=[2]), b.view([6], offset=1, strides=[2]), ex.allocate(6)
    hg.ops.vector_add(ex, even, odd, out)
    assert out.to_numpy().tolist() == [4 * i + 1 for i in range(6)]
    hg.ops.vector_add(ex, even, odd, even)  # in place, interleaved with an input
    assert b.to_numpy().tolist() == [1, 1, 5, 3, 9, 5, 13, 7, 17, 9, 21, 11]
    backward = out.view([6], offset=5, strides=[-1])
    hg.ops.copy(ex, backward, even)
    assert b.to_numpy()[::2].tolist() == [21, 17, 13, 9, 5, 1]


# ---- zero copy


@pytest.mark.parametrize("name", ["f32", "bf16", "bool"])
@pytest.mark.parametrize("n", [0, 1, 6])
def test_arrays_are_copies_where_they_are_asked_to_be(host: hg.Executor, name: str, n: int) -> None:
    """numpy's protocol by itself: copy and dtype in all ways, also of no elements, and of what is gone."""
    values = np.arange(6).reshape(2, 3)[:, :n].astype(dtype_of(name))
    b = host.wrap(values)
    other = np.dtype("f8")
    for copy in (None, True, False):
        for dtype in (None, values.dtype, other):
            if dtype is other and copy is False:
                with pytest.raises(ValueError, match="can't be seen as float64 without a copy"):
                    b.__array__(dtype, copy)
                continue
            found = b.__array__(dtype, copy)
            assert found.dtype == (dtype or values.dtype) and found.shape == values.shape
            assert np.array_equal(found, values)
            assert np.shares_memory(found, values) == (values.size > 0 and not copy and dtype is not other)
    b.free()
    for use in (b.__array__, b.memoryview, lambda: np.asarray(b), b.to_numpy, b.to_bytes, lambda: b.copy_from(b)):
        with pytest.raises(RuntimeError, match="freed"):
            use()


def test_asarray_shares_memory(host: hg.Executor) -> None:
    b = host.allocate(4)
    x = np.asarray(b)
    x[:] = 3
    assert b.to_numpy().tolist() == [3, 3, 3, 3]
    b.fill(5)
    assert x.tolist() == [5, 5, 5, 5]
    assert x.dtype == np.float32
    assert x.shape == (4,)
    assert x.flags.writeable
    assert x.ctypes.data % 64 == 0


@pytest.mark.parametrize("name", DTYPES)
def test_asarray_of_every_dtype(host: hg.Executor, name: str) -> None:
    data = sample(name, 12)
    b = host.from_numpy(data)
    assert np.asarray(b).dtype == dtype_of(name)
    assert np.asarray(b).tobytes() == data.tobytes()
    m = b.memoryview()
    assert m.nbytes == data.nbytes
    assert m.tobytes() == data.tobytes()


@pytest.mark.parametrize("how", ["asarray", "memoryview", "buffer", "dlpack"])
def test_exported_views_outlive_the_buffer(host: hg.Executor, how: str) -> None:
    b = host.allocate(300_000)
    b.fill(2)
    used = host.memory_stats()["executor"]
    view: Any = {
        "asarray": np.asarray,
        "memoryview": lambda b: b.memoryview(),
        "buffer": lambda b: memoryview(b),
        "dlpack": from_dlpack,
    }[how](b)
    b.free()
    gc.collect()
    assert host.memory_stats()["executor"] == used
    again = [host.allocate(300_000) for _ in range(4)]
    for other in again:
        other.fill(7)
    assert (np.asarray(view) == 2).all()
    for other in again:
        other.free()
    part = np.asarray(view)[10:20]
    del view
    gc.collect()
    assert (part == 2).all()
    del part
    gc.collect()
    assert host.memory_stats()["executor"] == 0


def test_buffers_offer_the_buffer_protocol(host: hg.Executor) -> None:
    import ml_dtypes

    b = host.allocate((2, 3), "i16")
    view = memoryview(b)
    assert (view.shape, view.format, view.readonly) == ((2, 3), "h", False)
    view[1, 2] = 7
    assert b.to_numpy().tolist() == [[0, 0, 0], [0, 0, 7]]
    assert bytes(b) == b.to_bytes()
    read_only = host.wrap(np.frombuffer(b"abcd", np.uint8))
    assert memoryview(read_only).readonly
    with pytest.raises(BufferError, match="no bfloat16"):
        memoryview(host.from_numpy(np.zeros(3, ml_dtypes.bfloat16)))
    b.free()
    with pytest.raises(BufferError, match="can't be seen in place"):
        memoryview(b)
    assert view[1, 2] == 7


def test_views_outlive_the_executor() -> None:
    ex = hg.Executor("cpu")
    b = ex.allocate(100)
    b.fill(4)
    x = np.asarray(b)
    ex.cleanup()
    del ex, b
    gc.collect()
    assert (x == 4).all()


def test_wrap_shares_and_keeps_alive(host: hg.Executor) -> None:
    x = np.arange(6, dtype=np.float64).reshape(2, 3)
    b = host.wrap(x)
    assert (b.shape, b.size, b.dtype) == ((2, 3), 6, np.float64)
    b.fill(8)
    assert (x == 8).all()
    y = np.asarray(b)
    assert np.shares_memory(x, y)
    del x, b
    gc.collect()
    assert (y == 8).all()


@pytest.mark.parametrize(
    "cut",
    [
        lambda x: x.T,
        lambda x: x[::-1],
        lambda x: x[:, ::-2],
        lambda x: x[1:, 2:],
        lambda x: x[0],
        lambda x: x[1, 1],
        lambda x: x[:0],
        lambda x: np.broadcast_to(x[0], (5, 6)),
        lambda x: np.swapaxes(x.reshape(2, 2, 6), 0, 2),
    ],
)
def test_wrap_any_strides(host: hg.Executor, cut: Any) -> None:
    x = np.arange(24, dtype=np.int32).reshape(4, 6)
    view = np.asarray(cut(x))
    b = host.wrap(view)
    assert np.array_equal(b.to_numpy(), view)
    assert np.array_equal(np.asarray(b), view)
    assert b.shape == view.shape
    out = np.empty(view.shape, np.int32)
    hg.ops.vector_add(host, b, b, out)
    assert np.array_equal(out, view + view)


def test_wrap_refuses(host: hg.Executor) -> None:
    with pytest.raises(TypeError, match="got list"):
        host.wrap([1.0])
    with pytest.raises(TypeError, match="dtype"):
        host.wrap(np.zeros(3, complex))
    with pytest.raises(TypeError, match="byte order"):
        host.wrap(np.zeros(3, ">f4"))
    packed = np.zeros(4, np.dtype([("a", "u1"), ("b", "<f4")], align=False))
    with pytest.raises(ValueError, match="strides"):
        host.wrap(packed["b"])
    unaligned = np.frombuffer(bytearray(9), np.uint8)[1:].view(np.float32)
    with pytest.raises(ValueError, match="multiple"):
        host.wrap(unaligned)
    with pytest.raises(ValueError, match="dimensions"):
        host.wrap(np.zeros((1,) * 9, np.float32))


def test_read_only_arrays_are_inputs_alone(host: hg.Executor) -> None:
    x = np.arange(4, dtype=np.float32)
    x.flags.writeable = False
    out = np.empty(4, np.float32)
    b = host.wrap(x)
    assert b.read_only
    assert not np.asarray(b).flags.writeable
    assert b.memoryview().readonly
    hg.ops.vector_add(host, b, x, out)
    for use in (
        lambda: hg.ops.vector_add(host, out, out, b),
        lambda: hg.ops.vector_add(host, out, out, x),
        lambda: b.fill(1),
        lambda: b.from_numpy(out),
        lambda: b.copy_from(host.allocate(4)),
        lambda: b.view([2]).fill(0),
    ):
        with pytest.raises(ValueError, match="read-only"):
            use()
    assert x.tolist() == [0, 1, 2, 3]


def test_wrap_buffer_protocol(host: hg.Executor) -> None:
    data = bytearray(8)
    b = host.wrap(data)
    b.fill(3)
    assert data == b"\3" * 8
    assert host.wrap(b"12").read_only


def test_not_host_visible(ex: hg.Executor) -> None:
    b = ex.allocate(4)
    if ex.host_visible:
        assert b.host_visible
        return
    x = np.zeros(4, np.float32)
    for use in (
        lambda: np.asarray(b),
        b.memoryview,
        lambda: ex.wrap(x),
        lambda: hg.ops.vector_add(ex, b, x, b),
    ):
        with pytest.raises(RuntimeError, match=r"to_numpy\(\)|from_numpy"):
            use()


def test_copies_between_devices(ex: hg.Executor, host: hg.Executor) -> None:
    a, b = buffer(host, np.arange(1000)), ex.allocate(1000)
    b.copy_from(a)
    assert b.to_numpy().tolist() == list(range(1000))
    hg.ops.vector_add(ex, b, b, b)
    a.copy_from(b)
    assert a.to_numpy().tolist() == [2 * i for i in range(1000)]


def test_bf16_views(host: hg.Executor) -> None:
    import ml_dtypes

    b = host.allocate(4, "bf16")
    assert b.dtype == ml_dtypes.bfloat16
    x = np.asarray(b)
    x[:] = 1.5
    assert b.memoryview().format == "H"
    assert (b.to_numpy() == 1.5).all()
    wrapped = host.wrap(x)
    hg.ops.vector_add(host, wrapped, wrapped, wrapped)
    assert (x == 3).all()


def test_repr_is_short(ex: hg.Executor) -> None:
    assert repr(ex.allocate(8)) == f"<Buffer 8 × f32 on {ex.backend}>"
    assert repr(ex.allocate(2, bool)) == f"<Buffer 2 × bool on {ex.backend}>"
    assert "(2, 3)" in repr(ex.allocate(6).view((2, 3)))


def test_dtype_names() -> None:
    assert dtype_of("f32") == np.float32
    assert dtype_of(np.float64) == np.float64
    assert dtype_of("bf16").name == "bfloat16"
    assert dtype_of(int).itemsize == 8


# Each gives a view of the elements 0 … 15 of an array that is not contiguous.
STRIDED = {
    "reversed": lambda x: x[::-1],
    "every second": lambda x: x[::2],
    "every third from the end": lambda x: x[::-3],
    "transposed": lambda x: x.reshape(4, 4).T,
    "column": lambda x: x.reshape(4, 4)[:, 1:2],
    "reversed rows": lambda x: x.reshape(4, 4)[::-1, ::2],
}


@pytest.mark.parametrize("name", STRIDED)
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
def test_strided_arrays_are_copied_in_order(host: hg.Executor, name: str, dtype: type) -> None:
    memory = np.arange(16, dtype=dtype)
    array = STRIDED[name](memory)
    b = host.wrap(array)
    assert not b.contiguous
    assert b.to_numpy().shape == array.shape
    assert b.to_numpy().tolist() == array.tolist()
    assert b.to_bytes() == array.tobytes()
    values = np.arange(50, 50 + array.size, dtype=dtype)
    b.from_numpy(values)
    assert array.ravel().tolist() == values.tolist()
    untouched = np.setdiff1d(np.arange(16), STRIDED[name](np.arange(16)))
    assert memory[untouched].tolist() == untouched.tolist()
    b.from_bytes(values[::-1].tobytes())
    assert array.ravel().tolist() == values[::-1].tolist()


def test_strided_views_are_copied_in_order(ex: hg.Executor) -> None:
    b = ex.from_numpy(np.arange(8, dtype=np.float32))
    odd = b.view((4,), offset=1, strides=(2,))
    assert odd.to_numpy().tolist() == [1, 3, 5, 7]
    odd.from_numpy(np.array([10, 30, 50, 70], np.float32))
    assert b.to_numpy().tolist() == [0, 10, 2, 30, 4, 50, 6, 70]


def test_a_strided_read_only_array_is_read_and_not_written(host: hg.Executor) -> None:
    memory = np.arange(8.0)
    memory.flags.writeable = False
    b = host.wrap(memory[::-2])
    assert b.to_numpy().tolist() == [7, 5, 3, 1]
    with pytest.raises(ValueError, match="read-only"):
        b.from_numpy(np.zeros(4))


def test_copies_are_made_in_pieces(ex: hg.Executor) -> None:
    """A copy is queued 64 MiB at a time."""
    a = np.arange((1 << 24) + 3, dtype=np.uint32)
    assert (ex.from_numpy(a).to_numpy() == a).all()
