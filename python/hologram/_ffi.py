"""The bindings to the C ABI; the only file with ctypes.

``_SIGNATURES`` lists the functions of hologram.h with their arguments, and the structures below mirror its
structures; a test compares both with the header. All else calls ``lib`` through ``call``, which turns a status into
an exception and waits for work that takes long in steps that Ctrl-C interrupts.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import sys
from ctypes import POINTER as POINTER  # these five the other modules take from here
from ctypes import byref as byref
from ctypes import c_char, c_char_p, c_size_t, c_uint8, c_uint32, c_void_p
from ctypes import c_int32 as c_int32
from ctypes import c_int64 as c_int64
from ctypes import c_uint64 as c_uint64
from typing import TYPE_CHECKING, Any, Callable, Optional

from hologram import _log, errors
from hologram._version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

OK = 0
PENDING = 1
FREED = 4
FORKED = 11

UNINITIALIZED = 1
READ_ONLY = 2

TEXT_DISASSEMBLY = 0
TEXT_BINARY = 1
TEXT_CANONICAL = 2
TEXT_NAME = 3

MAX_RANK = 8
NUM_CLASSES = 96

ArgumentError = ctypes.ArgumentError
Handle = c_uint64


class Scalar(ctypes.Structure):
    """hologram_scalar."""

    _fields_ = (("dtype", c_int32), ("bits", c_uint64))


class Fault(ctypes.Structure):
    """hologram_fault."""

    _fields_ = (("kind", c_int32), ("instruction", c_int32), ("line", c_int32), ("lane", c_uint64))


class BackendInfo(ctypes.Structure):
    """hologram_backend_info."""

    _fields_ = (
        ("name", c_char * 32),
        ("device", c_char * 128),
        ("reason", c_char * 512),
        ("available", c_int32),
        ("host_visible", c_int32),
        ("asynchronous", c_int32),
        ("threads", c_int32),
        ("memory_bytes", c_int64),
    )


class ExecutorInfo(ctypes.Structure):
    """hologram_executor_info."""

    _fields_ = (
        ("backend", c_char * 32),
        ("device", c_char * 128),
        ("host_visible", c_int32),
        ("asynchronous", c_int32),
        ("threads", c_int32),
        ("used", c_int64),
        ("quota", c_int64),
    )


class MemoryStats(ctypes.Structure):
    """hologram_memory_stats."""

    _fields_ = (
        ("in_use", c_int64),
        ("cached", c_int64),
        ("reserved", c_int64),
        ("peak", c_int64),
        ("limit", c_int64),
        ("allocations", c_int64),
        ("reused", c_int64),
    )


class KernelStats(ctypes.Structure):
    """hologram_kernel_stats."""

    _fields_ = (
        ("entries", c_int64),
        ("limit", c_int64),
        ("hits", c_int64),
        ("misses", c_int64),
        ("evictions", c_int64),
    )


class BufferInfo(ctypes.Structure):
    """hologram_buffer_info."""

    _fields_ = (
        ("data", c_void_p),
        ("length", c_int64),
        ("bytes", c_int64),
        ("dtype", c_int32),
        ("element_size", c_int32),
        ("rank", c_int32),
        ("contiguous", c_int32),
        ("read_only", c_int32),
        ("class_index", c_int32),
        ("host_visible", c_int32),
        ("freed", c_int32),
        ("shape", c_int64 * MAX_RANK),
        ("strides", c_int64 * MAX_RANK),
    )


class ProgramInfo(ctypes.Structure):
    """hologram_program_info."""

    _fields_ = (
        ("slots", c_int32),
        ("params", c_int32),
        ("instructions", c_int32),
        ("residue", c_int32),
        ("shared_bytes", c_int64),
        ("block", c_uint32 * 3),
        ("hash", c_uint8 * 32),
    )


class OperandInfo(ctypes.Structure):
    """hologram_operand_info."""

    _fields_ = (
        ("name", c_char * 256),
        ("dtype", c_int32),
        ("reads", c_int32),
        ("writes", c_int32),
        ("indexed", c_int32),
        ("bytes", c_int32),
    )


class LaunchArgs(ctypes.Structure):
    """hologram_launch_args."""

    _fields_ = (
        ("slots", POINTER(c_uint64)),
        ("params", POINTER(Scalar)),
        ("shape", POINTER(c_int64)),
        ("residue", POINTER(c_uint64)),
        ("num_slots", c_int32),
        ("num_params", c_int32),
        ("rank", c_int32),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("fuel", c_uint64),
    )


Line = ctypes.CFUNCTYPE(None, c_void_p, POINTER(c_char), c_size_t)
"""hologram_line: receives a line of text."""

_HANDLE = Handle
_OUT = POINTER(c_uint64)
_INT_OUT = POINTER(c_int32)
_LONG_OUT = POINTER(c_int64)
_SIZES = POINTER(c_int64)

_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "last_error": (c_char_p, c_size_t, POINTER(c_size_t)),
    "last_fault": (POINTER(Fault),),
    "pending": (_OUT,),
    "set_num_threads": (c_int32,),
    "num_threads": (_INT_OUT,),
    "backend": (c_int32, POINTER(BackendInfo)),
    "clear_all": (),
    "object_count": (_LONG_OUT,),
    "executor_new": (c_char_p, _OUT),
    "executor_free": (_HANDLE,),
    "executor_describe": (_HANDLE, POINTER(ExecutorInfo)),
    "executor_synchronize": (_HANDLE,),
    "executor_phase": (_HANDLE, _INT_OUT),
    "executor_set_quota": (_HANDLE, c_int64),
    "executor_set_memory_limit": (_HANDLE, c_int64),
    "executor_trim": (_HANDLE, _LONG_OUT),
    "executor_memory_stats": (_HANDLE, POINTER(MemoryStats)),
    "executor_kernel_stats": (_HANDLE, POINTER(KernelStats)),
    "buffer_allocate": (_HANDLE, c_int64, c_int32, c_int32, _OUT),
    "buffer_allocate_boundary": (_HANDLE, c_int64, c_int64, c_int64, c_int32, _OUT),
    "buffer_wrap": (_HANDLE, c_void_p, c_int32, c_int32, _SIZES, _SIZES, c_int32, c_void_p, c_void_p, _OUT),
    "buffer_view": (_HANDLE, c_int64, c_int32, _SIZES, _SIZES, _OUT),
    "buffer_free": (_HANDLE,),
    "buffer_describe": (_HANDLE, POINTER(BufferInfo)),
    "buffer_read": (_HANDLE, c_int64, c_int64, c_void_p),
    "buffer_write": (_HANDLE, c_int64, c_int64, c_void_p),
    "buffer_fill": (_HANDLE, POINTER(Scalar)),
    "buffer_copy": (_HANDLE, _HANDLE),
    "buffer_lease": (_HANDLE, _OUT),
    "lease_free": (_HANDLE,),
    "buffer_to_dlpack": (_HANDLE, c_int32, POINTER(c_void_p)),
    "buffer_from_dlpack": (_HANDLE, c_void_p, c_int32, _OUT),
    "dlpack_free": (c_void_p, c_int32),
    "program_assemble": (c_char_p, c_char_p, c_size_t, _OUT),
    "program_decode": (c_void_p, c_size_t, _OUT),
    "program_free": (_HANDLE,),
    "program_describe": (_HANDLE, POINTER(ProgramInfo)),
    "program_slot": (_HANDLE, c_int32, POINTER(OperandInfo)),
    "program_param": (_HANDLE, c_int32, POINTER(OperandInfo)),
    "program_text": (_HANDLE, c_int32, c_char_p, c_size_t, POINTER(c_size_t)),
    "launch": (_HANDLE, _HANDLE, POINTER(LaunchArgs)),
    "trace": (_HANDLE, _HANDLE, POINTER(LaunchArgs), c_uint64, Line, c_void_p),
    "op_id": (c_char_p, _INT_OUT),
    "op_name": (c_int32, c_char_p, c_size_t, POINTER(c_size_t)),
    "op": (_HANDLE, c_int32, _OUT, c_int32, POINTER(Scalar), c_int32, _SIZES, c_int32),
    "op_call": (_HANDLE, c_int32, _HANDLE, _HANDLE, _HANDLE, _HANDLE),
    "event_wait": (_HANDLE, c_int32),
    "event_cancel": (_HANDLE,),
    "event_free": (_HANDLE,),
}
"""The functions that return a status, without their prefix, and their arguments."""


def _load() -> ctypes.CDLL:
    names = {"win32": "hologram.dll", "darwin": "libhologram.dylib"}
    path = os.environ.get("HOLOGRAM_LIBRARY") or os.path.join(
        os.path.dirname(__file__), names.get(sys.platform, "libhologram.so")
    )
    if not os.path.exists(path):
        raise ImportError(f"hologram: its library {path} is missing: run ./build.sh build, or install again")
    library = ctypes.CDLL(path)
    try:
        library.hologram_version.restype = c_char_p
        found = library.hologram_version().decode()
        for name, arguments in _SIGNATURES.items():
            function = getattr(library, "hologram_" + name)
            function.restype = c_int32
            function.argtypes = arguments
    except AttributeError as error:
        raise ImportError(f"hologram: {path} is of another version: {error}; install again") from None
    if found != __version__:
        raise ImportError(
            f"hologram {__version__} found a library of version {found}: run ./build.sh build, or install again"
        )
    return library


lib = _load()
_log.debug("loaded %s", lib._name)

# The call of an operation on prepared objects. Without argtypes ctypes takes their _as_parameter_ as it is, which
# is twice as fast; the library refuses whatever is no handle.
op_call = lib["hologram_op_call"]
op_call.restype = c_int32

NO_BUFFER = c_uint64(0)

_FAULTS = {1: "access", 2: "divide", 3: "fuel", 4: "class", 5: "handle"}

_ERRORS: dict[int, type[errors.HologramError]] = {
    2: errors.InvalidArgumentError,
    3: errors.DTypeError,
    FREED: errors.FreedError,
    5: errors.OutOfMemoryError,
    6: errors.ProgramSyntaxError,
    7: errors.ProgramVerifyError,
    9: errors.LaunchCancelledError,
    10: errors.BackendError,
    11: errors.ForkError,
    12: errors.InternalError,
}
"""The exception of each status; 8, a fault, has attributes and is made by itself."""


def error_of(status: int) -> errors.HologramError:
    """Return the exception of a status that is neither OK nor PENDING, with the thread's last error as its text."""
    size = c_size_t()
    lib.hologram_last_error(None, 0, byref(size))
    text = ctypes.create_string_buffer(size.value + 1)
    lib.hologram_last_error(text, size.value, byref(size))
    message = text.raw[: size.value].decode("utf-8", "replace")
    if status == 8:
        fault = Fault()
        lib.hologram_last_fault(byref(fault))
        kind = _FAULTS.get(fault.kind, "unknown")
        return errors.ProgramFault(message, kind, fault.instruction, fault.line or None, fault.lane)
    return _ERRORS.get(status, errors.InternalError)(message)


