"""The record of ./build.sh bench kernels, and what is said of it."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import kernels_cpu
import report

ROOT = Path(__file__).parents[2]

ROW = {
    "workload": "chain, 1 thread",
    "kernel": "chain",
    "threads": 1,
    "n": 1024,
    "seconds": {
        "hologram": 2e-6,
        "torch.compile": 5e-6,
        "numexpr": 9e-6,
        "hologram, anew": 4e-6,
        "torch.compile, anew": 3e-6,
    },
}


def record():
    return json.loads((ROOT / "benchmarks" / "results" / "kernels.json").read_text("utf-8"))


def test_a_speed_is_that_of_the_fastest_form_of_any_other():
    assert kernels_cpu.speed(ROW) == pytest.approx(1.5)
    assert kernels_cpu.anew(ROW) == pytest.approx(0.75)
    assert report.speeds({"rows": [ROW]}) == {"chain, 1 thread 1024": pytest.approx(1.5)}


def test_the_tables_leave_empty_what_a_library_lacks():
    other = {**ROW, "workload": "gelu, 1 thread", "n": 2048, "seconds": {**ROW["seconds"], "torch": 1.5e-6}}
    text = kernels_cpu.report([ROW, other], [{"kernel": "chain", "instructions": 10, "hologram": 0.0012}], "Here.")
    assert "Mean of all 2 points: 1.06; 1 of them are below 1." in text
    assert "| chain, 1 thread | 1.50 | 1.50 |  |" in text
    assert "| gelu, 1 thread | 0.75 |  | 0.75 |" in text
    assert "| chain | 10 | 1.20 |  |  |" in text
    assert "| chain, 1 thread | 1,024 | 1.50 | 0.75 | 2.00 | 5.00 | 9.00 | 4.00 | 3.00 |  |" in text


def test_the_text_is_that_of_the_record():
    found = record()
    text = kernels_cpu.report(found["rows"], found["compiling"], found["about"])
    assert (ROOT / "benchmarks" / "results" / "kernels.md").read_text("utf-8") == text


def test_every_example_is_in_the_record():
    kernels = {"chain", "twelve", "gelu", "diffuse", "black_scholes", "mandelbrot"}
    text = (ROOT / "examples" / "kernels.py").read_text("utf-8")
    assert all(f"@hologram.kernel\ndef {name}(" in text for name in kernels)
    assert text.count("@hologram.kernel") == len(kernels)
    rows = record()["rows"]
    for kernel in kernels:
        assert {row["n"] for row in rows if row["kernel"] == kernel} >= set(kernels_cpu.QUICK_SIZES)
    assert {row["kernel"] for row in record()["compiling"]} == kernels
