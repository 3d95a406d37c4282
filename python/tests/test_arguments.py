"""Integer arguments: none wraps, none is truncated, and errors name the argument."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any, Callable

import numpy as np
import pytest
from support import DEVICE
from test_process import script

import hologram as hg
from hologram._ffi import native

STORE = "program t\nslot c f32\nstg.f32 1.0, c[index]\nexit"

# What takes an integer, and the name that errors give it.
PLACES: dict[str, Callable[[hg.Executor, hg.Buffer, Any], object]] = {
    "allocate: size": lambda ex, b, n: ex.allocate(n),
    "allocate_boundary: class_index": lambda ex, b, n: ex.allocate_boundary(n, 1, 1),
    "allocate_boundary: width": lambda ex, b, n: ex.allocate_boundary(0, n, 1),
    "allocate_boundary: height": lambda ex, b, n: ex.allocate_boundary(0, 1, n),
    "Executor: memory_limit": lambda ex, b, n: hg.Executor(DEVICE, memory_limit=n),
    "set_memory_limit: limit": lambda ex, b, n: ex.set_memory_limit(n),
    "view: shape": lambda ex, b, n: b.view((n,)),
    "view: offset": lambda ex, b, n: b.view((1,), offset=n),
    "view: strides": lambda ex, b, n: b.view((1,), strides=(n,)),
    "set_num_threads: threads": lambda ex, b, n: hg.set_num_threads(n),
    "vector_add: n": lambda ex, b, n: hg.ops.vector_add(ex, b, b, b, n=n),
    "softmax_rows: rows": lambda ex, b, n: hg.ops.softmax_rows(ex, b, b, n, 1),
    'launch "t": n': lambda ex, b, n: ex.launch(hg.Program(STORE), c=b, n=n),
    'launch "t": shape': lambda ex, b, n: ex.launch(hg.Program(STORE), c=b, shape=(n,)),
    'launch "t": fuel': lambda ex, b, n: ex.launch(hg.Program(STORE), c=b, fuel=n),
    'launch "t": grid': lambda ex, b, n: ex.launch(hg.Program(STORE), c=b, grid=n),
    'launch "t": block': lambda ex, b, n: ex.launch(hg.Program(STORE), c=b, block=n),
}


@pytest.mark.parametrize("value", [2**64 + 1, 2**63, -(2**63) - 1, -(2**64) + 1, 10**30])
@pytest.mark.parametrize("place", PLACES)
def test_integers_do_not_wrap(ex: hg.Executor, place: str, value: int) -> None:
    threads = hg.num_threads()
    with pytest.raises(hg.errors.InvalidArgumentError) as caught:
        PLACES[place](ex, ex.allocate(8), value)
    assert str(caught.value).startswith(place)
    assert str(value) in str(caught.value)
    assert hg.num_threads() == threads


def test_the_least_integer_has_64_bits(ex: hg.Executor) -> None:
    b = ex.allocate(8)
    for value, wide in ((-(2**63), False), (-(2**63) - 1, True)):
        with pytest.raises(ValueError, match=f"vector_add: n is {value}") as caught:
            hg.ops.vector_add(ex, b, b, b, n=value)
        assert ("more than 64 bits" in str(caught.value)) == wide


@pytest.mark.parametrize("value", ["yes", 2, -1, 1.0, np.ones(2), None])
def test_a_flag_is_true_or_false(ex: hg.Executor, value: Any) -> None:
    a, c = ex.allocate(6), ex.allocate(4)
    for flag in (True, False, 1, 0, np.True_):
        hg.ops.gemm(ex, a, a, c, 2, 2, 3, trans_a=flag)
    if value is None:
        return
    with pytest.raises(hg.errors.DTypeError, match=r"gemm: trans_a is .*; expected True or False"):
        hg.ops.gemm(ex, a, a, c, 2, 2, 3, trans_a=value)


def test_errors_name_the_function_that_was_called(ex: hg.Executor) -> None:
    a, whole = ex.allocate(6), ex.allocate(6, "i32")
    for use, text in (
        (lambda: hg.ops.softmax_rows(ex, a, a, 4, 2), "softmax_rows: input has 6 elements"),
        (lambda: hg.ops.softmax(ex, a, a, n=7), "softmax: input has 6 elements"),
        (lambda: hg.ops.softmax_rows(ex, whole, whole, 3, 2), "softmax_rows: dtype i32"),
        (lambda: hg.ops.relu(ex, a, whole), "relu: c has dtype i32"),
        (lambda: hg.ops.vector_relu(ex, a, whole), "vector_relu: c has dtype i32"),
        (lambda: hg.ops.relu(ex, a, a, n="x"), "relu: n is 'x'"),
    ):
        with pytest.raises((ValueError, TypeError)) as caught:
            use()
        assert str(caught.value).startswith(text)


@pytest.mark.parametrize("value", [2.0, 2.5, "2", np.float64(2), 1j, object()])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_integer_is_refused(ex: hg.Executor, place: str, value: Any) -> None:
    with pytest.raises(hg.errors.DTypeError) as caught:
        PLACES[place](ex, ex.allocate(8), value)
    assert str(caught.value).startswith(place)
    assert "integer" in str(caught.value)


def test_threads_are_32_bits() -> None:
    threads = hg.num_threads()
    with pytest.raises(ValueError, match="set_num_threads: threads is 4294967297"):
        hg.set_num_threads(2**32 + 1)
    assert hg.num_threads() == threads


@pytest.mark.parametrize("shape", ["abc", 3.0, b"ab", None])
def test_a_shape_is_a_sequence_or_a_number(ex: hg.Executor, shape: Any) -> None:
    with pytest.raises(TypeError, match="view: shape"):
        ex.allocate(8).view(shape)
    assert ex.allocate(8).view(4).shape == ex.allocate(np.int64(4)).view(np.int64(4)).shape == (4,)


def test_numpy_integers_are_integers(ex: hg.Executor) -> None:
    b = ex.allocate(np.int8(8))
    assert b.view((np.uint16(2), np.int64(2)), offset=np.int32(4)).shape == (2, 2)


# ---- what stands in another's place, or is freed


@pytest.mark.parametrize("wrong", ["None", "a buffer", "an array", "a number"])
@pytest.mark.parametrize("op", ["vector_add", "vector_neg", "fill", "reduce_sum"])
def test_what_is_no_executor_is_named(ex: hg.Executor, op: str, wrong: str) -> None:
    b = ex.allocate(8)
    given = {"None": None, "a buffer": b, "an array": np.zeros(8, np.float32), "a number": 3}[wrong]
    arguments = {"vector_add": (b, b, b), "vector_neg": (b, b), "fill": (b, 1), "reduce_sum": (b, b)}[op]
    with pytest.raises(TypeError, match=rf"^{op}: ex: expected an Executor, got {type(given).__name__}"):
        getattr(hg.ops, op)(given, *arguments)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("wrong", [None, 3, "ex"])
def test_what_is_no_array_is_named(ex: hg.Executor, place: int, wrong: Any) -> None:
    arrays: list[Any] = [ex.allocate(8)] * 3
    arrays[place] = ex if wrong == "ex" else wrong
    if (wrong is None and place == 2) or (wrong == 3 and place < 2):
        hg.ops.vector_add(ex, *arrays)  # the result is left to us; a number is an array
        return
    with pytest.raises(TypeError, match=f"^vector_add: {'abc'[place]}: expected a Buffer"):
        hg.ops.vector_add(ex, *arrays)


def test_errors_name_what_was_freed() -> None:
    program = hg.Program(STORE)
    gone, gone_program = hg.Executor(DEVICE), hg.Program(STORE)
    gone.cleanup()
    native.end(gone_program)
    with hg.Executor(DEVICE) as ex:
        b, freed = ex.allocate(4), ex.allocate(4)
        freed.free()
        calls: list[tuple[type[hg.errors.FreedError], str, Callable[[], object]]] = [
            (hg.errors.ExecutorFreedError, "executor", lambda: gone.allocate(4)),
            (hg.errors.ExecutorFreedError, "executor", lambda: hg.ops.vector_add(gone, b, b, b)),
            (hg.errors.ExecutorFreedError, "executor", lambda: hg.ops.fill(gone, b, 1)),
            (hg.errors.ExecutorFreedError, "executor", lambda: gone.launch(program, c=b)),
            (hg.errors.ProgramFreedError, 'program "t"', lambda: ex.launch(gone_program, c=b)),
            (hg.errors.BufferFreedError, "b: <Buffer", lambda: hg.ops.vector_add(ex, b, freed, b)),
            (hg.errors.BufferFreedError, "Buffer", lambda: freed.to_numpy()),
            (hg.errors.BufferFreedError, "<Buffer", lambda: freed.strides),
            (hg.errors.BufferFreedError, "<Buffer", lambda: ex.wrap(freed)),
            (hg.errors.BufferFreedError, "slot c", lambda: ex.launch(program, c=freed)),
        ]
        for kind, text, call in calls:
            with pytest.raises(hg.errors.FreedError, match=text) as caught:
                call()
            assert type(caught.value) is kind
            assert "freed" in str(caught.value)
            assert isinstance(caught.value, RuntimeError)


@pytest.mark.parametrize("value", ["0", "abc", "5000", "-1", "1.5"])
def test_a_wrong_hologram_num_threads_is_named(value: str) -> None:
    done = script(
        "try:\n    ex = hg.Executor('cpu')\nexcept ValueError as e:\n"
        "    assert not isinstance(e, hg.errors.InvalidBackendError), e\n    print(e)",
        HOLOGRAM_NUM_THREADS=value,
    )
    assert done.returncode == 0, done.stderr
    assert "HOLOGRAM_NUM_THREADS" in done.stdout
    assert value in done.stdout


def test_an_engine_is_chosen_by_hologram_cpu_engine() -> None:
    done = script("print(hg.backend.backends()[0]['device'])\nhg.Executor('cpu')", HOLOGRAM_CPU_ENGINE="strips")
    assert done.returncode == 0 and done.stdout == "host, portable engine\n", done.stderr
    done = script(
        "try:\n    hg.Executor('cpu')\nexcept hg.errors.BackendError as e:\n    print(e)", HOLOGRAM_CPU_ENGINE="fast"
    )
    said = 'HOLOGRAM_CPU_ENGINE is "fast"; expected strips, avx2, avx512, avx512_vnni, avx512_bf16 or amx'
    assert said in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["HOLOGRAM_NUM_THREADS", "HOLOGRAM_CPU_ENGINE"])
def test_info_lists_the_backends_whatever_the_environment_says(name: str) -> None:
    done = script("import sys\nfrom hologram import cli\nsys.exit(cli.main(['info']))", **{name: "fast"})
    assert done.returncode == 1, done.stderr
    assert "threads  not known: " in done.stdout and f'{name} is "fast"' in done.stdout
    assert all(f"\n  {backend} " in done.stdout for backend in ("cpu", "interp", "cuda")), done.stdout
    if name == "HOLOGRAM_CPU_ENGINE":  # which is asked of the CPU alone
        assert '\n  cpu      not available: cpu: HOLOGRAM_CPU_ENGINE is "fast"' in done.stdout, done.stdout


# ---- bools and masks


@pytest.mark.parametrize("kind", ["array", "wrapped", "allocated"])
def test_arithmetic_writes_no_bools(host: hg.Executor, kind: str) -> None:
    """A bool that is neither 0 nor 1 is undefined behaviour in numpy."""
    out = np.zeros(2, bool)
    c: Any = {"array": out, "wrapped": host.wrap(out), "allocated": host.allocate(2, bool)}[kind]
    ones = np.ones(2, bool)
    for call in (
        lambda: hg.ops.vector_add(host, ones, ones, c),
        lambda: hg.ops.vector_add(host, c, c, c),
        lambda: hg.ops.vector_add(host, ones, ones, c, n=1),
        lambda: hg.ops.vector_neg(host, c, c),
        lambda: hg.ops.scalar_add(host, ones, c, 3),
    ):
        with pytest.raises(hg.errors.DTypeError, match="c has dtype bool"):
            call()
    assert not np.asarray(c).any()
    hg.ops.copy(host, ones, c)
    assert np.asarray(c).view(np.uint8).tolist() == [1, 1]
    for value in (0, 2, -1.5, True):
        hg.ops.fill(host, c, value)
        assert np.asarray(c).view(np.uint8).tolist() == [bool(value)] * 2
    b = host.allocate(2, bool)
    b.fill(7)
    assert np.asarray(b).view(np.uint8).tolist() == [1, 1]


def test_bools_are_read_as_u8(host: hg.Executor) -> None:
    out = np.zeros(2, np.uint8)
    hg.ops.vector_add(host, np.array([True, False]), np.array([True, True]), out)
    assert out.tolist() == [2, 1]


def test_masked_arrays_are_refused(ex: hg.Executor) -> None:
    masked = np.ma.masked_array(np.ones(4, np.float32), mask=[1, 0, 0, 0])
    b = ex.allocate(4)
    for call in (
        lambda: ex.wrap(masked),
        lambda: ex.from_numpy(masked),
        lambda: b.from_numpy(masked),
        lambda: hg.ops.vector_add(ex, masked, b, b),
    ):
        with pytest.raises(TypeError, match="mask"):
            call()


def test_names_that_cannot_be_compared() -> None:
    """What comparing a slot's name with a key raises is what the caller gets."""

    class Key(str):
        def __hash__(self) -> int:
            return hash("x")

        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError("no name")

    with hg.Executor("cpu") as ex, pytest.raises(ZeroDivisionError, match="no name"):
        ex.launch(hg.Program("program p\nslot x f32\nstg.f32 1, x[index]\nexit"), {Key("z"): np.zeros(3, "f4")})


