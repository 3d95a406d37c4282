"""What takes long on a GPU, for gpu_suite.py: python endurance.py flat | threads | killed.

flat      a million launches, waited for every 10,000; the process has as much of the host's and of the device's memory
          after them as before
threads   8 threads with 8 streams each, for two minutes, or HOLOGRAM_STRESS seconds; every result is the CPU's
killed    processes that compile programs into one cache are killed 200 times, while another compiles the same ones;
          every program that either has, and that a third finds there, does what it says

The last line says "1 passed". HOLOGRAM_TEST_BACKEND names the device.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import hologram as hg

DEVICE = os.environ.get("HOLOGRAM_TEST_BACKEND", "cuda")


def host_memory() -> int:
    """The bytes that the process has in memory."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def device_memory() -> int:
    """The bytes that the process has on the device, as the driver tells."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    for line in subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines():
        pid, used = line.split(",")
        if int(pid) == os.getpid():
            return int(used) << 20
    sys.exit("nvidia-smi does not list this process")


def flat(launches: int = 1_000_000) -> None:
    """Launch a million times."""
    ex = hg.Executor(DEVICE)
    a, c = ex.from_numpy(np.arange(1024, dtype=np.float32)), ex.allocate(1024)

    def go(n: int) -> None:
        for i in range(n // 4):
            if i % 2500 == 0:
                ex.synchronize()
            hg.ops.vector_add(ex, a, a, c)
            hg.ops.softmax_rows(ex, a, c, 4, 256)
            ex.from_numpy(np.zeros(100, np.float32)).free()
            hg.ops.relu(ex, a)  # its result is ours to drop
            hg.ops.vector_exp(ex, a, c)
        ex.synchronize()

    go(launches // 10)
    before = host_memory(), device_memory(), ex.memory_stats()
    go(launches)
    after = host_memory(), device_memory(), ex.memory_stats()
    print(
        f"host {before[0] >> 10} -> {after[0] >> 10} KiB, device {before[1] >> 20} -> {after[1] >> 20} MiB, {after[2]}"
    )
    assert after[0] - before[0] < 4 << 20, "the host's memory grew"
    assert after[1] == before[1], "the device's memory grew"


def threads(count: int = 8, streams: int = 8) -> None:
    """Have threads call on streams of their own, on data of their own and of all."""
    end = time.monotonic() + float(os.environ.get("HOLOGRAM_STRESS", "120"))
    cpu = hg.Executor("cpu")
    rows, cols = 33, 1000
    data = np.random.default_rng(1).standard_normal((count, rows * cols)).astype(np.float32)
    want = np.empty_like(data)
    for x, y in zip(data, want):
        hg.ops.softmax_rows(cpu, x, y, rows, cols)
        hg.ops.vector_add(cpu, x, y, y)
    shared = hg.Executor(DEVICE)
    of_all = [shared.from_numpy(x) for x in data]
    shared.synchronize()
    wrong: list[str] = []
    done = [0] * count

    def work(t: int) -> None:
        rng = random.Random(t)
        try:
            executors = [hg.Executor(DEVICE) for _ in range(streams)]
            while time.monotonic() < end and not wrong:
                under_way = []
                for ex in executors:
                    k = rng.randrange(count)
                    x = of_all[k] if rng.random() < 0.5 else ex.from_numpy(data[k])
                    y = ex.allocate(rows * cols, zero=rng.random() < 0.5)
                    hg.ops.softmax_rows(ex, x, y, rows, cols)
                    hg.ops.vector_add(ex, x, y, y)
                    under_way.append((k, y))
                for k, y in under_way:
                    if y.to_numpy().tobytes() != want[k].tobytes():
                        wrong.append(f"thread {t}: a result differs from the CPU's")
                    done[t] += 1
        except BaseException as error:
            wrong.append(f"thread {t}: {error!r}")

    all_threads = [threading.Thread(target=work, args=(t,)) for t in range(count)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    print(f"{sum(done)} results, by thread {min(done)} to {max(done)}")
    assert not wrong, wrong[:3]


def compile_some(ex: hg.Executor, first: int, count: int) -> None:
    """Compile programs that nobody has compiled, and see what each does."""
    x = ex.from_numpy(np.arange(64, dtype=np.int32))
    y = ex.allocate(64, "i32")
    numbers = list(range(first, first + count))
    random.shuffle(numbers)
    for k in numbers:
        body = f"  ldg.i32 v, x[index]\n  mul.i32 v, v, {k + 3}\n  stg.i32 v, y[index]\n  exit\n"
        text = "program p\nslot x i32\nslot y i32\n" + body
        ex.launch(hg.Program(text), x=x, y=y)
        if not (y.to_numpy() == np.arange(64) * (k + 3)).all():
            sys.exit(f"WRONG: program {k} is another's")


def killed(rounds: int = 200, each: int = 16, at_once: int = 4) -> None:
    """Kill processes that compile what this one does."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOLOGRAM_CACHE_DIR"] = folder
        ex = hg.Executor(DEVICE)
        command = [sys.executable, __file__, "compile"]
        deaths = 0
        for first in range(0, rounds, at_once):
            numbers = [i * each for i in range(first, min(first + at_once, rounds))]
            victims = [
                subprocess.Popen([*command, str(k), str(each)], stdout=subprocess.PIPE, text=True) for k in numbers
            ]
            for victim in victims:
                assert victim.stdout is not None and victim.stdout.readline() == "ready\n", "a process did not start"
            for victim, k in zip(victims, numbers):
                half = threading.Timer(random.uniform(0, 0.15), victim.kill)
                half.start()
                compile_some(ex, k, each)
                status = victim.wait()
                half.join()
                assert status in (0, -9), f"a process ended with {status}"
                deaths += status == -9
        subprocess.run([*command, "0", str(rounds * each)], check=True, stdout=subprocess.DEVNULL)
        print(f"{rounds} processes, {deaths} of them killed at work, {len(os.listdir(folder))} files")
        assert deaths > rounds // 4, "too few were killed at work"


def main() -> None:
    """Do what the command line says."""
    what, *more = sys.argv[1:]
    if what == "compile":
        ex = hg.Executor(DEVICE)
        print("ready", flush=True)
        compile_some(ex, *map(int, more))
        return
    {"flat": flat, "threads": threads, "killed": killed}[what]()
    print("1 passed")


if __name__ == "__main__":
    main()
