"""Matrix products.

The library multiplies contiguous matrices, either of them stored transposed; others are copied first. A bias is what
the product is added to, in the same pass, or of large ones is added to it. A stack of matrices is one call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Optional

import torch
from torch import Tensor

from hologram import ops
from hologram.errors import DTypeError
from hologram_torch._executors import executor_for
from hologram_torch._operands import spreads, sum_to
from hologram_torch._operation import Operation
from hologram_torch._reductions import contiguous, sum_over

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ADDMM", "BMM", "LINEAR", "MATMUL", "MM", "agree", "unfit"]


def _stored(x: Tensor) -> tuple[Tensor, bool]:
    """Return a matrix as it is stored, and whether that is transposed."""
    if x.is_contiguous():
        return x, False
    if x.mT.is_contiguous():
        return x.mT, True
    return contiguous(x), False


def _into(out: Tensor, a: Tensor, b: Tensor, alpha: float = 1.0, beta: float = 0.0) -> None:
    """Compute out = alpha·a·b + beta·out, out contiguous."""
    (m, k), n = a.shape, b.shape[1]
    if m and n:
        (a, ta), (b, tb) = _stored(a), _stored(b)
        ops.gemm(executor_for(out.device), a, b, out, m, n, k, trans_a=ta, trans_b=tb, alpha=alpha, beta=beta)


def _new(like: Tensor, shape: Sequence[int]) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device)


def agree(what: str, a: Tensor, b: Tensor, first: str = "input", second: str = "mat2") -> None:
    """Refuse operands, called first and second, of two dtypes or devices, and bools."""
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{what}: expected {first} and {second} to have the same dtype, but got: {a.dtype} != {b.dtype}"
        )
    if a.dtype == torch.bool:
        raise DTypeError(f"{what}: {first} has dtype torch.bool; products of bools are not there, convert them")
    if a.device != b.device:
        raise RuntimeError(f"{what}: the tensors are on {a.device} and {b.device}; expected one device")


def unfit(what: str, a: Tensor, b: Tensor, expected: str, first: str = "input", second: str = "mat2") -> NoReturn:
    """Refuse operands whose shapes don't go together; expected are those that do."""
    raise RuntimeError(
        f"{what}: {first} of shape {tuple(a.shape)} and {second} of shape {tuple(b.shape)} can't be multiplied; "
        f"expected {expected}"
    )


def _check(what: str, a: Tensor, b: Tensor, first: str = "input") -> None:
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        unfit(what, a, b, "(m, k) and (k, n)", first)
    agree(what, a, b, first)


class _Mm(Operation):
    """a · b of two matrices."""

    def fake(self, a: Tensor, b: Tensor) -> Tensor:
        _check("mm", a, b)
        return _new(a, (a.shape[0], b.shape[1]))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        made = self.fake(a, b)
        _into(made, a, b)
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        a, b = arguments
        ctx.save_for_backward(a if ctx.needs_input_grad[1] else None, b if ctx.needs_input_grad[0] else None)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (a, b), g = ctx.saved_tensors, gradients[0]
        return None if b is None else MM(g, b.mT), None if a is None else MM(a.mT, g)


class _Bmm(Operation):
    """a · b of two stacks of matrices."""

    def fake(self, a: Tensor, b: Tensor) -> Tensor:
        if a.ndim != 3 or b.ndim != 3 or a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
            unfit("bmm", a, b, "(b, m, k) and (b, k, n)")
        agree("bmm", a, b)
        return _new(a, (a.shape[0], a.shape[1], b.shape[2]))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        made = self.fake(a, b)
        if made.numel():
            ops.gemm(executor_for(made.device), a, b, made)  # stacks may have any strides
        return made

    save = _Mm.save

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (a, b), g = ctx.saved_tensors, gradients[0]
        return None if b is None else BMM(g, b.mT), None if a is None else BMM(a.mT, g)


class _Matmul(Operation):
    """a · b of stacks of matrices with leading dimensions that are broadcast; gradients are summed over these."""

    def fake(self, a: Tensor, b: Tensor) -> Tensor:
        agree("matmul", a, b, "input", "other")
        return _new(a, (*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]))

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        made = self.fake(a, b)
        if made.numel():
            lead = made.shape[:-2]
            left, right = (x.expand(*lead, *x.shape[-2:]).reshape(lead.numel(), *x.shape[-2:]) for x in (a, b))
            ops.gemm(executor_for(made.device), left, right, made.view(lead.numel(), *made.shape[-2:]))
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        ctx.shapes = tuple(x.shape for x in arguments)
        _Mm.save(self, ctx, arguments, result)  # type: ignore[arg-type]

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (a, b), g = ctx.saved_tensors, gradients[0]
        by_a = None if b is None else sum_to(MATMUL(g, b.mT), ctx.shapes[0])
        by_b = None if a is None else sum_to(MATMUL(a.mT, g), ctx.shapes[1])
        return by_a, by_b


