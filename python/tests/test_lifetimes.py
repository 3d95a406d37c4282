"""Executors, buffers, views, exports and programs in orders of chance, beside a model of bytes and counts.

The model says of each call what it does or which error it raises. What is read is to be what the model holds; memory is
in use, and objects of others are kept, as long as somebody uses them and no longer; and no handle is left over.

A failure tells its seed, and the fewest steps that still fail. HOLOGRAM_STRESS is how many times as many
seeds there are.
"""

from __future__ import annotations

import gc
import os
import random
import time
import weakref
from typing import Any, Callable, Optional

import numpy as np
import pytest
from places import Foreign, elements, overlaps, same_place
from support import DEVICE, from_dlpack

import hologram as hg
from hologram import ops
from hologram._ffi import native

Array = np.ndarray[Any, Any]

STEPS = 120
DTYPES = [np.dtype(name) for name in ("int32", "int32", "float32", "uint8", "int64")]
SHAPES: list[tuple[int, ...]] = [(6,), (6,), (2, 3), (1,), (4,), (2, 2), ()]

TRIPLE = """
program triple
slot x i32
slot out i32
param k i32
  ldg.i32 v, x[index]
  ldp.i32 m, k
  mul.i32 v, v, 3
  add.i32 v, v, m
  stg.i32 v, out[index]
  exit
"""
STRAY = """
program stray
slot out i32
  mov.u64 far, 1073741824
  stg.i32 1, out[far]
  exit
"""


class Memory:
    """A stretch of memory: what is in it, and how many use it."""

    def __init__(self, data: Array, owner: Optional[World.Executor] = None, size: int = 0) -> None:
        self.data, self.owner, self.size = data, owner, size
        self.users = 0
        self.reach = range(data.size)
        self.array: Any = None  # of others, while we hold it
        self.seen: Any = None  # a weak reference to it


