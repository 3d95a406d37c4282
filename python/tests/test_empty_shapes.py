"""Operations with axes on arrays without elements: what numpy has for them, or an error in words."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
from support import DTYPES

import hologram as hg
from hologram import ops
from hologram._dtypes import dtype_of

SHAPES: list[tuple[int, ...]] = [(0,), (0, 0), (3, 0), (0, 3), (0, 2, 2), (2, 0, 2), (2, 2, 0), (1, 0, 3, 2)]
REDUCTIONS = {"reduce_sum": 0, "reduce_prod": 1, "reduce_max": None, "reduce_min": None, "argmax": None, "argmin": None}
KEEPING = ["cumsum", "softmax", "log_softmax", "softmax_gradient", "log_softmax_gradient", "layer_norm", "rms_norm"]
OTHERS = {"weight": 1.0, "bias": 0.0, "eps": 1e-5}


def arrays(name: str, shape: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    """Arrays of a shape, row-major and the other way round."""
    return [np.zeros(shape, dtype_of(name)), np.zeros(shape[::-1], dtype_of(name)).T]


def supported(op: str, name: str) -> bool:
    return op in REDUCTIONS or op == "cumsum" or dtype_of(name).kind not in "iu"


def axes(shape: tuple[int, ...]) -> list[Any]:
    return [None, -1, *range(len(shape) - 1), *([(0, 1)] if len(shape) > 1 else [])]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions(host: hg.Executor, op: str, shape: tuple[int, ...]) -> None:
    for name in DTYPES:
        for axis in axes(shape):
            for keepdims in (False, True):
                expected = np.sum(np.zeros(shape), axis=axis, keepdims=keepdims)
                for x in arrays(name, shape):
                    call = lambda x=x, a=axis, k=keepdims: getattr(ops, op)(x, axis=a, keepdims=k, ex=host)  # noqa: E731
                    if REDUCTIONS[op] is None and expected.size:
                        with pytest.raises(ValueError, match=f"^{op}: .*empty|no elements"):
                            call()
                        continue
                    found = np.asarray(call())
                    assert found.shape == expected.shape, (name, axis)
                    assert (found == REDUCTIONS[op]).all() or not found.size, (name, axis)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", KEEPING)
def test_what_keeps_the_shape(host: hg.Executor, op: str, shape: tuple[int, ...]) -> None:
    function = getattr(ops, op)
    names = inspect.signature(function).parameters
    for name in DTYPES:
        for axis in axes(shape):
            for x in arrays(name, shape) if supported(op, name) else []:
                given: dict[str, Any] = {key: value for key, value in OTHERS.items() if key in names}
                given.update((key, x) for key in ("result",) if key in names)
                wide = np.zeros(shape, "f8" if name == "f64" else "f4")  # in which rows are summed
                given.update(
                    (key, np.array(np.sum(wide, axis=axis))) for key in ("mean", "variance", "squares") if key in names
                )
                found = function(x, axis=axis, ex=host, **given)
                expected = (0,) if op == "cumsum" and axis is None else shape
                assert found.shape == expected, (name, axis)
                into = np.zeros(expected, found.dtype)
                function(x, output=into, axis=axis, ex=host, **given)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", ["layer_norm", "rms_norm"])
def test_means_of_nothing_are_written(host: hg.Executor, op: str, shape: tuple[int, ...]) -> None:
    """They are NaN, as numpy's are, and not what the memory held before."""
    made = {"layer_norm": ["mean", "variance"], "rms_norm": ["squares"]}[op]
    for name in ("f16", "f32", "f64"):
        for axis in axes(shape):
            for x in arrays(name, shape):
                rows = np.sum(np.zeros(shape, "f8" if name == "f64" else "f4"), axis=axis)
                given = {key: np.full_like(rows, 7.0) for key in made}
                others = OTHERS if op == "layer_norm" else {k: v for k, v in OTHERS.items() if k != "bias"}
                getattr(ops, op)(x, axis=axis, ex=host, **others, **given)
                assert all(np.isnan(numbers).all() for numbers in given.values()), (name, axis)
