"""Operations on rows whose outputs are the identical array as something that they read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram import ops

# Operands by what they have an element for: all (a), a place in a row (p), a row (r); outputs in capitals.
ROWS: dict[str, dict[str, str]] = {
    "layer_norm": {"input": "a", "weight": "p", "bias": "p", "mean": "R", "variance": "R", "output": "A"},
    "rms_norm": {"input": "a", "weight": "p", "squares": "R", "output": "A"},
    "layer_norm_gradient": {
        **{"gradient": "a", "input": "a", "weight": "p", "mean": "r", "variance": "r"},
        **{"product": "A", "output": "A"},
    },
    "rms_norm_gradient": {"gradient": "a", "input": "a", "weight": "p", "squares": "r", "product": "A", "output": "A"},
    "log_softmax": {"input": "a", "output": "A"},
    "log_softmax_gradient": {"gradient": "a", "result": "a", "output": "A"},
    "softmax_gradient": {"gradient": "a", "result": "a", "output": "A"},
}


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (1, 5), (80, 1), (80, 80), (300, 300), (1, 600), (1, 8200)])
@pytest.mark.parametrize("name", ROWS)
def test_an_output_that_is_an_input(ex: hg.Executor, name: str, shape: tuple[int, int]) -> None:
    """It is refused, whatever the sizes, or changes no result: arrays of all elements may be, others may not."""
    rows, cols = shape
    operands = ROWS[name]

    def call(values: dict[str, Any], **other: str) -> dict[str, bytes]:
        arrays = {k: ex.from_numpy(v) for k, v in values.items()}
        for k, of in other.items():
            arrays[k] = arrays[of]
        eps = [] if "softmax" in name else [1e-3]
        getattr(ops, name)(ex, *arrays.values(), *eps, axis=1)
        return {k: arrays[k].to_numpy().tobytes() for k, share in operands.items() if share.isupper()}

    for weights in ((cols,), (1, cols), (rows, 1), shape):
        rng = np.random.default_rng(3)
        shapes = {"a": shape, "p": weights, "r": (rows,)}
        values = {k: rng.random(shapes[share.lower()], np.float32) for k, share in operands.items()}
        apart = call(values)
        for output, share in operands.items():
            for read, other in operands.items():
                if not share.isupper() or other.isupper() or values[read].shape != values[output].shape:
                    continue
                if share == "A" and other == "a":
                    assert call(values, **{output: read}) == apart, (output, read, weights)
                else:
                    with pytest.raises(ValueError, match=f"{name}: {output} overlaps {read} in memory"):
                        call(values, **{output: read})
        if "p" not in operands.values():
            break
