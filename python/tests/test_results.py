"""Results that are left to us, the executor left out, and numbers for arrays."""

from __future__ import annotations

import array
import gc
import itertools
import json
import math
import sys
import threading
from typing import Any, Callable

import numpy as np
import pytest
from support import DTYPES
from test_process import passes

import hologram as hg
from hologram import _foreign, _results, ops
from hologram._dtypes import dtype_of
from hologram._ffi import native

F32 = np.float32
SCALARS = {"min_val": 2, "max_val": 30, "scalar": 3, "value": 2}

# Every elementwise operation on arrays of one dtype that has an input: its name, how many, its numbers, its types.
CLASS = {
    op["name"]: (len(op["operands"]) - 1, {s["name"]: SCALARS[s["name"]] for s in op["scalars"]}, op["types"])
    for op in json.loads(native.ops())
    if op["elementwise"] and len(op["operands"]) > 1 and all(o["kind"] == "same" for o in op["operands"])
}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    """Whatever a test does, no handle stays but the executors that the process keeps."""
    ops.copy(np.zeros(1, F32))
    gc.collect()
    before = native.object_count()
    yield
    gc.collect()
    assert native.kept() == 0
    assert native.object_count() <= before


def inputs(name: str, count: int, shape: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)
    return [rng.integers(1, 50, shape).astype(dtype_of(name)) for _ in range(count)]


@pytest.mark.parametrize("left_to", ["C", "Python"])
def test_out_names_the_array_that_is_written_and_is_returned(host: hg.Executor, left_to: str) -> None:
    """As numpy's functions have it; what is written under its own name is not returned but by reductions."""
    x, z = np.array([1, 2, 3], F32), np.empty(3, F32)
    if left_to == "Python":
        x = x.view(type("Derived", (np.ndarray,), {}))
    assert ops.vector_add(x, x, out=z) is z and z.tolist() == [2, 4, 6]
    assert ops.vector_add(host, x, 1, out=z) is z and z.tolist() == [2, 3, 4]
    assert ops.vector_add(x, 1, c=z) is None
    assert ops.vector_clip(x, out=z, min_val=2, max_val=9) is z and z.tolist() == [2, 2, 3]
    assert ops.softmax(x, out=z) is z and z.sum() == pytest.approx(1)
    one = np.empty(1, F32)
    assert ops.reduce_sum(x, out=one) is one and one[0] == 6
    assert ops.fill(host, out=z, value=7) is z and z.tolist() == [7, 7, 7]
    product = np.empty((3, 3), F32)
    assert ops.gemm(x[:, None], x[None], out=product) is product and product[2, 2] == 9
    buffer = host.allocate(3)
    assert ops.copy(x, out=buffer) is buffer and buffer.to_numpy().tolist() == [1, 2, 3]
    del buffer
    assert ops.vector_add(x, x, out=None).tolist() == [2, 4, 6]
    with pytest.raises(TypeError, match="multiple values for argument 'out'"):
        ops.vector_add(x, x, z, out=z)  # type: ignore[call-overload]


@pytest.mark.parametrize("op", CLASS)
def test_every_operation_of_the_class(ex: hg.Executor, host: hg.Executor, op: str) -> None:
    count, numbers, types = CLASS[op]
    function = getattr(ops, op)
    for name in types:
        x = inputs(name, count, (3, 5))
        out = np.empty_like(x[0])
        assert function(host, *x, out, *numbers.values()) is None
        left = function(*x, **numbers)
        assert type(left) is np.ndarray and left.dtype == x[0].dtype and left.tobytes() == out.tobytes()
        buffers = [ex.from_numpy(a) for a in x]
        made = function(*buffers, **numbers)
        assert type(made) is hg.Buffer and made.executor is ex and made.shape == (3, 5) and made.dtype == out.dtype
        assert made.to_numpy().tobytes() == out.tobytes()


def test_the_class_is_what_takes_no_output() -> None:
    left = {f.operation for f in ops._functions if any(p.kind == "o" for p in f.parameters)}
    assert left == {op["name"] for op in json.loads(native.ops())} - {"fill"}


SHAPES = [(6,), (2, 3), (3, 2), (1, 6), (6, 1), (1,), (), (3,), (2, 1, 1), (0,), (0, 3), (5,)]


