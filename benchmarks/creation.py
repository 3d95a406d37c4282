"""Measure what the first executor of a process costs, and where that time goes, on an NVIDIA GPU or the CPU.

    ./build.sh bench creation            of the GPU
    ./build.sh bench creation cpu        of the CPU

Each round is two processes. In one the driver is opened and made to start, and its context made, by ctypes before the
executor: then the executor's time has nothing of what the driver needs by itself. In the other it is made as programs
make it. The operations come from a disk cache that a first round has filled; programs that no process had before are
compiled in the one, and come from the cache in the other. Where there is a built package but no Go, run it as
"python benchmarks/creation.py".
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

TAKEN: dict[str, float] = {}


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Time a phase, in milliseconds."""
    start = time.perf_counter()
    yield
    TAKEN[name] = (time.perf_counter() - start) * 1e3


def start_driver() -> None:
    """Do what the driver needs by itself: the library opened, cuInit, and the primary context."""
    import ctypes

    def check(result: int) -> None:
        if result:
            sys.exit(f"the driver answers {result}")

    with phase("driver: opening libcuda.so.1"):
        try:
            cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            sys.exit(f'bench creation: no NVIDIA driver: {error}; "bench creation cpu" is of the CPU')
    with phase("driver: cuInit"):
        check(cuda.cuInit(0))
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    with phase("driver: cuDevicePrimaryCtxRetain"):
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))


def program(number: int) -> str:
    """A program of 20 instructions, which differs by its number from others."""
    steps = "\n".join(f"mul.f32 x, x, {1 + (17 * number + i + 1) / 4096}\nadd.f32 x, x, y" for i in range(8))
    return f"slot a f32\nslot b f32\nldg.f32 x, a[index]\nldg.f32 y, b[index]\n{steps}\nstg.f32 x, b[index]\nexit"


def one(backend: str, ready: bool, number: int) -> None:
    """Time a process's first calls, and print them. The number is that of its programs."""
    import numpy as np

    with phase("import hologram"):
        import hologram as hg
    with phase("loading the library, at its first use"):
        make = hg.Executor
    if ready:
        start_driver()
    with phase(f'Executor("{backend}")' + (" after the driver" if ready else "")):
        ex = make(backend)
    with phase("a second executor"):
        make(backend)
    host = np.ones(1024, np.float32)
    with phase("first buffer, allocated"):
        a = ex.allocate(1024)
    with phase("first copy from the host"):
        b = ex.from_numpy(host)
    with phase("first addition"):
        hg.ops.vector_add(ex, a, b, a)
    with phase("first synchronisation"):
        ex.synchronize()
    with phase("first multiplication"):
        hg.ops.vector_mul(ex, a, b, a)
        ex.synchronize()
    with phase("first copy to the host"):
        a.to_numpy()
    made = "compiled" if ready or backend != "cuda" else "from the disk cache"
    for i, name in enumerate(("a program of 20 instructions", "another one")):
        with phase(f"{name}, {made}"):
            ex.launch(hg.Program(program(2 * number + i)), a=a, b=b, n=1024)
            ex.synchronize()
    print(json.dumps(TAKEN))


Taken = dict[str, dict[str, list[float]]]  # by kind of process and phase, milliseconds of each process


def taken(backend: str, rounds: int) -> Taken:
    """What each phase takes, of so many processes of each kind."""
    kinds = ("plain",) if backend in ("cpu", "interp") else ("ready", "plain")
    found: Taken = {kind: {} for kind in kinds}
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "HOLOGRAM_CACHE_DIR": cache, "CUDA_CACHE_DISABLE": "1"}
        for i, kind in itertools.product(range(rounds + 1), kinds):
            command = [sys.executable, __file__, backend, "--one", kind, "--number", str(i)]
            ran = subprocess.run(command, capture_output=True, text=True, env=env)
            if ran.returncode:
                sys.exit(ran.stderr or ran.stdout)
            if i == 0:  # files come from the disk, Python compiles its own, and operations are compiled
                continue
            for name, ms in json.loads(ran.stdout).items():
                found[kind].setdefault(name, []).append(ms)
    return found


def medians(found: Taken) -> dict[str, float]:
    """The median of each phase, of what it is alike in both kinds the first kind's."""
    return {name: statistics.median(each) for kind in reversed(found) for name, each in found[kind].items()}


def tables(found: Taken) -> list[str]:
    """A table for each kind of process."""
    lines = []
    for kind, phases in found.items():
        lines += ["", f"| {'the driver first' if kind == 'ready' else 'as programs do'} | median, ms | least | most |"]
        lines.append("|---|---|---|---|")
        for name, each in phases.items():
            lines.append(f"| {name} | {statistics.median(each):.2f} | {min(each):.2f} | {max(each):.2f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the first executor of a process costs.")
    parser.add_argument("backend", nargs="?", default="cuda")
    parser.add_argument("--rounds", type=int, default=10, help="processes of each of the two kinds (10)")
    parser.add_argument("--one", choices=("ready", "plain"), help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        one(args.backend, args.one == "ready", args.number)
    else:
        print("\n".join(tables(taken(args.backend, args.rounds))))


if __name__ == "__main__":
    main()