# The events that some thread waits for.
_waiting: set[int] = set()

# How long one look at work that goes on takes: after that Python runs its signal handlers.
_LOOK_MS = 50


def finish(status: int, failures: Sequence[BaseException] = ()) -> None:
    """Turn a status into nothing or an exception; wait for work that goes on.

    The first of failures, where a callback of the work puts what it raises, cancels the work and is raised.

    An exception meanwhile, such as KeyboardInterrupt, cancels the work; it is raised when the work has ended, so
    that no memory is in use that Python frees.
    """
    if status == OK:
        return
    if status == PENDING:
        event = c_uint64()
        try:
            lib.hologram_pending(byref(event))
            _waiting.add(event.value)
            while not failures:
                status = lib.hologram_event_wait(event, _LOOK_MS)
                if status != PENDING:
                    break
            else:
                raise failures[0]
        except BaseException:
            abandon(event)
            raise
        finally:
            _waiting.discard(event.value)
        lib.hologram_event_free(event)
        if status == OK:
            return
    raise error_of(status)


def abandon(event: Optional[c_uint64] = None) -> None:
    """Cancel work that goes on and wait for its end: the given event, or the one of the thread's last call.

    What signal handlers raise meanwhile is dropped: the exception that led here goes on, and the work is ending.
    """
    found = c_uint64() if event is None else event
    while True:
        try:
            _end(found)
            return
        except BaseException:
            continue


