"""Programs in the Atlas ISA."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Optional, Union

from hologram import _ffi, _log
from hologram._arguments import shown
from hologram._dtypes import NAMES
from hologram._ffi import ProgramBase, described, native
from hologram.errors import (
    InvalidArgumentError,
    ProgramFreedError,
    ProgramSyntaxError,
    ProgramVerifyError,
)

__all__ = ["Param", "Program", "Slot"]


class Slot(NamedTuple):
    """A place that a launch binds an array to.

    Attributes:
        name: The slot's name.
        dtype: The Atlas name of the element type, such as "f32".
        reads: Whether the program loads from it.
        writes: Whether the program stores to it.
        indexed: Whether it is accessed as ``slot[index]``, and so broadcast to the index space.
        bytes: Whether it is accessed by byte address, which demands a contiguous array.
    """

    name: str
    dtype: str
    reads: bool
    writes: bool
    indexed: bool
    bytes: bool


class Param(NamedTuple):
    """A number given at launch.

    Attributes:
        name: The parameter's name.
        dtype: The Atlas name of its type.
    """

    name: str
    dtype: str


MAX_FILE_BYTES = 64 << 20
"""The most bytes of a program's file: far above what a program at the limits of isa.md takes."""


def program_bytes(file: Any, name: str) -> bytes:
    """Return what a file of a program holds, of which no more is read than it may have, and one byte.

    Raises:
        ValueError: It holds more.
    """
    data: bytes = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise InvalidArgumentError(f"{name} has more than {MAX_FILE_BYTES} bytes, the limit of a program's file")
    return data


