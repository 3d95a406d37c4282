"""The orders of sums and products, in numpy, as docs/REDUCTIONS.md states them: its functions are the reference."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Callable

import numpy as np

PAGE = Path(__file__).resolve().parents[2] / "docs" / "REDUCTIONS.md"


def functions() -> dict[str, Callable[..., Any]]:
    """Return the functions that the page's Python blocks define."""
    namespace: dict[str, Any] = {"np": np}
    for block in PAGE.read_text(encoding="utf-8").split("```python\n")[1:]:
        tree = ast.parse(block.split("```")[0])
        tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        exec(compile(tree, str(PAGE), "exec"), namespace)
    return namespace


fma = functions()["fma"]
ordered_sum = functions()["ordered_sum"]
ordered_product = functions()["ordered_product"]
