"""Write the generated part of the conformance corpus: one .atlas file a row.

Expected values come from exact rational arithmetic (fractions), mpmath at 300
bits for the transcendentals, and Python's integers (exact.py); where numpy or ml_dtypes
computes the same thing, its answer is compared while generating. Nothing here
uses Hologram. The hand-written files of the corpus are not touched.

    python gen.py            writes <row>.atlas beside this file
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Callable

import numpy as np
from exact import (
    FLOATS,
    INTS,
    NUMPY,
    TYPES,
    Float,
    add,
    as_float,
    as_int,
    compare,
    convert,
    div,
    edges,
    fmax,
    fmin,
    fmod,
    integral,
    mad,
    mul,
    narrow_fma,
    neg,
    one,
    pack,
    sqrt,
    transcendental,
    trunc_div,
    trunc_rem,
    unpack,
    width,
    wrap,
)

HERE = Path(__file__).parent


def entry(name: str, out: bool, t: str, cells: Iterable[int]) -> str:
    digits = 1 if t == "pred" else width(t) // 4
    words = [f"{c:0{digits}x}" for c in cells]
    per = max(1, 110 // (digits + 1))
    lines = [" ".join(words[i : i + per]) for i in range(0, len(words), per)]
    return f";: {name} {'= ' if out else ''}" + "\n;:   ".join(lines) + "\n"


Run = tuple[str, "dict[str, tuple[str, list[int]]]", "tuple[str, list[int]]"]


def write(name: str, body: str, runs: list[Run]) -> None:
    text = [f"; {name}: written by gen.py, which says where the expected values come from\n"]
    text.append(f"program {name}\n{body}")
    for header, inputs, (out_type, out) in runs:
        text.append(f";: run {header}\n")
        text += [entry(n, False, t, v) for n, (t, v) in inputs.items()]
        text.append(entry("z", True, out_type, out))
    (HERE / f"{name}.atlas").write_text("".join(text))


def tuples(t: str, n: int, most: int = 400) -> list[tuple[int, ...]]:
    """All n-tuples of edge values, or a sample of them with all pairs of the first two."""
    e = edges(t, 200 if n == 1 else 8)
    every = list(itertools.product(e, repeat=n)) if len(e) ** n <= most * 40 else None
    rng = random.Random(f"{t}{n}")
    if every is None or len(every) > most:
        every = [tuple(rng.choice(e) for _ in range(n)) for _ in range(most)]
    return every


def program(n: int, line: str, source: str = "$T") -> str:
    names = "xyw"[:n]
    slots = "".join(f"slot {v} {source}\n" for v in names)
    loads = "".join(f"  ldg.{source} {v}, {v}[index]\n" for v in names)
    return f"{slots}slot z $T\n{loads}  {line}\n  stg.$T z, z[index]\n  exit\n"


def row(
    name: str,
    types: Iterable[str],
    n: int,
    meaning: Callable[[str], Callable[..., int]],
    line: str = "",
    **kw: object,
) -> None:
    """One file for a row with n sources of type T. fault splits off what faults."""
    runs: list[Run] = []
    ulp, fault = kw.get("ulp"), kw.get("fault")
    args = ", ".join("xyw"[:n])
    for t in types:
        f = meaning(t)
        groups: dict[str, list[tuple[int, ...]]] = {}
        for x in tuples(t, n):
            kind = "fault=divide" if fault and t in INTS and x[1] == 0 else ""
            groups.setdefault(kind, []).append(x)
        for kind, xs in groups.items():
            header = f"T={t}" + (f" ulp={ulp}" if ulp else "") + (f" {kind}" if kind else "")
            inputs = {"xyw"[i]: (t, [x[i] for x in xs]) for i in range(n)}
            runs.append((header, inputs, (t, [f(*x) for x in xs])))
    write(name, program(n, line or f"{name}.$T z, {args}"), runs)


# --- memory, collectives and atomics, for every type ---------------------------------------------


def explicit(name: str, body: str, runs: list[tuple[str, dict[str, tuple[str, list[int]]]]]) -> None:
    """One file whose runs have a grid and block of their own; outputs are the entries whose name ends in =."""
    text = [f"; {name}: written by gen.py, which says where the expected values come from\n", f"program {name}\n{body}"]
    for header, entries in runs:
        text.append(f";: run {header}\n")
        text += [entry(n.rstrip("="), n.endswith("="), t, v) for n, (t, v) in entries.items()]
    (HERE / f"{name}.atlas").write_text("".join(text))


def combine(t: str, name: str) -> Callable[[int, int], int]:
    """What a reduction repeats, on cells of type t."""
    integer = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "min": min, "max": max}[name]
    return as_int(t, integer) if t in INTS else as_float(t, {"add": add, "mul": mul, "min": fmin, "max": fmax}[name])


def identity(t: str, name: str) -> int:
    if t in INTS:
        signed_type, w = INTS[t]
        low, high = (1 << (w - 1), (1 << (w - 1)) - 1) if signed_type else (0, (1 << w) - 1)
        return {"add": 0, "mul": 1, "min": high, "max": low}[name]
    values = {
        "add": Float(Fraction(0), True),
        "mul": Float(Fraction(1)),
        "min": Float(math.inf),
        "max": Float(-math.inf),
    }
    return pack(t, values[name])


def halved(t: str, name: str, cells: list[int]) -> list[int]:
    """A block's reduction: padded to a power of two and halved; every lane gets it."""
    f, n = combine(t, name), len(cells)
    s = cells + [identity(t, name)] * ((1 << (n - 1).bit_length()) - n)
    while len(s) > 1:
        half = len(s) // 2
        s = [f(s[q], s[q + half]) for q in range(half)]
    return s * n