@pytest.mark.parametrize("kind", ["array", "Buffer", "both"])
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_numpy_s(host: hg.Executor, shape: tuple[int, ...], kind: str) -> None:
    def given(x: Any, i: int) -> Any:
        return host.wrap(x) if kind == "Buffer" or (kind == "both" and i) else x

    x = np.arange(np.prod(shape), dtype=F32).reshape(shape)
    for other in SHAPES:
        y = np.arange(np.prod(other), dtype=F32).reshape(other) + 100
        a, b = given(x, 0), given(y, 1)
        try:
            expected = np.asarray(x + y)
        except ValueError:
            with pytest.raises(ValueError, match=r"vector_add: the shapes do not broadcast together: a \(.*\), b \("):
                ops.vector_add(host, a, b)
            continue
        made = ops.vector_add(host, a, b)
        assert type(made) is type(a) and made.shape == expected.shape
        np.testing.assert_array_equal(np.asarray(made), expected)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 1)])
def test_results_without_elements_have_a_dtype_of_their_own(host: hg.Executor, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, F32)
    for function, dtype in ((ops.vector_less, bool), (ops.vector_add, F32)):
        for a, b in ((x, x), (host.wrap(x), host.wrap(x)), (host.wrap(x), 1)):
            made = function(a, b)
            assert type(made) is type(a) and (made.shape, made.dtype) == (shape, dtype)
    made = ops.cumsum(host.wrap(x.astype("i4")), axis=0)
    assert (made.shape, made.dtype) == (shape, np.int64)


def test_layouts(host: hg.Executor) -> None:
    x = np.arange(60, dtype=F32).reshape(3, 4, 5)
    for view in (x.T, x[::-1, ::2, 1:3], x[:, None, 1], np.broadcast_to(x[0, 0], (7, 5)), np.asfortranarray(x[0])):
        for given in (view, host.wrap(view)):
            made = ops.vector_neg(given)
            assert np.array_equal(np.asarray(made), -view)
            flags = np.asarray(made).flags
            assert flags.writeable
            kept = given is view and view.flags.f_contiguous  # the order, as numpy does; Buffers are row-major
            assert flags.f_contiguous if kept else flags.c_contiguous
    rank8 = np.ones((1, 2) * 4, F32)
    assert ops.vector_add(rank8, rank8).shape == rank8.shape


def test_operands_of_several_orders() -> None:
    """The result keeps the order of those of its shape if they have one, as numpy's do, and else is row-major."""
    x = np.arange(60, dtype=F32).reshape(3, 4, 5)
    whole = [x, np.asfortranarray(x), np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2)]
    for one, other in itertools.product(whole, [*whole, x[0], 2.0]):
        for a, b in ((one, other), (other, one)):
            made = ops.vector_sub(a, b)
            assert np.array_equal(made, a - b)
            orders = {each.strides for each in (a, b) if np.shape(each) == x.shape}
            assert made.strides == (orders.pop() if len(orders) == 1 else x.strides)


def test_what_is_no_array_of_numpy_s_gives_one(host: hg.Executor) -> None:
    for x in (memoryview(np.arange(4, dtype=F32)), array.array("f", range(4)), np.arange(4, dtype=F32).view(Mine)):
        made = ops.vector_add(x, x)
        assert type(made) is np.ndarray and made.tolist() == [0, 2, 4, 6]
    assert ops.vector_add(bytearray(b"\1\2"), np.ones(2, "u1")).tolist() == [2, 3]
    with pytest.raises(TypeError, match=r"vector_neg: a: .*mask"):
        ops.vector_neg(np.ma.masked_array(np.zeros(2, F32), [0, 1]))


class Mine(np.ndarray):  # type: ignore[type-arg]
    pass


@pytest.mark.parametrize("name", DTYPES)
def test_n(host: hg.Executor, name: str) -> None:
    x = inputs(name, 1, (2, 3))[0]
    made = ops.vector_add(host, x, x, n=4)
    assert made.shape == (4,) and made.dtype == x.dtype and np.array_equal(made, (x + x).reshape(-1)[:4])
    assert ops.vector_add(x, 1, n=0).shape == (0,)
    b = host.wrap(x)
    assert ops.copy(b, n=5).shape == (5,)
    for n, text in (
        (7, r"n = 7 exceeds the 6 elements of a"),
        (-1, "n is -1; expected 0"),
        (1 << 60, r"n = \d+ exceeds"),
    ):
        for y in (x, b):
            with pytest.raises(ValueError, match=f"vector_add: {text}"):
                ops.vector_add(y, y, n=n)
    with pytest.raises(TypeError, match=r"vector_add: n is 1.5; expected an integer"):
        ops.vector_add(x, x, n=1.5)  # type: ignore[call-overload]


# ---- numbers


