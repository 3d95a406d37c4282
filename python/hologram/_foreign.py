"""Arrays of other libraries: which kinds C takes as they are, and what torch's tensors need beside their memory."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram._ffi import hooks
from hologram.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

# The enumeration of capi/python_operand.c.
EXPORTER, EXCHANGER, TORCH, OTHER = 1, 2, 3, 4

_EXCHANGE = "__dlpack_c_exchange_api__"


def probe(kind: type) -> tuple[object, ...]:
    """Tell C how it may take instances of a type, and the capsule of its DLPack C exchange API or None.

    Only exact types are taken: what derives from them may mean something else by its memory, as a masked array or a
    fake tensor does, and goes the way of ``Executor.wrap``, which looks closer.
    """
    if kind in (np.ndarray, memoryview, bytearray) or (kind.__module__, kind.__name__) == ("array", "array"):
        return EXPORTER, None
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if torch is not None and tensor is not None and kind in (tensor, torch.nn.Parameter):
        capsule = getattr(tensor, _EXCHANGE, None)
        # What torch.autograd.graph.increment_version does with a tuple, at half the cost.
        hooks["written"] = getattr(torch._C, "_increment_version", written)
        return (OTHER if capsule is None else TORCH), capsule, tensor.requires_grad, tensor.is_neg
    capsule = vars(kind).get(_EXCHANGE)
    return (OTHER if capsule is None else EXCHANGER), capsule


def recording() -> bool:
    """Whether torch records gradients."""
    torch = sys.modules.get("torch")
    return torch is None or bool(torch.is_grad_enabled())


def written(arrays: Iterable[Any]) -> None:
    """Raise the versions of those arrays that are torch's tensors, so that autograd knows that they were written."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    for array in arrays:
        if isinstance(array, torch.Tensor):
            torch.autograd.graph.increment_version(array)


def plain_tensor(array: Any) -> Any:
    """Return an array, a torch tensor without its gradient; refuse tensors that are not what their memory holds.

    Raises:
        InvalidArgumentError: It requires grad while gradients are recorded, is a negative view, or has no memory.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "Tensor") or not isinstance(array, torch.Tensor):
        return array
    if array.is_neg():
        raise InvalidArgumentError(
            "the tensor is a negative view, whose memory has the other signs: give tensor.resolve_neg()"
        )
    if array.requires_grad:
        if torch.is_grad_enabled():
            raise InvalidArgumentError(
                "the tensor requires grad, and nothing done here is recorded: use hologram_torch, torch.no_grad() or "
                "tensor.detach()"
            )
        array = array.detach()
    if array.layout == torch.strided and array.numel() and not _has_memory(array):
        raise InvalidArgumentError("the tensor has no memory: it is fake, functional or a zero tensor")
    return array


def _has_memory(tensor: Any) -> bool:
    try:
        return tensor.device.type == "meta" or bool(tensor.data_ptr())
    except RuntimeError:
        return False


hooks["probe"] = probe
hooks["recording"] = recording
hooks["written"] = written