class Program(ProgramBase):
    """A verified program, ready to be launched on any executor.

    Args:
        source: Its text, or the bytes of its binary form.
        file: What errors call the text.

    Attributes:
        name: The program's name.
        slots: What it binds to arrays.
        params: What it takes as numbers.
        block: The lanes of a block in x, y, z that it demands, or None for any.
        instructions: The number of its instructions.
        residue: Whether launches return residues, since it has RES_ACCUM.
        hash: The hash of its canonical form, in hex: equal for programs that compute the same thing in differently
            named registers, another order of independent instructions, and the like.

    Raises:
        ValueError: The text, the bytes or the program is wrong; the message shows where.
    """

    __slots__ = (
        "__weakref__",
        "_names",
        "block",
        "hash",
        "instructions",
        "name",
        "params",
        "residue",
        "slots",
    )

    def __init__(self, source: Union[str, bytes, bytearray, memoryview], *, file: str = "<program>") -> None:
        if isinstance(source, str):
            if source.endswith((".atlas", ".atlb")) and "\n" not in source:
                raise InvalidArgumentError(
                    f"Program: {shown(source)} is a file's name; expected what is in it; Program.from_file reads a file"
                )
            text = source.encode(errors="surrogatepass")  # which the assembler refuses, and shows where
            native.adopt(self, native.program_assemble(os.fsencode(file), text, len(text)))
        elif isinstance(source, (bytes, bytearray, memoryview)):
            data = bytes(source)
            native.adopt(self, native.program_decode(data, len(data)))
        else:
            hint = "; Program.from_file reads a file" if isinstance(source, os.PathLike) else ""
            raise TypeError(f"Program: expected text or bytes, got {type(source).__name__}{hint}")
        info = described(_ffi.ProgramInfo, native.program_describe, self)
        self.name = self._text(_ffi.TEXT_NAME).decode()
        self.block: Optional[tuple[int, int, int]] = tuple(info.block) if any(info.block) else None
        self.instructions = int(info.instructions)
        self.residue = bool(info.residue)
        self.hash = bytes(info.hash).hex()
        slots = [self._operand(native.program_slot, i) for i in range(info.slots)]
        params = [self._operand(native.program_param, i) for i in range(info.params)]
        self.slots = tuple(
            Slot(name, dtype, bool(o.reads), bool(o.writes), bool(o.indexed), bool(o.bytes)) for name, dtype, o in slots
        )
        self.params = tuple(Param(name, dtype) for name, dtype, _ in params)
        _log.debug("program %s: %d instructions, hash %s", self.name, self.instructions, self.hash)
        self._names = [slot.name for slot in self.slots] + [param.name for param in self.params]
        # What C needs to know of a launch; one that gives residues it leaves to Python.
        taken = [(s.name, "w" if s.writes else "r", False, None) for s in self.slots]
        taken += [(p.name, "s", False, None) for p in self.params]
        boundary = next((i for i, s in enumerate(self.slots) if s.name == "boundary"), -1)
        self._plan = native.plan(tuple(taken), boundary, self.residue)

    @classmethod
    def from_file(cls, path: Union[str, os.PathLike[str]]) -> Program:
        """Make a program of a file with its text or its binary form, of at most 64 MiB.

        Raises:
            OSError: The file can't be read.
            ValueError: What it holds is wrong, or more than that.
        """
        name = os.fspath(path)
        with open(path, "rb") as file:
            data = program_bytes(file, str(name))
        try:
            return cls(data) if data.startswith(b"ATLAS") else cls(data.decode(), file=name)
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} is neither UTF-8 text nor a binary program: {error}") from None
        except (ProgramSyntaxError, ProgramVerifyError) as error:
            if str(error).startswith(f"{name}:"):  # and the line
                raise
            raise type(error)(f"{name}: {error}") from None

    def _operand(self, function: Any, index: int) -> tuple[str, str, _ffi.OperandInfo]:
        info = described(_ffi.OperandInfo, function, self, index)
        return info.name.decode(), NAMES[info.dtype - 1], info

    def _text(self, which: int) -> bytes:
        self._check()
        text: bytes = native.program_text(self, which)
        return text

    def _check(self) -> None:
        if self._freed:
            raise ProgramFreedError(f'program "{self.name}" was freed')

    def disassemble(self) -> str:
        """Return the text form; a program made of it is equal to this one."""
        return self._text(_ffi.TEXT_DISASSEMBLY).decode()

    def canonical(self) -> str:
        """Return the canonical form, what backends compile, as text to read."""
        return self._text(_ffi.TEXT_CANONICAL).decode()

    def stage(self, stage: str, engine: str = "") -> str:
        """Return a form of the program on its way to the CPU's machine code, as text to read.

        Args:
            stage: ``"ir"``, the canonical form, or one of those that follow it: ``"expanded"``, with expansions in
                place; ``"instructions"``, on virtual registers; these when they are ``"tidy"``, after ``"schedule"``,
                and with ``"registers"``; ``"machine"``, the machine code: where each instruction lies, its bytes, and
                what it says. Behind what was made for an instruction stand its number and its text.
            engine: What makes it, ``"avx2"`` or ``"avx512"``, which need not be what the machine has; without, what
                runs the program here.

        Raises:
            InvalidArgumentError: There is no such stage or engine.
            BackendError: No machine code can be made of the program, with the reason.
        """
        self._check()
        text: bytes = native.program_stage(self, engine, stage)
        return text.decode()

    @property
    def analysis(self) -> str:
        """What is known of the program before any launch, as text to read.

        Its kind (map, reduction, product with or without an epilogue, or other, with the reason), where it accesses
        memory and how that steps from lane to lane, its loops, and by which engine the CPU runs it, with the reason why
        not by a faster one. Of a program that adds up products in a loop, also whether the loop is done as ``gemm``
        does it, or why not.
        """
        return self._text(_ffi.TEXT_ANALYSIS).decode()

    def to_bytes(self) -> bytes:
        """Return the binary form."""
        return self._text(_ffi.TEXT_BINARY)

    def __bytes__(self) -> bytes:
        """Return the binary form."""
        return self.to_bytes()

    def __repr__(self) -> str:
        """Describe the program in one line."""
        takes = [f"{s.name}: {s.dtype}{' in' * (s.reads and s.writes)}{' out' * s.writes}" for s in self.slots]
        takes += [f"{p.name}: {p.dtype}" for p in self.params]
        return f"<Program {self.name}({', '.join(takes)}), {self.instructions} instructions>"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the binary form."""
        return type(self), (self.to_bytes(),)

    def __eq__(self, other: object) -> bool:
        """Whether the other is the same program as written, names included."""
        return isinstance(other, Program) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        """Return a hash that equal programs share."""
        return hash(self.hash)