def _end(event: c_uint64) -> None:
    if not event.value:
        lib.hologram_pending(byref(event))
        if not event.value:
            return
    _log.debug("cancelling work that goes on")
    lib.hologram_event_cancel(event)
    while lib.hologram_event_wait(event, _LOOK_MS) == PENDING:
        pass
    lib.hologram_event_free(event)


def call(function: Callable[..., int], *arguments: Any, failures: Sequence[BaseException] = ()) -> None:
    """Call a function of the library; raise the exception of its status, or the first of failures (see finish)."""
    try:
        status = function(*arguments)
        if status == PENDING or (status and not failures):
            finish(status, failures)
        if failures:
            raise failures[0]
    except BaseException:  # a signal handler's, whatever it is: the call may have returned with work that goes on
        try:
            abandon()
        except BaseException:  # yet another, before abandon could catch it
            abandon()
        raise


def text_of(function: Callable[..., int], *arguments: Any) -> bytes:
    """Call a function that gives a text by (pointer, capacity, size) after its arguments, and return the text."""
    size = c_size_t()
    call(function, *arguments, None, 0, byref(size))
    text = ctypes.create_string_buffer(max(1, size.value))
    call(function, *arguments, text, size.value, byref(size))
    return text.raw[: size.value]


def line_receiver(receive: Callable[[str], object], failures: list[BaseException]) -> Any:
    """Return a C function that hands lines of text to a Python one; keep it while the library may call it.

    What the Python function raises is put into failures, and ends its being called.
    """

    def line(_: Optional[int], text: Any, size: int) -> None:
        if failures:
            return
        try:
            receive(ctypes.string_at(text, size).decode("utf-8", "replace"))
        except BaseException as error:
            failures.append(error)

    return Line(line)


