"""Processes that have imported torch, and nothing of Hologram.

Each is forked from one that has, which is started once: the import alone takes seconds.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile

SERVER = """
import json, os, sys, traceback
import torch, torch._export.serde.serialize  # and what torch.export.load imports when it is first called

torch.set_num_threads(1)
for line in sys.stdin:
    asked = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, file in (1, asked["stdout"]), (2, asked["stderr"]):
            os.dup2(os.open(file, os.O_WRONLY), number)
        sys.path[:] = asked["path"]
        sys.argv = ["-c", *asked["arguments"]]
        exec(compile(asked["code"], "<code>", "exec"), sys.modules["__main__"].__dict__)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)
"""


@functools.cache
def server() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(process.communicate)  # which ends it
    return process


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code in such a process, with arguments in sys.argv, and with this process's folders to import from."""
    process = server()
    assert process.stdin is not None and process.stdout is not None
    with tempfile.NamedTemporaryFile("r") as stdout, tempfile.NamedTemporaryFile("r") as stderr:
        asked = {
            "code": code,
            "arguments": [str(a) for a in arguments],
            "path": list(map(os.path.abspath, sys.path)),
            "stdout": stdout.name,
            "stderr": stderr.name,
        }
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        status = int(process.stdout.readline())
        return subprocess.CompletedProcess([code], status, stdout.read(), stderr.read())
