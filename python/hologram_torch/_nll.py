"""The negative log likelihood of classes, and its gradient: one pass each, beside the sums of a mean."""

from __future__ import annotations

import functools
import math
from typing import Any, Optional

import torch
from torch import Tensor

from hologram import Program, ops
from hologram.errors import ProgramFault
from hologram_torch._elementwise import ATLAS, opmath
from hologram_torch._executors import executor_for
from hologram_torch._operation import Operation
from hologram_torch._reductions import contiguous, quotient, to

__all__ = ["NLL", "TOTAL"]

_FILE = "<hologram_torch nll>"

# A lane is a target. A class that there is not is a stray load: a fault.
_FORWARD = """program nll
slot logs {T}
slot target i64
{weights}
slot loss {R}
param classes u64
param inner u64                 ; targets of one sample
param ignored i64

  sreg at, global_lane
  ldp.u64 classes, classes
  ldp.u64 inner, inner
  ldp.i64 ignored, ignored
  ldg.i64 class, target[index]
  mov.{A} term, 0.0
  set.eq.i64 p, class, ignored
  bra end, p
  cvt.u64.i64 class, class
  min.u64 class, class, classes
  set.eq.u64 p, class, classes
  sel.u64 class, p, 0x7fffffffffff, class
  rem.u64 beside, at, inner
  div.u64 sample, at, inner
  mad.u64 from, sample, classes, class
  mad.u64 from, from, inner, beside
  mul.u64 from, from, {size}
  ldg.{T} x, logs[from]
  {widen}
  {weigh}
  neg.{A} term, z
end:
  {round}
  stg.{R} y, loss[index]
  exit
"""

_TOTAL = """program nll_total
slot target i64
{weights}
slot count {A}
param classes u64
param inner u64
param ignored i64

  ldp.u64 classes, classes
  ldp.u64 inner, inner
  ldp.i64 ignored, ignored
  ldg.i64 class, target[index]
  mov.{A} z, 0.0
  set.eq.i64 p, class, ignored
  bra end, p
  mov.{A} z, 1.0
  {weigh}
end:
  stg.{A} z, count[index]
  exit
"""

# A lane is a target; all but its class has 0 already.
_BACKWARD = """program nll_gradient
slot given {T}                  ; by the result
{total}
slot target i64
{weights}
slot out {T}
param classes u64
param inner u64
param ignored i64

  sreg at, global_lane
  ldp.u64 classes, classes
  ldp.u64 inner, inner
  ldp.i64 ignored, ignored
  ldg.i64 class, target[index]
  set.eq.i64 p, class, ignored
  bra end, p
  ldg.{T} g, given[index]
  {widen}
  cvt.u64.i64 class, class
  {weigh}
  {divide}
  neg.{A} z, z
  {round}
  rem.u64 beside, at, inner
  div.u64 sample, at, inner
  mad.u64 to, sample, classes, class
  mad.u64 to, to, inner, beside
  mul.u64 to, to, {size}
  stg.{T} y, out[to]
end:
  exit
"""


def _converted(to: str, result: str, source: str, value: str) -> str:
    return f"mov.{to} {result}, {value}" if to == source else f"cvt.{to}.{source} {result}, {value}"


def _weight(dtype: torch.dtype, weighted: bool, value: str) -> dict[str, str]:
    """Return what a program has of weights: the slot, and text that multiplies z by that of a class."""
    kind, wide = ATLAS[dtype], ATLAS[opmath(dtype)]
    if not weighted:
        return {"weights": "", "weigh": ""}
    lines = [
        "cvt.u64.i64 which, class" if value == "i64" else "mov.u64 which, class",
        f"mul.u64 which, which, {dtype.itemsize}",
        f"ldg.{kind} v, weight[which]",
        _converted(wide, "w", kind, "v"),
        f"mul.{wide} z, z, w",
    ]
    return {"weights": f"slot weight {kind}", "weigh": "\n  ".join(lines)}


@functools.cache
def _forward_of(dtype: torch.dtype, result: torch.dtype, weighted: bool) -> Program:
    kind, wide, rounded = ATLAS[dtype], ATLAS[opmath(dtype)], ATLAS[result]
    parts = {
        **_weight(dtype, weighted, "u64"),
        "widen": _converted(wide, "z", kind, "x"),
        "round": _converted(rounded, "y", wide, "term"),
    }
    return Program(_FORWARD.format(T=kind, A=wide, R=rounded, size=dtype.itemsize, **parts), file=_FILE)


@functools.cache
def _total_of(dtype: torch.dtype, weighted: bool) -> Program:
    return Program(_TOTAL.format(A=ATLAS[opmath(dtype)], **_weight(dtype, weighted, "i64")), file=_FILE)


