"""A row's numbers are the same in every batch, and a training's losses on every device, to the bit."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import DEVICE, numbers

import hologram as hg
from hologram import ops

BATCHES = (1, 7, 4096)
K, N = (4096, 4096) if DEVICE == "cuda" else (1100, 16)


def rows_of_product(ex: hg.Executor, x: np.ndarray[Any, Any], w: np.ndarray[Any, Any], m: int) -> bytes:
    c = ex.allocate(m * N)
    ops.gemm(ex, ex.from_numpy(x[:m]), ex.from_numpy(w), c, m, N, K)
    return c.to_numpy()[:N].tobytes()


def rows_of_softmax(ex: hg.Executor, x: np.ndarray[Any, Any], w: np.ndarray[Any, Any], m: int) -> bytes:
    c = ex.allocate(m * K)
    ops.softmax_rows(ex, ex.from_numpy(x[:m]), c, m, K)
    return c.to_numpy()[:K].tobytes()


@pytest.mark.parametrize("of", [rows_of_product, rows_of_softmax])
def test_a_row_is_the_same_in_batches_of_1_7_and_4096(ex: hg.Executor, host: hg.Executor, of: Any) -> None:
    x, w = numbers("f32", 4096 * K, 1).reshape(4096, K), numbers("f32", K * N, 2).reshape(K, N)
    assert len({of(e, x, w, m) for e in (ex, host) for m in BATCHES}) == 1


@pytest.mark.skipif(DEVICE != "cuda", reason="it is of torch's products on a GPU")
def test_torchs_differ(record_property: Any) -> None:
    """What the test above asks for is nothing that comes by itself."""
    torch = pytest.importorskip("torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    x, w = (torch.from_numpy(numbers("f32", 4096 * 4096, i)).view(4096, 4096).cuda() for i in (1, 2))
    alone, among = (x[:1] @ w)[0], (x @ w)[0]
    differ = int((alone != among).sum())
    print(f"of row 0 of a product, alone and among 4,096, {differ} of 4,096 numbers differ in torch")
    record_property("differ", differ)
    assert differ > 0


def test_losses_are_the_same_on_every_device(ex: hg.Executor, host: hg.Executor) -> None:
    """Those of examples/digits.py, whose images have nothing that noise with a pattern has not."""
    digits = runpy.run_path(str(Path(__file__).resolve().parents[2] / "examples" / "digits.py"))
    rng = np.random.default_rng(3)
    y = rng.integers(0, 10, 4 * digits["BATCH"])
    x = rng.random((len(y), 65), np.float32) / 2 + np.eye(10, 65, dtype=np.float32)[y]
    w1, w2 = (rng.standard_normal(s).astype(np.float32) / 8 for s in ((65, digits["HIDDEN"]), (digits["HIDDEN"], 10)))
    curves = [digits["train"](digits["Network"](e, w1, w2), x, y, 20, 0, "")[0] for e in (ex, host)]
    assert curves[0] == curves[1]
    assert curves[0][-1] < curves[0][0] / 2
