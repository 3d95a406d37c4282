"""Measure what making a program costs: its text assembled, verified, brought to its canonical form, compiled.

    ./build.sh bench making                60,000 multiplications and additions, a slot's element with itself, and
                                           programs of a hundred instructions
    ./build.sh bench making a.atlas …      these programs, launched on one element of each slot
    ./build.sh bench making --hundred      programs of a hundred instructions alone

Each program has a process of its own, which makes and launches a small one first. "processor" is its time, all threads
together; "peak" is the most memory that the process had, beyond what it had before, for a byte of the text: of all
stages so far, the last of which is a launch, whose lanes take some too. Without files three rounds are run. go test
./backends/cpu -run '^$' -bench Making measures the same without Python, for programs of every shape, with what is live
of it.

Those of a hundred instructions are many different ones, each made once, by one thread: the time that passes until a
kernel's function is an Atlas program, until its text is verified, until it has its canonical form, and that of its
first launch beyond the second's, in which it becomes machine code. go test ./backends/cpu/jit -run '^$' -bench
Compiling has the last ones without Python. The project's own bound is 2 ms for a program.
"""

from __future__ import annotations

import linecache
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def sums(n: int) -> str:
    """A program of n multiplications and additions."""
    code = n * "mad.f32 sum, sum, v, v\n"
    return f"program sums\nslot x f32\nldg.f32 v, x[index]\nmov.f32 sum, v\n{code}stg.f32 sum, x[index]\nexit\n"


def peak() -> int:
    """The most memory that this process had, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    sys.exit("/proc/self/status has no VmHWM: this wants Linux")


def measure(text: str) -> None:
    """Make and launch a program, and print a line."""
    import hologram as hg

    ex = hg.Executor("cpu")

    def launch(p: hg.Program, n: int = 1) -> None:
        bound: dict[str, Any] = {s.name: ex.allocate(1, str(s.dtype)) for s in p.slots}
        bound.update(dict.fromkeys((q.name for q in p.params), 1))
        ex.launch(p, n=n, **bound)
        ex.synchronize()

    small = hg.Program(sums(1))
    small.canonical()
    launch(small)
    before, start, began = peak(), time.process_time(), time.perf_counter()
    peaks = []
    try:
        p = hg.Program(text)
        peaks.append(peak())
        p.canonical()
        peaks.append(peak())
        launch(p, 0)  # compiles it
        peaks.append(peak())
        launch(p)
    except hg.errors.HologramError as e:
        why = str(e).splitlines()[0]
    else:
        why = ""
    took, passed = time.process_time() - start, time.perf_counter() - began
    peaks.append(peak())
    ratios = ", ".join(f"{(b - before) / len(text):.1f}" for b in peaks)
    print(f"{len(text)} bytes: processor {took:.2f} s, {passed:.2f} s passed, peak {ratios} times the text {why}")


def hundred(seed: int) -> Any:
    """A kernel of a hundred instructions, with constants of its own."""
    import hologram as hg

    lines = ["def kernel(x, y):", "    a, b = x * y, x + y"]
    for k in range(24):
        lines += [
            f"    a = a * {0.5 + seed / 1000 + k / 64!r} + b",
            f"    b = maximum(b, a) * {0.25 + seed / 1000 + k / 64!r}",
        ]
    text, name = "\n".join([*lines, "    return a + b", ""]), f"<hundred {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    names: dict[str, Any] = {"maximum": hg.maximum}
    exec(compile(text, name, "exec"), names)
    return hg.kernel(names["kernel"])


def hundreds(count: int = 200) -> None:
    """Make many programs of a hundred instructions, and print what each stage takes."""
    import numpy as np

    import hologram as hg

    hg.set_num_threads(1)
    x, clock = np.ones(16, np.float32), time.perf_counter
    hundred(0)(x, x)
    rows, instructions = [], 0
    for seed in range(1, count):
        kernel, times = hundred(seed), [clock()]
        program = kernel.program(x, x)
        times.append(clock())
        instructions, text = program.instructions, program.disassemble()
        start = clock()
        made = hg.Program(text)
        times.append(times[-1] + clock() - start)
        start = clock()
        made.canonical()
        times.append(times[-1] + clock() - start)
        passed = []
        for _ in range(2):
            start = clock()
            kernel(x, x)
            passed.append(clock() - start)
        times.append(times[-1] + passed[0] - passed[1])
        traced, *rest = (b - a for a, b in zip(times, times[1:]))
        rows.append((traced - rest[0], *rest, sum(rest), traced + sum(rest[1:])))
    print(f"{count - 1} programs of {instructions} instructions, in ms: the median, and the least")
    names = "traced", "assembled and verified", "canonical", "machine code", "an Atlas program", "a kernel"
    for name, column in zip(names, zip(*rows)):
        print(f"{name:24} {statistics.median(column) * 1e3:6.2f} {min(column) * 1e3:6.2f}")


def main() -> None:
    """Measure each program in a process of its own."""
    if sys.argv[1:2] == ["--one"]:
        measure(Path(sys.argv[2]).read_text() if sys.argv[2:] else sums(60_000))
        return
    if sys.argv[1:] in ([], ["--hundred"]):
        hundreds()
        if sys.argv[1:]:
            return
    for file in sys.argv[1:] or 3 * [""]:
        print(file or "60,000 multiplications and additions", end=": ", flush=True)
        subprocess.run([sys.executable, __file__, "--one", *([file] if file else [])], check=True)


if __name__ == "__main__":
    main()
