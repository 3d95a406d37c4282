"""Rows of a table by their numbers, and the sums of what came of each: an embedding and its gradient.

The gradient of a row is the sum over all places that asked for it, in their order, in one chain from −0.0: the same
bits however the work is cut, without atomics on floats. The 16-bit floats are added in f32 and rounded once.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from hologram import Program
from hologram.errors import DTypeError, ProgramFault
from hologram_torch._elementwise import ATLAS, opmath
from hologram_torch._executors import executor_for
from hologram_torch._operation import Operation
from hologram_torch._reductions import contiguous

__all__ = ["EMBEDDING"]

_ROWS = """program embedding
slot table {T}
slot number {I}
slot out {T}
param rows u64
param cols u64

  sreg at, global_lane
  ldp.u64 rows, rows
  ldp.u64 cols, cols
  rem.u64 column, at, cols
  ldg.{I} row, number[index]
  cvt.u64.{I} row, row
  min.u64 row, row, rows        ; there is none such, nor a negative one: a fault
  mad.u64 at, row, cols, column
  mul.u64 at, at, {size}
  ldg.{T} x, table[at]
  stg.{T} x, out[index]
  exit
"""

_SUMS = """program embedding_gradient
slot given {T}
slot order i64                  ; places, those of one row together
slot starts i64                 ; for each row where in order its places begin,
slot ends i64                   ; and end
slot out {T}
param cols u64
param padding i64               ; a row that gets no gradient
param share u32                 ; whether a row's sum is divided by the number of its places

  sreg at, global_lane
  ldp.u64 cols, cols
  ldp.i64 padding, padding
  ldp.u32 share, share
  rem.u64 column, at, cols
  div.u64 row, at, cols
  ldg.i64 start, starts[index]
  ldg.i64 end, ends[index]
  sub.i64 count, end, start
  cvt.i64.u64 row, row
  set.eq.i64 p, row, padding
  sel.i64 count, p, 0, count
  cvt.u32.i64 rounds, count
  mul.i64 start, start, 8
  mov.{A} acc, -0.0
  loop rounds, done
    ldg.i64 place, order[start]
    cvt.u64.i64 from, place
    mad.u64 from, from, cols, column
    mul.u64 from, from, {size}
    ldg.{T} x, given[from]
    {widen}
    add.{A} acc, acc, z
    add.i64 start, start, 8
done:
  set.eq.u32 p, rounds, 0
  sel.{A} acc, p, 0.0, acc
  sel.u32 rounds, p, 1, rounds
  set.eq.u32 p, share, 0
  sel.u32 rounds, p, 1, rounds
  cvt.{A}.u32 count, rounds
  div.{A} acc, acc, count
  cvt.{T}.{A} x, acc
  stg.{T} x, out[index]
  exit
"""


@functools.cache
def _rows_of(dtype: torch.dtype, index: torch.dtype) -> Program:
    text = _ROWS.format(T=ATLAS[dtype], I=ATLAS[index], size=dtype.itemsize)
    return Program(text, file="<hologram_torch embedding>")


@functools.cache
def _sums_of(dtype: torch.dtype) -> Program:
    kind, wide = ATLAS[dtype], ATLAS[opmath(dtype)]
    widen = f"mov.{wide} z, x" if kind == wide else f"cvt.{wide}.{kind} z, x"
    text = _SUMS.format(T=kind, A=wide, size=dtype.itemsize, widen=widen)
    if kind == wide:
        text = text.replace(f"  cvt.{kind}.{wide} x, acc\n", f"  mov.{wide} x, acc\n")
    return Program(text, file="<hologram_torch embedding>")


def _check(index: Tensor, weight: Tensor) -> None:
    if index.dtype not in (torch.int32, torch.int64):
        raise DTypeError(f"embedding: input has dtype {index.dtype}; expected int32 or int64")
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, but it has the shape {tuple(weight.shape)}")
    if not weight.dtype.is_floating_point or weight.dtype not in ATLAS:
        raise DTypeError(f"embedding: weight has dtype {weight.dtype}; expected f16, bf16, f32 or f64")
    if index.device != weight.device:
        raise RuntimeError(f"embedding: the tensors are on {index.device} and {weight.device}; expected one device")


class _Embedding(Operation):
    """The rows of weight that index names.

    Gradients are for all rows but number padding; if share they are divided by how often a row was named.
    """

    def fake(self, weight: Tensor, index: Tensor, padding: int, share: bool) -> Tensor:
        _check(index, weight)
        return weight.new_empty((*index.shape, weight.shape[1]))

    def forward(self, weight: Tensor, index: Tensor, padding: int, share: bool) -> Tensor:
        made = self.fake(weight, index, padding, share)
        if made.numel():
            rows, cols = weight.shape
            bound = {"table": contiguous(weight), "number": contiguous(index).view(-1, 1), "out": made.view(-1, cols)}
            try:
                executor_for(weight.device).launch(_rows_of(weight.dtype, index.dtype), bound, rows=rows, cols=cols)
            except ProgramFault:
                raise IndexError(f"embedding: index out of range in self; weight has {rows} rows") from None
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        weight, index, ctx.padding, ctx.share = arguments
        ctx.rows = weight.shape[0]
        ctx.save_for_backward(index)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (index,) = ctx.saved_tensors
        return GRADIENT(gradients[0], index, ctx.rows, ctx.padding, ctx.share), None, None, None


class _EmbeddingGradient(Operation):
    """For each of a table's rows the sum of the gradients at the places of index that name it."""

    def fake(self, g: Tensor, index: Tensor, rows: int, padding: int, share: bool) -> Tensor:
        return g.new_empty((rows, g.shape[-1]))

    def forward(self, g: Tensor, index: Tensor, rows: int, padding: int, share: bool) -> Tensor:
        made = self.fake(g, index, rows, padding, share)
        if not made.numel():
            return made
        sorted_index, order = torch.sort(index.reshape(-1).to(torch.int64), stable=True)
        bounds = torch.searchsorted(sorted_index, torch.arange(rows + 1, device=index.device)).view(-1, 1)
        cols = g.shape[-1]
        given = contiguous(g).view(-1, cols) if g.numel() else g.new_zeros((1, cols))
        bound = {"given": given, "order": order if len(order) else order.new_zeros(1)}
        bound |= {"starts": bounds[:-1], "ends": bounds[1:], "out": made}
        executor_for(g.device).launch(_sums_of(g.dtype), bound, cols=cols, padding=padding, share=int(share))
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        _, index, ctx.rows, ctx.padding, ctx.share = arguments
        ctx.save_for_backward(index)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        (index,) = ctx.saved_tensors
        found = EMBEDDING(gradients[0], index, -1, False)
        if ctx.share:
            counts = torch.bincount(index.reshape(-1), minlength=ctx.rows)
            found = found / counts[index].to(found.dtype).unsqueeze(-1)
        if ctx.padding >= 0:
            found = found.masked_fill((index == ctx.padding).unsqueeze(-1), 0.0)
        return found, None, None, None, None


EMBEDDING = _Embedding("embedding", "(Tensor weight, Tensor index, int padding, bool share) -> Tensor")
GRADIENT = _EmbeddingGradient(
    "embedding_gradient", "(Tensor gradient, Tensor index, int rows, int padding, bool share) -> Tensor"
)
