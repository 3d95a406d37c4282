"""Which backends there are."""

from __future__ import annotations

from enum import Enum
from typing import Any

from hologram import _log
from hologram._arguments import INT32_MAX, integer
from hologram._ffi import BackendInfo, described, native
from hologram.errors import DTypeError, HologramError, InvalidArgumentError, InvalidBackendError

__all__ = [
    "BackendType",
    "backends",
    "get_default_backend",
    "is_cuda_available",
    "is_metal_available",
    "num_threads",
    "set_num_threads",
    "validate_backend",
]


class BackendType(str, Enum):
    """The kinds of backends that an executor is opened on; ``str()`` gives the value."""

    CPU = "cpu"
    METAL = "metal"
    CUDA = "cuda"
    AUTO = "auto"

    def __str__(self) -> str:
        """Return the value."""
        return self.value


def backends() -> list[dict[str, Any]]:
    """Describe every backend: name, available, reason (why not), device, devices, threads, host_visible, asynchronous.

    Of several devices the first is described; ``Executor("cuda:1").properties`` has another's.
    """
    found: list[dict[str, Any]] = []
    while True:
        try:
            info = described(BackendInfo, native.backend, len(found))
        except InvalidArgumentError:  # past the last
            return found
        found.append(
            {
                "name": info.name.decode(),
                "available": bool(info.available),
                "reason": info.reason.decode("utf-8", "replace"),
                "device": info.device.decode("utf-8", "replace"),
                "devices": int(info.num_devices),
                "threads": int(info.threads),
                "host_visible": bool(info.host_visible),
                "asynchronous": bool(info.asynchronous),
            }
        )


def _is_available(name: str) -> bool:
    try:
        return any(b["name"] == name and b["available"] for b in backends())
    except HologramError:
        return False


def is_metal_available() -> bool:
    """Whether an executor can be opened on Metal: an Apple GPU, and a build that has the backend."""
    return _is_available("metal")


def is_cuda_available() -> bool:
    """Whether an executor can be opened on CUDA: an NVIDIA GPU with its driver, and a build that has the backend."""
    return _is_available("cuda")


def get_default_backend() -> str:
    """Return what "auto" means here: the first of metal, cuda and cpu that is available."""
    if is_metal_available():
        return "metal"
    return "cuda" if is_cuda_available() else "cpu"


_said: set[str] = set()  # of which backends it was said why they are not taken


def say_why_not(taken: str) -> None:
    """Log once in a process, at level INFO, why "auto" has not taken a backend that it looks at before another."""
    for name in ("metal", "cuda"):
        if taken.partition(":")[0] == name:
            return
        if name not in _said:
            _said.add(name)
            _log.info("auto is %s: %s", taken, _why_not(name))


def _why_not(name: str) -> str:
    """Return why no executor can be opened on a backend."""
    try:
        native.executor_new(name.encode())
    except HologramError as error:
        return str(error)
    return f"backend {name} is available now, and was not"


def validate_backend(backend: object) -> str:
    """Return a backend's name in lower case, with "auto" resolved.

    Raises:
        ValueError: No backend has that name.
    """
    name = str(backend).lower()
    if name == "auto":
        return get_default_backend()
    names = [b["name"] for b in backends()]
    if name not in names:
        hint = '; GPUs are "cuda", NVIDIA\'s, and "metal", Apple\'s' if name == "gpu" else ""
        raise InvalidBackendError(f"Invalid backend {backend!r}: expected auto, {', '.join(names)}{hint}")
    return name


def set_num_threads(threads: int) -> None:
    """Choose how many threads work on a launch on the CPU, the caller's included.

    Without it they are as many as HOLOGRAM_NUM_THREADS says, or else as the CPUs that the process may use, its
    affinity and its container's quota taken into account.

    Raises:
        TypeError: It is no integer; a bool, which says whether and not how many, is none.
        ValueError: The number is not in 1 … 1024.
    """
    if isinstance(threads, bool):
        raise DTypeError(f"set_num_threads: threads is {threads}; expected an integer, a number of threads")
    number = integer("set_num_threads: threads", threads, -INT32_MAX, INT32_MAX)
    native.set_num_threads(number)


def num_threads() -> int:
    """Return how many threads work on a launch on the CPU."""
    return int(native.num_threads())
