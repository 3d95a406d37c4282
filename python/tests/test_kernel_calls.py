"""What is known of calls of kernels that were made before: it decides for calls such as these, and for no others."""

from __future__ import annotations

import copy
import gc
import inspect
import itertools
import pickle
import pydoc
import random
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hologram
from hologram._ffi import native
from hologram._kernel.call import Kernel

NAN = float("nan")


def plain(x: Any, y: Any, k: Any) -> Any:
    return x * k + y


def weak(x: Any, y: Any, k: float) -> Any:
    return x * k + y


def whole(x: Any, y: Any, k: int) -> Any:
    return x * (k + 1) + y


def typed(x: Any, y: Any, k: np.float32) -> Any:
    return x * k + y


def truth(x: Any, y: Any, k: bool) -> Any:
    return hologram.where(k, x, y)


def usual(x: Any, y: Any, k: Any = 0.5) -> Any:
    return x * k + y


def placed(x: Any, y: Any, /, k: Any = 2) -> Any:
    return x * k + y


def several(x: Any, y: Any, k: float) -> Any:
    return x * k + y, x - y


def all_of_one(x: Any, y: Any, k: Any) -> Any:
    return (x * k - y,)


FUNCTIONS = [plain, weak, whole, typed, truth, usual, placed, several, all_of_one]
NUMBERS: list[Any] = [
    *(0, 1, -3, 1 << 31, (1 << 63) - 1, 1 << 63, -(1 << 63) - 1, 1 << 70, 10**400),
    *(0.0, -0.0, 0.1, 3e38, 1e39, 1e-46, NAN, float("inf"), -float("inf")),
    *(True, False, np.True_, np.float16(0.1), np.float32(0.1), np.float64(0.1), np.float32("nan")),
    *(np.int8(-7), np.int64(1 << 62), np.uint64((1 << 64) - 1), np.complex64(1), np.longdouble(1)),
    *(None, "1", np.array(3.0), np.array(3), np.array([2.0]), [1.0]),
]


