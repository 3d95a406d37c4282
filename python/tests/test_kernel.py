"""Kernels, functions of Python that are compiled: what is compiled, and that it is once."""

from __future__ import annotations

import gc
import linecache
import signal
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from kernels import assert_same, numbers, written

import hologram
import hologram as hg


def test_a_kernel_is_the_program_written_by_hand() -> None:
    @hologram.kernel
    def f(x, y):  # type: ignore[no-untyped-def]
        return hologram.relu(x * y + x) * 0.5 - y

    written = hg.Program(
        "program f\nslot x f32\nslot y f32\nslot out f32\nldg.f32 a, x[index]\nldg.f32 b, y[index]\nmul.f32 t, a, b\n"
        "add.f32 t, t, a\nmax.f32 t, t, 0.0\nmul.f32 t, t, 0.5\nsub.f32 t, t, b\nstg.f32 t, out[index]\nexit\n"
    )
    assert f.program("f32", np.float32).hash == written.hash
    x, y = numbers("f4", 1), numbers("f4", 2)
    with np.errstate(all="ignore"):
        expected = np.maximum(x * y + x, 0) * np.float32(0.5) - y
    assert_same(f(x, y), expected)
    out = np.empty_like(x)
    assert f(x, y, out=out) is out
    with hg.Executor("interp") as interp:
        assert_same(f(x, y, executor=interp), out)


LOOP = """program newton
slot a f64
slot out f64
param rounds i64
  ldg.f64 a, a[index]
  ldp.i64 n, rounds
  max.i64 all, n, 0
  min.i64 n, all, 4294967295
  cvt.u32.i64 n, n
  set.gt.i64 more, all, 4294967295
  mov.f64 x, a
  loop n, again
    div.f64 y, a, x
    add.f64 y, x, y
    mul.f64 y, y, 0.5
    set.eq.f64 p, y, x
    bra done, p
    mov.f64 x, y
again:
  bra done, !more
  div.u32 nothing, 1, 0     ; a fault: the loop has more rounds than a LOOP
done:
  stg.f64 x, out[index]
  exit
"""


def newton(a: Any, rounds: int) -> Any:
    x = a
    for _ in hologram.range(rounds):
        y = (x + a / x) * 0.5
        if y == x:
            break
        x = y
    return x


def test_a_loop_is_the_loop_written_by_hand() -> None:
    f = hologram.kernel(newton)
    assert f.program("f64", 5).hash == hg.Program(LOOP).hash
    a = np.array([1.0, 2.0, 10.0, 1e300])
    for rounds in (0, 1, 7, 2000):
        assert_same(f(a, rounds), np.array([newton(float(v), rounds) for v in a]))


def test_the_text_is_there_to_read() -> None:
    f = hologram.kernel(lambda x, k: x * k)
    with pytest.raises(ValueError, match="no program yet"):
        f.atlas  # noqa: B018
    f(np.ones(3, np.float32), 2)
    assert f.atlas.startswith("program lambda\nslot x f32\nslot out f32\nparam k f32\n")
    assert hg.Program(f.atlas).hash == f.program("f32", 2).hash
    assert "mul.i8" in f.program(np.int8, 2).disassemble()
    assert "mul.i8" in f.atlas
    assert f.program("bf16", 1.0).slots[0].dtype == "bf16"
    assert "<hologram.kernel lambda(x, k): 3 programs>" == repr(f)


def test_it_looks_like_the_function() -> None:
    @hologram.kernel
    def documented(x: Any) -> Any:
        """It has a docstring."""
        return x

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "It has a docstring."
    assert documented.__wrapped__(3) == 3  # type: ignore[attr-defined]


def counted(f: Any) -> int:
    return int(repr(f).rpartition(": ")[2].split()[0])


def test_a_signature_is_compiled_once() -> None:
    runs = []

    def body(x: Any, k: Any) -> Any:
        runs.append(1)
        return x * k

    f = hologram.kernel(body)
    x = np.ones(3, np.float32)
    for k in (1.0, 2.0, 3.0):
        for shape in ((3,), (2, 2), ()):
            f(np.ones(shape, np.float32), k)
    assert len(runs) == 1
    f(x, 1)
    f(x, np.float32(1))
    f(x.astype("f8"), 1.0)
    assert (len(runs), counted(f)) == (4, 4)


def test_a_kernel_keeps_a_bounded_number_of_programs() -> None:
    from hologram._kernel import call

    f = hologram.kernel(lambda x, k: x + k, static="k")
    x = np.zeros(1)
    for k in range(call._LIMIT + 20):
        assert f(x, k) == k
    assert counted(f) == call._LIMIT
    assert f(x, 0) == 0
    number = 0.0
    g = hologram.kernel(lambda x: x + number)
    for k in range(call._LIMIT + 20):
        number = float(k)
        assert g(x) == k
    assert counted(g) == call._LIMIT
    assert len(g._ready) <= call._LIMIT


def test_the_oldest_program_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from hologram._kernel import call

    monkeypatch.setattr(call, "_LIMIT", 3)
    traced: list[int] = []

    @hologram.kernel(static="k")
    def f(x: Any, k: int) -> Any:
        traced.append(k)
        return x + k

    for k in (0, 1, 2, 3, 3, 2, 1, 0, 3, 2, 1):
        assert f(np.zeros(1), k) == k
    assert traced == [0, 1, 2, 3, 0, 1]


