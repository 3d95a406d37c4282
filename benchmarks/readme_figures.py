"""Write what README.md says of an NVIDIA GPU anew, from benchmarks/results/cuda.json.

    python3 benchmarks/readme_figures.py

It needs neither a GPU nor any package: for a record that another machine made. ./build.sh bench cuda does it by itself.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import cuda_bounds

ROOT = Path(__file__).resolve().parents[1]
README, RECORD = ROOT / "README.md", ROOT / "benchmarks" / "results" / "cuda.json"
PLACE = re.compile(r"(<!-- gpu: begin[^>]*-->\n)(.*?)(<!-- gpu: end -->)", re.DOTALL)


def said(readme: Path = README) -> str:
    """What stands between the marks."""
    found = PLACE.search(readme.read_text("utf-8"))
    if not found:
        raise ValueError(f"{readme} has no marks <!-- gpu: begin --> and <!-- gpu: end -->")
    return found[2]


def write(record: dict[str, Any], readme: Path = README) -> None:
    """Put a record's sentence between the marks."""
    said(readme)
    sentence = cuda_bounds.sentence(record)
    text = PLACE.sub(lambda m: f"{m[1]}{sentence}\n{m[3]}", readme.read_text("utf-8"))
    readme.write_text(text, "utf-8")


if __name__ == "__main__":
    write(json.loads(RECORD.read_text("utf-8")))
    print(f"wrote {README} from {RECORD}")
