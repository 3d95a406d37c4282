"""docs/TORCH.md is true: its examples run, its table is the operations', and its lists are what there is."""

from __future__ import annotations

import inspect
import linecache
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from hologram_torch import functional as F
from hologram_torch import nn
from hologram_torch._table import ROWS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "TORCH.md"
TEXT = PAGE.read_text(encoding="utf-8")


def written() -> str:
    """The table's rows."""
    formulas = [row.formula.replace("|", r"\|") for row in ROWS]
    gradients = ["written" if row.slopes else "derived" for row in ROWS]
    return "\n".join(f"| `{row.name}` | {f} | {g} |" for row, f, g in zip(ROWS, formulas, gradients))


def with_out() -> str:
    """The functions that take out=."""
    found = [name for name in F.__all__ if "out" in inspect.signature(getattr(F, name)).parameters]
    return listed("`out=` is taken by ", found, ", and not by the others.")


def layers() -> str:
    return listed("There are ", nn.__all__, ".")


def listed(before: str, names: Sequence[str], after: str) -> str:
    """A sentence with a list of names in order."""
    *most, last = [f"`{name}`" for name in sorted(names, key=str.lower)]
    return textwrap.fill(f"{before}{', '.join(most)} and {last}{after}", 119, break_on_hyphens=False)


MADE = {"operations": written, "out": with_out, "layers": layers}
"""What makes the parts of the page that are marked with a name."""


def marked(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: begin .*?-->\n)(.*?)(<!-- {name}: end -->)", re.DOTALL)


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_is_up_to_date(name: str) -> None:
    found = marked(name).search(TEXT)
    assert found is not None
    assert found[2].strip() == MADE[name]()


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


if __name__ == "__main__":  # make what is marked anew
    for part, make in MADE.items():
        before, begin, _, end, after = marked(part).split(TEXT)
        TEXT = f"{before}{begin}{make()}\n{end}{after}"
    PAGE.write_text(TEXT, encoding="utf-8")
