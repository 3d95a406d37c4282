"""The library of operations.

Every function takes the executor first, then its arrays in the order inputs, outputs. An array is a Buffer, a numpy
array or anything with DLPack on memory that the executor's device sees; all arrays of a call have one dtype, and
nothing is copied. Arrays of bools count as u8, but only ``copy`` and ``fill`` take one as output.

Elementwise operations take arrays of any strides. Without ``n`` they work on the smallest of their
arrays if all have one dimension, else on the shape of the output, to which the inputs broadcast; ``n`` counts elements
from the first on, and may not exceed any array's.

All raise ``ValueError`` for sizes that don't fit, ``TypeError`` for what is no array or has another dtype and
``RuntimeError`` for what was freed; nothing has run then. On an asynchronous device what goes wrong while running is
raised by the next call that waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Protocol, TypeVar

import numpy as np

from hologram import _ffi
from hologram._arguments import integer
from hologram._dtypes import scalar_bits
from hologram._operands import Operands
from hologram.buffer import Buffer
from hologram.errors import DTypeError, InvalidArgumentError
from hologram.executor import Executor, check_executor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "binary_cross_entropy_loss",
    "copy",
    "cross_entropy_loss",
    "fill",
    "gelu",
    "gemm",
    "matvec",
    "mse_loss",
    "reduce_max",
    "reduce_max_rows",
    "reduce_min",
    "reduce_min_rows",
    "reduce_sum",
    "reduce_sum_rows",
    "relu",
    "scalar_add",
    "scalar_mul",
    "sigmoid",
    "softmax",
    "softmax_rows",
    "tanh",
    "vector_abs",
    "vector_add",
    "vector_clip",
    "vector_div",
    "vector_exp",
    "vector_log",
    "vector_mad",
    "vector_max",
    "vector_min",
    "vector_mul",
    "vector_neg",
    "vector_relu",
    "vector_sqrt",
    "vector_sub",
]


class _Binary(Protocol):
    def __call__(self, ex: Executor, a: Any, b: Any, c: Any, n: Optional[int] = None) -> None: ...


class _Unary(Protocol):
    def __call__(self, ex: Executor, a: Any, c: Any, n: Optional[int] = None) -> None: ...


class _Activation(Protocol):
    def __call__(self, ex: Executor, input: Any, output: Any, n: Optional[int] = None) -> None: ...


class _Reduction(Protocol):
    def __call__(self, ex: Executor, input: Any, output: Any, n: Optional[int] = None) -> float: ...


class _RowReduction(Protocol):
    def __call__(self, ex: Executor, input: Any, output: Any, rows: int, cols: int) -> None: ...


class _Loss(Protocol):
    def __call__(self, ex: Executor, pred: Any, target: Any, output: Any, n: Optional[int] = None) -> float: ...


_Op = TypeVar("_Op", bound=Callable[..., Any])


# ---- the one mechanism


def _run(
    ex: Executor,
    name: str,
    arrays: dict[str, Any],
    scalars: Optional[dict[str, Any]] = None,
    dims: Sequence[int] = (),
) -> None:
    """Run an operation on arrays of any kind."""
    check_executor(name, ex)
    with Operands(ex, name) as operands:
        for operand, value in arrays.items():
            operands.add(operand, value)
        scalars = dict(scalars or {})
        # The library works on bytes here, of which a bool may only be 0 or 1. The output is the last of the arrays.
        if operands.buffers[-1].dtype == _BOOL and name != "copy":
            if name != "fill":
                raise DTypeError(
                    f"{name}: {operand} has dtype bool, and the result may be none; give array.view(numpy.uint8)"
                )
            scalars["value"] = bool(scalars["value"])
        _submit(ex, name, operands.buffers, scalars, dims)


def _submit(ex: Executor, name: str, buffers: list[Buffer], scalars: dict[str, Any], dims: Sequence[int]) -> None:
    """Run an operation on buffers."""
    dims = [integer(f"{name}: a size", value) for value in dims]
    handles = (_ffi.Handle * len(buffers))(*(b._as_parameter_.value for b in buffers))
    numbers = (_ffi.Scalar * max(1, len(scalars)))()
    for i, (scalar, number) in enumerate(scalars.items()):
        numbers[i].dtype, numbers[i].bits = scalar_bits(number, f"{name}: {scalar}")
    _ffi.call(
        _ffi.lib.hologram_op,
        ex._as_parameter_,
        _ffi.op_id(name),
        handles,
        len(buffers),
        numbers,
        len(scalars),
        _ffi.sizes(dims),
        len(dims),
    )


_ARGUMENT = _ffi.ArgumentError
_BOOL = np.dtype(bool)
_PENDING = _ffi.PENDING
_FREED = _ffi.FREED


def _fits(status: int, ex: object, *arrays: Any) -> bool:
    """Whether arguments were of the right kinds, so that an error is the operation's; _run names what is wrong."""
    return status != _FREED and isinstance(ex, Executor) and all(isinstance(array, Buffer) for array in arrays)


