"""docs/TORCH.md is true: its examples run, and its table is the operations'."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

from hologram_torch._table import ROWS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "TORCH.md"
TEXT = PAGE.read_text(encoding="utf-8")


def written() -> str:
    """The table's rows."""
    formulas = [row.formula.replace("|", r"\|") for row in ROWS]
    gradients = ["written" if row.slopes else "derived" for row in ROWS]
    return "\n".join(f"| `{row.name}` | {f} | {g} |" for row, f, g in zip(ROWS, formulas, gradients))


MARKED = re.compile(r"(<!-- operations: begin .*?-->\n)(.*?)(<!-- operations: end -->)", re.DOTALL)


def test_table() -> None:
    found = MARKED.search(TEXT)
    assert found is not None
    assert found[2].strip() == written()


def test_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    """What a page's blocks print is in the comments beside."""
    for page in (PAGE, ROOT / "README.md"):
        space: dict[str, object] = {}
        for block in re.findall(r"^```py\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            name = f"<{page.name}: {hash(block)}>"
            linecache.cache[name] = len(block), None, block.splitlines(True), name  # kernels are made from source
            exec(compile(block, name, "exec"), space)
            expected = re.findall(r"^ *print\(.*\)  # (.*)$", block, re.MULTILINE)
            assert capsys.readouterr().out.splitlines() == expected


if __name__ == "__main__":  # make the table anew
    PAGE.write_text(MARKED.sub(lambda found: f"{found[1]}{written()}\n{found[3]}", TEXT), encoding="utf-8")
