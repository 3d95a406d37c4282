"""What the project set itself for an NVIDIA GPU, and which of it a record of benchmarks/cuda.py meets.

A row of the record has a workload, a dtype, and the seconds of a call by library: "hologram", its peers "torch",
"torch.compile" and "cupy". A ratio is the time of the better of torch's two in Hologram's: above 1 Hologram is faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

Row = dict[str, Any]

ELEMENTWISE = ("copy", "add", "exp", "sigmoid", "tanh", "gelu", "sum")


class Verdict(NamedTuple):
    """Of one figure: what it is, its value and its bound, which is the least or, if most is set, the most."""

    what: str
    value: float
    bound: float
    most: bool = False
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the figure keeps its bound."""
        return self.value <= self.bound if self.most else self.value >= self.bound

    def __str__(self) -> str:
        """Say what it is, and by how much it misses."""
        missed = "met" if self.met else f"missed by {abs(self.value - self.bound):.2f}{self.unit}"
        sign = "≤" if self.most else "≥"
        return f"{self.what}: {self.value:.2f}{self.unit}, {sign} {self.bound:g}{self.unit}: {missed}"


def is_call(row: Row) -> bool:
    """Whether a row is of a call on little, of which the host's time counts."""
    return not row["moved"] and not row["work"]


def to_torch(row: Row, library: str = "hologram") -> float:
    """The time of the better of torch eager and torch.compile in that of a library."""
    seconds = row["seconds"]
    return min(seconds[name] for name in ("torch", "torch.compile") if name in seconds) / seconds[library]


def copied(rows: Iterable[Row]) -> dict[str, float]:
    """The bytes a second of the fastest copy within the device, by dtype."""
    return {r["dtype"]: r["moved"] / min(r["seconds"].values()) for r in rows if r["workload"] == "copy"}


def to_copy(row: Row, copies: dict[str, float]) -> float:
    """Hologram's bytes a second in those of the fastest copy."""
    return float(row["moved"] / row["seconds"]["hologram"] / copies[row["dtype"]])


def verdicts(rows: list[Row], phases: dict[str, float]) -> list[tuple[str, list[Verdict]]]:
    """All figures that have a bound, by subject.

    Phases are the medians, in milliseconds, of what a process does first.
    """
    copies = copied(rows)
    large = [r for r in rows if not is_call(r)]

    def ratios(which: str, bound: float, dtype: str = "") -> list[Verdict]:
        found = [r for r in large if r["workload"].startswith(which) and r["dtype"].startswith(dtype)]
        return [Verdict(f"{r['workload']} {r['dtype']}", to_torch(r), bound) for r in found]

    element = [r for r in large if r["workload"] in ELEMENTWISE]
    products = ratios("product", 0.9, "f32")
    if products:
        mean = math.exp(sum(math.log(v.value) for v in products) / len(products))
        products.append(Verdict("geometric mean of f32", mean, 1.0))
    host = [
        Verdict(f"{r['workload']}, {'buffers' if name == 'hologram' else 'tensors'}", 1 / to_torch(r, name), 0.6, True)
        for r in rows
        if is_call(r) and r["workload"].startswith(("add", "relu", "softmax"))
        for name in r["seconds"]
        if name.startswith("hologram")
    ]
    limits = (
        ('Executor("cuda") after the driver', 10.0),
        ("a program of 20 instructions, compiled", 30.0),
        ("a program of 20 instructions, from the disk cache", 2.0),
    )
    return [
        (
            "4. Element by element, to the better of torch eager and torch.compile",
            [Verdict(f"{r['workload']} {r['dtype']}", to_torch(r), 0.98) for r in element],
        ),
        (
            "4. The same, to the copy's bytes a second",
            [Verdict(f"{r['workload']} {r['dtype']}", to_copy(r, copies), 0.95) for r in element],
        ),
        ("4. Five operations as one program", ratios("chain", 1.0)),
        ("4. Softmax and layer_norm", ratios("softmax", 1.0) + ratios("layer_norm", 1.0)),
        ("4. Sums of rows and cumsum", ratios("sums of rows", 1.0) + ratios("cumsum", 1.0)),
        ("5. The host's time of a call on 1,024 elements, in torch's", host),
        (
            "5. First calls of a process",
            [Verdict(name, phases[name], most, True, " ms") for name, most in limits if name in phases],
        ),
        ("6. Products of f32, to cuBLAS without TF32", products),
        ("6. Products of bf16", ratios("product", 0.5, "bf16")),
        (
            "6. Copies of 256 MB, to torch's pinned ones",
            [v for v in ratios("copy to", 0.95) if ", pinned" in v.what],
        ),
    ]


def lines(found: list[tuple[str, list[Verdict]]]) -> list[str]:
    """A list in Markdown: of each subject how many figures keep their bound, and those that do not."""
    said = []
    for subject, each in found:
        missed = [v for v in each if not v.met]
        if not each:
            said.append(f"- {subject}: not measured")
        elif not missed:
            least = min(each, key=lambda v: (v.bound - v.value) if v.most else (v.value - v.bound))
            said.append(f"- {subject}: met, all {len(each)}; the closest: {least}")
        else:
            said.append(f"- {subject}: {len(each) - len(missed)} of {len(each)} met")
            said += [f"  - {v}" for v in missed]
    return said