def test_what_a_program_does_not_depend_on_is_not_kept_alive() -> None:
    table: Any = np.ones(3)

    @hologram.kernel
    def f(x: Any) -> Any:
        return x + len(table)

    for _ in range(3):
        assert f(np.zeros(2)).tolist() == [3, 3]
    gone, table = weakref.ref(table), None
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("return y", ""),
        ("return undefined + y", "name 'undefined' is not defined"),
        ("return range(0, 3, 0)", r"must not be zero\n  at <once>:3: return range\(0, 3, 0\)"),
        ("return int(y)", r"an int can't be had .*\n  at <once>:3: "),
        ("a, b = y, y, y", r"too many values to unpack .*\n  at <once>:3: a, b = y, y, y"),
        ("return of('a')", "unsupported operand|can't multiply|expected a value or a number"),
    ],
)
def test_what_fails_is_not_done_again(end: str, error: str) -> None:
    """What is counted here is how often a function of Python's is called."""
    calls: list[Any] = []
    f = written(f"def f(x, of):\n    y = of(x) * 2\n    {end}\n", "<once>")

    def of(value: Any) -> Any:
        calls.append(value)
        return value * np.float64(1)

    if error:
        with pytest.raises((NameError, TypeError, ValueError), match=error):
            hologram.kernel(f, static="of")(np.ones(3), of)
        assert len(calls) == 1 + ("of('a')" in end)
    else:
        assert hologram.kernel(f, static="of")(np.ones(3), of).tolist() == [2, 2, 2]
        assert len(calls) == 1


@pytest.mark.parametrize(
    "way", ["return x * helper()", "for _ in hologram.range(2):\n        x = x * helper()\n    return x"]
)
@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_what_functions_of_pythons_raise_stays_as_it_is(way: str, error: Any) -> None:
    def helper() -> None:
        raise error("its own")

    f = written(f"def f(x):\n    {way}\n", "<raises>")
    f.__globals__["helper"] = helper
    with pytest.raises(error) as caught:
        hologram.kernel(f)(np.ones(3))
    assert (type(caught.value), caught.value.args) == (error, ("its own",))


def test_threads() -> None:
    runs = []

    def body(x: Any, k: Any) -> Any:
        runs.append(1)
        for _ in hologram.range(3):
            x = x + k
        return x

    f = hologram.kernel(body)
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def work(i: int) -> None:
        try:
            start.wait()
            for n in range(50):
                for dtype in ("f4", "f8", "i4"):
                    x = np.full(100 + i, n, dtype)
                    assert_same(f(x, i), (x + 3 * i).astype(dtype))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert (len(runs), counted(f)) == (3, 3)


def test_an_interrupt_anywhere_leaves_a_kernel_usable() -> None:
    """Ctrl-C strikes between any two lines of what makes a program."""
    import os
    import sys
    from types import FrameType

    from hologram._kernel import call
    from hologram._kernel.lines import current

    folder = os.path.join(os.path.dirname(hologram.__file__), "_kernel")
    files = {os.path.join(folder, name) for name in ("source.py", "statements.py", "variables.py", "loops.py")}
    seen: set[tuple[str, int]] = set()
    compiling = call.Kernel._compile.__code__
    x = np.arange(3.0)

    @hologram.kernel
    def f(x: Any) -> Any:
        n = (k := 2) + 1
        for i in hologram.range(2):
            if x > 1:
                x = x * n + i
        return x - k

    def strike(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in files and frame.f_code is not compiling:
            return None
        place = frame.f_code.co_filename, frame.f_lineno
        # What restores is the one thing that nothing could restore.
        if event == "line" and place not in seen and "outer" not in linecache.getline(*place):
            seen.add(place)
            raise KeyboardInterrupt
        return strike

    done = False
    tracer = sys.gettrace()
    while not done:
        sys.settrace(strike)
        try:
            assert_same(f(x), np.array([-2.0, -1.0, 17.0]))
            done = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(tracer)
        assert current.trace is None
    assert len(seen) > 100


def test_importing_hologram_does_not_import_kernels() -> None:
    import subprocess
    import sys

    code = (
        "import sys, hologram; assert not [m for m in sys.modules if m.startswith('hologram._kernel')]; "
        "assert {'kernel', 'where', 'range'} <= set(dir(hologram)); "
        "from hologram import *; assert range(3)[1] == 1; assert abs is __builtins__.abs; "
        "hologram.where; assert 'hologram._kernel' in sys.modules; "
        "assert hologram._KERNELS == set(hologram._kernel.__all__)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_handler_that_runs_while_a_kernel_is_traced_computes_with_numbers() -> None:
    seen: list[Any] = []

    def handler(*_: object) -> None:
        seen.append([hologram.sqrt(4.0), hologram.maximum(1, 3), divmod(7, 2), list(hologram.range(3))])
        seen.append(hologram.sqrt(np.float32([4.0])))

    def interrupted() -> float:
        signal.raise_signal(signal.SIGINT)
        return float("inf")

    before = signal.signal(signal.SIGINT, handler)
    try:
        f = hologram.kernel(lambda x: hologram.minimum(x * hologram.sqrt(2.0), interrupted()))
        assert_same(f(x := np.float32([1, 3])), x * np.float32(2**0.5))
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen[0] == [2.0, 3, (3, 1), [0, 1, 2]]
    assert [type(value) for value in seen[0]] == [float, int, tuple, list]
    assert_same(seen[1], np.float32([2.0]))
    assert f.atlas.count("sqrt") == 0