@pytest.mark.parametrize("name", DTYPES)
def test_numbers(ex: hg.Executor, host: hg.Executor, name: str) -> None:
    x = inputs(name, 1, (2, 3))[0]
    two = np.asarray(2, x.dtype)
    out = np.zeros_like(x)
    ops.vector_sub(host, x, 2, out)
    assert np.array_equal(out, x - two)
    assert np.array_equal(ops.vector_sub(host, x, 2), x - two)
    assert np.array_equal(ops.vector_sub(2, ex.from_numpy(x)).to_numpy(), two - x)
    assert np.array_equal(ops.vector_mad(host, 2, x, True), two * x + np.asarray(1, x.dtype))
    if name[0] in "iu":
        with pytest.raises(TypeError, match=r"vector_add: b is 1.5, and a has dtype u?int\d+; expected an integer"):
            ops.vector_add(x, 1.5)
        with pytest.raises(ValueError, match=rf"vector_add: b is {1 << 64}; {name} goes from"):
            ops.vector_add(x, 1 << 64)
    else:
        assert np.array_equal(ops.vector_mul(host, x, 0.5), x * np.asarray(0.5, x.dtype))
        assert np.isnan(ops.vector_mul(host, x, float("nan")).astype(F32)).all()
        if name != "f64":
            with pytest.raises(ValueError, match=rf"vector_add: b is 1e\+300; {name} goes from"):
                ops.vector_add(host, x, 1e300)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_numbers_of_16_bits(host: hg.Executor, name: str) -> None:
    """Those that C takes and those that Python rounds: exact ones, at the ends, and between."""
    of = dtype_of(name)
    exact = (1.0, -2.5, 0.0, -0.0, 65504.0, 2048.0, 2.0**-14, 256.0, math.inf, -math.inf)
    for value in (*exact, 2049.0, 2.0**-15, 2.0**-24, 1 / 3, 256.5):
        zero = np.full(3, -0.0, of)
        want = np.full(3, value, np.float64).astype(np.float32).astype(of)
        assert ops.vector_add(host, zero, value).tobytes() == want.tobytes(), value


def test_numbers_alone_say_no_type(host: hg.Executor) -> None:
    for call in (lambda: ops.vector_add(1, 2.5), lambda: ops.sigmoid(host, 1.0), lambda: ops.sigmoid(True)):
        with pytest.raises(TypeError, match=r": (a|input) is .*, a number; expected an array, which says what"):
            call()
    out = np.zeros(3, F32)
    ops.vector_add(1, 2.5, out)
    assert out.tolist() == [3.5] * 3


def test_numpy_s_numbers_have_a_type(host: hg.Executor) -> None:
    x = np.ones(3, F32)
    assert ops.vector_add(x, F32(2)).tolist() == [3] * 3
    with pytest.raises(TypeError, match="vector_add: b has dtype f64, and a has f32"):
        ops.vector_add(x, np.float64(2))


# ---- the executor


def test_the_executor_is_a_buffer_s_or_the_process_s() -> None:
    x = np.arange(4, dtype=F32)
    with hg.Executor("interp") as interp, hg.Executor("cpu") as cpu:
        a, b = interp.from_numpy(x), cpu.from_numpy(x)
        assert ops.vector_neg(a).executor is interp
        assert type(ops.vector_add(x, a)) is np.ndarray
        out = cpu.allocate(4)
        ops.vector_neg(x, out)
        assert out.to_numpy().tolist() == [0, -1, -2, -3]
        assert ops.vector_add(b, b, ex=cpu).executor is cpu
        assert ops.vector_add(cpu, x, x).tolist() == ops.vector_add(x, b=x, ex=None).tolist() == [0, 2, 4, 6]
        ops.gemm(x, x, out, 2, 2, 2)  # where nothing may be left but the executor
        assert out.to_numpy().tolist() == [2, 3, 6, 11]
        assert ops.reduce_sum(x, np.zeros(3, F32)) == 6
    executor = _results.default_executor(1)
    assert executor is _results.default_executor(1, 3) and executor.backend == "cpu"
    executor.cleanup()
    assert ops.vector_neg(x).tolist() == [0, -1, -2, -3], "another one is made"
    with pytest.raises(RuntimeError, match=r"DLPack device \(77, 0\)"):
        _results.default_executor(77)


