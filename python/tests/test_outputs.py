"""What a call returns whose output is given: one rule for all operations, functions, kernels and launches."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from test_two_ways import a_call

import hologram as hg
from hologram import ops
from hologram._kernel.making import PUBLIC

F32 = np.float32
REFUSED = (TypeError, ValueError, RuntimeError, MemoryError, BufferError)


@pytest.mark.parametrize("name", sorted(ops._by_name))  # type: ignore[attr-defined]
def test_out_is_returned_and_what_is_given_otherwise_by_reductions_alone(host: hg.Executor, name: str) -> None:
    """By its place and its own name it is by reductions and losses alone, or by its place the number that they make."""
    f = ops._by_name[name]  # type: ignore[attr-defined]
    names = [p.name for p in f.parameters]
    last = [p.name for p in f.parameters if p.kind in "wo"][-1]
    done = {"out": 0, "place": 0, "name": 0}
    for seed in range(150):
        for how in done:
            given, _ = a_call(f, random.Random(seed), host)
            output = given.get(last)
            if output is None or any(p.kind == "v" and given.get(p.name) is None for p in f.parameters):
                break  # see below of what is left out
            axes = given.get("axis") is not None or given.get("keepdims") not in (None, False)
            if f.result and not axes and how == "place" and hasattr(output, "dtype"):
                given[last] = np.empty(3, output.dtype)
            first: list[Any] = []
            if how == "place":
                leading = names[: names.index(last) + 1]
                if not all(each in given for each in leading[1:]):
                    break
                first = [given.pop(each) for each in leading if each in given]
            elif how == "out":
                given["out"] = given.pop(last)
            try:
                with np.errstate(all="ignore"):
                    result = getattr(ops, name)(*first, **given)
            except REFUSED:
                continue
            done[how] += 1
            if how == "place" and f.result and not axes:
                assert type(result) in (int, float, bool)
            else:
                assert result is (output if how == "out" or f.reduces else None)
    assert all(done.values()), done


@pytest.mark.parametrize("kind", ["array", "Buffer", "derived"])
def test_reductions_return_alike_by_c_and_by_python(host: hg.Executor, kind: str) -> None:
    x: Any = np.arange(6, dtype=F32).reshape(2, 3)
    x = host.wrap(x) if kind == "Buffer" else x.view(type("Mine", (np.ndarray,), {})) if kind == "derived" else x
    rows, three, places = np.empty(2, F32), np.empty(3, F32), np.empty(2, "i8")
    assert ops.reduce_sum(x, rows, axis=1) is rows and rows.tolist() == [3, 12]
    assert ops.reduce_sum(x, output=rows, axis=1) is rows
    assert ops.reduce_sum(x, out=rows, axis=1) is rows
    assert ops.reduce_sum(x, three) == three[0] == 15
    assert ops.argmax(x, places, axis=1) is places and places.tolist() == [2, 2]
    one = np.empty(1, F32)
    assert ops.reduce_sum(x, output=one) is one and ops.reduce_sum(x, out=one) is one and one[0] == 15
    with pytest.raises(ValueError, match="output has 1 elements; expected at least 3 elements; by name it may have 1"):
        ops.reduce_sum(x, one)
    with hg.Executor("cpu") as ex:
        total = ex.allocate(3)
        assert ex.submit(ops.reduce_sum, ex.wrap(np.ones(5, F32)), total).result() == 5


@pytest.mark.parametrize("kind", ["array", "Buffer", "derived"])
def test_what_is_left_out_of_several_outputs_is_returned_in_order(host: hg.Executor, kind: str) -> None:
    for dtype in ("f2", "f4", "f8"):
        plain = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(dtype)
        wide, x = np.result_type(dtype, F32), plain  # rows are summed in that
        if kind != "array":
            x = host.wrap(x) if kind == "Buffer" else x.view(type("Mine", (np.ndarray,), {}))
        for axis, shape in ((-1, (2, 3)), ((0, 2), (3,)), (None, ())):
            mean, variance, y = np.empty(shape, wide), np.empty(shape, wide), np.empty_like(plain)
            numbers: dict[str, Any] = {"eps": 1e-3, "axis": axis}
            assert ops.layer_norm(x, 1.5, 0.5, mean, variance, y, **numbers) is None
            np.testing.assert_allclose(mean, plain.astype("f8").mean(axis), rtol=1e-5, atol=1e-6)

            def same(made: Any, *expected: Any) -> None:
                assert len(made) == len(expected)
                for one, other in zip(made, expected):
                    one = one.to_numpy() if isinstance(one, hg.Buffer) else one
                    assert one.dtype == other.dtype and one.shape == other.shape and np.array_equal(one, other)

            same(ops.layer_norm(x, 1.5, 0.5, **numbers), mean, variance, y)
            assert isinstance(ops.layer_norm(x, 1.5, 0.5, **numbers)[0], hg.Buffer) is (kind == "Buffer")
            same([ops.layer_norm(x, 1.5, 0.5, mean, **numbers, output=np.empty_like(y))], variance)
            same(ops.layer_norm(x, 1.5, 0.5, variance=variance, **numbers), mean, y)
            out = np.empty_like(y)
            found = ops.layer_norm(x, 1.5, 0.5, **numbers, out=out)
            assert found[2] is out
            same(found, mean, variance, y)
            most = np.empty(shape, wide)
            log = ops.log_sum_exp(plain, most, axis=axis)
            same(ops.log_sum_exp(x, axis=axis), most, np.asarray(log))
        logs = ops.log_softmax(x.reshape(6, 4) if kind != "Buffer" else x.view((6, 4)), axis=1)
        weights, losses = ops.nll(logs, np.array([0, 1, 2, 3, 9, 0]), 2.0, ignored=9)
        weights, losses = (a.to_numpy() if kind == "Buffer" else a for a in (weights, losses))
        assert weights.tolist() == [2, 2, 2, 2, 0, 2] and weights.dtype == wide
        assert losses.shape == (6,) and (losses[4] == 0) and (losses[:4] > 0).all()
    with pytest.raises(ValueError, match="layer_norm: bias has shape"):
        ops.layer_norm(np.ones((2, 3)), 1.0, np.ones(2), eps=0.1, axis=1)
    with pytest.raises(TypeError, match="layer_norm: input is no array"):
        ops.layer_norm(1.0, np.ones(2), 0.0, eps=0.1)


def test_launches_return_no_output(host: hg.Executor) -> None:
    program = hg.Program("program p\nslot x f32\nslot y f32\nldg.f32 a, x[index]\nstg.f32 a, y[index]\nexit\n")
    y = np.empty(3, F32)
    assert host.launch(program, x=np.ones(3, F32), y=y) is None and y.tolist() == [1, 1, 1]


# ---- functions of arrays


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_functions_take_out_and_executor_as_kernels_do(host: hg.Executor, name: str) -> None:
    function = getattr(hg, name)
    of_integers = name in ("popc", "clz", "ctz", "mulhi")
    x = np.array([1, 2, 3], "u4") if of_integers else np.array([0.25, 0.5, 0.75], F32)
    count = {"cast": 1, "bitcast": 1, "clip": 3, "fma": 3, "where": 3}.get(name)
    if count is None:
        count = 2 if name in ("maximum", "minimum", "mulhi", "pow", "rem") else 1
    arguments: list[Any] = [x] * count
    if name == "where":
        arguments[0] = x > 0.3
    named = {"dtype": "i4"} if name in ("cast", "bitcast") else {}
    expected = function(*arguments, **named)
    out = np.empty_like(expected)
    assert function(*arguments, **named, out=out) is out and np.array_equal(out, expected)
    with hg.Executor("cpu") as other:
        buffers = [other.from_numpy(a) for a in arguments]
        made = function(*buffers, **named, executor=other)
        assert made.executor is other and np.array_equal(made.to_numpy(), expected)


def test_functions_take_arguments_by_name(host: hg.Executor) -> None:
    x = np.array([1.0, -2.0], F32)
    assert hg.where(condition=x > 0, a=x, b=0.0).tolist() == [1, 0]
    assert hg.clip(x, high=1.0, low=0.0).tolist() == [1, 0]
    assert hg.kernel(lambda a: hg.clip(a, high=1.0, low=0.0))(x).tolist() == [1, 0]
    assert hg.sqrt(x=4.0) == 2.0 and type(hg.sqrt(x=4.0)) is float


x, ex = np.ones(3, F32), "an executor"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: hg.sin(x, ex=1), r"sin: there is no parameter ex; it has x, out, executor; here it is executor=\n"),
        (lambda: hg.sin(x, dtype="f8"), r"sin: there is no parameter dtype; .* numpy gives it: hologram.cast\(x, "),
        (lambda: hg.sin(x, x), r"sin: too many .*; it is called as sin\(x\); an array for the result is given as out="),
        (lambda: hg.sin(hg.Executor("cpu"), x), "sin: too many .*; an executor is given as executor="),
        (lambda: hg.sin(), r"sin: missing .* 'x'; it is called as sin\(x\)$"),
        (lambda: hg.sin(x, executor="cpu"), "sin: executor is 'cpu'; expected an Executor"),
        (lambda: hg.sin(x, out=3), "sin: out is 3; expected an array"),
        (lambda: hg.clip(x, 1), r"clip: missing .* 'high'; it is called as clip\(x, low, high\)$"),
        (lambda: hg.kernel(lambda a: a)(x, ex=1), "no parameter ex; it has a, out, executor; here it is executor="),
        (lambda: hg.kernel(lambda a: a)(x, dtype="f8"), "no parameter dtype; .* hologram.cast"),
        (lambda: hg.kernel(lambda a: hg.sin(a, out=x))(x), r"sin: in a kernel it takes no out; .*called\n  at "),
        (lambda: hg.kernel(lambda a: hg.cast(a, "f8", out=x))(x), "cast: in a kernel it takes no out"),
        (lambda: hg.kernel(lambda a: hg.sin(a, executor=ex))(x), "sin: in a kernel it takes no executor"),
        (lambda: hg.kernel(lambda a: hg.kernel(hg.exp)(a, out=x))(x), "in a kernel it takes no out"),
    ],
)
def test_what_functions_do_not_take_is_told(call: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        call()
