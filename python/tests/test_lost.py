"""A GPU that is lost by an access to memory that is not there, in a process that is not needed any more.

lost.py has the same on a simulated device.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hologram as hg

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
import hologram as hg
from exchange import Exchange
from hologram import ops

one, two = hg.Executor("cuda"), hg.Executor("cuda")
x = two.from_numpy(np.ones(1024, np.float32))
two.synchronize()
if {who!r} == "torch":
    import torch
    bad = torch.tensor([10**9], device="cuda")
    try:
        torch.zeros(4, device="cuda")[bad]
        torch.cuda.synchronize()
    except RuntimeError as error:
        print("torch said:", error)
else:
    kind = Exchange().type
    wild = kind(np.empty(1024, np.float32), device_type=2, data=0x10)
    ops.vector_add(one, wild, wild, wild)
told = []
for use in (one.synchronize, two.synchronize, x.to_numpy, lambda: ops.relu(x).to_numpy(), lambda: hg.Executor("cuda"),
            lambda: two.allocate(1 << 28), lambda: two.submit(ops.reduce_sum, x).result()):
    try:
        use()
        told.append("nothing")
    except hg.DeviceLostError as error:
        told.append("lost")
        assert "only a new process can use it again" in str(error), error
        print("said:", error)
    except Exception as error:
        told.append(repr(error))
print("told:", told)
assert {who!r} == "torch" or "lost" in told[:2], told
assert set(told[2:]) == {{"lost"}}, told
with hg.Executor("cpu") as host:
    assert ops.reduce_sum(host.from_numpy(np.ones(4, np.float32))) == 4
print("as it should be", flush=True)
"""


@pytest.mark.parametrize("who", ["hologram", "torch"])
def test_a_gpu_is_lost_in_its_process_alone(who: str) -> None:
    if not hg.is_cuda_available():
        pytest.skip("no GPU of NVIDIA's here")
    if who == "torch":
        torch = pytest.importorskip("torch", reason="torch is not installed")
        if not torch.cuda.is_available():
            pytest.skip("torch has no GPU here")
    script = SCRIPT.format(folder=str(Path(__file__).parent), who=who)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "as it should be" in done.stdout, done.stdout + done.stderr
    if who == "hologram":
        assert "vector_add" in done.stdout
    with hg.Executor("cuda") as ex:
        assert hg.ops.reduce_sum(ex.from_numpy(np.ones(4, np.float32))) == 4
