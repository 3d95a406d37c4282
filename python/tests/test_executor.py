"""Executors: opening, allocation, quota, statistics, the end."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from typing import Any, Callable

import numpy as np
import pytest
from support import DTYPES, buffer

import hologram as hg
from hologram._ffi import native


def test_auto_resolves() -> None:
    with hg.Executor() as ex:
        assert ex.backend == hg.get_default_backend()
        assert ex.handle > 0


def test_names_are_case_insensitive() -> None:
    with hg.Executor("CPU") as ex:
        assert ex.backend == "cpu"
    with hg.Executor(hg.BackendType.CPU) as ex:
        assert ex.backend == "cpu"


def test_properties(ex: hg.Executor) -> None:
    """What is not known of a device is None; of CUDA's all is."""
    known = ex.properties
    assert list(known) == ["name", "memory_bytes", "multiprocessors", "compute_capability"]
    assert known["name"] == ex.device
    if ex.backend.startswith("cuda"):
        assert known["compute_capability"] >= (7, 5)
        assert known["multiprocessors"] > 0
        assert known["memory_bytes"] > 1 << 30
    else:
        assert known["compute_capability"] is None


def test_devices_are_counted(ex: hg.Executor) -> None:
    """Each that is counted can be opened, and no other."""
    described = next(b for b in hg.backend.backends() if b["name"] == ex.backend)
    assert described["devices"] >= 1
    with hg.Executor(f"{ex.backend}:{described['devices'] - 1}") as last:
        assert last.properties["name"]
    with pytest.raises(ValueError, match=f"has {described['devices']} devices, numbered from 0"):
        hg.Executor(f"{ex.backend}:{described['devices']}")
    assert all(b["devices"] == 0 for b in hg.backend.backends() if not b["available"])


@pytest.mark.parametrize("name", ["", "gpu", "cpu ", "\0", "é"])
def test_unknown_backend(name: str) -> None:
    with pytest.raises(ValueError, match="Invalid backend"):
        hg.Executor(name)
    with pytest.raises(RuntimeError):
        hg.Executor(name)


@pytest.mark.parametrize("name", ["gpu", "GPU", "gpu:1"])
def test_gpus_have_names(name: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid backend.* GPUs are .cuda., NVIDIA's, and .metal., Apple's"):
        hg.Executor(name)
    if ":" not in name:
        with pytest.raises(ValueError, match='GPUs are "cuda"'):
            hg.backend.validate_backend(name)


@pytest.mark.parametrize("name", ["cuda", "metal"])
def test_backends_that_are_not_there_say_why(name: str) -> None:
    info = {b["name"]: b for b in hg.backend.backends()}[name]
    if info["available"]:
        with hg.Executor(name) as ex:
            assert ex.backend == name
        return
    assert info["reason"]
    with pytest.raises(RuntimeError, match=f"{name} is not available: ."):
        hg.Executor(name)


def test_backend_module() -> None:
    assert [str(b) for b in hg.BackendType] == ["cpu", "metal", "cuda", "auto"]
    assert hg.backend.validate_backend("CPU") == "cpu"
    assert hg.backend.validate_backend("auto") == hg.get_default_backend()
    with pytest.raises(ValueError, match="Invalid backend"):
        hg.backend.validate_backend("tpu")
    assert isinstance(hg.is_cuda_available(), bool)
    assert isinstance(hg.is_metal_available(), bool)


@pytest.mark.parametrize("name", DTYPES)
def test_allocate_every_dtype_zeroed(ex: hg.Executor, name: str) -> None:
    b = ex.allocate(5, name)
    assert (len(b), b.size, b.shape, b.nbytes) == (5, 5, (5,), 5 * b.itemsize)
    assert not b.to_numpy().view(np.uint8).any()


def test_recycled_memory_is_zeroed(ex: hg.Executor) -> None:
    for size in (3, 1000, 400_000):
        b = ex.allocate(size)
        b.fill(7)
        b.free()
        assert not ex.allocate(size).to_numpy().any()


def test_what_statistics_name(ex: hg.Executor) -> None:
    ex.allocate(10)
    for stats, names in (
        (ex.memory_stats(), "in_use cached reserved peak limit allocations reused executor executor_limit"),
        (ex.kernel_stats(), "entries limit hits misses evictions"),
    ):
        assert set(names.split()) <= set(stats)
        assert "size" not in stats
        assert all(isinstance(value, int) and value >= 0 for value in stats.values())


def test_memory_is_recycled(ex: hg.Executor) -> None:
    ex.allocate(300_000).free()
    before = ex.memory_stats()
    for _ in range(50):
        ex.allocate(300_000, zero=False).free()
    after = ex.memory_stats()
    assert after["reserved"] == before["reserved"]
    assert after["reused"] - before["reused"] == 50
    assert after["executor"] == before["executor"]


def test_sizes_and_dtypes_that_come_again(ex: hg.Executor) -> None:
    """The library keeps what was asked for last: the same objects, equal ones, and what refuses between them."""
    big, kinds = 100_000, (None, "f64", None, np.int8, "bool", bool)
    for size in (big, big, int("100000"), 3, big, np.int64(3), 4):
        for dtype in kinds:
            with ex.allocate(size, dtype) as b, ex.allocate(size, dtype=dtype, zero=False) as other:
                wanted = np.dtype(np.float32 if dtype is None else {"f64": "float64"}.get(str(dtype), dtype))
                assert (b.shape, b.size, b.dtype, b.to_numpy().any()) == ((size,), size, wanted, False)
                assert (other.shape, other.size, other.dtype) == ((size,), size, wanted)
                assert type(b.shape[0]) is int
        for wrong in (0, 2.0):
            with pytest.raises((TypeError, ValueError)):
                ex.allocate(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, -1, -(1 << 62)])