def counted(kernel: Any, patch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which every call is added of which not all is known."""
    calls: list[str] = []
    compiled = Kernel._compiled

    def counting(self: Kernel, *arguments: Any) -> Any:
        if self is kernel:
            calls.append(self._name)
        return compiled(self, *arguments)

    patch.setattr(Kernel, "_compiled", counting)
    return calls


def outcome(call: Callable[[], Any], outs: list[Any]) -> tuple[object, ...]:
    """Return all that a call did: its result or its error, and what it wrote."""
    made: object
    try:
        result = call()
        made = [(type(r), r.dtype, r.shape, r.tobytes()) for r in (result if isinstance(result, tuple) else (result,))]
        made = type(result), made
    except Exception as error:  # of whatever kind: both ways raise the same
        made = type(error), re.sub(r"(?s)\n  at .*", "", str(error))
    return made, [np.asarray(out).tobytes() for out in outs]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u1"])
def test_numbers_are_those_of_each_call(function: Any, dtype: str) -> None:
    """Their values, and the types that they have: a program of an int is no program of a float."""
    kept, x = hologram.kernel(function), np.arange(1, 5).astype(dtype)
    y = x[::-1].copy()
    rng = random.Random(0)
    order = [*NUMBERS, *rng.sample(NUMBERS, len(NUMBERS)), *NUMBERS]
    for number, named in zip(order, itertools.cycle((False, True, False))):
        arguments = {"k": number} if named else {}
        positional = (x, y) if named else (x, y, number)
        expected = outcome(lambda: hologram.kernel(function)(*positional, **arguments), [])  # noqa: B023
        assert outcome(lambda: kept(*positional, **arguments), []) == expected, number  # noqa: B023


def ways(x: Any, results: int) -> list[tuple[str, Callable[[], Any]]]:
    """Return outs of all kinds, the wrong ones among them, and how many arrays each has."""
    fixed = np.zeros_like(x)
    fixed.flags.writeable = False
    memory = np.zeros(16, x.dtype)
    array = lambda *shape: np.zeros(shape or x.shape, x.dtype)  # noqa: E731
    return [
        ("none", lambda: None),
        ("one", array),
        ("tuple", lambda: tuple(array() for _ in range(results))),
        ("list", lambda: [array() for _ in range(results)]),
        ("too many", lambda: tuple(array() for _ in range(results + 1))),
        ("empty", lambda: ()),
        ("wider", lambda: tuple(array(2, *x.shape) for _ in range(results))),
        ("shorter", lambda: tuple(array(2) for _ in range(results))),
        ("of two shapes", lambda: (array(), *(array(2, *x.shape) for _ in range(results - 1)))),
        ("twice the same", lambda: (array(),) * 2),
        ("overlapping", lambda: tuple(memory[i : i + x.size] for i in range(results))),
        ("apart", lambda: tuple(memory[2 * i :: 4][: x.size] for i in range(results))),
        ("read-only", lambda: tuple(fixed for _ in range(results))),
        ("of another type", lambda: tuple(np.zeros(x.shape, "f8") for _ in range(results))),
        ("of no such type", lambda: tuple(np.zeros(x.shape, "i4") for _ in range(results))),
        ("no array", lambda: tuple(3 for _ in range(results))),
        ("a list in a list", lambda: tuple([0.0] * x.size for _ in range(results))),
        ("strided", lambda: tuple(np.zeros((x.size, 3), x.dtype)[:, 1] for _ in range(results))),
    ]


@pytest.mark.parametrize("function", [plain, weak, several, all_of_one], ids=lambda f: f.__name__)
def test_outputs_of_all_kinds(function: Any) -> None:
    kept, x, y = hologram.kernel(function), np.arange(1, 5, dtype="f4"), np.full(4, 0.5, "f4")
    names = ways(x, 2 if function is several else 1)
    rng = random.Random(1)
    done = set()
    for name, make in [*names, *rng.sample(names, len(names)), *names]:
        results = []
        for kernel in (hologram.kernel(function), kept):
            out = make()
            outs = [o for o in (out if isinstance(out, (tuple, list)) else (out,)) if isinstance(o, np.ndarray)]
            for each in outs:
                if each.flags.writeable:
                    each[...] = 0
            returned: list[Any] = []

            def call() -> Any:
                returned.append(kernel(x, y, 2.5, out=out))  # noqa: B023
                return tuple(outs) if isinstance(out, (tuple, list)) else returned[0]  # noqa: B023

            results.append(outcome(call, outs))
            if returned and out is not None:
                assert returned[0] is out
            if returned:
                done.add(name)
        assert results[0] == results[1], name
    some = {"none", "tuple", "list", "wider", "of another type", "apart", "strided"}
    assert done == some | (set() if function is several else {"one", "of two shapes", "overlapping"})


def test_operands_that_share_memory() -> None:
    """An output may be an input, of which nothing else may be written: that is looked at in each call."""
    f, memory = hologram.kernel(several), np.arange(32, dtype="f4")
    x, y = memory[:8], memory[8:16]
    first, second = memory[16:24], memory[24:]
    for _ in range(3):
        f(x, y, 2.0, out=(first, second))
        assert (first == x * 2 + y).all() and (second == x - y).all()
        for wrong in ((first, first), (memory[4:12], second), (first, memory[20:28]), (memory[1:9], second)):
            before = memory.copy()
            with pytest.raises(ValueError, match="overlaps"):
                f(x, y, 2.0, out=wrong)
            assert (memory == before).all()
    expected = x * 2 + y, x - y
    f(x, y, 2.0, out=(x, y))
    assert (x == expected[0]).all() and (y == expected[1]).all()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_what_was_called_before_is_known(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with other numbers of its types, other shapes, and arguments by name."""
    f, x, y = hologram.kernel(function), np.ones(6, "f4"), np.ones(6, "f4")
    calls = counted(f, monkeypatch)
    results = 2 if function is several else 1
    number: Any = True if function is truth else 3 if function is whole else 0.5

    def outs() -> Any:
        made = tuple(np.empty((2, 3), "f4") for _ in range(results))
        return made if results > 1 or function is all_of_one else made[0]

    def all_ways(number: Any) -> None:
        f(x, y, number)
        f(x, y, k=number)
        for shape in ((6,), (2, 3)):
            f(x.reshape(shape), y.reshape(shape), number)
        f(x.reshape(2, 3), y[:3], number)
        f(x.reshape(2, 3), y.reshape(2, 3)[::-1], number, out=outs())
        f(y[:3], y[:3], number, out=outs())

    all_ways(number)
    assert calls
    calls.clear()
    all_ways(number)
    all_ways(type(number)(0))
    assert not calls


def test_an_array_for_a_number_is_looked_at_each_time() -> None:
    """It has to have no dimensions."""
    f = hologram.kernel(weak)
    for _ in range(3):
        assert f(np.float64(2) * np.ones(()), np.ones(()), np.array(0.5)) == 2
        with pytest.raises(TypeError, match=r"k: it is a ndarray; expected a number \(float\), as annotated"):
            f(np.ones(3), np.ones(3), np.ones(3))


def test_arguments_that_are_not_the_kernel_s() -> None:
    """They are refused beside what is known."""
    f, x = hologram.kernel(placed), np.ones(3)
    for _ in range(3):
        assert f(x, x, 3).tolist() == f(x, x, k=3).tolist() == [4, 4, 4]
        assert f(x, x).tolist() == [3, 3, 3]
        for arguments, keywords in (
            ((x, x, 3), {"k": 3}),
            ((x, x, 3), {"m": 1}),
            ((x,), {"y": x}),
            ((x, x, 3, x), {}),
            ((x,), {}),
        ):
            with pytest.raises(TypeError, match=r"^placed: .*(argument|keyword|no parameter m)"):
                f(*arguments, **keywords)
        with pytest.raises(TypeError, match="executor is 3; expected an Executor"):
            f(x, x, 3, executor=3)  # type: ignore[arg-type]


def test_numbers_that_are_computed_of_arguments() -> None:
    """Ints of Python's have no size: what comes of them is computed for each call, and refused if it does not fit."""
    f, x = hologram.kernel(whole), np.ones(3, "i4")
    for _ in range(3):
        for k in (1, -5, (1 << 31) - 2):
            assert f(x, x, k).tolist() == [int(np.int32((k + 2) - (1 << 32) * (k + 2 >= 1 << 31)))] * 3
        with pytest.raises(ValueError, match=r"k \+ 1 is 2147483648, and meets i32 here"):
            f(x, x, (1 << 31) - 1)
        with pytest.raises(ValueError, match="is 1180591620717411303425, and meets i32 here"):
            f(x, x, 1 << 70)


def test_names_outside_are_looked_at_beside_numbers_and_outputs() -> None:
    factor: Any = 2

    @hologram.kernel
    def f(x: Any, k: float) -> Any:
        return x * factor, x + k

    x, outs = np.ones(3), (np.zeros(3), np.zeros(3))
    for factor in (2, 3.5, -0.0, 0.0, 2, NAN):
        for _ in range(3):
            assert f(x, 1.0, out=outs) is outs
            assert outs[0].tobytes() == (x * factor).tobytes() and (outs[1] == 2).all()


def test_what_does_not_say_its_dtype_at_once_is_asked_each_time() -> None:
    class Foreign:
        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    f, x = hologram.kernel(plain), np.arange(3, dtype="f4")
    for dtype in ("f4", "f8", "i4", "f4", "u1"):
        for k in (2, 0.5):
            other = np.arange(3, 6).astype(dtype)
            expected = hologram.kernel(plain)(x, other, k)
            found = f(x, Foreign(other), k)
            assert found.dtype == expected.dtype
            assert found.tolist() == expected.tolist()


def test_outputs_that_do_not_say_their_dtype_at_once_are_asked_each_time() -> None:
    class Derived(np.ndarray):  # type: ignore[type-arg]
        pass

    f, x = hologram.kernel(plain), np.arange(3, dtype="f4")
    for dtype in ("f4", "f8", "f4", "i4"):
        for _ in range(2):
            out = np.zeros(3, dtype).view(Derived)
            if dtype == "i4":
                with pytest.raises(TypeError, match="out is i32"):
                    f(x, x, 0.5, out=out)
            else:
                assert f(x, x, 0.5, out=out) is out
                assert out.tolist() == [0, 1.5, 3]


def test_arrays_of_nothing_are_looked_at_as_all_are() -> None:
    """They have no lanes, and the same mistakes."""
    f, g, x = hologram.kernel(plain), hologram.kernel(whole), np.zeros((2, 0), "f4")
    fixed = np.zeros((2, 0), "f4")
    fixed.flags.writeable = False
    for _ in range(3):
        assert f(x, x, 2).shape == f(x, x[:1], 2, out=np.zeros((2, 0), "f4")).shape == (2, 0)
        with pytest.raises(ValueError, match="out is written, and the array bound to it is read-only"):
            f(x, x, 2, out=fixed)
        with pytest.raises(ValueError, match=r"k \+ 1 is 128, and meets i8 here"):
            g(x.astype("i1"), x.astype("i1"), 127)
        with pytest.raises(ValueError, match="parameter k: 128 is out of range of i8"):
            f(x.astype("i1"), x.astype("i1"), 128)


def test_buffers_choose_the_executor() -> None:
    """Beside arrays of numpy's too, of the same dtypes as calls that are known."""
    f, x = hologram.kernel(weak), np.ones(4, "f4")
    for _ in range(4):
        f(x, x, 0.5)
    with hologram.Executor("cpu") as one, hologram.Executor("cpu") as other:
        for ex, rest in ((one, other), (other, one)) * 2:
            b = ex.wrap(x)
            for call in (lambda: f(b, x, 0.5), lambda: f(x, b, 0.5), lambda: f(x, x, 0.5, out=b)):  # noqa: B023
                for _ in range(4):
                    call()
                done = native.direct(ex), native.direct(rest)
                call()
                if "machine code" in ex.device:
                    assert (native.direct(ex), native.direct(rest)) == (done[0] + 1, done[1])


X, OUT, HALF, FIXED = np.arange(8, dtype="f4"), np.zeros(8, "f4"), np.ones(8, "f2"), np.zeros(8, "f4")
FIXED.flags.writeable = False


@pytest.mark.parametrize(
    ("function", "arguments", "keywords"),
    [
        (plain, (X, X[::-1], 0.5), {}),
        (plain, (X, X, 0.5), {"out": OUT}),
        (plain, (2, 3.0, np.float32(4)), {}),
        *((plain, (X, X), {"k": k}) for k in (np.float64(0.1), np.int8(3), np.True_, np.float16(2), 2**70, NAN)),
        (plain, (X, memoryview(X), 0.5), {}),
        (plain, (HALF, HALF, 3), {}),
        (whole, (X, X, 1000), {}),
        (several, (X, X, 0.5), {}),
        (plain, (X, X, 0.5), {"out": FIXED}),
        (plain, (X, X, "1"), {}),
        (plain, (X, X[:3], 1), {}),
        (plain, (X[:4], OUT[:4], 1), {"out": OUT[1:5]}),
        (plain, (HALF, HALF, 1e30), {}),
        (plain, (X, X), {"m": 1}),
    ],
)
def test_calls_leave_nothing(
    function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    """No objects, and no counts of those that they were given, whether they do what is asked or refuse it."""
    f, given = hologram.kernel(function), [*arguments, *keywords.values(), X, X.dtype]

    def call(times: int) -> None:
        for _ in range(times):
            try:
                f(*arguments, **keywords)
            except (TypeError, ValueError):
                continue
        gc.collect()

    call(300)
    before, counts = sys.getallocatedblocks(), [sys.getrefcount(each) for each in given]
    call(1000)
    assert [sys.getrefcount(each) for each in given] == counts
    assert sys.getallocatedblocks() - before < 500


def test_calls_that_write_tensors_raise_their_versions_and_leave_nothing_else() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    f, x, out, other = hologram.kernel(several), torch.ones(8), torch.zeros(8), torch.zeros(8)

    def call(times: int) -> None:
        for _ in range(times):
            f(x, x, 0.5, out=(out, other))
        gc.collect()

    call(300)
    before, counts = sys.getallocatedblocks(), [sys.getrefcount(each) for each in (x, out, other)]
    versions = [each._version for each in (x, out, other)]
    call(1000)
    assert [each._version for each in (x, out, other)] == [versions[0], versions[1] + 1000, versions[2] + 1000]
    assert [sys.getrefcount(each) for each in (x, out, other)] == counts
    assert sys.getallocatedblocks() - before < 500


def test_a_value_in_a_text_shows_its_type_and_takes_no_form() -> None:
    texts = []

    @hologram.kernel
    def told(x: Any) -> Any:
        texts.append(f"{x}")
        return x

    told(np.ones(1, np.float32))
    assert texts == ["<hologram value of a kernel: f32>"]
    with pytest.raises(TypeError, match=r"text in the form '\.3f' can't be had .* shows its type\n  at .*:\d+: "):
        hologram.kernel(lambda x: float(f"{x:.3f}"))(np.ones(1))


def _given(f: Any, *arguments: Any, **keywords: Any) -> str:
    """Return where a call of a kernel, or of a function that hologram offers, ended: in C, or in Python."""
    went: list[str] = []
    call_any, own = f._call_any, vars(f).get("_call_any")

    def noting(*given: Any, **named: Any) -> Any:
        went.append("Python")
        return call_any(*given, **named)

    f._call_any = noting
    try:
        f(*arguments, **keywords)
    finally:
        del f._call_any
        if own is not None:
            f._call_any = own
    return went[0] if went else "C"


SCALE = 2.0


def test_calls_such_as_one_before_are_made_in_c() -> None:
    f = hologram.kernel(lambda x, y: x + y)
    x, out = np.arange(6, dtype=np.float32), np.empty(6, np.float32)
    assert _given(f, x, x) == "Python"
    assert _given(f, x, x) == _given(f, x[1:], x[:-1]) == _given(f, out, out) == "C"
    assert _given(f, x, x, out=out) == "Python"
    assert _given(f, x, x, out=out) == "C"
    assert out.tolist() == (x + x).tolist()
    f._call_any = None  # type: ignore[method-assign, assignment]  # executor=None is none
    assert f(x, x, executor=None).tolist() == f(x, x, out=None).tolist() == out.tolist()
    del f._call_any
    for other in ((x, x.astype(float)), (x, 1.0), (x.astype(float), x), (x > 2, x)):
        assert _given(f, *other) == "Python"
        assert _given(f, *other) == _given(f, x, x) == "C"
        np.testing.assert_array_equal(f(*other), other[0] + other[1])
    for other in ((x[:0], x[:0]), (x, memoryview(x))):
        assert _given(f, *other) == _given(f, *other) == "Python"
    with hologram.Executor("cpu") as ex:
        assert _given(f, x, x, executor=ex) == _given(f, x, x, out=out, executor=ex) == "Python"
    out.flags.writeable = False
    for _ in range(2):
        with pytest.raises((ValueError, TypeError), match=r"read-only|writable|writeable"):
            f(x, x, out=out)
    bools = x > 2
    either = hologram.kernel(lambda x, y: x | y)
    for _ in range(3):  # bools and bytes are slots of one type
        assert either(bools, bools).dtype == bool
        assert either(bools.view(np.uint8), bools.view(np.uint8)).dtype == np.uint8


def test_arrays_of_other_shapes_are_broadcast_in_c_too() -> None:
    """Results lie as those that Python makes, whose order is that in which all of a result's shape lie."""
    f, wide = hologram.kernel(lambda x, y: x + y), np.arange(24, dtype=np.float32).reshape(4, 6)
    f(wide, wide)
    f(wide, wide, out=wide.copy())
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)
    of_wide = wide[0], wide[:, :1], wide[1:2, 2:3], wide[0, 0:1], wide[::-1], np.array(2, np.float32)
    for x, y in (
        *((wide, other) for other in of_wide),
        *((wide[:, :1], wide[0]), (wide.T, wide.T), (wide.T, wide[:, 0]), (wide.T[::2], wide.T[::2])),
        *((cube, cube), (cube, cube[0]), (cube, cube.copy()), (cube[:, :1], cube)),
    ):
        expected = hologram.kernel(lambda x, y: x + y)(x, y)
        np.testing.assert_array_equal(expected, x + y)
        assert _given(f, x, y) == "C"
        found = f(x, y)
        assert found.strides == expected.strides, (x.strides, y.strides)
        np.testing.assert_array_equal(found, expected)
        for shape in (expected.shape, (2, *expected.shape)):
            out = np.zeros(shape, np.float32)
            assert _given(f, x, y, out=out) == "C"
            np.testing.assert_array_equal(out, np.broadcast_to(expected, shape))
    for x, y in ((wide, wide[0, :5]), (wide, wide[:3]), (wide, wide[:0])):
        with pytest.raises(ValueError, match=r"don't broadcast together: x .* y "):
            f(x, y)
        with pytest.raises(ValueError, match="don't broadcast to out's"):
            f(x, y, out=np.zeros((4, 6), np.float32))
    with pytest.raises(ValueError, match=r"out has shape \(6,\); the arguments broadcast to \(4, 6\)"):
        f(wide, wide, out=np.zeros(6, np.float32))


def test_an_array_that_is_not_read_has_a_shape_as_others() -> None:
    first, none, x = hologram.kernel(lambda x, y: x * 2), hologram.kernel(lambda x: 1.5), np.ones(3, np.float32)
    for _ in range(3):
        assert first(x, x).shape == (3,) and none(x).tolist() == [1.5] * 3
        assert first(x, np.ones((2, 3), np.float32)).shape == none(np.ones((2, 3), np.float32)).shape == (2, 3)
        with pytest.raises(ValueError, match="don't broadcast together"):
            first(x, x[:2])


def test_several_results_are_made_in_c_too() -> None:
    f, one = hologram.kernel(lambda x, y: (x + y, x < y, x * 2)), hologram.kernel(lambda x: (x + 1,))
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32([1, 5, 2])
    outs = np.zeros((2, 3), np.float32), np.zeros((2, 3), bool), np.zeros((2, 3), np.float64)
    f(x, y)
    f(x, y, out=outs)
    one(x)
    assert _given(f, x, y) == _given(f, x, y, out=outs) == _given(one, x) == "C"
    assert _given(f, x, y, out=list(outs)) == "Python"
    assert f(x, y, out=outs) is outs
    found = f(x, y)
    assert type(found) is type(one(x)) is tuple and one(x)[0].tolist() == (x + 1).tolist()
    for each, out, expected in zip(found, outs, (x + y, x < y, x * 2)):
        assert each.dtype == expected.dtype and each.tolist() == out.tolist() == expected.tolist()
    for wrong in (outs[:2], (*outs, outs[0]), (outs[0],) * 3, (outs[0],) * 10_000, (x[0], *outs[1:]), ()):
        with pytest.raises((ValueError, TypeError)):
            f(x, y, out=wrong)


def test_calls_of_buffers_are_made_in_c_too() -> None:
    """On the executor of the first one."""
    f, x = hologram.kernel(lambda x, y: x + y), np.arange(6, dtype=np.float32).reshape(2, 3)
    with hologram.Executor("cpu") as one, hologram.Executor("cpu") as other:
        for ex in (one, other):
            a, b, out = ex.from_numpy(x), ex.from_numpy(x[1]), ex.from_numpy(x)
            f(x, x[1])  # of the same dtypes
            f(a, b)
            f(a, b, out=out)
            assert _given(f, a, b) == _given(f, b, a) == _given(f, a, a) == _given(f, a, b, out=out) == "C"
            made = f(a, b)
            assert made.executor is ex and made.shape == (2, 3) and made.dtype == np.float32
            assert (
                made.to_numpy().tolist()
                == f(b, a).to_numpy().tolist()
                == out.to_numpy().tolist()
                == (x + x[1]).tolist()
            )
            f(x, b, out=out), f(a, x[1], out=x.copy())
            assert _given(f, x, a, out=out) == _given(f, a, x, out=x.copy()) == "C"
            assert out.to_numpy().tolist() == (x + x).tolist()
        for first, second in ((a, one.from_numpy(x)), (one.from_numpy(x), a)):
            assert f(first, second).executor is first.executor
        a.free()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="freed"):
                f(a, b)