def op_id(name: str) -> c_int32:
    """Return the number of an operation of the library, as a prepared argument."""
    number = _op_ids.get(name)
    if number is None:
        number = c_int32()
        call(lib.hologram_op_id, name.encode(), byref(number))
        _op_ids[name] = number
    return number


_op_ids: dict[str, c_int32] = {}


def abi_version() -> int:
    """Return the version of the C ABI that the loaded library offers."""
    return int(lib.hologram_abi_version())


def sizes(values: Sequence[int]) -> Any:
    """Return numbers as a C array."""
    count = len(values)
    return (_SIZES_OF[count] if count < len(_SIZES_OF) else c_int64 * count)(*values)


_SIZES_OF = [c_int64 * max(1, count) for count in range(MAX_RANK + 1)]


# ---- memory that Python owns

_Deleter = ctypes.CFUNCTYPE(None, c_void_p)
_kept: dict[int, object] = {}
_tokens = itertools.count(1)


def _release(token: int, kept: dict[int, object] = _kept) -> None:
    """Drop what keep kept; the library calls this from any thread, with the token as the deleter's context."""
    kept.pop(token, None)


_deleter = _Deleter(_release)  # one for all, which lives as long as the library can call it
DELETER = ctypes.cast(_deleter, c_void_p)
"""The deleter of memory that keep keeps alive."""