def _binary(name: str, doc: str) -> _Binary:
    number, invoke, none = _ffi.op_id(name), _ffi.op_call, _ffi.NO_BUFFER

    def op(ex: Executor, a: Any, b: Any, c: Any, n: Optional[int] = None) -> None:
        if n is None and getattr(c, "dtype", None) is not _BOOL:
            try:
                status = invoke(ex, number, a, b, c, none)
                if not status:
                    return
                if status == _PENDING or _fits(status, ex, a, b, c):
                    _ffi.finish(status)
                    return
            except _ARGUMENT:
                pass  # arrays of another kind
            except BaseException:
                _ffi.abandon()
                raise
        _run(ex, name, {"a": a, "b": b, "c": c}, dims=() if n is None else (n,))

    return _named(op, name, doc)


def _unary(name: str, doc: str) -> _Unary:
    number, invoke, none = _ffi.op_id(name), _ffi.op_call, _ffi.NO_BUFFER

    def op(ex: Executor, a: Any, c: Any, n: Optional[int] = None) -> None:
        if n is None and getattr(c, "dtype", None) is not _BOOL:
            try:
                status = invoke(ex, number, a, c, none, none)
                if not status:
                    return
                if status == _PENDING or _fits(status, ex, a, c):
                    _ffi.finish(status)
                    return
            except _ARGUMENT:
                pass  # arrays of another kind
            except BaseException:
                _ffi.abandon()
                raise
        _run(ex, name, {"a": a, "c": c}, dims=() if n is None else (n,))

    return _named(op, name, doc)


def _activation(name: str, doc: str) -> _Activation:
    unary = _unary(name, doc)

    def op(ex: Executor, input: Any, output: Any, n: Optional[int] = None) -> None:
        unary(ex, input, output, n)

    return _named(op, name, doc)


def _named(op: _Op, name: str, doc: str) -> _Op:
    op.__name__ = op.__qualname__ = name
    op.__doc__ = doc
    return op


def _size(what: str, array: Any) -> int:
    """Return the number of elements of an array of any kind."""
    size = getattr(array, "size", None)
    if isinstance(size, int):
        return size
    numel = getattr(array, "numel", None)  # torch
    if callable(numel):
        return int(numel())
    try:
        return len(array)
    except TypeError:
        raise TypeError(f"{what}: expected an array, got {type(array).__name__}") from None


def _result(ex: Executor, name: str, output: Any) -> float:
    """Return element 0 of an output."""
    with Operands(ex, name) as operands:
        buffer = operands.add("output", output)
        first = np.empty(1, buffer.dtype)
        _ffi.call(_ffi.lib.hologram_buffer_read, buffer._as_parameter_, 0, first.nbytes, first.ctypes.data)
        value: float = first[0].item()
        return value


def _demand_three(name: str, output: Any) -> None:
    if _size(name, output) < 3:
        raise InvalidArgumentError(f"{name}: output has {_size(name, output)} elements; expected at least 3 elements")


def _reduction(name: str, doc: str) -> _Reduction:
    def op(ex: Executor, input: Any, output: Any, n: Optional[int] = None) -> float:
        _demand_three(name, output)
        count = _size(name, input) if n is None else n
        _run(ex, name, {"input": input, "output": output}, dims=(1, count))
        return _result(ex, name, output)

    return _named(op, name, doc + " Return it; it is also in output[0], and output has at least 3 elements.")


def _row_reduction(name: str, doc: str) -> _RowReduction:
    def op(ex: Executor, input: Any, output: Any, rows: int, cols: int) -> None:
        _run(ex, name, {"input": input, "output": output}, dims=(rows, cols))

    return _named(op, name + "_rows", doc)


def _loss(name: str, doc: str) -> _Loss:
    def op(ex: Executor, pred: Any, target: Any, output: Any, n: Optional[int] = None) -> float:
        _demand_three(name, output)
        count = min(_size(name, pred), _size(name, target)) if n is None else n
        _run(ex, name, {"pred": pred, "target": target, "output": output}, dims=(count,))
        return _result(ex, name, output)

    return _named(op, name, doc + " Return it; it is also in output[0], and output has at least 3 elements.")


# ---- elementwise

vector_add = _binary("vector_add", "c = a + b. Integers wrap.")
vector_sub = _binary("vector_sub", "c = a − b. Integers wrap.")
vector_mul = _binary("vector_mul", "c = a · b. Integers wrap.")
vector_div = _binary("vector_div", "c = a / b. Integers truncate; division of one by zero gives 0 and ProgramFault.")
vector_min = _binary("vector_min", "c = the smaller of a and b; NaN if either is NaN.")
vector_max = _binary("vector_max", "c = the larger of a and b; NaN if either is NaN.")
vector_abs = _unary("vector_abs", "c = |a|.")
vector_neg = _unary("vector_neg", "c = −a.")
vector_relu = _unary("vector_relu", "c = max(a, 0).")
vector_sqrt = _unary("vector_sqrt", "c = √a, correctly rounded.")
vector_exp = _unary("vector_exp", "c = e^a.")
vector_log = _unary("vector_log", "c = the natural logarithm of a.")
sigmoid = _activation("sigmoid", "output = 1 / (1 + e^−input).")
tanh = _activation("tanh", "output = the hyperbolic tangent of input.")
gelu = _activation("gelu", "output = x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³))), x the input.")
relu = vector_relu


