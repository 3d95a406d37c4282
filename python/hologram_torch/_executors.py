"""Which executor works on a tensor: one for each device and thread, or the one that a caller names."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, Optional

import torch

import hologram
from hologram import Executor
from hologram.backend import backends
from hologram.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BACKENDS", "DEVICES", "DLPACK_CPU", "executor_for", "executor_of", "torch_device", "using"]

BACKENDS = {"cpu": "cpu", "cuda": "cuda", "mps": "metal"}
"""The backends that work on the memory of torch's devices."""

DEVICES = {backend: device for device, backend in BACKENDS.items()}
"""The other way round."""

DLPACK_CPU = 1
"""The device of executors whose tensors are the CPU's. The host may see the memory of others too, as Apple's GPUs'."""


class _Here(threading.local):
    """The executors of a thread.

    Attributes:
        devices: Those for devices.
        chosen: The one that a caller named for what runs now.
        now: The one that was chosen, else the one that was asked for last: what calls try first.
    """

    def __init__(self) -> None:
        self.devices: dict[torch.device, Executor] = {}
        self.chosen: Optional[Executor] = None
        self.now: Optional[Executor] = None


here = _Here()


def executor_for(device: torch.device) -> Executor:
    """Return the executor that works on a device's tensors in this thread.

    Raises:
        RuntimeError: No backend works on such a device, or it is not available here.
    """
    if here.chosen is not None:
        return here.chosen
    found = here.devices.get(device)
    if found is None:
        backend = BACKENDS.get(device.type)
        if backend is None:
            there = [DEVICES[b["name"]] for b in backends() if b["available"] and b["name"] in DEVICES]
            raise BackendError(
                f"hologram has no backend for tensors on {device}; here it works on those on {', '.join(there)}"
            )
        name = backend if device.index is None or backend == "cpu" else f"{backend}:{device.index}"
        found = here.devices[device] = Executor(name)
    here.now = found
    return found


def executor_of(tensor: Any) -> Executor:
    """Return an executor for a torch.Tensor, sooner: it may be one for another device of the same backend.

    Calls that are tried by it are then left to what asks ``executor_for``.
    """
    now = here.now
    if now is not None and (now._device_type == DLPACK_CPU) is tensor.is_cpu:
        return now
    return executor_for(tensor.device)


def torch_device(backend: str) -> str:
    """Return torch's device whose memory a backend works on: "cuda:1" for "cuda:1", and the CPU for what has none.

    Of several the first is called by its number too: without one torch takes its current device.
    """
    name, _, index = backend.partition(":")
    device = DEVICES.get(name, "cpu")
    return device if device == "cpu" else f"{device}:{index or 0}"


@contextlib.contextmanager
def using(executor: Executor) -> Iterator[None]:
    """Run what follows in this thread on an executor.

    What autograd computes later runs on the default one of the tensors' device.
    """
    before = here.chosen, here.now
    here.chosen = here.now = executor
    try:
        yield
    finally:
        here.chosen, here.now = before


def check_executor(what: str, executor: Any) -> Executor:
    """Return an executor that can be used.

    Raises:
        TypeError: It is no Executor.
        RuntimeError: It was freed.
    """
    from hologram.executor import check_executor as check

    check(what, executor)
    found: hologram.Executor = executor
    return found
