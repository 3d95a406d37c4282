"""The C ABI: the bindings against the header, every function with every wrong handle, and a C program."""

from __future__ import annotations

import ctypes
import itertools
import os
import pickle
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import hologram as hg
from hologram import _ffi, errors

HEADER = Path(hg.__file__).parent / "include" / "hologram.h"
TEXT = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)

Line = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)

KINDS = ("executor", "buffer", "program", "event", "lease", "profile", "mark")
HANDLE = rf"hologram_({'|'.join(KINDS)}) \w+$"

PLAIN = {
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint8_t": ctypes.c_uint8,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "char": ctypes.c_char,
    **{f"hologram_{kind}": ctypes.c_uint64 for kind in KINDS},
    "hologram_deleter": ctypes.c_void_p,
    "hologram_interrupt": ctypes.c_void_p,
    "hologram_line": Line,
}


class Scalar(ctypes.Structure):
    _fields_ = (("dtype", ctypes.c_int32), ("bits", ctypes.c_uint64))


class Fault(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("kind", ctypes.c_int32),
        ("instruction", ctypes.c_int32),
        ("line", ctypes.c_int32),
        ("lane", ctypes.c_uint64),
    )


class Shortage(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("asked", ctypes.c_int64),
        ("left", ctypes.c_int64),
        ("cached", ctypes.c_int64),
    )


