"""Which of the bounds for a GPU records meet, and what is said of them, on records made up for it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import cuda_bounds
import readme_figures


def row(workload: str, dtype: str = "f32", moved: int = 100, work: int = 0, **seconds: float) -> dict[str, Any]:
    times = {name.replace("_", "."): s for name, s in seconds.items()}
    if "tensors" in times:
        times["hologram, tensors"] = times.pop("tensors")
    return {"workload": workload, "dtype": dtype, "n": 1, "moved": moved, "work": work, "seconds": times}


def told(rows: list[dict[str, Any]], phases: dict[str, float] | None = None) -> dict[str, list[tuple[str, bool]]]:
    found = cuda_bounds.verdicts(rows, phases or {})
    return {subject: [(v.what, v.met) for v in each] for subject, each in found if each}


def test_the_better_of_torch_counts() -> None:
    rows = [
        row("copy", torch=1.0, torch_compile=1.1, hologram=1.0),
        row("exp", torch=1.0, torch_compile=0.97, hologram=1.0),
        row("gelu", torch=1.02, torch_compile=1.5, hologram=1.04),
    ]
    found = told(rows)
    to_torch = found["4. Element by element, to the better of torch eager and torch.compile"]
    assert to_torch == [("copy f32", True), ("exp f32", False), ("gelu f32", True)]
    assert found["4. The same, to the copy's bytes a second"] == [
        ("copy f32", True),
        ("exp f32", True),
        ("gelu f32", True),
    ]


def test_bytes_a_second_beside_the_copy_of_the_same_dtype() -> None:
    rows = [
        row("copy", torch=1.0, hologram=1.0, moved=200),
        row("copy", "bf16", torch=1.0, hologram=2.0, moved=200),
        row("sum", torch=1.0, hologram=0.53),
        row("sum", "bf16", torch=1.0, hologram=0.52),
    ]
    found = told(rows)["4. The same, to the copy's bytes a second"]
    assert found == [("copy f32", True), ("copy bf16", False), ("sum f32", False), ("sum bf16", True)]


def test_products_are_held_one_by_one_and_on_their_mean() -> None:
    rows = [row(f"product {i}", moved=0, work=9, torch=t, hologram=1.0) for i, t in enumerate((0.91, 0.92, 1.3))]
    rows.append(row("product 4", "bf16", moved=0, work=9, torch=0.49, hologram=1.0))
    found = told(rows)
    assert found["6. Products of f32, to cuBLAS without TF32"][-1] == ("geometric mean of f32", True)
    assert found["6. Products of bf16"] == [("product 4 bf16", False)]
    rows[2]["seconds"]["torch"] = 1.1
    assert told(rows)["6. Products of f32, to cuBLAS without TF32"][-1] == ("geometric mean of f32", False)


def test_calls_and_phases_have_most() -> None:
    rows = [row("add", moved=0, torch=7.0, hologram=4.3, tensors=2.0), row("exp", moved=0, torch=1.0, hologram=9.0)]
    found = told(rows, {'Executor("cuda") after the driver': 9.9, "a program of 20 instructions, compiled": 30.1})
    assert found["5. The host's time of a call on 1,024 elements, in torch's"] == [
        ("add, buffers", False),
        ("add, tensors", True),
    ]
    assert [met for _, met in found["5. First calls of a process"]] == [True, False]


def test_what_is_said() -> None:
    rows = [
        row("copy to the host, pinned", torch=1.0, hologram=2.0),
        row("copy to the host, plain", torch=1.0, hologram=9.0),
    ]
    lines = cuda_bounds.lines(cuda_bounds.verdicts(rows, {}))
    assert "- 6. Copies of 256 MB, to torch's pinned ones: 0 of 1 met" in lines
    assert "  - copy to the host, pinned f32: 0.50, ≥ 0.95: missed by 0.45" in lines
    assert "- 4. Sums of rows and cumsum: not measured" in lines
    kept = cuda_bounds.lines([("s", [cuda_bounds.Verdict("a", 1.2, 1.0), cuda_bounds.Verdict("b", 1.1, 1.0)])])
    assert kept == ["- s: met, all 2; the closest: b: 1.10, ≥ 1: met"]


@pytest.mark.parametrize("value, met", [(0.949, False), (0.95, True)])
def test_a_bound_is_met_where_it_is_reached(value: float, met: bool) -> None:
    assert cuda_bounds.Verdict("x", value, 0.95).met is met


@pytest.mark.parametrize(
    ("value", "bound", "most", "says"),
    [
        (0.9994, 1.0, False, "0.999, ≥ 1: missed by 0.001"),
        (0.9995, 1.0, False, "0.9995, ≥ 1: missed by 0.0005"),
        (0.99999, 1.0, False, "0.99999, ≥ 1: missed by 0.00001"),
        (0.95, 0.98, False, "0.95, ≥ 0.98: missed by 0.03"),
        (0.9799, 0.98, False, "0.9799, ≥ 0.98: missed by 0.0001"),
        (1.0004, 1.0, False, "1.00, ≥ 1: met"),
        (1.0004, 1.0, True, "1.0004, ≤ 1: missed by 0.0004"),
        (0.604, 0.6, True, "0.604, ≤ 0.6: missed by 0.004"),
        (0.9996, 1.0, True, "1.00, ≤ 1: met"),
    ],
)
def test_a_miss_shows(value: float, bound: float, most: bool, says: str) -> None:
    assert str(cuda_bounds.Verdict("x", value, bound, most)) == f"x: {says}"


def test_the_fastest_of_torch_counts_for_its_tensors() -> None:
    rows = [
        {"name": "add", "ratios": {"torch": 0.66}, "bound": 1.0},
        {"name": "softmax", "ratios": {"torch": 1.0004, "torch.compile": 0.4}, "bound": 1.0},
        {"name": "Adam", "ratios": {"torch": 0.5, "torch, fused Adam": 1.3}, "bound": None},
        {"name": "SGD", "ratios": {"torch": 0.9}, "bound": None},
    ]
    assert cuda_bounds.fastest_of_torch(rows) == [
        "- Time in that of the fastest of torch: 1 of 2 met",
        "  - softmax, to torch: 1.0004, ≤ 1: missed by 0.0004",
        "- Without a bound: 1 of 2 take longer than the fastest of torch",
        "  - Adam, to torch, fused Adam: 1.30",
    ]
    assert cuda_bounds.fastest_of_torch(rows[:1]) == [
        "- Time in that of the fastest of torch: met, all 1; the closest: add, to torch: 0.66, ≤ 1: met"
    ]


def test_why_cupy_is_missing() -> None:
    rows = [row("add", torch=1.0, hologram=1.0), row("exp", torch=1.0, hologram=1.0)]
    assert cuda_bounds.of_cupy("its import failed: No module named 'cupy'", rows) == (
        "CuPy was not timed: its import failed: No module named 'cupy'."
    )
    rows[0]["seconds"]["cupy"] = 1.0
    assert cuda_bounds.of_cupy("13.6", rows) == "CuPy 13.6 was timed in 1 rows."
    rows[1]["cupy"] = "OSError('no nvrtc')"
    assert cuda_bounds.of_cupy("13.6", rows) == (
        "CuPy 13.6 was timed in 1 rows. Its call raised OSError('no nvrtc') in 1: exp f32."
    )


def test_the_sentence_of_the_readme(tmp_path: Path) -> None:
    """Its ranges show what misses 1, and it takes the place of the one before it."""
    kinds = "copy", "add", "chain of five", "softmax 8×9", "layer_norm 8×9", "sums of rows 8×9"
    rows = [row(kind, torch=1.0, hologram=1.0) for kind in kinds]
    rows += [row("cumsum 8×9", torch=t, hologram=1.0) for t in (0.9995, 1.2)]
    rows += [row("product", dtype, work=9, torch=t, hologram=1.0) for dtype, t in (("f32", 0.99), ("bf16", 0.52))]
    rows.append(row("exp", moved=0, torch=1.0, hologram=0.3, tensors=1.0004))
    record = {"machine": {"device": "NVIDIA X", "torch": "2.0"}, "rows": rows}
    said = " ".join(cuda_bounds.sentence(record).split())
    for words in (
        "On one NVIDIA X",
        "cumsum 0.9995 to 1.20",
        "products of f32 have 0.99 (without TF32), those of bf16 0.52.",
        "take the host 0.30 of the time of torch's calls, those on torch's tensors 1.0004.",
    ):
        assert words in said
    page = tmp_path / "README.md"
    page.write_text("before\n<!-- gpu: begin (of it) -->\nold\nfigures\n<!-- gpu: end -->\nafter\n", "utf-8")
    readme_figures.write(record, page)
    text = f"before\n<!-- gpu: begin (of it) -->\n{cuda_bounds.sentence(record)}\n<!-- gpu: end -->\nafter\n"
    assert page.read_text("utf-8") == text
    page.write_text("no marks", "utf-8")
    with pytest.raises(ValueError, match="no marks"):
        readme_figures.write(record, page)
