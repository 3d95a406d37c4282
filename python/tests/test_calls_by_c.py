"""Short calls that were made before are made in C, by the machine code alone: nobody is to see that but by the clock.

While a profile is taken all calls go to Go, which is what these are held against.
"""

from __future__ import annotations

import contextlib
import gc
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import by_threads
from test_two_ways import a_call, contents, outcome

import hologram as hg
from hologram import ops
from hologram._ffi import native

SPECIAL = [0.0, -0.0, 1.0, -1.5, 3e38, 1e-40, float("inf"), float("-inf"), float("nan"), 0.3]
COUNT = hg.Program("""
program count
slot c u32
param k u32
ldp.u32 n, k
mov.u32 s, 0
loop n, end
add.u32 s, s, 1
xor.u32 s, s, 5
end:
stg.u32 s, c[index]
exit
""")
TIMES = 4  # the first is prepared, the second published


@pytest.fixture
def cpu() -> Iterator[hg.Executor]:
    with hg.Executor("cpu") as ex:
        yield ex


def machine_code(ex: hg.Executor) -> bool:
    return "machine code" in ex.device


def direct(ex: hg.Executor) -> int:
    return int(native.direct(ex))


@contextlib.contextmanager
def by_go() -> Iterator[None]:
    profile = native.profile_start(1)
    yield
    del profile


def other_values(given: dict[str, Any], rng: random.Random) -> None:
    """Puts other numbers where floats are."""
    for value in given.values():
        if isinstance(value, hg.Buffer) and not native.gone(value):
            value = np.asarray(value)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.flags.writeable:
            for at in np.ndindex(value.shape):
                value[at] = rng.choice(SPECIAL) if rng.random() < 0.3 else rng.uniform(-3, 3)


@pytest.mark.parametrize("name", sorted(ops._by_name))
def test_operations(cpu: hg.Executor, name: str) -> None:
    f = ops._by_name[name]
    done = 0

    def call(seed: int, values: int) -> Any:
        given, _ = a_call(f, random.Random(seed), cpu)
        if values:
            with np.errstate(all="ignore"):
                other_values(given, random.Random(values))
        return outcome(lambda: getattr(ops, f.name)(**given), given)

    for seed in range(40):
        with by_go():
            expected = call(seed, seed + 1)
        for i in range(TIMES):
            before = direct(cpu)
            found = call(seed, i if i < TIMES - 1 else seed + 1)
        done += direct(cpu) > before
        assert found == expected, (name, seed)
    if machine_code(cpu) and (f.elementwise or f.reduces):
        assert done > 0


def add(cpu: hg.Executor, n: int = 8, times: int = TIMES) -> tuple[Any, ...]:
    """A call that C makes by now."""
    x, y, out = (np.arange(n, dtype=np.float32) for _ in range(3))
    for _ in range(times):
        ops.vector_add(cpu, x, y, out)
    if machine_code(cpu):
        before = direct(cpu)
        ops.vector_add(cpu, x, y, out)
        assert direct(cpu) == before + 1
    return x, y, out


def test_calls_that_come_by_turns(cpu: hg.Executor) -> None:
    """Of as many as are remembered nearly all are C's soon, however they meet in a table."""
    sizes = range(3, 63)
    given = [tuple(np.ones(n, np.float32) for _ in range(3)) for n in sizes]
    for _ in range(TIMES):
        before = direct(cpu)
        for x, y, out in given:
            ops.vector_add(cpu, x, y, out)
    if machine_code(cpu):
        assert direct(cpu) - before > 0.9 * len(sizes)


def test_long_calls_beside_short_ones(cpu: hg.Executor) -> None:
    """C asks once whether it may make a long call, and so has the means to ask of others."""
    large, to = np.ones((2, 1 << 20), np.float32)
    for _ in range(300):  # more than C asks of others
        ops.vector_add(cpu, large, large, to)
    assert (to == 2).all()
    for n in range(3, 13):
        add(cpu, n)