def scanned(t: str, name: str, cells: list[int]) -> list[int]:
    """Hillis and Steele's inclusive scan."""
    f, s, w = combine(t, name), cells, 1
    while w < len(s):
        s = [f(s[q - w], v) if q >= w else v for q, v in enumerate(s)]
        w *= 2
    return s


def in_f32(t: str, f: Callable[[str, str, list[int]], list[int]], name: str, cells: list[int]) -> list[int]:
    """Apply f to cells of type t, in f32 and rounded once for the 16-bit floats."""
    if t not in ("f16", "bf16"):
        return f(t, name, cells)
    return [convert(t, "f32")(v) for v in f("f32", name, [convert("f32", t)(c) for c in cells])]


def tame(t: str, n: int, seed: int) -> list[int]:
    """Numbers whose sums and products neither overflow nor are exact in general."""
    rng = random.Random(f"{t}{n}{seed}")
    if t in INTS:
        return [rng.getrandbits(width(t)) for _ in range(n)]
    return [pack(t, Float(Fraction(rng.uniform(-1, 1) * 4 ** rng.randint(-3, 3)))) for _ in range(n)]


def memory_rows() -> None:
    """Rows that move values, for every type."""
    pattern = 0xFEDCBA9876543210
    write("mov_imm", f"slot z $T\n  mov_imm.$T z, 0x{pattern:x}\n  stg.$T z, z[index]\n  exit\n",
          [(f"T={t}", {}, (t, [wrap(t, pattern)])) for t in TYPES])  # fmt: skip
    write("ldp", "slot z $T\nparam a $T\n  ldp.$T z, a\n  stg.$T z, z[index]\n  exit\n",
          [(f"T={t}", {"a": (t, [c])}, (t, [c])) for t in TYPES for c in edges(t, 2)[:12]])  # fmt: skip
    numbers = [0, 1, 2, 3, 100, 7]
    cells = {t: [n if t in INTS else pack(t, Float(Fraction(n))) for n in numbers] for t in TYPES}
    body = f"slot i u32\nslot z $T\ndata table $T {{ {', '.join(map(str, numbers))} }}\n"
    body += "  ldg.u32 i, i[index]\n  ldc.$T z, table[i]\n  stg.$T z, z[index]\n  exit\n"
    runs: list[Run] = []
    for t in TYPES:
        runs.append((f"T={t}", {"i": ("u32", [5, 0, 4, 1, 3, 2])}, (t, [cells[t][i] for i in (5, 0, 4, 1, 3, 2)])))
        runs.append((f"T={t} fault=access", {"i": ("u32", [6, 0xFFFFFFFF])}, (t, [0, 0])))
    write("ldc", body, runs)

    body = "slot x $T\nslot z $T\nshared 128\n  ldg.$T v, x[index]\n  sreg i, lane.x\n  shl.u32 o, i, 3\n"
    body += "  sts.$T v, shared[o + 3]\n  bar_sync 0\n  mem_fence block\n  sub.u32 o, 56, o\n"
    body += "  lds.$T v, shared[o + 3]\n  stg.$T v, z[index]\n  exit\n"
    explicit(
        "lds_sts",
        body,
        [(f"T={t} grid=1 block=8", {"x": (t, e), "z=": (t, e[::-1])}) for t in TYPES for e in [edges(t)[:8]]],
    )
    body = (
        "slot x $T\nslot z $T\n  ldg.$T v, x[index]\n  pool_alloc h, 24\n  pool_store.$T v, h, 5\n  mem_fence thread\n"
    )
    body += "  pool_load.$T w, h, 5\n  stg.$T w, z[index]\n  exit\n"
    write("pool", body, [(f"T={t}", {"x": (t, edges(t))}, (t, edges(t))) for t in TYPES])
    body = "slot x $T\nslot z u8\n  ldg.$T v, x[index]\n  sreg i, lane.x\n  mul.u32 o, i, 9\n  stg.$T v, z[o + 1]\n"
    body += "  ldg.$T w, z[o + 1]\n  mem_fence device\n  mem_fence system\n  stg.$T w, x[index]\n  exit\n"
    runs2 = []
    for t in TYPES:
        e, size = edges(t)[:5], width(t) // 8
        raw = [b for c in e for b in [0, *c.to_bytes(size, "little"), *[0] * (8 - size)]]
        runs2.append((f"T={t} grid=1 block=5", {"x": (t, e), "x=": (t, e), "z": ("u8", [0] * 45), "z=": ("u8", raw)}))
    explicit("raw_bytes", body, runs2)