@pytest.mark.parametrize("place", PLACES)
def test_an_integer_too_long_to_be_written_is_named(ex: hg.Executor, place: str) -> None:
    with pytest.raises(hg.errors.InvalidArgumentError, match=re.escape(place) + r".* is an integer of 16610 bits"):
        PLACES[place](ex, ex.allocate(8), 10**5000)


@pytest.mark.parametrize("value", [[0.5] * 100_000, "x" * 100_000])
def test_errors_are_brief_whatever_they_show(ex: hg.Executor, value: Any) -> None:
    with pytest.raises(hg.errors.DTypeError, match="vector_add: n is ") as caught:
        hg.ops.vector_add(ex, ex.allocate(8), ex.allocate(8), n=value)
    assert len(str(caught.value)) < 300


def test_what_cannot_be_shown_is_named_all_the_same(ex: hg.Executor) -> None:
    class Silent:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(hg.errors.DTypeError, match="vector_add: n is a Silent; expected an integer"):
        hg.ops.vector_add(ex, ex.allocate(8), ex.allocate(8), n=Silent())


@pytest.mark.parametrize("function", ["vector_add", "reduce_sum", "argmax", "softmax", "mse_loss", "fill"])
def test_a_negative_count_is_named(ex: hg.Executor, function: str) -> None:
    arrays = [ex.allocate(8, np.int64 if function == "argmax" and i else np.float32) for i in range(3)]
    arguments: list[Any] = {"fill": [arrays[0], 1], "vector_add": arrays, "mse_loss": arrays}.get(function, arrays[:2])
    with pytest.raises(hg.errors.InvalidArgumentError, match=f"{function}: n is -1; expected 0 … "):
        getattr(hg.ops, function)(ex, *arguments, n=-1)