def test_what_is_given_where_the_executor_was() -> None:
    x = np.zeros(4, F32)
    for wrong in ("cpu", None, [x], 1j):
        with pytest.raises(
            TypeError, match=rf"vector_add: ex: expected an Executor, got {type(wrong).__name__}; or it"
        ):
            ops.vector_add(wrong, x, x, x)  # type: ignore[call-overload]
        with pytest.raises(TypeError, match=r"vector_add: a: expected a Buffer"):
            ops.vector_add(wrong, x, x)  # type: ignore[call-overload]
    with pytest.raises(
        TypeError, match=r"vector_add\(\) takes at most 4 positional arguments without an executor \(5 g"
    ):
        ops.vector_add(x, x, x, 2, 3)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"vector_add: ex: expected an Executor, got str"):
        ops.vector_add(x, x, ex="cpu")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"vector_clip\(\) missing required argument: 'min_val'"):
        ops.vector_clip(x, x)  # type: ignore[call-overload]
    assert ops.vector_clip(x, None, 1, 2).tolist() == ops.vector_clip(x, max_val=2, min_val=1).tolist() == [1] * 4


# ---- what is refused


def test_what_fails_leaves_nothing(host: hg.Executor) -> None:
    x, bools = np.ones(4, F32), np.ones(4, bool)
    freed, gone = host.allocate(4), hg.Executor("cpu")
    freed.free()
    of_gone = gone.allocate(4)
    gone.cleanup()
    before = sys.getrefcount(x), sys.getrefcount(x.dtype)
    for _ in range(50):
        for call, error, text in (
            (lambda: ops.vector_add(x, freed), RuntimeError, "vector_add: b: .*freed"),
            (lambda: ops.vector_add(freed, x), RuntimeError, "vector_add: a: .*freed"),
            (lambda: ops.vector_neg(of_gone), RuntimeError, "freed"),
            (lambda: ops.vector_neg(gone, x), RuntimeError, "freed"),
            (lambda: ops.vector_add(x, x.astype("f8")), TypeError, "b has dtype f64, and a has f32"),
            (lambda: ops.sigmoid(x.astype("i4")), TypeError, "dtype i32 is not supported"),
            (
                lambda: ops.vector_add(bools, bools),
                TypeError,
                "vector_add: a has dtype bool, and vector_add makes no bools",
            ),
            (lambda: ops.vector_div(x.astype("i4"), np.zeros(4, "i4")), hg.ProgramFault, "division by zero"),
            (lambda: ops.vector_neg(np.broadcast_to(1.0, (1 << 22, 1 << 22))), MemoryError, r"vector_neg: no room"),
            (lambda: ops.vector_neg(Raising()), ZeroDivisionError, "asked"),
            (lambda: ops.vector_add(x, Raising()), ZeroDivisionError, "asked"),
            (lambda: ops.vector_add(host, x, Raising()), ZeroDivisionError, "asked"),
        ):
            with pytest.raises(error, match=text):
                call()
    assert (sys.getrefcount(x), sys.getrefcount(x.dtype)) == before


class Raising:
    """Raises whatever it is asked."""

    def __dlpack__(self, **_: Any) -> Any:
        raise ZeroDivisionError("asked")

    def __dlpack_device__(self) -> Any:
        raise ZeroDivisionError("asked")

    @property
    def __array_interface__(self) -> Any:
        raise ZeroDivisionError("asked")


def test_bools() -> None:
    x = np.array([True, False])
    made = ops.copy(x)
    assert made.dtype == bool and made.tolist() == [True, False]
    assert ops.vector_add(x, np.ones(2, "u1")).tolist() == [2, 1]
    assert ops.vector_add(np.ones(2, "u1"), x).dtype == np.uint8


# ---- memory and threads


def test_a_result_is_the_caller_s_alone(host: hg.Executor) -> None:
    x = np.ones(1000, F32)
    f32 = x.dtype
    made = ops.vector_add(x, x)
    counts = [sys.getrefcount(np.ones(3)), sys.getrefcount(ops.vector_add(x, x)), sys.getrefcount(ops.vector_add(x, 1))]
    counts.append(sys.getrefcount(ops.vector_neg(host.wrap(x))))
    assert len({*counts}) == 1, counts
    matrix = host.wrap(x.reshape(40, 25))
    shapes = [matrix.view((40, 25)), ops.vector_neg(matrix), ops.vector_less(matrix, matrix)]
    counts = [sys.getrefcount(buffer.shape) for buffer in shapes]
    assert len({*counts}) == 1, counts
    assert made.base is None and made.flags.owndata
    made.resize(2000, refcheck=True)
    del made
    before, types, objects = sys.getrefcount(x), sys.getrefcount(f32), native.object_count()
    for _ in range(500):
        ops.vector_add(x, x)
        ops.vector_add(x, 2, n=7)
        ops.vector_add(host.wrap(x), x)
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(f32), native.object_count()) == (before, types, objects)


