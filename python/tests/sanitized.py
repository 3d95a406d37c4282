"""Operations for compute-sanitizer to look at, as gpu_suite.py has it do: python sanitized.py short | long.

Those by rows and products, of f32 and bf16, in sizes that reach each way to do them: short has rows that a block or
several passes do, long those that blocks do which meet in a cluster. The CPU's results are demanded, too, as bits.py
has them. The last line says how many cases passed. HOLOGRAM_TEST_BACKEND names the device.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import bits

import hologram as hg
from hologram import _ffi

ROWS = {
    "short": [(7, 100), (133, 256), (5, 1000), (2, 16_384)],
    "long": [(2, 16_385), (1, 40_000), (1, 98_304), (1, 180_001)],
}
PRODUCTS = [(17, 33, 65, 0, 0), (40, 24, 600, 1, 0), (140, 136, 285, 1, 1)]


def main() -> None:
    """Do what the command line says."""
    rows = ROWS[sys.argv[1]]
    gpu, cpu = hg.Executor(os.environ.get("HOLOGRAM_TEST_BACKEND", "cuda")), hg.Executor("cpu")
    passed, wrong = 0, []
    for op in json.loads(_ffi.native.ops()):
        sizes = {2: rows, 5: PRODUCTS if rows is ROWS["short"] else []}.get(len(op["dims"]), [])
        if op["name"] == "matvec" or not list(bits.cases(op)):
            continue
        for dtype in set(op["types"]) & {"f32", "bf16"}:
            for dims in sizes:
                here, there = bits.run(cpu, op, dtype, dims), bits.run(gpu, op, dtype, dims)
                good = here[0] == there[0] and all(bits.alike(op, dtype, dims, *ab) for ab in zip(here[1:], there[1:]))
                passed += good
                if not good:
                    wrong.append(f"{op['name']} {dtype} {dims}")
    if wrong:
        sys.exit(f"{len(wrong)} cases differ from the CPU's: {'; '.join(wrong[:20])}")
    print(f"{passed} passed")


if __name__ == "__main__":
    main()