def collective_rows() -> None:
    """Reductions over registers, and reductions and scans over a block."""
    for name in ("add", "min", "max", "mul"):
        line = f"mov.$T r8, x\n  mov.$T r9, y\n  mov.$T r10, w\n  reduce_{name}.$T z, r8, 3"
        row(
            f"reduce_{name}",
            TYPES,
            3,
            lambda t, name=name: lambda a, b, c: combine(t, name)(combine(t, name)(a, b), c),
            line,
        )
        for kind, f in (("reduce", halved), ("scan", scanned)):
            body = f"slot x $T\nslot z $T\n  ldg.$T v, x[index]\n  block_{kind}_{name}.$T v, v\n"
            body += "  stg.$T v, z[index]\n  exit\n"
            runs = []
            for t, n in itertools.product(TYPES, (1, 5, 8, 33)):
                x = tame(t, n, len(name))
                runs.append((f"T={t} grid=1 block={n}", {"x": (t, x), "z=": (t, in_f32(t, f, name, x))}))
            explicit(f"block_{kind}_{name}", body, runs)


def atomic_rows() -> None:
    """Atomics of several lanes whose results are unused, and of one lane whose result is used."""
    wide = [t for t in INTS if width(t) >= 32]
    meaning = {
        "add": lambda a, b: a + b, "min": min, "max": max, "and": lambda a, b: a & b,
        "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "exch": lambda a, b: b,
    }  # fmt: skip
    for name, f in meaning.items():
        body = "slot x $T\nslot z $T\nslot old $T\n  ldg.$T v, x[index]\n"
        body += f"  atom_{name}.$T o, z[0], v\n  stg.$T o, old[index]\n  exit\n"
        runs = []
        for t in [*wide, *(("f32", "f64") if name == "add" else ())]:
            g = as_float(t, add) if t in FLOATS else as_int(t, f)
            for start, v in list(itertools.product(edges(t)[:14], repeat=2))[::5]:
                runs.append(
                    (
                        f"T={t} grid=1 block=1",
                        {"x": (t, [v]), "z": (t, [start]), "z=": (t, [g(start, v)]), "old=": (t, [start])},
                    )
                )
        explicit(f"atom_{name}", body, runs)
        if name == "exch":
            continue
        body = f"slot x $T\nslot z $T\n  ldg.$T v, x[index]\n  atom_{name}.$T o, z[0], v\n  exit\n"
        runs = []
        for t in wide:
            g, x, start = as_int(t, f), tame(t, 40, 1), tame(t, 1, 2)[0]
            total = start
            for v in x:
                total = g(total, v)
            runs.append((f"T={t} grid=5 block=8", {"x": (t, x), "z": (t, [start]), "z=": (t, [total])}))
        explicit(f"atom_{name}_all", body, runs)
    body = "slot e $T\nslot d $T\nslot z $T\nslot old $T\n  ldg.$T e, e[index]\n  ldg.$T d, d[index]\n"
    body += "  atom_cas.$T o, z[0], e, d\n  stg.$T o, old[index]\n  exit\n"
    runs = []
    for t in wide:
        for start, e, d in [
            (5, 5, 9),
            (5, 6, 9),
            (0, 0, wrap(t, -1)),
            (wrap(t, -1), wrap(t, -1), 0),
            (wrap(t, -1), 0, 1),
        ]:
            out = {"z=": (t, [d if start == e else start]), "old=": (t, [start])}
            runs.append((f"T={t} grid=1 block=1", {"e": (t, [e]), "d": (t, [d]), "z": (t, [start]), **out}))
    explicit("atom_cas", body, runs)
    values = [(1, 5), (95, 1 << 63), (1, 7), (95, (1 << 63) + 2), (0, 1)]
    residue = [sum(v for c, v in values if c == k) % (1 << 64) for k in range(96)]
    body = "slot c u8\nslot v u64\n  ldg.u8 c, c[index]\n  ldg.u64 v, v[index]\n  res_accum c, v\n  exit\n"
    inputs = {"c": ("u8", [c for c, _ in values]), "v": ("u64", [v for _, v in values])}
    stray = {"c": ("u8", [96]), "v": ("u64", [1]), "residue=": ("u64", [0] * 96)}
    good = (f"grid=1 block={len(values)}", {**inputs, "residue=": ("u64", residue)})
    explicit("res_accum", body, [good, ("grid=1 block=1 fault=class", stray)])


