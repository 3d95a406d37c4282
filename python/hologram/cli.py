"""The ``hologram`` command: look at the installation, and work with programs in files."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Optional

import hologram
from hologram.errors import HologramError, ProgramFault, ProgramSyntaxError, ProgramVerifyError
from hologram.program import program_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

_BOLD, _RED, _GREEN, _CYAN, _DIM = "1", "1;31", "32", "36", "2"


def _coloured(stream: Any) -> bool:
    """Whether to colour what goes to a stream: a terminal, unless NO_COLOR or TERM=dumb forbid it."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream is not None and bool(stream.isatty())


def _open(name: str, stream: Any) -> Any:
    """Return a standard stream; who started the command may have closed it.

    Raises:
        OSError: It is closed.
    """
    if stream is None:
        raise OSError(f"standard {name} is closed")
    return stream


def _paint(text: str, code: str, stream: Any) -> str:
    return f"\033[{code}m{text}\033[0m" if _coloured(stream) else text


def _show_error(error: BaseException) -> None:
    """Write an error to stderr: places bold, carets red, hints cyan where it is a terminal."""
    if sys.stderr is None:  # which print takes for standard output
        return
    if not isinstance(error, (ProgramSyntaxError, ProgramVerifyError)):
        lines = str(error).splitlines() or [type(error).__name__]
        print(_paint("error: ", _RED, sys.stderr) + lines[0], file=sys.stderr)
        print("\n".join(lines[1:]), end="\n" if lines[1:] else "", file=sys.stderr)
        return
    for line in str(error).splitlines():
        place = re.match(r"(\S.*?:\d+:\d+): (.*)", line)
        if place:
            head = _paint(place[1] + ":", _BOLD, sys.stderr)
            line = f"{head} {_paint('error:', _RED, sys.stderr)} {place[2]}"
        elif re.fullmatch(r"\s*\^~*", line):
            line = _paint(line, _RED, sys.stderr)
        elif line.strip().startswith("hint:"):
            line = _paint(line, _CYAN, sys.stderr)
        print(line, file=sys.stderr)


class _Usage(Exception):
    """The command line asks for what cannot be."""


_STREAM = "-"  # what names standard input or output in place of a file


class _Input:
    """Standard input, which can be read once."""

    def __init__(self) -> None:
        self._reader = ""

    def open(self, what: str) -> Any:
        if self._reader:
            raise _Usage(f"{what}: standard input is {self._reader} already, and can be read once")
        self._reader = what
        return _open("input", sys.stdin).buffer


def _write(path: str, data: bytes) -> None:
    if path == _STREAM:
        _open("output", sys.stdout).buffer.write(data)
    else:
        Path(path).write_bytes(data)


def _program(path: str, stdin: _Input) -> hologram.Program:
    """Read a program's text or binary form."""
    if path != _STREAM:
        return hologram.Program.from_file(path)
    data = program_bytes(stdin.open("the program"), "standard input")
    if data.startswith(b"ATLAS"):
        return hologram.Program(data)
    try:
        return hologram.Program(data.decode(), file="<stdin>")
    except UnicodeDecodeError as error:
        raise ValueError(f"standard input is neither UTF-8 text nor a binary program: {error}") from None


# ---- info


def _info(_: argparse.Namespace) -> int:
    print(f"hologram {hologram.__version__} (C ABI {hologram.abi_version()}), numpy {_numpy().__version__}")
    print(f"python   {sys.version.split()[0]} on {sys.platform}")
    whole = True
    try:
        print(f"threads  {hologram.num_threads()}")
    except hologram.HologramError as error:
        whole = False
        print(f"threads  not known: {error}")
    print("backends")
    for backend in hologram.backend.backends():
        name = f"  {backend['name']:<8}"
        if backend["available"]:
            threads = f", {backend['threads']} threads" if backend["threads"] > 1 else ""
            mark = " (default)" if backend["name"] == hologram.get_default_backend() else ""
            others = f" and {backend['devices'] - 1} more" if backend["devices"] > 1 else ""
            print(f"{name} {_paint('available', _GREEN, sys.stdout)}: {backend['device']}{others}{threads}{mark}")
        else:
            print(f"{name} {_paint('not available', _DIM, sys.stdout)}: {_reason(backend)}")
    try:
        with hologram.Executor() as executor:
            kernels, memory = executor.kernel_stats(), executor.memory_stats()
    except hologram.HologramError as error:
        print(f"caches   not known: {error}")
        return 1
    print(
        f"caches   kernels of {executor.backend}: {kernels['entries']} of {kernels['limit']}, in memory, "
        f"{kernels['hits']} hits, {kernels['misses']} misses"
    )
    limit = f"limit {memory['limit']} bytes" if memory["limit"] else "no limit"
    print(f"memory   {memory['reserved']} bytes reserved, {limit}")
    return 0 if whole else 1


