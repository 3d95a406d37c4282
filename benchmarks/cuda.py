"""Compare Hologram on an NVIDIA GPU with its own bits on the CPU, and with torch, all in one run.

    ./build.sh bench cuda            writes benchmarks/results/cuda.json and cuda.md

It first runs every operation of the library on every dtype on both devices: what differs by a bit ends the run. Then
it times calls, by turns with torch: what a call on 1,024 elements costs the host, which goes on while the GPU works,
and how many bytes a second a call on 2^27 elements moves. Where there is a built package but no Go, run it as
"python benchmarks/cuda.py".
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hologram as hg
from hologram._ffi import native

RESULTS = Path(__file__).parent / "results"
Call = Callable[[], Any]

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1.0, -1.0)


def numbers(dtype: str, n: int, seed: int, tame: bool) -> np.ndarray[Any, Any]:
    """Random elements over the dtype's range, floats with special values among them unless they are to be tame."""
    rng = np.random.default_rng(seed)
    kind = hg.Executor("cpu").allocate(1, dtype).dtype
    if dtype[0] in "fb":
        x = rng.standard_normal(n)
        if not tame:
            x *= np.exp(rng.uniform(-8, 8, n))
            x[: len(SPECIAL)] = SPECIAL[:n]
        with np.errstate(over="ignore"):
            return x.astype(kind)
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max, n, dtype=kind, endpoint=True)


def same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether the bits are equal; all NaNs count as one."""
    if a.dtype.kind in "iu":
        return a.tobytes() == b.tobytes()
    nan, other = (np.isnan(x.astype(np.float64)) for x in (a, b))
    return bool(np.array_equal(nan, other) and a[~nan].tobytes() == b[~nan].tobytes())


# The sizes of an operation, by its dims: of one step and of several, even and odd.
SIZES: dict[tuple[str, ...], list[tuple[int, ...]]] = {
    (): [()],
    ("n",): [(1,), (255,), (20_000,)],
    ("rows", "cols"): [(1, 1), (7, 100), (3, 256), (5, 1000), (2, 20_000)],
    ("m", "n", "k", "trans_a", "trans_b"): [
        (1, 1, 1, 0, 0),
        (17, 33, 65, 0, 0),
        (40, 24, 600, 1, 0),
        (24, 40, 100, 0, 1),
    ],
    ("m", "n", "trans_a"): [(100, 77, 0), (77, 100, 1)],
}


def run(ex: hg.Executor, op: dict[str, Any], dtype: str, dims: tuple[int, ...]) -> list[Any]:
    """Run an operation on 40,000 elements for each operand; return what is written, or the fault."""
    tame = not op["elementwise"]
    buffers = [ex.from_numpy(numbers(dtype, 40_000, 10 * i + 1, tame)) for i in range(len(op["operands"]))]
    scalars = tuple(hg._dtypes.scalar_bits(0.5 if dtype[0] in "fb" else 3, s["name"]) for s in op["scalars"])
    fault = None
    try:
        handles = tuple(b.handle for b in buffers)
        native.call(ex, op["number"], None, handles, scalars, dims or None, None, None, 0, None, None, None)
        ex.synchronize()
    except hg.ProgramFault as error:
        fault = error.kind
    return [fault, *(b.to_numpy() for b, o in zip(buffers, op["operands"]) if o["writes"])]


def bits(gpu: hg.Executor, cpu: hg.Executor) -> int:
    """Run every operation on every dtype on both; return how many cases have the same bits."""
    cases, wrong = 0, []
    for op in json.loads(native.ops()):
        for dtype in op["types"]:
            for dims in SIZES[tuple(op["dims"])]:
                here, there = run(cpu, op, dtype, dims), run(gpu, op, dtype, dims)
                cases += 1
                if here[0] != there[0] or not all(same(a, b) for a, b in zip(here[1:], there[1:])):
                    wrong.append(f"{op['name']} {dtype} {dims}")
    if wrong:
        sys.exit(f"{len(wrong)} of {cases} cases differ between {gpu.device} and the CPU: " + "; ".join(wrong[:20]))
    return cases


def measure(calls: dict[str, Call], wait: Call, count: int, rounds: int) -> dict[str, float]:
    """The median seconds of a call, from rounds of count calls by turns.

    Of many calls it is the time until they have returned, of few until their work is done.
    """
    for call in calls.values():
        call()
    wait()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            torch.cuda.synchronize()
            wait()
            start = time.perf_counter()
            for _ in range(count):
                call()
            if count < 100:
                torch.cuda.synchronize()
                wait()
            taken[name].append((time.perf_counter() - start) / count)
    return {name: statistics.median(t) for name, t in taken.items()}


def workloads(n: int, gpu: hg.Executor) -> dict[str, tuple[int, dict[str, Call]]]:
    """By workload, how many arrays of n f32 it moves, and by library a call."""
    f = hg.ops
    hx, hy, hc = (gpu.allocate(n) for _ in range(3))
    x, y, c = (torch.ones(n, device="cuda") for _ in range(3))
    hx.fill(1)
    hy.fill(1)
    matrix = x.view(-1, 256)
    return {
        "add": (
            3,
            {
                "torch": lambda: torch.add(x, y, out=c),
                "hologram": lambda: f.vector_add(gpu, hx, hy, hc),
                "hologram, tensors": lambda: f.vector_add(gpu, x, y, c),
            },
        ),
        "exp": (2, {"torch": lambda: torch.exp(x, out=c), "hologram": lambda: f.vector_exp(gpu, hx, hc)}),
        "sigmoid": (2, {"torch": lambda: torch.sigmoid(x, out=c), "hologram": lambda: f.sigmoid(gpu, hx, hc)}),
        "softmax, rows of 256": (
            2,
            {
                "torch": lambda: torch.softmax(matrix, 1),
                "hologram": lambda: f.softmax_rows(gpu, hx, hc, n // 256, 256),
            },
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Compare Hologram on an NVIDIA GPU with the CPU's bits and with torch."
    )
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    gpu, cpu = hg.Executor("cuda"), hg.Executor("cpu")
    cases = bits(gpu, cpu)
    print(f"{cases} cases have the same bits on {gpu.device} and on the CPU", file=sys.stderr)
    rows = []
    for n, count in ((1 << 10, 150), (1 << 27, 10)):
        for name, (arrays, calls) in workloads(n, gpu).items():
            seconds = measure(calls, gpu.synchronize, count, args.rounds)
            rows.append({"workload": name, "n": n, "arrays": arrays, "seconds": seconds})
    about = {
        "device": gpu.device,
        "hologram": hg.__version__,
        "torch": torch.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "cases": cases,
    }
    lines = [
        "# Hologram on an NVIDIA GPU",
        "",
        f"{about['device']}, hologram {about['hologram']}, torch {about['torch']}, {about['date']}; f32. "
        "Written by `./build.sh bench cuda`.",
        "",
        f"The operations of the library gave the CPU's bits in all of {cases} cases (operation × dtype × sizes).",
        "",
        "| workload | n | library | host time of a call, µs | TB/s | to torch |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        for library, seconds in row["seconds"].items():
            small = row["n"] < 1 << 20
            speed = "" if small else f"{row['arrays'] * 4 * row['n'] / seconds / 1e12:.2f}"
            ratio = seconds / row["seconds"]["torch"]
            lines.append(
                f"| {row['workload']} | {row['n']:,} | {library} | {seconds * 1e6:.2f} | {speed} | {ratio:.2f} |"
                if small
                else f"| {row['workload']} | {row['n']:,} | {library} | | {speed} | {ratio:.2f} |"
            )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "cuda.json").write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    (RESULTS / "cuda.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