def test_a_buffer_that_was_never_made_is_refused() -> None:
    """It has no executor, as little as a call has that is to choose one."""
    f, host = hologram.kernel(lambda x, y: x + y), hologram.Executor("cpu")
    made, none = host.allocate(3), hologram.Buffer.__new__(hologram.Buffer)
    for out in (None, made):
        f(made, host.allocate(3), out=out)
        for x, y in ((none, made), (made, none), (none, none)):
            with pytest.raises((AttributeError, TypeError, hologram.errors.HologramError)):
                f(x, y, out=out)


def test_forms_are_kept_for_as_many_calls_as_there_are() -> None:
    """Of all dtypes and numbers, one kernel has more than a few."""
    f, types = hologram.kernel(lambda x, y: x + y), ["f4", "f8", "f2", "i4", "i8", "u1"]
    for a, b in itertools.product(types, types):
        x, y = np.ones(5, a), np.ones(5, b)
        f(x, y)
        assert _given(f, x, y) == "C"
    for a, b in itertools.product(types, types):
        x, y = np.ones(5, a), np.ones(5, b)
        assert _given(f, x, y) == "C" and f(x, y).dtype == (x + y).dtype and f(x, y).tolist() == [2] * 5
    with hologram.Executor("cpu") as ex:  # buffers' forms are others, for which there is no room beside all of those
        for a, b in itertools.product(types, types):
            x, y = np.ones(5, a), np.ones(5, b)
            made = f(ex.from_numpy(x), ex.from_numpy(y))
            assert _given(f, ex.from_numpy(x), ex.from_numpy(y)) == "C"
            assert made.dtype == f(x, y).dtype and made.to_numpy().tolist() == f(x, y).tolist() == [2] * 5
    where = [_given(f, np.ones(5, a), np.ones(5, b)) for a, b in itertools.product(types, types)]
    assert where == sorted(where, reverse=True) and where[0] == "Python" and where[-1] == "C", "the oldest go"


