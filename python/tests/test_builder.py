"""ProgramBuilder."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
from support import buffer

import hologram as hg
from hologram import _isa
from hologram._dtypes import dtype_of


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
    before = b.add(at, 16)
    odd = b.set("eq", b.and_(lane, 1), 1)
    with b.if_(odd):
        b.add(b.lds(b.shared[before - 4], type="u32"), 100, dst=total)
    end = b.label("end")
    b.bra(end, ~odd)
    b.place(end)
    b.stg(total, out[b.index])
    b.stg(b.ldg(out.flat[0], type="u32"), out.flat[4])
    b.exit()
    o = ex.allocate(5, "u32")
    ex.launch(b.build(), out=o, k=5, n=4)
    assert o.to_numpy()[:4].tolist() == [14, 114, 14, 114]


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


def test_bools_of_python_and_numpy_are_predicates(ex: hg.Executor) -> None:
    b = hg.ProgramBuilder("bools")
    out = b.slot("out", "u8")
    yes, no = b.mov(np.True_, type="pred"), b.mov(False, type="pred")
    b.stg(b.sel(b.and_(yes, True), b.sel(b.or_(no, np.False_), 1, 2, type="u8"), 3), out[b.index])
    b.exit()
    o = ex.allocate(1, "u8")
    ex.launch(b.build(), out=o)
    assert o.to_numpy().tolist() == [2]


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
    with pytest.raises(AttributeError, match=r"called bloc_reduce_add; did you mean block_reduce_add\?"):
        b.bloc_reduce_add  # noqa: B018
    with pytest.raises(TypeError, match=r"ProgramBuilder\.add\(\) got an unexpected keyword argument 'dest'"):
        b.add(1, 2, dest=b.reg("f32"))


def test_a_block_is_a_number_or_several() -> None:
    for block, text in ((8, "8"), (np.int64(8), "8"), ((8,), "8"), ((4, 2), "4 2"), (np.array([4, 2, 1]), "4 2 1")):
        assert hg.ProgramBuilder("p", block=block).text() == f"program p\nblock {text}\n"
    for wrong, message in (
        (0, "block is 0"),
        ((4, 0), r"block is \(4, 0\)"),
        (5000, "block is 5000; .*1 … 1024 lanes"),
        ((33, 32), "1024"),
        ((), "one to three"),
        (4.0, "block is 4.0"),
        ("4", "block is '4'"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            hg.ProgramBuilder("p", block=wrong)  # type: ignore[arg-type]


OTHER = hg.ProgramBuilder("other")


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda b: b.add(1, 2), "no operand has a type"),
        (lambda b: b.add(b.reg("f32")), "add takes 2 operands"),
        (lambda b: b.cvt("f23", b.reg("f32")), "cvt takes the result's type first"),
        (lambda b: b.set("less", b.reg("f32"), 1), "set takes a condition first"),
        (lambda b: b.fma(b.reg("i32"), 1, 2), "type i32 is not one of"),
        (lambda b: b.add(b.reg("f32"), object()), "add.f32: b is <object"),
        (lambda b: b.slot("a b", "f32"), "not a name"),
        (lambda b: b.slot("a", "f23"), "type 'f23'"),
        (lambda b: (b.slot("a", "f32"), b.slot("a", "f32")), "taken"),
        (lambda b: b.exit(dst=b.reg("f32")), "exit has no result"),
        (lambda b: b.slot("a", "f32")["x"], "an address is 'x'"),
        # what only build() told, or nobody
        (lambda b: b.reg("f23"), "type 'f23'"),
        (lambda b: b.reg("f32", "a b"), "not a name"),
        (lambda b: (b.reg("f32", "a"), b.pred("a")), "pred a: the name is taken"),
        (lambda b: (b.label("a"), b.label("a")), "label a: the name is taken"),
        (lambda b: [b.place(label) for label in [b.label("a")] * 2], "label a stands in the program already"),
        (lambda b: b.place("a"), "label is 'a'; expected a label"),
        (lambda b: b.bra("a"), "label is 'a'; expected a label"),
        # numbers are numbers
        (lambda b: b.add(b.reg("f32"), "1.5"), "add.f32: b is '1.5'; expected a register of f32 or a number"),
        (lambda b: b.add(b.reg("f32"), 1j), "b is 1j; expected a register of f32 or a number"),
        (lambda b: b.add(b.reg("f32"), np.complex64(1)), "expected a register of f32 or a number"),
        (lambda b: b.add(b.reg("f32"), np.ones(1)), "expected a register of f32 or a number"),
        (lambda b: b.add(b.reg("i8"), 300), "add.i8: b is 300; i8 goes from -128 to 127"),
        (lambda b: b.add(b.reg("u32"), -1), "u32 goes from 0 to 4294967295"),
        (lambda b: b.add(b.reg("f32"), 1e300), r"add.f32: b is 1e\+300; f32 goes from -3.4028235e\+38 to"),
        (lambda b: b.add(b.reg("bf16"), -(2**128)), "add.bf16: b is an int of 129 bits; bf16 goes from -3.3895314e"),
        (lambda b: b.data("t", "f16", [1, 65520.0]), r"data t\[1\] is 65520.0; f16 goes from -65504 to 65504"),
        (lambda b: b.add(b.reg("i32"), 1.0), "b is 1.0; expected an integer"),
        (lambda b: b.data("t", "u8", [1, 256]), r"data t\[1\] is 256"),
        (lambda b: b.data("t", "u8", ["1"]), r"data t\[0\] is '1'; expected a number"),
        (lambda b: b.bar_sync(b.reg("u8")), "bar_sync: id is <Reg v_1: u8>; expected a number"),
        (lambda b: b.loop("3"), "loop: count is '3'"),
        (lambda b: b.sreg("lane.w"), "special is 'lane.w'; expected one of lane.x"),
        (lambda b: b.mem_fence("all"), "scope is 'all'; expected one of thread"),
        (lambda b: b.phi(96, 0, 0), "class_index is 96"),
        (lambda b: hg.ProgramBuilder("q", shared="64"), "shared is '64'; expected an integer"),
        # values are not Python's
        (lambda b: b.reg("u32") + b.reg("u32"), r"v_1 \+ v_2: .*expected an integer of bytes; the sum .*add"),
        (lambda b: b.reg("u32") - b.reg("u32"), "the difference of two values is builder.sub"),
        (lambda b: b.reg("u32") + 1.5, "expected an integer of bytes"),
        (lambda b: b.if_(b.reg("f32") == 1), r"has no operator ==; what it would do is builder.set\(\"eq\", …\)"),
        (lambda b: b.if_(b.pred() and b.pred()), "has no value while the program is built"),
        (lambda b: 1 if b.reg("f32") else 2, "has no value while the program is built"),
        # types
        (lambda b: b.add(b.reg("f32"), b.reg("f64")), r"add.f32: b is <Reg v_2: f64>; expected f32; cvt\("),
        (lambda b: b.add(b.reg("f32"), b.pred()), "b is <Pred p_2: pred>; expected a register of f32 or a number"),
        (lambda b: b.sel(b.reg("f32"), 1.0, b.reg("f32")), "pred is <Reg v_1: f32>; expected a predicate"),
        (lambda b: b.cvt("f32", 1.0), "the source is 1.0; expected a register"),
        (lambda b: b.cvt("f32", b.param("k", "f64")), "the source is <Param k: f64>; expected a register"),
        (lambda b: b.add(b.reg("f32"), 1.0, dst=b.reg("f64")), "dst is <Reg v_2: f64>; expected a register of f32"),
        (lambda b: b.add(b.reg("f32"), 1.0, dst=b.pred()), "dst is <Pred"),
        (lambda b: b.set("eq", b.reg("f32"), 1.0, dst=~b.pred()), "dst is <Pred .*not negated"),
        (lambda b: b.set("eq", b.reg("f32"), 1.0, dst=b.reg("u8")), "expected a predicate"),
        (lambda b: b.add(b.reg("f32"), b.param("k", "f32")), "b is <Param k: f32>; .*; read it with ldp"),
        (lambda b: b.add(b.reg("f32"), b.slot("x", "f32")), "b is <Slot x: f32>; .*; read it with ldg"),
        (lambda b: b.ldp(b.slot("x", "f32")), "param is <Slot x: f32>; expected a parameter of f32"),
        (lambda b: b.ldg(b.slot("x", "f32")), r"addr is <Slot x: f32>; expected an address in a slot, such as x\["),
        (lambda b: b.ldg(b.slot("x", "f32")[b.index], type="f64"), r"addr is <Address x\[index\]: f32>; expected f64"),
        (lambda b: b.stg(b.reg("f64"), b.slot("x", "f32")[0]), r"addr is <Address x\[0\]: f32>; expected f64"),
        (lambda b: b.ldg(b.slot("x", "u8")[b.index], type="f32"), r"addr is <Address x\[index\]: u8>; expected f32"),
        (lambda b: b.ldg(b.slot("x", "u8")[8]), "no operand has a type; say it with type="),
        (lambda b: b.ldg(b.shared[0], type="f32"), "expected an address in a slot"),
        (lambda b: b.lds(b.slot("x", "f32")[0]), "expected an address in shared memory"),
        (lambda b: b.slot("x", "f32")[b.reg("f32")], "is no address; expected one of i32"),
        (lambda b: b.slot("x", "f32")[b.reg("u8") + 4], "is no address; expected one of i32"),
        (
            lambda b: b.data("t", "f32", [1])[b.reg("u32") + 4],
            r"t\[…\]: an address is .*expected a register or a number",
        ),
        (lambda b: b.data("t", "f32", [1])[b.index], "expected a register or a number"),
        (lambda b: b.slot("x", "f32").flat[-1], r"x.flat\[-1\]: elements are counted from 0, never from the end"),
        (lambda b: b.slot("x", "f32").flat[b.index], "an address is .*expected a register, register"),
        (lambda b: b.slot("x", "f32").flat[OTHER.reg("u32")], "another builder's"),
        # one builder's values are not another's
        (lambda b: b.add(b.reg("f32"), OTHER.reg("f32")), "b is <Reg v_.*>, which is another builder's"),
        (lambda b: b.add(b.reg("f32"), 1.0, dst=OTHER.reg("f32")), "dst is .* another builder's"),
        (lambda b: b.if_(OTHER.pred()), "pred is .* another builder's"),
        (lambda b: b.bra(OTHER.label()), "label is .* another builder's"),
        (lambda b: b.place(OTHER.label()), "label is .* another builder's"),
        (lambda b: b.slot("x", "f32")[OTHER.reg("u32")], "another builder's"),
        (lambda b: b.slot("x", "f32")[OTHER.reg("u32") + 4], "another builder's"),
        (lambda b: b.lds(OTHER.shared[0], type="f32"), "addr is .* another builder's"),
        (lambda b: b.ldp(hg.ProgramBuilder("other").param("k", "f32")), "param is .* another builder's"),
        # blocks
        (lambda b: b.else_(), "else_ stands right after"),
        (lambda b: (b.if_(b.pred()), b.exit()), r"if_ \(.*test_builder.py:\d+\) stands without with"),
        (lambda b: (b.loop(3), b.build()), r"loop \(.*test_builder.py:\d+\) stands without with"),
        (lambda b: (b.loop(3).__enter__(), b.build()), r"loop \(.*test_builder.py:\d+\) is not at its end"),
    ],
)
def test_mistakes_are_named(use: Any, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        use(hg.ProgramBuilder("p"))


@pytest.mark.parametrize(
    ("type", "digits", "exponent"), [("f16", 11, 16), ("bf16", 8, 128), ("f32", 24, 128), ("f64", 53, 1024)]
)
def test_the_largest_numbers_are_in_range(ex: hg.Executor, type: str, digits: int, exponent: int) -> None:
    largest = (1 << exponent) - (1 << exponent - digits)
    beyond = largest + (1 << exponent - digits - 1)  # half of the last bit more, which rounds to infinity
    bits = {16: "u16", 32: "u32", 64: "u64"}[8 * _isa.TYPE_SIZES[type]]
    b = hg.ProgramBuilder("largest")
    slots = []
    for i, value in enumerate((largest, beyond - 1, -largest, 1 - beyond)):
        slots.append(b.slot(f"s{i}", bits))
        b.stg(b.bitcast(bits, b.mov(value, type=type)), slots[-1][b.index])
    b.exit()
    arrays = [ex.allocate(1, bits) for _ in slots]
    ex.launch(b.build(), {slot.name: array for slot, array in zip(slots, arrays)})
    width = 8 * arrays[0].itemsize
    infinity = (1 << width - 1) - (1 << digits - 1)
    plus, minus = infinity - 1, infinity - 1 + (1 << width - 1)
    assert [int(array.to_numpy()[0]) for array in arrays] == [plus, plus, minus, minus]
    for value in (beyond, -beyond):
        with pytest.raises(ValueError, match=f"{type} goes from -"):
            b.mov(value, type=type)


@pytest.mark.parametrize("type", [type for type in _isa.TYPE_SIZES if type[0] in "iu"])
def test_the_ends_of_integers_are_in_range(ex: hg.Executor, type: str) -> None:
    info = np.iinfo(dtype_of(type))
    b = hg.ProgramBuilder("ends")
    table = b.data("t", type, [info.min, np.array(info.max, info.dtype)[()], True, np.False_, 0, 0])
    out, parts = b.slot("out", type), [b.mov(value, type=type) for value in (info.min, info.max)]
    lane = b.sreg("global_lane")
    b.stg(b.sel(b.set("lt", lane, 4), b.ldc(table[lane]), b.sel(b.set("eq", lane, 4), *parts)), out[b.index])
    b.exit()
    o = ex.allocate(6, type)
    ex.launch(b.build(), out=o)
    assert o.to_numpy().tolist() == [info.min, info.max, 1, 0, info.min, info.max]
    for value in (info.min - 1, info.max + 1):
        for use in (lambda v: b.mov(v, type=type), lambda v: b.data("u", type, [v])):
            with pytest.raises(ValueError, match=rf"is {value}; {type} goes from {info.min} to {info.max}$"):
                use(value)


def test_the_last_byte_of_the_boundary_pool(ex: hg.Executor) -> None:
    b = hg.ProgramBuilder("last")
    b.slot("boundary", "u8")
    b.stg(7, b.phi(95, 47, 255), type="u8")
    b.exit()
    ex.launch(b.build(), n=1, grid=1)
    assert ex.allocate_boundary(95, 48, 256, "u8").to_numpy()[[-2, -1]].tolist() == [0, 7]
    for place in ((96, 0, 0), (0, 48, 0), (0, 0, 256)):
        with pytest.raises(ValueError, match=r"phi: .* is (96|48|256); expected 0 … "):
            b.phi(*place)


def test_else_and_nesting(ex: hg.Executor) -> None:
    """What runs is what Python runs for the same nest of if and else."""
    b = hg.ProgramBuilder("classify")
    x, out = b.slot("x", "i32"), b.slot("out", "i32")
    u, result = b.ldg(x[b.index]), b.reg("i32")
    with b.if_(b.set("lt", u, 0)):
        with b.if_(b.set("lt", u, -5)):
            b.mov(1, dst=result)
        with b.else_():
            b.mov(2, dst=result)
    with b.else_():
        b.mov(3, dst=result)
        with b.if_(~b.set("le", u, 5)):
            b.add(result, 10, dst=result)
    b.stg(result, out[b.index])
    b.exit()
    values = np.arange(-9, 10, dtype=np.int32)
    o = ex.allocate(values.size, "i32")
    ex.launch(b.build(), x=ex.from_numpy(values), out=o)
    expected = [(1 if v < -5 else 2) if v < 0 else (13 if v > 5 else 3) for v in values]
    assert o.to_numpy().tolist() == expected


def test_else_belongs_to_the_if_right_before() -> None:
    b = hg.ProgramBuilder("p")
    p = b.pred()
    with b.if_(p):
        b.mov(1, type="i32")
    b.mov(2, type="i32")
    with pytest.raises(ValueError, match="right after"):
        b.else_()
    with b.if_(p):
        pass
    with b.else_():
        pass
    with pytest.raises(ValueError, match="right after"):
        b.else_()
    block = b.if_(p)
    with block:
        pass
    with pytest.raises(ValueError, match="entered a second time"), block:
        pass


def test_a_block_left_by_an_exception_is_told() -> None:
    b = hg.ProgramBuilder("p")
    with pytest.raises(KeyError), b.loop(3):
        raise KeyError
    with pytest.raises(ValueError, match=r"loop \(.*test_builder.py:\d+\) is not at its end"):
        b.build()


def test_fresh_names_keep_off_those_given() -> None:
    b = hg.ProgramBuilder("p")
    names = [b.reg("f32", "v_1").name, b.reg("f32").name, b.reg("f32", "r7").name, b.reg("f32", "r7").name]
    assert names == ["v_1", "v_2", "r7", "r7"]


def test_the_verifier_points_at_the_line_built() -> None:
    b = hg.ProgramBuilder("p")
    b.slot("x", "f32")
    b.mov(1.0, type="f32")
    with b.if_(b.set("lt", b.sreg("global_lane"), 4)):
        b.mov(2.0, type="f32")
    with b.else_(), b.loop(3):
        b.mov(3.0, type="f32")
    b.add(b.reg("f32", "never_set"), 1.0)  # the line that errors are to name
    b.exit()
    line = test_the_verifier_points_at_the_line_built.__code__.co_firstlineno + 8
    with pytest.raises(ValueError, match=r"<built p>:\d+.*never_set") as caught:
        b.build()
    assert f'made at {__file__}:{line}: b.add(b.reg("f32", "never_set"), 1.0)' in str(caught.value)
    b = hg.ProgramBuilder("p")
    b.slot("index", "f32")  # so is this
    with pytest.raises(ValueError, match="it stands for the lane's element") as caught:
        b.build()
    assert 'b.slot("index", "f32")  # so is this' in str(caught.value)


def test_operators_of_registers_name_the_builder_s_method() -> None:
    b = hg.ProgramBuilder("p")
    x = b.slot("x", "f32")
    u, v, p = b.ldg(x[b.index]), b.ldg(x[b.index]), b.pred()
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: u * v, r"mul\(…\)"),
        (lambda: 2 * u, r"mul\(…\)"),
        (lambda: u / 2, r"div\(…\)"),
        (lambda: u**2, r"pow\(…\)"),
        (lambda: -u, r"neg\(…\)"),
        (lambda: abs(u), r"abs\(…\)"),
        (lambda: 1 + u, r"add\(…\)"),
        (lambda: p & p, r"and_\(…\)"),
        (lambda: p | p, r"or_\(…\)"),
        (lambda: u == v, r'set\("eq", …\)'),
        (lambda: u != 0, r'set\("ne", …\)'),
        (lambda: u < v, r'set\("lt", …\)'),
        (lambda: 1.0 >= u, r'set\("le", …\)'),
        (lambda: b.and_(u == v, p), r'set\("eq", …\)'),
    ]
    for function, method in wrong:
        with pytest.raises(TypeError, match=rf"has no operator .*; what it would do is builder\.{method}"):
            function()
    assert u in [v, u][1:] and {u: 1, p: 2}[u] == 1 and u == u and not u != u and (u == "text") is False
    assert (~p).name == p.name and (u + 4).offset == 4 and (u - 4).offset == -4
