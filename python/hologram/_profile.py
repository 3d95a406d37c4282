"""Profiles: what ran when, for how long, and how many bytes it moved; see docs/PROFILING.md."""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any, Optional

from hologram._arguments import INT64_MAX, integer, shown
from hologram._ffi import native
from hologram.errors import DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Union

    from hologram._ffi import Owner

    Path = Union[str, os.PathLike[str]]

__all__ = ["Profile", "profile"]

KINDS = ("call", "kernel", "copy", "wait", "compile", "cache", "memory")
"""The kinds of events, in the order of the table."""


def profile(path: Optional[Path] = None, *, table: bool = True, limit: int = 262_144) -> Profile:
    """Profile what is done in a ``with`` block, by all threads and on all executors of the process.

    ``with hologram.profile("t.json"):`` writes a trace for https://ui.perfetto.dev or chrome://tracing, and prints a
    table. At the block's end, launches that devices still have queued are waited for, unless it ends by an exception;
    the file is written in either case. Profiles may be nested or overlap: each gets everything that happens in it.

    Args:
        path: Where the trace goes, JSON in Chrome's trace event format; None: nowhere.
        table: Whether to print ``table()`` at the end.
        limit: How many events are kept, some 120 bytes each: the first ones. Those beyond are counted, as ``dropped``.

    Returns:
        A ``Profile``, which ``with ... as p`` gives too, for its ``events``, ``table()`` and ``save(path)``.

    Raises:
        TypeError: path is no path.
        ValueError: limit is not in 1 … 2^26.
        OSError: At the end: the file cannot be written (a warning, where the block raised itself), or nothing printed.
    """
    return Profile(path, table=table, limit=limit)


