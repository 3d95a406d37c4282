"""Threads that call, free and close what others use, under signals and beside forks.

HOLOGRAM_STRESS is how many seconds this goes on; 3 without it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support import DEVICE

SECONDS = float(os.environ.get("HOLOGRAM_STRESS", "3"))

SCRIPT = """
import os, random, signal, sys, threading, time
import numpy as np
import hologram as hg
DEVICE, SECONDS = sys.argv[1], float(sys.argv[2])
from hologram import errors
GONE = (errors.FreedError,)
ADD = hg.Program("program add\\nslot a f32\\nslot b f32\\nslot c f32\\nldg.f32 x, a[index]\\nldg.f32 y, b[index]\\n"
                 "add.f32 x, x, y\\nstg.f32 x, c[index]\\nexit")
LONG = hg.Program("program long\\nslot c f32\\nparam k u32\\nldp.u32 k, k\\nmov.f32 x, 0\\nloop k, done\\n"
                  "add.f32 x, x, 1\\nstg.f32 x, c[index]\\ndone:\\nexit")
shared = hg.Executor(DEVICE)
visible = shared.host_visible
mine = shared.from_numpy(np.full(700, 3, np.float32))
pool, lock = [shared.from_numpy(np.ones(500, np.float32)) for _ in range(8)], threading.Lock()
end, wrong, counts = time.monotonic() + SECONDS, [], {}

def small(ex, rng):
    n = rng.choice((1, 7, 1024, 5000))
    x = np.full(n, rng.randrange(100), np.float32)
    if visible:
        out = np.zeros(n, np.float32)
        hg.ops.vector_add(ex, x, x, out)
    else:
        a, c = ex.from_numpy(x), ex.allocate(n)
        hg.ops.vector_add(ex, a, a, c)
        out = c.to_numpy()
    assert (out == 2 * x).all(), "vector_add"

def large(ex, rng):
    # What C makes without the GIL, on one thread.
    x, out = np.full((2, 1 << 18), rng.randrange(100), np.float32)
    for _ in range(6):
        hg.ops.sigmoid(ex, x, out) if visible else small(ex, rng)
    if visible:
        hg.ops.vector_add(ex, x, x, out)
        assert (out == 2 * x).all(), "large"

def launch(ex, rng):
    out = ex.allocate(700)
    ex.launch(ADD, a=mine if ex is shared else ex.from_numpy(np.full(700, 3, np.float32)), b=out, c=out)
    assert (out.to_numpy() == 3).all(), "launch"
    if rng.random() < 0.5:
        out.free()

def total(ex, rng):
    n = rng.choice((3, 255, 20000))
    x, out = ex.from_numpy(np.ones(n, np.float32)), ex.allocate(3)
    assert hg.ops.reduce_sum(ex, x, out) == n, "reduce_sum"

def long(ex, rng):
    out = ex.allocate(1 << 12)
    ex.launch(LONG, c=out, k=300)
    assert (out.to_numpy() == 300).all(), "long"

def freed(ex, rng):
    # What another thread may free at any moment is used, or refused.
    with lock:
        b = rng.choice(pool)
    try:
        out = shared.allocate(500)
        hg.ops.vector_add(shared, b, b, out)
        assert (out.to_numpy() == 2).all(), "a freed buffer"
    except GONE:
        pass

def free(ex, rng):
    fresh = shared.from_numpy(np.ones(500, np.float32))
    with lock:
        i = rng.randrange(len(pool))
        old, pool[i] = pool[i], fresh
    old.free()

def closed(ex, rng):
    other = hg.Executor(DEVICE)
    b, wide = other.allocate(100), np.zeros(1 << 18, np.float32)
    t = threading.Thread(target=other.cleanup)
    t.start()
    try:
        for _ in range(5):
            hg.ops.scalar_add(other, b, b, 1)
            if visible:
                hg.ops.sigmoid(other, wide, wide)
    except (*GONE, errors.LaunchCancelledError):
        pass
    t.join()

def run(seed):
    rng = random.Random(seed)
    ex = hg.Executor(DEVICE)
    todo = (small, small, small, large, launch, total, long, freed, free, closed)
    while time.monotonic() < end and not wrong:
        f = rng.choice(todo)
        try:
            f(rng.choice((ex, shared)), rng)
            counts[f.__name__] = counts.get(f.__name__, 0) + 1
        except BaseException as error:
            wrong.append(f"{f.__name__}: {type(error).__name__}: {error}")
    ex.cleanup()

handled = inside = 0
def handler(*_):
    global handled, inside
    if inside == 3:  # signals come faster than they are handled
        return
    inside += 1
    x = shared.allocate(5)
    hg.ops.scalar_add(shared, x, x, 1)
    assert (x.to_numpy() == 1).all(), "in a handler"
    handled += 1
    inside -= 1
signal.signal(signal.SIGALRM, handler)
threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
for t in threads: t.start()
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
forks = 0
while time.monotonic() < end and not wrong:
    small(shared, random)
    if random.random() < 0.01:
        child = os.fork()
        if not child:
            signal.setitimer(signal.ITIMER_REAL, 0)
            try:
                hg.Executor(DEVICE)
            except errors.ForkError:
                os._exit(7)
            os._exit(1)
        assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 7
        forks += 1
signal.setitimer(signal.ITIMER_REAL, 0)
for t in threads: t.join()
shared.cleanup()
if wrong: sys.exit("; ".join(wrong[:3]))
print(handled, forks, counts)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither fork nor interval timers")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("workers", ["1", ""], ids=["one worker", "all"])
def test_threads_against_free_close_fork_and_signals(workers: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore::DeprecationWarning", "-c", SCRIPT, DEVICE, str(SECONDS)],
        env={**os.environ, **({"HOLOGRAM_NUM_THREADS": workers} if workers else {})},
        capture_output=True,
        text=True,
        timeout=SECONDS + 120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    handled, forks, *_ = done.stdout.split()
    assert int(handled) > 0 and int(forks) >= 0