class _Addmm(Operation):
    """beta·input + alpha·a·b; with beta 0 input isn't read, with alpha 0 the product not made."""

    def fake(self, x: Tensor, a: Tensor, b: Tensor, beta: float, alpha: float) -> Tensor:
        _check("addmm", a, b, "mat1")
        agree("addmm", x, a, "input", "mat1")
        if not spreads(x.shape, (a.shape[0], b.shape[1])):
            raise RuntimeError(
                f"addmm: input has the shape {tuple(x.shape)}; expected one that broadcasts to that of mat1 · mat2, "
                f"({a.shape[0]}, {b.shape[1]})"
            )
        for name, number in (("beta", beta), ("alpha", alpha)):
            if not a.dtype.is_floating_point and not number.is_integer():
                raise RuntimeError(f"addmm: {name} is {number}; expected an integer beside {a.dtype}")
        return _new(a, (a.shape[0], b.shape[1]))

    def forward(self, x: Tensor, a: Tensor, b: Tensor, beta: float, alpha: float) -> Tensor:
        made = self.fake(x, a, b, beta, alpha)
        _added(made, x, a, b, alpha, beta)
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        x, a, b, ctx.beta, ctx.alpha = arguments
        ctx.shape = x.shape
        ctx.save_for_backward(a if ctx.needs_input_grad[2] else None, b if ctx.needs_input_grad[1] else None)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (a, b), g = ctx.saved_tensors, gradients[0]
        by_x = _scaled(sum_to(g, ctx.shape), ctx.beta) if ctx.needs_input_grad[0] else None
        by_a = None if b is None else _scaled(MM(g, b.mT), ctx.alpha)
        return by_x, by_a, None if a is None else _scaled(MM(a.mT, g), ctx.alpha), None, None


class _Linear(Operation):
    """x · weightᵀ + bias over the last dimension of x."""

    def fake(self, x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        if weight.ndim != 2 or not x.ndim or x.shape[-1] != weight.shape[1]:
            unfit("linear", x, weight, "(…, in) and (out, in)", "input", "weight")
        agree("linear", x, weight, "input", "weight")
        if bias is not None:
            agree("linear", weight, bias, "weight", "bias")
            if tuple(bias.shape) not in ((weight.shape[0],), (1,), ()):
                raise RuntimeError(
                    f"linear: bias has the shape {tuple(bias.shape)}; expected ({weight.shape[0]},), as weight has "
                    f"the shape {tuple(weight.shape)}"
                )
        return _new(x, (*x.shape[:-1], weight.shape[0]))

    def forward(self, x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        made = self.fake(x, weight, bias)
        if made.numel():
            flat = made.view(-1, weight.shape[0])
            rows = x if x.ndim == 2 else contiguous(x).view(-1, x.shape[-1]) if x.numel() else _new(x, (len(flat), 0))
            if bias is None:
                _into(flat, rows, weight.mT)
            else:
                _added(flat, bias, rows, weight.mT)
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        x, weight, bias = arguments
        ctx.bias = None if bias is None else bias.shape
        ctx.shape = x.shape
        ctx.save_for_backward(x if ctx.needs_input_grad[1] else None, weight if ctx.needs_input_grad[0] else None)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (x, weight), g = ctx.saved_tensors, gradients[0]
        rows = 1
        for n in ctx.shape[:-1]:
            rows *= n
        flat = g.reshape(rows, g.shape[-1])
        by_x = None if weight is None else MM(flat, weight).reshape(ctx.shape)
        by_weight = None if x is None else MM(flat.mT, x.reshape(rows, ctx.shape[-1]))
        by_bias = sum_to(sum_over(flat, [0], False), ctx.bias) if ctx.needs_input_grad[2] else None
        return by_x, by_weight, by_bias


_LATE = 1 << 15
"""From so many elements on a CPU's near caches have those of a result better after a product than before it."""


def _added(out: Tensor, x: Tensor, a: Tensor, b: Tensor, alpha: float = 1.0, beta: float = 1.0) -> None:
    """Compute out = beta·x + alpha·a·b, out contiguous, x broadcast.

    A product is what it adds to, and what it adds rounds once more: with beta 1 that is the same as a sum after it,
    where products are not rounded to fewer bits.
    """
    if not out.numel():
        return
    executor, x = executor_for(out.device), x.expand(out.shape)
    if alpha == 0:
        ops.fill(executor, out, 0) if beta == 0 else ops.scalar_mul(executor, x, out, beta)
    elif out.is_cpu and out.numel() >= _LATE and beta == 1 and out.dtype in (torch.float32, torch.float64):
        _into(out, a, b, alpha)
        ops.vector_add(executor, out, x, out)
    else:
        ops.copy(executor, x, out)
        _into(out, a, b, alpha, beta)


def _scaled(x: Tensor, factor: float) -> Tensor:
    from hologram_torch._table import OPERATIONS

    return x if factor == 1 else OPERATIONS["scaled"](x, factor)


MM = _Mm("mm", "(Tensor a, Tensor b) -> Tensor", "lower")
BMM = _Bmm("bmm", "(Tensor a, Tensor b) -> Tensor", "lower")
MATMUL = _Matmul("matmul", "(Tensor a, Tensor b) -> Tensor", "lower")
ADDMM = _Addmm("addmm", "(Tensor input, Tensor a, Tensor b, float beta, float alpha) -> Tensor", "lower")
LINEAR = _Linear("linear", "(Tensor input, Tensor weight, Tensor? bias) -> Tensor", "lower")