def vector_clip(ex: Executor, a: Any, c: Any, min_val: float, max_val: float, n: Optional[int] = None) -> None:
    """C = min(max(a, min_val), max_val). NaN in any of them gives NaN."""
    _run(ex, "vector_clip", {"a": a, "c": c}, {"min_val": min_val, "max_val": max_val}, () if n is None else (n,))


def scalar_add(ex: Executor, a: Any, c: Any, scalar: float, n: Optional[int] = None) -> None:
    """C = a + scalar."""
    _run(ex, "scalar_add", {"a": a, "c": c}, {"scalar": scalar}, () if n is None else (n,))


def scalar_mul(ex: Executor, a: Any, c: Any, scalar: float, n: Optional[int] = None) -> None:
    """C = a · scalar."""
    _run(ex, "scalar_mul", {"a": a, "c": c}, {"scalar": scalar}, () if n is None else (n,))


def vector_mad(ex: Executor, a: Any, b: Any, c: Any, d: Any, n: Optional[int] = None) -> None:
    """D = a · b + c, rounded twice."""
    _run(ex, "vector_mad", {"a": a, "b": b, "c": c, "d": d}, dims=() if n is None else (n,))


def fill(ex: Executor, dst: Any, value: float, n: Optional[int] = None) -> None:
    """Set the elements of dst to value."""
    _run(ex, "fill", {"dst": dst}, {"value": value}, () if n is None else (n,))


def copy(ex: Executor, src: Any, dst: Any, n: Optional[int] = None) -> None:
    """Copy the elements of src to dst; this packs strided arrays and repeats broadcast ones."""
    _run(ex, "copy", {"src": src, "dst": dst}, dims=() if n is None else (n,))


# ---- over rows, and over all elements


def softmax(ex: Executor, input: Any, output: Any, n: Optional[int] = None) -> None:
    """Output = e^(input − max) / Σ e^(input − max) over the first n elements, all of input without it."""
    count = min(_size("softmax", input), _size("softmax", output)) if n is None else n
    _run(ex, "softmax", {"input": input, "output": output}, dims=(1, count))


def softmax_rows(ex: Executor, input: Any, output: Any, rows: int, cols: int) -> None:
    """Softmax of each row of a rows × cols matrix, row-major and contiguous."""
    _run(ex, "softmax", {"input": input, "output": output}, dims=(rows, cols))


reduce_sum = _reduction("reduce_sum", "Sum the first n elements, all without it, in the order that the docs state.")
reduce_min = _reduction("reduce_min", "Find the smallest of the first n elements, all without it; NaN if one is NaN.")
reduce_max = _reduction("reduce_max", "Find the largest of the first n elements, all without it; NaN if one is NaN.")
reduce_sum_rows = _row_reduction("reduce_sum", "output[r] = the sum of row r of a contiguous rows × cols matrix.")
reduce_min_rows = _row_reduction("reduce_min", "output[r] = the smallest of row r of a contiguous rows × cols matrix.")
reduce_max_rows = _row_reduction("reduce_max", "output[r] = the largest of row r of a contiguous rows × cols matrix.")
mse_loss = _loss("mse_loss", "Compute the mean of (pred − target)² over the first n elements.")
cross_entropy_loss = _loss("cross_entropy_loss", "Compute −mean(target · ln pred) over the first n elements.")
binary_cross_entropy_loss = _loss(
    "binary_cross_entropy_loss",
    "Compute −mean(target · ln pred + (1 − target) · ln(1 − pred)) over the first n elements.",
)


# ---- matrices


def gemm(
    ex: Executor,
    a: Any,
    b: Any,
    c: Any,
    m: int,
    n: int,
    k: int,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """C[m, n] = alpha · op(A)[m, k] · op(B)[k, n] + beta · C, all row-major and contiguous.

    With trans_a, A is stored k × m and used transposed; with trans_b, B is stored n × k. With beta 0, C isn't read.
    """
    _run(
        ex,
        "gemm",
        {"a": a, "b": b, "c": c},
        {"alpha": alpha, "beta": beta},
        (m, n, k, int(trans_a), int(trans_b)),
    )


def matvec(
    ex: Executor,
    a: Any,
    x: Any,
    y: Any,
    m: int,
    n: int,
    *,
    trans_a: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> None:
    """y[m] = alpha · op(A)[m, n] · x[n] + beta · y, A row-major and contiguous; with trans_a it is stored n × m."""
    _run(ex, "matvec", {"a": a, "x": x, "y": y}, {"alpha": alpha, "beta": beta}, (m, n, int(trans_a)))
