"""Which of the CPU's operations a change can touch, by the files that it changes.

A file that is not known here may touch all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PRODUCTS = ("gemm", "linear", "matvec")

# What no call on the CPU runs.
ELSEWHERE = re.compile(
    r"""_test\.go$ | \.md$ | ^(\.ci|docs|examples|benchmarks|shared)/ | ^\.gitignore$ | ^LICENSE$ | /testdata/
    | ^backends/(cuda|metal|interp|conformance|asynctest|fault)/ | ^isa/(isadoc|isatest)/ | ^core/sources_
    | ^capi/(ctest|genheader)/ | ^capi/python_(node|update)\.c$
    | ^python/(tests|tests_torch|hologram_torch)/ | ^python/[^/]*\.py$ | ^python/hologram/(cli|__main__)\.py$ | \.pyi$
    | ^build\.sh$ | ^pyproject\.toml$""",
    re.VERBOSE,
)


def operations(file: str, every: Iterable[str]) -> set[str]:
    """Those of every operation that a change of a file can touch."""
    every = set(every)
    if ELSEWHERE.search(file):
        return set()
    if file.startswith("backends/cpu/gemm/"):
        return every & set(PRODUCTS)
    if file.startswith("backends/cpu/tuned/"):  # plans for rows and columns
        return {name for name in every if not elementwise(name)}
    own = re.fullmatch(r"kernels/(\w+)\.go", file)
    if own and (named := every & {own[1], own[1] + "_rows"}):
        return named | {"relu"} if own[1] == "vector_relu" else named
    return every


def elementwise(name: str) -> bool:
    """Whether an operation works on each element alone."""
    alone = ("copy", "fill", "gelu", "kernel", "relu", "sigmoid", "tanh", "where")
    return name.startswith(("vector_", "scalar_")) or name in alone


def touched(files: Iterable[str], every: Iterable[str]) -> set[str]:
    """Those of every operation that a change of the files can touch."""
    every = set(every)
    return set().union(*(operations(file, every) for file in files))
