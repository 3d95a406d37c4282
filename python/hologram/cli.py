"""The ``hologram`` command: look at the installation, and work with programs in files."""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Optional

import hologram
from hologram.errors import HologramError, ProgramFault, ProgramSyntaxError, ProgramVerifyError

if TYPE_CHECKING:
    from collections.abc import Sequence

_BOLD, _RED, _GREEN, _CYAN, _DIM = "1", "1;31", "32", "36", "2"


def _coloured(stream: Any) -> bool:
    """Whether to colour what goes to a stream: a terminal, unless NO_COLOR or TERM=dumb forbid it."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(stream.isatty())


def _paint(text: str, code: str, stream: Any) -> str:
    return f"\033[{code}m{text}\033[0m" if _coloured(stream) else text


def _show_error(error: BaseException) -> None:
    """Write an error to stderr: places bold, carets red, hints cyan where it is a terminal."""
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


# ---- info


def _info(_: argparse.Namespace) -> int:
    print(f"hologram {hologram.__version__} (C ABI {hologram.abi_version()}), numpy {_numpy().__version__}")
    print(f"python   {sys.version.split()[0]} on {sys.platform}")
    print(f"threads  {hologram.num_threads()}")
    print("backends")
    for backend in hologram.backend.backends():
        name = f"  {backend['name']:<8}"
        if backend["available"]:
            threads = f", {backend['threads']} threads" if backend["threads"] > 1 else ""
            mark = " (default)" if backend["name"] == hologram.get_default_backend() else ""
            print(f"{name} {_paint('available', _GREEN, sys.stdout)}: {backend['device']}{threads}{mark}")
        else:
            print(f"{name} {_paint('not available', _DIM, sys.stdout)}: {_reason(backend)}")
    with hologram.Executor() as executor:
        kernels, memory = executor.kernel_stats(), executor.memory_stats()
    print(
        f"caches   kernels of {executor.backend}: {kernels['entries']} of {kernels['limit']}, in memory, "
        f"{kernels['hits']} hits, {kernels['misses']} misses"
    )
    limit = f"limit {memory['limit']} bytes" if memory["limit"] else "no limit"
    print(f"memory   {memory['reserved']} bytes reserved, {limit}")
    return 0


def _reason(backend: dict[str, Any]) -> str:
    return str(backend["reason"]).split("is not available: ", 1)[-1]


def _numpy() -> Any:
    import numpy

    return numpy


# ---- programs in files


def _asm(arguments: argparse.Namespace) -> int:
    program = hologram.Program.from_file(arguments.program)
    target = Path(arguments.output) if arguments.output else Path(arguments.program).with_suffix(".atlb")
    target.write_bytes(program.to_bytes())
    print(f"{target}: {target.stat().st_size} bytes, {program.instructions} instructions")
    return 0


def _dis(arguments: argparse.Namespace) -> int:
    program = hologram.Program.from_file(arguments.program)
    print(program.canonical() if arguments.canonical else program.disassemble(), end="")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    failed = 0
    for path in arguments.programs:
        try:
            program = hologram.Program.from_file(path)
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


def _bindings(program: hologram.Program, arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what to launch with, and the files to write slots to."""
    numpy = _numpy()
    from hologram._dtypes import dtype_of

    slots = [slot for slot in program.slots if slot.name != "boundary"]
    inputs = _assign(_named(arguments.inputs, "--in"), [s.name for s in slots if s.reads], "--in")
    outputs = _assign(_named(arguments.outputs, "--out"), [s.name for s in slots if s.writes], "--out")
    for name in (*inputs, *outputs):
        if name not in [slot.name for slot in program.slots]:
            raise _Usage(f"the program has no slot {name}; it has {', '.join(s.name for s in program.slots) or 'none'}")
    bindings: dict[str, Any] = {name: numpy.load(path, allow_pickle=False) for name, path in inputs.items()}
    shape = tuple(arguments.shape or ([arguments.n] if arguments.n is not None else ()))
    if not shape:
        indexed = [bindings[s.name].shape for s in slots if s.indexed and s.name in bindings]
        shape = numpy.broadcast_shapes(*indexed) if indexed else ()
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


