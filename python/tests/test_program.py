"""Programs and launches."""

from __future__ import annotations

import contextlib
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import DTYPES, buffer

import hologram as hg
from hologram import cli
from hologram._dtypes import dtype_of
from hologram.errors import HologramError

AXPY = """
program axpy
slot x f32
slot y f32
param alpha f32
  ldg.f32 u, x[index]
  ldg.f32 v, y[index]
  ldp.f32 k, alpha
  fma.f32 v, k, u, v
  stg.f32 v, y[index]
  exit
"""

# One lane adds 1 to the u32 whose byte offset is 4·lane in a slot addressed by bytes.
BYTES = """
program bytes
slot raw u8
  sreg i, global_lane
  mul.u64 i, i, 4
  ldg.u32 v, raw[i]
  add.u32 v, v, 1
  stg.u32 v, raw[i]
  exit
"""

RESIDUE = """
program residue
  cls_get c
  sreg g, global_lane
  res_accum c, g
  exit
"""


def test_what_a_program_says_of_itself() -> None:
    p = hg.Program(AXPY)
    assert p.name == "axpy"
    assert [(s.name, s.dtype, s.reads, s.writes, s.indexed, s.bytes) for s in p.slots] == [
        ("x", "f32", True, False, True, False),
        ("y", "f32", True, True, True, False),
    ]
    assert [(q.name, q.dtype) for q in p.params] == [("alpha", "f32")]
    assert (p.block, p.residue, p.instructions) == (None, False, 6)
    assert repr(p) == "<Program axpy(x: f32, y: f32 in out, alpha: f32), 6 instructions>"
    assert p.handle > 0
    assert "fma.f32" in p.canonical()
    assert hg.Program("program b\nblock 8 4\nexit").block == (8, 4, 1)


def test_text_and_bytes_lead_back() -> None:
    p = hg.Program(AXPY)
    again, binary = hg.Program(p.disassemble()), hg.Program(bytes(p))
    assert p == again == binary
    assert hash(p) == hash(again)
    assert p.hash == again.hash == binary.hash
    assert len(p.hash) == 64
    assert binary.disassemble() == p.disassemble()
    assert pickle.loads(pickle.dumps(p)) == p
    assert hg.Program(bytearray(bytes(p))) == p
    assert p != hg.Program(BYTES)


def test_the_hash_is_of_what_is_computed() -> None:
    renamed = AXPY.replace(" u,", " first,").replace(", u,", ", first,")
    assert hg.Program(renamed).hash == hg.Program(AXPY).hash
    assert hg.Program(renamed) != hg.Program(AXPY), "equal are those of one text"
    assert hg.Program(AXPY.replace("fma.f32 v, k, u, v", "mad.f32 v, k, u, v")).hash != hg.Program(AXPY).hash


