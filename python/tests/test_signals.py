"""Launches in signal handlers and finalizers, against launches: none is lost, none hangs, nothing is left.

HOLOGRAM_TEST_SIGNALS chooses how many signals come; the suite takes few, and a million take some minutes.
"""

from __future__ import annotations

import os

import pytest
from support import DEVICE
from test_process import passes, posix
from test_safety import SLOW

SIGNALS = int(os.environ.get("HOLOGRAM_TEST_SIGNALS", "10000"))

HEAD = f"""
import gc, random
from hologram._ffi import native
SIGNALS = {SIGNALS}
ex = hg.Executor(DEVICE)
slow = hg.Program({SLOW!r})
more = hg.Program("program more\\nslot c u32\\nldg.u32 x, c[index]\\nadd.u32 x, x, 1\\nstg.u32 x, c[index]\\nexit")
a, b = ex.allocate(1 << 12), ex.allocate(1 << 12)
mine, theirs, last = (ex.allocate(8, "u32") for _ in range(3))
made = [], [], []  # an entry a launch: an append is not interrupted, as += is in Python 3.9

class Dropped:
    '''Launches when it is finalized, wherever that is.'''
    def __init__(self): self.self = self  # the collector finalizes it, at any allocation
    def __del__(self):
        ex.launch(more, c=last)
        made[2].append(1)

class Array(np.ndarray):
    '''The same, when the library lets go of it.'''
    def __del__(self):
        if self.base is not None:
            ex.launch(more, c=last)
            made[2].append(1)
"""

TAIL = """
signal.setitimer(signal.ITIMER_REAL, 0)
gc.collect()
ex.synchronize()
found = [int(x.to_numpy()[0]) for x in (mine, theirs, last)]
counts = [len(launches) for launches in made]
assert found == counts, (found, counts)
assert all((x.to_numpy() == x.to_numpy()[0]).all() for x in (mine, theirs, last))
assert not native.waiting()
assert native.object_count() == objects, (native.object_count(), objects)
assert native.kept() == 0
print(counts)
"""


@posix
def test_no_launch_is_lost() -> None:
    passes(
        HEAD
        + """
depth = 0
def handler(*_):
    global depth
    if depth < 3:
        depth += 1
        made[1].append(1)
        ex.launch(more, c=theirs)
        depth -= 1
signal.signal(signal.SIGALRM, handler)
ex.launch(more, c=mine); made[0].append(1)
ex.launch(slow, a=a, b=b, k=1)
host = np.zeros(8, np.uint32)
objects = native.object_count()
signal.setitimer(signal.ITIMER_REAL, 0.00005, 0.00005)
turn = 0
while len(made[1]) < SIGNALS:
    turn += 1
    made[0].append(1)
    ex.launch(more, c=mine)
    if turn % 97 == 0:
        Dropped()
    if turn % 101 == 0 and ex.host_visible:
        array = np.zeros(8, np.uint32).view(Array)
        w = ex.wrap(array)
        del array
        w.free()
    if turn % 499 == 0:
        ex.launch(slow, a=a, b=b, k=2000)  # goes on while signals come
    if turn % 53 == 0 and ex.host_visible:
        made[0].append(1)
        ex.launch(more, c=host)
w = array = None
"""
        + TAIL.replace("found = [", "found = [int(mine.to_numpy()[0]) + int(host[0])] + [").replace(
            "for x in (mine, theirs, last)]\n", "for x in (theirs, last)]\n", 1
        ),
        timeout=60 + SIGNALS / 500,
    )


@posix
@pytest.mark.skipif(DEVICE != "cpu", reason="where launches return at once no call goes on that a handler could leave")
def test_what_handlers_raise_leaves_nothing_behind() -> None:
    """Some handlers launch, some raise; what goes on when one raises is cancelled before the call leaves."""
    passes(
        HEAD
        + """
class Stop(Exception): pass
random.seed(2)
seen = depth = 0
def handler(*_):
    global seen, depth
    seen += 1
    if seen % 5 == 0:
        raise Stop
    if depth < 3:
        depth += 1
        try:
            ex.launch(more, c=theirs)
        finally:
            depth -= 1
signal.signal(signal.SIGALRM, handler)
ex.launch(more, c=theirs)
ex.launch(slow, a=a, b=b, k=1)
objects = native.object_count()
raised = 0
while seen < SIGNALS // 100:
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.01), 0.0002)
        for _ in range(20):
            ex.launch(slow, a=a, b=b, k=random.choice([1, 100, 10**9]))
    except Stop:
        raised += 1
    finally:
        while True:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                break
            except Stop:
                pass
    now = b.to_numpy()
    time.sleep(0.0005)
    assert (now == b.to_numpy()).all()
mine.fill(0); theirs.fill(0)
assert raised
"""
        + TAIL,
        timeout=60 + SIGNALS / 100,
    )


@posix
@pytest.mark.parametrize("handler", ["launch", "raise"])
def test_a_handler_in_an_endless_launch(handler: str) -> None:
    """A handler that launches behind what goes on waits for it; an exception ends both, innermost first."""
    passes(
        HEAD
        + f"""
def tick(*_):
    ex.launch(more, c=theirs)
def stop(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, tick if {handler!r} == "launch" else stop)
signal.signal(signal.SIGUSR1, stop)
if {handler!r} == "launch":
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
objects = native.object_count()
signal.setitimer(signal.ITIMER_REAL, 0.05)
started = time.monotonic()
try:
    ex.launch(slow, a=a, b=b, k=2**32 - 1)
    ex.synchronize()
    sys.exit("no KeyboardInterrupt")
except KeyboardInterrupt:
    pass
assert time.monotonic() - started < 20
""",
        timeout=60,
    )