@pytest.mark.parametrize("value", ["yes", 2, 1.0, np.ones(2)])
def test_keepdims_is_true_or_false(ex: hg.Executor, value: Any) -> None:
    with pytest.raises(hg.errors.DTypeError, match=r"reduce_sum: keepdims is .*; expected True or False"):
        hg.ops.reduce_sum(ex, ex.allocate((2, 4)), ex.allocate((2, 1)), axis=1, keepdims=value)


class _Producer:
    """An array that says what it is told to."""

    def __init__(self, device: Any, capsule: Any) -> None:
        self.device, self.capsule = device, capsule

    def __dlpack_device__(self) -> Any:
        return self.device() if callable(self.device) else self.device

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule() if callable(self.capsule) else self.capsule


def _fail(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    ("array", "kind", "text"),
    [
        (_Producer((1, 0), None), BufferError, r"_Producer.__dlpack__\(\) is None; expected a DLPack capsule"),
        (_Producer(None, None), TypeError, r"_Producer.__dlpack_device__\(\) is None; expected two integers"),
        (_Producer((1,), None), TypeError, r"__dlpack_device__\(\) is \(1,\); expected two integers"),
        (_Producer(("x", 0), None), TypeError, r"__dlpack_device__\(\) is \('x', 0\); expected two integers"),
        (_Producer(_fail(ValueError("meta")), None), ValueError, "meta"),
        (_Producer((1, 0), _fail(BufferError("sparse"))), BufferError, "sparse"),
        (_Producer((1, 0), _fail(RuntimeError("lazy"))), RuntimeError, "lazy"),
        (_Producer, TypeError, "expected a Buffer, a numpy array or an object with DLPack, got type"),
        (hg.Buffer, TypeError, "expected a Buffer, a numpy array or an object with DLPack, got type"),
    ],
)
def test_what_an_array_says_wrong_of_itself_is_told_of_the_argument(
    host: hg.Executor, array: Any, kind: type[Exception], text: str
) -> None:
    x = np.ones(4, np.float32)
    with pytest.raises(kind, match="^vector_add: b: .*" + text):
        hg.ops.vector_add(host, x, array, x)
    with pytest.raises(kind, match='^launch "t": slot c: .*' + text):
        host.launch(hg.Program(STORE), c=array)
    with pytest.raises(kind, match="^vector_add: .*" + text):
        hg.ops.vector_add(array, x)


