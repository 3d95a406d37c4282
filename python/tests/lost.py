"""A device that is lost: who says so, and what goes on. For test_asynctest.py, which has such a one."""

from __future__ import annotations

import numpy as np
import pytest

import hologram as hg
from hologram import ops

LOST = "only a new process can use it again"


def test_every_executor_says_what_failed_first(ex: hg.Executor) -> None:
    one, two = hg.Executor("asynctest-lost"), hg.Executor("asynctest-lost")
    p = hg.Program("program last_work\nslot a f32\nldg.f32 x, a[index]\nstg.f32 x, a[index]\nexit")
    x, y = one.from_numpy(np.ones(8, np.float32)), two.from_numpy(np.ones(8, np.float32))
    with pytest.raises(hg.DeviceLostError, match=f'launch "last_work": .*{LOST}'):
        for _ in range(200):
            one.launch(p, a=x)
        one.synchronize()
    first = 'launch "last_work"'
    future = None
    for use in (
        lambda: ops.relu(y),
        lambda: y.to_numpy(),
        lambda: two.launch(p, a=y),
        lambda: two.allocate(1 << 26),
        lambda: y.from_numpy(np.ones(8, np.float32)),
        lambda: two.record().synchronize(),
        lambda: two.submit(ops.reduce_sum, y).result(),
        lambda: hg.Executor("asynctest-lost"),
    ):
        for _ in range(2):
            with pytest.raises(hg.DeviceLostError, match=LOST) as caught:
                use()
                two.synchronize()
                raise AssertionError(f"{use} did not say so")
            assert first in str(caught.value)
            assert isinstance(caught.value, RuntimeError)
    del future
    for each in (one, two):
        try:
            each.cleanup()
        except hg.DeviceLostError:
            pass
    # Others are as they were.
    z = ex.from_numpy(np.ones(8, np.float32))
    assert ops.reduce_sum(z) == 8