LONG = """
import sys, threading, time
import numpy as np
import hologram as hg
from hologram._ffi import native

ops, n = hg.ops, 1 << 20
with hg.Executor("cpu") as ex:
    x, out = np.ones(n, np.float32), np.empty(n, np.float32)
    b, to = ex.wrap(x), ex.wrap(out)

    def made(x=x, to=out, times=20):  # how many of so many calls C makes
        before = native.direct(ex)
        for k in range(times):
            ops.vector_add(ex, x, x, to)
        return native.direct(ex) - before

    made(), made(b, to)
    print("machine code" in ex.device, made(), made(b, to))
    sys.setswitchinterval(100)  # the GIL goes only to who is let have it
    ended, others = threading.Event(), 0
    def count():
        global others
        while not ended.is_set():
            others += 1
            time.sleep(0)
    other = threading.Thread(target=count)
    other.start()
    while not others:
        time.sleep(0.001)
    before = others
    print(made(times=200), others > before, made(b, to))
    x[:] = 2
    made(times=1)
    assert (out == 4).all()
    small = np.ones(64, np.float32)
    made(small, small, 4)
    print(made(small, small, 1))
    ended.set()
    other.join()
    print(made(), made(b, to))
"""


def test_long_calls_and_other_threads() -> None:
    """C makes what takes up to 50 ms on one thread. Other threads of Python have the GIL meanwhile.

    They might free its Buffers: a call that has some is Go's while there are such threads.
    """
    env = {**os.environ, "HOLOGRAM_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", LONG], env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stderr
    compiled, *told = run.stdout.split()
    assert told == ("20 20 200 True 0 1 20 20" if compiled == "True" else "0 0 0 True 0 0 0 0").split()


