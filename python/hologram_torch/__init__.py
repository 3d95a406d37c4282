"""Hologram in PyTorch models: functions, layers and autograd on top of :mod:`hologram`.

``functional`` has torch's functions, ``nn`` torch's layers, both computed by Hologram in place on torch's tensors.
``optim`` has torch's optimisers, whose steps Hologram computes.
``training`` has a loop with checkpoints, early stopping and logs.
``kernel`` makes an operation with a gradient of a scalar function of one's own.
``convert`` makes Hologram's layers of a model's, ``revert`` torch's again.
``utils`` moves between tensors and Hologram's buffers.
"""

from __future__ import annotations

try:
    import torch as _torch
except ImportError as error:
    raise ImportError(
        "hologram_torch needs PyTorch, which is not installed: see https://pytorch.org, or pip install '.[torch]' in a "
        "checkout of Hologram"
    ) from error

from hologram import BackendType, Buffer, Executor
from hologram._version import __version__
from hologram_torch import functional, nn, optim, training, utils
from hologram_torch._convert import convert, revert
from hologram_torch._kernel import kernel
from hologram_torch.utils import (
    buffer_to_tensor,
    create_executor_for_tensor,
    match_device,
    tensor_to_buffer,
    validate_tensor_compatible,
)

del _torch

__all__ = [
    "BackendType",
    "Buffer",
    "Executor",
    "__version__",
    "buffer_to_tensor",
    "convert",
    "create_executor_for_tensor",
    "functional",
    "kernel",
    "match_device",
    "nn",
    "optim",
    "revert",
    "tensor_to_buffer",
    "training",
    "utils",
    "validate_tensor_compatible",
]


def __getattr__(name: str) -> object:
    """Say what there is instead of what is not."""
    from hologram_torch._operation import absent

    return absent(__name__, name, __all__)