class World:
    """What there is, and the model of it."""

    class Executor:
        def __init__(self, ex: hg.Executor) -> None:
            self.ex, self.closed, self.fault = ex, False, False

    class Buffer:
        """A buffer, and the elements that it sees: an array on the model's memory."""

        def __init__(self, b: hg.Buffer, ex: World.Executor, memory: Memory, model: Array, first: int) -> None:
            self.b, self.ex, self.memory, self.model, self.first = b, ex, memory, model, first
            self.freed = self.read_only = False
            self.within: Optional[list[int]] = None  # what its views keep to; None: all the memory
            memory.users += 1

    class Export:
        """What somebody has of a buffer's memory: an array, a memoryview, or a capsule that nobody has taken."""

        def __init__(self, value: Any, of: World.Buffer) -> None:
            self.value, self.memory, self.model = value, of.memory, of.model
            self.handles = 1

    def __init__(self) -> None:
        gc.collect()
        self.trace: list[str] = []
        self.executors: list[World.Executor] = []
        self.buffers: list[World.Buffer] = []
        self.exports: list[World.Export] = []
        self.memory: list[Memory] = []
        self.programs: list[Optional[hg.Program]] = []
        self.profiles: list[hg.Profile] = []
        self.stale: list[int] = []
        self.keeper = hg.Executor(DEVICE)
        self.kept = native.kept()
        self.in_use = self.keeper.memory_stats()["in_use"]
        self.objects = native.object_count()
        self.asynchronous, self.visible = self.keeper.asynchronous, self.keeper.host_visible

    # ---- what is checked

    def calls(self, what: str, call: Callable[[], Any], *wrong: type[BaseException], perhaps: Any = ()) -> Any:
        """Call; it must raise one of the errors, if there are any, or may raise those that are perhaps raised."""
        try:
            result = call()
        except (Exception, KeyboardInterrupt) as error:
            self.trace.append(f"{what}: {type(error).__name__}: {error}")
            assert isinstance(error, (*wrong, *perhaps)), f"{what} raised {error!r}; expected {wrong}"
            error.__traceback__ = None
            return error
        self.trace.append(what)
        assert not wrong, f"{what} was made; expected {wrong}"
        return result

    def same(self, b: World.Buffer) -> None:
        if b.freed or b.ex.fault:
            return
        found = b.b.to_numpy()
        assert found.dtype == b.model.dtype and found.shape == b.model.shape
        assert found.tobytes() == b.model.tobytes(), f"b{self.buffers.index(b)} holds {found}; expected {b.model}"

    def check(self) -> None:
        """Count what there is."""
        for e in self.executors:
            if not e.closed:
                self.synchronize(e)
        for x in self.exports:
            if isinstance(x.value, (np.ndarray, memoryview)):
                assert np.asarray(x.value).tobytes() == x.model.tobytes(), "an export sees other elements"
        for e in self.executors:
            expected = sum(m.size for m in self.memory if m.owner is e and m.users)
            if not e.closed:
                assert e.ex.memory_stats()["executor"] == expected, "of an executor's memory"
        in_use = self.keeper.memory_stats()["in_use"] - self.in_use
        assert in_use == sum(m.size for m in self.memory if m.users), "of the device's memory"
        others = [m for m in self.memory if m.seen is not None]
        assert native.kept() - self.kept == sum(m.users > 0 for m in others), "objects are kept"
        for m in others:
            alive = m.users > 0 or m.array is not None
            assert (m.seen() is not None) == alive, "an array that was wrapped is " + ("gone" if alive else "kept")
        count = sum(not e.closed for e in self.executors) + sum(not b.freed or b.ex.closed for b in self.buffers)
        count -= sum(b.freed and b.ex.closed and b.b.handle in self.stale for b in self.buffers)
        count += sum(x.handles for x in self.exports) + sum(p is not None for p in self.programs) + len(self.profiles)
        assert native.object_count() - self.objects == count, "handles"

    # ---- steps

    def step(self, r: random.Random) -> None:
        self.r = r
        if len(self.executors) < 2:
            self.new_executor()
        kinds: list[tuple[int, Callable[[], None]]] = [
            (3, self.new_executor),
            (2, self.close_executor),
            (14, self.allocate),
            (8, self.wrap),
            (12, self.view),
            (12, self.free),
            (10, self.export),
            (8, self.end_export),
            (4, self.write_export),
            (10, self.copies),
            (18, self.operation),
            (8, self.launch),
            (4, self.program),
            (2, self.stray),
            (4, self.interrupted),
            (4, self.stale_handles),
            (3, self.profile),
        ]
        r.choices([f for _, f in kinds], [n for n, _ in kinds])[0]()
        if self.buffers and r.random() < 0.3:
            self.same(r.choice(self.buffers))
        if r.random() < 0.1:
            self.check()

    def executor(self) -> World.Executor:
        live = [e for e in self.executors if not e.closed]
        return self.r.choice(live if live and self.r.random() < 0.95 else self.executors)

    def buffer(self, fits: Callable[[World.Buffer], bool] = lambda b: True) -> Optional[World.Buffer]:
        """One that fits, and is seldom freed."""
        fit = [b for b in self.buffers if fits(b)]
        some = [b for b in fit if not b.freed or self.r.random() < 0.05] or fit
        return self.r.choice(some[-8:] if self.r.random() < 0.6 else some) if some else None

    def name(self, b: Any) -> str:
        return f"b{self.buffers.index(b)}" if b in self.buffers else f"ex{self.executors.index(b)}"

    def new_executor(self) -> None:
        self.trace.append(f"ex{len(self.executors)}")
        self.executors.append(World.Executor(hg.Executor(DEVICE)))

    def close_executor(self) -> None:
        e = self.executor()
        wrong = (hg.ProgramFault,) if e.fault and not e.closed else ()
        self.calls(f"close {self.name(e)}", e.ex.cleanup, *wrong)
        if not e.closed:
            e.closed, e.fault = True, False
            for b in self.buffers:
                if b.ex is e and not b.freed:
                    b.freed = True
                    b.memory.users -= 1

    def synchronize(self, e: World.Executor) -> None:
        wrong = (hg.ProgramFault,) if e.fault else ()
        self.calls(f"synchronize {self.name(e)}", e.ex.synchronize, *wrong)
        e.fault = False

    def made(self, b: Any, e: World.Executor, memory: Memory, model: Array, first: int) -> World.Buffer:
        made = World.Buffer(b, e, memory, model, first)
        self.buffers.append(made)
        assert b.shape == model.shape and b.dtype == model.dtype
        return made

    def allocate(self) -> None:
        e, shape, dtype = self.executor(), self.r.choice(SHAPES[:-1]), self.r.choice(DTYPES)
        wrong = (hg.errors.ExecutorFreedError,) if e.closed else ()
        before = 0 if e.closed else e.ex.memory_stats()["executor"]
        what = f"b{len(self.buffers)} = {self.name(e)}.allocate({shape}, {dtype})"
        data = np.zeros(shape, dtype)
        if self.r.random() < 0.5:
            data += np.arange(data.size, dtype=dtype).reshape(shape)
            b = self.calls(what + ", of an array", lambda: e.ex.from_numpy(data), *wrong)
        else:
            b = self.calls(what, lambda: e.ex.allocate(shape, dtype), *wrong)
        if isinstance(b, hg.Buffer):
            flat = data.copy().ravel()
            memory = Memory(flat, e, e.ex.memory_stats()["executor"] - before)
            self.memory.append(memory)
            self.made(b, e, memory, flat.reshape(shape), 0)

    def wrap(self) -> None:
        e, shape, dtype = self.executor(), self.r.choice(SHAPES), self.r.choice(DTYPES)
        n = int(np.prod(shape))
        whole = np.arange(3 * n, dtype=dtype)
        mirror = whole.copy()
        first, step = self.r.choice([(0, 1), (n, 1), (0, 2), (n - 1, -1), (0, 3)])
        last = first + step * n
        place = slice(first, last if last >= 0 else None, step)
        array, model = whole[place].reshape(shape), mirror[place].reshape(shape)
        if not np.shares_memory(array, whole):
            return  # a copy was made
        read_only = self.r.random() < 0.2
        if read_only:
            array.flags.writeable = False
        wrong: list[Any] = [hg.errors.ExecutorFreedError] if e.closed else []
        wrong += [] if self.visible else [hg.errors.BackendError]
        how = self.r.choice(["", "", "memoryview", "dlpack"])
        if how == "dlpack" and (read_only or first == n):  # numpy before 2.1 shares no read-only memory
            how = ""
        given = {"": lambda: array, "memoryview": lambda: memoryview(array), "dlpack": lambda: Foreign(array)}[how]()
        what = f"b{len(self.buffers)} = {self.name(e)}.wrap({shape}, {dtype}, from {first} step {step}, {how})"
        b = self.calls(what, lambda: e.ex.wrap(given), *wrong)
        if not isinstance(b, hg.Buffer):
            return
        memory = Memory(mirror)
        memory.seen = weakref.ref(whole)
        at = elements(mirror, model)
        memory.reach = range(min(at), max(at) + 1)
        if self.r.random() < 0.4:
            memory.array = whole
        self.memory.append(memory)
        self.made(b, e, memory, model, first).read_only = read_only or not array.flags.writeable

    def view(self) -> None:
        b = self.buffer()
        if b is None:
            return
        shape = tuple(self.r.choice([1, 2, 2, 3, 6, 0]) for _ in range(self.r.randrange(3)))
        steps = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
        strides = None
        if self.r.random() < 0.6:
            strides = steps = [s * self.r.choice([1, 1, 2, -1, 0]) for s in steps]
        offset = self.r.choice([0, 0, 0, 1, 2, 3, 5, -1, 7])
        at = [b.first + offset]
        for n, s in zip(shape, steps):
            at = [a + i * s for a in at for i in range(n)]
        mine = elements(b.memory.data, b.model)
        wrong: list[Any] = [hg.errors.BufferFreedError] if b.freed else []
        within = mine if not b.freed and not b.b.contiguous else b.within
        if any(a not in b.memory.reach for a in at) or (within is not None and any(a not in within for a in at)):
            wrong.append(ValueError)
        what = f"b{len(self.buffers)} = {self.name(b)}.view({shape}, offset={offset}, strides={strides})"
        made = self.calls(
            what,
            lambda: b.b.view(shape, offset=offset, strides=strides),
            *wrong,
            perhaps=(ValueError,) * (within is not None),
        )
        if isinstance(made, hg.Buffer):
            data = b.memory.data
            base = data[at[0] :] if at else data[:0]
            sized = [s * data.itemsize for s in steps]
            model = np.lib.stride_tricks.as_strided(base, shape, sized)
            self.made(made, b.ex, b.memory, model, b.first + offset)
            self.buffers[-1].read_only, self.buffers[-1].within = b.read_only, within

    def free(self) -> None:
        b = self.buffer()
        if b is not None:
            handle = b.b.handle
            self.calls(f"free {self.name(b)}", b.b.free)
            self.stale.append(handle)
            if not b.freed:
                b.freed = True
                b.memory.users -= 1

    def export(self) -> None:
        b = self.buffer()
        if b is None:
            return
        how = self.r.choice(["asarray", "memoryview", "dlpack", "capsule"])
        wrong: list[Any] = [hg.HologramError, TypeError, BufferError] if b.freed or not self.visible else []
        if b.read_only and how == "capsule":
            wrong = [BufferError, hg.HologramError]
        if b.ex.fault:
            return
        perhaps = (BufferError, ValueError, TypeError) if b.read_only or not b.model.size else ()
        value = self.calls(
            f"{how} of {self.name(b)}",
            {
                "asarray": lambda: np.asarray(b.b),
                "memoryview": lambda: memoryview(b.b),
                "dlpack": lambda: from_dlpack(b.b),
                "capsule": b.b.__dlpack__,
            }[how],
            *wrong,
            perhaps=perhaps,
        )
        if not isinstance(value, BaseException):
            export = World.Export(value, b)
            if how in ("asarray", "memoryview") and not b.model.size:
                export.handles = 0
            self.exports.append(export)
            b.memory.users += export.handles

    def end_export(self) -> None:
        if self.exports:
            self.trace.append("an export goes")
            x = self.exports.pop(self.r.randrange(len(self.exports)))
            x.memory.users -= x.handles

    def write_export(self) -> None:
        arrays = [
            x for x in self.exports if isinstance(x.value, np.ndarray) and x.value.flags.writeable and x.value.size
        ]
        if arrays:
            for e in self.executors:  # what works on the memory
                if not e.closed:
                    self.synchronize(e)
            x = self.r.choice(arrays)
            self.trace.append("write to an export")
            x.value[...] = 5
            x.model[...] = 5

    def copies(self) -> None:
        """Calls of a buffer itself."""
        b = self.buffer()
        if b is None or b.ex.fault:
            return
        wrong: list[Any] = [hg.errors.BufferFreedError] if b.freed else []
        value: Any = self.r.randrange(1, 90)
        how = self.r.choice(["fill", "from_numpy", "from_bytes", "copy_from", "item"])
        if how == "item":
            wrong += [TypeError] if b.model.size != 1 else []
            found = self.calls(f"{self.name(b)}.item()", b.b.item, *wrong)
            assert wrong or found == b.model.ravel()[0]
            return
        wrong += [ValueError] if b.read_only else []
        perhaps = (ValueError,) * (overlaps(b.model) or not b.model.size)
        model: Any = np.full(b.model.shape, value, b.model.dtype)
        if how == "fill":
            call = lambda: b.b.fill(value)  # noqa: E731
        elif how == "copy_from":
            dtype, size = b.model.dtype, b.model.size
            other = self.buffer(lambda o: o.model.dtype == dtype and o.model.size == size) or b
            if other.ex.fault:
                return
            wrong += [hg.errors.BufferFreedError] if other.freed else []
            model = other.model.reshape(b.model.shape).copy()
            if np.shares_memory(other.model, b.model):
                perhaps = (ValueError,)
            if wrong == [ValueError] and same_place(other.model, b.model):
                return
            call = lambda: b.b.copy_from(other.b)  # noqa: E731
        else:
            n = self.r.choice([0, 0, 0, 1])
            if n:
                model = np.zeros(b.model.size + 1, b.model.dtype)
                wrong.append(ValueError)
            given = model
            call = lambda: b.b.from_numpy(given) if how == "from_numpy" else b.b.from_bytes(given.tobytes())  # noqa: E731
        found = self.calls(f"{self.name(b)}.{how}", call, *wrong, perhaps=perhaps)
        if found is None:
            b.model[...] = model

    def operands(self, dtype: Any = None) -> tuple[Optional[World.Buffer], Optional[World.Buffer], list[Any], Any]:
        """An input and an output that mostly fit, and what is wrong with them."""
        out = self.buffer(lambda b: dtype is None or b.model.dtype == dtype)
        if out is None:
            return None, None, [], ()
        fits = lambda b: b.model.dtype == out.model.dtype and b.model.shape == out.model.shape  # noqa: E731
        x = self.buffer(fits) or out
        wrong: list[Any] = [hg.errors.BufferFreedError] if x.freed or out.freed else []
        wrong += [ValueError] if out.read_only or overlaps(out.model) else []
        perhaps = (ValueError,) * (out.model.ndim > 1 and not out.model.flags.c_contiguous)
        if np.shares_memory(x.model, out.model) and not same_place(x.model, out.model):
            wrong.append(ValueError)
        elif x.memory is out.memory:
            perhaps = (ValueError,)
        return x, out, wrong, perhaps

    def operation(self) -> None:
        x, out, wrong, perhaps = self.operands()
        if x is None or out is None:
            return
        e, s = self.executor(), self.r.randrange(5)
        if e.closed:
            wrong.append(hg.errors.ExecutorFreedError)
        how = self.r.choice(["copy", "scalar_add", "vector_add", "new", "total"])
        made = {
            "copy": (lambda: ops.copy(e.ex, x.b, out.b), lambda m: m),
            "scalar_add": (lambda: ops.scalar_add(e.ex, x.b, out.b, s), lambda m: m + m.dtype.type(s)),
            "vector_add": (lambda: ops.vector_add(e.ex, x.b, x.b, out.b), lambda m: m + m),
            "new": (lambda: ops.scalar_add(e.ex, x.b, None, s), lambda m: m + m.dtype.type(s)),
            "total": (lambda: ops.reduce_max(e.ex, x.b), lambda m: m.max() if m.size else 0),
        }[how]
        if how in ("new", "total"):
            if e.fault or x.ex.fault:
                return
            wrong = [hg.errors.FreedError] if x.freed or e.closed else []
            perhaps = (ValueError,) * (x.model.size == 0)
        found = self.calls(
            f"{how}({self.name(x)}, {self.name(out)}) by {self.name(e)}", made[0], *wrong, perhaps=perhaps
        )
        if isinstance(found, BaseException):
            return
        with np.errstate(all="ignore"):
            expected = made[1](x.model.copy())
        if how in ("new", "total"):
            found = found.to_numpy() if isinstance(found, hg.Buffer) else np.asarray(found)
            assert found.tolist() == expected.tolist(), (found, expected)
        else:
            out.model[...] = expected

    def launch(self) -> None:
        programs = [p for p in self.programs if p is not None and p.name == "triple"]
        x, out, wrong, perhaps = self.operands(np.dtype("i4"))
        if x is None or out is None or not programs or not out.model.ndim or not out.model.size:
            return
        e, k = self.executor(), self.r.randrange(9)
        if e.closed:
            wrong.append(hg.errors.ExecutorFreedError)
        program = self.r.choice(programs)
        call = lambda: e.ex.launch(program, x=x.b, out=out.b, k=k)  # noqa: E731
        found = self.calls(f"launch({self.name(x)}, {self.name(out)}) by {self.name(e)}", call, *wrong, perhaps=perhaps)
        if found is None:
            with np.errstate(all="ignore"):
                out.model[...] = x.model.copy() * np.int32(3) + np.int32(k)

    def program(self) -> None:
        if len(self.programs) > 3 or (self.programs and self.r.random() < 0.4):
            self.trace.append("a program goes")
            self.programs.pop(self.r.randrange(len(self.programs)))
        else:
            self.trace.append("a program")
            self.programs.append(hg.Program(TRIPLE))

    def stray(self) -> None:
        out = self.buffer(lambda b: b.model.dtype == np.dtype("i4") and b.model.size > 0)
        if out is None or out.freed or out.read_only or not out.b.contiguous or self.asynchronous:
            return
        program = hg.Program(STRAY)
        call = lambda: out.ex.ex.launch(program, out=out.b, n=1)  # noqa: E731
        self.calls(f"stray {self.name(out)}", call, hg.ProgramFault, ValueError)

    def interrupted(self) -> None:
        """A call one of whose operands frees another when it is looked at, or raises."""
        x, out, wrong, perhaps = self.operands()
        if x is None or out is None or not self.visible or out.ex.closed or x.memory is out.memory:
            return
        error = self.r.choice([KeyboardInterrupt, ValueError, None])
        which = self.r.choice([x, out])
        given = np.ones(x.model.shape, x.model.dtype)

        def meanwhile() -> None:
            if error is not None:
                raise error("stop")
            self.stale.append(which.b.handle)
            which.b.free()

        was_freed = which.freed
        call = lambda: ops.vector_add(out.ex.ex, x.b, Foreign(given, meanwhile), out.b)  # noqa: E731
        wrong = [*wrong, error] if error is not None else wrong
        found = self.calls(
            f"vector_add({self.name(x)}, …, {self.name(out)}), which meets {error or 'free ' + self.name(which)}",
            call,
            *wrong,
            perhaps=(*perhaps, hg.errors.FreedError),
        )
        if which.b._freed and not was_freed:
            which.freed = True
            which.memory.users -= 1
        if not isinstance(found, BaseException):
            with np.errstate(all="ignore"):
                out.model[...] = x.model + given

    def stale_handles(self) -> None:
        if self.stale:
            h = self.r.choice(self.stale)
            live = {b.b.handle for b in self.buffers if not b.freed}
            assert h not in live, "a handle comes twice"
            self.calls("a stale handle", lambda: native.buffer_free(h), hg.errors.FreedError)

    def profile(self) -> None:
        if self.profiles:
            self.trace.append("a profile ends")
            self.profiles.pop().__exit__(None, None, None)
        else:
            self.trace.append("a profile")
            self.profiles.append(hg.profile(table=False).__enter__())

    def end(self, r: random.Random) -> None:
        self.r = r
        self.trace.append("the end")
        self.check()
        while self.profiles:
            self.profile()
        ends = [*self.buffers, *self.exports, *self.executors]
        r.shuffle(ends)
        for one in ends:
            if isinstance(one, World.Buffer):
                self.same(one)
                self.calls(f"free {self.name(one)}", one.b.free)
                self.stale.append(one.b.handle)
                if not one.freed:
                    one.freed = True
                    one.memory.users -= 1
            elif isinstance(one, World.Export):
                self.exports.remove(one)
                one.memory.users -= one.handles
                one.value = None
            else:
                self.calls(f"close {self.name(one)}", one.ex.cleanup)
                if not one.closed:
                    one.closed = True
                    for b in self.buffers:
                        if b.ex is one and not b.freed:
                            b.freed = True
                            b.memory.users -= 1
        ends.clear()
        self.programs.clear()
        self.check()


