"""One page of what the records say: build/report.html, which loads nothing from elsewhere.

    ./build.sh bench report

It has the operations of the last record against what the machine can do (a roofline: operations a second over
operations a byte; and bytes a second over the size of the arrays), and how the records have gone since the first, by
the history of their files. What the machine can do stands in records that were made since it is measured; for older
ones the copies among their points are taken.
"""

from __future__ import annotations

import argparse
import html
import json
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from costs import ELEMENT, elements, moved, operations
from plot import Line, Point, number, plot

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
CACHED = 1 << 20  # bytes of arrays that lie in caches for certain
SLOWEST = 40  # points that are listed as slower than the best peer, at most

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: #333; }
.grid { stroke: #ddd; } .roof { fill: none; stroke: #222; stroke-width: 1.5; }
table { border-collapse: collapse; }
td, th { padding: 0.1rem 0.7rem; text-align: right; border-bottom: 1px solid #ddd; }
td:first-child, th:first-child { text-align: left; } .below { color: #b00; } .about { color: #555; }
"""


# ---- the last record of operations ---------------------------------------------------------------------------------


class Done(NamedTuple):
    """A point of the record, with what it did in a second."""

    name: str
    kind: str
    dtype: str
    footprint: int  # bytes of all its arrays
    intensity: float  # operations a byte
    rate: float  # operations a second
    bytes: float  # a second
    speed: float  # a multiple of the best peer's


def speed(seconds: dict[str, float]) -> float:
    """Hologram's speed as a multiple of the best peer's; nan without one."""
    peers = [t for name, t in seconds.items() if not name.startswith("hologram")]
    return min(peers) / seconds["hologram"] if peers and "hologram" in seconds else math.nan


def kind(operation: str) -> str:
    """What is drawn in one colour."""
    if operation in ("copy", "fill", "where"):
        return "copies"
    if operation.startswith(("reduce_", "argmax")):
        return "reductions"
    if operation in ("softmax", "cumsum"):
        return operation
    return "functions" if "exp" in ELEMENT[operation][0] or operation in FUNCTIONS else "arithmetic"


FUNCTIONS = "vector_log sigmoid tanh gelu sin cos tan log2 log10 log1p erf rsqrt pow".split()


def done(record: dict[str, Any]) -> Iterator[Done]:
    """The points of a record whose operation is known."""
    for row in record["rows"]:
        operation, dtype = row["operation"], row["dtype"]
        if operation not in ELEMENT:
            continue
        n, seconds = elements(row["shape"]), row["seconds"]["hologram"]
        work, size = operations(operation, dtype), moved(operation, dtype)
        name = f"{operation} {dtype} {row['shape']}"
        rate, flow = work * n / seconds, size * n / seconds
        yield Done(name, kind(operation), dtype, size * n, work / size, rate, flow, speed(row["seconds"]))


def copies(record: dict[str, Any]) -> dict[int, float]:
    """Bytes a second of copies by the bytes of both arrays: as measured with the record, or of its points."""
    limits = record.get("limits", {})
    if limits.get("copy"):
        return {2 * int(size): rate for size, rate in limits["copy"].items()}
    found: dict[int, float] = {}
    for row in record["rows"]:
        if row["operation"] == "copy":
            size = moved("copy", row["dtype"]) * elements(row["shape"])
            found[size] = max(found.get(size, 0.0), size / min(row["seconds"].values()))
    return dict(sorted(found.items()))


def roofs(record: dict[str, Any], points: list[Done]) -> list[Line]:
    """What bounds the points: the fastest copies, and those beyond the caches; and the peak, where it is known."""
    rates = copies(record)
    if not rates:
        return []
    peak = record.get("limits", {}).get("peak", {}).get("f32")
    low, high = (f(p.intensity for p in points if p.rate) for f in (min, max))
    lines = []
    for name, rate in (("a copy in cache", max(rates.values())), ("a copy in memory", rates[max(rates)])):
        end = min(high, peak / rate) if peak else high
        lines.append(
            Line([(low, low * rate), (max(low, end), max(low, end) * rate)], f"{name}, {number(rate)}B/s", True)
        )
    if peak:
        lines.append(Line([(low, peak), (high, peak)], f"f32 products, {number(peak)}op/s"))
    return lines


def said(p: Done) -> str:
    """What is said of a point."""
    return f"{p.name}: {p.bytes / 1e9:.1f} GB/s, {p.rate / 1e9:.1f} Gop/s, {p.speed:.2f} of the best peer's speed"


def roofline(record: dict[str, Any]) -> str:
    """The section of the last record."""
    points = list(done(record))
    computing = [p for p in points if p.rate]
    within = [Point(p.intensity, p.rate, p.kind, said(p), p.footprint > CACHED) for p in computing]
    by_size = [Point(p.footprint, p.bytes, p.kind, said(p)) for p in points]
    known = "" if "limits" in record else " This record names no peak: ./build.sh bench operations measures it since."
    slow = sorted((p for p in points if p.speed < 1), key=lambda p: p.speed)
    listed = f", of which the {SLOWEST} slowest" if len(slow) > SLOWEST else ""
    rows = "".join(
        f"<tr><td>{html.escape(p.name)}</td><td class='{'below' * (p.speed < 0.9)}'>{p.speed:.2f}</td>"
        f"<td>{p.bytes / 1e9:.1f}</td><td>{p.rate / 1e9:.1f}</td></tr>"
        for p in slow[:SLOWEST]
    )
    return f"""
<h2>Operations on the CPU</h2>
<p class="about">{html.escape(record["about"])}{html.escape(known)}</p>
<h3>Roofline</h3>
<p>Operations are counted in the programs as backends have them, functions expanded; a fused multiplication and addition
is two. A point says its name, and its speed beside the best of numpy and torch; a ring has arrays of over 1 MB.</p>
{plot(within, roofs(record, points), "operations a byte", "operations a second")}
<h3>Bytes a second</h3>
{plot(by_size, [Line(list(copies(record).items()), "a copy", True)], "bytes of all arrays", "bytes a second")}
<h3>Slower than the best peer: {len(slow)} of {len(points)}{listed}</h3>
<table><tr><th>point</th><th>speed</th><th>GB/s</th><th>Gop/s</th></tr>{rows}</table>"""


# ---- the history of records ----------------------------------------------------------------------------------------


class Version(NamedTuple):
    """A record as a commit had it: by point, Hologram's speed as a multiple of the best peer's."""

    commit: str
    date: str
    subject: str
    speeds: dict[str, float]


def git(*arguments: str) -> str:
    """What git says; nothing where there is no clone."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def speeds(record: dict[str, Any]) -> dict[str, float]:
    """By point, Hologram's speed as a multiple of the best peer's."""
    found = {}
    for row in record.get("rows", []):
        if not isinstance(row.get("seconds"), dict):
            continue
        name = " ".join(str(row[k]) for k in ("operation", "workload", "dtype", "shape", "n") if k in row)
        seconds = row["seconds"]
        if all(isinstance(t, (int, float)) for t in seconds.values()) and (s := speed(seconds)) == s:
            found[name] = s
    return found


def versions(file: Path) -> list[Version]:
    """All that a record has been, the oldest first."""
    found = []
    path = file.relative_to(ROOT).as_posix()
    for line in git("log", "--format=%H%x09%as%x09%s", "--", path).splitlines():
        commit, date, subject = line.split("\t", 2)
        try:
            found.append(Version(commit, date, subject, speeds(json.loads(git("show", f"{commit}:{path}")))))
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError):  # removed then, or of another form
            continue
    return [v for v in reversed(found) if v.speeds]


def mean(values: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def history(file: Path) -> str:
    """The section of a record's history; nothing where it has none."""
    had = versions(file)
    if not had:
        return ""
    points, rows = [], []
    for i, v in enumerate(had):
        values = sorted(v.speeds.values())
        text = f"{v.date} {v.commit[:7]} {v.subject}"
        for series, value in (("geometric mean", mean(values)), ("a tenth is below", values[len(values) // 10])):
            points.append(Point(i, value, series, f"{series} {value:.2f} of {len(values)} points: {text}"))
        below = sum(value < 0.9 for value in values)
        rows.append(
            f"<tr><td>{v.date} {v.commit[:7]} {html.escape(v.subject)}</td><td>{mean(values):.2f}</td>"
            f"<td>{values[0]:.2f}</td><td>{below} of {len(values)}</td></tr>"
        )
    lines = [Line([(0, 1), (max(1, len(had) - 1), 1)], "the best peer", True)]
    step = math.ceil(len(had) / 9)
    named = [(i, v.date) for i, v in enumerate(had) if i % step == 0]
    drawn = plot(points, lines, "records", "a multiple of the best peer's speed", (False, True), named)
    return f"""
<h3>{file.name}</h3>
{drawn}
<table><tr><th>record</th><th>mean</th><th>worst</th><th>below 0.9</th></tr>{"".join(rows)}</table>"""


# ---- the page ------------------------------------------------------------------------------------------------------


def page() -> str:
    """The whole page."""
    record = json.loads((RESULTS / "operations.json").read_text())
    parts = [history(file) for file in sorted(RESULTS.glob("*.json"))]
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Hologram's records</title><style>{STYLE}</style></head>
<body><h1>Hologram's records</h1>
{roofline(record)}
<h2>History</h2>
<p>Each record as the commits had it: Hologram's speed beside the best of its peers. Machines and points change between
them.</p>
{"".join(parts)}
</body></html>
"""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Write one page of what the records say.")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "report.html")
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(page(), encoding="utf-8")
    print(f"{args.output}: {args.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