def _save(bindings: dict[str, Any], outputs: dict[str, str]) -> None:
    numpy = _numpy()
    for name, path in outputs.items():
        numpy.save(path, bindings[name])
        print(f"{path}: {name}, {bindings[name].dtype} {bindings[name].shape}")
    if not outputs:
        for name, value in bindings.items():
            if isinstance(value, numpy.ndarray):
                print(f"{name} = {numpy.array2string(value, threshold=20)}")


def _run(arguments: argparse.Namespace) -> int:
    program = hologram.Program.from_file(arguments.program)
    bindings, outputs = _bindings(program, arguments)
    fault: Optional[ProgramFault] = None
    with hologram.Executor(arguments.backend) as executor:
        try:
            residue = executor.launch(program, bindings, **_sizes(arguments))
            if residue is not None:
                print(f"residue = {residue}")
        except ProgramFault as error:
            fault = error  # the launch ran to its end: its outputs are worth keeping
        if arguments.stats:
            for what, stats in (("kernels", executor.kernel_stats()), ("memory", executor.memory_stats())):
                print(f"{what}: {', '.join(f'{name} {value}' for name, value in stats.items())}", file=sys.stderr)
    _save(bindings, outputs)
    if fault is not None:
        raise fault
    return 0


def _trace(arguments: argparse.Namespace) -> int:
    program = hologram.Program.from_file(arguments.program)
    bindings, outputs = _bindings(program, arguments)
    with hologram.Executor("cpu") as executor:
        executor.trace(program, bindings, lane=arguments.lane, receive=print, **_sizes(arguments))
    if outputs:
        _save(bindings, outputs)
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
    parser = _Parser(prog="hologram", description="Numeric programs in the Atlas ISA, on numpy arrays.")
    parser.add_argument("--version", action="version", version=f"hologram {hologram.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    command = commands.add_parser("info", help="say what is installed: version, backends, threads, caches")
    command.set_defaults(action=_info)

    command = commands.add_parser("asm", help="write a program's binary form")
    command.add_argument("program", help="its text")
    command.add_argument("-o", "--output", help="the file to write (PROGRAM.atlb)")
    command.set_defaults(action=_asm)

    command = commands.add_parser("dis", help="write a program's text form")
    command.add_argument("program", help="its text or binary form")
    command.add_argument("--canonical", action="store_true", help="show the canonical form instead")
    command.set_defaults(action=_dis)

    command = commands.add_parser("verify", help="check programs, and say what they take")
    command.add_argument("programs", nargs="+", metavar="PROGRAM")
    command.set_defaults(action=_verify)

    for name, action, text in (
        ("run", _run, "run a program on .npy files"),
        ("trace", _trace, "run a program on the interpreter and show each instruction of one lane"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("program", help="its text or binary form")
        command.add_argument(
            "--in", dest="inputs", action="append", default=[], metavar="[SLOT=]FILE", help="bind a slot to an array"
        )
        command.add_argument(
            "--out", dest="outputs", action="append", default=[], metavar="[SLOT=]FILE", help="keep a slot's array"
        )
        command.add_argument("--param", dest="params", action="append", default=[], metavar="NAME=NUMBER")
        command.add_argument("--n", type=int, help="the number of elements to run on")
        command.add_argument("--shape", type=_counts, help="the index space, such as 64,64")
        command.add_argument("--grid", type=_counts, help="blocks, such as 4 or 4,2,1")
        command.add_argument("--block", type=_counts, help="lanes of a block, such as 256 or 16,16")
        command.add_argument("--fuel", type=int, help="the steps that a lane may take")
        if name == "run":
            command.add_argument("--backend", default="auto", help="auto, cpu, interp, …")
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
        return int(parsed.action(parsed))
    except _Usage as error:
        _show_error(error)
        return 2
    except (HologramError, OSError, ValueError, TypeError, MemoryError) as error:
        _show_error(error)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
