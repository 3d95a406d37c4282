"""C and Python mean the same by a call.

Most calls are made in C; what C does not take, Python's part does, or says what is wrong with it. Here calls are made
at random, right and wrong ones, once as they are and once by Python's part alone: what they return, write and raise is
to be the same, and nothing may be left of either. What is refused has changed nothing.
"""

from __future__ import annotations

import gc
import json
import random
import re
from typing import Any

import numpy as np
import pytest
from support import DTYPES

import hologram as hg
from hologram import ops
from hologram._dtypes import dtype_of
from hologram._ffi import hooks, native

SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (4,), (2, 3), (3, 4), (2, 1), (1, 3), (0, 3), (2, 3, 4)]


R, C = 2, 3
ROW, CELL, MATRIX = (C,), (R, 1), (R, C)

# The sizes of the arrays of what is not element by element, by name, those of the matrix for the others.
SIZES: dict[str, dict[str, tuple[int, ...]]] = {
    "gemm": {"b": (3, 4), "c": (2, 4)},
    "matvec": {"x": (3,), "y": (2,)},
    "embedding": {"index": (4,), "output": (4, 3)},
    "embedding_gradient": {"order": (2,), "starts": (4,), "ends": (4,), "output": (4, 3)},
    "nll": {"target": (2,), "weight": ROW, "weights": (2,), "output": (2,)},
    "nll_gradient": {"gradient": (2,), "target": (2,), "weight": ROW, "total": ()},
    "cross_entropy": {name: (2,) for name in ("target", "most", "log", "weights", "output")} | {"weight": ROW},
    "cross_entropy_gradient": {"gradient": (2,), "target": (2,), "weight": ROW, "total": (), "most": (2,), "log": (2,)},
    "log_sum_exp": {"most": CELL, "log": (R,)},
    "layer_norm_parameter_gradients": {"mean": CELL, "scale": CELL, "by_weight": ROW, "by_bias": ROW},
}
NORMS = {"weight": ROW, "bias": ROW, "mean": CELL, "variance": CELL, "squares": CELL}
KINDS = {op["name"]: {o["name"]: o["kind"] for o in op["operands"]} for op in json.loads(native.ops())}
TYPES = {op["name"]: op["types"] for op in json.loads(native.ops())}


class Mine(np.ndarray):  # type: ignore[type-arg]
    """What C leaves to Python."""