def keep(owner: object) -> int:
    """Keep an object alive until the library calls DELETER with the token that this returns, or forget does."""
    token = next(_tokens)
    _kept[token] = owner
    return token


forget = _release


@atexit.register
def _end_waiting() -> None:
    """Cancel what daemon threads still wait for, and wait for its end.

    The library must call DELETER while there is an interpreter, and write to no array that its end frees.
    """
    for event in list(_waiting):
        lib.hologram_event_cancel(event)
        while lib.hologram_event_wait(event, _LOOK_MS) == PENDING:
            pass


# ---- DLPack's capsules

_DLTENSOR = {False: b"dltensor", True: b"dltensor_versioned"}
_USED = {False: b"used_dltensor", True: b"used_dltensor_versioned"}

_python = ctypes.pythonapi
_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _python))
# These take the capsule as a plain pointer: a destructor gets one whose last reference is gone.
_capsule_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, c_char_p)(("PyCapsule_IsValid", _python))
_capsule_pointer = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", _python))
_capsule_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, c_char_p)(("PyCapsule_SetName", _python))


def _delete_unused(capsule: int) -> None:
    """Delete the tensor of a capsule that nobody consumed."""
    for versioned, name in _DLTENSOR.items():
        if _capsule_is_valid(capsule, name):
            lib.hologram_dlpack_free(_capsule_pointer(capsule, name), versioned)


_capsule_destructor = ctypes.PYFUNCTYPE(None, c_void_p)(_delete_unused)


class _Tensor(ctypes.Structure):
    """The start of DLPack's DLTensor."""

    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
    )


class _Versioned(ctypes.Structure):
    """The start of DLPack's DLManagedTensorVersioned; DLManagedTensor starts with its tensor."""

    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    )


_BOOL = 6  # DLPack's kDLBool; the C ABI has no bool, and takes and gives it as u8
_COPIED = 2  # DLPACK_FLAG_BITMASK_IS_COPIED


def _tensor(managed: int, versioned: bool) -> _Tensor:
    if versioned:
        tensor: _Tensor = _Versioned.from_address(managed).tensor
        return tensor
    return _Tensor.from_address(managed)


def to_capsule(buffer: c_uint64, versioned: bool, boolean: bool = False, copied: bool = False) -> object:
    """Return a DLPack capsule of a buffer's memory, which it keeps alive; boolean says that its u8 are bools."""
    managed = c_void_p()
    call(lib.hologram_buffer_to_dlpack, buffer, versioned, byref(managed))
    if boolean:
        _tensor(managed.value or 0, versioned).code = _BOOL
    if copied and versioned:
        _Versioned.from_address(managed.value or 0).flags |= _COPIED
    destructor = ctypes.cast(_capsule_destructor, c_void_p)
    capsule: object = _capsule_new(managed, _DLTENSOR[versioned], destructor)
    return capsule


def from_capsule(executor: c_uint64, capsule: object) -> tuple[c_uint64, bool]:
    """Make a buffer of the memory of a DLPack capsule, which is used up by it; tell whether its u8 are bools.

    Raises:
        BufferError: The capsule was used before.
    """
    for versioned, name in _DLTENSOR.items():
        if _capsule_is_valid(id(capsule), name):
            handle = Handle()
            pointer = _capsule_pointer(id(capsule), name)
            # The fields are where they are in version 1 alone, which is all that the library takes.
            known = not versioned or _Versioned.from_address(pointer).major == 1
            boolean = known and _tensor(pointer, versioned).code == _BOOL
            call(lib.hologram_buffer_from_dlpack, executor, pointer, versioned, byref(handle))
            _capsule_rename(capsule, _USED[versioned])
            return handle, boolean
    raise BufferError(f"expected a fresh DLPack capsule, got {capsule!r}")
