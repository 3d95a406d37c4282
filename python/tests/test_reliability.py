"""What docs/RELIABILITY.md states and no other test shows: above all what ends the process."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest
from test_process import posix, script

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "RELIABILITY.md").read_text()

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits address space as Linux does")

# The signal where machine code or C meets it, Go's own ends where Go does.
ENDS = (-signal.SIGBUS, -signal.SIGSEGV, -signal.SIGABRT, 2) if sys.platform != "win32" else ()

LIMIT = """
import resource
def limit(more):
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))
"""


def test_each_line_names_tests_that_exist() -> None:
    rows = [row for row in re.findall(r"^\|(.+)\|$", PAGE, re.MULTILINE) if not re.match(r"[-| ]+$|\s*what \|", row)]
    assert len(rows) > 30
    sources = {
        suffix: "".join(path.read_text() for path in ROOT.glob(pattern))
        for suffix, pattern in ((".py", "python/tests/*.py"), (".go", "*/**/*_test.go"))
    }
    for row in rows:
        tests = re.findall(r"`((?:test_|Test|Fuzz)\w+(?:\.py)?)`", row.rsplit("|", 1)[1])
        assert tests or "none:" in row, row
        for test in tests:
            if test.endswith(".py"):
                assert (ROOT / "python" / "tests" / test).exists(), test
            else:
                assert f"def {test}(" in sources[".py"] or f"func {test}(" in sources[".go"], test


@posix
def test_a_file_that_shrinks_ends_the_process(tmp_path: Path) -> None:
    done = script(
        f"""
path = {str(tmp_path / "array")!r}
np.ones(1 << 16, np.float32).tofile(path)
x = np.memmap(path, np.float32, "r+")
ex = hg.Executor("cpu")
out = np.zeros(1 << 16, np.float32)
hg.ops.vector_add(ex, x, x, out)
assert (out == 2).all()
os.truncate(path, 0)
print("before", flush=True)
hg.ops.vector_add(ex, x, x, out)
print("after")
"""
    )
    assert (done.returncode in ENDS, done.stdout.split()) == (True, ["before"]), (done.returncode, done.stderr)
    assert "SIGBUS" in done.stderr or "Bus error" in done.stderr


@posix
def test_a_producer_that_lies_ends_the_process() -> None:
    done = script(
        """
class Liar:
    __array_interface__ = {"version": 3, "data": (1 << 40, False), "shape": (1 << 16,), "typestr": "<f4"}
ex = hg.Executor("cpu")
x = np.asarray(Liar())
print("before", flush=True)
hg.ops.vector_add(ex, x, x, np.zeros(1 << 16, np.float32))
print("after")
"""
    )
    assert (done.returncode in ENDS, done.stdout.split()) == (True, ["before"]), (done.returncode, done.stderr)
    assert "SIGSEGV" in done.stderr or "Segmentation fault" in done.stderr


@linux
def test_no_address_space_for_a_buffer() -> None:
    done = script(
        LIMIT
        + """
ex = hg.Executor("cpu")
x, out = np.ones(1000, np.float32), np.zeros(1000, np.float32)
hg.ops.vector_add(ex, x, x, out)
limit(256 << 20)  # of which Go's heap, should it grow just now, takes 64 MiB at once
for _ in range(3):
    try:
        ex.allocate(1 << 28)
        sys.exit("allocated")
    except MemoryError as error:
        assert "1 GiB" in str(error), error
hg.ops.vector_add(ex, out, out, x)
assert (x == 4).all()
b = ex.allocate(1 << 16)
b.fill(3)
assert (b.to_numpy() == 3).all()
"""
    )
    assert done.returncode == 0, done.stderr


@linux
def test_no_address_space_for_the_library_ends_the_process() -> None:
    done = script(
        LIMIT
        + """
text = "program p\\nslot x u32\\nldg.u32 v, x[index]\\n" + "mul.u32 v, v, 3\\nadd.u32 v, v, 5\\n" * 30000
text += "stg.u32 v, x[index]\\nexit"
hg.Executor("cpu")
limit(2 << 20)
print("before", flush=True)
programs = [hg.Program(text.replace("program p", f"program p{i}")) for i in range(50)]  # one may fit what was freed
print("after")
"""
    )
    assert done.stdout.split() == ["before"]
    assert done.returncode in ENDS, (done.returncode, done.stderr)
    assert re.search("out of memory|cannot allocate memory|pthread_create failed", done.stderr), done.stderr
