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

__all__ = ["TRACING", "at", "current", "fail", "ours", "traced_frame", "traced_line", "user_line"]

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_OURS = (_PACKAGE, os.path.join(_PACKAGE[:-1] + "_torch", ""), os.path.dirname(np.__file__), "<__array_function__")
"""What the files of code that isn't the user's begin with; the last is numpy's too."""


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


def ours(file: str) -> bool:
    """Whether a file is none of the user's."""
    return file.startswith(_OURS)


_files: set[str] = set()
"""Files that begin with what is in _OURS."""


def traced_line(frame: Optional[types.FrameType] = None) -> Optional[Place]:
    """Return file and line of the kernel's code that is being traced, or None outside of any, from a frame up."""
    frame = traced_frame(frame)
    if frame is not None:
        return Place(frame.f_code.co_filename, frame.f_lineno)
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
