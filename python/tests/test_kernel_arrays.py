"""What kernels take and give: arrays of all kinds, shapes, strides, outputs."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from kernels import assert_same, branching, written

import hologram
import hologram as hg

KINDS = ["numpy", "buffer", "torch"]


def as_kind(kind: str, x: np.ndarray[Any, Any], ex: hg.Executor) -> Any:
    if kind == "torch":
        return pytest.importorskip("torch", reason="torch is not installed").from_numpy(x)
    return ex.wrap(x) if kind == "buffer" else x


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_what_the_first_array_is(host: hg.Executor, kind: str) -> None:
    f = hologram.kernel(lambda k, x, y: (x + y * k, x < y))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = np.ones(3, np.float32)
    total, less = f(2, as_kind(kind, x, host), y)
    for result, dtype in ((total, "float32"), (less, "bool")):
        assert type(result) is type(as_kind(kind, x, host))
        assert tuple(result.shape) == (2, 3)
        assert dtype in str(result.dtype)
    assert_same(np.asarray(total), x + y * 2)
    assert_same(np.asarray(less), x < y)
    out = as_kind(kind, np.empty((2, 3), np.float32), host), as_kind(kind, np.empty((2, 3), bool), host)
    assert f(2, x, y, out=out) is out
    assert_same(np.asarray(out[0]), x + y * 2)
    assert_same(np.asarray(out[1]), x < y)


def test_other_memory_and_dlpack(host: hg.Executor) -> None:
    class Other:
        """Something with DLPack and nothing else."""

        def __init__(self, array: Any) -> None:
            self.array = array

        def __dlpack__(self, **keywords: Any) -> Any:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    import array

    f = hologram.kernel(lambda x: x + 1)
    assert f(Other(np.arange(3))).tolist() == [1, 2, 3]
    assert f(array.array("f", [1, 2])).tolist() == [2, 3]
    assert f(memoryview(np.arange(3, dtype=np.int16))).tolist() == [1, 2, 3]


class Elsewhere(np.ndarray[Any, Any]):
    """An array that says where it is."""

    device = (2, 1)

    def __dlpack_device__(self) -> Any:
        return self.device


class Proxy:
    """Something that only says where it is."""

    device = (2, 1)

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        return np.ones(3).__dlpack__()


@pytest.mark.parametrize("kind", [Elsewhere, Proxy])
@pytest.mark.parametrize("device, expected", [((2, 1), (2, 1)), ((2, 0), (2, 0)), ((3, 0), (1, 0)), ((11, 1), (1, 0))])
def test_kernels_run_where_the_first_array_is(
    monkeypatch: pytest.MonkeyPatch, kind: Any, device: Any, expected: Any
) -> None:
    """On the device of its number, as operations do; what is pinned for a device is the host's."""
    from hologram import _results

    class Choice:
        """The executor for a device that there need not be."""

        def __init__(self, *device: int) -> None:
            chosen.append(device)

        def wrap(self, array: Any) -> Any:
            return np.ones(3)

        def launch(self, *arguments: Any) -> None:
            launched.append(self)

    chosen: list[tuple[int, ...]] = []
    launched: list[Any] = []
    monkeypatch.setattr(_results, "default_executor", Choice)
    x: Any = np.ones(3).view(Elsewhere) if kind is Elsewhere else Proxy()
    x.device = device
    hologram.kernel(lambda x, y: x + y)(x, np.ones(3), out=np.zeros(3))
    assert chosen[0] == expected and len(launched) == 1


def test_kernels_outlive_the_executor_that_they_ran_on() -> None:
    from hologram import _results

    f, x = hologram.kernel(lambda x: x + 1), np.ones(3)
    for _ in range(2):
        f(x)  # the way of a first call, and of others
        _results.default_executor(1).cleanup()
        assert f(x).tolist() == [2, 2, 2]


