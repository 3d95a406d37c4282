"""What others call an argument or a function is told by what it is called here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hologram as hg
from hologram import ops

x, i = np.ones((2, 2), np.float32), np.ones((2, 2), np.int8)


@pytest.mark.parametrize(
    ("function", "keyword", "here"),
    [
        (ops.vector_add, "executor", "ex"),
        (ops.reduce_sum, "dim", "axis"),
        (ops.softmax, "axes", "axis"),
        (ops.reduce_max, "keepdim", "keepdims"),
        (ops.reduce_max, "keep_dims", "keepdims"),
        (ops.gemm, "transA", "trans_a"),
        (ops.gemm, "transB", "trans_b"),
        (ops.gemm, "transpose_b", "trans_b"),
        (ops.gemm, "trans_B", "trans_b"),
        (ops.vector_clip, "a_min", "min_val"),
        (ops.vector_clip, "a_max", "max_val"),
        (ops.vector_clip, "min", "min_val"),
        (ops.fill, "fill_value", "value"),
        (ops.gelu, "inputs", "input"),
        (ops.gelu, "strem", "stream"),
    ],
)
def test_keywords(function: Any, keyword: str, here: str) -> None:
    name = function.__name__
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an .* '{keyword}'; it has ex, .*; here it is {here}=$"):
        function(x, **{keyword: 1})


def test_what_is_like_nothing_is_not_guessed() -> None:
    with pytest.raises(TypeError, match=r"argument 'initial'; it has ex, .*, keepdims, stream, out$"):
        ops.reduce_sum(x, initial=2)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: ops.gemm(i, i, dtype=np.int32),
            r"products of integers .* give out= .* numpy.empty\(shape, numpy.int32",
        ),
        (lambda: ops.matvec(i, i[0], dtype="i4"), r"'dtype'; .* give out= of that"),
        (lambda: ops.reduce_sum(x, dtype="f8"), r"'dtype'; .* for sums in a wider one give out= of that"),
        (lambda: ops.vector_add(x, x, dtype="f8"), r"'dtype'; .* convert them, as by a.astype\(…\)$"),
        (
            lambda: ops.gemm(i, i.astype("i4")),
            r"write a.astype\(np.int32\); the product of two of int8 may go to an out=",
        ),
        (lambda: ops.gemm(i.astype("u2"), i), "the product of two of int8 may go to an out= of int32 or int64$"),
        (lambda: ops.gemm(i, i, out=x), "c has dtype f32, .*; give c as an array of int8 or int32 or int64$"),
        (lambda: ops.matvec(i, i[0], x[0]), "y has dtype f32, .*; give y as an array of int8 or int32 or int64$"),
        (lambda: ops.gemm(x, x.astype("f8")), r"write a.astype\(np.float64\), or b.astype\(np.float32\)$"),
    ],
)
def test_types_of_products(call: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zeros", r"as they are, and hologram.Executor\(\).allocate\(shape, dtype\) makes a Buffer$"),
        ("empty_like", r"Executor\(\).allocate\(shape, dtype\) makes a Buffer$"),
        ("array", r"numpy's and torch's as they are, .*from_numpy\(array\) makes a Buffer$"),
        ("ones", r"from_numpy\(array\) makes a Buffer$"),
        ("arange", r"from_numpy\(array\) makes a Buffer$"),
        ("tensor", r"from_numpy\(array\) makes a Buffer$"),
        ("float32", "dtypes are numpy's: numpy.float32$"),
        ("bfloat16", 'a dtype is named: "bfloat16"$'),
        ("sum", "there is hologram.ops.reduce_sum$"),
    ],
)
def test_names_of_others(name: str, text: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; .*{text}"):
        getattr(hg, name)