@functools.cache
def _backward_of(dtype: torch.dtype, weighted: bool, divided: bool) -> Program:
    kind, wide = ATLAS[dtype], ATLAS[opmath(dtype)]
    parts = {
        **_weight(dtype, weighted, "u64"),
        "total": f"slot total {wide}                  ; of the weights" if divided else "",
        "divide": f"ldg.{wide} total, total[index]\n  div.{wide} z, z, total" if divided else "",
        "widen": _converted(wide, "z", kind, "g"),
        "round": _converted(kind, "y", wide, "z"),
    }
    return Program(_BACKWARD.format(T=kind, A=wide, size=dtype.itemsize, **parts), file=_FILE)


def _launch(program: Program, x: Tensor, target: Tensor, weight: Optional[Tensor], **bound: Any) -> None:
    """Run a program on all that it may have: x has the classes."""
    classes, inner = (x.shape[1], math.prod(x.shape[2:])) if x.ndim > 1 else (x.shape[0], 1)
    if weight is not None:
        bound["weight"] = contiguous(weight)
    try:
        executor_for(x.device).launch(program, {"target": target, "classes": classes, "inner": inner, **bound})
    except ProgramFault:
        wrong = target[(target != bound["ignored"]) & ((target < 0) | (target >= classes))]
        raise IndexError(f"Target {int(wrong[0])} is out of bounds.") from None


def _sum(x: Tensor) -> Tensor:
    made = torch.empty((), dtype=x.dtype, device=x.device)
    ops.reduce_sum_rows(executor_for(x.device), contiguous(x), made, 1, x.numel())
    return made


class _Total(Operation):
    """The sum of the weights of the targets that are not ignored: what a mean divides by. It has no gradient."""

    def fake(self, x: Tensor, target: Tensor, weight: Optional[Tensor], ignored: int) -> Tensor:
        return x.new_empty((), dtype=opmath(x.dtype))

    def forward(self, x: Tensor, target: Tensor, weight: Optional[Tensor], ignored: int) -> Tensor:
        counts = torch.empty(target.shape, dtype=opmath(x.dtype), device=x.device)
        if target.numel():
            _launch(_total_of(x.dtype, weight is not None), x, target, weight, count=counts, ignored=ignored)
        return _sum(counts)

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        """Keep nothing."""

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        return None, None, None, None


class _Nll(Operation):
    """−weight[t] · logs[…, t, …] of each target t that is not ignored, or their sum, by a total if there is one."""

    def fake(self, *arguments: Any) -> Tensor:
        logs, target, _, _, summed, _ = arguments
        found: Tensor = logs.new_empty(() if summed else target.shape)
        return found

    def forward(self, *arguments: Any) -> Tensor:
        logs, target, weight, total, summed, ignored = arguments
        dtype = logs.dtype
        result = opmath(dtype) if summed else dtype
        rows = torch.empty(target.shape, dtype=result, device=logs.device)
        if target.numel():
            program = _forward_of(dtype, result, weight is not None)
            _launch(program, logs, target, weight, logs=contiguous(logs), loss=rows, ignored=ignored)
        if not summed:
            return rows
        return to(_sum(rows), dtype) if total is None else quotient(_sum(rows), total, dtype)

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        logs, target, weight, total, _, ctx.ignored = arguments
        ctx.shape = list(logs.shape)
        ctx.save_for_backward(target, weight, total)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        target, weight, total = ctx.saved_tensors
        return GRADIENT(gradients[0], target, weight, total, ctx.ignored, ctx.shape), None, None, None, None, None


class _NllGradient(Operation):
    """The gradient of nll by its logarithms."""

    def fake(self, *arguments: Any) -> Tensor:
        found: Tensor = arguments[0].new_empty(arguments[-1])
        return found

    def forward(self, *arguments: Any) -> Tensor:
        g, target, weight, total, ignored, shape = arguments
        made = torch.empty(shape, dtype=g.dtype, device=g.device)
        if made.numel():
            ops.fill(executor_for(made.device), made, 0.0)
            bound = {"given": g, "out": made, "ignored": ignored}
            if total is not None:
                bound["total"] = total
            program = _backward_of(g.dtype, weight is not None, total is not None)
            _launch(program, made, target, weight, **bound)
        return made

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Tensor) -> None:
        g, target, weight, total, ctx.ignored, _ = arguments
        ctx.summed = not g.ndim
        ctx.save_for_backward(target, weight, total)

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        target, weight, total = ctx.saved_tensors
        return NLL(gradients[0], target, weight, total, ctx.summed, ctx.ignored), None, None, None, None, None


TOTAL = _Total("nll_total", "(Tensor input, Tensor target, Tensor? weight, int ignored) -> Tensor")
NLL = _Nll("nll", "(Tensor logs, Tensor target, Tensor? weight, Tensor? total, bool summed, int ignored) -> Tensor")
GRADIENT = _NllGradient(
    "nll_gradient",
    "(Tensor gradient, Tensor target, Tensor? weight, Tensor? total, int ignored, int[] shape) -> Tensor",
)
