"""Operations on places that stand in memory, classes and rows of tables: what is none is named, and where it stands."""

from __future__ import annotations

import re
from typing import Any, Callable

import numpy as np
import pytest

import hologram as hg
from hologram import ops

Array = Any
CALLS: dict[str, Callable[[hg.Executor, Array], None]] = {
    "nll: target": lambda ex, i: ops.nll(
        ex, np.ones((*i.shape, 4)), i, 1.0, np.empty(i.shape), np.empty(i.shape), -100
    ),
    "nll_gradient: target": lambda ex, i: ops.nll_gradient(
        ex, np.ones(i.shape), i, 1.0, 1.0, np.empty((*i.shape, 4)), -100
    ),
    "cross_entropy_gradient: target": lambda ex, i: ops.cross_entropy_gradient(
        ex,
        np.ones(i.shape),
        i,
        1.0,
        1.0,
        np.ones((*i.shape, 4)),
        np.ones(i.shape),
        np.ones(i.shape),
        np.empty((*i.shape, 4)),
        -100,
    ),
    "cross_entropy: target": lambda ex, i: ops.cross_entropy(
        ex,
        np.ones((*i.shape, 4)),
        i,
        1.0,
        np.ones(i.shape),
        np.ones(i.shape),
        np.empty(i.shape),
        np.empty(i.shape),
        -100,
    ),
    "embedding: index": lambda ex, i: ops.embedding(ex, np.ones((4, 3)), i, np.empty((*i.shape, 3))),
    "embedding: index, of wide rows": lambda ex, i: ops.embedding(ex, np.ones((4, 700)), i, np.empty((*i.shape, 700))),
}
LAYOUTS: dict[str, Callable[[], Array]] = {
    "a row": lambda: np.zeros(5, np.int64),
    "a stack": lambda: np.zeros((2, 3, 5), np.int64),
    "every other": lambda: np.zeros((6, 10), np.int64)[::2, ::2],
    "reversed": lambda: np.zeros((4, 5), np.int64)[:, ::-1],
    "transposed": lambda: np.zeros((5, 4), np.int64).T,
}


@pytest.mark.parametrize("backend", ["cpu", "interp"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("call", CALLS)
def test_what_is_no_place_is_named(call: str, layout: str, backend: str) -> None:
    name = call.partition(",")[0]
    with hg.Executor(backend) as ex:
        for wrong in (4, -1, 1 << 40, -(1 << 62)):
            for end in (0, -1):
                index = LAYOUTS[layout]()
                CALLS[call](ex, index)
                index[(end,) * index.ndim] = wrong
                at = [end % n for n in index.shape]
                said = f"{name}{at} is {wrong}; expected 0 to 3; the launch ran to its end"
                with pytest.raises(hg.ProgramFault, match="^" + re.escape(said)):
                    CALLS[call](ex, index)
