"""Measure what making a large program costs: its text assembled, verified, brought to its canonical form, compiled.

    ./build.sh bench making                60,000 multiplications and additions, a slot's element with itself
    ./build.sh bench making a.atlas …      these programs, launched on one element of each slot

Each program has a process of its own, which makes and launches a small one first. "processor" is its time, all threads
together; "peak" is the most memory that the process had, beyond what it had before, for a byte of the text: of all
stages so far, the last of which is a launch, whose lanes take some too. Without files three rounds are run. go test
./backends/cpu -run '^$' -bench Making measures the same without Python, for programs of every shape, with what is live
of it.
"""

from __future__ import annotations

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


def main() -> None:
    """Measure each program in a process of its own."""
    if sys.argv[1:2] == ["--one"]:
        measure(Path(sys.argv[2]).read_text() if sys.argv[2:] else sums(60_000))
        return
    for file in sys.argv[1:] or 3 * [""]:
        print(file or "60,000 multiplications and additions", end=": ", flush=True)
        subprocess.run([sys.executable, __file__, "--one", *([file] if file else [])], check=True)


if __name__ == "__main__":
    main()