def space_rows() -> None:
    """Elements by their number, and places in the index space."""
    body = "slot x $T\nslot i $S\nslot z $T\nslot y $T\n"
    body += "  ldg.$S k, i[index]\n  ldg.$T v, x[flat k]\n  sreg g, global_lane\n"
    body += "  stg.$T v, z[flat g + 1]\n  ldg.$T v, x[flat 1]\n  stg.$T v, y[index]\n  exit\n"
    runs: list[tuple[str, dict[str, tuple[str, list[int]]]]] = []
    numbers = [4, 0, 3, 3, 1, 2]
    for n, t in enumerate(TYPES):
        x, s = edges(t)[:5], ("i32", "u32", "i64", "u64")[n % 4]
        far = [
            wrap(s, -1),
            5,
            1 << width(s) - 1,
            (1 << width(s) - 1) - 1,
            wrap(s, -1 << width(s) - 3),
            1 << width(s) - 2,
        ]
        for header, at in ((f"T={t} S={s}", numbers), (f"T={t} S={s} fault=access", [*far[:3], 2, *far[3:]])):
            z = [0, *(x[k] if k < len(x) else 0 for k in at)]
            entries = {"x": (t, x), "i": (s, at), "z": (t, [0] * len(z)), "z=": (t, z), "y=": (t, [x[1]] * len(at))}
            runs.append((f"{header} grid=1 block={len(at)}", entries))
    explicit("flat", body, runs)

    body = (
        "slot x u32\nslot z $T\n  ldg.u32 v, x[index]\n  cvt.$T.u32 w, v\n  atom_add.$T old, z[flat v - 1], w\n  exit\n"
    )
    runs = []
    for t in ("i32", "i64", "u32", "u64"):
        runs.append(
            (
                f"T={t} grid=2 block=4",
                {"x": ("u32", [3, 1, 3, 3, 5, 1, 2, 5]), "z": (t, [9] * 5), "z=": (t, [11, 11, 18, 9, 19])},
            )
        )
        runs.append(
            (
                f"T={t} grid=1 block=4 fault=access",
                {"x": ("u32", [3, 0, 6, 3]), "z": (t, [9] * 5), "z=": (t, [9, 9, 15, 9, 9])},
            )
        )
    explicit("flat_atomic", body, runs)

    names = ["row", "column", "rows", "columns", *(f"index.{d}" for d in range(8)), *(f"size.{d}" for d in range(8))]
    body = "".join(f"slot s{i} u64\n" for i in range(len(names)))
    body += "".join(f"  sreg v, {name}\n  stg.u64 v, s{i}[index]\n" for i, name in enumerate(names)) + "  exit\n"
    runs = []
    for shape in ((7,), (1,), (3, 5), (5, 1), (1, 5), (2, 3, 4), (2, 1, 3, 1, 2), (2, 1, 1, 2, 1, 1, 1, 3)):
        places, n = np.indices(shape).reshape(len(shape), -1), math.prod(shape)
        place = lambda axis, p=places, n=n: [int(k) for k in p[axis]] if 0 <= axis < len(p) else [0] * n  # noqa: E731
        size = lambda axis, s=shape, n=n: [s[axis] if 0 <= axis < len(s) else 1] * n  # noqa: E731
        last = len(shape) - 1
        want = [place(last - 1), place(last), size(last - 1), size(last), *map(place, range(8)), *map(size, range(8))]
        header = f"grid={(n + 3) // 4} block=4 shape={'x'.join(map(str, shape))}"
        runs.append((header, {f"s{i}=": ("u64", cells) for i, cells in enumerate(want)}))
    explicit("index_space", body, runs)