def test_bfloat16(host: hg.Executor) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.arange(5).astype(ml_dtypes.bfloat16)
    got = hologram.kernel(lambda x: (x * 0.5 + 1, x + np.float32(1)))(x)
    assert [str(g.dtype) for g in got] == ["bfloat16", "float32"]
    assert got[0].astype("f4").tolist() == [1, 1.5, 2, 2.5, 3]
    both, y = hologram.kernel(lambda x, y: x + y), np.arange(5, dtype=np.int32)
    try:
        common = np.result_type(x, y)
    except TypeError:  # of ml_dtypes before 0.7
        with pytest.raises(TypeError, match=r"bf16 and i32 have no common type; convert one with .astype"):
            both(x, y)
    else:
        assert both(x, y).dtype == common
        assert both(x, y).tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    "shapes",
    [[(), ()], [(3,), ()], [(2, 1), (1, 3)], [(0,), (1,)], [(3, 0), (0,)], [(4, 1, 2), (3, 1)], [(1,), (1, 1)]],
)
def test_shapes_broadcast(shapes: list[tuple[int, ...]]) -> None:
    f = hologram.kernel(lambda x, y: x - y)
    rng = np.random.default_rng(0)
    x, y = (np.asarray(rng.standard_normal(shape)) for shape in shapes)
    expected = np.asarray(x - y)
    assert_same(f(x, y), expected)
    out = np.full((2, *expected.shape), 7.0)
    assert f(x, y, out=out) is out
    assert_same(out, np.broadcast_to(expected, out.shape).copy())
    f(np.ones(3), np.ones(3))  # what is known of dtypes must not stand for shapes
    assert_same(f(np.zeros(3), np.ones((2, 3))), np.full((2, 3), -1.0))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("at", [(0, 0, 0), (1, 2, 0), (0, 1, 3), (1, 0, 2)])
def test_a_fault_tells_the_element_of_the_result(at: tuple[int, ...], order: Any) -> None:
    """Whatever order the arrays are in, and also where they are broadcast."""
    f, y = hologram.kernel(lambda x, y: x // y), np.ones((2, 3, 4), np.int32, order)
    y[at] = 0
    for x in (np.ones((2, 3, 4), np.int32), np.ones(4, np.int32)):
        with pytest.raises(hologram.ProgramFault, match=re.escape(f"at element {list(at)} of the shape (2, 3, 4)\n")):
            f(x, y)


def test_strides(host: hg.Executor) -> None:
    f = hologram.kernel(lambda x, y: x * 2 + y)
    base = np.arange(120.0).reshape(10, 12)
    for view in (base[::2, ::3], base.T[1:9:2], base[::-1, ::-1], np.broadcast_to(base[0], (4, 12)), base[3:4, 5:6]):
        assert_same(f(view, view), view * 2 + view)
        out = np.zeros((*view.shape, 2))[..., 1]
        f(view, view, out=out)
        assert_same(out.copy(), view * 2 + view)
    x = np.arange(5.0)
    f(x, x, out=x)
    assert x.tolist() == [0, 3, 6, 9, 12]
    buffer = host.from_numpy(np.arange(12.0))
    got = f(buffer.view((3, 4), strides=(1, 3)), 1)
    assert np.asarray(got).tolist() == (np.arange(12.0).reshape(4, 3).T * 2 + 1).tolist()


def test_arrays_of_several_orders() -> None:
    """The result keeps the order of those of its shape if they have one, as numpy's does, and else is row-major."""
    f = hologram.kernel(lambda x, y: x - y)
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    whole = [x, np.asfortranarray(x), np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2)]
    for a, b in itertools.product([*whole, x[0]], repeat=2):
        made = f(a, b)
        assert np.array_equal(made, a - b)
        orders = {each.strides for each in (a, b) if each.shape == made.shape}
        assert made.strides == (orders.pop() if len(orders) == 1 else x.strides)


def test_a_stencil_sees_neighbours_as_shifted_views() -> None:
    f = hologram.kernel(lambda left, here, right: 0.25 * left + 0.5 * here + 0.25 * right)
    x = np.random.default_rng(0).standard_normal(100)
    out = x.copy()
    f(x[:-2], x[1:-1], x[2:], out=out[1:-1])
    assert_same(out[1:-1], 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:])
    with pytest.raises(ValueError, match="overlap"):
        f(x[:-2], x[1:-1], x[2:], out=x[1:-1])