def test_the_oldest_of_many_forms_goes() -> None:
    """With all that it holds: with and without outs of all dtypes there are more than there is room for."""

    def fill() -> None:
        f, types = hologram.kernel(lambda x, y: x + y), ["f4", "f8", "f2", "i4", "i8", "u1"]
        pairs = [(np.ones(5, a), np.ones(5, b)) for a, b in itertools.product(types, types)]
        for x, y in pairs:
            f(x, y)
            f(x, y, out=np.zeros(5, (x + y).dtype))
        x, y = pairs[-1]
        assert _given(f, x, y) == _given(f, x, y, out=np.zeros(5, np.uint8)) == "C"
        for x, y in pairs:
            out = np.zeros(5, (x + y).dtype)
            assert f(x, y).tolist() == f(x, y, out=out).tolist() == out.tolist() == [2] * 5

    fill()
    gc.collect()
    held, objects = sys.getrefcount(np.ndarray), native.object_count()
    fill()
    gc.collect()
    assert (sys.getrefcount(np.ndarray), native.object_count()) == (held, objects)


def test_a_form_of_other_dtypes_takes_the_same() -> None:
    """What was called with an out, or numbers of a type, is not what was called without, or of another."""
    x = np.arange(1, 4, dtype=np.float32)
    f = hologram.kernel(lambda x, y: x + y)
    f(x, x, out=np.empty(3, np.float32))
    for dtype in (np.float64, np.int32):
        y, out = x.astype(dtype), np.zeros(3, dtype)
        f(y, y)
        assert f(y, y, out=out) is out and out.tolist() == [2, 4, 6]
    g, n = hologram.kernel(lambda x, y: x * y), x.astype(np.int32)
    g(x, 2), g(n, 2.5)
    assert g(n, 2).dtype == np.int32 and g(n, 2.5).tolist() == [2.5, 5, 7.5]