def play(seed: int, without: frozenset[int] = frozenset()) -> Optional[str]:
    """Make the steps of a seed; what is wrong, if something is."""
    world = World()
    try:
        for i in range(STEPS):
            if i not in without:
                world.step(random.Random(seed * STEPS + i))
        world.end(random.Random(-seed))
    except AssertionError as error:
        return f"seed {seed}: {error}, after\n" + "\n".join(world.trace)
    finally:
        for e in world.executors:
            e.ex._close()
        while world.profiles:
            world.profiles.pop().__exit__(None, None, None)
    return None


def fewest(seed: int, found: str) -> str:
    """What is wrong with as few steps as is found in some seconds."""
    without: frozenset[int] = frozenset()
    until = time.monotonic() + 10
    size = STEPS // 2
    while size:
        for start in range(0, STEPS, size):
            fewer = without | frozenset(range(start, start + size))
            again = play(seed, fewer) if time.monotonic() < until else None
            if again:
                without, found = fewer, again
        size //= 2
    return found


def test_lifetimes() -> None:
    ops.copy(np.zeros(1, np.float32))  # the process's executor stays
    for seed in range(15 * int(os.environ.get("HOLOGRAM_STRESS", 1))):
        found = play(seed)
        if found:
            pytest.fail(fewest(seed, found))