def test_an_array_s_own_exception_passes(host: hg.Executor) -> None:
    class OwnError(ValueError):
        def __init__(self, one: int, two: int) -> None:
            super().__init__(one, two)

    with pytest.raises(OwnError):
        hg.ops.vector_add(host, _Producer((1, 0), _fail(OwnError(1, 2))), np.ones(4, np.float32))


@pytest.mark.parametrize("name", ["cpu\0x", "\0", "\ud800", "cpu\ud800"])
def test_a_backend_s_name_is_taken_whole(name: str) -> None:
    with pytest.raises(hg.errors.InvalidBackendError, match="Invalid backend"):
        hg.Executor(name)


def test_wrong_arguments_of_a_class_leave_nothing_behind() -> None:
    done = script(
        """
from hologram._ffi import native
objects = native.object_count()
kinds, wrong = (hg.Executor, hg.Program), ({"backend": "cpu", "more": 5}, {"memory_limit": "x"}, {"source": 5})
for make in [lambda k=k, w=w: k(**w) for k in kinds for w in wrong]:
    try:
        make()
    except TypeError:
        pass
ex = hg.Executor("cpu")
ex.__init__("cpu")
program = hg.Program("program a\\nexit")
program.__init__("program b\\nexit")
assert (ex.allocate(3).size, program.name) == (3, "b")
ex.cleanup()
ex.cleanup()
del ex, program
assert native.object_count() == objects
"""
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_functions_are_pickled_by_name() -> None:
    for name in hg.ops.__all__:
        function = getattr(hg.ops, name)
        assert pickle.loads(pickle.dumps(function)) is function
        assert copy.deepcopy(function) is function


def test_arrays_are_taken_in_c_whatever_came_before() -> None:
    done = script(
        """
ex, x = hg.Executor("cpu"), np.ones(4, np.float32)
from hologram._ffi import hooks
asked, probe = [], hooks["probe"]
def counted(kind):
    asked.append(kind)
    return probe(kind)
hooks["probe"] = counted
for i in range(200):
    try:
        hg.ops.vector_add(ex, x if i > 150 else type(f"T{i}", (), {})(), type(f"U{i}", (), {})(), x)
    except TypeError:
        pass
for _ in range(3):
    hg.ops.vector_add(ex, x, x, memoryview(bytearray(16)).cast("f"))
assert asked.count(np.ndarray) == 1, asked.count(np.ndarray)
assert asked.count(memoryview) == 1
"""
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x, m: hg.ops.relu(m.T, n=3),
            "relu: a has shape .4, 3. and is strided: n takes the first elements of arrays that are contiguous or",
        ),
        (
            lambda x, m: hg.ops.vector_add(m, m[:, ::2], n=3),
            "b has shape .3, 2. and is strided: n takes the first elements",
        ),
        (lambda x, m: hg.ops.vector_clip(x, 0, 1), "'max_val'; without the output numbers are given by name: max_val="),
        (lambda x, m: hg.ops.scalar_mul(x, 2), "'scalar'; without the output numbers are given by name: scalar="),
        (
            lambda x, m: hg.ops.reduce_sum(x, 0),
            "reduce_sum: output: expected a Buffer.* got 0; axis is given by name: axis=0",
        ),
        (
            lambda x, m: hg.ops.softmax(m, -1),
            "softmax: output: expected a Buffer.* got -1; axis is given by name: axis=-1",
        ),
        (
            lambda x, m: hg.ops.cross_entropy_loss(m, np.array([0, 1, 2])),
            "target .3,.; target holds probabilities, in pred's shape; of classes nll is the loss",
        ),
        (lambda x, m: hg.ops.mse_loss(m, x), r"the numbers of elements differ: pred \(3, 4\), target \(3,\)$"),
        (lambda x, m: hg.ops.vector_add(m, x), r"not broadcast together: a \(3, 4\), b \(3,\)$"),
        (lambda x, m: hg.ops.fill(x), r"missing required argument: 'value'$"),
        (
            lambda x, m: hg.ops.where(x, x, x),
            r"mask has dtype f32; expected bool, or u8; write mask.astype\(bool\)$",
        ),
        (lambda x, m: hg.ops.embedding(m, np.int32([1])), r"index has dtype i32; .*; write index.astype\(np.int64\)$"),
        (
            lambda x, m: hg.kernel(lambda a: np.sum(a))(x),
            "numpy.sum is not there in kernels; a kernel sees one",
        ),
        (
            lambda x, m: hg.kernel(lambda a: a)(x, x),
            r"too many positional arguments; it is called as lambda\(a\); an array .* out=$",
        ),
        (lambda x, m: hg.kernel(lambda a: a)([1]), "a is a list; .*; np.array makes one of it$"),
        (lambda x, m: hg.ops.mse_loss(m[0], x), r"pred \(4,\), target \(3,\); n takes the first of each"),
        (lambda x, m: hg.ops.mse_loss(m.T, x), r"not broadcast: write np.broadcast_to\(target, pred.shape\)"),
        (
            lambda x, m: hg.ops.vector_clip(x, min_val=x, max_val=1),
            r"min_val is a ndarray; .*number; hologram.clip\(…\)",
        ),
        (
            lambda x, m: hg.ops.scalar_mul(x, scalar=x),
            r"scalar is a ndarray; expected a number; hologram.ops.vector_mul",
        ),
        (lambda x, m: hg.ops.vector_add(x, [1, 2, 3]), "b: expected a Buffer.*, got list; np.array makes one of it"),
        (
            lambda x, m: hg.ops.vector_add(x, x.astype("f8")),
            r"b has dtype f64, and a has f32.*; write a.astype\(np.float64\), or b.astype\(np.float32\)$",
        ),
        (
            lambda x, m: hg.ops.vector_mul(x.astype("i4"), x),
            r"b has dtype f32, and a has i32.*; write a.astype\(np.float64\) and b.astype\(np.float64\)$",
        ),
        (lambda x, m: hg.ops.vector_mul(x, np.float64(2)), r"b has dtype f64, and a has f32.*; write float\(b\)$"),
        (lambda x, m: hg.ops.vector_mul(np.int64(2), x), r"b has dtype f32, and a has i64.*; write int\(a\)$"),
        (lambda x, m: hg.ops.vector_add(x.astype("i4"), np.int8(2)), r"b has dtype i8, .*; write int\(b\)$"),
        (
            lambda x, m: hg.ops.vector_add(x.astype("i4"), np.float64(2.5)),
            r"b has dtype f64, and a has i32.*; write a.astype\(np.float64\) and float\(b\)$",
        ),
        (lambda x, m: hg.get_num_threads(), r"'get_num_threads'; did you mean num_threads\?$"),
        (lambda x, m: hg.ops.vector_mul(x, x > 0), r"b has dtype bool, and a has f32.*; write b.astype\(np.float32\)$"),
        (lambda x, m: hg.ops.vector_mul(x, 1, x.astype("f8")), "c has dtype f64.*; give c as an array of float32$"),
        (
            lambda x, m: hg.ops.sigmoid(x.astype("i4")),
            r"dtype i32 is not supported; .*; write input.astype\(np.float64\)",
        ),
        (
            lambda x, m: hg.ops.embedding(np.arange(2), m),
            r"; write table.astype.*, or is the order another\? It is table, i",
        ),
        (lambda x, m: hg.ops.vector_exp(x > 0), "dtype bool is not supported"),
        (lambda x, m: hg.ops.vector_add(x, np.zeros(3, "u1, f4")["f1"]), "^vector_add: b: strides .* make a copy"),
        (
            lambda x, m: hg.ops.vector_add(x, np.zeros(13, "u1")[1:].view("f4")),
            "^vector_add: b: address .* aligned copy",
        ),
        (lambda x, m: hg.ops.reduce_mean(x), "reduce_mean'; divide reduce_sum by the number of elements"),
    ],
)
def test_what_newcomers_write_is_told_in_their_words(call: Any, text: str) -> None:
    x, m = np.ones(3, np.float32), np.ones((3, 4), np.float32)
    with pytest.raises((ValueError, TypeError, AttributeError), match=text):
        call(x, m)


