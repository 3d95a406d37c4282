"""Products with a bias and an activation behind them."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Optional

import numpy as np
import pytest
from support import FLOATS

import hologram as hg
from hologram import ops
from hologram._dtypes import dtype_of

Array = np.ndarray[Any, Any]
APART: dict[Optional[str], Callable[[Any], Any]] = {
    None: lambda x: x,
    "relu": ops.vector_relu,
    "gelu": ops.gelu,
    "silu": lambda x: ops.vector_mul(x, ops.sigmoid(x)),
    "sigmoid": ops.sigmoid,
    "tanh": ops.tanh,
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-7, 6e-8, 1e4, -1e4]


def apart(ex: hg.Executor, x: Array, w: Array, b: Optional[Array], activation: Optional[str]) -> Array:
    """What the calls one after the other give."""
    made = ops.gemm(ex.from_numpy(x), ex.from_numpy(w), trans_b=True)
    if b is not None:
        made = ops.vector_add(made, ex.from_numpy(b))
    found: Array = APART[activation](made).to_numpy()
    return found


def same(found: Array, expected: Array) -> None:
    """All NaNs are one."""
    assert found.shape == expected.shape and found.dtype == expected.dtype
    bits = np.dtype(f"u{found.dtype.itemsize}")
    a, b = (np.where(np.isnan(x), x.dtype.type(np.nan), x).view(bits) for x in (found, expected))
    np.testing.assert_array_equal(a, b)


def arrays(name: str, shape: tuple[int, ...], n: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(1)
    x, w, b = (rng.standard_normal(s).astype(dtype_of(name)) for s in (shape, (n, shape[-1]), (n,)))
    if n >= len(SPECIAL):
        b[: len(SPECIAL)] = np.array(SPECIAL).astype(b.dtype)
    return x, w, b


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("activation", APART)
@pytest.mark.parametrize("shape, n", [((3, 5), 17), ((2, 3, 70), 130), ((7,), 12), ((600, 4), 33), ((2, 1030), 20)])
def test_bits_are_those_of_the_calls_in_turn(
    ex: hg.Executor, name: str, activation: Optional[str], shape: tuple[int, ...], n: int
) -> None:
    x, w, b = arrays(name, shape, n)
    for bias in (b, None, b[-1:], b[-1:].reshape(())):
        given = [ex.from_numpy(y) if y is not None else None for y in (x, w, bias)]
        expected = apart(ex, x, w, bias, activation)
        same(ops.linear(*given, activation=activation).to_numpy(), expected)
        out = ex.allocate(expected.shape, expected.dtype)
        assert ops.linear(ex, *given, activation=activation, out=out) is out
        same(out.to_numpy(), expected)
        # Arrays go another way than buffers, and those of a GPU's backend are the CPU's here.
        same(ops.linear(x, w, bias, activation=activation), apart(hg.Executor("cpu"), x, w, bias, activation))


@pytest.mark.parametrize("shape, n", [((0, 4), 3), ((4, 0), 3), ((4, 3), 0), ((2, 0, 5), 4)])
def test_of_nothing(shape: tuple[int, ...], n: int) -> None:
    x, w, b = arrays("f32", shape, n)
    found = ops.linear(x, w, b, activation="relu")
    np.testing.assert_array_equal(found, np.maximum(x @ w.T + b, 0))


def test_strides_and_forms_of_calls() -> None:
    x, w, b = arrays("f64", (6, 8), 10)
    ex = hg.Executor("cpu")
    expected = apart(ex, x, w, b, "relu")
    turned, wide, backward = np.asfortranarray(x), np.zeros((6, 20)), b[::-1].copy()[::-1]
    same(ops.linear(turned, w.T.copy().T, backward, activation="relu"), expected)
    for call in (
        lambda out: ops.linear(x, w, b, activation="relu", out=out),
        lambda out: ops.linear(x, w, bias=b, activation="relu", out=out),
        lambda out: ops.linear(input=x, weight=w, bias=b, activation="relu", out=out),
        lambda out: ops.linear(x, w, b, activation="relu", out=out, ex=ex),
        lambda out: ops.linear(ex=ex, input=x, weight=w, bias=b, activation="relu", out=out),
        lambda out: ops.linear(ex, x, w, b, activation="relu", out=out),
        lambda out: ops.linear(x, memoryview(w), b, activation="relu", out=out),
    ):
        for out in (np.empty((6, 10)), wide[:, ::2]):
            out[...] = np.nan
            assert call(out) is out
            same(np.ascontiguousarray(out), expected)
    assert not wide[:, 1::2].any()
    assert [*inspect.signature(ops.linear).parameters] == ["ex", "input", "weight", "bias", "activation", "out"]


def test_what_does_not_fit_is_refused_before_anything_is_written() -> None:
    x, w, b = arrays("f32", (4, 4), 4)
    room = np.full((8, 4), 7, np.float32)
    out = room[:4]
    for error, text, call in (
        (
            ValueError,
            "activation is 'elu'; expected None or one of relu",
            lambda: ops.linear(x, w, b, activation="elu", out=out),
        ),
        (ValueError, r"input has shape \(4, 4\) and weight \(4, 3\)", lambda: ops.linear(x, w[:, :3], b, out=out)),
        (ValueError, r"weight \(4,\); expected", lambda: ops.linear(x, w[0], out=out)),
        (ValueError, r"weight \(1, 4, 4\); expected", lambda: ops.linear(x, w[None], b, out=out)),
        (ValueError, r"bias has shape \(3,\); expected \(4,\)", lambda: ops.linear(x, w, b[:3], out=out)),
        (ValueError, r"bias has shape \(4, 4\)", lambda: ops.linear(x, w, w, out=out)),
        (ValueError, r"out has shape \(3, 4\); the result has \(4, 4\)", lambda: ops.linear(x, w, b, out=out[:3])),
        (TypeError, "bias has dtype float64, and input has float32", lambda: ops.linear(x, w, b.astype("f8"), out=out)),
        (TypeError, "weight has dtype float64", lambda: ops.linear(x, w.astype("f8"), b, out=out)),
        (TypeError, "input has dtype int32; expected floats", lambda: ops.linear(*(y.astype("i4") for y in (x, w, b)))),
        (TypeError, "linear: bias: expected a Buffer", lambda: ops.linear(x, w, [1.0] * 4, out=out)),
        (TypeError, "linear: weight: expected a Buffer", lambda: ops.linear(x, 3.0, b, out=out)),
        (TypeError, "linear.. missing 1 required positional argument: 'weight'", lambda: ops.linear(x)),
        (TypeError, "unexpected keyword argument 'stream'", lambda: ops.linear(x, w, b, stream=0)),
        (ValueError, "out overlaps input", lambda: ops.linear(out, w, b, out=room[1:5])),
        (ValueError, "out overlaps weight", lambda: ops.linear(x, out, b, out=out)),
        (ValueError, "out overlaps bias", lambda: ops.linear(x, w, out[2], out=out)),
        (
            ValueError,
            "out overlaps bias",
            lambda: ops.linear(x, w, out[2], activation="relu", out=out, ex=hg.Executor("cpu")),
        ),
    ):
        for _ in range(2):  # the first of a kind is looked at more closely
            with pytest.raises(error, match=text):
                call()
        assert (room == 7).all()