def check_against_numpy() -> None:
    """The rational arithmetic above against numpy and ml_dtypes, bit for bit."""
    ufuncs = {
        "add": (np.add, add),
        "sub": (np.subtract, lambda a, b: add(a, neg(b))),
        "mul": (np.multiply, mul),
        "div": (np.divide, div),
    }
    for t in FLOATS:
        u = f"uint{width(t)}"
        xs = tuples(t, 2)
        a, b = (np.array([x[i] for x in xs], dtype=u).view(NUMPY[t]) for i in (0, 1))
        with np.errstate(all="ignore"):
            for name, (ufunc, mine) in ufuncs.items():
                theirs = ufunc(a, b).astype(NUMPY[t]).view(u)
                for x, want in zip(xs, theirs):
                    got = as_float(t, mine)(*x)
                    assert got == int(want) or (unpack(t, got).nan and unpack(t, int(want)).nan), (
                        name,
                        t,
                        x,
                        hex(got),
                        hex(want),
                    )
            for frm in FLOATS:
                src = np.array(edges(frm), dtype=f"uint{width(frm)}").view(NUMPY[frm])
                theirs = src.astype(NUMPY[t]).view(u)
                for x, want in zip(edges(frm), theirs):
                    got = convert(t, frm)(x)
                    assert got == int(want) or (unpack(t, got).nan and unpack(t, int(want)).nan), (
                        "cvt",
                        t,
                        frm,
                        x,
                    )


