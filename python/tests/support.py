"""What the test modules import: the backend under test, the dtypes, and buffers with values."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import hologram as hg

DEVICE = os.environ.get("HOLOGRAM_TEST_BACKEND", "cpu")

DTYPES = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"]

from_dlpack = getattr(np, "from_dlpack", None) or np._from_dlpack  # its name in numpy 1.22


def buffer(ex: hg.Executor, values: Any, dtype: Any = np.float32) -> hg.Buffer:
    """A buffer with the given values."""
    return ex.from_numpy(np.asarray(values, dtype=dtype))
