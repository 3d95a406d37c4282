"""ProgramBuilder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import buffer

import hologram as hg
from hologram import _isa


def test_a_program_built_is_the_program_written(ex: hg.Executor) -> None:
    b = hg.ProgramBuilder("mul_add_relu")
    x, y, out = b.slot("x", "f32"), b.slot("y", "f32"), b.slot("out", "f32")
    u = b.ldg(x[b.index])
    t = b.mad(u, b.ldg(y[b.index]), u)
    b.stg(b.max(t, 0.0), out[b.index])
    b.exit()
    built = b.build()
    written = hg.Program(
        "program q\nslot a f32\nslot b f32\nslot c f32\nldg.f32 p, a[index]\nldg.f32 q, b[index]\n"
        "mul.f32 t, q, p\nadd.f32 t, t, p\nmax.f32 t, t, 0x0p+0\nstg.f32 t, c[index]\nexit"
    )
    assert built.hash == written.hash
    p, q = np.linspace(-3, 3, 50, dtype=np.float32), np.linspace(2, -5, 50, dtype=np.float32)
    o = ex.allocate(50)
    ex.launch(built, x=ex.from_numpy(p), y=ex.from_numpy(q), out=o)
    assert np.array_equal(o.to_numpy(), np.maximum(p * q + p, 0))


def test_control_data_and_memory(ex: hg.Executor) -> None:
    b = hg.ProgramBuilder("sum_of_table", block=[4], shared=64)
    out, k = b.slot("out", "u32"), b.param("k", "u32")
    table = b.data("table", "u32", [3, 1, 4, 1, 5])
    total, i = b.reg("u32"), b.reg("u32", "i")
    b.mov(0, dst=total, type="u32")
    b.mov(0, dst=i, type="u32")
    with b.loop(b.ldp(k)):
        b.add(total, b.ldc(table[i]), dst=total)
        b.add(i, 1, dst=i)
    lane = b.sreg("lane.x")
    at = b.mul(lane, 4)
    b.sts(total, b.shared[at + 16])
    b.bar_sync(0)
    odd = b.set("eq", b.and_(lane, 1), 1)
    with b.if_(odd):
        b.add(b.lds(b.shared[at + 12], type="u32"), 100, dst=total)
    end = b.label("end")
    b.bra(end, ~odd)
    b.place(end)
    b.stg(total, out[b.index])
    b.exit()
    o = ex.allocate(4, "u32")
    ex.launch(b.build(), out=o, k=5)
    assert o.to_numpy().tolist() == [14, 114, 14, 114]


@pytest.mark.parametrize(
    "value", [0.1, -0.0, float("inf"), float("-inf"), 1e-45, 3, np.float32(0.3), np.finfo(np.float32).max]
)
def test_numbers_are_exact(ex: hg.Executor, value: Any) -> None:
    b = hg.ProgramBuilder("constant")
    out = b.slot("out", "f32")
    b.stg(b.mov(value, type="f32"), out[b.index])
    b.exit()
    o = buffer(ex, [7.0])
    ex.launch(b.build(), out=o)
    assert o.to_bytes() == np.float32(value).tobytes()


def test_integers_are_exact(ex: hg.Executor) -> None:
    b = hg.ProgramBuilder("constant")
    out = b.slot("out", "u64")
    b.stg((1 << 64) - 1, out[b.index])
    b.exit()
    o = ex.allocate(1, "u64")
    ex.launch(b.build(), out=o)
    assert o.to_numpy()[0] == (1 << 64) - 1


def test_every_instruction_is_a_method() -> None:
    b = hg.ProgramBuilder("p")
    names = dir(b)
    for mnemonic in _isa.ROWS:
        name = mnemonic + "_" if mnemonic in ("and", "or", "not") else mnemonic
        assert name in names
        assert mnemonic == "loop" or mnemonic in getattr(b, name).__doc__
    with pytest.raises(AttributeError, match="frobnicate"):
        b.frobnicate  # noqa: B018


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda b: b.add(1, 2), "no operand has a type"),
        (lambda b: b.add(b.reg("f32")), "add takes 2 operands"),
        (lambda b: b.cvt("f23", b.reg("f32")), "cvt takes the result's type first"),
        (lambda b: b.set("less", b.reg("f32"), 1), "set takes a condition first"),
        (lambda b: b.fma(b.reg("i32"), 1, 2), "type i32 is not one of"),
        (lambda b: b.add(b.reg("f32"), "x" if False else object()), "an operand is"),
        (lambda b: b.slot("a b", "f32"), "not a name"),
        (lambda b: b.slot("a", "f23"), "type 'f23'"),
        (lambda b: (b.slot("a", "f32"), b.slot("a", "f32")), "taken"),
        (lambda b: b.exit(dst=b.reg("f32")), "exit has no result"),
        (lambda b: b.slot("a", "f32")["x"], "an address is 'x'"),
    ],
)
def test_mistakes_are_named(use: Any, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        use(hg.ProgramBuilder("p"))


def test_the_verifier_points_at_the_line_built() -> None:
    b = hg.ProgramBuilder("p")
    b.add(b.reg("f32", "never_set"), 1.0)
    b.exit()
    with pytest.raises(ValueError, match=r"<built p>:2.*\n.*never_set|never_set"):
        b.build()
