"""A GPU that a kernel of others has brought into a state that no call mends: errors that say so, and a new process."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import DEVICE

pytestmark = pytest.mark.skipif(DEVICE != "cuda", reason="no other device is lost")

USE = """
import numpy as np, hologram as hg
ex, other = hg.Executor("cuda"), hg.Executor("cuda")
a, b = ex.from_numpy(np.ones(1000, np.float32)), other.from_numpy(np.ones(1000, np.float32))
hg.ops.vector_add(ex, a, a, a)
assert a.to_numpy()[0] == 2
"""

# What ctypes launches in the primary context, which is everybody's: a store to an address where nothing is.
ASTRAY = """
import ctypes
text = b'''.version 6.3
.target sm_75
.address_size 64
.visible .entry astray()
{
	.reg .b64 %a;
	mov.u64 %a, 64;
	st.global.u64 [%a], %a;
	ret;
}
\\0'''
cuda = ctypes.CDLL("libcuda.so.1")
device, context, module, function = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
assert cuda.cuCtxPushCurrent_v2(context) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), text) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"astray") == 0
assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
assert cuda.cuCtxSynchronize() == 700  # CUDA_ERROR_ILLEGAL_ADDRESS
assert cuda.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
"""

AFTER = """
def lost(what, call):
    try:
        call()
    except hg.DeviceLostError as error:
        assert "only a new process can use it again" in str(error), error
        print(what, "raises")
    else:
        print(what, "does not raise")

def queue_and_wait(e, x):
    hg.ops.vector_add(e, x, x, x)
    e.synchronize()

lost("an operation", lambda: queue_and_wait(ex, a))
lost("another executor's", lambda: queue_and_wait(other, b))
lost("a copy", a.to_numpy)
lost("a large allocation", lambda: ex.allocate(1 << 28))
lost("a new executor", lambda: hg.Executor("cuda").from_numpy(np.ones(1 << 22, np.float32)))
print("still here")
"""


def test_each_call_says_that_the_device_is_lost_until_a_new_process() -> None:
    done = subprocess.run([sys.executable, "-c", USE + ASTRAY + AFTER], capture_output=True, text=True, timeout=100)
    assert done.stdout.splitlines() == [
        "an operation raises",
        "another executor's raises",
        "a copy raises",
        "a large allocation raises",
        "a new executor raises",
        "still here",
    ], done.stdout + done.stderr
    assert done.returncode == 0, done.stderr
    again = subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, timeout=100)
    assert again.returncode == 0, again.stderr