class Profile:
    """What happens from the beginning of a ``with`` block to its end; made by ``profile``, and used once.

    Its ``events``, ``table()`` and ``save(path)`` may be used in the block, too, for what has happened so far.
    """

    _owner: Optional[Owner] = None  # while it goes on

    def __init__(self, path: Optional[Path] = None, *, table: bool = True, limit: int = 262_144) -> None:
        """Do what ``profile`` does."""
        try:
            self._path = None if path is None else os.fspath(path)
        except TypeError:
            raise DTypeError(f"profile: path is {shown(path)}; expected a path, or None for no file") from None
        self._prints = bool(table)
        self._limit = integer("profile: limit", limit, -INT64_MAX, INT64_MAX)
        if self._limit < 1:
            raise InvalidArgumentError(f"profile: limit is {self._limit}; expected 1 … {1 << 26}")
        self._pid = 0  # of the process that it is of, once it has begun
        self._text = b""  # once it is over
        self._parsed: Optional[dict[str, Any]] = None

    def __enter__(self) -> Profile:
        """Begin.

        Raises:
            RuntimeError: It was begun before.
            OSError: The file can't be written; what is profiled may take hours.
        """
        if self._pid:
            raise RuntimeError("a profile is begun once; make another one")
        if self._path is not None:
            self._may_write(self._path)
        self._owner = native.profile_start(self._limit)
        self._pid = os.getpid()
        return self

    @staticmethod
    def _may_write(path: Union[str, bytes]) -> None:
        folder = os.path.dirname(path) or os.curdir
        if not os.path.isdir(folder):
            problem = errno.ENOTDIR if os.path.exists(folder) else errno.ENOENT
        elif os.path.isdir(path):
            problem = errno.EISDIR
        elif not os.access(path if os.path.exists(path) else folder, os.W_OK):
            problem = errno.EACCES
        else:
            return
        raise OSError(problem, f"profile: the trace can't be written: {os.strerror(problem)}", path)

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        """End; write the file and print the table."""
        if os.getpid() != self._pid:
            return  # in a fork's child, of which it is not
        try:
            self._end(float("inf") if kind is None else 0)
        finally:
            try:
                if self._path is not None:
                    self.save(self._path)
            except (OSError, ValueError) as failed:
                if kind is None:
                    raise
                warnings.warn(f"profile: cannot write {self._path}: {failed}", RuntimeWarning, stacklevel=2)
            finally:
                if self._prints:
                    self._print(raises=kind is None)
                elif self.dropped:
                    warnings.warn(f"profile: {self._dropped_text()}", RuntimeWarning, stacklevel=2)

    def _print(self, *, raises: bool) -> None:
        text = self.table()
        try:
            try:
                print(text)
            except UnicodeEncodeError as narrow:  # a terminal without µ
                print(text.encode(narrow.encoding, "replace").decode(narrow.encoding))
        except (OSError, ValueError):  # it is closed
            if raises:
                raise

    def _end(self, patience: float) -> None:
        """Stop, and wait so many seconds for what devices have queued."""
        until = time.monotonic() + patience
        try:
            while native.profile_stop(self._owner) and time.monotonic() < until:
                time.sleep(0.0005)
        finally:
            self._text = native.profile_trace(self._owner)
            self._owner = None

    def _file(self) -> dict[str, Any]:
        """Return the trace so far."""
        if self._parsed is not None:
            return self._parsed
        if not self._pid:
            raise RuntimeError("the profile has not begun: use it in a with statement")
        file: dict[str, Any] = json.loads(self._json())
        if self._owner is None:
            self._parsed = file
        return file

    def _json(self) -> bytes:
        if self._owner is not None and os.getpid() == self._pid:
            text: bytes = native.profile_trace(self._owner)
            return text
        return self._text or b'{"traceEvents":[],"otherData":{"dropped":0}}'

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events, as the file has them, by their beginning.

        Each has ``name``; ``cat``, which is "call", "wait", "kernel", "copy", "compile", "cache" or "memory"; ``ts``
        and, unless it is an instant, ``dur``: microseconds, since the profile began; ``tid``, the number of the thread
        or stream; and ``args``: ``of``, the call or program that it belongs to, ``operands``, ``bytes``, ``GB/s`` (10^9
        bytes), ``queue_us``, ``error``.
        """
        return [e for e in self._file()["traceEvents"] if e["ph"] != "M"]

    @property
    def dropped(self) -> int:
        """How many events came after the first ``limit``, and are not there."""
        return int(self._file()["otherData"]["dropped"])

    def _dropped_text(self) -> str:
        return f"{self.dropped} events after the first {self._limit} are not there; raise limit, or profile less"

    def save(self, path: Path) -> None:
        """Write the trace to a file, as JSON in Chrome's trace event format.

        Raises:
            OSError: It cannot be written.
        """
        self._file()  # which refuses one that has not begun
        with open(path, "wb") as to:
            to.write(self._json())

    def table(self) -> str:
        """Return a table with a line for each kind and name of events.

        Its columns are how many there were; their total, mean, shortest and longest time in microseconds, of those
        whose time is known; bytes moved, and GB/s (10^9 bytes) in the time of those; and the share of the total of all
        of the kind. A thread's ``call`` contains what was compiled for it (of which ``prepare`` contains the rest) and,
        where the device works while it is called, the ``kernel``.
        """
        rows: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for event in self.events:
            rows.setdefault((KINDS.index(event["cat"]), event["name"]), []).append(event)
        totals = {key: sum(e.get("dur", 0) for e in found) for key, found in rows.items()}
        of_kind: dict[int, float] = {}
        for key, total in totals.items():
            of_kind[key[0]] = of_kind.get(key[0], 0) + total
        lines: list[tuple[str, ...]] = [
            ("kind", "name", "calls", "total µs", "mean", "min", "max", "bytes", "GB/s", "share")
        ]
        for key in sorted(rows, key=lambda k: (k[0], -totals[k], k[1])):
            times = [e["dur"] for e in rows[key] if "dur" in e]
            moved = sum(e["args"].get("bytes", 0) for e in rows[key])
            timed = sum(e["args"].get("bytes", 0) for e in rows[key] if "dur" in e)
            total = totals[key]
            numbers = [f"{t:.1f}" for t in (total, total / len(times), min(times), max(times))] if times else ["-"] * 4
            kind = KINDS[key[0]]
            rate = f"{timed / total / 1e3:.2f}" if timed and total and kind in ("kernel", "copy") else "-"
            share = f"{total / of_kind[key[0]]:.1%}" if total and kind not in ("compile", "memory") else "-"
            name = key[1] if len(key[1]) <= 40 else key[1][:39] + "…"
            lines.append((kind, name, str(len(rows[key])), *numbers, str(moved) if moved else "-", rate, share))
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        text = [
            "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))).rstrip()
            for line in lines
        ]
        if self.dropped:
            text.append(self._dropped_text())
        return "\n".join(text)


def _at_exit(p: Profile) -> None:
    if os.getpid() != p._pid:
        return
    problem = ""
    try:
        p._end(1)
        p.save(str(p._path))
        if p.dropped:
            problem = p._dropped_text()
    except Exception as error:  # the process has done its work
        problem = f"{p._path} is not written: {error}"
    if problem and sys.stderr is not None:
        print(f"hologram: warning: HOLOGRAM_TRACE: {problem}", file=sys.stderr)


def of_process(path: str) -> None:
    """Profile all that the process does from now on; the file is written at its end. "%p" is the process's number."""
    path = path.replace("%p", str(os.getpid()))
    with contextlib.suppress(OSError):  # no directory any more, so that the file won't be written either
        path = os.path.abspath(path)  # the process may go elsewhere
    found = Profile(None, table=False).__enter__()
    found._path = path  # the process runs whether or not the file can be written
    atexit.register(_at_exit, found)