def test_addresses_are_looked_at_each_time(cpu: hg.Executor) -> None:
    add(cpu)
    memory = np.zeros(64, np.float32)
    x, y, out = memory[:8], memory[8:16], memory[4:12]
    with pytest.raises(ValueError, match="overlaps"):
        ops.vector_add(cpu, x, y, out)
    ops.vector_add(cpu, x, y, x)  # in place
    ops.vector_add(cpu, x, y, memory[16:24])
    odd = memory.view(np.uint8)[1:33].view(np.float32)
    with pytest.raises(ValueError, match="aligned"):
        ops.vector_add(cpu, odd, y, memory[16:24])
    fixed = np.zeros(8, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        ops.vector_add(cpu, x, y, fixed)
    u, v = cpu.allocate(8), cpu.allocate(8)
    for _ in range(TIMES):
        ops.vector_add(cpu, u, u, v)
    with pytest.raises(ValueError, match="read-only"):
        ops.vector_add(cpu, u, u, cpu.wrap(fixed))
    assert (fixed == 0).all()


def test_what_was_made_for_a_number_of_threads(cpu: hg.Executor) -> None:
    """How long a call may be that C makes depends on it."""
    x, y, out = add(cpu)
    before = direct(cpu)
    hg.set_num_threads(hg.num_threads())
    ops.vector_add(cpu, x, y, out)
    assert direct(cpu) == before
    add(cpu)


@pytest.mark.parametrize("rows", [2, 7, 64, 65])
def test_rows(cpu: hg.Executor, rows: int) -> None:
    """What broadcasts or lies apart by rows is a call for each row, of which there may be 64."""
    wide = np.arange(rows * 40, dtype=np.float32).reshape(rows, 40)
    row, column = np.linspace(-1, 1, 33, dtype=np.float32), np.linspace(5, 7, rows, dtype=np.float32)[:, None]
    pairs = [
        (wide[:, :33], row),
        (wide[:, 3:36], column),
        (row, wide[:, :33]),
        (column, row),
        (wide[::-1, :33], row[::-1].copy()),
    ]
    for x, y in pairs:
        for _ in range(TIMES):
            out = np.zeros((rows, 34), np.float32)
            before = direct(cpu)
            ops.vector_sub(cpu, x, y, out[:, :33])
            assert (out[:, :33] == x - y).all() and not out[:, 33:].any()
        if machine_code(cpu):
            assert direct(cpu) == before + (rows <= 64)
        x = x + 1  # elsewhere
        assert (ops.vector_sub(cpu, x, y) == x - y).all()
    whole, divisors = wide[:, :33].astype(np.int32), np.ones((rows, 40), np.int32)[:, :33]
    for i in range(TIMES + 1):
        divisors[1, 5] = i < TIMES
        found, expected = np.zeros((2, rows, 33), np.int32)
        if divisors.all():
            ops.vector_div(cpu, whole, divisors, found)
            assert (found == whole).all()
            continue
        for out, way in (found, contextlib.nullcontext()), (expected, by_go()):
            with way, pytest.raises(hg.ProgramFault, match=r"b is 0 at element \[1, 5\]"):
                ops.vector_div(cpu, whole, divisors, out)
        assert (found == expected).all() and found[1, 5] == 0 and found[rows - 1, 32]


def test_fuel_is_heeded(cpu: hg.Executor) -> None:
    """Also by a launch like one that C makes without."""
    loop = "mov.u32 k, 100\nmov.u32 x, 0\nloop k, end\nadd.u32 x, x, 1\nend:\n"
    program, c = hg.Program(f"program p\nslot c u32\n{loop}stg.u32 x, c[index]\nexit"), np.zeros(4, np.uint32)
    before = direct(cpu)
    for _ in range(TIMES):
        cpu.launch(program, c=c)
    assert direct(cpu) > before or not machine_code(cpu)
    with pytest.raises(hg.ProgramFault, match="fuel"):
        cpu.launch(program, c=c, fuel=10)
    cpu.launch(program, c=c, fuel=1000)


def test_the_phase_goes_on(cpu: hg.Executor) -> None:
    program, c = hg.Program("program p\nslot c u32\nphase_adv 5\nstg.u32 1, c[index]\nexit"), np.zeros(4, np.uint32)
    for i in range(2 * TIMES):
        cpu.launch(program, c=c)
        assert cpu.phase == 5 * (i + 1)


@pytest.mark.parametrize("of", ["x", "y"])
def test_outputs_at_all_distances(cpu: hg.Executor, of: str) -> None:
    """What shares an element with an input is refused, what lies beside it, or on it, is made by C."""
    add(cpu)
    memory, far = np.zeros(64, np.float32), np.ones(8, np.float32)
    for shift in range(-10, 11):
        memory[:] = range(64)
        near, out = memory[24:32], memory[24 + shift : 32 + shift]
        given, expected = (near, far) if of == "x" else (far, near), near + far
        before = direct(cpu)
        if shift and abs(shift) < 8:
            with pytest.raises(ValueError, match="overlaps"):
                ops.vector_add(cpu, *given, out)
            assert (memory == np.arange(64)).all()
            continue
        ops.vector_add(cpu, *given, out)
        assert (out == expected).all()
        if machine_code(cpu):
            assert direct(cpu) == before + 1, shift


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_element_0_beside_the_output(cpu: hg.Executor, dtype: str) -> None:
    y, out = np.zeros(9, dtype), np.zeros(3, dtype)
    for i in range(2 * TIMES):
        x = np.full(9, 0.1 + i, dtype)
        found = ops.mse_loss(cpu, x, y, out)
        assert np.array(found, dtype).tobytes() == out[0].tobytes() and abs(found - (0.1 + i) ** 2) < 0.1


def test_faults_are_told(cpu: hg.Executor) -> None:
    table, out = np.arange(24, dtype=np.float32).reshape(8, 3), np.empty((4, 3), np.float32)
    for i in range(TIMES):
        ops.embedding(cpu, table, np.array([0, 7, i, 2]), output=out)
    for index in ([0, 8, 1, 2], [0, -1, 1, 2]):
        with pytest.raises(hg.ProgramFault):
            ops.embedding(cpu, table, np.array(index), output=out)
    ops.embedding(cpu, table, np.array([3, 2, 1, 0]), output=out)
    np.testing.assert_array_equal(out, table[[3, 2, 1, 0]])
    x, y, to = np.arange(80, 88), np.full(8, 2), np.empty(8, np.int64)
    for _ in range(TIMES):
        ops.vector_div(cpu, x, y, to)
    expected = x.copy()
    y[5] = 0
    told = []
    for _ in range(2):
        with pytest.raises(hg.ProgramFault) as error:
            ops.vector_div(cpu, x, y, x)  # once, whoever makes it
        told.append(str(error.value))
        expected //= 2
        expected[5] = 0
        assert (x == expected).all()
    assert told[0] == told[1]
    loads, stores = (
        "ldg.i64 v, a[index]\nldg.i64 d, b[index]\ndiv.i64 v, v, d\n",
        "add.i64 v, v, 1\nstg.i64 v, a[index]\n",
    )
    program = hg.Program(f"program p\nslot a i64\nslot b i64\n{loads}{stores}exit")
    a, b = np.full(8, 100), np.ones(8, np.int64)
    for i in range(TIMES):
        cpu.launch(program, a=a, b=b)
        assert (a == 101 + i).all()
    b[3] = 0
    with pytest.raises(hg.ProgramFault):
        cpu.launch(program, a=a, b=b)
    assert (np.delete(a, 3) == 101 + TIMES).all() and a[3] == 1


def test_programs(cpu: hg.Executor) -> None:
    text = """
program scaled
slot x f32
slot out f32
param a f32
  ldp.f32 k, a
  ldg.f32 v, x[index]
  mul.f32 v, v, k
  stg.f32 v, out[index]
  exit
"""
    x, out = np.arange(8, dtype=np.float32), np.empty(8, np.float32)
    for by in (2.0, 3.0):
        program = hg.Program(text.replace("mul", "add" if by == 3 else "mul"))
        before = direct(cpu)
        for i in range(TIMES):
            cpu.launch(program, x=x, out=out, a=by + i)
            np.testing.assert_array_equal(out, x + by + i if by == 3 else x * (by + i))
        assert direct(cpu) > before or not machine_code(cpu)
        del program  # the next may be where it was


def test_loops_whose_length_is_given(cpu: hg.Executor) -> None:
    """They may take long, and somebody may want to stop them."""
    count = np.zeros(8, np.uint32)
    before = direct(cpu)
    for _ in range(2 * TIMES):
        cpu.launch(COUNT, c=count, k=3)
    assert direct(cpu) == before


def test_where_a_launch_stands(cpu: hg.Executor) -> None:
    """Launches of one program that differ in block, grid, n or shape alone, by turns: all special values are theirs."""
    names = [f"{what}.{axis}" for what in ("lane", "block", "block_dim", "grid_dim") for axis in "xyz"]
    long = ["row", "column", "rows", "columns", "size.0", "size.1", "index.0", "index.1", "global_lane", "n"]
    programs = []
    names += long
    for name in names:
        wide = name in long
        text = f"program place\nslot x u64\nslot out u64\n  ldg.u64 u, x[index]\n  sreg v, {name}\n"
        text += "" if wide else "  cvt.u64.u32 v, v\n"
        programs.append(hg.Program(text + "  add.u64 u, u, v\n  stg.u64 u, out[index]\n  exit\n"))
    x = np.arange(48, dtype=np.uint64)
    launches: list[dict[str, Any]] = [
        {"block": 16}, {"block": 24}, {"block": (4, 2, 2)}, {"block": (4, 4)}, {"block": (4, 1, 4)},
        {"block": 16, "grid": (1, 3)},
        {"block": 16, "grid": (1, 1, 3)}, {"block": 16, "grid": (1, 4)}, {"n": 40}, {"n": 41}, {"n": 40, "block": 8},
        *({"block": 4, "grid": grid} for grid in [(1, 2, 2), (1, 2, 3), (1, 3, 2), (2, 2, 2)]),
        *({"block": block} for block in [(2, 2, 3), (2, 2, 4), (2, 4, 3), (4, 2, 3)]),
        {"shape": (6, 8)}, {"shape": (8, 6)}, {"shape": (2, 3, 8)}, {},
    ]  # fmt: skip

    def launched(program: hg.Program, how: dict[str, Any]) -> tuple[np.ndarray[Any, Any], ...]:
        given, out = x.reshape(how.get("shape", (48,))), np.zeros(48, np.uint64)
        cpu.launch(program, x=given, out=out.reshape(given.shape), **{k: v for k, v in how.items() if k != "shape"})
        return (out,)

    before = direct(cpu)
    for name, program in zip(names, programs):
        with by_go():
            expected = [outcome(lambda p=program, how=how: launched(p, how), {}) for how in launches]
        for _ in range(TIMES):
            for how, wanted in zip(launches, expected):
                assert outcome(lambda p=program, how=how: launched(p, how), {}) == wanted, (name, how)
    assert direct(cpu) > before or not machine_code(cpu)


def test_profiles_see_all_calls(cpu: hg.Executor) -> None:
    x, y, out = add(cpu)
    with hg.profile() as profile:
        for _ in range(3):
            ops.vector_add(cpu, x, y, out)
    assert sum(e.get("cat") == "call" for e in profile.events) == 3
    before = direct(cpu)
    ops.vector_add(cpu, x, y, out)
    assert direct(cpu) == before + machine_code(cpu)


def test_a_closed_executor_makes_none(cpu: hg.Executor) -> None:
    with hg.Executor("cpu") as other:
        x, y, out = add(other)
        held = other.wrap(x)
    with pytest.raises(RuntimeError, match="freed"):
        ops.vector_add(other, x, y, out)
    with pytest.raises(RuntimeError):
        ops.vector_add(cpu, held, y, out)
    with hg.Executor("cpu") as another:  # where the other was
        assert direct(another) == 0
        add(another)


def test_handles_that_are_gone() -> None:
    """Executors that Python knows nothing of the end of, and others where they were."""
    code = """
import numpy as np, hologram as hg
from hologram._ffi import native
x = np.ones(8, np.float32)
old = hg.Executor("cpu")
for _ in range(4): hg.ops.vector_add(old, x, x, np.empty_like(x))
buffer = old.wrap(x)
for _ in range(4): hg.ops.vector_add(old, buffer, buffer, np.empty_like(x))
native.clear_all()
new = hg.Executor("cpu")
for given in (x, buffer):
    for ex in (old, new):
        for _ in range(4):
            out = np.zeros_like(x)
            try:
                hg.ops.vector_add(ex, given, given, out)
                assert ex is new and given is x and (out == 2).all()
            except RuntimeError:
                assert (ex is old or given is buffer) and (out == 0).all()
print("done")
""".replace("(ex, given) == (new, x)", "ex is new and given is x")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.stdout == "done\n", ran.stderr


def test_more_dimensions_than_c_compares(cpu: hg.Executor) -> None:
    slots = "".join(f"slot s{i} f32\n" for i in range(9))
    adds = "".join(f"ldg.f32 x, s{i}[index]\nadd.f32 v, v, x\n" for i in range(1, 8))
    program = hg.Program(f"program sum\n{slots}ldg.f32 v, s0[index]\n{adds}stg.f32 v, s8[index]\nexit")
    given = {f"s{i}": np.full((1, 2, 1, 1, 3, 1, 1, 2), i, np.float32) for i in range(9)}
    for _ in range(TIMES):
        given["s8"][:] = 0
        cpu.launch(program, given)
        assert (given["s8"] == sum(range(8))).all()


def test_buffers_that_go_meanwhile(cpu: hg.Executor) -> None:
    """Making the result may run Python, which may free an operand; and who has a handle alone may free that."""
    x, y = (cpu.from_numpy(np.ones(256, np.float32)) for _ in range(2))
    for _ in range(TIMES):
        ops.vector_add(cpu, x, y)

    made = []

    class Frees:
        me: Any

        def __del__(self) -> None:
            made.append(direct(cpu))
            x.free()

    gc.collect()
    before = gc.get_threshold()
    gc.disable()
    try:
        cycle = Frees()
        cycle.me = cycle
        del cycle
        gc.set_threshold(1, 1, 1)
        call = ops.vector_add
        gc.enable()
        call(cpu, x, y)  # whose result is the first object that is made
    except RuntimeError:
        pass
    finally:
        gc.set_threshold(*before)
        gc.enable()
    gc.collect()
    assert made == [direct(cpu)], "none is made with what was freed"
    with pytest.raises(RuntimeError, match="freed"):
        ops.vector_add(cpu, x, y)

    out = cpu.from_numpy(np.ones(256, np.float32))
    for _ in range(TIMES):
        ops.vector_add(cpu, y, y, out)
    native.buffer_free(out.handle)
    there = cpu.allocate(256, zero=True)
    with pytest.raises(RuntimeError, match="freed"):
        ops.vector_add(cpu, y, y, out)
    assert (there.to_numpy() == 0).all()

    former, out = cpu.allocate(1), cpu.from_numpy(np.ones(256, np.float32))
    native.buffer_free(former.handle)
    for _ in range(TIMES):
        ops.vector_add(cpu, y, y, out)
    native.buffer_free(out.handle)
    former.free()  # which frees nothing, and does not hide that something was freed
    with pytest.raises(RuntimeError, match="freed"):
        ops.vector_add(cpu, y, y, out)


def test_calls_take_their_turn(cpu: hg.Executor) -> None:
    """A call waits for long work of another thread's on the executor."""
    ones, out = np.ones(8, np.uint32), np.zeros(8, np.uint32)
    count = np.zeros(8, np.uint32)
    for _ in range(TIMES):
        ops.vector_add(cpu, count, ones, out)
    cpu.launch(COUNT, c=count, k=(1 << 26) + 1)
    counted = count.copy()
    count[:] = 0
    thread = threading.Thread(target=lambda: cpu.launch(COUNT, c=count, k=(1 << 26) + 1))
    thread.start()
    while native.waiting() == 0 and thread.is_alive():
        pass
    ops.vector_add(cpu, count, ones, out)
    thread.join()
    assert counted[0] and (out == counted + 1).all()


def test_many_layouts_take_each_other_s_places(cpu: hg.Executor) -> None:
    for _ in range(3):
        for n in range(1, 700):
            x = np.full(n, n, np.float32)
            out = np.empty(n, np.float32)
            for _ in range(2):
                ops.vector_add(cpu, x, x, out)
            assert (out == 2 * n).all()


def test_threads(cpu: hg.Executor) -> None:
    """Calls of many threads, while executors come and go, and layouts take each other's places."""
    x = np.ones(5, np.float32)

    def calls(rng: random.Random) -> None:
        value = rng.randrange(1, 4)
        x = np.full(rng.randrange(1, 300), value, np.float32)
        out = np.zeros_like(x)
        for _ in range(5):
            ops.vector_add(cpu, x, x, out)
        assert (out == 2 * value).all(), (value, out)

    def executors(rng: random.Random) -> None:
        with hg.Executor("cpu") as other:
            for _ in range(TIMES):
                ops.vector_add(other, x, x, np.empty_like(x))
        hg.set_num_threads(hg.num_threads())  # which ends what is published

    by_threads([calls, calls, calls, executors], 0.7)


def test_nothing_is_left(cpu: hg.Executor) -> None:
    gc.collect()
    before = native.object_count()
    for i in range(50):
        with hg.Executor("cpu") as other:
            x, _, out = add(other, n=i + 1)
            b = other.wrap(x)
            for _ in range(TIMES):
                ops.vector_add(other, b, b, out)
    del b
    gc.collect()
    assert native.object_count() == before and contents(out)[0] == (50,)