def _reason(backend: dict[str, Any]) -> str:
    return str(backend["reason"]).split("is not available: ", 1)[-1]


def _numpy() -> Any:
    import numpy

    return numpy


# ---- the cache of machine code


def _cache_folder() -> Path | None:
    """Where the library keeps machine code for GPUs (backends/cuda/cubins has the rule); None: nowhere."""
    named = os.environ.get("HOLOGRAM_CACHE_DIR", "")
    if named:
        return None if named == "off" else Path(named)
    if sys.platform == "win32":
        base = os.environ.get("LocalAppData", "")
    elif sys.platform == "darwin":
        base = os.environ.get("HOME", "") and os.path.join(os.environ["HOME"], "Library", "Caches")
    else:
        home = os.environ.get("HOME", "")
        base = os.environ.get("XDG_CACHE_HOME", "") or (home and os.path.join(home, ".cache"))
    return Path(base, "hologram", "cuda") if base else None


def _unfit(folder: Path) -> str:
    """Why the library does not use a folder (backends/cuda/cubins has the rule), "" if it does."""
    if sys.platform == "win32":
        return ""
    found = folder.stat()
    if found.st_uid != os.geteuid():
        return f"it belongs to user {found.st_uid}, and this is user {os.geteuid()}"
    if found.st_mode & 0o022:
        return f"others may write to it (mode {found.st_mode & 0o777:o})"
    return ""


def _cache(args: argparse.Namespace) -> int:
    folder = _cache_folder()
    if folder is None:
        off = os.environ.get("HOLOGRAM_CACHE_DIR") == "off"
        why = "HOLOGRAM_CACHE_DIR is off" if off else "there is no folder for caches: HOME and XDG_CACHE_HOME are unset"
        print(f"machine code is not kept: {why}")
        return 0
    if folder.exists() and not folder.is_dir():
        print(f"{folder}: nothing is kept, because it is no folder; HOLOGRAM_CACHE_DIR names it")
        return 0
    if not folder.is_dir():
        print(f"{folder}: nothing is kept there yet")
        return 0
    files = [
        f
        for f in folder.iterdir()
        if f.is_file() and re.fullmatch(r"[0-9a-f]{64}\.cubin|[0-9a-f]{16}\.tmp-\w+", f.name)
    ]
    sizes = []
    for f in files:
        with contextlib.suppress(FileNotFoundError):  # another process may remove it, or give it its name, meanwhile
            size = f.stat().st_size
            if args.action_name == "clear":
                f.unlink()
            sizes.append(size)
    print(f"{folder}: {'removed ' * (args.action_name == 'clear')}{len(sizes)} files, {sum(sizes)} bytes")
    if why := _unfit(folder):
        print(f"the library does not use it: {why}")
    return 0


# ---- programs in files


def _asm(arguments: argparse.Namespace) -> int:
    source, target = arguments.program, arguments.output
    if target is None:
        target = _STREAM if source == _STREAM else str(Path(source).with_suffix(".atlb"))
    program = _program(source, _Input())
    if target != _STREAM and os.path.exists(target) and source != _STREAM and os.path.samefile(source, target):
        raise _Usage(f"asm would overwrite {source}, the program; name another file with -o")
    data = program.to_bytes()
    _write(target, data)
    if target != _STREAM:
        print(f"{target}: {len(data)} bytes, {program.instructions} instructions")
    return 0