class Operand(ctypes.Structure):
    _fields_ = (
        ("buffer", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("dtype", "rank", "flags", "device_type", "device_id")),
        ("shape", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
    )


class CallArgs(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("op", ctypes.c_int32),
        ("program", ctypes.c_uint64),
        ("operands", ctypes.POINTER(Operand)),
        ("scalars", ctypes.POINTER(Scalar)),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        *((name, ctypes.c_int32) for name in ("num_operands", "num_scalars", "num_dims", "flags")),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("fuel", ctypes.c_uint64),
        ("residue", ctypes.POINTER(ctypes.c_uint64)),
        ("stream", ctypes.c_uint64),
        ("deleter", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("first", ctypes.POINTER(ctypes.c_uint64)),
    )


STRUCTURES = {
    "hologram_scalar": Scalar,
    "hologram_fault": Fault,
    "hologram_shortage": Shortage,
    "hologram_place": _ffi.Place,
    "hologram_backend_info": _ffi.BackendInfo,
    "hologram_executor_info": _ffi.ExecutorInfo,
    "hologram_memory_stats": _ffi.MemoryStats,
    "hologram_kernel_stats": _ffi.KernelStats,
    "hologram_buffer_info": _ffi.BufferInfo,
    "hologram_program_info": _ffi.ProgramInfo,
    "hologram_operand_info": _ffi.OperandInfo,
    "hologram_operand": Operand,
    "hologram_call_args": CallArgs,
}
FUNCTIONS = {
    name: [] if parameters.strip() == "void" else [p.strip() for p in parameters.split(",")]
    for name, parameters in re.findall(r"HOLOGRAM_API int32_t hologram_(\w+)\(([^)]*)\);", TEXT)
}
# Those that Python does not see: errors and events stay in C, DLPack's tensors in their capsules, and owners free what
# they have.
UNBOUND = {
    *("last_error", "last_fault", "set_interrupt", "trace", "event_wait", "event_cancel", "event_free"),
    *("buffer_to_dlpack", "buffer_lend", "buffer_from_dlpack", "dlpack_free", "last_shortage"),
    *("buffer_transfer", "executor_outcome"),  # by transfer and outcome, which give events
    *("launch_batch", "prepare_batch"),  # by launch_each
    *("executor_free", "program_free", "lease_free", "profile_free", "mark_free", "stream_free"),
}

LIBRARY = ctypes.CDLL(_ffi.path)


def ctype(declaration: str) -> Any:
    """The ctypes type of a parameter or a field."""
    match = re.fullmatch(r"(?:const )?(\w+)\s*(\**)\s*\w+(?:\[(\w+)( \+ 1)?\])?", declaration.strip())
    assert match, declaration
    base, stars, length, more = match.groups()
    if stars:
        if base == "void":
            return ctypes.c_void_p if stars == "*" else ctypes.POINTER(ctypes.c_void_p)
        if base == "char":
            return ctypes.c_char_p
        return ctypes.POINTER(PLAIN.get(base) or STRUCTURES[base])
    found = PLAIN.get(base) or STRUCTURES[base]
    if length:
        constants = {name: int(value) for name, value in re.findall(r"(HOLOGRAM_\w+) = (\d+)", TEXT)}
        return found * ((int(length) if length.isdigit() else constants[length]) + bool(more))
    return found


for _name in FUNCTIONS:
    getattr(LIBRARY, "hologram_" + _name).argtypes = [ctype(p) for p in FUNCTIONS[_name]]


def last_error() -> str:
    text, size = ctypes.create_string_buffer(8192), ctypes.c_size_t()
    LIBRARY.hologram_last_error(text, 8192, ctypes.byref(size))
    return text.raw[: size.value].decode()


def test_every_function_is_a_builtin() -> None:
    for name in set(FUNCTIONS) - UNBOUND:
        assert callable(getattr(_ffi.native, name)), name


def test_hooks_are_those_that_c_knows() -> None:
    assert hg.ops.fill  # whose module needs all those that add hooks
    assert set(_ffi.native.hooks()) == set(_ffi.hooks)


def test_functions_that_wait_give_an_event() -> None:
    """PENDING without an event would be lost."""
    waiting = {name for name, parameters in FUNCTIONS.items() if parameters[-1:] == ["hologram_event *event_out"]}
    assert waiting == {
        *("call", "trace", "executor_synchronize", "executor_phase"),
        *("buffer_read", "buffer_write", "buffer_fill", "buffer_copy", "buffer_synchronize"),
        *("buffer_transfer", "buffer_ready", "executor_outcome", "mark_await"),
    }


def test_every_structure_is_as_the_header_says() -> None:
    declared = dict(re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", TEXT, flags=re.DOTALL))
    assert set(declared) == set(STRUCTURES)
    for name, body in declared.items():
        fields = [f.strip() for f in body.split(";") if f.strip()]
        expected = [(re.findall(r"(\w+)(?:\[[^]]*\])?$", f)[0], ctype(f)) for f in fields]
        assert [tuple(f) for f in STRUCTURES[name]._fields_] == expected, name


def test_constants_are_as_the_header_says() -> None:
    constants = {name: int(value) for name, value in re.findall(r"HOLOGRAM_(\w+) = (\d+)", TEXT)}
    places = ("PLACE_ELSEWHERE", "PLACE_LOCKED", "PLACE_DEVICE")
    for name in ("UNINITIALIZED", "READ_ONLY", "MAX_RANK", "NUM_CLASSES", *places):
        assert getattr(_ffi, name) == constants[name]
    for name in ("DISASSEMBLY", "BINARY", "CANONICAL", "NAME", "ANALYSIS"):
        assert getattr(_ffi, "TEXT_" + name) == constants["TEXT_" + name]
    from hologram._dtypes import NAMES

    assert [constants[name.upper()] for name in NAMES] == list(range(1, 13))


def test_each_status_has_its_exception() -> None:
    """By the header's names; what none knows is a defect, and faults have all that is known of them."""
    constants = {name: int(value) for name, value in re.findall(r"HOLOGRAM_(\w+) = (\d+)", TEXT)}
    expected = {
        "INVALID": (errors.InvalidArgumentError, ValueError),
        "BAD_TYPE": (errors.DTypeError, TypeError),
        "BAD_HANDLE": (errors.FreedError, RuntimeError),
        "OUT_OF_MEMORY": (errors.OutOfMemoryError, MemoryError),
        "SYNTAX": (errors.ProgramSyntaxError, ValueError),
        "UNVERIFIED": (errors.ProgramVerifyError, ValueError),
        "CANCELLED": (errors.LaunchCancelledError, RuntimeError),
        "UNAVAILABLE": (errors.BackendError, RuntimeError),
        "FORKED": (errors.ForkError, RuntimeError),
        "INTERNAL": (errors.InternalError, RuntimeError),
        "LOST": (errors.DeviceLostError, RuntimeError),
    }
    for name, (kind, plain) in expected.items():
        made = errors.of_status(constants[name], "said", 0, 0, 0, 0, 7, 8, 9)
        assert type(made) is kind and isinstance(made, plain) and str(made) == "said"
    assert type(errors.of_status(99, "said", 0, 0, 0, 0, 0, 0, 0)) is errors.InternalError
    short = errors.of_status(constants["OUT_OF_MEMORY"], "said", 0, 0, 0, 0, 7, 8, 9)
    for error in (short, pickle.loads(pickle.dumps(short))):
        assert (str(error), vars(error)) == ("said", {"asked": 7, "free": 8, "cached": 9})
    for kind in ("access", "divide", "fuel", "class", "handle"):
        for line in (0, 7):
            fault = errors.of_status(
                constants["FAULT"], "said", constants["FAULT_" + kind.upper()], 3, line, 5, 0, 0, 0
            )
            assert isinstance(fault, errors.ProgramFault) and str(fault) == "said"
            for each in (fault, pickle.loads(pickle.dumps(fault))):
                assert vars(each) == {"kind": kind, "instruction": 3, "line": line or None, "lane": 5}


# ---- wrong handles

PROGRAM = "program p\nslot c f32\nparam k f32\nldp.f32 x, k\nstg.f32 x, c[index]\nexit"


def handles_of(ex: hg.Executor) -> dict[str, list[int]]:
    """Live and freed handles of each kind, and numbers that were never given out."""
    b, p = ex.allocate(4), hg.Program(PROGRAM)
    gone_b, gone_ex, gone_p = ex.allocate(4), hg.Executor("cpu"), hg.Program("program q\nexit")
    freed = [gone_b.handle, gone_ex.handle, gone_p.handle]
    gone_b.free()
    gone_ex.cleanup()
    _ffi.native.end(gone_p)
    lease, profile, mark = _ffi.native.buffer_lease(b), _ffi.native.profile_start(1), _ffi.native.mark_record(ex, 0)
    _ffi.native.profile_stop(profile)
    keep.extend([b, p, lease, profile, mark])
    owners = {"executor": ex, "buffer": b, "program": p, "lease": lease, "profile": profile, "mark": mark}
    live = {kind: owner.handle for kind, owner in owners.items()}
    forged = [
        1,
        77,
        1 << 56,
        (2 << 56) | (1 << 24) | 999_999,
        (1 << 64) - 1,
        b.handle + (1 << 24),
        b.handle ^ (7 << 56),
    ]
    return {"live": list(live.values()), "freed": freed, "forged": forged, **{k: [v] for k, v in live.items()}}


keep: list[Any] = []

ARGUMENTS: dict[Any, Any] = {
    ctypes.c_int32: 0,
    ctypes.c_int64: 0,
    ctypes.c_size_t: 0,
    ctypes.c_uint64: 0,
    ctypes.c_void_p: None,
    ctypes.c_char_p: None,
}


def wrong_calls() -> list[tuple[str, int, str]]:
    """Each function with each of its handles: (name, the parameter's place, the kind it should be)."""
    found = []
    for name, parameters in FUNCTIONS.items():
        for i, parameter in enumerate(parameters):
            kind = re.match(HANDLE, parameter)
            if kind:
                found.append((name, i, kind[1]))
    return found


def room(kind: Any) -> Any:
    """A valid argument of a type: zero, or a pointer to zeros."""
    if kind in ARGUMENTS:
        return ctypes.create_string_buffer(64) if kind in (ctypes.c_void_p, ctypes.c_char_p) else 0
    if kind is Line:
        return Line(lambda *_: None)
    made = kind._type_()
    if hasattr(made, "size"):
        made.size = ctypes.sizeof(made)
    if isinstance(made, CallArgs):
        made.op = -1
    return ctypes.pointer(made)


@pytest.mark.parametrize(("name", "place", "kind"), wrong_calls())
def test_wrong_handles_are_refused(host: hg.Executor, name: str, place: int, kind: str) -> None:
    known = handles_of(host)
    function = getattr(LIBRARY, "hologram_" + name)
    # Executor 0 is the default one, but for who frees it.
    null = [] if kind == "executor" and name != "executor_free" else [0]
    wrong = [*null, *known["freed"], *known["forged"], *(h for h in known["live"] if h not in known.get(kind, []))]
    for handle in wrong:
        arguments = []
        for parameter in FUNCTIONS[name]:
            other = re.match(HANDLE, parameter)
            if parameter.startswith("hologram_deleter"):
                arguments.append(None)  # it may be called
                continue
            arguments.append(known[other[1]][0] if other and other[1] in known else room(ctype(parameter)))
        arguments[place] = handle
        status = function(*arguments)
        assert status == 4, (handle, status)
        assert re.fullmatch(refusal(known, name, kind, handle), last_error())


def refusal(known: dict[str, list[int]], name: str, kind: str, handle: int) -> str:
    """What is said of a handle that is no live one of a kind."""
    begin = rf"{name}: (source: |destination: )?"
    if handle == 0:
        return begin + f"the handle is null; expected an? {kind}"
    if handle in known["live"]:
        given = next(k for k in KINDS if handle in known.get(k, []))
        return begin + f"handle 0x{handle:x} is an? {given}; expected an? {kind}"
    freed = (
        rf"({kind} handle 0x{handle:x} is freed|handle 0x{handle:x} is of an? \w+ that is freed; expected an? {kind})"
    )
    never = rf"(\w+ )?handle 0x{handle:x} was never given out"
    return begin + (freed if handle in known["freed"] else f"({freed}|{never})")


@pytest.mark.parametrize("place", ["program", "operand"])
def test_wrong_handles_in_a_call_are_refused(host: hg.Executor, place: str) -> None:
    known = handles_of(host)
    operand, event = Operand(), ctypes.c_uint64()
    kind = "program" if place == "program" else "buffer"
    for handle in [0, *known["freed"], *known["forged"], *(h for h in known["live"] if h not in known[kind])]:
        args = CallArgs(size=ctypes.sizeof(CallArgs), op=-1, num_dims=-1, program=known["program"][0])
        args.operands, args.num_operands = ctypes.pointer(operand), 1
        if place == "program":
            args.program = handle
        elif handle:
            operand.buffer = handle
        else:
            continue  # memory of others
        for function, more in ((LIBRARY.hologram_call, ()), (LIBRARY.hologram_trace, (0, Line(lambda *_: None), None))):
            status = function(known["executor"][0], ctypes.byref(args), *more, ctypes.byref(event))
            assert status == 4, (handle, status)
            assert re.search(r"null|freed|never given out|expected", last_error())


@pytest.mark.parametrize("size", [0, 4, -1])
@pytest.mark.parametrize(
    "name", [n for n, p in FUNCTIONS.items() if p and re.search(r"_(info|stats|place) \*\w+_out", p[-1])]
)
def test_structures_that_are_too_small_are_refused(host: hg.Executor, name: str, size: int) -> None:
    known = handles_of(host)
    arguments = []
    for parameter in FUNCTIONS[name]:
        kind = re.match(r"hologram_(executor|buffer|program) \w+$", parameter)
        arguments.append(known[kind[1]][0] if kind else room(ctype(parameter)))
    info = arguments[-1].contents
    info.size = size if size >= 0 else ctypes.sizeof(info) - 1
    assert getattr(LIBRARY, "hologram_" + name)(*arguments[:-1], ctypes.byref(info)) == 2, name
    assert f"size is {info.size}; expected {ctypes.sizeof(info)}" in last_error()
    info.size = ctypes.sizeof(info) + 8  # of a caller that knows more
    room_for_more = (ctypes.c_char * (info.size))()
    ctypes.memmove(room_for_more, ctypes.byref(info), ctypes.sizeof(info))
    status = getattr(LIBRARY, "hologram_" + name)(*arguments[:-1], ctypes.cast(room_for_more, type(arguments[-1])))
    assert status == 0


def test_freeing_twice_is_an_error(host: hg.Executor) -> None:
    b = host.allocate(4)
    assert LIBRARY.hologram_buffer_free(b.handle) == 0
    assert LIBRARY.hologram_buffer_free(b.handle) == 4
    assert "is freed" in last_error()


@pytest.mark.parametrize("letter", ["x", "é", "€", "𝄞"])
def test_long_errors_are_cut_between_characters(letter: str) -> None:
    for i in range(4):
        with pytest.raises(ValueError, match="Invalid backend") as caught:
            hg.Executor("x" * i + letter * 5000)
        text = str(caught.value)
        assert "\ufffd" not in text
        assert 8192 - 4 < len(text.encode()) <= 8192 or len(letter.encode()) == 1


def test_handles_are_not_given_out_again(host: hg.Executor) -> None:
    seen = set()
    for _ in range(2000):
        b = host.allocate(1)
        assert b.handle not in seen
        seen.add(b.handle)
        b.free()


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_null_pointers_are_refused(host: hg.Executor, name: str) -> None:
    """Every pointer of every function as NULL, the others valid: a status, never a crash."""
    if name == "clear_all":
        return  # takes none, and would pull the rug from under the other tests
    known = handles_of(host)
    parameters = [ctype(p) for p in FUNCTIONS[name]]
    pointers = [i for i, p in enumerate(parameters) if p in (ctypes.c_void_p, ctypes.c_char_p) or hasattr(p, "_type_")]
    pointers = [i for i in pointers if "*" in FUNCTIONS[name][i]]
    for nulls in itertools.chain([()], itertools.combinations(pointers, 1), [tuple(pointers)]):
        arguments = []
        for i, parameter in enumerate(FUNCTIONS[name]):
            kind = re.match(HANDLE, parameter)
            if kind and name.endswith("_free") and name != "dlpack_free":
                arguments.append(0)
            elif kind:
                arguments.append(known.get(kind[1], [0])[0])
            elif i in nulls or parameters[i] is ctypes.c_void_p:
                arguments.append(None)
            else:
                arguments.append(room(parameters[i]))
        status = getattr(LIBRARY, "hologram_" + name)(*arguments)
        assert 0 <= status <= 14
        if (
            len(nulls) == 1
            and FUNCTIONS[name][nulls[0]].endswith("_out")
            and name not in ("last_fault", "last_shortage", "buffer_from_dlpack")
        ):
            null = FUNCTIONS[name][nulls[0]].split("*")[-1]
            if null not in ("size_out", "text_out", "data_out"):  # which may be of no bytes
                assert (status, last_error()) == (2, f"{name}: {null} is NULL")
        if name == "profile_start" and status == 0:
            LIBRARY.hologram_profile_free(arguments[1].contents)  # else it would be told of all other tests


def done(status: int, event: Any = None) -> None:
    """What a call gave, waited for."""
    while status == 1 and event is not None:
        status = LIBRARY.hologram_event_wait(event, 1000)
    assert status == 0, (status, last_error())


def test_buffers_in_c(host: hg.Executor) -> None:
    """A view with an offset, a shape and strides of its own, its description, and copies, fills and reads of it."""
    f32, ex, event = 11, host.handle, ctypes.c_uint64()
    whole, view, packed = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_uint64()
    done(LIBRARY.hologram_buffer_allocate(ex, 24, f32, 0, ctypes.byref(whole)))
    data = (ctypes.c_float * 24)(*range(24))
    done(LIBRARY.hologram_buffer_write(whole, 0, 96, data, ctypes.byref(event)), event)
    shape, strides = (ctypes.c_int64 * 2)(3, 2), (ctypes.c_int64 * 2)(7, 2)
    done(LIBRARY.hologram_buffer_view(whole, ctypes.c_int64(4), 2, shape, strides, ctypes.byref(view)))
    info = _ffi.BufferInfo(size=ctypes.sizeof(_ffi.BufferInfo))
    done(LIBRARY.hologram_buffer_describe(view, ctypes.byref(info)))
    assert (info.length, info.bytes, info.dtype, info.element_size, info.rank) == (6, 24, f32, 4, 2)
    assert (info.contiguous, info.read_only, info.class_index, info.freed) == (0, 0, -1, 0)
    assert (list(info.shape)[:2], list(info.strides)[:2]) == ([3, 2], [7, 2])
    done(LIBRARY.hologram_buffer_allocate(ex, 6, f32, 0, ctypes.byref(packed)))
    flat = ctypes.c_uint64()
    done(LIBRARY.hologram_buffer_view(packed, ctypes.c_int64(0), 2, shape, None, ctypes.byref(flat)))
    done(LIBRARY.hologram_buffer_copy(flat, view, ctypes.byref(event)), event)
    found = (ctypes.c_float * 4)()
    done(LIBRARY.hologram_buffer_read(packed, ctypes.c_int64(4), ctypes.c_int64(16), found, ctypes.byref(event)), event)
    assert list(found) == [6, 11, 13, 18]
    half = Scalar(f32, 0x3F000000)
    done(LIBRARY.hologram_buffer_fill(view, ctypes.byref(half), ctypes.byref(event)), event)
    done(LIBRARY.hologram_buffer_synchronize(view, ctypes.byref(event)), event)
    done(LIBRARY.hologram_buffer_read(whole, 0, 96, data, ctypes.byref(event)), event)
    assert [i for i in range(24) if data[i] != i] == [4, 6, 11, 13, 18, 20]
    assert {data[i] for i in (4, 6, 11, 13, 18, 20)} == {0.5}
    for function, arguments, text in (
        (
            "buffer_read",
            (packed, ctypes.c_int64(12), ctypes.c_int64(16), found),
            "read: 16 bytes at offset 12 are outside .*",
        ),
        ("buffer_write", (packed, ctypes.c_int64(-1), ctypes.c_int64(4), found), "write: .*-1.*"),
        ("buffer_write", (view, ctypes.c_int64(0), ctypes.c_int64(24), data), "write: .*contiguous.*"),
        ("buffer_write", (packed, ctypes.c_int64(0), ctypes.c_int64(4), None), "buffer_write: data is NULL"),
        ("buffer_read", (packed, ctypes.c_int64(0), ctypes.c_int64(4), None), "buffer_read: data_out is NULL"),
    ):
        assert getattr(LIBRARY, "hologram_" + function)(*arguments, ctypes.byref(event)) == 2, text
        assert re.fullmatch(text, last_error()), last_error()
    count, after = ctypes.c_int64(), ctypes.c_int64()
    done(LIBRARY.hologram_object_count(ctypes.byref(count)))
    for handle in (whole, view, packed, flat):
        done(LIBRARY.hologram_buffer_free(handle))
    done(LIBRARY.hologram_object_count(ctypes.byref(after)))
    assert count.value - after.value == 4


def test_flags_that_mean_nothing_are_refused(host: hg.Executor) -> None:
    """A later library may give them a meaning."""
    event, out, cells = ctypes.c_uint64(), ctypes.c_uint64(), (ctypes.c_float * 4)()
    shape = (ctypes.c_int64 * 1)(4)
    args = CallArgs(size=ctypes.sizeof(CallArgs), op=0, num_dims=-1)
    for bit in range(32):
        flags = ctypes.c_int32((1 << bit) - (1 << 32) * (bit == 31))
        args.flags = flags.value
        wrapped = (host.handle, cells, 11, 1, shape, None, flags, None, None, out)
        for meant, function, arguments in (
            ((0, 3), LIBRARY.hologram_buffer_allocate, (host.handle, 4, 11, flags, out)),
            ((1,), LIBRARY.hologram_buffer_wrap, wrapped),
            ((3, 5), LIBRARY.hologram_call, (host.handle, ctypes.byref(args), event)),
        ):
            function(*arguments)
            assert ("flags is" in last_error()) == (bit not in meant), (bit, meant)
            LIBRARY.hologram_buffer_free(out.value)


def test_a_trace_tells_no_owner(host: hg.Executor) -> None:
    args = CallArgs(size=ctypes.sizeof(CallArgs), op=-1, num_dims=-1, program=handles_of(host)["program"][0])
    told: list[int] = []
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: told.append(1))
    args.deleter = ctypes.cast(deleter, ctypes.c_void_p)
    line, event = Line(lambda *_: None), ctypes.c_uint64()
    assert LIBRARY.hologram_trace(host.handle, ctypes.byref(args), 0, line, None, ctypes.byref(event)) == 2
    assert "args->deleter is given; a trace takes buffers alone" in last_error() and not told


def test_batches_that_are_none(host: hg.Executor) -> None:
    """Nothing is launched, and done is 0, of what is refused or left to single launches, as on the host's device."""
    args = CallArgs(size=ctypes.sizeof(CallArgs), op=-1, num_dims=-1, program=handles_of(host)["program"][0])
    done = ctypes.c_int32(7)
    for count, given, status, text in (
        (0, args, 2, "launch_batch: count is 0; expected at least 1"),
        (2, CallArgs(size=8), 2, "args->size is 8"),
        (2, CallArgs(size=ctypes.sizeof(CallArgs), op=0, num_dims=-1), 2, "expected launches of a program"),
        (2, args, 0, ""),
    ):
        done.value = 7
        assert LIBRARY.hologram_launch_batch(host.handle, ctypes.byref(given), count, ctypes.byref(done)) == status
        assert done.value == 0 and text in last_error()
    assert LIBRARY.hologram_launch_batch(host.handle, ctypes.byref(args), 2, None) == 2
    assert LIBRARY.hologram_prepare_batch(host.handle, ctypes.byref(args), 2) == 0


def test_what_is_described(host: hg.Executor) -> None:
    """Results have the strides of row-major memory; a buffer is freed with its executor; names come whole."""
    operand, found = Operand(dtype=11, rank=3, device_type=1), Operand()
    operand.shape[:3], operand.strides[:3] = (2, 3, 4), (100, 30, 7)
    args = CallArgs(size=ctypes.sizeof(CallArgs), op=hg.ops._by_name["vector_neg"].number, num_dims=-1)
    args.operands, args.num_operands = ctypes.pointer(operand), 1
    done(LIBRARY.hologram_result(ctypes.byref(args), ctypes.byref(found)))
    assert (found.dtype, found.rank, found.flags, found.device_type) == (11, 3, 0, 1)
    assert (list(found.shape)[:3], list(found.strides)[:3]) == ([2, 3, 4], [12, 4, 1])
    other, buffer = hg.Executor("cpu"), ctypes.c_uint64()
    done(LIBRARY.hologram_buffer_allocate(other.handle, 4, 11, 0, buffer))
    for freed in (0, 1):
        info = _ffi.BufferInfo(size=ctypes.sizeof(_ffi.BufferInfo))
        done(LIBRARY.hologram_buffer_describe(buffer, ctypes.byref(info)))
        assert info.freed == freed
        other.cleanup()
    done(LIBRARY.hologram_buffer_free(buffer))
    name = "n" * 255
    assert hg.Program(f"program p\nslot {name} f32\nstg.f32 1.0, {name}[index]\nexit").slots[0].name == name


def test_the_last_error_has_a_size(host: hg.Executor) -> None:
    wrong = ("program p\n" + "\n".join(f"  {'n' * 300}{i} x" for i in range(30))).encode()
    with pytest.raises(ValueError, match="n" * 80):
        hg.Program(wrong.decode())
    assert LIBRARY.hologram_program_assemble(b"p", wrong, len(wrong), ctypes.byref(ctypes.c_uint64())) == 6
    size = ctypes.c_size_t()
    assert LIBRARY.hologram_last_error(None, 0, ctypes.byref(size)) == 0
    assert 0 < size.value <= 8192
    text = ctypes.create_string_buffer(b"#" * 10)
    assert LIBRARY.hologram_last_error(text, 4, None) == 0
    assert text.raw[4:5] == b"#"


def test_clear_all() -> None:
    import sys

    code = (
        "import hologram as hg\nfrom hologram import _ffi\nimport numpy as np\n"
        "ex = hg.Executor('cpu'); a = ex.allocate(8); p = hg.Program('program p\\nexit'); x = np.asarray(a)\n"
        "_ffi.native.clear_all()\n"
        "assert _ffi.native.object_count() == 0\n"
        "try: a.fill(1)\nexcept RuntimeError as e: assert 'freed' in str(e), e\nelse: raise SystemExit('no error')\n"
        "ex2 = hg.Executor('cpu'); b = ex2.allocate(4); b.fill(2); assert b.to_numpy().sum() == 8\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["use", "end"])
def test_a_c_program_uses_the_library(tmp_path: Path, name: str) -> None:
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        pytest.skip("no C compiler: neither CC nor cc, gcc or clang on PATH")
    source = Path(__file__).resolve().parents[2] / "capi" / "ctest" / f"{name}.c"
    library = Path(_ffi.path)
    program = tmp_path / name
    subprocess.run(
        f"{compiler} -std=c11 -Wall -Wextra -Werror -pedantic -pthread -I'{HEADER.parent}' '{source}' -o '{program}' "
        f"'{library}' -Wl,-rpath,'{library.parent}'",
        shell=True,
        check=True,
    )
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all is well" in done.stdout
