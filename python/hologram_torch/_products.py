"""Products of vectors, matrices and stacks of them; see functional."""

from __future__ import annotations

import math
from typing import NoReturn, Optional

import torch
from torch import Tensor

from hologram import Executor
from hologram.errors import InvalidArgumentError
from hologram_torch import _matrix
from hologram_torch._calls import Number, executor_form, here, tensors, unexpected
from hologram_torch._executors import using
from hologram_torch._functions import ACTIVATIONS, add
from hologram_torch._fused import Fused
from hologram_torch._operation import is_dynamo_compiling


def _mm(input: Tensor, mat2: Tensor) -> Tensor:
    found: Tensor = _matrix.MM(*tensors("mm", input, mat2))
    return found


_MM = Fused("mm", _mm, 2)


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices, in the order of docs/REDUCTIONS.md."""
    return _MM((input, mat2))


def _bmm(input: Tensor, mat2: Tensor) -> Tensor:
    found: Tensor = _matrix.BMM(*tensors("bmm", input, mat2))
    return found


_BMM = Fused("bmm", _bmm, 2)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the products of two stacks of matrices."""
    return _BMM((input, mat2))


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Return beta · input + alpha · mat1 · mat2; with beta 0 input isn't read, with alpha 0 no product made."""
    x, a, b = tensors("addmm", input, mat1, mat2)
    for name, given in (("beta", beta), ("alpha", alpha)):
        if not a.dtype.is_floating_point and float(given) != given:
            raise RuntimeError(f"addmm: {name} is {given}; beside {a.dtype} expected a number that a double holds")
    found: Tensor = _matrix.ADDMM(x, a, b, float(beta), float(alpha))
    return found


def _matmul(input: Tensor, other: Tensor) -> Tensor:
    a, b = tensors("matmul", input, other)
    if not a.ndim or not b.ndim:
        _matrix.unfit("matmul", a, b, "at least one dimension of each", "input", "other")
    if not is_dynamo_compiling() and not torch._C._is_any_autocast_enabled():  # which may give them one dtype
        _matrix.agree("matmul", a, b, "input", "other")
    row, column = a.ndim == 1, b.ndim == 1
    a, b = a.unsqueeze(0) if row else a, b.unsqueeze(1) if column else b
    if a.shape[-1] != b.shape[-2]:
        expected = f"{'(k,)' if row else '(…, k)'} and {'(k,)' if column else '(…, k, n)'}"
        _matrix.unfit("matmul", input, other, expected, "input", "other")
    if any(n != m and 1 not in (n, m) for n, m in zip(reversed(a.shape[:-2]), reversed(b.shape[:-2]))):
        expected = "dimensions before the last two that broadcast together"
        _matrix.unfit("matmul", input, other, expected, "input", "other")
    if a.ndim == 2 or b.ndim == 2:  # torch's function imports sympy when it is first called, which takes a second
        lead = (a if b.ndim == 2 else b).shape[:-2]
    else:
        lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    found: Tensor
    # Where one side is a single matrix it is one product, whose gradients are sums without rounding between.
    if math.prod(b.shape[:-2]) == 1:
        rows = a.reshape(math.prod(a.shape[:-1]), k)
        found = _matrix.MM(rows, b.reshape(k, n)).reshape(*lead, m, n)
    elif math.prod(a.shape[:-2]) == 1:
        rows = b.mT.reshape(math.prod(b.shape[:-2]) * n, k)
        found = _matrix.MM(rows, a.reshape(m, k).mT).reshape(*lead, n, m).mT.contiguous()
    else:
        found = _matrix.MATMUL(a, b)
    if row:
        found = found.squeeze(-2)
    return found.squeeze(-1) if column else found


_MATMUL = Fused("matmul", _matmul, 2)


def matmul(input: Tensor, other: Tensor, **others: NoReturn) -> Tensor:
    """Return the product of vectors, matrices or stacks of matrices, whose leading dimensions are broadcast."""
    if "dtype" in others:
        raise TypeError(
            "matmul() got an unexpected keyword argument 'dtype'; convert its arguments, or for integers in a wider "
            "type write hologram.ops.gemm(x, y, out=torch.empty(…, dtype=torch.int32))"
        )
    if others:
        unexpected("matmul", others, "input", "other")
    return _MATMUL((input, other))


def _linear_form(ex: Executor, input: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    here("linear", ex, input, weight, *([] if bias is None else [bias]), names=("input", "weight", "bias"))
    if weight.ndim != 2 or not input.ndim or input.shape[-1] != weight.shape[1]:
        raise InvalidArgumentError(
            f"linear: input has the shape {tuple(input.shape)} and weight {tuple(weight.shape)}; expected (…, in) and "
            "(out, in)"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise InvalidArgumentError(f"linear: bias has the shape {tuple(bias.shape)}; expected ({weight.shape[0]},)")
    with using(ex):
        found: Tensor = _matrix.LINEAR(input, weight, bias)
        return found


def _linear(input: Tensor, weight: Tensor, bias: Optional[Tensor], activation: Optional[str]) -> Tensor:
    for value in (input, weight):
        tensors("linear", value)
    if weight.ndim == 1:
        if input.shape[-1:] != weight.shape:
            _matrix.unfit("linear", input, weight, "(…, in) and (in,), or (out, in)", "input", "weight")
        found: Tensor = _matmul(input, weight)
        if bias is not None:
            found = add(found, bias)
    else:
        found = _matrix.LINEAR(input, weight, bias)
    if activation is None:
        return found
    if activation not in ACTIVATIONS:
        raise InvalidArgumentError(f"linear: activation is {activation!r}; expected one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[activation](found)


_LINEAR = Fused("linear", _linear, 3)


@executor_form(_linear_form)
def linear(input: Tensor, weight: Tensor, bias: Optional[Tensor] = None, *, activation: Optional[str] = None) -> Tensor:
    """Return input · weightᵀ + bias over the last dimension, then an activation: "relu", "gelu", "silu" or others."""
    return _LINEAR((input, weight, bias), (activation,))
