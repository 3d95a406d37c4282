"""Show that a row of a product is the same in every batch, and that torch's is not.

    python examples/batches.py

It multiplies a batch of 1, 2, 16 and 512 rows by one matrix, and counts how many
of the first row's results differ from those it has alone.
"""

from __future__ import annotations

import numpy as np

import hologram as hg

try:
    import torch
except ImportError:
    torch = None

K, N, BATCHES = 1024, 1024, (1, 2, 16, 512)


def main() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCHES[-1], K)).astype(np.float32)
    w = rng.standard_normal((K, N)).astype(np.float32)
    alone: dict[str, np.ndarray] = {}
    with hg.Executor("cpu") as ex:
        for m in BATCHES:
            y = np.empty((m, N), np.float32)
            hg.ops.gemm(ex, x[:m], w, y, m, N, K)
            rows = {"hologram": y[0]}
            if torch is not None:
                rows["torch"] = (torch.from_numpy(x[:m]) @ torch.from_numpy(w))[0].numpy()
            for name, row in rows.items():
                first = alone.setdefault(name, row)
                print(f"{name}, batch of {m}: {np.count_nonzero(row != first)} of {N} differ")
    if torch is None:
        print("torch is not installed")


if __name__ == "__main__":
    main()