def main() -> None:
    check_against_numpy()
    ints, floats = list(INTS), list(FLOATS)
    both = lambda i, f: lambda t: as_int(t, i) if t in INTS else as_float(t, f)  # noqa: E731
    row("add", TYPES, 2, both(lambda a, b: a + b, add))
    row("sub", TYPES, 2, both(lambda a, b: a - b, lambda a, b: add(a, neg(b))))
    row("mul", TYPES, 2, both(lambda a, b: a * b, mul))
    row("mulhi", [t for t in ints if width(t) >= 32], 2, lambda t: as_int(t, lambda a, b: (a * b) >> width(t)))
    row("div", TYPES, 2, both(trunc_div, div), fault=True)
    row("rem", TYPES, 2, both(trunc_rem, fmod), fault=True)
    row("min", TYPES, 2, both(min, fmin))
    row("max", TYPES, 2, both(max, fmax))
    row("mad", TYPES, 3, mad)
    row("fma", floats, 3, narrow_fma)
    negatable = [t for t in TYPES if t in FLOATS or INTS[t][0]]
    row("abs", negatable, 1, both(abs, lambda a: neg(a) if a.negative else a))
    row("neg", negatable, 1, both(lambda a: -a, neg))
    row("sqrt", floats, 1, lambda t: as_float(t, sqrt(t)))
    for name, rule in {"floor": math.floor, "ceil": math.ceil, "round": round, "trunc": math.trunc}.items():
        row(name, floats, 1, lambda t, rule=rule: as_float(t, integral(rule)))
    row("and", ints, 2, lambda t: as_int(t, lambda a, b: a & b))
    row("or", ints, 2, lambda t: as_int(t, lambda a, b: a | b))
    row("xor", ints, 2, lambda t: as_int(t, lambda a, b: a ^ b))
    row("not", ints, 1, lambda t: as_int(t, lambda a: ~a))
    row("shl", ints, 2, lambda t: as_int(t, lambda a, b: a << (b % width(t))))
    row("shr", ints, 2, lambda t: as_int(t, lambda a, b: a >> (b % width(t))))
    row("popc", ints, 1, lambda t: lambda a: a.bit_count())
    row("clz", ints, 1, lambda t: lambda a: width(t) - a.bit_length())
    row("ctz", ints, 1, lambda t: lambda a: (a & -a).bit_length() - 1 if a else width(t))
    row("mov", TYPES, 1, lambda t: lambda a: a)

    # set and sel in one: z = 1 where the comparison holds
    for cond in ("eq", "ne", "lt", "le", "gt", "ge", "ltu", "leu", "gtu", "geu"):
        types = [t for t in TYPES if cond[-1] != "u" or (t in INTS and not INTS[t][0])]
        line = f"set.{cond}.$T p, x, y\n  sel.$T z, p, 1, 0"
        row(f"set_{cond}", types, 2, lambda t, cond=cond: lambda a, b: one(t) * compare(t, cond)(a, b), line)
    row(
        "sel",
        TYPES,
        3,
        lambda t: lambda a, b, c: b if compare(t, "lt")(a, c) else c,
        "set.lt.$T p, x, w\n  sel.$T z, p, y, w",
    )

    runs: list[Run] = []
    for to, frm in itertools.product(TYPES, TYPES):
        e = edges(frm, 40)
        if frm in FLOATS:  # halfway cases and limits of the integer types
            e += [
                pack(frm, Float(Fraction(v, 2)))
                for w in (7, 8, 15, 16, 31, 32, 63, 64)
                for s in (1, -1)
                for v in (s * (2 << w), s * (2 << w) - 1, s * (2 << w) + 1, s * (2 << w) - 2)
            ]
        runs.append((f"T={to} S={frm}", {"x": (frm, e)}, (to, [convert(to, frm)(x) for x in e])))
    write("cvt", program(1, "cvt.$T.$S z, x", "$S"), runs)
    runs = [
        (f"T={to} S={frm}", {"x": (frm, edges(frm))}, (to, edges(frm)))
        for to, frm in itertools.product(TYPES, TYPES)
        if width(to) == width(frm)
    ]
    write("bitcast", program(1, "bitcast.$T.$S z, x", "$S"), runs)

    tight = {"exp", "exp2", "log", "log2", "log10", "sin", "cos"}
    for name in (
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "rsqrt",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sigmoid",
        "erf",
        "pow",
    ):
        row(
            name,
            floats,
            2 if name == "pow" else 1,
            lambda t, name=name: transcendental(name, t),
            ulp=1 if name in tight else 2,
        )
    memory_rows()
    collective_rows()
    atomic_rows()
    space_rows()


if __name__ == "__main__":
    main()
