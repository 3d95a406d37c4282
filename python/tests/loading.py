"""The first use of a program on a device that loads code only when all that is queued is done, as CUDA's may.

Run by test_asynctest. Each script has an endless launch at work, and a program that was not used yet.
"""

from __future__ import annotations

import pytest
from test_process import FOREVER, passes

HEAD = f"""
from hologram._ffi import native
other, ex = hg.Executor(DEVICE), hg.Executor(DEVICE)
assert ex.asynchronous
c, x = other.allocate(64, "u32"), ex.from_numpy(np.ones(8, np.float32))
c.fill(0)
other.synchronize()
fresh = hg.Program("program fresh\\nslot x f32\\nldg.f32 v, x[index]\\nadd.f32 v, v, v\\nstg.f32 v, x[index]\\nexit")
def endless():
    other.launch(hg.Program({FOREVER!r}), c=c, n=64)
def works():
    other.cancel()
    ex.launch(fresh, x=x)
    assert (x.to_numpy() == 2).all()
told = []
def call():
    try:
        ex.launch(fresh, x=x)
        told.append(None)
    except BaseException as error:
        told.append(error)
"""


def test_ctrl_c() -> None:
    out = passes(
        HEAD
        + """
endless()
def interrupt():
    time.sleep(0.3)
    print(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    ex.launch(fresh, x=x)
    sys.exit("no KeyboardInterrupt")
except KeyboardInterrupt:
    print(time.monotonic())
works()
"""
    )
    sent, came = map(float, out.split())
    assert came - sent < 2


@pytest.mark.parametrize("way", ["ex.cancel()", "ex.cleanup()", "native.clear_all()"])
def test_another_thread_ends_it(way: str) -> None:
    passes(
        HEAD
        + f"""
endless()
t = threading.Thread(target=call)
t.start()
time.sleep(0.2)
assert not told
try:
    {way}
except hg.errors.LaunchCancelledError:
    pass  # of the endless launch, which nobody has seen
t.join(10)
assert not t.is_alive(), "it does not end"
assert isinstance(told[0], (hg.errors.LaunchCancelledError, hg.errors.FreedError)), told
if {way!r} == "ex.cancel()":
    works()
"""
    )


def test_a_handler_that_launches_it_too() -> None:
    passes(
        HEAD
        + """
endless()
def tick(*_):
    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    ex.launch(fresh, x=x)
def stop(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    ex.launch(fresh, x=x)
    sys.exit("no KeyboardInterrupt")
except KeyboardInterrupt:
    pass
works()
"""
    )


def test_threads_that_want_the_same() -> None:
    passes(
        HEAD
        + """
endless()
threads = [threading.Thread(target=call) for _ in range(4)]
for t in threads:
    t.start()
time.sleep(0.2)
assert not told
other.cancel()
for t in threads:
    t.join()
assert told == [None] * 4, told
assert (x.to_numpy() == 16).all()
"""
    )


@pytest.mark.parametrize("left", [False, True])
def test_the_interpreter_ends(left: bool) -> None:
    """While a daemon thread waits for it, or after all have left it."""
    passes(
        HEAD
        + f"""
endless()
if {left}:
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        ex.launch(fresh, x=x)
    except KeyboardInterrupt:
        pass
else:
    threading.Thread(target=call, daemon=True).start()
    time.sleep(0.2)
assert not told
"""
    )


def test_a_fork() -> None:
    passes(
        HEAD
        + """
import warnings
warnings.simplefilter("ignore")
endless()
t = threading.Thread(target=call)
t.start()
time.sleep(0.2)
pid = os.fork()
if pid == 0:
    try:
        ex.launch(fresh, x=x)
    except hg.errors.ForkError:
        os._exit(0)
    finally:
        os._exit(1)
_, status = os.waitpid(pid, 0)
assert status == 0, status
other.cancel()
t.join()
assert told == [None], told
"""
    )
