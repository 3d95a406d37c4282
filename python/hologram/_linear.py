"""A product with what follows it: a bias along its rows, and an activation.

The product is gemm's, and one program does the rest in the result's place: the sum and the activation in one pass, but
for gelu, which the library has a program of, and where kernels are slow to be called. It is a kernel (docs/KERNELS.md),
so that a further activation is one more line here. Bits are those of the calls one after the other, since every step
rounds to the arrays' dtype in both. A program that has the product's loop too goes the same way on the CPU: what that
gives lies in memory before the rest (docs/RATIONALE.md, which has what the pass costs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

import numpy as np

from hologram import _results, ops
from hologram._arguments import naming
from hologram._dtypes import NAMES, code_of
from hologram.buffer import Buffer
from hologram.errors import DTypeError, HologramError, InvalidArgumentError
from hologram.executor import Executor, check_executor

if TYPE_CHECKING:
    from hologram._kernel.call import Kernel

ACTIVATIONS = ("relu", "gelu", "silu", "sigmoid", "tanh")
_FLOATS = ("f16", "bf16", "f32", "f64")
_known: set[Any] = set()
"""The dtypes of floats that arrays of numpy's and of torch's had."""


class _Array(NamedTuple):
    """What is known of an argument."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


_OPERATIONS: dict[Optional[str], Callable[..., Any]] = {
    "relu": ops.vector_relu,
    "gelu": ops.gelu,
    "sigmoid": ops.sigmoid,
    "tanh": ops.tanh,
}

_made: dict[tuple[Optional[str], bool], Optional[Kernel]] = {(None, False): None}


def _epilogue(activation: Optional[str], bias: bool) -> Kernel:
    """Make the program that follows a product; gelu itself is the library's, which follows a sum.

    Raises:
        ValueError: There is no such activation.
    """
    import hologram as h

    kernels: dict[Optional[str], tuple[Callable[..., Any], Callable[..., Any]]] = {
        "relu": (lambda x: h.relu(x), lambda x, b: h.relu(x + b)),
        "silu": (lambda x: x * h.sigmoid(x), lambda x, b: (x + b) * h.sigmoid(x + b)),
        "sigmoid": (lambda x: h.sigmoid(x), lambda x, b: h.sigmoid(x + b)),
        "tanh": (lambda x: h.tanh(x), lambda x, b: h.tanh(x + b)),
    }
    if activation is None or activation == "gelu":
        made = h.kernel(lambda x, b: x + b)
        activation = None
    elif activation in kernels:
        made = h.kernel(kernels[activation][bias])
    else:
        raise InvalidArgumentError(
            f"linear: activation is {activation!r}; expected None or one of {', '.join(ACTIVATIONS)}"
        )
    _made[activation, bias] = made
    return made


def _plain(input: Any, weight: Any, bias: Any, out: Any) -> bool:
    """Whether the bias is such as most are, seen without wrapping any array; gemm says what is wrong with the others.

    That is one of numpy or torch among others of theirs, which fits and shares no memory with out.
    """
    dtype, kind = weight.dtype, type(weight)
    if dtype not in _known or weight.ndim != 2:
        return False
    if bias is None:
        return type(input) is kind
    if type(bias) is not kind or type(input) is not kind or bias.dtype != dtype or bias.shape != weight.shape[:1]:
        return False
    if kind is np.ndarray:
        if out is None or (type(out) is kind and out is not bias and out.base is None and bias.base is None):
            return True
        return type(out) is kind and not np.may_share_memory(out, bias)
    if kind.__module__ != "torch" or bias.requires_grad:
        return kind is Buffer and (out is None or (type(out) is kind and _apart(out, bias)))
    if out is None:
        return True
    if type(out) is not kind or not (out.is_contiguous() and bias.is_contiguous()):
        return False
    mine, theirs = out.data_ptr(), bias.data_ptr()
    return bool(theirs + bias.nbytes <= mine or mine + out.nbytes <= theirs)


def _array(ex: Executor, name: str, value: Any) -> _Array:
    """Return what is known of an argument; the executor says what is wrong with what is no array of its device.

    Raises:
        TypeError: It is no array, or of another dtype than floats.
    """
    if type(value) is np.ndarray or type(value) is Buffer:
        shape, dtype = value.shape, value.dtype
    else:
        with (
            naming(f"linear: {name}"),
            ex.wrap(np.asarray(value) if isinstance(value, np.generic) else value) as buffer,
        ):
            shape, dtype = buffer.shape, buffer.dtype
    with naming(f"linear: {name}"):
        code = code_of(dtype)
    if NAMES[code - 1] not in _FLOATS:
        raise DTypeError(f"linear: {name} has dtype {dtype}; expected floats: {', '.join(_FLOATS)}")
    return _Array(name, tuple(shape), dtype)


def _extent(ex: Executor, value: Any) -> tuple[int, int]:
    """Return the addresses of the first byte of an array, and of the one behind the last."""
    if isinstance(value, Buffer):
        info = value._describe()
        steps = [(n - 1) * s * info.element_size for n, s in zip(value.shape, info.strides)]
        first = (info.data or 0) + sum(step for step in steps if step < 0)
        size = sum(abs(step) for step in steps) + info.element_size if value.size else 0
        return first, first + size
    with ex.wrap(value) as buffer:
        return _extent(ex, buffer)


def _apart(a: Buffer, b: Buffer) -> bool:
    """Whether buffers share no memory."""
    (lo, hi), (first, end) = _extent(a.executor, a), _extent(b.executor, b)
    return end <= lo or hi <= first


