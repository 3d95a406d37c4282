"""Where a kernel's code is being traced: the line that an error is of, and the trace that runs in a thread."""

from __future__ import annotations

import linecache
import os
import sys
import threading
import types
from typing import TYPE_CHECKING, NoReturn, Optional

import numpy as np

from hologram._kernel.ir import Place

if TYPE_CHECKING:
    from hologram._kernel.values import Trace
    from hologram.errors import HologramError

__all__ = ["TRACING", "Lines", "at", "current", "fail", "traced_frame", "traced_line", "user_line"]

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_OURS = (_PACKAGE, os.path.join(_PACKAGE[:-1] + "_torch", ""), os.path.dirname(np.__file__), "<__array_function__")
"""What the files of code that isn't the user's begin with; the last is numpy's too."""


class Lines:
    """The lines of a long function, looked for from where the last was found: mostly it is the next.

    Attributes:
        begin: Where in the code the line begins that was found last.
        end: Where it ends.
        here: Its place, if it has one.
    """

    __slots__ = ("_code", "_next", "_spans", "begin", "end", "here")

    def __init__(self, code: types.CodeType) -> None:
        self._code = code  # kept, as the trace knows it by its id
        self._spans = code.co_lines()
        self._next = next(self._spans, None)
        self.begin = self.end = 0
        self.here: Optional[Place] = None

    def place(self, at: int) -> Optional[Place]:
        """Return the place of an instruction, no earlier one than begin; None if it has none."""
        while at >= self.end:
            if self._next is None:
                return None
            self.begin, self.end, line = self._next
            self._next = None
            for span in self._spans:
                if span[2] != line:
                    self._next = span
                    break
                self.end = span[1]
            self.here = None if line is None else Place(self._code.co_filename, line)
        return self.here


class _Current(threading.local):
    trace: Optional[Trace] = None
    place: Optional[Place] = None  # of the statement that is being traced


current = _Current()
"""The trace that runs in this thread."""


TRACING: dict[int, types.CodeType] = {}
"""The functions that run a kernel's code, by their ids: below them in the stack is the kernel, above them its caller.

Theirs are files of the package.
"""


def traced_frame(frame: Optional[types.FrameType] = None) -> Optional[types.FrameType]:
    """Return the frame of the user's code that is being traced, or None where a statement is: the first from one up."""
    frame = sys._getframe(1) if frame is None else frame
    while frame is not None:
        code = frame.f_code
        file = code.co_filename
        if file not in _files:
            if not file.startswith(_OURS):
                return frame
            _files.add(file)
        if id(code) in TRACING:
            return None
        frame = frame.f_back
    return None


_files: set[str] = set()
"""Files that begin with what is in _OURS."""

_HAVE_LINES = hasattr(types.CodeType, "co_lines")  # from Python 3.10 on
_LONG = 256
"""The length of a table of lines from which it isn't searched from its beginning each time, as Python does."""


def place_of(frame: types.FrameType) -> Place:
    """Return file and line of a frame."""
    code, trace = frame.f_code, current.trace
    if trace is None or not _HAVE_LINES or len(code.co_linetable) < _LONG:
        return Place(code.co_filename, frame.f_lineno)
    known = trace.lines.get(id(code))
    at = frame.f_lasti
    if known is None or at < known.begin:
        known = trace.lines[id(code)] = Lines(code)
    return known.place(at) or Place(code.co_filename, frame.f_lineno)


def traced_line(frame: Optional[types.FrameType] = None) -> Optional[Place]:
    """Return file and line of the kernel's code that is being traced, or None outside of any, from a frame up."""
    frame = traced_frame(frame)
    if frame is not None:
        return place_of(frame)
    place = current.place
    return None if place is not None and place.file.startswith(_OURS) else place  # a kernel of the package itself


def user_line() -> Place:
    """Return file and line of the code that is being traced, or else of the code that called Hologram."""
    if current.trace is not None:
        place = traced_line()
        if place is not None:
            return place
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_OURS) and frame.f_back is not None:
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)


def at(file: str, line: int) -> str:
    """Return what an error says of its place."""
    source = linecache.getline(file, line).strip()
    source = source if len(source) <= 200 else source[:199] + "…"
    return f"\n  at {file}:{line}{': ' if source else ''}{source}"


def fail(kind: type[HologramError], message: str, place: Optional[tuple[str, int]] = None) -> NoReturn:
    """Raise an error that shows the user's line."""
    raise kind(message + at(*(place or user_line())[:2]))