def test_allocate_needs_a_positive_size(ex: hg.Executor, size: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        ex.allocate(size)


@pytest.mark.parametrize("size", [1 << 40, 1 << 55, (1 << 62) + 1])
def test_huge_allocation_is_a_memory_error(ex: hg.Executor, size: int) -> None:
    ex.set_memory_limit(1 << 30, device=True)
    try:
        with pytest.raises(MemoryError):
            ex.allocate(size)
        assert len(ex.allocate(4)) == 4
    finally:
        ex.set_memory_limit(None, device=True)


@pytest.mark.parametrize("size", [1.5, "4", None, 1 << 70])
def test_allocate_needs_an_integer(ex: hg.Executor, size: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="size"):
        ex.allocate(size)


@pytest.mark.parametrize("dtype", ["complex64", np.complex128, "U3", object, "float128x", ">f4"])
def test_unsupported_dtype(ex: hg.Executor, dtype: Any) -> None:
    with pytest.raises(ValueError, match="dtype"):
        ex.allocate(4, dtype)


def test_quota(device: str) -> None:
    with hg.Executor(device, memory_limit=1 << 20) as ex:
        a = ex.allocate(1 << 17)
        with pytest.raises(MemoryError, match=r"quota of 1 MiB, of which 512 KiB"):
            ex.allocate(1 << 18)
        a.free()
        assert len(ex.allocate(1 << 18)) == 1 << 18
        assert ex.memory_stats()["executor_limit"] == 1 << 20


def test_device_limit_releases_cached_blocks_first(ex: hg.Executor) -> None:
    ex.trim()
    reserved = ex.memory_stats()["reserved"]
    ex.set_memory_limit(reserved + (40 << 20), device=True)
    try:
        ex.allocate(8 << 20).free()  # 32 MiB, cached now
        assert len(ex.allocate(4 << 20)) == 4 << 20  # 16 MiB of another class: only after the 32 are given back
        with pytest.raises(MemoryError, match="limit"):
            ex.allocate(16 << 20)
    finally:
        ex.set_memory_limit(None, device=True)


def test_trim(ex: hg.Executor) -> None:
    ex.allocate(4 << 20).free()
    assert ex.trim() >= 16 << 20
    assert ex.trim() == 0


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((96, 4, 4), "class_index"),
        ((-1, 4, 4), "class_index"),
        ((0, 0, 4), "width"),
        ((0, 49, 1), "width"),
        ((0, 4, 0), "height"),
        ((0, 4, 257), "height"),
        ((0, 4, -1), "height"),
        ((0, 48, 256), "12288"),
    ],
)
def test_boundary_limits(ex: hg.Executor, arguments: tuple[int, int, int], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        ex.allocate_boundary(*arguments)


def test_boundary_buffers_share_a_class(ex: hg.Executor) -> None:
    a = ex.allocate_boundary(95, 48, 256, np.uint8)
    b = ex.allocate_boundary(95, 4, 2)
    other = ex.allocate_boundary(94, 48, 64)
    assert (a.pool, a.class_index, a.size) == ("boundary", 95, 12288)
    assert (b.pool, b.size) == ("boundary", 8)
    b.fill(1)
    assert (a.to_numpy()[:32].view(np.float32) == 1).all()
    assert not a.to_numpy()[32:].any()
    assert not other.to_numpy().any()
    first = ex.allocate_boundary(0, 1, 4)
    assert (first.pool, first.class_index) == ("boundary", 0)
    assert ex.allocate(1).pool == "linear"
    assert ex.allocate(1).class_index is None


def test_cleanup_frees_buffers_and_is_idempotent(device: str) -> None:
    ex = hg.Executor(device)
    a = ex.allocate(4)
    ex.cleanup()
    ex.cleanup()
    assert a._freed
    assert "freed" in repr(ex)
    for use in (lambda: ex.allocate(1), ex.synchronize, lambda: ex.wrap(np.zeros(1)), a.to_numpy):
        with pytest.raises(RuntimeError, match="freed"):
            use()


def test_executors_are_independent(device: str) -> None:
    first, second = hg.Executor(device), hg.Executor(device)
    a = buffer(second, [1, 2])
    first.cleanup()
    assert a.to_numpy().tolist() == [1, 2]
    second.cleanup()


def test_buffers_of_one_device_work_together(device: str) -> None:
    with hg.Executor(device) as first, hg.Executor(device) as second:
        a, c = buffer(first, np.arange(1000)), second.allocate(1000)
        hg.ops.vector_add(first, a, a, c)
        hg.ops.vector_add(second, c, c, a)
        assert a.to_numpy().tolist() == [4 * i for i in range(1000)]


def test_more_than_96_buffers(ex: hg.Executor) -> None:
    buffers = [ex.allocate(8) for _ in range(500)]
    for i, b in enumerate(buffers):
        b.fill(i)
    assert [b.to_numpy()[7] for b in buffers] == list(range(500))


def test_dropped_executors_are_collected(device: str) -> None:
    ex = hg.Executor(device)
    ex.allocate(1 << 16)
    del ex
    gc.collect()
    with hg.Executor(device) as other:
        assert other.memory_stats()["executor"] == 0


def test_threads() -> None:
    before = hg.num_threads()
    try:
        hg.set_num_threads(3)
        assert hg.num_threads() == 3
        for wrong in (0, -1, 5000):
            with pytest.raises(ValueError, match="threads"):
                hg.set_num_threads(wrong)
        for truth in (True, False):
            with pytest.raises(TypeError, match=f"set_num_threads: threads is {truth}; expected an integer"):
                hg.set_num_threads(truth)
        assert hg.num_threads() == 3
    finally:
        hg.set_num_threads(before)


@pytest.mark.parametrize(("value", "expected"), [("3", "3"), ("zero", "HOLOGRAM_NUM_THREADS"), ("0", "HOLOGRAM_NUM_")])
@pytest.mark.parametrize("backend", ["cpu", "auto"])
@pytest.mark.parametrize("late", [False, True], ids=["before the process", "in it"])
def test_threads_from_the_environment(value: str, expected: str, backend: str, late: bool) -> None:
    change = f"import os\nos.environ['HOLOGRAM_NUM_THREADS'] = {value!r}\n" if late else ""
    code = f"{change}import hologram as hg\nex = hg.Executor({backend!r})\nprint(hg.num_threads())"
    others = {name: text for name, text in os.environ.items() if name != "HOLOGRAM_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=others if late else {**others, "HOLOGRAM_NUM_THREADS": value},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert expected in (done.stdout + done.stderr)


def test_cleanup_while_other_threads_make_buffers() -> None:
    """Nothing but errors about what is freed comes out of it."""
    for _ in range(20):
        executor = hg.Executor("cpu")
        unexpected: list[BaseException] = []

        def work(executor: hg.Executor = executor, unexpected: list[BaseException] = unexpected) -> None:
            kept = []
            try:
                while True:
                    kept.append(executor.allocate(4))
            except hg.errors.FreedError:
                pass
            except BaseException as error:
                unexpected.append(error)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.005)
        executor.cleanup()
        for thread in threads:
            thread.join(30)
        assert unexpected == []


def test_cancel(device: str) -> None:
    """Who waits learns of it; the executor works on."""
    with hg.Executor(device) as ex:
        c = ex.allocate(64, "u32")
        forever = hg.Program("program f\nslot c u32\nagain:\nldg.u32 x, c[0]\nset.eq.u32 p, x, 0\nbra again, p\nexit")
        outcome: list[BaseException] = []

        def run() -> None:
            try:
                ex.launch(forever, c=c, n=64)
                ex.synchronize()
            except hg.HologramError as error:
                outcome.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        deadline = time.monotonic() + 30
        while thread.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)
            ex.cancel()
        thread.join(1)
        assert not thread.is_alive()
        assert all(isinstance(error, hg.errors.LaunchCancelledError) for error in outcome)
        c.fill(3)
        assert (c.to_numpy() == 3).all()
    with pytest.raises(RuntimeError, match="freed"):
        ex.cancel()