def _dis(arguments: argparse.Namespace) -> int:
    program = _program(arguments.program, _Input())
    if arguments.stage is None and arguments.engine:
        raise _Usage("dis --engine: give a --stage too, such as machine")
    if arguments.stage is not None:
        print(program.stage(arguments.stage, arguments.engine), end="")
    else:
        print(program.canonical() if arguments.canonical else program.disassemble(), end="")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    failed = 0
    stdin = _Input()
    for path in arguments.programs:
        try:
            program = _program(path, stdin)
        except (HologramError, ValueError, OSError) as error:
            _show_error(error)
            failed += 1
            continue
        ok = _paint("ok", _GREEN, sys.stdout)
        print(f"{path}: {ok}: program {program.name}, {program.instructions} instructions")
        for slot in program.slots:
            role = {(True, False): "in", (False, True): "out", (True, True): "in, out"}.get((slot.reads, slot.writes))
            ways = [way for way, used in (("[index]", slot.indexed), ("bytes", slot.bytes)) if used]
            print(f"  slot  {slot.name:<12} {slot.dtype:<5} {role or 'not used'}{': ' * bool(ways)}{', '.join(ways)}")
        for param in program.params:
            print(f"  param {param.name:<12} {param.dtype}")
        print(f"  hash  {program.hash}")
    return 1 if failed else 0


def _named(values: Sequence[str], option: str) -> list[tuple[Optional[str], str]]:
    """Split NAME=VALUE; the name may be missing."""
    pairs: list[tuple[Optional[str], str]] = []
    for value in values:
        name, equals, rest = value.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.$]*", name):
            if name in dict(pairs):
                raise _Usage(f"{option} {value}: {name} is given twice")
            if not rest:
                raise _Usage(f"{option} {value}: nothing follows {name}=")
            pairs.append((name, rest))
        elif option == "--param":
            raise _Usage(f"{option} {value}: expected NAME=NUMBER")
        else:
            pairs.append((None, value))
    return pairs


def _assign(pairs: list[tuple[Optional[str], str]], names: list[str], option: str) -> dict[str, str]:
    """Give the values without a name the slots that are left, in the program's order."""
    found = {name: value for name, value in pairs if name is not None}
    free = [name for name in names if name not in found]
    for name, value in pairs:
        if name is None:
            if not free:
                raise _Usage(f"{option} {value}: the program has no slot left for it; its slots are {', '.join(names)}")
            found[free.pop(0)] = value
    return found


def _load(slot: str, path: str, stdin: _Input) -> Any:
    """Read an array from a .npy file, or from a .npz file the one called like the slot, or its only one.

    Raises:
        ValueError: The file is none of these, or damaged.
        OSError: It can't be opened.
    """
    numpy = _numpy()
    name = "standard input" if path == _STREAM else path
    file: Any = stdin.open(f"slot {slot}") if path == _STREAM else open(path, "rb")
    with contextlib.nullcontext(file) if path == _STREAM else file:
        magic = file.read(6)  # and no more of what is no array, which may have no end
        if magic != b"\x93NUMPY" and magic[:4] not in (b"PK\x03\x04", b"PK\x05\x06"):
            raise ValueError(f"slot {slot}: {name} is no .npy or .npz file")
        if path == _STREAM:
            file = io.BytesIO(magic + file.read())
        file.seek(0)
        try:
            found = numpy.load(file, allow_pickle=False)
            if isinstance(found, numpy.ndarray):
                return found
            members = found.files
            if slot not in members and len(members) != 1:
                raise _Usage(f"slot {slot}: {name} holds no array {slot}; it has {', '.join(members) or 'none'}")
            array = found[slot if slot in members else members[0]]
            if not isinstance(array, numpy.ndarray):
                raise ValueError(f"{members[0]} is no array")
            return array
        except _Usage:
            raise
        # What reads headers and members (ast, tokenize, zipfile and what unpacks) raises whatever it comes upon.
        except Exception as error:
            text = "it holds Python objects, not numbers" if "allow_pickle" in str(error) else str(error)
            raise ValueError(f"slot {slot}: {name} can't be read: {text}") from None


