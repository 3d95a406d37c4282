"""What ends while others work: the process in a fork's child, the interpreter, memory for small objects."""

from __future__ import annotations

import sys

import pytest
from test_process import COUNT, passes, posix, script

# Several calls that go on, each in a daemon thread of its own.
WORKING = f"""
from hologram._ffi import native
program = hg.Program({COUNT!r})
def work():
    ex = hg.Executor("cpu")
    try:
        ex.launch(program, c=np.zeros(4, np.uint32), k=4_000_000_000)
    except hg.errors.LaunchCancelledError:
        pass
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
while native.waiting() < 4:
    time.sleep(0.01)
"""


@posix
def test_a_forked_child_leaves_the_stacks_of_lost_threads_alone() -> None:
    """Threads of the child get the memory that the stacks of the parent's had, and with it what lay there."""
    passes(
        WORKING
        + """
import warnings
warnings.simplefilter("ignore")
ex, x = hg.Executor("cpu"), np.zeros(8, np.float32)
pid = os.fork()
if pid == 0:
    code = 1
    try:
        assert native.waiting() == 0, native.waiting()
        def call():
            for _ in range(300):
                for f in (hg.num_threads, lambda: ex.launch(program, c=x, k=1)):
                    try:
                        f()
                    except hg.errors.ForkError:
                        pass
        threads = [threading.Thread(target=call) for _ in range(8)]
        for t in threads:
            t.start()
        call()
        for t in threads:
            t.join()
        code = 0
    finally:
        os._exit(code)
_, status = os.waitpid(pid, 0)
assert status == 0, status
"""
    )


@pytest.mark.parametrize("call", ["ex.wrap(x).free()", "hg.ops.vector_add(ex, large, large, large)"])
def test_threads_that_call_without_pause_do_not_hold_up_the_end(call: str) -> None:
    """Of sixteen, one was nearly always in the library when the one that ends the interpreter looked."""
    passes(
        f"""
hg.set_num_threads(1)  # so that C makes large calls too, without the GIL
ex, x, large = hg.Executor("cpu"), np.zeros(8, np.float32), np.zeros(1 << 20, np.float32)
ended = []
def call():
    while True:
        try:
            {call}
        except hg.errors.LaunchCancelledError as error:
            ended.append(str(error))
for _ in range(16):
    threading.Thread(target=call, daemon=True).start()
time.sleep(0.1)
""",
        timeout=100,
    )


@pytest.mark.parametrize("round", range(10))
def test_daemon_threads_print_nothing_while_the_interpreter_ends(round: int) -> None:
    """One that has the lock of stderr when Python stops it makes CPython abort: so none goes back to Python."""
    done = script(
        WORKING.replace("    except hg.errors.LaunchCancelledError:\n        pass\n", "    finally:\n        pass\n")
        + """
import traceback
ex, x, go = hg.Executor("cpu"), np.zeros(8, np.float32), threading.Event()
def call():
    go.wait()
    while True:
        try:
            ex.wrap(x).free()
        except hg.errors.LaunchCancelledError:
            traceback.print_exc()
def make():
    go.wait()
    for i in range(1 << 30):
        hg.Program(f"program p\\nslot x f32\\nstg.f32 {i}, x[index]\\nexit")
for f in [call] * 8 + [make] * 2:
    threading.Thread(target=f, daemon=True).start()
go.set()
time.sleep(0.01)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_is_done_at_exit_is_done() -> None:
    """A handler that was registered before hologram was imported runs after hologram's own."""
    out = passes(
        f"""
import atexit
def last():
    from hologram._ffi import native
    native.close()  # as it has been called by now, whatever the order of imports
    ex, c = hg.Executor("cpu"), np.full(4, 7, np.uint32)
    ex.launch(hg.Program({COUNT!r}), c=c, k=30_000_000)
    lines = ["ldg.f32 v, x[index]"] + ["fma.f32 v, v, v, v"] * 30_000 + ["stg.f32 v, x[index]", "exit"]
    text = "\\n".join(["program large", "slot x f32", *lines])
    ex.launch(hg.Program(text), x=np.zeros(4, np.float32))
    print("done", (c != 7).all())
atexit.register(last)
""",
        timeout=120,
    )
    assert out == "done True\n"


def test_others_learn_that_the_interpreter_ends() -> None:
    """Where a function of atexit waits for them."""
    out = passes(
        """
import atexit
ex, x, go, told = hg.Executor("cpu"), np.zeros(8, np.float32), threading.Event(), threading.Event()
def call():
    go.wait()
    try:
        ex.wrap(x)
    except hg.errors.LaunchCancelledError as error:
        print(error)
    told.set()
def last():
    from hologram._ffi import native
    native.close()
    go.set()
    told.wait(30)
threading.Thread(target=call, daemon=True).start()
atexit.register(last)
"""
    )
    assert out == "the interpreter ends: only the thread that ends it can still begin work\n"


def test_no_memory_for_the_arguments_of_a_hook() -> None:
    """C leaves a call to Python with a tuple, of which each item may be what there is no memory for."""
    testing = pytest.importorskip("_testcapi", reason="this Python has no _testcapi, whose allocator fails at will")
    if sys.implementation.name != "cpython" or not hasattr(testing, "set_nomemory"):
        pytest.skip("this Python's _testcapi has no allocator that fails at will")
    passes(
        """
import _testcapi
x = np.ones(4, np.float32)
assert hg.ops.vector_add(x, 2).tolist() == [3] * 4
for n in range(3):  # beyond that it is numpy that ends the process
    _testcapi.set_nomemory(n, n + 1)
    try:
        hg.ops.vector_add(x, 2)
    except MemoryError:
        pass
    finally:
        _testcapi.remove_mem_hooks()
assert hg.ops.vector_add(x, 2).tolist() == [3] * 4
"""
    )