def test_kernels_by_turns(ex: hg.Executor, host: hg.Executor) -> None:
    """Kernels of all kinds, one after the other: none is left out, and none sees another's arguments."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(2 * 32_768).astype(np.float32)

    def calls(on: hg.Executor) -> list[tuple[hg.Buffer, Callable[[hg.Buffer], None]]]:
        a = on.from_numpy(x)
        return [
            (on.allocate(1024), lambda to: hg.ops.vector_add(on, a, a, to, n=1024)),
            (on.allocate(x.size), lambda to: hg.ops.softmax_rows(on, a, to, 2, 32_768)),
            (on.allocate(96 * 96), lambda to: hg.ops.gemm(on, a, a, to, 96, 96, 96)),
            (on.allocate(256), lambda to: hg.ops.reduce_sum_rows(on, a, to, 256, 256)),
            (on.allocate(x.size), lambda to: hg.ops.cumsum_rows(on, a, to, 64, 1024)),
            (on.allocate(1), lambda to: hg.ops.reduce_sum_rows(on, a, to, 1, x.size)),
        ]

    wanted = calls(host)
    for to, call in wanted:
        call(to)
    for _ in range(6):
        made = calls(ex)
        for to, call in made + made[::-1]:
            to.fill(0)
            call(to)
        for i, (to, _) in enumerate(made):
            assert to.to_numpy().tobytes() == wanted[i][0].to_numpy().tobytes(), i


def test_an_owner_gives_what_it_owns_to_its_like_alone() -> None:
    """And what an executor or a program had before is freed, whether it was or not."""
    text = "program a\nexit"
    with hg.Executor("cpu") as ex:
        program = hg.Program(text)
        gc.collect()
        objects = native.object_count()
        code, lease = native.program_assemble(b"a", text, len(text)), native.host_allocate(ex, 64)
        other, buffer = native.executor_new(b"cpu"), native.buffer_view(ex.allocate(4), 0, 1, (2,), (1,))
        for args in ((ex, code), (ex, lease), (ex, buffer), (ex, 3), (program, other), (program, lease), (3, code)):
            with pytest.raises(TypeError, match="adopt: expected"):
                native.adopt(*args)
        for owner in (code, lease, other, 3):
            with pytest.raises(TypeError, match="buffer: expected"):
                native.buffer(ex, owner, np.dtype("f4"), (2,), 1, False, None)
        assert all(owner.handle for owner in (code, lease, other, buffer))
        before = program.handle
        native.adopt(program, code)
        assert program.handle != before == code.handle
        assert native.end(program) and not native.end(program)
        native.adopt(program, code)
        assert program.handle == before and not code.handle and program.name == "a" and not program._freed
        del code, lease, other, buffer, args, owner
        gc.collect()
        assert native.object_count() == objects