def test_numbers_are_let_go() -> None:
    """Those of numpy, whose values C reads in place."""
    x = np.ones(4, F32)
    for number in (F32(2.5), np.float64(2.5), np.float16(2.5), np.int64(300), np.uint8(200)):
        before = sys.getrefcount(number)
        for _ in range(20):
            ops.scalar_mul(x, scalar=number)
            ops.fill(x, number)
        assert sys.getrefcount(number) == before, repr(number)


def test_threads_share_the_executor() -> None:
    n, wrong = 200_000, []

    def work(k: int) -> None:
        big, small = np.full(n, k, F32), np.full(10, k, F32)
        for _ in range(20):
            for x in (big, small):
                made = ops.vector_add(x, x)
                if not (made == 2 * k).all():
                    wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork")
def test_forks() -> None:
    """A child that comes first has an executor of its own; one that comes later is told, and never hangs."""
    passes(
        """
def child(work):
    pid = os.fork()
    if not pid:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0

x = np.ones(4, np.float32)
def first():
    assert hg.ops.vector_add(x, x).tolist() == [2] * 4
def later():
    try:
        hg.ops.vector_add(x, x)
    except hg.errors.ForkError:
        return
    raise SystemExit("taken")
first()
child(later)
"""
    )


# ---- numpy's own structures


def test_this_numpy_s_arrays_are_read_in_place() -> None:
    """Else something changed in numpy: arrays work, but a call takes some 0.3 µs more."""
    assert _foreign.verify_numpy()
    for like, order in ((np.zeros((2, 3), "i2").T, "F"), (np.zeros((6, 2), "i2")[::2].T[::-1], "C")):
        made = native.numpy_empty(like)
        assert (
            made.shape == like.shape
            and made.dtype == np.int16
            and made.strides == np.empty_like(like, order=order).strides
        )


@pytest.mark.parametrize(
    "wrong", ["shape", "strides", "data", "flags"], ids=lambda what: f"numpy says something else of {what}"
)
def test_what_says_otherwise_is_not_read(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    right: Callable[..., Any] = native.numpy_seen
    at = {"data": 0, "shape": 1, "strides": 2, "flags": 4}[wrong]

    def other(x: Any) -> Any:
        seen = right(x)
        return seen and (*seen[:at], None, *seen[at + 1 :])

    monkeypatch.setattr(native, "numpy_seen", other)
    assert not _foreign.verify_numpy()


def test_what_is_known_of_results_is_of_such_calls_alone() -> None:
    """Calls that differ in one thing alone, each made twice: what C keeps of the one is not for the other."""
    number = {"reduce_sum": np.sum, "argmax": np.argmax}
    shapes = [(2, 3), (2, 2), (6,), (1, 11), (11,), (1, 2, 3)]  # 11 is float32's number
    for _ in range(2):
        for name, shape, kept in itertools.product(number, shapes, (False, True)):
            for dtype in (F32, np.int32, np.bool_) if name == "argmax" else (F32, np.int32):
                x = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
                for axis in range(len(shape)):
                    result, want = (
                        getattr(ops, name)(x, axis=axis, keepdims=kept),
                        number[name](x, axis=axis, keepdims=kept),
                    )
                    assert (result.shape, result.dtype, result.tolist()) == (want.shape, want.dtype, want.tolist())
        for rank, choice in itertools.product((1, 2), (np.bool_, np.uint8)):
            x, y = np.ones((1,) * (rank - 1) + (2,), choice), np.full((3, 2), 2, choice)
            assert ops.vector_max(x, y).dtype == choice
            assert ops.where(np.ones((3, 1), np.bool_), x, y).dtype == choice
            assert ops.cumsum(y, axis=0).shape == ops.cumsum(y, axis=1).shape == (3, 2) and ops.cumsum(y).shape == (6,)


def test_what_is_known_of_a_result_is_of_one_call_alone() -> None:
    """Of calls that differ in a single thing: the axes, of which it is told last, or a dtype that bools share."""
    shape = (2, 1, 3, 2, 1, 3, 2, 2)
    x = np.ones(shape, F32)
    for axes in (a for n in range(1, len(shape)) for a in itertools.combinations(range(len(shape)), n)):
        assert ops.reduce_sum(x, axis=axes).shape == x.sum(axis=axes).shape, axes
    bits = np.ones((4, 3), np.uint8)
    for _ in range(2):
        assert ops.reduce_max(bits, axis=0).dtype == np.uint8
        assert ops.reduce_max(bits.view(bool), axis=0).dtype == bool
