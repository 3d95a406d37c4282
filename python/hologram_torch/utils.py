"""Between torch's tensors and Hologram's executors and buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np
import torch
from torch import Tensor

from hologram import Buffer, Executor
from hologram.errors import DTypeError, InvalidArgumentError
from hologram_torch._executors import BACKENDS, check_executor

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "buffer_to_tensor",
    "create_executor_for_tensor",
    "match_device",
    "tensor_to_buffer",
    "validate_tensor_compatible",
]


def _tensor(what: str, tensor: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise DTypeError(f"{what}: expected a torch.Tensor, got {type(tensor).__name__}")
    return tensor


def validate_tensor_compatible(tensor: Tensor) -> None:
    """Refuse what is no dense float32 tensor on the CPU.

    Raises:
        TypeError: It is no tensor.
        ValueError: It has another dtype (the message names float32), lies elsewhere (CPU), or is sparse.
    """
    tensor = _tensor("validate_tensor_compatible", tensor)
    if tensor.dtype != torch.float32:
        raise InvalidArgumentError(f"the tensor has dtype {tensor.dtype}; expected float32: convert it with .float()")
    if tensor.device.type != "cpu":
        raise InvalidArgumentError(f"the tensor is on {tensor.device}; expected a tensor on the CPU: move it by .cpu()")
    if tensor.layout != torch.strided:
        raise InvalidArgumentError(f"the tensor has layout {tensor.layout}; expected a dense one: give .to_dense()")


def tensor_to_buffer(ex: Executor, tensor: Tensor, existing_buffer: Optional[Buffer] = None) -> tuple[Buffer, Tensor]:
    """Return a buffer that holds a tensor's elements in order, and the tensor flat.

    Without a buffer to fill nothing is copied where memory allows: if the executor works on the host's memory and the
    tensor is contiguous, the buffer is the tensor's memory, and what is written to one is seen in the other. Otherwise
    the elements are copied. The tensor's gradient is left behind.

    Args:
        ex: The executor that the buffer belongs to.
        tensor: A float32 tensor on the CPU, of any shape.
        existing_buffer: A buffer of the tensor's size to copy into.

    Raises:
        TypeError: It is no tensor.
        ValueError: validate_tensor_compatible refuses it, it is empty, or its size doesn't match the buffer's.
    """
    check_executor("tensor_to_buffer", ex)
    validate_tensor_compatible(tensor)
    flat = tensor.detach().reshape(-1)
    if existing_buffer is not None:
        if existing_buffer.size != flat.numel():
            raise InvalidArgumentError(
                f"tensor_to_buffer: the tensor's size {flat.numel()} doesn't match the buffer's {existing_buffer.size}"
            )
        existing_buffer.from_numpy(flat.numpy())
        return existing_buffer, flat
    if not flat.numel():
        raise InvalidArgumentError("tensor_to_buffer: the tensor is empty, and a buffer has at least one element")
    return (ex.wrap(flat) if ex.host_visible else ex.from_numpy(flat.numpy())), flat


def buffer_to_tensor(
    buffer: Buffer,
    shape: Union[int, Sequence[int]],
    device: Union[torch.device, str] = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """Return a new tensor with a copy of a buffer's elements.

    Raises:
        ValueError: The shape's size doesn't match the buffer's.
    """
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    if int(np.prod(wanted, dtype=np.int64)) != buffer.size:
        raise InvalidArgumentError(
            f"buffer_to_tensor: the shape {wanted} doesn't match the buffer, which has {buffer.size} elements"
        )
    values = buffer.to_numpy().reshape(wanted)
    if values.dtype.name == "bfloat16":
        found = torch.from_numpy(values.view(np.uint16).astype(np.int32)).to(torch.int16).view(torch.bfloat16)
    else:
        found = torch.from_numpy(values)
    return found.to(device).requires_grad_(requires_grad)


def match_device(tensor: Tensor, backend: Optional[str] = None) -> str:
    """Return the backend that works on a tensor's memory, cpu for devices that none does; or the one that is given.

    Raises:
        TypeError: It is no tensor.
    """
    given = _tensor("match_device", tensor)
    return backend or BACKENDS.get(given.device.type, "cpu")


def create_executor_for_tensor(tensor: Tensor, backend: Optional[str] = None) -> Executor:
    """Return a new executor on the backend that works on a tensor's memory, or on the one that is given.

    Raises:
        TypeError: It is no tensor.
        RuntimeError: The backend is not available here.
    """
    name, index = match_device(tensor, backend), tensor.device.index
    return Executor(name if backend or index is None or name == "cpu" else f"{name}:{index}")