def test_from_file(tmp_path: Path) -> None:
    text, binary, junk = tmp_path / "a.atlas", tmp_path / "a.atlb", tmp_path / "junk"
    text.write_text(AXPY)
    p = hg.Program.from_file(text)
    binary.write_bytes(p.to_bytes())
    assert hg.Program.from_file(binary) == p
    junk.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="junk"):
        hg.Program.from_file(junk)
    with pytest.raises(OSError, match="nowhere"):
        hg.Program.from_file(tmp_path / "nowhere")
    for name, data in {
        "empty.atlas": b"",
        "wrong.atlas": b"program p\nfrobnicate",
        "short.atlb": p.to_bytes()[:-9],
        "other.atlb": p.to_bytes()[:-1] + b"?",
    }.items():
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(ValueError) as error:
            hg.Program.from_file(path)
        assert str(error.value).startswith(f"{path}:") and str(error.value).count(name) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", r"."),
        ("program p\n  foo x\n", r"<program>:2:3.*foo"),
        ("program p\nslot a f32\n  ldg.f23 x, a[index]\n", r"<program>:3:.*f23"),
        ("program p\n  add.f32 x, y, 1.0\n  exit\n", r"<program>:2:"),
        ("program p\n  bra nowhere\n", r"nowhere"),
    ],
)
def test_wrong_programs_are_shown(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as caught:
        hg.Program(text)
    assert isinstance(caught.value, HologramError)


@pytest.mark.parametrize("data", [b"", b"ATLAS", b"ATLAS\1\0junk", bytes(100)])
def test_wrong_bytes(data: bytes) -> None:
    with pytest.raises(ValueError):
        hg.Program(data)


@pytest.mark.parametrize("source", [None, 5, ["program p"]])
def test_wrong_sources(source: Any) -> None:
    with pytest.raises(TypeError):
        hg.Program(source)


# ---- launches


def test_launch(ex: hg.Executor) -> None:
    x, y = buffer(ex, range(1000)), buffer(ex, [1] * 1000)
    p = hg.Program(AXPY)
    assert ex.launch(p, x=x, y=y, alpha=2) is None
    assert y.to_numpy().tolist() == [2 * i + 1 for i in range(1000)]
    ex.launch(p, {"x": x, "y": y}, alpha=-2.0)
    assert y.to_numpy().tolist() == [1] * 1000


@pytest.mark.parametrize("name", ["n", "fuel", "shape", "grid", "block"])
def test_a_slot_named_as_a_keyword_is_told_how_to_be_bound(host: hg.Executor, name: str) -> None:
    program = hg.Program(
        f"program p\nslot {name} f32\nslot b f32\nldg.f32 t, {name}[index]\nstg.f32 t, b[index]\nexit\n"
    )
    x, out = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    hint = rf'launch "p": {name}= is a keyword of launch itself, .*; bind it with bindings={{"{name}": …}}'
    for given in (x, 3):
        with pytest.raises(ValueError, match=hint):
            host.launch(program, b=out, **{name: given})
    host.launch(program, {name: x}, b=out)
    assert out.tolist() == [0, 1, 2]
    host.launch(program, {name: x + 1, "b": out}, n=2)
    assert out.tolist() == [1, 2, 2]


def test_bindings_and_shape_of_other_kinds_are_named(host: hg.Executor) -> None:
    program = hg.Program("program p\nslot a f32\nslot b f32\nldg.f32 t, a[index]\nstg.f32 t, b[index]\nexit\n")
    x = np.ones(3, np.float32)
    for bindings, text in [
        ([x, x], "is a list"),
        ((("a", x),), "is a tuple"),
        (x, "is a ndarray"),
        ([], "is a list"),
        ({0: x}, "names 0"),
        ({"a": x, None: x}, "names None"),
    ]:
        with pytest.raises(TypeError, match=f'launch "p": bindings {text}; expected a dict from names'):
            host.launch(program, bindings, b=x)
    for shape in (5.0, 1.5, "3"):
        with pytest.raises(TypeError, match=f'launch "p": shape is {shape!r}; expected'):
            host.launch(program, a=x, b=x, shape=shape)
    y = np.zeros(3, np.float32)
    host.launch(program, a=x, b=y, shape=3)
    assert y.tolist() == [1, 1, 1]
    for keywords, text in (
        ({"fuel": -1}, "fuel is -1; expected 1 … 9223372036854775807"),
        ({"block": -1}, "block is -1; expected one to three numbers, 1 … 1024 lanes in all"),
        ({"grid": 0}, r"grid is 0; expected one to three numbers, each from 1 to 2\*\*32 - 1"),
    ):
        settings: dict[str, Any] = keywords
        with pytest.raises(ValueError, match=text):
            host.launch(program, a=x, b=y, **settings)


@pytest.mark.parametrize("name", DTYPES)
def test_launch_on_every_dtype(ex: hg.Executor, name: str) -> None:
    p = hg.Program(
        f"program twice\nslot a {name}\nslot c {name}\nparam k {name}\n"
        f"ldg.{name} x, a[index]\nldp.{name} y, k\nadd.{name} x, x, x\nadd.{name} x, x, y\nstg.{name} x, c[index]\nexit"
    )
    x = np.arange(50).astype(dtype_of(name))
    a, c = ex.from_numpy(x), ex.allocate(50, name)
    ex.launch(p, a=a, c=c, k=3)
    assert np.array_equal(c.to_numpy(), x + x + np.array(3, x.dtype))


def test_launch_on_numpy_in_place(host: hg.Executor) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = np.zeros((4, 3), np.float32)
    host.launch(hg.Program(AXPY), x=x.T, y=y, alpha=1)
    assert np.array_equal(y, x.T)
    host.launch(hg.Program(AXPY), x=np.float32(5).reshape(1), y=y[:, 1], alpha=1)
    assert y[:, 1].tolist() == [x + 5 for x in [4, 5, 6, 7]]


def test_index_space(ex: hg.Executor) -> None:
    p = hg.Program(AXPY)
    x, y = buffer(ex, range(12)), buffer(ex, [0] * 12)
    ex.launch(p, x=x, y=y, alpha=1, n=5)
    assert y.to_numpy().tolist() == [0, 1, 2, 3, 4] + [0] * 7
    y.fill(0)
    ex.launch(p, x=x.view([4]), y=y, alpha=1, shape=(3, 4))
    assert y.to_numpy().tolist() == [0, 1, 2, 3] * 3
    y.fill(0)
    ex.launch(p, x=x, y=y, alpha=1, grid=2, block=6)
    assert y.to_numpy().tolist() == list(range(12))
    ex.launch(p, x=x, y=y, alpha=1, n=0)
    assert y.to_numpy().tolist() == list(range(12))
    one = buffer(ex, [5])
    ex.launch(p, x=one.view(()), y=one.view(()), alpha=1, shape=())  # one lane
    assert one.to_numpy().tolist() == [10]
    with pytest.raises(ValueError, match=r"shape is \(\), and slot x has shape \(12,\); n=1 takes the first"):
        ex.launch(p, x=y, y=x, alpha=1, shape=())
    assert x.to_numpy().tolist() == list(range(12))
    for arrays in ((x, y), (x.view([3, 4]), y.view([3, 4]))):
        for shape in ((4,), [4], (11,)):
            with pytest.raises(
                ValueError, match=rf"shape is \({shape[0]},\), and slot x has shape .*; n={shape[0]} takes"
            ):
                ex.launch(p, x=arrays[0], y=arrays[1], alpha=1, shape=shape)
        ex.launch(p, x=arrays[0], y=arrays[1], alpha=0, shape=(12,))
    table = hg.Program("program t\nslot x f32\nslot y f32\nldg.f32 a, x[flat 5]\nstg.f32 a, y[index]\nexit")
    ex.launch(table, x=x, y=y.view([4]), shape=(4,))  # of which x has no part
    assert y.to_numpy().tolist()[:4] == [5] * 4


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"x": None}, ValueError, r'launch "axpy": slot x \(f32\) is not bound'),
        ({"alpha": None}, ValueError, r'launch "axpy": parameter alpha \(f32\) is not given'),
        ({"aplha": 1}, ValueError, r"no slot or parameter aplha; did you mean alpha\?"),
        ({"alpha": "1"}, TypeError, r"parameter alpha: expected a number \(f32\), got '1'"),
        ({"fuell": 3}, ValueError, r"no slot or parameter fuell; did you mean fuel\?"),
        ({"alpha": 1e300}, ValueError, r"parameter alpha: 1e\+300 is out of range of f32"),
        ({"n": 101}, ValueError, r"slot x has 100 elements, fewer than n = 101"),
        ({"n": -1}, ValueError, r"n is -1"),
        ({"n": 1.5}, TypeError, r"n is 1.5; expected an integer"),
        ({"n": 1, "shape": (1,)}, ValueError, r"n or shape, not both"),
        ({"n": 0, "shape": ()}, ValueError, r"n or shape, not both"),
        ({"shape": (7, 9)}, ValueError, r"slot x: shape \(100,\) does not broadcast to the index space \(7, 9\)"),
        ({"shape": (1,) * 9}, ValueError, r"more than 8 dimensions"),
        ({"block": 2048}, ValueError, r"block \(2048, 1, 1\); expected 1 … 1024 lanes"),
        ({"block": (1, 2, 3, 4)}, ValueError, r"block is .*one to three numbers"),
        ({"block": 0}, ValueError, r"block is 0"),
        ({"block": (1 << 32) + 1}, ValueError, r"block is 4294967297; .* 1 … 1024 lanes"),
        ({"grid": 1 << 32}, ValueError, r"grid is 4294967296; .*from 1 to 2\*\*32 - 1"),
        ({"grid": (1, (1 << 32) + 1)}, ValueError, r"grid is \(1, 4294967297\); .*from 1 to 2\*\*32 - 1"),
        ({"grid": 1, "block": 8}, ValueError, r"8 lanes, fewer than the 100 elements"),
        ({"grid": (1 << 31, 1 << 31, 1 << 31)}, ValueError, r"grid"),
        ({"fuel": 0}, ValueError, r"fuel is 0"),
        ({"x": "no"}, TypeError, r"slot x: expected a Buffer"),
    ],
)
def test_what_doesnt_fit_is_refused(ex: hg.Executor, change: dict[str, Any], error: type[Exception], text: str) -> None:
    x, y = buffer(ex, range(100)), buffer(ex, [7] * 100)
    arguments = {k: v for k, v in {"x": x, "y": y, "alpha": 1, **change}.items() if v is not None}
    with pytest.raises(error, match=text):
        ex.launch(hg.Program(AXPY), **arguments)
    assert (y.to_numpy() == 7).all()


