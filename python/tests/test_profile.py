"""Profiles: what with hologram.profile() and HOLOGRAM_TRACE write; what is told of calls is tested in core."""

from __future__ import annotations

import gc
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import DEVICE
from test_process import FOREVER, posix, script

import hologram as hg
from hologram._ffi import native

N = 1000


@pytest.fixture(name="ex")
def executor() -> Any:
    with hg.Executor(DEVICE) as ex:
        yield ex


def add(ex: hg.Executor) -> None:
    """Call an operation on buffers, and wait for it."""
    x, c = ex.from_numpy(np.arange(N, dtype=np.float32)), ex.allocate(N)
    hg.ops.vector_add(ex, x, x, c)
    assert c.to_numpy()[-1] == 2 * (N - 1)


def names(events: list[dict[str, Any]], kind: str) -> list[str]:
    return [e["name"] for e in events if e["cat"] == kind]


def test_a_profile_writes_a_trace_and_prints_a_table(
    ex: hg.Executor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add(ex)
    path = tmp_path / "t.json"
    with hg.profile(path) as p:
        add(ex)
        assert "vector_add" in names(p.events, "call"), "it can be looked at in the block"
        add(ex)
    add(ex)
    file = json.loads(path.read_text(encoding="utf-8"))
    assert [e for e in file["traceEvents"] if e["ph"] != "M"] == p.events
    for event in file["traceEvents"]:
        assert {"name", "ph", "ts", "pid", "tid"} <= set(event)
        assert event["ph"] in ("X", "i", "M") and ("dur" in event) == (event["ph"] == "X")
        assert event["pid"] == os.getpid()
    assert names(p.events, "call").count("vector_add") == 2
    assert names(p.events, "kernel").count("vector_add") == 2
    calls = [e for e in p.events if e["cat"] == "call" and e["name"] == "vector_add"]
    assert calls[0]["args"]["operands"] == f"f32[{N}] f32[{N}] f32[{N}]"
    assert {e["tid"] for e in calls} == {threading.get_native_id()}
    assert names(p.events, "compile") == [], "it was made before"
    kernel = next(e for e in p.events if e["cat"] == "kernel")
    assert kernel["args"]["bytes"] == 12 * N
    assert kernel["args"]["GB/s"] == pytest.approx(12 * N / kernel["dur"] / 1e3)

    shown = capsys.readouterr().out.splitlines()
    assert shown == p.table().splitlines()
    assert shown[0].split() == "kind name calls total µs mean min max bytes GB/s share".split()
    row = next(line.split() for line in shown if line.startswith("kernel"))
    assert row[1:3] == ["vector_add", "2"] and row[7] == str(24 * N)
    total, mean, least, most = map(float, row[3:7])
    assert least <= mean <= most and total == pytest.approx(2 * mean, abs=0.2)
    assert float(row[8]) == pytest.approx(24 * N / total / 1e3, rel=0.1, abs=0.01)
    assert sum(float(line.split()[-1][:-1]) for line in shown if line.startswith("copy")) == pytest.approx(100, abs=0.3)

    p.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_the_table_of_known_events() -> None:
    """By kind and total, with the columns that each kind has; names are cut at 40 letters."""

    def event(cat: str, name: str, dur: float = -1, **args: Any) -> dict[str, Any]:
        return {"ph": "i" if dur < 0 else "X", "cat": cat, "name": name, "args": args} | (
            {"dur": dur} if dur >= 0 else {}
        )

    p = hg.profile()
    p._pid, p._parsed = 1, {
        "otherData": {"dropped": 2},
        "traceEvents": [
            *({"ph": "M", "name": "thread_name"}, event("memory", "grow", bytes=64), event("memory", "grow", bytes=64)),
            *(event("cache", "miss"), event("compile", "make", 4.0, bytes=8), event("copy", "read", 2.0, bytes=1000)),
            *(event("kernel", "k" * 40, 1.0, bytes=500), event("kernel", "k" * 41, 3.0, bytes=1500)),
            *(event("kernel", "k" * 41, 5.0, bytes=500), event("kernel", "queued", bytes=7), event("wait", "w", 0.0)),
            *(event("call", "b", 1.0, bytes=10), event("call", "a", 1.0), event("call", "c", 2.0)),
            *(event("copy", "write", bytes=30), event("copy", "write", 4.0, bytes=200)),
        ],
    }  # fmt: skip
    assert [line.split() for line in p.table().splitlines()] == [
        "kind name calls total µs mean min max bytes GB/s share".split(),
        "call c 1 2.0 2.0 2.0 2.0 - - 50.0%".split(),
        "call a 1 1.0 1.0 1.0 1.0 - - 25.0%".split(),
        "call b 1 1.0 1.0 1.0 1.0 10 - 25.0%".split(),
        ["kernel", "k" * 39 + "…", *"2 8.0 4.0 3.0 5.0 2000 0.25 88.9%".split()],
        ["kernel", "k" * 40, *"1 1.0 1.0 1.0 1.0 500 0.50 11.1%".split()],
        "kernel queued 1 - - - - 7 - -".split(),
        "copy write 2 4.0 4.0 4.0 4.0 230 0.05 66.7%".split(),
        "copy read 1 2.0 2.0 2.0 2.0 1000 0.50 33.3%".split(),
        "wait w 1 0.0 0.0 0.0 0.0 - - -".split(),
        "compile make 1 4.0 4.0 4.0 4.0 8 - -".split(),
        "cache miss 1 - - - - - - -".split(),
        "memory grow 2 - - - - 128 - -".split(),
        "2 events after the first 262144 are not there; raise limit, or profile less".split(),
    ]


def test_kernels_take_time_within_the_block(ex: hg.Executor) -> None:
    """One after the other, no longer than the block, and on a GPU no faster or slower than any memory is."""
    n = 1 << 24 if DEVICE == "cuda" else 1 << 12
    x, c = ex.allocate(n), ex.allocate(n)
    hg.ops.vector_add(ex, x, x, c)
    ex.synchronize()
    start = time.perf_counter()
    with hg.profile(table=False) as p:
        for _ in range(10):
            hg.ops.vector_add(ex, x, x, c)
        c.to_numpy()
    wall = 1e6 * (time.perf_counter() - start)
    kernels = [e for e in p.events if e["cat"] == "kernel"]
    assert names(p.events, "kernel") == ["vector_add"] * 10
    end = 0.0
    for k in kernels:
        assert k["ph"] == "X" and k["dur"] > 0 and k["args"]["queue_us"] >= 0
        assert k["ts"] >= end - 0.01
        end = k["ts"] + k["dur"]
        assert k["args"]["bytes"] == 12 * n
        if DEVICE == "cuda":
            assert 20 < k["args"]["GB/s"] < 20_000
    assert end <= wall
    copies = [e for e in p.events if e["cat"] == "copy"]
    assert copies and all(e["ph"] == "X" and e["dur"] > 0 and e["ts"] + e["dur"] <= wall for e in copies)
    calls = [e for e in p.events if e["cat"] == "call" and e["name"] == "vector_add"]
    for call, k in zip(calls, kernels):
        assert k["ts"] - k["args"]["queue_us"] >= call["ts"] - 0.01, "submitted in the call"


def test_nothing_is_printed_or_written_unasked(
    ex: hg.Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with hg.profile(table=False) as p:
        pass
    assert p.events == [] and p.dropped == 0 and len(p.table().splitlines()) == 1
    assert capsys.readouterr().out == "" and list(tmp_path.iterdir()) == []


def test_an_exception_leaves_the_file(ex: hg.Executor, tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="mine"), hg.profile(tmp_path / "t.json", table=False):
        add(ex)
        raise KeyError("mine")
    assert "vector_add" in (tmp_path / "t.json").read_text(encoding="utf-8")


def test_a_file_that_cannot_be_written(ex: hg.Executor, tmp_path: Path) -> None:
    """It is an OSError, at once if it is known then, but never hides the block's own; the events are there."""
    path, entered = tmp_path / "folder" / "t.json", False
    for wrong, kind in ((path, FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(kind, match="profile: the trace can't be written"), hg.profile(wrong, table=False):
            entered = True
    assert not entered
    path.parent.mkdir()
    with pytest.raises(FileNotFoundError), hg.profile(path, table=False) as p:
        add(ex)
        path.parent.rmdir()
    assert "vector_add" in p.table()
    path.parent.mkdir()
    with pytest.warns(RuntimeWarning, match="cannot write"), pytest.raises(KeyError), hg.profile(path, table=False):
        path.parent.rmdir()
        raise KeyError
    with pytest.raises(TypeError):
        hg.profile(3)  # type: ignore[arg-type]


def test_what_is_dropped_is_told(ex: hg.Executor) -> None:
    with pytest.warns(RuntimeWarning, match="after the first 3 are not there"), hg.profile(table=False, limit=3) as p:
        add(ex)
        add(ex)
    assert len(p.events) == 3 and p.dropped > 0
    assert p.table().splitlines()[-1].startswith(f"{p.dropped} events after the first 3")
    for limit in (0, -1, 1 << 40):
        with pytest.raises(ValueError, match="limit is"), hg.profile(limit=limit):
            pass
    with pytest.raises(TypeError, match="limit"):
        hg.profile(limit="many")  # type: ignore[arg-type]


def test_a_profile_is_used_once_and_many_at_a_time(ex: hg.Executor) -> None:
    with hg.profile(table=False) as outer:
        add(ex)
        with hg.profile(table=False) as inner:
            add(ex)
        with pytest.raises(RuntimeError, match="begun once"), inner:
            pass
    assert names(outer.events, "call").count("vector_add") == 2
    assert names(inner.events, "call").count("vector_add") == 1
    for use in (lambda p: p.events, lambda p: p.table(), lambda p: p.dropped, lambda p: p.save("never")):
        with pytest.raises(RuntimeError, match="not begun"):
            use(hg.profile())


def test_threads_have_tracks(ex: hg.Executor) -> None:
    def work() -> None:
        add(ex)
        numbers.append(threading.get_native_id())
        together.wait()  # so that no thread gets another's number

    numbers: list[int] = []
    together = threading.Barrier(3)
    with hg.profile(table=False) as p:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    calls = [e["tid"] for e in p.events if e["cat"] == "call" and e["name"] == "vector_add"]
    assert sorted(calls) == sorted(numbers)
    assert len({e["tid"] for e in p.events if e["cat"] == "kernel"} - set(numbers)) == 1


@posix
def test_a_fork_s_child_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    done = script(
        f"""
with hg.profile({str(path)!r}, table=False):
    ex = hg.Executor(DEVICE); hg.ops.vector_add(ex, *[ex.allocate(4)] * 3)
    child = os.fork()
    if child: os.waitpid(child, 0); assert not os.path.exists({str(path)!r}); print("parent")
print("end")
"""
    )
    assert sorted(done.stdout.split()) == ["end", "end", "parent"], done.stderr
    assert "fork() may lead to deadlocks" in done.stderr or done.stderr == ""  # Python 3.12 warns of threads
    assert "vector_add" in path.read_text(encoding="utf-8")


LATE = """
import atexit
ex = hg.Executor(DEVICE)
x = ex.allocate(100)
atexit.register(lambda: hg.ops.vector_mul(ex, x, x, x))
def daemon():
    other = hg.Executor(DEVICE)
    y = other.allocate(4)
    while True:
        hg.ops.vector_add(other, y, y, y)
        called.set()
        time.sleep(0.001)
called = threading.Event()
threading.Thread(target=daemon, daemon=True).start()
called.wait()
hg.ops.vector_exp(ex, x, x)
"""


def test_hologram_trace_writes_what_a_process_did(tmp_path: Path) -> None:
    """Executors are open and a thread calls when it ends, and a function of atexit calls after that."""
    done = script(LATE, HOLOGRAM_TRACE=str(tmp_path / "trace-%p.json"))
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    file = json.loads(path.read_text(encoding="utf-8"))
    events = [e for e in file["traceEvents"] if e["ph"] != "M"]
    assert path.name == f"trace-{events[0]['pid']}.json"
    assert {"vector_exp", "vector_add", "vector_mul"} <= set(names(events, "call"))
    assert "vector_exp" in names(events, "kernel") and "compile" in names(events, "compile")


def test_hologram_trace_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    done = script("hg.Executor(DEVICE)", HOLOGRAM_TRACE=str(tmp_path))
    assert done.returncode == 0 and "warning: HOLOGRAM_TRACE" in done.stderr and str(tmp_path) in done.stderr


def test_tables_are_quiet_about_warnings(ex: hg.Executor, capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed says what was dropped, so nobody is warned."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with hg.profile(limit=1):
            add(ex)
    assert "after the first 1 are not there" in capsys.readouterr().out


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError("nobody reads")


@pytest.mark.parametrize("out", [io.TextIOWrapper(io.BytesIO(), encoding="ascii"), Closed(), None])
def test_the_file_is_written_whatever_becomes_of_the_table(
    ex: hg.Executor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: Any
) -> None:
    """A terminal that has no µ shows something else; one that is closed is an error, but hides no other."""
    monkeypatch.setattr(sys, "stdout", out)
    with pytest.raises(BrokenPipeError) if isinstance(out, Closed) else nullcontext(), hg.profile(tmp_path / "t.json"):
        add(ex)
    with pytest.raises(KeyError, match="mine"), hg.profile(tmp_path / "u.json"):
        raise KeyError("mine")
    assert "vector_add" in (tmp_path / "t.json").read_text(encoding="utf-8")
    assert (tmp_path / "u.json").exists()
    if isinstance(out, io.TextIOWrapper):
        out.flush()
        assert b"vector_add" in out.buffer.getvalue()  # type: ignore[attr-defined]


def test_the_file_is_written_where_warnings_are_errors(ex: hg.Executor, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with (
            pytest.raises(RuntimeWarning, match="after the first"),
            hg.profile(tmp_path / "t.json", table=False, limit=1),
        ):
            add(ex)
    assert (tmp_path / "t.json").exists()


def test_a_profile_that_nobody_ends_ends_with_its_object(ex: hg.Executor) -> None:
    p = hg.profile(table=False)
    p.__enter__()
    assert p._owner is not None
    handle = p._owner.handle
    del p
    gc.collect()
    with pytest.raises(hg.errors.FreedError, match="freed"):
        native.profile_stop(handle)


@pytest.mark.parametrize("first", ["hg.profile(table=False)", "hg.Profile", "hg.kernel", "hg.Executor"])
def test_hologram_trace_whatever_is_used_first(tmp_path: Path, first: str) -> None:
    """Where a program goes, after that, is nothing to the file."""
    code = f"import hologram as hg, os; os.chdir({str(tmp_path)!r}); {first}; os.chdir('/'); hg.ops"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "HOLOGRAM_TRACE": "t.json"}, capture_output=True
    )
    assert done.returncode == 0 and done.stderr == b"", done.stderr
    assert "traceEvents" in (tmp_path / "t.json").read_text(encoding="utf-8")


@posix
def test_ctrl_c_in_a_profile_leaves_the_file(tmp_path: Path) -> None:
    """The launch that it ended is there, and nothing waits for what does not end."""
    path = tmp_path / "t.json"
    done = script(
        f"""
ex = hg.Executor(DEVICE)
c = ex.allocate(64, "u32")
endless = hg.Program({FOREVER!r})
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    with hg.profile({str(path)!r}):
        ex.launch(endless, shape=(4,), c=c)
        ex.synchronize()
except KeyboardInterrupt:
    print("interrupted")
""",
        timeout=20,
    )
    assert done.stdout.splitlines()[-1:] == ["interrupted"], done.stderr
    assert 'launch "forever"' in done.stdout
    assert '"launch \\"forever\\""' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [3, 1.5, ["t.json"]])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(TypeError, match=rf"^profile: path is {re.escape(repr(path))}; expected a path, or None"):
        hg.profile(path)