def test_names_that_programs_reserve() -> None:
    @hologram.kernel
    def f(index: Any, n: Any, shape: Any, λ: Any, r1: Any, program: float, out_: Any, exit: Any = 8) -> Any:
        return index + 2 * n + 3 * shape + 4 * λ + 5 * r1 + 6 * program + 7 * out_ + exit

    x = np.ones(2)
    assert f(x, x, x, x, x, 1, x).tolist() == [36, 36]
    many = hologram.kernel(lambda *x: sum(x))
    assert many(*[x] * 63).tolist() == [63, 63]
    with pytest.raises(ValueError, match="64 slots"):
        many(*[x] * 64)


def test_any_name_of_an_argument() -> None:
    """Those that programs reserve, long ones, and those that results have."""
    from hologram._kernel.signature import RESERVED

    x = np.ones(2)
    for name in (
        *sorted(RESERVED),
        "a" * 199,
        "a" * 200,
        "a" * 201,
        "a" * 300,
        "éa",
        "out_",
        "out0",
        "exit",
        "u",
        "loop",
    ):
        f = written(f"def f({name}, {name}_, other): return {name} + 2 * {name}_, {name} * other", f"<{name}>")
        first, second = hologram.kernel(f)(x, x * 3, 5)
        assert (first.tolist(), second.tolist()) == ([7, 7], [5, 5])
        f = written(f"def f({name}__, {name}_, {name}): return {name} + 2 * {name}_ + 4 * {name}__", f"<{name}_>")
        assert hologram.kernel(f)(x, x * 3, x * 5).tolist() == [15, 15]
    both = written("def f(out_, out0, out1, out0_): return out_ + out0, out1 - out0_", "<outs>")
    assert [r.tolist() for r in hologram.kernel(both)(x, x, x * 9, x * 2)] == [[2, 2], [7, 7]]


def test_what_is_known_of_a_call_stands_for_no_other(host: hg.Executor) -> None:
    """One kernel, called in all ways by turns, gives what a new one gives for each."""
    factor: Any = 2

    def function(x: Any, y: Any) -> Any:
        return x * factor + y

    base = np.arange(6)
    arrays = [base.reshape(2, 3).astype(d) for d in ("f4", "f8", "i2", "bool")] + [
        base[:3].astype("f4"),
        base[:1].astype("f8"),
    ]
    values: list[Any] = [*arrays, np.array(3.0), np.float32(2), np.int8(2), 2, 2.5, True, host.wrap(arrays[0])]
    kept = hologram.kernel(function)
    for second, name in itertools.product(values, (None, "f4", "f8", "i8", "wide", "buffer")):
        for outside, first in itertools.product((2, 0.5), (arrays[0], values[-1], 3, arrays[4])):
            factor = outside
            results = []
            for f in (kept, kept, hologram.kernel(function)):
                out: Any = None
                if name is not None:
                    out = np.zeros((2, 2, 3) if name == "wide" else (2, 3), "f8" if len(name) > 2 else name)
                    out = host.wrap(out) if name == "buffer" else out
                try:
                    made = f(first, second, out=out)
                except (TypeError, ValueError) as error:
                    made = re.sub(r"(?s)\n  at .*", "", str(error))
                if out is not None and not isinstance(made, str):
                    assert made is out
                results.append(made)
            kinds = [type(made) for made in results]
            assert kinds[0] is kinds[1] is kinds[2], (first, second, name)
            if kinds[0] is str:
                assert results[0] == results[1] == results[2]
            else:
                for made in results[:2]:
                    assert_same(made, results[2])