def _space(shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape to which those of slots broadcast."""
    try:
        return tuple(_numpy().broadcast_shapes(*shapes.values()))
    except ValueError:
        each = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise _Usage(f"the shapes of the slots don't broadcast to one: {each}") from None


def _bindings(
    program: hologram.Program, arguments: argparse.Namespace, stdin: _Input
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what to launch with, and the files to write slots to."""
    numpy = _numpy()
    from hologram._dtypes import dtype_of

    slots = [slot for slot in program.slots if slot.name != "boundary"]
    inputs = _assign(_named(arguments.inputs, "--in"), [s.name for s in slots if s.reads], "--in")
    outputs = _assign(_named(arguments.outputs, "--out"), [s.name for s in slots if s.writes], "--out")
    for name in (*inputs, *outputs):
        if name not in [slot.name for slot in program.slots]:
            raise _Usage(f"the program has no slot {name}; it has {', '.join(s.name for s in program.slots) or 'none'}")
    for slot in slots:
        if slot.name in outputs and not slot.writes:
            written = ", ".join(s.name for s in slots if s.writes) or "none"
            raise _Usage(f"--out: the program never writes {slot.name}; it writes {written}")
    for path in outputs.values():
        shared = [other for other in outputs if outputs[other] == path]
        if len(shared) > 1 and not path.endswith(".npz"):
            raise _Usage(f"--out: {' and '.join(shared)} go to one file, {path}; only a .npz file holds several arrays")
    bindings: dict[str, Any] = {name: _load(name, path, stdin) for name, path in inputs.items()}
    shape = tuple(arguments.shape or ([arguments.n] if arguments.n is not None else ()))
    if not shape:
        shape = _space({s.name: bindings[s.name].shape for s in slots if s.indexed and s.name in bindings})
    for slot in slots:
        if slot.name in bindings:
            continue
        if not slot.writes or slot.reads:
            raise _Usage(f"slot {slot.name} ({slot.dtype}) needs an array: --in {slot.name}=FILE.npy")
        if not shape:
            raise _Usage(f"slot {slot.name} ({slot.dtype}) is an output of unknown size: give --n or --shape")
        bindings[slot.name] = numpy.zeros(shape, dtype_of(slot.dtype))
    for param, text in _named(arguments.params, "--param"):
        try:
            bindings[str(param)] = int(text, 0)
        except ValueError:
            try:
                bindings[str(param)] = float.fromhex(text) if "0x" in text.lower() else float(text)
            except ValueError:
                raise _Usage(f"--param {param}={text}: {text} is not a number") from None
    return bindings, outputs


def _sizes(arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "grid": arguments.grid,
        "block": arguments.block,
        "n": arguments.n,
        "shape": arguments.shape,
        "fuel": arguments.fuel,
    }


def _save(bindings: dict[str, Any], outputs: dict[str, str], report: Any) -> None:
    numpy = _numpy()
    for path in dict.fromkeys(outputs.values()):
        arrays = {name: bindings[name] for name in outputs if outputs[name] == path}
        data = io.BytesIO()
        if path.endswith(".npz"):
            numpy.savez(data, **arrays)
        else:
            (array,) = arrays.values()
            numpy.save(data, array, allow_pickle=False)
        _write(path, data.getvalue())
        for name, array in arrays.items():
            print(f"{path}: {name}, {array.dtype} {array.shape}", file=report)
    if not outputs:
        for name, value in bindings.items():
            if isinstance(value, numpy.ndarray):
                print(f"{name} = {numpy.array2string(value, threshold=20)}", file=report)


def _prepare(arguments: argparse.Namespace) -> tuple[hologram.Program, dict[str, Any], dict[str, str], Any]:
    """Return the program, its bindings, the files for outputs, and the stream for all that is to be read."""
    stdin = _Input()
    program = _program(arguments.program, stdin)
    bindings, outputs = _bindings(program, arguments, stdin)
    report = sys.stderr if _STREAM in outputs.values() else sys.stdout
    return program, bindings, outputs, report or io.StringIO()  # print takes None for standard output


def _run(arguments: argparse.Namespace) -> int:
    program, bindings, outputs, report = _prepare(arguments)
    fault: Optional[ProgramFault] = None
    with hologram.Executor(arguments.backend) as executor:
        given, there = bindings, {}
        if not executor.host_visible:
            there = {name: executor.from_numpy(x) for name, x in bindings.items() if isinstance(x, _numpy().ndarray)}
            given = {**bindings, **there}
        try:
            residue = executor.launch(program, given, **_sizes(arguments))
            executor.synchronize()
            if residue is not None:
                print(f"residue = {residue}", file=report)
        except ProgramFault as error:
            fault = error  # the launch ran to its end: its outputs are worth keeping
        bindings.update({name: buffer.to_numpy() for name, buffer in there.items()})
        if arguments.stats:
            for what, stats in (("kernels", executor.kernel_stats()), ("memory", executor.memory_stats())):
                print(f"{what}: {', '.join(f'{name} {value}' for name, value in stats.items())}", file=sys.stderr)
    _save(bindings, outputs, report)
    if fault is not None:
        raise fault
    return 0


def _trace(arguments: argparse.Namespace) -> int:
    program, bindings, outputs, report = _prepare(arguments)
    with hologram.Executor("cpu") as executor:
        executor.trace(
            program,
            bindings,
            lane=arguments.lane,
            receive=lambda line: print(line, file=report),
            **_sizes(arguments),
        )
    if outputs:
        _save(bindings, outputs, report)
    return 0


# ---- the command line


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        print(_paint("error: ", _RED, sys.stderr) + message, file=sys.stderr)
        raise SystemExit(2)


def _counts(text: str) -> list[int]:
    """Read 4, 4,2 or 4x2."""
    try:
        return [int(part) for part in re.split(r"[x,]", text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers such as 4 or 64,64") from None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="hologram",
        description="Numeric programs in the Atlas ISA, on numpy arrays.",
        epilog="In place of a file, - is standard input or output.",
    )
    parser.add_argument("--version", action="version", version=f"hologram {hologram.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    command = commands.add_parser("info", help="say what is installed: version, backends, threads, caches")
    command.set_defaults(action=_info)

    command = commands.add_parser("cache", help="look at the machine code that is kept for GPUs, or remove it")
    command.add_argument("action_name", choices=("info", "clear"), metavar="info|clear")
    command.set_defaults(action=_cache)

    command = commands.add_parser("asm", help="write a program's binary form")
    command.add_argument("program", help="its text")
    command.add_argument("-o", "--output", help="the file to write (PROGRAM.atlb)")
    command.set_defaults(action=_asm)

    command = commands.add_parser("dis", help="write a program's text form")
    command.add_argument("program", help="its text or binary form")
    what = command.add_mutually_exclusive_group()
    what.add_argument("--canonical", action="store_true", help="show the canonical form instead")
    what.add_argument(
        "--stage",
        help="show instead what becomes of it on the way to the CPU's machine code: ir (the canonical form), expanded, "
        "instructions, tidy, schedule, registers or machine",
    )
    command.add_argument(
        "--engine", default="", help="with --stage: avx2 or avx512; without, what runs the program on this machine"
    )
    command.set_defaults(action=_dis)

    command = commands.add_parser("verify", help="check programs, and say what they take")
    command.add_argument("programs", nargs="+", metavar="PROGRAM")
    command.set_defaults(action=_verify)

    for name, action, text in (
        ("run", _run, "run a program on .npy and .npz files"),
        ("trace", _trace, "run a program on the interpreter and show each instruction of one lane"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("program", help="its text or binary form")
        command.add_argument(
            "--in",
            dest="inputs",
            action="append",
            default=[],
            metavar="[SLOT=]FILE",
            help="bind a slot to a .npy file's array, or that of its name, or the only one, of a .npz; one that is "
            "only written may go without, and is zeros of the index space's shape then",
        )
        command.add_argument(
            "--out", dest="outputs", action="append", default=[], metavar="[SLOT=]FILE", help="keep a slot's array"
        )
        command.add_argument("--param", dest="params", action="append", default=[], metavar="NAME=NUMBER")
        command.add_argument("--n", type=int, help="the number of elements to run on")
        command.add_argument("--shape", type=_counts, help="the index space, such as 64,64")
        command.add_argument("--grid", type=_counts, help="blocks, such as 4 or 4,2,1")
        command.add_argument("--block", type=_counts, help="lanes of a block, such as 256 or 16,16")
        command.add_argument("--fuel", type=int, help="the rounds of loops that a lane may take")
        if name == "run":
            command.add_argument("--backend", default="auto", help="auto, cpu, cuda, cuda:1 (the second GPU), interp")
            command.add_argument(
                "--stats", action="store_true", help="tell on stderr what the kernel cache and the memory pool did"
            )
        else:
            command.add_argument("--lane", type=int, default=0, help="the lane's global number (0)")
        command.set_defaults(action=action)
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command and return the exit status: 0, 1 for what went wrong, 2 for a wrong command line."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if parsed.command is None:
        parser.print_help()
        return 2
    try:
        status = int(parsed.action(parsed))
        if sys.stdout is not None:
            sys.stdout.flush()  # so that a pipe's end is met here
        return status
    except BrokenPipeError:
        return _reader_gone()
    except _Usage as error:
        _show_error(error)
        return 2
    except (HologramError, OSError, ValueError, TypeError, MemoryError) as error:
        _show_error(error)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _reader_gone() -> int:
    """Go quietly, as who reads standard output has, such as head: Python would complain when it flushes at its end."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    return 128 + 13  # what a shell reports of a command that SIGPIPE ended


if __name__ == "__main__":
    sys.exit(main())