def test_n_takes_the_first_of_strided_vectors() -> None:
    x = np.arange(10, dtype=np.float32)
    assert hg.ops.vector_neg(x[::2], n=3).tolist() == [0, -2, -4]


def test_what_an_error_says_of_numpy_s_numbers_is_true() -> None:
    for value in (np.float64(2), np.int64(2), np.bool_(True), np.float16(2)):
        for x in (np.ones(3, np.float32), np.ones(3, np.int32)):
            with pytest.raises(TypeError) as error:
                hg.ops.vector_add(x, value)
            written = str(error.value).partition("; write ")[2].split(" and ")
            names = {"a": x, "b": value, "np": np}
            for each in written:
                names["b" if "(b)" in each else "a"] = eval(each, names)
            assert (hg.ops.vector_add(names["a"], names["b"]) == 1 + value).all()


def test_scalars_of_dtypes_that_numpy_has_not_are_numbers() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.ones(3, bfloat16)
    with pytest.raises(TypeError, match=r"write float\(b\)$"):
        hg.ops.vector_add(x, np.float32(2))
    with pytest.raises(TypeError, match=r"write float\(b\)$"):
        hg.ops.vector_add(np.ones(3, np.float32), bfloat16(2))
    assert hg.ops.vector_add(x, bfloat16(1)).tolist() == [2, 2, 2]
    assert hg.ops.vector_add(x, np.array(1, bfloat16)).tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda x: hg.ops.argmax(x, axis=1, out=np.zeros(2, np.int32)),
            "give output as an array of int64, or leave it",
        ),
        (lambda x: hg.ops.vector_abs(x.astype("u1")), r"write a\.astype\(np\.int16\)$"),
        (lambda x: hg.ops.vector_abs(x.astype("u4")), r"write a\.astype\(np\.int64\)$"),
        (lambda x: hg.ops.vector_abs(x.astype("u8")), r"write a\.astype\(np\.float64\)$"),
        (
            lambda x: hg.ops.scalar_mul(x.astype("i8"), None, 0.5),
            r"expected i64, got 0.5; write a.astype\(np.float64\)$",
        ),
        (
            lambda x: hg.ops.vector_clip(x.astype("u1"), None, 0, 2.5),
            r"expected u8, got 2.5; write a.astype\(np.float64\)$",
        ),
        (lambda x: hg.ops.sigmoid(x.astype("u1")), r"write input\.astype\(np\.float16\)$"),
    ],
)
def test_what_to_give_is_what_works(call: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call(np.ones((2, 3), np.float32))