def sizes(rng: random.Random, base: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of an array beside others, mostly the same, or what broadcasts to them."""
    how = rng.random()
    if how < 0.8:
        return base
    if how < 0.86:
        return base[1:]
    if how < 0.92:
        return tuple(rng.choice((1, n)) for n in base)
    return rng.choice(SHAPES)


def an_array(rng: random.Random, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array of one of many layouts."""
    count = int(np.prod(shape))
    values = np.array([rng.randrange(0, 3) for _ in range(count)]).astype(dtype).reshape(shape)
    how = rng.random()
    if how < 0.5 or not shape:
        return values
    if how < 0.65:
        return np.ascontiguousarray(values.T).T
    if how < 0.8:
        wide = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    return np.ascontiguousarray(values[::-1])[::-1] if how < 0.95 else np.broadcast_to(values[..., :1], shape)


def an_operand(rng: random.Random, host: hg.Executor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array of one kind or other, that may be written."""
    how, a = rng.random(), an_array(rng, shape, dtype)
    if how < 0.25:
        return host.wrap(a)
    if how < 0.3 and a.size:
        return host.from_numpy(a)
    return a.view(Mine) if how < 0.35 else a


def a_wrong_operand(rng: random.Random, host: hg.Executor, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """What is no array, or may not be one for this place."""
    how = rng.randrange(4)
    if how == 0:
        freed = host.allocate(3)
        freed.free()
        return rng.choice([None, "x", 1j, freed, [1.0], np.zeros(3, "c8"), np.zeros(3, ">f4")])
    if how == 1:
        return rng.choice([0, 1, 2.5, -1, True, 300, float("nan"), -70_000])
    a = an_array(rng, sizes(rng, shape), dtype_of(rng.choice(DTYPES)) if how == 2 else dtype)
    a.flags.writeable = rng.random() < 0.5
    return a


def shape_of(f: Any, p: Any, base: tuple[int, ...], along: bool) -> tuple[int, ...]:
    """The sizes of an array that fits the others."""
    if f.elementwise:
        return base
    if f.reduces and p.kind == "o":
        return (C,) if along else ()
    if f.name.endswith("_rows") and f.result is False and p.kind == "o" and f.operation in ("argmin", "argmax"):
        return (R,)
    return SIZES.get(f.name, NORMS if "norm" in f.name else {}).get(p.name, MATRIX)


RIGHT: dict[str, Any] = {
    "s": [0, 1, 2, 3, True, np.int8(1)],
    "n": [0, 1, 2, 3, np.int64(2), None],
    "a": [0, 1, -1, (0,), (-1,), [0], np.int64(0), None],
    "k": [True, True, False, 1, np.True_, None],
    "f": [True, False, 1, np.False_, None],
}
WRONG: dict[str, Any] = {
    "s": [2.5, float("inf"), np.float32(0.5), 1 << 70, -1, "x", None],
    "n": [6, 24, -1, 7, 2.0, True],
    "a": [(0, 1), (-1, 0), (1, 1), (), 2, 1.5],
    "k": [2, "x"],
    "f": [2, "x"],
    "d": [1, 0, -1, 1.5],
    "m": [1, -1, 1.5, None],
}
OFTEN = {"x": 0.9, "n": 0.3, "o": 0.5, "a": 0.4, "k": 0.3, "f": 0.3, "m": 0.2}


def a_call(f: Any, rng: random.Random, host: hg.Executor) -> tuple[dict[str, Any], int]:
    """The arguments of a call, and how many of them are given by position."""
    types = TYPES[f.operation]
    base, dtype = rng.choice(SHAPES), dtype_of("f32" if rng.random() < 0.4 else rng.choice(types))
    if rng.random() < 0.1:
        dtype = np.dtype(bool)
    right = rng.random() < 0.6
    given: dict[str, Any] = {}
    for p in f.parameters:
        if right and p.kind == "a" and ("norm" in f.name or f.name == "log_sum_exp"):
            given[p.name] = 0 if f.name.endswith("parameter_gradients") else -1
            continue
        if rng.random() > OFTEN.get(p.kind, 0.5 if p.default is not None else 1):
            continue
        well = right or rng.random() < 0.8
        if p.kind in "rwvo":
            role = {"mask": np.dtype(bool), "index": np.dtype("i8")}.get(KINDS[f.operation][p.name], dtype)
            shape = shape_of(f, p, base, "axis" in given)
            if well and given.keys() > {"ex"} and p.kind == "r" and f.elementwise:
                shape = rng.choice([base, base, base[1:], tuple(rng.choice((1, n)) for n in base)])
            if well and f.numbers and p.kind == "r" and rng.random() < 0.1:
                given[p.name] = rng.choice([0, 1, 2, True, 2.5 if dtype.kind == "f" else 3])
            else:
                given[p.name] = (an_operand if well else a_wrong_operand)(rng, host, shape, role)
        elif p.kind == "x":
            given[p.name] = host
        elif p.kind == "d" and well:
            given[p.name] = R if p.name == "rows" else C
        elif p.kind == "m" and well:
            given[p.name] = {"m": 2, "n": 4 if f.name == "gemm" else 3, "k": 3}[p.name]
        else:
            given[p.name] = rng.choice((RIGHT if well else WRONG)[p.kind])
    leading = 0
    names = [p.name for p in f.parameters if p.name in given or p.kind != "x"]
    for i, name in enumerate(names):
        if name not in given or i >= f.positional - ("ex" not in given):
            break
        leading = i + 1
    needed = sum(p.kind in "rwd" for p in f.parameters)
    return given, rng.choice([leading, min(leading, needed)])


def contents(value: Any) -> Any:
    """What a value is: for an array its kind, shape, dtype and elements."""
    if isinstance(value, hg.Buffer):
        return value if native.gone(value) else ("Buffer", contents(np.asarray(value)))
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.tobytes()
    return type(value), str(value)


def outcome(call: Any, arguments: dict[str, Any]) -> Any:
    """What a call gives, and what its arguments hold after it; errors without the addresses of what they name."""
    before = held(arguments)
    with np.errstate(all="ignore"):
        try:
            result = call()
        except (TypeError, ValueError, RuntimeError, MemoryError, BufferError) as error:
            assert isinstance(error, hg.ProgramFault) or held(arguments) == before, "what was refused changed something"
            done: Any = type(error), re.sub(r"0x[0-9a-f]+|object at \w+", "…", str(error))
        else:
            same = [name for name, value in arguments.items() if value is result and name != "ex"]
            done = type(result), same, contents(result)
    return done, held(arguments)


def held(arguments: dict[str, Any]) -> list[Any]:
    """What the arguments of a call hold."""
    return [contents(value) for name, value in arguments.items() if name != "ex" and not _freed(value)]


def _freed(value: Any) -> bool:
    return isinstance(value, hg.Buffer) and native.gone(value)


def both_ways(f: Any, seed: int, host: hg.Executor) -> tuple[Any, Any, Any]:
    """What a call of chance gives as it is, what it gives by Python's part, and how it is made."""
    given, leading = a_call(f, random.Random(seed), host)
    names = [p.name for p in f.parameters if p.name in given or p.kind != "x"][:leading]
    first = [given[key] for key in names]
    named = {key: value for key, value in given.items() if key not in names}
    last = [p.name for p in f.parameters if p.kind in "wo"][-1]
    back = seed % 2 == 1 and named.get(last) is not None
    if back:
        named["out"] = named.pop(last)
    usual = outcome(lambda: getattr(ops, f.name)(*first, **named), given)
    again, _ = a_call(f, random.Random(seed), host)
    values = [again.get(p.name) for p in f.parameters]
    beside = f.result and any(p.kind == "o" and p.name in names for p in f.parameters)
    return (
        usual,
        outcome(lambda: hooks["operation"](f.name, beside, back, False, None, *values), again),
        (seed, given, names),
    )


@pytest.mark.parametrize("name", sorted(ops._by_name))
def test_operations(host: hg.Executor, name: str) -> None:
    ops.copy(np.zeros(1, np.float32))  # the process's executor stays
    gc.collect()
    before = native.object_count()
    done = 0
    for seed in range(60):
        usual, careful, how = both_ways(ops._by_name[name], seed, host)
        assert usual == careful, how
        done += not isinstance(usual[0][0], type) or not issubclass(usual[0][0], Exception)
        del usual, careful, how
    gc.collect()
    assert done >= 5, "most are to be right"
    assert native.kept() == 0 and native.object_count() == before


@pytest.mark.parametrize("left", [True, False])
def test_bools_are_called_so(host: hg.Executor, left: bool) -> None:
    """Where an error names the dtype of an array of bools it is bool, whether C or Python made the call."""
    x, b, out = np.ones(3, np.float32), np.ones(3, bool), np.ones(3, np.float32)
    for given in (b, host.wrap(b), memoryview(b), b.view(type("Mine", (np.ndarray,), {}))):
        for call, text in (
            (lambda o, b=given: ops.vector_add(x, b, o), "vector_add: b has dtype bool, and a has f32"),
            (lambda o, b=given: ops.vector_add(b, x, o), "vector_add: b has dtype f32, and a has bool"),
            (lambda o, b=given: ops.vector_exp(b, o), "vector_exp: dtype bool is not supported"),
            (lambda o, b=given: ops.relu(b, o), "relu: dtype bool is not supported"),
        ):
            with pytest.raises(TypeError, match=text):
                call(None if left else out)


@pytest.mark.parametrize("axis", [None, 0, (0,)])
@pytest.mark.parametrize("name", sorted(f.name for f in ops._functions if f.numbers and not f.elementwise))
def test_numbers_alone_make_no_result(host: hg.Executor, name: str, axis: object) -> None:
    f = ops._by_name[name]
    if any(p.kind == "w" for p in f.parameters):
        return
    read = [1.0 for p in f.parameters if p.kind == "r"]
    others = {p.name: 1 for p in f.parameters if p.kind == "s"}
    if any(p.kind == "a" for p in f.parameters):
        others["axis"] = axis
    with pytest.raises(TypeError, match=f"{name}: .* is 1.0, a number; expected an array"):
        getattr(ops, name)(host, *read, **others)


PROGRAMS = [
    hg.Program(text)
    for text in (
        """
program scaled
slot x f32
slot out f32
param a f32
param n i32
  ldp.f32 k, a
  ldp.i32 m, n
  cvt.f32.i32 m, m
  ldg.f32 v, x[index]
  mul.f32 v, v, k
  add.f32 v, v, m
  stg.f32 v, out[index]
  exit
""",
        """
program placed
slot out u8
param a f64
  sreg lane, global_lane
  mul.u64 lane, lane, 8
  ldp.f64 k, a
  stg.f64 k, out[lane]
  exit
""",
        """
program classes
slot boundary u8
slot grid i64
  sreg lane, global_lane
  cvt.i64.u64 lane, lane
  stg.i64 lane, grid[index]
  exit
""",
    )
]


def a_launch(program: hg.Program, rng: random.Random, host: hg.Executor) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """The slots and parameters of a launch, its bindings, and its keywords."""
    right = rng.random() < 0.6
    base = rng.choice([(3,), (2, 3), (1,), (0,), ()])
    given: dict[str, Any] = {}
    for slot in program.slots:
        well = right or rng.random() < 0.8
        if slot.name == "boundary" and (well or rng.random() < 0.5):
            continue
        shape = (24,) if slot.bytes else base
        given[slot.name] = (an_operand if well else a_wrong_operand)(rng, host, shape, dtype_of(slot.dtype))
    for param in program.params:
        whole = [0, 1, True, -2, np.int64(3), 1 << 31, -(1 << 31) - 1, 1 << 70, 2.5]
        some = whole if param.dtype == "i32" else [0.5, 2, True, np.float32(0.1), float("nan"), 1e39, 1 << 1100]
        given[param.name] = rng.choice(some[:4] if right else [*some, None, "x"])
    if not right and rng.random() < 0.3:
        given[rng.choice(["other", "index"])] = 1
    if not right and rng.random() < 0.2:
        given.pop(rng.choice(list(given)))
    keywords: dict[str, Any] = {}
    for name, good, bad in (
        ("grid", [1, (1, 1), (1, 1, 1), None], [2, 0, -1, (1, 0), (1, 2, 3, 4), (), 1 << 32, 1.5, [1, 1], np.int64(1)]),
        ("block", [256, (64, 2), 32, None], [0, (1 << 32,), (1 << 10, 1 << 10), 1.5, "x", (2, 2, 2, 2)]),
        ("n", [3, 1, 0], [4, -1, 2.0, True, np.int64(1), 1 << 63]),
        ("shape", [(3,), (2, 3), (1,)], [(), (4,), (-1,), [3], "ab", 3, (1,) * 9, (0, 2), (1.5,)]),
        ("fuel", [1, 1000, 1 << 40], [0, -1, 1.5, 1 << 63]),
    ):
        if rng.random() < 0.2:
            keywords[name] = rng.choice(good if right or rng.random() < 0.6 else bad)
    bindings = None
    if rng.random() < 0.4 or given.keys() & {"n", "grid"}:
        names = [name for name in given if name in ("n", "grid") or rng.random() < 0.5]
        bindings = {name: given[name] for name in names}
        if right or rng.random() < 0.8:
            given = {name: value for name, value in given.items() if name not in bindings}
        elif given.keys() & {"n", "grid"}:
            given = {name: value for name, value in given.items() if name not in ("n", "grid")}
        elif rng.random() < 0.3:
            bindings = list(bindings)  # type: ignore[assignment]
    return given, bindings, keywords


def launched(way: Any, program: hg.Program, seed: int, host: hg.Executor) -> tuple[Any, Any]:
    """What a launch of chance gives, and how it is made."""
    given, bindings, keywords = a_launch(program, random.Random(seed), host)
    both = {**given, **(bindings if isinstance(bindings, dict) else {})}
    keywords = {name: value for name, value in keywords.items() if name not in given}
    return outcome(lambda: way(program, bindings, **given, **keywords), both), (seed, given, bindings, keywords)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_launches(host: hg.Executor, program: hg.Program) -> None:
    gc.collect()
    before = native.object_count()
    done = 0
    for seed in range(400):
        usual, how = launched(host.launch, program, seed, host)
        careful = launched(lambda *args, **named: hooks["launch"](host, *args, **named), program, seed, host)[0]
        assert usual == careful, how
        done += usual[0][0] is type(None)
        del usual, careful, how
    gc.collect()
    assert done >= 40
    assert native.kept() == 0 and native.object_count() == before


@pytest.mark.parametrize("number", [2, np.float32(2), np.array(2.0), np.array([2.0], np.float32), np.array([[2]])])
def test_an_array_of_one_element_is_a_number(host: hg.Executor, number: Any) -> None:
    """With an executor and without one; of more elements none is made."""
    x = np.ones(3, np.float32)
    for ex in ((host,), ()):
        assert ops.scalar_add(*ex, x, None, number).tolist() == [3, 3, 3]
    with pytest.raises(TypeError, match="scalar is a ndarray; expected a number"):
        ops.scalar_add(x, None, np.ones(2))
