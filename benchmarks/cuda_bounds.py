"""What the project set itself for an NVIDIA GPU, which of it the records meet, and what README.md says of them.

A row of benchmarks/cuda_all.py's record has a workload, a dtype, and the seconds of a call by library: "hologram", its
peers "torch", "torch.compile" and "cupy". A ratio is the time of the better of torch's two in Hologram's: above 1
Hologram is faster. A row of benchmarks/torch_cuda.py's has a name and the ratios of Hologram's time to the others':
below 1 it is faster. Nothing but Python is needed here, since records are brought to machines that have no GPU.
"""

from __future__ import annotations

import math
import textwrap
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
        """Say what it is, and by how much it misses: in as many digits as show that."""
        value, off = shown(self.value, self.bound, self.most), ""
        if not self.met:
            digits = len(value.partition(".")[2])
            off = f"{abs(self.value - self.bound):.{digits}f}{self.unit}"
        sign = "≤" if self.most else "≥"
        missed = f"missed by {off}" if off else "met"
        return f"{self.what}: {value}{self.unit}, {sign} {self.bound:g}{self.unit}: {missed}"


def shown(value: float, bound: float = 1.0, most: bool = False) -> str:
    """A figure in two digits after the point, or in as many more as it takes to see that it misses its bound."""
    digits = 2
    if value > bound if most else value < bound:
        while digits < 9 and abs(round(value, digits) - bound) < 0.5 * 10**-digits:
            digits += 1
    return f"{value:.{digits}f}"


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


def fastest_of_torch(rows: list[Row]) -> list[str]:
    """Of benchmarks/torch_cuda.py's rows: a list in Markdown of which keep their bound, and which others are slower.

    What counts is the fastest of torch, torch.compile and torch's fused steps, as far as a row has them.
    """
    bounded, free = [], []
    for row in rows:
        peer = max(row["ratios"], key=row["ratios"].__getitem__)
        bound = row.get("bound")
        verdict = Verdict(f"{row['name']}, to {peer}", row["ratios"][peer], 1.0 if bound is None else bound, True)
        (free if bound is None else bounded).append(verdict)
    said = lines([("Time in that of the fastest of torch", bounded)]) if bounded else []
    slower = [v for v in free if not v.met]
    if free:
        said.append(f"- Without a bound: {len(slower)} of {len(free)} take longer than the fastest of torch")
        said += [f"  - {v.what}: {shown(v.value, v.bound, True)}" for v in slower]
    return said


def of_cupy(version: str, rows: list[Row]) -> str:
    """Say by how many rows CuPy was timed, and of the others where it might have been, what it raised.

    Instead of a version it may be why there is none.
    """
    timed = sum("cupy" in row["seconds"] for row in rows)
    refused: dict[str, list[str]] = {}
    for row in rows:
        if "cupy" in row:
            refused.setdefault(row["cupy"], []).append(f"{row['workload']} {row['dtype']}")
    if not timed and not refused:
        return f"CuPy was not timed: {version}."
    said = [f"CuPy {version} was timed in {timed} rows."]
    said += [f"Its call raised {error} in {len(of)}: {', '.join(of)}." for error, of in refused.items()]
    return " ".join(said)


def between(values: Iterable[float], most_is_one: bool = False) -> str:
    """The least and the greatest of some figures, or the one that both are; a miss of 1 shows."""
    found = sorted(values)
    least, most = (shown(v, 1.0, most_is_one) for v in (found[0], found[-1]))
    return least if least == most else f"{least} to {most}"


def sentence(record: dict[str, Any]) -> str:
    """What README.md says of a record of benchmarks/cuda_all.py."""
    rows, machine = record["rows"], record["machine"]
    copies = copied(rows)

    def to(which: str, dtype: str = "") -> str:
        large = [r for r in rows if not is_call(r) and r["workload"].startswith(which)]
        return between(to_torch(r) for r in large if r["dtype"].startswith(dtype))

    def calls(library: str) -> str:
        return between((1 / to_torch(r, library) for r in rows if is_call(r)), most_is_one=True)

    element = [r for r in rows if not is_call(r) and r["workload"] in ELEMENTWISE]
    said = (
        f"On one {machine['device']}, the speed of `hologram.ops` as a multiple of the better of torch "
        f"{machine['torch']} and torch.compile, so that above 1 it is the faster: element by element "
        f"{between(to_torch(r) for r in element)}, at {between(to_copy(r, copies) for r in element)} times a copy's "
        f"bytes a second; five operations as one program {to('chain')}; softmax {to('softmax')}; "
        f"layer_norm {to('layer_norm')}; sums of rows {to('sums of rows')}; cumsum {to('cumsum')}; of "
        f"cuBLAS's speed, products of f32 have {to('product', 'f32')} (without TF32), "
        f"those of bf16 {to('product', 'bf16')}. Calls of `hologram.ops` on "
        f"buffers of 1,024 elements take the host {calls('hologram')} of the time of torch's calls, those on torch's "
        f"tensors {calls('hologram, tensors')}. What calls and steps of `hologram_torch` take beside torch's is in "
        "[benchmarks/results/torch_cuda.md](benchmarks/results/torch_cuda.md)."
    )
    return textwrap.fill(said, 120, break_long_words=False, break_on_hyphens=False)