def test_calls_of_hologram_s_functions_are_made_in_c_too() -> None:
    """Those that are such as one before; they stay functions in all that can be asked of them."""
    x, out = np.linspace(0.1, 3, 7).astype(np.float32), np.empty(7, np.float32)
    expected = np.log2(x, dtype=np.float64)
    for arguments, keywords in (((x,), {}), ((x,), {"out": out})):
        hologram.log2(*arguments, **keywords)
        assert _given(hologram.log2, *arguments, **keywords) == "C"
        np.testing.assert_allclose(hologram.log2(*arguments, **keywords), expected, rtol=1e-6)
    hologram.pow(x, 2.5)
    assert _given(hologram.pow, x, 2.5) == "C" and _given(hologram.pow, a=x, b=2.5) == "Python"
    assert hologram.log2(8.0) == 3 and type(hologram.log2(8.0)) is float
    assert hologram.kernel(hologram.log2)(x).tobytes() == hologram.kernel(lambda x: hologram.log2(x))(x).tobytes()
    assert hologram.kernel(lambda x: abs(x) + x.__abs__())(x).tolist() == (x + x).tolist()
    for copied in (pickle.loads(pickle.dumps(hologram.log2)), copy.deepcopy(hologram.log2)):
        assert copied is hologram.log2
    assert inspect.isroutine(hologram.log2)
    assert str(inspect.signature(hologram.log2)) == "(x, *, out=None, executor=None)"
    shown = pydoc.plain(pydoc.render_doc(hologram.log2))
    assert "log2(x, *, out=None, executor=None)" in shown and hologram.log2.__doc__ in shown
    with pytest.raises(TypeError, match=r"^log2: too many .* it is called as log2\(x\)"):
        hologram.log2(x, x)


def test_what_may_be_otherwise_than_before_is_left_to_python() -> None:
    global SCALE
    x = np.arange(1, 7, dtype=np.int32)
    quotient, scaled = hologram.kernel(lambda x, y: x // y), hologram.kernel(lambda x: x * SCALE)
    try:
        for SCALE in (2, 3, 3, 2):
            assert scaled(x).tolist() == (x * SCALE).tolist()
    finally:
        SCALE = 2.0
    for _ in range(3):
        assert quotient(x, x).tolist() == [1] * 6
        with pytest.raises(hologram.ProgramFault, match=r"division by zero at element \[0\]"):
            quotient(x, x * 0)
    same = hologram.kernel(lambda x: x + 1)
    y = np.arange(9.0)
    for _ in range(3):
        same(y[:-1], out=y[:-1])
        with pytest.raises(ValueError, match="slot out overlaps x in memory"):
            same(y[:-1], out=y[1:])
    y.flags.writeable = False
    for _ in range(3):
        with pytest.raises(ValueError, match=r"read-only|not writable"):
            same(y, out=y)