def _check(x: _Array, w: _Array, b: Optional[_Array], out: Optional[_Array]) -> None:
    """Refuse what does not fit together.

    Raises:
        TypeError: The dtypes differ.
        ValueError: The shapes do not fit.
    """
    for each in (w, b, out):
        if each is not None and each.dtype != x.dtype:
            raise DTypeError(f"linear: {each.name} has dtype {each.dtype}, and input has {x.dtype}; expected the same")
    if len(w.shape) != 2 or not x.shape or x.shape[-1] != w.shape[1]:
        raise InvalidArgumentError(
            f"linear: input has shape {x.shape} and weight {w.shape}; expected (…, in) and (out, in)"
        )
    if b is not None and b.shape not in (w.shape[:1], (1,), ()):
        raise InvalidArgumentError(
            f"linear: bias has shape {b.shape}; expected ({w.shape[0]},), as weight has shape {w.shape}"
        )
    made = (*x.shape[:-1], w.shape[0])
    if out is not None and out.shape != made:
        raise InvalidArgumentError(f"linear: out has shape {out.shape}; the result has {made}")


def _careful(ex: Optional[Executor], input: Any, weight: Any, bias: Any, out: Any) -> Executor:
    """Say what is wrong with arguments, or return the executor that they are for."""
    if ex is None:
        with naming("linear"):
            ex = _results.executor_of(value for value in (input, weight, bias, out) if value is not None)
    check_executor("linear", ex, "ex")
    x, w = _array(ex, "input", input), _array(ex, "weight", weight)
    b = None if bias is None else _array(ex, "bias", bias)
    _check(x, w, b, None if out is None else _array(ex, "out", out))
    if out is not None:
        lo, hi = _extent(ex, out)
        for name, value in (("input", input), ("weight", weight), ("bias", bias)):
            first, end = (0, 0) if value is None else _extent(ex, value)
            if first < hi and lo < end:
                raise InvalidArgumentError(
                    f"linear: out overlaps {name} in memory; give a copy of {name}, or out memory of its own"
                )
    if type(weight) is np.ndarray or type(weight).__module__ == "torch":
        _known.add(weight.dtype)
    return ex


def _placed(ex: Any, input: Any, weight: Any, bias: Any = None, *, activation: Any = None, out: Any = None) -> Any:
    """Return the arguments of linear in their places, the executor first."""
    return ex, input, weight, bias


def linear(*arguments: Any, activation: Optional[str] = None, out: Any = None, **named: Any) -> Any:  # noqa: D417
    """Return activation(input · weightᵀ + bias), with the bits of gemm, vector_add and the activation in turn.

    Args:
        ex: The executor; it may be left out, as in any operation.
        input: (…, in), of f16, bf16, f32 or f64, of any strides, as all arrays here.
        weight: (out, in), as torch's layers have it, of the input's dtype, as all arrays are; of a matrix that lies
            the other way, (in, out), its transpose.
        bias: (out,), one element, or None for no sum.
        activation: "relu", "gelu" (the tanh form), "silu", "sigmoid", "tanh", or None.
        out: (…, out), for the result, in memory of its own; None for a new array of the input's kind.

    Returns:
        out, or the new array.

    Raises:
        ValueError: Shapes do not fit, out shares memory with another argument, or the activation is not known.
        TypeError: What is given is no array, or has another dtype.
        RuntimeError: An array was freed.
    """
    ex = bias = None
    count = len(arguments)
    if named or not 1 < count < 4 or type(arguments[0]) is Executor:
        if "ex" in named:
            arguments = (named.pop("ex"), *arguments)
        elif not arguments or not isinstance(arguments[0], Executor):
            arguments = (None, *arguments)
        ex, input, weight, bias = _placed(*arguments, **named)
    elif count == 3:
        input, weight, bias = arguments
    else:
        input, weight = arguments
    gelu = activation == "gelu"
    try:
        epilogue = _made[None if gelu else activation, bias is not None]
    except KeyError:
        epilogue = _epilogue(activation, bias is not None)
    if (
        (ex is not None and type(ex) is not Executor)
        or not hasattr(weight, "dtype")
        or not _plain(input, weight, bias, out)
    ):
        ex = _careful(ex, input, weight, bias, out)
    try:
        if out is not None:
            ops.gemm(input, weight, out=out, trans_b=True, ex=ex)
        elif ex is None:
            out = ops.gemm(input, weight, trans_b=True)
        else:
            out = ops.gemm(ex, input, weight, trans_b=True)
    except HologramError:
        _careful(ex, input, weight, bias, out)  # says it in this function's words
        raise
    operation = _OPERATIONS.get(activation)
    if epilogue is None:
        pass
    elif (ex is not None or type(out) is Buffer) and (operation is not None or activation is None):
        # Kernels take as long to be called so as a product of 64 × 64 × 64: no pass that is saved makes up for that.
        if bias is not None:
            ops.vector_add(out, bias, out=out, ex=ex)
        if operation is not None and not gelu:
            operation(out, out=out, ex=ex)
    elif bias is None:
        epilogue(out, out=out, executor=ex)
    elif ex is None:
        epilogue(out, bias, out=out)
    else:
        epilogue(out, bias, out=out, executor=ex)
    if gelu:
        ops.gelu(out, out=out, ex=ex)
    return out


_placed.__name__ = _placed.__qualname__ = "linear"  # in its errors
linear.__wrapped__ = _placed  # type: ignore[attr-defined]  # for its signature
