"""Calls on torch's tensors that C makes by itself, on whatever device: see test_calls_by_c.py."""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support import by_threads
from test_calls_by_c import by_go, direct, machine_code
from test_two_ways import a_call

import hologram as hg
from hologram import ops

torch = pytest.importorskip("torch", reason="torch is not installed")
GPU = torch.cuda.is_available() and hg.is_cuda_available()
TIMES = 5  # the first is prepared, after which there is a gate; the third is published

cuda = pytest.mark.skipif(not GPU, reason="torch and Hologram have no GPU here")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=cuda)])
def ex(request: pytest.FixtureRequest) -> Iterator[hg.Executor]:
    with hg.Executor(request.param) as executor:
        yield executor


@pytest.fixture
def gpu() -> Iterator[hg.Executor]:
    with hg.Executor("cuda") as executor:
        yield executor


def made_by_c(ex: hg.Executor) -> bool:
    return machine_code(ex) or "cuda" in ex.backend


def tensor(value: Any, on: str) -> Any:
    """An array's elements on a device, in the same strides; None of what torch has no type for."""
    if isinstance(value, hg.Buffer):
        value = np.asarray(value)
    size = value.dtype.itemsize
    if value.dtype not in ("i1", "i2", "i4", "i8", "u1", "f2", "f4", "f8", "?") or any(s < 0 for s in value.strides):
        return None
    reach = 1 + sum((n - 1) * s // size for n, s in zip(value.shape, value.strides)) if value.size else 1
    flat = torch.from_numpy(np.zeros(reach, value.dtype)).to(on)
    view = flat.as_strided(value.shape, [s // size for s in value.strides])
    if value.size and 0 not in value.strides:
        view.copy_(torch.from_numpy(np.array(value, order="C")))
    return view


def contents(value: Any) -> Any:
    """What a value is: of a tensor its shape, dtype and bytes."""
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype, value.cpu().contiguous().numpy().tobytes()
    return type(value), str(value)


def told(ex: hg.Executor, call: Any, given: dict[str, Any]) -> Any:
    """What a call gives, and its tensors after it; of a fault in which lane is anybody's guess."""
    try:
        result = contents(call())
        ex.synchronize()
    except hg.ProgramFault as error:
        result = error.kind
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        result = type(error), str(error)
    return result, [contents(v) for v in given.values()]


@pytest.mark.parametrize("name", sorted(ops._by_name))
def test_operations(ex: hg.Executor, name: str) -> None:
    f = ops._by_name[name]
    done = made = 0
    with hg.Executor("cpu") as host:

        def call(seed: int, values: int) -> Any:
            given, _ = a_call(f, random.Random(seed), host)
            rng = np.random.default_rng(values)
            given["ex"] = ex
            for key, value in list(given.items()):
                if isinstance(value, (np.ndarray, hg.Buffer)):
                    given[key] = here = tensor(value, ex.backend)
                    if here is None:
                        return None
                    if here.dtype.is_floating_point and here.numel() and 0 not in here.stride():
                        here.copy_(torch.from_numpy(rng.uniform(-3, 3, tuple(here.shape))))
            if not any(isinstance(v, torch.Tensor) for v in given.values()):
                return None
            tensors = {k: v for k, v in given.items() if isinstance(v, torch.Tensor)}
            return told(ex, lambda: getattr(ops, f.name)(**given), tensors)

        for seed in range(25):
            with by_go():
                expected = call(seed, seed)
            if expected is None:
                continue
            made += 1
            for i in range(TIMES):
                before = direct(ex)
                found = call(seed, i if i < TIMES - 1 else seed)
            done += direct(ex) > before
            assert found == expected, (name, seed)
    if made_by_c(ex) and f.elementwise and made > 5:
        assert done > 0


def add(ex: hg.Executor, n: int = 1024) -> tuple[Any, ...]:
    """A call that C makes by now."""
    x, y, out = (torch.full((n,), v, device=ex.backend) for v in (1.0, 2.0, 0.0))
    before = direct(ex)
    for _ in range(20 * TIMES):  # what is busy for a moment comes later
        ops.vector_add(ex, x, y, out)
        if direct(ex) > before:
            break
    else:
        assert not made_by_c(ex)
    return x, y, out


def test_in_place_and_overlap(ex: hg.Executor) -> None:
    add(ex, 8)
    memory = torch.zeros(256, device=ex.backend)
    x, y = memory[:8], memory[64:72]
    x.fill_(1)
    y.fill_(2)
    for _ in range(TIMES):
        ops.vector_add(ex, x, y, x)
    assert (x == 1 + 2 * TIMES).all()
    with pytest.raises(ValueError, match="overlaps"):
        ops.vector_add(ex, x, y, memory[4:12])
    ops.vector_add(ex, memory[1:9], y, memory[128:136])  # not aligned as the others
    assert torch.equal(memory[128:136], memory[1:9] + y)
    version = x._version
    ops.vector_add(ex, x, y, x)
    assert x._version == version + 1


def test_kernels_raise_the_versions_of_what_they_write_and_leave_nothing_else() -> None:
    """Inputs, what is refused and what is made have none raised; what is written in place has."""
    f = hg.kernel(lambda x, y, k: (x * k + y, x - y))
    x, one, two = torch.ones(8), torch.zeros(8), torch.zeros(8)
    array, part = np.ones(8, np.float32), torch.zeros(16)[::2]
    all_of = x, one, two, part
    for given, out, raised in (
        ((x, x), (one, two), (0, 1, 1, 0)),
        ((x, x), (part, two), (0, 0, 1, 1)),
        ((one, two), (two, one), (0, 1, 1, 0)),
        ((x, one), (x, two), (1, 0, 1, 0)),
        ((array, array), (one, two), (0, 1, 1, 0)),
        ((x, array), (array.copy(), two), (0, 0, 1, 0)),
        ((x, x), None, (0, 0, 0, 0)),
        ((x, x), (one, one), (0, 0, 0, 0)),
        ((x, x), (one, two[:4]), (0, 0, 0, 0)),
    ):

        def call(times: int) -> Any:
            results = None
            for _ in range(times):
                try:
                    results = f(*given, 0.5, out=out)  # noqa: B023
                except ValueError:
                    continue
            gc.collect()
            return results if out is None else ()  # noqa: B023

        call(TIMES + 100)
        before, counts = sys.getallocatedblocks(), [sys.getrefcount(each) for each in all_of]
        versions = [each._version for each in all_of]
        assert not any(each._version for each in call(300))
        assert [each._version - was for each, was in zip(all_of, versions)] == [300 * n for n in raised], (given, out)
        assert [sys.getrefcount(each) for each in all_of] == counts
        assert sys.getallocatedblocks() - before < 200


def test_numbers(ex: hg.Executor) -> None:
    x, out = torch.ones(8, device=ex.backend), torch.empty(8, device=ex.backend)
    for value in [1.0, 2.5, -0.0, float("inf"), 3.4028235e38, 2]:
        for _ in range(TIMES):
            ops.scalar_mul(ex, x, out, scalar=value)
            assert (out == value).all()
    with pytest.raises(ValueError, match="out of range of f32"):
        ops.scalar_mul(ex, x, out, scalar=1e39)


def test_faults_are_told(ex: hg.Executor) -> None:
    x, y, out = (torch.full((8,), v, device=ex.backend) for v in (6, 2, 0))
    for _ in range(TIMES):
        ops.vector_div(ex, x, y, out)
    ex.synchronize()
    y[5] = 0
    with pytest.raises(hg.ProgramFault):
        ops.vector_div(ex, x, y, out)
        ex.synchronize()
    assert out.tolist() == [3, 3, 3, 3, 3, int(out[5]), 3, 3]


def test_profiles_see_all_calls(ex: hg.Executor) -> None:
    x, y, out = add(ex)
    with hg.profile() as profile:
        for _ in range(3):
            ops.vector_add(ex, x, y, out)
    assert sum(e.get("cat") == "call" for e in profile.events) == 3


def test_gradients_are_refused(ex: hg.Executor) -> None:
    x, y, out = add(ex)
    x.requires_grad_()
    with pytest.raises((RuntimeError, ValueError, BufferError), match="grad"):
        ops.vector_add(ex, x, y, out)


def test_the_caller_s_arithmetic_stays() -> None:
    """Programs keep subnormals, whatever the caller has set, who finds that as it was."""
    with hg.Executor("cpu") as ex:
        x, y, out = add(ex, 8)
        x.fill_(1e-40)
        y.fill_(0)
        if not torch.set_flush_denormal(True):
            pytest.skip("this processor cannot flush them")
        try:
            before = direct(ex)
            ops.vector_add(ex, x, y, out)
            assert direct(ex) == before + machine_code(ex)
            assert (torch.full((8,), 2e-38) * 0.25 == 0).all()
        finally:
            torch.set_flush_denormal(False)
        assert torch.equal(out, x)


def test_a_closed_executor_makes_none(ex: hg.Executor) -> None:
    with hg.Executor(ex.backend) as other:
        x, y, out = add(other)
    with pytest.raises(RuntimeError, match="freed"):
        ops.vector_add(other, x, y, out)
    with hg.Executor(ex.backend) as another:
        assert direct(another) == 0
        add(another)


def test_threads(ex: hg.Executor) -> None:
    def calls(rng: random.Random) -> None:
        value = float(rng.randrange(1, 4))
        x = torch.full((rng.randrange(1, 300),), value, device=ex.backend)
        out = torch.zeros_like(x)
        for _ in range(5):
            ops.vector_add(ex, x, x, out)
        assert bool((out == 2 * value).all()), (value, out)

    def executors(rng: random.Random) -> None:
        with hg.Executor(ex.backend) as other:
            add(other, n=5)

    by_threads([calls, calls, calls, executors], 1.0)


# ---- what is only on a device that works by itself ---------------------------------------------------------------


@cuda
def test_synchronize_waits_for_what_c_queued(gpu: hg.Executor) -> None:
    x, y, out = add(gpu)
    torch.cuda.synchronize()
    for _ in range(3):
        torch.cuda._sleep(30_000_000)
        event = torch.cuda.Event()
        event.record()
        before = direct(gpu)
        ops.vector_add(gpu, x, y, out)
        assert direct(gpu) == before + 1
        assert not event.query()
        gpu.synchronize()
        assert event.query()


@cuda
def test_streams_of_torch(gpu: hg.Executor) -> None:
    """What the stream is at each call counts, and memory that torch takes and gives meanwhile is in its order."""
    side = torch.cuda.Stream()
    x = torch.ones(1024, device="cuda")
    total = 0
    torch.cuda.synchronize()
    for i in range(400):
        if i % 40 == 20:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                x = x + 1
                out = torch.empty_like(x)
                ops.vector_add(gpu, x, x, out)
                x = out - x
            torch.cuda.current_stream().wait_stream(side)
        else:
            out = torch.empty_like(x)
            if i % 7 == 0:
                torch.cuda._sleep(200_000)
            ops.vector_add(gpu, x, torch.ones_like(x), out)
            x = out * 1
        total += 1
    assert (x == 1 + total).all()


@cuda
def test_calls_without_an_executor_are_behind_torch_s_work() -> None:
    """Also where no result is made for them; they don't wait for the device, with a number neither."""
    x, out = torch.zeros(1024, device="cuda"), torch.zeros(1024, device="cuda")
    for i in range(TIMES + 2):
        torch.cuda._sleep(20_000_000)
        x.fill_(i)
        ops.vector_add(x, x, out)
        made = ops.vector_add(out, 1.0)
        ops.vector_add(made, x, made)
        event = torch.cuda.Event()
        event.record()
        assert i < TIMES or not event.query()  # the first are prepared
        assert (out == 2 * i).all() and (made == 3 * i + 1).all()


@cuda
def test_more_than_the_driver_takes(gpu: hg.Executor) -> None:
    x = add(gpu)[0]
    acc = torch.zeros(1024, device="cuda")
    for _ in range(TIMES):
        ops.vector_add(gpu, acc, x, acc)
    acc.zero_()
    torch.cuda._sleep(400_000_000)
    for _ in range(3000):
        ops.vector_add(gpu, acc, x, acc)
    gpu.synchronize()
    assert (acc == 3000).all()


@cuda
def test_captures_of_torch(gpu: hg.Executor) -> None:
    x = add(gpu)[0]
    acc = torch.zeros(1024, device="cuda")
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(TIMES):
            ops.vector_add(gpu, acc, x, acc)
    torch.cuda.synchronize()
    acc.zero_()
    before = direct(gpu)
    with torch.cuda.graph(graph):
        for _ in range(3):
            ops.vector_add(gpu, acc, x, acc)
    assert direct(gpu) == before
    for _ in range(4):
        graph.replay()
        ops.vector_add(gpu, acc, x, acc)
    assert (acc == 16).all()


@cuda
def test_kernels_that_go_while_they_run(gpu: hg.Executor) -> None:
    """More programs and layouts than are kept, behind work that takes long."""
    text = "program p{}\nslot x f32\nslot out f32\nldg.f32 v, x[index]\nadd.f32 v, v, {}.0\nstg.f32 v, out[index]\nexit"
    x = torch.zeros(64, device="cuda")
    for i in range(40):
        program = hg.Program(text.format(i, i))
        out = torch.empty_like(x)
        for _ in range(TIMES):
            gpu.launch(program, x=x, out=out)
        out.zero_()
        torch.cuda._sleep(3_000_000)
        before = direct(gpu)
        gpu.launch(program, x=x, out=out)
        assert direct(gpu) == before + 1
        del program
        assert (out == i).all()
    for n in range(1, 1500):
        a, out = torch.full((n,), float(n), device="cuda"), torch.empty(n, device="cuda")
        for _ in range(3 if n % 3 else 5):
            ops.vector_add(gpu, a, a, out)
        if n % 100 == 0:
            assert (out == 2 * n).all()


@cuda
def test_closing_waits(gpu: hg.Executor) -> None:
    for _ in range(3):
        with hg.Executor("cuda") as other:
            x, y, out = add(other)
            out.zero_()
            torch.cuda._sleep(50_000_000)
            event = torch.cuda.Event()
            event.record()
            ops.vector_add(other, x, y, out)
        assert event.query()
        assert (out == 3).all()


def test_long_calls_beside_other_threads() -> None:
    """They own the tensors, since other threads have the GIL meanwhile, and their versions are raised as ever."""
    before, ended = hg.num_threads(), threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    hg.set_num_threads(1)
    try:
        with hg.Executor("cpu") as cpu:
            x, out = torch.ones(1 << 20), torch.empty(1 << 20)
            for _ in range(TIMES):
                ops.vector_add(cpu, x, x, out)
            made, version, references = direct(cpu), out._version, sys.getrefcount(x)
            for k in range(10):
                x.fill_(k)
                ops.vector_add(cpu, x, x, out)
                assert (out == 2 * k).all()
            assert direct(cpu) - made == (10 if machine_code(cpu) else 0)
            assert (out._version - version, sys.getrefcount(x)) == (10, references)
            with pytest.raises(ValueError, match="overlaps"):
                ops.vector_add(cpu, x[1:], x[1:], x[:-1])
    finally:
        hg.set_num_threads(before)
        ended.set()
        other.join()
