"""What is known of calls of kernels that were made before: it decides for calls such as these, and for no others."""

from __future__ import annotations

import contextlib
import gc
import itertools
import random
import re
import sys
from collections.abc import Callable, Iterator
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


def test_an_out_is_no_argument() -> None:
    """Nor is an argument one, of a kernel that takes as many arrays with one or without."""
    f, g = hologram.kernel(usual), hologram.kernel(lambda x, y: x * 0.5 + y)
    x, y, z = np.ones(3), np.full(3, 2.0), np.full(3, 3.0)
    for _ in range(3):
        for _ in range(3):
            assert f(x, y, z).tolist() == [5] * 3
        for _ in range(3):
            for call in (f, g):
                out = np.zeros(3)
                assert call(x, y, out=out) is out
                assert out.tolist() == [2.5] * 3
            with pytest.raises(TypeError, match="argument"):
                g(x, y, z)
            assert z.tolist() == [3] * 3, "it is written"


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


@pytest.mark.parametrize(
    "function",
    [
        lambda k, x, y: x * k - y if x.dtype == np.float32 else x - y,
        lambda k, x, y: x - y if x.dtype == np.float32 else x * k - y,
        lambda k, x, y: x * k - y if x.dtype == np.float32 else y * k - x,
        lambda x, k, y: (y, x) if x.dtype == np.float32 else y * k - x,
    ],
    ids=["a number", "none", "other places", "results"],
)
def test_dtypes_decide_what_is_read(function: Any) -> None:
    """Calls of the same types, which are known by turns, are each a program's, with the numbers that this takes."""
    f = hologram.kernel(function)
    for dtype in ("f4", "f8", "f4", "f2", "f8", "f2", "f4"):
        given = {"x": np.arange(5).astype(dtype), "y": np.arange(5, 10).astype(dtype), "k": 3.0}
        arguments = [given[name] for name in function.__code__.co_varnames]
        expected = function(*arguments)
        for _ in range(4):
            found = f(*arguments)
            for got, want in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, expected))):
                assert got.dtype == dtype and got.tolist() == want.tolist()


def test_a_program_that_was_freed_is_named() -> None:
    """Also beside those of other dtypes, which go on, and whichever was known first."""
    f, dtypes, gone = hologram.kernel(weak), ("f4", "f8", "f2"), []
    for freed in ("", "f8", "f4"):
        if freed:
            gone.append(freed)
            native.end(f.program(*(np.ones(3, freed),) * 2, 0.5))
        for dtype in (*dtypes, *dtypes[::-1]):
            x = np.ones(3, dtype)
            for _ in range(3):
                if dtype in gone:
                    with pytest.raises(hologram.errors.ProgramFreedError, match=r'^program "weak" was freed'):
                        f(x, x, 0.5)
                else:
                    assert f(x, x, 0.5).tolist() == [1.5] * 3


def test_kernels_that_go_leave_no_programs() -> None:
    """However many were known, more than are kept for C too, and called by turns."""
    gc.collect()
    before = native.object_count()
    f = hologram.kernel(lambda x, y: (x > y, y))
    dtypes = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8"]
    for _ in range(3):
        for one, other in itertools.product(dtypes, dtypes):
            x, y = np.arange(3).astype(one), np.ones(3, other)
            more, same = f(x, y)
            assert more.tolist() == [False, False, True] and same.dtype == other
    for _ in range(3):
        for dtype in dtypes:
            f(np.ones(3, dtype), np.ones(3, dtype))
    assert native.object_count() > before
    del f
    gc.collect()
    assert native.object_count() == before


class Garbage:
    """Makes a call when it is collected, as soon as so many objects are made."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.me, self.call = self, call

    def __del__(self) -> None:
        self.call()


@contextlib.contextmanager
def collected(at: int, call: Callable[[], object]) -> Iterator[None]:
    usual = gc.get_threshold()
    gc.collect()
    gc.disable()
    try:
        Garbage(call)
        gc.set_threshold(at, 1, 1)
        gc.enable()
        yield
    finally:
        gc.set_threshold(*usual)
        gc.enable()
        gc.collect()


@pytest.mark.parametrize("shape", [(64,), (1,)])
def test_what_reads_a_buffer_that_goes_meanwhile_leaves_no_results(host: hologram.Executor, shape: Any) -> None:
    """Making them may run Python, which may free what the call reads: it is done with that, or not at all."""
    f, failed = hologram.kernel(lambda x, y: (x + y, y - x)), 0
    x, y = host.from_numpy(np.ones(64, "f4")), host.from_numpy(np.ones(shape, "f4"))
    for _ in range(4):
        f(x, y)
    del x, y
    gc.collect()
    objects, memory = native.object_count(), host.memory_stats()["executor"]
    for first, at in itertools.product((True, False), range(1, 16)):
        x, y = host.from_numpy(np.ones(64, "f4")), host.from_numpy(np.ones(shape, "f4"))
        try:
            with collected(at, (x if first else y).free):
                total, zero = f(x, y)
            assert (total.to_numpy() == 2).all() and not zero.to_numpy().any()
            del total, zero
        except RuntimeError as error:
            failed += "freed" in str(error)
        del x, y
        gc.collect()
        assert (native.object_count(), host.memory_stats()["executor"]) == (objects, memory), at
    assert failed


def test_programs_that_go_meanwhile_are_kept(host: hologram.Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making results may run Python, which may call the kernel until it keeps the call's program no more."""
    monkeypatch.setattr("hologram._kernel.call._LIMIT", 2)
    f, others = hologram.kernel(lambda x, y: (x + y, y - x)), [np.ones(3, dtype) for dtype in ("i2", "i4")]
    for dtype, at in itertools.product(("f4", "f8"), range(1, 16)):
        arrays = [host.from_numpy(np.ones(64, each)) for each in ("f4", "f8")]
        for x in arrays * 4:
            f(x, x)
        x = arrays[dtype == "f8"]
        with collected(at, lambda: [f(other, other) for other in others]):
            total, zero = f(x, x)
        assert total.dtype == dtype and (total.to_numpy() == 2).all() and not zero.to_numpy().any()


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_results_have_the_shapes_of_buffers(backend: str) -> None:
    """Of one and of several, of those before by turns, wherever they are."""
    one, two = hologram.kernel(lambda x: x + 1), hologram.kernel(lambda x, y: (x + y, y))
    with hologram.Executor(backend) as ex:
        for shape, other in (((3,), (2, 3)), ((2, 3), (3,)), ((4,), (1,)), ((2, 1, 2), (3, 1)), ((3,), (3,))):
            x, y = (ex.from_numpy(np.ones(each, "f4")) for each in (shape, other))
            for _ in range(4):
                for results, expected, values in (
                    ((one(x),), shape, (2,)),
                    (two(x, y), np.broadcast_shapes(shape, other), (2, 1)),
                ):
                    for result, value in zip(results, values):
                        assert result.shape == expected and (result.to_numpy() == value).all()


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