@posix
def test_an_exception_on_its_way_is_kept() -> None:
    """Buffers, and launches in finalizers, between an exception's raising and its handling."""
    passes(
        HEAD
        + """
class Holder:
    def __init__(self): self.b = ex.allocate(4)
    def __del__(self): ex.launch(more, c=last)
def fail():
    kept = Holder(), ex.allocate(16)
    raise ValueError("mine")
for _ in range(1000):
    try:
        fail()
    except ValueError as e:
        assert str(e) == "mine"
    else:
        sys.exit("lost")
ex.synchronize()
assert last.to_numpy()[0] == 1000
"""
    )


# What makes something that has a handle. Those of a device that works by itself have streams and events of copies.
MAKERS = """
from hologram import future
x, array, text = ex.allocate(8), np.ones(8, np.float32), slow.disassemble()
data = slow.to_bytes()
class Exporter:
    def __dlpack__(self, **asked): return array.__dlpack__(**asked)
    def __dlpack_device__(self): return array.__dlpack_device__()
def profiled():
    with hg.profile(table=False):
        pass
makers = {
    "Executor": lambda: hg.Executor(DEVICE),
    "with Executor": lambda: hg.Executor(DEVICE).__exit__(None),
    "Program": lambda: hg.Program(text),
    "binary Program": lambda: hg.Program(data),
    "allocate": lambda: ex.allocate(8),
    "allocate a shape": lambda: ex.allocate((2, 4)),
    "allocate by Python": lambda: ex.allocate(np.int64(8)),
    "allocate_boundary": lambda: ex.allocate_boundary(3, 4, 4),
    "view": lambda: x.view((2, 4)),
    "from_numpy": lambda: ex.from_numpy(array),
    "to_numpy": lambda: x.view((4,), strides=(2,)).to_numpy(),
    "record": lambda: ex.record(),
    "Stream": lambda: hg.Stream(ex).record(),
    "submit": lambda: ex.submit(x.to_numpy),
    "profile": profiled,
    "pinned_empty": lambda: hg.pinned_empty(8, executor=ex),
    "operation": lambda: hg.ops.vector_add(ex, x, x),
    "dlpack": lambda: x.__dlpack__(stream=None if ex.host_visible else -1),
    "tensor": lambda: ex.submit(hg.ops.reduce_sum, x),
}
if ex.host_visible:
    makers["wrap"] = lambda: ex.wrap(array)
    makers["wrap by DLPack"] = lambda: ex.wrap(Exporter())
    makers["lease"] = lambda: x.memoryview()
"""


@posix
@pytest.mark.parametrize("kind", ["Exception", "KeyboardInterrupt"])
def test_what_is_made_while_a_handler_raises_is_freed(kind: str) -> None:
    """Signals come at any time of what makes something, above all right after the library has made it."""
    passes(
        HEAD
        + MAKERS
        + f"""
class Stop({kind}): pass
armed = False
def handler(*_):
    if armed:
        raise Stop
signal.signal(signal.SIGALRM, handler)
sys.unraisablehook = lambda _: None  # what is raised in finalizers, of which Python tells and goes on
random.seed(3)
"""
        + """
def settle():
    gc.collect()
    ex.synchronize()
    until = time.monotonic() + 20  # the thread that looks at futures sleeps for 10 s, if it was not told of one
    while future._watched and time.monotonic() < until:
        time.sleep(0.001)
    before = -1
    while before != native.object_count() and time.monotonic() < until:  # that thread may still hold some that are done
        before = native.object_count()
        time.sleep(0.05)
left = {}
for name, make in makers.items():
    kept = [make() for _ in range(20)]
    kept = None
    started = time.perf_counter()
    for _ in range(20):
        make()
    usual = (time.perf_counter() - started) / 20
    settle()
    objects, raised = native.object_count(), 0
    for _ in range(max(40, SIGNALS // 50)):
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 1.5 * usual + 2e-5))
            made = make()
            time.sleep(0.005)
        except Stop:
            raised += 1
        armed = False
        made = None
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert raised, name
    settle()
    if native.object_count() != objects:
        left[name] = native.object_count() - objects
assert not left, left
assert native.kept() == 0 and not native.waiting()
child = os.fork()
if not child:
    # Dropped there it stays the parent's.
    del ex, x, a, b, mine, theirs, last, slow, more
    gc.collect()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert (x.to_numpy() == 0).all()
""",
        timeout=60 + SIGNALS / 100,
    )


@posix
def test_nothing_enters_go_when_faulthandler_has_gone() -> None:
    """It takes the stack for signals along that Go needs, which sends itself SIGURG; pytest turns it on."""
    passes(
        """
import atexit, contextvars, ctypes
kept = [(ex := hg.Executor("cpu"), ex.from_numpy(np.ones(9, np.float32))) for _ in range(500)]
contextvars.ContextVar("kept").set(kept)  # which goes last
del ex, kept

class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("how", ctypes.c_int),
                ("more", ctypes.c_long * 6)]

def arm():
    libc, timer, each = ctypes.CDLL(None), ctypes.c_void_p(), (ctypes.c_long * 4)(0, 20_000, 0, 20_000)
    assert not libc.timer_create(1, ctypes.byref(Event(None, signal.SIGURG)), ctypes.byref(timer))
    assert not libc.timer_settime(timer, 0, each, None)

if sys.platform == "linux":  # whose timers send any signal
    atexit.register(arm)
"""
    )