def test_several_outs_have_one_shape() -> None:
    f, x = hologram.kernel(lambda x: (x + 1, x * 2)), np.ones(3)
    for shapes in (((3,), (2, 3)), ((2, 3), (3,)), ((3,), (1, 3)), ((3,), (4,))):
        outs = tuple(np.zeros(shape) for shape in shapes)
        with pytest.raises(ValueError, match=r"out has shape \("):
            f(x, out=outs)
        assert not any(out.any() for out in outs)
    for given in ((np.zeros(3),), (np.zeros(3),) * 3):
        with pytest.raises(ValueError, match=f"out has {len(given)} arrays? for 2 results$"):
            f(x, out=given)


def test_pickling_is_by_name() -> None:
    import pickle

    # The module of this test can't be imported by its name, so one that can stands in.
    import sys
    import types

    module = types.ModuleType("of_kernels")
    branching_there = hologram.kernel(branching.__wrapped__)
    branching_there.__module__, module.branching = module.__name__, branching_there  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    try:
        assert pickle.loads(pickle.dumps(branching_there)) is branching_there
    finally:
        del sys.modules[module.__name__]


def test_numpy_s_numbers_keep_their_dtype() -> None:
    f = hologram.kernel(lambda x, y: x * y)
    x = np.arange(3, dtype=np.float32)
    for _ in range(3):  # the first call of a kind of arguments, and later ones
        for number in (np.float32(2), 2, np.float64(2), np.int64(2), 2.5, np.float16(2), np.int8(3), np.True_):
            got, want = f(x, number), x * number
            assert (got.dtype, got.tolist()) == (want.dtype, want.tolist())


def test_numbers_alone_give_a_number() -> None:
    f = hologram.kernel(lambda x, y: x / y)
    assert f(1, 4) == 0.25
    assert type(f(1, 4)) is np.float64
    assert f(np.float32(1), 4).dtype == np.float32
    assert hologram.exp(0) == 1


def test_out_of_another_type() -> None:
    f = hologram.kernel(lambda x, y: x * y)
    x = np.array([1.25, -3.75])
    for dtype in ("f2", "f4", "f8"):
        out = np.empty(2, dtype)
        f(x, 2, out=out)
        assert_same(out, (x * 2).astype(dtype))
    with pytest.raises(TypeError, match="out is i32, and the result, f64, isn't put there silently"):
        f(x, 2, out=np.empty(2, np.int32))
    with pytest.raises(TypeError, match="out is u32, and the result, i32,"):
        f(np.ones(2, np.int32), 2, out=np.empty(2, np.uint32))
    with pytest.raises(TypeError, match=r"out\[1\] is i8, and result 1, f64, isn't put there"):
        hologram.kernel(lambda x: (x, x))(x, out=(np.empty(2), np.empty(2, np.int8)))
    with pytest.raises(TypeError, match=r"out is 'a{199}…; expected an array"):
        f(x, 2, out="a" * 1000)
    line = test_out_of_another_type.__code__.co_firstlineno + 1
    with pytest.raises(TypeError, match=rf"at {re.escape(__file__)}:{line}: f = hologram.kernel"):
        f(x, 2, out=np.empty(2, np.int32))
    bits = np.zeros(2, np.uint32)
    hologram.kernel(lambda x: x * 2)(3, out=bits)  # of no signed type of its own
    assert bits.tolist() == [6, 6]
    wide = np.empty(2, np.int64)
    f(np.array([100, 7], np.int8), np.int8(2), out=wide)
    assert wide.tolist() == [-56, 14]  # computed as the arguments are


def test_what_cudas_interface_shows_is_asked_of_cuda() -> None:
    class Array:
        def __init__(self) -> None:
            self.__cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (1 << 40, False), "version": 3}

    with pytest.raises(hg.BackendError):  # there is no GPU here, or no memory of its at that address
        hg.sin(Array())


def test_what_an_array_refuses_is_said_of_its_argument() -> None:
    class Refusing:
        def __dlpack_device__(self) -> tuple[int, int]:
            raise BufferError("the memory is elsewhere")

        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError("its memory was asked for")

    with pytest.raises(BufferError, match=r"^lambda: y: the memory is elsewhere$"):
        hologram.kernel(lambda x, y: x * y)(np.ones(3), Refusing())