def test_bindings_are_let_go_of(host: hg.Executor) -> None:
    p, y = hg.Program(AXPY), np.zeros(4, np.float32)
    wrong = np.zeros(4, np.int32)
    calls: list[dict[str, Any]] = [
        {"x": y, "y": y, "alpha": 1},
        {"x": y, "y": y, "alpha": np.float32(1)},  # C leaves this one to Python
        {"x": y, "y": wrong, "alpha": 1},
        {"x": y, "y": y, "alpha": "no"},
        {"x": y, "y": y},
    ]
    for bindings in calls:
        before = sys.getrefcount(y), sys.getrefcount(wrong), sys.getrefcount(bindings)
        for _ in range(5):
            with contextlib.suppress(ValueError, TypeError):
                host.launch(p, bindings)
        assert (sys.getrefcount(y), sys.getrefcount(wrong), sys.getrefcount(bindings)) == before


def test_dtypes_of_slots(ex: hg.Executor) -> None:
    with pytest.raises(TypeError, match=r"slot y: dtype is i32; expected f32"):
        ex.launch(hg.Program(AXPY), x=ex.allocate(4), y=ex.allocate(4, "i32"), alpha=1)
    with pytest.raises(TypeError, match="Program"):
        ex.launch(AXPY)  # type: ignore[arg-type]


