"""Elements by their number, and places in the index space: what numpy's habits expect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import DEVICE

import hologram as hg

GATHER = """program gather
slot x f32
slot i {index}
slot y f32
  ldg.{index} k, i[index]
  ldg.f32 v, x[flat k]
  stg.f32 v, y[index]
  exit
"""

BASE = np.arange(400, dtype=np.float32)
VIEWS = {
    "contiguous": BASE,
    "some": BASE[7:50],
    "every third": BASE[1::3],
    "backwards": BASE[::-1],
    "every seventh, backwards": BASE[300:10:-7],
    "a matrix": BASE.reshape(20, 20),
    "a column": BASE.reshape(20, 20)[:, 3],
    "a row": BASE.reshape(20, 20)[3],
    "a matrix from its end": BASE.reshape(20, 20)[::-1, ::-1],
    "every second column": BASE.reshape(20, 20)[:, ::2],
    "with axes of one element": BASE[::5].reshape(4, 1, 20, 1),
    "one element": BASE[9:10],
    "no axis": BASE[9:10].reshape(()),
}


def bound(ex: hg.Executor, array: np.ndarray) -> Any:
    """What an executor takes for the view: numpy's own memory where the device sees it, else a buffer's view."""
    if DEVICE == "cpu":
        return array
    whole = array if array.base is None else array.base
    while whole.base is not None:
        whole = whole.base
    offset = (array.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // array.itemsize
    strides = tuple(s // array.itemsize for s in array.strides)
    return ex.from_numpy(whole.reshape(-1)).view(array.shape, strides=strides, offset=offset)


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("index", ["i32", "i64", "u32", "u64"])
def test_elements_are_numpys(ex: hg.Executor, name: str, index: str) -> None:
    view = VIEWS[name]
    numbers = np.random.default_rng(len(name)).integers(0, view.size, 50)
    numbers[:2] = 0, view.size - 1
    y = ex.allocate(50)
    ex.launch(
        hg.Program(GATHER.format(index=index)),
        x=bound(ex, view),
        i=ex.from_numpy(numbers.astype(index[0] + str(int(index[1:]) // 8))),
        y=y,
    )
    assert np.array_equal(y.to_numpy(), view.flat[numbers])


@pytest.mark.parametrize("name", VIEWS)
def test_stores_are_numpys(ex: hg.Executor, name: str) -> None:
    program = hg.Program(
        "program scatter\nslot y i32\nsreg g, global_lane\ncvt.i32.u64 v, g\nneg.i32 v, v\nstg.i32 v, y[flat g]\nexit\n"
    )
    shape = VIEWS[name]
    base = np.arange(400, dtype=np.int32)
    offset = (shape.__array_interface__["data"][0] - BASE.__array_interface__["data"][0]) // 4
    strides = tuple(s // 4 for s in shape.strides)
    whole = ex.from_numpy(base)
    ex.launch(program, y=whole.view(shape.shape, strides=strides, offset=offset), n=shape.size)
    expected = np.lib.stride_tricks.as_strided(base[offset:], shape.shape, shape.strides)
    expected.flat[:] = -np.arange(shape.size)
    assert np.array_equal(whole.to_numpy(), base)


@pytest.mark.parametrize("name", ["contiguous", "every third", "every seventh, backwards", "a matrix"])
def test_elements_that_are_not_there(ex: hg.Executor, name: str) -> None:
    view = VIEWS[name]
    program = hg.Program(GATHER.format(index="i64"))
    for number, told in [
        (view.size, f"element {view.size} of slot x, which has {view.size};"),
        (-1, f"element -1 of slot x, which has {view.size}, counted from 0 on, never from the end;"),
        (10**6, f"element 1000000 of slot x, which has {view.size};"),
        (-(2**63), f"of slot x, which has {view.size}"),
        (2**62, f"or one beyond it, of slot x, which has {view.size}"),
    ]:
        numbers = np.array([1, number, 2])
        y = ex.allocate(3)
        with pytest.raises(hg.ProgramFault) as caught:
            ex.launch(program, x=bound(ex, view), i=ex.from_numpy(numbers), y=y)
            ex.synchronize()
        # A device may not tell what was asked for, but always what there is.
        assert told in str(caught.value) or f"slot x has {view.size} elements" in str(caught.value)
        assert y.to_numpy().tolist() == [view.flat[1], 0, view.flat[2]]


def test_views_without_one_step_are_refused(ex: hg.Executor) -> None:
    program = hg.Program(GATHER.format(index="i64"))
    square = BASE.reshape(20, 20)
    i, y = ex.from_numpy(np.zeros(3, np.int64)), ex.allocate(3)
    for view in (square.T, square[:, :3]):
        with pytest.raises(ValueError, match=r"slot x is accessed by \[flat …\].*make a contiguous copy"):
            ex.launch(program, x=bound(ex, view), i=i, y=y)


def test_neighbours_by_the_builder(ex: hg.Executor) -> None:
    b = hg.ProgramBuilder("differences")
    x, y = b.slot("x", "f32"), b.slot("y", "f32")
    g, n = b.sreg("global_lane"), b.sreg("n")
    first = b.set("eq", g, 0)
    last = b.set("eq", g, b.sub(n, 1))
    edge = b.or_(first, last)
    value = b.ldg(x.flat[0])
    with b.if_(~edge):
        b.sub(b.ldg(x.flat[g + 1]), b.ldg(x.flat[g - 1]), dst=value)
    b.stg(value, y.flat[g])
    b.exit()
    program = b.build()
    for view in (BASE[3:40], BASE[::9], BASE[::-9]):
        out = ex.allocate(view.size)
        ex.launch(program, x=bound(ex, view), y=out, n=view.size)
        expected = np.full(view.size, view[0])
        expected[1:-1] = view[2:] - view[:-2]
        assert np.array_equal(out.to_numpy(), expected)


def test_what_the_builder_refuses() -> None:
    b = hg.ProgramBuilder("p")
    x = b.slot("x", "f32")
    assert repr(x.flat) == "<Flat x: f32>"
    assert x.flat[b.reg("u32", "i") + 2].text == "x[flat i + 2]"
    assert b.slot("bytes", "u8").flat[3].type == "u8"
    for use, text in [
        (lambda: x.flat[-1], r"x.flat\[-1\]: elements are counted from 0, never from the end"),
        (lambda: x.flat[b.index], r"x\[…\]: an address is .*; expected a register, register \+ number or a number"),
        (lambda: x.flat[b.reg("f32")], "is no address; expected one of i32"),
        (lambda: x.flat[1.5], "expected a register"),
        (lambda: b.lds(x.flat[0]), "expected an address in shared memory"),
    ]:
        with pytest.raises((ValueError, TypeError), match=text):
            use()


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (5, 1), (2, 1, 1, 3)])
def test_places_are_numpys(ex: hg.Executor, shape: tuple[int, ...]) -> None:
    b = hg.ProgramBuilder("places")
    names = ["row", "column", "rows", "columns", *(f"index.{d}" for d in range(8)), *(f"size.{d}" for d in range(8))]
    slots = [b.slot(f"s{i}", "u64") for i in range(len(names))]
    for slot, name in zip(slots, names):
        b.stg(b.sreg(name), slot[b.index])
    b.exit()
    out = {slot.name: ex.allocate(shape, "u64") for slot in slots}
    ex.launch(b.build(), **out)
    places = np.indices(shape)

    def place(axis: int) -> Any:
        return places[axis] if 0 <= axis < len(shape) else 0

    def size(axis: int) -> int:
        return shape[axis] if 0 <= axis < len(shape) else 1

    last = len(shape) - 1
    expected = [place(last - 1), place(last), size(last - 1), size(last), *map(place, range(8)), *map(size, range(8))]
    for name, slot, value in zip(names, slots, expected):
        assert np.array_equal(out[slot.name].to_numpy().reshape(shape), np.broadcast_to(value, shape)), name


def test_a_matrix_is_transposed_by_rows_and_columns(ex: hg.Executor) -> None:
    program = hg.Program(
        "program transpose\nslot m f32\nslot t f32\nsreg i, row\nsreg j, column\nsreg h, rows\nldg.f32 x, m[index]\n"
        "mad.u64 at, j, h, i\nstg.f32 x, t[flat at]\nexit\n"
    )
    m = BASE[:60].reshape(5, 12)
    t = ex.allocate((12, 5))
    ex.launch(program, m=bound(ex, m), t=t)
    assert np.array_equal(t.to_numpy().reshape(12, 5), m.T)