def test_the_block_that_a_program_demands(ex: hg.Executor) -> None:
    p = hg.Program("program b\nblock 8 4\nslot c u32\nsreg y, lane.y\nstg.u32 y, c[index]\nexit")
    c = ex.allocate(32, "u32")
    ex.launch(p, c=c)
    assert c.to_numpy().tolist() == [i // 8 for i in range(32)]
    with pytest.raises(ValueError, match=r"block \(32, 1, 1\); the program demands \(8, 4, 1\)"):
        ex.launch(p, c=c, block=32)


def test_byte_addresses(ex: hg.Executor) -> None:
    p = hg.Program(BYTES)
    raw = ex.from_numpy(np.arange(10, dtype=np.uint32))  # raw memory may have any dtype
    ex.launch(p, raw=raw, n=10)
    assert raw.to_numpy().tolist() == list(range(1, 11))
    with pytest.raises(ValueError, match="give n, shape or grid"):
        ex.launch(p, raw=raw)
    with pytest.raises(ValueError, match="contiguous"):
        ex.launch(p, raw=raw.view([5], strides=[2]), n=5)


def test_stray_accesses_are_faults(ex: hg.Executor) -> None:
    raw = ex.from_numpy(np.arange(10, dtype=np.uint32))
    guard = ex.from_numpy(np.arange(10, dtype=np.uint32))
    with pytest.raises(hg.ProgramFault, match=r'launch "bytes": stray access in lane 1\d at line \d+ \((ldg|stg)') as e:
        ex.launch(hg.Program(BYTES), raw=raw, n=12)
        ex.synchronize()
    assert e.value.kind == "access"
    assert e.value.instruction in (2, 4)
    assert e.value.line == e.value.instruction + 4
    assert e.value.lane in (10, 11)
    assert raw.to_numpy().tolist() == list(range(1, 11))
    assert guard.to_numpy().tolist() == list(range(10))


def test_fuel(ex: hg.Executor) -> None:
    p = hg.Program("program forever\nslot c u32\nagain:\nbra again\nstg.u32 1, c[index]\nexit")
    c = ex.allocate(4, "u32")
    with pytest.raises(hg.ProgramFault, match="out of fuel") as caught:
        ex.launch(p, c=c, n=4, fuel=1000)
        ex.synchronize()
    assert caught.value.kind == "fuel"
    assert not c.to_numpy().any()
    loop = hg.Program(
        "program l\nslot c u32\nparam k u32\nldp.u32 n, k\nmov.u32 s, 0\nloop n, end\n"
        "add.u32 s, s, 2\nend:\nstg.u32 s, c[index]\nexit"
    )
    ex.launch(loop, c=c, k=10, fuel=10)
    assert c.to_numpy().tolist() == [20] * 4


def test_residue(ex: hg.Executor) -> None:
    p = hg.Program(RESIDUE)
    assert p.residue
    r = ex.launch(p, n=1000, block=10)
    assert r is not None
    expected = np.zeros(96, np.uint64)
    for lane in range(1000):
        expected[lane // 10 % 96] += np.uint64(lane)
    assert np.array_equal(r, expected)
    empty = ex.launch(p, n=0)
    assert empty is not None
    assert not empty.any()


def test_phase(device: str) -> None:
    p = hg.Program("program ph\nslot c u16\nphase_get x\nphase_adv 700\nstg.u16 x, c[index]\nexit")
    with hg.Executor(device) as ex:
        c = ex.allocate(4, "u16")
        assert ex.phase == 0
        ex.launch(p, c=c)
        assert ex.phase == 700
        ex.launch(p, c=c)
        assert ex.phase == 1400 % 768
        assert c.to_numpy().tolist() == [700] * 4
    with hg.Executor(device) as other:
        assert other.phase == 0


def test_boundary_pool(device: str) -> None:
    p = hg.Program(
        "program b\nslot c u8\nldg.u8 x, phi(5, 3, 16)\nstg.u8 x, c[index]\nadd.u8 x, x, 1\n"
        "stg.u8 x, phi(5, 3, 17)\nexit"
    )
    with hg.Executor(device) as ex:
        cls = ex.allocate_boundary(5, 48, 256, "u8")
        data = np.zeros(12288, np.uint8)
        data[3 * 256 + 16] = 41
        cls.from_numpy(data)
        c = ex.allocate(1, "u8")
        ex.launch(p, c=c)
        assert c.to_numpy()[0] == 41
        assert cls.to_numpy()[3 * 256 + 17] == 42
        own = ex.allocate(96 * 12288, "u8")
        ex.launch(p, c=c, boundary=own)
        assert c.to_numpy()[0] == 0
        assert own.to_numpy()[5 * 12288 + 3 * 256 + 17] == 1
        with pytest.raises(ValueError, match="boundary"):
            ex.launch(p, c=c, boundary=ex.allocate(12288, "u8"))


def test_overlap_is_refused(ex: hg.Executor) -> None:
    p = hg.Program(AXPY)
    y = buffer(ex, range(10))
    ex.launch(p, x=y, y=y, alpha=1)  # the identical array
    assert y.to_numpy().tolist() == [2 * i for i in range(10)]
    with pytest.raises(ValueError, match=r"slot y overlaps x in memory"):
        ex.launch(p, x=y.view([9]), y=y.view([9], offset=1), alpha=1)
    two = hg.Program("program t\nslot a f32\nslot b f32\nstg.f32 1.0, a[index]\nstg.f32 2.0, b[index]\nexit")
    with pytest.raises(ValueError, match="two outputs"):
        ex.launch(two, a=y, b=y)
    late = hg.Program(
        "program l\nslot a f32\nslot c f32\nldg.f32 x, a[index]\nstg.f32 x, c[index]\nldg.f32 y, a[index]\n"
        "add.f32 y, x, y\nstg.f32 y, c[index]\nexit"
    )
    with pytest.raises(ValueError, match="may load a again"):
        ex.launch(late, a=y, c=y)


def test_kernels_are_cached(ex: hg.Executor) -> None:
    name = "n" + "x" * 20
    text = AXPY.replace("axpy", name).replace("fma", "mad")
    x, y = ex.allocate(4), ex.allocate(4)
    ex.launch(hg.Program(text), x=x, y=y, alpha=1)
    before = ex.kernel_stats()
    ex.launch(hg.Program(text), x=x, y=y, alpha=1)
    after = ex.kernel_stats()
    assert (after["misses"], after["hits"]) == (before["misses"], before["hits"] + 1)
    assert 0 < after["entries"] <= after["limit"]


def test_the_cache_is_bounded(ex: hg.Executor) -> None:
    limit, c = ex.kernel_stats()["limit"], ex.allocate(1, "u32")
    for i in range(limit + 50):
        ex.launch(hg.Program(f"program p\nslot c u32\nstg.u32 {i + 7_000_000}, c[index]\nexit"), c=c)
    stats = ex.kernel_stats()
    assert stats["entries"] == limit
    assert stats["evictions"] >= 50
    assert c.to_numpy()[0] == limit + 49 + 7_000_000


def test_trace(host: hg.Executor) -> None:
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    seen: list[str] = []
    lines = host.trace(hg.Program(AXPY), x=x, y=y, alpha=2, lane=3, receive=seen.append)
    assert lines == seen
    assert len(lines) == 6
    assert "fma.f32 v, k, u, v" in lines[3]
    assert "dst=7" in lines[3]
    assert y.tolist() == [1, 3, 5, 7]
    again = host.trace(hg.Program(bytes(hg.Program(AXPY))), x=x, y=np.ones(4, np.float32), alpha=2, lane=3)
    assert again == lines
    with pytest.raises(ValueError, match="lane is 4; the launch has 4 lanes"):
        host.trace(hg.Program(AXPY), x=x, y=y, alpha=2, lane=4)


@pytest.mark.parametrize("given", [{}, {"bindings": True}])
@pytest.mark.parametrize(
    "how",
    [
        {"grid": (3, 1, 2), "block": (2, 4, 1)},
        {"grid": 24, "block": 2},
        {"n": 20},
        {"shape": (4, 5)},
        {"n": 7, "grid": 3, "block": 5},
    ],
    ids=str,
)
def test_traces_run_what_launches_run(host: hg.Executor, how: dict[str, Any], given: dict[str, bool]) -> None:
    names = ("grid_dim.x", "grid_dim.y", "grid_dim.z", "block_dim.x", "block_dim.y", "block_dim.z")
    text = "program shape\nslot c u32\nslot d u32\nparam k u32\nldp.u32 k0, k\n"
    text += "".join(f"sreg x, {name}\nmul.u32 k0, k0, 31\nadd.u32 k0, k0, x\n" for name in names)
    text += "sreg n0, n\ncvt.u32.u64 n1, n0\nmul.u32 n1, n1, 7\nstg.u32 k0, c[index]\nstg.u32 n1, d[index]\nexit"
    program = hg.Program(text)
    results = []
    for run in (host.launch, host.trace):
        arrays = {"c": np.zeros(48, np.uint32), "d": np.zeros(48, np.uint32), "k": 5}
        kept = dict(how)
        if "shape" in how:
            arrays |= {"c": np.zeros(how["shape"], np.uint32), "d": np.zeros(how["shape"], np.uint32)}
        elif "n" not in how:
            kept["n"] = 48
        if given:
            run(program, arrays, **kept)
        else:
            run(program, **arrays, **kept)
        results.append((arrays["c"].tolist(), arrays["d"].tolist()))
    assert results[0] == results[1]


def test_traces_take_fuel(host: hg.Executor) -> None:
    text = "program loop\nslot c u32\nmov.u32 x, 0\nloop 100, end\nadd.u32 x, x, 1\nend:\nstg.u32 x, c[index]\nexit"
    c = np.zeros(1, np.uint32)
    assert host.trace(hg.Program(text), c=c, fuel=100)
    with pytest.raises(hg.ProgramFault, match="fuel"):
        host.trace(hg.Program(text), c=c, fuel=99)
    with pytest.raises(ValueError, match="fuel is 0; expected 1 … 9223372036854775807"):
        host.trace(hg.Program(text), c=c, fuel=0)


def test_tracing_needs_memory_of_the_host(ex: hg.Executor) -> None:
    x, y = ex.allocate(4), ex.allocate(4)
    if ex.host_visible:
        assert ex.trace(hg.Program(AXPY), x=x, y=y, alpha=2)
    else:
        with pytest.raises(RuntimeError, match="cpu"):
            ex.trace(hg.Program(AXPY), x=x, y=y, alpha=2)


def test_errors_of_a_queue_name_their_launch(ex: hg.Executor) -> None:
    """On an asynchronous device the fault of the first launch surfaces after the second was queued."""
    raw, x, y = ex.allocate(4, "u32"), buffer(ex, [1, 2]), buffer(ex, [0, 0])
    with pytest.raises(hg.ProgramFault, match='launch "bytes": stray access'):
        ex.launch(hg.Program(BYTES), raw=raw, n=5)
        ex.launch(hg.Program(AXPY), x=x, y=y, alpha=1)
        y.to_numpy()
    ex.launch(hg.Program(AXPY), x=x, y=y, alpha=1)
    ex.synchronize()


def test_no_error_is_lost(device: str) -> None:
    """A fault that nobody waited for is raised when the executor ends, unless another exception is on its way."""
    with pytest.raises(hg.ProgramFault, match="stray access"):
        with hg.Executor(device) as ex:
            ex.launch(hg.Program(BYTES), raw=ex.allocate(4, "u32"), n=5)
    ex = hg.Executor(device)
    if ex.asynchronous:
        ex.launch(hg.Program(BYTES), raw=ex.allocate(4, "u32"), n=5)
        with pytest.raises(hg.ProgramFault, match="stray access"):
            ex.cleanup()
    with pytest.raises(KeyError):
        with hg.Executor(device) as ex:
            raw = ex.allocate(4, "u32")
            if ex.asynchronous:
                ex.launch(hg.Program(BYTES), raw=raw, n=5)
            raise KeyError
    ex.cleanup()


def test_analysis_says_what_kind_of_program_it_is_and_by_which_engine_it_runs():
    program = hg.Program("program p\nslot x f32\nldg.f32 v, x[index]\nexp.f32 v, v\nstg.f32 v, x[index]\nexit\n")
    kind, *_, engine = program.analysis.splitlines()
    assert kind == "map"
    assert engine.startswith("  on the CPU by ")
    atomic = hg.Program("program p\nslot x u32\natom_add.u32 old, x[index], 1\nexit\n")
    assert "strips" in atomic.analysis.splitlines()[-1]
    if "strips" not in engine:  # machine code is made here: then there is a reason
        assert "jit cannot run ATOM_ADD u32: " in atomic.analysis
        product = """program p
            slot a f32
            slot b f32
            slot c f32
            sreg i, row
            sreg j, column
            mul.u64 i, i, 400
            mul.u64 j, j, 4
            mov.f32 s, START
            loop 100, done
            ldg.f32 x, a[i]
            ldg.f32 y, b[j]
            fma.f32 s, x, y, s
            add.u64 i, i, 4
            add.u64 j, j, 80
            done:
            max.f32 s, s, 0
            stg.f32 s, c[index]
            exit
        """
        kind, *_, last = hg.Program(product.replace("START", "0")).analysis.splitlines()
        assert kind == "product with an epilogue"
        assert last.startswith("  contraction: s0 · s1 of f32, added up by a loop, by gemm")
        *_, last = hg.Program(product.replace("START", "1")).analysis.splitlines()
        assert last == "  contraction: not by gemm: the sum does not begin with +0.0"


def test_a_file_s_name_is_no_program() -> None:
    for name in ("axpy.atlas", "axpy.atlb"):
        with pytest.raises(ValueError, match=rf"Program: '{name}' is a file's name; .*Program.from_file reads a file"):
            hg.Program(name)
        with pytest.raises(TypeError, match=r"expected text or bytes, got \w*Path; Program.from_file reads a file"):
            hg.Program(Path(name))  # type: ignore[arg-type]


def test_hologram_run_brings_files_to_the_device_and_back(
    ex: hg.Executor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, x, y, z = (str(tmp_path / name) for name in ("axpy.atlas", "x.npy", "y.npy", "z.npy"))
    Path(program).write_text(AXPY)
    np.save(x, np.float32([1, 2, 3]))
    np.save(y, np.float32([4, 5, 6]))
    arguments = ["run", program, "--in", f"x={x}", "--in", f"y={y}", "--param", "alpha=2", "--backend", ex.backend]
    assert cli.main([*arguments, "--out", f"y={z}"]) == 0
    assert np.load(z).tolist() == [6, 9, 12]
    assert "y, float32 (3,)" in capsys.readouterr().out
    assert cli.main(arguments) == 0
    assert "y = [ 6.  9. 12.]" in capsys.readouterr().out
